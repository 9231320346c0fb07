//! What a race costs before it is run, and what of a budget is kept for confirmation.

use super::{Race, State};

/// This part of a budget is kept for confirmation, and enough for this many pairs.
const RESERVED_SHARE: f64 = 0.15;
const RESERVED_PAIRS: f64 = 20.0;
/// But never more than this part: without a race there is nothing to confirm.
const RESERVED_SHARE_MAX: f64 = 0.5;

/// What every candidate runs at most before the clear ones are gone, and what the last few run after that: the mean
/// of simulated races.
const BLOCKS_OF_ALL: usize = 6;
const FINALISTS: usize = 5;
const BLOCKS_OF_FINALISTS: usize = 40;

impl Race {
    /// How many trials a race of so many candidates and this many pairs will take, roughly: for the words before the
    /// start. Nothing to decide by.
    pub fn estimate(candidates: usize, pairs: u32) -> usize {
        candidates * BLOCKS_OF_ALL + FINALISTS.min(candidates) * BLOCKS_OF_FINALISTS + 2 * pairs as usize
    }

    /// What of this budget must be kept for confirmation, in the budget's unit (trials, seconds), of which a trial
    /// costs `per_trial`: 15 %, at least 20 pairs, but no more than half.
    pub fn reserve(&self, budget: f64, per_trial: f64) -> f64 {
        let pairs = RESERVED_PAIRS * 2.0 * per_trial;
        (RESERVED_SHARE * budget).max(pairs).min(RESERVED_SHARE_MAX * budget)
    }

    /// Ends the race when another block would touch the reserve.
    pub(super) fn check_budget(&mut self) {
        let Some(budget) = self.rules.max_trials.filter(|_| self.state == State::Racing) else { return };
        let next = (self.trials + self.active.len()) as f64;
        if next > budget as f64 - self.reserve(budget as f64, 1.0) {
            self.state = State::OutOfBudget;
        }
    }
}
