//! Runs an installed, unmodified fio on the same cell as workload `io` and parses its JSON output.
//!
//! Measures: requests and bytes per second and the latency of a request, as computed by fio, with one job that has as
//! many threads (`numjobs`) as the placement. All threads together may use the placement's CPUs; none is pinned. The
//! parameters and metrics are those of workload `io`, which measures the same without fio; this tool is for checking
//! `io` and for results comparable with published ones. Does NOT verify data unless `verify` is set. With a `rate`, it
//! counts latency from the actual start of a request, not from its scheduled start. Reads and CPU times of the
//! verification are not counted.
//! Source: fio 3 (axboe/fio), an external program under the GPL. This file contains none of its code. Options: fio(1),
//! section "Parameters". Output: fio's own JSON.

mod args;

use std::path::Path;
use std::process::{Command, Stdio};

use model::import::reports::fio::{self as report, Figures, Output};
use model::values::units::Nanos;
use model::values::workload::{MetricSpec, Parameters, WorkloadSpec};

use super::{installed, process};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::kernels::io;
use crate::scratch::{Scratch, io_failure};
use args::{FioRun, words};

/// First version that reports the percentiles of submission, completion and total latency separately, and for mixed
/// requests also those of all requests together.
const OLDEST: (u32, u32) = (3, 27);

/// fio rounds the run time to whole milliseconds when it computes rates. Below this run time the error exceeds five
/// percent.
const MILLISECONDS_MIN: f64 = 20.0;

/// The requested percentiles, as named in fio's JSON, and the corresponding metrics.
const PERCENTILES: [(&str, &str); 4] = [
    ("50.000000", "latency"),
    ("99.000000", "latency-p99"),
    ("99.900000", "latency-p99.9"),
    ("99.990000", "latency-p99.99"),
];
const MEDIAN: &str = PERCENTILES[0].0;

pub(crate) fn describe() -> WorkloadSpec {
    let same = io::describe();
    let of_one_file = |metric: &MetricSpec| !io::FILE_SERIES.contains(&metric.series.as_str());
    WorkloadSpec {
        name: "fio".into(),
        summary: "an installed fio, on the same cells as io".into(),
        about: "Runs fio with as many threads (numjobs) as the placement has, and parses its JSON. It is an external \
                program: Debian's package fio. Parameters and metrics are those of workload io. With a rate, latency is \
                counted from the actual start of a request. See docs/guides/fio.md."
            .into(),
        trial_time_guess: Nanos(6_000_000_000),
        metrics: same.metrics.into_iter().filter(of_one_file).collect(),
        parameters: same.parameters,
        threads_exactly: same.threads_exactly,
    }
}

pub(crate) fn missing(_: &Parameters) -> Option<String> {
    installed::missing("fio", "fio")
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    installed::require("fio", "fio")?;
    let scratch = Scratch::new(&std::env::temp_dir())?;
    let version = Command::new("fio").arg("--version").output();
    let version = version.map_err(|error| io_failure("run", "fio".as_ref(), &error))?;
    check_version(&String::from_utf8_lossy(&version.stdout))?;
    let file = io::ExternalFile::open(job)?;
    if file.is_created() && job.parameters.switch("verify") && !io::has_writes(&job.parameters) {
        // Reads must find the data that fio has written, or there would be nothing to verify.
        fio(job, &file, FioRun::Write, &scratch)?;
    }
    let output = fio(job, &file, FioRun::Measure, &scratch)?;
    file.unchanged()?;
    let mut measured = KernelOutput::default();
    report(job, &output, &mut measured)?;
    Ok(measured)
}

fn check_version(version_text: &str) -> Result<(), Failure> {
    let numbers = version_text.trim().strip_prefix("fio-").and_then(|rest| rest.split_once('.'));
    let minor =
        |text: &str| text.split(|letter: char| !letter.is_ascii_digit()).next().and_then(|text| text.parse().ok());
    let version = numbers.and_then(|(major, rest)| Some((major.parse::<u32>().ok()?, minor(rest)?)));
    match version {
        Some(version) if version.0 == OLDEST.0 && version >= OLDEST => Ok(()),
        _ => Err(Failure::Unavailable(format!(
            "unsupported fio version '{}'; supported are {}.{} and later versions of fio {}",
            version_text.trim(),
            OLDEST.0,
            OLDEST.1,
            OLDEST.0
        ))),
    }
}

/// Runs fio once, to completion.
fn fio(job: &TrialContext, file: &io::ExternalFile, pass: FioRun, scratch: &Scratch) -> Result<Output, Failure> {
    let path = scratch.path("output.json");
    let mut command = Command::new("fio");
    // fio leaves files in its working directory.
    command.args(words(job, &file.path(), file.bytes(), pass, &path)).current_dir(scratch.dir()).stdout(Stdio::null());
    process::run(command, "fio", scratch).map_err(unavailable)?;
    read(&path)
}

fn read(path: &Path) -> Result<Output, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| io_failure("read", path, &error))?;
    report::parse(&text).map_err(|error| {
        let line = error.line.map_or(String::new(), |line| format!("line {line}: "));
        unavailable(Failure::Failed(format!("invalid output of fio: {line}{}", error.what)))
    })
}

/// Requests that this kernel or file system does not support are not errors.
fn unavailable(failure: Failure) -> Failure {
    /// fio's message and a hint.
    const REFUSALS: [(&str, &str); 6] = [
        ("does not support direct=1", "direct=false, or a file on a disk"),
        ("not loadable", "another engine, or a fio that was built with it"),
        ("Function not implemented", "another engine"),
        ("Operation not supported", "without iopoll, or another engine"),
        ("No space left on device", "a smaller size, or TMPDIR on another disk"),
        ("Cannot allocate memory", "registered=false, or a larger limit of locked memory (ulimit -l)"),
    ];
    let Failure::Failed(why) = &failure else { return failure };
    match REFUSALS.iter().find(|(message, _)| why.contains(message)) {
        Some((_, hint)) => Failure::Unavailable(format!("{why}; hint: {hint}")),
        None => failure,
    }
}

fn report(job: &TrialContext, output: &Output, measured: &mut KernelOutput) -> Result<(), Failure> {
    let wrong = |why: String| Failure::Failed(format!("invalid output of fio: {why}"));
    let [ran] = output.jobs.as_slice() else {
        return Err(wrong(format!("{} jobs instead of one", output.jobs.len())));
    };
    let mixed = io::mixes(&job.parameters);
    let (asked, other) = match (mixed, io::has_writes(&job.parameters)) {
        (true, _) => ("mixed", None),
        (false, true) => ("write", None),
        (false, false) => ("read", Some("write")),
    };
    if other.is_some_and(|other| ran.direction(other).is_some()) {
        return Err(wrong("writes although only reads were requested".into()));
    }
    let figures = ran.direction(asked).ok_or_else(|| wrong(format!("no requests of kind {asked}")))?;
    if figures.milliseconds < MILLISECONDS_MIN {
        let ms = figures.milliseconds;
        return Err(wrong(format!(
            "run time of {ms} ms, too short for a rate in whole milliseconds; hint: a larger amount, or runtime"
        )));
    }
    let block = job.parameters.size("bs") as f64;
    let each = figures.bytes_per_second / figures.rate;
    // Both values are rounded: fio computes the rate from a time in whole milliseconds.
    if (each / block - 1.0).abs() > 0.01 {
        return Err(wrong(format!("requests of {each:.0} bytes instead of {block}")));
    }
    measured.push("iops", figures.rate)?;
    measured.push("throughput", figures.bytes_per_second / 1e6)?;
    measured.push("bandwidth", figures.bytes_per_second / f64::from(1 << 20))?;
    latencies(figures, measured)?;
    if mixed {
        for (direction, series) in [("read", "read-iops"), ("write", "write-iops")] {
            ran.direction(direction).map_or(Ok(()), |figures| measured.push(series, figures.rate))?;
        }
    }
    // Short runs may use less CPU time than the resolution of the kernel's accounting.
    if !reads_back(&job.parameters) && ran.cpu_us > 0.0 {
        measured.push("cpu-per-io", ran.cpu_us / figures.count)?;
    }
    Ok(())
}

fn latencies(figures: &Figures, measured: &mut KernelOutput) -> Result<(), Failure> {
    let Some(total) = &figures.total else { return Ok(()) };
    measured.push("latency-mean", total.mean_us)?;
    for (percentile, series) in PERCENTILES {
        let us = total.percentile(percentile);
        let us = us.ok_or_else(|| Failure::Failed(format!("invalid output of fio: no percentile {percentile}")))?;
        measured.push(series, us)?;
    }
    // Engines that submit and wait in one call do not have two separate times.
    if let (Some(submission), Some(completion)) = (&figures.submission, &figures.completion) {
        for (latency, series) in [(submission, "latency-submit"), (completion, "latency-completion")] {
            latency.percentile(MEDIAN).map_or(Ok(()), |us| measured.push(series, us))?;
        }
    }
    Ok(())
}

/// Returns whether fio reads back the data that it has written, which its CPU times include.
fn reads_back(parameters: &Parameters) -> bool {
    parameters.switch("verify") && io::has_writes(parameters)
}

#[cfg(test)]
mod tests;
