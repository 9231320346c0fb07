//! Test for carry-over: whether an arm's metric still changes after the wash-out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::compare::{center, positive};
use super::{ArmId, BLOCKS_MIN, NoClaim};
use crate::stats::statistics::Interval;

/// Probability that the intervals of all arms contain 0 without carry-over. Higher than that of claims, because the test is
/// repeated during an experiment, and a false alarm costs time.
const CONFIDENCE: f64 = 0.99;

/// Means of the metric in the two halves of one period after its wash-out, in the unit of the metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Halves {
    /// Arm of the preceding period.
    pub from: ArmId,
    /// Arm of this period.
    pub to: ArmId,
    pub first: f64,
    pub second: f64,
}

/// Difference of an arm's metric between the halves of its periods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CarryOver {
    /// Relative difference of the first half to the second; the bias of the period's mean is about half of it.
    pub change: f64,
    /// Interval of the change. Without carry-over, the intervals of all arms contain 0 with a probability of at least
    /// 99 % (Bonferroni).
    pub interval: Interval,
    /// Number of periods that begin with a switch from another arm.
    pub periods: usize,
}

impl CarryOver {
    /// Whether the wash-out of switches to this arm is too short.
    pub fn is_significant(&self) -> bool {
        !self.interval.contains(0.0)
    }
}

/// Tests for each arm whether the halves of its periods differ after a switch from any other arm. Periods that begin
/// without a switch are ignored.
///
/// Switches from several arms are judged together: with opposite signs, their carry-over can cancel out here. A linear
/// trend of the whole service is a difference of half a period's drift, which is negligible for periods of seconds.
///
/// An arm has an error as in [`super::compare()`]: too few periods, or a value without a finite ratio.
pub fn carry_over(periods: &[Halves]) -> BTreeMap<ArmId, Result<CarryOver, NoClaim>> {
    let mut ratios: BTreeMap<ArmId, Result<Vec<f64>, NoClaim>> = BTreeMap::new();
    for period in periods.iter().filter(|period| period.from != period.to) {
        let arm = ratios.entry(period.to).or_insert_with(|| Ok(Vec::new()));
        match (positive(period.first), positive(period.second)) {
            (Ok(first), Ok(second)) => arm.iter_mut().for_each(|ratios| ratios.push(first.ln() - second.ln())),
            (Err(reason), _) | (_, Err(reason)) => *arm = Err(reason),
        }
    }
    let tests = ratios.values().flatten().filter(|ratios| ratios.len() >= BLOCKS_MIN).count().max(1);
    let confidence = 1.0 - (1.0 - CONFIDENCE) / tests as f64;
    ratios.into_iter().map(|(arm, ratios)| (arm, ratios.and_then(|ratios| judge(&ratios, confidence)))).collect()
}

fn judge(ratios: &[f64], confidence: f64) -> Result<CarryOver, NoClaim> {
    let (change, interval) = center(ratios, confidence)?;
    Ok(CarryOver { change, interval, periods: ratios.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::search::Random;

    /// Returns periods of two arms in alternation; in arm 1, the first half is lower by this share.
    fn periods(count: usize, share: f64, random: &mut Random) -> Vec<Halves> {
        let half = |random: &mut Random, level: f64| level * (0.02 * random.normal()).exp();
        (0..count)
            .map(|at| {
                let to = ArmId(at as u32 % 2);
                let level = if to == ArmId(1) { 100.0 * (1.0 - share) } else { 100.0 };
                Halves { from: ArmId(1 - to.0), to, first: half(random, level), second: half(random, 100.0) }
            })
            .collect()
    }

    #[test]
    fn slow_arm_is_found_and_the_other_is_not() {
        let found = carry_over(&periods(120, 0.03, &mut Random::new(1, "carry-over")));
        let (other, slow) = (found[&ArmId(0)].unwrap(), found[&ArmId(1)].unwrap());
        assert!(!other.is_significant() && slow.is_significant(), "{found:?}");
        assert!(slow.interval.contains(-0.03) && slow.periods == 60, "{slow:?}");
    }

    #[test]
    fn false_alarms_of_both_arms_together_are_rare() {
        let mut random = Random::new(2, "carry-over");
        let alarm = |found: &BTreeMap<ArmId, Result<CarryOver, NoClaim>>| {
            found.values().flatten().any(CarryOver::is_significant)
        };
        let alarms = (0..2000).filter(|_| alarm(&carry_over(&periods(60, 0.0, &mut random)))).count();
        assert!((8..=32).contains(&alarms), "{alarms} of 2000");
    }

    #[test]
    fn periods_without_switch_and_invalid_values_do_not_count() {
        let mut random = Random::new(3, "carry-over");
        let mut some = periods(40, 0.0, &mut random);
        some.iter_mut().filter(|period| period.to == ArmId(0)).for_each(|period| period.from = ArmId(0));
        some[1].first = 0.0;
        let found = carry_over(&some);
        assert_eq!(found.get(&ArmId(0)), None);
        assert_eq!(found[&ArmId(1)], Err(NoClaim::InvalidValue { value: 0.0 }));
        let few = carry_over(&periods(38, 0.0, &mut random));
        assert_eq!(few[&ArmId(1)], Err(NoClaim::TooFewBlocks { complete: 19, needed: BLOCKS_MIN }));
        assert!(carry_over(&[]).is_empty());
    }
}
