//! Atomicity of exported files: each is complete or absent after a kill or an error, and no other file is left.

use model::hint::Hinted;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use store::Store;

use crate::child::{again, given_path};
use crate::disks::mounted;
use crate::fixtures;
use crate::parquet::{export, files, rows, stored};

const STORE: &str = "NEARFAR_TEST_STORE";
const RUN: &str = "00000000000000aa";
const TRIALS: u32 = 60;
const SAMPLES: usize = 500;
const ROUNDS: u64 = 18;

/// Helper process: exports the run of a results file repeatedly until it is killed.
#[test]
fn export_forever() {
    let Some(path) = given_path() else { return };
    let store = Store::open_existing(&path).unwrap();
    let run = fixtures::run(RUN, 7).id;
    loop {
        export(&store, &run, &path.with_file_name("out"));
    }
}

#[test]
fn a_killed_export_leaves_whole_files_only_and_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let run = fixtures::run(RUN, 7);
    let store = stored(dir.path(), &run, TRIALS, SAMPLES);
    let written = export(&store, &run.id, &out);
    let whole = fs::read(&written.path).unwrap();
    assert_eq!(rows(&written.path).len(), TRIALS as usize * SAMPLES);
    let (mut without, mut wholes) = (0, 0);
    for round in 0..ROUNDS {
        fs::remove_file(&written.path).unwrap();
        let mut child = again("parquet::files::export_forever")
            .env(STORE, store.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Its first complete file or its start, then some thousands of instructions that differ between rounds. A file has
        // no name before it is complete.
        while round % 3 == 0 && !written.path.exists() {
            assert!(child.try_wait().unwrap().is_none(), "it never ends by itself");
        }
        for spin in 0..model::values::plan::stream(round, "kill") % 120_000_000 {
            std::hint::black_box(spin);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let left = files(&out);
        for file in &left {
            assert!(fs::read(out.join(file)).unwrap() == whole, "round {round}: {} is not whole", file.display());
        }
        if left.is_empty() {
            without += 1;
        } else {
            wholes += 1;
        }
        export(&store, &run.id, &out);
        assert_eq!(files(&out), [written.path.strip_prefix(&out).unwrap()], "no other file is left");
        assert!(fs::read(&written.path).unwrap() == whole);
    }
    eprintln!("{without} of {ROUNDS} kills left no file, {wholes} a whole one");
    assert!(without > 0 && wholes > 0, "all were killed at the same point, so the test is inconclusive");
}

#[test]
fn concurrent_exports_of_a_run_leave_one_complete_file() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let run = fixtures::run(RUN, 7);
    let store = stored(dir.path(), &run, TRIALS, SAMPLES);
    let whole = fs::read(export(&store, &run.id, &out).path).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let store = Store::open_existing(&dir.path().join("results.db")).unwrap();
                for _ in 0..6 {
                    let path = export(&store, &run.id, &out).path;
                    assert!(fs::read(path).unwrap() == whole);
                }
            });
        }
    });
    assert_eq!(files(&out).len(), 1);
}

#[test]
fn export_of_a_resumed_run_replaces_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let run = fixtures::run(RUN, 7);
    let mut store = stored(dir.path(), &run, 5, 3);
    assert_eq!(rows(&export(&store, &run.id, &out).path).len(), 15);
    store.add_trial(&run.id, &fixtures::trial(&run, 5, 3)).unwrap();
    assert_eq!(rows(&export(&store, &run.id, &out).path).len(), 18);
    assert_eq!(files(&out).len(), 1);
}

#[test]
fn full_disk_is_reported_and_keeps_the_old_file() {
    let directory = tempfile::tempdir().unwrap();
    mounted(directory.path(), "mount -t tmpfs -o size=8m none \"$1\"", "parquet::files::on_a_small_disk");
}

/// Helper process: runs on a disk of 8 MiB.
#[test]
fn on_a_small_disk() {
    let Some(path) = given_path() else { return };
    let source_dir = tempfile::tempdir().unwrap();
    let run = fixtures::run(RUN, 7);
    let store = stored(source_dir.path(), &run, TRIALS, SAMPLES);
    let out = path.with_file_name("out");
    let old = fs::read(export(&store, &run.id, &out).path).unwrap();
    let left = |free_bytes: u64| {
        let stat = Command::new("stat").args(["-f", "-c", "%a %S"]).arg(&out).output().unwrap();
        let numbers: Vec<u64> =
            String::from_utf8(stat.stdout).unwrap().split_whitespace().map(|number| number.parse().unwrap()).collect();
        let free = numbers[0] * numbers[1];
        fs::write(path.with_file_name("ballast"), vec![1; free.saturating_sub(free_bytes) as usize]).unwrap();
    };
    left(old.len() as u64 / 2);
    let error = store::export::parquet(&store, &run.id, &out).unwrap_err().text_with_hint();
    assert!(error.contains(".parquet: no space left on the disk\nhint: files written before"), "{error}");
    let names = files(&out);
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(fs::read(out.join(&names[0])).unwrap() == old, "the old file is unchanged");
    fs::remove_file(path.with_file_name("ballast")).unwrap();
    export(&store, &run.id, &out);
    assert!(fs::read(out.join(&names[0])).unwrap() == old);
}

#[test]
fn read_only_disk_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let read_only = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\"";
    mounted(directory.path(), read_only, "parquet::files::on_a_read_only_disk");
}

/// Helper process: runs on a read-only disk.
#[test]
fn on_a_read_only_disk() {
    let Some(path) = given_path() else { return };
    refused(
        &path.with_file_name("out"),
        ": the file system is read-only\nhint: name another directory with --output-dir",
    );
}

fn refused(out: &Path, expected: &str) {
    let source_dir = tempfile::tempdir().unwrap();
    let run = fixtures::run(RUN, 7);
    let store = stored(source_dir.path(), &run, 1, 1);
    let error = store::export::parquet(&store, &run.id, out).unwrap_err().text_with_hint();
    assert!(error.starts_with(&format!("cannot write {}", out.display())), "{error}");
    assert!(error.contains(expected), "{error}");
}

#[test]
fn file_in_place_of_a_directory_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "precious").unwrap();
    refused(&file, ": a component of the path is a file, not a directory");
    refused(&file.join("below"), ": a component of the path is a file, not a directory");
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

/// Root may write everywhere, except from a user namespace in which it is not mapped.
#[test]
fn directory_without_write_permission_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let closed = directory.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let inner = again("parquet::files::in_a_closed_directory");
    let mut command = Command::new("unshare");
    command.args(["--user"]).arg(inner.get_program()).args(inner.get_args()).env(STORE, closed.join("results.db"));
    match command.output() {
        Err(error) => println!("skipped: unshare: {error}"),
        Ok(output) if output.stderr.starts_with(b"unshare: ") => {
            println!("skipped: no user name spaces here: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(output) => {
            let text =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success() && text.contains("1 passed"), "{text}");
        }
    }
}

/// Helper process: runs as a user who may not write to the directory.
#[test]
fn in_a_closed_directory() {
    let Some(path) = given_path() else { return };
    refused(&path.with_file_name("out"), ": permission denied\nhint: name another directory with --output-dir");
}
