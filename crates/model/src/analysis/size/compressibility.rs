//! Estimates the compressibility of a program's memory from a random sample of its pages.

use std::collections::BTreeMap;

use crate::analysis::residency::MemoryKind;
use crate::stats::statistics::CONFIDENCE;
use crate::values::compressibility::{CompressedShare, Compressibility, KindShare};
use crate::values::units::Bytes;

/// A page drawn at random, with replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledPage {
    pub kind: MemoryKind,
    /// Its size after compression. 0 for a page of zeros, and the size of a page if it does not compress.
    pub compressed: u32,
}

/// Estimates the compressibility. `memory` is the memory by kind from which the pages were drawn, each with the same
/// probability. `None` without a page.
pub fn compressibility(
    algorithm: &str,
    memory: &BTreeMap<MemoryKind, Bytes>,
    sample: &[SampledPage],
    page_bytes: u32,
) -> Option<Compressibility> {
    let share = |kind: Option<MemoryKind>| {
        let is_of_kind = |other: MemoryKind| kind.is_none_or(|kind| kind == other);
        let bytes = memory.iter().filter(|(other, _)| is_of_kind(**other)).map(|(_, bytes)| bytes.0).sum();
        let pages = sample.iter().filter(|page| is_of_kind(page.kind));
        let sizes: Vec<f64> = pages.map(|page| f64::from(page.compressed) / f64::from(page_bytes)).collect();
        share(Bytes(bytes), &sizes)
    };
    let kinds =
        memory.keys().filter_map(|kind| Some(KindShare { kind: kind.name().into(), share: share(Some(*kind))? }));
    let mut kinds: Vec<KindShare> = kinds.collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.share.bytes));
    Some(Compressibility { algorithm: algorithm.into(), total: share(None)?, kinds })
}

/// Returns the mean of sizes between 0 and 1, in percent. `None` without a page.
fn share(bytes: Bytes, sizes: &[f64]) -> Option<CompressedShare> {
    let count = sizes.len() as f64;
    let mean = sizes.iter().sum::<f64>() / count;
    let percent_of = |is: fn(f64) -> bool| 100.0 * sizes.iter().filter(|size| is(**size)).count() as f64 / count;
    let half_width = half_width(sizes, mean);
    (!sizes.is_empty()).then(|| CompressedShare {
        bytes,
        pages: sizes.len() as u64,
        percent: 100.0 * mean,
        ci_low: 100.0 * (mean - half_width).max(0.0),
        ci_high: 100.0 * (mean + half_width).min(1.0),
        zero_percent: percent_of(|size| size == 0.0),
        incompressible_percent: percent_of(|size| size >= 1.0),
    })
}

/// Half width of an interval for the mean of independent values between 0 and 1, whatever their distribution: an
/// interval from the normal distribution would miss a few incompressible pages among many zeros. Maurer and Pontil,
/// "Empirical Bernstein bounds and sample variance penalization" (2009), theorem 4, for both sides.
fn half_width(sizes: &[f64], mean: f64) -> f64 {
    let count = sizes.len() as f64;
    if count < 2.0 {
        return 1.0;
    }
    let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let log = (4.0 / (1.0 - CONFIDENCE)).ln();
    (2.0 * variance * log / count).sqrt() + 7.0 * log / (3.0 * (count - 1.0))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn pages(kind: MemoryKind, sizes: &[u32]) -> Vec<SampledPage> {
        sizes.iter().map(|compressed| SampledPage { kind, compressed: *compressed }).collect()
    }

    #[test]
    fn shares_are_by_kind_and_in_total() {
        let memory = [(MemoryKind::Heap, Bytes(1 << 20)), (MemoryKind::Anonymous, Bytes(3 << 20))].into();
        let sample = [pages(MemoryKind::Heap, &[1024]), pages(MemoryKind::Anonymous, &[0, 4096, 2048])].concat();
        let found = compressibility("LZ4", &memory, &sample, 4096).expect("there are pages");
        let total = found.total;
        assert_eq!((total.bytes, total.pages, total.percent), (Bytes(4 << 20), 4, 43.75));
        assert_eq!((total.zero_percent, total.incompressible_percent), (25.0, 25.0));
        let kinds: Vec<_> = found.kinds.iter().map(|kind| (kind.kind.as_str(), kind.share.percent)).collect();
        assert_eq!(kinds, [("anonymous", 50.0), ("heap", 25.0)]);
        let heap = found.kinds[1].share;
        assert_eq!((heap.ci_low, heap.ci_high), (0.0, 100.0), "one page shows nothing");
        assert_eq!(compressibility("LZ4", &memory, &[], 4096), None);
    }

    /// Also with a few incompressible pages among zeros, where the interval of the normal distribution misses too often.
    #[test]
    fn intervals_contain_the_mean_of_all_pages() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for (share_of_full, size_of_others) in [(0.002, 0), (0.02, 0), (0.3, 1500), (0.5, 0)] {
            let truth = 100.0 * (share_of_full + (1.0 - share_of_full) * f64::from(size_of_others) / 4096.0);
            let mut missed = 0;
            for _ in 0..400 {
                let mut size = || if random.random::<f64>() < share_of_full { 4096 } else { size_of_others };
                let sizes: Vec<u32> = (0..2048).map(|_| size()).collect();
                let memory = [(MemoryKind::Heap, Bytes(1 << 30))].into();
                let found = compressibility("LZ4", &memory, &pages(MemoryKind::Heap, &sizes), 4096).unwrap().total;
                missed += usize::from(!(found.ci_low..=found.ci_high).contains(&truth));
                assert!(found.ci_high - found.ci_low < 11.0, "{found:?}");
            }
            assert!(missed <= 20, "{missed} of 400 miss {truth} %");
        }
    }
}
