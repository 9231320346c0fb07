//! The state of a search: the next block, the time limits, and the conclusions after each block. The same stored trials
//! in the same order always lead to the same state.
//!
//! One discarded trial of the baseline is followed by blocks that a model chooses (`search`), by a race of the likely
//! best if the budget allows one, and by fresh pairs of the winner and the baseline. Plans without a search race all
//! candidates.

use std::collections::BTreeMap;

use super::block_result::{is_time, is_whole, results};
use super::forecast::BudgetForecast;
use super::placed_files::PlacedFiles;
use super::result::MeasuredValue;
use super::search::SearchStage;
use super::spending::{Division, PAIRS_MIN, Spending};
use super::tally::Tally;
use crate::stats::racing::{BlockResult, ConfirmPlan, Confirmation, End, Race, RankedCandidate, State};
use crate::stats::racing::{confirm_moderated, extend_plan, planned};
use crate::stats::search::{Outlook, RACE_AFTER, Rules};
use crate::stats::statistics::{CONFIDENCE, median_estimate};
use crate::values::plan::{KILLED_FROM, NextBlock, Plan, RacePlan, RaceRules};
use crate::values::record::{EndReason, TrialRecord};
use crate::values::trial::Role;
use crate::values::units::Nanos;
use crate::values::workload::{Better, MetricSpec};

/// Maximum attempts per trial: an invalid or failed trial is repeated once at the end of its block.
const ATTEMPTS_MAX: u32 = 2;
/// Maximum attempts of the warm-up trial, without which there is no search.
const WARMUP_ATTEMPTS_MAX: u32 = 3;
/// Number of pairs that estimates assume.
const PAIRS_USUAL: u32 = 40;
/// With at most this many candidates and at least this many trials, a race needs no search.
const RACED_AT_ONCE: usize = 20;
const RACED_AT_ONCE_FROM: u64 = 150;
/// A race follows a search only with this number of trials: three for each of twenty survivors.
const RACE_MIN: u64 = 60;
/// Number of survivors of a search; more if the budget allows it.
const SURVIVORS: usize = 20;
/// Relative precision of the confirmation that is sufficient for large differences.
const HALF_WIDTH_SHARE: f64 = 0.2;
/// Assumed standard deviation of a pair without any trial of the search.
const DEVIATION_GUESS: f64 = 0.05;

/// The state of a search.
#[derive(Clone, Debug)]
pub struct RaceState<'a> {
    plan: &'a Plan,
    race_plan: &'a RacePlan,
    metric: &'a MetricSpec,
    phase: Phase,
    spending: Spending,
    tally: Tally,
    placed_files: PlacedFiles,
    search: Option<SearchStage>,
    race: Option<Race>,
    /// The candidate that the pairs compare with the baseline.
    challenger: Option<usize>,
    /// Fresh values of the challenger and of the baseline.
    pairs: Vec<(f64, f64)>,
    /// Values of the metric in the search and the race, by cell.
    values: BTreeMap<usize, Vec<f64>>,
    /// The plan of the pairs, after all have run.
    confirmed: Option<ConfirmPlan>,
    /// Why the baseline failed before the search began.
    baseline_failed: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// One discarded trial of the baseline, which warms caches and estimates the duration of a trial.
    WarmUp,
    /// A block that the model has chosen.
    Searching(Vec<usize>),
    Racing,
    /// Fresh pairs of the challenger and the baseline; their number is fixed before the first. `from` is the number of
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
        let race_plan = plan.race.as_ref()?;
        let metric = plan.workloads.first()?.metrics.first()?;
        let guess = plan.workloads[0].guess(&plan.cells.first()?.parameters);
        let race = race_plan.search.is_none().then(|| whole(race_plan, race_plan.rules.clone(), metric.better));
        Some(Self {
            plan,
            race_plan,
            metric,
            phase: Phase::WarmUp,
            spending: Spending::new(plan.repeat.budget, race_plan.rules.max_trials, guess),
            tally: Tally::default(),
            placed_files: PlacedFiles::default(),
            search: None,
            race,
            challenger: None,
            pairs: Vec::new(),
            values: BTreeMap::new(),
            confirmed: None,
            baseline_failed: None,
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
            if records.is_empty() || !is_whole(&block, &records) {
                break;
            }
            course.push(&block, &records);
        }
        Some(course)
    }

    /// Returns the next block; `None` after the end.
    pub fn next(&self) -> Option<NextBlock> {
        let left = self.spending.left();
        let block = |role, number, cells| NextBlock {
            role,
            number,
            cells,
            attempts_max: ATTEMPTS_MAX,
            skips_abandoned: false,
            time_limit: self.plan.repeat.time_limit,
            kill_limit: None,
            time_left: Some(left),
        };
        Some(match &self.phase {
            Phase::WarmUp if self.race_plan.search.is_some() => {
                NextBlock { attempts_max: WARMUP_ATTEMPTS_MAX, ..block(Role::Warmup, 0, vec![0]) }
            }
            Phase::WarmUp => block(Role::Warmup, 0, vec![0]),
            Phase::Searching(cells) => NextBlock {
                kill_limit: self.abort_limit(),
                // The block may not use the time of the first three pairs.
                time_left: Some(self.division().until_pairs),
                ..block(Role::Measured, self.blocks(), cells.clone())
            },
            Phase::Racing => {
                let cells = self.race.as_ref()?.active().to_vec();
                NextBlock { kill_limit: self.abort_limit(), ..block(Role::Measured, self.blocks(), cells) }
            }
            Phase::Confirming { done, from, .. } => block(Role::Confirm, from + done, vec![0, self.challenger?]),
            Phase::Over(_) => return None,
        })
    }

    /// Adds a complete block.
    pub fn push(&mut self, block: &NextBlock, records: &[&TrialRecord]) {
        self.spending.add(records);
        self.tally.add(records);
        self.placed_files.add(records);
        if self.race_plan.places_files && self.placed_files.matter() {
            self.spending.reserve_for_files();
        }
        let results = results(self.metric, block, records);
        if matches!(self.phase, Phase::Searching(_) | Phase::Racing) {
            for (cell, result) in &results {
                if let BlockResult::Value(value) = result {
                    self.values.entry(*cell).or_default().push(*value);
                }
            }
        }
        match self.phase.clone() {
            Phase::WarmUp => self.warmed_up(results.into_iter().next().map(|(_, result)| result), records),
            Phase::Searching(_) => {
                if let Some(search) = &mut self.search {
                    search.push(&results);
                }
                self.continue_search();
            }
            Phase::Racing => self.raced(&results),
            Phase::Confirming { planned, done, from } => self.paired(&results, planned, done + 1, from),
            Phase::Over(_) => {}
        }
    }

    /// Ends the race from outside, on request of the user or after its time.
    pub fn end(&mut self, reason: End) {
        if let (Phase::Racing, Some(race)) = (&self.phase, &mut self.race) {
            race.end(reason);
        }
    }

    fn warmed_up(&mut self, result: Option<BlockResult>, records: &[&TrialRecord]) {
        match result {
            // The budget is shorter than one trial.
            None => self.phase = Phase::Over(EndReason::Budget),
            // A command that fails without binding would fail under every placement.
            Some(BlockResult::Failed(reason)) => {
                self.baseline_failed = Some(reason);
                self.phase = Phase::Over(EndReason::NoReference);
            }
            Some(_) => self.begin(records),
        }
    }

    /// Begins the search, or the race if it needs none.
    fn begin(&mut self, records: &[&TrialRecord]) {
        let candidates = self.plan.cells.len();
        let affordable = self.spending.affordable(self.spending.price(0));
        match &self.race_plan.search {
            Some(plan) if candidates > 2 && (candidates > RACED_AT_ONCE || affordable < RACED_AT_ONCE_FROM) => {
                self.search = Some(SearchStage::new(self.plan, plan, self.metric.better, records));
                self.continue_search();
            }
            _ => {
                let discarded = if self.uses_all_trials() { self.spending.trials } else { 0 };
                let mut race = whole(self.race_plan, self.rules_after(discarded), self.metric.better);
                self.phase = Phase::Racing;
                if self.block_time(&race) + self.spending.spent.seconds() > self.budget() {
                    race.end(End::Budget);
                }
                self.race = Some(race);
                self.settle();
            }
        }
    }

    /// Returns the rules of a race after this number of trials.
    fn rules_after(&self, trials: u32) -> RaceRules {
        let rules = self.race_plan.rules.clone();
        RaceRules { max_trials: rules.max_trials.map(|most| most.saturating_sub(trials as usize)), ..rules }
    }

    /// Whether all trials of the budget are used; plans of earlier versions left those that are too few for pairs.
    fn uses_all_trials(&self) -> bool {
        self.race_plan.search.as_ref().is_some_and(|search| Rules::of_version(search.version).uses_all_trials)
    }

    fn division(&self) -> Division {
        let leader = self.search.as_ref().and_then(SearchStage::leader).filter(|leader| *leader != 0);
        self.spending.divide(leader)
    }

    /// Chooses the next block of the search, or ends it.
    fn continue_search(&mut self) {
        let Some(search) = &self.search else { return };
        if search.state() == State::NoReference {
            self.phase = Phase::Over(EndReason::NoReference);
            return;
        }
        let Division { search: left, pairs, .. } = self.division();
        if left >= RACE_MIN && (search.has_ended() || search.trials() as usize >= RACE_AFTER) {
            self.begin_race(left);
            return;
        }
        let may_race = u64::from(search.trials()) + left >= RACE_AFTER as u64 + RACE_MIN;
        let trials = if may_race { left } else { search.worthwhile_trials(left, pairs) };
        let cells = search.next_block(trials);
        if cells.is_empty() {
            self.confirm();
        } else {
            self.phase = Phase::Searching(cells);
        }
    }

    /// Begins the race of the candidates that the search has left, with this number of trials.
    fn begin_race(&mut self, trials: u64) {
        let Some(search) = &self.search else { return };
        let rules = self.rules_after(self.spending.trials);
        let most = Race::candidates_for(usize::try_from(trials).unwrap_or(usize::MAX)).max(SURVIVORS);
        let cells = search.survivors(most);
        self.race = Some(Race::among(rules, self.metric.better, self.plan.cells.len(), cells));
        self.phase = Phase::Racing;
        self.settle();
    }

    fn raced(&mut self, results: &[(usize, BlockResult)]) {
        let Some(mut race) = self.race.take() else { return };
        race.push(results);
        if race.state() == State::Racing && self.is_spent(&race) {
            race.end(End::Budget);
        }
        self.race = Some(race);
        self.settle();
    }

    /// Begins the confirmation, or ends, after the race.
    fn settle(&mut self) {
        let Some(race) = &self.race else { return };
        if self.phase != Phase::Racing || race.state() == State::Racing {
            return;
        }
        let ending = match race.state() {
            State::NoReference | State::NobodyLeft => EndReason::NoReference,
            state if state.is_resolved() => EndReason::Resolved,
            _ => EndReason::Budget,
        };
        if ending != EndReason::NoReference && self.race_plan.search.is_some() {
            self.confirm();
            return;
        }
        let planned = self.affordable(race.planned());
        self.phase = match race.leader() {
            Some(leader)
                if leader != 0 && ending != EndReason::NoReference && u64::from(planned.pairs) >= PAIRS_MIN =>
            {
                self.challenger = Some(leader);
                Phase::Confirming { planned, done: 0, from: 0 }
            }
            Some(leader) if leader != 0 && ending == EndReason::Resolved => Phase::Over(EndReason::Budget),
            _ => Phase::Over(ending),
        };
    }

    /// Begins the pairs of the best candidate and the baseline, as many as the budget allows and the noise requires.
    fn confirm(&mut self) {
        self.challenger = match (&self.race, &self.search) {
            (Some(race), _) => challenger_of(race),
            (None, search) => search.as_ref().and_then(SearchStage::challenger),
        };
        let Some(challenger) = self.challenger else {
            self.phase = Phase::Over(self.ending());
            return;
        };
        let planned = match (&self.race, &self.search) {
            (Some(race), _) => race.planned_for(challenger),
            (None, Some(search)) => {
                let effect = search.outlook().predictions[challenger].mean.abs();
                let half_width = self.race_plan.rules.indifference.max(HALF_WIDTH_SHARE * effect);
                planned(search.pair_deviation().unwrap_or(DEVIATION_GUESS), half_width)
            }
            (None, None) => return,
        };
        let planned = self.affordable(planned);
        let is_too_small = u64::from(planned.pairs) < PAIRS_MIN;
        if is_too_small && self.continue_race() {
            return;
        }
        self.phase =
            if is_too_small { Phase::Over(self.ending()) } else { Phase::Confirming { planned, done: 0, from: 0 } };
    }

    /// Continues the race with the trials that are too few for fresh pairs; returns whether any block is left.
    fn continue_race(&mut self) -> bool {
        if !self.uses_all_trials() {
            return false;
        }
        let Some(mut race) = self.race.take() else { return false };
        race.use_reserve();
        if self.is_spent(&race) {
            race.end(End::Budget);
        }
        let continues = race.state() == State::Racing;
        if continues {
            self.phase = Phase::Racing;
        }
        self.race = Some(race);
        continues
    }

    fn ending(&self) -> EndReason {
        let is_resolved = self.race.as_ref().is_some_and(|race| race.state().is_resolved());
        if is_resolved { EndReason::Resolved } else { EndReason::Budget }
    }

    fn paired(&mut self, results: &[(usize, BlockResult)], planned: ConfirmPlan, done: u32, from: u32) {
        // A pair with a missing value does not count and is not replaced.
        if let [(0, BlockResult::Value(kernel)), (_, BlockResult::Value(leader))] = results {
            self.pairs.push((*leader, *kernel));
        }
        // The pairs may take longer than planned; the budget ends them.
        let can_pay = self.challenger.is_some_and(|challenger| self.spending.affordable_pairs(challenger) > 0);
        if done < planned.pairs && can_pay {
            self.phase = Phase::Confirming { planned, done, from };
            return;
        }
        if let Some(planned) = self.extend_plan(planned).filter(|_| from == 0) {
            self.pairs.clear();
            self.phase = Phase::Confirming { planned, done: 0, from: done };
            return;
        }
        self.confirmed = Some(planned);
        self.phase = Phase::Over(self.ending());
    }

    /// Returns a second confirmation if the first was too small for a conclusion and the budget allows a larger one.
    fn extend_plan(&self, planned: ConfirmPlan) -> Option<ConfirmPlan> {
        let again = self.affordable(extend_plan(self.metric.better, &self.pairs, planned)?);
        (again.pairs > planned.pairs).then_some(again)
    }

    /// Returns the estimated time of a block of the active candidates, in seconds.
    fn block_time(&self, race: &Race) -> f64 {
        if self.race_plan.search.is_none() {
            return race.active().len() as f64 * self.spending.trial_time.seconds();
        }
        race.active().iter().map(|cell| self.spending.price(*cell).seconds()).sum()
    }

    /// Whether another block would use time that the confirmation needs. Budgets of trials are checked by the race.
    fn is_spent(&self, race: &Race) -> bool {
        // While the baseline leads a race without a search, there is nothing to confirm.
        let reserve = match race.leader() {
            Some(0) if self.race_plan.search.is_none() => 0.0,
            _ => race.reserve(self.budget(), self.spending.trial_time.seconds()),
        };
        self.spending.spent.seconds() + self.block_time(race) > self.budget() - reserve
    }

    fn budget(&self) -> f64 {
        self.spending.budget().seconds()
    }

    /// Limits the number of pairs to what the budget allows.
    fn affordable(&self, planned: ConfirmPlan) -> ConfirmPlan {
        let most = match self.race_plan.search {
            Some(_) => self.spending.affordable_pairs(self.challenger.unwrap_or(0)),
            None => self.spending.affordable(self.spending.trial_time) / 2,
        };
        ConfirmPlan { pairs: planned.pairs.min(u32::try_from(most).unwrap_or(u32::MAX)), ..planned }
    }

    /// Returns the time limit for trials that are much slower than the leader; `None` if the metric is not their time.
    fn abort_limit(&self) -> Option<Nanos> {
        let of_race = self.race.as_ref().and_then(Race::abort_limit);
        let of_search = || self.search.as_ref()?.abort_limit();
        let seconds = of_race.or_else(of_search).filter(|_| is_time(self.metric))?;
        Some(Nanos((seconds * 1e9) as u64).max(KILLED_FROM))
    }

    /// Returns the role of the next trials.
    pub fn stage(&self) -> Role {
        match self.phase {
            Phase::WarmUp => Role::Warmup,
            Phase::Searching(_) | Phase::Racing => Role::Measured,
            Phase::Confirming { .. } | Phase::Over(_) => Role::Confirm,
        }
    }

    /// Returns the race without its confirmation; `None` before it begins, and if the search is not followed by one.
    pub fn race(&self) -> Option<&Race> {
        self.race.as_ref()
    }

    pub(super) fn search(&self) -> Option<&SearchStage> {
        self.search.as_ref()
    }

    /// Returns the predictions of the search after all of its trials, those of the confirmation included. `None` without a
    /// search, and without pairs.
    pub(super) fn outlook_after_pairs(&self, winner: usize) -> Option<Outlook> {
        let challenger = self.challenger.filter(|_| !self.pairs.is_empty())?;
        Some(self.search.as_ref()?.outlook_after(challenger, &self.pairs, winner))
    }

    /// Returns the median of a candidate in the search and the race, or else in the fresh pairs, in the unit of the metric;
    /// `None` without a value.
    pub(super) fn measured(&self, cell: usize) -> Option<MeasuredValue> {
        let values = self.values.get(&cell).cloned().or_else(|| self.paired_values(cell))?;
        let estimate = median_estimate(&values, CONFIDENCE)?;
        let (ci_low, ci_high) = estimate.interval.map(|interval| (interval.low, interval.high)).unzip();
        Some(MeasuredValue { median: estimate.value, ci_low, ci_high, trials: values.len() })
    }

    /// Returns the values of a candidate in the fresh pairs; `None` if it is not in them.
    fn paired_values(&self, cell: usize) -> Option<Vec<f64>> {
        let value: fn(&(f64, f64)) -> f64 = match cell {
            0 => |pair| pair.1,
            cell if self.challenger == Some(cell) => |pair| pair.0,
            _ => return None,
        };
        Some(self.pairs.iter().map(value).collect())
    }

    /// Returns the state of the race, or else of the search.
    pub fn search_state(&self) -> State {
        let of_search = || self.search.as_ref().map_or(State::Racing, SearchStage::state);
        match self.race.as_ref().map_or_else(of_search, Race::state) {
            State::Racing if matches!(self.phase, Phase::Confirming { .. } | Phase::Over(EndReason::Budget)) => {
                State::OutOfBudget
            }
            state => state,
        }
    }

    /// Returns the ranking of the race. Empty without a race.
    pub fn standings(&self) -> Vec<RankedCandidate> {
        self.race.as_ref().map(Race::standings).unwrap_or_default()
    }

    /// Returns the best candidate so far: of the race, or else of the search.
    pub fn leader(&self) -> Option<usize> {
        let of_search = || self.search.as_ref().and_then(SearchStage::leader);
        self.race.as_ref().and_then(Race::leader).or_else(of_search)
    }

    /// Returns the candidate that fresh pairs compare with the baseline; `None` before.
    pub fn challenger(&self) -> Option<usize> {
        self.challenger
    }

    /// Number of complete blocks of the search and of the race.
    pub fn blocks(&self) -> u32 {
        self.search.as_ref().map_or(0, SearchStage::blocks) + self.race.as_ref().map_or(0, Race::blocks)
    }

    /// Number of candidates of the race that are left; `None` without a race.
    pub fn candidates_left(&self) -> Option<usize> {
        self.race.as_ref().map(|race| race.active().len())
    }

    /// Returns the comparison of the challenger with the baseline by fresh pairs. `None` before all of them have run,
    /// and without a challenger. `seed` is that of the bootstrap.
    pub fn confirmed(&self, seed: u64) -> Option<Confirmation> {
        // After a race there are enough pairs.
        let search = self.search.as_ref().filter(|_| self.race.is_none());
        let deviation = search.and_then(SearchStage::pair_deviation);
        confirm_moderated(self.metric.better, &self.pairs, self.confirmed?, seed, deviation)
    }

    /// Returns the number of completed pairs and of planned pairs; `None` unless they are running.
    pub fn confirming(&self) -> Option<(u32, u32)> {
        match self.phase {
            Phase::Confirming { planned, done, .. } => Some((done, planned.pairs)),
            _ => None,
        }
    }

    /// Returns why the search has ended; `None` before the end.
    pub fn end_reason(&self) -> Option<EndReason> {
        match self.phase {
            Phase::Over(ending) => Some(ending),
            _ => None,
        }
    }

    /// Returns why the baseline failed before the search began; `None` if it did not fail.
    pub fn baseline_failed(&self) -> Option<&str> {
        self.baseline_failed.as_deref()
    }

    pub(super) fn placed_files(&self) -> &PlacedFiles {
        &self.placed_files
    }

    /// Returns the expected time of a trial of a cell.
    pub(super) fn price(&self, cell: usize) -> Nanos {
        self.spending.price(cell)
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
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
        self.spending.spent
    }

    /// Returns the number of trials in complete blocks.
    pub fn trials(&self) -> u32 {
        self.spending.trials
    }

    /// Returns the forecast from the warm-up trial; `None` before it, and if it failed.
    pub fn forecast(&self) -> Option<BudgetForecast> {
        let has_begun = self.spending.trials > 0 && self.baseline_failed.is_none();
        has_begun.then(|| BudgetForecast::new(self.plan, &self.spending, self.spending.price(0)))
    }

    /// Estimates the number of remaining trials, limited by the budget.
    pub fn trials_left(&self) -> u32 {
        let affordable = self.spending.affordable(self.spending.trial_time);
        let guess = match (&self.phase, &self.race) {
            (Phase::Confirming { planned, done, .. }, _) => u64::from(2 * (planned.pairs - done)),
            (Phase::Over(_), _) => 0,
            (_, Some(race)) => {
                let whole = Race::estimate(race.active().len(), PAIRS_USUAL);
                whole.saturating_sub(race.active().len() * race.blocks() as usize) as u64
            }
            (_, None) => firm_trials(self.plan.cells.len()) as u64,
        };
        u32::try_from(guess.min(affordable)).unwrap_or(u32::MAX)
    }

    /// Estimates the remaining time.
    pub fn time_left(&self) -> Nanos {
        Nanos(u64::from(self.trials_left()) * self.spending.trial_time.0)
    }
}

/// Returns the race of all candidates, in one or two stages.
fn whole(plan: &RacePlan, rules: RaceRules, better: Better) -> Race {
    let stages = &plan.stages;
    Race::new(rules, better, &stages.first, |guide| stages.second(guide))
}

/// Returns the candidate to compare with the baseline: the leader or, if the baseline leads, the best other one that
/// has run.
fn challenger_of(race: &Race) -> Option<usize> {
    let leader = race.leader()?;
    let best_other = || {
        let standings = race.standings();
        let ran = standings.into_iter().find(|one| one.candidate != 0 && one.effect.is_some());
        ran.map(|one| one.candidate)
    };
    if leader == 0 { best_other() } else { Some(leader) }
}

/// Returns the number of trials after which no other candidate is usually likely to be better than the winner.
pub fn firm_trials(candidates: usize) -> usize {
    let search = if candidates > RACED_AT_ONCE { RACE_AFTER } else { 0 };
    search + Race::estimate(candidates.min(SURVIVORS), PAIRS_USUAL)
}
