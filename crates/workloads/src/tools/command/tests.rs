//! Tests of the translation of a command's parameters and of parsing its output. They start no process.

use model::values::id_set::{CpuId, NodeId};
use model::values::units::Bytes;

use std::collections::BTreeMap;

use model::values::placement::MemoryPolicy;
use model::values::trial::Evidence;

use super::*;
use crate::kernels::{job_for_tests, set};

fn job(given: &[(&str, &str)]) -> TrialContext {
    let mut job = TrialContext { threads: 3, ..job_for_tests("command") };
    for (name, text) in given {
        set(&mut job, name, text);
    }
    job
}

fn finished(stdout: &str, stderr: &str, exit: Exit) -> ProcessResult {
    ProcessResult {
        exit,
        stdout: stdout.into(),
        stdout_dropped: Bytes(0),
        stderr: stderr.into(),
        stderr_dropped: Bytes(0),
        evidence: Evidence { wall: Nanos(1_500_000_000), ..Evidence::default() },
        user: Nanos(250_000_000),
        system: Nanos(500_000_000),
        max_rss: Bytes(3 << 20),
    }
}

#[test]
fn words_stay_separate_and_placeholders_are_replaced() {
    let argv = r#"["app", "two words", "-t{threads}", "{cpus}:{node}", "$HOME"]"#;
    let mut job = job(&[("argv", argv)]);
    job.seats = vec![CpuId(5), CpuId(4), CpuId(9)];
    job.memory = MemoryPolicy::Bind([NodeId(0), NodeId(1)].into_iter().collect());
    assert_eq!(recipe(&job).unwrap().command.argv, ["app", "two words", "-t3", "4-5,9:0-1", "$HOME"]);
    job.memory = MemoryPolicy::Preferred(NodeId(7));
    assert_eq!(recipe(&job).unwrap().command.argv[3], "4-5,9:7");
}

#[test]
fn unbound_placeholders_expand_to_the_allowed_cpus_and_nodes() {
    let argv = recipe(&job(&[("argv", r#"["app", "{cpus}", "{node}"]"#)])).unwrap().command.argv;
    assert_eq!(argv[1], machine::affinity::mask_of(0).unwrap().to_string());
    let nodes = CpuSet::parse_list(&argv[2]).unwrap();
    assert!(!nodes.is_empty());
    for node in nodes.iter() {
        let path = format!("/sys/devices/system/node/node{node}");
        assert!(std::path::Path::new(&path).exists(), "{path}");
    }
}

#[test]
fn invalid_parameters_return_errors_before_the_run() {
    let cases = [
        ("argv", "app --fast", "not a JSON list"),
        ("argv", "[]", "names no program"),
        ("argv", "[\"\"]", "names no program"),
        ("argv", " ", "names no program"),
        ("prepare", "make clean", "prepare is not a JSON list"),
        ("cleanup", "[]", "cleanup names no program"),
        ("server", "./server", "server is not a JSON list"),
        ("ready", "port:80", "without a server"),
        ("ready", "port:0", "from 1 to 65535"),
        ("ready", "port:http", "from 1 to 65535"),
        ("ready", "file:", "started, port:N, file:PATH, line:REGEX or command:CMD"),
        ("ready", "8080", "started, port:N, file:PATH, line:REGEX or command:CMD"),
        ("ready", "line:(", "ready 'line:('"),
        ("metric-json", "jobs/0", "not a JSON pointer"),
        ("metric-json", "/a~2", "not a JSON pointer"),
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
fn times_memory_and_last_number_become_samples() {
    let read_series = |job: &TrialContext, finished: &ProcessResult| {
        let samples = read(job, finished)?;
        Ok::<_, Failure>(samples.into_iter().map(|sample| (sample.series, sample.value)).collect::<BTreeMap<_, _>>())
    };
    let plain = read_series(&job(&[]), &finished("", "", Exit::Code(0))).unwrap();
    let expected = [("wall", 1.5), ("user", 0.25), ("system", 0.5), ("cpu-time", 0.75), ("peak-memory", 3.0)];
    assert_eq!(plain, expected.map(|(name, value)| (name.to_owned(), value)).into());

    let lower = job(&[("metric", r"rate: (\S+)")]);
    let output = "rate: 1\nrate: 2.5e3\n";
    assert_eq!(read_series(&lower, &finished(output, "", Exit::Code(0))).unwrap()["value"].to_string(), "2500");
    assert_eq!(read_series(&lower, &finished("", output, Exit::Code(0))).unwrap()["value"].to_string(), "2500");
    let higher = job(&[("metric", r"rate: (\S+)"), ("higher-is-better", "true")]);
    assert!(read_series(&higher, &finished(output, "", Exit::Code(0))).unwrap().contains_key("value-higher"));
}

#[test]
fn failures_quote_the_program_output() {
    let plain = job(&[]);
    let error = |job: &TrialContext, finished: &ProcessResult| read(job, finished).unwrap_err().to_string();
    assert_eq!(error(&plain, &finished("", "no such file\n", Exit::Code(3))), "it ended with status 3: no such file");
    assert_eq!(error(&plain, &finished("", "", Exit::Signal(9))), "it ended with signal 9");
    let metric = job(&[("metric", r"rate: (\S+)")]);
    assert!(error(&metric, &finished("nothing", "", Exit::Code(0))).contains(r"matches 'rate: (\S+)'"));
    assert!(error(&metric, &finished("rate: NaN", "", Exit::Code(0))).contains("captured 'NaN'"));
    let long = "x".repeat(5000);
    assert!(error(&plain, &finished("", &long, Exit::Code(1))).len() < 1100);
}

#[test]
fn placeholders_of_surrounding_commands_are_replaced() {
    let mut job = job(&[
        ("argv", r#"["app", "{cpus}"]"#),
        ("prepare", r#"["prepare", "{cpus}", "{threads}"]"#),
        ("cleanup", r#"["clean", "{node}"]"#),
        ("server", r#"["serve", "{cpus}", "{node}", "{threads}"]"#),
        ("ready", "port:8080"),
        ("stop-timeout", "200ms"),
        ("warmup", "2"),
        ("openmp", "true"),
    ]);
    job.seats = vec![CpuId(5)];
    job.server_cpus = CpuSet::parse_list("6-7").unwrap();
    job.memory = MemoryPolicy::Preferred(NodeId(1));
    assert_eq!(check(&job.parameters), Ok(()));
    let recipe = recipe(&job).unwrap();
    assert_eq!(recipe.command.argv, ["app", "5"]);
    assert_eq!(recipe.command.environment, [("OMP_NUM_THREADS".to_owned(), "3".to_owned())].into());
    let prepare = recipe.prepare.as_ref().unwrap();
    assert_eq!((prepare.argv.join(" "), prepare.environment.len()), ("prepare 5 3".into(), 0));
    assert_eq!(recipe.cleanup.as_ref().unwrap().argv, ["clean", "1"]);
    let server = recipe.server.as_ref().unwrap();
    assert_eq!(server.command.argv, ["serve", "6-7", "1", "3"]);
    assert!(matches!(server.ready, Readiness::Port(8080)), "{:?}", server.ready);
    assert_eq!((server.ready_timeout, server.stop_timeout), (READY_TIMEOUT, Nanos(200_000_000)));
    assert_eq!(recipe.warmup, 2);
    assert_eq!(recipe.programs(), ["prepare"], "it may make the others");
}

#[test]
fn plain_command_has_no_surrounding_commands() {
    let recipe = recipe(&job(&[])).unwrap();
    assert!(recipe.prepare.is_none() && recipe.server.is_none() && recipe.cleanup.is_none() && recipe.warmup == 0);
    assert_eq!(recipe.command.environment, BTreeMap::new());
    assert_eq!(recipe.programs(), ["true"]);
}

#[test]
fn shell_runs_a_command_line_only_if_requested() {
    let line = "ls | wc -l > {threads}";
    let shell = job(&[("argv", line), ("prepare", r#"["make", "clean"]"#), ("cleanup", "rm x"), ("shell", "true")]);
    assert_eq!(check(&shell.parameters), Ok(()));
    let recipe = recipe(&shell).unwrap();
    assert_eq!(recipe.command.argv, ["sh", "-c", "ls | wc -l > 3"]);
    assert_eq!(recipe.prepare.unwrap().argv, ["make", "clean"], "a list stays a list");
    assert_eq!(recipe.cleanup.unwrap().argv, ["sh", "-c", "rm x"]);
    let unasked = check(&job(&[("argv", line)]).parameters).unwrap_err();
    assert!(unasked.contains("shell=true"), "{unasked}");
}

#[test]
fn server_has_exactly_one_readiness_check() {
    let of = |text| ready(&job(&[("ready", text)]).parameters);
    assert!(matches!(of(""), Ok(Readiness::Started)));
    assert!(matches!(of("started"), Ok(Readiness::Started)));
    assert!(matches!(of("port:65535"), Ok(Readiness::Port(65535))));
    assert!(matches!(of("file:/run/a:b"), Ok(Readiness::File(path)) if path.as_os_str() == "/run/a:b"));
    assert!(matches!(of("line:port: \\d+"), Ok(Readiness::Line(line)) if line.as_str() == "port: \\d+"));
    assert!(
        matches!(of("command:pg_isready -h 'a b'"), Ok(Readiness::Command(words)) if words == ["pg_isready", "-h", "a b"])
    );
    for wrong in ["command:", "command:a 'b", "command", "port:0", "soon"] {
        assert!(of(wrong).unwrap_err().starts_with(&format!("ready '{wrong}': ")), "{wrong}");
    }
}

#[test]
fn json_pointer_finds_the_number() {
    let output = r#"{"jobs": [{"iops": 1200, "a/b": "2.5"}], "name": "x", "none": null}"#;
    let read_at = |pointer, stdout| {
        let job = job(&[("metric-json", pointer), ("higher-is-better", "true")]);
        let samples = read(&job, &finished(stdout, "", Exit::Code(0))).map_err(|failure| failure.to_string())?;
        Ok::<_, String>((samples[0].series.clone(), samples[0].value))
    };
    let higher = |value| Ok(("value-higher".to_owned(), value));
    assert_eq!(read_at("/jobs/0/iops", output), higher(1200.0));
    assert_eq!(read_at("/jobs/0/a~1b", output), higher(2.5));
    for (pointer, stdout, expected) in [
        ("/jobs/1/iops", output, "nothing at '/jobs/1/iops'"),
        ("/name", output, "\"x\", which is not a number"),
        ("/none", output, "null, which is not a number"),
        ("/name", "rate: 5", "not a JSON document"),
        ("/name", "{} {}", "not a JSON document"),
    ] {
        let error = read_at(pointer, stdout).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let both = check(&job(&[("metric", "(x)"), ("metric-json", "/x")]).parameters).unwrap_err();
    assert!(both.contains("both metric and metric-json are set"), "{both}");
}

#[test]
fn exit_status_can_be_ignored_but_a_signal_cannot() {
    let ignoring = job(&[("ignore-failure", "true")]);
    assert!(read(&ignoring, &finished("", "", Exit::Code(3))).is_ok());
    for exit in [Exit::Signal(11), Exit::Stopped, Exit::TimedOut] {
        assert!(read(&ignoring, &finished("", "", exit)).is_err(), "{exit}");
    }
}
