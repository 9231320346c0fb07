//! What is read and written: a file or a disk that was there before, or a file that we make, whose every sector says
//! where it is. A file of ours loses its name as soon as it is made, so that nothing is left of it however we end.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::disk::{self, Disk};
use super::options::Options;
use super::{SECTOR, advice, safety, verify};
use crate::job::Failure;
use crate::random::Random;

/// What is written at once while our own file is made.
const CHUNK: usize = 1 << 20;

/// What marks blocks that our own file was filled with from those that the trial writes.
const FILLED: u64 = 0xF111_ED00_F111_ED00;

pub(super) struct IoTarget {
    /// Held while the threads have handles of their own: of a disk that is written to it keeps others away.
    file: File,
    name: String,
    pub bytes: u64,
    /// Whether we have made it, so that its content is known.
    pub ours: bool,
    direct: bool,
    writes: bool,
    /// What the file system says of it, to find out whether it stayed so; of a disk there is nothing to find out.
    length: Option<u64>,
}

/// The seed of the blocks that our own file is filled with. With `verify` it is not that of the writes, so that a write
/// that was lost is found.
pub(super) fn fill_seed(seed: u64, options: &Options) -> u64 {
    if options.verify { seed ^ FILLED } else { seed }
}

impl IoTarget {
    /// What the options name, or a file of our own.
    pub(super) fn open(seed: u64, options: &Options) -> Result<Self, Failure> {
        let name = &options.file;
        if name.is_empty() {
            return own(seed, options);
        }
        match fs::metadata(name) {
            Ok(found) if !found.is_file() && !found.file_type().is_block_device() => {
                Err(Failure::Failed(format!("{name} is neither a file nor a disk")))
            }
            Ok(found) => there(options, found.file_type().is_block_device()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                safety::may_create(name)?;
                make(Path::new(name), seed, options)
            }
            Err(error) => Err(Failure::Failed(format!("cannot use {name}: {error}"))),
        }
    }

    /// An open file of a thread's own, so that threads do not meet at its counters in the kernel.
    pub(super) fn handle(&self) -> Result<File, Failure> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let mut how = OpenOptions::new();
        how.read(true).write(self.writes).custom_flags(if self.direct { libc::O_DIRECT } else { 0 });
        how.open(path).map_err(|error| refusal(&format!("cannot open {}", self.name), &error, self.direct))
    }

    /// A name under which a program that this process starts finds it, also when it has no name of its own.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Whether it is still what it was, after a trial: a file may have been removed or cut meanwhile.
    pub(super) fn unchanged(&self) -> Result<(), Failure> {
        let Some(length) = self.length else { return Ok(()) };
        let now = self.file.metadata().map_err(|error| Failure::Failed(format!("{}: {error}", self.name)))?;
        if now.nlink() == 0 {
            return Err(Failure::Failed(format!("{} was removed while it was measured", self.name)));
        }
        if now.len() < length {
            let cut = format!("{} was cut from {length} to {} bytes while it was measured", self.name, now.len());
            return Err(Failure::Failed(cut));
        }
        Ok(())
    }

    /// How many bytes a file has now; none of a disk, and of files of ours, which nobody else has.
    pub(super) fn length_now(&self) -> Option<u64> {
        self.length.and_then(|_| self.file.metadata().ok()).map(|now| now.len())
    }

    /// How many percent of what is used are holes or extents that were never written, which no device is asked for; none
    /// where that cannot be known.
    pub(super) fn unwritten_percent(&self) -> Option<f64> {
        /// A file in more pieces than this is looked at no further.
        const PIECES_MAX: usize = 1 << 16;
        self.length.filter(|_| !self.ours)?;
        let seek = |from: u64, whence| {
            // SAFETY: takes numbers alone; nobody else uses the position of this descriptor.
            let at = unsafe { libc::lseek(self.file.as_raw_fd(), from as libc::off_t, whence) };
            u64::try_from(at).map_err(|_| io::Error::last_os_error())
        };
        let (mut at, mut written) = (0, 0);
        for _ in 0..PIECES_MAX {
            let data = match seek(at, libc::SEEK_DATA) {
                Ok(data) if data < self.bytes => data,
                // No data after this place.
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

    /// The disk below; none of a file system that is not on one, and where nothing is known of it.
    fn disk(&self) -> Option<Disk> {
        let found = self.file.metadata().ok()?;
        let device = if found.file_type().is_block_device() { found.rdev() } else { found.dev() };
        Disk::find(Path::new("/"), &disk::number(device)).ok()
    }

    /// Whether a hypervisor's host may have what is on the disk below in its memory.
    pub(super) fn is_on_virtual_disk(&self) -> bool {
        self.disk().is_some_and(|disk| disk.is_virtual())
    }

    /// Whether the disk below can do what is asked; what is not known is left to the kernel.
    pub(super) fn suits(&self, options: &Options) -> Result<(), Failure> {
        let Some(disk) = self.disk() else { return Ok(()) };
        if let Some(sector) = disk.queue("logical_block_size").filter(|_| options.direct)
            && !(options.block as u64).is_multiple_of(sector)
        {
            let why = format!(
                "bs is {} bytes, and the disk below {} takes whole sectors of {sector} past the page cache",
                options.block, self.name
            );
            return Err(Failure::Unavailable(format!("{why}; hint: bs={sector}B, or direct=false")));
        }
        if options.iopoll && disk.queue("io_poll") == Some(0) {
            return Err(Failure::Unavailable(format!(
                "the disk below {} has no queues that are polled; \
                 hint: NVMe gets them by the kernel parameter nvme.poll_queues=1",
                self.name
            )));
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn for_tests(file: File, bytes: u64) -> Self {
        Self { file, name: "it".into(), bytes, ours: false, direct: false, writes: false, length: None }
    }
}

fn there(options: &Options, disk: bool) -> Result<IoTarget, Failure> {
    let (name, writes) = (&options.file, options.writes());
    let mut how = OpenOptions::new();
    how.read(true).write(writes);
    if writes {
        safety::may_overwrite(name, &options.may_overwrite)?;
        // On a disk O_EXCL is refused while anybody else uses it.
        how.custom_flags(if disk { libc::O_EXCL } else { 0 });
    }
    let mut file = how.open(name).map_err(|error| {
        if writes { safety::busy(name, &error) } else { Failure::Failed(format!("cannot read {name}: {error}")) }
    })?;
    if writes {
        safety::opened(name, &file)?;
    }
    let cannot = |error: io::Error| Failure::Failed(format!("cannot use {name}: {error}"));
    let length = file.seek(SeekFrom::End(0)).map_err(cannot)?;
    if length < options.block as u64 {
        return Err(Failure::Failed(format!("{name} has {length} bytes, less than one request of {}", options.block)));
    }
    if !disk && !options.direct {
        advice::drop_pages(&file);
    }
    Ok(IoTarget {
        file,
        name: name.clone(),
        bytes: length.min(options.bytes).max(options.block as u64),
        ours: false,
        direct: options.direct,
        writes,
        length: (!disk).then_some(length),
    })
}

/// How many files this process has made: two in one process, as tests have them, are two files.
static FILES: AtomicU32 = AtomicU32::new(0);

fn own(seed: u64, options: &Options) -> Result<IoTarget, Failure> {
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    make(&std::env::temp_dir().join(format!("nearfar-io-{}-{number}", std::process::id())), seed, options)
}

fn make(path: &Path, seed: u64, options: &Options) -> Result<IoTarget, Failure> {
    let bytes = options.bytes.max(options.block as u64).next_multiple_of(SECTOR as u64);
    let what = format!("cannot make {}", path.display());
    let refused = |error: io::Error| refusal(&what, &error, options.direct);
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path).map_err(refused)?;
    // The file itself stays until it is closed.
    fs::remove_file(path).map_err(refused)?;
    let target = IoTarget {
        file,
        name: path.display().to_string(),
        bytes,
        ours: true,
        direct: options.direct,
        writes: options.writes(),
        length: None,
    };
    // Before so much is written: whether it can be used as asked.
    target.handle()?;
    target.suits(options)?;
    fill(&target.file, bytes, seed, options).map_err(refused)?;
    Ok(target)
}

/// Where direct I/O is refused, that is a property of the file system; a folder that is full may be another one's.
fn refusal(what: &str, error: &io::Error, direct: bool) -> Failure {
    match error.kind() {
        ErrorKind::InvalidInput if direct => Failure::Unavailable(format!(
            "{what} past the page cache: {error}; hint: direct=false, or a file on a disk"
        )),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Failure::Unavailable(format!("{what}: {error}; hint: a smaller size, or TMPDIR elsewhere"))
        }
        _ => Failure::Failed(format!("{what}: {error}")),
    }
}

/// Sectors that say where they are, and data of the kind that is asked for, so that nothing below can leave them out. All
/// of it is written: no device is asked for what never was.
fn fill(file: &File, bytes: u64, seed: u64, options: &Options) -> io::Result<()> {
    // What does not fit is known before minutes of writing; not every file system can tell.
    // SAFETY: takes numbers alone.
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

/// What blocks carry beside their data.
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
    // SAFETY: every byte of a word is a valid byte, and the slices have one length.
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
    fn our_own_file_is_as_large_as_asked_and_every_sector_says_where_it_is() {
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
    fn with_verify_every_block_proves_itself() {
        let options = options(&[("verify", "true"), ("bs", "8KiB")]);
        let target = IoTarget::open(7, &options).unwrap();
        for block in 0..target.bytes / 8192 {
            let mut words = words(&target, block * 8192, 8192);
            assert_eq!(verify::examine(&mut words, Some(fill_seed(7, &options)), block * 8192), Ok(()));
        }
    }

    #[test]
    fn a_named_file_that_is_missing_is_made_and_gone_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        let target = IoTarget::open(7, &options(&[("file", path.to_str().unwrap()), ("rw", "write")])).unwrap();
        assert!(target.ours && target.bytes == 1 << 20);
        assert_eq!(target.file.metadata().unwrap().mode() & 0o777, 0o600);
        // Its blocks are on the device, not promised to it.
        assert!(target.file.metadata().unwrap().blocks() >= (1 << 20) / 512);
        drop(target);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_was_there_is_neither_written_nor_removed_without_a_word() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [1; 8192]).unwrap();
        let path = file.path().to_str().unwrap();
        for rw in ["write", "randwrite", "rw", "randrw"] {
            let error = IoTarget::open(7, &options(&[("file", path), ("rw", rw)])).err().unwrap().to_string();
            assert!(error.contains(&format!("hint: --allow-overwrite {path}")), "{error}");
        }
        let allowed = options(&[("file", path), ("rw", "write"), ("allow-overwrite", path)]);
        let target = IoTarget::open(7, &allowed).unwrap();
        assert_eq!((target.bytes, target.ours), (8192, false));
        drop(target);
        assert_eq!(fs::read(file.path()).unwrap(), [1; 8192]);
    }

    #[test]
    fn holes_are_counted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        file.as_file().write_all_at(&vec![1; 1 << 18], 0).unwrap();
        file.as_file().sync_all().unwrap();
        let read = options(&[("file", file.path().to_str().unwrap())]);
        let percent = IoTarget::open(7, &read).unwrap().unwritten_percent().unwrap();
        if percent == 0.0 {
            return println!("skipped: this file system does not tell of holes");
        }
        assert!((percent - 75.0).abs() < 1.0, "{percent}");
        assert_eq!(IoTarget::open(7, &options(&[])).unwrap().unwritten_percent(), None);
    }

    #[test]
    fn what_happened_to_a_file_meanwhile_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [1; 8192]).unwrap();
        let read = options(&[("file", file.path().to_str().unwrap())]);
        let target = IoTarget::open(7, &read).unwrap();
        assert_eq!(target.unchanged(), Ok(()));
        file.as_file().set_len(4096).unwrap();
        assert!(target.unchanged().unwrap_err().to_string().contains("was cut from 8192 to 4096 bytes"));
        file.close().unwrap();
        assert!(target.unchanged().unwrap_err().to_string().contains("was removed while"));
    }
}
