//! A scratch file, read and written at any offset by all threads: with a name, so that a resumed process finds it
//! again, or without one, so that nothing is left.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use files::PrivateDir;

use super::file::{refused_open, unnamed};
use super::{FarError, FarLocation};

#[derive(Debug)]
pub struct ScratchFile(File);

impl ScratchFile {
    /// Opens the file, creating it if it does not exist. `direct` requests direct I/O if the file system supports it;
    /// offsets, sizes and addresses must then be multiples of 4096.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn open(dir: &PrivateDir, name: &str, direct: bool) -> io::Result<Self> {
        past_cache(direct, |flags| dir.open_file(name, flags)).map(Self)
    }

    /// Creates an unnamed file; `direct` as above.
    ///
    /// # Errors
    /// If the directory does not exist, is not writable or is in memory.
    pub fn unnamed(place: &FarLocation, direct: bool) -> Result<Self, FarError> {
        place.check()?;
        let what = || format!("create a scratch file in {}", place.directory().display());
        let file = past_cache(direct, |flags| unnamed(place.directory(), flags));
        file.map(Self).map_err(|error| refused_open(what(), &error))
    }

    pub(super) fn into_file(self) -> File {
        self.0
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// Errors of the system; `StorageFull` if the disk is full.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    /// Reads until `bytes` is full.
    ///
    /// # Errors
    /// Errors of the system; `UnexpectedEof` if the file ends earlier.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, at)
    }

    /// Waits until written data are on the disk.
    ///
    /// # Errors
    /// Errors of any write since the last call, once.
    pub fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Opens with `O_DIRECT` if requested and supported; file systems in memory and some others do not support it.
fn past_cache(direct: bool, open: impl Fn(i32) -> io::Result<File>) -> io::Result<File> {
    match open(if direct { libc::O_DIRECT } else { 0 }) {
        Err(error) if direct && error.raw_os_error() == Some(libc::EINVAL) => open(0),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::FarFile;
    use super::super::tests::scratch_dir;
    use super::*;

    #[repr(align(4096))]
    struct Page([u8; 4096]);

    #[test]
    fn unnamed_scratch_file_becomes_a_far_file() {
        let Some((dir, place)) = scratch_dir() else { return };
        for bytes in [0, 5000, 8192] {
            let scratch = ScratchFile::unnamed(&place, false).unwrap();
            let written: Vec<u8> = (0..bytes).map(|at| at as u8 % 251).collect();
            scratch.write(0, &written).unwrap();
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the file has a name");
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
            // Data that were never written do not come from the disk.
            assert!(bytes == 0 || unaligned.is_err(), "reads use the page cache");
        }
        let direct = ScratchFile::unnamed(&place, true).unwrap();
        direct.write(4096, &Page([9; 4096]).0).unwrap();
        let nowhere = FarLocation::parse("/nowhere").unwrap();
        assert!(ScratchFile::unnamed(&nowhere, true).unwrap_err().to_string().contains("/nowhere"));
    }

    #[test]
    fn written_data_are_read_and_a_short_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let dir = PrivateDir::open_or_create(&dir.path().join("build")).unwrap();
        for direct in [false, true] {
            let file = ScratchFile::open(&dir, "part", direct).unwrap();
            file.write(8192, &Page([7; 4096]).0).unwrap();
            file.sync().unwrap();
            let again = ScratchFile::open(&dir, "part", direct).unwrap();
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
