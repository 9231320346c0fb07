//! Quantises sizes and speeds, because with raw numbers every part of a machine would differ from all others.

use std::collections::BTreeMap;

use crate::values::topology::Topology;

/// Values that differ by less have one level: firmware reserves some memory of the first node, and speeds are measured
/// with noise.
const SAME_LEVEL_PERCENT: u64 = 110;

/// Returns the level of each value. Sorted values have one level as long as each is close to the one before.
pub(crate) fn quantise(mut values: Vec<u64>) -> BTreeMap<u64, u32> {
    values.sort_unstable();
    let mut levels = BTreeMap::new();
    let mut level = 0;
    let mut last = None;
    for value in values {
        if last.is_some_and(|last: u64| u128::from(value) * 100 > u128::from(last) * u128::from(SAME_LEVEL_PERCENT)) {
            level += 1;
        }
        levels.insert(value, level);
        last = Some(value);
    }
    levels
}

/// Returns attribute values as (attribute, level of value). With raw numbers, every CPU would differ from all others.
pub(super) fn speed_levels(topology: &Topology) -> BTreeMap<(&str, u64), (u32, u32)> {
    let mut values: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    topology.memory_attributes.iter().for_each(|stated| values.entry(&stated.attr).or_default().push(stated.value));
    let named = values.into_iter().enumerate();
    named
        .flat_map(|(attribute, (name, values))| {
            quantise(values).into_iter().map(move |(value, level)| ((name, value), (attribute as u32, level)))
        })
        .collect()
}
