//! Placements, lengths and budget of an experiment on a running service. Must not depend on measured values.

use std::time::Duration;

use super::{LiveRequest, LiveSetup};
use crate::stats::racing::INDIFFERENCE;
use crate::stats::switchback::Rules;
use crate::values::workload::Better;

/// Interval between readings of the metric while the wash-out is measured.
pub const WASH_OUT_STEP: Duration = Duration::from_millis(100);
/// Lengths of the periods in which the wash-out is measured, and switches to each placement from which it is estimated: the
/// next ones if the value does not settle. Long periods are expensive, so that they have fewer.
pub(super) const WASH_OUT_STAGES: [(Duration, usize); 3] =
    [(Duration::from_secs(2), 20), (Duration::from_secs(4), 12), (Duration::from_secs(8), 12)];
/// Shortest time that counts in a period. Pairs of periods of one second have the narrowest intervals.
const MEASURED_MIN: Duration = Duration::from_secs(1);

/// Number of placements and duration of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LivePlan {
    /// Number of placements besides the one that was found.
    pub alternatives: u32,
    pub seed: u64,
    pub budget: Duration,
    pub better: Better,
}

impl LivePlan {
    pub fn new(request: &LiveRequest, setup: &LiveSetup) -> Self {
        Self {
            alternatives: setup.placements.len().saturating_sub(1) as u32,
            seed: request.seed,
            budget: Duration::from_nanos(request.budget.0),
            better: setup.better,
        }
    }

    /// Returns the shortest budget with which an experiment can make a claim, if the value settles at once. `change` is the
    /// time that a change of the placement takes.
    pub fn budget_min(&self, change: Duration) -> Duration {
        let rules = self.rules(0);
        let (period, switches) = WASH_OUT_STAGES[0];
        let wash_out = (period * 2 + change) * (self.alternatives + 1) * switches as u32;
        wash_out + (period_with(WASH_OUT_STEP, change) + change) * rules.periods_min() as u32
    }

    pub(super) fn rules(&self, periods_max: usize) -> Rules {
        Rules {
            seed: self.seed,
            alternatives: self.alternatives,
            better: self.better,
            periods_max,
            half_width: INDIFFERENCE,
        }
    }
}

/// Returns the length of a period after a change that took a time. Its wash-out does not count. What counts is as long as the
/// wash-out, and as the change, at least: shorter periods would spend most of the budget on changes.
pub(super) fn period_with(wash_out: Duration, change: Duration) -> Duration {
    wash_out + MEASURED_MIN.max(wash_out).max(change)
}
