//! `nearfar place` from the command line: on the simulator, where it is killed and resumes, and with real commands.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

mod ports;

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

/// Runs a race and returns its result as JSON, and the exit status.
fn race_result(store: &Path, flags: &[&str], command: &[&str]) -> (Value, i32) {
    let args = [&["place", "--quiet", "--format", "json"], flags, &["--"], command].concat();
    let output = run(store, &args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {stderr}"));
    (json, output.status.code().expect("no signal ended the process"))
}

/// Returns the claim about a candidate.
fn claim(row: &Value) -> String {
    match &row["word"] {
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
fn place_result_has_the_documented_fields() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sim = format!("{MODEL}:1");
    let flags = ["--sim", &sim, "--budget", "10h", "--threads", "3"];
    let (json, status) = race_result(&dir.path().join("r.db"), &flags, &["sharing", "-t", "{threads}"]);
    assert_eq!(status, 0, "{json:#}");
    assert_eq!(json["claim"], "better", "{json:#}");
    assert_eq!(json["candidates"].as_u64(), Some(json["ranking"].as_array().expect("a list").len() as u64));
    assert!(json["trials"].as_u64().expect("a number") > 20);
    assert!(json["raw_placements"].as_str().is_some_and(|raw| raw.parse::<f64>().is_ok_and(|raw| raw > 200.0)));
    let versus = &json["versus_kernel"];
    let (low, change, high) = (&versus["ci_low"], &versus["change_percent"], &versus["ci_high"]);
    let [low, change, high] = [low, change, high].map(|number| number.as_f64().expect("a number"));
    assert!(low < change && change < high && high < 0.0, "less time than the placement of the kernel: {versus:#}");
    let cpus = json["winner"]["cpus"].as_str().expect("the winner is pinned");
    assert!(cpus.starts_with("0-"), "three threads that share data are fastest on the cores of one L3 cache: {json:#}");
    assert_eq!(json["lines"]["taskset"], format!("taskset -c {cpus} sharing -t 3"));
    assert!(json["ties"].is_array() && json["lines"]["systemd"].is_string() && json["lines"]["slurm"].is_string());
}

#[test]
fn race_killed_after_every_kth_trial_has_the_same_result() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sim = format!("{MODEL}:5");
    let flags = ["--sim", &sim, "--budget", "10h", "--only", "compact", "--only", "smt-one-l3", "--threads", "4"];
    let whole = dir.path().join("whole.db");
    let (expected, _) = race_result(&whole, &flags, &["app"]);
    let total = trials(&whole);
    assert!(total > 30, "{total} trials: too few for a race and its confirmation");
    for k in (1..total).step_by(7) {
        let store = dir.path().join(format!("killed-{k}.db"));
        let faults = format!("kill-after={k}");
        let killed = run(&store, &[&["place", "-q", "--sim-faults", &faults], &flags[..], &["--", "app"]].concat());
        assert!(!killed.status.success(), "it must be killed after trial {k}");
        assert_eq!(trials(&store), k, "stored trials remain");
        let (resumed, _) = race_result(&store, &flags, &["app"]);
        assert_eq!(resumed, expected, "killed after {k}");
    }
}

#[test]
fn search_killed_after_every_trial_has_the_same_result() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sim = format!("{MODEL}:5");
    let flags = ["--sim", &sim, "--max-trials", "26"];
    let command = ["sharing", "{threads}"];
    let whole = dir.path().join("whole.db");
    let (expected, _) = race_result(&whole, &flags, &command);
    let total = trials(&whole);
    assert!((24..=26).contains(&total), "{total} trials");
    assert!(expected["outlook"].is_object() && expected["versus_kernel"]["pairs"].as_u64() >= Some(3), "{expected:#}");
    for k in 1..total {
        let store = dir.path().join(format!("killed-{k}.db"));
        let faults = format!("kill-after={k}");
        let args = [&["place", "-q", "--sim-faults", &faults], &flags[..], &["--"], &command].concat();
        assert!(!run(&store, &args).status.success(), "it must be killed after trial {k}");
        assert_eq!(trials(&store), k, "stored trials remain");
        let (resumed, _) = race_result(&store, &flags, &command);
        assert_eq!(resumed, expected, "killed after {k}");
    }
}

#[test]
fn search_with_stored_priors_resumes_after_another_ended() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sim = format!("{MODEL}:5");
    let flags = ["--sim", &sim, "--max-trials", "26", "--prior", "store"];
    let command = ["sharing", "{threads}"];
    let (expected, _) = race_result(&dir.path().join("whole.db"), &flags, &command);
    let store = dir.path().join("shared.db");
    let args = [&["place", "-q", "--sim-faults", "kill-after=9"], &flags[..], &["--"], &command].concat();
    assert!(!run(&store, &args).status.success(), "it must be killed");
    let (other, _) = race_result(&store, &["--sim", &sim, "--max-trials", "26"], &["another", "{threads}"]);
    assert_ne!(other["claim"], "unfinished", "{other:#}");
    let before = run(&store, &["show", "--runs", "--format", "json"]).stdout;
    assert_eq!(race_result(&store, &flags, &command).0, expected);
    let runs = |text: &[u8]| {
        let json: Value = serde_json::from_slice(text).expect("show prints JSON");
        json["runs"].as_array().expect("a list").len()
    };
    let after = run(&store, &["show", "--runs", "--format", "json"]).stdout;
    assert_eq!((runs(&before), runs(&after)), (2, 2), "no further run began");
}

/// Returns the captures of machines for tests.
fn captures() -> Vec<String> {
    let dir =
        std::fs::read_dir(Path::new(MODEL).parent().expect("it is in a directory")).expect("the directory exists");
    let paths = dir.map(|entry| entry.expect("it is readable").path());
    let mut captures: Vec<String> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "xml"))
        .map(|path| path.to_str().expect("the path is UTF-8").to_string())
        .collect();
    captures.sort();
    captures
}

#[test]
fn default_budget_is_kept_and_answers_on_every_capture() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let captures = captures();
    assert!(captures.len() >= 7, "{captures:?}");
    for (index, capture) in captures.iter().enumerate() {
        for command in [&["sort"][..], &["sharing", "{threads}"]] {
            let store = dir.path().join(format!("{index}-{}.db", command.len()));
            // A trial of the simulator takes ten seconds.
            let (json, status) = race_result(&store, &["--sim", &format!("{capture}:3")], command);
            let seconds = json["seconds"].as_f64().expect("a number");
            assert!(seconds < 601.0, "{capture}: {seconds}");
            assert_eq!(status, 0, "{capture} {command:?}: {json:#}");
            let versus = &json["versus_kernel"];
            assert!(versus.is_null() || versus["pairs"].as_u64() >= Some(3), "{capture}: {versus:#}");
        }
    }
}

#[test]
fn dry_run_and_guess_search_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("r.db");
    let sim = format!("{MODEL}:1");
    let output = run(&store, &["place", "--dry-run", "--sim", &sim, "--", "app", "{threads}"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("Nothing was run") && text.contains("kernel, 12 threads"),
        "{text}"
    );
    let output = run(&store, &["place", "--dry-run", "--format", "json", "--sim", &sim, "--", "app", "{threads}"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("a plan");
    let forecasts = json["forecasts"].as_array().expect("a list");
    let of_ten_seconds = forecasts.iter().find(|one| one["trial_seconds"] == 10.0).expect("ten seconds");
    assert_eq!((of_ten_seconds["trials"].as_u64(), of_ten_seconds["pairs"].as_u64()), (Some(60), Some(6)));
    assert!(!store.exists());
    let (json, status) = race_result(&store, &["--sim", &sim, "--guess"], &["app", "{threads}"]);
    assert_eq!((json["claim"].as_str(), status), (Some("provisional"), 0), "{json:#}");
    assert_eq!(trials(&store), 1, "only the trial of kernel");
    assert!(json["outlook"]["winner"]["low"].is_number() && json["lines"].is_null(), "{json:#}");
}

const OTHER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/xeon-e5-2640-x2.xml");

#[test]
fn another_machine_is_predicted_from_a_stored_search() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("r.db");
    let sim = format!("{MODEL}:1");
    race_result(&store, &["--sim", &sim, "--max-trials", "30"], &["sharing", "{threads}"]);
    let before = trials(&store);
    let output = run(&store, &["place", "--from", OTHER, "--like", "latest", "--format", "json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert!(output.status.success() && trials(&store) == before, "nothing is measured");
    assert_eq!((&json["predicted"], &json["simulated"]), (&Value::from(true), &Value::from(true)), "{json:#}");
    assert_eq!(json["from"], "xeon-e5-2640-x2.xml");
    assert_eq!(json["like"]["program"], "sharing");
    assert_eq!(json["candidates"].as_u64(), Some(json["ranking"].as_array().expect("a list").len() as u64));
    let number = |value: &Value| value.as_f64().expect("a number");
    let change = &json["change"];
    assert!(number(&change["low"]) <= number(&change["mean"]) && number(&change["mean"]) <= number(&change["high"]));
    assert!(number(&json["missed_percent"]) <= number(&json["missed_percent_90"]), "{json:#}");
    assert!(json["lines"].is_null() && json["claim"].is_null(), "a prediction is not a result: {json:#}");
    let output = run(&store, &["place", "--from", OTHER, "--like", "latest"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().next().expect("a line");
    assert!(first.contains("PREDICTED for xeon-e5-2640-x2.xml from run"), "{text}");
    assert!(text.contains("nothing was measured") && text.contains("SIMULATED"), "{text}");
    // A range that contains zero is not a gain.
    let is_clear = number(&change["high"]) < 0.0;
    assert_eq!(text.contains("is predicted to be better"), is_clear, "{text}");
    assert_eq!(text.contains("No placement is"), !is_clear, "{text}");
}

#[test]
fn predictions_without_evidence_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("r.db");
    let sim = format!("{MODEL}:1");
    let garbage = dir.path().join("garbage.xml");
    std::fs::write(&garbage, "<topology").expect("the directory is writable");
    let refused = |from: &str, like: &str, reason: &str, hint: &str| {
        let output = run(&store, &["place", "--from", from, "--like", like]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(reason) && stderr.contains(hint), "{reason}: {stderr}");
    };
    refused(OTHER, "latest", "r.db", "hint: ");
    race_result(&store, &["--sim", &sim, "--guess"], &["app", "{threads}"]);
    refused(OTHER, "latest", "has no results of the baseline and of another placement", "hint: measure the program");
    refused(OTHER, "123456", "123456", "hint: ");
    refused(garbage.to_str().expect("the path is UTF-8"), "latest", "garbage.xml", "");
    assert!(run(&store, &["run", "quick", "--smoke", "-q", "--sim", &sim]).status.success());
    let output = run(&store, &["show", "--runs", "--format", "json"]);
    let runs: Value = serde_json::from_slice(&output.stdout).expect("show prints JSON");
    let quick = runs["runs"].as_array().expect("a list").last().expect("two runs")["id"].as_str().expect("an ID");
    refused(OTHER, quick, "is not a search", "hint: list runs");
    for args in [&["place", "--like", "latest"][..], &["place", "--from", OTHER, "--like", "latest", "--", "app"]] {
        assert_eq!(run(&store, args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn start_of_a_search_reports_what_can_be_expected() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let args = ["place", "--sim", &format!("{MODEL}:1"), "--", "app", "{threads}"];
    let output = run(&dir.path().join("r.db"), &args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("trials fit into 10m00s: usually within"), "{stderr}");
    assert!(stderr.contains("a firm answer takes about"), "{stderr}");
}

#[test]
fn unfinished_race_of_an_earlier_version_resumes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (new, old) = (dir.path().join("new.db"), dir.path().join("old.db"));
    let sim = format!("{MODEL}:1");
    let flags = ["--sim", &sim, "--threads", "4", "--max-trials", "60"];
    let args = [&["place", "-q", "--sim-faults", "kill-after=3"], &flags[..], &["--", "app"]].concat();
    assert!(!run(&new, &args).status.success());
    let mut record = store::Store::open(&new).and_then(|store| store.run("latest")).expect("a run");
    record.plan.race.as_mut().expect("a race").search = None;
    store::Store::open(&old).and_then(|mut store| store.begin_run(&record)).expect("the run is stored");
    let output = run(&old, &[&["place", "--format", "json"], &flags[..], &["--", "app"]].concat());
    assert!(String::from_utf8_lossy(&output.stderr).contains("resuming run"), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("a result");
    assert!(json["outlook"].is_null(), "it is a race: {json:#}");
}

#[test]
fn budget_ends_the_race_and_is_reported() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sim = format!("{MODEL}:2");
    // Ten seconds per trial, 39 candidates: a race could not run two blocks.
    let (json, status) =
        race_result(&dir.path().join("r.db"), &["--sim", &sim, "--budget", "8m"], &["app", "{threads}"]);
    assert_eq!(status, 0, "{json:#}");
    assert!(json["seconds"].as_f64().expect("a number") < 8.0 * 60.0 + 1.0, "{}", json["seconds"]);
    let (json, _) =
        race_result(&dir.path().join("t.db"), &["--sim", &sim, "--max-trials", "40"], &["app", "{threads}"]);
    assert!(json["versus_kernel"]["pairs"].as_u64().is_some_and(|pairs| pairs >= 4), "{json:#}");
    assert!(json["trials"].as_u64().expect("a number") <= 40, "{}", json["trials"]);
}

#[test]
fn unverified_candidates_are_reported_and_not_ranked() {
    if cpus() < 2 {
        println!("skipped: unverified_candidates_are_reported_and_not_ranked: needs 2 CPUs");
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Changes the affinity to all CPUs of this machine.
    let escape = "taskset -pc 0-4095 $$ >/dev/null; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let flags = ["--budget", "30s", "--only", "one-core", "--shell"];
    let (json, status) = race_result(&dir.path().join("r.db"), &flags, &[escape]);
    let row = json["ranking"].as_array().expect("a list").last().expect("two candidates").clone();
    assert_eq!((row["placement"].as_str(), claim(&row).as_str()), (Some("one-core"), "not-proven"), "{json:#}");
    assert!(row["word"]["not-proven"].as_str().expect("a reason").contains("affinity"), "{row:#}");
    assert_eq!((json["winner"]["placement"].as_str(), status), (Some("kernel"), 0), "{json:#}");
}

#[test]
fn failures_are_stored_and_reported() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("r.db");
    let (json, status) = race_result(&store, &["--budget", "20s"], &["sh", "-c", "echo no luck >&2; exit 3"]);
    assert_eq!((json["claim"].as_str(), status), (Some("no-reference"), 1), "{json:#}");
    let reason = json["reference_failed"].as_str().expect("a reason");
    assert!(reason.contains("status 3") && reason.contains("no luck"), "{reason}");
    assert_eq!(trials(&store), 3, "all attempts are stored");
    let (json, status) = race_result(&store, &["--budget", "3s", "--ignore-failure"], &["sh", "-c", "exit 3"]);
    assert!(json["claim"] != "no-reference" && status != 1, "{json:#}");
}

#[test]
fn explain_measures_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("r.db");
    let output = run(&store, &["place", "--explain", "--from-nothing", "--", "app"]);
    assert_eq!(output.status.code(), Some(2), "an unknown flag");
    let output = run(&store, &["place", "--explain", "--sim", MODEL, "--threads", "6", "--", "app"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("924") && text.contains("smt-one-l3"), "{text}");
    assert!(!store.exists());
}

#[test]
fn saved_placement_is_applied() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("r.db");
    let unknown = run(&store, &["place", "--use", "web", "--", "true"]);
    assert_eq!(unknown.status.code(), Some(2));
    if cpus() < 2 {
        println!("skipped: saved_placement_is_applied: needs 2 CPUs");
        return;
    }
    let sim = format!("{MODEL}:1");
    let simulated = run(&store, &["place", "--sim", &sim, "--save", "web", "--", "app"]);
    assert_eq!(simulated.status.code(), Some(2), "simulated placements are not saved");
    // The command fails on one CPU, so only the placement of the kernel succeeds.
    let (json, _) = race_result(&store, &["--budget", "20s", "--save", "web"], &["sh", "-c", "test $(nproc) -gt 1"]);
    assert_eq!(json["claim"], "kernel-is-best", "{json:#}");
    let wrong = run(&store, &["place", "--use", "wob", "--", "true"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("web"), "{wrong:?}");
    let used = run(&store, &["place", "--use", "web", "--", "sh", "-c", "echo {threads} {cpus} {node}; exit 7"]);
    let (stderr, stdout) = (String::from_utf8_lossy(&used.stderr), String::from_utf8_lossy(&used.stdout));
    assert_eq!(used.status.code(), Some(7), "the exit status of the command: {stderr}");
    assert!(!stdout.contains('{') && stdout.split_whitespace().count() == 3, "{stdout}");
}

#[test]
fn interrupted_race_prints_its_result_and_resumes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("r.db");
    let args = ["place", "--budget", "2s", "--max-trials", "60", "--format", "json", "--", "sleep", "0.05"];
    let mut child =
        nearfar(&store, &args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
    let start = Instant::now();
    while !store.exists() || stored_trials(&store) < 3 {
        assert!(start.elapsed() < Duration::from_secs(60), "no trials were stored");
        std::thread::yield_now();
    }
    let interrupted =
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill(1) is installed");
    assert!(interrupted.success());
    let status = child.wait().expect("the process ends");
    let output = std::io::read_to_string(child.stdout.take().expect("a pipe")).expect("text");
    let json: Value = serde_json::from_str(&output).expect("a result");
    assert_eq!((status.code(), json["claim"].as_str()), (Some(130), Some("unfinished")), "{json:#}");
    let before = trials(&store);
    let again = run(&store, &args);
    assert!(String::from_utf8_lossy(&again.stderr).contains("resuming run"), "{again:?}");
    let json: Value = serde_json::from_slice(&again.stdout).expect("a result");
    assert!(json["claim"] != "unfinished" && trials(&store) > before, "{json:#}");
}

/// Returns the number of trials in a results file that another process is writing.
fn stored_trials(store: &Path) -> usize {
    let output = run(store, &["show", "--trials", "--format", "json"]);
    let json: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    json.and_then(|json| json["trials"].as_array().map(Vec::len)).unwrap_or(0)
}

/// Whether these programs are installed; prints the missing ones.
fn are_installed(test: &str, programs: &[&str]) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let is_installed = |program: &&&str| std::env::split_paths(&path).any(|dir| dir.join(program).exists());
    let missing: Vec<&&str> = programs.iter().filter(|program| !is_installed(program)).collect();
    if !missing.is_empty() {
        println!("skipped: {test}: {missing:?} are not installed");
    }
    missing.is_empty()
}

/// Races a real command for a short time and checks that the placement of every trial is verified.
fn race(flags: &[&str], command: &[&str]) -> Value {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("r.db");
    let (json, status) = race_result(&store, &[&["--budget", "60s", "--max-trials", "40"], flags].concat(), command);
    assert!(status == 0 || status == 3, "{status}: {json:#}");
    assert!(json["winner"].is_object(), "{json:#}");
    for row in json["ranking"].as_array().expect("a list") {
        let claim = claim(row);
        assert!(claim != "failed" && claim != "not-proven", "{row:#}");
        let value = &row["measured"];
        let blocks = row["blocks"].as_u64().filter(|blocks| *blocks > 0);
        assert_eq!(value["trials"].as_u64(), blocks, "{row:#}");
        assert!(value.is_null() || value["ci_low"].as_f64() <= value["median"].as_f64(), "{row:#}");
    }
    let strict = run(&store, &["show", "--strict"]);
    assert_eq!(strict.status.code(), Some(2), "the result of a search depends on all its trials: {strict:?}");
    let shown = run(&store, &["show", "--trials", "--format", "json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("show prints JSON");
    for trial in shown["trials"].as_array().expect("a list") {
        // A trial that other programs slow down fivefold is killed; trials of the baseline are not.
        if trial["status"] == "timed-out" {
            assert_ne!(trial["placement"], json["baseline"]["placement"], "{trial:#}");
            continue;
        }
        assert_eq!(trial["status"], "completed", "{trial:#}");
        let cpus = trial["cpus"].as_str().expect("a list of CPUs");
        assert!(cpus.is_empty() || trial["evidence"]["mask_at_start"] == trial["cpus"], "{trial:#}");
    }
    json
}

/// Writes a file that compresses like text, and returns its path.
fn text_file(dir: &Path) -> String {
    let file = dir.join("data");
    let text: String = (0..60_000_u64).map(|n| format!("{} nodes and {} cpus\n", n * n % 977, n * 31 % 53)).collect();
    std::fs::write(&file, text).expect("the directory is writable");
    file.to_str().expect("the path is UTF-8").to_string()
}

#[test]
fn compressors_are_placed() {
    if !are_installed("compressors_are_placed", &["xz", "zstd"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = text_file(dir.path());
    race(&[], &["xz", "-kc", "-T1", &file]);
    let json = race(&["--prepare", &format!("rm -f {file}.zst")], &["zstd", "-q", "-T{threads}", &file]);
    assert_eq!(json["threads_searched"], true, "{json:#}");
}

#[test]
fn metric_is_read_from_the_output() {
    if !are_installed("metric_is_read_from_the_output", &["sysbench"]) {
        return;
    }
    let flags = ["--metric", r"events per second: *([\d.]+)", "--higher-is-better"];
    let json = race(&flags, &["sysbench", "--time=0", "--events=100", "--threads={threads}", "cpu", "run"]);
    assert_eq!(
        (json["metric"]["name"].as_str(), json["metric"]["better"].as_str()),
        (Some("value-higher"), Some("higher"))
    );
}

#[test]
fn openmp_programs_receive_the_number_of_threads() {
    if !are_installed("openmp_programs_receive_the_number_of_threads", &["gcc"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (source, program) = (dir.path().join("team.c"), dir.path().join("team"));
    let text = "#include <omp.h>\n#include <stdio.h>\n#include <stdlib.h>\nint main(int n, char **a) {\n\
                double s = 0; int t = 0;\n#pragma omp parallel reduction(+:s)\n{\n#pragma omp single\nt = \
                omp_get_num_threads();\n#pragma omp for\nfor (int i = 1; i < 3000000; i++) s += 1.0 / i; }\n\
                printf(\"threads %d\\n\", t); return n > 1 && t != atoi(a[1]); }\n";
    std::fs::write(&source, text).expect("the directory is writable");
    let built = Command::new("gcc").args(["-O2", "-fopenmp", "-o"]).args([&program, &source]).output();
    if !built.as_ref().is_ok_and(|built| built.status.success()) {
        println!("skipped: openmp_programs_receive_the_number_of_threads: gcc does not support OpenMP: {built:?}");
        return;
    }
    let program = program.to_str().expect("the path is UTF-8");
    // The program fails unless OMP_NUM_THREADS is the number in its command line.
    race(&["--openmp"], &[program, "{threads}"]);
}

#[test]
fn server_and_its_load_are_placed_together() {
    if !are_installed("server_and_its_load_are_placed_together", &["redis-server", "redis-benchmark"]) {
        return;
    }
    let port = ports::free();
    let server = format!("redis-server --port {port} --bind 127.0.0.1 --save '' --daemonize no");
    let ready = format!("port:{port}");
    let load = format!("redis-benchmark -p {port} -n 2000 -t get --csv");
    let flags = ["--ready", &ready, "--metric", r#""GET","([\d.]+)""#, "--higher-is-better"];
    let argv: Vec<&str> = load.split(' ').collect();
    let json = race(&[&["--server", &server], &flags[..]].concat(), &argv);
    let ranking = json["ranking"].as_array().expect("a list");
    if cpus() > 1 {
        let has_server_cpus = |row: &&Value| row["second"].as_str().is_some_and(|second| !second.is_empty());
        assert!(ranking.iter().any(|row| has_server_cpus(&row)), "some candidate pins the server: {json:#}");
    }
    // The same pair with exchanged roles: the command is the server.
    let server =
        ["redis-server", "--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"];
    let exchanged = race(&[&["--with", &load], &flags[..]].concat(), &server);
    assert_eq!(exchanged["candidates"], json["candidates"]);
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "no server is left running");
}

/// With `--load`, the command is the server: a saved placement must be that of the server, not that of its load.
#[test]
fn saved_placement_of_a_server_is_its_own() {
    if cpus() < 2 {
        return println!("skipped: saved_placement_of_a_server_is_its_own: one CPU");
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("r.db");
    let seen = dir.path().join("server");
    let own = "$(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status)";
    // The load is fast if it runs on CPU 0 and its server on CPU 1.
    let server = format!("echo {own} >{0}.new; mv {0}.new {0}; exec sleep 1000", seen.display());
    let load = format!("[ {own} = 0 ] && [ $(cat {}) = 1 ] && echo rate 100 || echo rate 10", seen.display());
    let flags = ["--shell", "-C", "0,1", "--max-trials", "20", "--metric", "rate ([0-9]+)", "--higher-is-better"];
    let served = ["--load", &load, "--ready", &format!("file:{}", seen.display()), "--save", "server", "--", &server];
    let placed = run(&store, &[&["place"], &flags[..], &served].concat());
    assert_eq!(placed.status.code(), Some(0), "{placed:?}");
    let used = run(&store, &["place", "--use", "server", "--", "grep", "Cpus_allowed_list", "/proc/self/status"]);
    assert_eq!(String::from_utf8_lossy(&used.stdout), "Cpus_allowed_list:\t1\n", "{placed:?} {used:?}");
}

#[test]
fn server_that_daemonises_is_placed_and_stopped() {
    if !are_installed("server_that_daemonises_is_placed_and_stopped", &["redis-server", "redis-benchmark"]) {
        return;
    }
    let port = ports::free();
    let server = format!("redis-server --port {port} --bind 127.0.0.1 --save '' --daemonize yes");
    let load = format!("redis-benchmark -p {port} -n 2000 -t get --csv");
    let flags = ["--ready", &format!("port:{port}"), "--metric", r#""GET","([\d.]+)""#, "--higher-is-better"];
    race(&[&["--server", &server], &flags[..]].concat(), &load.split(' ').collect::<Vec<_>>());
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "no server is left running");
}

#[test]
fn missing_readiness_is_reported_during_and_after_the_wait() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("socket");
    let server = "sh -c 'echo bad configuration >&2; exec sleep 1000'";
    let ready = format!("file:{}", file.display());
    let flags = ["place", "--budget", "3s", "--server", server, "--ready", &ready, "--", "true"];
    let output = run(&dir.path().join("r.db"), &flags);
    let stderr = String::from_utf8_lossy(&output.stderr);
    // The sentences are wrapped.
    let stdout = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!("waiting for file '{}' of the server, at most 3s", file.display())), "{stderr}");
    let expected = "not ready after 3s";
    assert!(stdout.contains(expected) && stdout.contains("last output: bad configuration"), "{stdout}");
    assert!(stdout.contains("1 trial in") && !stdout.contains("Selection data"), "{stdout}");
}

/// A machine with two sockets, each with a memory node.
const TWO_SOCKETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/xeon-e5-2640-x2.xml");

#[test]
fn files_are_placed_apart_from_the_memory_of_a_command() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for seed in 1..=3 {
        let sim = format!("{TWO_SOCKETS}:{seed}");
        let flags = ["--sim", &sim, "--budget", "4h", "-t", "4", "-C", "0-5,12-17"];
        let (json, status) = race_result(&dir.path().join(format!("{seed}.db")), &flags, &["mapper"]);
        let winner = json["winner"]["placement"].as_str().expect("there is a winner");
        assert!(winner.contains("files:local"), "{json:#}");
        assert_eq!(json["winner"]["memory"], "interleave 0-1", "the bandwidth of both nodes: {json:#}");
        assert_eq!((json["file_race"]["outcome"].as_str(), status), (Some("better"), 0), "{json:#}");
        assert_eq!(json["lines"]["files"], "nearfar files --nodes 0 /data/model", "{json:#}");
        let versus = &json["file_race"]["versus_plain"];
        assert!(versus["ci_high"].as_f64().expect("a number") < -2.0, "a local file takes 8 % less time: {versus:#}");
    }
}

#[test]
fn files_that_follow_the_placement_stay_local() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sim = format!("{TWO_SOCKETS}:1");
    let flags = ["--sim", &sim, "--budget", "2h", "-t", "4"];
    let (json, _) = race_result(&dir.path().join("r.db"), &flags, &["reader"]);
    assert_eq!(json["file_race"]["outcome"], "not-better", "interleaving takes longer: {json:#}");
    assert!(json["lines"]["files"].as_str().is_some_and(|line| line.starts_with("nearfar files --nodes ")), "{json:#}");
    let (json, _) = race_result(&dir.path().join("other.db"), &flags, &["app"]);
    assert_eq!(json.get("file_race"), None, "it uses no files");
}

#[test]
fn short_budget_races_no_files_and_names_one_that_suffices() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sim = format!("{TWO_SOCKETS}:1");
    let budget = |budget| ["--sim", &sim, "--budget", budget, "-t", "4"];
    let (json, _) = race_result(&dir.path().join("r.db"), &budget("5m"), &["reader"]);
    assert_eq!(json["file_race"]["outcome"], "too-short", "{json:#}");
    assert!(json["file_race"]["budget_seconds"].as_f64().expect("a number") > 300.0, "{json:#}");
    let (json, _) = race_result(&dir.path().join("default.db"), &budget("20m"), &["reader"]);
    assert_ne!(json["file_race"]["outcome"], "too-short", "time was reserved: {json:#}");
}

#[test]
fn race_of_files_killed_at_any_trial_repeats_no_trial_of_the_search() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sim = format!("{TWO_SOCKETS}:2");
    let flags = ["--sim", &sim, "--budget", "2h", "-t", "4", "-C", "0-5,12-17"];
    let whole = dir.path().join("whole.db");
    let (expected, _) = race_result(&whole, &flags, &["mapper"]);
    let search = expected["trials"].as_u64().expect("a number");
    for k in [search + 1, search + 7] {
        let store = dir.path().join(format!("killed-{k}.db"));
        let faults = format!("kill-after={k}");
        let killed = run(&store, &[&["place", "-q", "--sim-faults", &faults], &flags[..], &["--", "mapper"]].concat());
        assert!(!killed.status.success(), "it must be killed after {k}");
        let (resumed, _) = race_result(&store, &flags, &["mapper"]);
        assert_eq!(resumed, expected, "killed after {k}");
        assert_eq!(runs(&store), 2, "no third race began");
    }
}

fn runs(store: &Path) -> usize {
    let output = run(store, &["show", "--runs", "--format", "json"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("show prints JSON");
    json["runs"].as_array().expect("runs is a list").len()
}

#[test]
fn load_keeps_the_cpus_that_the_user_chose() {
    let name = "load_keeps_the_cpus_that_the_user_chose";
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = dir.path().join("r.db");
    let refused = run(&store, &["place", "--load-cpus", "0", "--", "true"]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && text.contains("--load-cpus requires --server or --load"), "{text}");
    if cpus() < 2 {
        return println!("skipped: {name}: two CPUs are required");
    }
    let flags = ["--max-trials", "9", "--server", "sleep 100", "--ready", "started", "--load-cpus", "1"];
    let (json, _) = race_result(&store, &flags, &["sleep", "0.02"]);
    assert_eq!(json["baseline"]["placement"], "kernel", "{json:#}");
    let rows = json["ranking"].as_array().expect("a list");
    assert!(rows.len() > 1 && rows.iter().all(|row| row["cpus"] == "1"), "{json:#}");
    assert_eq!(json["came_to_nothing"], 0, "the kernel confirms the binding of every trial: {json:#}");
    assert_ne!(json["winner"], Value::Null, "{json:#}");
}
