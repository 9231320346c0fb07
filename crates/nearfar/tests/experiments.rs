//! Built-in experiments: each completes in simulation on the studied machines, and those of the studies use the same
//! CPUs as the studies.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models");
/// Simulated time is free, so the budget allows every repetition.
const FULL_BUDGET: [&str; 2] = ["--budget", "1000h"];
/// Machines of the studies, and one with memory beyond DRAM.
const STUDIED: [&str; 5] = ["ryzen5-2600", "rk3399", "rpi5-numafake8", "xeon-e5-2640-x2", "grace-cxl"];

fn nearfar(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(dir.join("results.db")).args(args).env_remove("NEARFAR_STORE");
    command.output().expect("the program starts")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

fn built_in(dir: &Path) -> Vec<String> {
    let list = json(&nearfar(dir, &["list", "experiments", "--format", "json"]));
    let names = list["experiments"].as_array().expect("a list of experiments");
    names.iter().map(|one| one["name"].as_str().expect("a name").to_string()).collect()
}

#[test]
fn every_experiment_completes_on_every_studied_machine() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let names = built_in(dir.path());
    assert!(["quick", "boards", "ccx"].iter().all(|name| names.iter().any(|known| known == name)), "{names:?}");
    for name in &names {
        for model in STUDIED {
            let sim = format!("{MODELS}/{model}.xml:3");
            let args = [&["run", name, "--sim", &sim, "--quiet", "--format", "json"], &FULL_BUDGET[..]].concat();
            let output = nearfar(dir.path(), &args);
            let stderr = String::from_utf8_lossy(&output.stderr);
            if output.status.code() == Some(77) {
                // The models have no disks.
                assert!(name == "interrupts" && stderr.contains("device"), "{name} on {model}: {stderr}");
                continue;
            }
            let run = json(&output);
            let cells = run["cells"].as_array().expect("cells");
            assert!(!cells.is_empty(), "{name} on {model}");
            let measured = |cell: &Value| cell["verdicts"]["valid"].as_u64() >= Some(3);
            assert!(cells.iter().all(measured), "{name} on {model}: {cells:#?}");
        }
    }
}

/// Study E3: six cores of two L3 caches are CPUs 0-5; six threads on one L3 cache are CPUs 0-2 and 6-8.
#[test]
fn ccx_uses_the_cpus_of_the_study() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sim = format!("{MODELS}/ryzen5-2600.xml:1");
    let plan = json(&nearfar(dir.path(), &["run", "ccx", "--sim", &sim, "--dry-run", "--format", "json"]));
    let cells = plan["cells"].as_array().expect("cells");
    let cpus = |name: Option<&str>| match name.map(|name| name.trim_end_matches("+loose")) {
        Some("cores-across-l3") => "0-5",
        Some("smt-one-l3") => "0-2,6-8",
        _ => "",
    };
    for cell in cells {
        assert_eq!(
            (&cell["threads"], &cell["cpus"]),
            (&6.into(), &cpus(cell["placement"].as_str()).into()),
            "{cell:#}"
        );
    }
    for placement in ["kernel", "cores-across-l3", "smt-one-l3", "cores-across-l3+loose", "smt-one-l3+loose"] {
        assert!(cells.iter().any(|cell| cell["placement"] == placement), "{placement}");
    }
    assert_eq!(plan["skipped"].as_array().map(Vec::len), Some(0), "{plan:#}");
}

/// Study E1: copies on the big cores, on the little cores and on both. Each number of copies has an index and its
/// change in percent from one copy. A table of two boards lists their other differences.
#[test]
fn boards_of_two_machines_are_in_one_table() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let other = tempfile::tempdir().expect("a second temporary directory");
    let run = |dir: &Path, model: &str, label: &str| {
        let sim = format!("{MODELS}/{model}.xml:3");
        let args =
            [&["run", "boards", "--sim", &sim, "--host-label", label, "--format", "json"], &FULL_BUDGET[..]].concat();
        json(&nearfar(dir, &args))
    };
    let cells = run(dir.path(), "rk3399", "rock")["cells"].clone();
    let cpus = |placement: &str, threads: u64| {
        let at = |cell: &&Value| cell["placement"] == placement && cell["threads"] == threads;
        cells.as_array().and_then(|cells| cells.iter().find(at)).map(|cell| cell["cpus"].clone())
    };
    assert_eq!((cpus("big", 2), cpus("little", 4)), (Some("4-5".into()), Some("0-3".into())));
    assert_eq!(cpus("big", 4), None);

    let index = json(&nearfar(dir.path(), &["compare", "--index", "unixbench", "--format", "json"]));
    assert_eq!((&index["by"], &index["columns"]), (&"threads".into(), &serde_json::json!(["1", "2", "4", "6"])));
    let indices = &index["groups"][0]["indices"];
    assert_eq!((&index["groups"][0]["name"], &indices[0]["tests"]), (&"kernel".into(), &12.into()));
    assert!(
        indices[0]["change_percent"].is_null() && indices[3]["change_percent"].as_f64() > Some(100.0),
        "{indices:#}"
    );

    run(other.path(), "rpi5-numafake8", "pi");
    let file = other.path().join("results.db");
    assert!(nearfar(dir.path(), &["import", file.to_str().expect("a path")]).status.success());
    let both = json(&nearfar(dir.path(), &["compare", "--by", "host", "--format", "json"]));
    assert_eq!(both["columns"], serde_json::json!(["rock", "pi"]));
    assert!(
        both["notes"].as_array().is_some_and(|notes| notes
            .iter()
            .any(|note| { note.as_str().is_some_and(|note| note.starts_with("cpu.model differs")) })),
        "{:#}",
        both["notes"]
    );
    let text = nearfar(dir.path(), &["compare", "--by", "host"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.find("cpu.model differs") < text.find("dhrystone"), "the differences must precede the table:\n{text}");
}

/// Runs of one machine show how much runs differ, so that single runs of a comparison may be compared.
#[test]
fn repeated_runs_are_stored_and_compared_by_run() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sim = format!("{MODELS}/ryzen5-2600.xml:3");
    let run = nearfar(dir.path(), &[&["run", "quick", "--sim", &sim, "--repeat-runs", "4"], &FULL_BUDGET[..]].concat());
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let runs = json(&nearfar(dir.path(), &["show", "--runs", "--format", "json"]));
    let ids: Vec<&str> = runs["runs"].as_array().expect("runs").iter().filter_map(|run| run["id"].as_str()).collect();
    assert_eq!(ids.len(), 4, "{runs:#}");
    let replication = |args: &[&str]| {
        let comparison = json(&nearfar(dir.path(), &[&["compare", "--format", "json"], args].concat()));
        let values = comparison["rows"][0]["values"].as_object().expect("values").clone();
        let changed = values.values().find(|value| !value["change_percent"].is_null()).expect("a change").clone();
        changed["replication"].as_str().expect("an interval").to_string()
    };
    assert_eq!(replication(&["--by", "run", ids[0], ids[1]]), "other-runs", "the other two are the history");
    assert_eq!(replication(&[ids[0]]), "blocks");
}

#[test]
fn strict_comparisons_leave_out_suspect_trials() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let sim = format!("{MODELS}/ryzen5-2600.xml:3");
    let args = [&["run", "quick", "--sim", &sim, "--sim-faults", "stops=0.2", "--quiet"], &FULL_BUDGET[..]].concat();
    assert!(nearfar(dir.path(), &args).status.success());
    let suspect = |args: &[&str]| {
        let comparison = json(&nearfar(dir.path(), &[&["compare", "--format", "json"], args].concat()));
        let rows = comparison["rows"].as_array().expect("rows").clone();
        let values = rows.iter().flat_map(|row| row["values"].as_object().expect("values").values());
        let counts: Vec<u64> = values.map(|value| value["suspect"].as_u64().expect("a count")).collect();
        (counts.iter().sum::<u64>(), comparison["notes"].to_string())
    };
    let (all, _) = suspect(&[]);
    assert!(all > 0, "the simulation has disturbed trials");
    let (strict, notes) = suspect(&["--strict"]);
    assert_eq!(strict, 0);
    assert!(notes.contains("suspect trials are left out"), "{notes}");

    let shown = |args: &[&str]| json(&nearfar(dir.path(), &[&["show", "--format", "json"], args].concat()));
    let count = |run: &Value, suspect: u64| {
        let cells = run["cells"].as_array().expect("cells").iter();
        let disturbed = cells.filter(|cell| cell["verdicts"]["suspect"] != 0);
        let lost = |cell: &Value| {
            let counted = cell["verdicts"]["valid"].as_u64()? + cell["verdicts"]["suspect"].as_u64()?;
            Some(counted - cell["metrics"][0]["samples"].as_array()?.len() as u64)
        };
        let all: Vec<(u64, String)> =
            disturbed.map(|cell| (lost(cell).expect("samples"), cell["caveats"].to_string())).collect();
        assert_eq!(all.iter().map(|(lost, _)| lost).sum::<u64>(), suspect, "{all:?}");
        all.iter().all(|(_, caveats)| caveats.contains("suspect trials are left out (--strict)"))
    };
    let run = shown(&[]);
    let suspect =
        run["cells"].as_array().expect("cells").iter().filter_map(|cell| cell["verdicts"]["suspect"].as_u64());
    assert!(!count(&run, 0));
    assert!(count(&shown(&["--strict"]), suspect.sum()));
    let report = |args: &[&str]| {
        let html = nearfar(dir.path(), &[&["report", "-o", "-"], args].concat()).stdout;
        String::from_utf8(html).expect("UTF-8")
    };
    assert!(report(&[]).contains("(suspect: they count)"));
    assert!(report(&["--strict"]).contains("(suspect: left out by --strict)"));
}
