//! Observations of a run: true times with noise, drift, bursts, failed trials and hanging trials, all derived from a
//! seed. Must not know any rule.

use model::stats::racing::BlockResult;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Slowdown during a burst.
const BURST: f64 = 1.3;
/// Fraction of blocks, or of trials, with a burst.
const BURST_SHARE: f64 = 0.05;
/// Duration of a burst, in trials.
const BURST_TRIALS: f64 = 15.0;
/// Standard deviations of the block effect and of the drift (a slow wave and a random walk).
const BLOCK_SD: f64 = 0.01;
const WAVE: f64 = 0.015;
const WAVE_TRIALS: f64 = 700.0;
const WALK_SD: f64 = 0.0007;
/// Standard deviation of the logarithm of the candidates' noise levels.
const NOISE_SPREAD: f64 = 0.2;
/// Factor of the noise of the baseline.
const KERNEL_NOISE: f64 = 1.5;
/// Factor by which a hanging trial takes longer.
const HANG: f64 = 20.0;

pub struct Random(ChaCha8Rng);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Uniform in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        (f64::from(self.0.next_u32()) + 0.5) / 4_294_967_296.0
    }

    /// Standard normal (Box and Muller, Annals of Mathematical Statistics 29, 1958).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    pub fn below(&mut self, count: usize) -> usize {
        ((self.uniform() * count as f64) as usize).min(count - 1)
    }

    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for index in (1..values.len()).rev() {
            let other = self.below(index + 1);
            values.swap(index, other);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weather {
    /// Standard deviation of the logarithm of a trial's time.
    pub noise: f64,
    /// Bursts cover consecutive trials instead of part of a block.
    pub bursts_in_time: bool,
    /// Fraction of trials whose placement is not verified; each is retried once at the end of its block.
    pub not_proven: f64,
    /// Fraction of trials that hang and are killed at the limit.
    pub hangs: f64,
}

impl Weather {
    pub fn fair(noise: f64) -> Self {
        Self { noise, bursts_in_time: false, not_proven: 0.0, hangs: 0.0 }
    }
}

pub struct Machine {
    truth: Vec<f64>,
    noise: Vec<f64>,
    weather: Weather,
    random: Random,
    /// Number of trials, retries included.
    pub trials: usize,
    walk: f64,
    phase: f64,
    burst_left: usize,
}

impl Machine {
    pub fn new(truth: Vec<f64>, weather: Weather, mut random: Random) -> Self {
        let mut noise: Vec<f64> =
            truth.iter().map(|_| weather.noise * (NOISE_SPREAD * random.normal()).exp()).collect();
        noise[0] *= KERNEL_NOISE;
        let phase = std::f64::consts::TAU * random.uniform();
        Self { truth, noise, weather, random, trials: 0, walk: 0.0, phase, burst_left: 0 }
    }

    /// Standard deviation of the logarithm of a time, by candidate.
    pub fn noise_levels(&self) -> &[f64] {
        &self.noise
    }

    /// Runs each of these candidates once, in random order. Returns logarithms of times.
    pub fn block(&mut self, active: &[usize]) -> Vec<f64> {
        let mut order: Vec<usize> = (0..active.len()).collect();
        self.random.shuffle(&mut order);
        let common = BLOCK_SD * self.random.normal();
        let burst = self.burst_in_block(active.len());
        let mut values = vec![0.0; active.len()];
        for (position, index) in order.into_iter().enumerate() {
            let candidate = active[index];
            let slow = if burst.contains(&position) || self.burst_in_time() { BURST.ln() } else { 0.0 };
            let noise = self.noise[candidate] * self.random.normal();
            values[index] = self.truth[candidate] + common + self.drift() + slow + noise;
        }
        values
    }

    /// As attempts of a race, with failures: times in seconds, killed at the limit.
    pub fn results(&mut self, active: &[usize], limit: Option<f64>) -> Vec<(usize, BlockResult)> {
        let times = self.block(active);
        let results = active.iter().zip(times).map(|(candidate, time)| (*candidate, self.result(time.exp(), limit)));
        let mut results: Vec<(usize, BlockResult)> = results.collect();
        for (candidate, result) in &mut results {
            if matches!(result, BlockResult::NotProven(_)) {
                let time = self.block(&[*candidate])[0].exp();
                *result = self.result(time, limit);
            }
        }
        results
    }

    fn result(&mut self, time: f64, limit: Option<f64>) -> BlockResult {
        if self.weather.not_proven > 0.0 && self.random.uniform() < self.weather.not_proven {
            return BlockResult::NotProven("it was seen on another cpu".into());
        }
        let hangs = self.weather.hangs > 0.0 && self.random.uniform() < self.weather.hangs;
        let time = if hangs { time * HANG } else { time };
        match limit.filter(|limit| time > *limit) {
            Some(limit) => BlockResult::TooSlow { at_least: limit },
            None => BlockResult::Value(time),
        }
    }

    /// Fresh pairs of the leader and the baseline, each in random order: times in seconds.
    pub fn pairs(&mut self, leader: usize, count: u32) -> Vec<(f64, f64)> {
        let pair = |_| {
            let times = self.block(&[leader, 0]);
            (times[0].exp(), times[1].exp())
        };
        (0..count).map(pair).collect()
    }

    /// The positions of this block that are in a burst.
    fn burst_in_block(&mut self, count: usize) -> std::ops::Range<usize> {
        if self.weather.bursts_in_time || self.random.uniform() >= BURST_SHARE {
            return 0..0;
        }
        let share = 0.2 + 0.8 * self.random.uniform();
        let length = ((count as f64 * share).round() as usize).clamp(1, count);
        let from = self.random.below(count - length + 1);
        from..from + length
    }

    fn burst_in_time(&mut self) -> bool {
        if !self.weather.bursts_in_time {
            return false;
        }
        if self.burst_left > 0 {
            self.burst_left -= 1;
            return true;
        }
        if self.random.uniform() < BURST_SHARE / BURST_TRIALS {
            self.burst_left = (-BURST_TRIALS * self.random.uniform().ln()).ceil() as usize;
        }
        false
    }

    fn drift(&mut self) -> f64 {
        self.trials += 1;
        self.walk = self.walk * 0.9999 + WALK_SD * self.random.normal();
        WAVE * (self.trials as f64 * std::f64::consts::TAU / WAVE_TRIALS + self.phase).sin() + self.walk
    }
}
