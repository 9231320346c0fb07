//! Writes a file atomically: readers see the old or the new file. Must not depend on its content.

use std::fs::File;
use std::path::Path;

use files::NewFile;

use super::ExportFault;
use crate::export::ExportError;

/// Creates or replaces a file with what `fill` writes, and creates missing directories. After an error the old file is
/// unchanged. Of two programs that write the same file, the last one to finish replaces the other's.
pub(super) fn write<T>(path: &Path, fill: impl FnOnce(&File) -> Result<T, ExportFault>) -> Result<T, ExportError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |error| ExportError::Directory { path, error }
    };
    let dir = files::dir_of(path);
    files::create_dirs(dir).map_err(failed(dir))?;
    let new = NewFile::create(path).map_err(failed(path))?;
    let written = fill(new.file()).and_then(|done| new.replace().map(|()| done).map_err(ExportFault::File));
    written.map_err(|fault| match fault {
        ExportFault::Export(error) => error,
        ExportFault::File(error) => failed(path)(error),
    })
}
