//! The journal: a file with one line of JSON for each setting that was changed, on the disk before the setting is
//! written. Must not know what the settings are.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use model::values::undo::SettingChange;

/// Its name in the folder of the state.
const NAME: &str = "undo.journal";

/// The journal in a folder.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    folder: PathBuf,
}

impl Journal {
    /// The journal in this folder; neither has to be there.
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.into() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// What it holds, oldest first; empty where there is none.
    pub(super) fn read(&self) -> io::Result<Vec<SettingChange>> {
        match std::fs::read_to_string(self.path()) {
            Ok(text) => parse(&text).map_err(|why| io::Error::new(ErrorKind::InvalidData, why)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Adds a line. When this comes back the line is on the disk, and so is the file's name.
    pub(super) fn add(&self, change: &SettingChange) -> io::Result<()> {
        make_folder(&self.folder)?;
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW)
            .open(self.path())?;
        file.write_all(line(change).as_bytes())?;
        file.sync_all()?;
        File::open(&self.folder)?.sync_all()
    }

    /// Keeps these lines and no others; without any the file goes. Whoever is killed in between leaves the old lines.
    pub(super) fn keep(&self, changes: &[SettingChange]) -> io::Result<()> {
        let gone = |error: io::Error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) };
        if changes.is_empty() {
            std::fs::remove_file(self.path()).or_else(gone)?;
        } else {
            let partial = self.folder.join("undo.journal-partial");
            let mut file = File::create(&partial)?;
            file.write_all(changes.iter().map(line).collect::<String>().as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&partial, self.path())?;
        }
        File::open(&self.folder).and_then(|folder| folder.sync_all()).or_else(gone)
    }
}

fn line(change: &SettingChange) -> String {
    serde_json::to_string(change).expect("text and numbers are JSON") + "\n"
}

/// A last line without its end was cut off while it was written: its setting was not changed yet.
fn parse(text: &str) -> Result<Vec<SettingChange>, String> {
    let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).enumerate();
    whole.map(|(at, line)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))).collect()
}

/// Makes a folder and those above it; each new name is on the disk afterwards.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent().filter(|above| !above.as_os_str().is_empty()) {
        make_folder(above)?;
        std::fs::create_dir(folder)?;
        return File::open(above)?.sync_all();
    }
    std::fs::create_dir(folder)
}

#[cfg(test)]
mod tests {
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
    fn lines_are_added_kept_and_gone() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::in_folder(&folder.path().join("a/b"));
        assert_eq!(journal.read().unwrap(), []);
        journal.keep(&[]).unwrap();
        journal.add(&change("1")).unwrap();
        journal.add(&change("2")).unwrap();
        assert_eq!(journal.read().unwrap(), [change("1"), change("2")]);
        journal.keep(&[change("2")]).unwrap();
        assert_eq!(journal.read().unwrap(), [change("2")]);
        journal.keep(&[]).unwrap();
        assert!(!journal.path().exists());
    }

    #[test]
    fn a_cut_last_line_is_none_and_a_broken_one_is_named() {
        let whole = line(&change("1"));
        for cut in 0..whole.len() {
            assert_eq!(parse(&format!("{whole}{}", &whole[..cut])), Ok(vec![change("1")]), "cut at {cut}");
        }
        assert!(parse(&format!("{whole}garbage\n{whole}")).unwrap_err().starts_with("line 2: "));
    }
}
