//! Any command line as a workload, with optional preparation, server, warm-up runs and cleanup.
//!
//! Measures: wall time, CPU time and peak memory of a program and its children, and a number in its output if a regular
//! expression or a JSON pointer locates it. All of these describe the measured command; those of a server are in the
//! trial's evidence. Does NOT control the threads of the program: together they may use the placement's CPUs.
//! The command is a JSON list of words, `["./app", "--threads", "{threads}"]`, and runs without a shell unless `shell`
//! is set: JSON delimits words without additional quoting rules. These placeholders are replaced in each word:
//! `{threads}` by the placement's thread count, `{cpus}` by its CPUs in taskset's syntax (all CPUs of this process if
//! the kernel schedules; the server's CPUs in the server's command), and `{node}` by its memory nodes in numactl's
//! syntax (with the same rules). The trial's time limit applies separately to each command of a trial; a server has to be
//! ready within it and within `ready-timeout`.

mod number;
mod template;

use std::path::PathBuf;

use machine::child::{Exit, ProcessResult, Readiness};
use machine::page_cache::PageCache;
use model::values::id_set::CpuSet;
use model::values::trial::Sample;
use model::values::units::Nanos;
use model::values::workload::{Better, PAGE_CACHE_PARAMETER, ParameterKind, Parameters, Value, WorkloadSpec};

use crate::command_spec::{CommandSpec, READY_TIMEOUT, STOP_TIMEOUT, ServerLine};
use crate::describe::{Metric, Parameter, choice, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};

/// Upper limit for the number of warm-up runs. A larger number is a typo.
const WARMUP_MAX: i64 = 1000;
/// Texts of the defaults of `ready-timeout` and `stop-timeout`.
const READY_TIMEOUT_TEXT: &str = "30s";
const STOP_TIMEOUT_TEXT: &str = "5s";
/// Upper limit for the time that a server takes to start or to end.
const SERVER_TIME_MAX: Nanos = Nanos(24 * 3600 * 1_000_000_000);

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "command".into(),
        summary: "any program: wall time, CPU time, peak memory, or a number in its output".into(),
        about:
            "Runs a command line, without a shell unless `shell` is set (its start-up is then measured, too). Measures \
                wall time from start to exit, CPU time including children, and peak memory of the largest process. With \
                `metric`, the last match in the output is the value, and the main metric. {threads}, {cpus} and {node} in a word are \
                replaced by those of the placement; in `server`, {cpus} by the CPUs of the server. All metrics \
                are of the measured command, not of the server. The time limit applies to each command of a trial \
                separately: preparation, the server until it is ready, each run, cleanup."
                .into(),
        parameters: all_parameters(),
        metrics: all_metrics(),
        threads_exactly: None,
        trial_time_guess: Nanos(10_000_000_000),
    }
}

fn all_parameters() -> Vec<model::values::workload::ParameterSpec> {
    let text = |name, about| Parameter { name, about, kind: ParameterKind::Text, default: Some(""), smoke: None };
    let switch =
        |name, about| Parameter { name, about, kind: ParameterKind::Switch, default: Some("false"), smoke: None };
    let time = |name, about, default| Parameter {
        name,
        about,
        kind: ParameterKind::Time { min: Nanos(1_000_000), max: SERVER_TIME_MAX },
        default: Some(default),
        smoke: None,
    };
    parameters([
        Parameter {
            name: "argv",
            about: "the program and its arguments as a JSON list: [\"./app\", \"-t\", \"{threads}\"]",
            kind: ParameterKind::Text,
            default: None,
            smoke: Some("[\"true\"]"),
        },
        text(
            "metric",
            "regular expression with one group that captures a number in the output, such as (?<tps>[0-9.]+), which \
             names it tps; empty for none",
        ),
        text("metric-json", "instead: JSON pointer to a number in the standard output, like /jobs/0/iops"),
        switch("higher-is-better", "whether a higher number is better; the metric is then value-higher"),
        text(
            "prepare",
            "command before each run, as argv, neither timed nor pinned; with a server, once before it starts",
        ),
        text(
            "cleanup",
            "command after each run, also a failed one, as prepare; with a server, once after it has stopped",
        ),
        Parameter {
            name: "warmup",
            about: "number of runs in each trial before the measured one",
            kind: ParameterKind::Integer { min: 0, max: WARMUP_MAX },
            default: Some("0"),
            smoke: None,
        },
        switch("shell", "whether a command that is not a JSON list is a line for sh -c"),
        switch("ignore-failure", "whether any exit status is accepted; a signal still fails the trial"),
        switch("openmp", "whether OMP_NUM_THREADS is set to the threads of the placement"),
        text("server", "server, as argv: started before the runs and stopped after them, on its own CPUs"),
        text(
            "ready",
            "readiness check of the server: port:N, file:PATH, line:REGEX or command:CMD, which must end with status 0; \
             started or empty for none",
        ),
        time("ready-timeout", "time limit of the server until it is ready", READY_TIMEOUT_TEXT),
        Parameter {
            name: PAGE_CACHE_PARAMETER,
            about: "where each run finds the cached pages of its data files and program: on the nodes of the placement, as \
                    earlier runs left them, or nowhere; concerns files that an earlier trial of the run was seen to use",
            kind: choice(&["placed", "as-found", "cold"]),
            default: Some("placed"),
            smoke: None,
        },
        time("stop-timeout", "time for the server to end before it is killed", STOP_TIMEOUT_TEXT),
    ])
}

fn all_metrics() -> Vec<model::values::workload::MetricSpec> {
    metrics([
        Metric::median("wall", "s", Better::Lower),
        Metric::median("user", "s", Better::Lower),
        Metric::median("system", "s", Better::Lower),
        Metric::median("cpu-time", "s", Better::Lower),
        Metric::median("peak-memory", "MiB", Better::Lower),
        Metric::median("value", "", Better::Lower),
        Metric::median("value-higher", "", Better::Higher),
    ])
}

/// Checks the parameters when an experiment is read: lists, regular expressions and pointers are valid, and parameters
/// that require each other are present.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    argv(parameters)?;
    for name in ["prepare", "cleanup"] {
        template::words(parameters, name)?;
    }
    number::rule(parameters)?;
    ready(parameters)?;
    if template::words(parameters, "server")?.is_none() && !parameters.text("ready").is_empty() {
        return Err("ready is given without a server".into());
    }
    Ok(())
}

pub(crate) fn recipe(job: &TrialContext) -> Result<CommandSpec, Failure> {
    let cpus: CpuSet = job.seats.iter().copied().collect();
    let line = |name| template::command_line(job, name, &cpus);
    argv(&job.parameters).map_err(Failure::Failed)?;
    let mut command = line("argv")?.expect("`argv` has checked that it names a program");
    if job.parameters.switch("openmp") {
        // OMP_PROC_BIND is not set: it would override the kernel's scheduling if that is the placement.
        command.environment.insert("OMP_NUM_THREADS".into(), job.threads.to_string());
    }
    let server = template::command_line(job, "server", &job.server_cpus)?;
    let ready = ready(&job.parameters).map_err(Failure::Failed)?;
    Ok(CommandSpec {
        prepare: line("prepare")?,
        server: server.map(|command| ServerLine {
            command,
            ready,
            ready_timeout: time_or(&job.parameters, "ready-timeout", READY_TIMEOUT),
            stop_timeout: time_or(&job.parameters, "stop-timeout", STOP_TIMEOUT),
        }),
        warmup: u32::try_from(job.parameters.size("warmup")).expect("its bounds are those of a small number"),
        command,
        cleanup: line("cleanup")?,
        page_cache: page_cache(&job.parameters),
        scratch: None,
    })
}

pub(crate) fn read(job: &TrialContext, finished: &ProcessResult) -> Result<Vec<Sample>, Failure> {
    let fails = match finished.exit {
        Exit::Code(0) => false,
        Exit::Code(_) => !job.parameters.switch("ignore-failure"),
        Exit::Signal(_) | Exit::TimedOut | Exit::Stopped => true,
    };
    if fails {
        return Err(Failure::Failed(format!("it ended with {}", finished.stderr_tail())));
    }
    let mut measured = KernelOutput::default();
    if let Some(number) = number::rule(&job.parameters).map_err(Failure::Failed)? {
        let series = if job.parameters.switch("higher-is-better") { "value-higher" } else { "value" };
        measured.push(series, number.read(finished)?)?;
    }
    measured.push("wall", finished.evidence.wall.seconds())?;
    measured.push("user", finished.user.seconds())?;
    measured.push("system", finished.system.seconds())?;
    measured.push("cpu-time", finished.user.seconds() + finished.system.seconds())?;
    measured.push("peak-memory", finished.max_rss.0 as f64 / f64::from(1 << 20))?;
    Ok(measured.samples)
}

/// Returns the state of the page cache; that of earlier versions for their plans, which do not have this parameter.
fn page_cache(parameters: &Parameters) -> PageCache {
    match parameters.0.get(PAGE_CACHE_PARAMETER) {
        Some(Value::Text(text)) if text == "placed" => PageCache::Placed,
        Some(Value::Text(text)) if text == "cold" => PageCache::Cold,
        _ => PageCache::AsFound,
    }
}

/// Returns a duration; the default for a plan of an earlier version, which does not have this parameter.
fn time_or(parameters: &Parameters, name: &str, default: Nanos) -> Nanos {
    match parameters.0.get(name) {
        Some(Value::Integer(nanos)) => Nanos(nanos.unsigned_abs()),
        _ => default,
    }
}

fn argv(parameters: &Parameters) -> Result<(), String> {
    let named = template::words(parameters, "argv")?;
    named.map(drop).ok_or_else(|| "argv names no program; write it like [\"./app\", \"--fast\"]".into())
}

fn ready(parameters: &Parameters) -> Result<Readiness, String> {
    let text = parameters.text("ready");
    if text.is_empty() { Ok(Readiness::Started) } else { readiness(text) }
}

/// Parses a readiness condition.
///
/// # Errors
/// If the kind of condition is unknown, or its value is invalid.
pub fn readiness(text: &str) -> Result<Readiness, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("ready '{text}': {why}");
    match text.split_once(':') {
        None if text == "started" => Ok(Readiness::Started),
        Some(("port", number)) => match number.parse() {
            Ok(port) if port != 0 => Ok(Readiness::Port(port)),
            _ => Err(wrong(&"a port is a number from 1 to 65535")),
        },
        Some(("file", path)) if !path.is_empty() => Ok(Readiness::File(PathBuf::from(path))),
        Some(("line", expression)) if !expression.is_empty() => {
            regex::bytes::Regex::new(expression).map(Readiness::Line).map_err(|error| wrong(&error))
        }
        Some(("command", line)) => match shlex::split(line) {
            Some(words) if !words.is_empty() => Ok(Readiness::Command(words)),
            _ => Err(wrong(&"the command is empty or has an unclosed quote")),
        },
        _ => Err(wrong(&"it is started, port:N, file:PATH, line:REGEX or command:CMD")),
    }
}

#[cfg(test)]
mod tests;
