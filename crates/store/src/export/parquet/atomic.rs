//! A file that is there whole or not at all: written beside its place under a name that readers skip, flushed, renamed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::ExportFault;
use crate::export::ExportError;

/// Makes or replaces a file by what `fill` writes, with the folders that it needs. After a failure the old one is still
/// there, and nothing beside it. Of two programs that write the same file one waits for the other; what a killed one left
/// is overwritten by the next.
pub(super) fn write<T>(path: &Path, fill: impl FnOnce(&File) -> Result<T, ExportFault>) -> Result<T, ExportError> {
    let folder = path.parent().expect("a file of a partition lies in a folder");
    let refused = |path: &Path| {
        let path = path.to_path_buf();
        move |error| ExportError::Folder { path, error }
    };
    fs::create_dir_all(folder).map_err(refused(folder))?;
    let partial = partial_of(path);
    let file = take(&partial).map_err(refused(path))?;
    let written = fill(&file).and_then(|done| publish(&file, &partial, path).map(|()| done).map_err(ExportFault::File));
    written.map_err(|trouble| {
        let _ = fs::remove_file(&partial); // gives back its room; the first error is what matters
        match trouble {
            ExportFault::Said(error) => error,
            ExportFault::File(error) => refused(path)(error),
        }
    })
}

/// Hidden, and not `*.parquet`: neither a pattern nor a reader that looks for itself takes it.
fn partial_of(path: &Path) -> PathBuf {
    let name = path.file_name().expect("a file has a name").to_string_lossy();
    path.with_file_name(format!(".{name}.nearfar-partial"))
}

/// The empty partial file, held against other programs until it is closed.
fn take(partial: &Path) -> io::Result<File> {
    loop {
        let file = File::options().create(true).truncate(false).write(true).open(partial)?;
        match file.lock() {
            // Where a file system has no locks, nobody can be kept away.
            Err(error) if error.kind() != io::ErrorKind::Unsupported => return Err(error),
            _ => {}
        }
        // Who had it before may have renamed it: then what we hold is the finished file, which must stay as it is.
        let (ours, named) = (file.metadata()?, fs::metadata(partial));
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino())) {
            file.set_len(0)?;
            return Ok(file);
        }
    }
}

fn publish(file: &File, partial: &Path, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    fs::rename(partial, path)?;
    // The new name as well; some file systems cannot flush a folder, and have nothing to flush there.
    let folder = path.parent().map(File::open);
    if let Some(Ok(folder)) = folder {
        let _ = folder.sync_all();
    }
    Ok(())
}
