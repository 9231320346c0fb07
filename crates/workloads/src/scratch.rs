//! A temporary directory for one trial and the program that it runs, removed when the trial ends.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use files::TempDir;

use crate::job::Failure;

/// Prefix of the names of trial directories.
const TRIAL_DIR: &str = "nearfar-trial-";

/// Removes the directories that killed trials of this user left in the temporary directory (TMPDIR).
pub fn remove_stale_trial_dirs() {
    files::remove_stale(&std::env::temp_dir(), TRIAL_DIR);
}

/// Returns a path in the temporary directory (TMPDIR) that other users cannot guess.
pub(crate) fn random_path(prefix: &str) -> Result<PathBuf, Failure> {
    let random = files::random_name().map_err(|error| Failure::Failed(format!("no random bytes: {error}")))?;
    Ok(std::env::temp_dir().join(format!("{prefix}{random}")))
}

#[derive(Debug)]
pub(crate) struct Scratch(TempDir);

impl Scratch {
    /// Creates a new directory inside this one.
    pub(crate) fn new(parent: &Path) -> Result<Self, Failure> {
        let dir =
            TempDir::new(parent, TRIAL_DIR).map_err(|error| io_failure("create a directory in", parent, &error))?;
        Ok(Self(dir))
    }

    pub(crate) fn dir(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
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
        let entries = fs::read_dir(self.dir()).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(|error| io_failure("read", self.dir(), &error))?;
        let mut names: Vec<String> =
            entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
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
