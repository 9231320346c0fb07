//! Predicts the candidates of a machine on which nothing was measured, from measurements of the same program on another
//! machine: simulated programs are weighted by how well they explain the measurements, and then simulated on the other
//! machine. Must not depend on topologies or stored runs.

use std::collections::BTreeMap;

use super::ensemble::{Prior, disturbed, program_counts, squashed};
use super::features::Features;
use super::linear::{Cholesky, dot};
use super::outlook::{Missed, Prediction, predictions};
use super::posterior::{Field, Fit, Hypothesis, Observation};
use super::random::Random;
use crate::values::plan::{ProgramKind, SearchPlan};

/// Number of simulated programs. A search has fewer, because it learns how its program deviates from them.
const PROGRAMS: usize = 2000;
/// Minimum effective number of programs. Measurements may fit very few of them well, but the program is none of them.
const EFFECTIVE_MIN: f64 = 30.0;
/// Factor of the deviations from a program on the other machine, where no measurement shows them. Without it, fewer ranges
/// contain the true value (`cargo bench -p lab --bench place -- --what few-like`).
const DEVIATION_FACTOR: f64 = 1.5;
const DRAWS: usize = 600;
/// Steps of the bisection for the exponent of the weights.
const BISECTIONS: usize = 40;

/// The mean result of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredCandidate {
    pub candidate: usize,
    /// Logarithm of the metric relative to the baseline; less is better.
    pub log_time: f64,
    pub trials: usize,
}

/// Measurements of a program. They include the baseline, candidate 0.
pub struct Measurements<'a> {
    pub features: &'a Features,
    pub candidates: &'a [MeasuredCandidate],
    /// Standard deviation of the logarithm of one trial.
    pub noise: f64,
}

/// Predictions of all candidates of the other machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    pub predictions: Vec<Prediction>,
    /// The candidate with the smallest expected time, and what it may miss.
    pub best: usize,
    pub missed: Missed,
    /// Weighted root mean square of the differences between measurements and simulated programs (logarithm).
    pub misfit: f64,
    /// Number of simulated programs, and the effective number after weighting.
    pub programs: usize,
    pub effective_programs: f64,
}

/// Predicts the candidates of a machine with these features. The plan has the seed and the kinds of programs.
pub fn transfer(plan: &SearchPlan, measured: &Measurements<'_>, there: &Features) -> Transfer {
    let programs = programs(plan);
    let evidence = Evidence::new(plan, measured);
    let fits: Vec<ProgramFit> = programs.iter().map(|program| evidence.fit(program)).collect();
    let weights = Weights::new(&fits);
    let misfit = fits.iter().zip(&weights.programs).map(|(fit, weight)| weight * fit.misfit).sum();
    let draws = draws(plan, there, &programs, &weights);
    let mean = |candidate: usize| draws.iter().map(|draw| draw[candidate]).sum::<f64>() / draws.len() as f64;
    let means: Vec<f64> = (0..there.len()).map(mean).collect();
    let best = (0..means.len()).min_by(|one, other| means[*one].total_cmp(&means[*other])).unwrap_or(0);
    let lowest = |draw: &[f64]| draw.iter().copied().fold(f64::INFINITY, f64::min);
    let missed = Missed::of(draws.iter().map(|draw| (draw[best] - lowest(draw)).exp_m1()).collect());
    let all: Vec<usize> = (0..there.len()).collect();
    Transfer {
        predictions: predictions(&draws, &means, &all),
        best,
        missed,
        misfit,
        programs: programs.len(),
        effective_programs: effective(&weights.programs),
    }
}

/// A simulated program, which has the same parameters on every machine.
struct Program {
    kind: ProgramKind,
    random: Random,
}

fn programs(plan: &SearchPlan) -> Vec<Program> {
    let of_kind = |(kind, count): (ProgramKind, usize)| {
        let random = move |index| Random::new(plan.seed, &format!("transfer {} {index}", kind.key_text()));
        (0..count).map(move |index| Program { kind, random: random(index) })
    };
    program_counts(&plan.programs, PROGRAMS).into_iter().flat_map(of_kind).collect()
}

impl Program {
    /// Returns the log times of all candidates of a machine.
    fn times(&self, features: &Features) -> Vec<f64> {
        disturbed(self.kind, features, &mut self.random.clone())
    }
}

/// Returns a prior without programs, which only knows which candidates are similar.
fn similarity(plan: &SearchPlan, features: &Features) -> Prior {
    Prior::new(&SearchPlan { programs: Vec::new(), earlier: Vec::new(), ..plan.clone() }, features)
}

/// How well a program explains the measurements.
struct ProgramFit {
    /// Logarithms of the probabilities of the measurements, by hypothesis, up to a constant.
    scores: Vec<f64>,
    misfit: f64,
}

/// The measurements with the covariances of how programs may deviate from them.
struct Evidence<'a> {
    measured: &'a Measurements<'a>,
    values: Vec<f64>,
    /// Factor and logarithm of the prior probability, by hypothesis.
    hypotheses: Vec<(Cholesky, f64)>,
}

impl<'a> Evidence<'a> {
    fn new(plan: &SearchPlan, measured: &'a Measurements<'a>) -> Self {
        let prior = similarity(plan, measured.features);
        let observation = |one: &MeasuredCandidate| Observation { candidate: one.candidate, block: 0, value: 0.0 };
        let observations: Vec<Observation> = measured.candidates.iter().map(observation).collect();
        let fit = Fit::of_means(&prior, &observations, measured.candidates.iter().map(|one| one.trials as f64));
        let hypotheses = Hypothesis::deviating().map(|one| (fit.factor(&one, measured.noise), one.log_prior));
        let times: Vec<f64> = measured.candidates.iter().map(|one| one.log_time).collect();
        Self { measured, values: squashed(&times), hypotheses: hypotheses.collect() }
    }

    fn fit(&self, program: &Program) -> ProgramFit {
        let times = program.times(self.measured.features);
        let of_measured: Vec<f64> = self.measured.candidates.iter().map(|one| times[one.candidate]).collect();
        let residuals: Vec<f64> =
            self.values.iter().zip(squashed(&of_measured)).map(|(value, expected)| value - expected).collect();
        let score = |(factor, log_prior): &(Cholesky, f64)| {
            let whitened = factor.forward(&residuals);
            log_prior - 0.5 * dot(&whitened, &whitened) - factor.log_determinant_half()
        };
        let mean = residuals.iter().sum::<f64>() / residuals.len() as f64;
        let squares: f64 = residuals.iter().map(|residual| (residual - mean).powi(2)).sum();
        let misfit = (squares / residuals.len() as f64).sqrt();
        ProgramFit { scores: self.hypotheses.iter().map(score).collect(), misfit }
    }
}

/// Relative probabilities.
struct Weights {
    /// By program; the sum is 1.
    programs: Vec<f64>,
    /// By program and hypothesis.
    pairs: Vec<Vec<f64>>,
}

impl Weights {
    /// Returns weights by the probabilities of the measurements, to the largest power of at most 1 that leaves the minimum
    /// effective number of programs.
    fn new(fits: &[ProgramFit]) -> Self {
        let most = fits.iter().flat_map(|fit| &fit.scores).copied().fold(f64::NEG_INFINITY, f64::max);
        let of_power = |power: f64| {
            let pairs: Vec<Vec<f64>> = fits
                .iter()
                .map(|fit| fit.scores.iter().map(|score| (power * (score - most)).exp()).collect())
                .collect();
            let total: f64 = pairs.iter().flatten().sum();
            let programs = pairs.iter().map(|pair| pair.iter().sum::<f64>() / total).collect();
            Self { programs, pairs }
        };
        let is_enough = |weights: &Self| effective(&weights.programs) >= EFFECTIVE_MIN.min(fits.len() as f64);
        let plain = of_power(1.0);
        if is_enough(&plain) {
            return plain;
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(low, high);
            if is_enough(&of_power(middle)) {
                low = middle;
            } else {
                high = middle;
            }
        }
        of_power(low)
    }
}

/// Returns the number of equal weights that vary as much (Kish, Survey Sampling, 1965).
fn effective(weights: &[f64]) -> f64 {
    1.0 / weights.iter().map(|weight| weight * weight).sum::<f64>()
}

/// Draws log times of all candidates relative to the baseline: a program by its weight, with deviations as large as those
/// that explain the measurements.
fn draws(plan: &SearchPlan, there: &Features, programs: &[Program], weights: &Weights) -> Vec<Vec<f64>> {
    let prior = similarity(plan, there);
    let hypotheses: Vec<Hypothesis> = Hypothesis::deviating().collect();
    let mut random = Random::new(plan.seed, "transfer draws");
    let mut simulated: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let draw = |_| {
        let program = random.index(&weights.programs);
        let hypothesis = hypotheses[random.index(&weights.pairs[program])];
        let times = simulated.entry(program).or_insert_with(|| programs[program].times(there));
        let field = Field::new(&prior, hypothesis);
        let latent = field.random(&mut random);
        let value = |candidate: usize| times[candidate] - times[0] + DEVIATION_FACTOR * field.value(&latent, candidate);
        (0..there.len()).map(value).collect()
    };
    (0..DRAWS).map(draw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(score: f64) -> ProgramFit {
        ProgramFit { scores: vec![score], misfit: 0.0 }
    }

    #[test]
    fn weights_keep_a_minimum_number_of_programs() {
        // One program explains the measurements far better than all others.
        let sharp: Vec<ProgramFit> =
            (0..200).map(|one| fit(if one == 0 { 0.0 } else { -40.0 - f64::from(one) })).collect();
        let weights = Weights::new(&sharp);
        assert!((effective(&weights.programs) - EFFECTIVE_MIN).abs() < 0.1, "{}", effective(&weights.programs));
        assert!((weights.programs.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(weights.programs.windows(2).all(|pair| pair[0] >= pair[1]), "the order of the scores is kept");
        // Many explain them equally well.
        let flat: Vec<ProgramFit> = (0..200).map(|one| fit(if one < 50 { 0.0 } else { -40.0 })).collect();
        assert!((effective(&Weights::new(&flat).programs) - 50.0).abs() < 1e-6);
    }
}
