//! A simulated service: its rate by time, with noise, drift and transients after switches.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Length of a sample, of the wash-out and of a period.
pub const SAMPLE_S: f64 = 0.1;
pub const WASH_OUT_SAMPLES: usize = 6;
pub const PERIOD_SAMPLES: usize = 20;

/// Noise that each service has: 2 % of the mean of a period after its wash-out.
const PERIOD_SD: f64 = 0.02;

/// Behaviour of a service in addition to its independent noise.
#[derive(Clone, Copy)]
pub enum NoiseKind {
    Independent,
    /// A sine of 24 hours by a factor of 1.65 up and down, from a random time of the day.
    DailyDrift,
    /// The rate itself is autoregressive, with a standard deviation of 2 % and this coefficient from period to period.
    Autoregressive(f64),
    /// The service is slower by 5 % in phases of about 25 periods.
    Phases,
    /// One period in twenty is slower by 30 %.
    Bursts,
    /// After a switch to an arm with an odd number, the rate lacks this share, which vanishes with this time constant.
    CarryOver {
        share: f64,
        seconds: f64,
    },
}

pub struct Noise {
    pub name: &'static str,
    pub kind: NoiseKind,
    /// Whether the targets apply: not if the wash-out is shorter than necessary.
    pub has_targets: bool,
}

const fn noise(name: &'static str, kind: NoiseKind) -> Noise {
    Noise { name, kind, has_targets: true }
}

pub const NOISES: [Noise; 8] = [
    noise("independent", NoiseKind::Independent),
    noise("daily drift", NoiseKind::DailyDrift),
    noise("AR(0.5)", NoiseKind::Autoregressive(0.5)),
    noise("AR(0.9)", NoiseKind::Autoregressive(0.9)),
    noise("phases", NoiseKind::Phases),
    noise("bursts", NoiseKind::Bursts),
    noise("carry-over 0.12 s", NoiseKind::CarryOver { share: 0.5, seconds: 0.12 }),
    Noise { name: "carry-over 0.6 s", kind: NoiseKind::CarryOver { share: 0.1, seconds: 0.6 }, has_targets: false },
];

const DRIFT: f64 = 0.5;
const DAY_S: f64 = 86_400.0;
const RATE_SD: f64 = 0.02;
const PHASE_CHANGE: f64 = 1.0 / 25.0;
const PHASE_FACTOR: f64 = 0.95;
const BURST_SHARE: f64 = 0.05;
const BURST_FACTOR: f64 = 0.7;

/// Means of one period after its wash-out, and the arm of the preceding period.
#[derive(Clone, Copy)]
pub struct Period {
    pub from: u32,
    pub mean: f64,
    pub first: f64,
    pub second: f64,
}

pub struct Service {
    rng: ChaCha8Rng,
    kind: NoiseKind,
    /// Time of the day, in seconds.
    time_s: f64,
    /// State of the autoregression, in standard deviations.
    level: f64,
    is_slow: bool,
    arm: u32,
    since_switch_s: f64,
    spare: Option<f64>,
}

impl Service {
    pub fn new(kind: NoiseKind, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (time_s, is_slow) = (DAY_S * rng.random::<f64>(), rng.random());
        let mut service =
            Self { rng, kind, time_s, level: 0.0, is_slow, arm: 0, since_switch_s: f64::INFINITY, spare: None };
        service.level = service.normal();
        service
    }

    /// Runs a period of an arm that is faster by this share.
    pub fn period(&mut self, arm: u32, faster: f64) -> Period {
        let from = self.arm;
        if arm != from {
            (self.arm, self.since_switch_s) = (arm, 0.0);
        }
        self.is_slow ^= matches!(self.kind, NoiseKind::Phases) && self.rng.random::<f64>() < PHASE_CHANGE;
        let is_burst = matches!(self.kind, NoiseKind::Bursts) && self.rng.random::<f64>() < BURST_SHARE;
        let mut factor = 1.0 + faster;
        if matches!(self.kind, NoiseKind::Phases) && self.is_slow {
            factor *= PHASE_FACTOR;
        }
        if is_burst {
            factor *= BURST_FACTOR;
        }
        let samples: Vec<f64> = (0..PERIOD_SAMPLES).map(|_| factor * self.sample()).collect();
        let steady = &samples[WASH_OUT_SAMPLES..];
        let (first, second) = steady.split_at(steady.len() / 2);
        Period { from, mean: mean(steady), first: mean(first), second: mean(second) }
    }

    /// Rate of the next sample, relative to the usual one of the arm.
    fn sample(&mut self) -> f64 {
        let used = (PERIOD_SAMPLES - WASH_OUT_SAMPLES) as f64;
        let independent = PERIOD_SD * used.sqrt() * self.normal();
        let shared = match self.kind {
            NoiseKind::DailyDrift => DRIFT * (std::f64::consts::TAU * self.time_s / DAY_S).sin(),
            NoiseKind::Autoregressive(of_period) => {
                let coefficient = of_period.powf(1.0 / PERIOD_SAMPLES as f64);
                self.level = coefficient * self.level + (1.0 - coefficient * coefficient).sqrt() * self.normal();
                RATE_SD * self.level
            }
            NoiseKind::CarryOver { share, seconds } if self.arm % 2 == 1 => {
                (1.0 - share * (-(self.since_switch_s + SAMPLE_S / 2.0) / seconds).exp()).ln()
            }
            _ => 0.0,
        };
        self.time_s += SAMPLE_S;
        self.since_switch_s += SAMPLE_S;
        // Rates are linear in the independent noise, so that their mean does not depend on it.
        shared.exp() * (1.0 + independent).max(0.0)
    }

    /// Standard normal variate (Box and Muller, 1958).
    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * (1.0 - self.rng.random::<f64>()).ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.rng.random::<f64>()).sin_cos();
        self.spare = Some(radius * sine);
        radius * cosine
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
