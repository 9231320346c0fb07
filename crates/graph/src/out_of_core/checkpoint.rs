//! The stored state of a construction: the graph, the sizes chosen, the step, and a checksum. An interrupted
//! construction resumes from it.

use super::blocks::checksum;
use super::split::BucketPlan;
use crate::error::Error;
use crate::kronecker::Spec;
use crate::storage::{Storage, StorageError, StorageErrorKind};

/// Format version; checkpoints of other versions are rejected.
const VERSION: u64 = 1;
const FIELDS: usize = 17;

/// The phases, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BuildPhase {
    /// Distribute each edge to a bucket of pairs. `done` counts generated edges.
    Deal,
    /// Sort pairs, remove duplicates and count neighbours. `done` counts buckets.
    Count,
    /// Distribute both directions of each edge to buckets of ranks. `done` counts generated edges.
    DealRanked,
    /// Write lists to the head columns and, encoded, to the tail lists. `done` counts buckets.
    Lists,
    Finish,
}

const STEPS: [BuildPhase; 5] =
    [BuildPhase::Deal, BuildPhase::Count, BuildPhase::DealRanked, BuildPhase::Lists, BuildPhase::Finish];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) spec: Spec,
    pub(super) columns: u32,
    pub(super) split: BucketPlan,
    pub(super) step: BuildPhase,
    pub(super) done: u64,
    /// Number of blocks of the part that is being written or read.
    pub(super) blocks: u64,
    /// Size of the tail lists in bytes.
    pub(super) tail: u64,
    /// Position-dependent checksum of head columns, tail lists and list lengths as written.
    pub(super) sum: u64,
    /// Number of times the degrees were written; the latest copy is in the second half of their part if this is odd,
    /// otherwise in the first.
    pub(super) saved: u64,
    /// Checksum of the latest copy of the degrees.
    pub(super) degrees: u64,
}

impl Checkpoint {
    pub(super) fn new(spec: &Spec, columns: u32, split: BucketPlan) -> Self {
        Self {
            spec: *spec,
            columns,
            split,
            step: BuildPhase::Deal,
            done: 0,
            blocks: 0,
            tail: 0,
            sum: 0,
            saved: 0,
            degrees: 0,
        }
    }

    /// Returns the stored checkpoint, if there is one. It must be of this graph.
    pub(super) fn find(storage: &dyn Storage, spec: &Spec, columns: u32) -> Result<Option<Self>, Error> {
        let Some(bytes) = storage.noted()? else { return Ok(None) };
        let refused = |kind, what: &str| Error::Storage(StorageError { kind, what: what.into() });
        let damaged = "the checkpoint of the construction is damaged";
        let note = Self::parse(&bytes).ok_or_else(|| refused(StorageErrorKind::Damaged, damaged))?;
        if note.spec != *spec || note.columns != columns {
            let Checkpoint { spec, columns, .. } = note;
            let (scale, factor) = (spec.scale, spec.edge_factor);
            let what = format!(
                "the interrupted construction is of a graph of scale {scale}, edge factor {factor}, k = {columns}"
            );
            return Err(refused(StorageErrorKind::Foreign, &what));
        }
        Ok(Some(note))
    }

    pub(super) fn save(&self, storage: &dyn Storage) -> Result<(), Error> {
        Ok(storage.note(&self.bytes())?)
    }

    /// Advances to the next step.
    pub(super) fn next(&mut self, step: BuildPhase) {
        (self.step, self.done) = (step, 0);
    }

    /// Returns an identifier of this construction: the same graph with the same sizes.
    pub(super) fn stamp(&self) -> u64 {
        let BucketPlan { thread_bytes, bits } = self.split;
        let Spec { scale, edge_factor, seed } = self.spec;
        let of =
            [u64::from(scale), edge_factor, seed.0, seed.1, u64::from(self.columns), thread_bytes, u64::from(bits)];
        checksum(&of.map(u64::to_le_bytes).concat())
    }

    fn bytes(&self) -> Vec<u8> {
        let BucketPlan { thread_bytes, bits } = self.split;
        let Spec { scale, edge_factor, seed } = self.spec;
        let numbers: [u64; FIELDS - 1] = [
            u64::from_le_bytes(*b"nearfarN"),
            VERSION,
            u64::from(scale),
            edge_factor,
            seed.0,
            seed.1,
            u64::from(self.columns),
            thread_bytes,
            u64::from(bits),
            self.step as u64,
            self.done,
            self.blocks,
            self.tail,
            self.sum,
            self.saved,
            self.degrees,
        ];
        let mut bytes = numbers.map(u64::to_le_bytes).concat();
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let numbers: [u64; FIELDS] =
            words.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<_>>().try_into().ok()?;
        let [
            _,
            _,
            scale,
            edge_factor,
            one,
            two,
            columns,
            thread_bytes,
            bits,
            step,
            done,
            blocks,
            tail,
            sum,
            saved,
            degrees,
            own,
        ] = numbers;
        let right = numbers[..2] == [u64::from_le_bytes(*b"nearfarN"), VERSION];
        if !right || checksum(&bytes[..bytes.len() - 8]) != own {
            return None;
        }
        let spec = Spec { scale: u32::try_from(scale).ok()?, edge_factor, seed: (one, two) };
        let split = BucketPlan { thread_bytes, bits: u32::try_from(bits).ok()? };
        let (columns, step) = (u32::try_from(columns).ok()?, *STEPS.get(usize::try_from(step).ok()?)?);
        Some(Self { spec, columns, split, step, done, blocks, tail, sum, saved, degrees })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_round_trip_and_changed_ones_are_rejected() {
        let split = BucketPlan { thread_bytes: 1 << 20, bits: 3 };
        let note = Checkpoint {
            step: BuildPhase::Lists,
            done: 7,
            blocks: 99,
            ..Checkpoint::new(&Spec::graph500(20), 16, split)
        };
        let bytes = note.bytes();
        assert_eq!(Checkpoint::parse(&bytes), Some(note));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 16;
            assert_eq!(Checkpoint::parse(&changed), None, "{at}");
            assert_eq!(Checkpoint::parse(&bytes[..at]), None, "{at}");
        }
        let other = Checkpoint { columns: 8, ..note };
        assert_ne!(note.stamp(), other.stamp());
        assert_eq!(note.stamp(), Checkpoint { step: BuildPhase::Deal, ..note }.stamp());
    }
}
