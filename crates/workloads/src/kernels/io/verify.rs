//! Sealed blocks: each contains its offset, its length, the seed of its writer and a checksum. Detects lost, torn,
//! corrupt and misplaced data. Does NOT detect a lost write if the same trial had written the same block before.

use std::sync::atomic::{AtomicU64, Ordering};

use super::data;
use crate::job::Failure;

/// Marks a block that nearfar wrote.
const MAGIC: u64 = u64::from_le_bytes(*b"nearfar\0");

/// Word indices of the fields in a block; the first word of every sector is its stamp.
const AT_MAGIC: usize = 1;
const AT_OFFSET: usize = 2;
const AT_LENGTH: usize = 3;
const AT_SEED: usize = 4;
const AT_SUM: usize = 5;

/// Upper limit of the bitmap with one bit per block: 4 GiB.
const BLOCKS_MAX: u64 = 1 << 35;

/// Seals a block with its current content.
pub(super) fn seal(words: &mut [u64], seed: u64, offset: u64) {
    data::stamp_all(words, seed, offset);
    words[AT_MAGIC] = MAGIC;
    words[AT_OFFSET] = offset;
    words[AT_LENGTH] = (words.len() * 8) as u64;
    words[AT_SEED] = seed;
    words[AT_SUM] = 0;
    words[AT_SUM] = checksum(words);
}

/// Verifies a block: that of this seed, or of any seed.
pub(super) fn verify_block(words: &mut [u64], seed: Option<u64>, offset: u64) -> Result<(), Failure> {
    let wrong = |damage: String| Err(Failure::Failed(format!("wrong data at {offset}: {damage}")));
    let length = words.len() * 8;
    if words[AT_MAGIC] != MAGIC {
        return wrong("not a block written with verify=true".into());
    }
    if words[AT_LENGTH] != length as u64 {
        return wrong(format!("a block of {} bytes instead of {length}", words[AT_LENGTH]));
    }
    if words[AT_OFFSET] != offset {
        return wrong(format!("the block belongs at {}", words[AT_OFFSET]));
    }
    let found = words[AT_SEED];
    if seed.is_some_and(|seed| seed != found) {
        return wrong("an older block: the write was lost".into());
    }
    if let Some(sector) = data::wrong_sector(words, found, offset) {
        return wrong(format!("unexpected data from sector {sector} of the block on"));
    }
    let sum = std::mem::take(&mut words[AT_SUM]);
    let right = checksum(words) == sum;
    words[AT_SUM] = sum;
    if right { Ok(()) } else { wrong("wrong checksum".into()) }
}

/// Checksum that covers every word and its position. Four lanes, because a single one would be limited by
/// multiplication latency.
fn checksum(words: &[u64]) -> u64 {
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut lanes = [MIX, MIX.rotate_left(16), MIX.rotate_left(32), MIX.rotate_left(48)];
    for group in words.chunks_exact(4) {
        for (lane, word) in lanes.iter_mut().zip(group) {
            *lane = (*lane ^ word).wrapping_mul(MIX).rotate_left(29);
        }
    }
    lanes.iter().fold(words.len() as u64, |all, lane| (all ^ lane).wrapping_mul(MIX).rotate_left(31))
}

/// A bitmap of the written blocks.
pub(super) struct WrittenBlocks {
    bits: Vec<AtomicU64>,
    pub(super) block: u64,
}

impl WrittenBlocks {
    pub(super) fn new(bytes: u64, block: usize) -> Result<Self, Failure> {
        let blocks = bytes / block as u64;
        if blocks > BLOCKS_MAX {
            return Err(Failure::Failed(format!(
                "too many blocks for verify: {blocks}; hint: a smaller size, or a larger bs"
            )));
        }
        let bits = (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { bits, block: block as u64 })
    }

    pub(super) fn mark(&self, offset: u64) {
        let index = offset / self.block;
        self.bits[(index / 64) as usize].fetch_or(1 << (index % 64), Ordering::Relaxed);
    }

    fn has(&self, index: u64) -> bool {
        self.bits.get((index / 64) as usize).is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (index % 64)) != 0)
    }

    /// Returns the first written block from `index` on and the length of its run, at most `most`.
    pub(super) fn run_from(&self, mut index: u64, most: u64) -> Option<(u64, u64)> {
        let end = self.bits.len() as u64 * 64;
        while index < end && !self.has(index) {
            // Words without set bits are skipped as a whole.
            let empty = index.is_multiple_of(64) && self.bits[(index / 64) as usize].load(Ordering::Relaxed) == 0;
            index += if empty { 64 } else { 1 };
        }
        let length = (index..end).take(most as usize).take_while(|index| self.has(*index)).count() as u64;
        (length > 0).then_some((index, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Vec<u64> {
        let mut words: Vec<u64> = (0..512).map(|word| word * word).collect();
        seal(&mut words, 9, 4096);
        words
    }

    #[test]
    fn sealed_block_detects_every_changed_word() {
        let words = block();
        assert_eq!(verify_block(&mut words.clone(), Some(9), 4096), Ok(()));
        assert_eq!(verify_block(&mut words.clone(), None, 4096), Ok(()));
        for word in 0..words.len() {
            for bit in [0, 17, 63] {
                let mut corrupt = words.clone();
                corrupt[word] ^= 1 << bit;
                assert!(verify_block(&mut corrupt, None, 4096).is_err(), "word {word} bit {bit}");
            }
        }
    }

    #[test]
    fn errors_state_the_kind_of_damage() {
        let reason = |words: &mut [u64], seed, offset| verify_block(words, seed, offset).unwrap_err().to_string();
        assert!(reason(&mut [0; 512], Some(9), 4096).contains("wrong data at 4096: not a block"));
        assert!(reason(&mut block(), Some(8), 4096).contains("the write was lost"));
        assert!(reason(&mut block(), Some(9), 8192).contains("the block belongs at 4096"));
        assert!(reason(&mut block()[..256], Some(9), 4096).contains("a block of 4096 bytes instead of 2048"));
        let mut torn = block();
        torn[448..].fill(1);
        assert!(reason(&mut torn, None, 4096).contains("sector 7"));
        let mut changed = block();
        changed[100] += 1;
        assert!(reason(&mut changed, None, 4096).contains("checksum"));
        let mut swapped = block();
        swapped.swap(100, 104);
        assert!(reason(&mut swapped, None, 4096).contains("checksum"));
    }

    #[test]
    fn written_blocks_are_found_in_runs() {
        let written = WrittenBlocks::new(4096 * 300, 4096).unwrap();
        let blocks: Vec<u64> = (3..7).chain([64, 65, 192, 299]).collect();
        blocks.iter().for_each(|block| written.mark(block * 4096));
        let (mut next, mut runs) = (0, Vec::new());
        while let Some((first, count)) = written.run_from(next, 3) {
            runs.push((first, count));
            next = first + count;
        }
        assert_eq!(runs, [(3, 3), (6, 1), (64, 2), (192, 1), (299, 1)]);
        assert!(WrittenBlocks::new(1 << 50, 512).is_err());
    }
}
