//! Decides which periods an experiment on a running service runs next, and what they prove. The state is a fold over the
//! periods, so that an experiment continues from the stored ones. Must not depend on how a period is run, or on the clock.

use std::time::Duration;

use super::plan::{WASH_OUT_STAGES, WASH_OUT_STEP, period_with};
use super::{FreshPairs, GuardViolation, LiveAnswer, LivePeriod, LivePhase, LivePlan};
use crate::stats::switchback::{
    ArmId, Block, BlockError, CarryOver, Halves, NextStep, NoClaim, Outcome, Phase, Schedule, Switch, Switchback,
    WashOut, WashOutRules, carry_over, wash_outs,
};
use crate::values::units::Nanos;

/// Relative deviation from the steady value that is allowed after the wash-out.
const TOLERANCE: f64 = 0.02;
/// Factor on the estimated wash-out: what remains of a slow reaction after it would bias the value by up to 1 %.
const WASH_OUT_MARGIN: f64 = 1.5;
/// Largest share of a period that a wash-out may have to be believed: the steady value is that of the rest.
const WASH_OUT_OF_PERIOD: f64 = 0.5;
/// Largest share of the budget in which the wash-out is measured.
const WASH_OUT_SHARE: f64 = 0.5;

/// The plan ignores the time of changes that take less than this on average, such as those of affinities alone.
const CHANGE_MIN: Duration = Duration::from_millis(500);

/// Next action of the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum LiveStep {
    Block(LiveBlock),
    Done(LiveAnswer),
}

/// Periods to run: one of each placement, in this order.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveBlock {
    /// Ordinal of the block, which its periods have.
    pub number: u32,
    pub phase: LivePhase,
    pub order: Vec<ArmId>,
    /// Length of each period, with its wash-out.
    pub length: Duration,
    /// Zero while it is measured.
    pub wash_out: Duration,
}

/// State of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveState {
    plan: LivePlan,
    periods: Vec<LivePeriod>,
    washing: WashingOut,
    /// `None` before the wash-out is known.
    compared: Option<Compared>,
    /// The block that is being run, and the time at which it began, in seconds.
    open: Option<(LiveBlock, f64)>,
    /// Number of blocks so far, complete or not.
    blocks: u32,
}

/// Measurement of the wash-out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct WashingOut {
    /// Index in [`WASH_OUT_STAGES`].
    stage: usize,
    /// Switches to each placement beyond those of the stage.
    more: usize,
    /// First period of the stage.
    from: usize,
    /// Number of blocks of the stage.
    blocks: u32,
}

/// Comparison of the placements after the wash-out.
#[derive(Clone, Debug, PartialEq)]
struct Compared {
    wash_out: Duration,
    /// Time that a change of the placement takes.
    change: Duration,
    switchback: Switchback,
}

impl LiveState {
    pub fn new(plan: LivePlan) -> Self {
        let washing = WashingOut::default();
        Self { plan, periods: Vec::new(), washing, compared: None, open: None, blocks: 0 }
    }

    /// Returns the state after these periods.
    ///
    /// # Errors
    /// If they are not those of an experiment with this plan.
    pub fn replay(plan: LivePlan, periods: impl IntoIterator<Item = LivePeriod>) -> Result<Self, BlockError> {
        let mut state = Self::new(plan);
        for period in periods {
            if state.open.as_ref().is_none_or(|(open, _)| open.number != period.block) {
                state.next_step(period.at_s);
            }
            state.push(period)?;
        }
        Ok(state)
    }

    pub fn periods(&self) -> &[LivePeriod] {
        &self.periods
    }

    /// Returns the end of the last period, in seconds since the begin.
    pub fn end_s(&self) -> f64 {
        self.periods.last().map_or(0.0, LivePeriod::end_s)
    }

    /// Returns the time after each switch that does not count; `None` before it is known.
    pub fn wash_out(&self) -> Option<Duration> {
        self.compared.as_ref().map(|compared| compared.wash_out)
    }

    /// Returns the length of a period with its wash-out; `None` before it is known.
    pub fn period(&self) -> Option<Duration> {
        self.compared.as_ref().map(|compared| period_with(compared.wash_out, compared.change))
    }

    pub fn switchback(&self) -> Option<&Switchback> {
        self.compared.as_ref().map(|compared| &compared.switchback)
    }

    pub fn violations(&self) -> impl Iterator<Item = &GuardViolation> {
        self.periods.iter().filter_map(|period| period.evidence.violation.as_ref())
    }

    /// Returns the next step at this time, in seconds since the begin: also the begin of its first period. An incomplete
    /// block does not count, because a guard was violated or the experiment was interrupted.
    pub fn next_step(&mut self, at_s: f64) -> LiveStep {
        let compared = self.compared.take();
        let step = match compared.map_or_else(|| self.wash_out_step(at_s), Ok) {
            Err(step) => step,
            Ok(mut compared) => {
                let step = self.compare_step(&mut compared, at_s);
                self.compared = Some(compared);
                step
            }
        };
        self.open = None;
        if let LiveStep::Block(block) = &step {
            self.blocks += 1;
            self.open = Some((block.clone(), at_s));
        }
        step
    }

    /// Adds the next period of the block that [`Self::next_step`] has returned.
    ///
    /// # Errors
    /// If it belongs to another block, or if its value cannot be compared.
    pub fn push(&mut self, period: LivePeriod) -> Result<(), BlockError> {
        let Some((open, _)) = &self.open else { return Err(BlockError::NotNext) };
        if (period.block, period.phase) != (open.number, open.phase) || !open.order.contains(&period.arm) {
            return Err(BlockError::NotNext);
        }
        let (number, length) = (open.number, open.order.len());
        self.periods.push(period);
        let Some(Compared { switchback, .. }) = &mut self.compared else { return Ok(()) };
        let of_block: Vec<&LivePeriod> =
            self.periods.iter().rev().take_while(|period| period.block == number).collect();
        let is_complete = of_block.len() == length && of_block.iter().all(|period| period.evidence.violation.is_none());
        let Some(phase) = of_block[0].phase.of_switchback().filter(|_| is_complete) else { return Ok(()) };
        let periods = of_block.iter().rev().map(|period| (period.arm, period.result())).collect();
        self.open = None;
        switchback.push(Block { phase, periods })
    }

    /// Returns the pairs of periods that count for the answer so far; `None` before the first of them, or if periods depend
    /// on the preceding ones.
    pub fn fresh_pairs(&self) -> Option<FreshPairs> {
        let switchback = self.switchback()?;
        let (arm, planned) = switchback.chosen()?;
        let (complete, change) = match switchback.fresh_change()? {
            Ok(change) => (change.blocks, Some(change)),
            Err(NoClaim::TooFewBlocks { complete, .. }) => (complete, None),
            Err(NoClaim::InvalidValue { .. } | NoClaim::OutOfRange) => return None,
        };
        self.carried_over().is_none().then_some(FreshPairs { arm, complete, planned, change })
    }

    /// Returns the arms that violated no guard, the baseline first.
    fn arms(&self) -> Vec<ArmId> {
        let withdrawn = self.withdrawn();
        (0..=self.plan.alternatives).map(ArmId).filter(|arm| !withdrawn.contains(arm)).collect()
    }

    /// Returns the alternatives that violated a guard.
    fn withdrawn(&self) -> Vec<ArmId> {
        self.violations().map(|violation| violation.arm).filter(|arm| *arm != ArmId::BASELINE).collect()
    }

    /// Switches between all placements until the wash-out of each is known, with longer periods if they are too short, and
    /// more of the longest periods that the budget has time for. Then the comparison begins.
    fn wash_out_step(&mut self, at_s: f64) -> Result<Compared, LiveStep> {
        let ((length, of_stage), arms) = (WASH_OUT_STAGES[self.washing.stage], self.arms());
        let needed = of_stage + self.washing.more;
        if arms.len() < 2 {
            return Err(LiveStep::Done(LiveAnswer::Ended(Outcome::NoAlternatives)));
        }
        let switches = self.switches();
        let has_enough = |arm: &ArmId| switches.iter().filter(|switch| switch.to == *arm).count() >= needed;
        let change = self.change();
        let minimum = self.plan.budget_min(change);
        if !change.is_zero() && minimum > self.plan.budget {
            let needed = Nanos(minimum.as_nanos() as u64);
            return Err(LiveStep::Done(LiveAnswer::BudgetTooShort { change_s: change.as_secs_f64(), needed }));
        }
        if !arms.iter().all(has_enough) {
            let order = Schedule { seed: self.plan.seed }.order(self.washing.blocks, &arms);
            self.washing.blocks += 1;
            return Err(self.block(LivePhase::WashOut, order, length, Duration::ZERO));
        }
        let longest = length.mul_f64(WASH_OUT_OF_PERIOD);
        if let Some(wash_out) = longest_wash_out(&switches, &arms).filter(|wash_out| *wash_out <= longest) {
            return Ok(self.begin_comparison(wash_out.mul_f64(WASH_OUT_MARGIN), at_s));
        }
        let limit_s = self.plan.budget.mul_f64(WASH_OUT_SHARE).as_secs_f64();
        let has_time = |(length, switches): (Duration, usize)| {
            at_s + (length + change).as_secs_f64() * (arms.len() * switches) as f64 <= limit_s
        };
        let (stage, half) = (self.washing.stage + 1, of_stage / 2);
        if WASH_OUT_STAGES.get(stage).is_some_and(|next| has_time(*next)) {
            self.washing = WashingOut { stage, more: 0, from: self.periods.len(), blocks: 0 };
        } else if has_time((length, half)) {
            self.washing.more += half;
        } else {
            return Err(LiveStep::Done(LiveAnswer::NotSettled { longest_period_s: length.as_secs_f64() }));
        }
        self.wash_out_step(at_s)
    }

    fn block(&self, phase: LivePhase, order: Vec<ArmId>, length: Duration, wash_out: Duration) -> LiveStep {
        LiveStep::Block(LiveBlock { number: self.blocks, phase, order, length, wash_out })
    }

    /// Returns the switches of this stage.
    fn switches(&self) -> Vec<Switch> {
        let changed = self.periods[self.washing.from..].iter().filter(|period| period.evidence.from != period.arm);
        let sampled = changed.filter(|period| period.evidence.violation.is_none());
        // Few switches have the same two placements: those to one are judged together.
        let switch = |period: &LivePeriod| Switch {
            from: other(period.arm),
            to: period.arm,
            samples: period.evidence.samples.clone(),
        };
        sampled.map(switch).collect()
    }

    /// Returns the mean duration of the changes so far, or zero if they are too short to be planned for.
    fn change(&self) -> Duration {
        let changed = self.periods.iter().filter(|period| period.evidence.from != period.arm);
        let seconds: Vec<f64> = changed.filter_map(|period| Some(period.evidence.change?.seconds)).collect();
        let mean = seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
        Some(Duration::from_secs_f64(mean)).filter(|change| *change >= CHANGE_MIN).unwrap_or_default()
    }

    /// Plans as many periods as the rest of the budget has.
    fn begin_comparison(&self, wash_out: Duration, at_s: f64) -> Compared {
        let change = self.change();
        let left_s = (self.plan.budget.as_secs_f64() - at_s).max(0.0);
        let periods_max = (left_s / (period_with(wash_out, change) + change).as_secs_f64()) as usize;
        Compared { wash_out, change, switchback: Switchback::new(self.plan.rules(periods_max)) }
    }

    fn compare_step(&self, compared: &mut Compared, at_s: f64) -> LiveStep {
        let Compared { wash_out, change, switchback } = compared;
        let period = period_with(*wash_out, *change);
        if let Some((_, began_s)) = self.open.as_ref().filter(|(open, _)| open.phase != LivePhase::WashOut) {
            switchback.lose(((at_s - began_s) / (period + *change).as_secs_f64()).ceil() as usize);
        }
        self.withdrawn().into_iter().for_each(|arm| switchback.withdraw(arm));
        match switchback.next_step() {
            NextStep::Done(outcome) => LiveStep::Done(self.answer(outcome)),
            NextStep::Block { phase, order } => self.block(phase.into(), order, period, *wash_out),
        }
    }

    /// Returns the answer, unless periods depend on the preceding ones.
    fn answer(&self, outcome: Outcome) -> LiveAnswer {
        match self.carried_over() {
            Some((arm, carry_over)) => LiveAnswer::CarriedOver { arm, carry_over },
            None => LiveAnswer::Ended(outcome),
        }
    }

    fn carried_over(&self) -> Option<(ArmId, CarryOver)> {
        let halves: Vec<Halves> = self.periods.iter().filter_map(LivePeriod::halves).collect();
        let tests = carry_over(&halves).into_iter().filter_map(|(arm, test)| Some((arm, test.ok()?)));
        tests.into_iter().find(|(_, carry_over)| carry_over.is_significant())
    }
}

impl LivePhase {
    fn of_switchback(self) -> Option<Phase> {
        match self {
            Self::WashOut => None,
            Self::Race => Some(Phase::Race),
            Self::Confirm => Some(Phase::Confirm),
        }
    }
}

/// Returns any other arm, as the origin of all switches to one.
fn other(arm: ArmId) -> ArmId {
    if arm == ArmId::BASELINE { ArmId(1) } else { ArmId::BASELINE }
}

/// Returns the longest wash-out of these placements, one step longer because samples have that length; `None` if one does
/// not settle.
fn longest_wash_out(switches: &[Switch], arms: &[ArmId]) -> Option<Duration> {
    let switches: Vec<Switch> = switches.iter().filter(|switch| arms.contains(&switch.to)).cloned().collect();
    let rules = WashOutRules { tolerance: TOLERANCE, step_s: WASH_OUT_STEP.as_secs_f64() };
    let settled = |wash_out: WashOut| match wash_out {
        WashOut::Settled { after_s } => Some(Duration::from_secs_f64(after_s) + WASH_OUT_STEP),
        WashOut::NotSettled { .. } | WashOut::TooFewSwitches { .. } => None,
    };
    let all: Option<Vec<Duration>> = wash_outs(&switches, &rules).into_values().map(settled).collect();
    all?.into_iter().max()
}
