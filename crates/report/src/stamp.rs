//! The words of stamps: the first lines of every output of simulated runs and smoke tests.

use model::values::record::{RunRecord, RunSummary};
use model::values::stamp::Stamp;

use crate::style::{TextStyle, Tone, clean, finished, with_symbol, wrapped};

const SIMULATED: &str = "a model generated these values, no machine was measured";
const SMOKE: &str = "SMOKE TEST: the sizes are too small for results, so no difference is claimed";

/// The stamps of a run; empty for the measurement of a machine.
pub(crate) fn of_run(record: &RunRecord) -> Vec<String> {
    let simulated = record.simulated.as_ref().map(|machine| clean(&format!("SIMULATED on {machine}: {SIMULATED}")));
    simulated.into_iter().chain(smoke(record.stamp())).collect()
}

/// The stamp of a prediction for another machine from a run.
pub(crate) fn predicted(machine: &str, record: &RunRecord) -> String {
    let model = || record.machine.settings.get("cpu.model").map(str::to_string);
    let measured = record.simulated.clone().or_else(|| record.host.clone()).or_else(model);
    let (run, measured) = (&record.id, measured.unwrap_or_else(|| record.machine.topology.summary()));
    clean(&format!("PREDICTED for {machine} from run {run} on {measured}: nothing was measured on {machine}"))
}

/// The stamps of a table with the results of several runs.
pub(crate) fn of(stamp: Stamp) -> Vec<String> {
    let simulated = stamp.simulated.then(|| format!("SIMULATED: {SIMULATED}"));
    simulated.into_iter().chain(smoke(stamp)).collect()
}

fn smoke(stamp: Stamp) -> Option<String> {
    stamp.smoke.then(|| SMOKE.into())
}

/// The stamps as a word before a title: `Simulated, smoke test: `. Empty without a stamp.
pub(crate) fn prefix(stamp: Stamp) -> &'static str {
    match stamp {
        Stamp { simulated: true, smoke: true } => "Simulated, smoke test: ",
        Stamp { simulated: true, smoke: false } => "Simulated: ",
        Stamp { simulated: false, smoke: true } => "Smoke test: ",
        Stamp { simulated: false, smoke: false } => "",
    }
}

/// The machine of a run in lists: `simulated rk3399.xml:7`, `Ryzen 5 2600 (smoke test)`.
pub fn machine(run: &RunSummary) -> String {
    let simulated = run.simulated.as_ref().map(|simulated| format!("simulated {simulated}"));
    let machine = simulated.or_else(|| run.host.clone()).unwrap_or("unknown".into());
    if run.smoke { format!("{machine} (smoke test)") } else { machine }
}

/// Stamps for the terminal, one per line.
pub(crate) fn terminal(stamps: &[String], style: &TextStyle) -> String {
    let lines = stamps.iter().map(|stamp| with_symbol(stamp, Tone::Warning));
    let lines = lines.flat_map(|line| wrapped(&line, style.width, style.width));
    lines.map(|line| format!("{}\n", finished(&line, style))).collect()
}

/// Stamps as bold Markdown paragraphs.
pub(crate) fn markdown(stamps: &[String]) -> String {
    stamps.iter().map(|stamp| format!("**{}**\n\n", crate::grid::markdown_text(stamp))).collect()
}
