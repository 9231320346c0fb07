//! Interrupt rules (`irq:`) on machines with one and with two memory nodes: resulting CPUs, errors and candidates.

use model::placements::candidates::{SearchSpace, Threads, candidates};
use model::placements::placement::{
    KernelFeatures, PlacementError, check, check_movable, lines, offer_all, parse_for, same_place,
};
use model::values::id_set::{CpuSet, NodeId};
use model::values::placement::Placement;
use model::values::topology::{Device, DeviceKind, Interrupt, Movability, Topology};
use model::values::units::Nanos;
use model::values::workload::{ParameterKind, ParameterSpec, WorkloadSpec};

const NONE: KernelFeatures = KernelFeatures { weighted_interleave: false, far: false };

fn interrupt(number: u32, name: &str, movability: Movability) -> Interrupt {
    let all = CpuSet::parse_list("0-1").expect("a list");
    Interrupt { number, name: name.into(), affinity: all.clone(), effective: all, movability }
}

fn device(name: &str, interrupts: Vec<Interrupt>) -> Device {
    Device { name: name.into(), kind: DeviceKind::Block, bus: None, node: Some(NodeId(0)), interrupts }
}

/// Adds a network card and three disks: with a managed interrupt, without interrupts, and with unknown movability.
fn with_devices(capture: &str) -> Topology {
    let mut topology: Topology = serde_json::from_str(capture).expect("the capture has the current format");
    let queues = (0..3).map(|queue| interrupt(60 + queue, &format!("eth0-{queue}"), Movability::Movable)).collect();
    let nvme = vec![interrupt(50, "nvme0q0", Movability::Movable), interrupt(51, "nvme0q1", Movability::Managed)];
    topology.devices = vec![
        device("eth0", queues),
        device("nvme0n1", nvme),
        device("pmem0", Vec::new()),
        device("sda", vec![interrupt(7, "xhci_hcd", Movability::Unknown)]),
    ];
    topology
}

fn xeon() -> Topology {
    with_devices(include_str!("captures/xeon-e5-2640-x2.json"))
}

fn ryzen() -> Topology {
    with_devices(include_str!("captures/ryzen5-2600.json"))
}

fn placed(
    topology: &Topology,
    text: &str,
    devices: &[&str],
) -> Result<model::values::placement::Placement, PlacementError> {
    let devices: Vec<String> = devices.iter().map(|name| (*name).into()).collect();
    parse_for(topology, text, None, NONE, &devices)
}

/// Returns the routes as `60>0 61>0`, or the error.
fn routed(topology: &Topology, text: &str, devices: &[&str]) -> String {
    let text_of = |placement: model::values::placement::Placement| {
        let route = |route: &model::values::placement::Route| format!("{}>{}", route.number, route.cpus);
        placement.interrupts.iter().map(route).collect::<Vec<_>>().join(" ")
    };
    match placed(topology, text, devices) {
        Ok(placement) => text_of(placement),
        Err(PlacementError::Invalid(why)) => format!("invalid: {why}"),
        Err(PlacementError::Unavailable(why)) => format!("unavailable: {why}"),
    }
}

#[test]
fn placements_and_rules_accept_locations_of_cpus() {
    let xeon = xeon();
    for (text, cpus, routes) in [
        ("0-1+irq:2", "0-1", "7>2"),
        ("0x3 irq:package:1.core:0.pu:0", "0-1", "7>6"),
        ("package:0.core:0+irq:S1:0-1", "0,12", "7>6-7"),
        ("-C S0:0 irq:0x6", "0", "7>1-2"),
    ] {
        let placement = placed(&xeon, text, &["sda"]).unwrap();
        assert!(check(text).is_ok(), "{text}");
        assert_eq!((placement.cpus().to_string().as_str(), routed(&xeon, text, &["sda"]).as_str()), (cpus, routes));
        assert_eq!(placed(&xeon, &placement.name, &["sda"]).unwrap(), placement, "{text}");
    }
    assert_eq!(
        routed(&xeon, "0+irq:package:7", &["sda"]),
        "invalid: irq:'package:7': this machine has only package 0-1"
    );
    assert!(check("packagex:0").is_err() && check("0-1+interleave").is_err());
}

#[test]
fn interrupt_rules_select_cpus() {
    let (xeon, ryzen) = (xeon(), ryzen());
    let node0 = xeon.node(NodeId(0)).expect("node 0 exists").cpus.clone();
    let node1 = xeon.node(NodeId(1)).expect("node 1 exists").cpus.clone();
    let cpus = placed(&xeon, "one-core", &[]).unwrap().cpus();
    let core = xeon.cores().into_iter().find(|core| cpus.is_subset(core)).expect("a core contains the CPU");
    assert_eq!(routed(&xeon, "one-core+irq:same-core", &["sda"]), format!("7>{cpus}"));
    assert_eq!(routed(&xeon, "one-core+irq:same-node", &["sda"]), format!("7>{}", node0.difference(&core)));
    assert_eq!(routed(&xeon, "one-core+irq:other-node", &["sda"]), format!("7>{node1}"));
    assert_eq!(routed(&xeon, "node:1+irq:other-node", &["sda"]), format!("7>{node0}"));
    assert_eq!(routed(&xeon, "one-core+interleave+irq:3", &["sda"]), "7>3");
    assert_eq!(routed(&xeon, "-C 0 -m 1 irq:2-3", &["eth0"]), "60>2-3 61>2-3 62>2-3");
    assert_eq!(routed(&xeon, "irq:1", &["sda"]), "7>1", "the threads are not pinned");
    let spread = routed(&ryzen, "one-core+irq:spread", &["eth0", "sda"]);
    let firsts: Vec<String> = ryzen.cores().iter().map(|core| core.first().expect("a CPU").to_string()).collect();
    assert_eq!(spread, format!("7>{} 60>{} 61>{} 62>{}", firsts[0], firsts[1], firsts[2], firsts[3]));
    assert_eq!(routed(&xeon, "one-core", &["sda"]), "7>", "the device is observed, and its affinity is unchanged");
    assert_eq!(routed(&xeon, "one-core", &[]), "");
}

#[test]
fn invalid_irq_rules_return_errors() {
    let (xeon, ryzen) = (xeon(), ryzen());
    let cases: &[(&Topology, &str, &[&str], &str)] = &[
        (&ryzen, "one-core+irq:other-node", &["sda"], "unavailable: this machine has one memory node with CPUs"),
        (&xeon, "spread+irq:other-node", &["sda"], "unavailable: the threads are on every memory node"),
        (&ryzen, "compact+irq:same-node", &["sda"], "unavailable: the threads use every core"),
        (&xeon, "kernel+irq:same-core", &["sda"], "unavailable: the rule refers to the CPUs of the threads"),
        (&xeon, "one-core+irq:1", &["nvme0n1"], "unavailable: interrupt 51 (nvme0q1) of nvme0n1 is managed"),
        (&xeon, "one-core+irq:1", &["pmem0"], "unavailable: pmem0 has no interrupts"),
        (&xeon, "one-core+irq:1", &[], "invalid: irq: requires a device: --device NAME"),
        (&xeon, "one-core+irq:1", &["sdx"], "invalid: unknown device 'sdx'; this machine has sda, "),
        (&xeon, "one-core", &["sdx"], "invalid: unknown device 'sdx'"),
        (&xeon, "one-core+irq:900", &["sda"], "invalid: irq:900: CPU 900 does not exist"),
        (
            &xeon,
            "one-core+irq:same-cor",
            &["sda"],
            "invalid: 'irq:same-cor' is not an interrupt rule; valid rules: irq:same-core",
        ),
        (&xeon, "one-core+irq:", &["sda"], "invalid: 'irq:' is not an interrupt rule"),
        (&xeon, "irq:1+irq:spread", &["sda"], "invalid: irq:1 and irq:spread both place interrupts"),
        (&xeon, "on-core+irq:1", &["sda"], "invalid: unknown placement 'on-core'"),
    ];
    for (topology, text, devices, expected) in cases {
        let got = routed(topology, text, devices);
        assert!(got.starts_with(expected), "{text}: {got}");
    }
    assert_eq!(check("one-core+irq:same-node"), Ok(()));
    assert_eq!(check("-C 0 irq:1"), Ok(()));
    assert!(check("one-core+irq:nowhere").is_err());
    assert!(check("-C 0 irq:1 irq:2").is_err());
}

#[test]
fn device_placements_use_the_node_of_the_device() {
    let attached = |mut topology: Topology, name: &str, node: Option<u32>| {
        let device = topology.devices.iter_mut().find(|device| device.name == name).expect("the device exists");
        device.node = node.map(NodeId);
        topology
    };
    let cpus = |topology: &Topology, text: &str, devices: &[&str]| match placed(topology, text, devices) {
        Ok(placement) => placement.cpus().to_string(),
        Err(PlacementError::Invalid(why)) => format!("invalid: {why}"),
        Err(PlacementError::Unavailable(why)) => why,
    };
    let on_one = attached(xeon(), "sda", Some(1));
    assert_eq!(cpus(&on_one, "near-device", &["sda"]), "6-11");
    assert_eq!(cpus(&on_one, "far-from-device", &["sda"]), "0-5");
    assert_eq!(cpus(&on_one, "near-device", &["eth0"]), "0-5");
    assert_eq!(routed(&on_one, "far-from-device+irq:other-node", &["sda"]), "7>6-11,18-23");
    assert_eq!(cpus(&on_one, "near-device", &["sda", "eth0"]), "sda and eth0 are attached to different memory nodes");
    assert_eq!(
        cpus(&on_one, "far-from-device", &["sdx"]),
        "invalid: unknown device 'sdx'; this machine has sda, eth0, pmem0, nvme0n1"
    );
    let no_device = "no device is named: use --device NAME, or devices = [\"NAME\"] in an experiment";
    assert_eq!(cpus(&on_one, "near-device", &[]), no_device);
    let unknown = attached(xeon(), "sda", None);
    assert_eq!(cpus(&unknown, "near-device", &["sda"]), "the system does not report the memory node of sda");
    let ryzen = attached(ryzen(), "sda", None);
    assert_eq!(cpus(&ryzen, "near-device", &["sda"]), "0-5", "a machine with one node needs no report");
    let one_node = "this machine has one memory node with CPUs, so none is far from the device";
    assert_eq!(cpus(&ryzen, "far-from-device", &["sda"]), one_node);
}

#[test]
fn different_routes_are_different_placements() {
    let xeon = xeon();
    let one = placed(&xeon, "one-core+irq:1", &["sda"]).unwrap();
    let other = placed(&xeon, "one-core+irq:2", &["sda"]).unwrap();
    assert!(!same_place(&xeon, &one, &other));
    let plain = serde_json::to_string(&placed(&xeon, "one-core", &[]).unwrap()).unwrap();
    assert!(!plain.contains("interrupts"), "plans without devices keep their JSON and keys: {plain}");
}

#[test]
fn interrupt_lines_are_shell_commands() {
    let xeon = xeon();
    let placement = placed(&xeon, "irq:2-3", &["eth0"]).unwrap();
    let lines = lines(&placement, &xeon, "true").interrupts.expect("the placement moves interrupts");
    assert!(lines.starts_with("echo 2-3 > /proc/irq/60/smp_affinity_list\necho 2-3 > /proc/irq/61/"), "{lines}");
    assert!(lines.ends_with("--banirq=60 --banirq=61 --banirq=62"), "{lines}");
    let unmoved = placed(&xeon, "one-core", &["eth0"]).unwrap();
    assert_eq!(model::placements::placement::lines(&unmoved, &xeon, "true").interrupts, None);
}

#[test]
fn interrupt_policies_require_movable_interrupts() {
    let policies = |topology: &Topology, devices: &[String]| -> Vec<(String, Result<Vec<u32>, String>)> {
        let offers =
            offer_all(topology, None, NONE, devices).into_iter().filter(|offer| offer.policy.starts_with("irq:"));
        let numbers = |placement: model::values::placement::Placement| {
            placement.interrupts.iter().map(|one| one.number).collect()
        };
        offers.map(|offer| (offer.policy, offer.placement.map(numbers))).collect()
    };
    let all = policies(&xeon(), &[]);
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|(_, numbers)| numbers.as_deref() == Ok(&[7, 60, 61, 62])), "{all:?}");
    let none = policies(&xeon(), &["nvme0n1".into()]);
    assert!(none.iter().all(|(_, why)| why.as_ref().is_err_and(|why| why.contains("managed"))), "{none:?}");
    let mut bare = ryzen();
    bare.devices.clear();
    let bare = policies(&bare, &[]);
    assert!(
        bare.iter().all(|(_, why)| why.as_ref().is_err_and(|why| why.contains("has no known devices"))),
        "{bare:?}"
    );
}

/// Returns the name of each candidate for one thread, and the CPUs of its first route.
fn candidates_of(topology: &Topology, devices: &[&str]) -> Vec<(String, String)> {
    let devices = devices.iter().map(|name| (*name).into()).collect();
    let space =
        SearchSpace { threads: Threads::Fixed(1), only: vec!["one-core".into()], devices, ..SearchSpace::default() };
    let found = candidates(topology, &space).expect("the search space is valid");
    assert_eq!(found.placements.len(), found.stages.route.len());
    let cpus = |placement: &Placement| placement.interrupts.first().map(|route| route.cpus.to_string());
    found.placements.iter().map(|one| (one.name.clone(), cpus(one).unwrap_or("none".into()))).collect()
}

#[test]
fn candidates_include_interrupt_routes() {
    let found = candidates_of(&xeon(), &["eth0"]);
    let words: Vec<String> = found.into_iter().map(|(name, cpus)| format!("{name} {cpus}")).collect();
    assert_eq!(
        words,
        [
            "kernel ",
            "kernel+irq:spread 0",
            "one-core ",
            "one-core+irq:same-core 0",
            "one-core+irq:same-node 1-5,13-17",
            "one-core+irq:other-node 6-11,18-23",
            "one-core+irq:spread 0",
        ],
        "with three queues, irq:spread differs from irq:same-core"
    );
    // A machine with one node has no `irq:other-node`. Without devices there are no interrupt rules.
    let names = |topology: &Topology, devices: &[&str]| -> Vec<String> {
        candidates_of(topology, devices).into_iter().map(|(name, _)| name).collect()
    };
    assert!(!names(&ryzen(), &["eth0"]).contains(&"one-core+irq:other-node".into()));
    assert_eq!(names(&ryzen(), &[]), ["kernel", "one-core"]);
    let single = names(&ryzen(), &["sda"]);
    assert_eq!(
        single.last().map(String::as_str),
        Some("one-core+irq:same-node"),
        "with one interrupt, irq:spread equals irq:same-core"
    );
}

#[test]
fn cpus_near_a_device_are_not_equivalent_to_others() {
    let singles = |devices: Vec<String>| {
        // Otherwise the CPUs that handle interrupts are distinguished, too.
        let has_moving_interrupts = true;
        let space =
            SearchSpace { threads: Threads::Fixed(1), devices, has_moving_interrupts, ..SearchSpace::default() };
        let found = candidates(&xeon(), &space).expect("the search space is valid");
        let single = found.placements.iter().filter(|one| one.bindings.len() == 1 && one.cpus().len() == 1);
        single.map(|one| one.bindings[0].0).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(singles(Vec::new()).into_iter().collect::<Vec<_>>(), [0]);
    assert_eq!(singles(vec!["eth0".into()]).into_iter().collect::<Vec<_>>(), [0, 6]);
}

#[test]
fn immovable_interrupts_are_rejected_before_a_race() {
    let error = |name: &str| match check_movable(&xeon(), &[name.into()]) {
        Ok(()) => String::new(),
        Err(PlacementError::Invalid(why)) => format!("invalid: {why}"),
        Err(PlacementError::Unavailable(why)) => format!("unavailable: {why}"),
    };
    assert_eq!(error("eth0"), "");
    assert!(error("nvme0n1").starts_with("unavailable: interrupt 51 (nvme0q1) of nvme0n1 is managed"));
    assert!(error("eth9").starts_with("invalid: unknown device 'eth9'; this machine has eth0"));
}

/// A workload with the parameter `file`.
fn io_spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "io".into(),
        summary: String::new(),
        about: String::new(),
        parameters: vec![ParameterSpec {
            name: "file".into(),
            about: String::new(),
            kind: ParameterKind::Text,
            default: None,
            smoke: None,
        }],
        metrics: Vec::new(),
        threads_exactly: None,
        trial_time_guess: Nanos(0),
    }
}

#[test]
fn multiple_devices_get_one_thread_each_and_all_interrupts_move() {
    let specs = [io_spec()];
    let text = "name = \"x\"\nquestion = \"?\"\n[[workload]]\nname = \"io\"\nset = { file = \"/dev/{devices}\" }\n\
                threads = [\"devices\"]\nplacements = [\"kernel+irq:spread\"]\n";
    let experiment = model::experiments::experiment::parse(text, "x.toml", &specs).unwrap();
    let topology = xeon();
    let plan = |names: &[&str]| {
        let devices: Vec<String> = names.iter().map(|name| (*name).into()).collect();
        let options = model::experiments::experiment::PlanOptions {
            smoke: false,
            kernel: NONE,
            devices: &devices,
            missing: None,
        };
        experiment.plan(&topology, &specs, options)
    };
    let planned = |names: &[&str]| {
        let plan = plan(names).unwrap();
        let cells = plan.cells.iter().map(|cell| {
            let routed = cell.placement.interrupts.iter().map(|route| route.device.clone());
            let routed: std::collections::BTreeSet<String> = routed.collect();
            (cell.parameters.text("file").to_string(), cell.placement.threads, routed.into_iter().collect())
        });
        cells.collect::<Vec<(String, usize, Vec<String>)>>()
    };
    assert_eq!(planned(&["sda"]), [("/dev/sda".into(), 1, vec!["sda".into()])]);
    let both = ("/dev/sda,/dev/eth0".into(), 2, vec!["eth0".into(), "sda".into()]);
    assert_eq!(planned(&["sda", "eth0"]), [both]);
    let none = plan(&[]).unwrap_err();
    assert!(format!("{none:?}").contains("--device NAME"), "{none:?}");
}
