//! Measures coverage and false claims of comparisons under ten kinds of noise, within a run and between runs of equal
//! sides.
//!
//!   cargo bench -p model --bench claims -- [--rows 500] [--only within|between]
//!
//! Exit status 1 if the program claims differences significantly more often than in 5 % of the rows. `cargo test` runs a
//! smoke size, with the same limit at its precision. Uses no clock. Must not depend on the implementation of comparisons.

mod estimators;
mod noise;
mod runs;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use estimators::ESTIMATORS;
use model::stats::statistics::{median, relative_half_width};
use model::values::comparison::Difference;
use noise::{Machine, NOISES, Noise};
use runs::{Design, compared};

/// Number of threads: two, because the smallest build machine has two CPUs.
const WORKERS: usize = 2;
/// First seed. No constant of a comparison was tuned on this or a later seed.
const FIRST_SEED: u64 = 5_000_000;
/// Maximum share of false claims, which is that of 95 % intervals.
const FALSE_CLAIMS_MAX: f64 = 0.05;
/// Tolerance in standard errors: of 90 rows of a table, one in ten tables exceeds it by chance.
const ERRORS: f64 = 3.0;
/// Numbers of blocks. The last is the stopping rule of new experiments.
const BLOCKS: [(usize, usize); 4] = [(8, 8), (10, 10), (20, 20), (8, 20)];
/// Relative half-width of both sides at which the stopping rule ends a run.
const PRECISION: f64 = 0.02;
const DESIGNS: [Design; 6] = [
    Design { runs: 1, history: 0, trials: 10 },
    Design { runs: 1, history: 6, trials: 10 },
    Design { runs: 2, history: 0, trials: 10 },
    Design { runs: 4, history: 0, trials: 10 },
    Design { runs: 8, history: 0, trials: 10 },
    Design { runs: 4, history: 0, trials: 30 },
];

struct Settings {
    rows: usize,
    only: String,
    /// Number of estimators of pairs that are measured, beginning with that of comparisons.
    estimators: usize,
}

fn main() -> ExitCode {
    let settings = match settings(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let mut met = true;
    if settings.only != "between" {
        met &= within(&settings);
    }
    if settings.only != "within" {
        met &= between(settings.rows);
    }
    if met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn settings(words: impl Iterator<Item = String>) -> Result<Settings, String> {
    let words: Vec<String> = words.collect();
    // Only `cargo bench` passes --bench; the arguments of `cargo test` are for tests.
    let smoke = !words.iter().any(|word| word == "--bench");
    let mut words = words.into_iter().filter(|word| !smoke && word != "--bench");
    let (rows, estimators) = if smoke { (60, 1) } else { (500, ESTIMATORS.len()) };
    let mut settings = Settings { rows, only: String::new(), estimators };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--rows" => settings.rows = value()?.parse().map_err(|_| "--rows needs a number")?,
            "--only" => settings.only = value()?,
            other => return Err(format!("claims: unknown argument '{other}'; see the head of main.rs")),
        }
    }
    Ok(settings)
}

/// One comparison of equal sides.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Whether the interval contains the true change, 0; `None` without an interval.
    covered: Option<bool>,
    is_claimed: bool,
    /// Half of the width in percent.
    half_width: f64,
}

/// Prints a line of a table, and returns whether the claims are within the limit.
fn print(name: &str, noise: Noise, rows: &[Row], is_limited: bool) -> bool {
    let count = rows.len() as f64;
    let known: Vec<bool> = rows.iter().filter_map(|row| row.covered).collect();
    let coverage = 100.0 * known.iter().filter(|covered| **covered).count() as f64 / known.len().max(1) as f64;
    let claimed = rows.iter().filter(|row| row.is_claimed).count() as f64 / count;
    let widths: Vec<f64> = rows.iter().map(|row| row.half_width).filter(|width| width.is_finite()).collect();
    let most = FALSE_CLAIMS_MAX + ERRORS * (FALSE_CLAIMS_MAX * (1.0 - FALSE_CLAIMS_MAX) / count).sqrt();
    let is_met = !is_limited || claimed <= most;
    println!(
        "| {name} | {} | {coverage:.1} | {:.1} | {:.2} |{}",
        noise.name(),
        100.0 * claimed,
        median(&widths).unwrap_or(f64::NAN),
        if is_met { "" } else { " MISSED" }
    );
    is_met
}

/// Computes rows concurrently, in the order of the seeds.
fn each(rows: usize, row: impl Fn(u64) -> Row + Sync) -> Vec<Row> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= rows {
                return found;
            }
            found.push((at, row(FIRST_SEED + at as u64)));
        }
    };
    let mut found = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a comparison does not panic")).collect::<Vec<_>>()
    });
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, row)| row).collect()
}

fn header(first: &str) {
    println!("\n| {first} | noise | coverage, % | false claims, % | half-width, % |\n|---|---|---|---|---|");
}

/// Pairs of one run. Only the estimator of comparisons has a limit.
fn within(settings: &Settings) -> bool {
    header("pairs of one run");
    let mut met = true;
    for noise in NOISES {
        for (min, max) in BLOCKS {
            let blocks = if min == max { format!("{min} blocks") } else { format!("{min} to {max} blocks") };
            for (at, estimator) in ESTIMATORS.iter().take(settings.estimators).enumerate() {
                let row = |seed: u64| {
                    let (baseline, candidate) = pairs(noise, (min, max), seed);
                    let interval = (estimator.interval)(&baseline, &candidate);
                    Row {
                        covered: interval.map(|interval| interval.contains(1.0)),
                        is_claimed: interval.is_some_and(|interval| !interval.contains(1.0)),
                        half_width: interval.map_or(f64::NAN, |interval| 100.0 * interval.half_width()),
                    }
                };
                met &= print(&format!("{}, {blocks}", estimator.name), noise, &each(settings.rows, row), at == 0);
            }
        }
    }
    met
}

/// Returns the trials of two equal sides, which each block runs in random order, until the stopping rule ends the run.
fn pairs(noise: Noise, (min, max): (usize, usize), seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut machine = Machine::new(noise, seed);
    machine.begin_run();
    let (mut baseline, mut candidate) = (Vec::new(), Vec::new());
    while baseline.len() < max {
        let (one, other) = (machine.trial(), machine.trial());
        let (first, second) = if machine.chance(0.5) { (one, other) } else { (other, one) };
        baseline.push(first);
        candidate.push(second);
        let is_precise = |side: &[f64]| relative_half_width(side).is_some_and(|width| width <= PRECISION);
        if baseline.len() >= min && is_precise(&baseline) && is_precise(&candidate) && min < max {
            break;
        }
    }
    (baseline, candidate)
}

fn between(rows: usize) -> bool {
    header("runs a side");
    let mut met = true;
    for noise in NOISES {
        for design in DESIGNS {
            let row = |seed: u64| {
                let value = compared(noise, &design, seed);
                let ends = value.ci_low.zip(value.ci_high);
                Row {
                    covered: ends.map(|(low, high)| low <= 0.0 && 0.0 <= high),
                    is_claimed: matches!(value.difference, Some(Difference::Higher | Difference::Lower)),
                    half_width: ends.map_or(f64::NAN, |(low, high)| (high - low) / 2.0),
                }
            };
            let Design { runs, history, trials } = design;
            let past = if history > 0 { format!(", {history} earlier ones") } else { String::new() };
            // Phases that last longer than a run make earlier runs similar: they understate how much runs differ.
            let is_limited = history == 0 || noise != Noise::Phases;
            met &= print(&format!("{runs} of {trials} trials{past}"), noise, &each(rows, row), is_limited);
        }
    }
    met
}
