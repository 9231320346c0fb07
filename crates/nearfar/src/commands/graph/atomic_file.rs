//! A file that gets its name when it is whole: written beside it, flushed, renamed. Knows nothing of what is in it.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use graph::FileError;
use model::values::units::Bytes;

use super::build_dir::sync_folder;
use super::{BUFFER, exists, folder_of};
use crate::error::{CliError, CliStatus};

/// A new file, of which nothing is left unless it is finished. One that was killed leaves a half beside the name, which the
/// next that makes this file overwrites.
pub struct AtomicFile {
    path: PathBuf,
    partial: PathBuf,
    /// Held against other programs until it is closed.
    file: BufWriter<File>,
    finished: bool,
}

impl AtomicFile {
    /// Refuses what is there already, what another process makes, and what the disk has no room for.
    pub fn new(path: &Path, needed: Bytes) -> Result<Self, CliError> {
        let mut partial = path.as_os_str().to_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = take(&partial).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => CliError::usage(format!("{} is being made by another process", path.display()))
                .hint("wait for it, or choose another name"),
            _ => CliError::usage(format!("cannot write {}: {error}", path.display())),
        })?;
        let file = BufWriter::with_capacity(BUFFER, file);
        let target = Self { path: path.into(), partial, file, finished: false };
        if path.exists() {
            return Err(exists(path));
        }
        match machine::probes::free_disk_bytes(folder_of(path)) {
            Ok(free) if needed > free => {
                let what = format!("{}: {needed} do not fit on its disk, which has {free}", path.display());
                Err(CliError::with(CliStatus::Skipped, what).hint("take a smaller scale, or another disk"))
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
        CliError::of(format!("cannot write {}: {error}", self.path.display()))
    }

    pub fn finish(mut self) -> Result<(), CliError> {
        let flushed = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        flushed.map_err(|error| self.failed(&FileError::Io(error.to_string())))?;
        // Of ours nobody else is here; what somebody else has put there meanwhile is theirs.
        if self.path.exists() {
            return Err(exists(&self.path));
        }
        let named = fs::rename(&self.partial, &self.path).and_then(|()| sync_folder(&self.path));
        named.map_err(|error| self.failed(&FileError::Io(error.to_string())))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.finished {
            // It only gives back its room.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// The empty partial file, locked.
fn take(partial: &Path) -> io::Result<File> {
    loop {
        let file = File::options().create(true).truncate(false).write(true).open(partial)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(ErrorKind::WouldBlock.into()),
            // Where a file system has no locks, nobody can be kept away.
            Err(TryLockError::Error(error)) if error.kind() != ErrorKind::Unsupported => return Err(error),
            _ => {}
        }
        // Who had it before may have renamed or removed it meanwhile: then what we hold is another file, which must stay as it is.
        let (ours, named) = (file.metadata()?, fs::metadata(partial));
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino())) {
            file.set_len(0)?;
            return Ok(file);
        }
    }
}
