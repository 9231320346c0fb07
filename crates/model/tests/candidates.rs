//! Candidates of `nearfar place` on model machines: counts published with the algorithm, limits, names that are parsed
//! to the same placement, and duration on the largest machine.

mod machines;

use std::collections::BTreeSet;
use std::fmt::Write;

use machines::{MODELS, model};
use model::placements::candidates::{Candidates, Count, SearchSpace, Threads, candidates, neighbours};
use model::placements::placement::{KernelFeatures, parse, same_place};
use model::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use model::values::placement::{MemoryPolicy, Placement};
use model::values::plan::MemoryChoice;
use model::values::topology::{
    Cache, CpuKind, Device, DeviceKind, Distances, Interrupt, MemoryNode, Movability, Object, ObjectKind, Topology,
};
use model::values::units::Bytes;
use proptest::prelude::*;

const WEIGHTS: KernelFeatures = KernelFeatures { weighted_interleave: true, far: true };

/// A level of a regular machine: kind of its objects, number per parent object, whether each has a memory node.
struct Level(ObjectKind, u32, bool);

const L3: ObjectKind = ObjectKind::Cache;

/// Builds a machine whose parts on one level are all equivalent; hardware threads are numbered consecutively.
fn regular(levels: &[Level], distances: impl Fn(u32, u32) -> u64) -> Topology {
    let mut topology = Topology::default();
    let root = add(&mut topology, ObjectKind::Machine, None);
    fill(&mut topology, root, levels);
    let nodes: Vec<NodeId> = topology.nodes.iter().map(|node| node.os).collect();
    let values = nodes.iter().flat_map(|from| nodes.iter().map(|to| distances(from.0, to.0))).collect();
    topology.distances = vec![Distances { name: Some("NUMALatency".into()), nodes, values }];
    topology.allowed_cpus = topology.objects[0].cpus.clone();
    topology.complete_cpus = topology.allowed_cpus.clone();
    topology.allowed_nodes = topology.nodes.iter().map(|node| node.os).collect();
    topology
}

fn fill(topology: &mut Topology, parent: usize, levels: &[Level]) {
    let Some((Level(kind, count, has_node), below)) = levels.split_first() else {
        let cpu = CpuId(topology.objects[0].cpus.len() as u32);
        topology.objects[parent].os_index = Some(cpu.0);
        let mut above = Some(parent);
        while let Some(object) = above {
            topology.objects[object].cpus.insert(cpu);
            above = topology.objects[object].parent;
        }
        return;
    };
    for _ in 0..*count {
        let object = add(topology, *kind, Some(parent));
        if *kind == L3 {
            topology.objects[object].cache = Some(Cache { level: 3, bytes: Bytes(8 << 20), line_bytes: 64 });
        }
        if *has_node {
            topology.objects[object].memory.push(topology.nodes.len());
            let os = NodeId(topology.nodes.len() as u32);
            topology.nodes.push(MemoryNode { os, cpus: CpuSet::new(), bytes: Bytes(1 << 30), subtype: None });
        }
        fill(topology, object, below);
        if let [node] = topology.objects[object].memory[..] {
            topology.nodes[node].cpus = topology.objects[object].cpus.clone();
        }
    }
}

fn add(topology: &mut Topology, kind: ObjectKind, parent: Option<usize>) -> usize {
    let index = topology.objects.len();
    let (cpus, children, memory) = (CpuSet::new(), Vec::new(), Vec::new());
    topology.objects.push(Object { kind, os_index: None, cpus, parent, children, memory, cache: None, subtype: None });
    if let Some(parent) = parent {
        topology.objects[parent].children.push(index);
    }
    index
}

/// Two packages with four nodes of two L3s of three cores, like an EPYC 7401 in NPS4 mode.
fn epyc() -> Topology {
    use ObjectKind::{Core, Group, Package, Pu};
    let levels = [
        Level(Package, 2, false),
        Level(Group, 4, true),
        Level(L3, 2, false),
        Level(Core, 3, false),
        Level(Pu, 2, false),
    ];
    regular(&levels, |from, to| {
        if from == to {
            10
        } else if from / 4 == to / 4 {
            16
        } else {
            32
        }
    })
}

/// 32 sockets in 8 boards of 2 pairs, 1152 CPUs.
fn large() -> Topology {
    use ObjectKind::{Core, Group, Package, Pu};
    let levels = [
        Level(Group, 8, false),
        Level(Group, 2, false),
        Level(Package, 2, true),
        Level(L3, 1, false),
        Level(Core, 18, false),
        Level(Pu, 2, false),
    ];
    regular(&levels, |from, to| match () {
        () if from == to => 10,
        () if from / 2 == to / 2 => 16,
        () if from / 4 == to / 4 => 18,
        () => 25,
    })
}

/// Six fast cores with two hardware threads, and eight efficient ones with one L2 per four, like a Core i7-1370P.
fn hybrid() -> Topology {
    let mut topology = Topology::default();
    let root = add(&mut topology, ObjectKind::Machine, None);
    let l3 = add(&mut topology, ObjectKind::Cache, Some(root));
    topology.objects[l3].cache = Some(Cache { level: 3, bytes: Bytes(24 << 20), line_bytes: 64 });
    for (caches, cores, threads) in [(6, 1, 2), (2, 4, 1)] {
        for _ in 0..caches {
            let l2 = add(&mut topology, ObjectKind::Cache, Some(l3));
            topology.objects[l2].cache = Some(Cache { level: 2, bytes: Bytes(2 << 20), line_bytes: 64 });
            fill(&mut topology, l2, &[Level(ObjectKind::Core, cores, false), Level(ObjectKind::Pu, threads, false)]);
        }
    }
    topology.objects[root].memory.push(0);
    topology.allowed_cpus = topology.objects[root].cpus.clone();
    topology.complete_cpus = topology.allowed_cpus.clone();
    let cpus = topology.allowed_cpus.clone();
    topology.nodes.push(MemoryNode { os: NodeId(0), cpus, bytes: Bytes(1 << 34), subtype: None });
    topology.allowed_nodes.insert(NodeId(0));
    topology.cpu_kinds = [("12-19", 0), ("0-11", 1)]
        .map(|(cpus, efficiency)| CpuKind {
            cpus: CpuSet::parse_list(cpus).expect("a list"),
            efficiency,
            capacity: None,
            info: Vec::new(),
        })
        .to_vec();
    topology
}

fn two_cpus() -> Topology {
    regular(
        &[Level(ObjectKind::Package, 1, true), Level(ObjectKind::Core, 2, false), Level(ObjectKind::Pu, 1, false)],
        |_, _| 10,
    )
}

fn fixed(threads: usize) -> SearchSpace {
    SearchSpace { threads: Threads::Fixed(threads), ..SearchSpace::default() }
}

fn step(all: &Candidates, name: &str) -> String {
    let step = all.steps.iter().find(|step| step.name == name).and_then(|step| step.count);
    step.map(|count: Count| count.to_string()).unwrap_or_default()
}

/// The complete table of the published prototype.
#[test]
fn candidate_counts_match_the_published_ones() {
    // Threads, then raw, classes, with memory, family, first stage.
    let ryzen = "1: 12 1 1 1 1|2: 66 3 3 3 3|4: 495 7 7 7 3|6: 924 9 9 9 3|12: 1 1 1 1 1";
    let core_i7 =
        "1: 20 2 2 2 2|2: 190 5 5 5 5|4: 4845 14 14 14 6|6: 38760 27 27 27 5|16: 4845 14 14 14 4|20: 1 1 1 1 1";
    let two_epycs = "1: 1056 1 6 6 2|2: 50160 5 29 31 12|4: 3.7e7 39 256 261 21|6: 1.0e10 245 1781 112 30|\
        16: 7.3e18 382506 3.5e6 68 27|32: 3.3e26 4.8e8 5.0e9 37 18|96: 11 1 4 4 2";
    let sockets = "1: 40320 1 7 6 2|2: 2.3e7 5 33 32 13|4: 2.6e12 40 322 271 22|6: 1.1e17 278 2651 124 25|\
        16: 1.4e37 2.0e6 3.0e7 166 34|32: 8.0e63 4.9e11 1.1e13 182 40|1152: 35 1 4 4 2";
    let machines = [(model("ryzen5-2600"), ryzen), (hybrid(), core_i7), (epyc(), two_epycs), (large(), sockets)];
    for (machine, table) in machines {
        for row in table.split('|') {
            let (threads, expected) = row.split_once(": ").unwrap();
            let all = candidates(&machine, &fixed(threads.parse().unwrap())).unwrap();
            let with_memory = if step(&all, "with memory").is_empty() { "classes" } else { "with memory" };
            let names = ["raw", "classes", with_memory, "family", "first stage"];
            let counts: Vec<String> = names.iter().map(|name| step(&all, name)).collect();
            assert_eq!(counts.join(" "), expected, "{threads} threads of {}", machine.summary());
        }
    }
}

/// All steps and candidates as text.
fn table(all: &Candidates) -> String {
    let mut text = String::new();
    for step in &all.steps {
        let count = step.count.map(|count| count.to_string()).unwrap_or_default();
        writeln!(text, "{:12} {count:>8} {}", step.name, step.text).expect("text grows");
    }
    for (index, placement) in all.placements.iter().enumerate() {
        let stage = if all.stages.first[index] { 1 } else { 2 };
        let Placement { name, reason, threads, server_cpus: second, .. } = placement;
        let second = if second.is_empty() { String::new() } else { format!(" | {second}") };
        writeln!(text, "{stage} {threads:3} {name}: {reason}{second}").expect("text grows");
    }
    text
}

#[test]
fn candidate_tables_match_snapshots() {
    let second = |threads| SearchSpace { threads, second: true, ..SearchSpace::default() };
    let cases = [
        ("ryzen-natural", model("ryzen5-2600"), SearchSpace::default()),
        ("ryzen-4", model("ryzen5-2600"), fixed(4)),
        ("ryzen-free", model("ryzen5-2600"), SearchSpace { threads: Threads::Searched, ..SearchSpace::default() }),
        ("ryzen-second", model("ryzen5-2600"), second(Threads::Unspecified)),
        ("xeon-natural", model("xeon-e5-2640-x2"), SearchSpace::default()),
        ("xeon-second-2", model("xeon-e5-2640-x2"), second(Threads::Fixed(2))),
        ("rk3399-natural", model("rk3399"), SearchSpace::default()),
        ("rk3399-2", model("rk3399"), fixed(2)),
        ("rk3399-4", model("rk3399"), fixed(4)),
        ("rpi5-2", model("rpi5-numafake8"), fixed(2)),
        ("grace-cxl-2", model("grace-cxl"), SearchSpace { kernel: WEIGHTS, ..fixed(2) }),
        ("hybrid-natural", hybrid(), SearchSpace::default()),
        ("two-cpus-natural", two_cpus(), SearchSpace::default()),
        ("two-cpus-second", two_cpus(), second(Threads::Unspecified)),
        ("two-cpus-oversubscribed", two_cpus(), fixed(5)),
    ];
    for (name, machine, space) in cases {
        insta::assert_snapshot!(name, table(&candidates(&machine, &space).unwrap()));
    }
}

/// A server with much memory on two sockets is often fastest with interleaved memory, or all of it on its node.
#[test]
fn memory_policies_of_a_server_are_candidates() {
    let nodes = |list| NodeSet::parse_list(list).unwrap();
    let space = SearchSpace { second: true, ..SearchSpace::default() };
    let all = candidates(&model("xeon-e5-2640-x2"), &space).unwrap().placements;
    let first_node = |placement: &&Placement| placement.server_cpus.to_string() == "0-5,12-17";
    let policies: BTreeSet<String> = all.iter().filter(first_node).map(|one| one.memory.to_string()).collect();
    let expected = [MemoryPolicy::Kernel, MemoryPolicy::Interleave(nodes("0-1")), MemoryPolicy::Bind(nodes("0"))];
    assert_eq!(policies, expected.iter().map(ToString::to_string).collect(), "of a server on node 0");
    let bound = all.iter().find(|one| one.memory == expected[2] && first_node(one)).expect("it is among them");
    assert!(bound.reason.ends_with("; both: memory only on node 0"), "{}", bound.reason);
    let excluded = SearchSpace { exclude: vec!["interleave".into()], ..space };
    let all = candidates(&model("xeon-e5-2640-x2"), &excluded).unwrap().placements;
    assert!(all.iter().all(|one| one.memory != expected[1]) && all.iter().any(|one| one.memory == expected[2]));
    let one_node = SearchSpace { exclude: Vec::new(), ..excluded };
    let all = candidates(&two_cpus(), &one_node).unwrap().placements;
    assert!(all.iter().all(|one| one.memory == MemoryPolicy::Kernel), "all policies equal the kernel's");
}

#[test]
fn load_cpus_bind_the_load_in_every_candidate() {
    let space = |load: &str| SearchSpace { second: true, load_cpus: Some(load.to_string()), ..SearchSpace::default() };
    let ryzen = model("ryzen5-2600");
    let all = candidates(&ryzen, &space("package:0.core:1")).unwrap().placements;
    assert!(all.iter().all(|one| one.cpus().to_string() == "1,7"), "{all:?}");
    let servers: Vec<String> = all.iter().map(|one| one.server_cpus.to_string()).collect();
    assert_eq!(servers, ["", "1,7", "0,2,6,8", "0,2-6,8-11"]);
    assert_eq!((all[0].name.as_str(), all[0].threads), ("kernel", 2));
    let threads = SearchSpace { threads: Threads::Fixed(3), ..space("4") };
    let bindings = candidates(&ryzen, &threads).unwrap().placements[0].bindings.clone();
    assert_eq!(bindings, [CpuId(4); 3], "threads share the CPU");
    let everywhere = candidates(&ryzen, &space("0-11")).unwrap();
    let searched = candidates(&ryzen, &SearchSpace { load_cpus: None, ..space("0") }).unwrap();
    assert_eq!(everywhere.placements, searched.placements, "all CPUs do not limit the load");
    let error = |space: &SearchSpace| candidates(&ryzen, space).unwrap_err();
    assert!(error(&space("12")).starts_with("--load-cpus: CPU 12 does not exist"));
    let within = SearchSpace { within: Some("0-3".into()), ..space("4") };
    assert_eq!(error(&within), "--load-cpus: -C or --exclude excludes CPU 4");
    let few = SearchSpace { cpus_max: Some(1), ..space("0-1") };
    assert_eq!(error(&few), "--load-cpus: 2 CPUs are more than --max-cpus 1");
}

/// Checks that names are parsed to their placement, all CPUs are allowed, and no placement occurs twice.
fn check_promises(machine: &Topology, space: &SearchSpace) -> Result<(), TestCaseError> {
    let Ok(all) = candidates(machine, space) else { return Ok(()) };
    prop_assert_eq!(&all.placements[0], &Placement::kernel(all.placements[0].threads));
    prop_assert!(all.stages.first[0]);
    prop_assert_eq!(all.placements.len(), all.stages.first.len());
    prop_assert_eq!(all.placements.len(), all.stages.shape.len());
    prop_assert_eq!(all.placements.len(), all.stages.policy.len());
    prop_assert_eq!(step(&all, "offered"), Count::new(all.placements.len()).to_string());
    let mut places = Vec::new();
    for placement in &all.placements {
        let given = (space.threads != Threads::Unspecified).then_some(placement.threads);
        let mut parsed = parse(machine, &placement.name, given, space.kernel)
            .map_err(|error| TestCaseError::fail(format!("{}: {error}", placement.name)))?;
        parsed.server_cpus = placement.server_cpus.clone();
        prop_assert!(same_place(machine, placement, &parsed), "{:?} leads to {:?}", placement, parsed);
        prop_assert!(placement.cpus().is_subset(&machine.allowed_cpus));
        prop_assert!(placement.server_cpus.is_subset(&machine.allowed_cpus));
        let nodes = placement.memory.promised_nodes().cloned().unwrap_or_default();
        prop_assert!(nodes.is_subset(&machine.allowed_nodes));
        prop_assert!(!placement.reason.is_empty() && !placement.reason.contains("  "), "{}", placement.reason);
        if let Threads::Fixed(threads) = space.threads {
            prop_assert_eq!(placement.threads, threads);
        }
        prop_assert!(placement.bindings.is_empty() || placement.bindings.len() >= placement.threads);
        places.push((
            placement.threads,
            placement.bindings.clone(),
            placement.memory.to_string(),
            placement.server_cpus.clone(),
        ));
    }
    let offered = places.len();
    places.sort();
    places.dedup();
    prop_assert_eq!(places.len(), offered, "duplicate placement");
    Ok(())
}

fn machines() -> Vec<Topology> {
    MODELS.iter().map(|(name, _)| model(name)).chain([epyc(), hybrid(), two_cpus()]).collect()
}

#[test]
fn candidate_names_are_parsed_to_their_placement_on_every_model() {
    for machine in machines() {
        for threads in
            [Threads::Unspecified, Threads::Searched, Threads::Fixed(1), Threads::Fixed(2), Threads::Fixed(6)]
        {
            for second in [false, true] {
                check_promises(&machine, &SearchSpace { threads, second, kernel: WEIGHTS, ..SearchSpace::default() })
                    .unwrap();
            }
        }
    }
    check_promises(&large(), &SearchSpace { threads: Threads::Fixed(6), ..SearchSpace::default() }).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// On any part of a machine, restricted for the process or by the user.
    #[test]
    fn candidates_respect_all_limits(
        machine in 0..machines().len(),
        threads in prop_oneof![Just(Threads::Unspecified), Just(Threads::Searched), (1usize..30).prop_map(Threads::Fixed)],
        hidden in proptest::collection::btree_set(0u32..24, 0..14),
        forbidden in proptest::collection::btree_set(0u32..24, 0..14),
        hidden_node in proptest::option::of(0u32..3),
        cpus_max in proptest::option::of(1usize..20),
        second in any::<bool>(),
        exclude in proptest::option::of(proptest::sample::select(vec!["compact", "interleave", "memory-remote", "node:1"])),
    ) {
        let mut machine = machines()[machine].clone();
        let hidden: CpuSet = hidden.into_iter().map(CpuId).collect();
        let hidden_node: NodeSet = hidden_node.into_iter().map(NodeId).collect();
        machine.allowed_cpus = machine.allowed_cpus.difference(&hidden);
        machine.allowed_nodes = machine.allowed_nodes.difference(&hidden_node);
        let forbidden: CpuSet = forbidden.into_iter().map(CpuId).collect();
        let within = Some(machine.allowed_cpus.difference(&forbidden)).filter(|cpus| !cpus.is_empty());
        let exclude: Vec<String> = exclude.into_iter().map(String::from).collect();
        let space = SearchSpace { threads, cpus_max, within: within.as_ref().map(ToString::to_string), exclude, second, kernel: WEIGHTS, ..SearchSpace::default() };
        check_promises(&machine, &space)?;
        let limited = (space.exclude.iter().any(|name| name == "node:1") && machine.allowed_nodes.contains(NodeId(1)))
            || within.as_ref().is_some_and(|cpus| *cpus != machine.allowed_cpus)
            || cpus_max.is_some_and(|most| most < machine.allowed_cpus.len());
        if let Ok(all) = candidates(&machine, &space) {
            for placement in &all.placements[1..] {
                // With limits, the kernel must not choose.
                prop_assert!(!limited || placement.is_pinned(), "{:?}", placement);
                prop_assert!(!limited || !second || !placement.server_cpus.is_empty(), "{:?}", placement);
                prop_assert!(placement.cpus().is_subset(within.as_ref().unwrap_or(&machine.allowed_cpus)));
                prop_assert!(placement.cpus().len() <= cpus_max.unwrap_or(usize::MAX));
            }
        }
    }
}

fn names(machine: &Topology, space: &SearchSpace) -> Vec<String> {
    candidates(machine, space)
        .expect("the search space is valid")
        .placements
        .into_iter()
        .map(|placement| placement.name)
        .collect()
}

#[test]
fn candidate_limits_are_applied() {
    let xeon = model("xeon-e5-2640-x2");
    let only = |names: &[&str]| SearchSpace { only: names.iter().map(|name| (*name).into()).collect(), ..fixed(4) };
    let exclude =
        |names: &[&str]| SearchSpace { exclude: names.iter().map(|name| (*name).into()).collect(), ..fixed(4) };
    let offered = |space: &SearchSpace| candidates(&xeon, space).unwrap();
    assert_eq!(names(&xeon, &only(&["compact", "spread+interleave"])), ["kernel", "compact", "spread+interleave"]);
    assert_eq!(names(&xeon, &only(&["compact", "cores-one-l3", "big"])), ["kernel", "compact"]);
    assert_eq!(names(&xeon, &only(&["kernel"])), ["kernel"]);
    let pairs = offered(&SearchSpace { second: true, ..only(&["compact"]) });
    let seconds: Vec<String> =
        pairs.placements.iter().skip(1).map(|placement| placement.server_cpus.to_string()).collect();
    assert!(pairs.placements.iter().skip(1).all(|placement| placement.name == "compact"));
    assert_eq!(seconds, ["", "0-3", "12-15", "4-5,16-17", "6-11,18-23", "4-23"]);
    let spread = |placement: &Placement| placement.cpus().to_string() == "0-1,6-7";
    assert!(offered(&fixed(4)).placements.iter().any(spread));
    assert!(!offered(&exclude(&["spread"])).placements.iter().any(spread));
    let without = offered(&exclude(&["interleave", "memory-remote"]));
    assert!(
        without
            .stages
            .policy
            .iter()
            .all(|choice| matches!(choice, MemoryChoice::Kernel | MemoryChoice::Local | MemoryChoice::Own))
    );
    let half = CpuSet::parse_list("6-11,18-23").unwrap();
    for space in
        [exclude(&["node:0"]), exclude(&["0-5,12-17"]), SearchSpace { within: Some(half.to_string()), ..fixed(4) }]
    {
        let all = offered(&space);
        assert!(all.placements.len() > 5);
        assert!(
            all.placements[1..]
                .iter()
                .all(|placement| !placement.bindings.is_empty() && placement.cpus().is_subset(&half))
        );
    }
    let bound_to_0 = |all: Candidates| all.placements.iter().any(|placement| placement.memory.to_string() == "bind 0");
    assert!(bound_to_0(offered(&exclude(&["0-5,12-17"]))) && !bound_to_0(offered(&exclude(&["node:0"]))));
    // With numa=fake, all CPUs belong to the first node.
    let fake = candidates(&model("rpi5-numafake8"), &exclude(&["node:1"])).unwrap();
    assert!(fake.placements.iter().any(|placement| placement.memory.to_string() == "interleave 0,2-7"));
    let few = offered(&SearchSpace { cpus_max: Some(2), ..SearchSpace::default() });
    assert!(
        few.placements.len() > 2
            && few.placements[1..].iter().all(|placement| (1..=2).contains(&placement.cpus().len()))
    );
    // Four threads on two CPUs share them.
    let sharing = offered(&SearchSpace { cpus_max: Some(2), ..fixed(4) });
    assert!(sharing.placements.len() > 1);
    assert!(
        sharing.placements[1..].iter().all(|placement| placement.bindings.len() == 4 && placement.cpus().len() <= 2)
    );
}

#[test]
fn invalid_search_spaces_return_the_valid_choices() {
    let xeon = model("xeon-e5-2640-x2");
    let only = |name: &str| SearchSpace { only: vec![name.into()], ..fixed(4) };
    let exclude = |name: &str| SearchSpace { exclude: vec![name.into()], ..fixed(4) };
    let cases = [
        (fixed(0), "the number of threads must be at least 1"),
        (SearchSpace { cpus_max: Some(0), ..fixed(4) }, "--max-cpus must be at least 1"),
        (
            SearchSpace { within: Some("20-40".into()), ..fixed(4) },
            "-C: CPU 24-40 does not exist; this machine has 0-23",
        ),
        (SearchSpace { within: Some(String::new()), ..fixed(4) }, "-C requires a list of CPUs such as 0-3"),
        (only("compat"), "--only: unknown placement 'compat'; valid names: compact, "),
        (
            only("big"),
            "--only leaves no placement except kernel: big: all cores that this process may use are of one kind",
        ),
        (
            SearchSpace { kernel: WEIGHTS, ..only("one-core+far") },
            "--only leaves no placement except kernel: one-core+far: only built-in workloads with arrays support it; hint: nearfar expand",
        ),
        (exclude("compat"), "--exclude: unknown placement 'compat'; valid names: compact, "),
        (exclude("kernel"), "--exclude: kernel is the baseline and cannot be excluded"),
        (exclude("node:7"), "--exclude: memory node 7 does not exist; this machine has 0-1"),
        (exclude("0-23"), "the limits exclude all CPUs; this process may use CPUs 0-23"),
        (exclude("0-99"), "--exclude: CPU 24-99 does not exist; this machine has 0-23"),
        (exclude("0-"), "--exclude: '0-' in '0-' is not a CPU"),
        (exclude("-C 0"), "--exclude takes a policy (one-core, compact, "),
        (exclude("compact+interleave"), "--exclude takes a policy (one-core, compact, "),
    ];
    for (space, expected) in cases {
        let error = candidates(&xeon, &space).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    assert_eq!(
        candidates(&Topology::default(), &fixed(1)),
        Err("the limits exclude all CPUs; this process may use CPUs ".into())
    );
}

/// Opteron 6134: four packages with two nodes, linked so that the nodes of a package are not equivalent.
#[test]
fn distances_that_break_the_tree_are_respected() {
    use ObjectKind::{Core, Group, Package, Pu};
    let levels = [Level(Package, 4, false), Level(Group, 2, true), Level(Core, 4, false), Level(Pu, 1, false)];
    // The even nodes of all packages are linked directly, and so are the odd ones.
    let opteron = |from: u32, to: u32| match () {
        () if from == to => 10,
        () if from / 2 == to / 2 || from % 2 == to % 2 => 16,
        () => 22,
    };
    let symmetric = |from: u32, to: u32| {
        if from == to {
            10
        } else if from / 2 == to / 2 {
            16
        } else {
            22
        }
    };
    let classes = |machine: &Topology| candidates(machine, &fixed(2)).unwrap().classes.as_f64();
    // On one node, on one package, on two packages.
    assert!((classes(&regular(&levels, symmetric)) - 3.0).abs() < 0.5);
    // On two packages, the nodes may or may not be linked directly.
    let machine = regular(&levels, opteron);
    assert!((classes(&machine) - 4.0).abs() < 0.5);
    let all = candidates(&machine, &fixed(2)).unwrap();
    let cpus: Vec<String> = all.placements.iter().map(|placement| placement.cpus().to_string()).collect();
    let on = |list: &&str| cpus.iter().any(|cpus| cpus == list);
    assert!(["0-1", "0,4", "0,8", "0,12"].iter().all(on), "{cpus:?}");
    let texts: Vec<&str> = all.steps.iter().map(|step| step.text.as_str()).collect();
    assert!(texts.iter().any(|text| text.contains("break the symmetry of the tree")), "{texts:?}");
}

#[test]
fn memory_nodes_without_cpus_are_used() {
    let grace = model("grace-cxl-nohmat");
    for threads in [Threads::Unspecified, Threads::Fixed(2), Threads::Searched] {
        let all = candidates(&grace, &SearchSpace { threads, ..SearchSpace::default() }).unwrap();
        let bound: Vec<String> = all.placements.iter().map(|placement| placement.memory.to_string()).collect();
        assert!(
            ["bind 0", "bind 1", "bind 2", "interleave 0-1", "interleave 0-2"]
                .iter()
                .all(|text| bound.contains(&text.to_string())),
            "{threads:?}"
        );
    }
    let ryzen = candidates(&model("ryzen5-2600"), &fixed(2)).unwrap();
    assert!(ryzen.placements.iter().all(|placement| placement.memory == MemoryPolicy::Kernel));
}

#[test]
fn candidate_stages_combine_shapes_and_policies() {
    let all = candidates(&epyc(), &fixed(4)).unwrap();
    assert!(all.stages.are_two());
    let winner = (0..all.placements.len())
        .find(|index| all.stages.first[*index] && all.stages.policy[*index] == MemoryChoice::InterleaveUsed)
        .unwrap();
    let second = all.stages.second(winner);
    assert!(second.contains(&0) && second.contains(&winner));
    let shapes = all.stages.shape.iter().max().unwrap() + 1;
    for shape in 0..shapes {
        assert!(second.iter().any(|index| all.stages.shape[*index] == shape), "shape {shape} is in the second stage");
    }
    for index in 0..all.placements.len() {
        assert!(
            all.stages.shape[index] != all.stages.shape[winner] || second.contains(&index),
            "every policy of the winner's shape"
        );
    }
    assert!(second.len() < all.placements.len() / 2);
    // If the number of threads is searched, only adjacent numbers are in the second stage.
    let all = candidates(&epyc(), &SearchSpace { threads: Threads::Searched, ..SearchSpace::default() }).unwrap();
    let winner = (0..all.placements.len()).find(|index| all.placements[*index].threads == 6).unwrap();
    let mut threads: Vec<usize> =
        all.stages.second(winner).iter().skip(1).map(|index| all.placements[*index].threads).collect();
    threads.dedup();
    assert_eq!(threads, [4, 6, 8]);
    assert!(!candidates(&model("ryzen5-2600"), &fixed(6)).unwrap().stages.are_two());
}

#[test]
fn candidate_neighbours_differ_by_one_move() {
    let ryzen = model("ryzen5-2600");
    let placement = |name: &str| parse(&ryzen, name, Some(2), KernelFeatures::default()).unwrap();
    let around = |name: &str, space: &SearchSpace| -> Vec<String> {
        let near = neighbours(&ryzen, space, &placement(name)).unwrap();
        near.iter().map(|placement| placement.cpus().to_string()).collect()
    };
    // Two threads have three classes: one core, one L3, two L3s.
    assert_eq!(around("-C 0-1", &fixed(2)), ["1,7", "1,3"]);
    assert_eq!(around("-C 0,6", &fixed(2)), ["1,6", "3,6"]);
    let within = SearchSpace { within: Some("0-2".into()), ..fixed(2) };
    assert_eq!(around("-C 0-1", &within), Vec::<String>::new());
    assert_eq!(around("kernel", &fixed(2)), Vec::<String>::new());
    for moved in neighbours(&ryzen, &fixed(2), &placement("-C 0-1")).unwrap() {
        assert!(same_place(&ryzen, &moved, &parse(&ryzen, &moved.name, Some(2), KernelFeatures::default()).unwrap()));
    }
    // With memory on one node, moving to that node and moving to the other one are different.
    let xeon = model("xeon-e5-2640-x2");
    let near = |memory: &str| {
        let start = parse(&xeon, &format!("-C 0,6{memory}"), Some(2), KernelFeatures::default()).unwrap();
        neighbours(&xeon, &fixed(2), &start).unwrap().len()
    };
    assert_eq!((near(""), near(" -m 0"), near(" -i 0-1")), (2, 4, 2));
}

#[test]
fn cpus_that_handle_interrupts_are_not_equivalent_to_others() {
    let of = |cpus: &str, space: &SearchSpace| {
        let interrupt = Interrupt {
            number: 9,
            name: "eth0".into(),
            affinity: CpuSet::parse_list("0-11").unwrap(),
            effective: CpuSet::parse_list(cpus).unwrap(),
            movability: Movability::Unknown,
        };
        let device = Device {
            name: "eth0".into(),
            kind: DeviceKind::Network,
            bus: None,
            node: None,
            interrupts: vec![interrupt],
        };
        let machine = Topology { devices: vec![device], ..model("ryzen5-2600") };
        let all = candidates(&machine, space).unwrap();
        let cpus = all.placements.iter().map(Placement::cpus).filter(|cpus| cpus.len() == 1);
        cpus.map(|cpus| cpus.to_string()).collect::<Vec<_>>()
    };
    let on = |cpus: &str| of(cpus, &fixed(1));
    assert_eq!(on(""), ["0"], "all CPUs are equivalent");
    let busy = on("3");
    assert_eq!(busy.len(), 4, "CPU 3, its sibling, the rest of its L3 and the other L3: {busy:?}");
    assert!(busy.contains(&"3".to_string()), "{busy:?}");
    assert_eq!(on("0-6"), on(""), "more than half of the CPUs handle interrupts");
    let moving = SearchSpace { has_moving_interrupts: true, ..fixed(1) };
    assert_eq!(of("3", &moving), on(""), "irqbalance may move them to other CPUs");
}

/// Limits for the largest machine; generous, because tests are not optimised and the machine is shared.
#[test]
fn candidates_of_the_largest_machine_are_few() {
    for (threads, most) in
        [(Threads::Fixed(4), 400), (Threads::Fixed(100), 400), (Threads::Unspecified, 1300), (Threads::Searched, 2000)]
    {
        let all = candidates(&large(), &SearchSpace { threads, ..SearchSpace::default() }).unwrap();
        let first = all.stages.first.iter().filter(|first| **first).count();
        assert!(all.placements.len() <= most && first <= 400, "{threads:?}: {} and {first}", all.placements.len());
    }
    let second = candidates(&large(), &SearchSpace { second: true, ..SearchSpace::default() }).unwrap();
    assert!(second.placements.len() < 150, "{}", second.placements.len());
}
