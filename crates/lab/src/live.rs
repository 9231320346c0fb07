//! Runs an experiment on a running service: measures the wash-out of its metric, then compares placements by switchback
//! (`model::stats::switchback`). Must not depend on how the service is placed or measured.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::analysis::live::{GuardViolation, LiveAnswer, LivePeriod, LivePhase};
use model::stats::racing::INDIFFERENCE;
use model::stats::switchback::{
    ArmId, Block, CarryOver, Halves, NextStep, Outcome, PeriodResult, Phase, Rules, Schedule, Switch, SwitchSample,
    Switchback, WashOut, WashOutRules, carry_over, wash_outs,
};
use model::values::workload::Better;

use guards::{Early, Interrupted, Step};
pub use guards::{GuardState, Violated};

/// Relative deviation from the steady rate that is allowed after the wash-out.
const TOLERANCE: f64 = 0.02;
/// Interval between readings of the counter while the wash-out is measured.
const STEP: Duration = Duration::from_millis(100);
/// Lengths of the periods in which the wash-out is measured, and switches to each placement from which it is estimated: the
/// next ones if the rate does not settle. Long periods are expensive, so that they have fewer.
const WASH_OUT_PERIODS: [(Duration, usize); 3] =
    [(Duration::from_secs(2), 20), (Duration::from_secs(4), 12), (Duration::from_secs(8), 12)];
/// Factor on the estimated wash-out: what remains of a slow reaction after it would bias the rate by up to 1 %.
const WASH_OUT_MARGIN: f64 = 1.5;
/// Largest share of a period that a wash-out may have to be believed: the steady rate is that of the rest.
const WASH_OUT_OF_PERIOD: f64 = 0.5;
/// Largest share of the budget in which the wash-out is measured.
const WASH_OUT_SHARE: f64 = 0.5;
/// Maximum interval between checks of the guards.
const GUARD_STEP: Duration = Duration::from_millis(50);
/// Time within which the guards must be known before the first change.
const GUARDS_KNOWN: Duration = Duration::from_secs(5);
/// Shortest time that counts in a period. Pairs of periods of one second have the narrowest intervals.
const MEASURED_MIN: Duration = Duration::from_secs(1);

/// A reading of the metric. The value between two readings is the growth of the total per growth of the base.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    pub total: f64,
    /// Seconds, or units of work.
    pub base: f64,
}

/// A running service with a metric and guards.
pub trait LiveService {
    /// Places the service.
    ///
    /// # Errors
    /// Why this is not possible; the experiment then ends.
    fn place(&mut self, arm: ArmId) -> Result<(), String>;

    /// Checks that the service has had a placement until now.
    ///
    /// # Errors
    /// Description of a thread with another placement; the period then does not count.
    fn verify(&mut self, arm: ArmId) -> Result<(), String>;

    /// Reads the metric.
    ///
    /// # Errors
    /// Why it cannot be read; the experiment then ends.
    fn read(&mut self) -> Result<Reading, String>;

    /// Returns whether the guards hold, as far as it was seen since the last placement.
    fn guards(&mut self) -> GuardState {
        GuardState::Hold
    }

    /// Returns the time since any fixed moment.
    fn now(&self) -> Duration;

    /// Waits until a time.
    fn wait_until(&mut self, time: Duration);
}

/// Number of placements and duration of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct LivePlan {
    /// Number of placements besides the one that was found.
    pub alternatives: u32,
    pub seed: u64,
    pub budget: Duration,
    pub better: Better,
}

/// Result of an experiment; the caller adds names.
pub struct LiveRun {
    pub seconds: f64,
    pub wash_out: Option<Duration>,
    pub period: Option<Duration>,
    pub periods: Vec<LivePeriod>,
    pub violations: Vec<GuardViolation>,
    pub switchback: Option<Switchback>,
    pub answer: LiveAnswer,
}

/// State of an experiment, for display.
pub struct LiveProgress {
    pub phase: LivePhase,
    pub elapsed: Duration,
    /// Length of a period, with its wash-out.
    pub period: Duration,
    pub periods: usize,
}

/// Receives the state after each block.
pub type Observer<'a> = dyn FnMut(&LiveProgress) + 'a;

impl LivePlan {
    /// Returns the shortest budget with which an experiment can make a claim, if the rate settles at once.
    pub fn budget_min(&self) -> Duration {
        let rules = self.rules(0);
        let (period, switches) = WASH_OUT_PERIODS[0];
        let wash_out = period * (self.alternatives + 1) * (2 * switches as u32);
        wash_out + (MEASURED_MIN + STEP) * rules.periods_min() as u32
    }

    fn rules(&self, periods_max: usize) -> Rules {
        Rules {
            seed: self.seed,
            alternatives: self.alternatives,
            better: self.better,
            periods_max,
            half_width: INDIFFERENCE,
        }
    }
}

/// Compares the placements of a service. The caller restores the placement afterwards, however this ends.
pub fn run(service: &mut dyn LiveService, plan: &LivePlan, stop: &AtomicBool, observe: &mut Observer<'_>) -> LiveRun {
    let began = service.now();
    let mut experiment = Experiment {
        service,
        plan,
        stop,
        observe,
        began,
        previous: ArmId::BASELINE,
        wash_out: None,
        period: None,
        periods: Vec::new(),
        violations: Vec::new(),
        violated_baselines: 0,
        switchback: None,
        halves: Vec::new(),
    };
    let answer = experiment.run().unwrap_or_else(|answer| answer);
    let seconds = experiment.elapsed().as_secs_f64();
    let Experiment { wash_out, period, periods, violations, switchback, .. } = experiment;
    LiveRun { seconds, wash_out, period, periods, violations, switchback, answer }
}

struct Experiment<'a, 'b> {
    service: &'a mut dyn LiveService,
    plan: &'a LivePlan,
    stop: &'a AtomicBool,
    observe: &'a mut Observer<'b>,
    began: Duration,
    /// Placement of the preceding period.
    previous: ArmId,
    wash_out: Option<Duration>,
    period: Option<Duration>,
    periods: Vec<LivePeriod>,
    violations: Vec<GuardViolation>,
    /// Successive periods of the placement found in which a guard was violated.
    violated_baselines: u32,
    switchback: Option<Switchback>,
    halves: Vec<Halves>,
}

fn stopped(reason: impl Into<String>) -> LiveAnswer {
    LiveAnswer::Stopped { reason: reason.into() }
}

impl Experiment<'_, '_> {
    fn run(&mut self) -> Early<LiveAnswer> {
        self.wait_for_guards(GUARDS_KNOWN)?;
        let wash_out = self.measure_wash_out()?;
        let measured = MEASURED_MIN.max(wash_out);
        let period = wash_out + measured;
        (self.wash_out, self.period) = (Some(wash_out), Some(period));
        let left = self.plan.budget.saturating_sub(self.elapsed());
        let periods_max = (left.as_secs_f64() / period.as_secs_f64()) as usize;
        let mut switchback = Switchback::new(self.plan.rules(periods_max));
        loop {
            // Here, because guards may have been violated while the wash-out was measured.
            self.withdrawn().into_iter().for_each(|arm| switchback.withdraw(arm));
            self.switchback = Some(switchback.clone());
            match switchback.next_step() {
                NextStep::Done(outcome) => return Ok(self.answer(outcome)),
                NextStep::Block { phase, order } => {
                    let began = self.elapsed();
                    match self.block(phase, &order, wash_out, measured)? {
                        Some(block) => switchback.push(block).map_err(|error| stopped(error.to_string()))?,
                        None => switchback.lose(periods_in(self.elapsed().saturating_sub(began), period)),
                    }
                    self.report(phase.into(), period);
                }
            }
        }
    }

    fn elapsed(&self) -> Duration {
        self.service.now().saturating_sub(self.began)
    }

    fn report(&mut self, phase: LivePhase, period: Duration) {
        let (elapsed, periods) = (self.elapsed(), self.periods.len());
        (self.observe)(&LiveProgress { phase, elapsed, period, periods });
    }

    /// Switches between all placements until the wash-out of each is known, with longer periods if they are too short.
    fn measure_wash_out(&mut self) -> Early<Duration> {
        let limit = self.plan.budget.mul_f64(WASH_OUT_SHARE);
        let mut longest = Duration::ZERO;
        for (period, switches) in WASH_OUT_PERIODS {
            let needed = period * self.arms().len() as u32 * switches as u32;
            if !longest.is_zero() && self.elapsed() + needed > limit {
                break;
            }
            longest = period;
            let wash_out = longest_wash_out(&self.switches(period, switches)?);
            if let Some(wash_out) = wash_out.filter(|wash_out| *wash_out <= period.mul_f64(WASH_OUT_OF_PERIOD)) {
                return Ok(wash_out.mul_f64(WASH_OUT_MARGIN));
            }
        }
        Err(LiveAnswer::NotSettled { longest_period_s: longest.as_secs_f64() })
    }

    /// Records at least `needed` switches to each placement, in random order. Placements that violate a guard leave.
    fn switches(&mut self, period: Duration, needed: usize) -> Early<Vec<Switch>> {
        let schedule = Schedule { seed: self.plan.seed };
        let mut switches: Vec<Switch> = Vec::new();
        let count = |switches: &[Switch], arm: ArmId| switches.iter().filter(|switch| switch.to == arm).count();
        for block in 0.. {
            let arms = self.arms();
            if arms.len() < 2 {
                return Err(LiveAnswer::Ended(Outcome::NoAlternatives));
            }
            if arms.iter().all(|arm| count(&switches, *arm) >= needed) {
                break;
            }
            for arm in schedule.order(block, &arms) {
                let from = self.previous;
                let samples = self.sampled_period(arm, period)?;
                if let Some(samples) = samples.filter(|_| from != arm) {
                    // Few switches have the same two placements: those to one are judged together.
                    switches.push(Switch { from: other(arm), to: arm, samples });
                }
            }
            self.report(LivePhase::WashOut, period);
        }
        let arms = self.arms();
        switches.retain(|switch| arms.contains(&switch.to));
        Ok(switches)
    }

    /// Returns the samples of a period; `None` if a guard was violated.
    fn sampled_period(&mut self, arm: ArmId, period: Duration) -> Early<Option<Vec<SwitchSample>>> {
        self.guarded(arm, LivePhase::WashOut, |experiment| {
            let (at_s, began) = (experiment.elapsed().as_secs_f64(), experiment.begin(arm)?);
            let first = experiment.reading()?;
            let (mut samples, mut last) = (Vec::new(), first);
            for step in 1..=(period.as_millis() / STEP.as_millis()) as u32 {
                experiment.wait_until(began + STEP * step)?;
                let next = experiment.reading()?;
                let since_s = ((last.0 + next.0) / 2).saturating_sub(began).as_secs_f64();
                samples.extend(value(last.1, next.1).map(|value| SwitchSample { since_s, value }));
                last = next;
            }
            experiment.add_period(at_s, arm, LivePhase::WashOut, value(first.1, last.1));
            Ok(samples)
        })
    }

    /// Runs a block; `None` if a guard was violated. Then no period of it counts.
    fn block(&mut self, phase: Phase, order: &[ArmId], wash_out: Duration, measured: Duration) -> Early<Option<Block>> {
        let mut periods = Vec::new();
        for arm in order {
            let period = self.guarded(*arm, phase.into(), |experiment| {
                experiment.measured_period(*arm, phase, wash_out, measured)
            })?;
            let Some(result) = period else { return Ok(None) };
            periods.push((*arm, result));
        }
        Ok(Some(Block { phase, periods }))
    }

    fn measured_period(
        &mut self,
        arm: ArmId,
        phase: Phase,
        wash_out: Duration,
        measured: Duration,
    ) -> Step<PeriodResult> {
        let (at_s, from) = (self.elapsed().as_secs_f64(), self.previous);
        let began = self.begin(arm)?;
        let mut readings = Vec::new();
        for share in [0.0, 0.5, 1.0] {
            self.wait_until(began + wash_out + measured.mul_f64(share))?;
            readings.push(self.reading()?.1);
        }
        let result = self.add_period(at_s, arm, phase.into(), value(readings[0], readings[2]));
        let halves = (value(readings[0], readings[1]), value(readings[1], readings[2]));
        if let (PeriodResult::Value(_), (Some(first), Some(second))) = (result, halves) {
            self.halves.push(Halves { from, to: arm, first, second });
        }
        Ok(result)
    }

    /// Records a period, which counts if its placement is verified.
    fn add_period(&mut self, at_s: f64, arm: ArmId, phase: LivePhase, value: Option<f64>) -> PeriodResult {
        let no_value = || "the metric was reset, or there was no work".to_owned();
        let unproven = self.service.verify(arm).err().or_else(|| value.is_none().then(no_value));
        let period = LivePeriod { at_s, arm, phase, rate: value.filter(|_| unproven.is_none()), unproven };
        let result = period.result();
        self.periods.push(period);
        result
    }

    /// Places the service and returns the time since which it has the placement.
    fn begin(&mut self, arm: ArmId) -> Early<Duration> {
        self.service.place(arm).map_err(stopped)?;
        self.previous = arm;
        Ok(self.service.now())
    }

    fn reading(&mut self) -> Early<(Duration, Reading)> {
        let reading = self.service.read().map_err(stopped)?;
        Ok((self.service.now(), reading))
    }

    /// Waits until a time, unless the experiment is interrupted or a guard is violated.
    fn wait_until(&mut self, time: Duration) -> Step<()> {
        loop {
            let next = time.min(self.service.now() + GUARD_STEP);
            self.service.wait_until(next);
            if self.stop.load(Ordering::Relaxed) {
                return Err(stopped("it was interrupted").into());
            }
            if let GuardState::Violated(violated) = self.service.guards() {
                return Err(Interrupted::Guard(violated));
            }
            if next >= time {
                return Ok(());
            }
        }
    }

    /// Returns the answer, unless periods depend on the preceding ones.
    fn answer(&self, outcome: Outcome) -> LiveAnswer {
        let significant = |(arm, carry_over): (ArmId, Result<CarryOver, _>)| {
            Some((arm, carry_over.ok()?)).filter(|(_, carry_over)| carry_over.is_significant())
        };
        match carry_over(&self.halves).into_iter().find_map(significant) {
            Some((arm, carry_over)) => LiveAnswer::CarriedOver { arm, carry_over },
            None => LiveAnswer::Ended(outcome),
        }
    }
}

/// Returns the value between two readings; `None` if the base did not grow, or if the total was reset.
fn value(before: Reading, after: Reading) -> Option<f64> {
    let (total, base) = (after.total - before.total, after.base - before.base);
    (base > 0.0 && total >= 0.0).then(|| total / base)
}

/// Returns the number of periods that fit into a time, rounded up.
fn periods_in(time: Duration, period: Duration) -> usize {
    (time.as_secs_f64() / period.as_secs_f64()).ceil() as usize
}

/// Returns any other arm, as the origin of all switches to one.
fn other(arm: ArmId) -> ArmId {
    if arm == ArmId::BASELINE { ArmId(1) } else { ArmId::BASELINE }
}

/// Returns the longest wash-out of all placements, one step longer because samples have that length; `None` if one does
/// not settle.
fn longest_wash_out(switches: &[Switch]) -> Option<Duration> {
    let rules = WashOutRules { tolerance: TOLERANCE, step_s: STEP.as_secs_f64() };
    let settled = |wash_out: WashOut| match wash_out {
        WashOut::Settled { after_s } => Some(Duration::from_secs_f64(after_s) + STEP),
        WashOut::NotSettled { .. } | WashOut::TooFewSwitches { .. } => None,
    };
    let all: Option<Vec<Duration>> = wash_outs(switches, &rules).into_values().map(settled).collect();
    all?.into_iter().max()
}

mod guards;
#[cfg(test)]
mod tests;
