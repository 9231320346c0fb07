//! Reads written blocks back after a trial and verifies them.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::advice;
use super::options::Options;
use super::target::IoTarget;
use super::verify::{WrittenBlocks, verify_block};
use crate::job::{Failure, TrialContext};
use crate::kernels::arena::Arena;

/// Bytes read back per request, unless a block is larger.
const CHUNK: usize = 1 << 20;

/// Reads back every block that was written with this seed, from the device if possible, and verifies it.
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
            .map_err(|error| Failure::Failed(format!("cannot read back the block at {offset}: {error}")))?;
        for index in 0..count {
            let from = (index * written.block) as usize / 8;
            let words = &mut arena.as_u64()[from..from + options.block / 8];
            verify_block(words, Some(seed), offset + index * written.block)?;
        }
        next = first + count;
    }
    Ok(())
}

/// Flushes the file to the device and drops it from the page cache, so that reads come from the device.
fn forget_cached(file: &File) -> Result<(), Failure> {
    file.sync_all().map_err(|error| Failure::Failed(format!("cannot flush the file before reading back: {error}")))?;
    advice::drop_pages(file);
    Ok(())
}
