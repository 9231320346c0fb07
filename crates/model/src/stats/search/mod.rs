//! Finds a good candidate in 20 to 100 trials, fewer than a race needs for one block: a model of the program predicts all
//! candidates from the trials of a few, and small incomplete blocks run those that may be the best. A search is a fold
//! over its complete blocks, like a race, so replaying stored blocks results in the same state. Must not depend on
//! topologies, the execution of trials, or the clock.
//!
//! The prior over the candidates of this machine is made by simulating several hundred random programs on it
//! (`ensemble`); conditioning it on trials (`posterior`) learns the program. Blocks follow draws of the posterior
//! (Thompson, Biometrika 25, 1933). The model only chooses the trials: the reported gain comes from fresh pairs, so a wrong
//! model costs trials, but makes no false claim. Evidence: `cargo bench -p lab --bench place -- --what few`.

mod blocks;
mod ensemble;
mod features;
mod generic;
mod linear;
mod outlook;
mod pairs;
mod posterior;
mod programs;
mod random;
mod rules;
mod transfer;

use std::sync::Arc;

pub use ensemble::Prior;
pub use features::{
    ByLevel, CacheUse, CandidateFeatures, CoreUse, FeatureTable, Features, Hint, LEVELS, MachineSummary,
    MemoryFeatures, PagePolicy,
};
pub use outlook::{Missed, Outlook, Prediction, SearchClaim, SearchStanding};
pub use pairs::LIKELY_HALF_WIDTH;
pub use programs::log_times;
pub use random::Random;
pub use rules::Rules;
pub use transfer::{MeasuredCandidate, Measurements, Transfer, transfer};

use crate::stats::racing::missing::{AttemptCount, DropReason};
use crate::stats::racing::{BlockResult, End, KILL_FACTOR, State, signed_log};
use crate::values::workload::Better;
use posterior::{BASELINE_NOISE, Observation, Posterior};

/// Minimum share of the trials that confirm the winner, and minimum number of their pairs.
const PAIRS_SHARE_MIN: f64 = 0.2;
const CONFIRM_PAIRS_MIN: u32 = 3;
/// Predicted advantage (difference of logarithms) at which a candidate without trials becomes the leader.
const UNTRIED_GAIN: f64 = 0.01;
/// After this many trials, a race of [`Search::survivors`] needs fewer further trials than continuing the search.
pub const RACE_AFTER: usize = 120;
/// Number of candidates in this race.
pub const SURVIVORS: usize = 20;

/// A search among candidates, identified by their indices. Index 0 is the baseline.
#[derive(Clone, Debug)]
pub struct Search {
    prior: Arc<Prior>,
    better: Better,
    observations: Vec<Observation>,
    counts: Vec<AttemptCount>,
    /// Why a candidate was dropped.
    dropped: Vec<Option<DropReason>>,
    posterior: Posterior,
    blocks: usize,
    trials: usize,
    state: State,
}

/// Returns the number of pairs of the confirmation for a budget of trials, search and confirmation together.
pub fn confirm_pairs(trials: usize) -> u32 {
    ((PAIRS_SHARE_MIN / 2.0 * trials as f64).round() as u32).max(CONFIRM_PAIRS_MIN)
}

impl Search {
    /// Returns a search before its first block.
    pub fn new(prior: Arc<Prior>, better: Better) -> Self {
        let count = prior.candidates;
        assert!(count > 0, "a search needs at least the baseline");
        Self {
            posterior: Posterior::before(&prior),
            prior,
            better,
            observations: Vec::new(),
            counts: vec![AttemptCount::default(); count],
            dropped: vec![None; count],
            blocks: 0,
            trials: 0,
            state: if count < 2 { State::OnlyOneLeft } else { State::Racing },
        }
    }

    /// Returns the candidates of the next block in ascending order, if the search may use `affordable` further trials:
    /// usually about 7, so that the last block ends with the budget. Empty after the end, and with fewer than 2 trials.
    pub fn next_block(&self, affordable: usize) -> Vec<usize> {
        if self.state == State::Racing { blocks::choose(self, affordable) } else { Vec::new() }
    }

    /// Adds a complete block. Candidates that were dropped are ignored, and a block after the end changes nothing.
    pub fn push(&mut self, results: &[(usize, BlockResult)]) {
        if self.state != State::Racing {
            return;
        }
        let block = self.blocks;
        for (candidate, result) in results {
            if self.is_active(*candidate)
                && let Some(value) = self.note(*candidate, result)
            {
                self.observations.push(Observation { candidate: *candidate, block, value });
            }
        }
        self.blocks += 1;
        self.drop_candidates();
        if !self.observations.is_empty() {
            self.posterior = Posterior::new(&self.prior, &self.observations);
        }
        if self.state == State::Racing && self.is_resolved() {
            self.state = State::Resolved;
        }
    }

    /// Returns the search with fresh pairs of a candidate and the baseline as further trials: what it knows after the
    /// confirmation. Pairs without a comparable value are left out.
    #[must_use]
    pub fn after_pairs(&self, candidate: usize, pairs: &[(f64, f64)]) -> Self {
        let mut after = self.clone();
        for (value, baseline) in pairs {
            let logs =
                [(candidate, *value), (0, *baseline)].map(|(one, value)| Some((one, signed_log(value, self.better)?)));
            if let [Some(value), Some(baseline)] = logs {
                let block = after.blocks;
                after.observations.extend([value, baseline].map(|(candidate, value)| Observation {
                    candidate,
                    block,
                    value,
                }));
                after.blocks += 1;
            }
        }
        if after.blocks > self.blocks {
            after.posterior = Posterior::new(&after.prior, &after.observations);
        }
        after
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Ends the search from outside, unresolved; the leader is kept.
    pub fn end(&mut self, reason: End) {
        self.state.end(reason);
    }

    /// Number of complete blocks.
    pub fn blocks(&self) -> u32 {
        self.blocks as u32
    }

    /// Number of trials, as far as blocks show: one per outcome, two if it has no result and was repeated.
    pub fn trials(&self) -> usize {
        self.trials
    }

    /// Number of trials of a candidate with a value.
    pub fn trials_of(&self, candidate: usize) -> usize {
        self.observations.iter().filter(|trial| trial.candidate == candidate).count()
    }

    /// Returns the candidate that is expected to be the best, preferably one that was run. `None` before the first
    /// value.
    pub fn leader(&self) -> Option<usize> {
        if self.observations.is_empty() {
            return None;
        }
        let mean = |candidate: &usize| self.posterior.mean[*candidate];
        let best = self.expected_best()?;
        let tried = self.active().filter(|candidate| self.trials_of(*candidate) > 0);
        let tried = tried.min_by(|one, other| mean(one).total_cmp(&mean(other)));
        Some(tried.filter(|tried| mean(tried) - mean(&best) <= UNTRIED_GAIN).unwrap_or(best))
    }

    /// Returns the time limit of a trial: 5 times the smallest median of a candidate, in the metric's unit. `None` before
    /// the first value, and if more is better. Only meaningful if the metric is wall time. It should not be applied to the
    /// baseline.
    pub fn abort_limit(&self) -> Option<f64> {
        let known = self.better == Better::Lower && !self.observations.is_empty();
        known.then(|| KILL_FACTOR * posterior::lowest(&self.observations).exp())
    }

    /// Standard deviation of the logarithm of the ratio of the leader to the baseline in one pair, for
    /// [`crate::stats::racing::confirm_moderated`]. `None` before the first block.
    pub fn pair_deviation(&self) -> Option<f64> {
        (!self.observations.is_empty()).then(|| self.posterior.noise * (1.0 + BASELINE_NOISE.powi(2)).sqrt())
    }

    fn is_active(&self, candidate: usize) -> bool {
        self.dropped.get(candidate).is_some_and(Option::is_none)
    }

    fn active(&self) -> impl Iterator<Item = usize> + Clone {
        (0..self.dropped.len()).filter(|candidate| self.is_active(*candidate))
    }

    /// Returns the active candidate with the smallest expected time.
    fn expected_best(&self) -> Option<usize> {
        let mean = |candidate: &usize| self.posterior.mean[*candidate];
        self.active().min_by(|one, other| mean(one).total_cmp(&mean(other)))
    }

    /// Counts an outcome, and returns its value.
    fn note(&mut self, candidate: usize, result: &BlockResult) -> Option<f64> {
        self.trials += if matches!(result, BlockResult::NotProven(_) | BlockResult::Failed(_)) { 2 } else { 1 };
        self.counts[candidate].note(result, self.better)
    }

    /// Drops candidates that cannot be measured. Without the baseline, the search ends.
    fn drop_candidates(&mut self) {
        for candidate in 0..self.counts.len() {
            let Some(reason) = self.drop_reason(candidate).filter(|_| self.is_active(candidate)) else { continue };
            // The baseline stays, however slow it is.
            if candidate == 0 && reason == DropReason::TooSlow {
                continue;
            }
            self.dropped[candidate] = Some(reason);
            if candidate == 0 {
                self.state = State::NoReference;
            }
        }
        if self.state == State::Racing && self.active().count() < 2 {
            self.state = State::OnlyOneLeft;
        }
    }

    /// Returns whether to drop a candidate: by the rules of the race, and if its first trial and the repetition failed,
    /// because a search cannot afford six failures.
    fn drop_reason(&self, candidate: usize) -> Option<DropReason> {
        let count = &self.counts[candidate];
        let is_unusable = self.prior.rules.drops_after_first_failure && candidate != 0 && count.has_only_failed_once();
        if is_unusable { Some(DropReason::Failed) } else { count.leaves() }
    }

    fn is_resolved(&self) -> bool {
        let rules = self.prior.rules;
        let is_tried = self.leader().is_some_and(|leader| self.trials_of(leader) > 1);
        let is_covered = self.trials >= rules.resolved_trials * self.dropped.len();
        is_tried && is_covered && self.missed().is_some_and(|missed| missed.mean < rules.resolved_miss)
    }
}
