//! A measured map distinguishes CPUs that the topology treats as equivalent, but only those.

mod machines;

use machines::model;
use model::placements::candidates::{SearchSpace, Threads, candidates, pairs_keep};
use model::placements::measured_map::{CorePair, MeasuredMap, MeasuredValue, MemoryPath, NodeDistance};
use model::placements::placement::{self, KernelFeatures};
use model::values::id_set::{CpuId, CpuSet, NodeId};
use model::values::topology::Topology;

fn ns(median: f64) -> MeasuredValue {
    MeasuredValue { unit: "ns".into(), median, ci_low: None, ci_high: None, samples: vec![median], suspect: 0 }
}

/// Every pair of CPUs with its latency.
fn all_pairs(topology: &Topology, latency: impl Fn(u32, u32) -> f64) -> MeasuredMap {
    let pair = |pair: model::placements::candidates::CpuPair| CorePair {
        a: pair.a,
        b: pair.b,
        relation: String::new(),
        op: "store".into(),
        alike: 1,
        home: None,
        latency: ns(latency(pair.a.0.min(pair.b.0), pair.a.0.max(pair.b.0))),
    };
    let core_to_core = model::placements::candidates::all_pairs(topology).into_iter().map(pair).collect();
    MeasuredMap { core_to_core, ..MeasuredMap::default() }
}

/// Latencies of a regular Ryzen 5 2600: CPUs c and c + 6 are one core, cores 0 to 2 and 3 to 5 have one L3 each.
fn ryzen_latency(a: u32, b: u32) -> f64 {
    match (a % 6 == b % 6, a % 6 / 3 == b % 6 / 3) {
        (true, _) => 10.0,
        (_, true) => 25.0,
        _ => 70.0,
    }
}

fn classes(topology: &Topology, map: &MeasuredMap) -> Vec<String> {
    map.apply_to(topology).classes.iter().map(ToString::to_string).collect()
}

fn offered(topology: &Topology, measured: Vec<CpuSet>, threads: usize) -> Vec<String> {
    let space = SearchSpace { threads: Threads::Fixed(threads), measured, ..SearchSpace::default() };
    candidates(topology, &space)
        .expect("the search space is valid")
        .placements
        .into_iter()
        .map(|placement| placement.cpus().to_string())
        .collect()
}

/// Returns the names with a single CPU.
fn single(offered: Vec<String>) -> Vec<String> {
    offered.into_iter().filter(|cpus| cpus.parse::<u32>().is_ok()).collect()
}

#[test]
fn regular_latencies_distinguish_nothing() {
    let ryzen = model("ryzen5-2600");
    assert_eq!(classes(&ryzen, &all_pairs(&ryzen, ryzen_latency)), [""; 0]);
    let noisy = |a, b| ryzen_latency(a, b) * (1.0 + 0.003 * f64::from((7 * a + b) % 10));
    assert_eq!(classes(&ryzen, &all_pairs(&ryzen, noisy)), [""; 0]);
}

#[test]
fn slow_core_and_cpus_that_differ_because_of_it_are_distinguished() {
    let ryzen = model("ryzen5-2600");
    let slow = |a, b| ryzen_latency(a, b) * if [1, 7].contains(&a) || [1, 7].contains(&b) { 1.5 } else { 1.0 };
    let mut found = classes(&ryzen, &all_pairs(&ryzen, slow));
    found.sort();
    assert_eq!(found, ["0,2,6,8", "1,7", "3-5,9-11"]);
    let measured = all_pairs(&ryzen, slow).apply_to(&ryzen).classes;
    assert!(pairs_keep(&ryzen, &measured, |a, b| slow(a.0.min(b.0), a.0.max(b.0)).to_bits()));
    // With one thread, one core represents all others; the measurement results in one per class.
    assert_eq!(single(offered(&ryzen, Vec::new(), 1)), ["0"]);
    assert_eq!(single(offered(&ryzen, measured, 1)), ["0", "1", "3"]);
}

#[test]
fn unequal_pairs_of_equivalent_cpus_are_distinguished() {
    // Two unreported clusters of four cores share an L3: all cores have equal sets of latencies, but pairs differ.
    let mut xeon = model("xeon-e5-2640-x2");
    xeon.distances.clear();
    let half = |cpu: u32| cpu % 4 / 2;
    let first_of = |cpus: CpuSet| cpus.first().unwrap();
    let firsts: Vec<CpuId> = xeon.cores().into_iter().map(first_of).collect();
    assert!(firsts.len() >= 8, "{firsts:?}");
    let value = |a: u32, b: u32| if half(a) == half(b) { 20.0 } else { 40.0 };
    let map = all_pairs(&xeon, value);
    let measured = map.apply_to(&xeon).classes;
    assert!(measured.len() > 1);
    assert!(pairs_keep(&xeon, &measured, |a, b| value(a.0, b.0).to_bits()), "{measured:?}");
    assert!(!pairs_keep(&xeon, &[], |a, b| value(a.0, b.0).to_bits()));
}

#[test]
fn pair_that_represents_others_distinguishes_nothing() {
    let ryzen = model("ryzen5-2600");
    let mut map = all_pairs(&ryzen, |a, b| if a == 0 { 500.0 } else { ryzen_latency(a, b) });
    assert!(!map.apply_to(&ryzen).classes.is_empty());
    map.core_to_core.pop();
    assert_eq!(classes(&ryzen, &map), [""; 0]);
}

/// Latencies between two nodes; `local` is from each node to itself, `far` from node 0 to node 1.
fn two_nodes(topology: &Topology, local: [f64; 2], far: f64) -> MeasuredMap {
    let latency = [[local[0], far], [140.0, local[1]]];
    let ends = (0..2).flat_map(|from| (0..2).map(move |to| (from, to)));
    let hop = |(from, to): (usize, usize)| NodeDistance {
        from: NodeId(from as u32),
        to: NodeId(to as u32),
        distance: 0,
        latency_ns: latency[from][to],
        bandwidth_mb_s: None,
    };
    let path = |(from, to): (usize, usize)| MemoryPath {
        cpus: topology.nodes[from].cpus.clone(),
        node: NodeId(to as u32),
        local: from == to,
        distance: None,
        latency: Some(ns(latency[from][to])),
        bandwidth: Vec::new(),
    };
    MeasuredMap {
        node_distances: ends.clone().map(hop).collect(),
        memory: ends.map(path).collect(),
        ..MeasuredMap::default()
    }
}

#[test]
fn node_with_slower_memory_is_distinguished() {
    let xeon = model("xeon-e5-2640-x2");
    let count = |map: &MeasuredMap| offered(&map.apply_to(&xeon).topology, Vec::new(), 1).len();
    let reported = offered(&xeon, Vec::new(), 1).len();
    assert_eq!(count(&two_nodes(&xeon, [80.0, 82.0], 150.0)), reported, "noise distinguishes nothing");
    let attributes = two_nodes(&xeon, [80.0, 82.0], 150.0).apply_to(&xeon).topology.memory_attributes;
    let latencies = attributes.iter().filter(|one| one.attr == "Latency").map(|one| one.value);
    assert_eq!(latencies.collect::<Vec<_>>(), [80, 150, 140, 82], "measured latencies replace reported ones");
    let slower = count(&two_nodes(&xeon, [80.0, 110.0], 138.0));
    assert!(slower > reported, "{slower} and {reported}");
}

#[test]
fn policies_use_measured_distances() {
    let xeon = model("xeon-e5-2640-x2");
    let reason = |topology: &Topology| {
        placement::parse(topology, "memory-remote", Some(1), KernelFeatures::default()).unwrap().reason
    };
    let applied = two_nodes(&xeon, [80.0, 82.0], 138.0).apply_to(&xeon).topology;
    assert!(reason(&xeon).contains("distance 20 instead of 10"), "{}", reason(&xeon));
    assert!(reason(&applied).contains("measured distance 17 instead of 10"), "{}", reason(&applied));
    // If a latency is missing, the reported distances are kept: mixing both would give wrong ratios.
    let mut half = two_nodes(&xeon, [80.0, 82.0], 138.0);
    half.node_distances.clear();
    half.memory.clear();
    assert_eq!(half.apply_to(&xeon).topology, xeon);
}
