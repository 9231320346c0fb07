//! What of a graph is not in memory: its parts while it is constructed, and then TAIL with each thread's way to it. All lie in files
//! without a name in one folder, which are gone with this process, however it ends.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farmem::array::{FarError, FarFile, FarLocation, Reader, ScratchFile};
use graph::{
    PartKind, READ_BYTES_MAX, READ_PADDING, SearchFootprint, Storage, StorageError, StorageErrorKind, TailReader,
};
use model::placements::placement::MemoryPolicy;
use model::values::units::Bytes;

use crate::job::{Failure, with_hint};
use crate::kernels::arena::far_failure;

/// Reads of a thread that are under way at once: more a disk does not take from one queue without making each wait.
const READS: usize = 48;

pub(super) fn place(folder: &str) -> Result<FarLocation, Failure> {
    FarLocation::parse(folder).map_err(|error| far_failure(&error))
}

/// Refuses what the searches could not be made in, before hours of construction: a disk without room, or one that is not read past the
/// page cache.
pub(super) fn check(place: &FarLocation, needs: &SearchFootprint) -> Result<(), Failure> {
    let page = ScratchFile::unnamed(place, false).and_then(|file| FarFile::of_scratch(file, 1));
    let reader =
        page.and_then(|page| Reader::new(Arc::new(page), 1, READ_BYTES_MAX, READ_PADDING, &MemoryPolicy::Kernel));
    reader.map_err(|error| far_failure(&error))?;
    // Where the system does not say, only trying can tell.
    let Ok(free) = machine::probes::free_disk_bytes(place.folder()) else { return Ok(()) };
    if needs.disk <= free {
        return Ok(());
    }
    let what = format!(
        "construction takes about {} of the disk of {}, which has {free}",
        needs.disk,
        place.folder().display()
    );
    Err(Failure::Unavailable(with_hint(&what, Some("take a smaller scale, or name a folder on another disk"))))
}

/// Parts of a graph under construction.
pub(super) struct Parts {
    place: FarLocation,
    /// What they may take of the disk.
    needed: Bytes,
    open: Mutex<[Option<Arc<ScratchFile>>; PartKind::ALL.len()]>,
}

impl Parts {
    pub(super) fn new(place: FarLocation, needed: Bytes) -> Self {
        Self { place, needed, open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, [Option<Arc<ScratchFile>>; PartKind::ALL.len()]> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn part(&self, part: PartKind) -> Result<Arc<ScratchFile>, StorageError> {
        let mut open = self.open();
        if let Some(file) = &open[part as usize] {
            return Ok(Arc::clone(file));
        }
        let file = ScratchFile::unnamed(&self.place, part.is_blocked());
        let refused =
            |error: FarError| StorageError { kind: StorageErrorKind::Other, what: with_hint(&error, error.hint()) };
        let file = Arc::new(file.map_err(refused)?);
        open[part as usize] = Some(Arc::clone(&file));
        Ok(file)
    }

    fn trouble(&self, verb: &str, part: PartKind, error: &io::Error) -> StorageError {
        let (kind, folder) = (StorageErrorKind::from(error.kind()), self.place.folder().display());
        let what = format!("cannot {verb} scratch file {} in {folder}: {error}", part.name());
        match kind {
            StorageErrorKind::Full => {
                StorageError { kind, what: format!("{what}; construction takes about {} of its disk", self.needed) }
            }
            _ => StorageError { kind, what },
        }
    }

    /// TAIL, which part `Kept::Graph` has by now; all else is given back.
    pub(super) fn into_tail(self, bytes: u64) -> Result<FarTail, Failure> {
        let file = self.part(PartKind::Graph).map_err(|trouble| Failure::Failed(trouble.to_string()))?;
        drop(self);
        let file = Arc::into_inner(file).ok_or_else(|| Failure::Failed("somebody still writes TAIL".into()))?;
        let file = FarFile::of_scratch(file, bytes as usize).map_err(|error| far_failure(&error))?;
        Ok(FarTail(Arc::new(file)))
    }
}

impl Storage for Parts {
    fn write(&self, part: PartKind, at: u64, bytes: &[u8]) -> Result<(), StorageError> {
        self.part(part)?.write(at, bytes).map_err(|error| self.trouble("write", part, &error))
    }

    fn read(&self, part: PartKind, at: u64, bytes: &mut [u8]) -> Result<(), StorageError> {
        self.part(part)?.read(at, bytes).map_err(|error| self.trouble("read", part, &error))
    }

    /// Nobody is to find it after a crash.
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
    /// A way to it for the thread that asks. Its memory is placed like that of the graph.
    pub(super) fn way(&self, policy: &MemoryPolicy) -> Result<Box<dyn TailReader>, Failure> {
        let reader = Reader::new(Arc::clone(&self.0), READS, READ_BYTES_MAX, READ_PADDING, policy);
        Ok(Box::new(TailFile(reader.map_err(|error| far_failure(&error))?)))
    }
}

/// A reader, in the words of the search.
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

    fn hand_over(&mut self) {
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
