//! Numbers that are near each other as one level: raw sizes and speeds would make every part of a machine unlike any other.

use std::collections::BTreeMap;

/// Values that differ by less are alike: firmware takes some memory of the first node, and speeds are measured with noise.
const ALIKE_PERCENT: u64 = 110;

/// The level of each value. Values in a run where each is near the one before have one level; more is a higher level.
pub(crate) fn quantise(mut values: Vec<u64>) -> BTreeMap<u64, u32> {
    values.sort_unstable();
    let mut levels = BTreeMap::new();
    let mut level = 0;
    let mut last = None;
    for value in values {
        if last.is_some_and(|last: u64| u128::from(value) * 100 > u128::from(last) * u128::from(ALIKE_PERCENT)) {
            level += 1;
        }
        levels.insert(value, level);
        last = Some(value);
    }
    levels
}
