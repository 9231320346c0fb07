//! Whose turn it is to measure on this machine: a locked file. The kernel lets the lock go when its holder is gone, also
//! after kill -9. Must not know what is measured.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The words of a command line that are shown of whoever has the turn.
const SHOWN_MAX: usize = 200;

/// What a dead holder's child needs at most to let go.
const DEAD_HOLDER_MAX: Duration = Duration::from_secs(1);

/// Where locks of a machine live that every user may take; the first that is there.
const FOLDERS: [&str; 2] = ["/run/lock", "/tmp"];

/// The turn; dropping it lets the next one have it.
#[derive(Debug)]
pub struct MachineLock {
    _file: File,
}

/// Why the turn is not ours.
#[derive(Debug)]
pub enum LockError {
    /// Somebody else has it: `process 4711 (nearfar run quick)`.
    Held(String),
    /// The file cannot be opened or locked.
    Io(PathBuf, io::Error),
}

impl MachineLock {
    /// Takes the turn of this machine, or of a folder of state where one is given. Does not wait.
    pub fn acquire(state: Option<&Path>) -> Result<Self, LockError> {
        let path = path(state);
        let of_path = |error| LockError::Io(path.clone(), error);
        if let Some(folder) = state {
            std::fs::create_dir_all(folder).map_err(of_path)?;
        }
        let mut file = open(&path).map_err(of_path)?;
        lock(&mut file).map_err(|error| match error {
            FileLockError::Held(owner) => LockError::Held(owner),
            FileLockError::Io(error) => of_path(error),
        })?;
        // Only our id: what was on the command line is shown while we live and kept nowhere. A file of another user
        // that is not ours to write only loses the name.
        let _ = file.set_len(0).and_then(|()| file.write_all(std::process::id().to_string().as_bytes()));
        Ok(Self { _file: file })
    }
}

fn path(state: Option<&Path>) -> PathBuf {
    let shared = || FOLDERS.iter().map(Path::new).find(|folder| folder.is_dir()).unwrap_or(Path::new("/tmp"));
    state.map_or_else(|| shared().join("nearfar.lock"), |folder| folder.join("lock"))
}

/// Opens the file, made for everybody when it is not there. Never with `O_CREAT` on one that is: in a folder for everybody
/// the kernel may refuse that on another user's file (`fs.protected_regular`).
fn open(path: &Path) -> io::Result<File> {
    let options = |write: bool| {
        let mut options = OpenOptions::new();
        options.read(true).write(write).custom_flags(libc::O_NOFOLLOW);
        options
    };
    // Bounded: each round means that somebody has just made or removed it.
    for _ in 0..16 {
        match options(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return options(false).open(path),
            other => return other,
        }
        match options(true).create_new(true).mode(0o666).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Ok(file) => {
                // The mask of new files does not count: the next user has to write here too.
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

/// Locks the file at once, or as soon as a holder that is dead lets it go: a child that it had just forked has the file
/// open until it execs, or notices.
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

/// Who has it, by the number in the file.
enum LockHolder {
    Alive(String),
    /// It has ended, or it has not written its number yet, or cannot be seen from here.
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
    // Words of somebody else's command line go to a terminal.
    let line: String = line.chars().map(|c| if c.is_control() { '?' } else { c }).take(SHOWN_MAX).collect();
    // The dead have no command line, also before they are reaped.
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
    fn the_second_one_is_told_who_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let first = MachineLock::acquire(Some(&state)).unwrap();
        let Err(LockError::Held(who)) = MachineLock::acquire(Some(&state)) else { panic!("it is taken") };
        assert!(who.starts_with(&format!("process {} (", std::process::id())), "{who}");
        drop(first);
        let third = MachineLock::acquire(Some(&state)).unwrap();
        // What an earlier holder wrote was longer, or is cut off.
        std::fs::write(state.join("lock"), "x").unwrap();
        let Err(LockError::Held(who)) = MachineLock::acquire(Some(&state)) else { panic!("it is taken") };
        assert_eq!(who, "another nearfar");
        drop(third);
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("precious"), "text").unwrap();
        std::os::unix::fs::symlink(folder.path().join("precious"), folder.path().join("lock")).unwrap();
        assert!(matches!(MachineLock::acquire(Some(folder.path())), Err(LockError::Io(..))));
        assert_eq!(std::fs::read_to_string(folder.path().join("precious")).unwrap(), "text");
    }
}
