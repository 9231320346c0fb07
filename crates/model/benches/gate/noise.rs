//! Simulated run times of two commands on a noisy machine.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Kinds of noise. Standard deviations are relative to the run time.
#[derive(Clone, Copy)]
pub enum NoiseKind {
    Independent {
        sd: f64,
    },
    /// First-order autoregressive, with this coefficient from trial to trial.
    Autoregressive {
        sd: f64,
        coefficient: f64,
    },
    /// Independent; one trial in twenty takes 30 % longer.
    Outliers {
        sd: f64,
    },
    /// Independent; all trials become slower by this fraction from one to the next.
    Drift {
        sd: f64,
        per_trial: f64,
    },
    /// Independent; the machine is slower by 5 % in phases of about 25 trials.
    Phases {
        sd: f64,
    },
}

pub struct Noise {
    pub name: &'static str,
    pub kind: NoiseKind,
    /// Whether a slowdown of 5 % must be found: the noise is at most that of a virtual machine that others share.
    pub is_usual: bool,
}

pub const NOISES: [Noise; 7] = [
    Noise { name: "independent 2 %", kind: NoiseKind::Independent { sd: 0.02 }, is_usual: true },
    Noise { name: "independent 5 %", kind: NoiseKind::Independent { sd: 0.05 }, is_usual: false },
    Noise { name: "AR(0.5) 2 %", kind: NoiseKind::Autoregressive { sd: 0.02, coefficient: 0.5 }, is_usual: true },
    Noise { name: "AR(0.9) 3 %", kind: NoiseKind::Autoregressive { sd: 0.03, coefficient: 0.9 }, is_usual: true },
    Noise { name: "outliers", kind: NoiseKind::Outliers { sd: 0.02 }, is_usual: true },
    Noise { name: "drift 0.5 %/trial", kind: NoiseKind::Drift { sd: 0.02, per_trial: 0.005 }, is_usual: true },
    Noise { name: "phases of 5 %", kind: NoiseKind::Phases { sd: 0.02 }, is_usual: true },
];

const OUTLIER_SHARE: f64 = 0.05;
const OUTLIER_FACTOR: f64 = 1.3;
const PHASE_CHANGE: f64 = 1.0 / 25.0;
const PHASE_FACTOR: f64 = 1.05;

pub struct Machine {
    rng: ChaCha8Rng,
    kind: NoiseKind,
    /// State of the autoregression, in standard deviations.
    level: f64,
    trials: u32,
    is_slow: bool,
}

impl Machine {
    pub fn new(kind: NoiseKind, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (level, is_slow) = (normal(&mut rng), rng.random());
        Self { rng, kind, level, trials: 0, is_slow }
    }

    /// Runs both commands in random order. The second one is slower by this fraction.
    pub fn pair(&mut self, slower: f64) -> [f64; 2] {
        let is_reversed: bool = self.rng.random();
        let (first, second) = (self.factor(), self.factor());
        let [old, new] = if is_reversed { [second, first] } else { [first, second] };
        [old, new * (1.0 + slower)]
    }

    /// Runs the first command this many times, then the second.
    pub fn one_after_the_other(&mut self, runs: usize, slower: f64) -> [Vec<f64>; 2] {
        [1.0, 1.0 + slower].map(|seconds| (0..runs).map(|_| seconds * self.factor()).collect())
    }

    /// Slowdown of the next trial.
    fn factor(&mut self) -> f64 {
        self.trials += 1;
        let normal = normal(&mut self.rng);
        let factor = match self.kind {
            NoiseKind::Independent { sd } => sd * normal,
            NoiseKind::Autoregressive { sd, coefficient } => {
                self.level = coefficient * self.level + (1.0_f64 - coefficient * coefficient).sqrt() * normal;
                sd * self.level
            }
            NoiseKind::Outliers { sd } => {
                let is_outlier = self.rng.random::<f64>() < OUTLIER_SHARE;
                sd * normal + if is_outlier { OUTLIER_FACTOR.ln() } else { 0.0 }
            }
            NoiseKind::Drift { sd, per_trial } => sd * normal + per_trial * f64::from(self.trials),
            NoiseKind::Phases { sd } => {
                self.is_slow ^= self.rng.random::<f64>() < PHASE_CHANGE;
                sd * normal + if self.is_slow { PHASE_FACTOR.ln() } else { 0.0 }
            }
        };
        factor.exp()
    }
}

/// Standard normal variate (Box and Muller, 1958).
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}
