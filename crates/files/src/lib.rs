//! Files in directories that other users may be able to write to. Must not depend on what the files contain.
//!
//! - A new file has no name until it is complete ([`NewFile`]), so that readers see it whole or not at all, and a killed
//!   process leaves nothing behind.
//! - Nothing is created or resumed through a symbolic link, and nothing that another user can change is trusted
//!   ([`PrivateDir`]). Tests: `symbolic_links_are_not_followed` (`new_file.rs`), `directories_of_others_are_refused`
//!   (`private_dir.rs`).
//! - No path leads through a symbolic link of another user, root excepted. Test:
//!   `own_links_are_followed_and_others_are_refused` (`dir.rs`).
//! - The directory of a killed process is removed by the next one ([`TempDir`]). Test:
//!   `directories_of_ended_processes_are_removed` (`temp_dir.rs`).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_macros))]

mod dir;
mod new_file;
mod private_dir;
mod temp_dir;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{Access, AtFlags, Mode, OFlags};
use rustix::rand::{GetRandomFlags, getrandom};

pub use dir::{check_dir, create, create_dirs, followed, open_dir, open_special};
pub use new_file::NewFile;
pub use private_dir::PrivateDir;
pub use temp_dir::{TempDir, remove_stale};

/// Reads a text file of at most `bytes_max` bytes, a multiple of 1 MiB; `/dev/zero` has no end.
///
/// # Errors
/// If the file cannot be read, is larger, or is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(bytes_max + 1).read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        let message = format!("it is larger than {} MiB, the maximum size of such a file", bytes_max >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

/// Attempts to find an unused random name. More than one collision of 64 random bits is a fault of the system.
const NAMES_MAX: u32 = 8;

/// Returns 16 random hexadecimal digits: a name that other users cannot guess and create first.
///
/// # Errors
/// If the kernel returns no random bytes.
pub fn random_name() -> io::Result<String> {
    let mut bytes = [0; 8];
    // The kernel returns up to 256 bytes at once.
    while getrandom(&mut bytes[..], GetRandomFlags::empty())? < bytes.len() {}
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

/// Creates a file for reading and writing. An existing file or symbolic link is an error.
///
/// # Errors
/// Errors of the system; `AlreadyExists` if the name is in use.
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let (dir, name) = dir::open_parent(path)?;
    create_new_at(&dir, name, mode)
}

/// Creates a file in an open directory.
fn create_new_at(dir: &OwnedFd, name: &OsStr, mode: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::from_bits_retain(mode))?.into())
}

/// Flushes the directory that contains a path, so that a new name survives a power failure.
///
/// # Errors
/// Errors of the system.
pub fn sync_dir_of(path: &Path) -> io::Result<()> {
    File::open(dir_of(path))?.sync_all()
}

/// Whether this user may create files in a directory. `false` also on a read-only file system.
pub fn is_writable(dir: &Path) -> bool {
    rustix::fs::accessat(rustix::fs::CWD, dir, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// Returns the directory that contains a path.
pub fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Calls `make` with random names until one is unused.
fn with_random_name<T>(mut make: impl FnMut(&str) -> io::Result<T>) -> io::Result<T> {
    for _ in 0..NAMES_MAX {
        match make(&random_name()?) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => return other,
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}
