//! Evaluates predictions for another machine: a search on one testbed, predictions for another, and the true times of the same
//! program there. The simulated programs never have the tested kind. Must not change how predictions are made.

use std::sync::Arc;

use model::stats::search::{MeasuredCandidate, Measurements, Search, Transfer, transfer};
use model::values::plan::{ThreadChoice, stream};
use model::values::workload::Better;

use super::testbed::Testbed;
use super::truth::{self, Group, Kind};
use crate::noise::{Machine, Random, Weather};
use crate::table::quantile;
use crate::{Settings, in_parallel};

/// Trials of the search.
const TRIALS: usize = 60;
/// Numbers of threads of commands that choose it themselves.
const THREADS: [usize; 3] = [4, 8, 16];

/// The quality of one prediction.
struct Quality {
    /// Number of ranges that contain the true value, and of all ranges.
    covered: (usize, usize),
    /// Distances of the predicted best candidate and of the baseline from the best candidate (logarithms).
    regret: f64,
    baseline: f64,
    bound_holds: bool,
}

/// Prints one line for each pair of testbeds.
pub fn print(testbeds: &[Testbed], settings: &Settings) {
    for here in testbeds {
        for there in testbeds.iter().filter(|there| there.name != here.name && can_follow(here, there)) {
            pair(here, there, settings);
        }
    }
}

/// Whether a program can run on both in the same way.
fn can_follow(here: &Testbed, there: &Testbed) -> bool {
    here.plan.threads == there.plan.threads && here.plan.threads != ThreadChoice::Fixed
}

fn pair(here: &Testbed, there: &Testbed, settings: &Settings) {
    let groups = [Group::Product, Group::Structured];
    let kinds: Vec<Kind> = groups.into_iter().flat_map(|group| group.kinds(here)).collect();
    let jobs: Vec<(Kind, usize)> = kinds
        .iter()
        .flat_map(|kind| (0..settings.seeds).map(move |seed| (*kind, settings.first_seed + seed)))
        .collect();
    let one = |index: usize| predicted(here, there, jobs[index].0, jobs[index].1, settings);
    let all: Vec<Quality> = in_parallel(jobs.len(), one).into_iter().flatten().collect();
    if all.is_empty() {
        return;
    }
    let share = |count: usize, of: usize| 100.0 * count as f64 / of.max(1) as f64;
    let (covered, ranges) = all.iter().fold((0, 0), |sum, one| (sum.0 + one.covered.0, sum.1 + one.covered.1));
    let within = |distance: f64| share(all.iter().filter(|one| one.regret <= distance).count(), all.len());
    let median = |of: fn(&Quality) -> f64| quantile(all.iter().map(|one| 100.0 * of(one).exp_m1()).collect(), 0.5);
    println!(
        "{:16} -> {:20} {:>4} runs: {:>3.0} % of 90 % ranges hold; predicted best within 2/5/10 %: {:>3.0}/{:>3.0}/{:>3.0}, median {:>4.1} % (baseline {:>5.1} %); bound holds in {:>3.0} %",
        here.name,
        there.name,
        all.len(),
        share(covered, ranges),
        within(0.02),
        within(0.05),
        within(0.1),
        median(|one| one.regret),
        median(|one| one.baseline),
        share(all.iter().filter(|one| one.bound_holds).count(), all.len()),
    );
}

/// Returns the quality of the prediction for one program. `None` if a testbed has no such number of threads.
fn predicted(here: &Testbed, there: &Testbed, kind: Kind, seed: usize, settings: &Settings) -> Option<Quality> {
    let threads = if here.is_own() { THREADS[seed % THREADS.len()] } else { 0 };
    let random = |purpose: &str| Random::new(stream(seed as u64, &format!("few-like {kind:?} {purpose}")));
    let truth = |testbed: &Testbed| {
        let has_threads = |table: &model::stats::search::FeatureTable| {
            threads == 0 || table.candidates[0].threads as usize == threads
        };
        let table = testbed.features.tables.iter().position(has_threads)?;
        // The same stream on both machines, so that the program has the same parameters.
        Some(truth::times(testbed, kind, table, settings.unexplained[0], &mut random("program")))
    };
    let (true_here, true_there) = (truth(here)?, truth(there)?);
    let machine = Machine::new(true_here, Weather::fair(settings.noises[0]), random(here.name));
    let measured = search(here, kind, threads, machine);
    let features = here.features_of(threads);
    let measurements = Measurements { features: &features, candidates: &measured, noise: settings.noises[0] };
    Some(quality(&transfer(&here.plan_without(kind), &measurements, &there.features_of(threads)), &true_there))
}

/// Runs a search, and returns the mean results of its candidates.
fn search(testbed: &Testbed, kind: Kind, threads: usize, mut machine: Machine) -> Vec<MeasuredCandidate> {
    let mut search = Search::new(Arc::new(testbed.prior(kind, threads)), Better::Lower);
    let mut logs = vec![Vec::new(); testbed.placements.len()];
    loop {
        let block = search.next_block(TRIALS.saturating_sub(search.trials()));
        if block.is_empty() {
            break;
        }
        let results = machine.results(&block, None);
        for (candidate, result) in &results {
            if let model::stats::racing::BlockResult::Value(value) = result {
                logs[*candidate].push(value.ln());
            }
        }
        search.push(&results);
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let baseline = mean(&logs[0]);
    let ran = logs.iter().enumerate().filter(|(_, values)| !values.is_empty());
    let measured = |(candidate, values): (usize, &Vec<f64>)| MeasuredCandidate {
        candidate,
        log_time: mean(values) - baseline,
        trials: values.len(),
    };
    ran.map(measured).collect()
}

fn quality(predicted: &Transfer, truth: &[f64]) -> Quality {
    let holds = |candidate: &usize| {
        let range = &predicted.predictions[*candidate];
        range.low <= truth[*candidate] && truth[*candidate] <= range.high
    };
    let best = truth.iter().copied().fold(f64::INFINITY, f64::min);
    let regret = truth[predicted.best] - best;
    Quality {
        covered: ((1..truth.len()).filter(holds).count(), truth.len() - 1),
        regret,
        baseline: truth[0] - best,
        bound_holds: regret.exp_m1() <= predicted.missed.bound90 + 1e-9,
    }
}
