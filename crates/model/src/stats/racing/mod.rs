//! Finds the best of many candidates with few trials: a race in blocks drops a candidate as soon as it is very unlikely
//! to be better than the leader by more than the indifference, and fresh pairs confirm the winner. A race is a fold
//! over its complete blocks, so replaying stored blocks results in the same state. Must not depend on the meaning of
//! candidates, the execution of trials, or the clock.
//!
//! The rule tests whether any candidate can still be better than the leader by more than 1 %, and does not prove ties
//! (PAC elimination: Even-Dar et al., COLT 2002; indifference zone: Kim and Nelson, ACM TOMACS 11, 2001; races: Maron
//! and Moore, NIPS 1994, Birattari et al., GECCO 2002). Its constants were tuned by simulation, which is also the
//! evidence for its guarantees: `cargo bench -p lab --bench place`.

mod budget;
mod confirm;
mod interim;
pub(in crate::stats) mod missing;
mod ranking;
#[cfg(test)]
mod simulation;
mod stage;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use confirm::{
    ConfirmPlan, ConfirmResult, Confirmation, PairValues, confirm, confirm_moderated, extend_plan, planned,
};
pub use interim::{column_effects, winsorized_means};
pub use ranking::{Effect, RankClaim, RankedCandidate};

use crate::values::plan::RaceRules;
use crate::values::workload::Better;
use interim::{Challenger, EarlyRule, SETTLED_FROM};
pub use missing::too_many_missing;
use missing::{AttemptCount, DropReason};
use stage::Stage;

/// Default indifference: 1 %, a gain for which it is not worth changing a placement.
pub const INDIFFERENCE: f64 = 0.01;

/// A trial is killed after this multiple of the leader's median; neither bursts nor noise make the best candidate that
/// slow (capping: Hutter et al., Journal of Artificial Intelligence Research 36, 2009).
pub const KILL_FACTOR: f64 = 5.0;

/// Blocks of a stage after which an interim analysis is made. Analysing every block would find more chance effects.
const LOOKS: [usize; 26] =
    [2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 48, 58, 70, 85, 100, 120, 145, 175, 210, 250, 300, 360];

/// Maximum number of blocks of a stage, after which the remaining candidates are equal for any use.
const BLOCKS_MAX: usize = 360;

/// A candidate that takes longer than this multiple of the fastest in the first block is dropped. Bursts are 1.3 times,
/// noise a few percent, so it cannot be the best.
const HOPELESS: f64 = 2.0;

/// A challenger is dropped if the probability that it is better than the leader is below this. Tuned: with 0.002 and an
/// end at 0.05 the worst simulated world is right in 90 % of its runs, with 0.001 and 0.025 in 93 to 97 %.
const DROP_BELOW: f64 = 0.0025;

/// The race is resolved if the sum of these probabilities over all challengers is at most this. Tuned together with
/// [`DROP_BELOW`].
const RESOLVED_AT: f64 = 0.015;

/// Minimum number of challengers as long as a stage is not resolved.
const CHALLENGERS_MIN: usize = 2;

/// Probability that a strict race is wrong, shared by all interim analyses and all challengers.
const STRICT_ERROR: f64 = 0.05;
const STRICT_FIRST_LOOK: usize = 3;

/// Outcome of one candidate in one block. A trial without a result is repeated once at the end of its block, so this is
/// the outcome after the repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockResult {
    /// The measured metric, in its unit. Must be finite and above 0; other values count as failed.
    Value(f64),
    /// Killed at the limit, for a metric that is wall time. For other metrics, a trial that does not end is `Failed`.
    TooSlow {
        /// Lower bound of the metric, in its unit.
        at_least: f64,
    },
    /// The placement was not verified, with the reason: no value.
    NotProven(String),
    /// The program failed, with the reason: no value.
    Failed(String),
}

/// Whether a race is running, or why it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Racing,
    /// No candidate is likely to be better than the leader by more than the indifference.
    Resolved,
    OnlyOneLeft,
    /// The maximum number of blocks was reached; not resolved.
    OutOfBlocks,
    /// The budget is used except for the reserve; not resolved.
    OutOfBudget,
    /// Stopped by the user; not resolved.
    Stopped,
    /// The baseline could not be measured, so there is nothing to compare with.
    NoReference,
    /// No candidate could be measured until the end.
    NobodyLeft,
}

/// Why a race is ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The time limit was reached.
    Budget,
    User,
}

impl State {
    /// Whether the leader is the result: no other candidate is likely to be better by more than the indifference.
    pub fn is_resolved(self) -> bool {
        matches!(self, Self::Resolved | Self::OnlyOneLeft)
    }

    /// Ends a running race or search.
    pub(crate) fn end(&mut self, reason: End) {
        if *self == Self::Racing {
            *self = match reason {
                End::Budget => Self::OutOfBudget,
                End::User => Self::Stopped,
            };
        }
    }
}

/// Status of one candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Not in this stage.
    Waiting,
    Running,
    /// Very unlikely to be better than the leader.
    Dropped,
    /// Slower than the fastest by this factor in its first block.
    Hopeless {
        times: f64,
    },
    Left(DropReason),
}

/// A race of candidates, identified by their indices. Index 0 is the baseline.
#[derive(Clone, Debug)]
pub struct Race {
    rules: RaceRules,
    better: Better,
    stage: Stage,
    fates: Vec<Fate>,
    counts: Vec<AttemptCount>,
    /// Logarithm of the metric by block and candidate, negated if more is better; `None` if missing.
    rows: Vec<Vec<Option<f64>>>,
    active: Vec<usize>,
    state: State,
    trials: usize,
    /// Whether nothing is reserved for confirmation.
    uses_reserve: bool,
}

impl Race {
    /// Returns a race before its first block. `first_stage` has one entry per candidate; the first is the baseline,
    /// which always runs. Up to 100 candidates race in one stage. Of more, those of the first stage race first,
    /// followed by those that `second_stage` returns for each survivor. It is called once for each candidate of the
    /// first stage, and only if there are two stages; its value for the baseline is ignored.
    pub fn new(
        rules: RaceRules,
        better: Better,
        first_stage: &[bool],
        second_stage: impl Fn(usize) -> Vec<usize>,
    ) -> Self {
        assert!(!first_stage.is_empty(), "a race needs at least the baseline");
        let count = first_stage.len();
        let (field, stage) = stage::first(first_stage, second_stage);
        Self::with_field(rules, better, count, field, stage)
    }

    /// Returns a race of some of `count` candidates in one stage, such as those that a search left. `field` must be in
    /// ascending order and begin with the baseline.
    pub fn among(rules: RaceRules, better: Better, count: usize, field: Vec<usize>) -> Self {
        assert!(field.first() == Some(&0), "a race needs at least the baseline");
        Self::with_field(rules, better, count, field, stage::only())
    }

    fn with_field(rules: RaceRules, better: Better, count: usize, field: Vec<usize>, stage: Stage) -> Self {
        let mut race = Self {
            rules,
            better,
            stage,
            fates: vec![Fate::Waiting; count],
            counts: vec![AttemptCount::default(); count],
            rows: Vec::new(),
            active: Vec::new(),
            state: State::Racing,
            trials: 0,
            uses_reserve: false,
        };
        race.enter(field);
        race.end_without_rivals();
        race.check_budget();
        race
    }

    /// Returns the candidates of the next block, in ascending order; after the end, those that were still active.
    pub fn active(&self) -> &[usize] {
        &self.active
    }

    /// Adds a complete block. Outcomes of inactive candidates are ignored, an active candidate without an outcome has a
    /// missing value that does not count against it, and a block after the end changes nothing.
    pub fn push(&mut self, results: &[(usize, BlockResult)]) {
        if self.state != State::Racing {
            return;
        }
        let mut row = vec![None; self.fates.len()];
        for (candidate, result) in results {
            if self.active.contains(candidate) {
                row[*candidate] = self.note(*candidate, result);
            }
        }
        self.rows.push(row);
        self.let_leave();
        self.analyse();
        self.end_without_rivals();
        if self.state == State::Racing && self.stage_rows().len() >= BLOCKS_MAX {
            self.state = State::OutOfBlocks;
        }
        self.begin_second_stage();
        self.check_budget();
    }

    /// Number of complete blocks of all stages.
    pub fn blocks(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Number of trials, as far as blocks show: one per outcome, two if it has no result and was repeated.
    pub fn trials(&self) -> usize {
        self.trials
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Ends the race from outside, unresolved; the leader is kept.
    pub fn end(&mut self, reason: End) {
        self.state.end(reason);
    }

    /// Continues a race that has ended before its reserve, because the reserve is too small for a confirmation.
    pub fn use_reserve(&mut self) {
        if self.state == State::OutOfBudget && !self.uses_reserve {
            self.uses_reserve = true;
            self.state = State::Racing;
            self.check_budget();
        }
    }

    /// Returns the best candidate so far; `None` before the first value.
    pub fn leader(&self) -> Option<usize> {
        let (present, rows) = self.table();
        if rows.is_empty() {
            // At the beginning of the second stage, the winner of the first still leads.
            return self.stage.winner.or((self.active.len() == 1).then(|| self.active[0]));
        }
        Some(present[interim::leader(&missing::complete(&rows))])
    }

    /// Returns the time limit of a trial: 5 times the leader's median, in the metric's unit. `None` before the first
    /// block (then the limit is [`KILL_FACTOR`] times the warm-up trial), and if more is better. Only meaningful if the
    /// metric is wall time. It should not be applied to the baseline, which should run to its end.
    pub fn abort_limit(&self) -> Option<f64> {
        let leader = self.leader().filter(|_| self.better == Better::Lower)?;
        let values: Vec<f64> = self.rows.iter().filter_map(|row| row[leader]).collect();
        (!values.is_empty()).then(|| KILL_FACTOR * interim::middle(values).exp())
    }

    /// Counts an outcome, and returns its value for the table.
    fn note(&mut self, candidate: usize, result: &BlockResult) -> Option<f64> {
        self.trials += if matches!(result, BlockResult::NotProven(_) | BlockResult::Failed(_)) { 2 } else { 1 };
        self.counts[candidate].note(result, self.better)
    }

    /// Drops candidates that cannot be measured. Without the baseline, the race ends.
    fn let_leave(&mut self) {
        for candidate in self.active.clone() {
            let Some(reason) = self.counts[candidate].leaves() else { continue };
            // The baseline stays, however slow it is.
            if candidate == 0 && reason == DropReason::TooSlow {
                continue;
            }
            self.fates[candidate] = Fate::Left(reason);
            if candidate == 0 {
                self.state = State::NoReference;
            }
        }
        self.keep_running();
    }

    /// Drops hopeless candidates after the first block, and unlikely ones at interim analyses.
    fn analyse(&mut self) {
        if self.state != State::Racing || self.active.len() < 2 {
            return;
        }
        if self.stage_rows().len() == 1 {
            self.drop_hopeless();
        } else if LOOKS.contains(&self.stage_rows().len()) {
            self.drop_beaten();
        }
        self.keep_running();
    }

    fn drop_hopeless(&mut self) {
        let Some(row) = self.rows.last() else { return };
        // A candidate with a missing value stays.
        let mut ranked: Vec<(f64, usize)> =
            self.active.iter().filter_map(|candidate| Some((row[*candidate]?, *candidate))).collect();
        ranked.sort_by(|one, other| one.0.total_cmp(&other.0));
        let Some((fastest, _)) = ranked.first().copied() else { return };
        // The leader and two challengers stay: one disturbed trial must not end the whole search.
        for (value, candidate) in ranked.into_iter().skip(1 + CHALLENGERS_MIN) {
            if candidate != 0 && value - fastest >= HOPELESS.ln() {
                self.fates[candidate] = Fate::Hopeless { times: (value - fastest).exp() };
            }
        }
    }

    fn drop_beaten(&mut self) {
        let (present, rows) = self.table();
        let blocks = rows.len();
        if blocks < if self.rules.strict { STRICT_FIRST_LOOK } else { 2 } || present.len() < 2 {
            return;
        }
        let early = if self.rules.strict { EarlyRule::Plain } else { EarlyRule::Kind };
        let seen =
            |one: usize, other: usize| rows.iter().filter(|row| row[one].is_some() && row[other].is_some()).count();
        let challengers = interim::analyse(&missing::complete(&rows), seen, self.rules.indifference, early);
        if blocks >= SETTLED_FROM && present.len() == self.active.len() && self.is_resolved(&challengers) {
            self.state = State::Resolved;
            return;
        }
        for column in beaten(&challengers, self.drop_below(&challengers), blocks) {
            self.fates[present[column]] = Fate::Dropped;
        }
    }

    fn is_resolved(&self, challengers: &[Challenger]) -> bool {
        if self.rules.strict {
            return challengers.iter().all(|challenger| challenger.better < self.drop_below(challengers));
        }
        challengers.iter().map(|challenger| challenger.better).sum::<f64>() <= RESOLVED_AT
    }

    /// Returns the probability of being better below which a challenger is dropped.
    fn drop_below(&self, challengers: &[Challenger]) -> f64 {
        if self.rules.strict {
            return STRICT_ERROR / LOOKS.len() as f64 / challengers.len() as f64;
        }
        DROP_BELOW
    }

    /// Ends a race, or its stage, that has at most one candidate.
    fn end_without_rivals(&mut self) {
        if self.state == State::Racing && self.active.len() < 2 {
            self.state = if self.active.is_empty() { State::NobodyLeft } else { State::OnlyOneLeft };
        }
    }

    /// Activates the candidates of a stage.
    fn enter(&mut self, field: Vec<usize>) {
        for candidate in &self.active {
            if self.fates[*candidate] == Fate::Running {
                self.fates[*candidate] = Fate::Waiting;
            }
        }
        for candidate in &field {
            self.fates[*candidate] = Fate::Running;
        }
        self.active = field;
    }

    /// Deactivates candidates that were dropped.
    fn keep_running(&mut self) {
        let fates = &self.fates;
        self.active.retain(|candidate| fates[*candidate] == Fate::Running);
    }

    /// Returns the blocks of this stage.
    fn stage_rows(&self) -> &[Vec<Option<f64>>] {
        &self.rows[self.stage.from..]
    }

    /// Returns the active candidates with a value in this stage, and its rows with any of them.
    fn table(&self) -> (Vec<usize>, Vec<Vec<Option<f64>>>) {
        let rows = self.stage_rows();
        let has_value = |candidate: &usize| rows.iter().any(|row| row[*candidate].is_some());
        let present: Vec<usize> = self.active.iter().copied().filter(has_value).collect();
        let narrowed = rows.iter().map(|row| present.iter().map(|candidate| row[*candidate]).collect::<Vec<_>>());
        let rows = narrowed.filter(|row| row.iter().any(Option::is_some)).collect();
        (present, rows)
    }
}

/// Returns the columns to drop at an interim analysis with this many blocks.
fn beaten(challengers: &[Challenger], below: f64, blocks: usize) -> Vec<usize> {
    let mut leaving: Vec<&Challenger> = challengers.iter().filter(|challenger| challenger.better < below).collect();
    let staying = challengers.len() - leaving.len();
    if blocks < SETTLED_FROM && staying < CHALLENGERS_MIN {
        // The two best challengers always stay.
        let mut ranked: Vec<&Challenger> = challengers.iter().collect();
        ranked.sort_by(|one, other| one.mean.total_cmp(&other.mean));
        let kept: Vec<usize> = ranked.iter().take(CHALLENGERS_MIN).map(|challenger| challenger.column).collect();
        leaving.retain(|challenger| !kept.contains(&challenger.column));
    }
    leaving.iter().map(|challenger| challenger.column).collect()
}

/// Returns the logarithm of a metric, negated if more is better; `None` unless it is finite and above 0.
pub(in crate::stats) fn signed_log(value: f64, better: Better) -> Option<f64> {
    let log = if better == Better::Lower { value.ln() } else { -value.ln() };
    (value > 0.0 && log.is_finite()).then_some(log)
}
