//! Estimated cost of a race, and the share of a budget that is reserved for confirmation.

use super::{Race, State};

/// Share of a budget that is reserved for confirmation, unless it is less than this many pairs.
const RESERVED_SHARE: f64 = 0.15;
const RESERVED_PAIRS: f64 = 20.0;
/// Maximum reserved share: without a race there is nothing to confirm.
const RESERVED_SHARE_MAX: f64 = 0.5;

/// Mean number of blocks in simulated races: of all candidates until the clearly slower ones are dropped, and of the
/// last few candidates after that.
const BLOCKS_OF_ALL: usize = 6;
const FINALISTS: usize = 5;
const BLOCKS_OF_FINALISTS: usize = 40;

impl Race {
    /// Estimates the number of trials of a race with `candidates` candidates and `pairs` pairs, for messages before the
    /// start. Not precise enough for decisions.
    pub fn estimate(candidates: usize, pairs: u32) -> usize {
        candidates * BLOCKS_OF_ALL + FINALISTS.min(candidates) * BLOCKS_OF_FINALISTS + 2 * pairs as usize
    }

    /// Returns the number of candidates for which this number of trials usually suffices.
    pub fn candidates_for(trials: usize) -> usize {
        trials.saturating_sub(FINALISTS * BLOCKS_OF_FINALISTS) / BLOCKS_OF_ALL
    }

    /// Returns the part of a budget to reserve for confirmation, in the budget's unit (trials, seconds), if a trial
    /// costs `per_trial`: 15 %, at least 20 pairs, but at most half. Nothing after [`Self::use_reserve`].
    pub fn reserve(&self, budget: f64, per_trial: f64) -> f64 {
        if self.uses_reserve {
            return 0.0;
        }
        let pairs = RESERVED_PAIRS * 2.0 * per_trial;
        (RESERVED_SHARE * budget).max(pairs).min(RESERVED_SHARE_MAX * budget)
    }

    /// Ends the race if another block would use the reserve.
    pub(super) fn check_budget(&mut self) {
        let Some(budget) = self.rules.max_trials.filter(|_| self.state == State::Racing) else { return };
        let next = (self.trials + self.active.len()) as f64;
        if next > budget as f64 - self.reserve(budget as f64, 1.0) {
            self.state = State::OutOfBudget;
        }
    }
}
