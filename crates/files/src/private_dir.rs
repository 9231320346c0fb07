//! A directory that only its owner can change. Must not depend on the files in it.
//!
//! Files are opened relative to the open directory: if another user renames it, the names inside still mean the same.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, mkdirat, unlinkat};
use rustix::io::Errno;

use crate::dir::{open_dir, open_parent};
use crate::{random_name, with_random_name};

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// An open directory that this user owns and no other user can write to.
#[derive(Debug)]
pub struct PrivateDir {
    dir: File,
    path: PathBuf,
}

impl PrivateDir {
    /// Opens the directory, or creates it with access for this user only.
    ///
    /// # Errors
    /// Errors of the system; `PermissionDenied` if another user owns the directory or can write to it, or if the path
    /// is a symbolic link.
    pub fn open_or_create(path: &Path) -> io::Result<Self> {
        let (parent, name) = open_parent(path)?;
        match mkdirat(&parent, name, Mode::from_bits_retain(DIR_MODE)) {
            Ok(()) | Err(Errno::EXIST) => Self::open_at_parent(&parent, name, path),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Creates a directory with the prefix and a random name.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn create_random(parent: &Path, prefix: &str) -> io::Result<Self> {
        let dir = open_dir(parent)?;
        let name = with_random_name(|random| {
            let name = format!("{prefix}{random}");
            mkdirat(&dir, name.as_str(), Mode::from_bits_retain(DIR_MODE))?;
            Ok(name)
        })?;
        Self::open_at_parent(&dir, name.as_ref(), &parent.join(&name))
    }

    /// Opens an existing directory.
    ///
    /// # Errors
    /// As [`PrivateDir::open_or_create`]; `NotFound` if it does not exist.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (parent, name) = open_parent(path)?;
        Self::open_at_parent(&parent, name, path)
    }

    fn open_at_parent(parent: &OwnedFd, name: &OsStr, path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let dir = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(refused("it is a symbolic link or not a directory")),
            other => File::from(other?),
        };
        check(&dir.metadata()?)?;
        Ok(Self { dir, path: path.into() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the descriptor of the directory, for its lock.
    pub(crate) fn file(&self) -> &File {
        &self.dir
    }

    /// Opens a file for reading and writing, and creates it if it is missing. `flags` are added, for example
    /// `O_DIRECT`.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn open_file(&self, name: &str, flags: i32) -> io::Result<File> {
        self.open_at(name, OFlags::RDWR | OFlags::CREATE | OFlags::from_bits_retain(flags as u32))
    }

    /// Returns the content of a file, or `None` if it does not exist.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut file = match self.open_at(name, OFlags::RDONLY) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Returns the metadata of a file.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn metadata(&self, name: &str) -> io::Result<Metadata> {
        self.open_at(name, OFlags::RDONLY)?.metadata()
    }

    /// Replaces a file with a complete new one.
    ///
    /// # Errors
    /// Errors of the system; the old file is then unchanged.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = format!("{name}.{}", random_name()?);
        let mut file = self.open_at(&new, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| {
            rustix::fs::renameat(&self.dir, new.as_str(), &self.dir, name)?;
            self.sync()
        });
        if written.is_err() {
            let _ = self.remove(&new); // the first error is the cause
        }
        written
    }

    /// Removes a file. A missing file is not an error.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Adds a second name to a file of this directory. The name must not be in use, on the same file system.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn link(&self, name: &str, path: &Path) -> io::Result<()> {
        let (dir, new) = open_parent(path)?;
        rustix::fs::linkat(&self.dir, name, &dir, new, AtFlags::empty()).map_err(Into::into)
    }

    /// Moves a file of this directory to another path.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn rename(&self, name: &str, path: &Path) -> io::Result<()> {
        let (dir, new) = open_parent(path)?;
        rustix::fs::renameat(&self.dir, name, &dir, new).map_err(Into::into)
    }

    /// Flushes the names of the files to the disk.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn sync(&self) -> io::Result<()> {
        self.dir.sync_all()
    }

    /// Returns the names of the files.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Removes the files and the directory, which has no subdirectories.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn remove_all(&self) -> io::Result<()> {
        self.names()?.iter().try_for_each(|name| self.remove(name))?;
        let (parent, name) = open_parent(&self.path)?;
        unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(Into::into)
    }

    fn open_at(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.dir, name, flags, Mode::from_bits_retain(FILE_MODE))?.into())
    }
}

fn check(about: &Metadata) -> io::Result<()> {
    if about.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused("it belongs to another user"));
    }
    if about.mode() & 0o022 != 0 {
        return Err(refused("other users can write to it"));
    }
    Ok(())
}

fn refused(why: &str) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn files_are_created_replaced_and_removed() {
        let parent = tempfile::tempdir().unwrap();
        let dir = PrivateDir::open_or_create(&parent.path().join("d")).unwrap();
        assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(dir.read("note").unwrap(), None);
        dir.replace("note", b"one").unwrap();
        dir.replace("note", b"two").unwrap();
        assert_eq!(dir.read("note").unwrap().as_deref(), Some(&b"two"[..]));
        dir.open_file("part", 0).unwrap().write_all(b"p").unwrap();
        assert_eq!(dir.metadata("part").unwrap().len(), 1);
        dir.link("part", &parent.path().join("linked")).unwrap();
        let mut names = dir.names().unwrap();
        names.sort();
        assert_eq!(names, ["note", "part"]);
        dir.remove_all().unwrap();
        assert!(!dir.path().exists());
        assert_eq!(fs::read(parent.path().join("linked")).unwrap(), b"p");
    }

    #[test]
    fn directories_of_others_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("d");
        let kind = |path: &Path| PrivateDir::open_or_create(path).err().map(|error| error.kind());
        fs::create_dir(&path).unwrap();
        for (mode, expected) in [(0o755, None), (0o775, Some(ErrorKind::PermissionDenied))] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(kind(&path), expected, "mode {mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        symlink(&path, parent.path().join("link")).unwrap();
        assert_eq!(kind(&parent.path().join("link")), Some(ErrorKind::PermissionDenied));
        if std::os::unix::fs::chown(&path, Some(65534), None).is_err() {
            return println!("skipped: directories_of_others_are_refused: only root can change the owner");
        }
        assert_eq!(kind(&path), Some(ErrorKind::PermissionDenied));
    }

    #[test]
    fn links_inside_are_not_followed_also_after_a_rename() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("d");
        let dir = PrivateDir::open_or_create(&path).unwrap();
        let precious = parent.path().join("precious");
        fs::write(&precious, "text").unwrap();
        symlink(&precious, path.join("part")).unwrap();
        assert!(dir.open_file("part", 0).is_err());
        fs::rename(&path, parent.path().join("moved")).unwrap();
        fs::create_dir(&path).unwrap();
        symlink(&precious, path.join("other")).unwrap();
        dir.open_file("other", 0).unwrap().write_all(b"mine").unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "text");
        assert!(parent.path().join("moved/other").exists());
    }

    #[test]
    fn random_directories_are_distinct() {
        let parent = tempfile::tempdir().unwrap();
        let (one, other) =
            (PrivateDir::create_random(parent.path(), "r-"), PrivateDir::create_random(parent.path(), "r-"));
        assert_ne!(one.unwrap().path(), other.unwrap().path());
    }
}
