//! Order of the arms within blocks.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::ArmId;
use crate::values::plan::stream;

/// Random orders that depend only on the seed and the number of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub seed: u64,
}

impl Schedule {
    /// Returns the arms of a block in the order of their periods. All permutations are equally likely, and blocks are
    /// independent: this is the assumption of the test in [`super::compare()`]. The order of `arms` does not matter.
    pub fn order(self, block: u32, arms: &[ArmId]) -> Vec<ArmId> {
        let mut order = arms.to_vec();
        order.sort_unstable();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(stream(self.seed, &format!("switchback {block}"))));
        order
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn orders_depend_only_on_seed_and_block_and_are_equally_likely() {
        let schedule = Schedule { seed: 7 };
        let mut counts: BTreeMap<Vec<ArmId>, u32> = BTreeMap::new();
        for block in 0..1200 {
            let order = schedule.order(block, &[ArmId(0), ArmId(1), ArmId(2)]);
            assert_eq!(order, schedule.order(block, &[ArmId(2), ArmId(0), ArmId(1)]));
            *counts.entry(order).or_default() += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|count| (150..250).contains(count)), "{counts:?}");
        let other = Schedule { seed: 8 };
        let arms = [ArmId(0), ArmId(1)];
        assert!((0..64).any(|block| schedule.order(block, &arms) != other.order(block, &arms)));
        assert_eq!(schedule.order(0, &[]), []);
    }
}
