//! Runs an installed, unmodified sysbench with its own loops and timing, and parses its report.
//!
//! Measures: events per second, event latencies and, for `memory`, MiB per second, as computed by sysbench with as many
//! threads as the placement has. All threads together may use the placement's CPUs; none is pinned. The workloads
//! `threads`, `mutex`, `cpu` and `memory` follow the same definitions without it; this tool is for checking them and
//! for results comparable with published ones. Does NOT run sysbench's file and database tests.
//! Source: sysbench 1.0 (akopytov/sysbench), an external program under the GPL. This file contains none of its code.

mod report;

use std::collections::BTreeMap;

use machine::child::{Exit, ProcessResult};
use model::values::trial::Sample;
use model::values::units::Nanos;
use model::values::workload::{Better, MetricSpec, ParameterKind, Parameters, WorkloadSpec};

use super::installed;
use crate::command_spec::{CommandLine, CommandSpec};
use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};

/// The tests and the prefixes of their options.
const TESTS: [(&str, &str); 4] =
    [("threads", "--thread-"), ("mutex", "--mutex-"), ("cpu", "--cpu-"), ("memory", "--memory-")];
const SECOND: Nanos = Nanos(1_000_000_000);

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "sysbench".into(),
        summary: "tests threads, mutex, cpu and memory of an installed sysbench".into(),
        about: "Runs sysbench with as many threads as the placement has, and parses its report. It is an external program: \
                Debian's package sysbench. Its resolution of event times is 0.01 ms; times printed as 0.00 are omitted. \
                Built-in workloads with the same definitions: threads, mutex, cpu, memory."
            .into(),
        parameters: parameters([
            Parameter {
                name: "test",
                about: "test to run",
                kind: ParameterKind::Choice(TESTS.iter().map(|(test, _)| (*test).into()).collect()),
                default: Some("threads"),
                smoke: None,
            },
            Parameter {
                name: "time",
                about: "duration in whole seconds (--time); mutex has no fixed duration",
                kind: ParameterKind::Time { min: SECOND, max: Nanos(86_400 * SECOND.0) },
                default: Some("3s"),
                smoke: Some("1s"),
            },
            Parameter {
                name: "options",
                about: "space-separated options of the test, such as --memory-oper=read --memory-block-size=1M",
                kind: ParameterKind::Text,
                default: Some(""),
                smoke: None,
            },
        ]),
        metrics: all_metrics(),
        threads_exactly: None,
        trial_time_guess: Nanos(3 * SECOND.0),
    }
}

fn all_metrics() -> Vec<MetricSpec> {
    metrics([
        Metric::median("events", "events/s", Better::Higher),
        Metric::median("bandwidth", "MiB/s", Better::Higher),
        Metric::median("total-time", "s", Better::Lower),
        Metric::median("latency-average", "ms", Better::Lower),
        Metric::median("latency-p95", "ms", Better::Lower),
        Metric::median("latency-min", "ms", Better::Lower),
        Metric::median("latency-max", "ms", Better::Lower),
    ])
}

/// Only the test's options: nearfar sets the threads, the time and the report.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    let test = parameters.text("test");
    let (_, prefix) = TESTS.iter().find(|(name, _)| *name == test).expect("`test` is one of the choices");
    if let Some(other) = parameters.text("options").split_whitespace().find(|word| !word.starts_with(prefix)) {
        return Err(format!("{other} is not an option of test {test}; hint: its options begin with {prefix}"));
    }
    let time = parameters.integer("time") as u64;
    if !time.is_multiple_of(SECOND.0) {
        return Err(format!("time is {}; hint: sysbench requires whole seconds", Nanos(time)));
    }
    Ok(())
}

pub(crate) fn missing(_: &Parameters) -> Option<String> {
    installed::missing("sysbench", "sysbench")
}

pub(crate) fn recipe(job: &TrialContext) -> Result<CommandSpec, Failure> {
    installed::require("sysbench", "sysbench")?;
    let test = job.parameters.text("test");
    let mut argv = vec!["sysbench".to_string(), test.into(), format!("--threads={}", job.threads)];
    // mutex has exactly one event per thread, regardless of its duration.
    let seconds = if test == "mutex" { 0 } else { job.parameters.integer("time") as u64 / SECOND.0 };
    argv.push(format!("--time={seconds}"));
    argv.extend(job.parameters.text("options").split_whitespace().map(String::from));
    argv.push("run".into());
    let command = CommandLine { argv, environment: BTreeMap::new() };
    Ok(CommandSpec::of(command))
}

pub(crate) fn read(job: &TrialContext, finished: &ProcessResult) -> Result<Vec<Sample>, Failure> {
    let output = String::from_utf8_lossy(&finished.stdout);
    if finished.exit != Exit::Code(0) {
        // sysbench prints errors on standard output.
        let fatal = output.lines().find(|line| line.starts_with("FATAL")).unwrap_or_default();
        return Err(Failure::Failed(format!("it ended with {} {fatal}", finished.stderr_tail()).trim_end().into()));
    }
    samples(job.parameters.text("test"), job.threads, &output)
}

fn samples(test: &str, threads: usize, output: &str) -> Result<Vec<Sample>, Failure> {
    let report = report::read(test, output).map_err(|why| Failure::Failed(format!("its report: {why}")))?;
    if report.threads != threads as u64 {
        return Err(Failure::Failed(format!("it ran {} threads instead of {threads}", report.threads)));
    }
    let mut measured = KernelOutput::default();
    measured.push("events", report.events / report.total_time_s)?;
    report.mib_per_s.map_or(Ok(()), |rate| measured.push("bandwidth", rate))?;
    measured.push("total-time", report.total_time_s)?;
    for (name, ms) in [
        ("latency-average", report.average_ms),
        ("latency-p95", report.p95_ms),
        ("latency-min", report.min_ms),
        ("latency-max", report.max_ms),
    ] {
        // 0.00 is below the resolution of the report, not a measured time.
        if ms > 0.0 {
            measured.push(name, ms)?;
        }
    }
    Ok(measured.samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{job_for_tests, set};

    #[test]
    fn command_contains_the_threads_and_test_options() {
        if installed::require("sysbench", "sysbench").is_err() {
            return println!("skipped: sysbench is not installed");
        }
        let mut job = TrialContext { threads: 3, ..job_for_tests("sysbench") };
        set(&mut job, "test", "memory");
        set(&mut job, "options", "--memory-oper=read --memory-block-size=1M");
        let words = "sysbench memory --threads=3 --time=1 --memory-oper=read --memory-block-size=1M run";
        assert_eq!(recipe(&job).unwrap().command.argv.join(" "), words);
        set(&mut job, "test", "mutex");
        assert!(recipe(&job).unwrap().command.argv.contains(&"--time=0".into()));
    }

    #[test]
    fn foreign_options_and_fractional_seconds_are_refused() {
        let mut job = job_for_tests("sysbench");
        assert_eq!(check(&job.parameters), Ok(()));
        set(&mut job, "options", "--threads=9");
        assert!(check(&job.parameters).unwrap_err().contains("begin with --thread-"));
        set(&mut job, "options", "--thread-yields=10 --time=0");
        assert!(check(&job.parameters).unwrap_err().contains("--time=0"));
        set(&mut job, "options", "--thread-yields=10");
        assert_eq!(check(&job.parameters), Ok(()));
        set(&mut job, "time", "1500ms");
        assert!(check(&job.parameters).unwrap_err().contains("whole seconds"));
    }

    #[test]
    fn unexpected_thread_count_returns_an_error() {
        let output = include_str!("reports/cpu-1.0.20.txt");
        assert!(samples("cpu", 2, output).is_ok());
        assert!(samples("cpu", 1, output).unwrap_err().to_string().contains("2 threads instead of 1"));
    }

    #[test]
    fn times_printed_as_zero_are_omitted() {
        let samples = samples("memory", 2, include_str!("reports/memory-1.0.20.txt")).unwrap();
        let names: Vec<&str> = samples.iter().map(|sample| sample.series.as_str()).collect();
        assert_eq!(names, ["events", "bandwidth", "total-time", "latency-max"]);
    }
}
