//! Finding the best of many candidates with few trials: a race in blocks, in which a candidate leaves once it is very
//! unlikely to be better than the leader by more than the indifference, and fresh pairs that confirm the winner.
//! Pure: a race is a fold over its whole blocks, so replaying stored blocks gives the same state. Must not know what
//! a candidate is, how a trial is run, or what time it is.
//!
//! The rule asks "can anyone still be better than the leader by more than 1 %" and does not prove ties (PAC
//! elimination: Even-Dar et al., COLT 2002; indifference zone: Kim and Nelson, ACM TOMACS 11, 2001; races: Maron and
//! Moore, NIPS 1994, Birattari et al., GECCO 2002). Its constants were tuned by simulation, and the simulation is
//! their guarantee: `cargo bench -p lab --bench place`.

mod budget;
mod confirm;
mod interim;
mod missing;
mod ranking;
#[cfg(test)]
mod simulation;
mod stage;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use confirm::{ConfirmPlan, ConfirmResult, Confirmation, confirm, extend_plan};
pub use interim::{column_effects, winsorized_means};
pub use ranking::{Effect, RankClaim, RankedCandidate};

use crate::values::workload::Better;
use interim::{Challenger, EarlyRule, SETTLED_FROM};
use missing::{AttemptCount, DropReason};
use stage::Stage;

/// The indifference unless told: 1 %, below which nobody moves a program.
pub const INDIFFERENCE: f64 = 0.01;

/// A trial is killed once it took so many times the leader's median: no burst and no noise makes the best candidate
/// that slow (capping: Hutter et al., Journal of Artificial Intelligence Research 36, 2009).
pub const KILL_FACTOR: f64 = 5.0;

/// After how many blocks of a stage we look. Looking after every block would find chance more often.
const LOOKS: [usize; 26] =
    [2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 48, 58, 70, 85, 100, 120, 145, 175, 210, 250, 300, 360];

/// A stage ends here at the latest: its leaders are then equal for any use.
const BLOCKS_MAX: usize = 360;

/// What took more than so many times the fastest in the first block leaves: a burst is 1.3 times, noise a few
/// percent, so the best cannot be there.
const HOPELESS: f64 = 2.0;

/// A challenger leaves when it is better than the leader with a probability below this. Tuned: with 0.002 and a stop
/// at 0.05 the worst simulated world is right in 90 % of its runs, with 0.001 and 0.025 in 93 to 97 %.
const DROP_BELOW: f64 = 0.0025;

/// The race is resolved when these probabilities of all challengers add up to no more than this. Tuned together with
/// [`DROP_BELOW`].
const RESOLVED_AT: f64 = 0.015;

/// While a stage is not settled it keeps at least so many challengers.
const CHALLENGERS_MIN: usize = 2;

/// A strict race may be wrong with this probability, shared by all looks and all challengers.
const STRICT_ERROR: f64 = 0.05;
const STRICT_FIRST_LOOK: usize = 3;

/// What the user can choose about a race. There is no default: each of these changes the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Gains below this part of the metric are not worth finding: 0.01 is 1 %. See [`INDIFFERENCE`].
    pub indifference: f64,
    /// Keep the family-wise error of all looks at 5 % (as far as a t distribution holds), for nearly twice the trials.
    pub strict: bool,
    /// The budget of search and confirmation together, in trials; a share of it is kept for confirmation.
    pub max_trials: Option<usize>,
}

impl Rules {
    /// Returns the text for the rules in a plan's key. Stored hashes depend on it, so it must not follow renames.
    pub(crate) fn key_text(&self) -> String {
        let Self { indifference, strict, max_trials } = self;
        let max_trials = max_trials.map_or_else(|| "none".into(), |max| max.to_string());
        format!("indifference: {indifference:?}, strict: {strict}, max trials: {max_trials}")
    }
}

/// What one candidate did in one block. A lap that came to nothing is repeated once at the end of its block before
/// it counts as that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lap {
    /// The metric as measured, in its unit. Must be above 0 and finite; anything else counts as failed.
    Value(f64),
    /// Killed at the limit, for a metric that is wall time. A trial of another metric that does not end is `TransferError`.
    TooSlow {
        /// The metric is at least this, in its unit.
        at_least: f64,
    },
    /// The placement was not proven, and why: no number.
    NotProven(String),
    /// The program failed, and why: no number.
    Failed(String),
}

/// Whether a race goes on, or why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Racing,
    /// Nobody is likely to be better than the leader by more than the indifference.
    Resolved,
    OnlyOneLeft,
    /// The most blocks that a race may have; not resolved.
    OutOfBlocks,
    /// The budget is spent but for the reserve; not resolved.
    OutOfBudget,
    /// The user stopped it; not resolved.
    Stopped,
    /// The kernel's choice could not be measured, so there is nothing to compare with.
    NoReference,
    /// Nobody could be measured to the end.
    NobodyLeft,
}

/// Why a race is ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The time that it was given is spent.
    Budget,
    User,
}

impl State {
    /// Whether the leader is the answer: nobody is likely to be better by more than the indifference.
    pub fn is_resolved(self) -> bool {
        matches!(self, Self::Resolved | Self::OnlyOneLeft)
    }
}

/// What became of one candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Not in this stage: not yet, or not at all.
    Waiting,
    Running,
    /// Very unlikely to be better than the leader.
    Dropped,
    /// So many times the fastest in its first block.
    Hopeless {
        times: f64,
    },
    /// It could not be measured.
    Left(DropReason),
}

/// A race of candidates, known by their numbers. Number 0 is the kernel's choice, the reference of everything.
#[derive(Clone, Debug)]
pub struct Race {
    rules: Rules,
    better: Better,
    stage: Stage,
    fates: Vec<Fate>,
    counts: Vec<AttemptCount>,
    /// By block and candidate: the logarithm of the metric, turned so that less is better; none is a hole.
    rows: Vec<Vec<Option<f64>>>,
    active: Vec<usize>,
    state: State,
    trials: usize,
}

impl Race {
    /// A race before its first block. `first_stage` has one entry per candidate, the kernel's choice first: it always
    /// runs. Up to 100 candidates race at once. Of more, those of the first stage race first, and then those that
    /// `second_stage` gives for each that is left of them: it is asked once for everyone of the first stage, and only
    /// if there are two stages. What it says of the kernel's choice is not used.
    pub fn new(rules: Rules, better: Better, first_stage: &[bool], second_stage: impl Fn(usize) -> Vec<usize>) -> Self {
        assert!(!first_stage.is_empty(), "a race has at least the kernel's choice");
        let count = first_stage.len();
        let (field, stage) = stage::first(first_stage, second_stage);
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
        };
        race.enter(field);
        race.end_without_rivals();
        race.check_budget();
        race
    }

    /// Who runs in the next block, in the order of their numbers. After the end: who was still in.
    pub fn active(&self) -> &[usize] {
        &self.active
    }

    /// Adds one whole block. Laps of candidates that are not active are passed over, an active candidate without a
    /// lap has a hole that nobody holds against it, and a block after the end changes nothing.
    pub fn push(&mut self, laps: &[(usize, Lap)]) {
        if self.state != State::Racing {
            return;
        }
        let mut row = vec![None; self.fates.len()];
        for (candidate, lap) in laps {
            if self.active.contains(candidate) {
                row[*candidate] = self.note(*candidate, lap);
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

    /// Whole blocks so far, of all stages.
    pub fn blocks(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Trials so far as far as the blocks tell: one per lap, two for a lap that came to nothing and was repeated.
    pub fn trials(&self) -> usize {
        self.trials
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Ends the race from outside; the leader so far is named, and the race is not resolved.
    pub fn end(&mut self, why: End) {
        if self.state == State::Racing {
            self.state = match why {
                End::Budget => State::OutOfBudget,
                End::User => State::Stopped,
            };
        }
    }

    /// Who is best so far; none before the first number.
    pub fn leader(&self) -> Option<usize> {
        let (present, rows) = self.table();
        if rows.is_empty() {
            // At the beginning of the second stage the winner of the first still leads.
            return self.stage.winner.or((self.active.len() == 1).then(|| self.active[0]));
        }
        Some(present[interim::leader(&missing::complete(&rows))])
    }

    /// When to kill a trial: 5 times the leader's median, in the metric's unit; none before the first block (then
    /// [`KILL_FACTOR`] times the warm-up trial) and where more is better. Means something only where the metric is
    /// wall time. The kernel's choice is the reference and should run to its end all the same.
    pub fn abort_limit(&self) -> Option<f64> {
        let leader = self.leader().filter(|_| self.better == Better::Lower)?;
        let values: Vec<f64> = self.rows.iter().filter_map(|row| row[leader]).collect();
        (!values.is_empty()).then(|| KILL_FACTOR * interim::middle(values).exp())
    }

    /// Counts a lap, and gives its value for the table.
    fn note(&mut self, candidate: usize, lap: &Lap) -> Option<f64> {
        let count = &mut self.counts[candidate];
        count.laps += 1;
        let hole = |count: &mut AttemptCount, why: &str| {
            why.clone_into(&mut count.reason);
            None
        };
        let value = match lap {
            Lap::Value(value) => signed_log(*value, self.better).or_else(|| {
                count.failed += 1;
                hole(count, &format!("the metric was {value}, and only numbers above 0 can be compared"))
            }),
            Lap::TooSlow { at_least } => {
                count.killed += 1;
                // A lower bound where less is better; where more is better it says nothing of the metric.
                Some(*at_least)
                    .filter(|_| self.better == Better::Lower)
                    .and_then(|value| signed_log(value, self.better))
            }
            Lap::NotProven(why) => {
                count.not_proven += 1;
                hole(count, why)
            }
            Lap::Failed(why) => {
                count.failed += 1;
                hole(count, why)
            }
        };
        self.trials += if matches!(lap, Lap::NotProven(_) | Lap::Failed(_)) { 2 } else { 1 };
        value
    }

    /// Takes out who cannot be measured. Without the kernel's choice there is no reference.
    fn let_leave(&mut self) {
        for candidate in self.active.clone() {
            let Some(why) = self.counts[candidate].leaves() else { continue };
            // However slow it is, the kernel's choice stays the reference.
            if candidate == 0 && why == DropReason::TooSlow {
                continue;
            }
            self.fates[candidate] = Fate::Left(why);
            if candidate == 0 {
                self.state = State::NoReference;
            }
        }
        self.keep_running();
    }

    /// After the first block drops the hopeless, later at the looks those who are unlikely to be better.
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
        // A hole stays in.
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

    /// Below which probability of being better a challenger leaves.
    fn drop_below(&self, challengers: &[Challenger]) -> f64 {
        if self.rules.strict {
            return STRICT_ERROR / LOOKS.len() as f64 / challengers.len() as f64;
        }
        DROP_BELOW
    }

    /// Ends a race, or its stage, that has no more than one candidate.
    fn end_without_rivals(&mut self) {
        if self.state == State::Racing && self.active.len() < 2 {
            self.state = if self.active.is_empty() { State::NobodyLeft } else { State::OnlyOneLeft };
        }
    }

    /// Makes the field of a stage the active ones.
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

    /// Forgets as active who left.
    fn keep_running(&mut self) {
        let fates = &self.fates;
        self.active.retain(|candidate| fates[*candidate] == Fate::Running);
    }

    /// The blocks of this stage.
    fn stage_rows(&self) -> &[Vec<Option<f64>>] {
        &self.rows[self.stage.from..]
    }

    /// The active candidates that have a value in this stage, and its rows of them that have any.
    fn table(&self) -> (Vec<usize>, Vec<Vec<Option<f64>>>) {
        let rows = self.stage_rows();
        let has_value = |candidate: &usize| rows.iter().any(|row| row[*candidate].is_some());
        let present: Vec<usize> = self.active.iter().copied().filter(has_value).collect();
        let narrowed = rows.iter().map(|row| present.iter().map(|candidate| row[*candidate]).collect::<Vec<_>>());
        let rows = narrowed.filter(|row| row.iter().any(Option::is_some)).collect();
        (present, rows)
    }
}

/// The columns that leave at a look with this many blocks.
fn beaten(challengers: &[Challenger], below: f64, blocks: usize) -> Vec<usize> {
    let mut leaving: Vec<&Challenger> = challengers.iter().filter(|challenger| challenger.better < below).collect();
    let staying = challengers.len() - leaving.len();
    if blocks < SETTLED_FROM && staying < CHALLENGERS_MIN {
        // The two that look best stay, whoever else does.
        let mut ranked: Vec<&Challenger> = challengers.iter().collect();
        ranked.sort_by(|one, other| one.mean.total_cmp(&other.mean));
        let kept: Vec<usize> = ranked.iter().take(CHALLENGERS_MIN).map(|challenger| challenger.column).collect();
        leaving.retain(|challenger| !kept.contains(&challenger.column));
    }
    leaving.iter().map(|challenger| challenger.column).collect()
}

/// The logarithm of a metric, turned so that less is better; none unless it is finite and above 0.
fn signed_log(value: f64, better: Better) -> Option<f64> {
    let log = if better == Better::Lower { value.ln() } else { -value.ln() };
    (value > 0.0 && log.is_finite()).then_some(log)
}
