//! `--allow-overwrite PATH`: the one way in which a measurement may write to what was there before. What it allows is
//! looked at again by the workload, which refuses what is mounted or otherwise in use all the same.

use model::experiments::experiment::Experiment;

use crate::error::CliError;

/// What workloads that write to files and disks call it.
const PARAMETER: &str = "allow-overwrite";

/// Adds the path to the parameters of one workload.
pub fn allow_single(workload: &str, set: &mut Vec<(String, String)>, path: Option<&str>) -> Result<(), CliError> {
    let Some(path) = path else { return Ok(()) };
    if !writes(workload) {
        return Err(nothing_to_allow(path, &format!("workload {workload}")));
    }
    if let Some((_, other)) = set.iter().find(|(name, other)| name == PARAMETER && other != path) {
        return Err(CliError::usage(format!("--allow-overwrite {path} and --set {PARAMETER}={other} are two paths")));
    }
    set.retain(|(name, _)| name != PARAMETER);
    set.push((PARAMETER.into(), path.into()));
    Ok(())
}

/// Adds it to every such workload of an experiment. A file that was found somewhere must not be able to allow it itself.
pub fn allow(experiment: &mut Experiment, path: Option<&str>) -> Result<(), CliError> {
    let asks = |set: &[(String, Vec<String>)]| set.iter().any(|(name, _)| name == PARAMETER);
    if experiment.tasks.iter().any(|task| asks(&task.set)) {
        return Err(CliError::usage(format!("experiment {} sets {PARAMETER} itself", experiment.name))
            .hint("take it out; who runs the experiment says --allow-overwrite PATH"));
    }
    let Some(path) = path else { return Ok(()) };
    let mut writers = experiment.tasks.iter_mut().filter(|task| writes(&task.workload)).peekable();
    if writers.peek().is_none() {
        return Err(nothing_to_allow(path, &format!("experiment {}", experiment.name)));
    }
    writers.for_each(|task| task.set.push((PARAMETER.into(), vec![path.into()])));
    Ok(())
}

fn writes(workload: &str) -> bool {
    workloads::find(workload).is_some_and(|found| (found.describe)().parameter(PARAMETER).is_some())
}

fn nothing_to_allow(path: &str, what: &str) -> CliError {
    CliError::usage(format!("--allow-overwrite {path}: {what} has nothing that writes to files"))
        .hint("it is for workload io")
}
