//! Compares placements of a running service by a switchback experiment: the placement (arm) changes every period, and each
//! block has one period of each arm in random order. Must not depend on the meaning of arms or metrics, or on the clock.
//!
//! The period is the unit: samples within a period are autocorrelated, and intervals from them claim differences that do
//! not exist. Under the null hypothesis the random order makes the sign of each difference within a block a fair coin,
//! also under drift and autocorrelation (randomisation test: Bojinov, Simchi-Levi and Zhao, Management Science 69, 2023).
//! [`compare()`] inverts that test on ranks, so that bursts count like other periods.
//!
//! The caller
//!
//! 1. creates a [`Switchback`] and asks [`Switchback::next_step`] for the next block;
//! 2. runs one period of equal length for each arm in the given order, and passes the means after the wash-out to
//!    [`Switchback::push`];
//! 3. measures the wash-out of each direction with [`wash_outs`] (tolerance 0.02), uses the longest one for all arms, and
//!    checks it with [`carry_over()`]: if an arm is significant, the wash-out and the periods must become longer. During
//!    the race this is possible between any two blocks, because only fresh blocks count; later, a new [`Switchback`]
//!    must begin;
//! 4. calls [`Switchback::withdraw`] if a guard is violated.
//!
//! A [`Switchback`] is a fold over its blocks and withdrawals, so replaying the stored ones results in the same state.
//! Evidence of its error rates: `cargo bench -p model --bench switchback`.

mod carry_over;
mod compare;
mod decision;
mod protocol;
mod race;
mod schedule;
#[cfg(test)]
mod tests;
mod wash_out;

use serde::{Deserialize, Serialize};

pub use carry_over::{CarryOver, Halves, carry_over};
pub use compare::{Change, NoClaim, compare};
pub use decision::Switchback;
pub use protocol::{BlockError, Dropped, NextStep, Outcome, Phase, Rules};
pub use race::DropReason;
pub use schedule::Schedule;
pub use wash_out::{Switch, SwitchSample, WashOut, WashOutRules, wash_outs};

/// Minimum number of blocks for a claim. With fewer than ten pairs of periods of real services, up to 13 % of the
/// intervals at A/A excluded zero; twenty leave a margin.
pub const BLOCKS_MIN: usize = 20;

/// A placement in the experiment; alternatives are numbered from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ArmId(pub u32);

impl ArmId {
    /// The placement as found.
    pub const BASELINE: Self = Self(0);
}

/// Result of one period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeriodResult {
    /// Mean of the metric after the wash-out, in its unit; finite and above 0. A service that does nothing in a period
    /// (a rate of 0) has no ratio: the caller decides whether the period is not proven or the arm is withdrawn.
    Value(f64),
    /// The placement was not verified, or the period was interrupted or disturbed: no value.
    NotProven,
}

/// The periods of one completed block, one per arm, in any order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    pub phase: Phase,
    pub periods: Vec<(ArmId, PeriodResult)>,
}

impl Block {
    /// Returns the value of an arm; `None` if the arm was not part of the block or its period was not proven.
    pub fn value(&self, arm: ArmId) -> Option<f64> {
        self.periods.iter().find_map(|(other, result)| match result {
            PeriodResult::Value(value) if *other == arm => Some(*value),
            _ => None,
        })
    }
}
