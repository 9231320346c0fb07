//! A plausible run: 3 workloads x 4 placements x 12 blocks, with values from a fixed formula.

use model::analysis::compare::{ComparedRun, ComparisonRequest, compare};
use model::analysis::finding::{RunFinding, summarise};
use model::values::capture::Capture;
use model::values::comparison::Comparison;
use model::values::id_set::{CpuId, NodeId};
use model::values::placement::{MemoryPolicy, Placement};
use model::values::plan::{By, Cell, Plan, SkippedCell, StoppingRule};
use model::values::record::{EndReason, RunId, RunRecord, TrialRecord};
use model::values::trial::{Evidence, Grade, Role, Sample, TrialOutcome, TrialStatus, Verdict};
use model::values::units::{Bytes, Nanos};
use model::values::workload::{
    Better, MetricSpec, ParameterKind, ParameterSpec, Parameters, Reduce, Value, WorkloadSpec,
};
use report::html::InvalidTrial;

use crate::machines;

/// A run with the inputs of all reports.
pub struct Run {
    pub record: RunRecord,
    pub trials: Vec<TrialRecord>,
    pub invalid: Vec<InvalidTrial>,
    pub finding: RunFinding,
    pub comparison: Option<Comparison>,
}

/// Size and noise of the run.
pub struct Shape {
    pub name: &'static str,
    pub placements: usize,
    pub blocks: u32,
    /// Whether some trials fail.
    pub with_failures: bool,
    /// Whether to compare; resampling hundreds of thousands of samples is slow.
    pub compared: bool,
}

pub fn run() -> Run {
    run_of(&Shape { name: "ccx", placements: 4, blocks: 12, with_failures: true, compared: true })
}

pub fn run_of(shape: &Shape) -> Run {
    let record = record(shape);
    let trials = trials(&record, shape);
    finished(record, trials, shape.compared)
}

/// Computes the findings of a record's trials.
pub fn finished(record: RunRecord, trials: Vec<TrialRecord>, compared: bool) -> Run {
    let finding = summarise(&record.plan, &trials);
    let runs = [ComparedRun { record: &record, finding: &finding }];
    let request = ComparisonRequest {
        by: &By::Placement,
        baseline: None,
        tests: &[],
        metric: None,
        added_tables: &[],
        history: &[],
    };
    let comparison = compared.then(|| compare(&runs, &request).unwrap());
    let invalid = trials.iter().filter_map(|trial| InvalidTrial::of(&record, trial)).collect();
    Run { record, trials, invalid, finding, comparison }
}

pub fn specs() -> Vec<WorkloadSpec> {
    let metric = |name: &str, unit: &str, better, series: &str| MetricSpec {
        name: name.into(),
        unit: unit.into(),
        better,
        series: series.into(),
        reduce: Reduce::Median,
    };
    let parameter = |name: &str, about: &str, kind, default: Option<&str>| ParameterSpec {
        name: name.into(),
        about: about.into(),
        kind,
        default: default.map(Into::into),
        smoke: None,
    };
    let size = || ParameterKind::Size { min: Bytes(4096), max: Bytes(1 << 40) };
    let time = || ParameterKind::Time { min: Nanos(1_000_000), max: Nanos(60_000_000_000) };
    let spec = |name: &str, summary: &str, parameters: Vec<ParameterSpec>, metrics: Vec<MetricSpec>| WorkloadSpec {
        name: name.into(),
        summary: summary.into(),
        about: format!(
            "{summary}, over arrays that no cache holds. It does not measure page faults: pages are touched first."
        ),
        parameters,
        metrics,
        threads_exactly: None,
        trial_time_guess: Nanos(1_000_000_000),
    };
    let mut array = parameter("size", "bytes of each array", size(), Some("4xllc"));
    array.smoke = Some("1MiB".into());
    let mut specs = vec![
        spec(
            "stream",
            "Memory bandwidth of a[i] = b[i] + s * c[i]",
            vec![
                array,
                parameter("time", "how long to measure", time(), Some("1s")),
                parameter(
                    "kernel",
                    "what is computed",
                    ParameterKind::Choice(vec!["add".into(), "triad".into()]),
                    Some("triad"),
                ),
                parameter("non-temporal", "stores that bypass the caches", ParameterKind::Switch, Some("false")),
            ],
            vec![
                metric("bandwidth", "MiB/s", Better::Higher, "bandwidth"),
                metric("slowest", "MiB/s", Better::Higher, "slowest"),
            ],
        ),
        spec(
            "chase",
            "Latency of dependent loads",
            vec![parameter("size", "bytes walked through", size(), None)],
            vec![metric("latency", "ns", Better::Lower, "latency")],
        ),
        spec(
            "pingpong",
            "Round trips of a cache line between two threads",
            vec![parameter(
                "rounds",
                "how many",
                ParameterKind::Integer { min: 1, max: 1_000_000_000 },
                Some("1000000"),
            )],
            vec![metric("rate", "rounds", Better::Higher, "rate")],
        ),
    ];
    specs[2].threads_exactly = Some(2);
    specs
}

pub fn placements(count: usize) -> Vec<Placement> {
    let seated = |name: &str, reason: &str, seats: &[u32], memory| Placement {
        name: name.into(),
        reason: reason.into(),
        threads: seats.len(),
        bindings: seats.iter().copied().map(CpuId).collect(),
        memory,
        ..Placement::kernel(1)
    };
    let bind = || MemoryPolicy::Bind([NodeId(0)].into_iter().collect());
    let mut placements = vec![
        Placement::kernel(6),
        seated("compact", "one core after the other, both threads of each", &[0, 6, 1, 7, 2, 8], bind()),
        seated("spread", "one thread per core, over both L3 clusters", &[0, 1, 2, 3, 4, 5], bind()),
        seated("smt-one-l3", "both threads of the cores of one L3 cluster", &[3, 9, 4, 10, 5, 11], MemoryPolicy::Local),
    ];
    for index in placements.len()..count {
        let name = format!("rotated-{index}");
        placements.push(seated(&name, "as spread, begun elsewhere", &[1, 2, 3, 4, 5, 0], MemoryPolicy::Kernel));
    }
    placements.truncate(count);
    placements
}

fn parameters(workload: &str) -> Parameters {
    let given: &[(&str, Value)] = &match workload {
        "stream" => vec![
            ("size", Value::Integer(64 << 20)),
            ("time", Value::Integer(1_000_000_000)),
            ("kernel", Value::Text("triad".into())),
            ("non-temporal", Value::Switch(false)),
        ],
        "chase" => vec![("size", Value::Integer(512 << 20))],
        _ => vec![("rounds", Value::Integer(1_000_000))],
    };
    Parameters(given.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
}

fn record(shape: &Shape) -> RunRecord {
    let workloads = specs();
    let tests = ["stream kernel=triad", "chase", "pingpong"];
    let cells = workloads.iter().zip(tests).flat_map(|(spec, test)| {
        let cell = |placement| Cell::new(spec, test.into(), parameters(&spec.name), placement);
        placements(shape.placements).into_iter().map(cell).collect::<Vec<_>>()
    });
    let second = Nanos(1_000_000_000);
    let skipped = |test: &str| SkippedCell {
        test: test.into(),
        placement: "remote".into(),
        why: "this machine has one memory node, so no memory is remote".into(),
    };
    let plan = Plan {
        experiment: shape.name.into(),
        question: "Six cores over two L3 clusters, or six threads of one: which is faster?".into(),
        cells: cells.collect(),
        skipped: tests.iter().map(|test| skipped(test)).collect(),
        workloads,
        repeat: StoppingRule {
            warmup: 1,
            min: 5,
            max: shape.blocks,
            precision: 0.02,
            budget: Nanos(600_000_000_000),
            time_limit: second,
        },
        baseline: Some("kernel".into()),
        efficiency: Vec::new(),
        budget_wins: false,
        compare_by: "placement".into(),
        race: None,
        size: None,
        gate: None,
        command: ["run", "ccx.toml"].map(Into::into).into(),
    };
    RunRecord {
        id: RunId("3f9c2a7b11d04e58".into()),
        plan,
        seed: 42,
        machine: Capture::new(machines::ryzen(), machines::settings()),
        host: Some("ryzen-desk".into()),
        simulated: None,
        started_unix_ms: 1_768_000_000_000,
        ended: Some(EndReason::AllBlocks),
        program: "nearfar 0.1.0".into(),
    }
}

/// The value of a workload on a placement, without noise.
fn level(workload: &str, placement: usize) -> f64 {
    let (base, effects) = match workload {
        "stream" => (18_400.0, [1.0, 0.81, 1.23, 0.812]),
        "chase" => (91.3, [1.0, 0.985, 1.002, 1.0]),
        _ => (24_350_000.0, [1.0, 1.62, 0.44, 1.58]),
    };
    base * effects[placement % 4] * (1.0 + 0.002 * (placement / 4) as f64)
}

/// Noise of about 1.5 %, skewed like times and rates, derived from the position.
fn noise(position: u32) -> f64 {
    let uniform = |salt: u64| {
        let mut x = (u64::from(position) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(salt);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((x ^ (x >> 27)) >> 11) as f64 / (1u64 << 53) as f64
    };
    let normal: f64 = (0..12).map(uniform).sum::<f64>() - 6.0;
    (0.015 * normal).exp()
}

fn trials(record: &RunRecord, shape: &Shape) -> Vec<TrialRecord> {
    let plan = &record.plan;
    let warmup = plan.block(&record.id.0, record.seed, Role::Warmup, 0);
    let measured = (0..shape.blocks).flat_map(|block| plan.block(&record.id.0, record.seed, Role::Measured, block));
    let trial = |(position, trial): (usize, model::values::trial::Trial)| {
        let position = position as u32;
        let value = level(&trial.workload, trial.cell % shape.placements) * noise(position);
        let series = record.plan.spec(&trial.workload).unwrap().metrics.iter().map(|metric| metric.series.clone());
        let samples =
            series.enumerate().map(|(rank, series)| Sample { series, value: value * (1.0 - 0.1 * rank as f64) });
        let (status, verdict) = fate(position, shape.with_failures);
        TrialRecord {
            position,
            outcome: TrialOutcome {
                samples: if status == TrialStatus::Completed { samples.collect() } else { Vec::new() },
                status,
                evidence: Evidence { wall: Nanos(1_002_000_000), ..Evidence::default() },
                started_unix_ms: record.started_unix_ms + u64::from(position) * 1_050,
                took: Nanos(1_014_000_000),
            },
            trial,
            verdict,
        }
    };
    warmup.into_iter().chain(measured).enumerate().map(trial).collect()
}

fn fate(position: u32, with_failures: bool) -> (TrialStatus, Verdict) {
    let verdict = |grade, reason: &str| Verdict { grade, reasons: vec![reason.into()] };
    match position {
        29 | 77 if with_failures => {
            (TrialStatus::Completed, verdict(Grade::Suspect, "other programs used 4 % of the seats' time"))
        }
        50 if with_failures => {
            (TrialStatus::Completed, verdict(Grade::Invalid, "it ran on cpus 9, outside its seats 0-5"))
        }
        91 if with_failures => {
            let why = "the child was killed by signal 9";
            (TrialStatus::Failed(why.into()), verdict(Grade::Invalid, &format!("failed: {why}")))
        }
        _ => (TrialStatus::Completed, Verdict { grade: Grade::Valid, reasons: Vec::new() }),
    }
}

/// A run in which every name contains markup or control characters.
pub fn hostile() -> Run {
    let mut run = run_of(&Shape { name: "ccx", placements: 2, blocks: 6, with_failures: true, compared: true });
    let markup = "<script>alert('x')</script> | \"quoted\" & \u{1b}[31m";
    let record = &mut run.record;
    record.plan.experiment = markup.into();
    record.plan.question = markup.into();
    record.host = Some(markup.into());
    record.program = markup.into();
    for skipped in &mut record.plan.skipped {
        (skipped.test, skipped.placement, skipped.why) = (markup.into(), markup.into(), markup.into());
    }
    record.plan.workloads[0].metrics[0].unit = markup.into();
    record.plan.workloads[0].metrics[0].name = markup.into();
    for cell in &mut record.plan.cells {
        cell.test = format!("{} {markup}", cell.test);
        cell.placement.name = format!("{} {markup}", cell.placement.name);
        cell.placement.reason = markup.into();
    }
    for trial in &mut run.trials {
        trial.trial.placement.name.push_str(markup);
        trial.verdict.reasons.iter_mut().for_each(|reason| *reason = markup.into());
    }
    record.machine.settings.record(markup, model::values::settings::FactValue::Known(markup.into()));
    record.machine.topology.nodes[0].subtype = Some(markup.into());
    record.machine.topology.notes = vec![markup.into()];
    record.simulated = Some(markup.into());
    finished(run.record, run.trials, true)
}
