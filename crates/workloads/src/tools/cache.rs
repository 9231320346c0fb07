//! Files that are created once and used by many trials, in a private directory of the user inside the temporary
//! directory (TMPDIR). They may be deleted at any time. Must not depend on their contents.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use files::PrivateDir;

use crate::job::Failure;
use crate::scratch::io_failure;

/// Returns the cache directory inside the given one and creates it if it is missing. Every user can write to a
/// temporary directory, so a cache directory that another user owns or can write to is refused.
pub(super) fn cache_dir(parent: &Path) -> Result<PathBuf, Failure> {
    let path = parent.join(format!("nearfar-cache-{}", rustix::process::geteuid().as_raw()));
    match PrivateDir::open_or_create(&path) {
        Ok(_) => Ok(path),
        Err(error) if error.kind() == ErrorKind::PermissionDenied && path.symlink_metadata().is_ok() => {
            let path = path.display();
            Err(Failure::Failed(format!("{path} is not a private directory: {error}; hint: remove it, or set TMPDIR")))
        }
        Err(error) => Err(io_failure("create", &path, &error)),
    }
}

/// Returns the entry with this name and calls `make` to create it if it is missing. It is created under a temporary
/// name first, so that it is either complete or absent.
pub(super) fn get_or_create(
    dir: &Path,
    name: &str,
    make: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<PathBuf, Failure> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let path = dir.join(name);
    if path.exists() {
        return Ok(path);
    }
    remove_stale_entries(dir, name)?;
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let unfinished = dir.join(format!("{name}.{}-{number}.unfinished", std::process::id()));
    let made = make(&unfinished).and_then(|()| flush(dir)).and_then(|()| match fs::rename(&unfinished, &path) {
        // A directory that another process has completed in the meantime.
        Err(_) if path.is_dir() => remove(&unfinished),
        renamed => renamed.map_err(|error| io_failure("rename", &path, &error)),
    });
    if made.is_err() {
        // The first failure is the cause. A leftover has a name that identifies it.
        let _ = remove(&unfinished);
    }
    made.map(|()| path)
}

/// Flushes all files to the disk. A power failure must not leave a final name for an incomplete tree.
fn flush(dir: &Path) -> Result<(), Failure> {
    let open = fs::File::open(dir).map_err(|error| io_failure("open", dir, &error))?;
    rustix::fs::syncfs(&open).map_err(|error| io_failure("write", dir, &error.into()))
}

/// Removes partial entries with this name whose processes no longer exist: a trial that times out is killed.
fn remove_stale_entries(dir: &Path, name: &str) -> Result<(), Failure> {
    let process = |file: &str| {
        let numbers = file.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".unfinished")?;
        numbers.split('-').next()?.parse().ok()
    };
    let left = machine::stale::stale_entries(dir, process);
    left.map_err(|error| io_failure("list", dir, &error))?.iter().try_for_each(|path| remove(path))
}

/// Removes a file or a directory with its contents. A missing path is not an error.
pub(super) fn remove(path: &Path) -> Result<(), Failure> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io_failure("remove", path, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn complete_entry_is_reused_and_partial_entry_is_absent() {
        let parent = tempfile::tempdir().unwrap();
        let dir = cache_dir(parent.path()).unwrap();
        let fail = |path: &Path| {
            fs::write(path, "half").unwrap();
            Err(Failure::Failed("planted".into()))
        };
        assert!(get_or_create(&dir, "file", fail).is_err());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        let whole = |path: &Path| fs::write(path, "whole").map_err(|error| io_failure("write", path, &error));
        let path = get_or_create(&dir, "file", whole).unwrap();
        assert_eq!(get_or_create(&dir, "file", |_| panic!("the entry exists")), Ok(path.clone()));
        assert_eq!(fs::read_to_string(path).unwrap(), "whole");
    }

    #[test]
    fn only_partial_entries_of_dead_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let dir = cache_dir(parent.path()).unwrap();
        // Above the largest PID of any kernel.
        let (dead, live) = (dir.join("tree.4194305-0.unfinished"), dir.join("tree.1-0.unfinished"));
        for path in [&dead, &live] {
            fs::create_dir_all(path.join("half")).unwrap();
        }
        get_or_create(&dir, "tree", |path| fs::create_dir(path).map_err(|error| io_failure("create", path, &error)))
            .unwrap();
        assert_eq!((dead.exists(), live.exists()), (false, true));
    }

    #[test]
    fn directory_writable_by_others_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = cache_dir(parent.path()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(
            cache_dir(parent.path())
                .unwrap_err()
                .to_string()
                .contains("not a private directory: other users can write to it")
        );
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink("/", &path).unwrap();
        assert!(cache_dir(parent.path()).is_err());
        fs::remove_file(&path).unwrap();
        cache_dir(parent.path()).unwrap();
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
            return println!("skipped: directory_writable_by_others_is_refused: requires root");
        }
        assert!(cache_dir(parent.path()).unwrap_err().to_string().contains("it belongs to another user"));
    }
}
