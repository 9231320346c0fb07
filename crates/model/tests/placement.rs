//! Every policy on every model machine: what it makes of it, or why it cannot. The captures are the models of
//! tests/topologies/models as JSON; tests/captures/README.md says how they are made.

mod machines;

use std::fmt::Write;

use machines::{MODELS, model};
use model::placements::placement::{
    KernelFeatures, MemoryPolicy, Placement, PlacementError, check, lines, offer, offer_all, parse, same_place,
};
use model::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use model::values::topology::{Cache, MemoryNode, Object, ObjectKind, Topology};
use model::values::units::Bytes;
use proptest::prelude::*;

const WEIGHTS: KernelFeatures = KernelFeatures { weighted_interleave: true, far: true };

/// What a person reads in `nearfar placements`, one policy a line.
fn table(topology: &Topology, threads: Option<usize>) -> String {
    let mut text = String::new();
    for offer in offer_all(topology, threads, WEIGHTS, &[]) {
        let same = offer.same_as.map(|name| format!(" [same as {name}]")).unwrap_or_default();
        match offer.placement {
            Ok(Placement { reason, threads, memory, seats, .. }) => {
                let cpus = seats.iter().copied().collect::<CpuSet>();
                writeln!(text, "{:20} {threads:3} x {cpus}, {memory}: {reason}{same}", offer.policy)
                    .expect("text grows");
            }
            Err(why) => writeln!(text, "{:20} - {why}", offer.policy).expect("text grows"),
        }
    }
    text
}

#[test]
fn placement_policies_on_every_model() {
    for (name, _) in MODELS {
        for threads in [None, Some(2), Some(6)] {
            let label = threads.map_or("natural".to_string(), |threads| threads.to_string());
            insta::assert_snapshot!(format!("{name}-{label}"), table(&model(name), threads));
        }
    }
}

/// What the published study of this machine compared, cpu by cpu.
#[test]
fn placement_ryzen_study_seats() {
    let ryzen = model("ryzen5-2600");
    let cpus = |policy| parse(&ryzen, policy, Some(6), KernelFeatures::default()).unwrap().cpus().to_string();
    assert_eq!(cpus("cores-across-l3"), "0-5");
    assert_eq!(cpus("smt-one-l3"), "0-2,6-8");
}

/// Two big cores, 4 and 5, and four little ones: who gets which, cpu by cpu, and who is refused.
#[test]
fn placement_big_and_little_seats() {
    let board = model("rk3399");
    let seats = |policy: &str, threads: Option<usize>| {
        let placement = parse(&board, policy, threads, KernelFeatures::default());
        placement.map_or_else(|why| why.to_string(), |placement| placement.cpus().to_string())
    };
    for (policy, threads, expected) in [
        ("big", None, "4-5"),
        ("big", Some(1), "4"),
        ("big", Some(2), "4-5"),
        ("big", Some(3), "needs 3 cpus, the big cores have 2"),
        ("little", None, "0-3"),
        ("little", Some(1), "0"),
        ("little", Some(2), "0-1"),
        ("little", Some(4), "0-3"),
        ("little", Some(5), "needs 5 cpus, the little cores have 4"),
        ("compact", Some(2), "4-5"),
        ("spread", Some(2), "0,4"),
        ("compact", Some(6), "0-5"),
    ] {
        assert_eq!(seats(policy, threads), expected, "{policy} with {threads:?} threads");
    }
}

#[test]
fn placement_memory_policies_differ_only_in_memory() {
    for (name, _) in MODELS {
        for threads in [None, Some(1), Some(2)] {
            let seats: Vec<_> = ["memory-local", "memory-remote", "interleave", "weighted-interleave"]
                .iter()
                .filter_map(|policy| parse(&model(name), policy, threads, WEIGHTS).ok())
                .map(|placement| placement.seats)
                .collect();
            assert!(seats.windows(2).all(|pair| pair[0] == pair[1]), "{name} {threads:?}: {seats:?}");
        }
    }
}

#[test]
fn placement_combinations() {
    let cases = [
        ("xeon-e5-2640-x2", "compact+interleave", "6-threads 0-5 interleave 0-1"),
        ("xeon-e5-2640-x2", "cores-one-l3+memory-remote", "6-threads 0-5 bind 1"),
        ("xeon-e5-2640-x2", "node:1+memory-remote", "6-threads 6-11 bind 0"),
        ("xeon-e5-2640-x2", "spread+memory-local", "6-threads 0-2,6-8 local"),
        ("xeon-e5-2640-x2", "spread+memory-remote", "the seats are on every memory node, so none is remote"),
        ("xeon-e5-2640-x2", "kernel+memory-local", "6-threads  local"),
        ("xeon-e5-2640-x2", "kernel+memory-remote", "without seats no memory node is remote"),
        ("xeon-e5-2640-x2-roundrobin", "smt-one-l3+node:1", "6-threads 0,2,4,12,14,16 bind 1"),
        ("grace-cxl-nohmat", "compact+node:2", "6-threads 0-5 bind 2"),
        ("grace-cxl-nohmat", "spread+memory-remote", "6-threads 0-2,72-74 bind 2"),
        ("rpi5-numafake8", "one-core+interleave", "6-threads 0 interleave 0-7"),
        ("ryzen5-2600", "compact+memory-remote", "this machine has one memory node, so none is remote"),
        ("ryzen5-2600", "compact+node:3", "memory node 3 does not exist here; this machine has memory node 0"),
        ("ryzen5-2600", "node:3", "memory node 3 does not exist here; this machine has memory node 0"),
    ];
    for (machine, policy, expected) in cases {
        let got = match parse(&model(machine), policy, Some(6), KernelFeatures::default()) {
            Ok(placement) => format!("{}-threads {} {}", placement.threads, placement.cpus(), placement.memory),
            Err(PlacementError::Unavailable(why)) => why,
            Err(PlacementError::Mistake(why)) => panic!("{policy}: {why}"),
        };
        assert!(got.starts_with(expected), "{policy} on {machine}: {got}");
    }
}

#[test]
fn placement_weights_need_a_kernel_that_has_them() {
    let xeon = model("xeon-e5-2640-x2");
    for text in ["weighted-interleave", "compact+weighted-interleave", "-w all"] {
        let refused = parse(&xeon, text, None, KernelFeatures::default());
        assert!(
            matches!(&refused, Err(PlacementError::Unavailable(why)) if why.contains("6.9")),
            "{text}: {refused:?}"
        );
        assert_eq!(parse(&xeon, text, None, WEIGHTS).unwrap().memory.to_string(), "weighted-interleave 0-1");
    }
}

#[test]
fn placement_mistakes_name_the_choices() {
    let cases = [
        ("compat", "no placement is called 'compat'; there are compact, "),
        ("", "no placement is called ''"),
        ("memory-local+interleave", "'memory-local' does not say where cpus should be"),
        ("compact+kernel", "'kernel' does not say where memory should be; far, node:N, interleave"),
        ("node:x", "no placement is called 'node:x'; there are node:N, "),
        ("-C", "-C needs a list such as 0-3 or all"),
        ("-C 9", "-C: cpu 9 does not exist here; this machine has 0-1"),
        ("-C 0,7-9", "-C: cpus 7-9 do not exist here; this machine has 0-1"),
        ("-C +2", "-C: +2 counts beyond the 2 cpus that this process may use (0-1)"),
        ("-C !0-1", "-C: the list leaves no cpu"),
        ("-C !all", "-C: '!all' leaves nothing"),
        ("-C 0-", "-C: '0-' is not a list; write it like 0-3,8 or all"),
        ("-N 3", "-N: memory node 3 does not exist here; this machine has 0"),
        ("-m netdev:eth0", "-m: 'netdev:eth0': nodes by device are numactl's own"),
        ("-m 0 -i all", "-m and -i both say where memory should be; give one of them"),
        ("-C 0 -N 0", "-C and -N both say where cpus should be"),
        ("-l 0", "'0' is not one of numactl's letters"),
        ("--localalloc=0", "--localalloc takes no list"),
        ("--membnd 0", "'--membnd' is not one of numactl's letters for placements; there are -m/--membind LIST"),
        ("-z", "'-z' is not one of numactl's letters"),
        ("-", "'-' is not one of numactl's letters"),
    ];
    for (text, expected) in cases {
        let refused = parse(&two_cpus(), text, None, KernelFeatures::default());
        assert!(
            matches!(&refused, Err(PlacementError::Mistake(why)) if why.starts_with(expected)),
            "{text}: {refused:?}"
        );
    }
    let none = parse(&two_cpus(), "compact", Some(0), KernelFeatures::default());
    assert_eq!(none, Err(PlacementError::Mistake("0 threads do nothing; give at least 1".into())));
    for text in ["compact+interleave", "node:7", "-C 900 -m 8", "--physcpubind=!+0-3"] {
        assert_eq!(check(text), Ok(()), "{text} may exist on another machine");
    }
}

#[test]
fn placement_offers_hold_refusals_and_pass_on_mistakes() {
    let xeon = model("xeon-e5-2640-x2");
    let offered = offer(&xeon, "big", None, WEIGHTS, &[]).unwrap();
    assert_eq!(offered.policy, "big");
    assert_eq!(offered.placement, Err("all cores that this process may use are of one kind".into()));
    assert!(offer(&xeon, "-C 0-3 -m 1", None, WEIGHTS, &[]).unwrap().placement.is_ok());
    assert!(offer(&xeon, "bigg", None, WEIGHTS, &[]).is_err());
    let json = serde_json::to_value(&offer_all(&xeon, Some(2), WEIGHTS, &[])[4..9]).unwrap();
    assert_eq!(json[0]["same_as"], "compact");
    assert_eq!(json[0]["placement"]["seats"], serde_json::json!([0, 1]));
    assert_eq!(json[4]["unavailable"], "all cores that this process may use are of one kind");
    assert_eq!(json[4].get("placement"), None);
}

/// Two cpus on one memory node, as a small virtual machine shows itself.
fn two_cpus() -> Topology {
    restricted(model("rpi5-numafake8"), "0-1", "0", true)
}

/// A machine of which this process may use only some cpus and nodes; `gone` takes the rest out of the machine.
fn restricted(mut topology: Topology, cpus: &str, nodes: &str, gone: bool) -> Topology {
    topology.allowed_cpus = CpuSet::parse_list(cpus).expect("a list");
    topology.allowed_nodes = NodeSet::parse_list(nodes).expect("a list");
    let allowed = topology.allowed_cpus.clone();
    topology.objects.iter_mut().for_each(|object| object.cpus = object.cpus.intersection(&allowed));
    topology.nodes.iter_mut().for_each(|node| node.cpus = node.cpus.intersection(&allowed));
    if gone {
        topology.complete_cpus = allowed;
        topology.nodes.retain(|node| topology.allowed_nodes.contains(node.os));
    }
    topology
}

#[test]
fn placement_explicit_letters_read_as_numactl_reads_them() {
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
        let Placement { name, threads, seats, memory, .. } =
            parse(&xeon, text, threads, KernelFeatures::default()).unwrap();
        let cpus: CpuSet = seats.iter().copied().collect();
        assert_eq!(format!("{threads} x {cpus} {memory}"), expected, "{text}");
        assert_eq!(name, text);
        assert!(seats.is_empty() || seats.len() >= threads, "{text}: {seats:?}");
    }
    let barred = parse(&xeon, "-C 0-2", None, KernelFeatures::default()).unwrap_err().to_string();
    assert_eq!(barred, "-C: cpus 0-1 are not usable by this process; it may use 2-5,8-11,14-17,20-23");
}

#[test]
fn placement_reasons_of_restricted_machines() {
    // Two cores of one L3 and one of the other: the larger L3 is taken although it is not the first.
    let uneven = restricted(model("ryzen5-2600"), "2,4-5,8", "0", false);
    insta::assert_snapshot!("ryzen5-2600-uneven", table(&uneven, None));
    // No cpu of node 0, and no memory of node 1.
    let crossed = restricted(model("xeon-e5-2640-x2"), "6-8", "0", false);
    insta::assert_snapshot!("xeon-e5-2640-x2-crossed", table(&crossed, None));
    let nothing = Topology::default();
    insta::assert_snapshot!("nothing", table(&nothing, None));
    // The kinds of one half are the kinds of the machine: only little cores are left.
    let little = restricted(model("rk3399"), "0-3", "0", false);
    insta::assert_snapshot!("rk3399-little", table(&little, Some(2)));
}

/// Packages, each with a memory node, of L3s of cores of hardware threads, numbered one after the other.
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
fn placement_spans_of_l3s_stay_on_one_node_while_they_fit() {
    // Two packages with a node each, two L3s of three cores in each, two threads a core.
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
    // The same with the nodes in one package: a node is enough to hold a span together.
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

/// Beyond DRAM is a place of its own also where there is one memory node, which no other tool has a line for.
#[test]
fn placement_beyond_dram_is_for_who_can_follow_it() {
    let board = model("rk3399");
    let far = parse(&board, "one-core+far", Some(1), WEIGHTS).unwrap();
    assert_eq!((far.memory.clone(), far.memory.to_string()), (MemoryPolicy::Far, "far".into()));
    assert!(far.reason.ends_with("; arrays in a file on a disk, in and out of DRAM page by page"), "{}", far.reason);
    let near = parse(&board, "one-core", Some(1), WEIGHTS).unwrap();
    assert!(!same_place(&board, &near, &far) && same_place(&board, &far, &far));
    assert_eq!(lines(&far, &board, "CMD"), lines(&Placement::kernel(1), &board, "CMD"));
    let stored = serde_json::to_string(&far.memory).unwrap();
    assert_eq!(serde_json::from_str::<MemoryPolicy>(&stored).unwrap(), MemoryPolicy::Far, "{stored}");

    let PlacementError::Unavailable(why) = parse(&board, "far", None, KernelFeatures::default()).unwrap_err() else {
        panic!("a machine without a disk is no mistake of the user's")
    };
    assert!(why.contains("hint: NEARFAR_FAR=FOLDER"), "{why}");
    assert!(check("one-core+far").is_ok() && check("far+one-core").is_err());
}

#[test]
fn placement_of_a_large_machine_takes_no_time_to_speak_of() {
    let machine = regular(32, 1, 18, 2);
    let offers = offer_all(&machine, None, WEIGHTS, &[]);
    assert_eq!(offers.len(), 19 + 32);
    assert_eq!(offers[7].placement.as_ref().unwrap().threads, 1152);
}

#[test]
fn placement_of_unusual_trees() {
    // A machine that shows caches and cores of nobody: bare cpus only.
    let mut bare = model("rk3399");
    bare.objects.retain(|object| matches!(object.kind, ObjectKind::Machine | ObjectKind::Pu));
    let pus = 1..bare.objects.len();
    bare.objects[0].children = pus.clone().collect();
    pus.for_each(|pu| bare.objects[pu].parent = Some(0));
    insta::assert_snapshot!("rk3399-bare", table(&bare, Some(3)));
    // A graphics card's memory is a node, and never "the remote node" or part of "all nodes".
    let mut card = model("grace-cxl-nohmat");
    card.nodes[2].subtype = Some("GPUMemory".into());
    let cpus = |policy| parse(&card, policy, Some(2), WEIGHTS).map(|placement| placement.memory.to_string());
    assert_eq!(cpus("weighted-interleave"), Ok("weighted-interleave 0-1".into()));
    assert_eq!(cpus("compact+node:2"), Ok("bind 2".into()));
    // Kinds without a rank say that cores differ, and not how.
    let mut unranked = model("rk3399");
    unranked.cpu_kinds.iter_mut().for_each(|kind| (kind.efficiency, kind.capacity) = (-1, None));
    assert!(parse(&unranked, "big", None, WEIGHTS).is_err());
}

#[test]
fn placement_lines_of_every_tool() {
    let mut text = String::new();
    let cases = [
        ("ryzen5-2600", "smt-one-l3", Some(6)),
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
    let seats = ["kernel", "one-core", "compact", "spread", "cores-one-l3", "cores-across-l3", "smt-one-l3"];
    let seats = seats.iter().chain(&["smt-pairs", "big", "little", "node:0", "node:1", "node:2"]);
    let memory = ["", "+memory-local", "+memory-remote", "+interleave", "+weighted-interleave", "+node:1"];
    let alone = ["memory-local", "memory-remote", "interleave", "weighted-interleave"];
    let mut names: Vec<String> = alone.iter().map(|name| (*name).to_string()).collect();
    names.extend(seats.flat_map(|seats| memory.map(|memory| format!("{seats}{memory}"))));
    proptest::sample::select(names)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever part of whatever machine this process may use: seats are usable, enough, in logical order, and
    /// nobody shares a cpu except on one core; memory is where this process may put it.
    #[test]
    fn placement_offers_keep_their_promises(
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
            // Some sources show in objects what this process may not use.
            topology.objects = objects;
        }
        let placement = match parse(&topology, &name, threads, WEIGHTS) {
            Ok(placement) => placement,
            Err(PlacementError::Unavailable(why)) => {
                prop_assert!(!why.is_empty());
                return Ok(());
            }
            Err(PlacementError::Mistake(why)) => return Err(TestCaseError::fail(why)),
        };
        prop_assert_eq!(placement.threads, threads.unwrap_or(placement.threads));
        prop_assert!(placement.threads > 0);
        prop_assert!(placement.cpus().is_subset(&topology.allowed_cpus));
        prop_assert_eq!(placement.seats.is_empty(), name.starts_with("kernel"));
        if placement.is_pinned() {
            prop_assert_eq!(placement.seats.len(), placement.threads);
        }
        if placement.is_pinned() && !name.starts_with("one-core") {
            prop_assert_eq!(placement.cpus().len(), placement.threads, "a cpu is shared: {:?}", placement);
            let order = topology.cpus_in_logical_order();
            let ranks: Vec<_> = placement.seats.iter().map(|seat| order.iter().position(|cpu| cpu == seat)).collect();
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
    fn placement_rules_hold_their_names(machine in 0..MODELS.len(), threads in 1usize..24) {
        let topology = model(MODELS[machine].0);
        let seats = |policy: &str| parse(&topology, policy, Some(threads), WEIGHTS).ok().map(|placement| placement.cpus());
        let cores = |cpus: &CpuSet| topology.cores().iter().filter(|core| core.intersects(cpus)).count();
        let level = if topology.caches(3).count() > 0 { 3 } else { 2 };
        let caches = |cpus: &CpuSet| topology.caches(level).filter(|cache| cache.cpus.intersects(cpus)).count();
        if let (Some(big), Some(little)) = (seats("big"), seats("little")) {
            prop_assert!(!big.intersects(&little));
        }
        if let Some(cpus) = seats("cores-one-l3") {
            prop_assert_eq!((caches(&cpus), cores(&cpus)), (1, threads));
        }
        if let Some(cpus) = seats("cores-across-l3") {
            prop_assert!(caches(&cpus) > 1 && cores(&cpus) == threads);
        }
        if let Some(cpus) = seats("smt-one-l3") {
            prop_assert_eq!((caches(&cpus), cores(&cpus)), (1, threads.div_ceil(2)));
        }
        if let Some(cpus) = seats("smt-pairs") {
            prop_assert_eq!(cores(&cpus), threads / 2);
        }
        if let (Some(near), Some(far)) = (seats("compact"), seats("spread")) {
            prop_assert!(caches(&near) <= caches(&far) && cores(&near) == cores(&far));
            prop_assert_eq!(cores(&near), threads.min(topology.cores().len()));
        }
    }

    /// Nobody's text makes it panic, and what is refused is refused with words.
    #[test]
    fn placement_texts_are_read_or_refused(text in "[-+!a-z0-9:,=NCmpil ]{0,24}") {
        let topology = model("xeon-e5-2640-x2");
        if let Err(why) = parse(&topology, &text, None, WEIGHTS) {
            prop_assert!(!why.to_string().is_empty());
        }
        let _ = check(&text);
    }
}
