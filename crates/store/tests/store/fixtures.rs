//! Generated runs and trials for tests: deterministic and distinct per number.

use std::collections::BTreeMap;

use model::values::capture::Capture;
use model::values::id_set::{CpuId, CpuSet, NodeId};
use model::values::placement::{MemoryPolicy, Placement};
use model::values::plan::{Cell, Plan, SkippedCell, StoppingRule};
use model::values::record::{RunId, RunRecord, TrialRecord};
use model::values::settings::{FactValue, Settings};
use model::values::topology::{Object, ObjectKind, Topology};
use model::values::trial::{Evidence, Grade, Role, Sample, ThreadBinding, TrialOutcome, TrialStatus, Verdict};
use model::values::units::{Bytes, Nanos};
use model::values::workload::{
    Better, MetricSpec, ParameterKind, ParameterSpec, Parameters, Reduce, Value, WorkloadSpec,
};

/// Number of cells of the plan.
pub const CELLS: usize = 12;

/// A run with a machine and a plan of [`CELLS`] cells.
pub fn run(id: &str, seed: u64) -> RunRecord {
    RunRecord {
        id: RunId(id.into()),
        plan: plan(),
        seed,
        machine: machine("6.18.0"),
        host: None,
        simulated: None,
        started_unix_ms: 1_790_000_000_000,
        ended: None,
        program: "0.1.0".into(),
    }
}

/// A machine with one CPU and this kernel release.
pub fn machine(kernel: &str) -> Capture {
    let object = |kind, parent, children: &[usize]| Object {
        kind,
        os_index: Some(0),
        cpus: CpuSet::parse_list("0").expect("a valid list"),
        parent,
        children: children.into(),
        memory: Vec::new(),
        cache: None,
        subtype: None,
    };
    let objects = vec![object(ObjectKind::Machine, None, &[1]), object(ObjectKind::Pu, Some(0), &[])];
    let mut settings = Settings::default();
    settings.record("kernel.release", FactValue::Known(kernel.into()));
    settings.record("cpu.model", FactValue::Known("Test cpu 9000".into()));
    settings.record("cpu.governor", FactValue::Unavailable("no cpufreq driver".into()));
    Capture::new(Topology { objects, ..Topology::default() }, settings)
}

/// A time, a rate to maximise, and the times that hyperfine's format requires.
fn spec() -> WorkloadSpec {
    let metric = |name: &str, unit: &str, better| MetricSpec {
        name: name.into(),
        unit: unit.into(),
        better,
        series: name.into(),
        reduce: Reduce::Median,
    };
    WorkloadSpec {
        name: "stream".into(),
        summary: "memory bandwidth".into(),
        about: String::new(),
        parameters: vec![ParameterSpec {
            name: "size".into(),
            about: String::new(),
            kind: ParameterKind::Size { min: Bytes(1), max: Bytes(1 << 40) },
            default: None,
            smoke: None,
        }],
        metrics: vec![
            metric("copy", "MB/s", Better::Higher),
            metric("wall", "ms", Better::Lower),
            metric("user", "s", Better::Lower),
            metric("peak-memory", "MiB", Better::Lower),
        ],
        threads_exactly: None,
        trial_time_guess: Nanos(1_000_000_000),
    }
}

fn plan() -> Plan {
    let spec = spec();
    let cell = |index: usize| {
        let size = Value::Integer(1 << (10 + index));
        let parameters = Parameters(BTreeMap::from([("size".into(), size)]));
        let placement = if index.is_multiple_of(2) { Placement::kernel(2) } else { one_cpu() };
        Cell::new(&spec, format!("stream \"{index}\""), parameters, placement)
    };
    Plan {
        experiment: "bandwidth".into(),
        question: "How fast, and where?".into(),
        cells: (0..CELLS).map(cell).collect(),
        skipped: vec![SkippedCell { test: "stream".into(), placement: "remote".into(), why: "one memory node".into() }],
        workloads: vec![spec],
        repeat: StoppingRule {
            warmup: 1,
            min: 5,
            max: 9,
            precision: 0.1 + 0.2,
            budget: Nanos(60_000_000_000),
            time_limit: Nanos(u64::MAX),
        },
        compare_by: "placement".into(),
        baseline: None,
        efficiency: Vec::new(),
        budget_wins: false,
        race: None,
        size: None,
        gate: None,
        command: Vec::new(),
    }
}

fn one_cpu() -> Placement {
    let memory = MemoryPolicy::Bind([NodeId(0)].into_iter().collect());
    Placement {
        name: "one, core".into(),
        reason: "the \"first\"".into(),
        bindings: vec![CpuId(0)],
        memory,
        ..Placement::kernel(1)
    }
}

/// The trial of a run at this position, with this number of samples.
pub fn trial(run: &RunRecord, position: u32, samples: usize) -> TrialRecord {
    let cells = CELLS as u32;
    let role = if position < cells { Role::Warmup } else { Role::Measured };
    let trial = run.plan.trial(&run.id.0, run.seed, (position % cells) as usize, role, position / cells, 0);
    let (status, verdict) = ending(position);
    let evidence = evidence(position);
    let took = Nanos(u64::from(position) * 1_000 + 7);
    let outcome = TrialOutcome {
        status,
        samples: values(position, samples),
        evidence,
        started_unix_ms: u64::from(position),
        took,
    };
    TrialRecord { position, trial, outcome, verdict }
}

/// Every 17th trial fails and every 5th is disturbed.
fn ending(position: u32) -> (TrialStatus, Verdict) {
    let verdict =
        |grade, reasons: &[&str]| Verdict { grade, reasons: reasons.iter().map(ToString::to_string).collect() };
    match (position % 17, position % 5) {
        (16, 0) => (TrialStatus::TimedOut("after 5s".into()), verdict(Grade::Invalid, &["stopped: after 5s"])),
        (16, 1) => {
            (TrialStatus::Unavailable("no node 1".into()), verdict(Grade::Invalid, &["cannot be measured here"]))
        }
        (16, _) => (TrialStatus::Failed("exit \"1\"\n".into()), verdict(Grade::Invalid, &["failed", "and, moved"])),
        (_, 4) => (TrialStatus::Completed, verdict(Grade::Suspect, &["the hypervisor took 3 % of the seats' time"])),
        _ => (TrialStatus::Completed, verdict(Grade::Valid, &[])),
    }
}

fn values(position: u32, samples: usize) -> Vec<Sample> {
    const SERIES: [&str; 4] = ["copy", "wall", "user", "peak-memory"];
    let value = |index: usize| f64::from(position).sqrt() + 1.0 / (index as f64 + 3.0);
    (0..samples).map(|index| Sample { series: SERIES[index % 4].into(), value: value(index) }).collect()
}

fn evidence(position: u32) -> Evidence {
    let cpus = CpuSet::parse_list("0").expect("a valid list");
    let seat = ThreadBinding { requested: CpuId(0), mask: cpus.clone(), before: CpuId(0), after: CpuId(0) };
    Evidence {
        mask_at_start: Some(cpus.clone()),
        cpus_seen: cpus,
        polls: u64::from(position),
        threads_seen: 1,
        thread_bindings: vec![seat],
        pages: BTreeMap::from([(NodeId(0), 4096 + u64::from(position))]),
        memory_policy: Some("bind:0".into()),
        migrations: Some(u64::MAX),
        frequency_khz: Some((1_200_000, 4_800_000)),
        wall: Nanos(1_000_000_000),
        unavailable: BTreeMap::from([("interrupts".into(), "no such file".into())]),
        ..Evidence::default()
    }
}
