//! The change of the metric from the baseline to an arm, from ratios within blocks.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{ArmId, BLOCKS_MIN, Block};
use crate::stats::statistics::{CONFIDENCE, Interval, center_with_p_value, hodges_lehmann_center};

/// Relative change of the metric; 0.03 means that the arm has 3 % more than the baseline, whether that is better or not.
/// It is the change of the typical block: rare bursts hardly affect it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Estimate: the Hodges-Lehmann centre of the logarithms of the ratios within blocks.
    pub value: f64,
    /// 95 % interval. It holds for a number of blocks that does not depend on their values.
    pub interval: Interval,
    /// Two-sided p value of the signed-rank test that the interval inverts, in [0, 1]: at most 0.05 if and only if the
    /// interval excludes 0.
    pub p_value: f64,
    /// Number of blocks with a value of both arms.
    pub blocks: usize,
}

/// Reason why nothing is claimed about an arm.
#[derive(Clone, Copy, Debug, PartialEq, Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoClaim {
    /// Blocks that lack a value of the arm or of the baseline do not count.
    #[error("{complete} of at least {needed} periods of each placement are complete")]
    TooFewBlocks { complete: usize, needed: usize },
    #[error("the metric was {value}, but only finite values above 0 can be compared")]
    InvalidValue { value: f64 },
    #[error("the change is out of the range of numbers")]
    OutOfRange,
}

/// Compares an arm with the baseline in the blocks that have both; other blocks do not count. Blocks of both phases may
/// be given, but only blocks of [`super::Phase::Confirm`] give an unbiased change of an arm that was chosen as the best.
///
/// # Errors
///
/// [`NoClaim`], for fewer than [`BLOCKS_MIN`] complete blocks, and for values that have no finite ratio.
pub fn compare(blocks: &[Block], arm: ArmId) -> Result<Change, NoClaim> {
    let ratios = log_ratios(blocks, arm, ArmId::BASELINE)?;
    let (value, interval) = center(&ratios, CONFIDENCE)?;
    let (_, p_value) =
        center_with_p_value(&ratios, CONFIDENCE, 0, |log| log.partial_cmp(&0.0).unwrap_or(Ordering::Equal))
            .ok_or(NoClaim::OutOfRange)?;
    Ok(Change { value, interval, p_value, blocks: ratios.len() })
}

/// Returns the centre of log ratios and its interval, as relative changes.
pub(super) fn center(ratios: &[f64], confidence: f64) -> Result<(f64, Interval), NoClaim> {
    if ratios.len() < BLOCKS_MIN {
        return Err(NoClaim::TooFewBlocks { complete: ratios.len(), needed: BLOCKS_MIN });
    }
    // The seed only reduces thousands of ratios; any constant keeps the result reproducible.
    let center = hodges_lehmann_center(ratios, confidence, 0).ok_or(NoClaim::OutOfRange)?;
    let logs = center.interval.ok_or(NoClaim::OutOfRange)?;
    let interval = Interval::between(logs.low.exp_m1(), logs.high.exp_m1()).ok_or(NoClaim::OutOfRange)?;
    // The centre is inside its interval, so it is finite, too.
    Ok((center.value.exp_m1(), interval))
}

/// Returns the logarithms of the ratios of two arms, for each block that has both.
pub(super) fn log_ratios(blocks: &[Block], arm: ArmId, base: ArmId) -> Result<Vec<f64>, NoClaim> {
    blocks
        .iter()
        .filter_map(|block| Some((block.value(arm)?, block.value(base)?)))
        .map(|(value, base)| Ok(positive(value)?.ln() - positive(base)?.ln()))
        .collect()
}

pub(super) fn positive(value: f64) -> Result<f64, NoClaim> {
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err(NoClaim::InvalidValue { value }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::switchback::{PeriodResult, Phase};

    fn block(baseline: Option<f64>, arm: Option<f64>) -> Block {
        let result = |value: Option<f64>| value.map_or(PeriodResult::NotProven, PeriodResult::Value);
        let periods = vec![(ArmId(1), result(arm)), (ArmId::BASELINE, result(baseline))];
        Block { phase: Phase::Race, periods }
    }

    /// Returns blocks whose log ratios are spread evenly around that of `ratio`.
    fn blocks(count: usize, ratio: f64) -> Vec<Block> {
        let spread = |at: usize| (0.02 * (at as f64 - (count as f64 - 1.0) / 2.0) / count as f64).exp();
        (0..count).map(|at| block(Some(50.0 + at as f64), Some((50.0 + at as f64) * ratio * spread(at)))).collect()
    }

    #[test]
    fn change_is_that_within_blocks() {
        let change = compare(&blocks(20, 1.03), ArmId(1)).unwrap();
        assert!((change.value - 0.03).abs() < 1e-9 && change.blocks == 20, "{change:?}");
        assert!(change.interval.contains(0.03) && change.interval.half_width() < 0.01, "{change:?}");
        // All 20 signs agree: 2 / 2^20.
        assert!((change.p_value - 2.0f64.powi(-19)).abs() < 1e-12, "{change:?}");
    }

    #[test]
    fn blocks_without_both_periods_do_not_count() {
        let mut some = blocks(20, 0.9);
        let expected = compare(&some, ArmId(1)).unwrap();
        some.extend([block(None, Some(1.0)), block(Some(9.0), None), block(None, None)]);
        assert_eq!(compare(&some, ArmId(1)).unwrap(), expected);
        assert_eq!(compare(&some, ArmId(2)), Err(NoClaim::TooFewBlocks { complete: 0, needed: BLOCKS_MIN }));
    }

    #[test]
    fn few_invalid_and_extreme_blocks_have_a_reason() {
        for count in [0, 1, 19] {
            let reason = NoClaim::TooFewBlocks { complete: count, needed: BLOCKS_MIN };
            assert_eq!(compare(&blocks(count, 1.1), ArmId(1)), Err(reason));
        }
        for invalid in [0.0, -1.0, f64::INFINITY] {
            let mut some = blocks(30, 1.1);
            some[7] = block(Some(1.0), Some(invalid));
            assert_eq!(compare(&some, ArmId(1)), Err(NoClaim::InvalidValue { value: invalid }));
        }
        let mut some = blocks(30, 1.1);
        some[7] = block(Some(f64::NAN), Some(1.0));
        assert!(matches!(compare(&some, ArmId(1)), Err(NoClaim::InvalidValue { .. })));
        let huge = vec![block(Some(1e-300), Some(1e300)); 20];
        assert_eq!(compare(&huge, ArmId(1)), Err(NoClaim::OutOfRange));
    }

    #[test]
    fn ties_and_equal_values_are_no_difference() {
        let equal = compare(&vec![block(Some(3.0), Some(3.0)); 25], ArmId(1)).unwrap();
        assert!(equal.interval.contains(0.0) && equal.interval.half_width().abs() < 1e-12, "{equal:?}");
        assert!((equal.p_value - 1.0).abs() < 1e-12, "{equal:?}");
        // Ten of each sign, all of the same size.
        let tied: Vec<Block> = (0..20).map(|at| block(Some(2.0), Some(if at % 2 == 0 { 2.1 } else { 1.9 }))).collect();
        assert!(compare(&tied, ArmId(1)).unwrap().interval.contains(0.0));
    }
}
