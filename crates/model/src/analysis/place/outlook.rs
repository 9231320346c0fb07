//! Expectations of the model of a search: of candidates that did not run, of the distance to the best one, and of the
//! number of threads alone.

use serde::Serialize;

use super::RaceState;
use super::result::{PlacementText, RankingRow, placed};
use super::search::SearchStage;
use crate::stats::racing::{RankClaim, RankedCandidate};
use crate::stats::search;
use crate::values::workload::Better;

/// Number of likely candidates that are named.
const LIKELY_MAX: usize = 3;
/// Minimum probability of a likely candidate.
const LIKELY_MIN: f64 = 0.01;

/// The expectations of the model for the whole search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlook {
    /// Expected distance of the leader from the best candidate, in percent. `None` after a race, which bounds it.
    pub missed_percent: Option<f64>,
    /// The distance is smaller than this with a probability of 90 %.
    pub missed_percent_90: Option<f64>,
    /// Predicted difference of the winner to the baseline.
    pub winner: PercentRange,
    /// The most likely other candidates to be the best.
    pub likely: Vec<LikelyCandidate>,
    /// Probability that the best candidate did not take part in the race, in percent. `None` without a race.
    pub left_out_percent: Option<f64>,
}

/// A candidate that may be the best.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LikelyCandidate {
    #[serde(flatten)]
    pub placed: PlacementText,
    /// Probability that it is the best, in percent.
    pub probability_percent: f64,
}

/// A difference to the baseline in percent and in the direction of the metric, with its 90 % range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PercentRange {
    pub low: f64,
    pub mean: f64,
    pub high: f64,
}

/// The part of a change that the number of threads explains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadEffect {
    pub threads: usize,
    pub baseline_threads: usize,
    /// Whether the winner is only another number of threads, without a placement.
    pub is_all: bool,
    /// Predicted change of the winner's number of threads without a placement. `None` if it is not among the candidates.
    pub alone: Option<PercentRange>,
}

/// A point of the learning curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Number of trials so far.
    pub trials: u32,
    /// Predicted difference of the best candidate so far to the baseline, in percent.
    pub best_percent: f64,
}

/// Converts a difference of logarithms, less being better, to percent in the direction of the metric.
fn percent(better: Better, log: f64) -> f64 {
    100.0 * if better == Better::Lower { log.exp_m1() } else { (-log).exp_m1() }
}

impl PercentRange {
    pub(super) fn new(better: Better, of: &search::Prediction) -> Self {
        let [low, mean, high] = [of.low, of.mean, of.high].map(|log| percent(better, log));
        Self { low: low.min(high), mean, high: low.max(high) }
    }
}

impl Outlook {
    /// Returns the outlook for a winner.
    pub(super) fn new(state: &RaceState<'_>, expected: &search::Outlook, winner: usize) -> Self {
        let cells = &state.plan().cells;
        let best = |cell: usize| expected.predictions[cell].best;
        let raced = state.race().map(|_| state.standings());
        let took_part = |one: &RankedCandidate| one.word != RankClaim::NotRaced;
        let inside = |all: Vec<RankedCandidate>| -> f64 {
            all.into_iter().filter(took_part).map(|one| best(one.candidate)).sum()
        };
        // After a race, what may be missed is what the race may miss.
        let missed = expected.missed.filter(|_| raced.is_none());
        Self {
            missed_percent: missed.map(|missed| 100.0 * missed.mean),
            missed_percent_90: missed.map(|missed| 100.0 * missed.bound90),
            winner: PercentRange::new(state.metric().better, &expected.predictions[winner]),
            likely: likely_candidates(&expected.predictions, winner, |cell| placed(&cells[cell].placement)),
            left_out_percent: raced.map(|all| 100.0 * (1.0 - inside(all)).max(0.0)),
        }
    }
}

/// Returns the most likely candidates to be the best, except the winner.
pub(super) fn likely_candidates(
    predictions: &[search::Prediction],
    winner: usize,
    placed: impl Fn(usize) -> PlacementText,
) -> Vec<LikelyCandidate> {
    let best = |cell: usize| predictions[cell].best;
    let mut others: Vec<usize> =
        (0..predictions.len()).filter(|cell| *cell != winner && best(*cell) >= LIKELY_MIN).collect();
    others.sort_by(|one, other| best(*other).total_cmp(&best(*one)));
    let likely = |cell| LikelyCandidate { placed: placed(cell), probability_percent: 100.0 * best(cell) };
    others.into_iter().take(LIKELY_MAX).map(likely).collect()
}

/// Returns the effect of the number of threads, if the winner has another number than the baseline by choice of the
/// search.
pub(super) fn thread_effect(
    state: &RaceState<'_>,
    expected: Option<&search::Outlook>,
    winner: usize,
) -> Option<ThreadEffect> {
    let plan = state.plan();
    let searched = plan.race.as_ref().is_some_and(|race| race.stages.threads_searched);
    let (baseline, placement) = (&plan.cells[0].placement, &plan.cells[winner].placement);
    if !searched || placement.threads == baseline.threads {
        return None;
    }
    let is_bare = |cell: usize| {
        let other = &plan.cells[cell].placement;
        other.threads == placement.threads
            && other.bindings.is_empty()
            && other.memory == baseline.memory
            && other.server_cpus == baseline.server_cpus
            && other.interrupts == baseline.interrupts
    };
    let bare = (1..plan.cells.len()).find(|cell| is_bare(*cell));
    let better = state.metric().better;
    let alone = bare.zip(expected).map(|(cell, expected)| PercentRange::new(better, &expected.predictions[cell]));
    Some(ThreadEffect {
        threads: placement.threads,
        baseline_threads: baseline.threads,
        is_all: bare == Some(winner),
        alone,
    })
}

/// Adds what the search knows to the ranking: predictions, measured differences, and the candidates without a place in
/// the race.
pub(super) fn with_search(
    state: &RaceState<'_>,
    stage: &SearchStage,
    expected: &search::Outlook,
    mut rows: Vec<RankingRow>,
) -> Vec<RankingRow> {
    let better = state.metric().better;
    let claims = stage.claims(expected);
    rows.retain(|row| row.word != RankClaim::NotRaced);
    let has_race = !rows.is_empty();
    let mut rest: Vec<RankingRow> = (0..claims.len())
        .filter(|cell| rows.iter().all(|row| row.cell != *cell))
        .map(|cell| {
            let claim = match &claims[cell] {
                RankClaim::Leads if has_race => RankClaim::Searched,
                claim => claim.clone(),
            };
            RankingRow::searched(placed(&state.plan().cells[cell].placement), cell, stage.count(cell), claim)
        })
        .collect();
    let mean = |row: &RankingRow| expected.predictions[row.cell].mean;
    rest.sort_by(|one, other| rank(one).cmp(&rank(other)).then(mean(one).total_cmp(&mean(other))));
    rows.extend(rest);
    for row in &mut rows {
        let prediction = &expected.predictions[row.cell];
        row.predicted = Some(PercentRange::new(better, prediction)).filter(|_| row.cell != 0);
        row.measured_percent = stage.measured(row.cell).map(|log| percent(better, log));
        row.best_percent = Some(100.0 * prediction.best);
    }
    rows
}

/// Order of the rows without a place in the race.
fn rank(row: &RankingRow) -> usize {
    match row.word {
        RankClaim::Leads => 0,
        RankClaim::Searched => 1,
        RankClaim::TooSlow { .. } => 2,
        RankClaim::NotProven(_) => 3,
        RankClaim::Failed(_) => 4,
        _ => 5,
    }
}

/// Returns the learning curve.
pub(super) fn curve(state: &RaceState<'_>) -> Vec<CurvePoint> {
    let points = state.search().map(SearchStage::curve).unwrap_or_default();
    let point =
        |(trials, log): &(u32, f64)| CurvePoint { trials: *trials, best_percent: percent(state.metric().better, *log) };
    points.iter().map(point).collect()
}
