//! The course of a race: which block runs next, until when, and what is known after each. Fed with stored trials in
//! their order it comes to the same state, whether they ran just now or last week.

use std::collections::BTreeMap;

use crate::analysis::finding::metric_value;
use crate::analysis::place::RacePlan;
use crate::stats::racing::{ConfirmPlan, Confirmation, End, Lap, Race, State, confirm, extend_plan};
use crate::values::plan::{NextBlock, Plan};
use crate::values::record::{EndReason, TrialRecord};
use crate::values::trial::{Grade, Role, TrialStatus};
use crate::values::units::Nanos;
use crate::values::workload::MetricSpec;

/// A trial that is invalid or failed is repeated once at the end of its block (racing.md, "The algorithm").
const ATTEMPTS_MAX: u32 = 2;
/// Fewer pairs than this say nothing, so they are not run.
const PAIRS_MIN: u32 = 3;
/// No trial is killed before this: a moment's hiccup of the machine is many times a short trial.
const KILLED_FROM: Nanos = Nanos(1_000_000_000);
/// How many pairs an estimate counts on.
const PAIRS_USUAL: u32 = 40;

/// How far a race is.
#[derive(Clone, Debug)]
pub struct RaceState<'a> {
    plan: &'a Plan,
    metric: &'a MetricSpec,
    race: Race,
    phase: Phase,
    spent: Nanos,
    trials: u32,
    /// Mean time of the trials of the last whole block.
    trial_time: Nanos,
    /// Values of the leader and of the kernel's choice, fresh.
    pairs: Vec<(f64, f64)>,
    /// What was planned of the pairs, when all have run.
    confirmed: Option<ConfirmPlan>,
    /// Why the kernel's choice failed before the race began.
    baseline_failed: Option<String>,
    /// Trials that gave no result.
    failed_trials: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// One trial of the kernel's choice, thrown away: it warms caches and tells how long a trial takes.
    WarmUp,
    Racing,
    /// Fresh pairs of the leader and the kernel's choice; their number is fixed before the first.
    /// `from` pairs were run before and are no part of it: they were too few to tell, so they only say how many it takes.
    Confirming {
        planned: ConfirmPlan,
        done: u32,
        from: u32,
    },
    Over(EndReason),
}

impl<'a> RaceState<'a> {
    /// Before the first block. None when the plan is no race, or has no metric.
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

    /// What a run's stored trials have come to: every whole block of them.
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

    /// The block to run next; none when the race is over.
    pub fn next(&self) -> Option<NextBlock> {
        let left = self.plan.repeat.budget.0.saturating_sub(self.spent.0);
        let time_limit = self.plan.repeat.time_limit.min(Nanos(left).max(KILLED_FROM));
        Some(match self.phase {
            Phase::WarmUp => NextBlock {
                role: Role::Warmup,
                number: 0,
                cells: vec![0],
                attempts_max: ATTEMPTS_MAX,
                gives_up: false,
                time_limit,
                kill_limit: None,
            },
            Phase::Racing => NextBlock {
                role: Role::Measured,
                number: self.race.blocks(),
                cells: self.race.active().to_vec(),
                attempts_max: ATTEMPTS_MAX,
                gives_up: false,
                time_limit,
                kill_limit: self.abort_limit(),
            },
            Phase::Confirming { done, from, .. } => NextBlock {
                role: Role::Confirm,
                number: from + done,
                cells: vec![0, self.race.leader()?],
                attempts_max: ATTEMPTS_MAX,
                gives_up: false,
                time_limit,
                kill_limit: None,
            },
            Phase::Over(_) => return None,
        })
    }

    /// Takes in a whole block.
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

    /// Ends it where it is: the user's wish, or time.
    pub fn end(&mut self, why: End) {
        if self.phase == Phase::Racing {
            self.race.end(why);
        }
    }

    fn warmed_up(&mut self, lap: &Lap) {
        // A command that fails by itself would fail under every placement.
        self.phase = Phase::Racing;
        if let Lap::Failed(why) = lap {
            self.baseline_failed = Some(why.clone());
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

    /// What comes after the race, once it is over.
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
        // A pair with a hole does not count, and is not made up for.
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

    /// A second confirmation where the first was too small to tell and the budget pays for a larger one.
    fn extend_plan(&self, planned: ConfirmPlan) -> Option<ConfirmPlan> {
        let again = self.affordable(extend_plan(self.metric.better, &self.pairs, planned)?);
        (again.pairs > planned.pairs).then_some(again)
    }

    /// What a block of those still in takes, in seconds.
    fn block_time(&self) -> f64 {
        self.race.active().len() as f64 * self.trial_time.seconds()
    }

    /// Whether another block would take time that the confirmation needs. The race itself counts trials.
    fn is_spent(&self) -> bool {
        let budget = self.plan.repeat.budget.seconds();
        // While the kernel's choice leads there is nothing to confirm.
        let reserve = match self.race.leader() {
            Some(0) => 0.0,
            _ => self.race.reserve(budget, self.trial_time.seconds()),
        };
        self.spent.seconds() + self.block_time() > budget - reserve
    }

    /// As many pairs as the budget pays.
    fn affordable(&self, planned: ConfirmPlan) -> ConfirmPlan {
        let left = self.plan.repeat.budget.0.saturating_sub(self.spent.0);
        let by_time = left / (2 * self.trial_time.0).max(1);
        let most = self.plan.race.as_ref().and_then(|race| race.rules.max_trials);
        let by_trials = most.map_or(u64::MAX, |most| most.saturating_sub(self.trials as usize) as u64 / 2);
        let affordable = u32::try_from(by_time.min(by_trials)).unwrap_or(u32::MAX);
        ConfirmPlan { pairs: planned.pairs.min(affordable), ..planned }
    }

    /// A trial so much slower than the leader's is stopped; only where the metric is the time that it takes.
    fn abort_limit(&self) -> Option<Nanos> {
        let seconds = self.race.abort_limit().filter(|_| self.is_time())?;
        Some(Nanos((seconds * 1e9) as u64).max(KILLED_FROM))
    }

    fn is_time(&self) -> bool {
        self.metric.series == "wall"
    }

    /// What a candidate did in a block: what its last attempt came to. Where that is nothing, the first attempt says why:
    /// the second may only have stumbled over what the first left behind.
    fn lap(&self, cell: usize, records: &[&TrialRecord]) -> Lap {
        let attempts = || records.iter().filter(|record| record.trial.cell == cell);
        let last = attempts().max_by_key(|record| record.trial.attempt);
        let first = attempts().min_by_key(|record| record.trial.attempt);
        let Some((first, last)) = first.zip(last) else { return Lap::Failed("it did not run".into()) };
        match (&last.outcome.status, &first.outcome.status) {
            (TrialStatus::Completed, _) if last.verdict.grade != Grade::Invalid => {
                match metric_value(self.metric, &last.outcome.samples) {
                    Some(value) => Lap::Value(value),
                    None => Lap::Failed(format!("it gave no {}", self.metric.name)),
                }
            }
            // The kernel's choice has the whole time limit: what does not end in that does not end.
            (TrialStatus::TimedOut(_), _) if self.is_time() && cell != 0 => {
                Lap::TooSlow { at_least: last.trial.time_limit.seconds() }
            }
            (_, TrialStatus::Completed) => Lap::NotProven(first.verdict.reasons.first().cloned().unwrap_or_default()),
            (_, TrialStatus::Failed(why) | TrialStatus::TimedOut(why) | TrialStatus::Unavailable(why)) => {
                Lap::Failed(why.clone())
            }
        }
    }

    /// What its next trials count for.
    pub fn stage(&self) -> Role {
        match self.phase {
            Phase::WarmUp => Role::Warmup,
            Phase::Racing => Role::Measured,
            Phase::Confirming { .. } | Phase::Over(_) => Role::Confirm,
        }
    }

    /// The race without its confirmation.
    pub fn race(&self) -> &Race {
        &self.race
    }

    /// What fresh pairs say of the leader against the kernel's choice; none before all of them have run, and where the
    /// kernel's choice leads. `seed` is the bootstrap's.
    pub fn confirmed(&self, seed: u64) -> Option<Confirmation> {
        confirm(self.metric.better, &self.pairs, self.confirmed?, seed)
    }

    /// How many pairs are run, of how many; none before the race is over.
    pub fn confirming(&self) -> Option<(u32, u32)> {
        match self.phase {
            Phase::Confirming { planned, done, .. } => Some((done, planned.pairs)),
            _ => None,
        }
    }

    /// Why it is over; none while it is not.
    pub fn end_reason(&self) -> Option<EndReason> {
        match self.phase {
            Phase::Over(ending) => Some(ending),
            _ => None,
        }
    }

    /// Why the kernel's choice failed before the race began; none when it did not.
    pub fn baseline_failed(&self) -> Option<&str> {
        self.baseline_failed.as_deref()
    }

    /// Trials of its whole blocks that gave no result.
    pub fn failed_trials(&self) -> u32 {
        self.failed_trials
    }

    pub fn metric(&self) -> &'a MetricSpec {
        self.metric
    }

    /// The candidates are its cells.
    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// Time that its trials took together.
    pub fn spent(&self) -> Nanos {
        self.spent
    }

    /// Trials of its whole blocks.
    pub fn trials(&self) -> u32 {
        self.trials
    }

    /// Trials that are still to come, roughly, and at most what the budget pays.
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

    /// Time that is still to come, roughly.
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
