//! How much DRAM a command needs, from the measurement to the page and to the next `expand`; and what who may not make
//! cgroups and swap is told.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Holds 48 MiB for a moment.
const HOLDS: [&str; 3] = ["python3", "-c", "b=bytearray(48<<20)\nfor i in range(0,len(b),4096): b[i]=1"];

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a scratch folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn nearfar(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.args(words).env("NEARFAR_STATE", self.path("state")).env("NEARFAR_STORE", self.path("r.db"));
        command.output().expect("the program starts")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Measured once; then on the page, shown again, and what `--dram` in percent means.
#[test]
fn what_a_command_needs_is_measured_shown_and_used() {
    let name = "what_a_command_needs_is_measured_shown_and_used";
    let place = Place::new();
    let sized = [&["size", "--dram", "50%,100%", "--runs", "2", "--format", "json", "--"][..], &HOLDS].concat();
    let measured = place.nearfar(&sized);
    if !matches!(measured.status.code(), Some(0 | 3)) {
        return println!("skipped: {name}: {}", text(&measured.stderr).trim());
    }
    let answer: serde_json::Value = serde_json::from_slice(&measured.stdout).expect("JSON");
    let need = answer["need"].as_u64().expect("a size");
    assert!((48 << 20..160 << 20).contains(&need), "{answer:#}");
    assert_eq!(answer["points"].as_array().map(Vec::len), Some(4), "{answer:#}");

    // The page: the answer in words, the picture, the table.
    let page = place.path("page.html");
    let reported = place.nearfar(&["report", "--output", page.to_str().expect("plain text")]);
    assert!(reported.status.success(), "{}", text(&reported.stderr));
    let html = std::fs::read_to_string(page).expect("it is written");
    for words in [
        "<h2>size python3</h2>",
        "<h3>Answer</h3>",
        "it holds ",
        "kernel swap",
        "class=\"curve warm l1\"",
        ">within 5 %<",
        "The same data as a table",
    ] {
        assert!(html.contains(words), "{words}");
    }
    let shown = place.nearfar(&["show"]);
    assert!(text(&shown.stdout).starts_with("it holds "), "{}", text(&shown.stdout));

    // A share of what was measured.
    let summary = place.path("summary.json");
    let half = ["expand", "--dram", "50%", "--summary", summary.to_str().expect("plain text"), "--"];
    let expanded = place.nearfar(&[&half[..], &HOLDS].concat());
    let said = text(&expanded.stderr);
    assert!(expanded.status.success(), "{said}");
    assert!(said.contains(" of DRAM: 50% of the peak of ") && said.contains(" in run "), "{said}");
    let summary: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(summary).expect("it is written")).expect("JSON");
    assert_eq!(summary["dram_bytes"].as_u64(), Some(need / 2 / 4096 * 4096), "{summary:#}");

    // Another command line was not measured.
    let other = place.nearfar(&["expand", "--dram", "50%", "--", "python3", "-c", "pass"]);
    assert_eq!(other.status.code(), Some(2));
    let said = text(&other.stderr);
    assert!(said.contains("--dram 50% of what?") && said.contains("nearfar size -- CMD"), "{said}");
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|ours| ours.uid() == 0)
}

/// A copy of the program that everybody may run.
fn for_everybody(place: &Place) -> PathBuf {
    let program = place.path("nearfar");
    std::fs::copy(env!("CARGO_BIN_EXE_nearfar"), &program).expect("there is room");
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
    mode(place.0.path(), 0o755);
    mode(&program, 0o755);
    program
}

/// Runs it as `setpriv` is told; as we are where we are not root anyway. None where there is no setpriv.
fn deprived(place: &Place, flags: &[&str], words: &[&str]) -> Option<Output> {
    let program = for_everybody(place);
    let mut command = Command::new("setpriv");
    command.args(flags).arg(&program).args(words);
    if !is_root() {
        command = Command::new(&program);
        command.args(words);
    }
    // Nobody may write there: what is asked is refused before anything is written.
    command.env("NEARFAR_STATE", place.path("state")).env("NEARFAR_STORE", place.path("r.db"));
    command.output().ok()
}

#[test]
fn who_is_not_root_is_told_what_is_lacking() {
    let place = Place::new();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let Some(refused) = deprived(&place, &nobody, &["expand", "--dram", "32MiB", "--", "true"]) else {
        return println!("skipped: who_is_not_root_is_told_what_is_lacking: setpriv is not installed");
    };
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "{said}");
    assert!(
        said.contains("needs root, to create a cgroup and swap (missing: CAP_SYS_ADMIN, CAP_DAC_OVERRIDE"),
        "{said}"
    );
    assert!(said.contains("hint: use sudo nearfar expand ..., or add the capabilities CAP_SYS_ADMIN"), "{said}");
    let doctor = deprived(&place, &nobody, &["doctor"]).expect("as before");
    let said = text(&doctor.stdout);
    let (_, lacks) = said.split_once("Missing for nearfar expand").expect("its section");
    assert!(lacks.contains("expand-root: bounding a program's DRAM needs root here"), "{said}");
    assert!(!lacks.contains("expand-swap: ") && !lacks.contains("expand-loop: "), "one reason is enough: {said}");
}

#[test]
fn root_without_its_capabilities_is_told_which() {
    let name = "root_without_its_capabilities_is_told_which";
    if !is_root() {
        return println!("skipped: {name}: only root can have fewer capabilities than root");
    }
    let place = Place::new();
    let words = ["expand", "--dram", "32MiB", "--", "true"];
    let Some(refused) = deprived(&place, &["--bounding-set=-sys_admin"], &words) else {
        return println!("skipped: {name}: setpriv is not installed");
    };
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "{said}");
    assert!(said.contains("root lacks CAP_SYS_ADMIN"), "{said}");
    let steered = deprived(&place, &["--bounding-set=-sys_nice"], &words).expect("as before");
    let said = text(&steered.stderr);
    if place.nearfar(&words).status.success() {
        assert!(said.contains("(process_madvise): CAP_SYS_NICE is lacking"), "{said}");
        assert!(said.contains("--engine plain"), "{said}");
        let plain = ["expand", "--dram", "32MiB", "--engine", "plain", "--", "true"];
        let ran = deprived(&place, &["--bounding-set=-sys_nice"], &plain).expect("as before");
        assert!(ran.status.success(), "{}", text(&ran.stderr));
    }
}
