//! Estimated wash-outs of simulated transients after switches, as seen on real services.

use model::stats::search::Random;
use model::stats::switchback::{ArmId, Switch, SwitchSample, WashOut, WashOutRules, wash_outs};

const STEP_S: f64 = 0.05;
const SAMPLES: usize = 40;
/// Noise of a sample of 50 ms.
const SAMPLE_SD: f64 = 0.15;

/// A transient: the relative rate by the time since the switch, in seconds.
pub struct Transient {
    pub name: &'static str,
    pub rate: fn(f64) -> f64,
}

pub const TRANSIENTS: [Transient; 4] = [
    Transient { name: "none", rate: |_| 1.0 },
    Transient { name: "narrowing, 0.05 s", rate: |since| if since < 0.05 { 1.8 } else { 1.0 } },
    Transient { name: "widening, 0.5 s", rate: |since| (0.25 + 1.5 * since).min(1.0) },
    Transient { name: "exponential, 0.2 s", rate: |since| 1.0 - 0.5 * (-since / 0.2).exp() },
];

/// Estimates in seconds.
pub struct WashOutRow {
    /// Of samples without noise.
    pub exact_s: f64,
    /// Quantiles of 5, 50 and 95 % of all estimates.
    pub quantiles_s: [f64; 3],
    /// Percentage of estimates with which the mean of 1 s after the wash-out deviates by more than 1 %.
    pub biased: f64,
}

pub fn row(transient: &Transient, tolerance: f64, switches: usize, repeats: usize) -> WashOutRow {
    let mut estimates: Vec<f64> =
        (0..repeats).map(|at| estimate(transient, tolerance, switches, SAMPLE_SD, 6_000_000 + at as u64)).collect();
    estimates.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| estimates[(share * (repeats - 1) as f64).round() as usize];
    let is_biased = |after: &&f64| {
        let steps = (0..20).map(|step| (transient.rate)(**after + (f64::from(step) + 0.5) * STEP_S));
        (steps.sum::<f64>() / 20.0 - 1.0).abs() > 0.01
    };
    WashOutRow {
        exact_s: estimate(transient, tolerance, switches, 0.0, 1),
        quantiles_s: [0.05, 0.5, 0.95].map(quantile),
        biased: 100.0 * estimates.iter().filter(is_biased).count() as f64 / repeats as f64,
    }
}

fn estimate(transient: &Transient, tolerance: f64, switches: usize, sd: f64, seed: u64) -> f64 {
    let mut random = Random::new(seed, "transient");
    let sample = |step: usize, random: &mut Random| {
        let since_s = (step as f64 + 0.5) * STEP_S;
        SwitchSample { since_s, value: (transient.rate)(since_s) * (1.0 + sd * random.normal()).max(0.0) }
    };
    let switches: Vec<Switch> = (0..switches)
        .map(|_| {
            let samples = (0..SAMPLES).map(|step| sample(step, &mut random)).collect();
            Switch { from: ArmId(0), to: ArmId(1), samples }
        })
        .collect();
    let rules = WashOutRules { tolerance, step_s: STEP_S };
    match wash_outs(&switches, &rules)[&(ArmId(0), ArmId(1))] {
        WashOut::Settled { after_s } => after_s,
        WashOut::NotSettled { at_least_s } => at_least_s,
        WashOut::TooFewSwitches { .. } => f64::NAN,
    }
}
