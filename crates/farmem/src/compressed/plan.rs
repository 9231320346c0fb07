//! Rules for the limit and the areas of a compressed tier in zram. Pure: they depend only on the use of the areas.

use machine::cgroup::CompressedUse;
use model::values::units::Bytes;

use crate::expansion::DRAM_MIN;

/// Number of areas. The kernel allows about 23 of all programs.
pub(super) const AREAS: usize = 18;
/// Divides the limit into the size of an area, of uncompressed data.
const AREA_PART: u64 = 8;
/// Divides the limit into the part that is left for pages in use. Data that cannot be compressed would otherwise fill the limit
/// with pages that the program cannot use.
pub(super) const FLOOR_PART: u64 = 2;
/// The same once the program is known to use few pages again soon.
const FLOOR_PART_LOW: u64 = 4;
/// Smallest compression ratio that pays: with less, pages in use lose more DRAM than compressed pages gain.
const RATIO_MIN: f64 = 1.5;
/// Share of the first area from which on the ratio is known.
const JUDGED_FROM: f64 = 0.7;
/// Areas that may be empty, so that the kernel does not write to disk before the next one is added.
const AHEAD: f64 = 1.5;
/// Smallest amount on disk that is moved into empty areas.
const MOVED_MIN: u64 = 1 << 20;
/// Share of the measured compression ratio that further pages are expected to have.
const RATIO_TRUST: f64 = 0.9;
/// Divides an area into the growth that counts.
const GROWTH_PART: u64 = 16;

/// Computes the limit, and decides when areas are added, from the present use of the areas. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TierPlan {
    pub dram: u64,
    /// Size of one area, of uncompressed data.
    pub area: u64,
    /// DRAM that is left for pages in use.
    floor: u64,
}

impl TierPlan {
    pub(super) fn new(dram: u64, page: u64) -> Self {
        Self { dram, area: (dram / AREA_PART / page).max(16) * page, floor: dram / FLOOR_PART }
    }

    /// Lets compressed pages use more DRAM.
    pub(super) fn lower_floor(&mut self) {
        self.floor = self.floor.min((self.dram / FLOOR_PART_LOW).max(DRAM_MIN.0));
    }

    /// Undoes [`Self::lower_floor`]; only while nothing is compressed.
    pub(super) fn reset_floor(&mut self) {
        self.floor = self.dram / FLOOR_PART;
    }

    /// Returns the limit for pages that are not compressed.
    pub(super) fn limit(&self, compressed: &CompressedUse) -> u64 {
        self.dram.saturating_sub(compressed.dram.0).max(self.floor)
    }

    /// Returns the limit with this number of areas while they fill: what is left if all of them are full. They fill within
    /// milliseconds, faster than the kernel can free memory.
    pub(super) fn limit_if_full(&self, areas: usize, compressed: &CompressedUse) -> u64 {
        let ratio = self.ratio(compressed).unwrap_or(RATIO_MIN).max(1.0);
        let reserve = self.empty(areas, compressed) as f64 / ratio;
        let full = CompressedUse { dram: Bytes(compressed.dram.0 + reserve as u64), ..*compressed };
        self.limit(&full)
    }

    /// Returns whether the areas fill, compared with their largest use so far.
    pub(super) fn is_growing(&self, held_max: Bytes, compressed: &CompressedUse) -> bool {
        compressed.held.0 > held_max.0 + self.area / GROWTH_PART
    }

    /// Returns the uncompressed size of what still fits into the areas.
    fn empty(&self, areas: usize, compressed: &CompressedUse) -> u64 {
        (areas as u64 * self.area).saturating_sub(compressed.held.0)
    }

    /// Returns whether another area should be added to this number of areas: if few are empty, and if the areas, once full,
    /// leave enough DRAM. Until the ratio is known, that has to be true even if no page can be compressed.
    pub(super) fn wants_area(&self, areas: usize, compressed: &CompressedUse) -> bool {
        let empty = self.empty(areas, compressed);
        let ratio = self.ratio(compressed).map_or(1.0, |ratio| (RATIO_TRUST * ratio).max(1.0));
        let dram_max = compressed.dram.0 as f64 + (empty + self.area) as f64 / ratio;
        let is_wanted = (empty as f64) < AHEAD * self.area as f64;
        areas < AREAS && is_wanted && dram_max <= (self.dram - self.floor) as f64
    }

    /// Returns the compression ratio; `None` before enough pages are compressed. Few pages leave much space between them, so
    /// that it increases with their number.
    fn ratio(&self, compressed: &CompressedUse) -> Option<f64> {
        self.is_known(compressed).then(|| compressed.held.0 as f64 / compressed.dram.0.max(1) as f64)
    }

    fn is_known(&self, compressed: &CompressedUse) -> bool {
        compressed.held.0 as f64 >= JUDGED_FROM * self.area as f64
    }

    /// Returns whether compression saves too little DRAM.
    pub(super) fn is_useless(&self, compressed: &CompressedUse) -> bool {
        let packed = compressed.packed.unwrap_or(compressed.dram).0 as f64;
        self.is_known(compressed) && (compressed.held.0 as f64) < RATIO_MIN * packed
    }

    /// Returns whether this much data on disk should be moved into areas. When compression begins after the disk was used, as
    /// much as has space; later only if all of it has, because otherwise the same pages would move from disk to disk each time.
    pub(super) fn wants_from_disk(&self, on_disk: Bytes, compressed: &CompressedUse, is_first: bool) -> bool {
        let dram_left = (self.dram - self.floor).saturating_sub(compressed.dram.0) as f64;
        let space = self.ratio(compressed).map_or(0.0, |ratio| RATIO_TRUST * ratio * dram_left);
        on_disk.0 >= MOVED_MIN && (is_first || on_disk.0 as f64 <= space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn used(held: u64, dram: u64) -> CompressedUse {
        CompressedUse { dram: Bytes(dram), held: Bytes(held), packed: Some(Bytes(dram)), ..CompressedUse::default() }
    }

    fn plan() -> TierPlan {
        TierPlan { dram: 240 * MIB, area: 30 * MIB, floor: 120 * MIB }
    }

    #[test]
    fn areas_are_whole_pages_of_an_eighth_of_the_limit() {
        assert_eq!(TierPlan::new(240 * MIB, 4096), plan());
        assert_eq!(TierPlan::new(100, 4096).area, 16 * 4096, "large enough for a swap header");
        assert_eq!(TierPlan::new(8 * MIB + 5, 4096).area % 4096, 0);
    }

    #[test]
    fn limit_leaves_dram_for_compressed_pages_down_to_a_half() {
        assert_eq!(plan().limit(&used(0, 0)), 240 * MIB);
        assert_eq!(plan().limit(&used(120 * MIB, 50 * MIB)), 190 * MIB);
        assert_eq!(plan().limit(&used(500 * MIB, 230 * MIB)), 120 * MIB);
        assert_eq!(plan().limit_if_full(1, &used(0, 0)), 220 * MIB, "the ratio is not known");
        assert_eq!(plan().limit_if_full(4, &used(120 * MIB, 50 * MIB)), 190 * MIB, "all are full");
        assert_eq!(plan().limit_if_full(5, &used(120 * MIB, 40 * MIB)), 190 * MIB);
    }

    #[test]
    fn lower_floor_leaves_a_quarter_of_the_limit() {
        let mut lowered = plan();
        lowered.lower_floor();
        assert_eq!(lowered.limit(&used(500 * MIB, 230 * MIB)), 60 * MIB);
        assert!(
            !plan().wants_area(9, &used(269 * MIB, 108 * MIB)) && lowered.wants_area(9, &used(269 * MIB, 108 * MIB))
        );
        lowered.reset_floor();
        assert_eq!(lowered, plan());
        let mut small = TierPlan::new(12 * MIB, 4096);
        small.lower_floor();
        assert_eq!(small, TierPlan::new(12 * MIB, 4096), "a quarter does not hold code and stack");
    }

    #[test]
    fn growth_is_that_beyond_the_largest_use() {
        let grows = |held| plan().is_growing(Bytes(100 * MIB), &used(held, 0));
        assert!(grows(102 * MIB) && !grows(101 * MIB) && !grows(50 * MIB));
    }

    #[test]
    fn full_areas_leave_half_of_the_limit() {
        for (ratio, expected) in [(1.0, 4), (1.3, 5), (2.5, 9), (10.0, AREAS)] {
            let (mut areas, mut held) = (0, 0);
            while held <= 30 * MIB * areas as u64 {
                let dram = (held as f64 / ratio) as u64;
                while plan().wants_area(areas, &used(held, dram)) {
                    areas += 1;
                    let full = dram + ((30 * MIB * areas as u64 - held) as f64 / ratio) as u64;
                    assert!(full <= 120 * MIB, "{ratio}: {areas} areas");
                }
                held += MIB;
            }
            assert_eq!(areas, expected, "{ratio}");
        }
    }

    #[test]
    fn areas_are_added_before_they_are_needed() {
        let wants = |areas| plan().wants_area(areas, &used(100 * MIB, 25 * MIB));
        assert!(wants(4) && !wants(5), "one and a half areas are empty");
    }

    #[test]
    fn data_that_hardly_compress_are_given_up() {
        assert!(!plan().is_useless(&used(20 * MIB, 20 * MIB)), "too few to judge");
        assert!(plan().is_useless(&used(21 * MIB, 15 * MIB)));
        assert!(!plan().is_useless(&used(21 * MIB, 14 * MIB)));
        assert!(!plan().is_useless(&used(0, 0)));
    }

    #[test]
    fn pages_on_disk_move_if_they_fit() {
        let moves = |on_disk, held, is_first| plan().wants_from_disk(Bytes(on_disk), &used(held, 30 * MIB), is_first);
        // Half of the limit is 120 MiB, of which 90 MiB are left: 270 MiB of data that compress 10 : 3, with a margin.
        assert!(moves(269 * MIB, 100 * MIB, false) && !moves(271 * MIB, 100 * MIB, false));
        assert!(moves(MIB, 100 * MIB, false) && !moves(MIB - 1, 100 * MIB, false));
        assert!(moves(900 * MIB, 0, true) && !moves(MIB - 1, 0, true), "the first time, whatever fits");
        assert!(!moves(MIB, 20 * MIB, false), "the ratio is not known");
    }
}
