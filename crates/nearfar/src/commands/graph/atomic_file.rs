//! A buffered file that has no name until it is complete. Must not depend on its content.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use files::NewFile;
use graph::FileError;
use model::values::units::Bytes;

use super::{BUFFER, exists};
use crate::error::{CliError, CliStatus};

/// A new file that is named when it is finished. A killed process leaves nothing.
pub struct AtomicFile {
    path: PathBuf,
    new: NewFile,
    buffer: BufWriter<File>,
}

impl AtomicFile {
    /// Fails if the file exists or if the disk has too little free space.
    pub fn new(path: &Path, needed: Bytes) -> Result<Self, CliError> {
        let write_error = |error: std::io::Error| CliError::usage(format!("cannot write {}: {error}", path.display()));
        if path.exists() {
            return Err(exists(path));
        }
        match machine::probes::free_disk_bytes(files::dir_of(path)) {
            Ok(free) if needed > free => {
                let message = format!("{}: needs {needed} of disk space, only {free} are free", path.display());
                return Err(CliError::with(CliStatus::Skipped, message).hint("use a smaller scale or another disk"));
            }
            _ => {}
        }
        let new = NewFile::create(path).map_err(write_error)?;
        let buffer = BufWriter::with_capacity(BUFFER, new.file().try_clone().map_err(write_error)?);
        Ok(Self { path: path.into(), new, buffer })
    }

    pub fn file(&mut self) -> &mut impl Write {
        &mut self.buffer
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        let written = self.buffer.write_all(bytes);
        written.map_err(|error| self.failed(&FileError::Io(error.to_string())))
    }

    pub fn failed(&self, error: &FileError) -> CliError {
        CliError::failure(format!("cannot write {}: {error}", self.path.display()))
    }

    pub fn finish(mut self) -> Result<(), CliError> {
        let flushed = self.buffer.flush();
        flushed.map_err(|error| self.failed(&FileError::Io(error.to_string())))?;
        let path = self.path;
        self.new.publish().map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => exists(&path),
            _ => CliError::failure(format!("cannot write {}: {error}", path.display())),
        })
    }
}
