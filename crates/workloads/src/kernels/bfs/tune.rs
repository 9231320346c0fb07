//! Finds alpha and beta on this machine, before anything is measured: a few searches with each candidate, from roots that the trial
//! does not search from. What comes out holds for the whole trial; nothing is learnt from one measured search for the next.

use std::time::Instant;

use graph::{Roots, Search, Tuning};

use super::options::Options;
use super::timed;
use super::trial_team::TrialTeam;
use crate::job::{Failure, KernelOutput};

const ROOTS: usize = 8;
/// Each root is searched from so often with each candidate, in turn; the fastest counts, for others' work only adds.
const ROUNDS: usize = 3;
const ALPHAS: [f64; 7] = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0];
const BETAS: [f64; 5] = [4.0, 30.0, 250.0, 1000.0, 8000.0];

/// What was found, and how.
pub(super) struct TuneResult {
    pub(super) tuning: Tuning,
    /// Mean seconds of a search by candidate: which parameter, its value.
    tried: Vec<(&'static str, f64, f64)>,
    seconds: f64,
}

/// Tries alpha with the beta that was asked for, then beta with the alpha that was best.
pub(super) fn tune(options: &Options, crew: &TrialTeam<'_>, search: &Search<'_>) -> Result<TuneResult, Failure> {
    let began = Instant::now();
    let roots = roots(options, search);
    let asked = options.tuning;
    let mut tried = Vec::new();
    let mut best = |name, candidates: Vec<(f64, Tuning)>| -> Result<Tuning, Failure> {
        let seconds = race(crew, search, &roots, &candidates)?;
        tried.extend(candidates.iter().zip(&seconds).map(|((value, _), seconds)| (name, *value, *seconds)));
        let fastest = candidates.iter().zip(&seconds).min_by(|one, other| one.1.total_cmp(other.1));
        Ok(fastest.map_or(asked, |((_, tuning), _)| *tuning))
    };
    let tuning = best("alpha", ALPHAS.map(|alpha| (alpha, Tuning { alpha, ..asked })).to_vec())?;
    let tuning = best("beta", BETAS.map(|beta| (beta, Tuning { beta, ..tuning })).to_vec())?;
    Ok(TuneResult { tuning, tried, seconds: began.elapsed().as_secs_f64() })
}

impl TuneResult {
    pub(super) fn push(&self, measured: &mut KernelOutput) -> Result<(), Failure> {
        for (name, value, seconds) in &self.tried {
            measured.push(&format!("tune_{name}_{value}_time"), *seconds)?;
        }
        measured.push("tune_time", self.seconds)
    }
}

/// Those that follow the trial's own; of a small graph, which has no more, the same.
fn roots(options: &Options, search: &Search<'_>) -> Vec<u64> {
    let mut all = Roots::new(&options.spec);
    let mut next = || all.next(|vertex| search.check_root(vertex).is_ok());
    let own: Vec<u64> = std::iter::from_fn(&mut next).take(options.roots).collect();
    let others: Vec<u64> = std::iter::from_fn(next).take(ROOTS).collect();
    if others.is_empty() { own.into_iter().take(ROOTS).collect() } else { others }
}

/// Mean seconds of a search with each candidate.
fn race(
    crew: &TrialTeam<'_>,
    search: &Search<'_>,
    roots: &[u64],
    candidates: &[(f64, Tuning)],
) -> Result<Vec<f64>, Failure> {
    let mut fastest = vec![vec![f64::INFINITY; roots.len()]; candidates.len()];
    for _ in 0..ROUNDS {
        for (index, root) in roots.iter().enumerate() {
            for ((_, tuning), fastest) in candidates.iter().zip(&mut fastest) {
                let (seconds, _) = timed(tuning, crew, search, *root)?;
                fastest[index] = fastest[index].min(seconds);
            }
        }
    }
    Ok(fastest.iter().map(|seconds| seconds.iter().sum::<f64>() / roots.len() as f64).collect())
}
