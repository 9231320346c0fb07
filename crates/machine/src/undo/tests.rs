//! Tests of changing and restoring settings, on recorded trees and, as root, on this machine.

use std::process::{Child, Command};

use tempfile::TempDir;

use super::*;
use crate::sysfs::test_tree::tree;

const A: &str = "sys/a";
const B: &str = "proc/b";

fn site(dir: &TempDir) -> SettingsRoot {
    SettingsRoot { root: dir.path().into(), state: dir.path().join("state") }
}

fn file(path: &str) -> SettingTarget {
    SettingTarget::File(path.into())
}

fn text(dir: &TempDir, path: &str) -> String {
    std::fs::read_to_string(dir.path().join(path)).unwrap()
}

#[test]
fn settings_are_restored_in_reverse_order() {
    let dir = tree(&[(A, "1\n"), (B, "[x] y\n")]);
    let site = site(&dir);
    let mut changed = AppliedSettings::begin(&site).unwrap();
    assert_eq!(changed.set("a", file(A), "0").unwrap(), Some("1".into()));
    assert_eq!(changed.set("a", file(A), "0").unwrap(), None, "the value is already set");
    assert_eq!(changed.set("b", file(B), "y").unwrap(), Some("x".into()));
    assert_eq!((text(&dir, A), text(&dir, B)), ("0".into(), "y".into()));
    let settings: Vec<(String, RestoreStatus)> =
        changed.restore().into_iter().map(|restored| (restored.change.setting, restored.outcome)).collect();
    assert_eq!(settings, [("b".into(), RestoreStatus::Restored), ("a".into(), RestoreStatus::Restored)]);
    assert_eq!((text(&dir, A), text(&dir, B)), ("1".into(), "x".into()));
    assert!(!site.state.join("undo.journal").exists());
}

#[test]
fn journal_is_written_before_the_setting() {
    let dir = tree(&[(A, "1\n")]);
    let site = site(&dir);
    let mut changed = AppliedSettings::begin(&site).unwrap();
    // A file at the path of the journal's directory.
    std::fs::write(&site.state, "").unwrap();
    let error = changed.set("a", file(A), "0").unwrap_err();
    assert!(error.what.contains("journal"), "{error:?}");
    assert_eq!(text(&dir, A), "1\n", "a setting is not written without a journal entry");
}

#[test]
fn refused_journal_has_a_hint() {
    let dir = tree(&[(A, "1\n")]);
    let site = site(&dir);
    std::fs::create_dir(&site.state).unwrap();
    let begin = |mode| {
        std::fs::set_permissions(&site.state, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        AppliedSettings::begin(&site).err().map(|error| error.hint)
    };
    assert_eq!(begin(0o777), Some("set NEARFAR_STATE to another directory".into()));
    std::fs::write(site.state.join("undo.journal"), "x\n").unwrap();
    let by_hand = "restore the old value of each line by hand, then remove the file";
    assert_eq!(begin(0o755), Some(by_hand.into()));
}

#[test]
fn settings_are_restored_on_panic() {
    let dir = tree(&[(A, "1")]);
    let site = site(&dir);
    let result = std::panic::catch_unwind(|| {
        let mut changed = AppliedSettings::begin(&site).unwrap();
        changed.set("a", file(A), "0").unwrap();
        panic!("on purpose");
    });
    assert!(result.is_err());
    assert_eq!(text(&dir, A), "1");
    assert_eq!(pending(&site).unwrap(), []);
}

/// Leaves the state that SIGKILL leaves.
fn kill(changed: AppliedSettings) {
    std::mem::forget(changed);
}

#[test]
fn changes_of_a_killed_run_are_reported_and_restored() {
    let dir = tree(&[(A, "1"), (B, "x")]);
    let site = site(&dir);
    let mut changed = AppliedSettings::begin(&site).unwrap();
    changed.set("a", file(A), "0").unwrap();
    changed.set("b", file(B), "y").unwrap();
    kill(changed);
    assert_eq!(pending(&site).unwrap().len(), 2);
    let error = AppliedSettings::begin(&site).unwrap_err();
    assert!(error.hint.contains("nearfar restore"), "{error:?}");
    std::fs::write(dir.path().join(B), "foreign").unwrap();
    let restored = restore(&site, false).unwrap();
    assert_eq!(restored[0].outcome, RestoreStatus::ChangedByOther { present: "foreign".into() });
    assert_eq!(restored[1].outcome, RestoreStatus::Restored);
    assert_eq!(pending(&site).unwrap().iter().map(|change| &change.setting[..]).collect::<Vec<_>>(), ["b"]);
    assert_eq!(restore(&site, true).unwrap()[0].outcome, RestoreStatus::Restored);
    assert_eq!((text(&dir, A), text(&dir, B)), ("1".into(), "x".into()));
    assert_eq!(restore(&site, false).unwrap(), []);
}

#[test]
fn reboot_settles_all_changes() {
    const BOOT: &str = "proc/sys/kernel/random/boot_id";
    let dir = tree(&[(A, "1"), (BOOT, "first\n")]);
    let site = site(&dir);
    let mut changed = AppliedSettings::begin(&site).unwrap();
    changed.set("a", file(A), "0").unwrap();
    kill(changed);
    std::fs::write(dir.path().join(BOOT), "second\n").unwrap();
    assert_eq!(pending(&site).unwrap(), []);
    assert_eq!(restore(&site, false).unwrap()[0].outcome, RestoreStatus::Restarted);
    assert_eq!(text(&dir, A), "0", "the value after the boot is kept");
    AppliedSettings::begin(&site).unwrap();
}

#[test]
fn forget_discards_changes_that_cannot_be_restored() {
    let dir = tree(&[(A, "1")]);
    let site = site(&dir);
    let mut changed = AppliedSettings::begin(&site).unwrap();
    changed.set("a", file(A), "0").unwrap();
    kill(changed);
    std::fs::remove_file(dir.path().join(A)).unwrap();
    assert!(matches!(restore(&site, true).unwrap()[0].outcome, RestoreStatus::Failed { .. }));
    forget(&site).unwrap();
    assert_eq!(pending(&site).unwrap(), []);
}

#[test]
fn missing_setting_is_not_created() {
    let dir = tree(&[(B, "x")]);
    let mut changed = AppliedSettings::begin(&site(&dir)).unwrap();
    let error = changed.set("a", file(A), "0").unwrap_err();
    assert!(error.what.contains("/sys/a") && error.hint.contains("leave a out"), "{error:?}");
    assert!(!dir.path().join(A).exists());
}

/// Returns this machine's root with a temporary journal, or prints why the test is skipped and returns `None`.
fn live_root(dir: &TempDir, name: &str, path: &str) -> Option<SettingsRoot> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: {name}: only root may change it");
        return None;
    }
    if !Path::new("/").join(path).exists() {
        println!("skipped: {name}: /{path} does not exist");
        return None;
    }
    Some(SettingsRoot { root: "/".into(), state: dir.path().into() })
}

#[test]
fn kernel_settings_are_changed_and_restored() {
    let settings = [
        ("thp", "sys/kernel/mm/transparent_hugepage/enabled", ["madvise", "never"]),
        ("aslr", "proc/sys/kernel/randomize_va_space", ["2", "0"]),
        ("numa-balancing", "proc/sys/kernel/numa_balancing", ["0", "1"]),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (name, path, values) in settings {
        let Some(site) = live_root(&dir, name, path) else { continue };
        let CurrentValue::Value(old) = read(&site.root, &file(path)) else { panic!("{path} cannot be read") };
        let mut changed = AppliedSettings::begin(&site).unwrap();
        // A value that differs from the current one, so that it is written.
        let new = values.into_iter().find(|value| **value != *old).unwrap();
        match changed.set(name, file(path), new) {
            Ok(previous) => {
                assert_eq!(previous.as_deref(), Some(&*old), "{name}");
                assert_eq!(read(&site.root, &file(path)), CurrentValue::Value(new.into()), "{name}");
            }
            Err(error) => println!("skipped: {name}: {}", error.what),
        }
        drop(changed);
        assert_eq!(read(&site.root, &file(path)), CurrentValue::Value(old), "{name}");
    }
}

#[test]
fn value_rejected_by_the_kernel_is_reported() {
    const PATH: &str = "sys/kernel/mm/transparent_hugepage/enabled";
    let dir = tempfile::tempdir().unwrap();
    let Some(site) = live_root(&dir, "a rejected value", PATH) else { return };
    let before = read(&site.root, &file(PATH));
    let mut changed = AppliedSettings::begin(&site).unwrap();
    let error = changed.set("thp", file(PATH), "sometimes").unwrap_err();
    assert!(error.what.contains(&format!("cannot write sometimes to /{PATH}")), "{error:?}");
    assert_eq!(changed.restore()[0].outcome, RestoreStatus::AlreadyRestored);
    assert_eq!(read(&site.root, &file(PATH)), before);
}

const CGROUP: &str = "sys/fs/cgroup";
const CONTROL: &str = "sys/fs/cgroup/cgroup.subtree_control";

/// Begins the changes of one of several concurrent expansions.
fn expansion(dir: &TempDir, name: &str) -> AppliedSettings {
    let state = dir.path().join("state/expand").join(name);
    AppliedSettings::begin(&SettingsRoot { root: dir.path().into(), state }).unwrap()
}

fn controller() -> SettingTarget {
    SettingTarget::Controller { group: CGROUP.into(), name: "memory".into() }
}

fn outcomes(restored: Vec<Restored>) -> Vec<RestoreStatus> {
    restored.into_iter().map(|restored| restored.outcome).collect()
}

#[test]
fn controller_is_disabled_after_its_last_user_ends() {
    let dir = tree(&[(CONTROL, "cpu io\n")]);
    let (mut first, mut second) = (expansion(&dir, "1-1"), expansion(&dir, "2-2"));
    let group = |pid: u32| SettingTarget::Group(format!("{CGROUP}/nearfar-{pid}-a"));
    assert_eq!(first.set_together("expand", controller(), ON).unwrap(), Some(OFF.into()));
    first.set("expand", group(1), THERE).unwrap();
    assert_eq!(text(&dir, CONTROL), "cpu io memory");
    assert_eq!(second.set_together("expand", controller(), ON).unwrap(), None, "the controller is already enabled");
    second.set("expand", group(2), THERE).unwrap();
    assert_eq!(outcomes(first.restore()), [RestoreStatus::Restored, RestoreStatus::StillNeeded]);
    assert_eq!(text(&dir, CONTROL), "cpu io memory");
    assert_eq!(outcomes(second.restore()), [RestoreStatus::Restored, RestoreStatus::Restored]);
    assert_eq!(text(&dir, CONTROL), "cpu io");
}

#[test]
fn shared_value_is_restored_after_its_last_user_ends() {
    const FOLIOS: &str = "sys/kernel/mm/folios";
    let dir = tree(&[(FOLIOS, "never\n")]);
    let file = || SettingTarget::File(FOLIOS.into());
    let (mut first, mut second) = (expansion(&dir, "1-1"), expansion(&dir, "2-2"));
    assert_eq!(first.set_together("expand", file(), "always").unwrap(), Some("never".into()));
    assert_eq!(second.set_together("expand", file(), "always").unwrap(), None, "the value is already set");
    assert_eq!(outcomes(first.restore()), [RestoreStatus::StillNeeded]);
    assert_eq!(text(&dir, FOLIOS), "always");
    // The second is killed, and `restore` is called.
    kill(second);
    assert_eq!(outcomes(restore(&site(&dir), false).unwrap()), [RestoreStatus::Restored]);
    assert_eq!(text(&dir, FOLIOS).trim(), "never");
}

#[test]
fn controller_enabled_before_or_used_by_others_stays_enabled() {
    let dir = tree(&[(CONTROL, "cpu memory\n")]);
    let mut unchanged = expansion(&dir, "1-1");
    assert_eq!(unchanged.set_together("expand", controller(), ON).unwrap(), None);
    assert_eq!(outcomes(unchanged.restore()), []);
    assert_eq!(text(&dir, CONTROL), "cpu memory\n");

    let dir = tree(&[(CONTROL, "cpu\n"), ("sys/fs/cgroup/db/memory.max", "max\n")]);
    let mut first = expansion(&dir, "1-1");
    first.set_together("expand", controller(), ON).unwrap();
    std::fs::write(dir.path().join("sys/fs/cgroup/db/memory.max"), "4096\n").unwrap();
    assert_eq!(outcomes(first.restore()), [RestoreStatus::StillNeeded]);
    assert_eq!(text(&dir, CONTROL), "cpu memory", "another program has limited its cgroup meanwhile");
}

/// The paging controller was killed, and its program continues.
#[test]
fn cgroup_controller_stays_enabled_while_an_orphaned_program_runs() {
    let dir = tree(&[(CONTROL, "\n")]);
    let mut changed = expansion(&dir, "1-1");
    changed.set_together("expand", controller(), ON).unwrap();
    changed.set("expand", SettingTarget::Group(format!("{CGROUP}/nearfar-1-a")), THERE).unwrap();
    kill(changed);
    let procs = dir.path().join(CGROUP).join("nearfar-1-a/cgroup.procs");
    std::fs::write(&procs, "7\n").unwrap();
    let early = outcomes(restore(&site(&dir), false).unwrap());
    assert!(
        matches!(&early[0], RestoreStatus::Failed { why, .. } if why.contains("process 7 is still in it")),
        "{early:?}"
    );
    assert!(
        matches!(&early[1], RestoreStatus::Failed { why, .. } if why.contains("programs still use it")),
        "{early:?}"
    );
    std::fs::remove_file(&procs).unwrap();
    assert_eq!(outcomes(restore(&site(&dir), false).unwrap()), [RestoreStatus::Restored, RestoreStatus::Restored]);
    assert_eq!(text(&dir, CONTROL), "");
}

/// A child process that is killed on drop.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn paused_process_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let site = SettingsRoot { root: "/".into(), state: dir.path().into() };
    let sleeper = KillOnDrop(Command::new("sleep").arg("100").spawn().unwrap());
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

/// A process of this test, ended with it.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Neither root nor hardware is needed: the threads are those of a child of this test.
#[test]
fn affinity_of_a_service_is_restored_after_a_kill() {
    use crate::service_threads::{Mask, ServiceThreads};

    let name = "affinity_of_a_service_is_restored_after_a_kill";
    let all: Vec<_> = crate::affinity::mask_of(0).unwrap().iter().collect();
    let [first, second, ..] = all[..] else { return println!("skipped: {name}: it needs two CPUs") };
    let dir = TempDir::new().unwrap();
    let site = SettingsRoot { root: "/".into(), state: dir.path().join("state") };
    let sleeper = Sleeper(Command::new("sleep").arg("600").spawn().unwrap());
    let threads = ServiceThreads::of_tree(sleeper.0.id()).unwrap();
    let target = SettingTarget::Affinity(threads.processes().clone());
    let only = |cpu| Mask::Only([cpu].into_iter().collect());
    let found = threads.found().unwrap();

    let mut changed = AppliedSettings::begin(&site).unwrap();
    let values = [first, second].map(|cpu| only(cpu).to_string());
    assert_eq!(changed.journal_values("affinity", target.clone(), &values).unwrap(), found.mask.to_string());
    kill(changed);
    assert_eq!(pending(&site).unwrap(), [], "nothing was changed yet");
    threads.replace(&[Mask::Only(found.cpus.clone())], &only(second)).unwrap();
    assert_eq!(pending(&site).unwrap().len(), 1);
    let planned = preview(&site, false).unwrap().remove(0).to_string();
    assert!(planned.contains("would be restored to all allowed CPUs"), "{planned}");
    assert_eq!(restore(&site, false).unwrap().remove(0).outcome, RestoreStatus::Restored);
    let restored = threads.found().unwrap();
    // Not the number of threads: an emulated process has more of them until it starts its program.
    assert_eq!((restored.mask, restored.cpus), (found.mask.clone(), found.cpus.clone()));

    // A service that ends meanwhile leaves nothing to restore.
    let mut changed = AppliedSettings::begin(&site).unwrap();
    changed.journal_values("affinity", target, &values).unwrap();
    threads.replace(&[Mask::Only(found.cpus)], &only(first)).unwrap();
    drop(sleeper);
    assert_eq!(changed.restore().remove(0).outcome, RestoreStatus::Ended);
}
