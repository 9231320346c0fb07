//! The DRAM that a command needs: measured, shown, and used by `expand`. Also errors of `expand` without permissions.

mod rights;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::rights::is_root;

/// Allocates and touches 48 MiB.
const HOLDS: [&str; 3] = ["python3", "-c", "b=bytearray(48<<20)\nfor i in range(0,len(b),4096): b[i]=1"];

struct Setup(TempDir);

impl Setup {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn nearfar(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.args(args).env("NEARFAR_STATE", self.path("state")).env("NEARFAR_STORE", self.path("r.db"));
        command.output().expect("the program starts")
    }
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// One measurement is shown in the report and by `show`, and is the base of a percentage of `--dram`.
#[test]
fn needed_dram_is_measured_shown_and_used_by_expand() {
    let name = "needed_dram_is_measured_shown_and_used_by_expand";
    let setup = Setup::new();
    let sized = [&["size", "--dram", "50%,100%", "--runs", "2", "--format", "json", "--"][..], &HOLDS].concat();
    let measured = setup.nearfar(&sized);
    if !matches!(measured.status.code(), Some(0 | 3)) {
        return println!("skipped: {name}: {}", utf8(&measured.stderr).trim());
    }
    let result: serde_json::Value = serde_json::from_slice(&measured.stdout).expect("JSON");
    let need = result["need"].as_u64().expect("a size");
    assert!((48 << 20..160 << 20).contains(&need), "{result:#}");
    assert_eq!(result["points"].as_array().map(Vec::len), Some(4), "{result:#}");
    // The report: text, figure and table.
    let page = setup.path("page.html");
    let reported = setup.nearfar(&["report", "--output", page.to_str().expect("plain text")]);
    assert!(reported.status.success(), "{}", utf8(&reported.stderr));
    let html = std::fs::read_to_string(page).expect("the file exists");
    for words in [
        "<h2>size python3</h2>",
        "<h3 id=\"run-1-answer\">",
        "python3 uses ",
        "kernel swap",
        "class=\"curve warm l1\"",
        ">within 5 %<",
        "The same data as a table",
    ] {
        assert!(html.contains(words), "{words}");
    }
    let shown = setup.nearfar(&["show"]);
    assert!(utf8(&shown.stdout).starts_with("python3 uses "), "{}", utf8(&shown.stdout));

    // A percentage of the measured peak.
    let summary = setup.path("summary.json");
    let half = ["expand", "--dram", "50%", "--summary", summary.to_str().expect("plain text"), "--"];
    let expanded = setup.nearfar(&[&half[..], &HOLDS].concat());
    let text = utf8(&expanded.stderr);
    assert!(expanded.status.success(), "{text}");
    assert!(text.contains(" of DRAM: 50% of the peak of ") && text.contains(" in run "), "{text}");
    let summary: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(summary).expect("the file exists")).expect("JSON");
    assert_eq!(summary["dram_bytes"].as_u64(), Some(need / 2 / 4096 * 4096), "{summary:#}");

    // Other command lines have no measured peak.
    let other = setup.nearfar(&["expand", "--dram", "50%", "--", "python3", "-c", "pass"]);
    assert_eq!(other.status.code(), Some(2));
    let text = utf8(&other.stderr);
    assert!(text.contains("--dram 50%: the peak memory of this command line is unknown"), "{text}");
    assert!(text.contains("nearfar size -- CMD"), "{text}");
}

/// Program that touches 64 MiB of shared memory.
fn shares(kind: &str) -> [String; 3] {
    let map = match kind {
        "anonymous" => "mmap.mmap(-1, S)".to_string(),
        "memfd" => "f=os.memfd_create('m'); os.ftruncate(f, S); b=mmap.mmap(f, S)".to_string(),
        "posix" => "f=os.open('/dev/shm/nearfar-size-%d'%os.getpid(), os.O_RDWR|os.O_CREAT); os.ftruncate(f, S)\n\
                    b=mmap.mmap(f, S); os.unlink('/dev/shm/nearfar-size-%d'%os.getpid())"
            .to_string(),
        "system-v" => "c=ctypes.CDLL(None); c.shmat.restype=ctypes.c_void_p; i=c.shmget(0, S, 0o1600)\n\
                       a=c.shmat(i, None, 0); c.shmctl(i, 0, None); b=(ctypes.c_char*S).from_address(a)"
            .to_string(),
        _ => unreachable!("{kind} is not in the list"),
    };
    let map = if map.contains("b=") { map } else { format!("b={map}") };
    let touch = "for p in range(0, S, 4096): b[p]=b'1' if 'c_char' in str(type(b)) else 1";
    ["python3".into(), "-c".into(), format!("import ctypes, mmap, os\nS=64<<20\n{map}\n{touch}")]
}

/// Shared memory belongs to the program like its own.
#[test]
fn shared_memory_is_part_of_the_needed_dram() {
    let name = "shared_memory_is_part_of_the_needed_dram";
    for kind in ["anonymous", "memfd", "posix", "system-v"] {
        let setup = Setup::new();
        let program = shares(kind);
        let program: Vec<&str> = program.iter().map(String::as_str).collect();
        let sized =
            [&["size", "--dram", "100%", "--runs", "1", "-w", "0", "--format", "json", "--"][..], &program].concat();
        let measured = setup.nearfar(&sized);
        if !matches!(measured.status.code(), Some(0 | 3)) {
            return println!("skipped: {name}: {}", utf8(&measured.stderr).trim());
        }
        let result: serde_json::Value = serde_json::from_slice(&measured.stdout).expect("JSON");
        let need = result["need"].as_u64().expect("a size");
        assert!((64 << 20..160 << 20).contains(&need), "{kind}: {result:#}");
    }
}

/// Copies the program to a file that any user can execute.
fn executable_by_all(setup: &Setup) -> PathBuf {
    let program = setup.path("nearfar");
    std::fs::copy(env!("CARGO_BIN_EXE_nearfar"), &program).expect("the disk has space");
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("chmod");
    mode(setup.0.path(), 0o755);
    mode(&program, 0o755);
    program
}

/// Runs the program through `setpriv`, or directly if this process is not root. `None` if `setpriv` is not installed.
fn via_setpriv(setup: &Setup, flags: &[&str], args: &[&str]) -> Option<Output> {
    let program = executable_by_all(setup);
    let mut command = Command::new("setpriv");
    command.args(flags).arg(&program).args(args);
    if !is_root() {
        command = Command::new(&program);
        command.args(args);
    }
    // The user cannot write to this directory, but the commands fail before they write.
    command.env("NEARFAR_STATE", setup.path("state")).env("NEARFAR_STORE", setup.path("r.db"));
    command.output().ok()
}

#[test]
fn expand_without_root_reports_missing_capabilities() {
    let setup = Setup::new();
    let unprivileged = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let Some(refused) = via_setpriv(&setup, &unprivileged, &["expand", "--dram", "32MiB", "--", "true"]) else {
        return println!("skipped: expand_without_root_reports_missing_capabilities: setpriv is not installed");
    };
    let text = utf8(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "{text}");
    let expected = "needs root, to create a cgroup and swap (missing: CAP_SYS_ADMIN, CAP_DAC_OVERRIDE";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("hint: use sudo nearfar expand ..., or add the capabilities CAP_SYS_ADMIN"), "{text}");
    let doctor = via_setpriv(&setup, &unprivileged, &["doctor"]).expect("setpriv is installed");
    let text = utf8(&doctor.stdout);
    let (_, missing) = text.split_once("Missing for nearfar expand").expect("the section of expand");
    assert!(missing.contains("expand-root: a DRAM limit needs root"), "{text}");
    assert!(!missing.contains("expand-swap: ") && !missing.contains("expand-loop: "), "one cause suffices: {text}");
}

#[test]
fn root_without_a_capability_gets_its_name() {
    let name = "root_without_a_capability_gets_its_name";
    if !is_root() {
        return println!("skipped: {name}: only root can have fewer capabilities than root");
    }
    let setup = Setup::new();
    let args = ["expand", "--dram", "32MiB", "--", "true"];
    let Some(refused) = via_setpriv(&setup, &["--bounding-set=-sys_admin"], &args) else {
        return println!("skipped: {name}: setpriv is not installed");
    };
    let text = utf8(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "{text}");
    assert!(text.contains("root lacks CAP_SYS_ADMIN"), "{text}");
    let steered = via_setpriv(&setup, &["--bounding-set=-sys_nice"], &args).expect("setpriv is installed");
    let text = utf8(&steered.stderr);
    if setup.nearfar(&args).status.success() {
        assert!(text.contains("(process_madvise): CAP_SYS_NICE is lacking"), "{text}");
        assert!(text.contains("--engine kernel"), "{text}");
        let plain = ["expand", "--dram", "32MiB", "--engine", "plain", "--", "true"];
        let output = via_setpriv(&setup, &["--bounding-set=-sys_nice"], &plain).expect("setpriv is installed");
        assert!(output.status.success(), "{}", utf8(&output.stderr));
    }
}

#[test]
fn budget_ends_the_run_and_small_sizes_are_raised_once() {
    let name = "budget_ends_the_run_and_small_sizes_are_raised_once";
    let setup = Setup::new();
    let options = ["size", "--dram", "1%,2%,100%", "--engine", "kernel", "-r", "1000", "--budget", "1s"];
    let measured = setup.nearfar(&[&options[..], &["--format", "json", "--"], &HOLDS].concat());
    let messages = utf8(&measured.stderr);
    if !matches!(measured.status.code(), Some(0 | 3)) {
        return println!("skipped: {name}: {}", messages.trim());
    }
    assert!(messages.contains("budgets below the minimum of 8MiB are raised to it: 1%, 2%\n"), "{messages}");
    assert!(messages.contains("the budget of 1s is used up"), "{messages}");
    let result: serde_json::Value = serde_json::from_slice(&measured.stdout).expect("JSON");
    let sizes: Vec<u64> =
        result["points"].as_array().into_iter().flatten().filter_map(|it| it["dram"].as_u64()).collect();
    assert_eq!((sizes.len(), sizes[0]), (2, 8 << 20), "{result:#}");
}

/// A server that allocates 48 MiB, and a load that allocates 200 MiB and prints a rate.
#[test]
fn server_has_the_limit_and_the_metric_is_that_of_its_load() {
    let name = "server_has_the_limit_and_the_metric_is_that_of_its_load";
    let setup = Setup::new();
    let ready = setup.path("ready");
    let server = format!("python3 -c \"{}; open('{}', 'w'); input()\"", "b=b'1'*(48<<20)", ready.display());
    let server = server.replace("input()", "import time; time.sleep(600)");
    let condition = format!("file:{}", ready.display());
    let load = ["python3", "-c", "b=b'1'*(200<<20); print('rate', 7)"];
    let options = ["--ready", &condition, "--metric", "rate ([0-9]+)", "--higher-is-better", "--metric-unit", "1/s"];
    let run = ["size", "--dram", "100%", "--engine", "kernel", "-r", "1", "--format", "json", "--server", &server];
    let measured = setup.nearfar(&[&run[..], &options, &["--"], &load].concat());
    if !matches!(measured.status.code(), Some(0 | 3)) {
        return println!("skipped: {name}: {}", utf8(&measured.stderr).trim());
    }
    let result: serde_json::Value = serde_json::from_slice(&measured.stdout).expect("JSON");
    let need = result["need"].as_u64().expect("a size");
    assert!((48 << 20..160 << 20).contains(&need), "{result:#}");
    let slower = result["points"][0]["slower_percent"].as_f64().expect("a percentage");
    assert!(slower.abs() < 1e-9, "the rate is always 7: {result:#}");
}
