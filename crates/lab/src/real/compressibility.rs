//! Measures how well the pages of running processes compress. Reads their memory, and keeps only sizes.

use std::collections::BTreeMap;

use machine::residency::{OwnPages, own_pages, read_pages};
use model::analysis::residency::MemoryKind;
use model::analysis::size::{SampledPage, compressibility};
use model::values::compressibility::Compressibility;
use model::values::units::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Sampled pages: the half width of the interval is then at most 4 % of the memory.
const PAGES: usize = 2048;
const SEED: u64 = 0;

/// Samples pages of processes. `None` if less than half of them could be read, because the processes ended meanwhile.
pub(super) fn sample(pids: &[u32]) -> Option<Compressibility> {
    let runs = own_pages(pids);
    let page = farmem::page_bytes();
    let mut memory: BTreeMap<MemoryKind, Bytes> = BTreeMap::new();
    for run in &runs {
        memory.entry(run.kind).or_default().0 += run.addresses.end - run.addresses.start;
    }
    let drawn = draw(&runs, page);
    let addresses: Vec<(u32, u64)> = drawn.iter().map(|(pid, address, _)| (*pid, *address)).collect();
    let (mut pages, mut buffer) = (Vec::new(), vec![0; lz4_flex::block::get_maximum_output_size(page as usize)]);
    read_pages(&addresses, |index, content| {
        let compressed = compressed_bytes(content, &mut buffer);
        pages.push(SampledPage { kind: drawn[index].2, compressed });
    });
    if pages.len() < drawn.len() / 2 {
        return None;
    }
    compressibility("LZ4", &memory, &pages, u32::try_from(page).ok()?)
}

/// Draws pages with replacement, each with the same probability. Returns process, address and kind in the order of the
/// runs.
fn draw(runs: &[OwnPages], page: u64) -> Vec<(u32, u64, MemoryKind)> {
    let pages = |run: &OwnPages| (run.addresses.end - run.addresses.start) / page;
    let total: u64 = runs.iter().map(pages).sum();
    if total == 0 {
        return Vec::new();
    }
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut indexes: Vec<u64> = (0..PAGES).map(|_| random.random_range(0..total)).collect();
    indexes.sort_unstable();
    let (mut drawn, mut indexes, mut first) = (Vec::new(), indexes.into_iter().peekable(), 0);
    for run in runs {
        let end = first + pages(run);
        while let Some(index) = indexes.next_if(|index| *index < end) {
            drawn.push((run.pid, run.addresses.start + (index - first) * page, run.kind));
        }
        first = end;
    }
    drawn
}

/// Returns the size of a page after compression: 0 for a page of zeros, for which the kernel stores no data, and at most
/// the size of the page, because one that does not shrink is not stored compressed.
fn compressed_bytes(page: &[u8], buffer: &mut [u8]) -> u32 {
    if page.iter().all(|byte| *byte == 0) {
        return 0;
    }
    let size = lz4_flex::block::compress_into(page, buffer).map_or(page.len(), |size| size.min(page.len()));
    u32::try_from(size).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pid: u32, addresses: std::ops::Range<u64>, kind: MemoryKind) -> OwnPages {
        OwnPages { pid, kind, addresses }
    }

    #[test]
    fn every_page_is_drawn_with_the_same_probability() {
        let runs = [
            run(1, 0x1000..0x2000, MemoryKind::Stack),
            run(1, 0x10000..0x1F000, MemoryKind::Heap),
            run(2, 0x1000..0x11000, MemoryKind::Anonymous),
        ];
        let drawn = draw(&runs, 4096);
        assert_eq!(drawn.len(), PAGES);
        let mut counts: BTreeMap<(u32, u64), usize> = BTreeMap::new();
        for (pid, address, kind) in drawn {
            let run =
                runs.iter().find(|run| run.pid == pid && run.addresses.contains(&address)).expect("a listed page");
            assert_eq!((run.kind, address % 4096), (kind, 0));
            *counts.entry((pid, address)).or_default() += 1;
        }
        // 64 are expected of each of the 32 pages.
        assert_eq!(counts.len(), 32);
        assert!(counts.values().all(|count| (24..=110).contains(count)), "{counts:?}");
        assert_eq!(draw(&[], 4096), []);
    }

    #[test]
    fn pages_compress_by_their_content() {
        let mut buffer = vec![0; lz4_flex::block::get_maximum_output_size(4096)];
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let noise: Vec<u8> = (0..4096).map(|_| random.random()).collect();
        assert_eq!(compressed_bytes(&[0; 4096], &mut buffer), 0);
        assert_eq!(compressed_bytes(&noise, &mut buffer), 4096);
        let half = [&noise[..2048], &[7; 2048]].concat();
        assert!((2048..2200).contains(&compressed_bytes(&half, &mut buffer)));
    }

    /// A buffer of which each page is half noise dominates the memory of this process.
    #[test]
    fn memory_of_this_process_is_sampled() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        let mut buffer = vec![1_u8; 256 << 20];
        for page in buffer.chunks_exact_mut(4096) {
            page[..2048].fill_with(|| random.random());
        }
        let found = sample(&[std::process::id()]).expect("its pages can be read");
        assert!(found.total.bytes.0 > 256 << 20, "{found:?}");
        assert!((40.0..60.0).contains(&found.total.percent), "{found:?}");
        assert!(buffer.contains(&1));
    }
}
