//! The exclusive right to measure on this machine: a locked file. The kernel releases the lock when its holder ends,
//! also after SIGKILL. Must not know what is measured.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of the holder's command line that are shown.
const SHOWN_MAX: usize = 200;

/// Time within which a child of a dead holder releases the lock.
const DEAD_HOLDER_MAX: Duration = Duration::from_secs(1);

/// Directories for locks that every user may take; the first that exists is used.
const DIRECTORIES: [&str; 2] = ["/run/lock", "/tmp"];

/// The lock, released when dropped.
#[derive(Debug)]
pub struct MachineLock {
    _file: File,
}

/// The reason why the lock was not acquired.
#[derive(Debug)]
pub enum LockError {
    /// Another process holds it: `process 4711 (nearfar run quick)`.
    Held(String),
    /// The file cannot be opened or locked.
    Io(PathBuf, io::Error),
}

impl MachineLock {
    /// Acquires the lock of this machine, or of a state directory if given. Does not wait.
    pub fn acquire(state: Option<&Path>) -> Result<Self, LockError> {
        let path = path(state);
        let of_path = |error| LockError::Io(path.clone(), error);
        if let Some(directory) = state {
            std::fs::create_dir_all(directory).map_err(of_path)?;
        }
        let mut file = open(&path).map_err(of_path)?;
        lock(&mut file).map_err(|error| match error {
            FileLockError::Held(owner) => LockError::Held(owner),
            FileLockError::Io(error) => of_path(error),
        })?;
        // Writes only the PID: the command line is read from the live process and stored nowhere. If the file belongs
        // to another user and is not writable, only the holder's name is lost.
        let _ = file.set_len(0).and_then(|()| file.write_all(std::process::id().to_string().as_bytes()));
        Ok(Self { _file: file })
    }
}

fn path(state: Option<&Path>) -> PathBuf {
    let shared = || DIRECTORIES.iter().map(Path::new).find(|directory| directory.is_dir()).unwrap_or(Path::new("/tmp"));
    state.map_or_else(|| shared().join("nearfar.lock"), |directory| directory.join("lock"))
}

/// Opens the file, or creates it for all users. `O_CREAT` is not used on an existing file: in a directory for all
/// users, the kernel may refuse that on another user's file (`fs.protected_regular`).
fn open(path: &Path) -> io::Result<File> {
    let options = |write: bool| {
        let mut options = OpenOptions::new();
        options.read(true).write(write).custom_flags(libc::O_NOFOLLOW);
        options
    };
    // Bounded: each iteration means that another process has just created or removed it.
    for _ in 0..16 {
        match options(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return options(false).open(path),
            other => return other,
        }
        match options(true).create_new(true).mode(0o666).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Ok(file) => {
                // Set explicitly, whatever the umask: the next user has to write here too.
                file.set_permissions(Permissions::from_mode(0o666))?;
                return Ok(file);
            }
            other => return other,
        }
    }
    Err(io::Error::from(ErrorKind::ResourceBusy))
}

enum FileLockError {
    Held(String),
    Io(io::Error),
}

/// Locks the file at once, or as soon as a dead holder's child releases it: a process that it had just forked keeps the
/// file open until it executes or notices the death.
fn lock(file: &mut File) -> Result<(), FileLockError> {
    let end = Instant::now() + DEAD_HOLDER_MAX;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(FileLockError::Io(error)),
            Err(TryLockError::WouldBlock) => match holder(file) {
                LockHolder::Alive(name) => return Err(FileLockError::Held(name)),
                LockHolder::Gone(name) if Instant::now() > end => return Err(FileLockError::Held(name)),
                LockHolder::Gone(_) => std::thread::sleep(DEAD_HOLDER_MAX / 200),
            },
        }
    }
}

/// The holder, by the PID in the file.
enum LockHolder {
    Alive(String),
    /// It has ended, has not written its PID yet, or is not visible from here.
    Gone(String),
}

fn holder(file: &mut File) -> LockHolder {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(16).read_to_string(&mut text));
    let Some(pid) = read.ok().and_then(|_| text.trim().parse::<u32>().ok()) else {
        return LockHolder::Gone("another nearfar".into());
    };
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ");
    // Sanitised, because another user's command line is printed to a terminal.
    let line: String = line.chars().map(|c| if c.is_control() { '?' } else { c }).take(SHOWN_MAX).collect();
    // A zombie has no command line.
    if line.is_empty() {
        LockHolder::Gone(format!("process {pid}"))
    } else {
        LockHolder::Alive(format!("process {pid} ({line})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_process_gets_the_name_of_the_holder() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let first = MachineLock::acquire(Some(&state)).unwrap();
        let Err(LockError::Held(holder)) = MachineLock::acquire(Some(&state)) else { panic!("the lock is held") };
        assert!(holder.starts_with(&format!("process {} (", std::process::id())), "{holder}");
        drop(first);
        let third = MachineLock::acquire(Some(&state)).unwrap();
        // The text of an earlier holder was longer, or is truncated.
        std::fs::write(state.join("lock"), "x").unwrap();
        let Err(LockError::Held(holder)) = MachineLock::acquire(Some(&state)) else { panic!("the lock is held") };
        assert_eq!(holder, "another nearfar");
        drop(third);
    }

    #[test]
    fn symbolic_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("precious"), "text").unwrap();
        std::os::unix::fs::symlink(dir.path().join("precious"), dir.path().join("lock")).unwrap();
        assert!(matches!(MachineLock::acquire(Some(dir.path())), Err(LockError::Io(..))));
        assert_eq!(std::fs::read_to_string(dir.path().join("precious")).unwrap(), "text");
    }
}
