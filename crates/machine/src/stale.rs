//! Finds entries of dead processes, whose names contain their PIDs. Does not remove them.

use std::io;
use std::path::{Path, PathBuf};

/// Returns the entries of a directory whose names contain the PID of a dead process. `pid_of` parses the PID from a
/// name. If another process has reused the PID, the entry is not returned.
///
/// # Errors
/// If the directory cannot be read.
pub fn stale_entries(dir: &Path, pid_of: impl Fn(&str) -> Option<u32>) -> io::Result<Vec<PathBuf>> {
    let is_dead = |name: &str| pid_of(name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
    let entries = std::fs::read_dir(dir)?.filter_map(Result::ok);
    Ok(entries.filter(|entry| entry.file_name().to_str().is_some_and(is_dead)).map(|entry| entry.path()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_of_dead_processes_are_returned() {
        let dir = tempfile::tempdir().unwrap();
        // Greater than the maximum PID of Linux.
        let dead = dir.path().join("copy-4194305");
        for path in [&dead, &dir.path().join("copy-1"), &dir.path().join("4194305"), &dir.path().join("copy-")] {
            std::fs::write(path, "").unwrap();
        }
        let pid_of = |name: &str| name.strip_prefix("copy-")?.parse().ok();
        assert_eq!(stale_entries(dir.path(), pid_of).unwrap(), [dead]);
        assert!(stale_entries(Path::new("/nowhere"), pid_of).is_err());
    }
}
