//! Measured maps of model machines: pairs that represent others, groups of CPUs, and the objects that CPUs share.

mod machines;

use machines::model;
use model::placements::candidates::{all_pairs, pairs};
use model::placements::measured_map::{groups, relation};
use model::values::id_set::CpuId;

#[test]
fn one_pair_represents_all_equivalent_pairs() {
    let found = |name: &str| -> Vec<String> {
        let topology = model(name);
        let text = |pair: &model::placements::candidates::CpuPair| {
            format!("{} {} {} x{}", pair.a, pair.b, relation(&topology, pair.a, pair.b), pair.alike)
        };
        pairs(&topology).iter().map(text).collect()
    };
    assert_eq!(found("ryzen5-2600"), ["0 6 one core x6", "0 1 one L3 x24", "0 3 one package x36"]);
    assert_eq!(found("xeon-e5-2640-x2-roundrobin"), ["0 12 one core x12", "0 2 one L3 x120", "0 1 two packages x144"]);
    assert_eq!(found("rk3399"), ["0 1 one L2 x6", "0 4 one package x8", "4 5 one L2 x1"]);
    assert_eq!(found("rpi5-numafake8"), ["0 1 one L3 x6"]);
    assert_eq!(found("grace-cxl"), ["0 1 one L3 x2556", "0 72 two packages x5184", "72 73 one L3 x2556"]);
}

#[test]
fn every_pair_is_listed_once() {
    let topology = model("ryzen5-2600");
    let all = all_pairs(&topology);
    assert_eq!(all.len(), 66);
    assert!(all.iter().all(|pair| pair.alike == 1 && pair.a != pair.b));
    let mut sorted: Vec<[CpuId; 2]> = all.iter().map(|pair| [pair.a.min(pair.b), pair.a.max(pair.b)]).collect();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), 66);
}

#[test]
fn groups_have_one_home_and_one_kind() {
    let found = |name: &str| -> Vec<String> {
        let text = |group: &model::placements::measured_map::CpuGroup| {
            format!("{} ({} cores) of {:?}", group.cpus, group.firsts.len(), group.home.map(|home| home.0))
        };
        groups(&model(name)).iter().map(text).collect()
    };
    assert_eq!(found("rk3399"), ["0-3 (4 cores) of Some(0)", "4-5 (2 cores) of Some(0)"]);
    assert_eq!(found("grace-cxl"), ["0-71 (72 cores) of Some(0)", "72-143 (72 cores) of Some(1)"]);
    assert_eq!(found("rpi5-numafake8"), ["0-3 (4 cores) of Some(0)"]);
}
