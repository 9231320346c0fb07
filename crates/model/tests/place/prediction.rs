//! Predictions for another machine from a stored search.

use model::analysis::place::{PlacePrediction, PredictedRow, PredictionError};
use model::placements::candidates::{candidates, features, machine_features};
use model::stats::search::{Random, log_times};
use model::values::plan::{ProgramKind, SearchPlan, ThreadChoice};

use super::*;

fn space() -> SearchSpace {
    SearchSpace { threads: Threads::Searched, ..SearchSpace::default() }
}

/// The log times of a simulated program under all candidates of a machine, relative to the baseline.
fn truth(topology: &Topology, kind: ProgramKind, seed: u64) -> Vec<f64> {
    let placements = candidates(topology, &space()).expect("the space is valid").placements;
    let plan = SearchPlan::new(ThreadChoice::Searched, machine_features(topology));
    let features = features(&plan, &placements, None);
    let times = log_times(kind, &features, &features.tables[0], &mut Random::new(seed, "truth"));
    times.iter().map(|time| time - times[0]).collect()
}

/// The record and the trials of a search.
fn searched(topology: &Topology, kind: ProgramKind, seed: u64, trials: usize) -> (RunRecord, Vec<TrialRecord>) {
    let mut request = PlaceRequest { space: space(), ..request() };
    request.rules.max_trials = Some(trials);
    let plan = request.plan(topology, &command()).expect("the request is valid");
    let truth = truth(topology, kind, seed);
    let outcome = |block: &NextBlock, cell: usize, _: u32| {
        let noise = 0.02 * Random::new(seed, &format!("{} {cell}", block.number)).normal();
        (TrialStatus::Completed, Grade::Valid, 10.0 * (truth[cell] + noise).exp())
    };
    let (_, trials) = raced(&plan, &outcome);
    (record(plan.clone()), trials)
}

/// The prediction for a small machine from a search of 40 trials on one with two packages, and the true log times.
fn predicted(kind: ProgramKind, seed: u64) -> (PlacePrediction, Vec<f64>) {
    let (here, there) = (machines::model("xeon-e5-2640-x2"), ryzen());
    let (record, trials) = searched(&here, kind, seed, 40);
    let predicted = PlacePrediction::new(&record, &trials, &there, &space()).expect("there is evidence");
    (predicted, truth(&there, kind, seed))
}

/// Number of predicted ranges that contain the true value.
fn covered(predicted: &PlacePrediction, truth: &[f64]) -> usize {
    let holds = |row: &&PredictedRow| {
        let change = 100.0 * truth[row.cell].exp_m1();
        row.predicted.is_some_and(|range| range.low <= change && change <= range.high)
    };
    predicted.ranking.iter().filter(holds).count()
}

#[test]
fn another_machine_is_predicted_from_the_measured_program() {
    let one_thread = |predicted: &PlacePrediction| {
        let rows = predicted.ranking.iter().filter(|row| row.placed.threads == 1);
        rows.filter_map(|row| row.predicted).map(|range| range.mean).fold(f64::INFINITY, f64::min)
    };
    let [serial, compute] = [(ProgramKind::Serial, 3), (ProgramKind::Compute, 2)].map(|(kind, seed)| {
        let (predicted, truth) = predicted(kind, seed);
        assert_eq!((predicted.candidates, predicted.ranking.len()), (truth.len(), truth.len()));
        let covered = covered(&predicted, &truth);
        assert!(10 * covered >= 8 * (truth.len() - 1), "{kind:?}: {covered} of {}", truth.len());
        let best = predicted.ranking.iter().find(|row| row.placed == predicted.best).expect("it is a candidate").cell;
        let regret = truth[best] - truth.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(regret < 0.1, "{kind:?}: {regret}");
        assert!(predicted.missed_percent <= predicted.missed_percent_90);
        assert!(predicted.effective_programs >= 29.0 && predicted.misfit_percent < 30.0, "{predicted:?}");
        one_thread(&predicted)
    });
    assert!(serial < compute / 2.0, "one thread is predicted to take {serial} % and {compute} % more");
}

#[test]
fn runs_without_evidence_return_errors() {
    let (record, trials) = searched(&ryzen(), ProgramKind::Sharing, 1, 14);
    let predict = |record: &RunRecord, trials: &[TrialRecord]| {
        PlacePrediction::new(record, trials, &machines::model("rk3399"), &space()).map(|_| ())
    };
    assert_eq!(predict(&record, &trials), Ok(()));
    let warmup: Vec<TrialRecord> = trials.iter().filter(|one| one.trial.role == Role::Warmup).cloned().collect();
    assert_eq!(predict(&record, &warmup), Err(PredictionError::NoEvidence("r".into())));
    let kernel: Vec<TrialRecord> = trials.iter().filter(|one| one.trial.cell == 0).cloned().collect();
    assert_eq!(predict(&record, &kernel), Err(PredictionError::NoEvidence("r".into())));
    let mut other = record;
    other.plan.race = None;
    assert_eq!(predict(&other, &trials), Err(PredictionError::NotASearch("r".into())));
}
