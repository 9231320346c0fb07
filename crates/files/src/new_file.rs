//! A file without a name until it is complete. Must not depend on its content.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::{create_new, dir_of, sync_dir_of, with_random_name};

/// Permissions of new files, without those that the umask removes.
const MODE: u32 = 0o666;

/// End of temporary names.
const SUFFIX: &str = ".nearfar-partial";

/// A new file. It is removed unless it is published or replaces the file of that name.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    target: PathBuf,
    /// Its temporary name, on file systems without `O_TMPFILE`.
    named: Option<PathBuf>,
}

impl NewFile {
    /// Creates an empty file in the directory of `target`.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn create(target: &Path) -> io::Result<Self> {
        remove_stale(target);
        let (file, named) = match unnamed(dir_of(target))? {
            Some(file) => (file, None),
            None => named(target)?,
        };
        // Held while the file has a temporary name. File systems without locks leave such names after a kill.
        let _ = file.try_lock();
        Ok(Self { file, target: target.into(), named })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Flushes the file and gives it its name.
    ///
    /// # Errors
    /// Errors of the system; `AlreadyExists` if the name is in use.
    pub fn publish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        match self.named.take() {
            None => link(&self.file, &self.target)?,
            Some(named) => {
                let result = rename_new(&named, &self.target);
                if result.is_err() {
                    self.named = Some(named);
                }
                result?;
            }
        }
        sync_dir_of(&self.target)
    }

    /// Flushes the file and replaces the file of that name, whose permissions it keeps. Readers see the old or the new
    /// file, never a mixture.
    ///
    /// # Errors
    /// Errors of the system; the old file is then unchanged.
    pub fn replace(mut self) -> io::Result<()> {
        if let Ok(old) = fs::metadata(&self.target) {
            self.file.set_permissions(old.permissions())?;
        }
        self.file.sync_all()?;
        if self.named.is_none() {
            // A link cannot replace a file, but a rename can.
            let (file, target) = (&self.file, &self.target);
            self.named = Some(with_random_name(|random| {
                let path = hidden(target, random);
                link(file, &path).map(|()| path)
            })?);
        }
        let named = self.named.as_ref().expect("it was named above");
        fs::rename(named, &self.target)?;
        self.named = None;
        // File systems that cannot flush a directory do not need it.
        let _ = sync_dir_of(&self.target);
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(named) = &self.named {
            let _ = fs::remove_file(named); // a leftover has an unused name
        }
    }
}

/// Creates a file without a name; `None` if the file system has none, or if it could not be named later.
fn unnamed(dir: &Path) -> io::Result<Option<File>> {
    if !Path::new("/proc/self/fd").exists() {
        return Ok(None);
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(dir, flags, Mode::from_bits_retain(MODE)) {
        Ok(file) => Ok(Some(file.into())),
        // Kernels that do not know the flag return EISDIR.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn named(target: &Path) -> io::Result<(File, Option<PathBuf>)> {
    with_random_name(|random| {
        let path = hidden(target, random);
        create_new(&path, MODE).map(|file| (file, Some(path)))
    })
}

/// Removes temporary names of this file that killed processes left: those that no process has locked.
fn remove_stale(target: &Path) {
    let prefix = hidden_prefix(target);
    for entry in fs::read_dir(dir_of(target)).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !(name.starts_with(&prefix) && name.ends_with(SUFFIX)) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::open(entry.path(), flags, Mode::empty()).map(File::from) else { continue };
        let is_own = file.metadata().is_ok_and(|about| about.uid() == rustix::process::geteuid().as_raw());
        if is_own && file.try_lock().is_ok() {
            let _ = fs::remove_file(entry.path()); // the next process retries
        }
    }
}

fn hidden_prefix(target: &Path) -> String {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    format!(".{}.", name.chars().take(64).collect::<String>())
}

/// A hidden name next to the file. Patterns such as `*.csv` do not match it.
fn hidden(target: &Path, random: &str) -> PathBuf {
    target.with_file_name(format!("{}{random}{SUFFIX}", hidden_prefix(target)))
}

/// Names an unnamed file. The name must not be in use.
fn link(file: &File, path: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, source.as_str(), CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(Into::into)
}

/// Renames a file to a name that is not in use.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not support the flag; those have hard links.
        Err(Errno::INVAL | Errno::NOSYS) => fs::hard_link(from, to).and_then(|()| fs::remove_file(from)),
        Err(Errno::EXIST) => Err(ErrorKind::AlreadyExists.into()),
        other => other.map_err(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A file as on a file system without `O_TMPFILE`.
    fn with_name(target: &Path) -> NewFile {
        let (file, named) = named(target).unwrap();
        NewFile { file, target: target.into(), named }
    }

    #[test]
    fn file_has_no_name_until_it_is_published() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g");
        let (new, other) = (NewFile::create(&path).unwrap(), with_name(&path));
        new.file().write_all(b"new").unwrap();
        assert!(!path.exists());
        new.publish().unwrap();
        assert_eq!(other.publish().unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(NewFile::create(&path).unwrap().publish().unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["g"], "nothing else is left");
        with_name(&dir.path().join("h")).publish().unwrap();
        assert_eq!(names(dir.path()), ["g", "h"]);
    }

    #[test]
    fn replaced_file_keeps_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        for (text, new) in [("one", NewFile::create(&path).unwrap()), ("two", with_name(&path))] {
            new.file().write_all(text.as_bytes()).unwrap();
            new.replace().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        }
        drop(NewFile::create(&path).unwrap());
        drop(with_name(&path));
        assert_eq!(names(dir.path()), ["a"]);
        // One process was killed between naming and renaming; the other still runs.
        fs::write(dir.path().join(".a.0123456789abcdef.nearfar-partial"), "").unwrap();
        let used = File::create(dir.path().join(".a.1123456789abcdef.nearfar-partial")).unwrap();
        used.lock().unwrap();
        NewFile::create(&path).unwrap().replace().unwrap();
        assert_eq!(names(dir.path()), [".a.1123456789abcdef.nearfar-partial", "a"]);
    }

    #[test]
    fn symbolic_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let precious = dir.path().join("precious");
        fs::write(&precious, "text").unwrap();
        let link = dir.path().join("link");
        symlink(&precious, &link).unwrap();
        assert!(create_new(&link, 0o600).is_err());
        assert_eq!(NewFile::create(&link).unwrap().publish().unwrap_err().kind(), ErrorKind::AlreadyExists);
        with_name(&link).replace().unwrap();
        assert!(!link.is_symlink(), "the link itself is replaced");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "text");
    }
}
