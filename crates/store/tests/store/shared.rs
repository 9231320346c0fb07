//! Shared files: secrets are planted into every text of a run, one at a time and all at once, and searched for in the
//! shared record and in the bytes of the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use model::sharing::share::{self, ShareOptions};
use model::values::id_set::{CpuId, CpuSet, NodeId};
use model::values::placement::Route;
use model::values::plan::RaceRules;
use model::values::plan::{Cell, CellSelector, EfficiencyRule, RacePlan, ReductionStep, Stages};
use model::values::record::{RunRecord, TrialRecord};
use model::values::settings::FactValue;
use model::values::topology::{
    CpuKind, Device, DeviceKind, Distances, Interrupt, MemoryAttribute, MemoryNode, Movability,
};
use model::values::trial::{CpuTime, DeviceInterrupt, Evidence, FileKind, FilePages, TrialStatus};
use model::values::units::{Bytes, Nanos};
use model::values::workload::{ParameterKind, ParameterSpec, Value};
use serde_json::Value as Json;
use store::shared::{Content, write};
use store::{Store, StoreError};

use crate::fixtures;

/// Secrets that are recognised by their form in any text.
const SHAPES: [&str; 7] = [
    "/home/alice/payroll.bin",
    "~/letters",
    "00:1a:2b:3c:4d:5e",
    "0d6e6ef3-5e1c-4c0e-9a0e-1f2e3d4c5b6a",
    "192.168.7.9",
    "https://wiki.example.org/x",
    "5000c500a1b2c3d4",
];
/// Secrets that are recognised because they are names of this machine or its user, or have the form of a serial number.
const NAMES: [&str; 3] = ["basalt", "alice", "S4EWNX0R512345"];
/// Texts that must not occur anywhere; the short ones are parts of the planted ones.
const TRACES: [&str; 11] =
    ["/home", "payroll", "~/", "00:1a", "0d6e6ef3", "192.168", "example.org", "basalt", "alice", "S4EWN", "5000c500"];

fn options() -> ShareOptions {
    ShareOptions { names: vec!["basalt".into(), "alice".into()], ..ShareOptions::default() }
}

/// A run in which every text field is filled.
fn full() -> (RunRecord, Vec<TrialRecord>) {
    let mut run = RunRecord {
        host: Some("board".into()),
        simulated: Some("box.json:7".into()),
        ..fixtures::run("00112233445566ff", 1)
    };
    let cpus = CpuSet::parse_list("0").unwrap();
    fill_topology(&mut run, &cpus);
    fill_settings(&mut run);
    fill_plan(&mut run, &cpus);
    let mut trials: Vec<TrialRecord> =
        [0, 12, 13, 14, 15, 16, 24, 33, 36, 50].map(|position| fixtures::trial(&run, position, 4)).into();
    for trial in &mut trials {
        trial.verdict.reasons.push("it ran elsewhere".into());
        let interrupt = DeviceInterrupt { device: "sda".into(), name: "ahci0".into(), ..DeviceInterrupt::default() };
        trial.outcome.evidence.device_interrupts = vec![interrupt];
        let pages = [(NodeId(0), 9)].into();
        let path = "/usr/lib/libz.so.1".into();
        trial.outcome.evidence.files = vec![FilePages { path, kind: FileKind::Library, pages, is_shared: false }];
        let times = CpuTime { user: Nanos(10), idle: Nanos(30), ..CpuTime::default() };
        trial.outcome.evidence.cpu_times = [(CpuId(3), times)].into();
        trial.outcome.evidence.second = Some(Box::new(Evidence {
            memory_policy: Some("default".into()),
            unavailable: BTreeMap::from([("pages".into(), "no such process".into())]),
            ..Evidence::default()
        }));
    }
    let kinds = trials.iter().map(|trial| std::mem::discriminant(&trial.outcome.status));
    assert_eq!(kinds.collect::<std::collections::HashSet<_>>().len(), 4, "each status occurs");
    (run, trials)
}

fn fill_topology(run: &mut RunRecord, cpus: &CpuSet) {
    let topology = &mut run.machine.topology;
    topology.objects[0].subtype = Some("Cluster".into());
    topology.objects[0].memory = vec![0];
    topology.nodes =
        vec![MemoryNode { os: NodeId(0), cpus: cpus.clone(), bytes: Bytes(1), subtype: Some("HBM".into()) }];
    topology.distances = vec![Distances { name: Some("NUMALatency".into()), nodes: vec![NodeId(0)], values: vec![10] }];
    topology.memory_attributes =
        vec![MemoryAttribute { attr: "Latency".into(), node: NodeId(0), initiator: None, value: 7 }];
    let info = vec![("CoreType".into(), "IntelAtom".into())];
    topology.cpu_kinds = vec![CpuKind { cpus: cpus.clone(), efficiency: 0, capacity: None, info }];
    topology.notes = vec!["hwloc shows cpus 0".into()];
    let interrupt = Interrupt {
        number: 9,
        name: "ahci0".into(),
        affinity: cpus.clone(),
        effective: cpus.clone(),
        movability: Movability::Movable,
    };
    topology.devices = vec![Device {
        name: "sda".into(),
        kind: DeviceKind::Block,
        bus: Some("0000:01:00.0".into()),
        node: None,
        interrupts: vec![interrupt],
    }];
}

fn fill_settings(run: &mut RunRecord) {
    let settings = &mut run.machine.settings;
    let facts = [
        ("machine.model", "ASUS PRIME X570-P"),
        ("os.distribution", "Debian GNU/Linux 12 (bookworm)"),
        ("kernel.version", "#1 SMP"),
        ("kernel.command-line", "root=/dev/sda2 ro numa=fake=2 quiet"),
        ("kernel.boot-id", "0d6e6ef3-5e1c-4c0e-9a0e-1f2e3d4c5b6a"),
        ("memory.thp", "madvise"),
        ("disk.serial", "S4EWNX0R512345"),
    ];
    facts.iter().for_each(|(key, value)| settings.record(key, FactValue::Known((*value).into())));
    settings.record("cpu.turbo", FactValue::Unavailable("no driver".into()));
}

fn fill_plan(run: &mut RunRecord, cpus: &CpuSet) {
    let text = |name: &str, default: Option<&str>| ParameterSpec {
        name: name.into(),
        about: "a text".into(),
        kind: ParameterKind::Text,
        default: default.map(String::from),
        smoke: None,
    };
    let plan = &mut run.plan;
    let spec = &mut plan.workloads[0];
    "about it".clone_into(&mut spec.about);
    let choice = ParameterKind::Choice(vec!["read".into(), "write".into()]);
    spec.parameters.extend([
        text("file", Some("")),
        text("library", Some("libx.so")),
        ParameterSpec { kind: choice, ..text("rw", Some("read")) },
    ]);
    let mut command = spec.clone();
    "command".clone_into(&mut command.name);
    command.parameters = vec![text("argv", None), text("metric", Some(""))];
    let cells: Vec<Cell> = plan
        .cells
        .iter()
        .map(|cell| {
            let is_command = cell.test.contains("11");
            let mut parameters = cell.parameters.clone();
            let mut set = |name: &str, value: &str| parameters.0.insert(name.into(), Value::Text(value.into()));
            if is_command {
                set("argv", "[\"./payroll\",\"--password=hunter2\"]");
                set("metric", "total: (.*)");
            } else {
                set("file", "secrets.bin");
                set("library", "libx.so");
                set("rw", "write");
            }
            let mut placement = cell.placement.clone();
            let route = Route { device: "sda".into(), number: 9, name: "ahci0".into(), cpus: cpus.clone() };
            placement.interrupts = vec![route];
            Cell::new(if is_command { &command } else { spec }, cell.test.clone(), parameters, placement)
        })
        .collect();
    plan.workloads.push(command);
    plan.cells = cells;
    plan.race = Some(RacePlan {
        rules: RaceRules { indifference: 0.01, strict: false, max_trials: None },
        stages: Stages::default(),
        raw_placements: "12".into(),
        steps: vec![ReductionStep { count: Some("3".into()), text: "alike".into() }],
        search: None,
        places_files: false,
    });
    plan.efficiency = vec![EfficiencyRule {
        cells: CellSelector {
            tests: vec![plan.cells[11].title().into()],
            placements: vec![plan.cells[11].placement.name.clone()],
            parameters: [("argv".to_string(), vec!["[\"./payroll\",\"--password=hunter2\"]".to_string()])].into(),
        },
        reference: CellSelector {
            parameters: [("file".to_string(), vec!["secrets.bin".to_string()])].into(),
            ..CellSelector::default()
        },
        next_smaller: Some("size".into()),
    }];
    plan.baseline = Some("kernel".into());
    plan.command = ["place", "--", "./payroll", "--password=hunter2"].map(String::from).to_vec();
}

/// The JSON pointers of all texts in a JSON value.
fn texts(value: &Json, at: &str, paths: &mut Vec<String>) {
    match value {
        Json::String(_) => paths.push(at.into()),
        Json::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| texts(item, &format!("{at}/{index}"), paths));
        }
        Json::Object(fields) => fields.iter().for_each(|(key, item)| {
            texts(item, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), paths);
        }),
        _ => {}
    }
}

/// Texts of the program or of a manufacturer, where only forms are searched for: a CPU model may equal a host name.
fn is_vocabulary(path: &str, whole: &Json) -> bool {
    let words = ["/subtype", "/attr", "/series", "/workload", "/placement/name"];
    let fact = |key: &str| {
        path.strip_suffix("/value").is_some_and(|fact| whole.pointer(&format!("{fact}/key")).is_some_and(|k| k == key))
    };
    path.contains("/plan/workloads/")
        || path.contains("/distances/")
        || path.contains("/info/")
        || words.iter().any(|word| path.ends_with(word))
        || path.contains("/skipped/") && path.ends_with("/placement")
        || ["machine.model", "os.distribution", "cpu.model"].iter().any(|key| fact(key))
}

fn plant(whole: &mut Json, path: &str, instead: bool) {
    let vocabulary = is_vocabulary(path, whole);
    let secrets = SHAPES.iter().chain(NAMES.iter().filter(|_| !vocabulary));
    let secrets = secrets.copied().collect::<Vec<_>>().join(" ");
    let old = whole.pointer_mut(path).expect("the path was found above");
    let text = old.as_str().expect("it is the path of a text").to_string();
    *old = if instead { secrets.into() } else { format!("{text} {secrets}, {text}").into() };
}

fn parsed(whole: &Json) -> Option<(RunRecord, Vec<TrialRecord>)> {
    let part = |name: &str| whole[name].clone();
    Some((serde_json::from_value(part("run")).ok()?, serde_json::from_value(part("trials")).ok()?))
}

fn trace(bytes: &[u8]) -> Option<&'static str> {
    TRACES.into_iter().find(|trace| bytes.windows(trace.len()).any(|window| window == trace.as_bytes()))
}

#[test]
fn no_text_of_a_run_leaks_a_secret() {
    let (run, trials) = full();
    let clean = serde_json::json!({ "run": run, "trials": trials });
    let mut paths = Vec::new();
    texts(&clean, "", &mut paths);
    let mut planted = 0;
    for (path, instead) in paths.iter().flat_map(|path| [(path, false), (path, true)]) {
        let mut whole = clean.clone();
        plant(&mut whole, path, instead);
        // An enumeration or a CPU list cannot hold other text.
        let Some((run, trials)) = parsed(&whole) else { continue };
        planted += 1;
        let shared = share::run(&run, &trials, &options());
        let text = serde_json::to_string(&(&shared.record, &shared.trials)).unwrap();
        assert_eq!(trace(text.as_bytes()), None, "{path}");
    }
    let shared = share::run(&run, &trials, &options());
    let times = |trials: &[TrialRecord]| trials[0].outcome.evidence.cpu_times.clone();
    assert!(times(&shared.trials) == times(&trials), "the CPU load is not a secret");
    assert!(planted > 800, "only {planted} texts were tried");
}

#[test]
fn no_byte_of_the_shared_file_is_part_of_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    let (run, trials) = full();
    let mut whole = serde_json::json!({ "run": run, "trials": trials });
    let mut paths = Vec::new();
    texts(&whole, "", &mut paths);
    for path in paths {
        let before = whole.clone();
        plant(&mut whole, &path, false);
        // A single part parses quickly; a planted text that breaks an enumeration is restored.
        let part = path.split('/').nth(1).unwrap();
        let fits = if part == "run" {
            serde_json::from_value::<RunRecord>(whole["run"].clone()).is_ok()
        } else {
            let trial = path.split('/').nth(2).unwrap().parse::<usize>().unwrap();
            serde_json::from_value::<TrialRecord>(whole["trials"][trial].clone()).is_ok()
        };
        if !fits {
            whole = before;
        }
    }
    let (run, trials) = parsed(&whole).unwrap();
    let original = directory.path().join("original.db");
    let mut store = Store::open(&original).unwrap();
    store.begin_run(&run).unwrap();
    trials.iter().for_each(|trial| store.add_trial(&run.id, trial).unwrap());
    let id = store.runs().unwrap()[0].id.clone();
    let stored = (store.run(&id.0).unwrap(), store.trials(&id).unwrap());
    drop(store);
    assert!(trace(&fs::read(&original).unwrap()).is_some(), "the original has them");

    let shared = share::run(&stored.0, &stored.1, &options());
    let file = directory.path().join("shared.db");
    write(&file, Content::Run(&shared.record, &shared.trials)).unwrap();
    let bytes = fs::read(&file).unwrap();
    assert_eq!(trace(&bytes), None);
    for secret in ["hunter2", "board", "secrets.bin", "box.json"] {
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{secret}");
    }
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.iter().filter(|name| name.to_string_lossy().starts_with("shared")).count(), 1, "{left:?}");
}

#[test]
fn sharing_preserves_the_compared_values() {
    let (run, trials) = full();
    let shared = share::run(&run, &trials, &options());
    let (before, after) = (
        model::analysis::finding::summarise(&run.plan, &trials),
        model::analysis::finding::summarise(&shared.record.plan, &shared.trials),
    );
    assert_eq!(before.cells.len(), after.cells.len());
    for (before, after) in before.cells.iter().zip(&after.cells) {
        let figures = |cell: &model::analysis::finding::CellFinding| {
            cell.metrics
                .iter()
                .map(|metric| (metric.name.clone(), metric.samples.clone(), metric.ci_low))
                .collect::<Vec<_>>()
        };
        assert_eq!(figures(before), figures(after));
        assert_eq!(
            (&before.placement, before.threads, &before.verdicts),
            (&after.placement, after.threads, &after.verdicts)
        );
    }
    let topology = |run: &RunRecord| run.machine.topology.clone();
    assert_eq!(topology(&run), topology(&shared.record));
    let setting = |key: &str| shared.record.machine.settings.get(key).map(str::to_string);
    assert_eq!(setting("kernel.release").as_deref(), Some("6.18.0"));
    assert_eq!(setting("kernel.command-line").as_deref(), Some("... ro numa=fake=2 quiet"));
    assert_eq!(setting("disk.serial"), None);
    assert_eq!(shared.record.host, None);
    let parameter = |name: &str, cell: usize| shared.record.plan.cells[cell].parameters.0[name].to_string();
    assert_eq!(
        (parameter("file", 0), parameter("library", 0), parameter("rw", 0)),
        ("file-1".into(), "libx.so".into(), "write".into())
    );
    let command = &shared.record.plan.cells[11];
    assert_eq!((command.test.as_str(), parameter("argv", 11).as_str()), ("command-1", "command-1"));
    assert!(shared.record.plan.command.is_empty());
    let [rule] = &shared.record.plan.efficiency[..] else { panic!("{:?}", shared.record.plan.efficiency) };
    assert_eq!(
        (&rule.cells.tests, &rule.cells.parameters["argv"]),
        (&vec!["command-1".into()], &vec!["command-1".into()])
    );
    assert_eq!(rule.reference.parameters["file"], ["file-1"], "efficiencies select the shared cells");
    assert_eq!(rule.next_smaller.as_deref(), Some("size"));
}

#[test]
fn sharing_is_reproducible_and_imports_next_to_the_original() {
    let directory = tempfile::tempdir().unwrap();
    let (run, trials) = full();
    let once = share::run(&run, &trials, &options());
    assert_eq!(once, share::run(&run, &trials, &options()));
    assert_ne!(once.record.id, run.id, "the original ID is a hash that includes its commands");
    let old: Vec<_> = trials.iter().map(|trial| (&trial.trial.id, trial.trial.seed)).collect();
    assert!(
        once.trials
            .iter()
            .all(|trial| !old.iter().any(|(id, seed)| **id == trial.trial.id || *seed == trial.trial.seed))
    );
    let again = share::run(&once.record, &once.trials, &options());
    assert_eq!((&again.record.plan.cells, again.record.host), (&once.record.plan.cells, None));

    let file = directory.path().join("shared.db");
    write(&file, Content::Run(&once.record, &once.trials)).unwrap();
    let mut store = Store::open(&directory.path().join("here.db")).unwrap();
    store.begin_run(&run).unwrap();
    let report = store.merge(&file).unwrap();
    assert_eq!((report.runs_added, report.trials_added, report.conflicts.len()), (1, trials.len(), 0));
    assert_eq!(store.run(&once.record.id.0).unwrap(), once.record);
    assert_eq!(store.trials(&once.record.id).unwrap(), once.trials);
    assert_eq!(store.merge(&file).unwrap().runs_added, 0);
}

#[test]
fn commands_are_kept_if_the_owner_asks_for_it() {
    let (run, trials) = full();
    let shared =
        share::run(&run, &trials, &ShareOptions { keep_commands: true, host: Some("left".into()), ..options() });
    let command = &shared.record.plan.cells[11];
    assert_eq!(command.parameters.0["argv"], Value::Text("[\"PATH\",\"--password=hunter2\"]".into()));
    assert_eq!((command.test.as_str(), shared.record.host.as_deref()), ("stream \"11\"", Some("left")));
    assert_eq!(shared.record.plan.command, ["place", "--", "PATH", "--password=hunter2"]);
    let failed = shared.trials.iter().filter(|trial| matches!(trial.outcome.status, TrialStatus::Failed(_)));
    assert!(failed.clone().count() > 0);
    for trial in failed {
        assert_eq!(trial.outcome.status, TrialStatus::Failed("its output is not shared".into()));
    }
}

#[test]
fn different_cells_stay_different() {
    let (mut run, _) = full();
    let spec = run.plan.workloads[1].clone();
    let cell = |text: &str| {
        let argv = Value::Text(text.into());
        let parameters =
            BTreeMap::from([("argv".to_string(), argv), ("metric".to_string(), Value::Text(String::new()))]);
        let placement = run.plan.cells[0].placement.clone();
        Cell::new(&spec, "app".into(), model::values::workload::Parameters(parameters), placement)
    };
    run.plan.cells = vec![cell("[\"/home/alice/old\"]"), cell("[\"/home/alice/new\"]")];
    for keep_commands in [false, true] {
        let shared = share::run(&run, &[], &ShareOptions { keep_commands, ..options() });
        assert_ne!(shared.record.plan.cells[0].key, shared.record.plan.cells[1].key, "{keep_commands}");
    }
}

#[test]
fn existing_file_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let (run, trials) = full();
    let file = directory.path().join("theirs.db");
    fs::write(&file, "precious").unwrap();
    let error = write(&file, Content::Run(&run, &trials)).unwrap_err();
    assert!(matches!(&error, StoreError::CannotOpen { .. }), "{error:?}");
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    assert!(matches!(
        write(Path::new("/proc/no/such/directory/x.db"), Content::Run(&run, &trials)),
        Err(StoreError::CannotOpen { .. } | StoreError::Missing { .. })
    ));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}
