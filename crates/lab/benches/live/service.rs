//! A simulated service whose rate has drift, autocorrelated noise and a slow reaction to a switch.

use std::f64::consts::TAU;
use std::time::Duration;

use lab::live::{LiveService, Placed, Reading};
use model::stats::switchback::ArmId;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Time between two states of the service, in seconds.
const STEP_S: f64 = 0.02;
/// Standard deviation of the rate in one step, so that the mean of a second has one of 2 %.
const STEP_NOISE: f64 = 0.14;

/// Reaction to a switch and noise of the rate.
pub struct Kind {
    pub name: &'static str,
    /// Time constant of the reaction to a switch to an alternative, in seconds.
    pub lag_s: f64,
    /// Share that the rate lacks directly after such a switch.
    pub dip: f64,
    /// Standard deviation of an autoregressive factor of the rate with a coefficient of 0.9 per second.
    pub slow_noise: f64,
    /// Amplitude of a sine of 5 minutes.
    pub drift: f64,
    /// Whether the targets apply: with a slow reaction, 15 minutes do not suffice for a claim.
    pub has_targets: bool,
}

pub const KINDS: [Kind; 5] = [
    Kind { name: "independent", lag_s: 0.02, dip: 0.0, slow_noise: 0.0, drift: 0.0, has_targets: true },
    Kind { name: "drift, AR(0.9)", lag_s: 0.02, dip: 0.0, slow_noise: 0.02, drift: 0.2, has_targets: true },
    Kind { name: "reaction 0.1 s", lag_s: 0.1, dip: 0.5, slow_noise: 0.02, drift: 0.0, has_targets: true },
    Kind { name: "reaction 0.3 s", lag_s: 0.3, dip: 0.5, slow_noise: 0.02, drift: 0.0, has_targets: true },
    Kind { name: "reaction 1 s", lag_s: 1.0, dip: 0.5, slow_noise: 0.02, drift: 0.0, has_targets: false },
];

pub struct Simulated<'a> {
    kind: &'a Kind,
    /// Steady rate of each placement.
    rates: Vec<f64>,
    random: ChaCha8Rng,
    arm: ArmId,
    now_s: f64,
    since_switch_s: f64,
    slow: f64,
    total: f64,
}

impl<'a> Simulated<'a> {
    /// Placement 1 has the gain.
    pub fn new(kind: &'a Kind, alternatives: u32, gain: f64, seed: u64) -> Self {
        let rates = (0..=alternatives).map(|arm| if arm == 1 { 1.0 + gain } else { 1.0 }).collect();
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self { kind, rates, random, arm: ArmId::BASELINE, now_s: 0.0, since_switch_s: f64::MAX, slow: 0.0, total: 0.0 }
    }

    /// Approximately normal, with a standard deviation of 1: the sum of twelve uniform numbers.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.random::<f64>()).sum::<f64>() - 6.0
    }
}

impl LiveService for Simulated<'_> {
    fn place(&mut self, arm: ArmId) -> Result<Placed, String> {
        if arm != self.arm {
            self.since_switch_s = if arm == ArmId::BASELINE { f64::MAX } else { 0.0 };
        }
        self.arm = arm;
        Ok(Placed { threads: 1, memory: None })
    }

    fn verify(&mut self, _: ArmId) -> Result<(), String> {
        Ok(())
    }

    fn read(&mut self) -> Result<Reading, String> {
        Ok(Reading { total: self.total, base: self.now_s })
    }

    fn now(&self) -> Duration {
        Duration::from_secs_f64(self.now_s)
    }

    fn wait_until(&mut self, time: Duration) {
        let kept = 0.9f64.powf(STEP_S);
        while self.now_s < time.as_secs_f64() {
            self.slow = kept * self.slow + (1.0 - kept * kept).sqrt() * self.kind.slow_noise * self.normal();
            let dip = self.kind.dip * (-self.since_switch_s / self.kind.lag_s).exp();
            let drift = self.kind.drift * (TAU * self.now_s / 300.0).sin();
            let noise = STEP_NOISE * self.normal();
            let rate = self.rates[self.arm.0 as usize] * (1.0 - dip) * (1.0 + drift) * (1.0 + self.slow);
            self.total += (STEP_S * rate * (1.0 + noise)).max(0.0);
            self.now_s += STEP_S;
            self.since_switch_s += STEP_S;
        }
    }
}
