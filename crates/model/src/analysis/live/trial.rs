//! The result of an experiment on a running service. Must not depend on how the periods were run.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{CpuUse, InterruptUse, LiveRecord, LiveState, LiveStep, PlacementChange, interrupt_cpus};
use crate::stats::statistics::median;
use crate::stats::switchback::{
    ArmId, CarryOver, Change, Dropped, Halves, NoClaim, Outcome, PeriodResult, Phase, SwitchSample, Switchback,
};
use crate::values::id_set::{CpuSet, NodeSet};
use crate::values::placement::Route;
use crate::values::units::{Bytes, Nanos};
use crate::values::workload::Better;

/// A placement of the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LivePlacement {
    /// `as found`, `node:0`.
    pub name: String,
    pub cpus: CpuSet,
    /// Where its memory is moved to; `None` if memory stays, and for the placement that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<LiveMemoryNodes>,
    /// Interrupts of the named devices. Those without CPUs stay as they were found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<Route>,
}

/// The memory nodes of a placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveMemoryNodes {
    pub nodes: NodeSet,
    /// Whether the pages are on these nodes in turn; otherwise those on any of them stay.
    pub interleaved: bool,
}

impl LivePlacement {
    /// Returns the placement as an argument of `--placement`: `6-11`, or with numactl's options: `-C 6-11 -m 1 irq:6`.
    pub fn numactl(&self) -> String {
        let memory = match &self.memory {
            None => String::new(),
            Some(LiveMemoryNodes { nodes, interleaved: true }) => format!(" -i {nodes}"),
            Some(LiveMemoryNodes { nodes, interleaved: false }) => format!(" -m {nodes}"),
        };
        match (interrupt_cpus(&self.interrupts), memory.as_str()) {
            (None, "") => self.cpus.to_string(),
            (None, memory) => format!("-C {}{memory}", self.cpus),
            (Some(_), memory) => format!("-C {}{memory} irq:{}", self.cpus, self.interrupt_rule()),
        }
    }

    /// Returns the `irq:` rule that gives the interrupts their CPUs: a list, unless they have different ones.
    fn interrupt_rule(&self) -> String {
        let first = self.interrupts.first().map(|route| &route.cpus);
        let is_same = self.interrupts.iter().all(|route| Some(&route.cpus) == first);
        first.filter(|_| is_same).map_or_else(|| "spread".into(), ToString::to_string)
    }
}

/// One period of the experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LivePeriod {
    /// Ordinal of its block.
    pub block: u32,
    /// Seconds since the begin of the experiment. Time in which the experiment was interrupted does not count.
    pub at_s: f64,
    /// Length in seconds, with the wash-out.
    pub length_s: f64,
    pub arm: ArmId,
    pub phase: LivePhase,
    /// Value of the metric after the wash-out, such as a rate per second; `None` if the period does not count.
    pub rate: Option<f64>,
    /// Why the period does not count.
    pub unproven: Option<String>,
    #[serde(flatten)]
    pub evidence: LiveEvidence,
}

/// Observations during a period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveEvidence {
    /// Arm of the preceding period.
    pub from: ArmId,
    /// Values in the two halves after the wash-out; `None` while the wash-out is measured, or without a value.
    pub halves: Option<(f64, f64)>,
    /// Values since the switch; empty unless the wash-out is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<SwitchSample>,
    /// The change of the placement at the begin; `None` in experiments of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<PlacementChange>,
    /// Use of CPUs after the wash-out, or in the whole period while the wash-out is measured; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_use: Option<CpuUse>,
    /// Interrupts of the named devices since the change of the placement; `None` if no device was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<InterruptUse>,
    /// The guard that ended the period.
    pub violation: Option<GuardViolation>,
}

/// A guard that was violated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Moving the memory takes so long that the budget does not allow enough periods. `needed` would.
    BudgetTooShort { change_s: f64, needed: Nanos },
    /// It was interrupted, or something ended it, for this reason.
    Stopped { reason: String },
    /// It has not ended.
    Unfinished,
}

/// The pairs of periods that count for the answer, while there is none yet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FreshPairs {
    /// The alternative that is compared with the placement found.
    pub arm: ArmId,
    pub complete: usize,
    pub planned: usize,
    /// Change in the complete pairs, from the minimum for a claim on. Provisional: whether the experiment stopped here may
    /// depend on it.
    pub change: Option<Change>,
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
    /// Pairs so far, if there is no answer.
    pub fresh_pairs: Option<FreshPairs>,
    /// Change of each alternative in the race. For display only: the best of several is overestimated.
    pub race: Vec<(ArmId, Option<Change>)>,
    /// Number of threads that the program has bound itself, and that were not changed.
    pub pinned_threads: usize,
}

impl LiveTrial {
    /// Evaluates the periods of an experiment.
    pub fn new(record: &LiveRecord, periods: Vec<LivePeriod>) -> Self {
        let setup = &record.setup;
        let (state, answer) = match LiveState::replay(record.plan(), periods) {
            Ok(mut state) => {
                let answer = answer(record, &mut state);
                (state, answer)
            }
            Err(error) => {
                let reason = format!("its periods contradict each other: {error}");
                (LiveState::new(record.plan()), LiveAnswer::Stopped { reason })
            }
        };
        let has_answer = matches!(answer, LiveAnswer::Ended(_) | LiveAnswer::CarriedOver { .. });
        Self {
            subject: setup.subject.clone(),
            metric: record.request.metric.clone(),
            quantity: setup.quantity.clone(),
            unit: setup.unit.clone(),
            better: setup.better,
            placements: setup.placements.clone(),
            seconds: state.end_s(),
            wash_out_s: state.wash_out().map(|time| time.as_secs_f64()),
            period_s: state.period().map(|time| time.as_secs_f64()),
            dropped: state.switchback().map(|switchback| switchback.dropped().to_vec()).unwrap_or_default(),
            violations: state.violations().cloned().collect(),
            fresh_pairs: state.fresh_pairs().filter(|_| !has_answer),
            race: state.switchback().map(race_changes).unwrap_or_default(),
            pinned_threads: setup.pinned_threads,
            answer,
            periods: state.periods().to_vec(),
        }
    }

    /// Returns the median rate of an arm over the periods that count, and their number.
    pub fn rate(&self, arm: ArmId) -> (Option<f64>, usize) {
        let rates: Vec<f64> =
            self.counted().filter(|period| period.arm == arm).filter_map(|period| period.rate).collect();
        (median(&rates), rates.len())
    }

    /// Returns the mean use of CPUs under an arm, and the number of its CPUs: in the periods that count, or in those that
    /// measured the wash-out if the rate did not settle.
    pub fn cpu_use(&self, arm: ArmId) -> Option<(CpuUse, usize)> {
        let is_settled = self.wash_out_s.is_some();
        let shown = self.periods.iter().filter(|period| (period.phase != LivePhase::WashOut) == is_settled);
        let proven = shown.filter(|period| period.arm == arm && period.rate.is_some());
        let uses: Vec<CpuUse> = proven.filter_map(|period| period.evidence.cpu_use).collect();
        Some((CpuUse::mean(&uses)?, self.placement(arm)?.cpus.len()))
    }

    /// Returns the interrupts of the named devices per second under an arm, over all its periods; `None` if no device was
    /// named.
    pub fn interrupt_rate(&self, arm: ArmId) -> Option<f64> {
        let periods = self.periods.iter().filter(|period| period.arm == arm);
        let of_period = |period: &LivePeriod| Some((period.evidence.interrupts?.arrived as f64, period.length_s));
        let (arrived, seconds) = periods
            .filter_map(of_period)
            .reduce(|(arrived, seconds), (more, longer)| (arrived + more, seconds + longer))?;
        (seconds > 0.0).then_some(arrived / seconds)
    }

    /// Returns the devices whose interrupts were observed.
    pub fn devices(&self) -> BTreeSet<&str> {
        let interrupts = self.placements.iter().flat_map(|placement| &placement.interrupts);
        interrupts.map(|route| route.device.as_str()).collect()
    }

    /// Returns the largest size of memory that was moved at once, and the mean time that this took in seconds; `None` if none
    /// was moved.
    pub fn moved_memory(&self) -> Option<(Bytes, f64)> {
        let changes = self.periods.iter().filter_map(|period| period.evidence.change);
        let moved: Vec<(Bytes, f64)> = changes
            .filter_map(|change| Some((change.memory?, change.seconds)))
            .filter(|(bytes, _)| bytes.0 > 0)
            .collect();
        let largest = moved.iter().map(|(bytes, _)| *bytes).max()?;
        Some((largest, moved.iter().map(|(_, seconds)| seconds).sum::<f64>() / moved.len() as f64))
    }

    /// Returns the periods that should count but were not proven, besides those in which a guard was violated.
    pub fn unproven(&self) -> impl Iterator<Item = &LivePeriod> {
        self.counted().filter(|period| period.rate.is_none() && period.evidence.violation.is_none())
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

/// Returns the answer of an experiment after its periods.
fn answer(record: &LiveRecord, state: &mut LiveState) -> LiveAnswer {
    let Some(end) = &record.ended else { return LiveAnswer::Unfinished };
    if let Some(reason) = &end.reason {
        return LiveAnswer::Stopped { reason: reason.clone() };
    }
    match state.next_step(end.at_s) {
        LiveStep::Done(answer) => answer,
        LiveStep::Block(_) => LiveAnswer::Stopped { reason: "its last periods are missing".into() },
    }
}

/// Returns the changes of all alternatives in the race.
fn race_changes(switchback: &Switchback) -> Vec<(ArmId, Option<Change>)> {
    let shown = |(arm, change): (ArmId, Result<Change, NoClaim>)| (arm, change.ok());
    switchback.race_changes().into_iter().map(shown).collect()
}

impl LivePeriod {
    /// Returns its end in seconds since the begin of the experiment.
    pub fn end_s(&self) -> f64 {
        self.at_s + self.length_s
    }

    /// Returns the values of both halves, if the period counts.
    pub(super) fn halves(&self) -> Option<Halves> {
        let PeriodResult::Value(_) = self.result() else { return None };
        let (first, second) = self.evidence.halves?;
        Some(Halves { from: self.evidence.from, to: self.arm, first, second })
    }

    /// Returns the result for the statistics. A service that does nothing has no ratio.
    pub fn result(&self) -> PeriodResult {
        match self.rate {
            Some(rate) if rate.is_finite() && rate > 0.0 => PeriodResult::Value(rate),
            _ => PeriodResult::NotProven,
        }
    }
}
