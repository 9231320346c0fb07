//! TAIL in a file on a disk, without a name and past the page cache, and each thread's way to it.

use std::sync::Arc;

use farmem::array::{Access, FarFile, Mover, MoverSettings, Near, Place, Reader};
use graph::{Fetch, READ_BYTES_MAX, READ_PADDING};
use machine::memory::{HugePages, PlacedMemory};
use model::placement::MemoryPolicy;

use crate::job::Failure;
use crate::kernels::arena::far_failure;

/// Reads of a thread that are under way at once: more a disk does not take from one queue without making each wait.
const READS: usize = 48;
/// What is written at once, in requests of a megabyte.
const WRITE_BYTES: usize = 8 << 20;

/// The file.
pub(super) struct FarTail(Arc<FarFile>);

impl FarTail {
    /// Writes TAIL to a folder on a disk, and waits until the disk has it.
    pub(super) fn write(folder: &str, tail: &[u8]) -> Result<Self, Failure> {
        let place = Place::parse(folder).map_err(|error| far_failure(&error))?;
        let file = FarFile::new(&place, tail.len(), Access::Direct).map_err(|error| far_failure(&error))?;
        let file = Arc::new(file);
        copy(&file, tail)?;
        file.sync().map_err(|error| far_failure(&error))?;
        Ok(Self(file))
    }

    /// A way to it for the thread that asks. Its memory is placed like that of the graph.
    pub(super) fn way(&self, policy: &MemoryPolicy) -> Result<Box<dyn Fetch>, Failure> {
        let reader = Reader::new(Arc::clone(&self.0), READS, READ_BYTES_MAX, READ_PADDING, policy);
        Ok(Box::new(Way(reader.map_err(|error| far_failure(&error))?)))
    }
}

fn copy(file: &Arc<FarFile>, tail: &[u8]) -> Result<(), Failure> {
    let memory = PlacedMemory::new(WRITE_BYTES, &MemoryPolicy::Kernel, HugePages::System)
        .map_err(|error| Failure::Unavailable(error.to_string()))?;
    let (near, mut buffer) = Near::new(memory);
    let settings = MoverSettings { transfer_bytes: 1 << 20, depth: 8 };
    let mut mover = Mover::new(Arc::clone(file), &near, settings).map_err(|error| far_failure(&error))?;
    for (index, part) in tail.chunks(WRITE_BYTES).enumerate() {
        let room = part.len().next_multiple_of(file.alignment()).min(file.bytes() - index * WRITE_BYTES);
        let rest = buffer.split_off(room);
        buffer.as_mut_slice()[..part.len()].copy_from_slice(part);
        buffer.as_mut_slice()[part.len()..].fill(0_u8);
        let ticket = mover.write(buffer, (index * WRITE_BYTES) as u64);
        buffer = mover.finish(ticket).map_err(|failed| far_failure(&failed.error))?;
        buffer.join(rest);
    }
    Ok(())
}

/// A reader, in the words of the search.
struct Way(Reader);

impl Fetch for Way {
    fn places(&self) -> usize {
        self.0.places()
    }

    fn bytes(&self) -> usize {
        self.0.near_bytes()
    }

    fn read(&mut self, number: usize, offset: u64, bytes: usize) {
        self.0.read(number, offset, bytes);
    }

    fn hand_over(&mut self) {
        self.0.hand_over();
    }

    fn take(&mut self, wait: bool, with: &mut dyn FnMut(usize, &[u8])) -> (usize, Result<(), String>) {
        let (ended, result) = self.0.take(wait, with);
        (ended, result.map_err(|error| error.to_string()))
    }
}
