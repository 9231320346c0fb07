//! Translates a parameter's text into a command line: lists of words, an optional shell, and placeholders.

use std::collections::BTreeMap;

use model::placements::placement::PlacementVars;
use model::values::id_set::CpuSet;
use model::values::workload::Parameters;

use crate::command_spec::CommandLine;
use crate::job::{Failure, TrialContext};

/// Returns the words of a command, or `None` if the parameter is empty. A text that is not a JSON list is a line for
/// `sh -c` if `shell` is set, and an error otherwise.
pub(super) fn words(parameters: &Parameters, name: &str) -> Result<Option<Vec<String>>, String> {
    let text = parameters.text(name);
    if text.trim().is_empty() {
        return Ok(None);
    }
    let words = match serde_json::from_str::<Vec<String>>(text) {
        Ok(words) => words,
        Err(_) if parameters.switch("shell") => vec!["sh".into(), "-c".into(), text.into()],
        Err(error) => {
            let hint = "write it like [\"./app\", \"--fast\"], or give shell=true";
            return Err(format!("{name} is not a JSON list of words: {error}; {hint}"));
        }
    };
    if words.first().is_none_or(String::is_empty) {
        return Err(format!("{name} names no program; write it like [\"./app\", \"--fast\"]"));
    }
    Ok(Some(words))
}

/// Returns the command line of a parameter with its placeholders replaced. `{cpus}` expands to the given CPUs.
pub(super) fn command_line(job: &TrialContext, name: &str, cpus: &CpuSet) -> Result<Option<CommandLine>, Failure> {
    let Some(words) = words(&job.parameters, name).map_err(Failure::Failed)? else { return Ok(None) };
    let (allowed_cpus, allowed_nodes) = (allowed("Cpus_allowed_list:")?, allowed("Mems_allowed_list:")?);
    let variables = PlacementVars::new(job.threads, cpus, &job.memory, allowed_cpus, allowed_nodes);
    let argv = words.iter().map(|word| variables.substitute(word)).collect();
    Ok(Some(CommandLine { argv, environment: BTreeMap::new() }))
}

/// Returns the CPUs that this process may use, which an unbound child inherits.
fn allowed(field: &str) -> Result<String, Failure> {
    let path = "/proc/self/status";
    let status = std::fs::read_to_string(path).map_err(|error| Failure::Failed(format!("{path}: {error}")))?;
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    value.map(|list| list.trim().to_owned()).ok_or_else(|| Failure::Failed(format!("{path} has no {field}")))
}
