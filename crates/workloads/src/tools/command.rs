//! Any command line as a workload.
//!
//! Measures: wall time, cpu time and peak memory of a program and its children, and a number that it prints when a
//! regular expression says which. Does NOT look into the program: seats are the cpus that it may use together.
//! The command is a list of words in JSON, `["./app", "--threads", "{threads}"]`, and no shell ever sees it: JSON
//! says where a word ends without quoting rules of our own. In each word these are replaced:
//! `{threads}` by the placement's thread count, `{cpus}` by its cpus as taskset writes them (all that this process
//! may use when the kernel chooses), `{node}` by its memory nodes as numactl writes them (likewise).

use std::collections::BTreeMap;

use model::id_set::CpuSet;
use model::placement::MemoryPolicy;
use model::trial::Sample;
use model::units::Nanos;
use model::workload::{Better, ParameterKind, Parameters, Reduce, WorkloadSpec};
use regex::Regex;

use crate::command_line::{CommandLine, Exit, Finished};
use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, Job, Measured};

/// How much of stderr a failure quotes.
const QUOTED_BYTES_MAX: usize = 1000;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "command".into(),
        summary: "any program: its wall time, cpu time, peak memory, or a number that it prints".into(),
        about: "Runs a command line without a shell. Wall time from start to exit; cpu time with waited-for children; \
                peak memory of the largest process. With `metric`, the last match in its output is the value. \
                {threads}, {cpus} and {node} in a word stand for the placement's."
            .into(),
        parameters: parameters([
            Parameter {
                name: "argv",
                about: "the program and its arguments as a JSON list: [\"./app\", \"-t\", \"{threads}\"]",
                kind: ParameterKind::Text,
                default: None,
                smoke: Some("[\"true\"]"),
            },
            Parameter {
                name: "metric",
                about: "regular expression with one group that captures a number in the output; empty for none",
                kind: ParameterKind::Text,
                default: Some(""),
                smoke: None,
            },
            Parameter {
                name: "higher-is-better",
                about: "whether more of that number is better; it is then called value-higher",
                kind: ParameterKind::Switch,
                default: Some("false"),
                smoke: None,
            },
        ]),
        metrics: all_metrics(),
        threads_exactly: None,
        trial_time_guess: Nanos(10_000_000_000),
    }
}

fn all_metrics() -> Vec<model::workload::MetricSpec> {
    let metric = |name, unit, better| Metric { name, unit, better, series: name, reduce: Reduce::Median };
    metrics([
        metric("wall", "s", Better::Lower),
        metric("user", "s", Better::Lower),
        metric("system", "s", Better::Lower),
        metric("peak-memory", "MiB", Better::Lower),
        metric("value", "", Better::Lower),
        metric("value-higher", "", Better::Higher),
    ])
}

/// What an experiment's reader should know before anything runs: the list is a list, the expression has its group.
pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    words(parameters)?;
    expression(parameters).map(|_| ())
}

pub(crate) fn command(job: &Job) -> Result<CommandLine, Failure> {
    let words = words(&job.parameters).map_err(Failure::Failed)?;
    let argv = words.iter().map(|word| fill_in(word, job)).collect::<Result<_, _>>()?;
    Ok(CommandLine { argv, environment: BTreeMap::new() })
}

pub(crate) fn read(job: &Job, finished: &Finished) -> Result<Vec<Sample>, Failure> {
    if finished.exit != Exit::Code(0) {
        return Err(Failure::Failed(format!("it ended with {}{}", finished.exit, quoted(&finished.stderr_tail))));
    }
    let mut measured = Measured::default();
    if let Some(expression) = expression(&job.parameters).map_err(Failure::Failed)? {
        let series = if job.parameters.switch("higher-is-better") { "value-higher" } else { "value" };
        measured.push(series, value(&expression, finished)?)?;
    }
    measured.push("wall", finished.wall.seconds())?;
    measured.push("user", finished.user.seconds())?;
    measured.push("system", finished.system.seconds())?;
    measured.push("peak-memory", finished.max_rss.0 as f64 / f64::from(1 << 20))?;
    Ok(measured.samples)
}

fn words(parameters: &Parameters) -> Result<Vec<String>, String> {
    let text = parameters.text("argv");
    let words: Vec<String> = serde_json::from_str(text)
        .map_err(|error| format!("argv is not a JSON list of words: {error}; write it like [\"./app\", \"--fast\"]"))?;
    if words.first().is_none_or(String::is_empty) {
        return Err("argv names no program; write it like [\"./app\", \"--fast\"]".into());
    }
    Ok(words)
}

fn expression(parameters: &Parameters) -> Result<Option<Regex>, String> {
    let text = parameters.text("metric");
    if text.is_empty() {
        return Ok(None);
    }
    let expression = Regex::new(text).map_err(|error| format!("metric is not a regular expression: {error}"))?;
    match expression.captures_len() - 1 {
        1 => Ok(Some(expression)),
        groups => Err(format!("metric '{text}' has {groups} groups; one, in parentheses, must capture the number")),
    }
}

/// The number in the last match: programs print their summary last. stdout first, since stderr is cut short.
fn value(expression: &Regex, finished: &Finished) -> Result<f64, Failure> {
    let last = |output: &[u8]| {
        let text = String::from_utf8_lossy(output);
        expression.captures_iter(&text).filter_map(|found| Some(found.get(1)?.as_str().to_owned())).last()
    };
    let Some(found) = last(&finished.stdout).or_else(|| last(&finished.stderr_tail)) else {
        return Err(Failure::Failed(format!("nothing in its output matches '{expression}'")));
    };
    let number = found.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| Failure::Failed(format!("'{expression}' captured '{found}', which is not a number")))
}

fn fill_in(word: &str, job: &Job) -> Result<String, Failure> {
    let mut filled = word.replace("{threads}", &job.threads.to_string());
    if filled.contains("{cpus}") {
        filled = filled.replace("{cpus}", &cpus(job)?);
    }
    if filled.contains("{node}") {
        filled = filled.replace("{node}", &nodes(job)?);
    }
    Ok(filled)
}

fn cpus(job: &Job) -> Result<String, Failure> {
    let seats: CpuSet = job.seats.iter().copied().collect();
    if seats.is_empty() { allowed("Cpus_allowed_list:") } else { Ok(seats.to_string()) }
}

fn nodes(job: &Job) -> Result<String, Failure> {
    match &job.memory {
        MemoryPolicy::Preferred(node) => Ok(node.to_string()),
        policy => policy.promised_nodes().map_or_else(|| allowed("Mems_allowed_list:"), |nodes| Ok(nodes.to_string())),
    }
}

/// What this process may use, which is what an unbound child inherits.
fn allowed(field: &str) -> Result<String, Failure> {
    let path = "/proc/self/status";
    let status = std::fs::read_to_string(path).map_err(|error| Failure::Failed(format!("{path}: {error}")))?;
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    value.map(|list| list.trim().to_owned()).ok_or_else(|| Failure::Failed(format!("{path} has no {field}")))
}

fn quoted(stderr: &[u8]) -> String {
    let tail = &stderr[stderr.len().saturating_sub(QUOTED_BYTES_MAX)..];
    match String::from_utf8_lossy(tail).trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

#[cfg(test)]
mod tests {
    use model::id_set::{CpuId, NodeId};
    use model::units::Bytes;

    use super::*;
    use crate::kernels::{job_for_tests, set};

    fn job(given: &[(&str, &str)]) -> Job {
        let mut job = Job { threads: 3, ..job_for_tests("command") };
        for (name, text) in given {
            set(&mut job, name, text);
        }
        job
    }

    fn finished(stdout: &str, stderr: &str, exit: Exit) -> Finished {
        Finished {
            exit,
            stdout: stdout.into(),
            stderr_tail: stderr.into(),
            wall: Nanos(1_500_000_000),
            user: Nanos(250_000_000),
            system: Nanos(0),
            max_rss: Bytes(3 << 20),
        }
    }

    #[test]
    fn words_are_kept_apart_and_placeholders_filled() {
        let argv = r#"["app", "two words", "-t{threads}", "{cpus}:{node}", "$HOME"]"#;
        let mut job = job(&[("argv", argv)]);
        job.seats = vec![CpuId(5), CpuId(4), CpuId(9)];
        job.memory = MemoryPolicy::Bind([NodeId(0), NodeId(1)].into_iter().collect());
        assert_eq!(command(&job).unwrap().argv, ["app", "two words", "-t3", "4-5,9:0-1", "$HOME"]);
        job.memory = MemoryPolicy::Preferred(NodeId(7));
        assert_eq!(command(&job).unwrap().argv[3], "4-5,9:7");
    }

    #[test]
    fn without_a_binding_placeholders_mean_what_is_allowed() {
        let argv = command(&job(&[("argv", r#"["app", "{cpus}", "{node}"]"#)])).unwrap().argv;
        assert_eq!(argv[1], machine::seat::mask_of(0).unwrap().to_string());
        let nodes = CpuSet::parse_list(&argv[2]).unwrap();
        assert!(!nodes.is_empty());
        for node in nodes.iter() {
            let path = format!("/sys/devices/system/node/node{node}");
            assert!(std::path::Path::new(&path).exists(), "{path}");
        }
    }

    #[test]
    fn mistakes_are_said_before_anything_runs() {
        let cases = [
            ("argv", "app --fast", "not a JSON list"),
            ("argv", "[]", "names no program"),
            ("argv", "[\"\"]", "names no program"),
            ("metric", "(unclosed", "not a regular expression"),
            ("metric", "no group", "has 0 groups"),
            ("metric", "(two) (groups)", "has 2 groups"),
        ];
        for (name, text, expected) in cases {
            let error = check(&job(&[(name, text)]).parameters).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert_eq!(check(&job(&[("metric", r"(?:rate|speed): ([\d.]+)")]).parameters), Ok(()));
    }

    #[test]
    fn times_memory_and_the_last_number_become_samples() {
        let read_series = |job: &Job, finished: &Finished| {
            let samples = read(job, finished)?;
            Ok::<_, Failure>(
                samples.into_iter().map(|sample| (sample.series, sample.value)).collect::<BTreeMap<_, _>>(),
            )
        };
        let plain = read_series(&job(&[]), &finished("", "", Exit::Code(0))).unwrap();
        let expected = [("wall", 1.5), ("user", 0.25), ("system", 0.0), ("peak-memory", 3.0)];
        assert_eq!(plain, expected.map(|(name, value)| (name.to_owned(), value)).into());

        let lower = job(&[("metric", r"rate: (\S+)")]);
        let output = "rate: 1\nrate: 2.5e3\n";
        assert_eq!(read_series(&lower, &finished(output, "", Exit::Code(0))).unwrap()["value"].to_string(), "2500");
        assert_eq!(read_series(&lower, &finished("", output, Exit::Code(0))).unwrap()["value"].to_string(), "2500");
        let higher = job(&[("metric", r"rate: (\S+)"), ("higher-is-better", "true")]);
        assert!(read_series(&higher, &finished(output, "", Exit::Code(0))).unwrap().contains_key("value-higher"));
    }

    #[test]
    fn failures_say_what_the_program_said() {
        let plain = job(&[]);
        let error = |job: &Job, finished: &Finished| read(job, finished).unwrap_err().to_string();
        assert_eq!(
            error(&plain, &finished("", "no such file\n", Exit::Code(3))),
            "it ended with status 3: no such file"
        );
        assert_eq!(error(&plain, &finished("", "", Exit::Signal(9))), "it ended with signal 9");
        let metric = job(&[("metric", r"rate: (\S+)")]);
        assert!(error(&metric, &finished("nothing", "", Exit::Code(0))).contains(r"matches 'rate: (\S+)'"));
        assert!(error(&metric, &finished("rate: NaN", "", Exit::Code(0))).contains("captured 'NaN'"));
        let long = "x".repeat(5000);
        assert!(error(&plain, &finished("", &long, Exit::Code(1))).len() < 1100);
    }
}
