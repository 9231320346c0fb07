//! Costs of the trials of a search, and the division of the rest of its budget. Prices follow from the stored trials only. Must not depend on which candidate leads.

use std::collections::BTreeMap;

use crate::values::record::TrialRecord;
use crate::values::units::Nanos;

/// Minimum number of pairs; fewer would not allow a conclusion.
pub(super) const PAIRS_MIN: u64 = 3;
/// One pair is reserved for this many trials. With more pairs, the search of a short budget is too short.
const TRIALS_PER_PAIR: u64 = 10;
/// All pairs may take the budget divided by this.
const BUDGETS_OF_PAIRS: u64 = 5;
/// The race of the winner's files may take the budget divided by this.
const BUDGETS_OF_FILES: u64 = 5;
/// Minimum number of trials of that race: a warm-up trial, and three blocks of three placements.
pub(super) const FILE_TRIALS_MIN: u64 = 10;
/// Number of trials with which neither a search nor a confirmation is possible in addition to the other.
const TRIALS_FOR_PAIRS: u64 = 2 * PAIRS_MIN + 2;

/// Costs so far, in time and in trials.
#[derive(Clone, Debug)]
pub(super) struct Spending {
    budget: Nanos,
    /// Part of the budget that is kept for a race of the winner's files.
    reserved: Nanos,
    trials_max: Option<usize>,
    /// Total time of all trials.
    pub spent: Nanos,
    /// Number of trials in complete blocks.
    pub trials: u32,
    /// Mean time of the trials of the last complete block; an estimate before the first.
    pub trial_time: Nanos,
    /// Total time in ns and number of trials, by cell.
    cells: BTreeMap<usize, (u64, u64)>,
}

/// The division of the rest of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// Number of trials of the search.
    pub search: u64,
    /// Number of pairs that are reserved for the confirmation. It is 0 if the rest is too small for three.
    pub pairs: u64,
    /// Time that is left for the search without that of the first three pairs.
    pub until_pairs: Nanos,
}

impl Spending {
    /// `guess` is the assumed time of a trial before the first.
    pub fn new(budget: Nanos, trials_max: Option<usize>, guess: Nanos) -> Self {
        Self {
            budget,
            reserved: Nanos(0),
            trials_max,
            spent: Nanos(0),
            trials: 0,
            trial_time: guess,
            cells: BTreeMap::new(),
        }
    }

    /// Adds the trials of a block.
    pub fn add(&mut self, records: &[&TrialRecord]) {
        let took: u64 = records.iter().map(|record| record.outcome.took.0).sum();
        self.spent.0 += took;
        self.trials += records.len() as u32;
        self.trial_time = Nanos(took / (records.len() as u64).max(1));
        for record in records {
            let (time, count) = self.cells.entry(record.trial.cell).or_default();
            *time += record.outcome.took.0;
            *count += 1;
        }
    }

    pub fn left(&self) -> Nanos {
        Nanos(self.budget().0.saturating_sub(self.spent.0))
    }

    pub fn budget(&self) -> Nanos {
        Nanos(self.budget.0.saturating_sub(self.reserved.0))
    }

    /// Keeps a part of the budget for a race of the winner's files, if it is enough for one.
    pub fn reserve_for_files(&mut self) {
        let part = Nanos(self.budget.0 / BUDGETS_OF_FILES);
        if part.0 / self.price(0).0.max(1) >= FILE_TRIALS_MIN {
            self.reserved = part;
        }
    }

    /// Returns the expected time of a trial of a cell: its mean, or that of all candidates, which includes those that were
    /// killed early, or that of the baseline.
    pub fn price(&self, cell: usize) -> Nanos {
        let own = mean(self.cells.get(&cell).into_iter());
        own.or_else(|| self.candidate_time()).unwrap_or(self.trial_time)
    }

    /// Mean time of a trial of all candidates; of the baseline before any other has run.
    fn candidate_time(&self) -> Option<Nanos> {
        let others = self.cells.iter().filter(|(cell, _)| **cell != 0).map(|(_, cost)| cost);
        mean(others).or_else(|| mean(self.cells.values()))
    }

    /// Returns the number of trials of this price that the rest of the budget pays for.
    pub fn affordable(&self, price: Nanos) -> u64 {
        self.in_time(price).min(self.trials_left())
    }

    /// Whether fewer trials are allowed than fit into the time.
    pub fn is_limited_by_trials(&self, price: Nanos) -> bool {
        self.trials_left() < self.in_time(price)
    }

    fn in_time(&self, price: Nanos) -> u64 {
        self.left().0 / price.0.max(1)
    }

    fn trials_left(&self) -> u64 {
        self.trials_max.map_or(u64::MAX, |most| (most as u64).saturating_sub(u64::from(self.trials)))
    }

    /// Returns the number of pairs of the baseline and a challenger that the rest of the budget pays for.
    pub fn affordable_pairs(&self, challenger: usize) -> u64 {
        (self.left().0 / self.pair_price(challenger).0.max(1)).min(self.trials_left() / 2)
    }

    pub fn pair_price(&self, challenger: usize) -> Nanos {
        Nanos(self.price(0).0 + self.price(challenger).0)
    }

    /// Divides the rest of the budget between search and confirmation: one pair for ten trials, or a fifth of the time if
    /// pairs take longer, but at least three pairs. `challenger` is the candidate to confirm, if it is known.
    pub fn divide(&self, challenger: Option<usize>) -> Division {
        let unknown = usize::MAX;
        let price = self.price(unknown);
        let all = self.affordable(price).saturating_add(u64::from(self.trials));
        let pair_price = self.pair_price(challenger.unwrap_or(unknown)).0.max(1);
        let by_time = self.budget().0 / BUDGETS_OF_PAIRS / pair_price;
        let few = all < TRIALS_FOR_PAIRS || self.affordable_pairs(challenger.unwrap_or(unknown)) < PAIRS_MIN;
        let pairs = if few { 0 } else { (all / TRIALS_PER_PAIR).min(by_time).max(PAIRS_MIN) };
        let time_without = |pairs: u64| self.left().0.saturating_sub(pairs.saturating_mul(pair_price));
        let by_trials = self.trials_left().saturating_sub(2 * pairs);
        let search = (time_without(pairs) / price.0.max(1)).min(by_trials);
        Division { search, pairs, until_pairs: Nanos(time_without(pairs.min(PAIRS_MIN))) }
    }
}

fn mean<'a>(costs: impl Iterator<Item = &'a (u64, u64)>) -> Option<Nanos> {
    let (time, count) = costs.fold((0, 0), |(time, count), one| (time + one.0, count + one.1));
    (count > 0).then(|| Nanos(time / count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn spent(budget: u64, trials_max: Option<usize>, cells: &[(usize, u64, u64)]) -> Spending {
        let mut spending = Spending::new(Nanos(budget * SECOND), trials_max, Nanos(10 * SECOND));
        for (cell, time, count) in cells {
            spending.spent.0 += time * SECOND;
            spending.trials += *count as u32;
            spending.cells.insert(*cell, (time * SECOND, *count));
        }
        spending
    }

    #[test]
    fn tenth_of_the_trials_is_reserved_as_pairs() {
        for (budget, trials_max, search, pairs) in [
            (600, None, 47, 6),
            (400, None, 31, 4),
            (200, None, 13, 3),
            (90, None, 2, 3),
            // Too little for a search with three pairs.
            (70, None, 6, 0),
            (6_000, Some(40), 31, 4),
            (20, None, 1, 0),
            (5, None, 0, 0),
        ] {
            let spending = spent(budget, trials_max, &[(0, 10, 1)]);
            let division = spending.divide(None);
            assert_eq!((division.search, division.pairs), (search, pairs), "{budget} s, {trials_max:?}");
        }
    }

    #[test]
    fn candidates_are_priced_by_their_own_trials() {
        let spending = spent(600, None, &[(0, 60, 1)]);
        assert_eq!(spending.price(3), Nanos(60 * SECOND), "no candidate has run");
        let spending = spent(600, None, &[(0, 60, 1), (2, 4, 2), (5, 12, 2)]);
        assert_eq!((spending.price(0), spending.price(2)), (Nanos(60 * SECOND), Nanos(2 * SECOND)));
        assert_eq!(spending.price(3), Nanos(4 * SECOND), "the mean of those that have run");
    }

    #[test]
    fn slow_baseline_leaves_time_for_the_search() {
        // A pair takes 64 s, a trial of a candidate 4 s.
        let division = spent(600, None, &[(0, 60, 1), (2, 4, 2), (5, 12, 2)]).divide(None);
        assert_eq!(division.pairs, 3);
        assert!(division.search > 70, "{division:?}");
    }
}
