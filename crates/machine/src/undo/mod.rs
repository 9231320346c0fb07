//! Changes and restores settings: journals the old value, writes and verifies the new one, and restores all in reverse
//! order when the run ends. After SIGKILL or a power failure, [`restore`] uses the journal. Must not choose settings.

mod journal;
mod target;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use model::placements::measured_map::WEIGHTS_DIR;
use model::values::undo::{
    CurrentValue, GROUP_PREFIX, RestoreAction, RestoreStatus, Restored, SettingChange, SettingTarget, restore_action,
};

use self::journal::Journal;
pub use self::target::{ABSENT, OFF, ON, THERE};
pub(crate) use self::target::{PAUSED, RUNNING, process, read, write};
use crate::sysfs;

/// Location of the settings and of the journal of changes.
#[derive(Clone, Debug)]
pub struct SettingsRoot {
    /// `/`, or a recorded tree.
    pub root: PathBuf,
    /// Directory of the journal.
    pub state: PathBuf,
}

/// Subdirectory of the state directory with a separate journal for each process that expands a program's memory,
/// because several of them may run concurrently with each other and with a measurement.
const EXPANSIONS: &str = "expand";
/// Subdirectory of the state directory with a separate journal for each change that is kept after this process has ended.
const APPLIED: &str = "applied";
/// Subdirectory of the state directory with a separate journal for each kind of setting that is kept until
/// `nearfar restore`, so that runs neither restore nor report it.
const KEPT: &str = "kept";

impl SettingsRoot {
    /// Returns the location with a separate journal for this process.
    #[must_use]
    pub fn own(&self) -> Self {
        let pid = std::process::id();
        let started = process(Path::new("/"), pid).map_or(0, |(_, started)| started);
        Self { root: self.root.clone(), state: self.state.join(EXPANSIONS).join(format!("{pid}-{started}")) }
    }

    /// Returns a location with a new journal, for changes that outlive this process.
    ///
    /// # Errors
    /// If the kernel returns no random bytes for its name.
    pub fn new_applied(&self) -> io::Result<Self> {
        Ok(Self { root: self.root.clone(), state: self.state.join(APPLIED).join(files::random_name()?) })
    }

    /// Returns the locations of all changes that are kept.
    pub fn applied(&self) -> Vec<Self> {
        self.journals_in(&self.state.join(APPLIED))
    }

    /// Returns the location with the journal of a kind of setting that is kept until `nearfar restore`.
    #[must_use]
    pub fn kept_for(&self, setting: &str) -> Self {
        Self { root: self.root.clone(), state: self.state.join(KEPT).join(setting) }
    }

    /// Returns the locations of all settings that are kept.
    pub fn kept(&self) -> Vec<Self> {
        self.journals_in(&self.state.join(KEPT))
    }

    /// Returns the locations in a directory of journals.
    fn journals_in(&self, dir: &Path) -> Vec<Self> {
        let location = |name: String| Self { root: self.root.clone(), state: dir.join(name) };
        sysfs::names(dir).into_iter().map(location).collect()
    }

    /// Returns the locations of all other processes with a separate journal, running or not.
    fn siblings(&self) -> Vec<Self> {
        let Some(dir) = self.state.parent().filter(|dir| dir.ends_with(EXPANSIONS)) else { return Vec::new() };
        self.journals_in(dir).into_iter().filter(|site| site.state != self.state).collect()
    }

    /// Returns the changes in the journals of those processes. Unreadable journals are ignored.
    fn sibling_changes(&self) -> impl Iterator<Item = SettingChange> {
        self.siblings().into_iter().flat_map(|site| Journal::in_dir(&site.state).read()).flatten()
    }

    /// Returns the locations of processes that have ended.
    fn abandoned(&self) -> Vec<Self> {
        let dir = self.state.join(EXPANSIONS);
        let is_alive = |name: &str| {
            let (pid, started) = name.split_once('-')?;
            let (pid, started): (u32, u64) = (pid.parse().ok()?, started.parse().ok()?);
            Some(process(Path::new("/"), pid).is_some_and(|(state, start)| start == started && state != 'Z'))
        };
        let names = sysfs::names(&dir).into_iter().filter(|name| is_alive(name) == Some(false));
        names.map(|name| Self { root: self.root.clone(), state: dir.join(name) }).collect()
    }
}

/// A setting that could not be changed, or a journal that could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeError {
    /// Operation, object and cause.
    pub what: String,
    pub hint: String,
    /// Whether the cause was a missing permission.
    pub not_permitted: bool,
}

/// Changed settings. Dropping this restores them, like [`AppliedSettings::restore`].
#[derive(Debug)]
pub struct AppliedSettings {
    site: SettingsRoot,
    journal: Journal,
    changes: Vec<SettingChange>,
    /// Files whose settings apply as long as they are open; the kernel reverts them when this process ends.
    held: Vec<File>,
}

impl AppliedSettings {
    /// Begins without changes. Fails if the journal of an interrupted run exists.
    pub fn begin(site: &SettingsRoot) -> Result<Self, ChangeError> {
        let journal = Journal::in_dir(&site.state);
        let pending = read_journal(&journal)?;
        if !pending.is_empty() {
            return Err(ChangeError {
                what: format!("an interrupted run has not restored its settings: {}", journal.path().display()),
                hint: "restore them with nearfar restore".into(),
                not_permitted: false,
            });
        }
        Ok(Self { site: site.clone(), journal, changes: Vec::new(), held: Vec::new() })
    }

    /// The root directory of the settings.
    pub fn root(&self) -> &Path {
        &self.site.root
    }

    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty() || !self.held.is_empty()
    }

    /// Journals the old value and writes the new one. Returns the old value, or `None` if it equals the new one.
    pub fn set(&mut self, setting: &str, target: SettingTarget, new: &str) -> Result<Option<String>, ChangeError> {
        let old = self.current(setting, &target)?;
        if old == new {
            return Ok(None);
        }
        let boot = boot_id(&self.site.root);
        let change = SettingChange {
            setting: setting.into(),
            target,
            old: old.clone(),
            new: new.into(),
            also: Vec::new(),
            boot,
        };
        self.journal.add(&change).map_err(|error| cannot_write(&self.journal, &error))?;
        self.changes.push(change);
        let change = self.changes.last().expect("it was pushed");
        let written = target::write(&self.site.root, &change.target, new);
        written.map_err(|error| {
            refused(setting, &change.target, &format!("write {new} to"), &error, target::is_permission(&error))
        })?;
        match read(&self.site.root, &change.target) {
            CurrentValue::Value(value) if value == new => Ok(Some(old)),
            other => {
                let why = format!("the kernel accepted it, but reports {}", shown(&other));
                Err(refused(setting, &change.target, &format!("write {new} to"), &why, false))
            }
        }
    }

    /// Like [`AppliedSettings::set`], for a value that several processes of this program need concurrently: if another
    /// one has written the value, this one journals the same change, so that the last process to end restores it.
    pub fn set_together(
        &mut self,
        setting: &str,
        target: SettingTarget,
        new: &str,
    ) -> Result<Option<String>, ChangeError> {
        let is_same = |change: &SettingChange| change.target == target && change.new == new;
        let boot = boot_id(&self.site.root);
        let shared = self.site.sibling_changes().find(|change| is_same(change) && change.boot == boot);
        let is_set = read(&self.site.root, &target) == CurrentValue::Value(new.into());
        match shared.filter(|_| is_set) {
            Some(change) => {
                self.journal.add(&change).map_err(|error| cannot_write(&self.journal, &error))?;
                self.changes.push(change);
                Ok(None)
            }
            None => self.set(setting, target, new),
        }
    }

    /// Journals values in advance, so that they can be written repeatedly later: a value that changes with every trial
    /// would otherwise need a disk write each time. Returns the current value.
    pub fn journal_values(
        &mut self,
        setting: &str,
        target: SettingTarget,
        values: &[String],
    ) -> Result<String, ChangeError> {
        let old = self.current(setting, &target)?;
        let mut values = values.iter().filter(|value| **value != old);
        if let Some(new) = values.next() {
            let boot = boot_id(&self.site.root);
            let also = values.cloned().collect();
            let change =
                SettingChange { setting: setting.into(), target, old: old.clone(), new: new.clone(), also, boot };
            self.journal.add(&change).map_err(|error| cannot_write(&self.journal, &error))?;
            self.changes.push(change);
        }
        Ok(old)
    }

    fn current(&self, setting: &str, target: &SettingTarget) -> Result<String, ChangeError> {
        match read(&self.site.root, target) {
            CurrentValue::Value(old) => Ok(old),
            CurrentValue::Gone => Err(refused(setting, target, "read", &"it no longer exists", false)),
            CurrentValue::Unreadable(why) => Err(refused(setting, target, "read", &why, false)),
        }
    }

    /// Leaves the settings changed. The journal remains, so that [`restore`] of this location restores them.
    pub fn keep(mut self) {
        self.changes.clear();
    }

    /// Keeps a file open until the settings are restored.
    pub(crate) fn hold(&mut self, file: File) {
        self.held.push(file);
    }

    /// Restores all settings, the last change first, and returns the result of each. Changes that cannot be restored
    /// remain in the journal.
    pub fn restore(mut self) -> Vec<Restored> {
        self.restore_all()
    }

    fn restore_all(&mut self) -> Vec<Restored> {
        self.held.clear();
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return Vec::new();
        }
        restore_changes(&self.site, &self.journal, &changes, false)
    }
}

impl Drop for AppliedSettings {
    fn drop(&mut self) {
        // Callers that need the results call `restore`. Changes that are not restored remain in the journal.
        let _ = self.restore_all();
    }
}

/// Returns the changes of interrupted runs that are still in effect, oldest first.
pub fn pending(site: &SettingsRoot) -> Result<Vec<SettingChange>, ChangeError> {
    let boot = boot_id(&site.root);
    let mut changes = read_journal(&Journal::in_dir(&site.state))?;
    for abandoned in site.abandoned() {
        changes.extend(read_journal(&Journal::in_dir(&abandoned.state))?);
    }
    changes.retain(|change| {
        let action = restore_action(change, &target::read_changed(&site.root, change), boot.as_deref(), false);
        !matches!(
            action,
            RestoreAction::Nothing(RestoreStatus::AlreadyRestored | RestoreStatus::Restarted | RestoreStatus::Ended)
        )
    });
    Ok(changes)
}

/// Restores the changes in the journal, the last one first. `force` also overwrites values that another program has set
/// since.
pub fn restore(site: &SettingsRoot, force: bool) -> Result<Vec<Restored>, ChangeError> {
    let mut restored = restore_one(site, force)?;
    for abandoned in site.abandoned() {
        restored.extend(restore_one(&abandoned, force)?);
        // Fails while the directory is not empty.
        let _ = std::fs::remove_dir(&abandoned.state);
    }
    Ok(restored)
}

/// Returns what [`restore`] would do, in its order, without changing anything.
pub fn preview(site: &SettingsRoot, force: bool) -> Result<Vec<Restored>, ChangeError> {
    let mut planned = preview_one(site, force)?;
    for abandoned in site.abandoned() {
        planned.extend(preview_one(&abandoned, force)?);
    }
    Ok(planned)
}

fn preview_one(site: &SettingsRoot, force: bool) -> Result<Vec<Restored>, ChangeError> {
    let (changes, boot) = (read_journal(&Journal::in_dir(&site.state))?, boot_id(&site.root));
    let planned = |change: &SettingChange| {
        let outcome = match decide(site, &changes, change, boot.as_deref(), force) {
            RestoreAction::Nothing(outcome) => outcome,
            RestoreAction::Write => RestoreStatus::Planned,
        };
        Restored { change: change.clone(), outcome }
    };
    Ok(changes.iter().rev().map(planned).collect())
}

fn restore_one(site: &SettingsRoot, force: bool) -> Result<Vec<Restored>, ChangeError> {
    let journal = Journal::in_dir(&site.state);
    let changes = read_journal(&journal)?;
    if changes.is_empty() {
        // Removes a journal that contains only an interrupted line.
        forget_one(site)?;
    }
    Ok(restore_changes(site, &journal, &changes, force))
}

/// Deletes the journal without restoring the changes.
pub fn forget(site: &SettingsRoot) -> Result<(), ChangeError> {
    for abandoned in site.abandoned() {
        forget_one(&abandoned)?;
        let _ = std::fs::remove_dir(&abandoned.state); // fails if it contains other files
    }
    forget_one(site)
}

fn forget_one(site: &SettingsRoot) -> Result<(), ChangeError> {
    let journal = Journal::in_dir(&site.state);
    if !journal.path().exists() {
        return Ok(());
    }
    journal.replace(&[]).map_err(|error| cannot_write(&journal, &error))
}

fn restore_changes(site: &SettingsRoot, journal: &Journal, changes: &[SettingChange], force: bool) -> Vec<Restored> {
    let boot = boot_id(&site.root);
    let restored: Vec<Restored> =
        changes.iter().rev().map(|change| undo(site, changes, change, boot.as_deref(), force)).collect();
    let unsettled = restored.iter().rev().filter(|restored| !restored.is_settled());
    let unsettled: Vec<SettingChange> = unsettled.map(|restored| restored.change.clone()).collect();
    if !changes.is_empty() {
        // Errors are ignored: entries that are already restored do no harm.
        let _ = journal.replace(&unsettled);
    }
    restored
}

/// Decides how to restore one of `changes`.
fn decide(
    site: &SettingsRoot,
    changes: &[SettingChange],
    change: &SettingChange,
    boot: Option<&str>,
    force: bool,
) -> RestoreAction {
    let root = site.root.as_path();
    let action = restore_action(change, &target::read_changed(root, change), boot, force);
    let is_of_group = matches!(
        change.target,
        SettingTarget::Swap { .. } | SettingTarget::Zram { .. } | SettingTarget::Controller { .. }
    );
    match action {
        // The swapped memory of programs that still run might not fit into the DRAM limit of their cgroup.
        RestoreAction::Write if is_of_group && has_group(root, changes) => {
            let why = "programs still use it; end them first".into();
            RestoreAction::Nothing(RestoreStatus::Failed { why, not_permitted: false })
        }
        RestoreAction::Write if is_needed(site, changes, change) => RestoreAction::Nothing(RestoreStatus::StillNeeded),
        action => action,
    }
}

/// Restores one of `changes`.
fn undo(
    site: &SettingsRoot,
    changes: &[SettingChange],
    change: &SettingChange,
    boot: Option<&str>,
    force: bool,
) -> Restored {
    let root = site.root.as_path();
    let outcome = match decide(site, changes, change, boot, force) {
        RestoreAction::Nothing(outcome) => outcome,
        RestoreAction::Write => match target::write_old(root, change) {
            Err(error) => {
                RestoreStatus::Failed { why: error.to_string(), not_permitted: target::is_permission(&error) }
            }
            Ok(()) => match target::read_changed(root, change) {
                CurrentValue::Value(value) if value == change.old => RestoreStatus::Restored,
                // It ended meanwhile.
                CurrentValue::Gone if change.target.can_disappear() => RestoreStatus::Ended,
                other => RestoreStatus::Failed {
                    why: format!("the kernel accepted it, but reports {}", shown(&other)),
                    not_permitted: false,
                },
            },
        },
    };
    Restored { change: change.clone(), outcome }
}

/// Returns whether a cgroup that was created in these changes still exists.
fn has_group(root: &Path, changes: &[SettingChange]) -> bool {
    let groups = changes.iter().map(|change| &change.target).filter(|target| matches!(target, SettingTarget::Group(_)));
    groups.into_iter().any(|group| read(root, group) == CurrentValue::Value(THERE.into()))
}

/// Returns whether the changed value is still needed: a controller by other cgroups, or a file by another process of
/// this program that has journalled the same change and will restore it.
fn is_needed(site: &SettingsRoot, changes: &[SettingChange], change: &SettingChange) -> bool {
    match &change.target {
        SettingTarget::Controller { group, .. } => limits_others(&site.root, changes, group),
        SettingTarget::File(_) => site.sibling_changes().any(|other| other == *change),
        _ => false,
    }
}

/// Returns whether the controller limits other cgroups: of another expansion, or of another program that has set a
/// limit since. Disabling the controller would remove the limit.
fn limits_others(root: &Path, changes: &[SettingChange], group: &str) -> bool {
    let is_limited = |path: &str| sysfs::read_text(root, &format!("{path}/memory.max")).is_ok_and(|max| max != "max");
    let below = sysfs::names(&root.join(group)).into_iter().map(|name| (format!("{group}/{name}"), name));
    let mut others =
        below.filter(|(path, _)| !changes.iter().any(|change| change.target == SettingTarget::Group(path.clone())));
    others.any(|(path, name)| root.join(&path).is_dir() && (name.starts_with(GROUP_PREFIX) || is_limited(&path)))
}

/// Returns the id of this boot of the Linux kernel; `None` if unknown.
pub(crate) fn boot_id(root: &Path) -> Option<String> {
    sysfs::read_text(root, "proc/sys/kernel/random/boot_id").ok()
}

pub(crate) fn shown(current: &CurrentValue) -> String {
    match current {
        CurrentValue::Value(value) => value.clone(),
        CurrentValue::Gone => "nothing".into(),
        CurrentValue::Unreadable(why) => why.clone(),
    }
}

fn read_journal(journal: &Journal) -> Result<Vec<SettingChange>, ChangeError> {
    journal.read().map_err(|error| {
        let path = journal.path();
        let hint = if path.exists() {
            "restore the old value of each line by hand, then remove the file"
        } else {
            "set NEARFAR_STATE to another directory"
        };
        ChangeError {
            what: format!("cannot read the journal of changed settings {}: {error}", path.display()),
            hint: hint.into(),
            not_permitted: target::is_permission(&error),
        }
    })
}

fn cannot_write(journal: &Journal, error: &std::io::Error) -> ChangeError {
    let not_permitted = target::is_permission(error);
    let hint = if not_permitted { "run as root" } else { "set NEARFAR_STATE to another directory" };
    ChangeError {
        what: format!("cannot write the journal of changed settings {}: {error}", journal.path().display()),
        hint: hint.into(),
        not_permitted,
    }
}

fn refused(
    setting: &str,
    target: &SettingTarget,
    verb: &str,
    why: &dyn std::fmt::Display,
    not_permitted: bool,
) -> ChangeError {
    let instead = match target {
        SettingTarget::Banned { .. } => "pause it with --quieten irqbalance".into(),
        SettingTarget::Affinity(_) => "choose another service".into(),
        SettingTarget::File(path) if path.starts_with("proc/irq/") => "leave irq: out of the placements".into(),
        SettingTarget::File(path) if path.starts_with(WEIGHTS_DIR) => "print the weights without --apply".into(),
        SettingTarget::Zram { .. } => "run without compressed memory".into(),
        SettingTarget::Swap { .. } | SettingTarget::Group(_) | SettingTarget::Controller { .. } => {
            "run without a DRAM limit".into()
        }
        _ => format!("leave {setting} out of --quieten"),
    };
    let hint =
        if not_permitted { format!("run as root, not in a restricted container, or {instead}") } else { instead };
    ChangeError { what: format!("{setting}: cannot {verb} {target}: {why}"), hint, not_permitted }
}

#[cfg(test)]
mod tests;
