//! The state of a race: the next block, the time limits, and the conclusions after each block. The same stored trials
//! in the same order always lead to the same state.

use std::collections::BTreeMap;

use crate::analysis::finding::metric_value;
use crate::stats::racing::{ConfirmPlan, Confirmation, End, Lap, Race, State, confirm, extend_plan};
use crate::values::plan::{NextBlock, Plan, RacePlan};
use crate::values::record::{EndReason, TrialRecord};
use crate::values::trial::{Grade, Role, TrialStatus};
use crate::values::units::Nanos;
use crate::values::workload::MetricSpec;

/// Maximum attempts per trial: an invalid or failed trial is repeated once at the end of its block.
const ATTEMPTS_MAX: u32 = 2;
/// Minimum number of pairs; fewer would not allow a conclusion.
const PAIRS_MIN: u32 = 3;
/// Minimum time before a trial is killed: a short disturbance of the machine takes many times as long as a short trial.
const KILLED_FROM: Nanos = Nanos(1_000_000_000);
/// Number of pairs that estimates assume.
const PAIRS_USUAL: u32 = 40;

/// The state of a race.
#[derive(Clone, Debug)]
pub struct RaceState<'a> {
    plan: &'a Plan,
    metric: &'a MetricSpec,
    race: Race,
    phase: Phase,
    spent: Nanos,
    trials: u32,
    /// Mean time of the trials of the last complete block.
    trial_time: Nanos,
    /// Fresh values of the leader and of the baseline.
    pairs: Vec<(f64, f64)>,
    /// The plan of the pairs, after all have run.
    confirmed: Option<ConfirmPlan>,
    /// Why the baseline failed before the race began.
    baseline_failed: Option<String>,
    /// Number of trials without a result.
    failed_trials: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// One discarded trial of the baseline, which warms caches and estimates the duration of a trial.
    WarmUp,
    Racing,
    /// Fresh pairs of the leader and the baseline; their number is fixed before the first. `from` is the number of
    /// earlier pairs that were too few for a conclusion: they only determine the number of pairs.
    Confirming {
        planned: ConfirmPlan,
        done: u32,
        from: u32,
    },
    Over(EndReason),
}

impl<'a> RaceState<'a> {
    /// Returns the state before the first block. `None` if the plan is not a race, or has no metric.
    pub fn new(plan: &'a Plan) -> Option<Self> {
        let RacePlan { rules, stages, .. } = plan.race.as_ref()?;
        let metric = plan.workloads.first()?.metrics.first()?;
        let race = Race::new(rules.clone(), metric.better, &stages.first, |guide| stages.second(guide));
        Some(Self {
            plan,
            metric,
            race,
            phase: Phase::WarmUp,
            spent: Nanos(0),
            trials: 0,
            trial_time: plan.workloads[0].guess(&plan.cells.first()?.parameters),
            pairs: Vec::new(),
            confirmed: None,
            baseline_failed: None,
            failed_trials: 0,
        })
    }

    /// Returns the state after the stored trials of a run, using its complete blocks.
    pub fn replay(plan: &'a Plan, trials: &[TrialRecord]) -> Option<Self> {
        let mut course = Self::new(plan)?;
        let mut blocks: BTreeMap<(Role, u32), Vec<&TrialRecord>> = BTreeMap::new();
        for record in trials {
            blocks.entry((record.trial.role, record.trial.block)).or_default().push(record);
        }
        while let Some(block) = course.next() {
            let records = blocks.remove(&(block.role, block.number)).unwrap_or_default();
            if !is_whole(&block, &records) {
                break;
            }
            course.push(&block, &records);
        }
        Some(course)
    }

    /// Returns the next block; `None` after the end.
    pub fn next(&self) -> Option<NextBlock> {
        let left = self.plan.repeat.budget.0.saturating_sub(self.spent.0);
        let time_limit = self.plan.repeat.time_limit.min(Nanos(left).max(KILLED_FROM));
        Some(match self.phase {
            Phase::WarmUp => NextBlock {
                role: Role::Warmup,
                number: 0,
                cells: vec![0],
                attempts_max: ATTEMPTS_MAX,
                skips_abandoned: false,
                time_limit,
                kill_limit: None,
            },
            Phase::Racing => NextBlock {
                role: Role::Measured,
                number: self.race.blocks(),
                cells: self.race.active().to_vec(),
                attempts_max: ATTEMPTS_MAX,
                skips_abandoned: false,
                time_limit,
                kill_limit: self.abort_limit(),
            },
            Phase::Confirming { done, from, .. } => NextBlock {
                role: Role::Confirm,
                number: from + done,
                cells: vec![0, self.race.leader()?],
                attempts_max: ATTEMPTS_MAX,
                skips_abandoned: false,
                time_limit,
                kill_limit: None,
            },
            Phase::Over(_) => return None,
        })
    }

    /// Adds a complete block.
    pub fn push(&mut self, block: &NextBlock, records: &[&TrialRecord]) {
        let took: u64 = records.iter().map(|record| record.outcome.took.0).sum();
        self.spent.0 += took;
        self.trials += records.len() as u32;
        self.failed_trials += records.iter().filter(|record| record.verdict.grade == Grade::Invalid).count() as u32;
        self.trial_time = Nanos(took / (records.len() as u64).max(1));
        let laps: Vec<(usize, Lap)> = block.cells.iter().map(|cell| (*cell, self.lap(*cell, records))).collect();
        match self.phase {
            Phase::WarmUp => self.warmed_up(&laps[0].1),
            Phase::Racing => self.raced(&laps),
            Phase::Confirming { planned, done, from } => self.paired(&laps, planned, done + 1, from),
            Phase::Over(_) => {}
        }
    }

    /// Ends the race from outside, on request of the user or after its time.
    pub fn end(&mut self, reason: End) {
        if self.phase == Phase::Racing {
            self.race.end(reason);
        }
    }

    fn warmed_up(&mut self, lap: &Lap) {
        // A command that fails without binding would fail under every placement.
        self.phase = Phase::Racing;
        if let Lap::Failed(reason) = lap {
            self.baseline_failed = Some(reason.clone());
            self.phase = Phase::Over(EndReason::NoReference);
        } else if self.block_time() + self.spent.seconds() > self.plan.repeat.budget.seconds() {
            self.race.end(End::Budget);
        }
        self.settle();
    }

    fn raced(&mut self, laps: &[(usize, Lap)]) {
        self.race.push(laps);
        if self.race.state() == State::Racing && self.is_spent() {
            self.race.end(End::Budget);
        }
        self.settle();
    }

    /// Begins the confirmation, or ends, after the race.
    fn settle(&mut self) {
        if self.phase != Phase::Racing || self.race.state() == State::Racing {
            return;
        }
        let ending = match self.race.state() {
            State::NoReference | State::NobodyLeft => EndReason::NoReference,
            state if state.is_resolved() => EndReason::Resolved,
            _ => EndReason::Budget,
        };
        let planned = self.affordable(self.race.planned());
        self.phase = match self.race.leader() {
            Some(leader) if leader != 0 && ending != EndReason::NoReference && planned.pairs >= PAIRS_MIN => {
                Phase::Confirming { planned, done: 0, from: 0 }
            }
            Some(leader) if leader != 0 && ending == EndReason::Resolved => Phase::Over(EndReason::Budget),
            _ => Phase::Over(ending),
        };
    }

    fn paired(&mut self, laps: &[(usize, Lap)], planned: ConfirmPlan, done: u32, from: u32) {
        // A pair with a missing value does not count and is not replaced.
        if let [(0, Lap::Value(kernel)), (_, Lap::Value(leader))] = laps {
            self.pairs.push((*leader, *kernel));
        }
        if done < planned.pairs {
            self.phase = Phase::Confirming { planned, done, from };
            return;
        }
        if let Some(planned) = self.extend_plan(planned).filter(|_| from == 0) {
            self.pairs.clear();
            self.phase = Phase::Confirming { planned, done: 0, from: done };
            return;
        }
        self.confirmed = Some(planned);
        let resolved = self.race.state().is_resolved();
        self.phase = Phase::Over(if resolved { EndReason::Resolved } else { EndReason::Budget });
    }

    /// Returns a second confirmation if the first was too small for a conclusion and the budget allows a larger one.
    fn extend_plan(&self, planned: ConfirmPlan) -> Option<ConfirmPlan> {
        let again = self.affordable(extend_plan(self.metric.better, &self.pairs, planned)?);
        (again.pairs > planned.pairs).then_some(again)
    }

    /// Returns the estimated time of a block of the active candidates, in seconds.
    fn block_time(&self) -> f64 {
        self.race.active().len() as f64 * self.trial_time.seconds()
    }

    /// Whether another block would use time that the confirmation needs. Budgets of trials are checked by the race.
    fn is_spent(&self) -> bool {
        let budget = self.plan.repeat.budget.seconds();
        // While the baseline leads, there is nothing to confirm.
        let reserve = match self.race.leader() {
            Some(0) => 0.0,
            _ => self.race.reserve(budget, self.trial_time.seconds()),
        };
        self.spent.seconds() + self.block_time() > budget - reserve
    }

    /// Limits the number of pairs to what the budget allows.
    fn affordable(&self, planned: ConfirmPlan) -> ConfirmPlan {
        let left = self.plan.repeat.budget.0.saturating_sub(self.spent.0);
        let by_time = left / (2 * self.trial_time.0).max(1);
        let most = self.plan.race.as_ref().and_then(|race| race.rules.max_trials);
        let by_trials = most.map_or(u64::MAX, |most| most.saturating_sub(self.trials as usize) as u64 / 2);
        let affordable = u32::try_from(by_time.min(by_trials)).unwrap_or(u32::MAX);
        ConfirmPlan { pairs: planned.pairs.min(affordable), ..planned }
    }

    /// Returns the time limit for trials that are much slower than the leader; `None` if the metric is not their time.
    fn abort_limit(&self) -> Option<Nanos> {
        let seconds = self.race.abort_limit().filter(|_| self.is_time())?;
        Some(Nanos((seconds * 1e9) as u64).max(KILLED_FROM))
    }

    fn is_time(&self) -> bool {
        self.metric.series == "wall"
    }

    /// Returns the outcome of a candidate in a block: that of its last attempt. If neither attempt has a result, the
    /// reason is that of the first, because the second may be a consequence of it.
    fn lap(&self, cell: usize, records: &[&TrialRecord]) -> Lap {
        let attempts = || records.iter().filter(|record| record.trial.cell == cell);
        let last = attempts().max_by_key(|record| record.trial.attempt);
        let first = attempts().min_by_key(|record| record.trial.attempt);
        let Some((first, last)) = first.zip(last) else { return Lap::Failed("no trial was run".into()) };
        match (&last.outcome.status, &first.outcome.status) {
            (TrialStatus::Completed, _) if last.verdict.grade != Grade::Invalid => {
                match metric_value(self.metric, &last.outcome.samples) {
                    Some(value) => Lap::Value(value),
                    None => Lap::Failed(format!("the output has no {}", self.metric.name)),
                }
            }
            // The baseline has the whole time limit, so a timeout means that the command does not end.
            (TrialStatus::TimedOut(_), _) if self.is_time() && cell != 0 => {
                Lap::TooSlow { at_least: last.trial.time_limit.seconds() }
            }
            (_, TrialStatus::Completed) => Lap::NotProven(first.verdict.reasons.first().cloned().unwrap_or_default()),
            (_, TrialStatus::Failed(reason) | TrialStatus::TimedOut(reason) | TrialStatus::Unavailable(reason)) => {
                Lap::Failed(reason.clone())
            }
        }
    }

    /// Returns the role of the next trials.
    pub fn stage(&self) -> Role {
        match self.phase {
            Phase::WarmUp => Role::Warmup,
            Phase::Racing => Role::Measured,
            Phase::Confirming { .. } | Phase::Over(_) => Role::Confirm,
        }
    }

    /// Returns the race without its confirmation.
    pub fn race(&self) -> &Race {
        &self.race
    }

    /// Returns the comparison of the leader with the baseline by fresh pairs. `None` before all of them have run, and
    /// if the baseline leads. `seed` is that of the bootstrap.
    pub fn confirmed(&self, seed: u64) -> Option<Confirmation> {
        confirm(self.metric.better, &self.pairs, self.confirmed?, seed)
    }

    /// Returns the number of completed pairs and of planned pairs; `None` before the race has ended.
    pub fn confirming(&self) -> Option<(u32, u32)> {
        match self.phase {
            Phase::Confirming { planned, done, .. } => Some((done, planned.pairs)),
            _ => None,
        }
    }

    /// Returns why the race has ended; `None` before the end.
    pub fn end_reason(&self) -> Option<EndReason> {
        match self.phase {
            Phase::Over(ending) => Some(ending),
            _ => None,
        }
    }

    /// Returns why the baseline failed before the race began; `None` if it did not fail.
    pub fn baseline_failed(&self) -> Option<&str> {
        self.baseline_failed.as_deref()
    }

    /// Returns the number of trials without a result in complete blocks.
    pub fn failed_trials(&self) -> u32 {
        self.failed_trials
    }

    pub fn metric(&self) -> &'a MetricSpec {
        self.metric
    }

    /// Returns the plan, whose cells are the candidates.
    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// Returns the total time of its trials.
    pub fn spent(&self) -> Nanos {
        self.spent
    }

    /// Returns the number of trials in complete blocks.
    pub fn trials(&self) -> u32 {
        self.trials
    }

    /// Estimates the number of remaining trials, limited by the budget.
    pub fn trials_left(&self) -> u32 {
        let guess = match self.phase {
            Phase::Confirming { planned, done, .. } => 2 * (planned.pairs - done),
            Phase::Over(_) => 0,
            Phase::WarmUp | Phase::Racing => {
                let whole = Race::estimate(self.race.active().len(), PAIRS_USUAL);
                whole.saturating_sub(self.race.active().len() * self.race.blocks() as usize) as u32
            }
        };
        let budget = self.plan.repeat.budget.0.saturating_sub(self.spent.0) / self.trial_time.0.max(1);
        guess.min(u32::try_from(budget).unwrap_or(u32::MAX))
    }

    /// Estimates the remaining time.
    pub fn time_left(&self) -> Nanos {
        Nanos(u64::from(self.trials_left()) * self.trial_time.0)
    }
}

/// Whether every cell of a block has its last attempt.
fn is_whole(block: &NextBlock, records: &[&TrialRecord]) -> bool {
    block.cells.iter().all(|cell| {
        let last = records.iter().filter(|record| record.trial.cell == *cell).max_by_key(|record| record.trial.attempt);
        last.is_some_and(|last| last.trial.attempt + 1 >= block.attempts_max || !last.is_retriable())
    })
}
