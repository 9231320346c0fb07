//! Guards of an experiment: if one is violated, the service gets the placement that was found, and the placement that
//! violated it leaves the experiment. Must not depend on the values or their limits.

use std::time::Duration;

use model::analysis::live::{GuardViolation, LiveAnswer, LiveBlock, LiveEvidence, LivePeriod};
use model::stats::switchback::ArmId;

use super::{Experiment, GUARD_STEP, Ordering, stopped};

/// Maximum time for which the guards may be violated under the placement that was found, without a break.
const RECOVERY_MAX: Duration = Duration::from_secs(30);
/// Successive periods of the placement found in which a guard may be violated.
const VIOLATED_BASELINES_MAX: u32 = 3;

/// Whether the guards hold under the present placement.
#[derive(Clone, Debug, PartialEq)]
pub enum GuardState {
    Hold,
    /// Not all of them have been read since the last placement.
    Unknown,
    Violated(Violated),
}

/// A guard that does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Violated {
    /// As the user wrote it.
    pub guard: String,
    /// The value that was read, or why none could be read in time.
    pub value: Result<f64, String>,
    /// Begin of the last reading under this placement with which it held, or of the placement.
    pub since: Duration,
}

/// An answer that ends the experiment early.
pub(super) type Early<T> = Result<T, LiveAnswer>;
/// The result of a part of a period.
pub(super) type Step<T> = Result<T, Interrupted>;

/// The end of a period before its time.
pub(super) enum Interrupted {
    Experiment(LiveAnswer),
    Guard(Violated),
}

impl From<LiveAnswer> for Interrupted {
    fn from(answer: LiveAnswer) -> Self {
        Self::Experiment(answer)
    }
}

impl Violated {
    /// `guard 'tcp:80>100' is violated: 17`.
    fn describe(&self) -> String {
        match &self.value {
            Ok(value) => format!("guard '{}' is violated: {value}", self.guard),
            Err(error) => format!("guard '{}' cannot be read: {error}", self.guard),
        }
    }
}

impl Experiment<'_> {
    /// Runs a period of an arm, and returns whether the guards held. They hold again when this returns.
    pub(super) fn guarded(
        &mut self,
        arm: ArmId,
        block: &LiveBlock,
        at_s: f64,
        period: impl FnOnce(&mut Self) -> Step<()>,
    ) -> Early<bool> {
        let from = self.previous;
        match period(self) {
            Ok(()) => {
                if arm == ArmId::BASELINE {
                    self.violated_baselines = 0;
                }
                Ok(true)
            }
            Err(Interrupted::Experiment(answer)) => Err(answer),
            Err(Interrupted::Guard(violated)) => {
                let length_s = self.elapsed().as_secs_f64() - at_s;
                let evidence = LiveEvidence {
                    from,
                    violation: Some(self.leave(arm, block, &violated)?),
                    ..LiveEvidence::default()
                };
                let (LiveBlock { number, phase, .. }, unproven) = (block, Some(violated.describe()));
                self.push(LivePeriod {
                    block: *number,
                    at_s,
                    length_s,
                    arm,
                    phase: *phase,
                    rate: None,
                    unproven,
                    evidence,
                })?;
                if self.violated_baselines >= VIOLATED_BASELINES_MAX {
                    return Err(found_violates(&violated));
                }
                self.wait_for_guards(RECOVERY_MAX)?;
                Ok(false)
            }
        }
    }

    /// Restores the placement found at once, and then describes the violation.
    fn leave(&mut self, arm: ArmId, block: &LiveBlock, violated: &Violated) -> Early<GuardViolation> {
        let mut restored_after_s = None;
        if arm == ArmId::BASELINE {
            self.violated_baselines += 1;
        } else {
            let (restored, _) = self.begin(ArmId::BASELINE)?;
            restored_after_s = Some(restored.saturating_sub(violated.since).as_secs_f64());
        }
        Ok(GuardViolation {
            at_s: self.elapsed().as_secs_f64(),
            arm,
            phase: block.phase,
            guard: violated.guard.clone(),
            value: violated.value.as_ref().ok().copied(),
            error: violated.value.as_ref().err().cloned(),
            restored_after_s,
        })
    }

    /// Waits under the placement found until all guards hold. Otherwise the next placement would be blamed.
    pub(super) fn wait_for_guards(&mut self, time_max: Duration) -> Early<()> {
        let end = self.service.now() + time_max;
        loop {
            let state = self.service.guards();
            match state {
                GuardState::Hold => return Ok(()),
                GuardState::Violated(violated) if !self.has_changed || self.service.now() > end => {
                    return Err(found_violates(&violated));
                }
                GuardState::Unknown if self.service.now() > end => {
                    return Err(stopped("the guards could not be read under the placement found"));
                }
                GuardState::Violated(_) | GuardState::Unknown => {}
            }
            self.service.wait_until(self.service.now() + GUARD_STEP);
            if self.stop.load(Ordering::Relaxed) {
                return Err(stopped("it was interrupted"));
            }
        }
    }
}

fn found_violates(violated: &Violated) -> LiveAnswer {
    stopped(format!("under the placement found, {}", violated.describe()))
}
