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

use crate::{create_new_at, dir_of};

const FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// Maximum number of symbolic links in a path, as in the kernel.
const LINKS_MAX: u32 = 40;

/// Opens a directory for operations relative to it. Follows a symbolic link only if root or this user owns it: another
/// user could lead it anywhere, also between two uses of the path.
///
/// # Errors
/// Errors of the system; `PermissionDenied` if a part of the path is a symbolic link of another user.
pub fn open_dir(path: &Path) -> io::Result<OwnedFd> {
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
    if is_trusted(about) {
        return Ok(());
    }
    let why = format!("{} is a symbolic link of another user", name.display());
    Err(io::Error::new(ErrorKind::PermissionDenied, why))
}

/// Whether its links lead to open files, which may have no path: `pipe:[4711]`.
fn is_proc(dir: &OwnedFd) -> io::Result<bool> {
    Ok(rustix::fs::fstatfs(dir)?.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

/// Returns the file that a path means: a path that is not a symbolic link. Links of this user and of root are followed.
/// For an open pipe, this is its link in `/proc`.
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
        let target = PathBuf::from(target_of(&link, "")?);
        if target.is_relative() && is_proc(&dir)? {
            return Ok(path);
        }
        path = dir_of(&path).join(target);
    }
    Err(Errno::LOOP.into())
}

/// Creates a file for writing in place of an existing one, which another user may have created. An existing device or
/// pipe is opened.
///
/// # Errors
/// Errors of the system, also if the path is a symbolic link; `PermissionDenied` for a pipe of another user.
pub fn create(path: &Path) -> io::Result<File> {
    let (dir, name) = open_parent(path)?;
    match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => {}
        Ok(about) if FileType::from_raw_mode(about.st_mode) == FileType::RegularFile => {
            rustix::fs::unlinkat(&dir, name, AtFlags::empty())?;
        }
        other => {
            other?;
            return open_special(path);
        }
    }
    create_new_at(&dir, name, 0o666)
}

/// Opens an existing device or pipe for writing. Waits for the reader of a pipe.
///
/// # Errors
/// Errors of the system, also if the path is a symbolic link; `PermissionDenied` for a pipe of another user.
pub fn open_special(path: &Path) -> io::Result<File> {
    let (dir, name) = open_parent(path)?;
    let about = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(about.st_mode);
    // Only root can create devices.
    if kind == FileType::Fifo {
        check_owner(&about, name)?;
    }
    let is_open_file = kind == FileType::Symlink && is_proc(&dir)?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | if is_open_file { OFlags::empty() } else { OFlags::NOFOLLOW };
    Ok(rustix::fs::openat(&dir, name, flags, Mode::empty())?.into())
}

/// Refuses a file of another user than root.
fn check_owner(about: &Stat, name: &OsStr) -> io::Result<()> {
    if is_trusted(about) {
        return Ok(());
    }
    Err(io::Error::new(ErrorKind::PermissionDenied, format!("{} belongs to another user", name.display())))
}

/// Whether root or this user owns it.
fn is_trusted(about: &Stat) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&about.st_uid)
}

/// Creates a directory and its missing ancestors. An existing directory is not an error.
///
/// # Errors
/// Errors of the system; `PermissionDenied` if a part of the path is a symbolic link of another user.
pub fn create_dirs(path: &Path) -> io::Result<()> {
    match open_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && path.file_name().is_some() => {}
        opened => return opened.map(|_| ()),
    }
    create_dirs(dir_of(path))?;
    let (parent, name) = open_parent(path)?;
    match rustix::fs::mkdirat(&parent, name, Mode::from_bits_retain(0o777)) {
        Ok(()) => Ok(()),
        // Another process has created it since.
        Err(Errno::EXIST) => open_dir(path).map(|_| ()),
        Err(errno) => Err(errno.into()),
    }
}

/// Checks that no other user can replace a file of this user in a directory.
///
/// # Errors
/// Errors of the system; `PermissionDenied` if a part of the path is a symbolic link of another user, or if another
/// user owns the directory, or can write to it and it is not sticky.
pub fn check_dir(path: &Path) -> io::Result<()> {
    let about = rustix::fs::fstat(open_dir(path)?)?;
    check_owner(&about, path.as_os_str())?;
    if about.st_mode & 0o022 != 0 && about.st_mode & 0o1000 == 0 {
        let why = format!("other users can write to {}", path.display());
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    Ok(())
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
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};

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
        for path in ["absolute/sub", "absolute/new", "relative/new"] {
            assert_eq!(create_dirs(&at(path)).unwrap_err().kind(), ErrorKind::PermissionDenied, "{path}");
        }
        assert!(!at("real/new").exists());
    }

    #[test]
    fn directories_are_created_once() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        for path in ["a/b/c", "a/b/c", "a/./b/d/"] {
            create_dirs(&at(path)).unwrap();
            assert!(at(path).is_dir(), "{path}");
        }
        symlink("a", at("link")).unwrap();
        create_dirs(&at("link/e/f")).unwrap();
        assert!(at("a/e/f").is_dir(), "links of this user are followed");
        fs::write(at("file"), "").unwrap();
        assert_eq!(create_dirs(&at("file/g")).unwrap_err().kind(), ErrorKind::NotADirectory);
    }

    #[test]
    fn directories_that_others_can_change_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("d");
        fs::create_dir(&path).unwrap();
        let check = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            check_dir(&path).map_err(|error| error.to_string())
        };
        let shared = Err(format!("other users can write to {}", path.display()));
        let cases = [(0o755, Ok(())), (0o777, shared.clone()), (0o775, shared), (0o1777, Ok(()))];
        for (mode, expected) in cases {
            assert_eq!(check(mode), expected, "mode {mode:o}");
        }
        if lchown(&path, Some(65_534), None).is_err() {
            return println!("skipped: directories_that_others_can_change_are_refused: requires root");
        }
        assert_eq!(check(0o700), Err(format!("{} belongs to another user", path.display())));
    }

    #[test]
    fn existing_files_are_not_reused() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        fs::write(at("victim"), "text").unwrap();
        fs::hard_link(at("victim"), at("file")).unwrap();
        let mut file = create(&at("file")).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!((fs::read(at("victim")).unwrap(), fs::read(at("file")).unwrap()), (b"text".into(), b"new".into()));
        assert!(create(Path::new("/dev/null")).is_ok());
        rustix::fs::mkfifoat(CWD, at("pipe"), Mode::from_bits_retain(0o622)).unwrap();
        // Open for reading, so that opening it for writing does not wait.
        let _reader = rustix::fs::open(at("pipe"), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
        assert!(create(&at("pipe")).is_ok());
        let (mut reader, writer) = std::io::pipe().unwrap();
        let path = PathBuf::from(format!("/dev/fd/{}", writer.as_raw_fd()));
        create(&followed(&path).unwrap()).unwrap().write_all(b"text").unwrap();
        drop(writer);
        assert_eq!(io::read_to_string(&mut reader).unwrap(), "text");
        if lchown(at("pipe"), Some(65_534), None).is_err() {
            return println!("skipped: existing_files_are_not_reused: requires root");
        }
        assert_eq!(create(&at("pipe")).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}
