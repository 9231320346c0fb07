//! The file or disk of a trial: an existing one, or a new file in which every sector identifies its offset. A new file
//! is unlinked as soon as it is created, so that it disappears however the process ends.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::disk::{self, Disk};
use super::options::Options;
use super::{SECTOR, advice, safety, verify};
use crate::job::Failure;
use crate::random::Random;
use crate::scratch::random_path;

/// Bytes per write while a new file is filled.
const CHUNK: usize = 1 << 20;

/// Distinguishes the blocks that a new file was filled with from those that the trial writes.
const FILLED: u64 = 0xF111_ED00_F111_ED00;

pub(super) struct IoTarget {
    /// Kept open while the threads have separate handles. For a disk opened for writing, this excludes other users.
    file: File,
    name: String,
    pub bytes: u64,
    /// Whether this process created the file, so that its content is known.
    pub created: bool,
    direct: bool,
    writes: bool,
    /// Initial length of the file, to detect truncation; `None` for a disk or a new file.
    length: Option<u64>,
}

/// Seed of the blocks that a new file is filled with. With `verify` it differs from the seed of the writes, so that a
/// lost write is detected.
pub(super) fn fill_seed(seed: u64, options: &Options) -> u64 {
    if options.verify { seed ^ FILLED } else { seed }
}

impl IoTarget {
    /// Opens the file or disk that the options name, or creates a file.
    pub(super) fn open(seed: u64, options: &Options) -> Result<Self, Failure> {
        let name = &options.file;
        if name.is_empty() {
            return create_temporary(seed, options);
        }
        if let Err(error) = files::followed(Path::new(name))
            && error.kind() == ErrorKind::PermissionDenied
        {
            return Err(Failure::Failed(format!("cannot use {name}: {error}")));
        }
        match fs::metadata(name) {
            Ok(found) if !found.is_file() && !found.file_type().is_block_device() => {
                Err(Failure::Failed(format!("cannot use {name}: it is neither a file nor a disk")))
            }
            Ok(found) => open_existing(options, found.file_type().is_block_device()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                safety::may_create(name)?;
                create(Path::new(name), seed, options)
            }
            Err(error) => Err(Failure::Failed(format!("cannot use {name}: {error}"))),
        }
    }

    /// Opens a separate file description for a thread, so that threads do not contend for its counters in the kernel.
    pub(super) fn handle(&self) -> Result<File, Failure> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let mut how = OpenOptions::new();
        how.read(true).write(self.writes).custom_flags(if self.direct { libc::O_DIRECT } else { 0 });
        how.open(path).map_err(|error| refusal(&format!("cannot open {}", self.name), &error, self.direct))
    }

    /// Path by which a child process can open it, even if the file is unlinked.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Verifies after a trial that the file was neither removed nor truncated.
    pub(super) fn unchanged(&self) -> Result<(), Failure> {
        let Some(length) = self.length else { return Ok(()) };
        let now = self.file.metadata().map_err(|error| Failure::Failed(format!("{}: {error}", self.name)))?;
        if now.nlink() == 0 {
            return Err(Failure::Failed(format!("{} was removed during the trial", self.name)));
        }
        if now.len() < length {
            let truncated =
                format!("{} was truncated from {length} to {} bytes during the trial", self.name, now.len());
            return Err(Failure::Failed(truncated));
        }
        Ok(())
    }

    /// Current length of a file; `None` for a disk or a new file, which no other process can change.
    pub(super) fn length_now(&self) -> Option<u64> {
        self.length.and_then(|_| self.file.metadata().ok()).map(|now| now.len())
    }

    /// Percentage of the used range that consists of holes or unwritten extents, for which the device is not accessed;
    /// `None` if it cannot be determined.
    pub(super) fn unwritten_percent(&self) -> Option<f64> {
        /// Files with more extents than this are not analysed.
        const PIECES_MAX: usize = 1 << 16;
        self.length.filter(|_| !self.created)?;
        let seek = |from: u64, whence| {
            // SAFETY: takes only numbers; no other code uses the position of this descriptor.
            let at = unsafe { libc::lseek(self.file.as_raw_fd(), from as libc::off_t, whence) };
            u64::try_from(at).map_err(|_| io::Error::last_os_error())
        };
        let (mut at, mut written) = (0, 0);
        for _ in 0..PIECES_MAX {
            let data = match seek(at, libc::SEEK_DATA) {
                Ok(data) if data < self.bytes => data,
                // No data after this offset.
                Ok(_) => return Some(100.0 * (1.0 - written as f64 / self.bytes as f64)),
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                    return Some(100.0 * (1.0 - written as f64 / self.bytes as f64));
                }
                Err(_) => return None,
            };
            at = seek(data, libc::SEEK_HOLE).ok()?.min(self.bytes);
            written += at - data;
        }
        None
    }

    /// The underlying disk; `None` if the file system is not on a disk or the disk is unknown.
    fn disk(&self) -> Option<Disk> {
        let found = self.file.metadata().ok()?;
        let device = if found.file_type().is_block_device() { found.rdev() } else { found.dev() };
        Disk::find(Path::new("/"), &disk::number(device)).ok()
    }

    /// Returns whether the underlying disk is virtual, so that the host may cache its content in memory.
    pub(super) fn is_on_virtual_disk(&self) -> bool {
        self.disk().is_some_and(|disk| disk.is_virtual())
    }

    /// Verifies that the underlying disk supports the options. Unknown properties are left to the kernel.
    pub(super) fn check_disk(&self, options: &Options) -> Result<(), Failure> {
        let Some(disk) = self.disk() else { return Ok(()) };
        if let Some(sector) = disk.queue("logical_block_size").filter(|_| options.direct)
            && !(options.block as u64).is_multiple_of(sector)
        {
            let reason = format!(
                "bs is {} bytes, but direct I/O on the disk of {} requires a multiple of {sector}",
                options.block, self.name
            );
            return Err(Failure::Unavailable(format!("{reason}; hint: bs={sector}B, or direct=false")));
        }
        if options.iopoll && disk.queue("io_poll") == Some(0) {
            return Err(Failure::Unavailable(format!(
                "the disk of {} has no polled queues; hint: for NVMe, set the kernel parameter nvme.poll_queues=1",
                self.name
            )));
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn for_tests(file: File, bytes: u64) -> Self {
        Self { file, name: "it".into(), bytes, created: false, direct: false, writes: false, length: None }
    }
}

fn open_existing(options: &Options, disk: bool) -> Result<IoTarget, Failure> {
    let (name, writes) = (&options.file, options.writes());
    let mut how = OpenOptions::new();
    how.read(true).write(writes);
    if writes {
        safety::may_overwrite(name, &options.may_overwrite)?;
        // On a disk, O_EXCL fails while another user has it open.
        how.custom_flags(if disk { libc::O_EXCL } else { 0 });
    }
    let mut file = how.open(name).map_err(|error| {
        if writes { safety::busy(name, &error) } else { Failure::Failed(format!("cannot read {name}: {error}")) }
    })?;
    if writes {
        safety::check_opened(name, &file)?;
    }
    let cannot = |error: io::Error| Failure::Failed(format!("cannot use {name}: {error}"));
    let length = file.seek(SeekFrom::End(0)).map_err(cannot)?;
    if length < options.block as u64 {
        return Err(Failure::Failed(format!(
            "cannot use {name}: it has {length} bytes, less than one request of {}",
            options.block
        )));
    }
    if !disk && !options.direct {
        advice::drop_pages(&file);
    }
    Ok(IoTarget {
        file,
        name: name.clone(),
        bytes: length.min(options.bytes).max(options.block as u64),
        created: false,
        direct: options.direct,
        writes,
        length: (!disk).then_some(length),
    })
}

fn create_temporary(seed: u64, options: &Options) -> Result<IoTarget, Failure> {
    create(&random_path("nearfar-io-")?, seed, options)
}

fn create(path: &Path, seed: u64, options: &Options) -> Result<IoTarget, Failure> {
    let bytes = options.bytes.max(options.block as u64).next_multiple_of(SECTOR as u64);
    let operation = format!("cannot create {}", path.display());
    let refused = |error: io::Error| refusal(&operation, &error, options.direct);
    let file = files::create_new(path, 0o600).map_err(refused)?;
    // The data stays available until the file is closed.
    fs::remove_file(path).map_err(refused)?;
    let target = IoTarget {
        file,
        name: path.display().to_string(),
        bytes,
        created: true,
        direct: options.direct,
        writes: options.writes(),
        length: None,
    };
    // Checked before filling, which may take minutes.
    target.handle()?;
    target.check_disk(options)?;
    fill(&target.file, bytes, seed, options).map_err(refused)?;
    Ok(target)
}

/// Converts an error. EINVAL with direct I/O is a property of the file system, and another directory may have more
/// space.
fn refusal(operation: &str, error: &io::Error, direct: bool) -> Failure {
    match error.kind() {
        ErrorKind::InvalidInput if direct => Failure::Unavailable(format!(
            "{operation} for direct I/O: {error}; hint: direct=false, or a file on a disk"
        )),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Failure::Unavailable(format!(
            "{operation}: {error}; hint: a smaller size, or TMPDIR on another file system"
        )),
        _ => Failure::Failed(format!("{operation}: {error}")),
    }
}

/// Fills the file with stamped sectors and data of the requested kind, so that no layer below can skip it. All of it is
/// written, because reads of unwritten extents do not access the device.
fn fill(file: &File, bytes: u64, seed: u64, options: &Options) -> io::Result<()> {
    // Detects a lack of space before minutes of writing. Not all file systems support this.
    // SAFETY: takes only numbers.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes as libc::off_t) } != 0 {
        let error = io::Error::last_os_error();
        if error.kind() == ErrorKind::StorageFull {
            return Err(error);
        }
    }
    let (seed, mut random) = (fill_seed(seed, options), Random::of_thread(seed, usize::MAX - 1));
    let per_chunk = (CHUNK / options.block).max(1) * options.block;
    let mut words = vec![0u64; per_chunk / 8];
    let mut written = 0;
    while written < bytes {
        let length = (bytes - written).min(per_chunk as u64);
        let chunk = &mut words[..length as usize / 8];
        options.data.fill(chunk, &mut random);
        prepare(chunk, written, seed, options);
        file.write_all_at(as_bytes(chunk), written)?;
        written += length;
    }
    file.sync_all()?;
    advice::drop_pages(file);
    Ok(())
}

/// Adds stamps, or checksums with `verify`, to blocks.
fn prepare(words: &mut [u64], offset: u64, seed: u64, options: &Options) {
    for (index, block) in words.chunks_mut(options.block / 8).enumerate() {
        let at = offset + (index * options.block) as u64;
        if options.verify && block.len() == options.block / 8 {
            verify::seal(block, seed, at);
        } else if options.stamped() {
            super::data::stamp_all(block, seed, at);
        }
    }
}

fn as_bytes(words: &[u64]) -> &[u8] {
    // SAFETY: every byte of a word is a valid byte, and both slices have the same size.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

#[cfg(test)]
mod tests {
    use super::super::data;
    use super::*;
    use crate::kernels::io::for_tests::options;

    fn words(target: &IoTarget, offset: u64, length: usize) -> Vec<u64> {
        let mut bytes = vec![0; length];
        target.handle().unwrap().read_exact_at(&mut bytes, offset).unwrap();
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
    }

    #[test]
    fn new_file_has_its_size_and_stamped_sectors() {
        let target = IoTarget::open(7, &options(&[("size", "1000000"), ("bs", "64KiB")])).unwrap();
        let length = target.file.metadata().unwrap().len();
        assert_eq!((length, target.bytes), (1_000_448, 1_000_448));
        assert_eq!(target.file.metadata().unwrap().nlink(), 0);
        let words = words(&target, 0, length as usize);
        for (index, sector) in words.chunks(64).enumerate() {
            assert_eq!(data::wrong_sector(sector, 7, index as u64 * 512), None);
        }
    }

    #[test]
    fn new_file_with_verify_has_sealed_blocks() {
        let options = options(&[("verify", "true"), ("bs", "8KiB")]);
        let target = IoTarget::open(7, &options).unwrap();
        for block in 0..target.bytes / 8192 {
            let mut words = words(&target, block * 8192, 8192);
            assert_eq!(verify::verify_block(&mut words, Some(fill_seed(7, &options)), block * 8192), Ok(()));
        }
    }

    #[test]
    fn missing_named_file_is_created_and_unlinked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new");
        let target = IoTarget::open(7, &options(&[("file", path.to_str().unwrap()), ("rw", "write")])).unwrap();
        assert!(target.created && target.bytes == 1 << 20);
        assert_eq!(target.file.metadata().unwrap().mode() & 0o777, 0o600);
        // Its blocks are allocated on the device.
        assert!(target.file.metadata().unwrap().blocks() >= (1 << 20) / 512);
        drop(target);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn existing_file_is_neither_written_nor_removed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [1; 8192]).unwrap();
        let path = file.path().to_str().unwrap();
        for rw in ["write", "randwrite", "rw", "randrw"] {
            let error = IoTarget::open(7, &options(&[("file", path), ("rw", rw)])).err().unwrap().to_string();
            assert!(error.contains(&format!("hint: --allow-overwrite {path}")), "{error}");
        }
        let allowed = options(&[("file", path), ("rw", "write"), ("allow-overwrite", path)]);
        let target = IoTarget::open(7, &allowed).unwrap();
        assert_eq!((target.bytes, target.created), (8192, false));
        drop(target);
        assert_eq!(fs::read(file.path()).unwrap(), [1; 8192]);
    }

    #[test]
    fn unwritten_percent_counts_holes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        file.as_file().write_all_at(&vec![1; 1 << 18], 0).unwrap();
        file.as_file().sync_all().unwrap();
        let read = options(&[("file", file.path().to_str().unwrap())]);
        let percent = IoTarget::open(7, &read).unwrap().unwritten_percent().unwrap();
        if percent == 0.0 {
            return println!("skipped: this file system does not report holes");
        }
        assert!((percent - 75.0).abs() < 1.0, "{percent}");
        assert_eq!(IoTarget::open(7, &options(&[])).unwrap().unwritten_percent(), None);
    }

    #[test]
    fn truncated_and_removed_files_return_errors() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [1; 8192]).unwrap();
        let read = options(&[("file", file.path().to_str().unwrap())]);
        let target = IoTarget::open(7, &read).unwrap();
        assert_eq!(target.unchanged(), Ok(()));
        file.as_file().set_len(4096).unwrap();
        assert!(target.unchanged().unwrap_err().to_string().contains("was truncated from 8192 to 4096 bytes"));
        file.close().unwrap();
        assert!(target.unchanged().unwrap_err().to_string().contains("was removed during"));
    }
}
