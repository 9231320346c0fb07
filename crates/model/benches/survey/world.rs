//! Generates synthetic fleets from a seed, with known differences and realistic noise: machines of one class, in
//! rounds. Must not depend on the implementation of the survey.

use model::analysis::compare::ComparedRun;
use model::analysis::finding::{CellFinding, MetricFinding, RunFinding};
use model::analysis::survey::{Survey, SurveyOptions, survey};
use model::stats::statistics::{CONFIDENCE, median, median_interval};
use model::values::capture::Capture;
use model::values::plan::{Plan, StoppingRule};
use model::values::record::{RunId, RunRecord};
use model::values::settings::{FactValue, Settings};
use model::values::topology::Topology;
use model::values::units::Nanos;
use model::values::workload::Better;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Number of trials per cell and run.
const TRIALS: usize = 7;
/// Standard deviation of trials, as a fraction.
const TRIAL_SD: f64 = 0.02;
/// Standard deviation of machines, and of runs of one machine, as fractions.
pub const MACHINE_SD: f64 = 0.01;
const RUN_SD: f64 = 0.008;
const WEEK_MS: u64 = 7 * 24 * 3600 * 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Log-normal in trials, days and machines.
    LogNormal,
    /// Student's t: 5 degrees of freedom for machines and days, 3 for trials.
    HeavyTails,
    /// Common seasonal drift of all machines: 3 % over the year.
    Drift,
    /// One run in thirty is disturbed and 10 % slower.
    Bursts,
    /// Correlated days: half of a machine's deviation persists until the next run.
    Wandering,
}

pub const WEATHERS: [Weather; 5] =
    [Weather::LogNormal, Weather::HeavyTails, Weather::Drift, Weather::Bursts, Weather::Wandering];

/// Planted slowdown of some machines in some tests.
#[derive(Clone, Copy, Debug)]
pub struct Plant {
    /// Number of slower machines, starting with the first.
    pub machines: usize,
    /// Number of affected tests.
    pub tests: usize,
    /// Slowdown as a fraction.
    pub slower: f64,
    /// First affected round.
    pub from: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    pub weather: Weather,
    pub machines: usize,
    pub rounds: usize,
    pub tests: usize,
    pub plant: Option<Plant>,
}

/// Generates and surveys a fleet. Planted machines have microcode 0x1 from `plant.from` on, all others 0x2.
pub fn surveyed(fleet: &Fleet, seed: u64) -> Survey {
    let mut random = Random(ChaCha8Rng::seed_from_u64(seed));
    let machines: Vec<Vec<f64>> = (0..fleet.machines)
        .map(|_| (0..fleet.tests).map(|_| MACHINE_SD * random.of_machines(fleet.weather)).collect())
        .collect();
    let mut wander = vec![vec![0.0; fleet.tests]; fleet.machines];
    let mut all: Vec<(RunRecord, RunFinding)> = Vec::new();
    for round in 0..fleet.rounds {
        let season = match fleet.weather {
            Weather::Drift => 0.03 * (round as f64 / 52.0 * std::f64::consts::TAU).sin(),
            _ => 0.0,
        };
        for machine in 0..fleet.machines {
            let planted = fleet.plant.filter(|plant| machine < plant.machines && round >= plant.from);
            let burst = if fleet.weather == Weather::Bursts && random.uniform() < 1.0 / 30.0 { -0.1 } else { 0.0 };
            let mut cells = Vec::new();
            for test in 0..fleet.tests {
                let slower = planted.filter(|plant| test < plant.tests).map_or(0.0, |plant| (1.0 - plant.slower).ln());
                let day = random.day(fleet.weather, &mut wander[machine][test]);
                let level = machines[machine][test] + season + burst + slower + RUN_SD * day;
                let trials = (0..TRIALS).map(|_| (level + TRIAL_SD * random.of_trials(fleet.weather)).exp() * 1000.0);
                cells.push(cell(test, trials.collect()));
            }
            let record = record(machine, all.len(), round, planted.is_some(), seed);
            all.push((record, RunFinding { cells, skipped: Vec::new(), passes: false }));
        }
    }
    let runs: Vec<ComparedRun<'_>> = all.iter().map(|(record, finding)| ComparedRun { record, finding }).collect();
    survey(&runs, &SurveyOptions::default()).expect("the runs are comparable")
}

struct Random(ChaCha8Rng);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0.random::<f64>()
    }

    /// Box and Muller, Annals of Mathematical Statistics 29, 1958.
    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn t(&mut self, freedom: u32) -> f64 {
        let squares: f64 = (0..freedom).map(|_| self.normal().powi(2)).sum();
        self.normal() / (squares / f64::from(freedom)).sqrt()
    }

    fn of_machines(&mut self, weather: Weather) -> f64 {
        if weather == Weather::HeavyTails { self.t(5) } else { self.normal() }
    }

    fn of_trials(&mut self, weather: Weather) -> f64 {
        if weather == Weather::HeavyTails { self.t(3) } else { self.normal() }
    }

    fn day(&mut self, weather: Weather, before: &mut f64) -> f64 {
        let fresh = if weather == Weather::HeavyTails { self.t(5) } else { self.normal() };
        let persistence: f64 = if weather == Weather::Wandering { 0.5 } else { 0.0 };
        *before = persistence * *before + (1.0 - persistence * persistence).sqrt() * fresh;
        *before
    }
}

/// The metric of every second test is a time.
fn cell(test: usize, mut samples: Vec<f64>) -> CellFinding {
    let better = if test.is_multiple_of(2) { Better::Higher } else { Better::Lower };
    if better == Better::Lower {
        samples.iter_mut().for_each(|sample| *sample = 1e6 / *sample);
    }
    let interval = median_interval(&samples, CONFIDENCE);
    let metric = MetricFinding {
        name: "result".into(),
        unit: if better == Better::Higher { "MB/s" } else { "s" }.into(),
        better,
        median: median(&samples),
        ci_low: interval.map(|interval| interval.low),
        ci_high: interval.map(|interval| interval.high),
        best: None,
        mean: None,
        samples,
        blocks: Vec::new(),
        trials: Vec::new(),
        suspect: Vec::new(),
    };
    CellFinding {
        workload: format!("test {test}"),
        test: format!("test {test}"),
        placement: "kernel".into(),
        threads: 1,
        metrics: vec![metric],
        ..CellFinding::default()
    }
}

fn record(machine: usize, run: usize, round: usize, planted: bool, seed: u64) -> RunRecord {
    let mut settings = Settings::default();
    let facts = [("cpu.model", "Made 1"), ("cpu.microcode", if planted { "0x1" } else { "0x2" })];
    for (key, value) in facts.into_iter().chain([("label.rack", ["a", "b", "c"][machine % 3])]) {
        settings.record(key, FactValue::Known(value.into()));
    }
    let second = Nanos(1_000_000_000);
    let repeat = StoppingRule { warmup: 0, min: 7, max: 7, precision: 0.1, budget: second, time_limit: second };
    RunRecord {
        id: RunId(format!("run-{run}")),
        plan: Plan {
            experiment: "made".into(),
            question: String::new(),
            cells: Vec::new(),
            skipped: Vec::new(),
            workloads: Vec::new(),
            repeat,
            compare_by: "placement".into(),
            baseline: None,
            efficiency: Vec::new(),
            budget_wins: false,
            race: None,
            size: None,
            gate: None,
            command: Vec::new(),
        },
        seed,
        machine: Capture::new(Topology::default(), settings),
        host: Some(format!("node-{machine:02}")),
        simulated: None,
        started_unix_ms: 1_700_000_000_000 + round as u64 * WEEK_MS + machine as u64 * 60_000,
        ended: None,
        program: "0.1.0".into(),
    }
}
