//! Runs an installed, unmodified HPC Challenge (`hpcc`): its HPL, DGEMM, STREAM and `RandomAccess`. Parses its summary.
//!
//! Measures: the values that hpcc prints, with one MPI process for each thread of the placement. `single` is one
//! process alone, `star` the mean of all processes running concurrently, `mpi` all processes together. The kernels
//! `hpl`, `gemm`, `stream` and `gups` measure the same individually; this tool is for checking them and for results
//! comparable with published ones. Does NOT pin its processes: together they may use the placement's CPUs.

use std::collections::BTreeMap;

use machine::child::{Exit, ProcessResult};
use model::values::trial::Sample;
use model::values::units::Nanos;
use model::values::workload::{Better, MetricSpec, Parameters, WorkloadSpec};

use super::{installed, linpack};
use crate::command_spec::CommandSpec;
use crate::describe::{Metric, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};

/// Key in the summary, name of the series, its unit, and the factor from hpcc's unit to this unit.
const NUMBERS: [(&str, &str, &str, f64); 17] = [
    ("HPL_Tflops", "hpl", "GFLOPS", 1e3),
    ("SingleDGEMM_Gflops", "dgemm-single", "GFLOPS", 1.0),
    ("StarDGEMM_Gflops", "dgemm-star", "GFLOPS", 1.0),
    ("SingleSTREAM_Triad", "triad-single", "MB/s", 1e3),
    ("SingleSTREAM_Copy", "copy-single", "MB/s", 1e3),
    ("SingleSTREAM_Scale", "scale-single", "MB/s", 1e3),
    ("SingleSTREAM_Add", "add-single", "MB/s", 1e3),
    ("StarSTREAM_Triad", "triad-star", "MB/s", 1e3),
    ("StarSTREAM_Copy", "copy-star", "MB/s", 1e3),
    ("StarSTREAM_Scale", "scale-star", "MB/s", 1e3),
    ("StarSTREAM_Add", "add-star", "MB/s", 1e3),
    ("SingleRandomAccess_GUPs", "gups-single", "GUPS", 1.0),
    ("StarRandomAccess_GUPs", "gups-star", "GUPS", 1.0),
    ("MPIRandomAccess_GUPs", "gups-mpi", "GUPS", 1.0),
    ("PTRANS_GBs", "ptrans", "GB/s", 1.0),
    ("SingleFFT_Gflops", "fft-single", "GFLOPS", 1.0),
    ("StarFFT_Gflops", "fft-star", "GFLOPS", 1.0),
];

/// The supported version of the summary.
const VERSION: (&str, &str) = ("1", "5");

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "hpcc".into(),
        summary: "HPL, DGEMM, STREAM and RandomAccess of an installed HPC Challenge".into(),
        about: "Runs hpcc in a scratch directory with one MPI process for each thread of the placement and parses its \
                summary: hpl; dgemm, triad and gups of one process (single), the mean of all processes running \
                concurrently (star), and of all together (mpi). The system selects the BLAS (update-alternatives). It \
                is an external program: Debian's package hpcc."
            .into(),
        parameters: parameters(linpack::size_and_block(
            "equations of its HPL; sets the memory of the other tests, too: n^2 / 3 words for STREAM's arrays",
        )),
        metrics: all_metrics(),
        threads_exactly: None,
        trial_time_guess: Nanos(20_000_000_000),
    }
}

fn all_metrics() -> Vec<MetricSpec> {
    let metric = |name, unit| Metric::median(name, unit, Better::Higher);
    NUMBERS.iter().flat_map(|(_, name, unit, _)| metrics([metric(name, unit)])).collect()
}

pub(crate) fn missing(_: &Parameters) -> Option<String> {
    installed::missing("hpcc", "hpcc")
}

pub(crate) fn recipe(job: &TrialContext) -> Result<CommandSpec, Failure> {
    installed::require("hpcc", "hpcc")?;
    linpack::recipe(job, "hpcc", "hpccinf.txt", "hpccoutf.txt")
}

pub(crate) fn read(job: &TrialContext, finished: &ProcessResult) -> Result<Vec<Sample>, Failure> {
    if finished.exit != Exit::Code(0) {
        return Err(Failure::Failed(format!("it ended with {}", finished.stderr_tail())));
    }
    samples(job.threads, &String::from_utf8_lossy(&finished.stdout))
}

fn samples(processes: usize, output: &str) -> Result<Vec<Sample>, Failure> {
    failed_tests(output)?;
    let summary = summary(output)?;
    let text = |name: &str| summary.get(name).ok_or_else(|| Failure::Failed(format!("its summary has no {name}")));
    let (line, major) = text("VersionMajor")?;
    let (_, minor) = text("VersionMinor")?;
    if (*major, *minor) != VERSION {
        return Err(Failure::Failed(format!(
            "its output line {line}: version {major}.{minor} is not supported, only 1.5"
        )));
    }
    let (line, success) = text("Success")?;
    if *success != "1" {
        return Err(Failure::Failed(format!("its output line {line}: Success={success}: one of its tests failed")));
    }
    let (line, count) = text("CommWorldProcs")?;
    if *count != processes.to_string() {
        return Err(Failure::Failed(format!("its output line {line}: {count} processes instead of {processes}")));
    }
    let mut measured = KernelOutput::default();
    for (name, series, _, factor) in NUMBERS {
        let (line, value) = text(name)?;
        let number: f64 = value
            .parse()
            .map_err(|_| Failure::Failed(format!("its output line {line}: {name} is '{value}', not a number")))?;
        // hpcc prints -1 for a test that did not run and 0 for one that was too short for its clock.
        if number > 0.0 {
            measured.push(series, number * factor)?;
        }
    }
    Ok(measured.samples)
}

/// Returns an error if HPL or another test reports a failed check.
fn failed_tests(output: &str) -> Result<(), Failure> {
    match output.lines().enumerate().find(|(_, line)| line.trim_end().ends_with("FAILED")) {
        Some((index, line)) => {
            Err(Failure::Failed(format!("its output line {}: a check failed: {}", index + 1, line.trim())))
        }
        None => Ok(()),
    }
}

/// The summary's values and their line numbers.
fn summary(output: &str) -> Result<BTreeMap<&str, (usize, &str)>, Failure> {
    let mut values = BTreeMap::new();
    let mut inside = false;
    for (index, line) in output.lines().enumerate() {
        match line.trim_end() {
            "Begin of Summary section." => inside = true,
            "End of Summary section." if inside => return Ok(values),
            line if inside => {
                let (name, value) = line.split_once('=').ok_or_else(|| {
                    Failure::Failed(format!("its output line {}: '{line}' is not NAME=VALUE", index + 1))
                })?;
                values.insert(name, (index + 1, value));
            }
            _ => {}
        }
    }
    let what = if inside { "does not end" } else { "is missing" };
    let lines = output.lines().count();
    Err(Failure::Failed(format!("the summary {what} in its output of {lines} lines; hint: is it hpccoutf.txt?")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::job_for_tests;

    const OUTPUT: &str = include_str!("hpcc/hpccoutf-1.5.0.txt");

    #[test]
    fn summary_values_are_converted_to_series_units() {
        let samples = samples(1, OUTPUT).unwrap();
        let value = |name: &str| samples.iter().find(|sample| sample.series == name).unwrap().value;
        for (name, expected) in [
            ("hpl", 24.5475),
            ("dgemm-single", 61.746),
            ("dgemm-star", 51.2764),
            ("triad-single", 85_586.9),
            ("gups-single", 1.38971),
            ("gups-mpi", 0.077_472_1),
        ] {
            assert!((value(name) / expected - 1.0).abs() < 1e-9, "{name}: {}", value(name));
        }
    }

    #[test]
    fn invalid_output_is_reported_with_its_line() {
        let error = |output: &str| samples(1, output).unwrap_err().to_string();
        let broken = |from: &str, to: &str| error(&OUTPUT.replace(from, to));
        let cases = [
            (broken("VersionMinor=5", "VersionMinor=7"), "line 382: version 1.7"),
            (broken("Success=1", "Success=0"), "line 387: Success=0"),
            (broken("sizeof_int=4", "sizeof_int 4"), "line 390: 'sizeof_int 4' is not NAME=VALUE"),
            (broken("HPL_Tflops=0.0245475", "HPL_Tflops=fast"), "line 401: HPL_Tflops is 'fast'"),
            (broken("SingleDGEMM_Gflops", "SingleDgemm"), "no SingleDGEMM_Gflops"),
            (broken("...... PASSED", "...... FAILED"), "line 367: a check failed"),
            (broken("End of Summary section.", ""), "is not NAME=VALUE"),
            (error("HPLinpack 2.3"), "the summary is missing in its output of 1 lines"),
            (samples(2, OUTPUT).unwrap_err().to_string(), "line 399: 1 processes instead of 2"),
        ];
        for (error, expected) in cases {
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn skipped_tests_have_no_sample() {
        let output = OUTPUT.replace("PTRANS_GBs=21.0397", "PTRANS_GBs=-1");
        assert!(samples(1, &output).unwrap().iter().all(|sample| sample.series != "ptrans"));
    }

    #[test]
    fn missing_hpcc_is_reported_with_its_package() {
        match recipe(&job_for_tests("hpcc")) {
            Ok(recipe) => assert_eq!(recipe.command.argv.last().unwrap(), "hpcc"),
            Err(failure) => println!("skipped: hpcc: {failure}"),
        }
    }
}
