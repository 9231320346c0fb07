//! Noise of a simulated machine: the factor by which a trial is slower than the performance model predicts.

use model::values::plan::stream;
use model::values::trial::Trial;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Relative standard deviation of single trials, as on a quiet machine; the targets of `place` hold for 2 to 5 %.
const TRIAL_SD: f64 = 0.02;
/// Relative standard deviation that all trials of a block share.
const BLOCK_SD: f64 = 0.01;
/// Relative amplitude of the drift over a run: temperature, page cache, neighbours.
const DRIFT: f64 = 0.02;
/// Period of the drift, in trials.
const DRIFT_PERIOD_TRIALS: f64 = 400.0;
/// Fraction of blocks with other work on the machine; half of their trials are slowed down.
const BURST_SHARE: f64 = 0.05;
const BURST_SLOWDOWN: f64 = 1.3;
/// Unpinned trials vary more, because the scheduler migrates threads.
const KERNEL_SD_FACTOR: f64 = 1.5;

/// Slowdown factor of a trial at a position of the run.
pub fn slowdown(seed: u64, trial: &Trial, position: u32) -> f64 {
    let block = format!("block {} {}", trial.role.key(), trial.block);
    let mut of_block = ChaCha8Rng::seed_from_u64(stream(seed, &block));
    let mut of_trial = ChaCha8Rng::seed_from_u64(stream(seed, &format!("noise {}", trial.id)));
    let sd = if trial.placement.is_pinned() { TRIAL_SD } else { TRIAL_SD * KERNEL_SD_FACTOR };
    let wave = DRIFT * (f64::from(position) / DRIFT_PERIOD_TRIALS * std::f64::consts::TAU).sin();
    let noise = sd * normal(&mut of_trial) + BLOCK_SD * normal(&mut of_block) + wave;
    let burst = of_block.random::<f64>() < BURST_SHARE && of_trial.random::<f64>() < 0.5;
    noise.exp() * if burst { BURST_SLOWDOWN } else { 1.0 }
}

/// Standard normal variate (Box and Muller, 1958).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}
