//! Predictions of all candidates from the trials: a mixture of Gaussian processes over the hypotheses that explain the trials
//! best. Must not depend on how candidates are chosen.
//!
//! The value of a trial is the candidate's log time, plus an unknown offset, the effect of its block, and noise. Bursts
//! only slow down, so only slow outliers lose weight; a fast one may be the best candidate.

use super::ensemble::{Component, Prior, squash};
use super::linear::{Cholesky, Square, dot};
use super::random::Random;

/// Standard deviations of the offset and of the effect of a block.
const OFFSET_SD: f64 = 1.0;
const BLOCK_SD: f64 = 0.015;
/// Factor of the noise of the baseline: unbound trials vary more, because the scheduler migrates threads.
pub(super) const BASELINE_NOISE: f64 = 1.5;
/// Possible standard deviations of the noise, with the logarithms of their prior probabilities.
const SIGMAS: [(f64, f64); 5] = [(0.01, -0.5), (0.02, 0.0), (0.03, 0.0), (0.05, 0.0), (0.08, -0.7)];
/// Standard deviation of the noise before it is known.
const USUAL_SIGMA: f64 = 0.03;
/// Number of trials that count as much as the usual deviation, which is a lower bound after few trials: some hypotheses
/// explain noise as differences between candidates.
const USUAL_TRIALS: f64 = 10.0;
/// Hypotheses below this share are left out, and of the others at most this number is kept.
const SHARE_MIN: f64 = 0.05;
const HYPOTHESES_MAX: usize = 4;
/// Components that are less likely than the best by more than this (logarithm) are not examined further.
const COMPONENT_RANGE: f64 = 4.0;
/// A trial whose standardised residual, predicted from all others, exceeds this may be in a burst.
const SUSPECT_RESIDUAL: f64 = 1.5;
/// Degrees of freedom of the weights of suspected trials (Student's t).
const WEIGHT_FREEDOM: f64 = 4.0;
const WEIGHT_ROUNDS: usize = 2;
/// Minimum share of hypotheses without assumptions in reported predictions.
const UNSTRUCTURED_MIN: f64 = 0.1;

/// The value of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Observation {
    pub candidate: usize,
    pub block: usize,
    /// Logarithm of the metric; less is better.
    pub value: f64,
}

/// Degree to which the simulated programs are believed. All numbers are standard deviations, except `ensemble`, which scales
/// that of the programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Hypothesis {
    /// Index of the component; `None` if the program is like no simulated one.
    component: Option<usize>,
    ensemble: f64,
    /// Deviation that similar candidates share.
    near: f64,
    /// Deviation of each candidate.
    own: f64,
    /// Deviation that all candidates share against the baseline.
    shift: f64,
    /// Logarithm of its prior probability, up to a constant.
    pub log_prior: f64,
}

/// Pairs of near and own deviation, with the logarithms of their prior probabilities.
const DEVIATIONS: [(f64, f64, f64); 4] = [(0.03, 0.005, 0.0), (0.03, 0.03, -0.7), (0.1, 0.03, -1.7), (0.1, 0.1, -2.5)];
const UNSTRUCTURED: [(f64, f64, f64); 4] =
    [(0.03, 0.05, -3.7), (0.03, 0.2, -4.0), (0.15, 0.05, -4.7), (0.15, 0.2, -5.0)];
const SHIFT: f64 = 0.1;
const UNSTRUCTURED_SHIFT: f64 = 0.3;

impl Hypothesis {
    /// The hypotheses of one component; the first believes the programs most.
    fn of_component(component: usize, log_share: f64) -> impl Iterator<Item = Self> {
        let with = move |(ensemble, log_ensemble): (f64, f64)| {
            DEVIATIONS.into_iter().map(move |(near, own, log_prior)| Self {
                component: Some(component),
                ensemble,
                near,
                own,
                shift: SHIFT,
                log_prior: log_prior + log_ensemble + log_share,
            })
        };
        [(1.0, 0.0), (0.3, -1.0)].into_iter().flat_map(with)
    }

    /// The hypotheses of one simulated program and what may deviate from it.
    pub fn deviating() -> impl Iterator<Item = Self> {
        DEVIATIONS.into_iter().map(|(near, own, log_prior)| Self {
            component: None,
            ensemble: 0.0,
            near,
            own,
            shift: SHIFT,
            log_prior,
        })
    }

    fn unstructured(bonus: f64) -> impl Iterator<Item = Self> {
        UNSTRUCTURED.into_iter().map(move |(near, own, log_prior)| Self {
            component: None,
            ensemble: 0.0,
            near,
            own,
            shift: UNSTRUCTURED_SHIFT,
            log_prior: log_prior + bonus,
        })
    }
}

/// A hypothesis conditioned on the trials.
#[derive(Clone, Debug)]
struct Part {
    share: f64,
    hypothesis: Hypothesis,
    /// Factor of the covariance of the trials.
    factor: Cholesky,
    /// Mean log time by candidate, relative to the baseline.
    mean: Vec<f64>,
}

/// Predictions from the trials.
#[derive(Clone, Debug)]
pub(super) struct Posterior {
    /// Mean log time by candidate, relative to the baseline.
    pub mean: Vec<f64>,
    /// Root of the expected variance of the noise of a trial.
    pub noise: f64,
    parts: Vec<Part>,
    /// The best hypothesis without assumptions.
    unstructured: Part,
    observations: Vec<Observation>,
    noise_sd: Vec<f64>,
}

impl Posterior {
    /// Returns the prior as a posterior of no trials: every component by its share.
    pub fn before(prior: &Prior) -> Self {
        let fit = Fit::new(prior, &[]);
        let mut hypotheses: Vec<Hypothesis> = (0..prior.components.len()).filter_map(|one| fit.plain(one)).collect();
        let unstructured = fit.free()[0];
        if hypotheses.is_empty() {
            hypotheses.push(unstructured);
        }
        let total: f64 = hypotheses.iter().map(|one| one.log_prior.exp()).sum();
        let part = |one: &Hypothesis| fit.part(one.log_prior.exp() / total, *one, USUAL_SIGMA);
        let parts: Vec<Part> = hypotheses.iter().map(part).collect();
        let unstructured = fit.part(1.0, unstructured, USUAL_SIGMA);
        let mean = mixed(prior, &parts);
        Self { mean, noise: USUAL_SIGMA, parts, unstructured, observations: Vec::new(), noise_sd: Vec::new() }
    }

    /// Returns the posterior after at least one trial.
    pub fn new(prior: &Prior, observations: &[Observation]) -> Self {
        let observations = compressed(observations);
        let mut fit = Fit::new(prior, &observations);
        let start = fit.plain(prior.all).unwrap_or_else(|| fit.free()[0]);
        let mut sigma = fit.likeliest_sigma(&start);
        let mut scored = fit.scored(sigma);
        sigma = fit.likeliest_sigma(&best(&scored).0);
        fit.find_bursts(&best(&scored).0, sigma);
        scored = fit.scored(sigma);
        let unstructured = scored.iter().filter(|(one, _)| one.component.is_none());
        let unstructured = unstructured.max_by(|one, other| one.1.total_cmp(&other.1)).expect("there are four").0;
        let parts: Vec<Part> =
            kept(&scored).into_iter().map(|(share, hypothesis)| fit.part(share, hypothesis, sigma)).collect();
        let mean = mixed(prior, &parts);
        let unstructured = fit.part(1.0, unstructured, sigma);
        let noise_sd = (0..observations.len()).map(|trial| fit.noise_variance(trial, sigma).sqrt()).collect();
        let noise = fit.expected_noise(&best(&scored).0);
        Self { mean, noise, parts, unstructured, observations, noise_sd }
    }

    /// Draws log times of all candidates relative to the baseline, hypotheses by their shares.
    pub fn draws(&self, prior: &Prior, count: usize, random: &mut Random) -> Vec<Vec<f64>> {
        let shares: Vec<f64> = self.parts.iter().map(|part| part.share).collect();
        (0..count).map(|_| self.draw(prior, &self.parts[random.index(&shares)], random)).collect()
    }

    /// Like [`Posterior::draws`], with a minimum share of draws without assumptions: the program may be unlike all
    /// simulated ones in a way that the trials do not show.
    pub fn cautious_draws(&self, prior: &Prior, count: usize, random: &mut Random) -> Vec<Vec<f64>> {
        let free: f64 =
            self.parts.iter().filter(|part| part.hypothesis.component.is_none()).map(|part| part.share).sum();
        let lacking = (UNSTRUCTURED_MIN - free).max(0.0) / (1.0 - free.min(1.0 - UNSTRUCTURED_MIN));
        let extra = (lacking * count as f64).ceil() as usize;
        let mut draws = self.draws(prior, count - extra, random);
        draws.extend((0..extra).map(|_| self.draw(prior, &self.unstructured, random)));
        draws
    }

    /// Draws from one hypothesis: a draw of the prior, corrected by what it would have predicted for the trials
    /// (Matheron's rule: Wilson et al., Journal of Machine Learning Research 22, 2021).
    fn draw(&self, prior: &Prior, part: &Part, random: &mut Random) -> Vec<f64> {
        let field = Field::new(prior, part.hypothesis);
        let mut latent = field.random(random);
        let blocks = random.normals(self.observations.last().map_or(0, |last| last.block + 1));
        let offset = OFFSET_SD * random.normal();
        let predicted: Vec<f64> = self
            .observations
            .iter()
            .zip(&self.noise_sd)
            .map(|(trial, sd)| {
                field.value(&latent, trial.candidate) + offset + BLOCK_SD * blocks[trial.block] + sd * random.normal()
            })
            .collect();
        let correction = field.response(&self.observations, &part.factor.solve(&predicted));
        latent.subtract(&correction);
        part.mean.iter().enumerate().map(|(candidate, mean)| mean + field.value(&latent, candidate)).collect()
    }
}

/// Returns the mean of a mixture.
fn mixed(prior: &Prior, parts: &[Part]) -> Vec<f64> {
    let mut mean = vec![0.0; prior.candidates];
    for part in parts {
        mean.iter_mut().zip(&part.mean).for_each(|(sum, value)| *sum += part.share * value);
    }
    mean
}

/// Compresses the values that are far above the best candidate, and centres all on the best.
fn compressed(observations: &[Observation]) -> Vec<Observation> {
    let best = lowest(observations);
    let value = |value: f64| if value > best { squash(value - best) } else { value - best };
    observations.iter().map(|one| Observation { value: value(one.value), ..*one }).collect()
}

/// Returns the smallest median of a candidate.
pub(super) fn lowest(observations: &[Observation]) -> f64 {
    let mut sorted: Vec<&Observation> = observations.iter().collect();
    sorted.sort_by(|one, other| one.candidate.cmp(&other.candidate).then(one.value.total_cmp(&other.value)));
    let of_candidates = sorted.chunk_by(|one, other| one.candidate == other.candidate);
    let medians = of_candidates.map(|values| {
        let half = values.len() / 2;
        if values.len() % 2 == 1 {
            values[half].value
        } else {
            f64::midpoint(values[half - 1].value, values[half].value)
        }
    });
    medians.fold(f64::INFINITY, f64::min)
}

fn best(scored: &[(Hypothesis, f64)]) -> &(Hypothesis, f64) {
    scored.iter().max_by(|one, other| one.1.total_cmp(&other.1)).expect("there are unstructured hypotheses")
}

/// Returns the hypotheses with considerable shares, which add up to 1.
fn kept(scored: &[(Hypothesis, f64)]) -> Vec<(f64, Hypothesis)> {
    let most = best(scored).1;
    let total: f64 = scored.iter().map(|(_, score)| (score - most).exp()).sum();
    let mut kept: Vec<(f64, Hypothesis)> =
        scored.iter().map(|(hypothesis, score)| ((score - most).exp() / total, *hypothesis)).collect();
    kept.sort_by(|one, other| other.0.total_cmp(&one.0));
    kept.truncate(HYPOTHESES_MAX);
    let first = kept[0].0;
    kept.retain(|(share, _)| *share >= SHARE_MIN.min(first));
    let sum: f64 = kept.iter().map(|(share, _)| share).sum();
    kept.iter_mut().for_each(|(share, _)| *share /= sum);
    kept
}

/// The trials and the covariances between them.
pub(super) struct Fit<'a> {
    prior: &'a Prior,
    observations: &'a [Observation],
    components: Vec<Square>,
    near: Square,
    /// 1 for trials of the same candidate, except the baseline.
    same: Square,
    /// 1 for trials of other candidates than the baseline.
    others: Square,
    /// Offset and block effects.
    common: Square,
    weights: Vec<f64>,
}

impl<'a> Fit<'a> {
    fn new(prior: &'a Prior, observations: &'a [Observation]) -> Self {
        let size = observations.len();
        let of = |trial: usize| observations[trial].candidate;
        let number = |condition: bool| f64::from(u8::from(condition));
        let covariance = |low: &super::linear::LowRank| {
            Square::symmetric(size, |one, other| {
                let rest = if of(one) == of(other) { low.rest[of(one)] } else { 0.0 };
                dot(low.row(of(one)), low.row(of(other))) + rest
            })
        };
        let block = |one: usize, other: usize| observations[one].block == observations[other].block;
        Self {
            prior,
            observations,
            components: prior.components.iter().map(|component| covariance(&component.covariance)).collect(),
            near: covariance(&prior.near),
            same: Square::symmetric(size, |one, other| number(of(one) == of(other) && of(one) > 0)),
            others: Square::symmetric(size, |one, other| number(of(one) > 0 && of(other) > 0)),
            common: Square::symmetric(size, |one, other| {
                OFFSET_SD.powi(2) + BLOCK_SD.powi(2) * number(block(one, other))
            }),
            weights: vec![1.0; size],
        }
    }

    /// Returns the fit of mean values, with the number of trials of each.
    pub fn of_means(prior: &'a Prior, means: &'a [Observation], trials: impl Iterator<Item = f64>) -> Self {
        Self { weights: trials.collect(), ..Self::new(prior, means) }
    }

    fn noise_variance(&self, trial: usize, sigma: f64) -> f64 {
        let factor = if self.observations[trial].candidate == 0 { BASELINE_NOISE } else { 1.0 };
        (sigma * factor).powi(2) / self.weights[trial]
    }

    /// Returns the factor of the covariance of the trials.
    pub fn factor(&self, hypothesis: &Hypothesis, sigma: f64) -> Cholesky {
        let mut covariance = self.common.clone();
        if let Some(component) = hypothesis.component {
            covariance.add(hypothesis.ensemble.powi(2), &self.components[component]);
        }
        covariance.add(hypothesis.near.powi(2), &self.near);
        covariance.add(hypothesis.own.powi(2), &self.same);
        covariance.add(hypothesis.shift.powi(2), &self.others);
        for trial in 0..self.observations.len() {
            covariance.add_to_diagonal(trial, self.noise_variance(trial, sigma));
        }
        Cholesky::new(covariance)
    }

    /// Returns what the mean of the hypothesis does not explain.
    fn residuals(&self, hypothesis: &Hypothesis) -> Vec<f64> {
        let component = hypothesis.component.map(|component| &self.prior.components[component]);
        let expected = |candidate: usize| component.map_or(0.0, |component| component.mean[candidate]);
        self.observations.iter().map(|trial| trial.value - expected(trial.candidate)).collect()
    }

    /// Returns the logarithm of the probability of the trials, up to a constant.
    fn evidence(&self, hypothesis: &Hypothesis, sigma: f64) -> f64 {
        let factor = self.factor(hypothesis, sigma);
        let whitened = factor.forward(&self.residuals(hypothesis));
        -0.5 * dot(&whitened, &whitened) - factor.log_determinant_half()
    }

    /// Returns the possible deviations of the noise, with the logarithms of their probabilities.
    fn sigmas(&self, hypothesis: &Hypothesis) -> [(f64, f64); SIGMAS.len()] {
        SIGMAS.map(|(sigma, log_prior)| (sigma, self.evidence(hypothesis, sigma) + log_prior))
    }

    fn likeliest_sigma(&self, hypothesis: &Hypothesis) -> f64 {
        let sigmas = self.sigmas(hypothesis).into_iter();
        sigmas.max_by(|one, other| one.1.total_cmp(&other.1)).map_or(USUAL_SIGMA, |(sigma, _)| sigma)
    }

    /// Returns the root of the expected variance. After few trials it is larger than that of the likeliest deviation, so
    /// that intervals are not too narrow.
    fn expected_noise(&self, hypothesis: &Hypothesis) -> f64 {
        let sigmas = self.sigmas(hypothesis);
        let most = sigmas.iter().map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max);
        let weights = sigmas.map(|(sigma, score)| (sigma * sigma, (score - most).exp()));
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        let expected = weights.iter().map(|(variance, weight)| variance * weight).sum::<f64>() / total;
        let trials = self.observations.len() as f64;
        let usual = (trials * expected + USUAL_TRIALS * USUAL_SIGMA.powi(2)) / (trials + USUAL_TRIALS);
        expected.max(usual).sqrt()
    }

    fn log_share(&self, component: usize) -> f64 {
        self.prior.components[component].log_share
    }

    /// The hypothesis that believes a component most; `None` without components.
    fn plain(&self, component: usize) -> Option<Hypothesis> {
        let log_share = self.prior.components.get(component)?.log_share;
        Hypothesis::of_component(component, log_share).next()
    }

    fn free(&self) -> Vec<Hypothesis> {
        Hypothesis::unstructured(self.prior.rules.unstructured_bonus).collect()
    }

    /// Returns the hypotheses of the two likeliest components and those without assumptions, with the logarithms of
    /// their probabilities.
    fn scored(&self, sigma: f64) -> Vec<(Hypothesis, f64)> {
        let plain = (0..self.components.len()).filter_map(|component| self.plain(component));
        let mut components: Vec<(usize, f64)> = plain
            .enumerate()
            .map(|(component, one)| (component, self.evidence(&one, sigma) + self.log_share(component)))
            .collect();
        components.sort_by(|one, other| other.1.total_cmp(&one.1));
        let most = components.first().map_or(0.0, |best| best.1);
        let likely = components.into_iter().take(2).filter(|(_, score)| *score > most - COMPONENT_RANGE);
        let structured = likely.flat_map(|(one, _)| Hypothesis::of_component(one, self.log_share(one)));
        let all: Vec<Hypothesis> = structured.chain(self.free()).collect();
        all.into_iter().map(|one| (one, self.evidence(&one, sigma) + one.log_prior)).collect()
    }

    /// Reduces the weights of trials that are slower than all others predict.
    fn find_bursts(&mut self, hypothesis: &Hypothesis, sigma: f64) {
        for _ in 0..WEIGHT_ROUNDS {
            let factor = self.factor(hypothesis, sigma);
            let solved = factor.solve(&self.residuals(hypothesis));
            for ((weight, solved), inverse) in self.weights.iter_mut().zip(solved).zip(factor.inverse_diagonal()) {
                let residual = solved / inverse.sqrt();
                let is_slow = residual > SUSPECT_RESIDUAL;
                *weight = if is_slow { (WEIGHT_FREEDOM + 1.0) / (WEIGHT_FREEDOM + residual * residual) } else { 1.0 };
            }
        }
    }

    fn part(&self, share: f64, hypothesis: Hypothesis, sigma: f64) -> Part {
        let factor = self.factor(&hypothesis, sigma);
        let field = Field::new(self.prior, hypothesis);
        let response = field.response(self.observations, &factor.solve(&self.residuals(&hypothesis)));
        let expected = |candidate: usize| field.component.map_or(0.0, |component| component.mean[candidate]);
        let mean = (0..self.prior.candidates).map(|one| expected(one) + field.value(&response, one)).collect();
        Part { share, hypothesis, factor, mean }
    }
}

/// Deviations of all candidates from the mean of a hypothesis, as a linear function of [`Latent`] variables.
pub(super) struct Field<'a> {
    prior: &'a Prior,
    hypothesis: Hypothesis,
    component: Option<&'a Component>,
}

/// Variables of a field.
pub(super) struct Latent {
    ensemble: Vec<f64>,
    near: Vec<f64>,
    /// One entry per candidate.
    own: Vec<f64>,
    shift: f64,
}

impl<'a> Field<'a> {
    pub fn new(prior: &'a Prior, hypothesis: Hypothesis) -> Self {
        let component = hypothesis.component.map(|component| &prior.components[component]);
        Self { prior, hypothesis, component }
    }

    pub fn value(&self, latent: &Latent, candidate: usize) -> f64 {
        if candidate == 0 {
            return 0.0;
        }
        let ensemble = self.component.map_or(0.0, |one| dot(one.covariance.row(candidate), &latent.ensemble));
        ensemble + dot(self.prior.near.row(candidate), &latent.near) + latent.own[candidate] + latent.shift
    }

    /// Variance of a candidate that it shares with no other.
    fn own_variance(&self, candidate: usize) -> f64 {
        let Hypothesis { ensemble, near, own, .. } = self.hypothesis;
        let rest = self.component.map_or(0.0, |component| component.covariance.rest[candidate]);
        ensemble * ensemble * rest + near * near * self.prior.near.rest[candidate] + own * own
    }

    /// Draws the variables.
    pub fn random(&self, random: &mut Random) -> Latent {
        let Hypothesis { ensemble, near, shift, .. } = self.hypothesis;
        let scaled = |values: Vec<f64>, factor: f64| values.into_iter().map(|value| value * factor).collect();
        let rank = self.component.map_or(0, |component| component.covariance.rank);
        Latent {
            ensemble: scaled(random.normals(rank), ensemble),
            near: scaled(random.normals(self.prior.near.rank), near),
            own: (0..self.prior.candidates).map(|one| self.own_variance(one).sqrt() * random.normal()).collect(),
            shift: shift * random.normal(),
        }
    }

    /// Returns the variables whose field is the covariance with the trials times these weights.
    fn response(&self, observations: &[Observation], weights: &[f64]) -> Latent {
        let Hypothesis { ensemble, near, shift, .. } = self.hypothesis;
        let rank = self.component.map_or(0, |component| component.covariance.rank);
        let mut latent = Latent {
            ensemble: vec![0.0; rank],
            near: vec![0.0; self.prior.near.rank],
            own: vec![0.0; self.prior.candidates],
            shift: 0.0,
        };
        let add = |to: &mut [f64], factor: f64, row: &[f64]| {
            to.iter_mut().zip(row).for_each(|(sum, value)| *sum += factor * value);
        };
        for (trial, weight) in observations.iter().zip(weights).filter(|(trial, _)| trial.candidate > 0) {
            let candidate = trial.candidate;
            if let Some(component) = self.component {
                add(&mut latent.ensemble, ensemble * ensemble * weight, component.covariance.row(candidate));
            }
            add(&mut latent.near, near * near * weight, self.prior.near.row(candidate));
            latent.own[candidate] += self.own_variance(candidate) * weight;
            latent.shift += shift * shift * weight;
        }
        latent
    }
}

impl Latent {
    fn subtract(&mut self, other: &Self) {
        let subtract = |from: &mut [f64], other: &[f64]| from.iter_mut().zip(other).for_each(|(one, two)| *one -= two);
        subtract(&mut self.ensemble, &other.ensemble);
        subtract(&mut self.near, &other.near);
        subtract(&mut self.own, &other.own);
        self.shift -= other.shift;
    }
}
