//! Locations of CPUs in hwloc's notation mean the same CPUs as in hwloc-calc. Skipped if hwloc-calc is missing.

use std::process::Command;

use machine::topology::TopologySource;
use model::placements::placement::{KernelFeatures, parse};
use model::values::id_set::{CpuId, CpuSet};

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models");
const FEATURES: KernelFeatures = KernelFeatures { weighted_interleave: false, far: false };

const LOCATIONS: [&str; 19] = [
    "package:0",
    "package:1.core:1",
    "socket:0.core:2-",
    "machine:0.core:0",
    "numanode:0",
    "numa:1.pu:0",
    "node:0.core:0.pu:0",
    "l3:1.core:0-1",
    "L3Cache:0.core:odd",
    "l2:0",
    "l1d:3.pu:0",
    "core:even.pu:0",
    "core:0-3.pu:1",
    "core:1:2",
    "core:99",
    "pu:3",
    "pu:all",
    "die:0",
    "core:1.package:0",
];

/// Returns the CPUs that hwloc-calc prints; `None` if it finds no such object.
fn calculated(model: &str, location: &str) -> Option<CpuSet> {
    let args = ["--input", model, "--physical-output", "--intersect", "pu", location];
    let output = Command::new("hwloc-calc").args(args).output().expect("hwloc-calc starts");
    let text = String::from_utf8(output.stdout).expect("hwloc-calc prints numbers");
    let cpus: CpuSet = text.trim().split(',').filter_map(|cpu| cpu.parse().ok()).map(CpuId).collect();
    (!cpus.is_empty()).then_some(cpus)
}

fn is_within_node(location: &str) -> bool {
    location.starts_with('n') && location.contains('.')
}

#[test]
fn locations_mean_the_same_as_in_hwloc_calc() {
    if let Err(error) = Command::new("hwloc-calc").arg("--version").output() {
        println!("skipped: locations_mean_the_same_as_in_hwloc_calc: hwloc-calc: {error}");
        return;
    }
    let mut found = 0;
    for entry in std::fs::read_dir(MODELS).expect("the models exist") {
        let path = entry.expect("the directory is readable").path();
        if path.extension().is_none_or(|extension| extension != "xml") {
            continue;
        }
        let model = path.to_str().expect("a UTF-8 path");
        let machine = machine::topology::read(&TopologySource::XmlFile(path.clone())).expect("the model is valid");
        for location in LOCATIONS {
            let placement = parse(&machine, &format!("-C {location}"), None, FEATURES);
            let expected = calculated(model, location);
            found += usize::from(expected.is_some());
            if expected.is_none() && is_within_node(location) {
                // hwloc also compares sets of nodes: a core of two memory nodes (DRAM and CXL) is within neither.
                continue;
            }
            let cpus = placement.as_ref().ok().map(model::values::placement::Placement::cpus);
            assert_eq!(cpus, expected, "{location} in {model}: {placement:?}");
        }
    }
    assert!(found > LOCATIONS.len(), "hwloc-calc finds {found} locations");
}
