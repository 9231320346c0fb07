//! The simulator on the machines of the studies: runs show the findings of the studies in direction and rough size.
//! Published figures are those of docs/published.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models");

fn nearfar(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(dir.join("results.db")).args(args).env_remove("NEARFAR_STORE");
    command.output().expect("the program starts")
}

fn json(dir: &Path, args: &[&str]) -> Value {
    let output = nearfar(dir, &[args, &["--format", "json"]].concat());
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

/// A finished run of an experiment on a model. Simulated time is free, so the budget allows every repetition.
struct Study {
    dir: tempfile::TempDir,
    run: Value,
}

impl Study {
    fn run(experiment: &str, model: &str, args: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let sim = format!("{MODELS}/{model}:1");
        let run =
            json(dir.path(), &[&["run", experiment, "--sim", &sim, "--budget", "1000h", "--quiet"], args].concat());
        Self { dir, run }
    }

    /// The median of a metric of the only cell with this test, placement and number of threads.
    fn median(&self, test: &str, placement: &str, threads: u64, metric: &str) -> f64 {
        let is_it =
            |cell: &&Value| cell["test"] == test && cell["placement"] == placement && cell["threads"] == threads;
        let cells: Vec<&Value> = self.run["cells"].as_array().expect("cells").iter().filter(is_it).collect();
        assert_eq!(cells.len(), 1, "{test}, {placement}, {threads} threads: {:#}", self.run["skipped"]);
        let metrics = cells[0]["metrics"].as_array().expect("metrics");
        let found = metrics.iter().find(|one| one["name"] == metric).expect("the metric exists");
        found["median"].as_f64().expect("a median")
    }

    /// The change of the main metric in percent between two placements.
    fn change(&self, test: &str, threads: u64, metric: &str, [from, to]: [&str; 2]) -> f64 {
        let median = |placement| self.median(test, placement, threads, metric);
        100.0 * (median(to) / median(from) - 1.0)
    }
}

fn assert_near(what: &str, actual: f64, expected: f64, tolerance: f64) {
    assert!((actual - expected).abs() <= tolerance, "{what}: {actual:.2} instead of {expected} +- {tolerance}");
}

/// Study A: index of six copies over one on a RK3399: +151 to +184 %; AES of one core of each kind.
#[test]
fn boards_show_the_scaling_and_the_ciphers_of_the_study() {
    let boards = Study::run("boards", "rk3399.xml", &[]);
    let index = json(boards.dir.path(), &["compare", "--index", "unixbench"]);
    assert_eq!((&index["columns"][3], &index["groups"][0]["name"]), (&"6".into(), &"kernel".into()), "{index:#}");
    let indices = &index["groups"][0]["indices"];
    let scaling = indices[3]["change_percent"].as_f64().expect("a change");
    assert!((151.0..=184.0).contains(&scaling), "{scaling}");
    let one = indices[0]["value"].as_f64().expect("an index");
    assert!((200.0..2000.0).contains(&one), "the index of one copy is {one}");
    for (cipher, instructions, a72, a53) in [
        ("aes-128-cbc", "software", 92_054.87, 25_189.72),
        ("aes-128-cbc", "cpu", 1_282_523.14, 547_143.68),
        ("aes-256-cbc", "cpu", 981_640.87, 379_278.68),
    ] {
        let test = format!("aes cipher={cipher} instructions={instructions}");
        for (placement, published) in [("big", a72), ("little", a53)] {
            let rate = boards.median(&test, placement, 1, "throughput");
            assert_near(&format!("{test} on {placement}"), rate / published, 1.0, 0.1);
        }
    }
}

/// Study C: six threads on one L3 cache against six cores on two. With pinned copies both ends of a pipe share a CPU, so
/// the caches do not matter for context switching.
#[test]
fn ccx_shows_the_changes_of_the_study() {
    let ccx = Study::run("ccx", "ryzen5-2600.xml", &[]);
    let placements = ["cores-across-l3", "smt-one-l3"];
    for (test, metric, published) in [
        ("dhrystone", "score", -33.5),
        ("execl", "score", -1.9),
        ("process-creation", "score", 14.4),
        ("shell concurrent=1", "score", -18.9),
        ("shell concurrent=8", "score", -23.1),
        ("shell concurrent=16", "score", -22.8),
        ("queens", "solutions", -20.7),
        ("threads", "events", -2.9),
        ("mutex", "events", -0.1),
    ] {
        assert_near(test, ccx.change(test, 6, metric, placements), published, 4.0);
    }
    let switching = ccx.change("pipe-context-switching", 6, "score", placements);
    assert_near("pipe-context-switching, pinned", switching, -33.5, 4.0);
    let loose = ["cores-across-l3+loose", "smt-one-l3+loose"];
    let is_loose = |cell: &Value| cell["placement"].as_str().is_some_and(|name| name.ends_with("+loose"));
    if ccx.run["cells"].as_array().expect("cells").iter().any(is_loose) {
        assert_near("pipe", ccx.change("pipe-context-switching", 6, "score", loose), -26.3, 4.0);
    }
    assert_near("dhrystone", ccx.median("dhrystone", placements[0], 6, "score") / 267_065_871.8, 1.0, 0.15);
}

/// Study E: memory interleaved over emulated nodes: +16 % at one thread and +46 % at four.
#[test]
fn interleaving_over_emulated_nodes_gains_as_in_the_study() {
    let fake = Study::run("fake-numa", "rpi5-numafake8.xml", &[]);
    let placements = ["kernel", "kernel+interleave"];
    for (program, one, four) in [("bzip3", 29.0, 96.0), ("pigz", 0.0, 28.0), ("zstd", 71.0, 164.0), ("xz", 10.0, 21.0)]
    {
        let test = format!("compress program={program}");
        assert_near(&test, fake.change(&test, 1, "throughput", placements), one, 6.0);
        assert_near(&test, fake.change(&test, 4, "throughput", placements), four, 12.0);
    }
    // The medians of five trials scatter by 3 % each.
    assert_near("hpl", fake.change("hpl", 4, "gflops", placements), 25.0, 9.0);
    assert_near("stream", fake.change("stream", 4, "add", placements), 27.0, 5.0);
    let compared = json(fake.dir.path(), &["compare", "--baseline", "kernel"]);
    let means = compared["geomean"].as_array().expect("means");
    let mean = |threads: u64| {
        let found = means.iter().find(|one| one["name"] == "kernel+interleave" && one["threads"] == threads);
        found.and_then(|one| one["change_percent"].as_f64()).expect("a mean for each thread count")
    };
    assert_near("geometric mean, 1 thread", mean(1), 16.0, 5.0);
    assert_near("geometric mean, 4 threads", mean(4), 46.0, 6.0);
}

/// Study D: 47 GiB/s local, 28 remote, about 4 beyond DRAM; products beyond DRAM at 95.0 and 95.8 %.
#[test]
fn far_memory_is_slow_only_beyond_dram() {
    let far = Study::run("far-memory", "xeon-e5-2640-x2.xml", &[]);
    let gib = |size: &str, placement: &str| {
        far.median(&format!("stream size={size}"), placement, 6, "triad") * 1e6 / f64::from(1 << 30)
    };
    assert_near("local", gib("128MiB", "memory-local"), 47.0, 3.0);
    assert_near("remote", gib("128MiB", "memory-remote"), 28.0, 3.0);
    assert_near("far arrays that fit", gib("128MiB", "far+swap:512MiB"), 47.0, 3.0);
    assert_near("expanded arrays that fit", gib("128MiB", "memory-local+expand:512MiB"), 47.0, 3.0);
    assert_near("far arrays beyond DRAM", gib("683MiB", "far+swap:512MiB"), 4.0, 0.5);
    assert_near("expanded arrays beyond DRAM", gib("683MiB", "memory-local+expand:512MiB"), 4.0, 0.5);
    for (precision, [fits, beyond], efficiency) in [("fp64", ["3328", "6656"], 95.8), ("fp32", ["4704", "9408"], 95.0)]
    {
        let tests: Vec<&str> = far.run["cells"]
            .as_array()
            .expect("cells")
            .iter()
            .filter(|cell| cell["workload"] == "gemm" && cell["parameters"]["precision"] == precision)
            .filter_map(|cell| cell["test"].as_str())
            .collect();
        let of_size = |n: &str| tests.iter().find(|test| test.contains(n)).expect("the test exists");
        let gflops = |n: &str, placement: &str| far.median(of_size(n), placement, 24, "gflops");
        let in_dram = gflops(fits, "kernel");
        assert!((100.0..5000.0).contains(&in_dram), "{precision}: {in_dram} GFLOPS on 12 cores");
        let percent = 100.0 * gflops(beyond, "kernel+expand:512MiB") / in_dram;
        assert_near(&format!("efficiency {precision}"), percent, efficiency, 3.0);
    }
}

/// Study B: with the interrupt on the disk's node, a reader on the other node loses 34 % of its small requests at a depth
/// of 32; at a depth of one, and with large requests, it loses little.
#[test]
fn interrupts_depend_on_the_nodes_of_disk_interrupt_and_reader() {
    let one = Study::run("interrupts", "xeon-e5-2640-x2-disks.json", &["--device", "sda"]);
    let near_and_far = ["near-device+irq:same-node", "far-from-device+irq:other-node"];
    assert_near("4k-q32", one.change("4k-q32", 1, "iops", near_and_far), -34.0, 4.0);
    let from_near = ["near-device", "far-from-device+irq:other-node"];
    assert_near("4k-q1", one.change("4k-q1", 1, "iops", from_near), -8.0, 6.0);
    assert_near("sequential", one.change("sequential-1m-q8", 1, "iops", from_near), 0.0, 4.0);
    let own_core = ["near-device+irq:same-node", "near-device+irq:same-core"];
    assert!(one.change("4k-q32", 1, "iops", own_core) < -20.0, "reader and interrupt share a core");

    let cells = one.run["cells"].as_array().expect("cells");
    let cell = cells.iter().find(|cell| cell["test"] == "4k-q32" && cell["placement"] == near_and_far[1]);
    let load = cell.expect("the cell exists")["cpu_load"].as_array().expect("the load of each CPU");
    assert_eq!(load.len(), 24);
    let busy = |kind: &str| load.iter().find(|cpu| cpu[kind].as_f64() > Some(10.0)).expect("a busy CPU")["cpu"].clone();
    assert_eq!(busy("system"), 0, "the reader is on the other node than the disk");
    assert!(busy("softirq").as_u64() >= Some(6), "the interrupt is on the node of the disk");

    let four = ["--device", "sda", "--device", "sdb", "--device", "sdc", "--device", "sdd"];
    let four = Study::run("interrupts", "xeon-e5-2640-x2-disks.json", &four);
    assert_near("four disks", four.change("4k-q32", 4, "iops", near_and_far), -34.0, 4.0);
    let ratio = four.median("4k-q32", near_and_far[0], 4, "iops") / one.median("4k-q32", near_and_far[0], 1, "iops");
    assert_near("four disks on four cores", ratio, 4.0, 0.4);
    assert!(four.median("4k-q32", near_and_far[0], 4, "throughput") > 500.0, "MB/s stand next to requests");
}
