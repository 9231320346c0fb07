//! A file for what a program keeps while it works: read and written at any place by all threads at once. By name, so that
//! who was killed finds it again, or without one, so that nothing is left.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::file::{MODE, refused_open, unnamed};
use super::{FarError, FarLocation};

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
        past_cache(direct, open).map(Self)
    }

    /// Makes a file without a name; `direct` as above.
    ///
    /// # Errors
    /// A folder that is not there, cannot be written to or lies in memory.
    pub fn unnamed(place: &FarLocation, direct: bool) -> Result<Self, FarError> {
        place.check()?;
        let what = || format!("make a scratch file in {}", place.folder().display());
        let file = past_cache(direct, |flags| unnamed(place.folder(), flags));
        file.map(Self).map_err(|error| refused_open(what(), &error))
    }

    pub(super) fn into_file(self) -> File {
        self.0
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

/// Opens with `O_DIRECT` where that is wanted and known: file systems in memory and some others know none.
fn past_cache(wanted: bool, open: impl Fn(i32) -> io::Result<File>) -> io::Result<File> {
    match open(if wanted { libc::O_DIRECT } else { 0 }) {
        Err(error) if wanted && error.raw_os_error() == Some(libc::EINVAL) => open(0),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::FarFile;
    use super::super::tests::folder;
    use super::*;

    #[repr(align(4096))]
    struct Page([u8; 4096]);

    #[test]
    fn a_file_without_a_name_becomes_a_far_file() {
        let Some((folder, place)) = folder() else { return };
        for bytes in [0, 5000, 8192] {
            let scratch = ScratchFile::unnamed(&place, false).unwrap();
            let written: Vec<u8> = (0..bytes).map(|at| at as u8 % 251).collect();
            scratch.write(0, &written).unwrap();
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
            let far = match FarFile::of_scratch(scratch, bytes) {
                Ok(far) => far,
                Err(error) => return println!("skipped: {error}"),
            };
            assert_eq!(far.bytes(), bytes.max(1).next_multiple_of(4096));
            let mut page = Page([7; 4096]);
            let last = far.bytes() as u64 - 4096;
            far.file().read_exact_at(&mut page.0, last).unwrap();
            let end = bytes - (last as usize).min(bytes);
            assert!(page.0[..end] == written[bytes - end..] && page.0[end..].iter().all(|byte| *byte == 0));
            let unaligned = far.file().read_exact_at(&mut page.0[..7], 3);
            // What was never written comes from no disk.
            assert!(bytes == 0 || unaligned.is_err(), "it is read past the page cache");
        }
        let direct = ScratchFile::unnamed(&place, true).unwrap();
        direct.write(4096, &Page([9; 4096]).0).unwrap();
        let nowhere = FarLocation::parse("/nowhere").unwrap();
        assert!(ScratchFile::unnamed(&nowhere, true).unwrap_err().to_string().contains("/nowhere"));
    }

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
