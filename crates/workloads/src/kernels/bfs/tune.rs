//! Tunes alpha and beta for this machine before the measurement: a few searches with each candidate, from roots that
//! the trial does not use. The result applies to the whole trial; measured searches do not influence it.

use std::time::Instant;

use graph::{Roots, Search, Tuning};

use super::options::Options;
use super::timed;
use super::trial_team::TrialTeam;
use crate::job::{Failure, KernelOutput};

const ROOTS: usize = 8;
/// Searches per root and candidate, in turn. The fastest counts, because disturbances only add time.
const ROUNDS: usize = 3;
const ALPHAS: [f64; 7] = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0];
const BETAS: [f64; 5] = [4.0, 30.0, 250.0, 1000.0, 8000.0];

/// The result of the tuning and its evidence.
pub(super) struct TuneResult {
    pub(super) tuning: Tuning,
    /// Mean seconds of a search by candidate: name of the parameter, its value, seconds.
    tried: Vec<(&'static str, f64, f64)>,
    seconds: f64,
}

/// Tries alpha with the requested beta, then beta with the best alpha.
pub(super) fn tune(options: &Options, team: &TrialTeam<'_>, search: &Search<'_>) -> Result<TuneResult, Failure> {
    let began = Instant::now();
    let roots = roots(options, search);
    let requested = options.tuning;
    let mut tried = Vec::new();
    let mut best = |name, candidates: Vec<(f64, Tuning)>| -> Result<Tuning, Failure> {
        let seconds = race(team, search, &roots, &candidates)?;
        tried.extend(candidates.iter().zip(&seconds).map(|((value, _), seconds)| (name, *value, *seconds)));
        let fastest = candidates.iter().zip(&seconds).min_by(|one, other| one.1.total_cmp(other.1));
        Ok(fastest.map_or(requested, |((_, tuning), _)| *tuning))
    };
    let tuning = best("alpha", ALPHAS.map(|alpha| (alpha, Tuning { alpha, ..requested })).to_vec())?;
    let tuning = best("beta", BETAS.map(|beta| (beta, Tuning { beta, ..tuning })).to_vec())?;
    Ok(TuneResult { tuning, tried, seconds: began.elapsed().as_secs_f64() })
}

impl TuneResult {
    pub(super) fn push(&self, output: &mut KernelOutput) -> Result<(), Failure> {
        for (name, value, seconds) in &self.tried {
            output.push(&format!("tune_{name}_{value}_time"), *seconds)?;
        }
        output.push("tune_time", self.seconds)
    }
}

/// Roots that follow the trial's own; the same roots if the graph is too small.
fn roots(options: &Options, search: &Search<'_>) -> Vec<u64> {
    let mut all = Roots::new(&options.spec);
    let mut next = || all.next(|vertex| search.check_root(vertex).is_ok());
    let own: Vec<u64> = std::iter::from_fn(&mut next).take(options.roots).collect();
    let others: Vec<u64> = std::iter::from_fn(next).take(ROOTS).collect();
    if others.is_empty() { own.into_iter().take(ROOTS).collect() } else { others }
}

/// Returns the mean seconds of a search with each candidate.
fn race(
    team: &TrialTeam<'_>,
    search: &Search<'_>,
    roots: &[u64],
    candidates: &[(f64, Tuning)],
) -> Result<Vec<f64>, Failure> {
    let mut fastest = vec![vec![f64::INFINITY; roots.len()]; candidates.len()];
    for _ in 0..ROUNDS {
        for (index, root) in roots.iter().enumerate() {
            for ((_, tuning), fastest) in candidates.iter().zip(&mut fastest) {
                let (seconds, _) = timed(tuning, team, search, *root)?;
                fastest[index] = fastest[index].min(seconds);
            }
        }
    }
    Ok(fastest.iter().map(|seconds| seconds.iter().sum::<f64>() / roots.len() as f64).collect())
}
