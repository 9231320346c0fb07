//! What processes that are gone left behind under names that hold their numbers. Must not know what it is, nor removes it.

use std::io;
use std::path::{Path, PathBuf};

/// What in the folder has a name that says the number of a process that is gone. `process` reads the number from a name.
/// A number that another process has by now counts as living: what it names goes another time.
///
/// # Errors
/// A folder that cannot be read.
pub fn stale_entries(folder: &Path, process: impl Fn(&str) -> Option<u32>) -> io::Result<Vec<PathBuf>> {
    let is_dead = |name: &str| process(name).is_some_and(|number| !Path::new(&format!("/proc/{number}")).exists());
    let entries = std::fs::read_dir(folder)?.filter_map(Result::ok);
    Ok(entries.filter(|entry| entry.file_name().to_str().is_some_and(is_dead)).map(|entry| entry.path()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_and_what_has_another_name_stay() {
        let folder = tempfile::tempdir().unwrap();
        // Above what any kernel gives a process.
        let dead = folder.path().join("copy-4194305");
        for path in [&dead, &folder.path().join("copy-1"), &folder.path().join("4194305"), &folder.path().join("copy-")]
        {
            std::fs::write(path, "").unwrap();
        }
        let number = |name: &str| name.strip_prefix("copy-")?.parse().ok();
        assert_eq!(stale_entries(folder.path(), number).unwrap(), [dead]);
        assert!(stale_entries(Path::new("/nowhere"), number).is_err());
    }
}
