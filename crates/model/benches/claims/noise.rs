//! Series of trials with ten kinds of noise, from a seed. Must not depend on the implementation of comparisons.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Log-normal, 3 %.
    LogNormal,
    /// Exponential above a minimum, 3 %.
    Skewed,
    /// Student's t with 3 degrees of freedom, scaled to 2 %.
    HeavyTails,
    /// Log-normal, 1 %; one trial in twenty is 30 % slower.
    Outliers,
    /// Two modes 8 % apart, each with half of the trials.
    Bimodal,
    /// Autoregressive with coefficient 0.5, 3 %.
    Ar05,
    /// Autoregressive with coefficient 0.9, 3 %.
    Ar09,
    /// Two levels 15 % apart, which change after 40 trials on average.
    Phases,
    /// Each trial is 0.5 % slower than the one before, with 1 % of noise.
    Drift,
    /// Runs differ by 1 %, trials of a run by 0.3 %.
    Runs,
}

pub const NOISES: [Noise; 10] = [
    Noise::LogNormal,
    Noise::Skewed,
    Noise::HeavyTails,
    Noise::Outliers,
    Noise::Bimodal,
    Noise::Ar05,
    Noise::Ar09,
    Noise::Phases,
    Noise::Drift,
    Noise::Runs,
];

impl Noise {
    pub fn name(self) -> &'static str {
        match self {
            Self::LogNormal => "log-normal",
            Self::Skewed => "skewed",
            Self::HeavyTails => "heavy tails",
            Self::Outliers => "5 % outliers",
            Self::Bimodal => "bimodal",
            Self::Ar05 => "AR(0.5)",
            Self::Ar09 => "AR(0.9)",
            Self::Phases => "phases",
            Self::Drift => "drift",
            Self::Runs => "runs differ",
        }
    }
}

/// Trials of one machine in chronological order.
pub struct Machine {
    noise: Noise,
    random: ChaCha8Rng,
    /// Deviation that persists between trials, in standard deviations, or the current phase (0 or 1).
    state: f64,
    /// Deviation of the current run, as a logarithm.
    run: f64,
    trials: u32,
}

impl Machine {
    pub fn new(noise: Noise, seed: u64) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        let mut machine = Self { noise, random, state: 0.0, run: 0.0, trials: 0 };
        machine.state =
            if noise == Noise::Phases { f64::from(u8::from(machine.chance(0.5))) } else { machine.normal() };
        machine
    }

    /// Begins a run. Drift, autocorrelation and phases continue from the run before.
    pub fn begin_run(&mut self) {
        self.run = if self.noise == Noise::Runs { 0.01 * self.normal() } else { 0.0 };
    }

    /// Returns the time of the next trial; without noise it is 1.
    pub fn trial(&mut self) -> f64 {
        self.trials += 1;
        let deviation = match self.noise {
            Noise::LogNormal => 0.03 * self.normal(),
            Noise::Skewed => -0.03 * (1.0 - self.uniform()).ln(),
            Noise::HeavyTails => 0.02 * self.student(3),
            Noise::Outliers => 0.01 * self.normal() + if self.chance(0.05) { 0.3 } else { 0.0 },
            Noise::Bimodal => 0.01 * self.normal() + if self.chance(0.5) { 0.08 } else { 0.0 },
            Noise::Ar05 => 0.03 * self.persistent(0.5),
            Noise::Ar09 => 0.03 * self.persistent(0.9),
            Noise::Phases => {
                if self.chance(1.0 / 40.0) {
                    self.state = 1.0 - self.state;
                }
                0.15 * self.state + 0.01 * self.normal()
            }
            Noise::Drift => 0.005 * f64::from(self.trials) + 0.01 * self.normal(),
            Noise::Runs => self.run + 0.003 * self.normal(),
        };
        deviation.exp()
    }

    /// Whether an event of this probability occurs.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    fn uniform(&mut self) -> f64 {
        self.random.random::<f64>()
    }

    /// Box and Muller, Annals of Mathematical Statistics 29, 1958.
    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn student(&mut self, freedom: u32) -> f64 {
        let squares: f64 = (0..freedom).map(|_| self.normal().powi(2)).sum();
        self.normal() / (squares / f64::from(freedom)).sqrt()
    }

    fn persistent(&mut self, coefficient: f64) -> f64 {
        self.state = coefficient * self.state + (1.0 - coefficient * coefficient).sqrt() * self.normal();
        self.state
    }
}
