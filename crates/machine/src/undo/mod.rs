//! Changed settings and how they come back: journal first, change second, read back; put back in reverse order when the
//! run ends, however it ends. After kill -9 or a loss of power the journal is left, and [`restore`] works from it.
//! Must not know which settings make a machine quiet.

mod journal;
mod target;

use std::fs::File;
use std::path::{Path, PathBuf};

use model::values::undo::{
    CurrentValue, GROUP_PREFIX, RestoreAction, RestoreStatus, Restored, SettingChange, SettingTarget, restore_action,
};

use self::journal::Journal;
pub use self::target::{ABSENT, OFF, ON, THERE};
pub(crate) use self::target::{PAUSED, RUNNING, process, read, write};
use crate::sysfs;

/// Where settings are and where it is kept what was changed.
#[derive(Clone, Debug)]
pub struct SettingsRoot {
    /// `/`, or a recorded tree.
    pub root: PathBuf,
    /// The folder of the journal.
    pub state: PathBuf,
}

/// The folder, in that of the journal, where each process that expands a program's memory has a journal of its own: there
/// may be several at once, and while any other run.
const EXPANSIONS: &str = "expand";

impl SettingsRoot {
    /// A site for this process alone.
    #[must_use]
    pub fn own(&self) -> Self {
        let pid = std::process::id();
        let began = process(Path::new("/"), pid).map_or(0, |(_, began)| began);
        Self { root: self.root.clone(), state: self.state.join(EXPANSIONS).join(format!("{pid}-{began}")) }
    }

    /// The sites of all other processes that have one of their own, alive or not.
    fn beside(&self) -> Vec<Self> {
        let Some(folder) = self.state.parent().filter(|folder| folder.ends_with(EXPANSIONS)) else { return Vec::new() };
        let sites = sysfs::names(folder).into_iter().map(|name| folder.join(name)).filter(|state| *state != self.state);
        sites.map(|state| Self { root: self.root.clone(), state }).collect()
    }

    /// What those have journalled; what cannot be read says nothing.
    fn changes_beside(&self) -> impl Iterator<Item = SettingChange> {
        self.beside().into_iter().flat_map(|site| Journal::in_folder(&site.state).read()).flatten()
    }

    /// The sites of processes that are gone.
    fn abandoned(&self) -> Vec<Self> {
        let folder = self.state.join(EXPANSIONS);
        let is_alive = |name: &str| {
            let (pid, began) = name.split_once('-')?;
            let (pid, began): (u32, u64) = (pid.parse().ok()?, began.parse().ok()?);
            Some(process(Path::new("/"), pid).is_some_and(|(state, since)| since == began && state != 'Z'))
        };
        let names = sysfs::names(&folder).into_iter().filter(|name| is_alive(name) == Some(false));
        names.map(|name| Self { root: self.root.clone(), state: folder.join(name) }).collect()
    }
}

/// A setting that could not be changed, or a journal that could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeError {
    /// What, on what, and the kernel's answer.
    pub what: String,
    pub hint: String,
    /// Whether it was a matter of permission.
    pub not_permitted: bool,
}

/// Settings that are changed while this lives. Dropping it puts them back, as [`AppliedSettings::restore`] does.
#[derive(Debug)]
pub struct AppliedSettings {
    site: SettingsRoot,
    journal: Journal,
    changes: Vec<SettingChange>,
    /// What asks the kernel for something for as long as it is open; nothing of it is left when we are gone.
    held: Vec<File>,
}

impl AppliedSettings {
    /// Nothing is changed yet. Fails while a journal of an interrupted run is left.
    pub fn begin(site: &SettingsRoot) -> Result<Self, ChangeError> {
        let journal = Journal::in_folder(&site.state);
        let left = read_journal(&journal)?;
        if !left.is_empty() {
            return Err(ChangeError {
                what: format!("{} has what an interrupted run left changed", journal.path().display()),
                hint: "nearfar restore puts it back".into(),
                not_permitted: false,
            });
        }
        Ok(Self { site: site.clone(), journal, changes: Vec::new(), held: Vec::new() })
    }

    /// The root under which the settings are.
    pub fn root(&self) -> &Path {
        &self.site.root
    }

    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty() || !self.held.is_empty()
    }

    /// Writes a value, with the old one in the journal before. Gives the old value; none where it had the new one.
    pub fn set(&mut self, setting: &str, target: SettingTarget, new: &str) -> Result<Option<String>, ChangeError> {
        let old = self.found(setting, &target)?;
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
                let why = format!("the kernel took it, but reads back {}", shown(&other));
                Err(refused(setting, &change.target, &format!("write {new} to"), &why, false))
            }
        }
    }

    /// As [`AppliedSettings::set`], for what several of our processes need at once: where another of them has written the value,
    /// this one journals that change too, so that the last of them puts it back, whoever that is.
    pub fn set_together(
        &mut self,
        setting: &str,
        target: SettingTarget,
        new: &str,
    ) -> Result<Option<String>, ChangeError> {
        let is_same = |change: &SettingChange| change.target == target && change.new == new;
        let boot = boot_id(&self.site.root);
        let theirs = self.site.changes_beside().find(|change| is_same(change) && change.boot == boot);
        let there = read(&self.site.root, &target) == CurrentValue::Value(new.into());
        match theirs.filter(|_| there) {
            Some(change) => {
                self.journal.add(&change).map_err(|error| cannot_write(&self.journal, &error))?;
                self.changes.push(change);
                Ok(None)
            }
            None => self.set(setting, target, new),
        }
    }

    /// Journals values of which some may be written later, again and again, without the journal: a value that changes with
    /// every trial would else cost a write to the disk each time. Gives the value that was found.
    pub(crate) fn journal_values(
        &mut self,
        setting: &str,
        target: SettingTarget,
        values: &[String],
    ) -> Result<String, ChangeError> {
        let old = self.found(setting, &target)?;
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

    fn found(&self, setting: &str, target: &SettingTarget) -> Result<String, ChangeError> {
        match read(&self.site.root, target) {
            CurrentValue::Value(old) => Ok(old),
            CurrentValue::Gone => Err(refused(setting, target, "read", &"it is not there any more", false)),
            CurrentValue::Unreadable(why) => Err(refused(setting, target, "read", &why, false)),
        }
    }

    /// Keeps a file open as long as the settings are changed.
    pub(crate) fn hold(&mut self, file: File) {
        self.held.push(file);
    }

    /// Puts everything back, the last change first, and says what became of each. What could not be put back stays in
    /// the journal.
    pub fn restore(mut self) -> Vec<Restored> {
        self.back()
    }

    fn back(&mut self) -> Vec<Restored> {
        self.held.clear();
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return Vec::new();
        }
        settle(&self.site, &self.journal, &changes, false)
    }
}

impl Drop for AppliedSettings {
    fn drop(&mut self) {
        // Whoever wants to know calls put_back; what is not back is in the journal.
        let _ = self.back();
    }
}

/// What an interrupted run left changed and what is still so, oldest first.
pub fn pending(site: &SettingsRoot) -> Result<Vec<SettingChange>, ChangeError> {
    let boot = boot_id(&site.root);
    let mut changes = read_journal(&Journal::in_folder(&site.state))?;
    for abandoned in site.abandoned() {
        changes.extend(read_journal(&Journal::in_folder(&abandoned.state))?);
    }
    changes.retain(|change| {
        let step = restore_action(change, &read(&site.root, &change.target), boot.as_deref(), false);
        !matches!(
            step,
            RestoreAction::Nothing(RestoreStatus::AlreadyRestored | RestoreStatus::Restarted | RestoreStatus::Ended)
        )
    });
    Ok(changes)
}

/// Puts back what the journal has, the last change first. `force` also writes over what somebody else has set since.
pub fn restore(site: &SettingsRoot, force: bool) -> Result<Vec<Restored>, ChangeError> {
    let mut restored = restore_one(site, force)?;
    for abandoned in site.abandoned() {
        restored.extend(restore_one(&abandoned, force)?);
        // Stays as long as there is something in it.
        let _ = std::fs::remove_dir(&abandoned.state);
    }
    Ok(restored)
}

fn restore_one(site: &SettingsRoot, force: bool) -> Result<Vec<Restored>, ChangeError> {
    let journal = Journal::in_folder(&site.state);
    let changes = read_journal(&journal)?;
    if changes.is_empty() {
        // A line that was cut off while it was written may be there.
        forget_one(site)?;
    }
    Ok(settle(site, &journal, &changes, force))
}

/// Empties the journal, whatever is still changed.
pub fn forget(site: &SettingsRoot) -> Result<(), ChangeError> {
    for abandoned in site.abandoned() {
        forget_one(&abandoned)?;
        let _ = std::fs::remove_dir(&abandoned.state); // there may be more in it
    }
    forget_one(site)
}

fn forget_one(site: &SettingsRoot) -> Result<(), ChangeError> {
    let journal = Journal::in_folder(&site.state);
    if !journal.path().exists() {
        return Ok(());
    }
    journal.keep(&[]).map_err(|error| cannot_write(&journal, &error))
}

fn settle(site: &SettingsRoot, journal: &Journal, changes: &[SettingChange], force: bool) -> Vec<Restored> {
    let boot = boot_id(&site.root);
    let restored: Vec<Restored> =
        changes.iter().rev().map(|change| undo(site, changes, change, boot.as_deref(), force)).collect();
    let open = restored.iter().rev().filter(|restored| !restored.is_settled());
    let open: Vec<SettingChange> = open.map(|restored| restored.change.clone()).collect();
    if !changes.is_empty() {
        // A journal that is too long does no harm: what it has is found as it was.
        let _ = journal.keep(&open);
    }
    restored
}

/// Undoes one of these changes.
fn undo(
    site: &SettingsRoot,
    changes: &[SettingChange],
    change: &SettingChange,
    boot: Option<&str>,
    force: bool,
) -> Restored {
    let root = site.root.as_path();
    let outcome = match restore_action(change, &read(root, &change.target), boot, force) {
        RestoreAction::Nothing(outcome) => outcome,
        // What is swapped of programs that still run in a small group would not fit when it came back.
        RestoreAction::Write
            if matches!(change.target, SettingTarget::Swap { .. } | SettingTarget::Controller { .. })
                && has_group(root, changes) =>
        {
            RestoreStatus::Failed { why: "programs still use it; end them first".into(), not_permitted: false }
        }
        RestoreAction::Write if is_needed(site, changes, change) => RestoreStatus::StillNeeded,
        RestoreAction::Write => match target::write(root, &change.target, &change.old) {
            Err(error) => {
                RestoreStatus::Failed { why: error.to_string(), not_permitted: target::is_permission(&error) }
            }
            Ok(()) => match read(root, &change.target) {
                CurrentValue::Value(value) if value == change.old => RestoreStatus::Restored,
                other => RestoreStatus::Failed {
                    why: format!("the kernel took it, but reads back {}", shown(&other)),
                    not_permitted: false,
                },
            },
        },
    };
    Restored { change: change.clone(), outcome }
}

/// Whether a group that was made with these changes is still there.
fn has_group(root: &Path, changes: &[SettingChange]) -> bool {
    let groups = changes.iter().map(|change| &change.target).filter(|target| matches!(target, SettingTarget::Group(_)));
    groups.into_iter().any(|group| read(root, group) == CurrentValue::Value(THERE.into()))
}

/// Whether somebody else needs it as it is by now: a file's value another process of ours, which has journalled the same change
/// and puts it back later.
fn is_needed(site: &SettingsRoot, changes: &[SettingChange], change: &SettingChange) -> bool {
    match &change.target {
        SettingTarget::Controller { group, .. } => is_bounding(&site.root, changes, group),
        SettingTarget::File(_) => site.changes_beside().any(|other| other == *change),
        _ => false,
    }
}

/// Whether the controller bounds somebody else: another program of ours, or a group that somebody has bounded since. Taking
/// it away would take the bound away.
fn is_bounding(root: &Path, changes: &[SettingChange], group: &str) -> bool {
    let is_bounded = |path: &str| sysfs::read_text(root, &format!("{path}/memory.max")).is_ok_and(|max| max != "max");
    let below = sysfs::names(&root.join(group)).into_iter().map(|name| (format!("{group}/{name}"), name));
    let mut others =
        below.filter(|(path, _)| !changes.iter().any(|change| change.target == SettingTarget::Group(path.clone())));
    others.any(|(path, name)| root.join(&path).is_dir() && (name.starts_with(GROUP_PREFIX) || is_bounded(&path)))
}

fn boot_id(root: &Path) -> Option<String> {
    sysfs::read_text(root, "proc/sys/kernel/random/boot_id").ok()
}

pub(crate) fn shown(present: &CurrentValue) -> String {
    match present {
        CurrentValue::Value(value) => value.clone(),
        CurrentValue::Gone => "nothing".into(),
        CurrentValue::Unreadable(why) => why.clone(),
    }
}

fn read_journal(journal: &Journal) -> Result<Vec<SettingChange>, ChangeError> {
    journal.read().map_err(|error| ChangeError {
        what: format!("cannot read the journal of changed settings {}: {error}", journal.path().display()),
        hint: "each line has a file, its old and its new value: put them back by hand and remove the file".into(),
        not_permitted: target::is_permission(&error),
    })
}

fn cannot_write(journal: &Journal, error: &std::io::Error) -> ChangeError {
    let not_permitted = target::is_permission(error);
    let hint = if not_permitted { "settings are changed by root" } else { "NEARFAR_STATE names another folder for it" };
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
        SettingTarget::Banned { .. } => "--quieten irqbalance pauses it instead".into(),
        SettingTarget::File(path) if path.starts_with("proc/irq/") => "leave irq: out of the placements".into(),
        SettingTarget::Swap { .. } | SettingTarget::Group(_) | SettingTarget::Controller { .. } => {
            "run it without a budget of DRAM".into()
        }
        _ => format!("leave {setting} out of --quieten"),
    };
    let hint = if not_permitted {
        format!("settings are changed by root, and not in every container; or {instead}")
    } else {
        instead
    };
    ChangeError { what: format!("{setting}: cannot {verb} {target}: {why}"), hint, not_permitted }
}

#[cfg(test)]
mod tests;
