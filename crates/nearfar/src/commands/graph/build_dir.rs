//! The folder beside a graph's file that has what is half made of it: its parts as files, a note of how far they are, and a lock. Only
//! what is whole gets the graph's own name.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use farmem::array::ScratchFile;
use graph::{PartKind, Storage, StorageError, StorageErrorKind};
use model::values::units::Bytes;

use crate::error::CliError;

/// How far construction has come.
const NOTE: &str = "note";

pub struct Folder {
    path: PathBuf,
    open: Mutex<[Option<Arc<ScratchFile>>; PartKind::ALL.len()]>,
    /// Held as long as this value is there.
    _lock: File,
}

/// Where what is half made of a graph's file lies.
pub fn path_of(graph: &Path) -> PathBuf {
    let mut name = graph.as_os_str().to_os_string();
    name.push(".building");
    name.into()
}

/// Bytes on the disk of what is there already.
pub fn used(path: &Path) -> Bytes {
    let files = fs::read_dir(path).into_iter().flatten().flatten();
    Bytes(files.filter_map(|file| file.metadata().ok()).map(|about| about.blocks() * 512).sum())
}

/// Takes away what is left of a graph that was finished: its part is the graph itself then, under a second name, or there is no
/// note any more, from which somebody could go on.
pub fn clean(graph: &Path) {
    let path = path_of(graph);
    let noted = path.join(NOTE).exists();
    let same = |one: &Path, other: &Path| {
        let (one, other) = (fs::metadata(one).ok()?, fs::metadata(other).ok()?);
        Some((one.dev(), one.ino()) == (other.dev(), other.ino()))
    };
    if !noted || same(&path.join(PartKind::Graph.name()), graph) == Some(true) {
        // What cannot be removed is in nobody's way.
        let _ = fs::remove_dir_all(&path);
    }
}

impl Folder {
    /// Makes it, or finds it again; refuses it while another process works there.
    pub fn open(graph: &Path) -> Result<Self, CliError> {
        let path = path_of(graph);
        let refused = |error: &io::Error| CliError::usage(format!("cannot write {}: {error}", path.display()));
        match fs::create_dir(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(refused(&error)),
            _ => {}
        }
        let lock = File::options().create(true).truncate(false).write(true).open(path.join("lock"));
        let lock = lock.map_err(|error| refused(&error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, open: Mutex::default(), _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                Err(CliError::usage(format!("{} is being made by another process", graph.display()))
                    .hint("wait for it, or choose another name"))
            }
            Err(TryLockError::Error(error)) => Err(refused(&error)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the graph its name, unless there is a file of that name, and takes all else away.
    pub fn publish(self, graph: &Path) -> io::Result<()> {
        let part = self.file(PartKind::Graph);
        match fs::hard_link(&part, graph) {
            // A file system without second names.
            Err(error) if error.kind() == ErrorKind::Unsupported || error.kind() == ErrorKind::PermissionDenied => {
                if graph.exists() {
                    return Err(ErrorKind::AlreadyExists.into());
                }
                fs::rename(&part, graph)?;
            }
            other => other?,
        }
        sync_folder(graph)?;
        // First, so that nobody goes on with what is half removed.
        fs::remove_file(self.path.join(NOTE))?;
        sync_folder(&self.path.join(NOTE))?;
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
        let file = Arc::new(file.map_err(|error| self.trouble("open", part.name(), &error))?);
        open[part as usize] = Some(Arc::clone(&file));
        Ok(file)
    }

    fn trouble(&self, verb: &str, name: &str, error: &io::Error) -> StorageError {
        let kind = StorageErrorKind::from(error.kind());
        let path = self.path.join(name);
        let what = match kind {
            StorageErrorKind::Damaged => format!("scratch file {} ends too early: it was cut", path.display()),
            _ => format!("cannot {verb} {}: {error}", path.display()),
        };
        StorageError { kind, what }
    }

    fn write_note(&self, note: &[u8]) -> io::Result<()> {
        let (new, named) = (self.path.join("note.new"), self.path.join(NOTE));
        let mut file = File::create(&new)?;
        file.write_all(note)?;
        file.sync_all()?;
        fs::rename(&new, &named)?;
        sync_folder(&named)
    }
}

/// Waits until the disk has the names in the folder of this file.
pub fn sync_folder(file: &Path) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

impl Storage for Folder {
    fn write(&self, part: PartKind, at: u64, bytes: &[u8]) -> Result<(), StorageError> {
        self.part(part)?.write(at, bytes).map_err(|error| self.trouble("write", part.name(), &error))
    }

    fn read(&self, part: PartKind, at: u64, bytes: &mut [u8]) -> Result<(), StorageError> {
        self.part(part)?.read(at, bytes).map_err(|error| self.trouble("read", part.name(), &error))
    }

    fn sync(&self, part: PartKind) -> Result<(), StorageError> {
        self.part(part)?.sync().map_err(|error| self.trouble("write", part.name(), &error))
    }

    fn discard(&self, part: PartKind) -> Result<(), StorageError> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)[part as usize] = None;
        match fs::remove_file(self.file(part)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.trouble("remove", part.name(), &error)),
            _ => Ok(()),
        }
    }

    fn note(&self, note: &[u8]) -> Result<(), StorageError> {
        self.write_note(note).map_err(|error| self.trouble("write", NOTE, &error))
    }

    fn noted(&self) -> Result<Option<Vec<u8>>, StorageError> {
        match fs::read(self.path.join(NOTE)) {
            Ok(note) => Ok(Some(note)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.trouble("read", NOTE, &error)),
        }
    }
}
