//! What fio reads or writes: a file or a disk of the user's, written only when that was allowed by its name, or a file of
//! our own, which has no name any more when fio opens it.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use model::workload::Parameters;

use super::words::{self, Data};
use crate::job::{Failure, Job};
use crate::random::Random;
use crate::scratch::{Scratch, cannot};

/// What is written at once while our own file is made.
const CHUNK: usize = 1 << 20;
/// Of so many bytes at once a share can be compressed away.
const PIECE: usize = 4096;
/// Sectors of direct I/O.
const SECTOR: i64 = 512;

/// What fio works on.
pub(super) struct Target {
    /// The name that fio gets.
    pub name: String,
    /// How much of it: whole requests.
    pub bytes: u64,
    /// Our own file is there while this is.
    own: Option<File>,
}

/// What can be told of it before anything runs.
pub(super) fn check(parameters: &Parameters) -> Result<(), String> {
    let (file, block) = (parameters.text("file"), parameters.integer("bs"));
    if block % SECTOR != 0 {
        return Err(format!("bs is {block} bytes, which are no whole sectors of {SECTOR}"));
    }
    if words::writes(parameters) && !file.is_empty() && parameters.text("allow-overwrite") != file {
        return Err(format!("rw={} would overwrite {file}; hint: --allow-overwrite {file}", parameters.text("rw")));
    }
    Ok(())
}

impl Target {
    /// What the job names, or a file of our own.
    pub(super) fn of(job: &Job, scratch: &Scratch) -> Result<Self, Failure> {
        let (name, wanted) = (job.parameters.text("file"), job.parameters.size("size") as u64);
        let block = job.parameters.size("bs") as u64;
        if name.is_empty() {
            return own(job, wanted.max(block).next_multiple_of(block), scratch);
        }
        // Opened for reading alone: how long it is does not need more.
        let cannot = |error: &io::Error| Failure::Failed(format!("cannot read {name}: {error}"));
        let path = std::path::absolute(name).map_err(|error| cannot(&error))?;
        let kind = std::fs::metadata(&path).map_err(|error| cannot(&error))?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(Failure::Failed(format!("{name} is neither a file nor a disk")));
        }
        let length = File::open(&path).and_then(|mut file| file.seek(SeekFrom::End(0)));
        let length = length.map_err(|error| cannot(&error))?;
        if length < block {
            return Err(Failure::Failed(format!("{name} has {length} bytes, less than one request of {block}")));
        }
        let bytes = length.min(wanted.max(block)) / block * block;
        Ok(Self { name: path.to_string_lossy().into_owned(), bytes, own: None })
    }

    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }
}

/// Its name is gone before it is used, so that nothing is left however we end; fio finds it among our open files.
fn own(job: &Job, bytes: u64, scratch: &Scratch) -> Result<Target, Failure> {
    let path = scratch.path("file");
    let made = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
    let file = made.map_err(|error| cannot("make", &path, &error))?;
    let data = words::data(&job.parameters).map_err(Failure::Failed)?;
    let filled = fill(&file, job.seed, bytes, data);
    std::fs::remove_file(&path).map_err(|error| cannot("remove", &path, &error))?;
    filled.map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull => {
            Failure::Unavailable(format!("cannot fill a file: {error}; hint: a smaller size, or TMPDIR elsewhere"))
        }
        _ => cannot("write", &path, &error),
    })?;
    let name = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    Ok(Target { name, bytes, own: Some(file) })
}

/// Content as that of the writes would be.
fn fill(mut file: &File, seed: u64, bytes: u64, data: Data) -> io::Result<()> {
    let mut random = Random::of_thread(seed, 0);
    let kept = match data {
        Data::Zero => 0,
        Data::Random => PIECE,
        Data::Compress(percent) => PIECE * (100 - percent as usize) / 100,
    };
    let mut chunk = vec![0u8; CHUNK];
    let mut written = 0;
    while written < bytes {
        for piece in chunk.chunks_exact_mut(PIECE) {
            piece[..kept]
                .chunks_mut(8)
                .for_each(|word| word.copy_from_slice(&random.next().to_ne_bytes()[..word.len()]));
        }
        let length = (bytes - written).min(CHUNK as u64);
        file.write_all(&chunk[..length as usize])?;
        written += length;
    }
    file.sync_all()
}
