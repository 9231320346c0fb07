//! A temporary directory of one process, removed when it is dropped. Must not depend on the files in it.
//!
//! The directory is locked while its owner lives. After a kill the kernel releases the lock, and the next process
//! removes the directory; unlike a process ID, the lock means the same in every container.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::PrivateDir;

/// Number of hexadecimal digits of a random name.
const RANDOM_DIGITS: usize = 16;

/// A directory with a random name and access for this user only.
#[derive(Debug)]
pub struct TempDir(PrivateDir);

impl TempDir {
    /// Creates a directory whose name begins with the prefix, and removes those that killed processes left there.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn new(parent: &Path, prefix: &str) -> io::Result<Self> {
        remove_stale(parent, prefix);
        loop {
            let dir = match PrivateDir::create_random(parent, prefix) {
                // Another process found it before it was opened.
                Err(error) if error.kind() == io::ErrorKind::NotFound && parent.is_dir() => continue,
                created => created?,
            };
            // On a file system without locks, no other process removes the directory.
            let lock = dir.file().try_lock();
            // Another process found it before it was locked.
            if matches!(lock, Err(fs::TryLockError::WouldBlock)) || !dir.path().exists() {
                continue;
            }
            return Ok(Self(dir));
        }
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // The next process removes the remaining files.
        let _ = fs::remove_dir_all(self.path());
    }
}

/// Removes the temporary directories of this user whose processes have ended, and returns their number. What cannot be
/// removed is left for the next process.
pub fn remove_stale(parent: &Path, prefix: &str) -> usize {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let is_random = |name: &str| name.len() == RANDOM_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let stale = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_str().and_then(|name| name.strip_prefix(prefix)).is_some_and(is_random)
    });
    stale.filter(|entry| remove_if_unlocked(&entry.path())).count()
}

fn remove_if_unlocked(path: &Path) -> bool {
    let Ok(dir) = PrivateDir::open(path) else { return false };
    is_unlocked(dir.file()) && fs::remove_dir_all(path).is_ok()
}

/// Whether no process holds the lock. It is then held here until the file is closed.
fn is_unlocked(dir: &File) -> bool {
    dir.try_lock().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_ended_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let used = TempDir::new(parent.path(), "t-").unwrap();
        fs::create_dir(used.path().join("sub")).unwrap();
        for name in ["t-0123456789abcdef", "t-0123", "other-0123456789abcdef"] {
            fs::create_dir(parent.path().join(name)).unwrap();
        }
        fs::write(parent.path().join("t-0123456789abcdef/file"), "x").unwrap();
        let other = TempDir::new(parent.path(), "t-").unwrap();
        assert!(!parent.path().join("t-0123456789abcdef").exists(), "its process has ended");
        assert!(used.path().exists() && parent.path().join("t-0123").exists());
        assert!(parent.path().join("other-0123456789abcdef").exists());
        let path = used.path().to_path_buf();
        drop(used);
        assert!(!path.exists() && other.path().exists());
        assert_eq!(remove_stale(parent.path(), "t-"), 0, "it is in use");
    }

    #[test]
    fn concurrent_removal_does_not_affect_new_directories() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let dir = TempDir::new(parent.path(), "t-").unwrap();
                        fs::write(dir.path().join("file"), "x").unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
