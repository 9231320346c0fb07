//! hyperfine's JSON (the shape of its 1.15 to 1.19), for the many programs that read it.

use std::collections::BTreeMap;
use std::io::Write;

use model::analysis::finding::{CellFinding, MetricFinding, summarise};
use model::stats::statistics::median;
use model::values::record::{RunRecord, TrialRecord};
use model::values::workload::Better;
use serde::Serialize;

use super::ExportError;

/// The parameter that says on what the run was simulated.
const SIMULATED: &str = "simulated";

#[derive(Serialize)]
struct Export {
    results: Vec<HyperfineResult>,
}

#[derive(Serialize)]
struct HyperfineResult {
    command: String,
    mean: f64,
    /// hyperfine too writes null for a single run.
    stddev: Option<f64>,
    median: f64,
    /// Null where the workload does not measure it; hyperfine always does.
    user: Option<f64>,
    system: Option<f64>,
    min: f64,
    max: f64,
    times: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_usage_byte: Option<Vec<u64>>,
    /// Trials that are not invalid ended well: all zeros.
    exit_codes: Vec<i32>,
    parameters: BTreeMap<String, String>,
}

pub(super) fn write(record: &RunRecord, trials: &[TrialRecord], out: &mut dyn Write) -> Result<(), ExportError> {
    let finding = summarise(&record.plan, trials);
    let mut results: Vec<HyperfineResult> = finding.cells.iter().filter_map(|cell| entry(record, cell)).collect();
    if results.is_empty() {
        return Err(ExportError::NoTimes(record.id.clone()));
    }
    keep_what_differs(&mut results.iter_mut().map(|one| &mut one.parameters).collect::<Vec<_>>());
    serde_json::to_writer_pretty(&mut *out, &Export { results }).map_err(std::io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}

fn entry(record: &RunRecord, cell: &CellFinding) -> Option<HyperfineResult> {
    let times = times(cell)?;
    let mean_of =
        |name| cell.metrics.iter().find(|metric| metric.name == name).and_then(seconds).and_then(|t| mean(&t));
    Some(HyperfineResult {
        command: format!("{} @ {}", cell.test, cell.placement),
        mean: mean(&times)?,
        stddev: deviation(&times),
        median: median(&times)?,
        user: mean_of("user"),
        system: mean_of("system"),
        min: times.iter().copied().reduce(f64::min)?,
        max: times.iter().copied().reduce(f64::max)?,
        memory_usage_byte: cell.metrics.iter().find(|metric| metric.name == "peak-memory").and_then(bytes),
        exit_codes: vec![0; times.len()],
        parameters: parameters(record, cell),
        times,
    })
}

/// The time from start to end where there is one, else the first metric that is a time.
fn times(cell: &CellFinding) -> Option<Vec<f64>> {
    let wall = cell.metrics.iter().find(|metric| metric.name == "wall").and_then(seconds);
    wall.or_else(|| cell.metrics.iter().find_map(seconds))
}

/// A metric's trials in seconds; none when it is not a time or there are no trials.
fn seconds(metric: &MetricFinding) -> Option<Vec<f64>> {
    let factor = match metric.unit.as_str() {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    };
    let is_time = metric.better == Better::Lower && !metric.samples.is_empty();
    is_time.then(|| metric.samples.iter().map(|value| value * factor).collect())
}

fn bytes(metric: &MetricFinding) -> Option<Vec<u64>> {
    let factor = match metric.unit.as_str() {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    (!metric.samples.is_empty()).then(|| metric.samples.iter().map(|value| (value * factor).round() as u64).collect())
}

fn parameters(record: &RunRecord, cell: &CellFinding) -> BTreeMap<String, String> {
    let placed = [
        ("placement", cell.placement.clone()),
        ("threads", cell.threads.to_string()),
        ("cpus", cell.cpus.clone()),
        ("memory", cell.memory.clone()),
    ];
    let simulated = record.simulated.iter().map(|simulated| (SIMULATED, simulated.clone()));
    let placed = placed.into_iter().chain(simulated).map(|(name, value)| (name.to_string(), value));
    // The workload's own come last: one of the same name is what the user set.
    placed.chain(cell.parameters.clone()).collect()
}

/// Parameters are to hyperfine what a run goes over: its script for one parameter refuses a second. That it was simulated is kept,
/// or nobody would know.
fn keep_what_differs(all: &mut [&mut BTreeMap<String, String>]) {
    let Some(first) = all.first().map(|one| (*one).clone()) else { return };
    let alike =
        |(name, value): &(&String, &String)| *name != SIMULATED && all.iter().all(|one| one.get(*name) == Some(value));
    let alike: Vec<&String> = first.iter().filter(alike).map(|(name, _)| name).collect();
    for one in all {
        one.retain(|name, _| !alike.contains(&name));
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Of the sample, with n - 1, as hyperfine computes it.
fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_that_differ() {
        let cell = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect()
        };
        let mut all = [
            cell(&[("n", "8"), ("cpus", "0"), (SIMULATED, "box:7")]),
            cell(&[("n", "9"), ("cpus", "0"), (SIMULATED, "box:7"), ("pin", "yes")]),
        ];
        keep_what_differs(&mut all.iter_mut().collect::<Vec<_>>());
        assert_eq!(all[0], cell(&[("n", "8"), (SIMULATED, "box:7")]));
        assert_eq!(all[1], cell(&[("n", "9"), (SIMULATED, "box:7"), ("pin", "yes")]));
    }
}
