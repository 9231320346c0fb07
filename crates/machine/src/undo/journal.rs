//! Undo journal: a file with one line of JSON per changed setting, synced to disk before the setting is written. Must
//! not depend on the meaning of settings.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use files::NewFile;
use model::values::undo::SettingChange;

use super::{APPLIED, EXPANSIONS, KEPT};

/// File name in the state directory.
const NAME: &str = "undo.journal";

#[derive(Clone, Debug)]
pub(super) struct Journal {
    dir: PathBuf,
}

impl Journal {
    /// Describes the journal in a directory. Neither needs to exist.
    pub(super) fn in_dir(dir: &Path) -> Self {
        Self { dir: dir.into() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(NAME)
    }

    /// Returns its entries, oldest first, or an empty list if the file does not exist.
    pub(super) fn read(&self) -> io::Result<Vec<SettingChange>> {
        match self.text() {
            Ok(text) => parse(&text).map_err(|why| io::Error::new(ErrorKind::InvalidData, why)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Reads the file. Restoring writes its values, so no other user, root excepted, may have changed it.
    fn text(&self) -> io::Result<String> {
        self.dirs().into_iter().try_for_each(files::check_dir)?;
        let mut text = String::new();
        self.open(OpenOptions::new().read(true))?.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Returns the directories in which another user could replace the journal, the state directory first.
    fn dirs(&self) -> Vec<&Path> {
        let is_one_of_many =
            self.dir.parent().is_some_and(|dir| [EXPANSIONS, APPLIED, KEPT].iter().any(|name| dir.ends_with(name)));
        let mut dirs: Vec<&Path> = self.dir.ancestors().take(if is_one_of_many { 3 } else { 1 }).collect();
        dirs.reverse();
        dirs
    }

    fn open(&self, options: &mut OpenOptions) -> io::Result<File> {
        let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(self.path())?;
        let about = file.metadata()?;
        let is_trusted = [0, rustix::process::geteuid().as_raw()].contains(&about.uid()) && about.mode() & 0o022 == 0;
        if !(is_trusted && about.is_file()) {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "another user can change it"));
        }
        Ok(file)
    }

    /// Appends a line. On return, the line and the directory entry are synced to disk.
    pub(super) fn add(&self, change: &SettingChange) -> io::Result<()> {
        self.dirs().into_iter().try_for_each(|dir| create_dir_synced(dir).and_then(|()| files::check_dir(dir)))?;
        let mut file = self.open(OpenOptions::new().append(true).create(true).mode(0o644))?;
        file.write_all(line(change).as_bytes())?;
        file.sync_all()?;
        File::open(&self.dir)?.sync_all()
    }

    /// Replaces the entries atomically; removes the file if there are none.
    pub(super) fn replace(&self, changes: &[SettingChange]) -> io::Result<()> {
        let ignore_missing = |error: io::Error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) };
        if changes.is_empty() {
            std::fs::remove_file(self.path()).or_else(ignore_missing)?;
        } else {
            let new = NewFile::create(&self.path())?;
            new.file().write_all(changes.iter().map(line).collect::<String>().as_bytes())?;
            new.replace()?;
        }
        File::open(&self.dir).and_then(|dir| dir.sync_all()).or_else(ignore_missing)
    }
}

fn line(change: &SettingChange) -> String {
    serde_json::to_string(change).expect("text and numbers are JSON") + "\n"
}

/// Parses the journal. An incomplete last line was interrupted while it was written, before its setting was changed.
fn parse(text: &str) -> Result<Vec<SettingChange>, String> {
    let complete = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).enumerate();
    complete.map(|(at, line)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))).collect()
}

/// Creates a directory and its ancestors, and syncs each new directory entry to disk.
fn create_dir_synced(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = files::dir_of(dir);
    create_dir_synced(parent)?;
    files::create_dirs(dir)?;
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use model::values::undo::SettingTarget;

    use super::*;

    fn change(old: &str) -> SettingChange {
        SettingChange {
            setting: "thp".into(),
            target: SettingTarget::File("x".into()),
            old: old.into(),
            new: "n".into(),
            also: Vec::new(),
            boot: None,
        }
    }

    #[test]
    fn entries_are_added_replaced_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::in_dir(&dir.path().join("a/b"));
        assert_eq!(journal.read().unwrap(), []);
        journal.replace(&[]).unwrap();
        journal.add(&change("1")).unwrap();
        journal.add(&change("2")).unwrap();
        assert_eq!(journal.read().unwrap(), [change("1"), change("2")]);
        journal.replace(&[change("2")]).unwrap();
        assert_eq!(journal.read().unwrap(), [change("2")]);
        journal.replace(&[]).unwrap();
        assert!(!journal.path().exists());
    }

    #[test]
    fn journal_that_others_can_change_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::in_dir(dir.path());
        journal.add(&change("1")).unwrap();
        let refused = || journal.read().err().map(|error| error.kind());
        std::fs::set_permissions(journal.path(), Permissions::from_mode(0o666)).unwrap();
        assert_eq!(refused(), Some(ErrorKind::PermissionDenied));
        std::fs::set_permissions(journal.path(), Permissions::from_mode(0o644)).unwrap();
        assert_eq!(refused(), None);
        std::fs::rename(journal.path(), dir.path().join("other")).unwrap();
        std::os::unix::fs::symlink("other", journal.path()).unwrap();
        assert!(refused().is_some(), "a link is not followed");
        assert!(journal.add(&change("2")).is_err());
        assert_eq!(std::fs::read_to_string(dir.path().join("other")).unwrap(), line(&change("1")));
    }

    #[test]
    fn journal_in_a_directory_of_others_is_neither_read_nor_written() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::in_dir(&dir.path().join("state"));
        journal.add(&change("1")).unwrap();
        let refused = || [journal.read().err(), journal.add(&change("2")).err()].map(|error| error.map(|e| e.kind()));
        for (mode, expected) in [(0o777, Some(ErrorKind::PermissionDenied)), (0o1777, None)] {
            std::fs::set_permissions(&journal.dir, Permissions::from_mode(mode)).unwrap();
            assert_eq!(refused(), [expected; 2], "mode {mode:o}");
        }
        let of_expansion = Journal::in_dir(&journal.dir.join(EXPANSIONS).join("1-2"));
        of_expansion.add(&change("1")).unwrap();
        std::fs::set_permissions(&journal.dir, Permissions::from_mode(0o777)).unwrap();
        assert!(of_expansion.read().is_err() && of_expansion.add(&change("2")).is_err());
        std::fs::set_permissions(&journal.dir, Permissions::from_mode(0o755)).unwrap();
        // Another user has put a file there first.
        journal.replace(&[]).unwrap();
        std::fs::write(journal.path(), "").unwrap();
        if std::os::unix::fs::chown(journal.path(), Some(65_534), None).is_err() {
            return println!("skipped: journal_in_a_directory_of_others_is_neither_read_nor_written: requires root");
        }
        assert_eq!(refused(), [Some(ErrorKind::PermissionDenied); 2]);
        assert_eq!(std::fs::read(journal.path()).unwrap(), b"");
    }

    #[test]
    fn truncated_last_line_is_ignored_and_an_invalid_line_is_reported() {
        let whole = line(&change("1"));
        for cut in 0..whole.len() {
            assert_eq!(parse(&format!("{whole}{}", &whole[..cut])), Ok(vec![change("1")]), "cut at {cut}");
        }
        assert!(parse(&format!("{whole}garbage\n{whole}")).unwrap_err().starts_with("line 2: "));
    }
}
