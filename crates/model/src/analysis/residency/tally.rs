//! Counts the pages of a part by node. In a large part, the kernel is asked for one of several pages only.

use std::collections::BTreeMap;

use super::NodeBytes;
use crate::values::id_set::NodeId;
use crate::values::units::Bytes;

/// In large parts, one of this many pages is queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingInterval(pub u64);

/// Maximum number of queries of an inspection, apart from those of [`EXACT_PAGES`] and of huge pages. A query takes up
/// to 0.8 µs, so they take 0.4 s.
const QUERIES_MAX: u64 = 1 << 19;
/// The first pages of each part are all queried, so that small parts are exact.
const EXACT_PAGES: u64 = 1024;

impl SamplingInterval {
    pub const EVERY_PAGE: Self = Self(1);

    /// Returns the interval for this number of pages.
    pub fn for_pages(pages: u64) -> Self {
        Self(pages.div_ceil(QUERIES_MAX).max(1))
    }
}

/// Answer of the kernel about one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageStatus {
    On(NodeId),
    /// Freed or moved during the inspection.
    Unknown,
    /// The zero page or device memory: neither counts as memory of the process.
    NotMemory,
}

/// The pages of a part, in pages of the base size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pages that were each queried.
    exact: Counts,
    /// Answers for sampled pages.
    sampled: Counts,
    /// Small pages seen so far.
    seen: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    on: BTreeMap<NodeId, u64>,
    unknown: u64,
    not_memory: u64,
}

impl Counts {
    fn add(&mut self, status: PageStatus, pages: u64) {
        match status {
            PageStatus::On(node) => *self.on.entry(node).or_insert(0) += pages,
            PageStatus::Unknown => self.unknown += pages,
            PageStatus::NotMemory => self.not_memory += pages,
        }
    }

    fn pages(&self) -> u64 {
        self.on.values().sum::<u64>() + self.unknown + self.not_memory
    }
}

/// Whether an answer counts for one page or for all pages of its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    Pages(u64),
    Sample,
}

impl Tally {
    /// Counts the next resident page. Returns the weight of its answer if it must be queried.
    pub fn next(&mut self, interval: SamplingInterval) -> Option<Weight> {
        let index = self.seen;
        self.seen += 1;
        if index < EXACT_PAGES || interval.0 <= 1 {
            return Some(Weight::Pages(1));
        }
        let after = index - EXACT_PAGES;
        let (window, offset) = (after / interval.0, after % interval.0);
        (offset == chosen_offset(window, interval.0)).then_some(Weight::Sample)
    }

    pub fn record(&mut self, weight: Weight, status: PageStatus) {
        match weight {
            Weight::Pages(pages) => self.exact.add(status, pages),
            Weight::Sample => self.sampled.add(status, 1),
        }
    }

    /// Adds pages whose nodes are unknown.
    pub fn record_unknown(&mut self, pages: u64) {
        self.exact.add(PageStatus::Unknown, pages);
    }

    /// Returns the memory by node; `page` is the size of a page.
    pub fn memory(&self, page: Bytes) -> NodeBytes {
        let bytes = |pages: u64| Bytes(pages * page.0);
        let queried = self.sampled.pages();
        // Without samples, all pages were queried.
        let represented = if queried == 0 { 0 } else { self.seen.saturating_sub(EXACT_PAGES) };
        let scaled = scale(&self.sampled, represented);
        let mut by_node = self.exact.on.clone();
        for (node, pages) in &scaled.on {
            *by_node.entry(*node).or_insert(0) += pages;
        }
        let unknown = self.exact.unknown + scaled.unknown;
        let pages = by_node.values().sum::<u64>() + unknown;
        // Maximum of 1.96 sqrt(p (1 - p) / n) over p; one page of each interval varies less than that.
        let margin = if queried == 0 { 0.0 } else { (0.98 / (queried as f64).sqrt()).min(1.0) * represented as f64 };
        NodeBytes {
            bytes: bytes(pages),
            by_node: by_node.into_iter().map(|(node, pages)| (node, bytes(pages))).collect(),
            unattributed: bytes(unknown),
            margin: bytes(margin.round() as u64),
        }
    }
}

/// Scales counts to a number of pages; the rounding error is added to the largest.
fn scale(counts: &Counts, pages: u64) -> Counts {
    let queried = counts.pages();
    if queried == 0 {
        return Counts::default();
    }
    let scaled = |count: u64| (u128::from(count) * u128::from(pages) / u128::from(queried)) as u64;
    let mut result = Counts {
        on: counts.on.iter().map(|(node, count)| (*node, scaled(*count))).collect(),
        unknown: scaled(counts.unknown),
        not_memory: scaled(counts.not_memory),
    };
    let missing = pages - result.pages();
    match result.on.values_mut().max() {
        Some(most) => *most += missing,
        None => result.unknown += missing,
    }
    result
}

/// Returns the queried page of a window. Not always the same one, because pages may alternate between nodes; the first
/// one of the first window, so that each part has a sample.
fn chosen_offset(window: u64, interval: u64) -> u64 {
    if window == 0 { 0 } else { split_mix(window) % interval }
}

/// `SplitMix64`: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
fn split_mix(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Bytes = Bytes(4096);

    fn counted(pages: u64, interval: u64, node: impl Fn(u64) -> u32) -> (NodeBytes, u64) {
        let (mut tally, mut queries) = (Tally::default(), 0);
        for index in 0..pages {
            if let Some(weight) = tally.next(SamplingInterval(interval)) {
                queries += 1;
                tally.record(weight, PageStatus::On(NodeId(node(index))));
            }
        }
        (tally.memory(PAGE), queries)
    }

    fn bytes(pages: u64) -> Bytes {
        Bytes(pages * PAGE.0)
    }

    #[test]
    fn small_parts_are_exact_at_every_interval() {
        for interval in [1, 5, 1000] {
            let (memory, queries) = counted(1024, interval, |index| (index % 3) as u32);
            assert_eq!(queries, 1024);
            assert_eq!((memory.bytes, memory.margin), (bytes(1024), Bytes(0)));
            assert_eq!(memory.by_node[&NodeId(0)], bytes(342), "{interval}");
        }
    }

    #[test]
    fn sums_of_samples_are_the_number_of_pages() {
        for pages in [1025, 1026, 1030, 5000, 99_999] {
            let (memory, queries) = counted(pages, 8, |index| u32::from(index > pages / 3));
            assert_eq!(memory.bytes, bytes(pages), "{pages}");
            assert_eq!(memory.by_node.values().map(|bytes| bytes.0).sum::<u64>(), memory.bytes.0, "{pages}");
            assert!(queries <= 1024 + pages.div_ceil(8), "{queries} of {pages}");
        }
    }

    /// Pages that alternate between nodes with the period of the samples.
    #[test]
    fn interleaved_pages_are_estimated_within_the_margin() {
        for nodes in [2, 4] {
            for interval in [2, 4, 8] {
                let pages = 200_000;
                let (memory, _) = counted(pages, interval, |index| (index % nodes) as u32);
                let expected = bytes(pages / nodes).0;
                for bytes in memory.by_node.values() {
                    assert!(bytes.0.abs_diff(expected) <= memory.margin.0, "{nodes} {interval}: {memory:?}");
                }
                assert!(memory.margin.0 < memory.bytes.0 / 50, "the margin is below 2 %: {memory:?}");
            }
        }
    }

    #[test]
    fn pages_without_memory_are_not_counted_and_unknown_ones_are() {
        let mut tally = Tally::default();
        for status in [PageStatus::On(NodeId(1)), PageStatus::NotMemory, PageStatus::Unknown] {
            let weight = tally.next(SamplingInterval::EVERY_PAGE).expect("every page is queried");
            tally.record(weight, status);
        }
        tally.record(Weight::Pages(512), PageStatus::On(NodeId(0)));
        let memory = tally.memory(PAGE);
        assert_eq!((memory.bytes, memory.unattributed), (bytes(514), bytes(1)));
        assert_eq!(memory.by_node, [(NodeId(0), bytes(512)), (NodeId(1), bytes(1))].into());
    }

    #[test]
    fn interval_grows_with_the_number_of_pages() {
        let interval = |gib: u64| SamplingInterval::for_pages(gib << 18).0;
        assert_eq!([interval(0), interval(1), interval(2), interval(3), interval(10)], [1, 1, 1, 2, 5]);
    }
}
