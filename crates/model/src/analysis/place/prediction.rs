//! Prediction of the best placement on a machine where nothing was measured, from the trials of a search on another
//! machine. Must not read files or measure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::earlier::logs_by_cell;
use super::outlook::{PercentRange, likely_candidates};
use super::request::with_unique_names;
use super::result::{Metric, PlacementText, placed};
use super::search::hint;
use super::{LikelyCandidate, RaceState};
use crate::hint::Hinted;
use crate::placements::candidates::{SearchSpace, Threads, candidates, features, machine_features};
use crate::stats::search::{Features, Hint, MeasuredCandidate, Measurements, Transfer, transfer};
use crate::values::plan::{MachineFeatures, ProgramKind, RacePlan, SearchPlan, ThreadChoice};
use crate::values::record::{RunRecord, TrialRecord};
use crate::values::topology::Topology;
use crate::values::trial::Role;

/// Usual deviation of the logarithm of a trial, and the number of trials that it counts for.
const USUAL_NOISE: f64 = 0.03;
const USUAL_TRIALS: f64 = 10.0;
/// Maximum number of measured candidates that are used, those with the most trials.
const MEASURED_MAX: usize = 200;
/// A program with a number of threads this close to that of the machine's CPUs or cores (1/16) follows the machine.
const FILLS: usize = 16;

/// The predicted best placement on another machine. Field names are part of the JSON contract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacePrediction {
    /// The search whose trials show how the program behaves.
    pub like: MeasuredProgram,
    pub metric: Metric,
    pub baseline: PlacementText,
    /// The candidate that is expected to be best; the baseline if none is expected to be better.
    pub best: PlacementText,
    /// Predicted difference of the best candidate to the baseline.
    pub change: PercentRange,
    /// Expected distance of the best candidate from the one that measurements would find, in percent.
    pub missed_percent: f64,
    /// The distance is smaller than this with a probability of 90 %.
    pub missed_percent_90: f64,
    /// The most likely other candidates to be the best.
    pub likely: Vec<LikelyCandidate>,
    /// Number of simulated programs, and the effective number after weighting by the trials.
    pub programs: usize,
    pub effective_programs: f64,
    /// Root mean square of the differences between the measurements and the simulated programs, in percent.
    pub misfit_percent: f64,
    pub candidates: usize,
    pub threads_searched: bool,
    /// All candidates, best first.
    pub ranking: Vec<PredictedRow>,
}

/// Name of the measured program and extent of its measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredProgram {
    /// Name of the command in tables.
    pub program: String,
    /// Numbers of measured candidates, with the baseline, and of their trials.
    pub candidates: usize,
    pub trials: usize,
}

/// A row of the ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictedRow {
    #[serde(flatten)]
    pub placed: PlacementText,
    /// Index of the candidate.
    pub cell: usize,
    /// Predicted difference to the baseline; `None` for the baseline itself.
    pub predicted: Option<PercentRange>,
    /// Predicted probability of being the best, in percent.
    pub best_percent: f64,
}

/// Why there is no prediction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PredictionError {
    #[error("run {0} is not a search for the best placement")]
    NotASearch(String),
    #[error("run {0} has no results of the baseline and of another placement")]
    NoEvidence(String),
    /// The other machine does not offer the placements.
    #[error("{0}")]
    Candidates(String),
}

impl Hinted for PredictionError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NotASearch(_) => Some("list runs with nearfar show --runs; those of 'place' are searches".into()),
            Self::NoEvidence(_) => Some("measure the program with nearfar place -- CMD, without --guess".into()),
            Self::Candidates(_) => None,
        }
    }
}

impl PlacePrediction {
    /// Predicts the candidates of a machine. The number of threads in the search space is that of the run.
    ///
    /// # Errors
    ///
    /// If the run is not a search, has no results, or the machine has no candidates for it.
    pub fn new(
        record: &RunRecord,
        trials: &[TrialRecord],
        topology: &Topology,
        space: &SearchSpace,
    ) -> Result<Self, PredictionError> {
        let source = Source::new(record, trials)?;
        let threads_searched = source.plan.threads == ThreadChoice::Searched;
        let space = SearchSpace { threads: source.threads(), second: source.has_second(), ..space.clone() };
        let all = candidates(topology, &space).map_err(PredictionError::Candidates)?;
        let placements = with_unique_names(all.placements, threads_searched, space.second);
        let there = SearchPlan { machine: machine_features(topology), ..source.plan.clone() };
        let hint = source.hint.map(|hint| on_machine(hint, &source.plan.machine, &there.machine));
        let there = features(&there, &placements, hint);
        let predicted = transfer(&source.plan, &source.measurements(), &there);
        let texts: Vec<PlacementText> = placements.iter().map(placed).collect();
        Ok(source.prediction(&predicted, &texts))
    }
}

/// The run as the model sees it.
struct Source<'a> {
    record: &'a RunRecord,
    race: &'a RacePlan,
    plan: SearchPlan,
    features: Features,
    hint: Option<Hint>,
    measured: Vec<MeasuredCandidate>,
    noise: f64,
    metric: Metric,
}

impl<'a> Source<'a> {
    fn new(record: &'a RunRecord, trials: &[TrialRecord]) -> Result<Self, PredictionError> {
        let id = || record.id.to_string();
        let (Some(race), Some(state)) = (&record.plan.race, RaceState::new(&record.plan)) else {
            return Err(PredictionError::NotASearch(id()));
        };
        let plan = search_plan(record, race);
        let warmup: Vec<&TrialRecord> = trials.iter().filter(|one| one.trial.role == Role::Warmup).collect();
        let hint = hint(&warmup).filter(|_| plan.threads == ThreadChoice::Command);
        let logs = logs_by_cell(record, trials, |role| role != Role::Warmup);
        let (measured, noise) = measured(&logs).ok_or_else(|| PredictionError::NoEvidence(id()))?;
        let features = features(&plan, record.plan.cells.iter().map(|cell| &cell.placement), hint);
        Ok(Self { record, race, plan, features, hint, measured, noise, metric: Metric::of(state.metric()) })
    }

    fn threads(&self) -> Threads {
        match self.plan.threads {
            ThreadChoice::Fixed => Threads::Fixed(self.record.plan.cells[0].placement.threads),
            ThreadChoice::Searched => Threads::Searched,
            ThreadChoice::Command => Threads::Unspecified,
        }
    }

    /// Whether candidates have separate CPUs for a second command.
    fn has_second(&self) -> bool {
        self.record.plan.cells.iter().any(|cell| !cell.placement.server_cpus.is_empty())
    }

    fn measurements(&self) -> Measurements<'_> {
        Measurements { features: &self.features, candidates: &self.measured, noise: self.noise }
    }

    fn prediction(&self, predicted: &Transfer, texts: &[PlacementText]) -> PlacePrediction {
        let better = self.metric.better;
        let range = |candidate: usize| PercentRange::new(better, &predicted.predictions[candidate]);
        let program = MeasuredProgram {
            program: self.record.plan.cells[0].test.clone(),
            candidates: self.measured.len(),
            trials: self.measured.iter().map(|one| one.trials).sum(),
        };
        let mut order: Vec<usize> = (0..texts.len()).collect();
        let mean = |candidate: &usize| predicted.predictions[*candidate].mean;
        order.sort_by(|one, other| mean(one).total_cmp(&mean(other)));
        let row = |candidate: usize| PredictedRow {
            placed: texts[candidate].clone(),
            cell: candidate,
            predicted: Some(range(candidate)).filter(|_| candidate != 0),
            best_percent: 100.0 * predicted.predictions[candidate].best,
        };
        PlacePrediction {
            like: program,
            metric: self.metric.clone(),
            baseline: texts[0].clone(),
            best: texts[predicted.best].clone(),
            change: range(predicted.best),
            missed_percent: 100.0 * predicted.missed.mean,
            missed_percent_90: 100.0 * predicted.missed.bound90,
            likely: likely_candidates(&predicted.predictions, predicted.best, |candidate| texts[candidate].clone()),
            programs: predicted.programs,
            effective_programs: predicted.effective_programs,
            misfit_percent: 100.0 * predicted.misfit.exp_m1(),
            candidates: texts.len(),
            threads_searched: self.race.stages.threads_searched,
            ranking: order.into_iter().map(row).collect(),
        }
    }
}

/// Returns the plan of the search, with all kinds of programs if it had none. A race without a search has its features from
/// the stored topology.
fn search_plan(record: &RunRecord, race: &RacePlan) -> SearchPlan {
    let threads = if race.stages.threads_searched { ThreadChoice::Searched } else { ThreadChoice::Fixed };
    let default = || SearchPlan::new(threads, machine_features(&record.machine.topology));
    let mut plan = race.search.clone().unwrap_or_else(default);
    if plan.programs.is_empty() {
        plan.programs = ProgramKind::ALL.to_vec();
    }
    plan
}

/// Returns the mean results of the candidates, the baseline first, and the deviation of a trial. `None` without the baseline
/// or without another candidate.
fn measured(logs: &BTreeMap<usize, Vec<f64>>) -> Option<(Vec<MeasuredCandidate>, f64)> {
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let baseline = mean(logs.get(&0)?);
    let one = |(cell, values): (&usize, &Vec<f64>)| MeasuredCandidate {
        candidate: *cell,
        log_time: mean(values) - baseline,
        trials: values.len(),
    };
    let mut all: Vec<MeasuredCandidate> = logs.iter().map(one).collect();
    all.sort_by_key(|one| (one.candidate != 0, Reverse(one.trials), one.candidate));
    all.truncate(MEASURED_MAX);
    let squares: f64 = logs.values().flat_map(|of| of.iter().map(|value| (value - mean(of)).powi(2))).sum();
    let freedom: usize = logs.values().map(|of| of.len() - 1).sum();
    let variance = (squares + USUAL_TRIALS * USUAL_NOISE.powi(2)) / (freedom as f64 + USUAL_TRIALS);
    (all.len() > 1).then(|| (all, variance.sqrt()))
}

/// Returns the number of threads on another machine: a program with as many threads as the machine has CPUs or cores has as
/// many as the other.
fn on_machine(hint: Hint, here: &MachineFeatures, there: &MachineFeatures) -> Hint {
    let threads = hint.working_threads();
    let cores = |machine: &MachineFeatures| machine.core.iter().max().map_or(1, |last| last + 1);
    let fills = |size: usize| size > 1 && threads.abs_diff(size) * FILLS <= size;
    let threads = if fills(here.cpus.len()) {
        there.cpus.len()
    } else if fills(cores(here)) {
        cores(there)
    } else {
        threads
    };
    Hint { threads, busy: threads as f64 }
}
