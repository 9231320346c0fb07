//! A file without a name until it is complete. Must not depend on its content.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat, unlinkat};
use rustix::io::Errno;

use crate::dir::{open_parent, readable, sync};
use crate::{create_new_at, with_random_name};

/// Permissions of new files, without those that the umask removes.
const MODE: u32 = 0o666;

/// End of temporary names.
const SUFFIX: &str = ".nearfar-partial";

/// A new file. It is removed unless it is published or replaces the file of that name.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    dir: OwnedFd,
    name: OsString,
    /// Its temporary name, on file systems without `O_TMPFILE`.
    named: Option<String>,
}

impl NewFile {
    /// Creates an empty file in the directory of `target`.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn create(target: &Path) -> io::Result<Self> {
        let (dir, name) = open_parent(target)?;
        remove_stale(&dir, name);
        let (file, named) = match unnamed(&dir)? {
            Some(file) => (file, None),
            None => named(&dir, name)?,
        };
        Ok(Self { file, dir, name: name.into(), named })
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
            None => link(&self.file, &self.dir, &self.name)?,
            Some(named) => {
                let result = rename_new(&self.dir, &named, &self.name);
                if result.is_err() {
                    self.named = Some(named);
                }
                result?;
            }
        }
        sync(&self.dir)
    }

    /// Flushes the file and replaces the file of that name, whose permissions it keeps. Readers see the old or the new
    /// file, never a mixture.
    ///
    /// # Errors
    /// Errors of the system; the old file is then unchanged.
    pub fn replace(mut self) -> io::Result<()> {
        let old = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if let Some(old) = old.ok().filter(|old| FileType::from_raw_mode(old.st_mode) == FileType::RegularFile) {
            self.file.set_permissions(Permissions::from_mode(kept_mode(&old)))?;
        }
        self.file.sync_all()?;
        if self.named.is_none() {
            // A link cannot replace a file, but a rename can.
            let named = with_random_name(|random| {
                let named = hidden(&self.name, random);
                link(&self.file, &self.dir, named.as_ref()).map(|()| named)
            })?;
            self.named = Some(named);
        }
        let named = self.named.as_ref().expect("it was named above");
        rustix::fs::renameat(&self.dir, named.as_str(), &self.dir, &self.name)?;
        self.named = None;
        // File systems that cannot flush a directory do not need it.
        let _ = sync(&self.dir);
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(named) = &self.named {
            let _ = unlinkat(&self.dir, named.as_str(), AtFlags::empty()); // a leftover has an unused name
        }
    }
}

/// Returns the permissions of a replaced file. With those of another user's file, only this user can write to the new
/// one. It is never set-user-ID, because it may have another owner.
fn kept_mode(old: &Stat) -> u32 {
    if old.st_uid == rustix::process::geteuid().as_raw() { old.st_mode & 0o777 } else { old.st_mode & 0o755 }
}

/// Creates a file without a name; `None` if the file system has none, or if it could not be named later.
fn unnamed(dir: &OwnedFd) -> io::Result<Option<File>> {
    if !Path::new("/proc/self/fd").exists() {
        return Ok(None);
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(dir, ".", flags, Mode::from_bits_retain(MODE)) {
        Ok(file) => {
            let file = File::from(file);
            // For the time between naming and renaming.
            let _ = file.try_lock();
            Ok(Some(file))
        }
        // Kernels that do not know the flag return EISDIR.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Creates a locked file with a temporary name.
fn named(dir: &OwnedFd, target: &OsStr) -> io::Result<(File, Option<String>)> {
    loop {
        let (file, name) = with_random_name(|random| {
            let name = hidden(target, random);
            create_new_at(dir, name.as_ref(), MODE).map(|file| (file, name))
        })?;
        // File systems without locks leave such names after a kill.
        let lock = file.try_lock();
        let is_there = rustix::fs::statat(dir, name.as_str(), AtFlags::SYMLINK_NOFOLLOW).is_ok();
        // Another process found it before it was locked.
        if matches!(lock, Err(TryLockError::WouldBlock)) || !is_there {
            continue;
        }
        return Ok((file, Some(name)));
    }
}

/// Removes temporary names of this file that killed processes left: those that no process has locked.
fn remove_stale(dir: &OwnedFd, target: &OsStr) {
    let prefix = hidden_prefix(target);
    let entries = readable(dir).and_then(|dir| Ok(Dir::new(dir)?));
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let text = name.to_string_lossy();
        if !(text.starts_with(&prefix) && text.ends_with(SUFFIX)) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(dir, name, flags, Mode::empty()).map(File::from) else { continue };
        let is_own = file.metadata().is_ok_and(|about| about.uid() == rustix::process::geteuid().as_raw());
        if is_own && file.try_lock().is_ok() {
            let _ = unlinkat(dir, name, AtFlags::empty()); // the next process retries
        }
    }
}

fn hidden_prefix(target: &OsStr) -> String {
    format!(".{}.", target.to_string_lossy().chars().take(64).collect::<String>())
}

/// A hidden name next to the file. Patterns such as `*.csv` do not match it.
fn hidden(target: &OsStr, random: &str) -> String {
    format!("{}{random}{SUFFIX}", hidden_prefix(target))
}

/// Names an unnamed file. The name must not be in use.
fn link(file: &File, dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, source.as_str(), dir, name, AtFlags::SYMLINK_FOLLOW).map_err(Into::into)
}

/// Renames a file to a name that is not in use.
fn rename_new(dir: &OwnedFd, from: &str, to: &OsStr) -> io::Result<()> {
    match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // The file system does not support the flag; those have hard links.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(dir, from, dir, to, AtFlags::empty())?;
            unlinkat(dir, from, AtFlags::empty()).map_err(Into::into)
        }
        Err(Errno::EXIST) => Err(ErrorKind::AlreadyExists.into()),
        other => other.map_err(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A file as on a file system without `O_TMPFILE`.
    fn with_name(target: &Path) -> NewFile {
        let (dir, name) = open_parent(target).unwrap();
        let (file, named) = named(&dir, name).unwrap();
        NewFile { file, dir, name: name.into(), named }
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
    fn permissions_of_other_users_are_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let replaced = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            NewFile::create(&path).unwrap().replace().unwrap();
            fs::metadata(&path).unwrap().permissions().mode() & 0o7777
        };
        fs::write(&path, "").unwrap();
        assert_eq!(replaced(0o4777), 0o777, "never set-user-ID");
        if chown(&path, Some(65_534), None).is_err() {
            return println!("skipped: permissions_of_other_users_are_not_kept: requires root");
        }
        assert_eq!(replaced(0o4777), 0o755);
        assert_eq!(fs::metadata(&path).unwrap().uid(), rustix::process::geteuid().as_raw());
    }

    #[test]
    fn concurrent_removal_does_not_affect_named_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let (parent, name) = open_parent(&path).unwrap();
                        remove_stale(&parent, name);
                        with_name(&path).replace().unwrap();
                    }
                });
            }
        });
        assert_eq!(names(dir.path()), ["a"]);
    }

    #[test]
    fn symbolic_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let precious = dir.path().join("precious");
        fs::write(&precious, "text").unwrap();
        let link = dir.path().join("link");
        symlink(&precious, &link).unwrap();
        assert!(crate::create_new(&link, 0o600).is_err());
        assert_eq!(NewFile::create(&link).unwrap().publish().unwrap_err().kind(), ErrorKind::AlreadyExists);
        with_name(&link).replace().unwrap();
        assert!(!link.is_symlink(), "the link itself is replaced");
        assert_eq!(fs::metadata(&link).unwrap().mode() & 0o111, 0, "its permissions are not those of the link");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "text");
    }
}
