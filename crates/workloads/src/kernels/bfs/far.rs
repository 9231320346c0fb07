//! The far part of a graph: scratch files during construction, then the file of TAIL and each thread's reader. All
//! files are unnamed and in one directory, so they disappear with this process however it ends.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farmem::array::{FarError, FarFile, FarLocation, Reader, ScratchFile};
use graph::{
    PartKind, READ_BYTES_MAX, READ_PADDING, SearchFootprint, Storage, StorageError, StorageErrorKind, TailReader,
};
use model::values::placement::MemoryPolicy;
use model::values::units::Bytes;

use crate::job::{Failure, with_hint};
use crate::kernels::arena::far_failure;

/// Reads in flight per thread. With more, a disk delays each request of the queue.
const READS: usize = 48;

pub(super) fn location(dir: &str) -> Result<FarLocation, Failure> {
    FarLocation::parse(dir).map_err(|error| far_failure(&error))
}

/// Rejects a disk that is too full or does not support direct I/O, before hours of construction.
pub(super) fn check(location: &FarLocation, needs: &SearchFootprint) -> Result<(), Failure> {
    let page = ScratchFile::unnamed(location, false).and_then(|file| FarFile::of_scratch(file, 1));
    let reader =
        page.and_then(|page| Reader::new(Arc::new(page), 1, READ_BYTES_MAX, READ_PADDING, &MemoryPolicy::Kernel));
    reader.map_err(|error| far_failure(&error))?;
    // If the free space is unknown, the check is skipped.
    let Ok(free) = machine::probes::free_disk_bytes(location.directory()) else { return Ok(()) };
    if needs.disk <= free {
        return Ok(());
    }
    Err(Failure::Unavailable(format!(
        "construction needs about {} on the disk of {}, which has {free} free; hint: choose a smaller scale, or a \
         directory on another disk",
        needs.disk,
        location.directory().display()
    )))
}

/// Scratch files of a graph under construction.
pub(super) struct Parts {
    location: FarLocation,
    /// Estimated disk space of all parts.
    needed: Bytes,
    open: Mutex<[Option<Arc<ScratchFile>>; PartKind::ALL.len()]>,
}

impl Parts {
    pub(super) fn new(location: FarLocation, needed: Bytes) -> Self {
        Self { location, needed, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, [Option<Arc<ScratchFile>>; PartKind::ALL.len()]> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn part(&self, part: PartKind) -> Result<Arc<ScratchFile>, StorageError> {
        let mut open = self.open();
        if let Some(file) = &open[part as usize] {
            return Ok(Arc::clone(file));
        }
        let file = ScratchFile::unnamed(&self.location, part.is_blocked());
        let refused = |error: FarError| StorageError { kind: StorageErrorKind::Other, what: with_hint(&error) };
        let file = Arc::new(file.map_err(refused)?);
        open[part as usize] = Some(Arc::clone(&file));
        Ok(file)
    }

    fn storage_error(&self, verb: &str, part: PartKind, error: &io::Error) -> StorageError {
        let (kind, directory) = (StorageErrorKind::from(error.kind()), self.location.directory().display());
        let message = format!("cannot {verb} scratch file {} in {directory}: {error}", part.name());
        match kind {
            StorageErrorKind::Full => {
                StorageError { kind, what: format!("{message}; construction needs about {} of its disk", self.needed) }
            }
            _ => StorageError { kind, what: message },
        }
    }

    /// Returns TAIL, which the part `PartKind::Graph` contains after construction. Deletes all other parts.
    pub(super) fn into_tail(self, bytes: u64) -> Result<FarTail, Failure> {
        let file = self.part(PartKind::Graph).map_err(|storage_error| Failure::Failed(storage_error.to_string()))?;
        drop(self);
        let file = Arc::into_inner(file).ok_or_else(|| Failure::Failed("TAIL is still being written".into()))?;
        let file = FarFile::of_scratch(file, bytes as usize).map_err(|error| far_failure(&error))?;
        Ok(FarTail(Arc::new(file)))
    }
}

impl Storage for Parts {
    fn write(&self, part: PartKind, at: u64, bytes: &[u8]) -> Result<(), StorageError> {
        self.part(part)?.write(at, bytes).map_err(|error| self.storage_error("write", part, &error))
    }

    fn read(&self, part: PartKind, at: u64, bytes: &mut [u8]) -> Result<(), StorageError> {
        self.part(part)?.read(at, bytes).map_err(|error| self.storage_error("read", part, &error))
    }

    /// The files have no name, so no data needs to survive a crash.
    fn sync(&self, _: PartKind) -> Result<(), StorageError> {
        Ok(())
    }

    fn discard(&self, part: PartKind) -> Result<(), StorageError> {
        self.open()[part as usize] = None;
        Ok(())
    }

    fn note(&self, _: &[u8]) -> Result<(), StorageError> {
        Ok(())
    }

    fn noted(&self) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(None)
    }
}

pub(super) struct FarTail(Arc<FarFile>);

impl FarTail {
    /// Creates a reader for the calling thread. Its memory has the same placement as the graph's.
    pub(super) fn reader(&self, policy: &MemoryPolicy) -> Result<Box<dyn TailReader>, Failure> {
        let reader = Reader::new(Arc::clone(&self.0), READS, READ_BYTES_MAX, READ_PADDING, policy);
        Ok(Box::new(TailFile(reader.map_err(|error| far_failure(&error))?)))
    }
}

/// Implements the search's reader for a far file.
struct TailFile(Reader);

impl TailReader for TailFile {
    fn queue_depth(&self) -> usize {
        self.0.places()
    }

    fn bytes(&self) -> usize {
        self.0.near_bytes()
    }

    fn read(&mut self, number: usize, offset: u64, bytes: usize) {
        self.0.read(number, offset, bytes);
    }

    fn submit(&mut self) {
        self.0.submit();
    }

    fn ended(&mut self) -> usize {
        self.0.ended()
    }

    fn take(&mut self, wait: bool, with: &mut dyn FnMut(usize, &[u8])) -> (usize, Result<(), String>) {
        let (ended, result) = self.0.reap(wait, with);
        (ended, result.map_err(|error| error.to_string()))
    }
}
