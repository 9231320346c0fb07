//! Blocks that can be proven: each carries its place, its length, the seed of who wrote it and a checksum of all of it.
//! Finds data that were lost, torn, changed or that belong elsewhere. Does NOT find a write that was lost where the same
//! trial had written the same block before.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::options::Options;
use super::target::IoTarget;
use super::{advice, data};
use crate::job::{Failure, TrialContext};
use crate::kernels::arena::Arena;

/// "nearfar\0": such a block is ours.
const MAGIC: u64 = u64::from_le_bytes(*b"nearfar\0");

/// Where in a block things are, in words; the first word of every sector is its stamp.
const AT_MAGIC: usize = 1;
const AT_OFFSET: usize = 2;
const AT_LENGTH: usize = 3;
const AT_SEED: usize = 4;
const AT_SUM: usize = 5;

/// So much is read back at once, or a block.
const CHUNK: usize = 1 << 20;

/// One bit for each block is kept: so many take 4 GiB.
const BLOCKS_MAX: u64 = 1 << 35;

/// Makes a block of what is there.
pub(super) fn seal(words: &mut [u64], seed: u64, offset: u64) {
    data::stamp_all(words, seed, offset);
    words[AT_MAGIC] = MAGIC;
    words[AT_OFFSET] = offset;
    words[AT_LENGTH] = (words.len() * 8) as u64;
    words[AT_SEED] = seed;
    words[AT_SUM] = 0;
    words[AT_SUM] = checksum(words);
}

/// Checks a block: that of this seed, or of any.
pub(super) fn examine(words: &mut [u64], seed: Option<u64>, offset: u64) -> Result<(), Failure> {
    let wrong = |what: String| Err(Failure::Failed(format!("wrong data at {offset}: {what}")));
    let length = words.len() * 8;
    if words[AT_MAGIC] != MAGIC {
        return wrong("no block of nearfar's with verify=true lies there".into());
    }
    if words[AT_LENGTH] != length as u64 {
        return wrong(format!("a block of {} bytes lies there, not of {length}", words[AT_LENGTH]));
    }
    if words[AT_OFFSET] != offset {
        return wrong(format!("the block of {} lies there", words[AT_OFFSET]));
    }
    let found = words[AT_SEED];
    if seed.is_some_and(|seed| seed != found) {
        return wrong("an older block lies there: the write was lost".into());
    }
    if let Some(sector) = data::wrong_sector(words, found, offset) {
        return wrong(format!("other data than were written begin with sector {sector} of the block"));
    }
    let sum = std::mem::take(&mut words[AT_SUM]);
    let right = checksum(words) == sum;
    words[AT_SUM] = sum;
    if right { Ok(()) } else { wrong("the checksum is another".into()) }
}

/// Every word and its position count. Four lanes, because one would wait for its own multiplication.
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

/// Which blocks have been written.
pub(super) struct WrittenBlocks {
    bits: Vec<AtomicU64>,
    block: u64,
}

impl WrittenBlocks {
    pub(super) fn new(bytes: u64, block: usize) -> Result<Self, Failure> {
        let blocks = bytes / block as u64;
        if blocks > BLOCKS_MAX {
            return Err(Failure::Failed(format!(
                "verify keeps a bit for each block, and {blocks} blocks are too many; hint: a smaller size, or a larger bs"
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

    /// The next blocks that were written, from `index` on: the first and their number, at most `most`.
    fn run_from(&self, mut index: u64, most: u64) -> Option<(u64, u64)> {
        let end = self.bits.len() as u64 * 64;
        while index < end && !self.has(index) {
            // Empty words are passed as a whole.
            let empty = index.is_multiple_of(64) && self.bits[(index / 64) as usize].load(Ordering::Relaxed) == 0;
            index += if empty { 64 } else { 1 };
        }
        let length = (index..end).take(most as usize).take_while(|index| self.has(*index)).count() as u64;
        (length > 0).then_some((index, length))
    }
}

/// Reads every block back that was written with this seed, from the device where that can be had, and compares it.
pub(super) fn read_back(
    seed: u64,
    job: &TrialContext,
    options: &Options,
    target: &IoTarget,
    written: &WrittenBlocks,
) -> Result<(), Failure> {
    let file = target.handle()?;
    forget_cached(&file)?;
    let per_chunk = (CHUNK / options.block).max(1) as u64;
    let mut arena = Arena::small(job, per_chunk as usize * options.block)?;
    let mut next = 0;
    while let Some((first, count)) = written.run_from(next, per_chunk) {
        let (offset, bytes) = (first * written.block, (count * written.block) as usize);
        let chunk = &mut arena.as_bytes()[..bytes];
        file.read_exact_at(chunk, offset)
            .map_err(|error| Failure::Failed(format!("what was written at {offset} cannot be read back: {error}")))?;
        for index in 0..count {
            let from = (index * written.block) as usize / 8;
            let words = &mut arena.as_u64()[from..from + options.block / 8];
            examine(words, Some(seed), offset + index * written.block)?;
        }
        next = first + count;
    }
    Ok(())
}

/// Has everything on the device, and the page cache without it, so that the device is what is asked.
fn forget_cached(file: &File) -> Result<(), Failure> {
    file.sync_all().map_err(|error| Failure::Failed(format!("fsync before reading back: {error}")))?;
    advice::drop_pages(file);
    Ok(())
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
    fn a_sealed_block_proves_itself_and_every_spoilt_word_is_found() {
        let words = block();
        assert_eq!(examine(&mut words.clone(), Some(9), 4096), Ok(()));
        assert_eq!(examine(&mut words.clone(), None, 4096), Ok(()));
        for word in 0..words.len() {
            for bit in [0, 17, 63] {
                let mut spoilt = words.clone();
                spoilt[word] ^= 1 << bit;
                assert!(examine(&mut spoilt, None, 4096).is_err(), "word {word} bit {bit}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let why = |words: &mut [u64], seed, offset| examine(words, seed, offset).unwrap_err().to_string();
        assert!(why(&mut [0; 512], Some(9), 4096).contains("wrong data at 4096: no block"));
        assert!(why(&mut block(), Some(8), 4096).contains("the write was lost"));
        assert!(why(&mut block(), Some(9), 8192).contains("the block of 4096 lies there"));
        assert!(why(&mut block()[..256], Some(9), 4096).contains("a block of 4096 bytes lies there, not of 2048"));
        let mut torn = block();
        torn[448..].fill(1);
        assert!(why(&mut torn, None, 4096).contains("sector 7"));
        let mut changed = block();
        changed[100] += 1;
        assert!(why(&mut changed, None, 4096).contains("checksum"));
        let mut swapped = block();
        swapped.swap(100, 104);
        assert!(why(&mut swapped, None, 4096).contains("checksum"));
    }

    #[test]
    fn runs_of_written_blocks_are_found() {
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
