//! A file for what a program keeps while it works: read and written at any place by all threads at once, by name, so that
//! who was killed finds it again.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Only its owner may read and write it.
const MODE: u32 = 0o600;

/// See the file's head.
#[derive(Debug)]
pub struct ScratchFile(File);

impl ScratchFile {
    /// Opens the file of this name, which is made if it is not there. `direct`: past the page cache, where the file system knows that; reads and
    /// writes begin and end at multiples of 4096 then, in the file and in memory.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn open(path: &Path, direct: bool) -> io::Result<Self> {
        let open = |flags: i32| {
            let mut how = OpenOptions::new();
            how.read(true).write(true).create(true).truncate(false).mode(MODE).custom_flags(flags).open(path)
        };
        // File systems in memory and some others know no `O_DIRECT`.
        let file = match open(if direct { libc::O_DIRECT } else { 0 }) {
            Err(error) if direct && error.raw_os_error() == Some(libc::EINVAL) => open(0),
            other => other,
        };
        file.map(Self)
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// The system's; a full disk is `StorageFull`.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    /// Fills all of it.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` where the file ends before that.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, at)
    }

    /// Waits until the disk has what was written.
    ///
    /// # Errors
    /// Those of any write since the last call, once.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins with a page.
    #[repr(align(4096))]
    struct Page([u8; 4096]);

    #[test]
    fn what_is_written_is_read_and_what_ends_early_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part");
        for direct in [false, true] {
            let file = ScratchFile::open(&path, direct).unwrap();
            file.write(8192, &Page([7; 4096]).0).unwrap();
            file.sync().unwrap();
            let again = ScratchFile::open(&path, direct).unwrap();
            let mut page = Page([1; 4096]);
            again.read(4096, &mut page.0).unwrap();
            assert_eq!(page.0, [0; 4096]);
            again.read(8192, &mut page.0).unwrap();
            assert_eq!(page.0, [7; 4096]);
            let cut = again.read(12_288, &mut page.0).unwrap_err();
            assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
