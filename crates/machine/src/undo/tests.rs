//! Changing and putting back, on recorded trees and, as root, on this machine's own settings.

use std::process::{Child, Command};

use tempfile::TempDir;

use super::*;
use crate::sysfs::test_tree::tree;

const A: &str = "sys/a";
const B: &str = "proc/b";

fn site(folder: &TempDir) -> SettingsRoot {
    SettingsRoot { root: folder.path().into(), state: folder.path().join("state") }
}

fn file(path: &str) -> SettingTarget {
    SettingTarget::File(path.into())
}

fn text(folder: &TempDir, path: &str) -> String {
    std::fs::read_to_string(folder.path().join(path)).unwrap()
}

#[test]
fn what_was_changed_comes_back_in_reverse_order() {
    let folder = tree(&[(A, "1\n"), (B, "[x] y\n")]);
    let site = site(&folder);
    let mut changed = AppliedSettings::begin(&site).unwrap();
    assert_eq!(changed.set("a", file(A), "0").unwrap(), Some("1".into()));
    assert_eq!(changed.set("a", file(A), "0").unwrap(), None, "it has this value");
    assert_eq!(changed.set("b", file(B), "y").unwrap(), Some("x".into()));
    assert_eq!((text(&folder, A), text(&folder, B)), ("0".into(), "y".into()));
    let settings: Vec<(String, RestoreStatus)> =
        changed.restore().into_iter().map(|restored| (restored.change.setting, restored.outcome)).collect();
    assert_eq!(settings, [("b".into(), RestoreStatus::Restored), ("a".into(), RestoreStatus::Restored)]);
    assert_eq!((text(&folder, A), text(&folder, B)), ("1".into(), "x".into()));
    assert!(!site.state.join("undo.journal").exists());
}

#[test]
fn the_journal_is_there_before_the_setting_is_written() {
    let folder = tree(&[(A, "1\n")]);
    let site = site(&folder);
    let mut changed = AppliedSettings::begin(&site).unwrap();
    // A file where the journal's folder should be.
    std::fs::write(&site.state, "").unwrap();
    let error = changed.set("a", file(A), "0").unwrap_err();
    assert!(error.what.contains("journal"), "{error:?}");
    assert_eq!(text(&folder, A), "1\n", "without a line in the journal nothing is written");
}

#[test]
fn dropping_puts_back_also_on_panic() {
    let folder = tree(&[(A, "1")]);
    let site = site(&folder);
    let result = std::panic::catch_unwind(|| {
        let mut changed = AppliedSettings::begin(&site).unwrap();
        changed.set("a", file(A), "0").unwrap();
        panic!("on purpose");
    });
    assert!(result.is_err());
    assert_eq!(text(&folder, A), "1");
    assert_eq!(pending(&site).unwrap(), []);
}

/// As kill -9 leaves it.
fn kill(changed: AppliedSettings) {
    std::mem::forget(changed);
}

#[test]
fn what_a_killed_run_left_is_seen_refused_and_restored() {
    let folder = tree(&[(A, "1"), (B, "x")]);
    let site = site(&folder);
    let mut changed = AppliedSettings::begin(&site).unwrap();
    changed.set("a", file(A), "0").unwrap();
    changed.set("b", file(B), "y").unwrap();
    kill(changed);
    assert_eq!(pending(&site).unwrap().len(), 2);
    let error = AppliedSettings::begin(&site).unwrap_err();
    assert!(error.hint.contains("nearfar restore"), "{error:?}");
    std::fs::write(folder.path().join(B), "somebody's").unwrap();
    let restored = restore(&site, false).unwrap();
    assert_eq!(restored[0].outcome, RestoreStatus::ChangedByOther { present: "somebody's".into() });
    assert_eq!(restored[1].outcome, RestoreStatus::Restored);
    assert_eq!(pending(&site).unwrap().iter().map(|change| &change.setting[..]).collect::<Vec<_>>(), ["b"]);
    assert_eq!(restore(&site, true).unwrap()[0].outcome, RestoreStatus::Restored);
    assert_eq!((text(&folder, A), text(&folder, B)), ("1".into(), "x".into()));
    assert_eq!(restore(&site, false).unwrap(), []);
}

#[test]
fn a_restart_of_the_machine_settles_everything() {
    const BOOT: &str = "proc/sys/kernel/random/boot_id";
    let folder = tree(&[(A, "1"), (BOOT, "first\n")]);
    let site = site(&folder);
    let mut changed = AppliedSettings::begin(&site).unwrap();
    changed.set("a", file(A), "0").unwrap();
    kill(changed);
    std::fs::write(folder.path().join(BOOT), "second\n").unwrap();
    assert_eq!(pending(&site).unwrap(), []);
    assert_eq!(restore(&site, false).unwrap()[0].outcome, RestoreStatus::Restarted);
    assert_eq!(text(&folder, A), "0", "as the boot left it");
    AppliedSettings::begin(&site).unwrap();
}

#[test]
fn what_is_given_up_is_forgotten() {
    let folder = tree(&[(A, "1")]);
    let site = site(&folder);
    let mut changed = AppliedSettings::begin(&site).unwrap();
    changed.set("a", file(A), "0").unwrap();
    kill(changed);
    std::fs::remove_file(folder.path().join(A)).unwrap();
    assert!(matches!(restore(&site, true).unwrap()[0].outcome, RestoreStatus::Failed { .. }));
    forget(&site).unwrap();
    assert_eq!(pending(&site).unwrap(), []);
}

#[test]
fn a_setting_that_is_not_there_is_not_made() {
    let folder = tree(&[(B, "x")]);
    let mut changed = AppliedSettings::begin(&site(&folder)).unwrap();
    let error = changed.set("a", file(A), "0").unwrap_err();
    assert!(error.what.contains("/sys/a") && error.hint.contains("leave a out"), "{error:?}");
    assert!(!folder.path().join(A).exists());
}

/// This machine's root with a journal of our own; none, with the reason printed, where we are not root.
fn here(folder: &TempDir, name: &str, path: &str) -> Option<SettingsRoot> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: {name}: only root may change it");
        return None;
    }
    if !Path::new("/").join(path).exists() {
        println!("skipped: {name}: there is no /{path}");
        return None;
    }
    Some(SettingsRoot { root: "/".into(), state: folder.path().into() })
}

#[test]
fn the_kernels_own_settings_are_changed_and_put_back() {
    let settings = [
        ("thp", "sys/kernel/mm/transparent_hugepage/enabled", ["madvise", "never"]),
        ("aslr", "proc/sys/kernel/randomize_va_space", ["2", "0"]),
        ("numa-balancing", "proc/sys/kernel/numa_balancing", ["0", "1"]),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, path, values) in settings {
        let Some(site) = here(&folder, name, path) else { continue };
        let CurrentValue::Value(old) = read(&site.root, &file(path)) else { panic!("{path} can be read") };
        let mut changed = AppliedSettings::begin(&site).unwrap();
        // Another value than the present one, so that something is written.
        let new = values.into_iter().find(|value| **value != *old).unwrap();
        match changed.set(name, file(path), new) {
            Ok(was) => {
                assert_eq!(was.as_deref(), Some(&*old), "{name}");
                assert_eq!(read(&site.root, &file(path)), CurrentValue::Value(new.into()), "{name}");
            }
            Err(error) => println!("skipped: {name}: {}", error.what),
        }
        drop(changed);
        assert_eq!(read(&site.root, &file(path)), CurrentValue::Value(old), "{name}");
    }
}

#[test]
fn a_value_that_the_kernel_does_not_take_is_an_error_that_names_it() {
    const PATH: &str = "sys/kernel/mm/transparent_hugepage/enabled";
    let folder = tempfile::tempdir().unwrap();
    let Some(site) = here(&folder, "a refused value", PATH) else { return };
    let before = read(&site.root, &file(PATH));
    let mut changed = AppliedSettings::begin(&site).unwrap();
    let error = changed.set("thp", file(PATH), "sometimes").unwrap_err();
    assert!(error.what.contains(&format!("cannot write sometimes to /{PATH}")), "{error:?}");
    assert_eq!(changed.restore()[0].outcome, RestoreStatus::AlreadyRestored);
    assert_eq!(read(&site.root, &file(PATH)), before);
}

const CGROUP: &str = "sys/fs/cgroup";
const CONTROL: &str = "sys/fs/cgroup/cgroup.subtree_control";

/// One of several processes of ours on this machine.
fn sharer(folder: &TempDir, name: &str) -> AppliedSettings {
    let state = folder.path().join("state/expand").join(name);
    AppliedSettings::begin(&SettingsRoot { root: folder.path().into(), state }).unwrap()
}

fn controller() -> SettingTarget {
    SettingTarget::Controller { group: CGROUP.into(), name: "memory".into() }
}

fn outcomes(restored: Vec<Restored>) -> Vec<RestoreStatus> {
    restored.into_iter().map(|restored| restored.outcome).collect()
}

#[test]
fn a_controller_goes_off_with_the_last_program_that_needs_it() {
    let folder = tree(&[(CONTROL, "cpu io\n")]);
    let (mut first, mut second) = (sharer(&folder, "1-1"), sharer(&folder, "2-2"));
    let group = |pid: u32| SettingTarget::Group(format!("{CGROUP}/nearfar-{pid}-a"));
    assert_eq!(first.set_together("expand", controller(), ON).unwrap(), Some(OFF.into()));
    first.set("expand", group(1), THERE).unwrap();
    assert_eq!(text(&folder, CONTROL), "cpu io memory");
    assert_eq!(second.set_together("expand", controller(), ON).unwrap(), None, "it is on");
    second.set("expand", group(2), THERE).unwrap();
    assert_eq!(outcomes(first.restore()), [RestoreStatus::Restored, RestoreStatus::StillNeeded]);
    assert_eq!(text(&folder, CONTROL), "cpu io memory");
    assert_eq!(outcomes(second.restore()), [RestoreStatus::Restored, RestoreStatus::Restored]);
    assert_eq!(text(&folder, CONTROL), "cpu io");
}

#[test]
fn a_value_that_several_need_comes_back_with_the_last_of_them() {
    const FOLIOS: &str = "sys/kernel/mm/folios";
    let folder = tree(&[(FOLIOS, "never\n")]);
    let file = || SettingTarget::File(FOLIOS.into());
    let (mut first, mut second) = (sharer(&folder, "1-1"), sharer(&folder, "2-2"));
    assert_eq!(first.set_together("expand", file(), "always").unwrap(), Some("never".into()));
    assert_eq!(second.set_together("expand", file(), "always").unwrap(), None, "it is so");
    assert_eq!(outcomes(first.restore()), [RestoreStatus::StillNeeded]);
    assert_eq!(text(&folder, FOLIOS), "always");
    // The second is killed, and somebody restores.
    kill(second);
    assert_eq!(outcomes(restore(&site(&folder), false).unwrap()), [RestoreStatus::Restored]);
    assert_eq!(text(&folder, FOLIOS).trim(), "never");
}

#[test]
fn a_controller_that_was_on_or_bounds_others_stays_on() {
    let folder = tree(&[(CONTROL, "cpu memory\n")]);
    let mut found = sharer(&folder, "1-1");
    assert_eq!(found.set_together("expand", controller(), ON).unwrap(), None);
    assert_eq!(outcomes(found.restore()), []);
    assert_eq!(text(&folder, CONTROL), "cpu memory\n");

    let folder = tree(&[(CONTROL, "cpu\n"), ("sys/fs/cgroup/db/memory.max", "max\n")]);
    let mut first = sharer(&folder, "1-1");
    first.set_together("expand", controller(), ON).unwrap();
    std::fs::write(folder.path().join("sys/fs/cgroup/db/memory.max"), "4096\n").unwrap();
    assert_eq!(outcomes(first.restore()), [RestoreStatus::StillNeeded]);
    assert_eq!(text(&folder, CONTROL), "cpu memory", "somebody has bounded a group of his own meanwhile");
}

/// The pilot was killed, and its program goes on.
#[test]
fn a_controller_stays_on_while_the_program_of_a_killed_pilot_runs() {
    let folder = tree(&[(CONTROL, "\n")]);
    let mut changed = sharer(&folder, "1-1");
    changed.set_together("expand", controller(), ON).unwrap();
    changed.set("expand", SettingTarget::Group(format!("{CGROUP}/nearfar-1-a")), THERE).unwrap();
    kill(changed);
    let inside = folder.path().join(CGROUP).join("nearfar-1-a/cgroup.procs");
    std::fs::write(&inside, "7\n").unwrap();
    let early = outcomes(restore(&site(&folder), false).unwrap());
    assert!(
        matches!(&early[0], RestoreStatus::Failed { why, .. } if why.contains("process 7 is still in it")),
        "{early:?}"
    );
    assert!(
        matches!(&early[1], RestoreStatus::Failed { why, .. } if why.contains("programs still use it")),
        "{early:?}"
    );
    std::fs::remove_file(&inside).unwrap();
    assert_eq!(outcomes(restore(&site(&folder), false).unwrap()), [RestoreStatus::Restored, RestoreStatus::Restored]);
    assert_eq!(text(&folder, CONTROL), "");
}

/// Ends a process of ours, whatever the test does.
struct Ours(Child);

impl Drop for Ours {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn a_process_is_paused_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let site = SettingsRoot { root: "/".into(), state: folder.path().into() };
    let sleeper = Ours(Command::new("sleep").arg("100").spawn().unwrap());
    let pid = sleeper.0.id();
    let (_, started) = process(&site.root, pid).unwrap();
    let target = SettingTarget::Process { pid, started };
    let mut changed = AppliedSettings::begin(&site).unwrap();
    assert_eq!(changed.set("irqbalance", target.clone(), PAUSED).unwrap(), Some(RUNNING.into()));
    assert_eq!(process(&site.root, pid).unwrap().0, 'T');
    kill(changed);
    assert_eq!(restore(&site, false).unwrap()[0].outcome, RestoreStatus::Restored);
    assert_eq!(read(&site.root, &target), CurrentValue::Value(RUNNING.into()));
    assert_eq!(read(&site.root, &SettingTarget::Process { pid, started: started + 1 }), CurrentValue::Gone);
    drop(sleeper);
    assert_eq!(read(&site.root, &target), CurrentValue::Gone);
}
