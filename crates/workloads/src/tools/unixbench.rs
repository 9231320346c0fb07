//! Runs an installed, unmodified UnixBench with its own programs and timing, and parses its report.
//!
//! Measures: each test's score and the index, computed by UnixBench with as many copies as the placement has threads.
//! All copies together may use the placement's CPUs; none is pinned. The kernels with the same names measure the same
//! without it; this tool is for checking them and for results comparable with published ones. The full index takes half
//! an hour for each number of copies, so a trial needs `--time-limit 1h`.

use std::collections::BTreeMap;
use std::path::Path;

use machine::child::{Exit, ProcessResult};
use model::import::reports::{ReportError, unixbench as report};
use model::import::unixbench::TESTS;
use model::values::trial::Sample;
use model::values::units::Nanos;
use model::values::workload::{Better, MetricSpec, ParameterKind, Parameters, WorkloadSpec};

use crate::command_spec::{CommandLine, CommandSpec};
use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};

/// Where to obtain UnixBench.
const SOURCE: &str = "https://github.com/kdlucas/byte-unixbench, tag v5.1.3; make there, then --set dir=.../UnixBench";
/// Upper limit for the number of passes. A larger number is a typo.
const PASSES_MAX: i64 = 1000;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "unixbench".into(),
        summary: "tests and index of an installed UnixBench 5.1.3".into(),
        about:
            "Runs UnixBench's script `Run` with as many copies as the placement has threads, and parses its report. The \
                full index takes half an hour and requires --time-limit 1h. It is an external program: \
                github.com/kdlucas/byte-unixbench."
                .into(),
        parameters: parameters([
            Parameter {
                name: "dir",
                about: "directory of its `Run`",
                kind: ParameterKind::Text,
                default: Some("/usr/local/share/unixbench"),
                smoke: None,
            },
            Parameter {
                name: "tests",
                about: "space-separated names of its tests; index for the twelve tests of the index",
                kind: ParameterKind::Text,
                default: Some("index"),
                smoke: Some("dhry2reg"),
            },
            Parameter {
                name: "passes",
                about: "number of passes of short tests; long tests have a third",
                kind: ParameterKind::Integer { min: 1, max: PASSES_MAX },
                default: Some("10"),
                smoke: Some("1"),
            },
        ]),
        metrics: all_metrics(),
        threads_exactly: None,
        trial_time_guess: Nanos(1_700_000_000_000),
    }
}

/// The index, then the score of each test.
fn all_metrics() -> Vec<MetricSpec> {
    let metric = |name, unit| Metric::median(name, unit, Better::Higher);
    let mut all = metrics([metric("index", "")]);
    TESTS.iter().for_each(|test| all.extend(metrics([metric(test.name, test.unit)])));
    all.extend(metrics([metric("shell-16", "lpm")]));
    all
}

/// Test names are words of the command line and must not look like options.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    match parameters.text("tests").split_whitespace().find(|word| word.starts_with('-')) {
        Some(option) => Err(format!("{option} in tests is an option; hint: use names of tests such as dhry2reg")),
        None => Ok(()),
    }
}

pub(crate) fn missing(parameters: &Parameters) -> Option<String> {
    let dir = parameters.text("dir");
    let is_found = Path::new(dir).join("Run").is_file();
    (!is_found).then(|| format!("found no UnixBench in {dir}; hint: {SOURCE}"))
}

pub(crate) fn recipe(job: &TrialContext) -> Result<CommandSpec, Failure> {
    if let Some(why) = missing(&job.parameters) {
        return Err(Failure::Unavailable(why));
    }
    let dir = job.parameters.text("dir");
    let mut argv: Vec<String> = ["env", "-C", dir, "./Run", "-q", "-i"].map(String::from).into();
    argv.extend([job.parameters.integer("passes").to_string(), "-c".into(), job.threads.to_string()]);
    argv.extend(job.parameters.text("tests").split_whitespace().map(String::from));
    let command = CommandLine { argv, environment: BTreeMap::new() };
    Ok(CommandSpec::of(command))
}

pub(crate) fn read(job: &TrialContext, finished: &ProcessResult) -> Result<Vec<Sample>, Failure> {
    if finished.exit != Exit::Code(0) {
        return Err(Failure::Failed(format!("it ended with {}", finished.stderr_tail())));
    }
    samples(job.threads, &String::from_utf8_lossy(&finished.stdout))
}

fn samples(copies: usize, output: &str) -> Result<Vec<Sample>, Failure> {
    let wrong = |error: ReportError| Failure::Failed(format!("its report: {error}"));
    let report = report::parse(output).map_err(wrong)?;
    let [run] = report.runs.as_slice() else {
        return Err(Failure::Failed(format!("its report has {} runs instead of one", report.runs.len())));
    };
    if run.copies as usize != copies {
        // Version 5.1.3 supports at most 16 copies.
        return Err(Failure::Failed(format!("it ran {} copies instead of {copies}", run.copies)));
    }
    let mut measured = KernelOutput::default();
    run.index.map_or(Ok(()), |index| measured.push("index", index))?;
    run.scores.iter().try_for_each(|score| measured.push(&score.test, score.score))?;
    Ok(measured.samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{job_for_tests, set};

    const OUTPUT: &str = include_str!("unixbench/dhry2reg-5.1.3.txt");

    #[test]
    fn report_is_parsed() {
        let samples = samples(1, OUTPUT).unwrap();
        let names: Vec<&str> = samples.iter().map(|sample| sample.series.as_str()).collect();
        assert_eq!(names, ["dhrystone"], "a partial index is not stored");
        assert!(samples[0].value > 1e6);
    }

    #[test]
    fn unexpected_copies_or_version_return_errors() {
        assert!(super::samples(2, OUTPUT).unwrap_err().to_string().contains("1 copies instead of 2"));
        let newer = super::samples(1, &OUTPUT.replace("Version 5.1.3)", "Version 6.0.0)"));
        assert!(newer.unwrap_err().to_string().contains("version 6.0.0"));
    }

    #[test]
    fn missing_unixbench_hint_contains_its_source() {
        let mut job = job_for_tests("unixbench");
        set(&mut job, "dir", "/nowhere");
        let failure = recipe(&job).unwrap_err();
        assert!(matches!(&failure, Failure::Unavailable(why) if why.contains("/nowhere") && why.contains("hint")));
        set(&mut job, "tests", "dhry2reg -q");
        assert!(check(&job.parameters).is_err());
    }
}
