//! Statements of a search: the miss, the predicted range of every candidate, and the candidates that remain for a
//! race. Uses draws with a minimum share of hypotheses without assumptions, because a model may be too sure of itself.

use serde::{Deserialize, Serialize};

use super::random::Random;
use super::{SURVIVORS, Search};
use crate::stats::racing::RankClaim;
use crate::stats::racing::missing::DropReason;

/// Number of draws for what may be missed, and for predictions of all candidates.
const MISSED_DRAWS: usize = 80;
const OUTLOOK_DRAWS: usize = 250;
/// Quantiles of a predicted range of 90 %.
const RANGE: (f64, f64) = (0.05, 0.95);
const BOUND: f64 = 0.9;
/// A draw counts for a candidate that is within this of the best (logarithm).
const NEAR_BEST: f64 = 0.01;

/// The distance of the leader from the best candidate, as a fraction of the metric: 0.01 is 1 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missed {
    pub mean: f64,
    /// It is smaller with a probability of at least 90 %. Not below the mean: if a few large values raise the mean above
    /// the 90 % quantile, the quantile alone would hide them.
    pub bound90: f64,
}

impl Missed {
    /// Summarises draws of the distance, as fractions; there must be at least one.
    pub(super) fn of(mut draws: Vec<f64>) -> Self {
        draws.sort_by(f64::total_cmp);
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        Self { mean, bound90: quantile(&draws, BOUND).max(mean) }
    }
}

/// Prediction for a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Logarithm of the ratio of its time to that of the baseline; negative is better, also for metrics to maximise.
    pub mean: f64,
    /// Lower and upper end of the 90 % range.
    pub low: f64,
    pub high: f64,
    /// Probability of being the best candidate.
    pub best: f64,
    /// Probability of being the best candidate or within 1 % of it.
    pub near_best: f64,
}

/// Predictions of all candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// `None` if there is no candidate.
    pub missed: Option<Missed>,
    /// One entry per candidate.
    pub predictions: Vec<Prediction>,
}

/// A candidate's position after a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchStanding {
    pub candidate: usize,
    /// Number of its trials with a value.
    pub trials: usize,
    pub prediction: Prediction,
    pub claim: SearchClaim,
}

/// Conclusion about a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum SearchClaim {
    Leads,
    /// It was run; its prediction contains its trials.
    Run,
    /// It was not run.
    Predicted,
    /// It was dropped for this reason.
    Dropped(RankClaim),
}

impl Search {
    /// Returns what the leader may miss. Before the first block, the leader is the candidate that is expected to be the
    /// best.
    pub fn missed(&self) -> Option<Missed> {
        let leader = self.leader().or_else(|| self.expected_best())?;
        Some(self.missed_by(leader, &self.stated_draws("missed", MISSED_DRAWS)))
    }

    /// Returns predictions of all candidates; before the first block, those of the prior. Takes longer than a block.
    pub fn outlook(&self) -> Outlook {
        self.outlook_with(self.leader().or_else(|| self.expected_best()))
    }

    /// Like [`Search::outlook`], but with what this candidate may miss, for an answer that is not the leader.
    pub fn outlook_of(&self, candidate: usize) -> Outlook {
        self.outlook_with(Some(candidate))
    }

    fn outlook_with(&self, answer: Option<usize>) -> Outlook {
        let draws = self.stated_draws("outlook", OUTLOOK_DRAWS);
        Outlook {
            missed: answer.map(|answer| self.missed_by(answer, &draws)),
            predictions: predictions(&draws, &self.posterior.mean, &self.active().collect::<Vec<_>>()),
        }
    }

    /// Returns all candidates with an outlook: the leader, then by expected time, then those that were dropped.
    pub fn standings(&self, outlook: &Outlook) -> Vec<SearchStanding> {
        let leader = self.leader();
        let mut standings: Vec<SearchStanding> = (0..self.counts.len())
            .map(|candidate| SearchStanding {
                candidate,
                trials: self.trials_of(candidate),
                prediction: outlook.predictions[candidate],
                claim: self.claim(candidate, leader),
            })
            .collect();
        let rank = |standing: &SearchStanding| match standing.claim {
            SearchClaim::Leads => 0,
            SearchClaim::Run | SearchClaim::Predicted => 1,
            SearchClaim::Dropped(_) => 2,
        };
        standings.sort_by(|one, other| {
            rank(one).cmp(&rank(other)).then(one.prediction.mean.total_cmp(&other.prediction.mean))
        });
        standings
    }

    fn claim(&self, candidate: usize, leader: Option<usize>) -> SearchClaim {
        let reason = || self.counts[candidate].reason.clone();
        match self.dropped[candidate] {
            Some(DropReason::NotProven) => SearchClaim::Dropped(RankClaim::NotProven(reason())),
            Some(DropReason::Failed) => SearchClaim::Dropped(RankClaim::Failed(reason())),
            Some(DropReason::TooSlow) => SearchClaim::Dropped(RankClaim::TooSlow { times: None }),
            None if Some(candidate) == leader => SearchClaim::Leads,
            None if self.trials_of(candidate) > 0 => SearchClaim::Run,
            None => SearchClaim::Predicted,
        }
    }

    /// Returns the candidates that a race should continue with, in ascending order: the baseline, the leader and those
    /// that are most likely within 1 % of the best.
    pub fn survivors(&self) -> Vec<usize> {
        let outlook = self.outlook();
        let near = |candidate: &usize| outlook.predictions[*candidate].near_best;
        let mut ranked: Vec<usize> =
            self.active().filter(|candidate| *candidate > 0 && near(candidate) > 0.0).collect();
        ranked.sort_by(|one, other| near(other).total_cmp(&near(one)));
        let mut survivors: Vec<usize> = [Some(0), self.leader()].into_iter().flatten().collect();
        for candidate in ranked {
            if survivors.len() < SURVIVORS && !survivors.contains(&candidate) {
                survivors.push(candidate);
            }
        }
        survivors.sort_unstable();
        survivors.dedup();
        survivors
    }

    fn stated_draws(&self, purpose: &str, count: usize) -> Vec<Vec<f64>> {
        let mut random = Random::new(self.prior.seed, &format!("{purpose} {}", self.blocks));
        self.posterior.cautious_draws(&self.prior, count, &mut random)
    }

    fn missed_by(&self, candidate: usize, draws: &[Vec<f64>]) -> Missed {
        let distance = |draw: &Vec<f64>| (draw[candidate] - self.lowest(draw)).max(0.0).exp_m1();
        Missed::of(draws.iter().map(distance).collect())
    }

    /// Returns the time of the best active candidate in a draw.
    pub(super) fn lowest(&self, draw: &[f64]) -> f64 {
        self.active().map(|one| draw[one]).fold(f64::INFINITY, f64::min)
    }
}

/// Returns predictions from draws and means of the log times. Only active candidates can be the best.
pub(super) fn predictions(draws: &[Vec<f64>], means: &[f64], active: &[usize]) -> Vec<Prediction> {
    let (mut best, mut near_best) = (vec![0.0; means.len()], vec![0.0; means.len()]);
    let share = 1.0 / draws.len() as f64;
    for draw in draws {
        let lowest = active.iter().copied().min_by(|one, other| draw[*one].total_cmp(&draw[*other])).unwrap_or(0);
        best[lowest] += share;
        let is_near = |one: &&usize| draw[**one] <= draw[lowest] + NEAR_BEST;
        active.iter().filter(is_near).for_each(|one| near_best[*one] += share);
    }
    let prediction = |candidate: usize| {
        let mut values: Vec<f64> = draws.iter().map(|draw| draw[candidate]).collect();
        values.sort_by(f64::total_cmp);
        Prediction {
            mean: means[candidate],
            low: quantile(&values, RANGE.0),
            high: quantile(&values, RANGE.1),
            best: best[candidate],
            near_best: near_best[candidate],
        }
    };
    (0..means.len()).map(prediction).collect()
}

/// Returns a quantile of sorted values.
fn quantile(sorted: &[f64], at: f64) -> f64 {
    sorted[((sorted.len() as f64 * at).ceil() as usize).clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stated_bound_is_never_below_the_mean() {
        let even = Missed::of((1..=100).map(|one| f64::from(one) / 1000.0).collect());
        assert!((even.mean - 0.0505).abs() < 1e-9 && (even.bound90 - 0.09).abs() < 1e-9, "{even:?}");
        // One draw in twenty is a large loss: the quantile is 0.
        let skewed = Missed::of((0..100).map(|one| if one < 5 { 0.5 } else { 0.0 }).collect());
        assert!((skewed.mean - 0.025).abs() < 1e-9 && (skewed.bound90 - 0.025).abs() < 1e-9, "{skewed:?}");
    }
}
