//! Small recorded trees for tests: files by path under a temporary root.

use std::path::Path;

use tempfile::TempDir;

/// A temporary folder with these files.
pub(crate) fn tree<P: AsRef<str>, T: AsRef<str>>(files: &[(P, T)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path.as_ref());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.as_ref()).unwrap();
    }
    folder
}

/// Adds a symbolic link; its target is relative to the tree's root.
pub(crate) fn link(folder: &TempDir, path: &str, target: &str) {
    let (path, target) = (folder.path().join(path), folder.path().join(target));
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
    std::fs::create_dir_all(&target).unwrap();
    std::os::unix::fs::symlink(target, path).unwrap();
}
