//! `nearfar where` on real processes and files: planted memory is found, and unsuitable subjects have clear errors.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const MIB: u64 = 1 << 20;

fn nearfar(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearfar")).args(args).output().expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the result as JSON; `None`, with the reason printed, if pages cannot be queried here.
fn found(test: &str, args: &[&str]) -> Option<Value> {
    let output = nearfar(&[&["where", "--format", "json"], args].concat());
    let stderr = stderr(&output);
    if stderr.contains("(move_pages)") {
        println!("skipped: {test}: {stderr}");
        return None;
    }
    assert!(output.status.success(), "{args:?}: {stderr}");
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}")))
}

fn bytes(memory: &Value) -> u64 {
    memory["bytes"].as_u64().expect("a size")
}

/// Returns the sum of the parts of these kinds.
fn of_kinds(found: &Value, kinds: &[&str]) -> u64 {
    let parts = found["parts"].as_array().expect("a list");
    parts.iter().filter(|part| kinds.iter().any(|kind| part["kind"] == *kind)).map(bytes).sum()
}

fn on_nodes(memory: &Value) -> u64 {
    memory["by_node"].as_object().expect("an object").values().map(|bytes| bytes.as_u64().expect("a size")).sum()
}

#[test]
fn memory_of_a_process_grows_by_the_planted_size() {
    let test = "memory_of_a_process_grows_by_the_planted_size";
    let pid = std::process::id().to_string();
    // Other tests of this process start processes.
    let own = |found: &Value| {
        let processes = found["processes"].as_array().expect("a list");
        let own = processes.iter().find(|process| process["pid"] == std::process::id());
        bytes(own.unwrap_or_else(|| panic!("{found:#}")))
    };
    let Some(before) = found(test, &["--pid", &pid]) else { return };
    let planted = vec![1_u8; 96 << 20];
    let after = found(test, &["--pid", &pid]).expect("the first inspection succeeded");
    assert_eq!(planted[95 << 20], 1);
    let grown = own(&after).abs_diff(own(&before));
    assert!(grown.abs_diff(96 * MIB) < 8 * MIB, "{grown} bytes: {after:#}");
    assert!(of_kinds(&after, &["heap", "anonymous", "huge-pages"]) >= 96 * MIB, "{after:#}");
    let total = &after["total"];
    assert_eq!(on_nodes(total) + total["unattributed"].as_u64().expect("a size"), bytes(total));
    let exe = std::env::current_exe().expect("it has a path");
    assert_eq!(named(&after, exe.to_str().expect("the path is UTF-8"))["kind"], "program");
}

/// Returns the part of this name.
fn named<'a>(found: &'a Value, name: &str) -> &'a Value {
    let parts = found["parts"].as_array().expect("a list");
    parts.iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("{name}: {found:#}"))
}

#[test]
fn shell_that_runs_the_inspection_is_inspected_alone() {
    let mut shell = Command::new("sh");
    // The shell must not replace itself with the last command.
    shell.args(["-c", "\"$0\" where --pid $$ --format json; exit $?", env!("CARGO_BIN_EXE_nearfar")]);
    let output = shell.output().expect("a shell starts");
    if stderr(&output).contains("(move_pages)") {
        return println!("skipped: shell_that_runs_the_inspection_is_inspected_alone: {}", stderr(&output));
    }
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let names: Vec<&Value> = found["processes"].as_array().expect("a list").iter().map(|one| &one["name"]).collect();
    assert_eq!((names, &found["unseen"]), (vec![&json!("sh")], &json!([])), "{found:#}");
    assert_eq!(found["threads"][0]["threads"], 1);
}

#[test]
fn command_is_inspected_and_keeps_its_status_and_output() {
    let test = "command_is_inspected_and_keeps_its_status_and_output";
    // Holds 32 MiB, and ends once it was inspected: its standard input is closed then.
    let script = "x=$(head -c 33554432 /dev/zero | tr '\\0' x); echo output; read line; exit 7";
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["where", "--format", "json", "--", "sh", "-c", script]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let stdin = child.stdin.take().expect("it is a pipe");
    // The command has written its line, so an inspection after this contains its memory. Intervals are at most 1 s.
    let mut stderr = std::io::BufReader::new(child.stderr.take().expect("it is a pipe"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stderr, &mut line).expect("it is readable");
    assert_eq!(line, "output\n", "standard output of the command is redirected");
    let shell = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap_or_default();
    wait_for_inspection(child.id(), shell.trim());
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(7));
    let mut messages = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut messages).expect("it is readable");
    if messages.contains("(move_pages)") {
        return println!("skipped: {test}: {messages}");
    }
    assert!(messages.contains("nearfar: inspected "), "{messages}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {messages}"));
    assert!(of_kinds(&found, &["heap", "anonymous", "huge-pages"]) >= 32 * MIB, "{found:#}");
    let samples = found["samples"].as_array().expect("a list");
    assert_eq!(samples.last().map(|sample| bytes(&sample["memory"])), Some(bytes(&found["total"])));
}

/// Waits until a process has read enough of /proc for a complete inspection of its child that began after this call.
fn wait_for_inspection(pid: u32, child: &str) {
    let text = |path: String| std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let read = || -> usize {
        let counters = text(format!("/proc/{pid}/io"));
        let count = counters.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("a counter");
        count.parse().expect("a number")
    };
    // The rest are short files: status, stat and the CPUs of each node.
    let one = text(format!("/proc/{child}/maps")).len() + text("/proc/self/mountinfo".into()).len() + (8 << 10);
    let (start, began) = (read(), std::time::Instant::now());
    while read() - start < 2 * one {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "the command is not inspected");
        std::thread::yield_now();
    }
}

fn file_with(dir: &Path, name: &str, bytes: usize) -> String {
    let path = dir.join(name);
    let mut file = File::create(&path).expect("the directory is writable");
    file.write_all(&vec![1; bytes]).expect("the disk has space");
    path.to_str().expect("the path is UTF-8").to_owned()
}

#[test]
fn cached_files_are_listed_in_order() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (data, empty) = (file_with(dir.path(), "data", 3_000_000), file_with(dir.path(), "empty", 0));
    let Some(found) = found("cached_files_are_listed_in_order", &["--file", &data, &empty]) else { return };
    let files = found["files"].as_array().expect("a list");
    assert_eq!((files[0]["path"].as_str(), files[1]["path"].as_str()), (Some(&*data), Some(&*empty)));
    assert_eq!((bytes(&files[0]), files[0]["size"].as_u64()), (3_000_000_u64.next_multiple_of(4096), Some(3_000_000)));
    assert_eq!((bytes(&files[1]), files[1]["cached_percent"].clone()), (0, Value::Null));
    let text = nearfar(&["where", "--file", &data, &empty]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("2.9MiB") && text.contains("100 %") && text.contains("empty"), "{text}");
}

#[test]
fn unsuitable_subjects_have_clear_errors() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().to_str().expect("the path is UTF-8");
    let missing = format!("{path}/missing");
    let mut child = Command::new("true").spawn().expect("true starts");
    let ended = child.id().to_string();
    child.wait().expect("it ends");
    let cases: &[(&[&str], i32, &str)] = &[
        (&[], 2, "required"),
        (&["--pid", "1", "--unit", "a"], 2, "cannot be used with"),
        (&["--pid", "0"], 2, "invalid value '0'"),
        (&["--pid", &ended], 2, "does not exist"),
        (&["--file", path], 2, "is a directory, not a file\nhint: name the files in it"),
        (&["--file", &missing], 2, "No such file or directory"),
        (&["--file", "/dev/null"], 2, "is a device, not a file"),
        (&["--unit", "no-such-unit"], 2, "unit no-such-unit\nhint: list units with systemctl"),
        (&["--container", "0123456789ab"], 2, "container 0123456789ab\nhint: use its ID"),
        (&["--container", "a/b"], 2, "is not the ID of a container"),
        (&["--cgroup", &missing], 2, "\nhint: use a path as in /proc/PID/cgroup"),
        (&["--", "/no/such/program"], 127, "cannot run '/no/such/program'"),
        (&["--", path], 126, "cannot run"),
    ];
    for (args, status, message) in cases {
        let output = nearfar(&[&["where"], *args].concat());
        let stderr = stderr(&output);
        if stderr.contains("no cgroup file system is mounted") {
            println!("skipped: {args:?}: {stderr}");
            continue;
        }
        assert_eq!((output.status.code(), output.stdout.len()), (Some(*status), 0), "{args:?}: {stderr}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
    }
}

/// Processes and files of root, as another user.
#[test]
fn memory_of_other_users_is_not_permitted() {
    let test = "memory_of_other_users_is_not_permitted";
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = dir.path().join("nearfar");
    std::fs::copy(env!("CARGO_BIN_EXE_nearfar"), &program).expect("the directory is writable");
    let file = file_with(dir.path(), "data", 10);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), mode).expect("this user owns it");
    let as_other = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program).arg("where").args(args);
        command.output()
    };
    let pid = std::process::id().to_string();
    match as_other(&["--pid", &pid]) {
        Ok(output) if !stderr(&output).starts_with("setpriv: ") => {
            let stderr = stderr(&output);
            assert_eq!(output.status.code(), Some(5), "{stderr}");
            assert!(
                stderr.contains(&format!("cannot inspect process {pid}: ")) && stderr.contains("\nhint: "),
                "{stderr}"
            );
        }
        _ => return println!("skipped: {test}: setpriv needs root and util-linux"),
    }
    // The result must not be that of its descendants alone.
    let mut child = Command::new("setpriv");
    child.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sleep", "60"]);
    let mut child = child.spawn().expect("setpriv has started before");
    let output = as_other(&["--pid", &pid]).expect("setpriv has started before");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(5), 0), "{}", stderr(&output));
    child.kill().and_then(|()| child.wait()).expect("it is a child");
    let output = as_other(&["--file", &file]).expect("setpriv has started before");
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stderr(&output).contains("are cached only to its owner"), "{}", stderr(&output));
}

/// A command that reads a file without mapping it finds none of it in the page cache from the second trial on.
#[test]
fn files_of_a_command_are_dropped_from_the_page_cache() {
    let test = "files_of_a_command_are_dropped_from_the_page_cache";
    // Files in /tmp may be memory.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory");
    let data = dir.path().join("data");
    std::fs::write(&data, vec![1; 4 << 20]).expect("the directory is writable");
    // Long enough to be observed with the open file.
    let script = "exec 3<\"$0\"; sleep 0.3; cat <&3";
    let trials = |state: &str| {
        let store = dir.path().join(format!("{state}.db")).display().to_string();
        let set = format!("page-cache={state}");
        let file = data.display().to_string();
        let measure = ["--store", &store, "measure", "command", "--wait", "-r", "3", "--set", &set];
        let measured = nearfar(&[&measure[..], &["--", "sh", "-c", script, &file]].concat());
        assert!(measured.status.success(), "{}", stderr(&measured));
        let shown = nearfar(&["--store", &store, "show", "--trials", "--format", "json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).expect("show prints JSON");
        let trials = shown["trials"].as_array().expect("a list").clone();
        trials.iter().map(|trial| trial["evidence"]["page_cache"].clone()).collect::<Vec<Value>>()
    };
    let cold = trials("cold");
    let last = cold.last().expect("a trial");
    if last["not_equalised"].to_string().contains("memory of the file system") {
        return println!("skipped: {test}: files of this directory are memory");
    }
    assert!(last["equalised"].as_array().expect("a list").contains(&json!(data)), "{cold:#?}");
    assert!(trials("as-found").iter().all(Value::is_null));
}
