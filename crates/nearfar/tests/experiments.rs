//! The experiments that the program brings along: they make plans on every model of a machine, run there in simulation
//! from end to end, and seat people where the studies did.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models");
/// Simulated time costs nothing: every repetition is made.
const IN_FULL: [&str; 2] = ["--budget", "1000h"];
/// Machines of the studies, and one with memory beyond DRAM.
const STUDIED: [&str; 5] = ["ryzen5-2600", "rk3399", "rpi5-numafake8", "xeon-e5-2640-x2", "grace-cxl"];

fn nearfar(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(folder.join("results.db")).args(args).env_remove("NEARFAR_STORE");
    command.output().expect("the program starts")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

fn built_in(folder: &Path) -> Vec<String> {
    let list = json(&nearfar(folder, &["list", "experiments", "--format", "json"]));
    let names = list["experiments"].as_array().expect("a list of experiments");
    names.iter().map(|one| one["name"].as_str().expect("a name").to_string()).collect()
}

#[test]
fn every_experiment_ends_on_every_machine_of_the_studies() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let names = built_in(folder.path());
    assert!(["quick", "boards", "ccx"].iter().all(|name| names.iter().any(|known| known == name)), "{names:?}");
    for name in &names {
        for model in STUDIED {
            let sim = format!("{MODELS}/{model}.xml:3");
            let args = [&["run", name, "--sim", &sim, "--quiet", "--format", "json"], &IN_FULL[..]].concat();
            let ran = nearfar(folder.path(), &args);
            let said = String::from_utf8_lossy(&ran.stderr);
            if ran.status.code() == Some(77) {
                // Models of caches and memories have no disks.
                assert!(name == "interrupts" && said.contains("device"), "{name} on {model}: {said}");
                continue;
            }
            let run = json(&ran);
            let cells = run["cells"].as_array().expect("cells");
            assert!(!cells.is_empty(), "{name} on {model}");
            let measured = |cell: &Value| cell["verdicts"]["valid"].as_u64() >= Some(3);
            assert!(cells.iter().all(measured), "{name} on {model}: {cells:#?}");
        }
    }
}

/// Study E3: six cores over two L3 caches are cpus 0-5, six threads of one are 0-2 and 6-8.
#[test]
fn ccx_seats_people_where_the_study_did() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let sim = format!("{MODELS}/ryzen5-2600.xml:1");
    let plan = json(&nearfar(folder.path(), &["run", "ccx", "--sim", &sim, "--dry-run", "--format", "json"]));
    let cells = plan["cells"].as_array().expect("cells");
    let seats = |name| match name {
        Some("cores-across-l3") => "0-5",
        Some("smt-one-l3") => "0-2,6-8",
        _ => "",
    };
    for cell in cells {
        assert_eq!(
            (&cell["threads"], &cell["cpus"]),
            (&6.into(), &seats(cell["placement"].as_str()).into()),
            "{cell:#}"
        );
    }
    for placement in ["kernel", "cores-across-l3", "smt-one-l3"] {
        assert!(cells.iter().any(|cell| cell["placement"] == placement), "{placement}");
    }
    assert_eq!(plan["skipped"].as_array().map(Vec::len), Some(0), "{plan:#}");
}

/// Study E1: copies on the big cores, on the little ones, on both; an index per number of copies with percent over one copy;
/// and two boards in one table, with what else differs named.
#[test]
fn boards_of_two_machines_are_one_table() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let other = tempfile::tempdir().expect("another");
    let run = |folder: &Path, model: &str, label: &str| {
        let sim = format!("{MODELS}/{model}.xml:3");
        let args =
            [&["run", "boards", "--sim", &sim, "--host-label", label, "--format", "json"], &IN_FULL[..]].concat();
        json(&nearfar(folder, &args))
    };
    let cells = run(folder.path(), "rk3399", "rock")["cells"].clone();
    let seats = |placement: &str, threads: u64| {
        let at = |cell: &&Value| cell["placement"] == placement && cell["threads"] == threads;
        cells.as_array().and_then(|cells| cells.iter().find(at)).map(|cell| cell["cpus"].clone())
    };
    assert_eq!((seats("big", 2), seats("little", 4)), (Some("4-5".into()), Some("0-3".into())));
    assert_eq!(seats("big", 4), None);

    let index = json(&nearfar(folder.path(), &["compare", "--index", "unixbench", "--format", "json"]));
    assert_eq!((&index["by"], &index["columns"]), (&"threads".into(), &serde_json::json!(["1", "2", "4", "6"])));
    let indices = &index["groups"][0]["indices"];
    assert_eq!((&index["groups"][0]["name"], &indices[0]["tests"]), (&"kernel".into(), &12.into()));
    assert!(
        indices[0]["change_percent"].is_null() && indices[3]["change_percent"].as_f64() > Some(100.0),
        "{indices:#}"
    );

    run(other.path(), "rpi5-numafake8", "pi");
    let file = other.path().join("results.db");
    assert!(nearfar(folder.path(), &["import", file.to_str().expect("a path")]).status.success());
    let both = json(&nearfar(folder.path(), &["compare", "--by", "host", "--format", "json"]));
    assert_eq!(both["columns"], serde_json::json!(["rock", "pi"]));
    assert!(
        both["notes"].as_array().is_some_and(|notes| notes
            .iter()
            .any(|note| { note.as_str().is_some_and(|note| note.starts_with("cpu.model differs")) })),
        "{:#}",
        both["notes"]
    );
    let text = nearfar(folder.path(), &["compare", "--by", "host"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.find("cpu.model differs") < text.find("dhrystone"), "differences stand above the table:\n{text}");
}
