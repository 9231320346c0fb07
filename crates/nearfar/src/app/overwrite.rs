//! `--allow-overwrite PATH`, the only way to let a measurement write to an existing file or disk. The workload checks
//! the path again and rejects it if it is mounted or otherwise in use.

use model::experiments::experiment::Experiment;

use crate::error::CliError;

/// Name of the parameter in workloads that write to files and disks.
const PARAMETER: &str = "allow-overwrite";

/// Adds the path to the parameters of one workload.
pub fn allow_single(workload: &str, set: &mut Vec<(String, String)>, path: Option<&str>) -> Result<(), CliError> {
    let Some(path) = path else { return Ok(()) };
    if !writes(workload) {
        return Err(not_applicable(path, &format!("workload {workload}")));
    }
    if let Some((_, other)) = set.iter().find(|(name, other)| name == PARAMETER && other != path) {
        return Err(CliError::usage(format!(
            "--allow-overwrite {path} and --set {PARAMETER}={other} are different paths"
        )));
    }
    set.retain(|(name, _)| name != PARAMETER);
    set.push((PARAMETER.into(), path.into()));
    Ok(())
}

/// Adds the path to the parameters of every such workload of an experiment. The experiment must not set the parameter
/// itself, because its file may be from an untrusted source.
pub fn allow(experiment: &mut Experiment, path: Option<&str>) -> Result<(), CliError> {
    let sets_it = |set: &[(String, Vec<String>)]| set.iter().any(|(name, _)| name == PARAMETER);
    if experiment.tasks.iter().any(|task| sets_it(&task.set)) {
        return Err(CliError::usage(format!("experiment {}: the file must not set {PARAMETER}", experiment.name))
            .hint("remove the parameter and use --allow-overwrite PATH"));
    }
    let Some(path) = path else { return Ok(()) };
    let mut writers = experiment.tasks.iter_mut().filter(|task| writes(&task.workload)).peekable();
    if writers.peek().is_none() {
        return Err(not_applicable(path, &format!("experiment {}", experiment.name)));
    }
    writers.for_each(|task| task.set.push((PARAMETER.into(), vec![path.into()])));
    Ok(())
}

fn writes(workload: &str) -> bool {
    workloads::find(workload).is_some_and(|workload| (workload.describe)().parameter(PARAMETER).is_some())
}

fn not_applicable(path: &str, object: &str) -> CliError {
    CliError::usage(format!("--allow-overwrite {path}: {object} does not write to files"))
        .hint("use it with workload io")
}
