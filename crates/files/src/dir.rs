//! Opens directories in places that other users can write to. Must not depend on their files.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::dir_of;

const FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// Maximum number of symbolic links in a path, as in the kernel.
const LINKS_MAX: u32 = 40;

/// Opens a directory for operations relative to it. Follows a symbolic link only if root or this user owns it: another
/// user could lead it anywhere, also between two uses of the path.
///
/// # Errors
/// Errors of the system; `PermissionDenied` if a part of the path is a symbolic link of another user.
pub(crate) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = FLAGS | OFlags::DIRECTORY;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(dir) => Ok(dir),
        // The path has links, or the kernel is older than 5.6, or a filter of system calls forbids this one.
        Err(Errno::LOOP | Errno::NOSYS | Errno::PERM | Errno::AGAIN) => walk(path),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens the directory that contains a path, and returns the last part of the path.
pub(crate) fn open_parent(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    Ok((open_dir(dir_of(path))?, name))
}

/// Opens a directory part by part.
fn walk(path: &Path) -> io::Result<OwnedFd> {
    let mut left: VecDeque<OsString> = VecDeque::new();
    push_parts(&mut left, path);
    let mut dir = rustix::fs::openat(CWD, ".", FLAGS | OFlags::DIRECTORY, Mode::empty())?;
    let mut links = 0;
    while let Some(part) = left.pop_front() {
        let next = rustix::fs::openat(&dir, &part, FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
        let about = rustix::fs::fstat(&next)?;
        match FileType::from_raw_mode(about.st_mode) {
            FileType::Directory => dir = next,
            FileType::Symlink if links == LINKS_MAX => return Err(Errno::LOOP.into()),
            FileType::Symlink => {
                check_link(&about, &part)?;
                links += 1;
                push_parts(&mut left, Path::new(&target_of(&next, "")?));
            }
            _ => return Err(Errno::NOTDIR.into()),
        }
    }
    Ok(dir)
}

/// Puts the parts of a path before those that are left.
fn push_parts(left: &mut VecDeque<OsString>, path: &Path) {
    for part in path.components().rev() {
        match part {
            Component::CurDir => {}
            other => left.push_front(other.as_os_str().into()),
        }
    }
}

fn target_of(dir: &OwnedFd, name: &str) -> io::Result<OsString> {
    Ok(OsString::from_vec(rustix::fs::readlinkat(dir, name, Vec::new())?.into_bytes()))
}

/// Refuses a link of another user than root.
fn check_link(about: &Stat, name: &OsStr) -> io::Result<()> {
    if [0, rustix::process::geteuid().as_raw()].contains(&about.st_uid) {
        return Ok(());
    }
    let why = format!("{} is a symbolic link of another user", name.display());
    Err(io::Error::new(ErrorKind::PermissionDenied, why))
}

/// Returns the file that a path means: a path that is not a symbolic link. Links of this user and of root are followed.
///
/// # Errors
/// Errors of the system; `PermissionDenied` if a part of the path is a symbolic link of another user.
pub fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..=LINKS_MAX {
        let (dir, name) = open_parent(&path)?;
        let about = match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(path),
            other => other?,
        };
        if FileType::from_raw_mode(about.st_mode) != FileType::Symlink {
            return Ok(path);
        }
        check_link(&about, name)?;
        let link = rustix::fs::openat(&dir, name, FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
        path = dir_of(&path).join(target_of(&link, "")?);
    }
    Err(Errno::LOOP.into())
}

/// Creates or truncates a file for writing.
///
/// # Errors
/// Errors of the system, also if the path is a symbolic link.
pub fn create(path: &Path) -> io::Result<File> {
    let (dir, name) = open_parent(path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(&dir, name, flags, Mode::from_bits_retain(0o666))?.into())
}

/// Opens a directory again, to read its names.
pub(crate) fn readable(dir: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, ".", flags, Mode::empty())?)
}

/// Flushes the names of a directory to the disk.
pub(crate) fn sync(dir: &OwnedFd) -> io::Result<()> {
    File::from(readable(dir)?).sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    use super::*;

    fn inode(dir: &OwnedFd) -> u64 {
        rustix::fs::fstat(dir).unwrap().st_ino
    }

    #[test]
    fn own_links_are_followed_and_others_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        fs::create_dir_all(at("real/sub")).unwrap();
        symlink(at("real"), at("absolute")).unwrap();
        symlink("absolute/../real/sub", at("relative")).unwrap();
        symlink("loop", at("loop")).unwrap();
        fs::write(at("file"), "").unwrap();
        let sub = fs::metadata(at("real/sub")).unwrap().ino();
        for path in ["real/sub", "absolute/sub", "relative", "./relative/."] {
            assert_eq!(inode(&open_dir(&at(path)).unwrap()), sub, "{path}");
        }
        assert_eq!(inode(&walk(&at("real/sub")).unwrap()), sub, "on kernels without openat2");
        assert_eq!(open_dir(&at("loop")).unwrap_err().raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        assert_eq!(open_dir(&at("file")).unwrap_err().kind(), ErrorKind::NotADirectory);
        assert_eq!(open_dir(&at("none")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(followed(&at("relative")).unwrap(), at("absolute/../real/sub"));
        assert_eq!(followed(&at("real/new")).unwrap(), at("real/new"));
        for link in ["absolute", "loop"] {
            if lchown(at(link), Some(65_534), None).is_err() {
                return println!("skipped: own_links_are_followed_and_others_are_refused: requires root");
            }
        }
        for path in ["absolute/sub", "relative", "absolute"] {
            let error = open_dir(&at(path)).unwrap_err();
            assert!(error.to_string().contains("absolute is a symbolic link of another user"), "{path}: {error}");
        }
        assert_eq!(followed(&at("loop")).unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert_eq!(create(&at("loop")).unwrap_err().raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    }
}
