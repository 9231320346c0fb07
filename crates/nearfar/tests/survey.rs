//! `nearfar fleet compare` over simulated machines, each with a results file of its own that is imported into one: the machine that
//! was made slow is named with the fact that was recorded with it, so is the change of one that became slow, and where nothing
//! was planted nobody is named.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml");

/// Ten machines, of which any may stand out.
const MACHINES: usize = 10;

const EXPERIMENT: &str = r#"
name = "daily"
question = "Is every machine as it should be?"
[repeat]
warmup = 1
min = 25
max = 25
budget = "1000h"
[[workload]]
name = "queens"
placements = ["one-core"]
[[workload]]
name = "stream"
placements = ["spread"]
"#;

struct Fleet {
    folder: tempfile::TempDir,
}

impl Fleet {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder");
        std::fs::write(folder.path().join("daily.toml"), EXPERIMENT).expect("the folder can be written");
        Self { folder }
    }

    fn nearfar(&self, store: &str, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command
            .arg("--store")
            .arg(self.folder.path().join(store))
            .args(args)
            .arg("--quiet")
            .current_dir(self.folder.path());
        command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", self.folder.path().join("state"));
        command.output().expect("the program starts")
    }

    fn well(&self, store: &str, args: &[&str]) -> String {
        let output = self.nearfar(store, args);
        assert!(output.status.success(), "nearfar {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it prints text")
    }

    /// The capture of a machine: all are of one model; a slow one has cores of so many 1024ths of the speed, and other firmware.
    fn capture(&self, speed: Option<u32>) -> PathBuf {
        let file = self.folder.path().join(format!("made-{}.json", speed.unwrap_or(1024)));
        if !file.exists() {
            let text = self.well("none.db", &["map", "--from", MODEL, "--format", "capture"]);
            let mut capture: Value = serde_json::from_str(&text).expect("a capture is JSON");
            let fact = |key: &str, value: &str| json!({ "key": key, "value": value });
            let bios = if speed.is_some() { "F2" } else { "F31" };
            capture["settings"] = json!([
                fact("cpu.model", "simulated Ryzen 5 2600"),
                fact("machine.bios-version", bios),
                fact("kernel.release", "6.18.0")
            ]);
            if let Some(speed) = speed {
                capture["topology"]["cpu_kinds"] =
                    json!([{ "cpus": "0-11", "efficiency": 0, "capacity": speed, "info": [] }]);
            }
            std::fs::write(&file, capture.to_string()).expect("the folder can be written");
        }
        file
    }

    fn run(&self, machine: usize, seed: usize, speed: Option<u32>) {
        let (name, sim) = (format!("node-{machine}"), format!("{}:{seed}", self.capture(speed).display()));
        let rack = format!("rack={}", machine % 2);
        let words = ["run", "daily.toml", "--sim", &sim, "--host-label", &name, "--label", &rack];
        self.well(&format!("{name}.db"), &words);
    }

    /// Brings together what each machine has.
    fn import(&self) {
        let files: Vec<String> = (0..MACHINES).map(|machine| format!("node-{machine}.db")).collect();
        for file in &files {
            self.well("all.db", &["import", file]);
        }
    }

    fn compared(&self, words: &[&str]) -> Value {
        let args = [&["fleet", "compare", "--format", "json"], words].concat();
        serde_json::from_str(&self.well("all.db", &args)).expect("it prints JSON")
    }
}

/// Name and worth of all machines that stand out.
fn out(survey: &Value) -> Vec<(String, String)> {
    let classes = survey["classes"].as_array().expect("classes is a list");
    let machines = classes.iter().flat_map(|class| class["machines"].as_array().expect("machines is a list"));
    let named =
        machines.filter_map(|machine| Some((machine["name"].as_str()?.into(), machine["stands_out"].as_str()?.into())));
    named.collect()
}

#[test]
fn the_slow_machine_is_named_with_the_fact_that_goes_with_it() {
    let fleet = Fleet::new();
    for machine in 0..MACHINES {
        fleet.run(machine, 10 + machine, (machine == 7).then_some(870));
    }
    fleet.import();
    let survey = fleet.compared(&[]);
    assert_eq!(out(&survey), [("node-7".to_string(), "worse".to_string())], "{survey:#}");
    let class = &survey["classes"][0];
    assert_eq!(class["machines"].as_array().map(Vec::len), Some(MACHINES));
    assert!(class["name"].as_str().is_some_and(|name| name.starts_with("simulated-ryzen-5-2600")), "{class:#}");
    let fact = &class["facts_of_worse"][0];
    let told = ["key", "value", "here", "here_of", "elsewhere", "elsewhere_of"].map(|name| fact[name].clone());
    assert_eq!(told, [json!("machine.bios-version"), json!("F2"), json!(1), json!(1), json!(0), json!(9)], "{class:#}");
    assert_eq!(class["changes"], json!([]));

    let text = fleet.well("all.db", &["fleet", "compare"]);
    assert!(text.contains("node-7 is 1") && text.contains("slower than the others for queens"), "{text}");
    let on_a_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(on_a_line.contains("At most 5 of a hundred surveys"), "{text}");
    let markdown = fleet.well("all.db", &["fleet", "compare", "--format", "markdown"]);
    assert!(markdown.contains("| machine.bios-version | F2 | 1 of 1 | 0 of 9 |"), "{markdown}");
    for page in
        [fleet.well("all.db", &["report", "-o", "-"]), fleet.well("all.db", &["fleet", "compare", "--format", "html"])]
    {
        assert!(page.contains("Survey of machines") && page.contains("node-7 against its class"), "{page}");
    }

    // By a label, racks of five are too few to judge; by a fact that all share, they are one class again.
    let racks = fleet.compared(&["--class", "rack"]);
    assert_eq!((racks["classes"].as_array().map(Vec::len), out(&racks).len()), (Some(2), 0), "{racks:#}");
    assert!(racks["classes"][1]["not_judged"].as_str().is_some_and(|why| why.starts_with("5 machines")), "{racks:#}");
    assert_eq!(out(&fleet.compared(&["--class", "cpu.model,kernel.release"])).len(), 1);
    assert!(out(&fleet.compared(&["--workload", "stream"])).is_empty());
    let compared = fleet.well("all.db", &["compare", "--by", "rack", "--format", "json"]);
    let compared: Value = serde_json::from_str(&compared).expect("it prints JSON");
    assert_eq!(compared["columns"], json!(["0", "1"]));
}

#[test]
fn what_became_slow_is_named_with_when_and_where_nothing_is_planted_nobody_is() {
    let fleet = Fleet::new();
    for machine in 0..MACHINES {
        for seed in 0..7 {
            fleet.run(machine, 100 + 10 * machine + seed, None);
        }
    }
    fleet.import();
    let survey = fleet.compared(&[]);
    assert!(out(&survey).is_empty(), "{survey:#}");
    assert_eq!(survey["classes"][0]["changes"], json!([]));
    let text = fleet.well("all.db", &["fleet", "compare"]);
    assert!(
        text.contains("no outliers among these 10 machines") && text.contains("no change over time seen"),
        "{text}"
    );

    for seed in 7..11 {
        fleet.run(3, 130 + seed, Some(870));
    }
    fleet.import();
    let survey = fleet.compared(&[]);
    let changes = survey["classes"][0]["changes"].as_array().expect("changes is a list");
    assert!(!changes.is_empty(), "{survey:#}");
    for change in changes {
        assert_eq!(
            (change["machine"].as_str(), change["worth"].as_str()),
            (Some("node-3"), Some("worse")),
            "{change:#}"
        );
        assert_eq!(change["points"].as_array().map(Vec::len), Some(11));
        assert_eq!(change["after"]["run"], change["points"][7]["run"], "{change:#}");
        let fact = &change["facts"][0];
        assert_eq!(
            (fact["key"].as_str(), fact["here"].as_u64(), fact["elsewhere"].as_u64()),
            (Some("machine.bios-version"), Some(4), Some(0))
        );
    }
    assert!(fleet.well("all.db", &["report", "-o", "-"]).contains("node-3: queens over time"));
}

#[test]
fn mistakes_are_named() {
    let fleet = Fleet::new();
    fleet.run(0, 1, None);
    let said = |store: &str, words: &[&str]| {
        let output = fleet.nearfar(store, words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (words, expected) in [
        (&["--class", "cpu.colour"][..], "no run has recorded a fact 'cpu.colour'"),
        (&["--workload", "strem"], "no run has results of workload 'strem'"),
        (&["--false-alarms", "0"], "above 0 and at most 50"),
        (&["nosuchrun"], "nosuchrun"),
    ] {
        let said = said("node-0.db", &[&["fleet", "compare"], words].concat());
        assert!(said.contains(expected), "{words:?}: {said}");
    }
    for (label, expected) in
        [("rack", "KEY=VALUE"), ("Rack=1", "invalid key 'Rack'"), ("rack= ", "the value of 'rack' is empty")]
    {
        let said = said("node-0.db", &["run", "daily.toml", "--sim", MODEL, "--label", label]);
        assert!(said.contains(expected), "{label}: {said}");
    }
    let alone = fleet.well("node-0.db", &["fleet", "compare"]);
    assert!(alone.contains("1 machine: with fewer than 7 of a class"), "{alone}");
    assert!(!Path::new(&fleet.folder.path().join("none.db")).exists());
}
