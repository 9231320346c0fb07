//! `nearfar place` as a whole: on the simulator, where it is killed and goes on, and with commands that run here.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml");

fn nearfar(store: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(store).args(args).env_remove("NEARFAR_STORE");
    command.env("NEARFAR_STATE", store.with_extension("state"));
    command
}

fn run(store: &Path, args: &[&str]) -> Output {
    nearfar(store, args).output().expect("the program starts")
}

/// The answer of a race, and the exit status that came with it.
fn answer(store: &Path, flags: &[&str], command: &[&str]) -> (Value, i32) {
    let args = [&["place", "--quiet", "--format", "json"], flags, &["--"], command].concat();
    let output = run(store, &args);
    let said = String::from_utf8_lossy(&output.stderr);
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {said}"));
    (json, output.status.code().expect("no signal ended it"))
}

fn word(standing: &Value) -> String {
    match &standing["word"] {
        Value::String(word) => word.clone(),
        word => word.as_object().and_then(|word| word.keys().next().cloned()).expect("a word"),
    }
}

fn trials(store: &Path) -> usize {
    let output = run(store, &["show", "--trials", "--format", "json"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("show prints JSON");
    json["trials"].as_array().expect("trials is a list").len()
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn the_answer_keeps_its_contract() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let sim = format!("{MODEL}:1");
    let flags = ["--sim", &sim, "--budget", "10h", "--threads", "3"];
    let (json, status) = answer(&folder.path().join("r.db"), &flags, &["sharing", "-t", "{threads}"]);
    assert_eq!(status, 0, "{json:#}");
    assert_eq!(json["claim"], "better", "{json:#}");
    assert_eq!(json["candidates"].as_u64(), Some(json["ranking"].as_array().expect("a list").len() as u64));
    assert!(json["trials"].as_u64().expect("a number") > 20);
    assert!(json["raw_placements"].as_str().is_some_and(|raw| raw.parse::<f64>().is_ok_and(|raw| raw > 200.0)));
    let versus = &json["versus_kernel"];
    let (low, change, high) = (&versus["ci_low"], &versus["change_percent"], &versus["ci_high"]);
    let [low, change, high] = [low, change, high].map(|number| number.as_f64().expect("a number"));
    assert!(low < change && change < high && high < 0.0, "less time than the kernel's choice: {versus:#}");
    let cpus = json["winner"]["cpus"].as_str().expect("the winner is seated");
    assert!(cpus.starts_with("0-"), "three threads that share want the three cores of one L3: {json:#}");
    assert_eq!(json["lines"]["taskset"], format!("taskset -c {cpus} sharing -t 3"));
    assert!(json["ties"].is_array() && json["lines"]["systemd"].is_string() && json["lines"]["slurm"].is_string());
}

#[test]
fn killed_after_every_kth_trial_it_answers_the_same() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let sim = format!("{MODEL}:5");
    let flags = ["--sim", &sim, "--budget", "10h", "--only", "compact", "--only", "smt-one-l3", "--threads", "4"];
    let whole = folder.path().join("whole.db");
    let (expected, _) = answer(&whole, &flags, &["app"]);
    let total = trials(&whole);
    assert!(total > 30, "{total} trials: there should be a race and its confirmation");
    for k in (1..total).step_by(7) {
        let store = folder.path().join(format!("killed-{k}.db"));
        let faults = format!("kill-after={k}");
        let killed = run(&store, &[&["place", "-q", "--sim-faults", &faults], &flags[..], &["--", "app"]].concat());
        assert!(!killed.status.success(), "it should have been killed after trial {k}");
        assert_eq!(trials(&store), k, "what was stored stays");
        let (resumed, _) = answer(&store, &flags, &["app"]);
        assert_eq!(resumed, expected, "killed after {k}");
    }
}

#[test]
fn a_budget_ends_it_and_says_so() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let sim = format!("{MODEL}:2");
    // Ten seconds a trial, 39 candidates: two blocks at most.
    let (json, _) = answer(&folder.path().join("r.db"), &["--sim", &sim, "--budget", "8m"], &["app", "{threads}"]);
    assert_eq!(json["search"], "out-of-budget", "{json:#}");
    assert!(json["seconds"].as_f64().expect("a number") < 12.0 * 60.0, "{}", json["seconds"]);
    let (json, _) = answer(&folder.path().join("t.db"), &["--sim", &sim, "--max-trials", "90"], &["app", "{threads}"]);
    assert_eq!(json["search"], "out-of-budget", "{json:#}");
    assert!(json["trials"].as_u64().expect("a number") <= 92, "{}", json["trials"]);
}

#[test]
fn escapes_are_told_and_not_ranked() {
    if cpus() < 2 {
        println!("skipped: escapes_are_told_and_not_ranked: one cpu offers no seat to escape from");
        return;
    }
    let folder = tempfile::tempdir().expect("a scratch folder");
    // Every cpu of this machine in place of its seats.
    let escape = "taskset -pc 0-4095 $$ >/dev/null; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let flags = ["--budget", "30s", "--only", "one-core", "--shell"];
    let (json, status) = answer(&folder.path().join("r.db"), &flags, &[escape]);
    let standing = json["ranking"].as_array().expect("a list").last().expect("two candidates").clone();
    assert_eq!(
        (standing["placement"].as_str(), word(&standing).as_str()),
        (Some("one-core"), "not-proven"),
        "{json:#}"
    );
    assert!(standing["word"]["not-proven"].as_str().expect("why").contains("affinity"), "{standing:#}");
    assert_eq!((json["winner"]["placement"].as_str(), status), (Some("kernel"), 0), "{json:#}");
}

#[test]
fn failures_are_stored_and_told() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let store = folder.path().join("r.db");
    let (json, status) = answer(&store, &["--budget", "20s"], &["sh", "-c", "echo no luck >&2; exit 3"]);
    assert_eq!((json["claim"].as_str(), status), (Some("no-reference"), 1), "{json:#}");
    let why = json["reference_failed"].as_str().expect("why");
    assert!(why.contains("status 3") && why.contains("no luck"), "{why}");
    assert_eq!(trials(&store), 2, "tried twice, stored twice");
    let (json, status) = answer(&store, &["--budget", "3s", "--ignore-failure"], &["sh", "-c", "exit 3"]);
    assert!(json["claim"] != "no-reference" && status != 1, "{json:#}");
}

#[test]
fn explaining_measures_nothing() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let store = folder.path().join("r.db");
    let output = run(&store, &["place", "--explain", "--from-nothing", "--", "app"]);
    assert_eq!(output.status.code(), Some(2), "an unknown flag");
    let output = run(&store, &["place", "--explain", "--sim", MODEL, "--threads", "6", "--", "app"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("924") && text.contains("smt-one-l3"), "{text}");
    assert!(!store.exists());
}

#[test]
fn a_kept_placement_is_applied() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let store = folder.path().join("r.db");
    let unknown = run(&store, &["place", "--use", "web", "--", "true"]);
    assert_eq!(unknown.status.code(), Some(2));
    if cpus() < 2 {
        println!("skipped: a_kept_placement_is_applied: one cpu offers nothing to decide");
        return;
    }
    let sim = format!("{MODEL}:1");
    let simulated = run(&store, &["place", "--sim", &sim, "--save", "web", "--", "app"]);
    assert_eq!(simulated.status.code(), Some(2), "what was not measured is not kept");
    // Fails on one cpu, so leaving it to the kernel is all that is left.
    let (json, _) = answer(&store, &["--budget", "20s", "--save", "web"], &["sh", "-c", "test $(nproc) -gt 1"]);
    assert_eq!(json["claim"], "kernel-is-best", "{json:#}");
    let wrong = run(&store, &["place", "--use", "wob", "--", "true"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("web"), "{wrong:?}");
    let used = run(&store, &["place", "--use", "web", "--", "sh", "-c", "echo {threads} {cpus} {node}; exit 7"]);
    let (said, told) = (String::from_utf8_lossy(&used.stderr), String::from_utf8_lossy(&used.stdout));
    assert_eq!(used.status.code(), Some(7), "the command's own status: {said}");
    assert!(!told.contains('{') && told.split_whitespace().count() == 3, "{told}");
}

#[test]
fn ctrl_c_answers_and_the_same_command_goes_on() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let store = folder.path().join("r.db");
    let args = ["place", "--budget", "2s", "--max-trials", "60", "--format", "json", "--", "sleep", "0.05"];
    let mut child = nearfar(&store, &args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let begun = Instant::now();
    while !store.exists() || stored(&store) < 3 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it should have measured something");
        std::thread::yield_now();
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill starts");
    assert!(interrupted.success());
    let status = child.wait().expect("it ends");
    let output = std::io::read_to_string(child.stdout.take().expect("a pipe")).expect("text");
    let json: Value = serde_json::from_str(&output).expect("an answer");
    assert_eq!((status.code(), json["claim"].as_str()), (Some(130), Some("unfinished")), "{json:#}");
    let before = trials(&store);
    let again = run(&store, &args);
    assert!(String::from_utf8_lossy(&again.stderr).contains("resuming run"), "{again:?}");
    let json: Value = serde_json::from_slice(&again.stdout).expect("an answer");
    assert!(json["claim"] != "unfinished" && trials(&store) > before, "{json:#}");
}

/// Trials in a file that another process writes.
fn stored(store: &Path) -> usize {
    let output = run(store, &["show", "--trials", "--format", "json"]);
    let json: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    json.and_then(|json| json["trials"].as_array().map(Vec::len)).unwrap_or(0)
}

/// Whether these programs are here; says what is missing.
fn have(test: &str, programs: &[&str]) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let there = |program: &&&str| std::env::split_paths(&path).any(|folder| folder.join(program).exists());
    let missing: Vec<&&str> = programs.iter().filter(|program| !there(program)).collect();
    if !missing.is_empty() {
        println!("skipped: {test}: {missing:?} are not installed");
    }
    missing.is_empty()
}

/// A real command raced for a short time: whatever wins, every candidate was proven on its seats.
fn races(flags: &[&str], command: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let store = folder.path().join("r.db");
    let (json, status) = answer(&store, &[&["--budget", "60s", "--max-trials", "40"], flags].concat(), command);
    assert!(status == 0 || status == 3, "{status}: {json:#}");
    assert!(json["winner"].is_object(), "{json:#}");
    for standing in json["ranking"].as_array().expect("a list") {
        let word = word(standing);
        assert!(word != "failed" && word != "not-proven", "{standing:#}");
    }
    let shown = run(&store, &["show", "--trials", "--format", "json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("show prints JSON");
    for trial in shown["trials"].as_array().expect("a list") {
        assert_eq!(trial["status"], "completed", "{trial:#}");
        let seats = trial["cpus"].as_str().expect("a list of cpus");
        assert!(seats.is_empty() || trial["evidence"]["mask_at_start"] == trial["cpus"], "{trial:#}");
    }
    json
}

/// Data that compresses like text.
fn text_file(folder: &Path) -> String {
    let file = folder.join("data");
    let text: String = (0..60_000_u64).map(|n| format!("{} nodes and {} cpus\n", n * n % 977, n * 31 % 53)).collect();
    std::fs::write(&file, text).expect("the folder can be written");
    file.to_str().expect("the path is text").to_string()
}

#[test]
fn compressors_are_placed() {
    if !have("compressors_are_placed", &["xz", "zstd"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = text_file(folder.path());
    races(&[], &["xz", "-kc", "-T1", &file]);
    let json = races(&["--prepare", &format!("rm -f {file}.zst")], &["zstd", "-q", "-T{threads}", &file]);
    assert_eq!(json["threads_searched"], true, "{json:#}");
}

#[test]
fn a_number_in_the_output_decides() {
    if !have("a_number_in_the_output_decides", &["sysbench"]) {
        return;
    }
    let flags = ["--metric", r"events per second: *([\d.]+)", "--higher-is-better"];
    let json = races(&flags, &["sysbench", "--time=0", "--events=100", "--threads={threads}", "cpu", "run"]);
    assert_eq!(
        (json["metric"]["name"].as_str(), json["metric"]["better"].as_str()),
        (Some("value-higher"), Some("higher"))
    );
}

#[test]
fn openmp_is_told_its_threads() {
    if !have("openmp_is_told_its_threads", &["gcc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a scratch folder");
    let (source, program) = (folder.path().join("team.c"), folder.path().join("team"));
    let text = "#include <omp.h>\n#include <stdio.h>\n#include <stdlib.h>\nint main(int n, char **a) {\n\
                double s = 0; int t = 0;\n#pragma omp parallel reduction(+:s)\n{\n#pragma omp single\nt = \
                omp_get_num_threads();\n#pragma omp for\nfor (int i = 1; i < 3000000; i++) s += 1.0 / i; }\n\
                printf(\"threads %d\\n\", t); return n > 1 && t != atoi(a[1]); }\n";
    std::fs::write(&source, text).expect("the folder can be written");
    let built = Command::new("gcc").args(["-O2", "-fopenmp", "-o"]).args([&program, &source]).output();
    if !built.as_ref().is_ok_and(|built| built.status.success()) {
        println!("skipped: openmp_is_told_its_threads: gcc has no OpenMP here: {built:?}");
        return;
    }
    let program = program.to_str().expect("the path is text");
    // It fails unless OMP_NUM_THREADS is the number in its command line.
    races(&["--openmp"], &[program, "{threads}"]);
}

#[test]
fn a_server_and_its_load_are_placed_together() {
    if !have("a_server_and_its_load_are_placed_together", &["redis-server", "redis-benchmark"]) {
        return;
    }
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let server = format!("redis-server --port {port} --bind 127.0.0.1 --save '' --daemonize no");
    let ready = format!("port:{port}");
    let load = format!("redis-benchmark -p {port} -n 2000 -t get --csv");
    let flags = ["--ready", &ready, "--metric", r#""GET","([\d.]+)""#, "--higher-is-better"];
    let words: Vec<&str> = load.split(' ').collect();
    let json = races(&[&["--server", &server], &flags[..]].concat(), &words);
    let standings = json["ranking"].as_array().expect("a list");
    if cpus() > 1 {
        let apart = |one: &&Value| one["second"].as_str().is_some_and(|second| !second.is_empty());
        assert!(standings.iter().any(|one| apart(&one)), "some candidate seats the server: {json:#}");
    }
    // The same pair the other way round: the command is the server.
    let server =
        ["redis-server", "--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"];
    let other = races(&[&["--with", &load], &flags[..]].concat(), &server);
    assert_eq!(other["candidates"], json["candidates"]);
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "no server is left behind");
}
