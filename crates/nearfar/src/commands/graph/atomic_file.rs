//! A file that is written under a temporary name, flushed, and renamed when complete. Must not depend on its content.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use graph::FileError;
use model::values::units::Bytes;

use super::build_dir::sync_dir;
use super::{BUFFER, dir_of, exists};
use crate::error::{CliError, CliStatus};

/// A new file that is removed unless it is finished. A killed process leaves the partial file, which the next process
/// that creates the same file overwrites.
pub struct AtomicFile {
    path: PathBuf,
    partial: PathBuf,
    /// The partial file, locked until it is closed.
    file: BufWriter<File>,
    finished: bool,
}

impl AtomicFile {
    /// Fails if the file exists, if another process is writing it, or if the disk has too little free space.
    pub fn new(path: &Path, needed: Bytes) -> Result<Self, CliError> {
        let mut partial = path.as_os_str().to_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = open_locked(&partial).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => CliError::usage(format!("{} is being written by another process", path.display()))
                .hint("wait until it has finished, or choose another name"),
            _ => CliError::usage(format!("cannot write {}: {error}", path.display())),
        })?;
        let file = BufWriter::with_capacity(BUFFER, file);
        let target = Self { path: path.into(), partial, file, finished: false };
        if path.exists() {
            return Err(exists(path));
        }
        match machine::probes::free_disk_bytes(dir_of(path)) {
            Ok(free) if needed > free => {
                let message = format!("{}: needs {needed} of disk space, only {free} are free", path.display());
                Err(CliError::with(CliStatus::Skipped, message).hint("use a smaller scale or another disk"))
            }
            _ => Ok(target),
        }
    }

    pub fn file(&mut self) -> &mut impl Write {
        &mut self.file
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| self.failed(&FileError::Io(error.to_string())))
    }

    pub fn failed(&self, error: &FileError) -> CliError {
        CliError::failure(format!("cannot write {}: {error}", self.path.display()))
    }

    pub fn finish(mut self) -> Result<(), CliError> {
        let flushed = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        flushed.map_err(|error| self.failed(&FileError::Io(error.to_string())))?;
        // The lock excludes other processes of Nearfar only; a file from another program must not be replaced.
        if self.path.exists() {
            return Err(exists(&self.path));
        }
        let named = fs::rename(&self.partial, &self.path).and_then(|()| sync_dir(&self.path));
        named.map_err(|error| self.failed(&FileError::Io(error.to_string())))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.finished {
            // Best effort: the next process that creates this file overwrites it.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Opens the partial file, locks it and truncates it.
fn open_locked(partial: &Path) -> io::Result<File> {
    loop {
        let file = File::options().create(true).truncate(false).write(true).open(partial)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(ErrorKind::WouldBlock.into()),
            // File systems without locks cannot exclude other processes.
            Err(TryLockError::Error(error)) if error.kind() != ErrorKind::Unsupported => return Err(error),
            _ => {}
        }
        // The previous owner may have renamed or removed the file in the meantime; the locked file is then another one
        // and must not be truncated.
        let (locked, named) = (file.metadata()?, fs::metadata(partial));
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino())) {
            file.set_len(0)?;
            return Ok(file);
        }
    }
}
