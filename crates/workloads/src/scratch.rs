//! A temporary directory for one trial and the program that it runs, removed when the trial ends.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::job::Failure;

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Creates a new directory inside this one.
    pub(crate) fn new(parent: &Path) -> Result<Self, Failure> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("nearfar-{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(|error| io_failure("create", &path, &error))?;
        Ok(Self(path))
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.0
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn file(&self, name: &str, content: &[u8]) -> Result<PathBuf, Failure> {
        let path = self.path(name);
        fs::write(&path, content).map_err(|error| io_failure("write", &path, &error))?;
        Ok(path)
    }

    /// Writes an executable program or script into the directory.
    pub(crate) fn program(&self, name: &str, content: &[u8]) -> Result<PathBuf, Failure> {
        let path = self.file(name, content)?;
        let all_may_run = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, all_may_run).map_err(|error| io_failure("set the mode of", &path, &error))?;
        Ok(path)
    }

    /// Returns the sorted names of all entries.
    pub(crate) fn names(&self) -> Result<Vec<String>, Failure> {
        let entries = fs::read_dir(&self.0).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(|error| io_failure("read", &self.0, &error))?;
        let mut names: Vec<String> =
            entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A completed trial is kept even if its directory cannot be removed. The directory's name identifies its owner.
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn io_failure(verb: &str, path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot {verb} {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound | io::ErrorKind::ReadOnlyFilesystem => {
            Failure::Unavailable(format!(
                "{message}; hint: set TMPDIR to a directory that is writable and allows programs to run"
            ))
        }
        _ => Failure::Failed(message),
    }
}
