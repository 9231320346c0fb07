//! Compares the topologies of all recorded machines with the results of hwloc's tools.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use machine::topology::{TopologySource, read, read_isolated};
use model::values::id_set::NodeId;
use model::values::topology::{Device, ObjectKind, Topology};
use serde_json::{Value, json};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the machines in a directory with their expected topologies.
fn expected(dir: &Path) -> Vec<(PathBuf, Value)> {
    let text = std::fs::read_to_string(dir.join("expected-default.jsonl")).expect("the directory has expectations");
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("every line is JSON");
        (dir.join(value["file"].as_str().expect("every line has a file name")), value)
    };
    text.lines().map(line).collect()
}

fn reader() -> PathBuf {
    let tests = std::env::current_exe().expect("a running test has a file");
    let reader = tests.ancestors().nth(2).expect("tests are in target/*/deps").join("examples/read_topology");
    assert!(reader.exists(), "{} is missing: cargo build -p machine --examples", reader.display());
    reader
}

/// Converts a topology to the format of the expectations.
fn as_expectation(topology: &Topology) -> Value {
    let cpus = |kind| -> Vec<String> { topology.of_kind(kind).map(|object| object.cpus.to_string()).collect() };
    let l3_cpus: Vec<String> = topology.caches(3).map(|object| object.cpus.to_string()).collect();
    let numa: Vec<Value> =
        topology.nodes.iter().map(|node| json!({"os": node.os, "cpus": node.cpus, "bytes": node.bytes})).collect();
    let kinds: Vec<Value> =
        topology.cpu_kinds.iter().map(|kind| json!({"efficiency": kind.efficiency, "cpus": kind.cpus})).collect();
    let objects = |nodes: &[NodeId]| -> Vec<String> { nodes.iter().map(|node| format!("NUMANode:{node}")).collect() };
    let distances: Vec<Value> = topology
        .distances
        .iter()
        .map(|matrix| {
            let name = matrix.name.as_deref().unwrap_or("");
            json!({"name": name, "objs": objects(&matrix.nodes), "values": matrix.values})
        })
        .collect();
    // The expectations lack the two write attributes.
    let attributes = topology.memory_attributes.iter().filter(|attribute| !attribute.attr.starts_with("Write"));
    json!({
        "counts": topology.counts(), "numa": numa, "package_cpus": cpus(ObjectKind::Package), "l3_cpus": l3_cpus,
        "core_cpus": cpus(ObjectKind::Core), "cpukinds": kinds, "distances": distances,
        "memattrs": attributes.collect::<Vec<_>>(),
    })
}

/// Compares part by part, so that the message for a difference is short.
fn assert_agrees(name: &str, topology: &Topology, expected: &Value) {
    let actual = as_expectation(topology);
    for (part, value) in actual.as_object().expect("it was created as an object") {
        let mut expected = expected[part].clone();
        if let Some(counts) = expected.as_object_mut() {
            // hwloc's default filters drop memory-side caches.
            assert_eq!(counts.remove("memcaches"), Some(json!(0)));
        }
        assert_eq!(*value, expected, "{name}: {part}");
    }
    assert_eq!(model::values::capture::check_topology(topology), Ok(()), "{name}");
    let round_trip: Result<Topology, _> = serde_json::from_value(json!(topology));
    assert_eq!(round_trip.ok().as_ref(), Some(topology), "{name} through JSON");
}

#[test]
fn topologies_match_hwlocs_tools() {
    let models = workspace().join("tests/topologies/models");
    let corpus = workspace().join("../shared/topologies/corpus");
    let mut machines = expected(&models);
    assert_eq!(machines.len(), 7);
    if corpus.is_dir() {
        machines.extend(expected(&corpus));
        assert_eq!(machines.len(), 21);
    } else {
        println!("skipped: 14 machines: no {}", corpus.display());
    }
    for (path, expected) in &machines {
        let source = TopologySource::parse(path.to_str().unwrap()).unwrap();
        let started = Instant::now();
        let topology = read(&source).unwrap();
        println!("{}: {:?}", path.file_name().unwrap().display(), started.elapsed());
        assert_agrees(&source.to_string(), &topology, expected);
        assert_eq!(read_isolated(&source, &reader()).unwrap(), topology, "{source} in a child process");
    }
    println!("{} machines agree", machines.len());
}

/// The README of the models contains these descriptions.
#[test]
fn synthetic_descriptions_match_the_recorded_machines() {
    const XEON: &str = "package:2 [numa(memory=32GiB)] l3:1(size=15MiB) l2:6(size=256KiB) l1d:1(size=32KiB) \
                        l1i:1(size=32KiB) core:1 pu:2(indexes=";
    let cases = [
        (
            "ryzen5-2600.xml",
            "package:1 [numa(memory=16GiB)] l3:2(size=8MiB) l2:3(size=512KiB) l1d:1(size=32KiB) l1i:1(size=64KiB) \
             core:1 pu:2(indexes=2*6:1*2)"
                .to_owned(),
        ),
        ("xeon-e5-2640-x2.xml", format!("{XEON}2*12:1*2)")),
        ("xeon-e5-2640-x2-roundrobin.xml", format!("{XEON}12*2:2*6:1*2)")),
    ];
    let machines = expected(&workspace().join("tests/topologies/models"));
    for (file, text) in cases {
        let source = TopologySource::parse(&text).unwrap();
        assert_eq!(source, TopologySource::Synthetic(text.clone()));
        let actual = as_expectation(&read(&source).unwrap());
        let expected = &machines.iter().find(|(path, _)| path.ends_with(file)).unwrap().1;
        let mut counts = expected["counts"].clone();
        counts.as_object_mut().unwrap().remove("memcaches");
        assert_eq!(actual["counts"], counts, "{file}");
        for part in ["numa", "package_cpus", "l3_cpus", "core_cpus"] {
            assert_eq!(actual[part], expected[part], "{file}: {part}");
        }
    }
}

/// The expectations do not contain these facts.
#[test]
fn caches_cpu_kinds_and_memory_are_in_the_right_objects() {
    let models = workspace().join("tests/topologies/models");
    let machine = |name: &str| read(&TopologySource::XmlFile(models.join(name))).unwrap();
    let ryzen = machine("ryzen5-2600.xml");
    let sizes = |level| -> Vec<(u64, u32)> {
        ryzen.caches(level).filter_map(|object| object.cache.map(|cache| (cache.bytes.0, cache.line_bytes))).collect()
    };
    assert_eq!(sizes(3), [(8 << 20, 64), (8 << 20, 64)]);
    assert_eq!(sizes(1), [(32 << 10, 64); 6]);
    let cores: Vec<Option<u32>> = ryzen.of_kind(ObjectKind::Core).map(|core| core.os_index).collect();
    assert_eq!(cores, [0, 1, 2, 4, 5, 6].map(Some));
    assert_eq!(
        ryzen.cpus_in_logical_order().iter().map(|cpu| cpu.0).collect::<Vec<_>>(),
        [0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]
    );
    let board = machine("rk3399.xml");
    let kinds: Vec<(i32, Option<u32>)> = board.cpu_kinds.iter().map(|kind| (kind.efficiency, kind.capacity)).collect();
    assert_eq!(kinds, [(0, Some(381)), (1, Some(1024))]);
    assert!(
        board.cpu_kinds[1].info.contains(&("LinuxCapacity".into(), "1024".into())),
        "{:?}",
        board.cpu_kinds[1].info
    );
    let near = machine("grace-cxl.xml");
    let of_first = near.of_kind(ObjectKind::Package).next().unwrap();
    assert_eq!(of_first.memory, [0, 1]);
    let writing = near.memory_attributes.iter().filter(|attribute| attribute.attr == "WriteBandwidth");
    assert_eq!(writing.map(|attribute| attribute.value).collect::<Vec<_>>(), [360_000, 50_000, 360_000]);
    let far = machine("grace-cxl-nohmat.xml");
    let home = far.objects.iter().find(|object| object.memory == [2]).unwrap();
    assert_eq!((home.kind, home.parent, home.cpus.len()), (ObjectKind::Group, Some(0), 0));
    assert_eq!(far.allowed_nodes.to_string(), "0-2");
}

#[test]
fn live_topology_is_the_same_in_a_child_process() {
    let mut local = read(&TopologySource::Live).unwrap();
    let mut child = read_isolated(&TopologySource::Live, &reader()).unwrap();
    let names = |devices: &[Device]| devices.iter().map(|device| device.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&local.devices), names(&machine::devices::read(Path::new("/"))));
    // An interrupt may move between the two readings.
    local.devices.iter_mut().chain(&mut child.devices).for_each(|device| device.interrupts.clear());
    if local.notes.is_empty() {
        assert_eq!(local, child);
    }
    // Nodes that hwloc drops are appended, so the order may differ.
    let nodes = |topology: &Topology| topology.nodes.iter().map(|node| (node.os, node.bytes)).collect::<BTreeSet<_>>();
    assert_eq!(nodes(&local), nodes(&child));
    assert!(!local.allowed_cpus.is_empty() && local.allowed_cpus.is_subset(&local.complete_cpus));
    assert!(!local.allowed_nodes.is_empty());
    model::values::capture::check_topology(&local).unwrap();
}

/// `HWLOC_XMLFILE` makes hwloc describe another machine without a warning.
#[test]
fn reading_the_live_machine_rejects_hwloc_variables() {
    let xml = workspace().join("tests/topologies/models/rk3399.xml");
    let output = Command::new(reader()).args(["__read-topology", "live"]).env("HWLOC_XMLFILE", xml).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("HWLOC_XMLFILE is set") && message.contains("env -u HWLOC_XMLFILE"), "{message}");
}

#[test]
fn affinity_mask_restricts_the_live_topology() {
    let whole = read(&TopologySource::Live).unwrap();
    let Some(cpu) = whole.allowed_cpus.first().filter(|_| whole.allowed_cpus.len() > 1) else {
        println!("skipped: 1 test: needs 2 cpus");
        return;
    };
    let output =
        Command::new("taskset").args(["-c", &cpu.to_string()]).arg(reader()).args(["__read-topology", "live"]).output();
    let Ok(output) = output else {
        println!("skipped: 1 test: needs taskset");
        return;
    };
    let part: Topology = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(part.allowed_cpus.to_string(), cpu.to_string());
    assert_eq!(part.counts().pus, 1);
    assert_eq!(part.complete_cpus, whole.complete_cpus);
    assert_eq!(part.nodes.len(), whole.nodes.len());
    assert_eq!(part.notes.len(), whole.notes.len(), "{:?}", part.notes);
}
