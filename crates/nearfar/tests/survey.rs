//! `nearfar fleet compare` over simulated machines whose results files are imported into one: it reports a slow machine
//! and a change over time, both with their associated facts, and nothing for identical machines.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/ryzen5-2600.xml");

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
    dir: tempfile::TempDir,
}

impl Fleet {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("daily.toml"), EXPERIMENT).expect("the directory is writable");
        Self { dir }
    }

    fn nearfar(&self, store: &str, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        command.arg("--store").arg(self.dir.path().join(store)).args(args).arg("--quiet").current_dir(self.dir.path());
        command.env_remove("NEARFAR_STORE").env("NEARFAR_STATE", self.dir.path().join("state"));
        command.output().expect("the program starts")
    }

    fn print(&self, store: &str, args: &[&str]) -> String {
        let output = self.nearfar(store, args);
        assert!(output.status.success(), "nearfar {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("the output is UTF-8")
    }

    /// A capture of the machine; with `speed`, the cores have `speed`/1024 of their speed, and the firmware differs.
    fn capture(&self, speed: Option<u32>) -> PathBuf {
        let file = self.dir.path().join(format!("made-{}.json", speed.unwrap_or(1024)));
        if !file.exists() {
            let text = self.print("none.db", &["map", "--from", MODEL, "--format", "capture"]);
            let mut capture: Value = serde_json::from_str(&text).expect("a capture is JSON");
            let fact = |key: &str, value: &str| json!({ "key": key, "value": value });
            let bios = if speed.is_some() { "F2" } else { "F31" };
            capture["settings"] = json!([
                fact("cpu.model", "simulated Ryzen 5 2600"),
                fact("machine.bios-version", bios),
                fact("kernel.release", "6.18.0")
            ]);
            if let Some(speed) = speed {
                capture["topology"]["cpu_kinds"] = json!([{ "cpus": "0-11", "efficiency": 0, "capacity": speed, "info": [["FrequencyMaxMHz", "3400"]] }]);
            }
            std::fs::write(&file, capture.to_string()).expect("the directory is writable");
        }
        file
    }

    fn run(&self, machine: usize, seed: usize, speed: Option<u32>) {
        self.run_with(machine, seed, speed, &[]);
    }

    fn run_with(&self, machine: usize, seed: usize, speed: Option<u32>, more: &[&str]) {
        let (name, sim) = (format!("node-{machine}"), format!("{}:{seed}", self.capture(speed).display()));
        let rack = format!("rack={}", machine % 2);
        let args = ["run", "daily.toml", "--sim", &sim, "--host-label", &name, "--label", &rack];
        self.print(&format!("{name}.db"), &[&args, more].concat());
    }

    /// Imports the results files of all machines into one.
    fn import(&self) {
        let files: Vec<String> = (0..MACHINES).map(|machine| format!("node-{machine}.db")).collect();
        for file in &files {
            self.print("all.db", &["import", file]);
        }
    }

    fn compared(&self, args: &[&str]) -> Value {
        let args = [&["fleet", "compare", "--format", "json"], args].concat();
        serde_json::from_str(&self.print("all.db", &args)).expect("the output is JSON")
    }
}

/// Name and direction of all outliers.
fn outliers(survey: &Value) -> Vec<(String, String)> {
    let classes = survey["classes"].as_array().expect("classes is a list");
    let machines = classes.iter().flat_map(|class| class["machines"].as_array().expect("machines is a list"));
    machines
        .filter_map(|machine| Some((machine["name"].as_str()?.into(), machine["stands_out"].as_str()?.into())))
        .collect()
}

#[test]
fn slow_machine_is_an_outlier_with_an_associated_fact() {
    let fleet = Fleet::new();
    for machine in 0..MACHINES {
        fleet.run(machine, 10 + machine, (machine == 7).then_some(870));
    }
    fleet.import();
    let survey = fleet.compared(&[]);
    assert_eq!(outliers(&survey), [("node-7".to_string(), "worse".to_string())], "{survey:#}");
    let class = &survey["classes"][0];
    assert_eq!(class["machines"].as_array().map(Vec::len), Some(MACHINES));
    assert!(class["name"].as_str().is_some_and(|name| name.starts_with("simulated-ryzen-5-2600")), "{class:#}");
    let fact = &class["facts_of_worse"][0];
    let row = ["key", "value", "here", "here_of", "elsewhere", "elsewhere_of"].map(|name| fact[name].clone());
    assert_eq!(row, [json!("machine.bios-version"), json!("F2"), json!(1), json!(1), json!(0), json!(9)], "{class:#}");
    assert_eq!(class["changes"], json!([]));

    let text = fleet.print("all.db", &["fleet", "compare"]);
    assert!(text.contains("node-7 is 1") && text.contains("slower than the others for queens"), "{text}");
    let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains("At most 5 of a hundred surveys"), "{text}");
    let markdown = fleet.print("all.db", &["fleet", "compare", "--format", "markdown"]);
    assert!(markdown.contains("| machine.bios-version | F2 | 1 of 1 | 0 of 9 |"), "{markdown}");
    for page in [
        fleet.print("all.db", &["report", "-o", "-"]),
        fleet.print("all.db", &["fleet", "compare", "--format", "html"]),
    ] {
        assert!(page.contains("Survey of machines") && page.contains("node-7 against its class"), "{page}");
    }

    // Classes of five machines per rack are too small to judge; a fact shared by all machines gives one class again.
    let racks = fleet.compared(&["--class", "rack"]);
    assert_eq!((racks["classes"].as_array().map(Vec::len), outliers(&racks).len()), (Some(2), 0), "{racks:#}");
    assert!(racks["classes"][1]["not_judged"].as_str().is_some_and(|text| text.starts_with("5 machines")), "{racks:#}");
    assert_eq!(outliers(&fleet.compared(&["--class", "cpu.model,kernel.release"])).len(), 1);
    assert!(outliers(&fleet.compared(&["--workload", "stream"])).is_empty());
    let compared = fleet.print("all.db", &["compare", "--by", "rack", "--format", "json"]);
    let compared: Value = serde_json::from_str(&compared).expect("compare prints JSON");
    // Machines are never pooled: each has a column with its rack.
    let columns = compared["columns"].as_array().expect("a list of columns");
    assert_eq!((columns.len(), &columns[7]), (10, &json!("node-7, 1")));
}

/// One machine is slow, and most of its trials were stopped.
#[test]
fn suspect_trials_are_counted_marked_and_left_out_on_request() {
    let fleet = Fleet::new();
    for machine in 0..MACHINES {
        let faults: &[&str] = if machine == 4 { &["--sim-faults", "stops=0.8"] } else { &[] };
        fleet.run_with(machine, 10 + machine, (machine == 4).then_some(870), faults);
    }
    fleet.import();
    let survey = fleet.compared(&[]);
    let machine = &survey["classes"][0]["machines"][4];
    let (suspect, trials) = (machine["suspect"].as_u64(), machine["trials"].as_u64());
    assert!(suspect > Some(25) && trials == Some(50), "{machine:#}");
    assert_eq!(outliers(&survey), [("node-4".to_string(), "worse".to_string())], "{survey:#}");
    for format in ["text", "markdown", "html"] {
        let text = fleet.print("all.db", &["fleet", "compare", "--format", format]);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let share = format!("node-4 {} of 50; --strict", suspect.unwrap_or_default());
        assert!(text.contains(&share) && text.contains(" trials suspect"), "{share}: {text}");
    }

    let strict = fleet.compared(&["--strict"]);
    let machine = &strict["classes"][0]["machines"][4];
    assert_eq!(
        (machine["suspect"].as_u64(), machine["trials"].as_u64()),
        (Some(0), trials.zip(suspect).map(|(all, left_out)| all - left_out)),
        "{machine:#}"
    );
}

#[test]
fn slowdown_is_reported_with_its_time_and_fact() {
    let fleet = Fleet::new();
    for machine in 0..MACHINES {
        for seed in 0..7 {
            fleet.run(machine, 100 + 10 * machine + seed, None);
        }
    }
    fleet.import();
    let survey = fleet.compared(&[]);
    assert!(outliers(&survey).is_empty(), "{survey:#}");
    assert_eq!(survey["classes"][0]["changes"], json!([]));
    let text = fleet.print("all.db", &["fleet", "compare"]);
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
    let latest = changes.iter().filter_map(|change| change["latest"]["unix_ms"].as_u64()).max().expect("a time");
    let date = |unix_ms| model::values::calendar::utc_date(unix_ms);
    assert_eq!(fleet.compared(&["--since", &date(latest)])["classes"][0]["changes"], survey["classes"][0]["changes"]);
    let later = date(latest + 24 * 60 * 60 * 1000);
    assert_eq!(fleet.compared(&["--since", &later])["classes"][0]["changes"], json!([]));
    let text = fleet.print("all.db", &["fleet", "compare", "--since", &later]);
    assert!(text.contains(&format!("no change since {later} 00:00 UTC seen")), "{text}");
    assert!(fleet.print("all.db", &["report", "-o", "-"]).contains("node-3: queens over time"));
}

#[test]
fn usage_errors_are_reported() {
    let fleet = Fleet::new();
    fleet.run(0, 1, None);
    let usage_error = |store: &str, args: &[&str]| {
        let output = fleet.nearfar(store, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (args, expected) in [
        (&["--class", "cpu.colour"][..], "no run has recorded a fact 'cpu.colour'"),
        (&["--workload", "strem"], "no run has results of workload 'strem'"),
        (&["--false-alarms", "0"], "above 0 and at most 50"),
        (&["nosuchrun"], "nosuchrun"),
    ] {
        let stderr = usage_error("node-0.db", &[&["fleet", "compare"], args].concat());
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
    for (label, expected) in
        [("rack", "KEY=VALUE"), ("Rack=1", "invalid key 'Rack'"), ("rack= ", "the value of 'rack' is empty")]
    {
        let stderr = usage_error("node-0.db", &["run", "daily.toml", "--sim", MODEL, "--label", label]);
        assert!(stderr.contains(expected), "{label}: {stderr}");
    }
    let alone = fleet.print("node-0.db", &["fleet", "compare"]);
    assert!(alone.contains("1 machine; at least 7 machines of a class are required"), "{alone}");
    assert!(!Path::new(&fleet.dir.path().join("none.db")).exists());
}
