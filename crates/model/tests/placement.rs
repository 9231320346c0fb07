//! Applies every policy to every model machine: the placement, or the reason why the machine does not have it. The
//! captures are tests/topologies/models as JSON; see tests/captures/README.md.

mod machines;

use std::fmt::Write;

use machines::{MODELS, model};
use model::placements::placement::{
    KernelFeatures, POLICIES, PlacementError, check, lines, offer, offer_all, parse, same_place,
};
use model::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use model::values::placement::{MemoryPolicy, Placement};
use model::values::topology::{Cache, MemoryNode, Object, ObjectKind, Topology};
use model::values::units::Bytes;
use proptest::prelude::*;

const WEIGHTS: KernelFeatures = KernelFeatures { weighted_interleave: true, far: true };

/// The table of `nearfar placements`, one policy per line.
fn table(topology: &Topology, threads: Option<usize>) -> String {
    let mut text = String::new();
    for offer in offer_all(topology, threads, WEIGHTS, &[]) {
        let same = offer.same_as.map(|name| format!(" [same as {name}]")).unwrap_or_default();
        match offer.placement {
            Ok(Placement { reason, threads, memory, bindings: cpus, .. }) => {
                let cpus = cpus.iter().copied().collect::<CpuSet>();
                writeln!(text, "{:20} {threads:3} x {cpus}, {memory}: {reason}{same}", offer.policy)
                    .expect("text grows");
            }
            Err(reason) => writeln!(text, "{:20} - {reason}", offer.policy).expect("text grows"),
        }
    }
    text
}

#[test]
fn policies_on_every_model_match_snapshots() {
    for (name, _) in MODELS {
        for threads in [None, Some(2), Some(6)] {
            let label = threads.map_or("natural".to_string(), |threads| threads.to_string());
            insta::assert_snapshot!(format!("{name}-{label}"), table(&model(name), threads));
        }
    }
}

#[test]
fn every_policy_is_in_the_snapshots() {
    let snapshot = include_str!("snapshots/placement__grace-cxl-natural.snap");
    let names: Vec<&str> = snapshot.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for policy in POLICIES {
        let name = policy.name.replace(":N", ":0");
        assert!(names.contains(&name.as_str()), "{name} is missing; update the snapshots");
    }
}

/// The CPUs that the published study of this machine compared.
#[test]
fn ryzen_policies_choose_the_cpus_of_the_study() {
    let ryzen = model("ryzen5-2600");
    let cpus = |policy| parse(&ryzen, policy, Some(6), KernelFeatures::default()).unwrap().cpus().to_string();
    assert_eq!(cpus("cores-across-l3"), "0-5");
    assert_eq!(cpus("smt-one-l3"), "0-2,6-8");
}

/// The study used `taskset`, which lets each of six copies use all six CPUs.
#[test]
fn loose_placements_have_the_mask_of_taskset() {
    let place = |machine: &str, name: &str, threads| parse(&model(machine), name, threads, KernelFeatures::default());
    let loose = |machine, name, threads| {
        let placement = place(machine, name, threads).unwrap();
        assert!(placement.loose && placement.name == name, "{placement:?}");
        (placement.threads, placement.cpus().to_string())
    };
    let cases = [
        ("ryzen5-2600", "cores-across-l3+loose", Some(6), "0-5"),
        ("ryzen5-2600", "smt-one-l3+loose", Some(6), "0-2,6-8"),
        ("ryzen5-2600", "-C 0-2,6-8 loose", Some(1), "0-2,6-8"),
        ("ryzen5-2600", "-C 0-2,6-8 loose", Some(12), "0-2,6-8"),
        ("ryzen5-2600", "one-core+loose", Some(1), "0,6"),
        ("ryzen5-2600", "compact+loose", Some(2), "0-1"),
        ("rk3399", "big+loose", Some(1), "4-5"),
        ("rk3399", "little+loose", Some(2), "0-3"),
        ("xeon-e5-2640-x2", "interleave+loose", Some(1), "0-5,12-17"),
    ];
    for (machine, name, threads, cpus) in cases {
        let found = loose(machine, name, threads);
        assert_eq!((Some(found.0), found.1.as_str()), (threads, cpus), "{machine}: {name}");
    }
    for (name, part) in [("kernel+loose", "requires CPUs"), ("loose", "requires CPUs"), ("-m 0 loose", "requires CPUs")]
    {
        let error = place("ryzen5-2600", name, None).unwrap_err().to_string();
        assert!(error.contains(part), "{name}: {error}");
    }
}

#[test]
fn loose_placements_equal_others_with_the_same_freedom() {
    let same = |machine: &str, one: &str, other: &str, threads| {
        let topology = model(machine);
        let place = |name| parse(&topology, name, Some(threads), KernelFeatures::default()).unwrap();
        same_place(&topology, &place(one), &place(other))
    };
    assert!(!same("ryzen5-2600", "smt-one-l3+loose", "smt-one-l3", 6));
    assert!(same("ryzen5-2600", "smt-one-l3+loose", "-C 0-2,6-8 loose", 6));
    assert!(same("ryzen5-2600", "-C all loose", "kernel", 6));
    assert!(!same("ryzen5-2600", "-C 0-5 loose", "kernel", 6));
    assert!(same("rk3399", "one-core+loose", "one-core", 1));
}

/// CPUs 4 and 5 are big cores, CPUs 0 to 3 little ones.
#[test]
fn big_and_little_policies_choose_cores_of_their_kind() {
    let board = model("rk3399");
    let cpus = |policy: &str, threads: Option<usize>| {
        let placement = parse(&board, policy, threads, KernelFeatures::default());
        placement.map_or_else(|error| error.to_string(), |placement| placement.cpus().to_string())
    };
    for (policy, threads, expected) in [
        ("big", None, "4-5"),
        ("big", Some(1), "4"),
        ("big", Some(2), "4-5"),
        ("big", Some(3), "needs 3 CPUs, the big cores have 2"),
        ("little", None, "0-3"),
        ("little", Some(1), "0"),
        ("little", Some(2), "0-1"),
        ("little", Some(4), "0-3"),
        ("little", Some(5), "needs 5 CPUs, the little cores have 4"),
        ("compact", Some(2), "4-5"),
        ("spread", Some(2), "0,4"),
        ("compact", Some(6), "0-5"),
    ] {
        assert_eq!(cpus(policy, threads), expected, "{policy} with {threads:?} threads");
    }
}

#[test]
fn memory_policies_choose_the_same_cpus() {
    for (name, _) in MODELS {
        for threads in [None, Some(1), Some(2)] {
            let cpus: Vec<_> = ["memory-local", "memory-remote", "interleave", "weighted-interleave"]
                .iter()
                .filter_map(|policy| parse(&model(name), policy, threads, WEIGHTS).ok())
                .map(|placement| placement.bindings)
                .collect();
            assert!(cpus.windows(2).all(|pair| pair[0] == pair[1]), "{name} {threads:?}: {cpus:?}");
        }
    }
}

#[test]
fn combined_policies_choose_cpus_and_memory() {
    let cases = [
        ("xeon-e5-2640-x2", "compact+interleave", "6-threads 0-5 interleave 0-1"),
        ("xeon-e5-2640-x2", "cores-one-l3+memory-remote", "6-threads 0-5 bind 1"),
        ("xeon-e5-2640-x2", "node:1+memory-remote", "6-threads 6-11 bind 0"),
        ("xeon-e5-2640-x2", "spread+memory-local", "6-threads 0-2,6-8 local"),
        ("xeon-e5-2640-x2", "spread+memory-remote", "the threads are on every memory node, so none is remote"),
        ("xeon-e5-2640-x2", "kernel+memory-local", "6-threads  local"),
        ("xeon-e5-2640-x2", "kernel+memory-remote", "no memory node is remote without bound CPUs"),
        ("xeon-e5-2640-x2-roundrobin", "smt-one-l3+node:1", "6-threads 0,2,4,12,14,16 bind 1"),
        ("grace-cxl-nohmat", "compact+node:2", "6-threads 0-5 bind 2"),
        ("grace-cxl-nohmat", "spread+memory-remote", "6-threads 0-2,72-74 bind 2"),
        ("rpi5-numafake8", "one-core+interleave", "6-threads 0 interleave 0-7"),
        ("ryzen5-2600", "compact+memory-remote", "this machine has one memory node, so none is remote"),
        ("ryzen5-2600", "compact+node:3", "memory node 3 does not exist; this machine has memory node 0"),
        ("ryzen5-2600", "node:3", "memory node 3 does not exist; this machine has memory node 0"),
    ];
    for (machine, policy, expected) in cases {
        let got = match parse(&model(machine), policy, Some(6), KernelFeatures::default()) {
            Ok(placement) => format!("{}-threads {} {}", placement.threads, placement.cpus(), placement.memory),
            Err(PlacementError::Unavailable(reason)) => reason,
            Err(PlacementError::Invalid(error)) => panic!("{policy}: {error}"),
        };
        assert!(got.starts_with(expected), "{policy} on {machine}: {got}");
    }
}

#[test]
fn weighted_interleave_requires_kernel_support() {
    let xeon = model("xeon-e5-2640-x2");
    for text in ["weighted-interleave", "compact+weighted-interleave", "-w all"] {
        let result = parse(&xeon, text, None, KernelFeatures::default());
        assert!(
            matches!(&result, Err(PlacementError::Unavailable(reason)) if reason.contains("6.9")),
            "{text}: {result:?}"
        );
        assert_eq!(parse(&xeon, text, None, WEIGHTS).unwrap().memory.to_string(), "weighted-interleave 0-1");
    }
}

#[test]
fn invalid_placements_return_the_valid_choices() {
    let cases = [
        ("compat", "unknown placement 'compat'; valid names: compact, "),
        ("", "unknown placement ''"),
        ("memory-local+interleave", "'memory-local' does not choose CPUs"),
        ("compact+kernel", "'kernel' does not choose memory; these do: far, node:N, interleave"),
        ("node:x", "unknown placement 'node:x'; valid names: node:N, "),
        ("-C", "-C requires a list such as 0-3 or all"),
        ("-C 9", "-C: CPU 9 does not exist; this machine has 0-1"),
        ("-C 0,7-9", "-C: CPUs 7-9 do not exist; this machine has 0-1"),
        ("-C +2", "-C: +2 exceeds the 2 CPUs that this process may use (0-1)"),
        ("-C !0-1", "-C: the list contains no CPU"),
        ("-C !all", "-C: '!all' contains nothing"),
        ("-C 0-", "-C: '0-' is not a list; valid lists: 0-3,8; all; "),
        ("-N 3", "-N: memory node 3 does not exist; this machine has 0"),
        ("-m netdev:eth0", "-m: 'netdev:eth0': nodes of devices are not supported"),
        ("-m 0 -i all", "-m and -i both choose memory; use one of them"),
        ("-C 0 -N 0", "-C and -N both choose CPUs"),
        ("-l 0", "'0' is not one of numactl's options"),
        ("--localalloc=0", "--localalloc does not take a list"),
        ("--membnd 0", "'--membnd' is not one of numactl's options for placements; valid options: -m/--membind LIST"),
        ("-z", "'-z' is not one of numactl's options"),
        ("-", "'-' is not one of numactl's options"),
    ];
    for (text, expected) in cases {
        let result = parse(&two_cpus(), text, None, KernelFeatures::default());
        assert!(
            matches!(&result, Err(PlacementError::Invalid(error)) if error.starts_with(expected)),
            "{text}: {result:?}"
        );
    }
    let none = parse(&two_cpus(), "compact", Some(0), KernelFeatures::default());
    assert_eq!(none, Err(PlacementError::Invalid("the number of threads must be at least 1".into())));
    for text in ["compact+interleave", "node:7", "-C 900 -m 8", "--physcpubind=!+0-3"] {
        assert_eq!(check(text), Ok(()), "{text} may exist on another machine");
    }
}

#[test]
fn unavailable_policies_are_results_and_invalid_names_are_errors() {
    let xeon = model("xeon-e5-2640-x2");
    let result = offer(&xeon, "big", None, WEIGHTS, &[]).unwrap();
    assert_eq!(result.policy, "big");
    assert_eq!(result.placement, Err("all cores that this process may use are of one kind".into()));
    assert!(offer(&xeon, "-C 0-3 -m 1", None, WEIGHTS, &[]).unwrap().placement.is_ok());
    assert!(offer(&xeon, "bigg", None, WEIGHTS, &[]).is_err());
    let offers = serde_json::to_value(offer_all(&xeon, Some(2), WEIGHTS, &[])).unwrap();
    let of = |policy: &str| offers.as_array().unwrap().iter().find(|offer| offer["policy"] == policy).unwrap();
    let same = of("cores-one-l3");
    assert_eq!(same["same_as"], "compact");
    assert_eq!(same["placement"]["seats"], serde_json::json!([0, 1]));
    let missing = of("big");
    assert_eq!(missing["unavailable"], "all cores that this process may use are of one kind");
    assert_eq!(missing.get("placement"), None);
}

/// Two CPUs on one memory node, as in a small virtual machine.
fn two_cpus() -> Topology {
    restricted(model("rpi5-numafake8"), "0-1", "0", true)
}

/// Restricts a process to some CPUs and nodes. With `remove`, the machine does not have the rest either.
fn restricted(mut topology: Topology, cpus: &str, nodes: &str, remove: bool) -> Topology {
    topology.allowed_cpus = CpuSet::parse_list(cpus).expect("a list");
    topology.allowed_nodes = NodeSet::parse_list(nodes).expect("a list");
    let allowed = topology.allowed_cpus.clone();
    topology.objects.iter_mut().for_each(|object| object.cpus = object.cpus.intersection(&allowed));
    topology.nodes.iter_mut().for_each(|node| node.cpus = node.cpus.intersection(&allowed));
    if remove {
        topology.complete_cpus = allowed;
        topology.nodes.retain(|node| topology.allowed_nodes.contains(node.os));
    }
    topology
}

#[test]
fn numactl_options_are_read_as_by_numactl() {
    let xeon = restricted(model("xeon-e5-2640-x2"), "2-5,8-11,14-17,20-23", "0-1", false);
    let cases = [
        ("-C 2,4", None, "2 x 2,4 kernel"),
        ("-C2,4", None, "2 x 2,4 kernel"),
        ("--physcpubind=2-5:2 --membind 1", None, "2 x 2,4 bind 1"),
        ("-C +0-2", None, "3 x 2-4 kernel"),
        ("-C !2-11", None, "8 x 14-17,20-23 kernel"),
        ("-C !+0-7", None, "8 x 14-17,20-23 kernel"),
        ("-C all", None, "16 x 2-5,8-11,14-17,20-23 kernel"),
        ("-N 1 -i all", None, "8 x 8-11,20-23 interleave 0-1"),
        ("-N +1 -l", None, "8 x 8-11,20-23 local"),
        ("--preferred 1", None, "8 x  preferred 1"),
        ("-m !0", Some(3), "3 x  bind 1"),
        ("-C 2-3", Some(1), "1 x 2-3 kernel"),
        ("-C 2-3", Some(5), "5 x 2-3 kernel"),
    ];
    for (text, threads, expected) in cases {
        let Placement { name, threads, bindings, memory, .. } =
            parse(&xeon, text, threads, KernelFeatures::default()).unwrap();
        let cpus: CpuSet = bindings.iter().copied().collect();
        assert_eq!(format!("{threads} x {cpus} {memory}"), expected, "{text}");
        assert_eq!(name, text);
        assert!(bindings.is_empty() || bindings.len() >= threads, "{text}: {bindings:?}");
    }
    let error = parse(&xeon, "-C 0-2", None, KernelFeatures::default()).unwrap_err().to_string();
    assert_eq!(error, "-C: CPUs 0-1 are not usable by this process; it may use 2-5,8-11,14-17,20-23");
}

#[test]
fn restricted_machines_match_snapshots() {
    // Two cores of one L3 and one of the other: the larger L3 is chosen although it is not the first.
    let uneven = restricted(model("ryzen5-2600"), "2,4-5,8", "0", false);
    insta::assert_snapshot!("ryzen5-2600-uneven", table(&uneven, None));
    // No CPU of node 0, and no memory of node 1.
    let crossed = restricted(model("xeon-e5-2640-x2"), "6-8", "0", false);
    insta::assert_snapshot!("xeon-e5-2640-x2-crossed", table(&crossed, None));
    let nothing = Topology::default();
    insta::assert_snapshot!("nothing", table(&nothing, None));
    // Kinds are those of the whole machine, so the remaining cores are all little.
    let little = restricted(model("rk3399"), "0-3", "0", false);
    insta::assert_snapshot!("rk3399-little", table(&little, Some(2)));
}

/// A machine of packages with a memory node each, L3s, cores, and hardware threads, numbered consecutively.
fn regular(packages: u32, caches: u32, cores: u32, threads: u32) -> Topology {
    let mut topology = Topology::default();
    let cache = Cache { level: 3, bytes: Bytes(8 << 20), line_bytes: 64 };
    let total = packages * caches * cores * threads;
    let machine = add(&mut topology, ObjectKind::Machine, None, 0, total);
    for package in 0..packages {
        let each = total / packages;
        let parent = add(&mut topology, ObjectKind::Package, Some(machine), package * each, each);
        topology.objects[parent].memory = vec![package as usize];
        let cpus = topology.objects[parent].cpus.clone();
        topology.nodes.push(MemoryNode { os: NodeId(package), cpus, bytes: Bytes(1 << 30), subtype: None });
        topology.allowed_nodes.insert(NodeId(package));
        for number in 0..caches {
            let first = package * each + number * cores * threads;
            let l3 = add(&mut topology, ObjectKind::Cache, Some(parent), first, cores * threads);
            topology.objects[l3].cache = Some(cache);
            for core in 0..cores {
                let first = first + core * threads;
                let core = add(&mut topology, ObjectKind::Core, Some(l3), first, threads);
                (0..threads).for_each(|thread| {
                    let pu = add(&mut topology, ObjectKind::Pu, Some(core), first + thread, 1);
                    topology.objects[pu].os_index = Some(first + thread);
                });
            }
        }
    }
    topology.allowed_cpus = topology.objects[machine].cpus.clone();
    topology.complete_cpus = topology.allowed_cpus.clone();
    topology
}

fn add(topology: &mut Topology, kind: ObjectKind, parent: Option<usize>, first: u32, length: u32) -> usize {
    let index = topology.objects.len();
    let cpus = (first..first + length).map(CpuId).collect();
    topology.objects.push(Object {
        kind,
        os_index: None,
        cpus,
        parent,
        children: Vec::new(),
        memory: Vec::new(),
        cache: None,
        subtype: None,
    });
    if let Some(parent) = parent {
        topology.objects[parent].children.push(index);
    }
    index
}

#[test]
fn cores_across_l3_stays_on_one_node_if_possible() {
    // Two packages with one node each, two L3s of three cores per package, two threads per core.
    let machine = regular(2, 2, 3, 2);
    let cases = [
        ("cores-across-l3", None, "0,2,4,6,8,10"),
        ("cores-across-l3", Some(2), "0,6"),
        ("cores-across-l3", Some(5), "0,2,4,6,8"),
        ("cores-across-l3", Some(8), "0,2,6,8,12,14,18,20"),
        ("node:1+memory-remote", Some(4), "12,14,16,18"),
        ("compact", Some(4), "0,2,4,6"),
        ("compact", Some(8), "0,2,4,6,8,10,12,14"),
        ("compact", Some(14), "0-3,4,6,8,10,12,14,16,18,20,22"),
        ("spread", Some(4), "0,6,12,18"),
        ("spread", Some(14), "0-1,2,4,6,8,10,12-13,14,16,18,20,22"),
        ("smt-one-l3", Some(5), "0-4"),
        ("smt-pairs", Some(8), "0-7"),
    ];
    // The same with both nodes in one package: the span must stay on one node.
    let mut dies = machine.clone();
    dies.objects.iter_mut().filter(|object| object.kind == ObjectKind::Package).for_each(|object| {
        object.kind = ObjectKind::Die;
    });
    for (policy, threads, expected) in cases {
        for machine in [&machine, &dies] {
            let cpus = parse(machine, policy, threads, KernelFeatures::default()).unwrap().cpus();
            assert_eq!(cpus, CpuSet::parse_list(expected).unwrap(), "{policy} {threads:?}: {cpus}");
        }
    }
}

/// Memory beyond DRAM differs from DRAM even on machines with one memory node, and no other tool supports it.
#[test]
fn memory_beyond_dram_has_no_command_lines() {
    let board = model("rk3399");
    let far = parse(&board, "one-core+far", Some(1), WEIGHTS).unwrap();
    assert_eq!((far.memory.clone(), far.memory.to_string()), (MemoryPolicy::Far, "far".into()));
    assert!(far.reason.ends_with("; arrays in a file on a disk, paged into DRAM"), "{}", far.reason);
    let near = parse(&board, "one-core", Some(1), WEIGHTS).unwrap();
    assert!(!same_place(&board, &near, &far) && same_place(&board, &far, &far));
    assert_eq!(lines(&far, &board, "CMD"), lines(&Placement::kernel(1), &board, "CMD"));
    let stored = serde_json::to_string(&far.memory).unwrap();
    assert_eq!(serde_json::from_str::<MemoryPolicy>(&stored).unwrap(), MemoryPolicy::Far, "{stored}");

    let PlacementError::Unavailable(reason) = parse(&board, "far", None, KernelFeatures::default()).unwrap_err() else {
        panic!("a machine without a disk must not make the text invalid")
    };
    assert!(reason.contains("hint: set NEARFAR_FAR=DIR"), "{reason}");
    assert!(check("one-core+far").is_ok() && check("far+one-core").is_err());
}

#[test]
fn policies_on_a_large_machine_are_fast() {
    let machine = regular(32, 1, 18, 2);
    let offers = offer_all(&machine, None, WEIGHTS, &[]);
    assert!(offers.len() > 32);
    assert!(offers.iter().any(|offer| offer.placement.as_ref().is_ok_and(|placement| placement.threads == 1152)));
}

#[test]
fn unusual_topologies_have_placements() {
    // A machine without caches and cores, only CPUs.
    let mut bare = model("rk3399");
    bare.objects.retain(|object| matches!(object.kind, ObjectKind::Machine | ObjectKind::Pu));
    let pus = 1..bare.objects.len();
    bare.objects[0].children = pus.clone().collect();
    pus.for_each(|pu| bare.objects[pu].parent = Some(0));
    insta::assert_snapshot!("rk3399-bare", table(&bare, Some(3)));
    // The memory of a graphics card is a node, but never "the remote node" or part of "all nodes".
    let mut card = model("grace-cxl-nohmat");
    card.nodes[2].subtype = Some("GPUMemory".into());
    let cpus = |policy| parse(&card, policy, Some(2), WEIGHTS).map(|placement| placement.memory.to_string());
    assert_eq!(cpus("weighted-interleave"), Ok("weighted-interleave 0-1".into()));
    assert_eq!(cpus("compact+node:2"), Ok("bind 2".into()));
    // Kinds without a rank: cores differ, but none is known to be faster.
    let mut unranked = model("rk3399");
    unranked.cpu_kinds.iter_mut().for_each(|kind| (kind.efficiency, kind.capacity) = (-1, None));
    assert!(parse(&unranked, "big", None, WEIGHTS).is_err());
}

#[test]
fn command_lines_of_every_tool_match_the_snapshot() {
    let mut text = String::new();
    let cases = [
        ("ryzen5-2600", "smt-one-l3", Some(6)),
        ("ryzen5-2600", "smt-one-l3+loose", Some(6)),
        ("ryzen5-2600", "memory-local", Some(2)),
        ("ryzen5-2600", "one-core", Some(4)),
        ("ryzen5-2600", "kernel", None),
        ("xeon-e5-2640-x2", "memory-remote", Some(2)),
        ("xeon-e5-2640-x2", "spread+interleave", Some(2)),
        ("xeon-e5-2640-x2", "spread+memory-local", Some(2)),
        ("xeon-e5-2640-x2", "kernel+interleave", None),
        ("xeon-e5-2640-x2", "-C 0-1 -p 1", None),
        ("xeon-e5-2640-x2", "-m 0", None),
        ("xeon-e5-2640-x2", "compact+weighted-interleave", Some(2)),
        ("grace-cxl", "-C 0-1,64-65,100 -m 2", None),
        ("xeon-e5-2640-x2", "compact+text:copy", Some(2)),
    ];
    for (machine, placement, threads) in cases {
        let topology = model(machine);
        let placement = parse(&topology, placement, threads, WEIGHTS).unwrap();
        let lines = serde_json::to_value(lines(&placement, &topology, "./prog --size 1")).unwrap();
        writeln!(text, "{machine}: {}", placement.name).unwrap();
        for (tool, line) in lines.as_object().unwrap() {
            let line = line.as_str().unwrap_or("-").replace('\n', "\n              ");
            writeln!(text, "  {tool:11} {line}").unwrap();
        }
    }
    insta::assert_snapshot!("lines", text);
}

fn names() -> impl Strategy<Value = String> {
    let cpus = ["kernel", "one-core", "compact", "spread", "cores-one-l3", "cores-across-l3", "smt-one-l3"];
    let cpus = cpus.iter().chain(&["smt-pairs", "big", "little", "node:0", "node:1", "node:2"]);
    let memory = ["", "+memory-local", "+memory-remote", "+interleave", "+weighted-interleave", "+node:1"];
    let alone = ["memory-local", "memory-remote", "interleave", "weighted-interleave"];
    let mut names: Vec<String> = alone.iter().map(|name| (*name).to_string()).collect();
    names.extend(cpus.flat_map(|cpus| memory.map(|memory| format!("{cpus}{memory}"))));
    proptest::sample::select(names)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// On any part of any machine, the CPUs are usable, sufficient, and in logical order; only `one-core` shares CPUs;
    /// and this process may use the memory.
    #[test]
    fn placements_use_allowed_cpus_and_nodes(
        machine in 0..MODELS.len(),
        name in names(),
        threads in proptest::option::of(1usize..30),
        hidden in proptest::collection::btree_set(0u32..24, 0..14),
        hidden_node in proptest::option::of(0u32..3),
        shown in any::<bool>(),
    ) {
        let whole = model(MODELS[machine].0);
        let hidden: CpuSet = hidden.into_iter().map(CpuId).collect();
        let hidden_node: NodeSet = hidden_node.into_iter().map(NodeId).collect();
        let cpus = whole.allowed_cpus.difference(&hidden).to_string();
        let nodes = whole.allowed_nodes.difference(&hidden_node).to_string();
        let objects = whole.objects.clone();
        let mut topology = restricted(whole, &cpus, &nodes, false);
        if shown {
            // Some sources list objects that this process may not use.
            topology.objects = objects;
        }
        let placement = match parse(&topology, &name, threads, WEIGHTS) {
            Ok(placement) => placement,
            Err(PlacementError::Unavailable(reason)) => {
                prop_assert!(!reason.is_empty());
                return Ok(());
            }
            Err(PlacementError::Invalid(error)) => return Err(TestCaseError::fail(error)),
        };
        prop_assert_eq!(placement.threads, threads.unwrap_or(placement.threads));
        prop_assert!(placement.threads > 0);
        prop_assert!(placement.cpus().is_subset(&topology.allowed_cpus));
        prop_assert_eq!(placement.bindings.is_empty(), name.starts_with("kernel"));
        if placement.is_pinned() {
            prop_assert_eq!(placement.bindings.len(), placement.threads);
        }
        if placement.is_pinned() && !name.starts_with("one-core") {
            prop_assert_eq!(placement.cpus().len(), placement.threads, "a cpu is shared: {:?}", placement);
            let order = topology.cpus_in_logical_order();
            let ranks: Vec<_> = placement.bindings.iter().map(|bound| order.iter().position(|cpu| cpu == bound)).collect();
            prop_assert!(ranks.windows(2).all(|pair| pair[0] < pair[1]), "not in logical order: {:?}", placement);
        }
        if let Some(nodes) = placement.memory.promised_nodes() {
            prop_assert!(!nodes.is_empty() && nodes.is_subset(&topology.allowed_nodes), "{:?}", placement);
        }
        let local = topology.local_nodes(&placement.cpus());
        if name.ends_with("memory-local") && let MemoryPolicy::Bind(nodes) = &placement.memory {
            prop_assert!(nodes.is_subset(&local), "{:?}", placement);
        }
        prop_assert!(!placement.reason.contains("  ") && !placement.reason.ends_with('.'), "{}", placement.reason);
    }

    #[test]
    fn policies_choose_cores_and_caches_of_their_name(machine in 0..MODELS.len(), threads in 1usize..24) {
        let topology = model(MODELS[machine].0);
        let cpus = |policy: &str| parse(&topology, policy, Some(threads), WEIGHTS).ok().map(|placement| placement.cpus());
        let cores = |cpus: &CpuSet| topology.cores().iter().filter(|core| core.intersects(cpus)).count();
        let level = if topology.caches(3).count() > 0 { 3 } else { 2 };
        let caches = |cpus: &CpuSet| topology.caches(level).filter(|cache| cache.cpus.intersects(cpus)).count();
        if let (Some(big), Some(little)) = (cpus("big"), cpus("little")) {
            prop_assert!(!big.intersects(&little));
        }
        if let Some(cpus) = cpus("cores-one-l3") {
            prop_assert_eq!((caches(&cpus), cores(&cpus)), (1, threads));
        }
        if let Some(cpus) = cpus("cores-across-l3") {
            prop_assert!(caches(&cpus) > 1 && cores(&cpus) == threads);
        }
        if let Some(cpus) = cpus("smt-one-l3") {
            prop_assert_eq!((caches(&cpus), cores(&cpus)), (1, threads.div_ceil(2)));
        }
        if let Some(cpus) = cpus("smt-pairs") {
            prop_assert_eq!(cores(&cpus), threads / 2);
        }
        if let (Some(near), Some(far)) = (cpus("compact"), cpus("spread")) {
            prop_assert!(caches(&near) <= caches(&far) && cores(&near) == cores(&far));
            prop_assert_eq!(cores(&near), threads.min(topology.cores().len()));
        }
    }

    /// Arbitrary text never panics, and errors have a message.
    #[test]
    fn arbitrary_placement_text_never_panics(text in "[-+!a-z0-9:,=NCmpil ]{0,24}") {
        let topology = model("xeon-e5-2640-x2");
        if let Err(error) = parse(&topology, &text, None, WEIGHTS) {
            prop_assert!(!error.to_string().is_empty());
        }
        let _ = check(&text);
    }
}
