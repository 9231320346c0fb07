//! Wash-out: the time after a switch until the metric is steady.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ArmId;
use crate::stats::statistics::median;

/// Minimum number of switches per direction. The noise of windows of 50 ms is about 20 %; a median of ten has 8 %.
const SWITCHES_MIN: usize = 10;
/// The metric in the last part of a period is taken as steady.
const STEADY_FROM: f64 = 2.0 / 3.0;
/// Maximum number of time steps.
const STEPS_MAX: usize = 1000;

/// Mean of the metric in a short window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchSample {
    /// Middle of the window, in seconds since the switch.
    pub since_s: f64,
    /// In the unit of the metric; 0 is allowed.
    pub value: f64,
}

/// Samples from one switch to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Switch {
    pub from: ArmId,
    pub to: ArmId,
    pub samples: Vec<SwitchSample>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WashOutRules {
    /// Relative deviation from the steady value that is allowed after the wash-out, such as 0.02.
    pub tolerance: f64,
    /// Resolution in seconds, not shorter than the interval between samples.
    pub step_s: f64,
}

/// Wash-out of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WashOut {
    /// Time in seconds after which the metric stays within the tolerance: a multiple of the step.
    Settled { after_s: f64 },
    /// The metric still changed in the last third of the periods, or nearly: longer periods are necessary.
    NotSettled { at_least_s: f64 },
    /// Switches with valid samples were fewer than needed.
    TooFewSwitches { switches: usize, needed: usize },
}

/// Estimates the wash-out of each direction (from, to) that occurs. With many arms, few switches have the same direction;
/// the caller may replace `from` by one arm to judge all switches to an arm together.
///
/// The steady value is that of the same switch, so drift has no effect. The median of all switches at each time is
/// fitted by a deviation that only decreases (isotonic regression: Barlow et al., Statistical Inference under Order
/// Restrictions, 1972), which averages late noise. If the noise of that median exceeds the tolerance, the estimate is
/// usually too long, rarely too short. Samples that are not finite or are negative are ignored.
pub fn wash_outs(switches: &[Switch], rules: &WashOutRules) -> BTreeMap<(ArmId, ArmId), WashOut> {
    let mut directions: BTreeMap<(ArmId, ArmId), Vec<&Switch>> = BTreeMap::new();
    for switch in switches.iter().filter(|switch| switch.from != switch.to) {
        directions.entry((switch.from, switch.to)).or_default().push(switch);
    }
    directions.into_iter().map(|(direction, switches)| (direction, wash_out(&switches, rules))).collect()
}

fn wash_out(switches: &[&Switch], rules: &WashOutRules) -> WashOut {
    let curves: Vec<Vec<Option<f64>>> = switches.iter().filter_map(|switch| deviations(switch, rules.step_s)).collect();
    if curves.len() < SWITCHES_MIN {
        return WashOut::TooFewSwitches { switches: curves.len(), needed: SWITCHES_MIN };
    }
    let steps = curves.iter().map(Vec::len).max().unwrap_or(0);
    let at = |step: usize| {
        let values: Vec<f64> = curves.iter().filter_map(|curve| curve.get(step).copied().flatten()).collect();
        // A step that few switches have is noise, or the end of the longest period.
        if values.len() < SWITCHES_MIN { 0.0 } else { median(&values).unwrap_or(0.0) }
    };
    let curve: Vec<f64> = (0..steps).map(at).collect();
    let settled = settled_step(&curve, rules.tolerance);
    let seconds = settled as f64 * rules.step_s;
    if settled as f64 >= STEADY_FROM * steps as f64 {
        WashOut::NotSettled { at_least_s: seconds }
    } else {
        WashOut::Settled { after_s: seconds }
    }
}

/// Returns the relative deviations of one switch from its steady value by time step; `None` without a steady value.
fn deviations(switch: &Switch, step_s: f64) -> Option<Vec<Option<f64>>> {
    let is_valid = |sample: &&SwitchSample| {
        sample.since_s.is_finite() && sample.since_s >= 0.0 && sample.value.is_finite() && sample.value >= 0.0
    };
    let samples: Vec<&SwitchSample> = switch.samples.iter().filter(is_valid).collect();
    let end = samples.iter().map(|sample| sample.since_s).fold(0.0, f64::max);
    let late = samples.iter().filter(|sample| sample.since_s >= STEADY_FROM * end).map(|sample| sample.value);
    let steady = mean(&late.collect::<Vec<_>>()).filter(|steady| *steady > 0.0)?;
    if step_s.is_nan() || step_s <= 0.0 {
        return None;
    }
    let mut steps: Vec<Vec<f64>> = Vec::new();
    for sample in samples {
        let step = (sample.since_s / step_s) as usize;
        if step < STEPS_MAX {
            steps.resize(steps.len().max(step + 1), Vec::new());
            steps[step].push(sample.value / steady - 1.0);
        }
    }
    Some(steps.iter().map(|values| mean(values)).collect())
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the first step from which the deviation stays within the tolerance, on either side: an overshoot after the
/// first side has settled counts.
fn settled_step(curve: &[f64], tolerance: f64) -> usize {
    let below: Vec<f64> = curve.iter().map(|value| -value).collect();
    let one_side = |curve: &[f64], other: &[f64]| {
        let first = decreasing_until(curve, tolerance);
        first + decreasing_until(&other[first..], tolerance)
    };
    one_side(curve, &below).max(one_side(&below, curve))
}

/// Returns the number of first steps in which the best fit that never increases is above the tolerance.
fn decreasing_until(curve: &[f64], tolerance: f64) -> usize {
    // Pool adjacent violators: groups of steps with their sums.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for value in curve {
        let mut group = (*value, 1);
        while let Some((sum, count)) = groups.pop_if(|(sum, count)| *sum / *count as f64 <= group.0 / group.1 as f64) {
            group = (group.0 + sum, group.1 + count);
        }
        groups.push(group);
    }
    let is_above = |group: &&(f64, usize)| group.0 / group.1 as f64 > tolerance;
    groups.iter().take_while(is_above).map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::search::Random;

    const RULES: WashOutRules = WashOutRules { tolerance: 0.05, step_s: 0.05 };

    /// Returns switches from arm 0 to 1 of 2 s, sampled every 50 ms with 15 % noise.
    fn switches(count: usize, seed: u64, noise: f64, shape: impl Fn(f64) -> f64) -> Vec<Switch> {
        let mut random = Random::new(seed, "wash-out");
        (0..count)
            .map(|at| {
                let sample = |step: usize| {
                    let since_s = (step as f64 + 0.5) * 0.05;
                    let value = (1.0 + 0.1 * at as f64) * shape(since_s) * (1.0 + noise * random.normal());
                    SwitchSample { since_s, value }
                };
                Switch { from: ArmId(0), to: ArmId(1), samples: (0..40).map(sample).collect() }
            })
            .collect()
    }

    fn of(switches: &[Switch]) -> WashOut {
        wash_outs(switches, &RULES)[&(ArmId(0), ArmId(1))]
    }

    fn after_s(switches: &[Switch]) -> f64 {
        let WashOut::Settled { after_s } = of(switches) else { panic!("{:?}", of(switches)) };
        after_s
    }

    fn widening(since: f64) -> f64 {
        (0.25 + 1.5 * since).min(1.0)
    }

    #[test]
    fn exact_transients_end_at_the_tolerance() {
        assert!(after_s(&switches(10, 1, 0.0, |_| 1.0)).abs() < 1e-9);
        // Within 5 % from 0.467 s on.
        assert!((after_s(&switches(10, 1, 0.0, widening)) - 0.45).abs() < 1e-9);
        assert!((after_s(&switches(10, 1, 0.0, |since| if since < 0.05 { 1.8 } else { 1.0 })) - 0.05).abs() < 1e-9);
        let overshoot = |since: f64| {
            if since < 0.2 {
                0.3
            } else if since < 0.5 {
                1.2
            } else {
                1.0
            }
        };
        assert!((after_s(&switches(10, 1, 0.0, overshoot)) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn steps_of_noise_are_averaged() {
        for (curve, expected) in [
            (&[0.3, 0.0, 0.3, 0.0, 0.0][..], 3),
            (&[0.3, 0.0, 0.06, -0.06, 0.06][..], 1),
            (&[-0.3, 0.2, 0.1][..], 0),
            (&[][..], 0),
        ] {
            assert_eq!(decreasing_until(curve, 0.05), expected, "{curve:?}");
        }
    }

    #[test]
    fn noise_moves_the_estimate_by_few_steps() {
        for seed in 0..20 {
            let wide = after_s(&switches(40, seed, 0.15, widening));
            assert!((0.35..=0.75).contains(&wide), "{seed}: {wide}");
            let narrow = after_s(&switches(40, seed, 0.15, |since| if since < 0.05 { 1.8 } else { 1.0 }));
            assert!((0.05..=0.3).contains(&narrow), "{seed}: {narrow}");
        }
    }

    #[test]
    fn slow_and_rare_switches_have_a_reason() {
        assert!(matches!(of(&switches(20, 1, 0.01, |since| 0.3 + 0.3 * since)), WashOut::NotSettled { .. }));
        let few = WashOut::TooFewSwitches { switches: 9, needed: SWITCHES_MIN };
        assert_eq!(of(&switches(9, 1, 0.1, widening)), few);
        let mut invalid = switches(10, 1, 0.1, widening);
        invalid[0].samples.iter_mut().for_each(|sample| sample.value = 0.0);
        assert_eq!(of(&invalid), few, "a service that is never steady");
        invalid[0].samples.clear();
        assert_eq!(of(&invalid), few, "no samples");
        let no_step = WashOutRules { step_s: f64::NAN, ..RULES };
        let none = WashOut::TooFewSwitches { switches: 0, needed: SWITCHES_MIN };
        assert_eq!(wash_outs(&switches(20, 1, 0.1, widening), &no_step)[&(ArmId(0), ArmId(1))], none);
    }
}
