//! The directory of an out-of-core build, next to the graph file: part files, a checkpoint and a lock. The graph file
//! is created only when it is complete.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use farmem::array::ScratchFile;
use graph::{PartKind, Storage, StorageError, StorageErrorKind};
use model::values::units::Bytes;

use crate::error::CliError;

/// File name of the checkpoint.
const CHECKPOINT: &str = "note";

pub struct BuildDir {
    path: PathBuf,
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

/// Removes the build directory of a finished graph. A graph is finished if the graph part is a hard link to the graph
/// file, or if there is no checkpoint to resume from.
pub fn clean(graph: &Path) {
    let path = path_of(graph);
    let has_checkpoint = path.join(CHECKPOINT).exists();
    let same = |one: &Path, other: &Path| {
        let (one, other) = (fs::metadata(one).ok()?, fs::metadata(other).ok()?);
        Some((one.dev(), one.ino()) == (other.dev(), other.ino()))
    };
    if !has_checkpoint || same(&path.join(PartKind::Graph.name()), graph) == Some(true) {
        // Best effort: leftover files do no harm.
        let _ = fs::remove_dir_all(&path);
    }
}

impl BuildDir {
    /// Creates or reopens the directory. Fails while another process uses it.
    pub fn open(graph: &Path) -> Result<Self, CliError> {
        let path = path_of(graph);
        let write_error = |error: &io::Error| CliError::usage(format!("cannot write {}: {error}", path.display()));
        match fs::create_dir(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(write_error(&error)),
            _ => {}
        }
        let lock = File::options().create(true).truncate(false).write(true).open(path.join("lock"));
        let lock = lock.map_err(|error| write_error(&error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, open: Mutex::default(), _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                Err(CliError::usage(format!("{} is being written by another process", graph.display()))
                    .hint("wait until it has finished, or choose another name"))
            }
            Err(TryLockError::Error(error)) => Err(write_error(&error)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Links the graph part to the name of the graph file and removes the directory. Fails if the graph file exists.
    pub fn publish(self, graph: &Path) -> io::Result<()> {
        let part = self.file(PartKind::Graph);
        match fs::hard_link(&part, graph) {
            // The file system has no hard links.
            Err(error) if error.kind() == ErrorKind::Unsupported || error.kind() == ErrorKind::PermissionDenied => {
                if graph.exists() {
                    return Err(ErrorKind::AlreadyExists.into());
                }
                fs::rename(&part, graph)?;
            }
            other => other?,
        }
        sync_dir(graph)?;
        // First, so that no process resumes from a partly removed directory.
        fs::remove_file(self.path.join(CHECKPOINT))?;
        sync_dir(&self.path.join(CHECKPOINT))?;
        fs::remove_dir_all(&self.path)
    }

    fn file(&self, part: PartKind) -> PathBuf {
        self.path.join(part.name())
    }

    fn part(&self, part: PartKind) -> Result<Arc<ScratchFile>, StorageError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &open[part as usize] {
            return Ok(Arc::clone(file));
        }
        let file = ScratchFile::open(&self.file(part), part.is_blocked());
        let file = Arc::new(file.map_err(|error| self.storage_error("open", part.name(), &error))?);
        open[part as usize] = Some(Arc::clone(&file));
        Ok(file)
    }

    fn storage_error(&self, verb: &str, name: &str, error: &io::Error) -> StorageError {
        let kind = StorageErrorKind::from(error.kind());
        let path = self.path.join(name);
        let what = match kind {
            StorageErrorKind::Damaged => format!("scratch file {} is truncated", path.display()),
            _ => format!("cannot {verb} {}: {error}", path.display()),
        };
        StorageError { kind, what }
    }

    fn write_checkpoint(&self, checkpoint: &[u8]) -> io::Result<()> {
        let (new, named) = (self.path.join("note.new"), self.path.join(CHECKPOINT));
        let mut file = File::create(&new)?;
        file.write_all(checkpoint)?;
        file.sync_all()?;
        fs::rename(&new, &named)?;
        sync_dir(&named)
    }
}

/// Flushes the directory of a file to the disk.
pub fn sync_dir(file: &Path) -> io::Result<()> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir)?.sync_all()
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
        match fs::remove_file(self.file(part)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.storage_error("remove", part.name(), &error)),
            _ => Ok(()),
        }
    }

    fn note(&self, note: &[u8]) -> Result<(), StorageError> {
        self.write_checkpoint(note).map_err(|error| self.storage_error("write", CHECKPOINT, &error))
    }

    fn noted(&self) -> Result<Option<Vec<u8>>, StorageError> {
        match fs::read(self.path.join(CHECKPOINT)) {
            Ok(note) => Ok(Some(note)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.storage_error("read", CHECKPOINT, &error)),
        }
    }
}
