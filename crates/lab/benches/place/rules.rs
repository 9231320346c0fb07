//! The compared rules: the race itself (`model::stats::racing`, not a copy), successive halving, and measuring every
//! candidate. Must not know the true times.

use model::stats::racing::{self, Confirmation, Race, State, confirm, extend_plan};
use model::values::plan::RaceRules;
use model::values::plan::Stages;
use model::values::workload::Better;

use crate::noise::Machine;

/// The result and the cost of a search.
pub struct Found {
    pub winner: usize,
    pub search_trials: usize,
    /// Including confirmation; identical if the baseline won.
    pub all_trials: usize,
    pub confirmed: Option<Confirmation>,
    /// The forecast of the race, with the actual number of pairs.
    pub estimate: usize,
    pub blocks: u32,
    /// The end reason of the race; `None` for other rules.
    pub state: Option<State>,
}

/// The race with its confirmation. `None` if it ended without a leader.
pub fn place(machine: &mut Machine, stages: &Stages, rules: RaceRules, seed: u64) -> Option<Found> {
    let mut race = Race::new(rules, Better::Lower, &stages.first, |guide| stages.second(guide));
    // The warm-up trial; it only sets the limit.
    let mut limit = racing::KILL_FACTOR * machine.block(&[0])[0].exp();
    while race.state() == State::Racing {
        let results = machine.results(race.active(), Some(limit));
        race.push(&results);
        limit = race.abort_limit().unwrap_or(limit);
    }
    let winner = race.leader()?;
    let search_trials = machine.trials;
    let mut planned = race.planned();
    let mut pairs = machine.pairs(winner, planned.pairs);
    if let Some(again) = extend_plan(Better::Lower, &pairs, planned) {
        planned = again;
        pairs = machine.pairs(winner, planned.pairs);
    }
    let confirmed = confirm(Better::Lower, &pairs, planned, seed);
    let (all_trials, state) = (machine.trials, Some(race.state()));
    let estimate = Race::estimate(stages.first.len(), race.pairs());
    Some(Found { winner, search_trials, all_trials, confirmed, estimate, blocks: race.blocks(), state })
}

/// Each round keeps the better half and doubles the number of blocks (Karnin et al., ICML 2013). All values of a
/// survivor are used.
pub fn halving(machine: &mut Machine, count: usize) -> Found {
    const FIRST_BLOCKS: usize = 4;
    const BLOCKS_MAX: usize = 350;
    let mut active: Vec<usize> = (0..count).collect();
    let mut columns: Vec<Vec<f64>> = vec![Vec::new(); count];
    let (mut done, mut blocks) = (0, FIRST_BLOCKS);
    while active.len() > 1 && done < BLOCKS_MAX {
        for _ in 0..blocks.min(BLOCKS_MAX - done) {
            for (candidate, value) in active.iter().zip(machine.block(&active)) {
                columns[*candidate].push(value);
            }
            done += 1;
        }
        let kept = active.len().div_ceil(2);
        active = best(&columns, &active, kept);
        blocks *= 2;
    }
    let trials = machine.trials;
    Found {
        winner: active[0],
        search_trials: trials,
        all_trials: trials,
        confirmed: None,
        estimate: trials,
        blocks: done as u32,
        state: None,
    }
}

fn best(columns: &[Vec<f64>], active: &[usize], count: usize) -> Vec<usize> {
    let table: Vec<Vec<f64>> = active.iter().map(|candidate| columns[*candidate].clone()).collect();
    let effects = racing::column_effects(&table);
    let mut order: Vec<usize> = (0..active.len()).collect();
    order.sort_by(|one, other| effects[*one].total_cmp(&effects[*other]));
    order.into_iter().take(count).map(|column| active[column]).collect()
}

/// Returns the number of trials until the 95 % interval of every candidate relative to the baseline is this narrow.
pub fn exhaustive(machine: &mut Machine, count: usize, half_width: f64) -> usize {
    const BLOCKS_MAX: usize = 360;
    let is_checked = |blocks: usize| blocks >= 5 && (blocks < 9 || blocks.is_multiple_of((blocks / 10).max(2)));
    let mut active: Vec<usize> = (0..count).collect();
    let mut columns: Vec<Vec<f64>> = vec![Vec::new(); count];
    for blocks in 1..=BLOCKS_MAX {
        for (candidate, value) in active.iter().zip(machine.block(&active)) {
            columns[*candidate].push(value);
        }
        if !is_checked(blocks) {
            continue;
        }
        let against = |candidate: &usize| -> Vec<f64> {
            columns[*candidate].iter().zip(&columns[0]).map(|(value, kernel)| value - kernel).collect()
        };
        let differences: Vec<Vec<f64>> = active[1..].iter().map(against).collect();
        let known = racing::winsorized_means(&differences, 0.95);
        let precise = known.iter().map(|(_, interval)| interval.is_some_and(|one| one.half_width() <= half_width));
        let precise: Vec<bool> = precise.collect();
        let mut index = 0;
        active.retain(|candidate| {
            let keep = *candidate == 0 || !precise[index];
            index += usize::from(*candidate != 0);
            keep
        });
        if active.len() < 2 {
            break;
        }
    }
    machine.trials
}
