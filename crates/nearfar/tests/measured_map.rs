//! `nearfar map --measure` from the command line, on simulated machines with several memory nodes and on this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models");

fn nearfar(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(dir.join("results.db")).args(args).env_remove("NEARFAR_STORE");
    command.output().expect("the program starts")
}

/// Returns the stdout of a command that must succeed.
fn shown(dir: &Path, args: &[&str]) -> String {
    let output = nearfar(dir, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the output is text")
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn sim(model: &str) -> String {
    format!("{MODELS}/{model}.xml:7")
}

fn measured(dir: &Path, model: &str, more: &[&str]) -> Value {
    let sim = sim(model);
    let args = [&["map", "--measure", "--quiet", "--sim", &sim, "--format", "json"], more].concat();
    serde_json::from_str(&shown(dir, &args)).expect("the map is JSON")
}

fn list<'a>(map: &'a Value, name: &str) -> &'a Vec<Value> {
    map[name].as_array().unwrap_or_else(|| panic!("{name} is a list"))
}

fn median(estimate: &Value) -> f64 {
    estimate["median"].as_f64().expect("a median is a number")
}

#[test]
fn map_of_two_sockets_matches_the_snapshots() {
    let dir = scratch();
    let map = measured(dir.path(), "xeon-e5-2640-x2", &["--smoke"]);
    let show = |format: &str| shown(dir.path(), &["map", "--run", "latest", "--format", format]);
    insta::assert_snapshot!("two-sockets-text", show("text"));
    insta::assert_snapshot!("two-sockets-csv", show("csv"));
    insta::assert_snapshot!("two-sockets-numactl", show("numactl"));
    let picture = show("svg");
    insta::assert_snapshot!("two-sockets-svg", picture);
    // Latency and four bandwidths of 2 x 2 cells each, three pairs of CPUs in both directions, and the legend.
    assert_eq!(picture.matches("<rect class=\"heat").count(), 5 * 4 + 2 * 3 + 2);
    // Two groups, each without load and with three loads.
    assert_eq!(picture.matches("class=\"whisker\"").count(), 2 * 4);
    let page = shown(dir.path(), &["report", "--output", "-"]);
    assert!(page.contains(picture.trim_end()), "the report contains the same picture");
    let short = serde_json::json!({
        "core_to_core": map["core_to_core"], "memory": [map["memory"][1]], "sizes": [map["sizes"][0]],
        "steps": [map["steps"][3]], "loaded": [map["loaded"][1]], "smt": [map["smt"][0]], "missing": map["missing"],
    });
    insta::assert_json_snapshot!("two-sockets-json", short);
    let again: Value = serde_json::from_str(&show("json")).expect("the map is JSON");
    assert!(again == map, "the stored map differs from the measured one: {} {}", again["run"], map["run"]);
}

#[test]
fn remote_memory_is_slower_and_cache_levels_are_ordered() {
    let dir = scratch();
    let map = measured(dir.path(), "xeon-e5-2640-x2", &[]);
    let memory = list(&map, "memory");
    assert_eq!(memory.len(), 4, "two groups of CPUs, two nodes");
    for path in memory {
        let own = memory.iter().find(|other| other["cpus"] == path["cpus"] && other["local"] == true);
        let own = own.expect("each group has a local node");
        if path["local"] == false {
            assert!(median(&path["latency"]) > 1.2 * median(&own["latency"]), "{path}");
            for (far, near) in list(path, "bandwidth").iter().zip(list(own, "bandwidth")) {
                assert!(median(&far["rate"]) < median(&near["rate"]), "{far} {near}");
            }
            assert_eq!(path["distance"], 20);
        }
        let latency = &path["latency"];
        let inside = latency["ci_low"].as_f64() <= latency["median"].as_f64();
        assert!(inside && latency["ci_low"].is_f64() && latency["samples"].as_array().map(Vec::len) > Some(5));
    }
    let steps: Vec<(&str, f64)> = list(&map, "steps")
        .iter()
        .map(|step| (step["level"].as_str().expect("a word"), median(&step["latency"])))
        .collect();
    assert_eq!(steps.iter().map(|(level, _)| *level).collect::<Vec<_>>(), ["L1", "L2", "L3", "memory"]);
    assert!(steps.windows(2).all(|pair| pair[0].1 < pair[1].1), "{steps:?}");
    let pairs = list(&map, "core_to_core");
    let relations: Vec<&str> = pairs.iter().map(|pair| pair["relation"].as_str().expect("a word")).collect();
    assert_eq!(relations, ["one core", "one L3", "two packages"]);
    assert_eq!(pairs.iter().map(|pair| pair["alike"].as_u64()).sum::<Option<u64>>(), Some(24 * 23 / 2));
    assert!(pairs.iter().all(|pair| pair["home"] == 0), "the cache line is on the node of CPU a");
}

#[test]
fn load_slows_memory_and_siblings_share_a_core() {
    let dir = scratch();
    let map = measured(dir.path(), "xeon-e5-2640-x2", &[]);
    let loaded = list(&map, "loaded");
    assert_eq!(loaded.len(), 2 * 4, "two groups, no load and three loads");
    for curve in loaded.chunks(4) {
        assert!(curve[0]["load"].is_null() && curve[0]["readers"] == 0 && curve[0]["delay_ns"].is_null());
        let delays: Vec<Option<u64>> = curve[1..].iter().map(|point| point["delay_ns"].as_u64()).collect();
        assert_eq!(delays, [Some(5000), Some(1000), Some(0)]);
        let latencies: Vec<f64> = curve.iter().map(|point| median(&point["latency"])).collect();
        assert!(latencies.windows(2).all(|pair| pair[0] < pair[1]), "{latencies:?}");
        assert!(curve[1..].iter().all(|point| point["readers"] == 5));
        let loads: Vec<f64> = curve[1..].iter().map(|point| median(&point["load"])).collect();
        assert!(loads.windows(2).all(|pair| pair[0] < pair[1]), "{loads:?}");
    }
    let smt = list(&map, "smt");
    assert_eq!(smt.iter().map(|pair| pair["what"].as_str()).collect::<Vec<_>>(), [Some("compute"), Some("cache")]);
    for pair in smt {
        assert_eq!(pair["cpus"], serde_json::json!([0, 12]));
        let ratio = pair["ratio"].as_f64().expect("a number");
        let of_medians = median(&pair["both"]) / median(&pair["alone"]);
        assert!((ratio / of_medians - 1.0).abs() < 0.02, "typical ratio of the pairs: {ratio}, {of_medians}");
        assert!(pair["ratio_ci_low"].as_f64().expect("an end") <= ratio);
    }
    assert!(smt[0]["ratio"].as_f64().expect("a number") > 1.05, "simulated siblings gain speed together");
    let alone = measured(dir.path(), "rk3399", &["--smoke"]);
    let missing = list(&alone, "missing");
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert_eq!(missing[0]["why"], "no core has two threads");
}

#[test]
fn all_measures_every_pair() {
    let dir = scratch();
    let map = measured(dir.path(), "ryzen5-2600", &["--all", "--smoke"]);
    let pairs = list(&map, "core_to_core");
    assert_eq!(pairs.len(), 12 * 11 / 2);
    assert!(pairs.iter().all(|pair| pair["alike"] == 1));
}

#[test]
fn memory_without_cpus_is_reached_from_every_group() {
    let dir = scratch();
    let map = measured(dir.path(), "grace-cxl", &["--smoke"]);
    let reached: Vec<(&str, u64)> = list(&map, "memory")
        .iter()
        .map(|path| (path["cpus"].as_str().expect("a list"), path["node"].as_u64().expect("a number")))
        .collect();
    assert_eq!(reached, [("0-71", 0), ("0-71", 1), ("0-71", 2), ("72-143", 0), ("72-143", 1), ("72-143", 2)]);
}

#[test]
fn weights_of_unequal_nodes_match_the_snapshots() {
    let dir = scratch();
    let sim = sim("grace-cxl");
    insta::assert_snapshot!(
        "weights-text",
        shown(dir.path(), &["map", "--measure", "--smoke", "--quiet", "--sim", &sim, "--weights"])
    );
    let stored = shown(dir.path(), &["map", "--run", "latest", "--weights", "--format", "json"]);
    let stored: Value = serde_json::from_str(&stored).expect("the weights are JSON");
    insta::assert_json_snapshot!("weights-json", stored);
}

/// A recorded tree with the kernel's weights of three nodes.
struct KernelTree(tempfile::TempDir);

impl KernelTree {
    fn new() -> Self {
        let tree = Self(scratch());
        std::fs::create_dir_all(tree.weights_dir()).expect("the directory is writable");
        for (name, text) in [("auto", "true\n"), ("node0", "15\n"), ("node1", "15\n"), ("node2", "1\n")] {
            std::fs::write(tree.weights_dir().join(name), text).expect("the directory is writable");
        }
        tree
    }

    fn weights_dir(&self) -> PathBuf {
        self.0.path().join("sys/kernel/mm/mempolicy/weighted_interleave")
    }

    /// Returns the values of `auto` and of each node.
    fn values(&self) -> Vec<String> {
        let read = |name| std::fs::read_to_string(self.weights_dir().join(name)).unwrap_or_else(|_| "none".into());
        ["auto", "node0", "node1", "node2"].map(|name| read(name).trim().to_string()).into()
    }

    fn run(&self, dir: &Path, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", dir.join("state"));
        command.arg("--store").arg(dir.join("results.db")).args(args).arg("--settings-root").arg(self.0.path());
        command.output().expect("the program starts")
    }

    /// Returns the stdout of a command that must succeed.
    fn shown(&self, dir: &Path, args: &[&str]) -> String {
        let output = self.run(dir, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("the output is text")
    }
}

const SET_WEIGHTS: [&str; 6] = ["map", "--run", "latest", "--quiet", "--weights", "--apply"];

#[test]
fn weights_are_set_until_they_are_restored() {
    let (dir, kernel) = (scratch(), KernelTree::new());
    measured(dir.path(), "grace-cxl", &["--smoke"]);
    let before = kernel.values();
    let planned = kernel.shown(dir.path(), &[&SET_WEIGHTS[..], &["--dry-run"]].concat());
    assert!(planned.contains("Would be written:\n\n    /sys/kernel/mm/mempolicy/weighted_interleave/auto: false\n"));
    assert_eq!(kernel.values(), before, "nothing was changed");
    assert!(!dir.path().join("state/kept").exists());
    // The second time, the journal must keep the values from before the first time.
    for _ in 0..2 {
        let set = kernel.shown(dir.path(), &[&SET_WEIGHTS[..], &["--format", "json"]].concat());
        let set: Value = serde_json::from_str(&set).expect("the weights are JSON");
        assert_eq!(set["state"], "applied");
        let weights = list(&set, "weights").iter().map(|one| one["weight"].to_string());
        let expected: Vec<String> = std::iter::once("false".to_string()).chain(weights).collect();
        assert_eq!(kernel.values(), expected);
    }
    let planned = kernel.shown(dir.path(), &["restore", "--dry-run"]);
    assert!(planned.contains("weighted_interleave/auto would be restored to true (is false)"), "{planned}");
    kernel.shown(dir.path(), &["restore"]);
    assert_eq!(kernel.values(), before);
    let again = kernel.shown(dir.path(), &["restore", "--format", "json"]);
    let again: Value = serde_json::from_str(&again).expect("the output is JSON");
    assert_eq!(again["restored"], serde_json::json!([]));
}

#[test]
fn weights_changed_by_others_are_kept_unless_forced() {
    let (dir, kernel) = (scratch(), KernelTree::new());
    measured(dir.path(), "grace-cxl", &["--smoke"]);
    kernel.shown(dir.path(), &SET_WEIGHTS);
    std::fs::write(kernel.weights_dir().join("node0"), "7\n").expect("the directory is writable");
    let output = kernel.run(dir.path(), &SET_WEIGHTS);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("weights that were set earlier cannot be restored"), "{stderr}");
    assert_eq!(kernel.values()[1], "7");
    kernel.shown(dir.path(), &["restore", "--force"]);
    assert_eq!(kernel.values(), ["true", "15", "15", "1"]);
}

#[test]
fn refused_weight_changes_nothing() {
    let (dir, kernel) = (scratch(), KernelTree::new());
    measured(dir.path(), "grace-cxl", &["--smoke"]);
    std::fs::remove_file(kernel.weights_dir().join("node2")).expect("the file exists");
    let output = kernel.run(dir.path(), &SET_WEIGHTS);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("weighted_interleave/node2: it no longer exists"), "{stderr}");
    assert!(stderr.contains("hint: print the weights without --apply"), "{stderr}");
    assert_eq!(kernel.values(), ["true", "15", "15", "none"]);
}

#[test]
fn weights_that_cannot_be_set_are_refused() {
    let (dir, no_kernel) = (scratch(), scratch());
    let (grace, ryzen) = (sim("grace-cxl"), sim("ryzen5-2600"));
    let no_kernel = no_kernel.path().to_str().expect("text");
    let refused = |args: &[&str], status: i32, expected: &str| {
        let output = nearfar(dir.path(), &[&["map"], args].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    };
    refused(&["--weights"], 2, "--measure");
    refused(&["--measure", "--apply"], 2, "--weights");
    refused(&["--measure", "--weights", "--sim", &ryzen], 77, "the machine has one memory node");
    refused(&["--measure", "--weights", "--sim", &grace, "--format", "csv"], 2, "printed as text or JSON");
    refused(&["--measure", "--weights", "--sim", &grace, "--apply"], 2, "of a simulated machine cannot be set");
    let without = ["--measure", "--weights", "--sim", &grace, "--apply", "--settings-root", no_kernel];
    refused(&without, 77, "this kernel has no weighted interleaving\nhint: use Linux 6.9 or later");
    assert!(!dir.path().join("results.db").exists(), "nothing was measured");
    measured(dir.path(), "grace-cxl", &["--smoke"]);
    refused(&["--run", "latest", "--dry-run"], 2, "--apply");
    if Path::new("/sys/kernel/mm/mempolicy/weighted_interleave").exists() {
        refused(&["--run", "latest", "--weights", "--apply"], 2, "of a simulated machine cannot be set");
    }
}

#[test]
fn killed_map_resumes() {
    let (whole, cut) = (scratch(), scratch());
    let expected = measured(whole.path(), "rk3399", &["--smoke"]);
    let sim = sim("rk3399");
    for _ in 0..3 {
        let args = ["map", "--measure", "--smoke", "--quiet", "--sim", &sim, "--sim-faults", "kill-after=9"];
        assert!(!nearfar(cut.path(), &args).status.success(), "the process is killed");
    }
    let map = measured(cut.path(), "rk3399", &["--smoke"]);
    assert!(map == expected, "{} {}", map["run"], expected["run"]);
}

#[test]
fn invalid_arguments_are_rejected() {
    let dir = scratch();
    let sim = sim("rk3399");
    let refused = |args: &[&str], expected: &str| {
        let output = nearfar(dir.path(), args);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    };
    refused(&["map", "--sim", &sim], "add --measure");
    refused(&["map", "--format", "csv"], "add --measure");
    refused(&["map", "--thorough"], "--measure");
    shown(dir.path(), &["map", "--measure", "--smoke", "--sim", &sim, "--quiet"]);
    refused(&["map", "--run", "latest", "--format", "xml"], "simulated machine");
    let other = format!("{MODELS}/ryzen5-2600.xml");
    refused(&["map", "--run", "latest", "--format", "xml", "--from", &other], "of another machine");
    refused(&["map", "--run", "latest", "--format", "capture"], "--format capture is not supported for a measured map");
    shown(dir.path(), &["measure", "queens", "--sim", &sim, "--smoke", "--quiet"]);
    refused(&["map", "--run", "latest"], "has no measured map");
}

/// Returns the values of an attribute as printed by the host's `lstopo` for exported XML: target, value, initiator.
fn lstopo_memattrs(xml: &Path, attribute: &str) -> Option<Vec<String>> {
    let mut lstopo = Command::new("lstopo-no-graphics");
    let output = lstopo.arg("-i").arg(xml).arg("--memattrs").output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let begin = format!("name `{attribute}'");
    let lines = text.lines().skip_while(|line| !line.contains(&begin)).skip(1);
    Some(lines.take_while(|line| line.starts_with(' ')).map(|line| line.trim().to_string()).collect())
}

#[test]
fn hwloc_programs_read_the_measured_values() {
    let dir = scratch();
    let map = measured(dir.path(), "xeon-e5-2640-x2", &[]);
    let (machine, xml) = (format!("{MODELS}/xeon-e5-2640-x2.xml"), dir.path().join("measured.xml"));
    let text = shown(dir.path(), &["map", "--run", "latest", "--format", "xml", "--from", &machine]);
    std::fs::write(&xml, &text).expect("the directory is writable");
    let read: Value =
        serde_json::from_str(&shown(dir.path(), &["map", "--from", xml.to_str().expect("text"), "--format", "json"]))
            .expect("JSON");
    assert_eq!(list(&read, "memattrs").len(), 5 * 4, "five attributes of two groups and two nodes");
    assert_eq!(read["distances"][1]["name"], "NearfarLatency");
    let Some(latencies) = lstopo_memattrs(&xml, "Latency") else {
        return println!("skipped: needs lstopo-no-graphics (Debian: hwloc-nox)");
    };
    let path = |cpus: &str, node: u64| {
        list(&map, "memory").iter().find(|path| path["cpus"] == cpus && path["node"] == node).expect("the path exists")
    };
    let line = |cpus: &str, mask: &str, node: u64, package: u32| {
        let latency = median(&path(cpus, node)["latency"]).round();
        format!("NUMANode L#{node} = {latency} from cpuset {mask} (Package L#{package})")
    };
    let (one, other) = (("0-5,12-17", "0x0003f03f"), ("6-11,18-23", "0x00fc0fc0"));
    let expected = [
        line(one.0, one.1, 0, 0),
        line(other.0, other.1, 0, 1),
        line(one.0, one.1, 1, 0),
        line(other.0, other.1, 1, 1),
    ];
    assert_eq!(latencies, expected);
    for attribute in ["Bandwidth", "ReadBandwidth", "WriteBandwidth", "ReadLatency"] {
        assert_eq!(lstopo_memattrs(&xml, attribute).map(|lines| lines.len()), Some(4), "{attribute}");
    }
}

#[test]
fn this_machine_is_measured() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        return println!("skipped: needs 2 CPUs");
    }
    let dir = scratch();
    let text = shown(dir.path(), &["map", "--measure", "--smoke", "--wait", "--quiet", "--format", "json"]);
    let map: Value = serde_json::from_str(&text).expect("the map is JSON");
    let pairs = list(&map, "core_to_core");
    assert!(pairs.iter().all(|pair| median(&pair["latency"]) > 1.0), "{pairs:?}");
    assert!(!pairs.is_empty() && !list(&map, "memory").is_empty(), "{map}");
    assert!(list(&map, "sizes").len() > 8, "{map}");
    assert!(!list(&map, "loaded").is_empty(), "{map}");
    let is_not_smt = |missing: &&Value| missing["what"] != "smt-compute";
    assert_eq!(list(&map, "missing").iter().find(is_not_smt), None);
    let xml = shown(dir.path(), &["map", "--run", "latest", "--format", "xml"]);
    assert!(xml.contains("<memattr name=\"Latency\" flags=\"6\">"), "{xml}");
}

#[test]
fn placements_use_the_newest_map_of_the_machine() {
    let dir = scratch();
    let sim = sim("xeon-e5-2640-x2");
    let place = |sim: &str, map: &[&str]| {
        let output = nearfar(dir.path(), &[&["place", "--explain", "--sim", sim], map, &["--", "true"]].concat());
        assert!(output.status.success(), "{map:?}");
        String::from_utf8(output.stderr).expect("the output is text")
    };
    let plain = place(&sim, &[]);
    measured(dir.path(), "xeon-e5-2640-x2", &["--smoke"]);
    assert_eq!(place(&sim, &[]), plain, "maps of smoke tests are not used");
    let map = measured(dir.path(), "xeon-e5-2640-x2", &[]);
    let run = map["run"]["id"].as_str().expect("the map names its run");
    let by_map = place(&sim, &[]);
    assert!(by_map.contains(&format!("using measured map {run}")), "{by_map}");
    assert_eq!(place(&sim, &["--map", run]), by_map);
    assert_eq!(place(&sim, &["--map", "latest"]), by_map);
    assert_eq!(place(&sim, &["--map", "none"]), plain);
    // Another machine has no map, nor has the same one simulated with another seed.
    assert_eq!(place(&format!("{MODELS}/xeon-e5-2640-x2.xml:8"), &[]), plain);

    let file = format!("{MODELS}/xeon-e5-2640-x2.xml");
    let remote = ["placements", "--from", &file, "--placement", "memory-remote"];
    let stated = shown(dir.path(), &remote);
    assert!(stated.contains("the other one (distance 20 instead of 10)"), "{stated}");
    let distance = &list(&map, "node_distances")[1]["distance"];
    let measured = shown(dir.path(), &[&remote[..], &["--map", run]].concat());
    assert!(measured.contains(&format!("the other one (measured distance {distance} instead of 10)")), "{measured}");

    let wrong = |sim: &str, map: &str| {
        let output = nearfar(dir.path(), &["place", "--explain", "--sim", sim, "--map", map, "--", "true"]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).expect("the output is text")
    };
    assert!(wrong(&sim, "nonsense").contains("nonsense"));
    let ryzen = wrong(&format!("{MODELS}/ryzen5-2600.xml:7"), run);
    assert!(ryzen.contains("the map is of another machine"), "{ryzen}");
}
