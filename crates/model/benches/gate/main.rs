//! Measures false failures and detected slowdowns of `nearfar gate` on simulated commands, next to two common rules: that
//! of `hyperfine` with a threshold on the ratio of means, and that of benchstat.
//!
//!   cargo bench -p model --bench gate -- [--gates 2000]
//!
//! Exit status 1 if the gate misses its targets. `cargo test` runs a smoke size. Must not depend on how the gate
//! decides.

mod noise;
#[path = "../shared/mod.rs"]
mod shared;

use std::process::ExitCode;

use model::stats::statistics::{Side, is_proven, mann_whitney};
use noise::{Machine, NOISES};
use shared::{Size, size};

/// Pairs of a command of 0.5 s in two minutes.
const PAIRS_MAX: usize = 120;
/// Runs of each command by the other two rules: the minimum of `hyperfine`, and the advice of benchstat.
const RUNS: usize = 10;
/// Allowed slowdown and error rate of the gate, which are its defaults.
const MAX_SLOWER: f64 = 0.03;
const ERROR_RATE: f64 = 0.01;
/// Threshold on the ratio of means.
const THRESHOLD: f64 = 0.05;
/// Level of benchstat's test.
const ALPHA: f64 = 0.05;
/// The planted slowdown, and the minimum rate at which the gate finds it.
const PLANTED: f64 = 0.05;
const FOUND_MIN: f64 = 90.0;
const FALSE_MAX: f64 = 1.0;
/// First seed. No constant of the gate was tuned on this or a later seed.
const FIRST_SEED: u64 = 5_000_000;

fn main() -> ExitCode {
    let Size { is_smoke, repeats: gates } = size("--gates", 20, 2000);
    println!("percent of {gates} comparisons that fail; median pairs of the gate\n");
    println!(
        "{:<18} {:>8} {:>6} {:>10} {:>6} {:>10} {:>10}",
        "noise", "slower", "gate", "undecided", "pairs", "hyperfine", "benchstat"
    );
    let mut met = true;
    for noise in NOISES {
        for slower in [0.0, PLANTED] {
            let row = row(gates, |seed| Machine::new(noise.kind, seed), slower);
            println!(
                "{:<18} {:>6} % {:>6.1} {:>10.1} {:>6} {:>10.1} {:>10.1}",
                noise.name,
                100.0 * slower,
                row.failed,
                row.undecided,
                row.pairs,
                row.hyperfine,
                row.benchstat
            );
            met &= if slower == 0.0 { row.failed <= FALSE_MAX } else { row.failed >= FOUND_MIN || !noise.is_usual };
        }
    }
    if met || is_smoke { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Percentages of comparisons.
struct Row {
    failed: f64,
    undecided: f64,
    pairs: usize,
    hyperfine: f64,
    benchstat: f64,
}

fn row(gates: usize, machine: impl Fn(u64) -> Machine, slower: f64) -> Row {
    let seeds = || (0..gates).map(|at| FIRST_SEED + at as u64);
    let percent = |count: usize| 100.0 * count as f64 / gates as f64;
    let gated: Vec<(Option<bool>, usize)> = seeds().map(|seed| gate(&mut machine(seed), slower)).collect();
    let mut pairs: Vec<usize> = gated.iter().map(|(_, pairs)| *pairs).collect();
    pairs.sort_unstable();
    let sequential: Vec<[Vec<f64>; 2]> = seeds().map(|seed| machine(seed).one_after_the_other(RUNS, slower)).collect();
    Row {
        failed: percent(gated.iter().filter(|(passes, _)| *passes == Some(false)).count()),
        undecided: percent(gated.iter().filter(|(passes, _)| passes.is_none()).count()),
        pairs: pairs[pairs.len() / 2],
        hyperfine: percent(sequential.iter().filter(|[old, new]| mean(new) / mean(old) > 1.0 + THRESHOLD).count()),
        benchstat: percent(sequential.iter().filter(|[old, new]| is_slower(old, new)).count()),
    }
}

/// Runs one gate. Returns whether it passes (`None` if undecided), and its number of pairs.
fn gate(machine: &mut Machine, slower: f64) -> (Option<bool>, usize) {
    let allowed = MAX_SLOWER.ln_1p();
    let mut logs = Vec::new();
    for pair in 1..=PAIRS_MAX {
        let [old, new] = machine.pair(slower);
        logs.push((new / old).ln());
        if is_proven(&logs, allowed, Side::Above, ERROR_RATE) {
            return (Some(false), pair);
        }
        if is_proven(&logs, allowed, Side::Below, ERROR_RATE) {
            return (Some(true), pair);
        }
    }
    (None, PAIRS_MAX)
}

/// Whether benchstat would mark the candidate as slower.
fn is_slower(old: &[f64], new: &[f64]) -> bool {
    mean(new) > mean(old) && mann_whitney(old, new).is_some_and(|test| test.p_value < ALPHA)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
