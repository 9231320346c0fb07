//! Full and read-only disks. They are mounted in a separate mount namespace, so nothing is left behind. If the kernel
//! does not let the user create namespaces, these tests are skipped and print the reason.

use model::hint::Hinted;
use std::fs;
use std::path::Path;
use std::process::Command;

use store::{Store, StoreError};

use crate::child::{again, given_path};
use crate::fixtures;

/// Read by `child::given_path`.
const PATH: &str = "NEARFAR_TEST_STORE";

/// Runs one of the helpers below in a mount namespace, after `mount` (a shell command that finds the directory in $1).
pub fn mounted(directory: &Path, mount: &str, test: &str) {
    let inner = again(test);
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c"]).arg(format!("{mount} || exit 77; shift; exec \"$@\""));
    command.arg("sh").arg(directory).arg(inner.get_program()).args(inner.get_args());
    let output = match command.env(PATH, directory.join("results.db")).output() {
        Ok(output) if output.status.code() == Some(77) || output.stderr.starts_with(b"unshare: ") => {
            println!("skipped: cannot mount here: {}", String::from_utf8_lossy(&output.stderr).trim());
            return;
        }
        Err(error) => {
            println!("skipped: unshare: {error}");
            return;
        }
        Ok(output) => output,
    };
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn full_disk_keeps_the_stored_trials() {
    let directory = tempfile::tempdir().unwrap();
    mounted(directory.path(), "mount -t tmpfs -o size=1m none \"$1\"", "disks::on_a_small_disk");
}

/// Helper process: runs on a disk of 1 MiB.
#[test]
fn on_a_small_disk() {
    let Some(path) = given_path() else { return };
    let ballast = path.with_file_name("ballast");
    fs::write(&ballast, vec![1; 300 << 10]).unwrap();
    let run = fixtures::run("00000000000000aa", 1);
    let mut store = Store::open(&path).unwrap();
    store.begin_run(&run).unwrap();
    let mut stored = Vec::new();
    let error = loop {
        let trial = fixtures::trial(&run, stored.len() as u32, 50);
        match store.add_trial(&run.id, &trial) {
            Ok(()) => stored.push(trial),
            Err(error) => break error,
        }
        assert!(stored.len() < 10_000, "the disk never filled");
    };
    assert!(matches!(error, StoreError::NoSpace { .. }), "{error:?}");
    let text = error.text_with_hint();
    assert!(text.starts_with(&format!("no space left on the disk of results file {}", path.display())), "{text}");
    assert!(text.contains("\nhint: results stored before are kept"), "{text}");
    assert!(stored.len() > 5 && store.trials(&run.id).unwrap() == stored);
    // The same holds for a program started later, while the disk is still full.
    drop(store);
    let mut store = Store::open(&path).unwrap();
    assert!(store.trials(&run.id).unwrap() == stored);
    store.check().unwrap();
    // After space is freed, the run is resumed.
    fs::remove_file(ballast).unwrap();
    stored.push(fixtures::trial(&run, stored.len() as u32, 50));
    store.add_trial(&run.id, stored.last().unwrap()).unwrap();
    assert!(store.trials(&run.id).unwrap() == stored);
}

const READ_ONLY: &str = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\"";

#[test]
fn file_on_a_read_only_disk_can_be_read() {
    let directory = tempfile::Builder::new().prefix("odd ?#%41 name").tempdir().unwrap();
    let mut store = Store::open(&directory.path().join("results.db")).unwrap();
    let run = fixtures::run("00000000000000aa", 1);
    store.begin_run(&run).unwrap();
    store.add_trial(&run.id, &fixtures::trial(&run, 0, 5)).unwrap();
    drop(store);
    mounted(directory.path(), READ_ONLY, "disks::on_a_read_only_disk");
}

#[test]
fn read_only_disk_hides_no_trial_of_a_killed_program() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let mut store = Store::open(&path).unwrap();
    let run = fixtures::run("00000000000000aa", 1);
    store.begin_run(&run).unwrap();
    // Closing moves the run into the database; the trial stays in the WAL.
    drop(store);
    let mut store = Store::open(&path).unwrap();
    store.add_trial(&run.id, &fixtures::trial(&run, 0, 5)).unwrap();
    // A copy of the current files is what a killed program leaves: the trial is in the WAL.
    let copy = tempfile::tempdir().unwrap();
    for name in ["results.db", "results.db-wal", "results.db-shm"] {
        fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
    }
    mounted(copy.path(), READ_ONLY, "disks::on_a_read_only_disk");
    fs::remove_file(copy.path().join("results.db-shm")).unwrap();
    mounted(copy.path(), READ_ONLY, "disks::on_a_read_only_disk_with_a_wal");
    // A directory stands for an unreadable WAL, because root could read any file.
    fs::remove_file(copy.path().join("results.db-wal")).unwrap();
    fs::create_dir(copy.path().join("results.db-wal")).unwrap();
    mounted(copy.path(), READ_ONLY, "disks::on_a_read_only_disk_with_a_wal");
}

/// Helper process: runs with the file's directory read-only.
#[test]
fn on_a_read_only_disk() {
    let Some(path) = given_path() else { return };
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. } | StoreError::CannotOpen { .. }), "{error:?}");
    let error = Store::open(&path.with_file_name("new.db")).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. } | StoreError::CannotOpen { .. }), "{error:?}");
    let mut store = Store::open_existing(&path).unwrap();
    let run = fixtures::run("00000000000000aa", 1);
    assert_eq!(store.trials(&run.id).unwrap(), [fixtures::trial(&run, 0, 5)]);
    let error = store.add_trial(&run.id, &fixtures::trial(&run, 1, 5)).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    assert!(error.to_string().contains("the file or its directory is read-only"), "{error}");
}

/// Helper process: the trial is in a WAL; if the WAL is unreadable, an error is expected.
#[test]
fn on_a_read_only_disk_with_a_wal() {
    let Some(path) = given_path() else { return };
    let run = fixtures::run("00000000000000aa", 1);
    match Store::open_existing(&path) {
        Ok(store) => assert_eq!(store.trials(&run.id).unwrap(), [fixtures::trial(&run, 0, 5)]),
        Err(error) => {
            assert!(matches!(error, StoreError::ReadOnly { .. } | StoreError::CannotOpen { .. }), "{error:?}");
        }
    }
}
