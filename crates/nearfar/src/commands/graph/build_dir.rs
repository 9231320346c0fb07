//! The directory of an out-of-core build, next to the graph file: part files, a checkpoint and a lock. The graph file
//! is created only when it is complete.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use farmem::array::ScratchFile;
use files::PrivateDir;
use graph::{PartKind, Storage, StorageError, StorageErrorKind};
use model::values::units::Bytes;

use crate::error::CliError;

/// File name of the checkpoint.
const CHECKPOINT: &str = "note";
/// File name of the memory that the first start of the build reserved.
const RESERVED: &str = "reserved";

/// The directory belongs to this user and only this user can write to it: a resumed build trusts what it finds there.
pub struct BuildDir {
    dir: PrivateDir,
    open: Mutex<[Option<Arc<ScratchFile>>; PartKind::ALL.len()]>,
    _lock: File,
}

/// Returns the build directory of a graph file.
pub fn path_of(graph: &Path) -> PathBuf {
    let mut name = graph.as_os_str().to_os_string();
    name.push(".building");
    name.into()
}

/// Returns the disk space that the build directory uses.
pub fn used(path: &Path) -> Bytes {
    let files = fs::read_dir(path).into_iter().flatten().flatten();
    Bytes(files.filter_map(|file| file.metadata().ok()).map(|about| about.blocks() * 512).sum())
}

/// Returns the memory that the first start of an interrupted build reserved. `None` if there is none.
pub fn reserved(graph: &Path) -> Option<Bytes> {
    let bytes = PrivateDir::open(&path_of(graph)).ok()?.read(RESERVED).ok()??;
    String::from_utf8(bytes).ok()?.parse().ok().map(Bytes)
}

/// Removes the build directory of a finished graph. A graph is finished if the graph part is a hard link to the graph
/// file, or if there is no checkpoint to resume from.
pub fn clean(graph: &Path) {
    // The directory of another user is not touched.
    let Ok(dir) = PrivateDir::open(&path_of(graph)) else { return };
    let has_checkpoint = dir.metadata(CHECKPOINT).is_ok();
    let is_graph = || {
        let (part, graph) = (dir.metadata(PartKind::Graph.name()).ok()?, fs::metadata(graph).ok()?);
        Some((part.dev(), part.ino()) == (graph.dev(), graph.ino()))
    };
    if !has_checkpoint || is_graph() == Some(true) {
        // Best effort: leftover files do no harm.
        let _ = dir.remove_all();
    }
}

impl BuildDir {
    /// Creates or reopens the directory. Fails while another process uses it, and if another user can write to it.
    pub fn open(graph: &Path) -> Result<Self, CliError> {
        let path = path_of(graph);
        let write_error = |error: &io::Error| CliError::usage(format!("cannot write {}: {error}", path.display()));
        let dir = PrivateDir::open_or_create(&path).map_err(|error| write_error(&error))?;
        let lock = dir.open_file("lock", 0).map_err(|error| write_error(&error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir, open: Mutex::default(), _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                Err(CliError::usage(format!("{} is being written by another process", graph.display()))
                    .hint("wait until it has finished, or choose another name"))
            }
            Err(TryLockError::Error(error)) => Err(write_error(&error)),
        }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Stores the memory that this build reserves, for [`reserved`].
    pub fn reserve(&self, bytes: Bytes) -> Result<(), CliError> {
        let stored = self.dir.replace(RESERVED, bytes.0.to_string().as_bytes());
        stored.map_err(|error| CliError::failure(format!("cannot write {}: {error}", self.path().display())))
    }

    /// Removes the directory.
    pub fn remove(&self) -> io::Result<()> {
        self.dir.remove_all()
    }

    /// Links the graph part to the name of the graph file and removes the directory. Fails if the graph file exists.
    pub fn publish(self, graph: &Path) -> io::Result<()> {
        let part = PartKind::Graph.name();
        match self.dir.link(part, graph) {
            // The file system has no hard links.
            Err(error) if error.kind() == ErrorKind::Unsupported || error.kind() == ErrorKind::PermissionDenied => {
                if graph.exists() {
                    return Err(ErrorKind::AlreadyExists.into());
                }
                self.dir.rename(part, graph)?;
            }
            other => other?,
        }
        files::sync_dir_of(graph)?;
        // First, so that no process resumes from a partly removed directory.
        self.dir.remove(CHECKPOINT)?;
        self.dir.sync()?;
        self.dir.remove_all()
    }

    fn part(&self, part: PartKind) -> Result<Arc<ScratchFile>, StorageError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &open[part as usize] {
            return Ok(Arc::clone(file));
        }
        let file = ScratchFile::open(&self.dir, part.name(), part.is_blocked());
        let file = Arc::new(file.map_err(|error| self.storage_error("open", part.name(), &error))?);
        open[part as usize] = Some(Arc::clone(&file));
        Ok(file)
    }

    fn storage_error(&self, verb: &str, name: &str, error: &io::Error) -> StorageError {
        let kind = StorageErrorKind::from(error.kind());
        let path = self.path().join(name);
        let what = match kind {
            StorageErrorKind::Damaged => format!("scratch file {} is truncated", path.display()),
            _ => format!("cannot {verb} {}: {error}", path.display()),
        };
        StorageError { kind, what }
    }
}

impl Storage for BuildDir {
    fn write(&self, part: PartKind, at: u64, bytes: &[u8]) -> Result<(), StorageError> {
        self.part(part)?.write(at, bytes).map_err(|error| self.storage_error("write", part.name(), &error))
    }

    fn read(&self, part: PartKind, at: u64, bytes: &mut [u8]) -> Result<(), StorageError> {
        self.part(part)?.read(at, bytes).map_err(|error| self.storage_error("read", part.name(), &error))
    }

    fn sync(&self, part: PartKind) -> Result<(), StorageError> {
        self.part(part)?.sync().map_err(|error| self.storage_error("write", part.name(), &error))
    }

    fn discard(&self, part: PartKind) -> Result<(), StorageError> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)[part as usize] = None;
        self.dir.remove(part.name()).map_err(|error| self.storage_error("remove", part.name(), &error))
    }

    fn note(&self, note: &[u8]) -> Result<(), StorageError> {
        self.dir.replace(CHECKPOINT, note).map_err(|error| self.storage_error("write", CHECKPOINT, &error))
    }

    fn noted(&self) -> Result<Option<Vec<u8>>, StorageError> {
        self.dir.read(CHECKPOINT).map_err(|error| self.storage_error("read", CHECKPOINT, &error))
    }
}
