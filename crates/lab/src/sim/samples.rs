//! Samples of a simulated trial: the value of each series from the speed of the trial.

use model::values::plan::stream;
use model::values::topology::Topology;
use model::values::trial::{Sample, Trial};
use model::values::workload::{Better, MetricSpec, Value, WorkloadSpec};

use super::performance::{self, MUTEX_LATENCY, THREADS_LATENCY};
use super::speed;
use super::storage::Requests;

/// Returns a sample of each series. `seed` is that of the machine, `slowdown` the noise of the trial.
pub(super) fn of(topology: &Topology, trial: &Trial, spec: &WorkloadSpec, (seed, slowdown): (u64, f64)) -> Vec<Sample> {
    let speed = speed::speed(topology, trial, seed) / slowdown;
    each(spec, |metric| {
        let usual = match performance::of(trial) {
            Some(performance) => {
                measured(trial, spec, metric, &Measured { speed, one: speed::rate_of_one(topology, performance) })
            }
            None => at_speed(metric, base(&metric.unit) * series_factor(&metric.series), speed),
        };
        speed::load(trial, &metric.series).map_or(usual, |load| load / slowdown)
    })
}

/// Returns the samples of requests to disks, which were slower by `slowdown`.
pub(super) fn of_requests(spec: &WorkloadSpec, requests: &Requests, slowdown: f64) -> Vec<Sample> {
    let iops = requests.total() / slowdown;
    let bytes_per_s = iops * requests.bytes;
    each(spec, |metric| match (metric.series.as_str(), metric.unit.as_str()) {
        ("write-iops", _) => 0.0,
        ("cpu-per-io", _) => requests.cpu_us,
        (series, "IO/s") => series
            .strip_prefix("iops-file")
            .and_then(|number| requests.iops.get(number.parse::<usize>().ok()?.checked_sub(1)?))
            .map_or(iops, |of_file| of_file / slowdown),
        (_, "MB/s") => bytes_per_s / 1e6,
        (_, "MiB/s") => bytes_per_s / f64::from(1 << 20),
        ("latency-submit", _) => requests.cpu_us / 2.0,
        ("latency-p99", _) => requests.latency_us * slowdown * TAIL[0],
        ("latency-p99.9", _) => requests.latency_us * slowdown * TAIL[1],
        ("latency-p99.99", _) => requests.latency_us * slowdown * TAIL[2],
        _ => requests.latency_us * slowdown,
    })
}

/// Percentiles of latency relative to its mean; typical of a SATA disk behind USB.
const TAIL: [f64; 3] = [1.5, 2.5, 6.0];

fn each(spec: &WorkloadSpec, mut value: impl FnMut(&MetricSpec) -> f64) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    for metric in &spec.metrics {
        if samples.iter().all(|sample| sample.series != metric.series) {
            samples.push(Sample { series: metric.series.clone(), value: value(metric) });
        }
    }
    samples
}

/// A speed relative to one thread on the fastest core, and the main metric of that thread.
struct Measured {
    speed: f64,
    one: f64,
}

/// Value of a series of a workload with known figures.
fn measured(trial: &Trial, spec: &WorkloadSpec, metric: &MetricSpec, found: &Measured) -> f64 {
    let main = spec.metrics.first().map_or(0.0, |main| at_speed(main, found.one, found.speed));
    let is_main = spec.metrics.first().is_some_and(|main| main.series == metric.series);
    let series = metric.series.as_str();
    match (trial.workload.as_str(), series) {
        _ if is_main => main,
        (_, series) if series.ends_with("-per-thread") => main / trial.placement.threads.max(1) as f64,
        ("threads", series) if series.starts_with("latency") => latency(trial, series, main, THREADS_LATENCY),
        ("mutex", series) if series.starts_with("latency") => latency(trial, series, main, MUTEX_LATENCY),
        // Bytes before and after compression, and the error of a solution, do not depend on the placement.
        (_, "ratio" | "residual") => series_factor(series),
        ("stream", _) => main * series_factor(series),
        _ => at_speed(metric, base(&metric.unit) * series_factor(series), found.speed),
    }
}

/// Latency of sysbench's events in ms: all workers are always in one.
fn latency(trial: &Trial, series: &str, events_per_s: f64, [least, most_95, most]: [f64; 3]) -> f64 {
    let workers = match trial.parameters.0.get("workers") {
        Some(Value::Integer(workers)) if *workers > 0 => *workers as f64,
        _ => trial.placement.threads as f64,
    };
    let of_average = match series {
        "latency-min" => least,
        "latency-p95" => most_95,
        "latency-max" => most,
        _ => 1.0,
    };
    1e3 * workers / events_per_s * of_average
}

fn at_speed(metric: &MetricSpec, value: f64, speed: f64) -> f64 {
    if metric.better == Better::Higher { value * speed } else { value / speed }
}

/// A plausible base value for a unit; only ratios are meaningful.
fn base(unit: &str) -> f64 {
    match unit {
        "MB/s" | "MiB/s" => 20_000.0,
        "ns" => 100.0,
        "us" => 80.0,
        "ms" => 1.0,
        "s" => 5.0,
        "MiB" => 64.0,
        _ => 10_000.0,
    }
}

/// Fixed factor of a series, between 0.8 and 1.2, so that the series of a trial differ.
fn series_factor(series: &str) -> f64 {
    0.8 + 0.4 * (stream(0, series) as f64 / u64::MAX as f64)
}
