//! Writes a file atomically: to a temporary name in the same directory that readers skip, then flushed and renamed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::ExportFault;
use crate::export::ExportError;

/// Creates or replaces a file with what `fill` writes, and creates missing directories. After an error the old file is
/// unchanged and no temporary file is left. Of two programs that write the same file, one waits for the other; the
/// temporary file of a killed program is overwritten by the next.
pub(super) fn write<T>(path: &Path, fill: impl FnOnce(&File) -> Result<T, ExportFault>) -> Result<T, ExportError> {
    let dir = path.parent().expect("a file of a partition is in a directory");
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |error| ExportError::Directory { path, error }
    };
    fs::create_dir_all(dir).map_err(failed(dir))?;
    let partial = partial_of(path);
    let file = lock_empty(&partial).map_err(failed(path))?;
    let written = fill(&file).and_then(|done| publish(&file, &partial, path).map(|()| done).map_err(ExportFault::File));
    written.map_err(|fault| {
        let _ = fs::remove_file(&partial); // frees its space; the first error is reported
        match fault {
            ExportFault::Export(error) => error,
            ExportFault::File(error) => failed(path)(error),
        }
    })
}

/// A hidden name that does not end in `.parquet`, so that neither patterns nor readers match it.
fn partial_of(path: &Path) -> PathBuf {
    let name = path.file_name().expect("a file has a name").to_string_lossy();
    path.with_file_name(format!(".{name}.nearfar-partial"))
}

/// Opens the empty temporary file and locks it against other programs until it is closed.
fn lock_empty(partial: &Path) -> io::Result<File> {
    loop {
        let file = File::options().create(true).truncate(false).write(true).open(partial)?;
        match file.lock() {
            // Some file systems have no locks; there, concurrent writers cannot be excluded.
            Err(error) if error.kind() != io::ErrorKind::Unsupported => return Err(error),
            _ => {}
        }
        // The previous holder may have renamed it: then the locked file is the finished one, which must not be changed.
        let (locked, named) = (file.metadata()?, fs::metadata(partial));
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino())) {
            file.set_len(0)?;
            return Ok(file);
        }
    }
}

fn publish(file: &File, partial: &Path, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    fs::rename(partial, path)?;
    // Flushes the new name too; file systems that cannot flush a directory do not need it.
    let dir = path.parent().map(File::open);
    if let Some(Ok(dir)) = dir {
        let _ = dir.sync_all();
    }
    Ok(())
}
