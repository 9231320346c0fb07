//! Compares runs of equal sides with the comparison of the program.

use model::analysis::compare::{ComparedRun, ComparisonRequest, compare};
use model::analysis::finding::{CellFinding, MetricFinding, RunFinding};
use model::stats::statistics::median;
use model::values::capture::Capture;
use model::values::comparison::ComparedValue;
use model::values::plan::{By, Plan, StoppingRule};
use model::values::record::{RunId, RunRecord};
use model::values::settings::{FactValue, Settings};
use model::values::topology::Topology;
use model::values::units::Nanos;
use model::values::workload::Better;

use crate::noise::{Machine, Noise};

/// Runs of a comparison of two equal sides.
#[derive(Clone, Copy, Debug)]
pub struct Design {
    /// Number of runs on each side, in the order ABBA, so that drift affects both sides equally.
    pub runs: usize,
    /// Number of earlier runs of the same cell.
    pub history: usize,
    /// Number of trials of a run.
    pub trials: usize,
}

/// Returns the result of one comparison.
pub fn compared(noise: Noise, design: &Design, seed: u64) -> ComparedValue {
    let mut machine = Machine::new(noise, seed);
    let mut run = |side: &str, at: usize| {
        machine.begin_run();
        (record(side, at), finding((0..design.trials).map(|_| machine.trial()).collect()))
    };
    let history: Vec<_> = (0..design.history).map(|at| run("history", at)).collect();
    let side = |at: usize| if matches!(at % 4, 0 | 3) { "a" } else { "b" };
    let sides: Vec<_> = (0..2 * design.runs).map(|at| run(side(at), at)).collect();
    let runs: Vec<ComparedRun<'_>> = sides.iter().map(|(record, finding)| ComparedRun { record, finding }).collect();
    let history: Vec<ComparedRun<'_>> =
        history.iter().map(|(record, finding)| ComparedRun { record, finding }).collect();
    let by = By::Fact("label.side".into());
    let request = ComparisonRequest {
        by: &by,
        baseline: Some("a"),
        tests: &[],
        metric: None,
        added_tables: &[],
        history: &history,
    };
    let comparison = compare(&runs, &request).expect("the runs are comparable");
    comparison.rows[0].values["b"].clone()
}

fn record(side: &str, at: usize) -> RunRecord {
    let mut settings = Settings::default();
    settings.record("label.side", FactValue::Known(side.into()));
    let second = Nanos(1_000_000_000);
    let repeat = StoppingRule { warmup: 0, min: 8, max: 20, precision: 0.02, budget: second, time_limit: second };
    RunRecord {
        id: RunId(format!("{side}-{at}")),
        plan: Plan {
            experiment: "claims".into(),
            question: String::new(),
            cells: Vec::new(),
            skipped: Vec::new(),
            workloads: Vec::new(),
            repeat,
            compare_by: "label.side".into(),
            baseline: None,
            efficiency: Vec::new(),
            budget_wins: false,
            race: None,
            gate: None,
            size: None,
            command: Vec::new(),
        },
        seed: 1,
        machine: Capture::new(Topology::default(), settings),
        host: None,
        simulated: None,
        started_unix_ms: 0,
        ended: None,
        program: String::new(),
    }
}

fn finding(samples: Vec<f64>) -> RunFinding {
    let metric = MetricFinding {
        name: "time".into(),
        unit: "s".into(),
        better: Better::Lower,
        median: median(&samples),
        ci_low: None,
        ci_high: None,
        best: None,
        mean: None,
        blocks: (0..samples.len() as u32).collect(),
        trials: Vec::new(),
        suspect: vec![false; samples.len()],
        samples,
    };
    let cell = CellFinding {
        workload: "command".into(),
        test: "command".into(),
        placement: "kernel".into(),
        threads: 1,
        metrics: vec![metric],
        ..CellFinding::default()
    };
    RunFinding { cells: vec![cell], skipped: Vec::new(), passes: false }
}
