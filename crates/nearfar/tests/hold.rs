//! One run measures at a time, and settings are restored however it ends: in a recorded tree, and as root on this
//! machine.
//!
//! `NEARFAR_KILLS=200 cargo test -p nearfar --test hold kill -- --nocapture` raises the number of kills.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use machine::child::is_ignored;
use signal_hook::consts::SIGHUP;
use tempfile::TempDir;

const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const ASLR: &str = "proc/sys/kernel/randomize_va_space";
const GOVERNOR: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
const LOWEST: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq";
const HIGHEST: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq";
const KILLS: u32 = 20;

/// A separate results file and state directory, and a recorded tree of settings or those of this machine.
struct Setup {
    dir: TempDir,
    root: PathBuf,
}

impl Setup {
    fn recorded() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = dir.path().join("root");
        let setup = Self { dir, root };
        for (path, text) in [(THP, "always [madvise] never\n"), (ASLR, "2\n"), (GOVERNOR, "powersave\n")] {
            let path = setup.root.join(path);
            std::fs::create_dir_all(path.parent().expect("the file has a directory")).expect("a writable directory");
            std::fs::write(path, text).expect("a writable file");
        }
        setup
    }

    fn real() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory"), root: "/".into() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.args(args).env("NEARFAR_STORE", self.dir.path().join("r.db"));
        command.env("NEARFAR_STATE", self.state()).stdin(Stdio::null());
        command
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn journal(&self) -> PathBuf {
        self.state().join("undo.journal")
    }

    /// A measurement of a command, with these flags.
    fn measure(&self, flags: &[&str], argv: &[&str]) -> Command {
        let mut command = self.command(&["measure", "command", "-r", "1"]);
        command.args(["--settings-root".as_ref(), self.root.as_os_str()]).args(flags).arg("--").args(argv);
        command
    }

    fn restore(&self, flags: &[&str]) -> Output {
        let mut command = self.command(&["restore"]);
        command.args(["--settings-root".as_ref(), self.root.as_os_str()]).args(flags);
        command.output().expect("the program starts")
    }

    /// Returns the value of a setting; the selected word if it is a list of choices.
    fn value(&self, path: &str) -> String {
        let text = std::fs::read_to_string(self.root.join(path)).expect("the setting exists");
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
        chosen.unwrap_or(&text).trim().to_string()
    }

    fn values(&self, paths: &[&str]) -> Vec<String> {
        paths.iter().map(|path| self.value(path)).collect()
    }

    fn set(&self, path: &str, value: &str) {
        std::fs::write(self.root.join(path), value).expect("a writable file");
    }
}

/// A child process that is killed at the end of the test, also if the test fails.
struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts"))
    }

    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().expect("kill(1) is installed").success());
    }

    fn wait(&mut self) -> Option<i32> {
        self.0.wait().expect("the process is a child").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn wait_until(event: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "timed out: {event}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a run whose command waits for a file, and waits until the command has started. Returns the path of the file.
fn start_busy_run(setup: &Setup, flags: &[&str]) -> (Running, PathBuf) {
    let (begun, ends) = (setup.dir.path().join("begun"), setup.dir.path().join("ends"));
    let script = format!("touch {}; while [ ! -e {} ]; do sleep 0.05; done", begun.display(), ends.display());
    let run = Running::start(setup.measure(flags, &["sh", "-c", &script]));
    wait_until("the trial has started", || begun.exists());
    (run, ends)
}

#[test]
fn second_run_is_refused_or_waits() {
    let setup = Setup::recorded();
    let (mut first, ends) = start_busy_run(&setup, &[]);
    let pid = first.0.id();
    let second = setup.measure(&[], &["true"]).output().expect("the program starts");
    assert_eq!(second.status.code(), Some(1), "{}", stderr(&second));
    assert!(stderr(&second).contains(&format!("process {pid} (")), "{}", stderr(&second));
    assert!(stderr(&second).contains("hint: wait for it with --wait"), "{}", stderr(&second));
    assert_eq!(setup.restore(&[]).status.code(), Some(1), "the settings of a running run are not restored");
    let invalid = setup.measure(&["--set", "x=1"], &["true"]).output().expect("the program starts");
    assert_eq!(invalid.status.code(), Some(2), "usage errors are reported first: {}", stderr(&invalid));
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml:7");
    let simulated = setup.command(&["measure", "queens", "--sim", model]).output().expect("the program starts");
    assert_eq!(simulated.status.code(), Some(0), "a simulation needs no lock: {}", stderr(&simulated));
    let mut third = Running::start(setup.measure(&["--wait"], &["true"]));
    std::fs::write(ends, "").expect("a writable file");
    assert_eq!((first.wait(), third.wait()), (Some(0), Some(0)));
}

#[test]
fn kill_9_releases_the_machine_lock() {
    let setup = Setup::recorded();
    let (mut first, _) = start_busy_run(&setup, &[]);
    first.signal("-KILL");
    first.wait();
    let second = setup.measure(&[], &["true"]).output().expect("the program starts");
    assert_eq!(second.status.code(), Some(0), "{}", stderr(&second));
}

#[test]
fn settings_are_tuned_during_the_run_and_restored_after_it() {
    let setup = Setup::recorded();
    let before = setup.values(&[THP, ASLR, GOVERNOR]);
    let (mut run, ends) = start_busy_run(&setup, &["--quieten", "all"]);
    assert_eq!(setup.values(&[THP, ASLR, GOVERNOR]), ["never", "0", "performance"]);
    assert_eq!(std::fs::read_to_string(setup.journal()).expect("the journal exists").lines().count(), 3);
    std::fs::write(ends, "").expect("a writable file");
    assert_eq!(run.wait(), Some(0));
    assert_eq!(setup.values(&[THP, ASLR, GOVERNOR]), before);
    assert!(!setup.journal().exists());
    let again = setup.measure(&["--quieten", "thp,smt"], &["true"]).output().expect("the program starts");
    assert!(stderr(&again).contains("thp: never for this run (it was madvise)"), "{}", stderr(&again));
    assert!(stderr(&again).contains("smt: unavailable: "), "{}", stderr(&again));
}

#[test]
fn clock_is_fixed_during_the_run_and_restored_after_it() {
    let setup = Setup::recorded();
    let fixed = ["--fix-frequency", "3.6GHz"];
    let missing = setup.measure(&[&fixed[..], &["--quiet"]].concat(), &["true"]).output().expect("the program starts");
    let reason = "frequency: unavailable: driver unknown has no limits of the frequency for policy0";
    assert!(missing.status.success() && stderr(&missing).contains(reason), "{}", stderr(&missing));
    setup.set(LOWEST, "1550000\n");
    setup.set(HIGHEST, "3900000\n");
    let (mut run, ends) = start_busy_run(&setup, &fixed);
    assert_eq!(setup.values(&[LOWEST, HIGHEST]), ["3600000", "3600000"]);
    std::fs::write(ends, "").expect("a writable file");
    assert_eq!(run.wait(), Some(0));
    assert_eq!(setup.values(&[LOWEST, HIGHEST]), ["1550000", "3900000"]);
    std::fs::remove_file(setup.dir.path().join("begun")).expect("the trial has started");
    std::fs::remove_file(setup.dir.path().join("ends")).expect("the trial has ended");
    start_and_kill(&setup, &fixed);
    assert_eq!(setup.values(&[LOWEST, HIGHEST]), ["3600000", "3600000"]);
    assert!(setup.restore(&[]).status.success());
    assert_eq!(setup.values(&[LOWEST, HIGHEST]), ["1550000", "3900000"]);
    let invalid = setup.measure(&["--fix-frequency", "fast"], &["true"]).output().expect("the program starts");
    assert_eq!(invalid.status.code(), Some(2));
    assert!(stderr(&invalid).contains("'fast' is not a frequency"), "{}", stderr(&invalid));
}

#[test]
fn run_ended_by_a_signal_restores_settings() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        if signal == "-HUP" && is_ignored(SIGHUP) {
            println!("skipped: run_ended_by_a_signal_restores_settings: SIGHUP is ignored, as under nohup");
            continue;
        }
        let setup = Setup::recorded();
        let (mut run, _) = start_busy_run(&setup, &["--quieten", "thp,aslr"]);
        assert_eq!(setup.values(&[THP, ASLR]), ["never", "0"]);
        run.signal(signal);
        // A second signal, as from an impatient user. The process is not reaped yet, so its ID is not reused.
        run.signal(signal);
        assert_eq!(run.wait(), Some(130), "{signal}");
        assert_eq!(setup.values(&[THP, ASLR]), ["madvise", "2"], "{signal}");
        assert!(!setup.journal().exists(), "{signal}");
    }
}

#[test]
fn run_that_ignores_sighup_continues() {
    let setup = Setup::recorded();
    let (begun, ends) = (setup.dir.path().join("begun"), setup.dir.path().join("ends"));
    let script = format!("touch {}; while [ ! -e {} ]; do sleep 0.05; done", begun.display(), ends.display());
    let measure = setup.measure(&["--quieten", "thp"], &["sh", "-c", &script]);
    let mut shell = Command::new("sh");
    // Ignores SIGHUP as nohup does.
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(measure.get_program()).args(measure.get_args());
    shell.envs(measure.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut run = Running::start(shell);
    wait_until("the trial has started", || begun.exists());
    run.signal("-HUP");
    std::fs::write(ends, "").expect("a writable file");
    assert_eq!(run.wait(), Some(0));
    assert_eq!(setup.value(THP), "madvise");
}

#[test]
fn failed_run_restores_settings() {
    let setup = Setup::recorded();
    std::fs::write(setup.dir.path().join("r.db"), "not a results file").expect("a writable file");
    // Without `--map none`, reading the results file would fail before settings are changed.
    let run = setup.measure(&["--quieten", "thp", "--map", "none"], &["true"]).output().expect("the program starts");
    assert_eq!(run.status.code(), Some(1), "{}", stderr(&run));
    assert!(stderr(&run).contains("thp: never for this run"), "{}", stderr(&run));
    assert_eq!(setup.value(THP), "madvise");
}

fn start_and_kill(setup: &Setup, flags: &[&str]) {
    let (mut run, _) = start_busy_run(setup, flags);
    run.signal("-KILL");
    run.wait();
    std::fs::remove_file(setup.dir.path().join("begun")).expect("the trial has started");
}

#[test]
fn changes_of_a_killed_run_are_reported_and_restored() {
    let setup = Setup::recorded();
    start_and_kill(&setup, &["--quieten", "thp,aslr"]);
    assert_eq!(setup.values(&[THP, ASLR]), ["never", "0"]);
    let plain = setup.measure(&[], &["true"]).output().expect("the program starts");
    assert_eq!(plain.status.code(), Some(0), "{}", stderr(&plain));
    let expected = "an interrupted run changed thp from madvise to never; restore it with nearfar restore";
    assert!(stderr(&plain).contains(expected), "{}", stderr(&plain));
    let planned = setup.restore(&["--dry-run"]);
    assert_eq!(planned.status.code(), Some(0), "{}", stderr(&planned));
    let text = String::from_utf8_lossy(&planned.stdout);
    assert!(text.contains("thp: ") && text.contains("would be restored to madvise (is never)"), "{text}");
    assert_eq!(setup.values(&[THP, ASLR]), ["never", "0"], "a dry run changes nothing");
    let restored = setup.restore(&["--format", "json"]);
    assert_eq!(restored.status.code(), Some(0), "{}", stderr(&restored));
    let json: serde_json::Value = serde_json::from_slice(&restored.stdout).expect("restore prints JSON");
    let first = &json["restored"][0];
    assert_eq!((&first["setting"], &first["outcome"]), (&"aslr".into(), &"put-back".into()), "{json:#}");
    assert_eq!((&first["file"], &first["old"], &first["new"]), (&ASLR.into(), &"2".into(), &"0".into()), "{json:#}");
    assert_eq!(setup.values(&[THP, ASLR]), ["madvise", "2"]);
    let again = setup.restore(&[]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("nothing to restore"));
}

#[test]
fn dry_run_lists_the_settings_and_changes_none() {
    let setup = Setup::recorded();
    setup.set(ASLR, "0");
    for command in [&["run", "quick"][..], &["place"]] {
        let mut dry = setup.command(&[command, &["--dry-run", "--quieten", "thp,aslr,smt"]].concat());
        dry.arg("--settings-root").arg(&setup.root);
        if command == ["place"] {
            dry.args(["--", "true"]);
        }
        let output = dry.output().expect("the program starts");
        let text = stderr(&output);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("thp: would be never (it is madvise)") && text.contains("aslr: already set"), "{text}");
        assert_eq!(setup.values(&[THP, ASLR]), ["madvise", "0"]);
    }
}

#[test]
fn next_run_restores_first_but_not_changes_by_other_programs() {
    let setup = Setup::recorded();
    start_and_kill(&setup, &["--quieten", "thp"]);
    let next = setup.measure(&["--quieten", "thp"], &["true"]).output().expect("the program starts");
    assert_eq!(next.status.code(), Some(0), "{}", stderr(&next));
    assert!(stderr(&next).contains("restored to madvise"), "{}", stderr(&next));
    assert_eq!(setup.value(THP), "madvise");
    start_and_kill(&setup, &["--quieten", "thp"]);
    setup.set(THP, "[always] madvise never\n");
    let refused = setup.measure(&["--quieten", "aslr"], &["true"]).output().expect("the program starts");
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("nearfar restore --force"), "{}", stderr(&refused));
    let left = setup.restore(&[]);
    assert_eq!((left.status.code(), setup.value(THP)), (Some(1), "always".into()), "{}", stderr(&left));
    assert!(String::from_utf8_lossy(&left.stdout).contains("another program changed it after"));
    let forced = setup.restore(&["--force"]);
    assert_eq!((forced.status.code(), setup.value(THP)), (Some(0), "madvise".into()), "{}", stderr(&forced));
    start_and_kill(&setup, &["--quieten", "thp"]);
    setup.set(THP, "[always] madvise never\n");
    assert_eq!(setup.restore(&["--forget"]).status.code(), Some(0));
    assert_eq!((setup.value(THP), setup.journal().exists()), ("always".into(), false));
}

fn kills() -> u32 {
    std::env::var("NEARFAR_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(KILLS)
}

/// Kills a command that changes settings at random times; `nearfar restore` must restore all settings.
fn kill_and_restore(setup: &Setup, kills: u32, paths: &[&str], run: impl Fn() -> Command) {
    let before = setup.values(paths);
    let start = Instant::now();
    let mut whole = Running::start(run());
    let status = whole.wait();
    // 3: a race this short may be inconclusive.
    assert!([Some(0), Some(3)].contains(&status), "{status:?}");
    let duration = start.elapsed();
    let (mut left_changed, mut random) = (0, 1_u64);
    for kill in 0..kills {
        let mut victim = Running::start(run());
        // Knuth's linear congruential generator suffices for random times.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(duration.mul_f64((random >> 33) as f64 / f64::from(1_u32 << 31)));
        victim.signal("-KILL");
        victim.wait();
        left_changed += u32::from(setup.values(paths) != before);
        let restored = setup.restore(&[]);
        assert_eq!(restored.status.code(), Some(0), "kill {kill}: {}", stderr(&restored));
        assert_eq!(setup.values(paths), before, "kill {kill}");
        assert!(!setup.journal().exists(), "kill {kill}");
    }
    println!("{kills} kills within {duration:?}, {left_changed} of them left changed settings, all restored");
    assert!(left_changed > 0, "no kill hit while settings were changed");
}

#[test]
fn recorded_tree_is_restored_after_kills_at_any_time() {
    let setup = Setup::recorded();
    let run = || setup.measure(&["--quieten", "thp,aslr,governor"], &["sleep", "0.05"]);
    kill_and_restore(&setup, kills(), &[THP, ASLR, GOVERNOR], run);
}

#[test]
fn settings_are_restored_after_kills_of_race_and_map() {
    let setup = Setup::recorded();
    let root = setup.root.display().to_string();
    let quiet = ["--settings-root", &root, "--quieten", "thp,aslr,governor", "--fresh"];
    let race = || {
        let mut command = setup.command(&["place", "--max-trials", "6", "--budget", "2s"]);
        command.args(quiet).args(["--", "true"]);
        command
    };
    kill_and_restore(&setup, kills().div_ceil(2), &[THP, ASLR, GOVERNOR], race);
    let map = || {
        let mut command = setup.command(&["map", "--measure", "--smoke"]);
        command.args(quiet);
        command
    };
    // A map takes seconds, so there are fewer kills.
    kill_and_restore(&setup, kills().div_ceil(4), &[THP, ASLR, GOVERNOR], map);
}

/// Returns a device without managed interrupts and its affinity files; `None`, with the reason printed, if there is
/// none.
fn movable_device(test: &str) -> Option<(String, Vec<String>)> {
    let output = Setup::recorded().command(&["map", "--format", "json"]).output().expect("the program starts");
    let map: serde_json::Value = serde_json::from_slice(&output.stdout).expect("map prints JSON");
    let fits = |device: &&serde_json::Value| {
        let interrupts = device["interrupts"].as_array().expect("a list");
        !interrupts.is_empty() && interrupts.iter().all(|interrupt| interrupt["movability"] != "managed")
    };
    let Some(device) = map["devices"].as_array()?.iter().find(fits) else {
        println!("skipped: {test}: this machine has no device with movable interrupts");
        return None;
    };
    let file = |interrupt: &serde_json::Value| format!("proc/irq/{}/smp_affinity_list", interrupt["number"]);
    let files = device["interrupts"].as_array()?.iter().map(file).collect();
    Some((device["name"].as_str()?.into(), files))
}

/// A plan of two cells: a device's interrupts on CPU 0, and unchanged.
fn route_to_cpu_0(setup: &Setup, device: &str, flags: &[&str], measured: &[&str]) -> Command {
    let placements = ["--device", device, "--placement", "kernel+irq:0", "--placement", "kernel"];
    setup.measure(&[&placements, flags].concat(), measured)
}

fn recorded_interrupts(files: &[String]) -> Setup {
    let setup = Setup::recorded();
    for file in files {
        let file = setup.root.join(file);
        std::fs::create_dir_all(file.parent().expect("the file has a directory")).expect("a writable directory");
        std::fs::write(file, "0-1\n").expect("a writable file");
    }
    setup
}

#[test]
fn interrupts_are_routed_for_their_trials_and_restored() {
    let Some((device, files)) = movable_device("interrupts_are_routed_for_their_trials_and_restored") else { return };
    let setup = recorded_interrupts(&files);
    let log = setup.dir.path().join("log");
    let script = format!("cat {} >>{}; echo >>{1}", setup.root.join(&files[0]).display(), log.display());
    let run = route_to_cpu_0(&setup, &device, &[], &["sh", "-c", &script]).output().expect("the program starts");
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    let log = std::fs::read_to_string(log).expect("the trials wrote the log");
    let mut seen: Vec<&str> = log.split_whitespace().collect();
    seen.sort_unstable();
    assert_eq!(seen, ["0", "0-1"], "each cell has its affinity");
    assert_eq!(setup.value(&files[0]), "0-1");
    assert!(!setup.journal().exists());
    let wrong = route_to_cpu_0(&setup, "no-such", &[], &["true"]).output().expect("the program starts");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("unknown device 'no-such'; this machine has "), "{}", stderr(&wrong));
}

#[test]
fn interrupts_are_restored_after_signals_and_kills() {
    let Some((device, files)) = movable_device("interrupts_are_restored_after_signals_and_kills") else { return };
    let setup = recorded_interrupts(&files);
    let paths: Vec<&str> = files.iter().map(String::as_str).collect();
    kill_and_restore(&setup, kills(), &paths, || route_to_cpu_0(&setup, &device, &[], &["sleep", "0.05"]));
    let root = setup.root.display().to_string();
    kill_and_restore(&setup, kills(), &paths, || {
        let mut command = setup.command(&["place", "--max-trials", "24", "--budget", "3s", "--device", &device]);
        command.args(["--only", "one-core", "--settings-root", &root, "--fresh", "--", "sleep", "0.02"]);
        command
    });
    let begun = setup.dir.path().join("begun");
    let script = format!("touch {}; sleep 60", begun.display());
    let mut run = Running::start(setup.measure(&["--device", &device, "--placement", "irq:0"], &["sh", "-c", &script]));
    wait_until("the trial has started", || begun.exists());
    assert_eq!(setup.value(&files[0]), "0");
    run.signal("-INT");
    run.signal("-INT");
    assert_eq!(run.wait(), Some(130));
    assert_eq!(setup.value(&files[0]), "0-1");
    assert!(!setup.journal().exists());
}

#[test]
fn interrupts_of_this_machine_are_restored_after_kills() {
    let name = "interrupts_of_this_machine_are_restored_after_kills";
    let Some((device, files)) = movable_device(name) else { return };
    if let Err(error) = std::fs::OpenOptions::new().write(true).open(Path::new("/").join(&files[0])) {
        return println!("skipped: {name}: /{}: {error}", files[0]);
    }
    let setup = Setup::real();
    if files.iter().all(|file| setup.value(file) == "0") {
        return println!("skipped: {name}: the interrupts are on CPU 0 already, so nothing would change");
    }
    let paths: Vec<&str> = files.iter().map(String::as_str).collect();
    let run = || route_to_cpu_0(&setup, &device, &["--ban-irqbalance"], &["sleep", "0.05"]);
    kill_and_restore(&setup, kills(), &paths, run);
}

#[test]
fn settings_of_this_machine_are_restored_after_kills() {
    if let Err(error) = std::fs::OpenOptions::new().write(true).open(Path::new("/").join(ASLR)) {
        return println!("skipped: kill -9 with real settings: /{ASLR}: {error}");
    }
    if Setup::real().value(ASLR) == "0" {
        return println!("skipped: kill -9 with real settings: address randomisation is off, so nothing would change");
    }
    let setup = Setup::real();
    kill_and_restore(&setup, kills(), &[ASLR], || setup.measure(&["--quieten", "aslr,c-states"], &["sleep", "0.05"]));
}

#[test]
fn doctor_reports_disturbances_and_unrestored_settings() {
    let setup = Setup::recorded();
    let text = setup.command(&["doctor"]).output().expect("the program starts");
    assert_eq!(text.status.code(), Some(0), "{}", stderr(&text));
    assert!(String::from_utf8_lossy(&text.stdout).contains("Disturbs measurements on this machine"));
    std::fs::create_dir_all(setup.state()).expect("a writable directory");
    // A change of this machine's setting that did not happen.
    let line = format!("{{\"setting\":\"aslr\",\"file\":\"{ASLR}\",\"old\":\"1\",\"new\":\"7\"}}\n");
    std::fs::write(setup.journal(), line).expect("a writable file");
    let json = setup.command(&["doctor", "--format", "json"]).output().expect("the program starts");
    assert_eq!(json.status.code(), Some(0), "{}", stderr(&json));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("doctor prints JSON");
    let first = &json["problems"][0];
    assert_eq!((&first["key"], &first["command"]), (&"left-changed".into(), &"nearfar restore".into()), "{json:#}");
}
