//! Finds the processes that hold a lock on a results file, in `/proc/locks`.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The processes that hold a write lock on the database or on its WAL index: `process 4711 (sqlite3)`. Empty if the
/// kernel does not report them, as in another PID namespace.
pub(crate) fn lock_holders(database: &Path) -> Vec<String> {
    let Ok(locks) = std::fs::read_to_string("/proc/locks") else { return Vec::new() };
    let mut holders: Vec<u32> = [database.to_path_buf(), with_suffix(database, "-shm")]
        .iter()
        // `stat` only: opening and closing the file would release our own POSIX locks on it.
        .filter_map(|file| std::fs::metadata(file).ok())
        .flat_map(|file| writers(&locks, file.dev(), file.ino()))
        .collect();
    holders.sort_unstable();
    holders.dedup();
    holders.into_iter().map(describe).collect()
}

/// The path with a suffix, as SQLite names the files next to a database.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Parses lines such as `1: POSIX  ADVISORY  WRITE 4711 fe:00:1234 120 120`; waiting locks have `->` as second word.
fn writers(locks: &str, device: u64, inode: u64) -> Vec<u32> {
    // glibc's major() and minor().
    let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
    let minor = device & 0xff | (device >> 12) & !0xff;
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    let holder = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, _, _, "WRITE", process, locked, ..] if locked == file => {
            process.parse().ok().filter(|process| *process != 0)
        }
        _ => None,
    };
    locks.lines().filter_map(holder).collect()
}

fn describe(process: u32) -> String {
    match std::fs::read_to_string(format!("/proc/{process}/comm")) {
        Ok(name) => format!("process {process} ({})", name.trim_end()),
        Err(_) => format!("process {process}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_of_one_file_are_listed() {
        let locks = "1: POSIX  ADVISORY  READ  10 fe:00:77 124 124\n\
                     2: POSIX  ADVISORY  WRITE 11 fe:00:77 120 120\n\
                     2: -> POSIX  ADVISORY  WRITE 12 fe:00:77 120 120\n\
                     3: POSIX  ADVISORY  WRITE 13 fe:00:78 0 EOF\n\
                     4: OFDLCK ADVISORY  WRITE -1 fe:00:77 0 EOF\n\
                     broken\n";
        assert_eq!(writers(locks, 0xfe00, 77), [11]);
        assert_eq!(writers(locks, 0xfe01, 77), [0_u32; 0]);
        assert_eq!(writers("", 0xfe00, 77), [0_u32; 0]);
    }
}
