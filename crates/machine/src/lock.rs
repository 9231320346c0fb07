//! The exclusive right to measure on this machine: a locked file. The kernel releases the lock when its holder ends,
//! also after SIGKILL. Must not know what is measured.
//!
//! Root has a lock that no other user can open, so that a user without rights cannot stop a run or `restore` of root. All
//! other users share a second lock. Root takes that too if it is free, so that they wait for root's run.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use files::PrivateDir;

/// Bytes of the holder's command line that are shown.
const SHOWN_MAX: usize = 200;

/// Time within which a child of a dead holder releases the lock.
const DEAD_HOLDER_MAX: Duration = Duration::from_secs(1);

/// Directory of root's lock. Only root can create it.
const ROOT_DIR: &str = "/run/nearfar";

/// Directories for the lock that all users may take; the first that exists is used.
const SHARED_DIRS: [&str; 2] = ["/run/lock", "/tmp"];

/// The lock, released when dropped.
#[derive(Debug)]
pub struct MachineLock {
    file: File,
    /// The users' lock, if this is root's lock and the other one was free.
    shared: Option<File>,
    concurrent: Option<String>,
}

/// The reason why the lock was not acquired.
#[derive(Debug)]
pub enum LockError {
    /// Another process holds it: `process 4711 (nearfar run quick)`.
    Held(String),
    /// The file cannot be opened or locked.
    Io(PathBuf, io::Error),
}

/// The files of the locks.
struct LockPaths {
    /// Directory of root's lock.
    root: PathBuf,
    /// The lock of all users.
    shared: PathBuf,
    /// Directory of the lock of one user, if the shared one cannot be opened.
    own: PathBuf,
}

impl LockPaths {
    fn of_machine() -> Self {
        let shared = SHARED_DIRS.iter().map(Path::new).find(|dir| dir.is_dir()).unwrap_or(Path::new("/tmp"));
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let own = match runtime {
            Some(dir) => dir.join("nearfar"),
            None => PathBuf::from(format!("/tmp/nearfar-lock-{}", rustix::process::geteuid().as_raw())),
        };
        Self { root: ROOT_DIR.into(), shared: shared.join("nearfar.lock"), own }
    }
}

impl MachineLock {
    /// Acquires the lock of this machine, or of a state directory if given. Does not wait.
    pub fn acquire(state: Option<&Path>) -> Result<Self, LockError> {
        match state {
            Some(dir) => Self::in_state(dir),
            None if rustix::process::geteuid().is_root() => Self::of_root(&LockPaths::of_machine()),
            None => Self::of_user(&LockPaths::of_machine()),
        }
    }

    /// A process of another user that is measuring now, although root has acquired the lock.
    pub fn concurrent(&self) -> Option<&str> {
        self.concurrent.as_deref()
    }

    fn in_state(dir: &Path) -> Result<Self, LockError> {
        let path = dir.join("lock");
        let file = files::create_dirs(dir).and_then(|()| files::check_dir(dir)).and_then(|()| open(&path, 0o600));
        Self::locked(file, &path)
    }

    fn of_root(paths: &LockPaths) -> Result<Self, LockError> {
        // A minimal system may lack /run, which only root can create.
        if let Some(parent) = paths.root.parent() {
            std::fs::create_dir_all(parent).map_err(|error| LockError::Io(parent.into(), error))?;
        }
        let mut lock = Self::in_private(&paths.root)?;
        // Whatever other users have done to their lock, root does not depend on it.
        match Self::locked(open(&paths.shared, 0o666), &paths.shared) {
            Ok(shared) => lock.shared = Some(shared.file),
            Err(LockError::Held(owner)) => lock.concurrent = Some(owner),
            Err(LockError::Io(..)) => {}
        }
        Ok(lock)
    }

    fn of_user(paths: &LockPaths) -> Result<Self, LockError> {
        match Self::locked(open(&paths.shared, 0o666), &paths.shared) {
            // Another user has put something else there.
            Err(LockError::Io(..)) => Self::in_private(&paths.own),
            other => other,
        }
    }

    fn in_private(dir: &Path) -> Result<Self, LockError> {
        let file = PrivateDir::open_or_create(dir).and_then(|dir| dir.open_file("lock", 0));
        Self::locked(file, dir)
    }

    fn locked(file: io::Result<File>, path: &Path) -> Result<Self, LockError> {
        let of_path = |error| LockError::Io(path.into(), error);
        let file = file.map_err(of_path)?;
        lock(&file).map_err(|error| match error {
            FileLockError::Held(owner) => LockError::Held(owner),
            FileLockError::Io(error) => of_path(error),
        })?;
        Ok(Self { file, shared: None, concurrent: None })
    }
}

/// Opens the file, or creates it with this mode. `O_CREAT` is not used on an existing file: in a directory for all
/// users, the kernel may refuse that on another user's file (`fs.protected_regular`).
fn open(path: &Path, mode: u32) -> io::Result<File> {
    let options = |write: bool| {
        let mut options = OpenOptions::new();
        // Without waiting, because the path may be a pipe of another user.
        options.read(true).write(write).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        options
    };
    // Bounded: each iteration means that another process has just created or removed it.
    for _ in 0..16 {
        match options(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return options(false).open(path),
            other => return other,
        }
        match options(true).create_new(true).mode(mode).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Ok(file) => {
                // Set explicitly, whatever the umask: the next user has to open it too.
                file.set_permissions(Permissions::from_mode(mode))?;
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
fn lock(file: &File) -> Result<(), FileLockError> {
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

/// The process that has locked the file, according to the kernel.
enum LockHolder {
    Alive(String),
    /// It has ended, or is not visible from here.
    Gone(String),
}

fn holder(file: &File) -> LockHolder {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let Some(pid) = file.metadata().ok().and_then(|about| flock_owner(&locks, about.ino())) else {
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

/// Parses lines such as `1: FLOCK  ADVISORY  WRITE 4711 00:1a:1234 0 EOF`. The device is not compared, because some file
/// systems report another one to `stat`.
fn flock_owner(locks: &str, inode: u64) -> Option<u32> {
    let inode = inode.to_string();
    locks.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "FLOCK", _, "WRITE", pid, file, ..] if file.rsplit(':').next() == Some(&inode) => {
            pid.parse().ok().filter(|pid| *pid != 0)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(dir: &Path) -> LockPaths {
        LockPaths { root: dir.join("root"), shared: dir.join("shared"), own: dir.join("own") }
    }

    fn own_name() -> String {
        format!("process {} (", std::process::id())
    }

    #[test]
    fn second_process_gets_the_name_of_the_holder() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let first = MachineLock::acquire(Some(&state)).unwrap();
        // The content of the file is not trusted.
        std::fs::write(state.join("lock"), "1").unwrap();
        let Err(LockError::Held(holder)) = MachineLock::acquire(Some(&state)) else { panic!("the lock is held") };
        assert!(holder.starts_with(&own_name()), "{holder}");
        drop(first);
        assert!(MachineLock::acquire(Some(&state)).is_ok());
    }

    #[test]
    fn symbolic_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("precious"), "text").unwrap();
        std::os::unix::fs::symlink(dir.path().join("precious"), dir.path().join("lock")).unwrap();
        assert!(matches!(MachineLock::acquire(Some(dir.path())), Err(LockError::Io(..))));
        assert_eq!(std::fs::read_to_string(dir.path().join("precious")).unwrap(), "text");
    }

    #[test]
    fn lock_of_a_user_does_not_stop_root() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        let user = MachineLock::of_user(&paths).unwrap();
        let root = MachineLock::of_root(&paths).unwrap();
        assert!(root.concurrent().is_some_and(|owner| owner.starts_with(&own_name())), "{root:?}");
        assert!(matches!(MachineLock::of_root(&paths), Err(LockError::Held(_))), "root's runs exclude each other");
        drop((user, root));
        let _root = MachineLock::of_root(&paths).unwrap();
        assert!(matches!(MachineLock::of_user(&paths), Err(LockError::Held(_))), "users wait for root");
    }

    #[test]
    fn directory_in_place_of_the_lock_stops_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let paths = paths(dir.path());
        std::fs::create_dir(&paths.shared).unwrap();
        let _root = MachineLock::of_root(&paths).unwrap();
        let _user = MachineLock::of_user(&paths).unwrap();
        assert!(matches!(MachineLock::of_user(&paths), Err(LockError::Held(_))), "a user's runs exclude each other");
    }

    #[test]
    fn owner_of_a_lock_is_parsed() {
        let locks = "1: POSIX  ADVISORY  WRITE 10 fe:00:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 11 00:1a:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 12 00:1a:77 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 13 00:1a:78 0 EOF\nbroken\n";
        assert_eq!(flock_owner(locks, 77), Some(11));
        assert_eq!(flock_owner(locks, 78), None);
    }
}
