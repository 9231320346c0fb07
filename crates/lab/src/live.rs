//! Runs an experiment on a running service: the periods that `model` asks for, until it has an answer. Must not depend on
//! how the service is placed, measured or stored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::analysis::live::{
    CpuTotals, CpuUse, InterruptUse, LiveAnswer, LiveBlock, LiveEnd, LiveEvidence, LivePeriod, LivePhase, LiveState,
    LiveStep, PlacementChange, WASH_OUT_STEP,
};
use model::stats::switchback::{ArmId, SwitchSample};
use model::values::units::Bytes;

use guards::{Early, Interrupted, Step};
pub use guards::{GuardState, Violated};

/// Maximum interval between checks of the guards.
const GUARD_STEP: Duration = Duration::from_millis(50);
/// Time within which the guards must be known before the first change.
const GUARDS_KNOWN: Duration = Duration::from_secs(5);

/// A reading of the metric. The value between two readings is the growth of the total per growth of the base.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    pub total: f64,
    /// Seconds, or units of work.
    pub base: f64,
}

/// Parts of a service that got another placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    pub threads: usize,
    /// Memory that was moved; `None` if memory is not moved.
    pub memory: Option<Bytes>,
}

/// A running service with a metric and guards.
pub trait LiveService {
    /// Places the service, which may take minutes if memory is moved. If a guard is violated meanwhile, this returns early.
    ///
    /// # Errors
    /// Why this is not possible; the experiment then ends.
    fn place(&mut self, arm: ArmId) -> Result<Placed, String>;

    /// Checks that the service has had a placement until now.
    ///
    /// # Errors
    /// Description of a thread or memory with another placement; the period then does not count.
    fn verify(&mut self, arm: ArmId) -> Result<(), String>;

    /// Reads the metric.
    ///
    /// # Errors
    /// Why it cannot be read; the experiment then ends.
    fn read(&mut self) -> Result<Reading, String>;

    /// Returns the use of CPUs so far; `None` if unknown.
    fn cpu_totals(&mut self) -> Option<CpuTotals> {
        None
    }

    /// Returns the interrupts of the named devices in the period that was verified last; `None` if no device is named.
    fn interrupts(&self) -> Option<InterruptUse> {
        None
    }

    /// Returns whether the guards hold, as far as it was seen since the last placement.
    fn guards(&mut self) -> GuardState {
        GuardState::Hold
    }

    /// Returns the time since any fixed moment.
    fn now(&self) -> Duration;

    /// Waits until a time.
    fn wait_until(&mut self, time: Duration);
}

/// Result of an experiment.
pub struct LiveRun {
    pub state: LiveState,
    pub answer: LiveAnswer,
    /// `None` if it was interrupted, and can continue.
    pub end: Option<LiveEnd>,
}

/// State of an experiment, for display.
pub struct LiveProgress {
    pub phase: LivePhase,
    pub elapsed: Duration,
    /// Length of a period, with its wash-out.
    pub period: Duration,
    pub periods: usize,
}

/// Receives what happens in an experiment.
pub trait LiveObserver {
    /// Stores a period.
    ///
    /// # Errors
    /// Why it cannot be stored; the experiment then ends.
    fn store(&mut self, period: &LivePeriod) -> Result<(), String>;

    /// Shows the state after a block.
    fn show(&mut self, progress: &LiveProgress);
}

/// Compares the placements of a service, from a state on. The caller restores the placement afterwards, however this ends.
pub fn run(
    service: &mut dyn LiveService,
    state: LiveState,
    stop: &AtomicBool,
    observer: &mut dyn LiveObserver,
) -> LiveRun {
    let began = service.now();
    let before = Duration::from_secs_f64(state.end_s());
    let mut experiment = Experiment {
        service,
        stop,
        observer,
        began,
        before,
        decided_s: 0.0,
        previous: ArmId::BASELINE,
        has_changed: false,
        violated_baselines: 0,
        state,
    };
    let answer = experiment.run().unwrap_or_else(|answer| answer);
    let reason = match &answer {
        LiveAnswer::Stopped { reason } => Some(reason.clone()),
        _ => None,
    };
    let is_interrupted = reason.is_some() && stop.load(Ordering::Relaxed);
    let end = LiveEnd { at_s: experiment.decided_s, reason };
    LiveRun { state: experiment.state, answer, end: (!is_interrupted).then_some(end) }
}

struct Experiment<'a> {
    service: &'a mut dyn LiveService,
    stop: &'a AtomicBool,
    observer: &'a mut dyn LiveObserver,
    began: Duration,
    /// Duration of the experiment before it was resumed.
    before: Duration,
    /// Time of the last decision, in seconds.
    decided_s: f64,
    /// Placement of the preceding period.
    previous: ArmId,
    /// Whether the service had another placement.
    has_changed: bool,
    /// Successive periods of the placement found in which a guard was violated.
    violated_baselines: u32,
    state: LiveState,
}

fn stopped(reason: impl Into<String>) -> LiveAnswer {
    LiveAnswer::Stopped { reason: reason.into() }
}

impl Experiment<'_> {
    fn run(&mut self) -> Early<LiveAnswer> {
        self.wait_for_guards(GUARDS_KNOWN)?;
        loop {
            self.decided_s = self.elapsed().as_secs_f64();
            match self.state.next_step(self.decided_s) {
                LiveStep::Done(answer) => return Ok(answer),
                LiveStep::Block(block) => {
                    self.block(&block)?;
                    let (elapsed, periods) = (self.elapsed(), self.state.periods().len());
                    self.observer.show(&LiveProgress { phase: block.phase, elapsed, period: block.length, periods });
                }
            }
        }
    }

    fn elapsed(&self) -> Duration {
        self.before + self.service.now().saturating_sub(self.began)
    }

    /// Runs the periods of a block. It ends if a guard is violated, unless the wash-out is measured: periods then count
    /// without a block.
    fn block(&mut self, block: &LiveBlock) -> Early<()> {
        let mut at_s = self.decided_s;
        for arm in &block.order {
            let is_complete = self.guarded(*arm, block, at_s, |experiment| match block.phase {
                LivePhase::WashOut => experiment.sampled_period(*arm, block, at_s),
                LivePhase::Race | LivePhase::Confirm => experiment.measured_period(*arm, block, at_s),
            })?;
            if !is_complete && block.phase != LivePhase::WashOut {
                break;
            }
            at_s = self.elapsed().as_secs_f64();
        }
        Ok(())
    }

    fn sampled_period(&mut self, arm: ArmId, block: &LiveBlock, at_s: f64) -> Step<()> {
        let (from, (began, change)) = (self.previous, self.begin(arm)?);
        let totals = self.service.cpu_totals();
        let first = self.reading()?;
        let (mut samples, mut last) = (Vec::new(), first);
        for step in 1..=(block.length.as_millis() / WASH_OUT_STEP.as_millis()) as u32 {
            self.wait_until(began + WASH_OUT_STEP * step)?;
            let next = self.reading()?;
            let since_s = ((last.0 + next.0) / 2).saturating_sub(began).as_secs_f64();
            samples.extend(value(last.1, next.1).map(|value| SwitchSample { since_s, value }));
            last = next;
        }
        let cpu_use = self.cpu_use_since(totals);
        let evidence = LiveEvidence { from, samples, change: Some(change), cpu_use, ..LiveEvidence::default() };
        Ok(self.add_period(arm, block, at_s, value(first.1, last.1), evidence)?)
    }

    fn measured_period(&mut self, arm: ArmId, block: &LiveBlock, at_s: f64) -> Step<()> {
        let (from, (began, change)) = (self.previous, self.begin(arm)?);
        let measured = block.length.saturating_sub(block.wash_out);
        self.wait_until(began + block.wash_out)?;
        let totals = self.service.cpu_totals();
        let mut readings = vec![self.reading()?.1];
        for share in [0.5, 1.0] {
            self.wait_until(began + block.wash_out + measured.mul_f64(share))?;
            readings.push(self.reading()?.1);
        }
        let halves = value(readings[0], readings[1]).zip(value(readings[1], readings[2]));
        let cpu_use = self.cpu_use_since(totals);
        let evidence = LiveEvidence { from, halves, change: Some(change), cpu_use, ..LiveEvidence::default() };
        Ok(self.add_period(arm, block, at_s, value(readings[0], readings[2]), evidence)?)
    }

    fn cpu_use_since(&mut self, before: Option<CpuTotals>) -> Option<CpuUse> {
        let (before, after) = before.zip(self.service.cpu_totals())?;
        CpuUse::between(&before, &after)
    }

    /// Records a period, which counts if its placement is verified.
    fn add_period(
        &mut self,
        arm: ArmId,
        block: &LiveBlock,
        at_s: f64,
        value: Option<f64>,
        evidence: LiveEvidence,
    ) -> Early<()> {
        let length_s = self.elapsed().as_secs_f64() - at_s;
        let no_value = || "the metric was reset, or there was no work".to_owned();
        let unproven = self.service.verify(arm).err().or_else(|| value.is_none().then(no_value));
        let evidence = LiveEvidence { interrupts: self.service.interrupts(), ..evidence };
        let rate = value.filter(|_| unproven.is_none());
        let (block, phase) = (block.number, block.phase);
        self.push(LivePeriod { block, at_s, length_s, arm, phase, rate, unproven, evidence })
    }

    /// Stores a period before it has an effect.
    fn push(&mut self, period: LivePeriod) -> Early<()> {
        self.observer.store(&period).map_err(stopped)?;
        self.state.push(period).map_err(|error| stopped(error.to_string()))
    }

    /// Places the service and returns the time since which it has the placement.
    fn begin(&mut self, arm: ArmId) -> Early<(Duration, PlacementChange)> {
        self.has_changed = true;
        let before = self.service.now();
        let Placed { threads, memory } = self.service.place(arm).map_err(stopped)?;
        self.previous = arm;
        let now = self.service.now();
        Ok((now, PlacementChange { threads, memory, seconds: now.saturating_sub(before).as_secs_f64() }))
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
}

/// Returns the value between two readings; `None` if the base did not grow, or if the total was reset.
fn value(before: Reading, after: Reading) -> Option<f64> {
    let (total, base) = (after.total - before.total, after.base - before.base);
    let value = total / base;
    (base > 0.0 && total >= 0.0 && value.is_finite()).then_some(value)
}

mod guards;
#[cfg(test)]
mod tests;
