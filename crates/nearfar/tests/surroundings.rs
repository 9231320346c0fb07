//! Directories that other users can write to, files of unknown origin, concurrent and killed processes: no other file is
//! changed, nothing is mixed, nothing is left.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fleet::{JobName, JobSpec, NodeName, Request, RequestBody};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml");
const OLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/results-0.1/results.db");
/// Another user.
const OTHER: u32 = 65_534;

fn nearfar(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(args).current_dir(dir).env_remove("NEARFAR_STORE").env("TMPDIR", dir).env("XDG_DATA_HOME", dir);
    command.env("NEARFAR_STATE", dir.join("state")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(dir: &Path, args: &[&str]) -> Output {
    nearfar(dir, args).output().expect("the program starts")
}

fn succeeds(dir: &Path, args: &[&str]) -> Vec<u8> {
    let output = run(dir, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    output.stdout
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the names in a directory that begin with a prefix or contain it.
fn names(dir: &Path, part: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("the directory is readable").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| name.contains(part)).collect()
}

fn small_run(dir: &Path, store: &str) {
    succeeds(dir, &["--store", store, "measure", "queens", "--sim", &format!("{MODEL}:7"), "-r", "2"]);
}

#[test]
fn build_directory_of_another_user_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    fs::write(dir.join("secret"), "a private file of root").expect("the directory is writable");
    let building = dir.join("g.building");
    fs::create_dir(&building).expect("the directory is writable");
    for part in ["pairs", "ranked", "degrees", "lengths", "graph", "note", "lock"] {
        symlink(dir.join("secret"), building.join(part)).expect("the directory is writable");
    }
    let args = ["graph", "build", "--scale", "14", "--dram", "40MiB", "-o", "g"];
    let unchanged = || fs::read_to_string(dir.join("secret")).expect("the file exists") == "a private file of root";
    // Links of the own user are not followed either.
    let output = run(dir, &args);
    assert!(!output.status.success() && unchanged(), "{}", stderr(&output));
    fs::set_permissions(&building, fs::Permissions::from_mode(0o777)).expect("the directory belongs to this user");
    let output = run(dir, &args);
    assert!(stderr(&output).contains("other users can write to it") && unchanged(), "{}", stderr(&output));
    fs::set_permissions(&building, fs::Permissions::from_mode(0o700)).expect("the directory belongs to this user");
    if chown(&building, Some(OTHER), None).is_err() {
        return println!("skipped: build_directory_of_another_user_is_refused: requires root");
    }
    let output = run(dir, &args);
    assert!(stderr(&output).contains("it belongs to another user") && unchanged(), "{}", stderr(&output));
    assert!(building.exists(), "it is not removed");
}

#[test]
fn links_of_another_user_are_refused_in_every_place() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    small_run(dir, "r.db");
    fs::create_dir(dir.join("target")).expect("the directory is writable");
    fs::write(dir.join("secret"), "a private file of root").expect("the directory is writable");
    for (link, to) in [("d", "target"), ("f", "secret"), ("own", "target")] {
        symlink(to, dir.join(link)).expect("the directory is writable");
    }
    if ["d", "f"].iter().any(|link| lchown(dir.join(link), Some(OTHER), None).is_err()) {
        return println!("skipped: links_of_another_user_are_refused_in_every_place: requires root");
    }
    let sim = format!("{MODEL}:7");
    let export = ["--store", "r.db", "export", "-o"];
    let measure = |store| ["--store", store, "measure", "queens", "-r", "2", "--sim", &sim].map(String::from).to_vec();
    let owned = |args: &[&str]| args.iter().map(ToString::to_string).collect::<Vec<_>>();
    let copy = owned(&["--store", "r.db", "measure", "file-copy", "-r", "1", "--quiet"]);
    let command = owned(&["--store", "r.db", "measure", "command", "-r", "1", "--", "true"]);
    let io = ["--store", "r.db", "measure", "io", "-r", "1", "--set", "rw=randwrite", "--set"];
    let expand = |trace| owned(&["expand", "--dram", "64MiB", "--trace", trace, "--", "true"]);
    // Output files, graphs and their build directories, results files, directories of trials, of the undo journal and of
    // jobs, files of workloads and traces.
    let cases = [
        (owned(&[&export[..], &["f"]].concat()), ""),
        (owned(&[&export[..], &["d/out.csv"]].concat()), ""),
        (owned(&["--store", "r.db", "report", "--output", "d/out.html"]), ""),
        (owned(&["man", "--output-dir", "d/new/pages"]), ""),
        (owned(&["graph", "build", "--scale", "10", "-o", "d/g"]), ""),
        (owned(&["graph", "build", "--scale", "14", "--dram", "40MiB", "-o", "d/g"]), ""),
        (owned(&["--store", "r.db", "share", "-o", "d/shared.db"]), ""),
        (measure("d/new.db"), ""),
        (measure("f"), ""),
        (copy, "TMPDIR=d"),
        (command, "NEARFAR_STATE=d/state"),
        (owned(&["--store", "d/r.db", "__node"]), ""),
        (owned(&[&io[..], &["file=d/new"]].concat()), ""),
        (owned(&[&io[..], &["file=f", "--allow-overwrite", "f"]].concat()), ""),
        (expand("f"), ""),
        (expand("d/trace"), ""),
    ];
    fs::write(dir.join("request"), start_request()).expect("the directory is writable");
    for (args, variable) in cases {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = nearfar(dir, &args);
        command.envs(variable.split_once('=').map(|(name, path)| (name, dir.join(path))));
        command.stdin(fs::File::open(dir.join("request")).expect("the file exists"));
        let output = command.output().expect("the program starts");
        let text = stderr(&output) + &String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("is a symbolic link of another user"), "{args:?}: {text}");
        assert_eq!(names(&dir.join("target"), ""), [""; 0], "{args:?}");
    }
    assert_eq!(fs::read_to_string(dir.join("secret")).expect("the file exists"), "a private file of root");
    // Links of this user are followed.
    succeeds(dir, &[&export[..], &["own/out.csv"]].concat());
    assert_eq!(names(&dir.join("target"), ""), ["out.csv"]);
}

/// The request of a coordinator that starts a job.
fn start_request() -> Vec<u8> {
    let (job, node) = (JobName::parse("job").expect("a valid name"), NodeName::parse("node").expect("a valid name"));
    let order = JobSpec { job, experiment: String::new(), words: Vec::new() };
    Request::new(&node, RequestBody::Start { order, watch: false }).to_bytes()
}

#[test]
fn files_of_another_user_are_not_reused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    small_run(dir, "r.db");
    let planted = ["out.csv", "trace", "pipe", "fleet", "state"].map(|name| dir.join(name));
    for (path, make) in planted.iter().zip(["touch", "touch", "mkfifo", "mkdir", "mkdir"]) {
        assert!(Command::new(make).arg(path).status().expect("coreutils are installed").success());
        fs::set_permissions(path, fs::Permissions::from_mode(0o4777)).expect("the file belongs to this user");
    }
    if planted.iter().any(|path| chown(path, Some(OTHER), None).is_err()) {
        return println!("skipped: files_of_another_user_are_not_reused: requires root");
    }
    let export = ["--store", "r.db", "export", "-o"];
    succeeds(dir, &[&export[..], &["out.csv"]].concat());
    let new = fs::metadata(dir.join("out.csv")).expect("it was written");
    assert_eq!((new.uid(), new.mode() & 0o7777), (0, 0o755));
    // Whether this machine supports expansion or not, the trace is created first.
    run(dir, &["expand", "--dram", "64MiB", "--trace", "trace", "--", "true"]);
    assert_eq!(fs::metadata(dir.join("trace")).expect("it was written").uid(), 0);
    fs::write(dir.join("request"), start_request()).expect("the directory is writable");
    let command = ["--store", "r.db", "measure", "command", "-r", "1", "--", "true"];
    let cases: [(&[&str], &str); 3] = [
        (&[&export[..], &["pipe"]].concat(), "pipe belongs to another user"),
        (&["--store", "r.db", "__node"], "it belongs to another user"),
        (&command, "state belongs to another user"),
    ];
    for (args, expected) in cases {
        let mut command = nearfar(dir, args);
        command.stdin(fs::File::open(dir.join("request")).expect("the file exists"));
        let output = command.output().expect("the program starts");
        let text = stderr(&output) + &String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(expected), "{args:?}: {text}");
    }
    for name in ["fleet", "state"] {
        assert_eq!(names(&dir.join(name), ""), [""; 0], "{name}");
    }
}

#[test]
fn concurrent_exports_do_not_mix_and_leave_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    small_run(dir, "r.db");
    fs::write(dir.join("precious"), "text").expect("the directory is writable");
    symlink("precious", dir.join("out.nearfar-partial")).expect("the directory is writable");
    let export = |format: &str| {
        nearfar(dir, &["--store", "r.db", "export", "--format", format, "-o", &format!("out.{format}")])
            .spawn()
            .expect("the program starts")
    };
    for round in 0..10 {
        for mut child in [export("csv"), export("json")] {
            assert!(child.wait().expect("the process is a child").success());
        }
        let text = |format: &str| fs::read_to_string(dir.join(format!("out.{format}"))).expect("the file exists");
        assert!(text("csv").starts_with("run,"), "round {round}");
        assert!(serde_json::from_str::<serde_json::Value>(&text("json")).is_ok(), "round {round}");
    }
    // A killed export leaves the old file or the new one.
    for delay in 0..20 {
        let mut child = export("json");
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().and_then(|()| child.wait()).expect("the process is a child");
        let text = fs::read_to_string(dir.join("out.json")).expect("the file exists");
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "killed after {delay} ms");
    }
    assert_eq!(fs::read_to_string(dir.join("precious")).expect("the file exists"), "text");
    assert_eq!(names(dir, "partial"), ["out.nearfar-partial"], "only the planted link");
}

#[test]
fn directories_of_killed_trials_are_removed() {
    // HPL in a separate directory, which only its parent knows.
    let dir = tempfile::tempdir().expect("a temporary directory");
    let hpl = dir.path().join("xhpl");
    fs::write(&hpl, "#!/bin/sh\nexec sleep 600\n").expect("the directory is writable");
    fs::set_permissions(&hpl, fs::Permissions::from_mode(0o755)).expect("the file belongs to this user");
    let program = format!("program={}", hpl.display());
    let copies = ["measure", "file-copy", "-r", "1000", "--quiet"];
    let hpl = ["measure", "xhpl", "-r", "2", "--threads", "1", "--quiet", "--set", "n=400", "--set", &program];
    for (args, signal) in [(&copies[..], "KILL"), (&copies, "INT"), (&copies, "TERM"), (&hpl, "KILL"), (&hpl, "INT")] {
        check_killed_trial(args, signal);
    }
}

/// Kills a measurement during a trial, and checks that its directory is private and does not stay.
fn check_killed_trial(args: &[&str], signal: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let trial_dirs = || names(dir, "nearfar-");
    let args = [&["--store", "r.db"], args].concat();
    let mut child = nearfar(dir, &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let start = Instant::now();
    // The trial may end at any time.
    let trial_dir = loop {
        if let Some(name) = trial_dirs().pop() {
            break dir.join(name);
        }
        assert!(start.elapsed() < Duration::from_secs(60), "no trial has begun");
        assert!(child.try_wait().expect("a child").is_none(), "{args:?} ended without a trial");
        std::thread::sleep(Duration::from_millis(2));
    };
    let mode = fs::metadata(trial_dir).map_or(0o700, |found| found.permissions().mode());
    assert_eq!(mode & 0o777, 0o700, "other users cannot read it");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().expect("kill(1)").success());
    child.wait().expect("the process is a child");
    if signal == "KILL" {
        // Its worker notices the death and ends.
        succeeds(dir, &["restore"]);
        while !trial_dirs().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(60), "restore leaves {:?}", trial_dirs());
            succeeds(dir, &["restore"]);
        }
    }
    assert_eq!(trial_dirs(), [""; 0], "{args:?} after SIG{signal}");
}

/// Bytes of all files of a directory.
fn content(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(dir).expect("the directory is readable").flatten();
    let mut files: Vec<_> = entries.map(|entry| (entry.path(), fs::read(entry.path()).unwrap_or_default())).collect();
    files.sort();
    files
}

#[test]
fn reading_a_file_changes_neither_it_nor_its_directory() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (dir, theirs) = (dir.path(), dir.path().join("theirs"));
    fs::create_dir(&theirs).expect("the directory is writable");
    fs::copy(OLD, theirs.join("old.db")).expect("the fixture can be copied");
    small_run(dir, "theirs/new.db");
    let before = content(&theirs);
    for file in ["theirs/old.db", "theirs/new.db"] {
        for args in [&["show"][..], &["export"], &["report", "--output", "-"], &["show", "--runs"]] {
            succeeds(dir, &[&["--store", file], args].concat());
        }
        let imported = run(dir, &["import", file]);
        assert!(imported.status.success(), "{file}: {}", stderr(&imported));
        assert!(content(&theirs) == before, "{file}: {:?}", names(&theirs, ""));
    }
    assert_eq!(names(dir, "nearfar-copy-"), [""; 0]);
}

#[test]
fn results_file_without_own_tables_is_refused_at_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    small_run(dir, "r.db");
    if Command::new("sqlite3").arg("--version").output().is_err() {
        return println!("skipped: results_file_without_own_tables_is_refused_at_once: sqlite3 is not installed");
    }
    let cases = [
        "PRAGMA foreign_keys=OFF; ALTER TABLE run RENAME TO run_; CREATE VIEW run AS WITH RECURSIVE n(x) AS \
         (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT * FROM run_, n",
        "CREATE TRIGGER t AFTER INSERT ON trial BEGIN DELETE FROM trial; END",
    ];
    for (index, sql) in cases.iter().enumerate() {
        let file = format!("hostile-{index}.db");
        fs::copy(dir.join("r.db"), dir.join(&file)).expect("the directory is writable");
        let changed = Command::new("sqlite3").arg(dir.join(&file)).arg(sql).status().expect("sqlite3 starts");
        assert!(changed.success(), "{sql}");
        for args in [&["import", &file][..], &["--store", &file, "show"], &["--store", &file, "run", "quick"]] {
            let start = Instant::now();
            let output = run(dir, args);
            assert!(stderr(&output).contains("is a database of another program"), "{args:?}: {}", stderr(&output));
            assert!(start.elapsed() < Duration::from_secs(20), "{args:?}");
        }
    }
}

#[test]
fn endless_and_repetitive_input_files_are_limited() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let jobs = format!("[global]\nsize=1m\nrw=read\nioengine=psync\n{}", "[a]\n".repeat(30_000));
    fs::write(dir.join("same.fio"), jobs).expect("the directory is writable");
    for (name, rows) in [("largest", 1000), ("larger", 9000)] {
        let columns: String = (0..100).map(|column| format!(",c{column}")).collect();
        let row = |row| format!("t{row},m,s,lower{}\n", ",2".repeat(100));
        let text = format!("test,metric,unit,better{columns}\n{}", (0..rows).map(row).collect::<String>());
        fs::write(dir.join(name), text).expect("the directory is writable");
    }
    let xml = fs::read_to_string(MODEL).expect("the model exists");
    let xml = xml.replacen("os_index=\"0\"", "os_index=\"99999999999999999999\"", 3);
    fs::write(dir.join("huge.xml"), xml).expect("the directory is writable");
    for kind in ["Package", "Core"] {
        let xml = fs::read_to_string(MODEL).expect("the model exists");
        let xml =
            xml.replacen(&format!("\"{kind}\" os_index=\"0\""), &format!("\"{kind}\" os_index=\"4294967290\""), 1);
        fs::write(dir.join(format!("{kind}.xml")), xml).expect("the directory is writable");
    }
    let cases: [(&[&str], &str); 9] = [
        (&["map", "--from", "Package.xml"], "the number 4294967290 of an object is larger than 65535"),
        (&["placements", "--from", "Core.xml"], "the number 4294967290 of an object is larger than 65535"),
        (&["run", "/dev/zero"], "larger than 1 MiB"),
        (&["run", "--fio", "/dev/zero"], "larger than 1 MiB"),
        (&["import", "/dev/zero"], "unknown file format"),
        (&["run", "--fio", "same.fio", "--dry-run", "--sim", MODEL], "30000 cells; the maximum is 10000"),
        (&["import", "larger", "--format", "table"], "larger line 1002: more than 100000 figures"),
        (&["import", "largest", "--format", "table"], "imported 1000 rows of 100 columns"),
        (&["compare", "--table", "largest"], "Against c0, by column"),
    ];
    for (args, expected) in cases {
        let start = Instant::now();
        let output = run(dir, args);
        let text = stderr(&output) + &String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(expected), "{args:?}: {}", text.chars().take(2000).collect::<String>());
        assert!(start.elapsed() < Duration::from_secs(20), "{args:?}: {:?}", start.elapsed());
    }
    for args in [["map", "--from", "huge.xml"], ["placements", "--from", "huge.xml"]] {
        let output = run(dir, &args);
        assert!(output.stdout.len() + output.stderr.len() < 1 << 20, "{args:?}");
    }
}

#[test]
fn results_file_removed_during_the_run_is_an_error() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let args = ["--store", "r.db", "measure", "command", "-r", "500", "--quiet", "--", "true"];
    let mut child = nearfar(dir, &args).stdout(Stdio::null()).spawn().expect("the program starts");
    let start = Instant::now();
    while fs::metadata(dir.join("r.db-wal")).map_or(0, |wal| wal.len()) == 0 {
        assert!(start.elapsed() < Duration::from_secs(60) && child.try_wait().expect("a child").is_none());
        std::thread::sleep(Duration::from_millis(2));
    }
    fs::remove_file(dir.join("r.db")).expect("the file exists");
    let output = child.wait_with_output().expect("the process is a child");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("r.db was removed or replaced during the run"), "{}", stderr(&output));
}

#[test]
fn results_file_on_a_read_only_disk_reports_the_cause() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = run(dir.path(), &["--store", "/proc/1/results.db", "measure", "queens", "--sim", MODEL, "-r", "2"]);
    let text = stderr(&output);
    assert!(!output.status.success() && !text.contains("unable to open database file"), "{text}");
}

#[test]
fn fleet_without_a_reached_node_promises_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    let ssh = dir.join("ssh");
    fs::write(&ssh, "#!/bin/sh\necho 'ssh: connect to host a port 22: No route to host' >&2\nexit 255\n")
        .expect("writable");
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).expect("the file belongs to this user");
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap_or_default());
    let args = ["fleet", "run", "quick", "--on", "ssh:a,b", "--node-timeout", "1s"];
    let output = nearfar(dir, &args).env("PATH", path).output().expect("the program starts");
    let text = stderr(&output);
    assert!(!output.status.success() && text.contains("No route to host"), "{text}");
    assert!(!text.contains("if this program ends"), "{text}");
}
