//! The machine is had by one run at a time, and left as it was found however the run ends: on a recorded tree of
//! settings, and on this machine's own where we are root.
//!
//! `NEARFAR_KILLS=200 cargo test -p nearfar --test hold killed -- --nocapture` kills more often.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use machine::child::is_ignored;
use signal_hook::consts::SIGHUP;
use tempfile::TempDir;

const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const ASLR: &str = "proc/sys/kernel/randomize_va_space";
const GOVERNOR: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
const KILLS: u32 = 20;

/// A results file and a state of our own, over a tree of settings or over this machine's.
struct Place {
    folder: TempDir,
    root: PathBuf,
}

impl Place {
    fn recorded() -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let root = folder.path().join("root");
        let place = Self { folder, root };
        for (path, text) in [(THP, "always [madvise] never\n"), (ASLR, "2\n"), (GOVERNOR, "powersave\n")] {
            let path = place.root.join(path);
            std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("folders can be made");
            std::fs::write(path, text).expect("files can be written");
        }
        place
    }

    fn real() -> Self {
        Self { folder: tempfile::tempdir().expect("a scratch folder"), root: "/".into() }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.args(words).env("NEARFAR_STORE", self.folder.path().join("r.db"));
        command.env("NEARFAR_STATE", self.state()).stdin(Stdio::null());
        command
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn journal(&self) -> PathBuf {
        self.state().join("undo.journal")
    }

    /// A measurement with these flags of this command.
    fn measure(&self, flags: &[&str], measured: &[&str]) -> Command {
        let mut command = self.command(&["measure", "command", "-r", "1"]);
        command.args(["--settings-root".as_ref(), self.root.as_os_str()]).args(flags).arg("--").args(measured);
        command
    }

    fn restore(&self, flags: &[&str]) -> Output {
        let mut command = self.command(&["restore"]);
        command.args(["--settings-root".as_ref(), self.root.as_os_str()]).args(flags);
        command.output().expect("the program starts")
    }

    /// The value of a setting; of a list the chosen word.
    fn value(&self, path: &str) -> String {
        let text = std::fs::read_to_string(self.root.join(path)).expect("the setting is there");
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
        chosen.unwrap_or(&text).trim().to_string()
    }

    fn values(&self, paths: &[&str]) -> Vec<String> {
        paths.iter().map(|path| self.value(path)).collect()
    }

    fn set(&self, path: &str, value: &str) {
        std::fs::write(self.root.join(path), value).expect("files can be written");
    }
}

/// Ends a process of ours whatever the test does.
struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts"))
    }

    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().expect("kill is there").success());
    }

    fn end(&mut self) -> Option<i32> {
        self.0.wait().expect("it is our child").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn until(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A run whose command waits until a file is there, when the command has started; gives the file that ends it.
fn busy(place: &Place, flags: &[&str]) -> (Running, PathBuf) {
    let (begun, ends) = (place.folder.path().join("begun"), place.folder.path().join("ends"));
    let script = format!("touch {}; while [ ! -e {} ]; do sleep 0.05; done", begun.display(), ends.display());
    let run = Running::start(place.measure(flags, &["sh", "-c", &script]));
    until("the trial", || begun.exists());
    (run, ends)
}

#[test]
fn the_second_run_is_refused_or_waits() {
    let place = Place::recorded();
    let (mut first, ends) = busy(&place, &[]);
    let pid = first.0.id();
    let second = place.measure(&[], &["true"]).output().expect("the program starts");
    assert_eq!(second.status.code(), Some(1), "{}", said(&second));
    assert!(said(&second).contains(&format!("process {pid} (")), "{}", said(&second));
    assert!(said(&second).contains("hint: --wait"), "{}", said(&second));
    assert_eq!(place.restore(&[]).status.code(), Some(1), "its settings are its own");
    let mistake = place.measure(&["--set", "x=1"], &["true"]).output().expect("the program starts");
    assert_eq!(mistake.status.code(), Some(2), "a mistake is told before: {}", said(&mistake));
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml:7");
    let simulated = place.command(&["measure", "queens", "--sim", model]).output().expect("the program starts");
    assert_eq!(simulated.status.code(), Some(0), "a simulation disturbs nobody: {}", said(&simulated));
    let mut third = Running::start(place.measure(&["--wait"], &["true"]));
    std::fs::write(ends, "").expect("files can be written");
    assert_eq!((first.end(), third.end()), (Some(0), Some(0)));
}

#[test]
fn kill_9_gives_the_turn_away() {
    let place = Place::recorded();
    let (mut first, _) = busy(&place, &[]);
    first.signal("-KILL");
    first.end();
    let second = place.measure(&[], &["true"]).output().expect("the program starts");
    assert_eq!(second.status.code(), Some(0), "{}", said(&second));
}

#[test]
fn settings_are_quiet_during_the_run_and_back_after_it() {
    let place = Place::recorded();
    let before = place.values(&[THP, ASLR, GOVERNOR]);
    let (mut run, ends) = busy(&place, &["--quieten", "all"]);
    assert_eq!(place.values(&[THP, ASLR, GOVERNOR]), ["never", "0", "performance"]);
    assert_eq!(std::fs::read_to_string(place.journal()).expect("it is there").lines().count(), 3);
    std::fs::write(ends, "").expect("files can be written");
    assert_eq!(run.end(), Some(0));
    assert_eq!(place.values(&[THP, ASLR, GOVERNOR]), before);
    assert!(!place.journal().exists());
    let again = place.measure(&["--quieten", "thp,smt"], &["true"]).output().expect("the program starts");
    assert!(said(&again).contains("thp: never for this run (it was madvise)"), "{}", said(&again));
    assert!(said(&again).contains("smt: cannot be set here: "), "{}", said(&again));
}

#[test]
fn a_run_that_is_asked_to_end_puts_back() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        if signal == "-HUP" && is_ignored(SIGHUP) {
            println!("skipped: a_run_that_is_asked_to_end_puts_back: -HUP: these tests ignore it, as under nohup");
            continue;
        }
        let place = Place::recorded();
        let (mut run, _) = busy(&place, &["--quieten", "thp,aslr"]);
        assert_eq!(place.values(&[THP, ASLR]), ["never", "0"]);
        run.signal(signal);
        // Somebody who is impatient; it is not reaped yet, so the number is still its own.
        run.signal(signal);
        assert_eq!(run.end(), Some(130), "{signal}");
        assert_eq!(place.values(&[THP, ASLR]), ["madvise", "2"], "{signal}");
        assert!(!place.journal().exists(), "{signal}");
    }
}

#[test]
fn a_run_that_ignores_hanging_up_goes_on() {
    let place = Place::recorded();
    let (begun, ends) = (place.folder.path().join("begun"), place.folder.path().join("ends"));
    let script = format!("touch {}; while [ ! -e {} ]; do sleep 0.05; done", begun.display(), ends.display());
    let measure = place.measure(&["--quieten", "thp"], &["sh", "-c", &script]);
    let mut shell = Command::new("sh");
    // As nohup does.
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(measure.get_program()).args(measure.get_args());
    shell.envs(measure.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut run = Running::start(shell);
    until("the trial", || begun.exists());
    run.signal("-HUP");
    std::fs::write(ends, "").expect("files can be written");
    assert_eq!(run.end(), Some(0));
    assert_eq!(place.value(THP), "madvise");
}

#[test]
fn a_run_that_fails_puts_back() {
    let place = Place::recorded();
    std::fs::write(place.folder.path().join("r.db"), "no results file").expect("files can be written");
    // Without looking for a measured map: else the file fails before anything is changed.
    let run = place.measure(&["--quieten", "thp", "--map", "none"], &["true"]).output().expect("the program starts");
    assert_eq!(run.status.code(), Some(1), "{}", said(&run));
    assert!(said(&run).contains("thp: never for this run"), "{}", said(&run));
    assert_eq!(place.value(THP), "madvise");
}

fn killed(place: &Place, flags: &[&str]) {
    let (mut run, _) = busy(place, flags);
    run.signal("-KILL");
    run.end();
    std::fs::remove_file(place.folder.path().join("begun")).expect("the trial had begun");
}

#[test]
fn what_a_killed_run_left_is_told_and_put_back() {
    let place = Place::recorded();
    killed(&place, &["--quieten", "thp,aslr"]);
    assert_eq!(place.values(&[THP, ASLR]), ["never", "0"]);
    let plain = place.measure(&[], &["true"]).output().expect("the program starts");
    assert_eq!(plain.status.code(), Some(0), "{}", said(&plain));
    assert!(said(&plain).contains("an interrupted run changed thp from madvise to never; nearfar restore"));
    let restored = place.restore(&["--format", "json"]);
    assert_eq!(restored.status.code(), Some(0), "{}", said(&restored));
    let json: serde_json::Value = serde_json::from_slice(&restored.stdout).expect("restore prints JSON");
    let first = &json["restored"][0];
    assert_eq!((&first["setting"], &first["outcome"]), (&"aslr".into(), &"put-back".into()), "{json:#}");
    assert_eq!((&first["file"], &first["old"], &first["new"]), (&ASLR.into(), &"2".into(), &"0".into()), "{json:#}");
    assert_eq!(place.values(&[THP, ASLR]), ["madvise", "2"]);
    let again = place.restore(&[]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("nothing to put back"));
}

#[test]
fn the_next_quiet_run_puts_back_first_and_touches_nothing_of_somebody_else() {
    let place = Place::recorded();
    killed(&place, &["--quieten", "thp"]);
    let next = place.measure(&["--quieten", "thp"], &["true"]).output().expect("the program starts");
    assert_eq!(next.status.code(), Some(0), "{}", said(&next));
    assert!(said(&next).contains("is madvise again"), "{}", said(&next));
    assert_eq!(place.value(THP), "madvise");
    killed(&place, &["--quieten", "thp"]);
    place.set(THP, "[always] madvise never\n");
    let refused = place.measure(&["--quieten", "aslr"], &["true"]).output().expect("the program starts");
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(said(&refused).contains("nearfar restore --force"), "{}", said(&refused));
    let left = place.restore(&[]);
    assert_eq!((left.status.code(), place.value(THP)), (Some(1), "always".into()), "{}", said(&left));
    assert!(String::from_utf8_lossy(&left.stdout).contains("another program changed it after"));
    let forced = place.restore(&["--force"]);
    assert_eq!((forced.status.code(), place.value(THP)), (Some(0), "madvise".into()), "{}", said(&forced));
    killed(&place, &["--quieten", "thp"]);
    place.set(THP, "[always] madvise never\n");
    assert_eq!(place.restore(&["--forget"]).status.code(), Some(0));
    assert_eq!((place.value(THP), place.journal().exists()), ("always".into(), false));
}

fn kills() -> u32 {
    std::env::var("NEARFAR_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(KILLS)
}

/// Kills a command with settings changed at instants spread over its whole time; after `nearfar restore` all is as found.
fn kill_and_restore(place: &Place, kills: u32, paths: &[&str], run: impl Fn() -> Command) {
    let before = place.values(paths);
    let begin = Instant::now();
    let mut whole = Running::start(run());
    let status = whole.end();
    // 3: so small a race may well be inconclusive.
    assert!([Some(0), Some(3)].contains(&status), "{status:?}");
    let span = begin.elapsed();
    let (mut left_changed, mut random) = (0, 1_u64);
    for kill in 0..kills {
        let mut victim = Running::start(run());
        // Knuth's linear congruential generator: instants need no better one.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(span.mul_f64((random >> 33) as f64 / f64::from(1_u32 << 31)));
        victim.signal("-KILL");
        victim.end();
        left_changed += u32::from(place.values(paths) != before);
        let restored = place.restore(&[]);
        assert_eq!(restored.status.code(), Some(0), "kill {kill}: {}", said(&restored));
        assert_eq!(place.values(paths), before, "kill {kill}");
        assert!(!place.journal().exists(), "kill {kill}");
    }
    println!("{kills} kills within {span:?}, {left_changed} of them left settings changed, all put back");
    assert!(left_changed > 0, "no kill came while settings were changed");
}

#[test]
fn killed_at_any_instant_a_recorded_tree_is_restored() {
    let place = Place::recorded();
    let run = || place.measure(&["--quieten", "thp,aslr,governor"], &["sleep", "0.05"]);
    kill_and_restore(&place, kills(), &[THP, ASLR, GOVERNOR], run);
}

#[test]
fn a_killed_race_and_a_killed_map_are_restored() {
    let place = Place::recorded();
    let root = place.root.display().to_string();
    let quiet = ["--settings-root", &root, "--quieten", "thp,aslr,governor", "--fresh"];
    let race = || {
        let mut command = place.command(&["place", "--max-trials", "6", "--budget", "2s"]);
        command.args(quiet).args(["--", "true"]);
        command
    };
    kill_and_restore(&place, kills().div_ceil(2), &[THP, ASLR, GOVERNOR], race);
    let map = || {
        let mut command = place.command(&["map", "--measure", "--smoke"]);
        command.args(quiet);
        command
    };
    // It takes seconds.
    kill_and_restore(&place, kills().div_ceil(4), &[THP, ASLR, GOVERNOR], map);
}

/// A device of this machine whose interrupts are not known to be managed, and their files.
fn movable() -> Option<(String, Vec<String>)> {
    let output = Place::recorded().command(&["map", "--format", "json"]).output().expect("the program starts");
    let map: serde_json::Value = serde_json::from_slice(&output.stdout).expect("map prints JSON");
    let fits = |device: &&serde_json::Value| {
        let interrupts = device["interrupts"].as_array().expect("a list");
        !interrupts.is_empty() && interrupts.iter().all(|interrupt| interrupt["movability"] != "managed")
    };
    let device = map["devices"].as_array()?.iter().find(fits)?;
    let file = |interrupt: &serde_json::Value| format!("proc/irq/{}/smp_affinity_list", interrupt["number"]);
    let files = device["interrupts"].as_array()?.iter().map(file).collect();
    Some((device["name"].as_str()?.into(), files))
}

/// Sends a device's interrupts to cpu 0 in one cell and leaves them as they were in the other.
fn sends(place: &Place, device: &str, flags: &[&str], measured: &[&str]) -> Command {
    let placements = ["--device", device, "--placement", "kernel+irq:0", "--placement", "kernel"];
    place.measure(&[&placements, flags].concat(), measured)
}

fn with_interrupts(files: &[String]) -> Place {
    let place = Place::recorded();
    for file in files {
        let file = place.root.join(file);
        std::fs::create_dir_all(file.parent().expect("it is in a folder")).expect("folders can be made");
        std::fs::write(file, "0-1\n").expect("files can be written");
    }
    place
}

#[test]
fn interrupts_are_sent_for_their_trials_and_come_back() {
    let name = "interrupts_are_sent_for_their_trials_and_come_back";
    let Some((device, files)) = movable() else { return println!("skipped: {name}: no interrupt here can be moved") };
    let place = with_interrupts(&files);
    let log = place.folder.path().join("log");
    let script = format!("cat {} >>{}; echo >>{1}", place.root.join(&files[0]).display(), log.display());
    let run = sends(&place, &device, &[], &["sh", "-c", &script]).output().expect("the program starts");
    assert_eq!(run.status.code(), Some(0), "{}", said(&run));
    let log = std::fs::read_to_string(log).expect("trials wrote it");
    let mut seen: Vec<&str> = log.split_whitespace().collect();
    seen.sort_unstable();
    assert_eq!(seen, ["0", "0-1"], "each cell had its own");
    assert_eq!(place.value(&files[0]), "0-1");
    assert!(!place.journal().exists());
    let wrong = sends(&place, "no-such", &[], &["true"]).output().expect("the program starts");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(said(&wrong).contains("no device is called 'no-such'; there are "), "{}", said(&wrong));
}

#[test]
fn interrupts_come_back_after_a_signal_and_after_a_kill() {
    let name = "interrupts_come_back_after_a_signal_and_after_a_kill";
    let Some((device, files)) = movable() else { return println!("skipped: {name}: no interrupt here can be moved") };
    let place = with_interrupts(&files);
    let paths: Vec<&str> = files.iter().map(String::as_str).collect();
    kill_and_restore(&place, kills(), &paths, || sends(&place, &device, &[], &["sleep", "0.05"]));
    let root = place.root.display().to_string();
    kill_and_restore(&place, kills(), &paths, || {
        let mut command = place.command(&["place", "--max-trials", "24", "--budget", "3s", "--device", &device]);
        command.args(["--only", "one-core", "--settings-root", &root, "--fresh", "--", "sleep", "0.02"]);
        command
    });
    let begun = place.folder.path().join("begun");
    let script = format!("touch {}; sleep 60", begun.display());
    let mut run = Running::start(place.measure(&["--device", &device, "--placement", "irq:0"], &["sh", "-c", &script]));
    until("the trial", || begun.exists());
    assert_eq!(place.value(&files[0]), "0");
    run.signal("-INT");
    run.signal("-INT");
    assert_eq!(run.end(), Some(130));
    assert_eq!(place.value(&files[0]), "0-1");
    assert!(!place.journal().exists());
}

#[test]
fn killed_at_any_instant_the_interrupts_of_this_machine_are_restored() {
    let name = "killed_at_any_instant_the_interrupts_of_this_machine_are_restored";
    let Some((device, files)) = movable() else { return println!("skipped: {name}: no interrupt here can be moved") };
    if let Err(error) = std::fs::OpenOptions::new().write(true).open(Path::new("/").join(&files[0])) {
        return println!("skipped: {name}: /{}: {error}", files[0]);
    }
    let place = Place::real();
    if files.iter().all(|file| place.value(file) == "0") {
        return println!("skipped: {name}: they are on cpu 0 already, so nothing would be changed");
    }
    let paths: Vec<&str> = files.iter().map(String::as_str).collect();
    kill_and_restore(&place, kills(), &paths, || sends(&place, &device, &["--ban-irqbalance"], &["sleep", "0.05"]));
}

#[test]
fn killed_at_any_instant_this_machine_is_restored() {
    let path = Path::new("/").join(ASLR);
    let owned = std::fs::OpenOptions::new().write(true).open(path);
    if let Err(error) = owned {
        println!("skipped: kill -9 with real settings: /{ASLR}: {error}");
        return;
    }
    if Place::real().value(ASLR) == "0" {
        println!("skipped: kill -9 with real settings: addresses are not random here, so nothing would be changed");
        return;
    }
    let place = Place::real();
    kill_and_restore(&place, kills(), &[ASLR], || place.measure(&["--quieten", "aslr,c-states"], &["sleep", "0.05"]));
}

#[test]
fn the_doctor_looks_at_this_machine_and_at_what_is_left_changed() {
    let place = Place::recorded();
    let text = place.command(&["doctor"]).output().expect("the program starts");
    assert_eq!(text.status.code(), Some(0), "{}", said(&text));
    assert!(String::from_utf8_lossy(&text.stdout).contains("Disturbs measurements on this machine"));
    std::fs::create_dir_all(place.state()).expect("folders can be made");
    // Of this machine, which nobody has set so.
    let line = format!("{{\"setting\":\"aslr\",\"file\":\"{ASLR}\",\"old\":\"1\",\"new\":\"7\"}}\n");
    std::fs::write(place.journal(), line).expect("files can be written");
    let json = place.command(&["doctor", "--format", "json"]).output().expect("the program starts");
    assert_eq!(json.status.code(), Some(0), "{}", said(&json));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("doctor prints JSON");
    let first = &json["problems"][0];
    assert_eq!((&first["key"], &first["command"]), (&"left-changed".into(), &"nearfar restore".into()), "{json:#}");
}
