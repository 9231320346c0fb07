//! Creates small recorded trees for tests: files by path under a temporary root.

use std::path::Path;

use tempfile::TempDir;

/// Creates a temporary directory with these files.
pub(crate) fn tree<P: AsRef<str>, T: AsRef<str>>(files: &[(P, T)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path.as_ref());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.as_ref()).unwrap();
    }
    dir
}

/// Adds a symbolic link. `target` is relative to the tree's root.
pub(crate) fn link(dir: &TempDir, path: &str, target: &str) {
    let (path, target) = (dir.path().join(path), dir.path().join(target));
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
    std::fs::create_dir_all(&target).unwrap();
    std::os::unix::fs::symlink(target, path).unwrap();
}
