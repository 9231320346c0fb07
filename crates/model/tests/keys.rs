//! Golden texts of everything that is hashed or seeds a generator: plan keys, trial ids, block orders and seeds.
//! Results files store these hashes, and a run resumes only if its plan has the same key. A failure here after a rename
//! means that the rename has reached stored data.

use std::collections::BTreeMap;

use model::values::id_set::{CpuId, CpuSet, NodeId, NodeSet};
use model::values::placement::{DramBudget, FilePolicy, MemoryPolicy, Placement, Route};
use model::values::plan::RaceRules;
use model::values::plan::{
    Cell, EarlierProgram, MachineFeatures, MemoryChoice, Plan, RacePlan, ReductionStep, SearchPlan, SizePlan, Stages,
    StoppingRule, ThreadChoice, stream,
};
use model::values::trial::{Role, TrialId, short_hash};
use model::values::units::{Bytes, Nanos};
use model::values::workload::{ParameterKind, ParameterSpec, Parameters, Value, WorkloadSpec};

const SECOND: Nanos = Nanos(1_000_000_000);

fn repeat() -> StoppingRule {
    StoppingRule { warmup: 1, min: 5, max: 9, precision: 0.02, budget: Nanos(600_000_000_000), time_limit: SECOND }
}

fn cell(key: &str) -> Cell {
    Cell {
        key: key.into(),
        workload: "w".into(),
        test: "w".into(),
        parameters: Parameters::default(),
        placement: Placement::kernel(1),
        main: None,
        outside_means: false,
    }
}

fn plan(repeat: StoppingRule, race: Option<RacePlan>) -> Plan {
    Plan {
        experiment: "quick".into(),
        question: "Is it fast?".into(),
        cells: vec![cell("one"), cell("two"), cell("three"), cell("four"), cell("five")],
        skipped: Vec::new(),
        workloads: Vec::new(),
        repeat,
        compare_by: "placement".into(),
        baseline: None,
        efficiency: Vec::new(),
        budget_wins: false,
        race,
        size: None,
        gate: None,
        command: Vec::new(),
    }
}

fn race() -> RacePlan {
    let policy = vec![
        MemoryChoice::Kernel,
        MemoryChoice::Interleave,
        MemoryChoice::InterleaveUsed,
        MemoryChoice::InterleaveTiers,
        MemoryChoice::Weighted,
        MemoryChoice::Local,
        MemoryChoice::Own,
        MemoryChoice::Other(3),
        MemoryChoice::Farthest,
        MemoryChoice::Named,
    ];
    RacePlan {
        rules: RaceRules { indifference: 0.01, strict: false, max_trials: Some(300) },
        stages: Stages {
            first: vec![true, false],
            shape: vec![0, 1],
            policy,
            route: vec![0, 2],
            threads: vec![1, 12],
            threads_searched: true,
        },
        raw_placements: "123456789012345678901234567890".into(),
        steps: vec![
            ReductionStep { count: Some("4095".into()), text: "sets of \"any\" size".into() },
            ReductionStep { count: None, text: "no two CPUs are equivalent".into() },
        ],
        search: None,
        places_files: false,
    }
}

#[test]
fn experiment_key_hashes_this_text() {
    let cases = [
        (
            repeat(),
            "Repeat { warmup: 1, min: 5, max: 9, precision: 0.02, budget: Nanos(600000000000), time_limit: Nanos(1000000000) }",
        ),
        (
            StoppingRule {
                warmup: 0,
                min: 1,
                max: u32::MAX,
                precision: 0.0,
                budget: Nanos(0),
                time_limit: Nanos(u64::MAX),
            },
            "Repeat { warmup: 0, min: 1, max: 4294967295, precision: 0.0, budget: Nanos(0), time_limit: Nanos(18446744073709551615) }",
        ),
        (
            StoppingRule { precision: 1e-7, ..repeat() },
            "Repeat { warmup: 1, min: 5, max: 9, precision: 1e-7, budget: Nanos(600000000000), time_limit: Nanos(1000000000) }",
        ),
    ];
    for (repeat, text) in cases {
        let key = plan(repeat, None).key();
        assert_eq!(key, short_hash(&format!("quick\none\ntwo\nthree\nfour\nfive\n{text}")), "{text}");
    }
    assert_eq!(plan(repeat(), None).key(), "15c7808916b6f2db");
}

/// The cells of a size plan already contain its budgets.
#[test]
fn size_and_command_are_not_in_the_key() {
    let mut sized = plan(repeat(), None);
    sized.size = Some(SizePlan { need: Bytes(1 << 30), within_percent: 5.0, compressibility: None });
    sized.command = vec!["size".into()];
    sized.baseline = Some("kernel".into());
    assert_eq!(sized.key(), plan(repeat(), None).key());
}

#[test]
fn race_key_hashes_this_text() {
    let text = concat!(
        "quick\none\ntwo\nthree\nfour\nfive\n",
        "Repeat { warmup: 1, min: 5, max: 9, precision: 0.02, budget: Nanos(600000000000), time_limit: Nanos(1000000000) }\n",
        "race 2\n",
        "indifference: 0.01, strict: false, max trials: 300\n",
        "first: [true, false], shape: [0, 1], ",
        "policy: [kernel, interleave, interleave-used, interleave-tiers, weighted, local, own, other-3, farthest, named], ",
        "route: [0, 2], threads: [1, 12], threads searched: true\n",
        "raw placements: 123456789012345678901234567890",
    );
    assert_eq!(plan(repeat(), Some(race())).key(), short_hash(text));
    let unlimited = RacePlan { rules: RaceRules { indifference: 0.005, strict: true, max_trials: None }, ..race() };
    let text = text.replace("indifference: 0.01, strict: false", "indifference: 0.005, strict: true");
    let text = text.replace("max trials: 300", "max trials: none");
    assert_eq!(plan(repeat(), Some(unlimited)).key(), short_hash(&text));
}

#[test]
fn search_is_part_of_the_race_key_with_this_text() {
    let machine = MachineFeatures {
        cpus: vec![CpuId(0), CpuId(1)],
        core: vec![0, 1],
        l2: vec![None, Some(0)],
        cluster: vec![None, None],
        package: vec![Some(0), Some(0)],
        home: vec![0, 1],
        kind: vec![0, 0],
        nodes: vec![NodeId(0), NodeId(1)],
        distances: vec![10, 21, 21, 10],
    };
    let mut search = SearchPlan::new(ThreadChoice::Searched, machine);
    search.uses_earlier = true;
    search.earlier = vec![EarlierProgram { name: "sort".into(), log_times: vec![Some(0.0), Some(-0.125), None] }];
    let text = concat!(
        "search 5, seed: 1, threads: searched, programs: generic compute sharing bandwidth first-touch serial lock ",
        "pipeline cache-capacity interrupts page-migration, distances: [10, 21, 21, 10], ",
        "earlier: true",
    );
    let plain = plan(repeat(), Some(race()));
    let searched = plan(repeat(), Some(RacePlan { search: Some(search.clone()), ..race() }));
    let hashed = |race: &str| short_hash(&format!("quick\none\ntwo\nthree\nfour\nfive\n{race}"));
    let race_text = concat!(
        "Repeat { warmup: 1, min: 5, max: 9, precision: 0.02, budget: Nanos(600000000000), time_limit: Nanos(1000000000) }\n",
        "race 2\nindifference: 0.01, strict: false, max trials: 300\n",
        "first: [true, false], shape: [0, 1], ",
        "policy: [kernel, interleave, interleave-used, interleave-tiers, weighted, local, own, other-3, farthest, named], ",
        "route: [0, 2], threads: [1, 12], threads searched: true\n",
        "raw placements: 123456789012345678901234567890",
    );
    assert_eq!(plain.key(), hashed(race_text));
    assert_eq!(searched.key(), hashed(&format!("{race_text}\n{text}")));
    let stored = serde_json::to_value(&plain).unwrap();
    assert_eq!(stored["race"].get("search"), None, "plans of earlier builds have none");
    assert_eq!(serde_json::from_value::<Plan>(stored).unwrap(), plain);
    let stored = serde_json::to_value(&searched).unwrap();
    assert_eq!(serde_json::from_value::<Plan>(stored).unwrap(), searched);
    let of = |search: &SearchPlan| plan(repeat(), Some(RacePlan { search: Some(search.clone()), ..race() })).key();
    assert_eq!(of(&SearchPlan { earlier: Vec::new(), ..search.clone() }), searched.key(), "another search has ended");
    assert_ne!(of(&SearchPlan { uses_earlier: false, ..search.clone() }), searched.key());
    search.threads = ThreadChoice::Command;
    assert_ne!(of(&search), searched.key());
}

/// The sentences of `place --explain` may be reworded without a new key.
#[test]
fn explanations_are_not_in_the_race_key() {
    let key = plan(repeat(), Some(race())).key();
    assert_eq!(plan(repeat(), Some(RacePlan { steps: Vec::new(), ..race() })).key(), key);
    assert_ne!(plan(repeat(), Some(RacePlan { raw_placements: "4095".into(), ..race() })).key(), key);
    assert_ne!(plan(repeat(), None).key(), key);
}

#[test]
fn cell_key_is_this_text() {
    let parameter =
        |name: &str, kind| ParameterSpec { name: name.into(), about: String::new(), kind, default: None, smoke: None };
    let spec = WorkloadSpec {
        name: "stream".into(),
        summary: String::new(),
        about: String::new(),
        parameters: vec![
            parameter("array", ParameterKind::Size { min: Bytes(1), max: Bytes(1 << 40) }),
            parameter("time", ParameterKind::Time { min: Nanos(1), max: SECOND }),
            parameter("rounds", ParameterKind::Integer { min: 1, max: 9 }),
            parameter("huge-pages", ParameterKind::Switch),
            parameter("mode", ParameterKind::Choice(vec!["fast".into(), "slow".into()])),
            parameter("argv", ParameterKind::Text),
        ],
        metrics: Vec::new(),
        threads_exactly: None,
        trial_time_guess: SECOND,
    };
    let values: BTreeMap<String, Value> = [
        ("array", Value::Integer(3 << 30)),
        ("time", Value::Integer(250_000_000)),
        ("rounds", Value::Integer(7)),
        ("huge-pages", Value::Switch(true)),
        ("mode", Value::Text("slow".into())),
        ("argv", Value::Text("[\"a\"]".into())),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into();
    let renamed = Parameters([("directory".to_string(), Value::Text("/mnt".into()))].into());
    let renamed = Cell::new(&spec, "s".into(), renamed, Placement::kernel(2));
    let former = "folder";
    assert_eq!(renamed.key, format!("stream {former}=/mnt @ kernel threads=2 cpus= memory=kernel"));
    let plain = Cell::new(&spec, "s".into(), Parameters(values.clone()), Placement::kernel(2));
    let stream = r#"stream argv=["a"] array=3GiB huge-pages=true mode=slow rounds=7 time=250ms"#;
    assert_eq!(plain.key, format!("{stream} @ kernel threads=2 cpus= memory=kernel"));
    let cpus = |text: &str| CpuSet::parse_list(text).unwrap();
    let nodes = || NodeSet::from_iter([NodeId(0), NodeId(1), NodeId(3)]);
    let route = |cpus| Route { device: "eth0".into(), number: 38, name: "virtio0-req.0".into(), cpus };
    let full = Placement {
        name: "compact+interleave".into(),
        reason: "any reason: it is not in the key".into(),
        threads: 2,
        bindings: vec![CpuId(0), CpuId(2), CpuId(1)],
        // The name contains it.
        loose: true,
        memory: MemoryPolicy::Interleave(nodes()),
        server_cpus: cpus("4-5,9"),
        interrupts: vec![route(cpus("2-3")), route(CpuSet::new())],
        budget: Some(DramBudget { dram: Bytes(3 << 29), steered: true, compressed: false }),
        files: Some(FilePolicy::Interleave(nodes())),
        copies_text: true,
    };
    let full_cell = Cell::new(&spec, "s".into(), Parameters(values), full);
    let placed = "threads=2 cpus=0-2 memory=interleave 0-1,3 second=4-5,9";
    let interrupts = "irq=eth0:virtio0-req.0>2-3 irq=eth0:virtio0-req.0>as-found";
    let parts = "dram=expand:1.5GiB files=interleave 0-1,3 text=copy";
    let key = format!("{stream} @ compact+interleave {placed} {interrupts} {parts}");
    assert_eq!(full_cell.key, key);
    assert_eq!(DramBudget { dram: Bytes(1 << 30), steered: false, compressed: false }.name(), "swap:1GiB");
    let policies = [
        (MemoryPolicy::Kernel, "kernel"),
        (MemoryPolicy::Local, "local"),
        (MemoryPolicy::Bind(nodes()), "bind 0-1,3"),
        (MemoryPolicy::Interleave(nodes()), "interleave 0-1,3"),
        (MemoryPolicy::WeightedInterleave(nodes()), "weighted-interleave 0-1,3"),
        (MemoryPolicy::Preferred(NodeId(1)), "preferred 1"),
        (MemoryPolicy::Far, "far"),
    ];
    for (policy, text) in policies {
        assert_eq!(policy.to_string(), text);
    }
    let policies = [(FilePolicy::Local, "local"), (FilePolicy::Node(NodeId(1)), "node 1"), (FilePolicy::Cold, "cold")];
    for (policy, text) in policies {
        assert_eq!(policy.to_string(), text);
    }
}

#[test]
fn trial_id_hashes_this_text() {
    let roles = [(Role::Warmup, "Warmup"), (Role::Measured, "Measured"), (Role::Confirm, "Confirm")];
    for (role, word) in roles {
        let id = TrialId::derive("0123456789abcdef", "stream a=1 @ kernel", role, 3, 2);
        assert_eq!(id.0, short_hash(&format!("0123456789abcdef\nstream a=1 @ kernel\n{word}\n3\n2")));
    }
    assert_eq!(TrialId::derive("r", "cell", Role::Measured, 0, 0).0, "d648563adf55c773");
}

#[test]
fn block_order_and_trial_seed_are_unchanged() {
    let plan = plan(repeat(), None);
    let order = |role| [0, 1, 2].map(|block| plan.order(7, role, block));
    assert_eq!(order(Role::Warmup), [[0, 3, 4, 2, 1], [4, 3, 1, 2, 0], [3, 1, 4, 2, 0]]);
    assert_eq!(order(Role::Measured), [[0, 2, 1, 4, 3], [2, 1, 3, 0, 4], [2, 4, 1, 3, 0]]);
    assert_eq!(order(Role::Confirm), [[2, 4, 1, 0, 3], [3, 1, 4, 2, 0], [1, 4, 0, 3, 2]]);
    let trial = plan.trial("r", 7, 2, Role::Measured, 4, 1);
    assert_eq!((trial.id.0.as_str(), trial.seed), ("2ad475d155d6170f", 14_029_244_902_107_031_216));
    assert_eq!(stream(7, "Measured 4"), 5_689_848_454_931_141_141);
}
