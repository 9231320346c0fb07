//! An array of equal blocks in a far file, a bounded number of which is in DRAM at a time. Reads what is asked for ahead,
//! writes back behind, and keeps what it could not write.

use std::collections::HashMap;
use std::sync::Arc;

use machine::memory::{HugePages, PlacedMemory};
use model::placements::placement::MemoryPolicy;
use model::values::units::Bytes;

use super::buffers::{Buffer, NearArena};
use super::mover::{Mover, MoverSettings, TransferError, TransferId, TransferStats};
use super::{Access, FarError, FarFile, FarLocation};

/// One tile to work on, one to come and one to go.
const SLOTS_MIN: usize = 3;
/// With more dirty tiles than this share of all, the oldest are written.
const DIRTY_SHARE: usize = 2;

/// How large an array is, and its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileSettings {
    pub tiles: u64,
    /// Bytes of one, a multiple of 4 KiB; 256 KiB to 1 MiB suit disks.
    pub tile: Bytes,
    /// The most DRAM for tiles.
    pub budget: Bytes,
    /// How many requests are under way at once; 8 to 16 suit disks.
    pub depth: u32,
}

/// An array of tiles. All are zero at first.
pub struct Tiles {
    mover: Mover,
    settings: TileSettings,
    slots: Vec<Slot>,
    /// Which slot has a tile.
    of_tile: HashMap<u64, usize>,
    clock: u64,
}

struct Slot {
    state: TileState,
    /// By the clock of the array.
    used: u64,
}

enum TileState {
    Empty(Buffer),
    Clean(Buffer, u64),
    Dirty(Buffer, u64),
    Reading(TransferId, u64),
    Writing(TransferId, u64),
    /// Between two of the others, within one function.
    Passing,
}

impl Tiles {
    /// An array in a file of its own in this folder.
    pub fn new(place: &FarLocation, settings: TileSettings) -> Result<Self, FarError> {
        let tile = settings.tile.0 as usize;
        assert!(tile > 0 && tile.is_multiple_of(4096), "a tile is a multiple of 4 KiB, and {tile} bytes are not");
        let slots = (settings.budget.0 as usize / tile).min(usize::try_from(settings.tiles).unwrap_or(usize::MAX));
        let slots = if settings.tiles < SLOTS_MIN as u64 { SLOTS_MIN } else { slots };
        if settings.budget.0 < (SLOTS_MIN * tile) as u64 {
            return Err(FarError::Budget { asked: settings.budget, least: Bytes((SLOTS_MIN * tile) as u64) });
        }
        let too_many = || FarError::NoRoom { folder: place.folder().into(), asked: Bytes(u64::MAX), free: None };
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

    /// A tile to change. It is written back later; errors of that come out of a later call, and [`Tiles::flush`] gives the last.
    pub fn write(&mut self, tile: u64) -> Result<&mut [u8], FarError> {
        let slot = self.fetch(tile)?;
        self.slots[slot].state = match std::mem::replace(&mut self.slots[slot].state, TileState::Passing) {
            TileState::Clean(buffer, tile) => TileState::Dirty(buffer, tile),
            state => state,
        };
        self.write_behind(slot);
        match &mut self.slots[slot].state {
            TileState::Dirty(buffer, _) => Ok(buffer.as_mut_slice()),
            _ => unreachable!("the tile that is being changed is not written behind"),
        }
    }

    /// Begins to read a tile that will be needed, where a slot is free for it. Nothing is waited for.
    pub fn prefetch(&mut self, tile: u64) {
        self.check(tile);
        if self.of_tile.contains_key(&tile) {
            return;
        }
        // What was used last is being worked on.
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

    /// Writes all that was changed and waits until the disk has it. What fails stays changed, for another try.
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

    /// How many tiles fit into DRAM at once.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// What was moved so far.
    pub fn traffic(&self) -> TransferStats {
        self.mover.traffic()
    }

    #[cfg(test)]
    pub(super) fn mover(&mut self) -> &mut Mover {
        &mut self.mover
    }

    fn check(&self, tile: u64) {
        assert!(tile < self.settings.tiles, "tile {tile} of {}", self.settings.tiles);
    }

    /// The slot of a tile that is in DRAM and not on its way.
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

    /// A slot without a tile: an empty one, else that of the tile whose use is longest ago, after writing it if it was changed.
    fn free_slot(&mut self) -> Result<usize, FarError> {
        let rank = |slot: &Slot| match slot.state {
            TileState::Empty(_) => (0, 0),
            TileState::Clean(..) => (1, slot.used),
            TileState::Writing(..) => (2, slot.used),
            TileState::Reading(..) => (3, slot.used),
            TileState::Dirty(..) => (4, slot.used),
            TileState::Passing => unreachable!("no slot is left in passing"),
        };
        let slot = (0..self.slots.len()).min_by_key(|slot| rank(&self.slots[*slot])).expect("there are slots");
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

    /// Begins to write a slot back if it was changed.
    fn start_writing(&mut self, slot: usize) {
        let state = std::mem::replace(&mut self.slots[slot].state, TileState::Passing);
        self.slots[slot].state = match state {
            TileState::Dirty(buffer, tile) => {
                TileState::Writing(self.mover.write(buffer, tile * self.settings.tile.0), tile)
            }
            other => other,
        };
    }

    /// Waits for a slot's request.
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

    /// Begins to write the oldest changed tiles where there are many, but for the one that is worked on.
    fn write_behind(&mut self, worked_on: usize) {
        let mut dirty: Vec<(u64, usize)> = (0..self.slots.len())
            .filter(|slot| *slot != worked_on && matches!(self.slots[*slot].state, TileState::Dirty(..)))
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
