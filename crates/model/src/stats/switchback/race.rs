//! Which arms leave the race, and which leads. Must not depend on budgets or phases.

use serde::{Deserialize, Serialize};

use super::compare::log_ratios;
use super::{ArmId, Block};
use crate::stats::statistics::{hodges_lehmann_center, qn_scale, wilcoxon_signed_rank};
use crate::values::workload::Better;

/// Blocks between interim analyses of the race. Fewer than ten cannot reach [`DROP_BELOW`].
pub(super) const ANALYSE_EVERY: usize = 10;
/// An arm is dropped if it is worse than the leader with a p value below this. A false drop misses a gain, but makes no
/// false claim, because only fresh blocks do.
const DROP_BELOW: f64 = 0.002;
/// An arm is dropped if fewer than this share of its periods are proven: what remains may not be representative.
const PROVEN_SHARE_MIN: f64 = 0.5;

/// Reason why an arm left the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// Clearly worse than the arm that led at that time.
    Worse,
    /// Less than half of its periods were proven.
    NotProven,
    /// By the caller, such as after a violated guard.
    Withdrawn,
}

/// Returns the arms to drop in an interim analysis, given those that are still in the race. The baseline never leaves, nor
/// does the last alternative for being worse: fresh blocks measure by how much.
pub(super) fn drops(blocks: &[Block], arms: &[ArmId], better: Better) -> Vec<(ArmId, DropReason)> {
    let unproven = |arm: &ArmId| {
        let proven = blocks.iter().filter(|block| block.value(*arm).is_some()).count();
        (proven as f64) < PROVEN_SHARE_MIN * blocks.len() as f64
    };
    let mut drops: Vec<(ArmId, DropReason)> = Vec::new();
    let alternatives = || arms.iter().copied().filter(|arm| *arm != ArmId::BASELINE);
    drops.extend(alternatives().filter(unproven).map(|arm| (arm, DropReason::NotProven)));
    let proven: Vec<ArmId> = alternatives().filter(|arm| !unproven(arm)).collect();
    let Some(best) = leader(blocks, &proven, better) else { return drops };
    let top = if gain(blocks, best, ArmId::BASELINE, better) > 0.0 { best } else { ArmId::BASELINE };
    // The best alternative stays even if the baseline leads.
    let worse = proven.into_iter().filter(|arm| *arm != best && is_worse(blocks, *arm, top, better));
    drops.extend(worse.map(|arm| (arm, DropReason::Worse)));
    drops
}

/// Returns the alternative with the largest gain over the baseline; the first of equals.
pub(super) fn leader(blocks: &[Block], alternatives: &[ArmId], better: Better) -> Option<ArmId> {
    let gains = alternatives.iter().map(|arm| (*arm, gain(blocks, *arm, ArmId::BASELINE, better)));
    gains.reduce(|best, other| if other.1 > best.1 { other } else { best }).map(|(arm, _)| arm)
}

/// Returns the gain in logarithms; minus infinity without a common block.
pub(super) fn gain(blocks: &[Block], arm: ArmId, base: ArmId, better: Better) -> f64 {
    let center = log_ratios(blocks, arm, base).ok().and_then(|ratios| hodges_lehmann_center(&ratios, 0.5, 0));
    center.map_or(f64::NEG_INFINITY, |center| if better == Better::Higher { center.value } else { -center.value })
}

fn is_worse(blocks: &[Block], arm: ArmId, top: ArmId, better: Better) -> bool {
    let test = log_ratios(blocks, arm, top).ok().and_then(|ratios| wilcoxon_signed_rank(&ratios));
    test.is_some_and(|test| test.p_value < DROP_BELOW) && gain(blocks, arm, top, better) < 0.0
}

/// Returns the standard deviation of the log ratios of an arm; `None` with fewer than 2.
pub(super) fn deviation(blocks: &[Block], arm: ArmId) -> Option<f64> {
    qn_scale(&log_ratios(blocks, arm, ArmId::BASELINE).ok()?)
}
