//! What is read: a file or a disk of the user's, opened for reading alone, or a file of our own whose every sector says
//! where it is.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::SECTOR;
use crate::job::{Failure, Job};

/// What is written at once while our own file is made.
const CHUNK: usize = 1 << 20;

/// What the threads read.
pub(super) struct Target {
    pub file: File,
    /// How much of it.
    pub bytes: u64,
    /// What our own file's sectors were stamped with; none of the user's files.
    pub stamps: Option<u64>,
}

impl Target {
    /// What the job names, or a file of our own.
    pub(super) fn open(job: &Job, block: usize) -> Result<Self, Failure> {
        let (name, wanted) = (job.parameters.text("file"), job.parameters.size("size") as u64);
        let direct = job.parameters.switch("direct");
        if name.is_empty() {
            return own(job, wanted.max(block as u64), direct);
        }
        let refused = |error: &io::Error| refusal(&format!("cannot read {name}"), error, direct);
        let kind = std::fs::metadata(name).map_err(|error| refused(&error))?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(Failure::Failed(format!("{name} is neither a file nor a disk")));
        }
        let mut file = open(Path::new(name), direct).map_err(|error| refused(&error))?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(|error| refused(&error))?;
        if bytes < block as u64 {
            return Err(Failure::Failed(format!("{name} has {bytes} bytes, less than one read of {block}")));
        }
        Ok(Self { file, bytes: bytes.min(wanted), stamps: None })
    }

    /// Checks that what was read is what was written there.
    pub(super) fn check(&self, offset: u64, words: &[u64]) -> Result<(), Failure> {
        let Some(seed) = self.stamps else { return Ok(()) };
        let wrong = words
            .iter()
            .step_by(SECTOR / 8)
            .enumerate()
            .find(|(sector, word)| **word != stamp(seed, offset + (sector * SECTOR) as u64));
        match wrong {
            Some((sector, _)) => Err(Failure::Failed(format!(
                "a read at {offset} gave other data than were written in its sector {sector}"
            ))),
            None => Ok(()),
        }
    }
}

fn open(path: &Path, direct: bool) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(if direct { libc::O_DIRECT } else { 0 }).open(path)
}

/// Where direct I/O is refused, that is a property of the file system.
fn refusal(what: &str, error: &io::Error, direct: bool) -> Failure {
    match error.kind() {
        ErrorKind::InvalidInput if direct => Failure::Unavailable(format!(
            "{what} past the page cache: {error}; hint: direct=false, or a file on a disk"
        )),
        ErrorKind::StorageFull => {
            Failure::Unavailable(format!("{what}: {error}; hint: a smaller size, or TMPDIR elsewhere"))
        }
        _ => Failure::Failed(format!("{what}: {error}")),
    }
}

/// How many files this process has made: two in one process, as tests have them, are two files.
static FILES: AtomicU32 = AtomicU32::new(0);

/// Its name is gone before it is read, so that nothing is left however we end.
fn own(job: &Job, bytes: u64, direct: bool) -> Result<Target, Failure> {
    let bytes = bytes.next_multiple_of(SECTOR as u64);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("nearfar-io-{}-{number}", std::process::id()));
    let what = format!("cannot make {}", path.display());
    let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let written = made.as_mut().map_err(|error| io::Error::new(error.kind(), error.to_string())).and_then(|file| {
        fill(file, job.seed, bytes)?;
        open(&path, direct)
    });
    if made.is_ok() {
        std::fs::remove_file(&path).map_err(|error| refusal(&what, &error, direct))?;
    }
    let file = written.map_err(|error| refusal(&what, &error, direct))?;
    Ok(Target { file, bytes, stamps: Some(job.seed) })
}

/// Sectors that say where they are, and are no two alike, so that nothing below can leave them out.
fn fill(file: &mut File, seed: u64, bytes: u64) -> io::Result<()> {
    let sectors = |offset: u64| (0..).map(move |index: u64| stamp(seed, offset + index / 64 * 64 * 8) ^ (index % 64));
    let mut written = 0;
    while written < bytes {
        let length = (bytes - written).min(CHUNK as u64);
        let words = sectors(written).take(length as usize / 8);
        let chunk: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        file.write_all(&chunk)?;
        written += length;
    }
    file.sync_all()
}

/// A sector's first word.
fn stamp(seed: u64, offset: u64) -> u64 {
    (offset + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::kernels::job_for_tests;

    #[test]
    fn our_own_file_is_as_large_as_asked_and_checks_itself() {
        let mut target = Target::open(&job_for_tests("io"), 4096).unwrap();
        let mut bytes = Vec::new();
        target.file.seek(SeekFrom::Start(0)).unwrap();
        target.file.read_to_end(&mut bytes).unwrap();
        assert_eq!((bytes.len(), target.bytes), (1 << 20, 1 << 20));
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        target.check(0, &words).unwrap();
        target.check(8192, &words[1024..2048]).unwrap();
        assert!(target.check(4096, &words[1024..2048]).is_err());
    }
}
