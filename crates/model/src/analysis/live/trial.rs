//! The result of an experiment on a running service. Must not depend on how the periods were run.

use serde::Serialize;

use crate::stats::statistics::median;
use crate::stats::switchback::{ArmId, CarryOver, Change, Dropped, NoClaim, Outcome, PeriodResult, Phase, Switchback};
use crate::values::id_set::CpuSet;
use crate::values::workload::Better;

/// A placement of the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LivePlacement {
    /// `as found`, `node:0`.
    pub name: String,
    pub cpus: CpuSet,
}

/// One period of the experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LivePeriod {
    /// Seconds since the begin of the experiment.
    pub at_s: f64,
    pub arm: ArmId,
    pub phase: LivePhase,
    /// Value of the metric after the wash-out, such as a rate per second; `None` if the period does not count.
    pub rate: Option<f64>,
    /// Why the period does not count.
    pub unproven: Option<String>,
}

/// A guard that was violated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GuardViolation {
    /// Seconds since the begin of the experiment.
    pub at_s: f64,
    /// The placement under which it was violated. Alternatives then left the experiment.
    pub arm: ArmId,
    pub phase: LivePhase,
    /// As the user wrote it.
    pub guard: String,
    /// The value that was read; `None` if it could not be read in time.
    pub value: Option<f64>,
    /// Why it could not be read.
    pub error: Option<String>,
    /// Seconds until the placement found was restored, since the guard was last seen to hold under this placement: an upper
    /// bound of the violation. `None` under the placement found.
    pub restored_after_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LivePhase {
    /// To measure the wash-out. These periods do not count.
    WashOut,
    Race,
    Confirm,
}

impl From<Phase> for LivePhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Race => Self::Race,
            Phase::Confirm => Self::Confirm,
        }
    }
}

/// Answer of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum LiveAnswer {
    /// The experiment ended as planned.
    Ended(Outcome),
    /// The rate still changed after the wash-out, so the periods of one placement depend on the previous placement.
    CarriedOver { arm: ArmId, carry_over: CarryOver },
    /// The rate does not settle within the longest period that the budget allows.
    NotSettled { longest_period_s: f64 },
    /// It was interrupted, or something ended it, for this reason.
    Stopped { reason: String },
}

/// An experiment on a running service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveTrial {
    /// `process 7 (server)`.
    pub subject: String,
    /// `tcp:6379`.
    pub metric: String,
    /// Noun of the metric: `rate`.
    pub quantity: String,
    /// Unit after a number: `/s`.
    pub unit: String,
    pub better: Better,
    /// The placements; the first is the one that was found.
    pub placements: Vec<LivePlacement>,
    pub seconds: f64,
    /// Time after each switch that does not count; `None` if it was not determined.
    pub wash_out_s: Option<f64>,
    /// Length of a period with its wash-out.
    pub period_s: Option<f64>,
    pub periods: Vec<LivePeriod>,
    pub dropped: Vec<Dropped>,
    /// Violations of guards, in order.
    pub violations: Vec<GuardViolation>,
    pub answer: LiveAnswer,
    /// Change of each alternative in the race. For display only: the best of several is overestimated.
    pub race: Vec<(ArmId, Option<Change>)>,
    /// Number of threads that the program has bound itself, and that were not changed.
    pub pinned_threads: usize,
}

impl LiveTrial {
    /// Returns the median rate of an arm over the periods that count, and their number.
    pub fn rate(&self, arm: ArmId) -> (Option<f64>, usize) {
        let rates: Vec<f64> =
            self.counted().filter(|period| period.arm == arm).filter_map(|period| period.rate).collect();
        (median(&rates), rates.len())
    }

    /// Returns the number of periods that should count but were not proven, besides those in which a guard was violated.
    pub fn unproven(&self) -> usize {
        let periods = self.counted().filter(|period| period.rate.is_none()).count();
        let violated = self.violations.iter().filter(|violation| violation.phase != LivePhase::WashOut).count();
        periods.saturating_sub(violated)
    }

    /// Returns the violation because of which an alternative left.
    pub fn violation(&self, arm: ArmId) -> Option<&GuardViolation> {
        self.violations.iter().find(|violation| arm != ArmId::BASELINE && violation.arm == arm)
    }

    fn counted(&self) -> impl Iterator<Item = &LivePeriod> {
        self.periods.iter().filter(|period| period.phase != LivePhase::WashOut)
    }

    /// Returns the placement of an arm.
    pub fn placement(&self, arm: ArmId) -> Option<&LivePlacement> {
        self.placements.get(arm.0 as usize)
    }

    /// Returns the arm that is a proven improvement.
    pub fn winner(&self) -> Option<ArmId> {
        match &self.answer {
            LiveAnswer::Ended(Outcome::Gain { arm, .. }) => Some(*arm),
            _ => None,
        }
    }
}

/// Returns the changes of all alternatives in the race.
pub fn race_changes(switchback: &Switchback) -> Vec<(ArmId, Option<Change>)> {
    let shown = |(arm, change): (ArmId, Result<Change, NoClaim>)| (arm, change.ok());
    switchback.race_changes().into_iter().map(shown).collect()
}

impl LivePeriod {
    /// Returns the result for the statistics. A service that does nothing has no ratio.
    pub fn result(&self) -> PeriodResult {
        match self.rate {
            Some(rate) if rate.is_finite() && rate > 0.0 => PeriodResult::Value(rate),
            _ => PeriodResult::NotProven,
        }
    }
}
