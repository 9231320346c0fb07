//! The commands that apply a placement, as they would be typed.

use crate::placements::placement::{CommandLines, PlacementVars, lines_with_files};
use crate::values::placement::Placement;
use crate::values::record::RunRecord;
use crate::values::shell::quote_argv;
use crate::values::topology::Topology;
use crate::values::workload::Value;

/// Returns the commands that apply a placement to the command in this parameter; `None` if nothing is bound. Variables
/// are substituted for the measured placement. `copied` are files that a placement with `text:copy` copies, too.
pub(super) fn own_lines(
    record: &RunRecord,
    placement: &Placement,
    measured: &Placement,
    parameter: &str,
    copied: &[String],
) -> Option<CommandLines> {
    let words = variables(record, placement, measured.threads);
    let command = typed(record, parameter, &words);
    let commands = lines_with_files(placement, &record.machine.topology, &command, copied);
    (commands != CommandLines::default()).then_some(commands)
}

/// Returns the commands for the second command: its own CPUs, the same memory policy.
pub(super) fn second_lines(record: &RunRecord, placement: &Placement, copied: &[String]) -> Option<CommandLines> {
    let has_second = record.plan.cells.iter().any(|cell| !cell.placement.server_cpus.is_empty());
    has_second.then(|| own_lines(record, &placement.of_server(), placement, "server", copied)).flatten()
}

/// Returns the measured command as it would be typed, with the variables of a placement.
pub(super) fn command(record: &RunRecord, placement: &Placement) -> String {
    typed(record, "argv", &variables(record, placement, placement.threads))
}

fn variables(record: &RunRecord, placement: &Placement, threads: usize) -> PlacementVars {
    let Topology { allowed_cpus, allowed_nodes, .. } = &record.machine.topology;
    let (all_cpus, all_nodes) = (allowed_cpus.to_string(), allowed_nodes.to_string());
    PlacementVars::new(threads, &placement.cpus(), &placement.memory, all_cpus, all_nodes)
}

/// Returns a command as it would be typed, with variables substituted.
fn typed(record: &RunRecord, parameter: &str, words: &PlacementVars) -> String {
    let cells = record.plan.cells.first();
    let Some(Value::Text(text)) = cells.and_then(|cell| cell.parameters.0.get(parameter)) else { return String::new() };
    match serde_json::from_str::<Vec<String>>(text) {
        Ok(list) => quote_argv(&list.iter().map(|word| words.substitute(word)).collect::<Vec<_>>()),
        // With a shell, the command is one text instead of a list.
        Err(_) => format!("sh -c {}", quote_argv(&[words.substitute(text)])),
    }
}
