//! The published studies at small size: each command gives the columns and rows of its study's tables.

#[allow(dead_code)] // other tests use the rest
mod results_dir;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::results_dir::{json, nearfar};

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models");

/// Runs an experiment on a simulated machine.
fn simulate(dir: &Path, experiment: &str, model: &str) -> Value {
    let sim = format!("{MODELS}/{model}.xml:3");
    json(dir, &["run", experiment, "--sim", &sim, "--quiet", "--budget", "1000h"])
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Writes a capture of a model with changes, and returns its path.
fn capture(dir: &Path, model: &str, settings: &Value, change: impl Fn(&mut Value)) -> String {
    let path = format!("{}/../model/tests/captures/{model}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the capture is readable");
    let mut topology: Value = serde_json::from_str(&text).expect("the capture is JSON");
    change(&mut topology);
    let file = dir.join("capture.json");
    let capture = serde_json::json!({ "version": 1, "topology": topology, "settings": settings });
    std::fs::write(&file, capture.to_string()).expect("the directory is writable");
    file.to_str().expect("a path").to_string()
}

/// The row of a comparison with this test and metric.
fn row<'a>(comparison: &'a Value, test: &str, metric: &str) -> &'a Value {
    let found = array(&comparison["rows"]).iter().find(|row| row["test"] == test && row["metric"] == metric);
    found.unwrap_or_else(|| panic!("no row {test} {metric} in {comparison:#}"))
}

/// Asserts that a row has a value in each column, and a change in each but the baseline.
fn assert_complete(comparison: &Value, test: &str, metric: &str, columns: &[&str]) {
    let row = row(comparison, test, metric);
    for column in columns {
        let value = &row["values"][*column];
        assert!(value["median"].as_f64() > Some(0.0), "{test} {metric} {column}: {row:#}");
        let has_change = value["change_percent"].is_number();
        assert_eq!(has_change, comparison["baseline"] != *column, "{test} {metric} {column}: {row:#}");
    }
}

/// Study A: index per number of copies, and per kind of cores under a mask; ciphers with and without instructions.
#[test]
fn boards_has_the_index_by_copies_and_the_cipher_rates() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = simulate(dir.path(), "boards", "rk3399");
    let masks: BTreeSet<(&str, &str)> =
        array(&run["cells"]).iter().map(|cell| (text(&cell["placement"]), text(&cell["cpus"]))).collect();
    for mask in [("kernel", ""), ("big+loose", "4-5"), ("little+loose", "0-3"), ("big", "4"), ("big", "4-5")] {
        assert!(masks.contains(&mask), "{mask:?} is not in {masks:?}");
    }
    let index = json(dir.path(), &["compare", "--index", "unixbench"]);
    assert_eq!(index["columns"], serde_json::json!(["1", "2", "4", "6"]));
    let groups: Vec<&str> = array(&index["groups"]).iter().map(|group| text(&group["name"])).collect();
    assert!(["kernel", "big+loose", "little+loose"].iter().all(|name| groups.contains(name)), "{groups:?}");
    let indices = array(&index["groups"][0]["indices"]);
    assert!(indices.iter().all(|one| one["tests"] == 12) && indices[3]["change_percent"].is_number(), "{indices:#?}");
    let compared = json(dir.path(), &["compare"]);
    for cipher in ["aes-128-cbc", "aes-256-cbc"] {
        for instructions in ["cpu", "software"] {
            let test = format!("aes cipher={cipher} instructions={instructions}, kernel");
            assert_complete(&compared, &test, "throughput", &["1", "2", "4", "6"]);
            assert_eq!(row(&compared, &test, "throughput")["unit"], "kB/s");
        }
    }
}

/// Study C: one row per published figure, in percent of the cores over both L3 caches; six workers under `taskset`, and
/// 64 only for the mutexes.
#[test]
fn ccx_has_every_row_of_the_published_table() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = simulate(dir.path(), "ccx", "ryzen5-2600");
    let columns = ["cores-across-l3+loose", "smt-one-l3+loose"];
    let cpus = |placement: &str| match placement.trim_end_matches("+loose") {
        "cores-across-l3" => "0-5",
        "smt-one-l3" => "0-2,6-8",
        _ => "",
    };
    for cell in array(&run["cells"]) {
        assert_eq!((&cell["threads"], text(&cell["cpus"])), (&6.into(), cpus(text(&cell["placement"]))), "{cell:#}");
        let workers = &cell["parameters"]["workers"];
        match text(&cell["workload"]) {
            "mutex" => assert_eq!(workers, "64", "{cell:#}"),
            "threads" => assert_eq!(workers, "0", "{cell:#}"),
            _ => {}
        }
    }
    let compared = json(dir.path(), &["compare"]);
    assert_eq!(compared["baseline"], columns[0]);
    let published = include_str!("../../../docs/results/published/ryzen-2600-ccx.csv");
    for line in published.lines().skip(1) {
        let [test, metric] = line.split(',').take(2).collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (test, rate) = match test {
            "m-queens-17" => ("queens".to_string(), "solutions"),
            "sysbench-threads" => ("threads".into(), "events"),
            "sysbench-mutex" => ("mutex".into(), "events"),
            shell if shell.starts_with("shell-") => (shell.replace('-', " concurrent="), "score"),
            other => (other.into(), "score"),
        };
        let metric = match metric {
            "throughput" => rate,
            "latency-avg" => "latency-average",
            other => other,
        };
        assert_complete(&compared, &test, metric, &columns);
    }
}

/// Studies B and D: large requests are compared in MB/s, as `CrystalDiskMark` prints them; small ones of study D in
/// IO/s.
#[test]
fn large_requests_are_compared_in_megabytes_per_second() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (experiment, by_rate) in [("crystaldiskmark", ""), ("crystaldiskmark-3", ""), ("storage", "4k ")] {
        let run = simulate(dir.path(), experiment, "xeon-e5-2640-x2");
        for cell in array(&run["cells"]) {
            let is_small = !by_rate.is_empty() && text(&cell["test"]).starts_with(by_rate);
            let expected = if is_small { "IO/s" } else { "MB/s" };
            assert_eq!(cell["metrics"][0]["unit"], expected, "{experiment}: {}", cell["test"]);
        }
    }
}

/// Study B: the disk's interrupts on the core of the application, on its node and on the other node, for small and large
/// requests; fifteen blocks, as three runs of five passes.
#[test]
fn interrupts_has_a_column_per_cpu_of_the_interrupts() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let interrupt = serde_json::json!({ "number": 7, "name": "xhci_hcd", "affinity": "0-23", "effective": "0" });
    let disk = serde_json::json!({ "name": "sda", "kind": "block", "bus": null, "node": 0, "interrupts": [interrupt] });
    let add_disk = |topology: &mut Value| topology["devices"] = serde_json::json!([disk]);
    let file = capture(dir.path(), "xeon-e5-2640-x2", &serde_json::json!([]), add_disk);
    json(dir.path(), &["run", "interrupts", "--sim", &file, "--device", "sda", "--quiet", "--budget", "1000h"]);
    let compared = json(dir.path(), &["compare"]);
    let baseline = text(&compared["baseline"]);
    for (test, metric) in [("4k-q32", "iops"), ("4k-q1", "latency-mean"), ("sequential-1m-q8", "bandwidth")] {
        let values = row(&compared, test, metric)["values"].as_object().expect("columns");
        let columns: Vec<&str> = values.keys().map(String::as_str).collect();
        for rule in ["irq:same-core", "irq:same-node", "irq:other-node"] {
            assert!(columns.iter().any(|column| column.ends_with(rule)), "{test} {rule}: {columns:?}");
        }
        assert_complete(&compared, test, metric, &columns);
        assert_eq!(values[baseline]["samples"], 15, "{test}: fifteen passes");
    }
}

/// Study D: STREAM by kind of memory and size, and matrix products in DRAM and beyond, in both precisions.
#[test]
fn far_memory_has_a_column_per_kind_of_memory() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    simulate(dir.path(), "far-memory", "grace-cxl");
    let compared = json(dir.path(), &["compare"]);
    for size in ["32MiB", "128MiB", "341MiB", "683MiB"] {
        let test = format!("stream size={size}");
        let values = row(&compared, &test, "triad")["values"].as_object().expect("columns");
        let columns: Vec<&str> = values.keys().map(String::as_str).collect();
        for end in ["memory-local", "memory-remote", "far+swap:512MiB", "expand:512MiB"] {
            assert!(columns.iter().any(|column| column.ends_with(end)), "{test} {end}: {columns:?}");
        }
        assert_complete(&compared, &test, "triad", &columns);
    }
    let tests: Vec<&str> = array(&compared["rows"]).iter().map(|row| text(&row["test"])).collect();
    for precision in ["fp32", "fp64"] {
        assert!(tests.iter().any(|test| test.starts_with("gemm") && test.contains(precision)), "{tests:?}");
    }
}

/// Study D: products beyond DRAM in percent of the largest in DRAM, in every view of a run.
#[test]
fn far_memory_efficiency_is_in_every_view_of_a_run() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = simulate(dir.path(), "far-memory", "xeon-e5-2640-x2");
    let of = |precision: &str, n: &str| {
        let test = format!("gemm n={n} precision={precision}");
        let is_it =
            |row: &&Value| row["cell"]["test"] == test.as_str() && row["cell"]["placement"] == "kernel+expand:512MiB";
        let row =
            array(&run["efficiency"]).iter().find(is_it).unwrap_or_else(|| panic!("{test}: {:#}", run["efficiency"]));
        let ends = [&row["ci_low"], &row["ci_high"]].map(|end| end.as_f64().expect("an interval"));
        let percent = row["percent"].as_f64().expect("a percentage");
        assert!(ends[0] < percent && percent < ends[1], "{row:#}");
        percent
    };
    assert!((of("fp32", "9408") - 95.0).abs() < 3.0 && (of("fp64", "6656") - 95.8).abs() < 3.0);
    for args in [&["show"][..], &["compare"]] {
        assert_eq!(json(dir.path(), args)["efficiency"], run["efficiency"], "{args:?}");
        let printed = nearfar(dir.path(), args).stdout;
        assert!(String::from_utf8_lossy(&printed).contains("In percent of a reference"), "{args:?}");
    }
    let other = tempfile::tempdir().expect("a second temporary directory");
    for (command, file) in [("report", dir.path().join("report.html")), ("share", other.path().join("results.db"))] {
        let written = nearfar(dir.path(), &[command, "--output", file.to_str().expect("a path")]);
        assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    }
    let report = std::fs::read_to_string(dir.path().join("report.html")).expect("the report");
    assert!(report.contains("In percent of a reference"));
    assert_eq!(json(other.path(), &["show"])["efficiency"], run["efficiency"], "shared");
    let sim = format!("{MODELS}/xeon-e5-2640-x2.xml:4");
    let ended = nearfar(dir.path(), &["run", "far-memory", "--sim", &sim, "--budget", "1000h"]);
    assert!(String::from_utf8_lossy(&ended.stdout).contains("In percent of a reference"), "at the end of a run");
}

/// Study E: every test of the suite at one thread and at all, with interleaved memory against the kernel's choice. The
/// kernel is built with all threads only.
#[test]
fn fake_numa_has_the_suite_at_one_thread_and_at_four() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = simulate(dir.path(), "fake-numa", "rpi5-numafake8");
    let compared = json(dir.path(), &["compare"]);
    let columns = ["kernel", "kernel+interleave"];
    for threads in ["1 thread", "4 threads"] {
        assert_complete(&compared, &format!("stream, {threads}"), "add", &columns);
        assert_complete(&compared, &format!("hpl, {threads}"), "gflops", &columns);
        for program in ["bzip3", "pigz", "zstd", "xz"] {
            assert_complete(&compared, &format!("compress program={program}, {threads}"), "throughput", &columns);
        }
    }
    assert_complete(&compared, "kernel-build", "build", &columns);
    // Two sockets have the same columns: all threads on all CPUs, and memory on all nodes.
    let other = tempfile::tempdir().expect("a second temporary directory");
    let two = simulate(other.path(), "fake-numa", "xeon-e5-2640-x2");
    for run in [&run, &two] {
        assert!(array(&run["skipped"]).iter().all(|skip| skip["placement"] != "kernel+interleave"), "{run:#}");
    }
}

/// Study E: interleaved memory after a reboot with emulated nodes against the boot without them, in one table with the
/// study's means.
#[test]
fn fake_numa_compares_interleaving_with_the_plain_boot() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for boot in ["plain", "fake8"] {
        let file = format!("{MODELS}/rpi5-booted-{boot}.json:1");
        let run = json(dir.path(), &["run", "fake-numa", "--sim", &file, "--quiet", "--budget", "1000h"]);
        let interleaved = array(&run["cells"]).iter().any(|cell| cell["placement"] == "kernel+interleave");
        assert_eq!(interleaved, boot != "plain", "{run:#}");
    }
    let compared = json(dir.path(), &["compare"]);
    let columns = ["plain, kernel", "numa=fake=8, kernel", "numa=fake=8, kernel+interleave"];
    assert_eq!((&compared["columns"], &compared["baseline"]), (&serde_json::json!(columns), &columns[0].into()));
    for (test, change) in [("stream, 1 thread", -2.0), ("stream, 4 threads", 27.0)] {
        assert_complete(&compared, test, "add", &columns);
        let row = row(&compared, test, "add");
        let found = row["values"][columns[2]]["change_percent"].as_f64().expect("a change");
        assert!(row["main"] == true && (found - change).abs() < 5.0, "{row:#}");
    }
    // The study's means are of these tests and Geekbench; it did not measure latency.
    let means = array(&compared["geomean"]).iter().filter(|mean| mean["name"] == columns[2]);
    let tests: Vec<(&Value, &Value)> = means.map(|mean| (&mean["threads"], &mean["tests"])).collect();
    assert_eq!(tests, [(&Value::Null, &13.into()), (&1.into(), &6.into()), (&4.into(), &7.into())]);
    assert!(array(&compared["notes"]).iter().any(|note| text(note).contains("leave out chase")), "{compared:#}");

    let compared = json(dir.path(), &["compare", "--by", "boot"]);
    assert_eq!(compared["columns"], serde_json::json!(["plain", "numa=fake=8"]));
    for test in ["stream, 1 thread, kernel", "stream, 4 threads, kernel", "kernel-build, kernel"] {
        let metric = if test.starts_with("stream") { "add" } else { "build" };
        assert_complete(&compared, test, metric, &["plain", "numa=fake=8"]);
    }
    assert!(!array(&compared["geomean"]).is_empty(), "{compared:#}");
}

/// The tables of the pages are those of the present simulator.
#[test]
fn study_pages_have_the_tables_of_the_simulator() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/study-tables");
    let mut command = Command::new("python3");
    command.args([script, "--check", env!("CARGO_BIN_EXE_nearfar")]).env_remove("NEARFAR_STORE");
    match command.output() {
        Ok(checked) => assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr)),
        Err(error) => println!("skipped: study_pages_have_the_tables_of_the_simulator: python3: {error}"),
    }
}

/// A pair of processes under a mask may use all of its CPUs, which the evidence of the trial shows.
#[test]
fn loose_copies_of_a_real_run_have_the_whole_mask() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let args = ["measure", "pipe-context-switching", "--smoke", "-r", "2", "--placement", "-C all loose"];
    json(dir.path(), &[&args[..], &["--placement", "one-core", "--threads", "1"]].concat());
    let trials = json(dir.path(), &["show", "latest", "--trials"]);
    let of = |placement: &str| {
        let trials = array(&trials["trials"]);
        let found: Vec<&Value> = trials.iter().filter(|trial| trial["placement"] == placement).collect();
        assert!(!found.is_empty(), "{placement}: {trials:#?}");
        found
    };
    let cpus = std::thread::available_parallelism().expect("a number of CPUs").get();
    for trial in of("-C all loose") {
        let mask = text(&trial["evidence"]["mask_at_start"]);
        assert_eq!(model::values::id_set::CpuSet::parse_list(mask).expect("a list").len(), cpus, "{trial:#}");
        assert_eq!(trial["evidence"]["thread_bindings"], serde_json::json!([]), "{trial:#}");
        assert_ne!(trial["verdict"], "invalid", "{trial:#}");
    }
    for trial in of("one-core") {
        assert_eq!(array(&trial["evidence"]["thread_bindings"]).len(), 1, "{trial:#}");
    }
}

/// Study D: without a BLAS, products are in the plan as skipped, with the reason.
#[test]
fn products_without_a_blas_are_skipped_in_the_plan() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let plan = json(dir.path(), &["run", "fake-numa", "--dry-run", "--set", "blas=libno-such-blas.so.0"]);
    let reason = "cannot load libno-such-blas.so.0";
    let skips = array(&plan["skipped"]);
    assert!(skips.iter().any(|skip| skip["test"] == "hpl" && text(&skip["why"]).contains(reason)), "{skips:#?}");
    assert!(array(&plan["cells"]).iter().all(|cell| cell["workload"] != "hpl"), "{plan:#}");
    assert!(array(&plan["cells"]).iter().any(|cell| cell["workload"] == "stream"), "{plan:#}");
}

/// A user's number is compared under the name that its regular expression gives it.
#[test]
fn number_of_a_command_is_compared_under_its_own_name() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = ["measure", "command", "-r", "3", "--set", "metric=(?<bytes>[0-9]+) "];
    let placements = ["--placement", "kernel", "--placement", "one-core"];
    let measured = nearfar(dir.path(), &[&options[..], &placements, &["--", "wc", "-c", "/etc/passwd"]].concat());
    assert!(measured.status.success(), "{}", String::from_utf8_lossy(&measured.stderr));
    for cell in array(&json(dir.path(), &["show"])["cells"]) {
        assert_eq!((&cell["metrics"][0]["name"], &cell["metrics"][1]["name"]), (&"bytes".into(), &"wall".into()));
    }
    for args in [&["compare"][..], &["compare", "--metric", "bytes"]] {
        let compared = json(dir.path(), args);
        let main: Vec<&str> =
            array(&compared["rows"]).iter().filter(|row| row["main"] == true).map(|row| text(&row["metric"])).collect();
        assert_eq!(main, ["bytes"], "{args:?}");
    }
}

/// A test whose program is missing is in the plan as skipped, with the reason; the rest is measured.
#[test]
fn missing_programs_are_skipped_in_the_plan() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["run", "fake-numa", "--dry-run", "--format", "json"]).env("PATH", dir.path());
    let output = command.env("NEARFAR_STORE", dir.path().join("results.db")).output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plan: Value = serde_json::from_slice(&output.stdout).expect("the output is JSON");
    let skipped = array(&plan["skipped"]);
    for program in ["bzip3", "pigz", "zstd", "xz"] {
        let why = format!("program {program} is not installed");
        let is_it = |skip: &&Value| text(&skip["test"]).contains(program) && text(&skip["why"]).contains(&why);
        assert!(skipped.iter().any(|skip| is_it(&skip)), "{program}: {skipped:#?}");
    }
    assert!(array(&plan["cells"]).iter().all(|cell| cell["workload"] != "compress"), "{plan:#}");
    assert!(array(&plan["cells"]).iter().any(|cell| cell["workload"] == "stream"), "{plan:#}");
}
