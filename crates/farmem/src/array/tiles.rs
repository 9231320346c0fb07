//! An array of equal blocks in a far file, of which a bounded number is in DRAM. Reads requested tiles ahead, writes
//! modified ones behind, and keeps tiles whose write failed.

use std::collections::HashMap;
use std::sync::Arc;

use machine::memory::{HugePages, PlacedMemory};
use model::values::placement::MemoryPolicy;
use model::values::units::Bytes;

use super::buffers::{Buffer, NearArena};
use super::mover::{Mover, MoverSettings, TransferError, TransferId, TransferStats};
use super::{Access, FarError, FarFile, FarLocation};

/// One tile in use, one being read and one being written.
const SLOTS_MIN: usize = 3;
/// If more than one in this many tiles is dirty, the oldest are written.
const DIRTY_SHARE: usize = 2;

/// Size of an array and its DRAM budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileSettings {
    pub tiles: u64,
    /// Size of a tile, a multiple of 4 KiB; 256 KiB to 1 MiB suit disks.
    pub tile: Bytes,
    /// Maximum DRAM for tiles.
    pub budget: Bytes,
    /// Maximum number of concurrent requests; 8 to 16 suit disks.
    pub depth: u32,
}

/// An array of tiles, initially zero.
pub struct Tiles {
    mover: Mover,
    settings: TileSettings,
    slots: Vec<Slot>,
    /// The slot of each tile in DRAM.
    of_tile: HashMap<u64, usize>,
    clock: u64,
}

struct Slot {
    state: TileState,
    /// Time of the last use, by the array's clock.
    used: u64,
}

enum TileState {
    Empty(Buffer),
    Clean(Buffer, u64),
    Dirty(Buffer, u64),
    Reading(TransferId, u64),
    Writing(TransferId, u64),
    /// Placeholder while a state is being replaced.
    Passing,
}

impl Tiles {
    /// Creates an array in a new file in this directory.
    pub fn new(place: &FarLocation, settings: TileSettings) -> Result<Self, FarError> {
        let tile = settings.tile.0 as usize;
        assert!(tile > 0 && tile.is_multiple_of(4096), "the tile size of {tile} bytes is not a multiple of 4 KiB");
        let slots = (settings.budget.0 as usize / tile).min(usize::try_from(settings.tiles).unwrap_or(usize::MAX));
        let slots = if settings.tiles < SLOTS_MIN as u64 { SLOTS_MIN } else { slots };
        if settings.budget.0 < (SLOTS_MIN * tile) as u64 {
            return Err(FarError::Budget { asked: settings.budget, least: Bytes((SLOTS_MIN * tile) as u64) });
        }
        let too_many = || FarError::NoSpace { dir: place.directory().into(), asked: Bytes(u64::MAX), free: None };
        let bytes =
            usize::try_from(settings.tiles).ok().and_then(|count| count.checked_mul(tile)).ok_or_else(too_many)?;
        let file = Arc::new(FarFile::new(place, bytes, Access::Direct)?);
        let placed = PlacedMemory::new(slots * tile, &MemoryPolicy::Kernel, HugePages::Wanted)?;
        let (near, mut rest) = NearArena::new(placed);
        let mover = MoverSettings { transfer_bytes: tile.next_multiple_of(file.alignment()), depth: settings.depth };
        let mover = Mover::new(file, &near, mover)?;
        let slots = (0..slots).map(|_| {
            let next = rest.split_off(tile);
            Slot { state: TileState::Empty(std::mem::replace(&mut rest, next)), used: 0 }
        });
        Ok(Self { mover, settings, slots: slots.collect(), of_tile: HashMap::new(), clock: 0 })
    }

    pub fn read(&mut self, tile: u64) -> Result<&[u8], FarError> {
        let slot = self.fetch(tile)?;
        match &self.slots[slot].state {
            TileState::Clean(buffer, _) | TileState::Dirty(buffer, _) => Ok(buffer.as_slice()),
            _ => unreachable!("a fetched tile is in its slot"),
        }
    }

    /// Returns a tile for modification. It is written back later: a later call returns errors of that, and
    /// [`Tiles::flush`] the last ones.
    pub fn write(&mut self, tile: u64) -> Result<&mut [u8], FarError> {
        let slot = self.fetch(tile)?;
        self.slots[slot].state = match std::mem::replace(&mut self.slots[slot].state, TileState::Passing) {
            TileState::Clean(buffer, tile) => TileState::Dirty(buffer, tile),
            state => state,
        };
        self.write_behind(slot);
        match &mut self.slots[slot].state {
            TileState::Dirty(buffer, _) => Ok(buffer.as_mut_slice()),
            _ => unreachable!("the tile in use is not written behind"),
        }
    }

    /// Starts reading a tile ahead if a slot is free. Does not wait.
    pub fn prefetch(&mut self, tile: u64) {
        self.check(tile);
        if self.of_tile.contains_key(&tile) {
            return;
        }
        // The tile used last is still in use.
        let recent = self.clock;
        let free = |slot: &Slot| match slot.state {
            TileState::Empty(_) => Some(0),
            TileState::Clean(..) if slot.used < recent => Some(slot.used + 1),
            _ => None,
        };
        let oldest = (0..self.slots.len()).filter_map(|slot| Some((free(&self.slots[slot])?, slot))).min();
        if let Some((_, slot)) = oldest {
            self.start_reading(slot, tile);
        }
    }

    /// Writes all modified tiles and waits until they are on the disk. Tiles whose write failed stay modified, for a
    /// retry.
    pub fn flush(&mut self) -> Result<(), FarError> {
        let mut first = Ok(());
        for slot in 0..self.slots.len() {
            self.start_writing(slot);
        }
        for slot in 0..self.slots.len() {
            first = first.and(self.settle(slot));
        }
        first.and(self.mover.file().sync())
    }

    /// Number of tiles that fit into DRAM.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Transfer counts so far.
    pub fn traffic(&self) -> TransferStats {
        self.mover.traffic()
    }

    #[cfg(test)]
    pub(super) fn mover(&mut self) -> &mut Mover {
        &mut self.mover
    }

    fn check(&self, tile: u64) {
        assert!(tile < self.settings.tiles, "tile {tile} is out of range for {} tiles", self.settings.tiles);
    }

    /// Returns the slot of a tile that is in DRAM and not in transfer.
    fn fetch(&mut self, tile: u64) -> Result<usize, FarError> {
        self.check(tile);
        self.clock += 1;
        let slot = if let Some(slot) = self.of_tile.get(&tile) {
            *slot
        } else {
            let slot = self.free_slot()?;
            self.start_reading(slot, tile);
            slot
        };
        self.slots[slot].used = self.clock;
        self.settle(slot)?;
        Ok(slot)
    }

    /// Returns a slot without a tile: an empty one, or that of the least recently used tile, which is written first if
    /// modified.
    fn free_slot(&mut self) -> Result<usize, FarError> {
        let rank = |slot: &Slot| match slot.state {
            TileState::Empty(_) => (0, 0),
            TileState::Clean(..) => (1, slot.used),
            TileState::Writing(..) => (2, slot.used),
            TileState::Reading(..) => (3, slot.used),
            TileState::Dirty(..) => (4, slot.used),
            TileState::Passing => unreachable!("a placeholder is always replaced"),
        };
        let slot = (0..self.slots.len()).min_by_key(|slot| rank(&self.slots[*slot])).expect("the array has slots");
        self.start_writing(slot);
        self.settle(slot)?;
        self.slots[slot].state = match std::mem::replace(&mut self.slots[slot].state, TileState::Passing) {
            TileState::Clean(buffer, tile) => {
                self.of_tile.remove(&tile);
                TileState::Empty(buffer)
            }
            state => state,
        };
        Ok(slot)
    }

    /// Reads a tile into an empty or clean slot.
    fn start_reading(&mut self, slot: usize, tile: u64) {
        let buffer = match std::mem::replace(&mut self.slots[slot].state, TileState::Passing) {
            TileState::Empty(buffer) => buffer,
            TileState::Clean(buffer, old) => {
                self.of_tile.remove(&old);
                buffer
            }
            _ => unreachable!("only empty and clean slots are read into"),
        };
        let ticket = self.mover.read(buffer, tile * self.settings.tile.0);
        self.slots[slot] = Slot { state: TileState::Reading(ticket, tile), used: self.clock };
        self.of_tile.insert(tile, slot);
    }

    /// Starts writing back a slot if it is modified.
    fn start_writing(&mut self, slot: usize) {
        let state = std::mem::replace(&mut self.slots[slot].state, TileState::Passing);
        self.slots[slot].state = match state {
            TileState::Dirty(buffer, tile) => {
                TileState::Writing(self.mover.write(buffer, tile * self.settings.tile.0), tile)
            }
            other => other,
        };
    }

    /// Waits for the request of a slot.
    fn settle(&mut self, slot: usize) -> Result<(), FarError> {
        let (state, result) = match std::mem::replace(&mut self.slots[slot].state, TileState::Passing) {
            TileState::Reading(ticket, tile) => match self.mover.finish(ticket) {
                Ok(buffer) => (TileState::Clean(buffer, tile), Ok(())),
                Err(TransferError { buffer, error }) => {
                    self.of_tile.remove(&tile);
                    (TileState::Empty(buffer), Err(error))
                }
            },
            TileState::Writing(ticket, tile) => match self.mover.finish(ticket) {
                Ok(buffer) => (TileState::Clean(buffer, tile), Ok(())),
                Err(TransferError { buffer, error }) => (TileState::Dirty(buffer, tile), Err(error)),
            },
            other => (other, Ok(())),
        };
        self.slots[slot].state = state;
        result
    }

    /// Starts writing the oldest modified tiles if there are many, except the one in use.
    fn write_behind(&mut self, in_use: usize) {
        let mut dirty: Vec<(u64, usize)> = (0..self.slots.len())
            .filter(|slot| *slot != in_use && matches!(self.slots[*slot].state, TileState::Dirty(..)))
            .map(|slot| (self.slots[slot].used, slot))
            .collect();
        let keep = (self.slots.len() / DIRTY_SHARE).saturating_sub(1);
        if dirty.len() > keep {
            dirty.sort_unstable();
            for (_, slot) in &dirty[..dirty.len() - keep] {
                self.start_writing(*slot);
            }
        }
    }
}
