//! Where interrupts go: what `irq:` means on machines with one node and several, and what is refused with which words.

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

/// A card with three queues, an `NVMe` disk with managed ones, a disk in memory, a disk that nobody may ask about.
fn with_devices(capture: &str) -> Topology {
    let mut topology: Topology = serde_json::from_str(capture).expect("captures are JSON of the present shape");
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

/// `60>0 61>0`, or the refusal.
fn routed(topology: &Topology, text: &str, devices: &[&str]) -> String {
    let words = |placement: model::values::placement::Placement| {
        let route = |route: &model::values::placement::Route| format!("{}>{}", route.number, route.cpus);
        placement.interrupts.iter().map(route).collect::<Vec<_>>().join(" ")
    };
    match placed(topology, text, devices) {
        Ok(placement) => words(placement),
        Err(PlacementError::Invalid(why)) => format!("invalid: {why}"),
        Err(PlacementError::Unavailable(why)) => format!("unavailable: {why}"),
    }
}

#[test]
fn rules_mean_cpus() {
    let (xeon, ryzen) = (xeon(), ryzen());
    let home = xeon.node(NodeId(0)).expect("it has node 0").cpus.clone();
    let other = xeon.node(NodeId(1)).expect("it has node 1").cpus.clone();
    let seat = placed(&xeon, "one-core", &[]).unwrap().cpus();
    let core = xeon.cores().into_iter().find(|core| seat.is_subset(core)).expect("a core has it");
    assert_eq!(routed(&xeon, "one-core+irq:same-core", &["sda"]), format!("7>{seat}"));
    assert_eq!(routed(&xeon, "one-core+irq:same-node", &["sda"]), format!("7>{}", home.difference(&core)));
    assert_eq!(routed(&xeon, "one-core+irq:other-node", &["sda"]), format!("7>{other}"));
    assert_eq!(routed(&xeon, "node:1+irq:other-node", &["sda"]), format!("7>{home}"));
    assert_eq!(routed(&xeon, "one-core+interleave+irq:3", &["sda"]), "7>3");
    assert_eq!(routed(&xeon, "-C 0 -m 1 irq:2-3", &["eth0"]), "60>2-3 61>2-3 62>2-3");
    assert_eq!(routed(&xeon, "irq:1", &["sda"]), "7>1", "the kernel chooses the rest");
    let spread = routed(&ryzen, "one-core+irq:spread", &["eth0", "sda"]);
    let firsts: Vec<String> = ryzen.cores().iter().map(|core| core.first().expect("a cpu").to_string()).collect();
    assert_eq!(spread, format!("7>{} 60>{} 61>{} 62>{}", firsts[0], firsts[1], firsts[2], firsts[3]));
    assert_eq!(routed(&xeon, "one-core", &["sda"]), "7>", "watched, and left as it was found");
    assert_eq!(routed(&xeon, "one-core", &[]), "");
}

#[test]
fn what_cannot_be_is_said() {
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
fn another_route_is_another_place_and_another_cell() {
    let xeon = xeon();
    let one = placed(&xeon, "one-core+irq:1", &["sda"]).unwrap();
    let other = placed(&xeon, "one-core+irq:2", &["sda"]).unwrap();
    assert!(!same_place(&xeon, &one, &other));
    let plain = serde_json::to_string(&placed(&xeon, "one-core", &[]).unwrap()).unwrap();
    assert!(!plain.contains("interrupts"), "a plan without devices keeps its form and its ids: {plain}");
}

#[test]
fn the_lines_are_for_roots_shell() {
    let xeon = xeon();
    let placement = placed(&xeon, "irq:2-3", &["eth0"]).unwrap();
    let lines = lines(&placement, &xeon, "true").interrupts.expect("interrupts are moved");
    assert!(lines.starts_with("echo 2-3 > /proc/irq/60/smp_affinity_list\necho 2-3 > /proc/irq/61/"), "{lines}");
    assert!(lines.ends_with("--banirq=60 --banirq=61 --banirq=62"), "{lines}");
    let found = placed(&xeon, "one-core", &["eth0"]).unwrap();
    assert_eq!(model::placements::placement::lines(&found, &xeon, "true").interrupts, None);
}

#[test]
fn offers_are_for_devices_that_can_be_moved() {
    let of = |topology: &Topology, devices: &[String]| -> Vec<(String, Result<Vec<u32>, String>)> {
        let offers =
            offer_all(topology, None, NONE, devices).into_iter().filter(|offer| offer.policy.starts_with("irq:"));
        let numbers = |placement: model::values::placement::Placement| {
            placement.interrupts.iter().map(|one| one.number).collect()
        };
        offers.map(|offer| (offer.policy, offer.placement.map(numbers))).collect()
    };
    let all = of(&xeon(), &[]);
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|(_, numbers)| numbers.as_deref() == Ok(&[7, 60, 61, 62])), "{all:?}");
    let none = of(&xeon(), &["nvme0n1".into()]);
    assert!(none.iter().all(|(_, why)| why.as_ref().is_err_and(|why| why.contains("managed"))), "{none:?}");
    let mut bare = ryzen();
    bare.devices.clear();
    let bare = of(&bare, &[]);
    assert!(
        bare.iter().all(|(_, why)| why.as_ref().is_err_and(|why| why.contains("has no known devices"))),
        "{bare:?}"
    );
}

/// Names of the candidates for one thread, and where each sends eth0's first queue.
fn candidates_of(topology: &Topology, devices: &[&str]) -> Vec<(String, String)> {
    let devices = devices.iter().map(|name| (*name).into()).collect();
    let wish =
        SearchSpace { threads: Threads::Fixed(1), only: vec!["one-core".into()], devices, ..SearchSpace::default() };
    let found = candidates(topology, &wish).expect("nothing is asked that is not there");
    assert_eq!(found.placements.len(), found.stages.route.len());
    let cpus = |placement: &Placement| placement.interrupts.first().map(|route| route.cpus.to_string());
    found.placements.iter().map(|one| (one.name.clone(), cpus(one).unwrap_or("none".into()))).collect()
}

#[test]
fn candidates_race_where_interrupts_go_too() {
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
        "three queues spread are not on one core, though the first is"
    );
    // One node: no other. Nobody asked for devices: nothing is said of interrupts.
    let names = |topology: &Topology, devices: &[&str]| -> Vec<String> {
        candidates_of(topology, devices).into_iter().map(|(name, _)| name).collect()
    };
    assert!(!names(&ryzen(), &["eth0"]).contains(&"one-core+irq:other-node".into()));
    assert_eq!(names(&ryzen(), &[]), ["kernel", "one-core"]);
    let single = names(&ryzen(), &["sda"]);
    assert_eq!(
        single.last().map(String::as_str),
        Some("one-core+irq:same-node"),
        "one interrupt spread is on one core"
    );
}

#[test]
fn cpus_near_a_device_are_not_alike_others() {
    let singles = |devices: Vec<String>| {
        let wish = SearchSpace { threads: Threads::Fixed(1), devices, ..SearchSpace::default() };
        let found = candidates(&xeon(), &wish).expect("nothing is asked that is not there");
        let seats = found.placements.iter().filter(|one| one.bindings.len() == 1 && one.cpus().len() == 1);
        seats.map(|one| one.bindings[0].0).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(singles(Vec::new()).into_iter().collect::<Vec<_>>(), [0]);
    assert_eq!(singles(vec!["eth0".into()]).into_iter().collect::<Vec<_>>(), [0, 6]);
}

#[test]
fn what_cannot_be_moved_is_refused_before_a_race() {
    let refused = |name: &str| match check_movable(&xeon(), &[name.into()]) {
        Ok(()) => String::new(),
        Err(PlacementError::Invalid(why)) => format!("invalid: {why}"),
        Err(PlacementError::Unavailable(why)) => format!("unavailable: {why}"),
    };
    assert_eq!(refused("eth0"), "");
    assert!(refused("nvme0n1").starts_with("unavailable: interrupt 51 (nvme0q1) of nvme0n1 is managed"));
    assert!(refused("eth9").starts_with("invalid: unknown device 'eth9'; this machine has eth0"));
}

/// A workload with a file.
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
fn several_devices_have_a_thread_each_and_all_of_their_interrupts_are_sent() {
    let specs = [io_spec()];
    let text = "name = \"x\"\nquestion = \"?\"\n[[workload]]\nname = \"io\"\nset = { file = \"/dev/{devices}\" }\n\
                threads = [\"devices\"]\nplacements = [\"kernel+irq:spread\"]\n";
    let experiment = model::experiments::experiment::parse(text, "x.toml", &specs).unwrap();
    let topology = xeon();
    let plan = |names: &[&str]| {
        let devices: Vec<String> = names.iter().map(|name| (*name).into()).collect();
        let wishes = model::experiments::experiment::PlanOptions { smoke: false, kernel: NONE, devices: &devices };
        experiment.plan(&topology, &specs, wishes)
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
