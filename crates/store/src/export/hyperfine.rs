//! Exports a run in hyperfine's JSON format (as in versions 1.15 to 1.19), for the programs that read it.

use std::collections::BTreeMap;
use std::io::Write;

use model::analysis::finding::{CellFinding, MetricFinding, RunFinding};
use model::stats::statistics::median;
use model::values::record::RunRecord;
use model::values::workload::Better;
use serde::Serialize;

use super::ExportError;

/// Name of the parameter that identifies a simulated machine.
const SIMULATED: &str = "simulated";
/// Name of the parameter that marks a smoke test.
const SMOKE: &str = "smoke";

#[derive(Serialize)]
struct Export {
    results: Vec<HyperfineResult>,
}

#[derive(Serialize)]
struct HyperfineResult {
    command: String,
    mean: f64,
    /// Null for a single repetition, as in hyperfine.
    stddev: Option<f64>,
    median: f64,
    /// Null if the workload does not measure it; hyperfine always does.
    user: Option<f64>,
    system: Option<f64>,
    min: f64,
    max: f64,
    times: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_usage_byte: Option<Vec<u64>>,
    /// All zeros: trials that are not invalid exited successfully.
    exit_codes: Vec<i32>,
    parameters: BTreeMap<String, String>,
}

pub(super) fn write(record: &RunRecord, finding: &RunFinding, out: &mut dyn Write) -> Result<(), ExportError> {
    let mut results: Vec<HyperfineResult> = finding.cells.iter().filter_map(|cell| result(record, cell)).collect();
    if results.is_empty() {
        return Err(ExportError::NoTimes(record.id.clone()));
    }
    drop_constant_parameters(&mut results.iter_mut().map(|one| &mut one.parameters).collect::<Vec<_>>());
    serde_json::to_writer_pretty(&mut *out, &Export { results }).map_err(std::io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}

fn result(record: &RunRecord, cell: &CellFinding) -> Option<HyperfineResult> {
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

/// The metric `wall` if there is one, otherwise the first metric that is a time.
fn times(cell: &CellFinding) -> Option<Vec<f64>> {
    let wall = cell.metrics.iter().find(|metric| metric.name == "wall").and_then(seconds);
    wall.or_else(|| cell.metrics.iter().find_map(seconds))
}

/// The samples of a metric in seconds. `None` if it is not a time or has no samples.
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
    let placement = [
        ("placement", cell.placement.clone()),
        ("threads", cell.threads.to_string()),
        ("cpus", cell.cpus.clone()),
        ("memory", cell.memory.clone()),
    ];
    let simulated = record.simulated.iter().map(|simulated| (SIMULATED, simulated.clone()));
    let smoke = record.stamp().smoke.then(|| (SMOKE, "true".to_string()));
    let placement = placement.into_iter().chain(simulated).chain(smoke).map(|(name, value)| (name.to_string(), value));
    // The workload's parameters come last, so that they override these.
    placement.chain(cell.parameters.clone()).collect()
}

/// Drops parameters with one value: hyperfine's parameters are those that vary, and its plot script for one parameter
/// rejects a second. Keeps the stamps of the run.
fn drop_constant_parameters(all: &mut [&mut BTreeMap<String, String>]) {
    let Some(first) = all.first().map(|one| (*one).clone()) else { return };
    let is_stamp = |name: &str| name == SIMULATED || name == SMOKE;
    let is_constant =
        |(name, value): &(&String, &String)| !is_stamp(name) && all.iter().all(|one| one.get(*name) == Some(value));
    let constant: Vec<&String> = first.iter().filter(is_constant).map(|(name, _)| name).collect();
    for one in all {
        one.retain(|name, _| !constant.contains(&name));
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample standard deviation (n - 1), as in hyperfine.
fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_varying_parameters_are_exported() {
        let cell = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect()
        };
        let mut all = [
            cell(&[("n", "8"), ("cpus", "0"), (SIMULATED, "box:7")]),
            cell(&[("n", "9"), ("cpus", "0"), (SIMULATED, "box:7"), ("pin", "yes")]),
        ];
        drop_constant_parameters(&mut all.iter_mut().collect::<Vec<_>>());
        assert_eq!(all[0], cell(&[("n", "8"), (SIMULATED, "box:7")]));
        assert_eq!(all[1], cell(&[("n", "9"), (SIMULATED, "box:7"), ("pin", "yes")]));
    }
}
