//! Rules, steps and outcomes of an experiment. Must not depend on how it decides.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::race::{ANALYSE_EVERY, DropReason};
use super::{ArmId, BLOCKS_MIN, Change, NoClaim};
use crate::values::workload::Better;

/// Purpose of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// To choose an alternative.
    Race,
    /// Fresh blocks of the chosen alternative and the baseline.
    Confirm,
}

/// Rules of an experiment, fixed before its first block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Seed of all random orders.
    pub seed: u64,
    /// Number of alternatives, whose arms are 1, 2, …
    pub alternatives: u32,
    pub better: Better,
    /// Budget: maximum number of periods, of all arms together, proven or not.
    pub periods_max: usize,
    /// Half-width of the reported interval to plan for, as a relative change; usually
    /// [`crate::stats::racing::INDIFFERENCE`].
    pub half_width: f64,
}

impl Rules {
    /// Returns the smallest budget with which an experiment can make a claim.
    pub fn periods_min(&self) -> usize {
        ANALYSE_EVERY * (self.alternatives as usize + 1) + 2 * BLOCKS_MIN
    }
}

/// Next action of the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum NextStep {
    /// Run one period of each arm, in this order, and push the block.
    Block {
        phase: Phase,
        order: Vec<ArmId>,
    },
    Done(Outcome),
}

/// Result of an experiment. All changes come from fresh blocks only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// The interval is on the better side of 0. Without a true gain, its probability is at most 2.5 %.
    Gain { arm: ArmId, change: Change },
    /// The interval contains 0.
    NoDifferenceSeen {
        arm: ArmId,
        change: Change,
        /// Relative change towards the better, at least 0, above which a gain of this arm is excluded: an end of the
        /// interval.
        excluded_gain: f64,
    },
    /// The best alternative is worse than the baseline: the interval is on the worse side of 0.
    Loss { arm: ArmId, change: Change },
    /// All alternatives were withdrawn or could not be proven.
    NoAlternatives,
    /// The budget ended before there were enough complete fresh blocks, or a value has no ratio.
    NoClaim { reason: NoClaim },
}

/// An arm that left the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    pub arm: ArmId,
    pub reason: DropReason,
    /// Number of blocks of all phases before it left.
    pub after_blocks: usize,
}

/// Reason why a block is refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum BlockError {
    #[error("the block has other arms or another phase than the next one")]
    NotNext,
    #[error("arm {}: the metric was {value}, but only finite values above 0 can be compared", arm.0)]
    InvalidValue { arm: ArmId, value: f64 },
}
