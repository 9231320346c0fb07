//! Exhaustive tests: on small random machines, canonical forms and counts must agree with the orbits of all
//! permutations of CPUs and nodes that keep the topology. Must not use the tree to find these permutations.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::canonical::{CanonicalForm, Canonicalizer, Labels};
use super::classes;
use super::count::Count;
use super::tree::{Symmetry, Tree};
use crate::placements::placement::cores::CoreIndex;
use crate::values::id_set::{CpuId, CpuSet, NodeId};
use crate::values::topology::{Cache, CpuKind, Distances, MemoryNode, Object, ObjectKind, Topology};
use crate::values::units::Bytes;

/// Short description of a machine: packages of caches of cores.
#[derive(Clone, Debug)]
struct Sketch {
    packages: Vec<Package>,
    /// Number of memory nodes attached to the machine itself.
    far_nodes: u32,
    distances: Vec<u64>,
    /// Whether distances depend only on the tree.
    regular: bool,
}

#[derive(Clone, Debug)]
struct Package {
    /// Sizes of the nodes in GiB.
    nodes: Vec<u64>,
    /// Size in MiB, and the number of hardware threads and the kind of each core.
    caches: Vec<(u64, Vec<(u32, u32)>)>,
}

/// Maximum number of CPUs, because all subsets are tried. Further CPUs are left out.
const CPUS_MAX: u32 = 6;
const NODES_MAX: u32 = 4;

fn machine(sketch: &Sketch) -> Topology {
    let mut build = Topology::default();
    let mut kinds = [CpuSet::new(), CpuSet::new()];
    let root = add(&mut build, ObjectKind::Machine, None);
    let mut cpu = 0;
    for package in &sketch.packages {
        let parent = add(&mut build, ObjectKind::Package, Some(root));
        package.nodes.iter().for_each(|size| add_node(&mut build, parent, *size));
        for (megabytes, cores) in &package.caches {
            let cache = add(&mut build, ObjectKind::Cache, Some(parent));
            build.objects[cache].cache = Some(Cache { level: 3, bytes: Bytes(megabytes << 20), line_bytes: 64 });
            for (threads, kind) in cores {
                let core = add(&mut build, ObjectKind::Core, Some(cache));
                for _ in 0..(*threads).min(CPUS_MAX.saturating_sub(cpu)) {
                    let pu = add(&mut build, ObjectKind::Pu, Some(core));
                    build.objects[pu].os_index = Some(cpu);
                    let above = std::iter::successors(Some(pu), |object| build.objects[*object].parent);
                    let above: Vec<usize> = above.collect();
                    above.into_iter().for_each(|object| build.objects[object].cpus.insert(CpuId(cpu)));
                    kinds[*kind as usize].insert(CpuId(cpu));
                    cpu += 1;
                }
            }
        }
    }
    if sketch.packages.len() > 1 {
        (0..sketch.far_nodes).for_each(|_| add_node(&mut build, root, 64));
    }
    for node in 0..build.nodes.len() {
        let holder = build.objects.iter().find(|object| object.memory.contains(&node)).unwrap();
        build.nodes[node].cpus = if holder.parent.is_some() { holder.cpus.clone() } else { CpuSet::new() };
    }
    build.allowed_cpus = (0..cpu).map(CpuId).collect();
    build.complete_cpus = build.allowed_cpus.clone();
    let kinds = kinds.into_iter().enumerate().filter(|(_, cpus)| !cpus.is_empty());
    build.cpu_kinds =
        kinds.map(|(kind, cpus)| CpuKind { cpus, efficiency: kind as i32, capacity: None, info: Vec::new() }).collect();
    build.distances = distances(sketch, &build);
    build
}

fn distances(sketch: &Sketch, build: &Topology) -> Vec<Distances> {
    let nodes: Vec<NodeId> = build.nodes.iter().map(|node| node.os).collect();
    if sketch.distances.is_empty() {
        return Vec::new();
    }
    let holder = |node: usize| build.objects.iter().position(|object| object.memory.contains(&node)).unwrap();
    let mut values = Vec::new();
    for from in 0..nodes.len() {
        for to in 0..nodes.len() {
            let tree = if from == to {
                10
            } else if holder(from) == holder(to) {
                12
            } else {
                20
            };
            let any = sketch.distances[(from * nodes.len() + to) % sketch.distances.len()];
            values.push(if sketch.regular { tree } else { any });
        }
    }
    vec![Distances { name: None, nodes, values }]
}

fn add(build: &mut Topology, kind: ObjectKind, parent: Option<usize>) -> usize {
    let index = build.objects.len();
    let (cpus, children, memory) = (CpuSet::new(), Vec::new(), Vec::new());
    build.objects.push(Object { kind, os_index: None, cpus, parent, children, memory, cache: None, subtype: None });
    if let Some(parent) = parent {
        build.objects[parent].children.push(index);
    }
    index
}

fn add_node(build: &mut Topology, holder: usize, gigabytes: u64) {
    let number = build.nodes.len() as u32;
    if number < NODES_MAX {
        build.objects[holder].memory.push(number as usize);
        let (os, bytes) = (NodeId(number), Bytes(gigabytes << 30));
        build.nodes.push(MemoryNode { os, cpus: CpuSet::new(), bytes, subtype: None });
        build.allowed_nodes.insert(os);
    }
}

/// Returns all permutations of `0..size` for which `fits` is true at each step.
fn orders(size: usize, fits: &dyn Fn(&[usize], usize) -> bool) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..size {
        let longer = |order: &Vec<usize>| -> Vec<Vec<usize>> {
            let next = (0..size).filter(|item| !order.contains(item) && fits(order, *item));
            next.map(|item| [order.as_slice(), &[item]].concat()).collect()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// An object after permuting CPUs and nodes.
type Moved = (ObjectKind, Option<u64>, Vec<usize>, Vec<usize>);

/// Returns all permutations of CPUs and nodes that keep objects, kinds, sizes and distances.
fn automorphisms(topology: &Topology) -> Vec<(Vec<usize>, Vec<usize>)> {
    let count = topology.allowed_cpus.len();
    let objects = |cpus: &[usize], nodes: &[usize]| -> Vec<Moved> {
        let used = topology.objects.iter().filter(|object| !object.cpus.is_empty() || !object.memory.is_empty());
        let mut moved: Vec<Moved> = used
            .map(|object| {
                let mut to: Vec<usize> = object.cpus.iter().map(|cpu| cpus[cpu.0 as usize]).collect();
                let mut memory: Vec<usize> = object.memory.iter().map(|node| nodes[*node]).collect();
                to.sort_unstable();
                memory.sort_unstable();
                (object.kind, object.cache.map(|cache| cache.bytes.0), to, memory)
            })
            .collect();
        moved.sort();
        moved
    };
    let kind = |cpu: usize| topology.cpu_kinds.iter().position(|kind| kind.cpus.contains(CpuId(cpu as u32)));
    let shared = |one: usize, other: usize| {
        let both =
            |object: &&Object| object.cpus.contains(CpuId(one as u32)) && object.cpus.contains(CpuId(other as u32));
        topology.objects.iter().filter(both).count()
    };
    let cpus_fit = |order: &[usize], cpu: usize| {
        kind(cpu) == kind(order.len())
            && order.iter().enumerate().all(|(earlier, other)| shared(*other, cpu) == shared(earlier, order.len()))
    };
    let distance = |from: usize, to: usize| {
        topology.distances.first().map(|matrix| matrix.values[from * topology.nodes.len() + to])
    };
    let nodes_fit = |order: &[usize], node: usize| {
        let position = order.len();
        topology.nodes[node].bytes == topology.nodes[position].bytes
            && distance(node, node) == distance(position, position)
            && order.iter().enumerate().all(|(earlier, other)| {
                distance(*other, node) == distance(earlier, position)
                    && distance(node, *other) == distance(position, earlier)
            })
    };
    let identity: (Vec<usize>, Vec<usize>) = ((0..count).collect(), (0..topology.nodes.len()).collect());
    let unchanged = objects(&identity.0, &identity.1);
    let mut permutations = Vec::new();
    for nodes in orders(topology.nodes.len(), &nodes_fit) {
        for cpus in orders(count, &cpus_fit) {
            if objects(&cpus, &nodes) == unchanged {
                permutations.push((cpus, nodes.clone()));
            }
        }
    }
    permutations
}

/// A set of CPUs as bits, and optionally a marked memory node.
type Item = (u32, Option<usize>);

fn smallest_image(item: Item, group: &[(Vec<usize>, Vec<usize>)]) -> Item {
    let image = |(cpus, nodes): &(Vec<usize>, Vec<usize>)| {
        let moved = cpus.iter().enumerate().filter(|(cpu, _)| item.0 >> cpu & 1 == 1).map(|(_, to)| 1 << to);
        (moved.sum::<u32>(), item.1.map(|node| nodes[node]))
    };
    group.iter().map(image).min().unwrap()
}

fn labels((cpus, node): Item) -> Labels {
    let cpus: Vec<CpuId> = (0..32).filter(|cpu| cpus >> cpu & 1 == 1).map(CpuId).collect();
    Labels { nodes: node.map(|node| NodeId(node as u32)).into_iter().collect(), ..Labels::for_cpus(&cpus) }
}

fn check_orbits(topology: &Topology) -> Result<(), TestCaseError> {
    let group = automorphisms(topology);
    let core_index = CoreIndex::new(topology);
    let mut tree = Tree::new(&core_index, &[]).unwrap();
    let cpus = topology.allowed_cpus.len();
    let counted = classes::count(&tree, cpus);
    let mut forms = Canonicalizer::new(&mut tree);
    let nodes: Vec<Option<usize>> = [None].into_iter().chain((0..topology.nodes.len()).map(Some)).collect();
    let mut orbit_of_form: BTreeMap<(bool, CanonicalForm), Item> = BTreeMap::new();
    let mut form_of_orbit: BTreeMap<Item, CanonicalForm> = BTreeMap::new();
    for item in (0..1u32 << cpus).flat_map(|set| nodes.iter().map(move |node| (set, *node))) {
        let orbit = smallest_image(item, &group);
        let form = forms.form(&labels(item));
        let earlier = *orbit_of_form.entry((item.1.is_some(), form.clone())).or_insert(orbit);
        prop_assert_eq!(earlier, orbit, "two orbits have one form");
        prop_assert_eq!(form_of_orbit.entry(orbit).or_insert_with(|| form.clone()), &form, "one orbit has two forms");
    }
    for threads in 0..=cpus {
        let matches = |(set, _): &&Item| set.count_ones() as usize == threads;
        let alone = form_of_orbit.keys().filter(matches).filter(|(_, node)| node.is_none()).count();
        let with_node = form_of_orbit.keys().filter(matches).filter(|(_, node)| node.is_some()).count();
        let at = |counts: &[Count]| counts.get(threads).copied().unwrap_or(Count::ZERO);
        prop_assert_eq!(at(&counted.cpu_sets), Count::new(alone), "{} threads", threads);
        prop_assert_eq!(at(&counted.with_node), Count::new(with_node), "{} threads with a node", threads);
        let listed = classes::list(&mut forms, threads);
        let mut distinct: Vec<CanonicalForm> = listed.iter().map(|cpus| forms.form(&Labels::for_cpus(cpus))).collect();
        prop_assert!(listed.iter().all(|cpus| cpus.len() == threads));
        distinct.sort();
        distinct.dedup();
        prop_assert_eq!((listed.len(), distinct.len()), (alone, alone), "listed with {} threads", threads);
    }
    Ok(())
}

fn packages() -> impl Strategy<Value = Package> {
    let core = prop_oneof![4 => Just((1, 0)), 3 => Just((2, 0)), 1 => Just((1, 1))];
    let cache = (prop_oneof![4 => Just(8u64), 1 => Just(16)], proptest::collection::vec(core, 1..=2));
    let nodes = proptest::collection::vec(prop_oneof![4 => Just(64u64), 1 => Just(128)], 0..=2);
    (nodes, proptest::collection::vec(cache, 1..=2)).prop_map(|(nodes, caches)| Package { nodes, caches })
}

fn sketches() -> impl Strategy<Value = Sketch> {
    // Copies of one package, so that there are equivalent parts, and sometimes one that differs.
    let count = 1..=3usize;
    let values = proptest::collection::vec(prop_oneof![Just(10u64), Just(20)], 0..=16);
    (packages(), packages(), count, 0..4u32, 0..=2u32, values, any::<bool>()).prop_map(
        |(one, other, count, which, far_nodes, distances, regular)| {
            let pick = |index: u32| if which == index + 1 { other.clone() } else { one.clone() };
            Sketch { packages: (0..count as u32).map(pick).collect(), far_nodes, distances, regular }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn candidate_forms_and_counts_match_orbits_of_automorphisms(sketch in sketches()) {
        check_orbits(&machine(&sketch))?;
    }

    #[test]
    fn candidate_pairs_cover_each_class_of_two_cpus_once(sketch in sketches()) {
        let topology = machine(&sketch);
        let pairs = super::pairs(&topology);
        let tree = Tree::new(&CoreIndex::new(&topology), &[]).unwrap();
        let counted = classes::count(&tree, 2).cpu_sets.get(2).copied().unwrap_or(Count::ZERO);
        prop_assert_eq!(Count::new(pairs.len()), counted);
        let alike: usize = pairs.iter().map(|pair| pair.alike).sum();
        prop_assert_eq!(alike, super::all_pairs(&topology).len());
    }
}

fn packages_of(caches: usize, cores: usize, count: usize, nodes: &[u64]) -> Vec<Package> {
    let package = Package { nodes: nodes.to_vec(), caches: vec![(8, vec![(1, 0); cores]); caches] };
    vec![package; count]
}

/// Four nodes in a ring: by the tree any two are equivalent, by the distances neighbours must stay neighbours.
#[test]
fn candidate_forms_of_a_ring_keep_neighbours() {
    let ring = vec![10, 16, 22, 16, 16, 10, 16, 22, 22, 16, 10, 16, 16, 22, 16, 10];
    let sketch = Sketch { packages: packages_of(1, 1, 4, &[64]), far_nodes: 0, distances: ring, regular: false };
    let topology = machine(&sketch);
    check_orbits(&topology).unwrap();
    let mut tree = Tree::new(&CoreIndex::new(&topology), &[]).unwrap();
    let Symmetry::Listed { orders, .. } = &tree.symmetry else { panic!("expected listed symmetries") };
    assert_eq!(orders.len(), 8, "four rotations, each also mirrored");
    let mut forms = Canonicalizer::new(&mut tree);
    let mut form = |cpus: &[u32]| forms.form(&Labels::for_cpus(&cpus.iter().copied().map(CpuId).collect::<Vec<_>>()));
    assert_eq!(form(&[0, 1]), form(&[2, 3]));
    assert_eq!(form(&[0, 2]), form(&[1, 3]));
    assert_ne!(form(&[0, 1]), form(&[0, 2]));
}

/// Grouping by distance makes the pairs of a machine of pairs exchangeable without listed symmetries.
#[test]
fn candidate_trees_are_grouped_by_distance() {
    let pairs = vec![10, 12, 20, 20, 12, 10, 20, 20, 20, 20, 10, 12, 20, 20, 12, 10];
    let sketch = Sketch { packages: packages_of(1, 1, 4, &[64]), far_nodes: 0, distances: pairs, regular: false };
    let topology = machine(&sketch);
    check_orbits(&topology).unwrap();
    let tree = Tree::new(&CoreIndex::new(&topology), &[]).unwrap();
    assert!(tree.symmetry.is_all());
    assert_eq!(tree.parts[0].children.len(), 2);
}

/// A ring of memory nodes and eight packages without memory: 8 x 8! permutations are too many, so nothing is merged.
#[test]
fn candidate_forms_merge_nothing_if_symmetries_are_too_many() {
    let mut topology = Topology::default();
    let root = add(&mut topology, ObjectKind::Machine, None);
    for cpu in 0..8 {
        let package = add(&mut topology, ObjectKind::Package, Some(root));
        let pu = add(&mut topology, ObjectKind::Pu, Some(package));
        topology.objects[pu].os_index = Some(cpu);
        for object in [root, package, pu] {
            topology.objects[object].cpus.insert(CpuId(cpu));
        }
        topology.allowed_cpus.insert(CpuId(cpu));
    }
    (0..NODES_MAX).for_each(|_| add_node(&mut topology, root, 64));
    let values = vec![10, 16, 22, 16, 16, 10, 16, 22, 22, 16, 10, 16, 16, 22, 16, 10];
    topology.distances = vec![Distances { name: None, nodes: (0..4).map(NodeId).collect(), values }];
    let mut tree = Tree::new(&CoreIndex::new(&topology), &[]).unwrap();
    assert!(matches!(tree.symmetry, Symmetry::Listed { too_many: true, .. }));
    assert_eq!(classes::count(&tree, 2).cpu_sets, vec![Count::ONE, Count::new(8), Count::new(28)]);
    assert_eq!(classes::list(&mut Canonicalizer::new(&mut tree), 2).len(), 28);
}

/// A measurement distinguishes two otherwise equivalent cores.
#[test]
fn candidate_forms_distinguish_measured_classes() {
    let sketch = Sketch { packages: packages_of(1, 2, 2, &[64]), far_nodes: 0, distances: Vec::new(), regular: true };
    let topology = machine(&sketch);
    let count = |measured: &[&str]| {
        let measured: Vec<CpuSet> = measured.iter().map(|list| CpuSet::parse_list(list).unwrap()).collect();
        classes::count(&Tree::new(&CoreIndex::new(&topology), &measured).unwrap(), 1).cpu_sets[1]
    };
    assert_eq!(count(&[]), Count::new(1));
    assert_eq!(count(&["0"]), Count::new(3));
    assert_eq!(count(&["0-1"]), Count::new(2));
    assert_eq!(count(&["0,2", "1,3"]), Count::new(2));
}

/// With one of two packages excluded, they are merged, but memory of the machine stays remote to all CPUs.
#[test]
fn candidate_forms_distinguish_memory_of_merged_machine() {
    let empty = Package { nodes: Vec::new(), caches: Vec::new() };
    let packages = [packages_of(1, 2, 1, &[64]), vec![empty]].concat();
    let sketch = Sketch { packages, far_nodes: 1, distances: Vec::new(), regular: false };
    let topology = machine(&sketch);
    check_orbits(&topology).unwrap();
    let mut tree = Tree::new(&CoreIndex::new(&topology), &[]).unwrap();
    let mut forms = Canonicalizer::new(&mut tree);
    assert_ne!(forms.form(&labels((1, Some(0)))), forms.form(&labels((1, Some(1)))));
}
