//! Every machine on file is read as hwloc's own tools read it.

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

/// The folder's machines with what is expected of each.
fn expected(folder: &Path) -> Vec<(PathBuf, Value)> {
    let text = std::fs::read_to_string(folder.join("expected-default.jsonl")).expect("the folder has expectations");
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("every line is JSON");
        (folder.join(value["file"].as_str().expect("every line names its file")), value)
    };
    text.lines().map(line).collect()
}

fn reader() -> PathBuf {
    let tests = std::env::current_exe().expect("a running test has a file");
    let reader = tests.ancestors().nth(2).expect("tests lie in target/*/deps").join("examples/read_topology");
    assert!(reader.exists(), "{} is missing: cargo build -p machine --examples", reader.display());
    reader
}

/// Our topology in the words of the expectation.
fn described(topology: &Topology) -> Value {
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
    // The expectations were written without the two attributes for writing.
    let attributes = topology.memory_attributes.iter().filter(|attribute| !attribute.attr.starts_with("Write"));
    json!({
        "counts": topology.counts(), "numa": numa, "package_cpus": cpus(ObjectKind::Package), "l3_cpus": l3_cpus,
        "core_cpus": cpus(ObjectKind::Core), "cpukinds": kinds, "distances": distances,
        "memattrs": attributes.collect::<Vec<_>>(),
    })
}

/// Compares part by part, so that a difference is short enough to read.
fn assert_agrees(name: &str, topology: &Topology, expected: &Value) {
    let ours = described(topology);
    for (part, value) in ours.as_object().expect("just made as an object") {
        let mut wanted = expected[part].clone();
        if let Some(counts) = wanted.as_object_mut() {
            // The default filters drop them, and so do we.
            assert_eq!(counts.remove("memcaches"), Some(json!(0)));
        }
        assert_eq!(*value, wanted, "{name}: {part}");
    }
    assert_eq!(model::values::capture::check_topology(topology), Ok(()), "{name}");
    let through_json: Result<Topology, _> = serde_json::from_value(json!(topology));
    assert_eq!(through_json.ok().as_ref(), Some(topology), "{name} through JSON");
}

#[test]
fn topologies_agree() {
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

/// The descriptions in the models' README make the machines of the same name.
#[test]
fn synthetic_descriptions_agree_with_their_machines() {
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
        (
            "rpi5-numafake8.xml",
            format!(
                "package:1 {}l3:1(size=2MiB) l2:4(size=512KiB) l1d:1(size=64KiB) l1i:1(size=64KiB) core:1 pu:1",
                "[numa(memory=1GiB)] ".repeat(8)
            ),
        ),
    ];
    let machines = expected(&workspace().join("tests/topologies/models"));
    for (file, text) in cases {
        let source = TopologySource::parse(&text).unwrap();
        assert_eq!(source, TopologySource::Synthetic(text.clone()));
        let ours = described(&read(&source).unwrap());
        let expected = &machines.iter().find(|(path, _)| path.ends_with(file)).unwrap().1;
        let mut counts = expected["counts"].clone();
        counts.as_object_mut().unwrap().remove("memcaches");
        assert_eq!(ours["counts"], counts, "{file}");
        for part in ["numa", "package_cpus", "l3_cpus", "core_cpus"] {
            assert_eq!(ours[part], expected[part], "{file}: {part}");
        }
    }
}

/// Facts that the expectations do not have.
#[test]
fn caches_kinds_and_memory_hang_where_they_should() {
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
fn this_machine_reads_the_same_here_and_in_a_child() {
    let mut here = read(&TopologySource::Live).unwrap();
    let mut there = read_isolated(&TopologySource::Live, &reader()).unwrap();
    let names = |devices: &[Device]| devices.iter().map(|device| device.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&here.devices), names(&machine::devices::read(Path::new("/"))));
    // An interrupt may move between the two readings.
    here.devices.iter_mut().chain(&mut there.devices).for_each(|device| device.interrupts.clear());
    if here.notes.is_empty() {
        assert_eq!(here, there);
    }
    // Nodes that one hwloc drops and we add come last.
    let nodes = |topology: &Topology| topology.nodes.iter().map(|node| (node.os, node.bytes)).collect::<BTreeSet<_>>();
    assert_eq!(nodes(&here), nodes(&there));
    assert!(!here.allowed_cpus.is_empty() && here.allowed_cpus.is_subset(&here.complete_cpus));
    assert!(!here.allowed_nodes.is_empty());
    model::values::capture::check_topology(&here).unwrap();
}

/// `HWLOC_XMLFILE` gives hwloc another machine without a word: the child does not see it, and we ourselves refuse.
#[test]
fn another_machine_in_the_environment_is_not_taken_for_this_one() {
    let xml = workspace().join("tests/topologies/models/rk3399.xml");
    let output = Command::new(reader()).args(["__read-topology", "live"]).env("HWLOC_XMLFILE", xml).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("HWLOC_XMLFILE is set") && said.contains("env -u HWLOC_XMLFILE"), "{said}");
}

#[test]
fn an_affinity_mask_is_respected() {
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
