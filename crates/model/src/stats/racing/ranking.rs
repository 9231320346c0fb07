//! The ranking of all candidates, with simultaneous intervals. The comparison of the leader with the baseline is not
//! made here but by confirmation.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::confirm::percent;
use super::interim::{mean, middle, moderated_variance, typical_variance, variance};
use super::missing::DropReason;
use super::{Fate, Race};
use crate::stats::statistics::{Interval, Mean, mean_interval};
use crate::values::workload::Better;

/// Simultaneous confidence of all intervals of a race is 95 %: each has its share of the 5 % (Bonferroni).
const TOGETHER: f64 = 0.05;

/// A candidate's position in the ranking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankedCandidate {
    /// Index of the candidate.
    pub candidate: usize,
    /// Number of blocks in which it has a value.
    pub blocks: u32,
    /// Difference to the leader; `None` for the leader, and if the two have no comparable measurements.
    pub effect: Option<Effect>,
    /// Difference to the baseline; `None` for the baseline and for the leader.
    pub against_kernel: Option<Effect>,
    /// Conclusion about the candidate.
    #[serde(rename = "word")]
    pub word: RankClaim,
}

/// Difference of a candidate's metric, in percent and in the direction of the metric: 10 is 10 % more time, or 10 %
/// more throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// From the mean of the logarithms of the ratios within blocks.
    pub mean_percent: f64,
    /// From the median of the logarithms.
    pub median_percent: f64,
    /// Interval of the mean, in percent, simultaneous with those of all other candidates. `None` if no candidate has at
    /// least two measurements.
    pub interval: Option<Interval>,
}

/// Conclusion about a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankClaim {
    Leads,
    /// The candidate is worse than the leader.
    Worse {
        /// Difference in percent of the leader's metric; both ends are above 0.
        by: Interval,
    },
    /// The candidate was not proven worse than the leader.
    NotSeenToDiffer {
        /// Maximum difference in percent of the leader's metric; `None` if no candidate has at least two measurements.
        at_most: Option<f64>,
    },
    /// The candidate was much slower than the fastest, and was stopped.
    TooSlow {
        /// Minimum ratio to the fastest; `None` if its trials were killed and the metric is not their time.
        times: Option<f64>,
    },
    /// The placement was not verified, with the reason.
    NotProven(String),
    /// The trials failed, with the reason.
    Failed(String),
    /// It was never run: not in the second stage, or the race ended before.
    NotRaced,
    /// It was run in the search, which makes no conclusion about single candidates.
    Searched,
    /// It was run only in the fresh pairs.
    Paired,
}

/// A difference between two candidates on the logarithmic scale; larger is worse.
struct Difference {
    /// Mean, and the components of its error.
    value: f64,
    median: f64,
    parts: Vec<Mean>,
}

/// Typical variance of differences to a candidate, by candidate; `None` if no candidate has at least two measurements.
type TypicalVariance = BTreeMap<usize, Option<f64>>;

impl Race {
    /// Returns all candidates: the leader, ties, worse ones, then those that were stopped or could not be measured.
    pub fn standings(&self) -> Vec<RankedCandidate> {
        let leader = self.leader();
        let measured_against = [Some(0), leader, self.stage.winner].into_iter().flatten();
        let commons: TypicalVariance = measured_against.map(|other| (other, self.common_variance(other))).collect();
        let mut standings: Vec<(usize, f64, RankedCandidate)> = (0..self.fates.len())
            .map(|candidate| {
                let difference = leader
                    .filter(|leader| *leader != candidate)
                    .and_then(|leader| self.difference(candidate, leader, &commons));
                let value = difference.as_ref().map_or(f64::INFINITY, |difference| difference.value);
                let standing = self.standing(candidate, leader, difference.as_ref(), &commons);
                (rank(&standing.word), value, standing)
            })
            .collect();
        standings.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
        standings.into_iter().map(|(.., standing)| standing).collect()
    }

    fn standing(
        &self,
        candidate: usize,
        leader: Option<usize>,
        difference: Option<&Difference>,
        commons: &TypicalVariance,
    ) -> RankedCandidate {
        let rows = self.rows.iter();
        let against_kernel =
            (candidate != 0 && Some(candidate) != leader).then(|| self.difference(candidate, 0, commons)).flatten();
        RankedCandidate {
            candidate,
            blocks: rows.filter(|row| row[candidate].is_some()).count() as u32,
            effect: difference.map(|difference| self.effect(difference)),
            against_kernel: against_kernel.map(|difference| self.effect(&difference)),
            word: self.word(candidate, leader, difference),
        }
    }

    fn word(&self, candidate: usize, leader: Option<usize>, difference: Option<&Difference>) -> RankClaim {
        let reason = || self.counts[candidate].reason.clone();
        match self.fates[candidate] {
            Fate::Left(DropReason::NotProven) => return RankClaim::NotProven(reason()),
            Fate::Left(DropReason::Failed) => return RankClaim::Failed(reason()),
            Fate::Left(DropReason::TooSlow) => {
                return RankClaim::TooSlow { times: difference.map(|difference| difference.median.exp()) };
            }
            Fate::Hopeless { times } => return RankClaim::TooSlow { times: Some(times) },
            Fate::Waiting | Fate::Running | Fate::Dropped => {}
        }
        if Some(candidate) == leader {
            return RankClaim::Leads;
        }
        let Some(difference) = difference else {
            let count = &self.counts[candidate];
            return match (count.failed, count.not_proven) {
                (0, 0) => RankClaim::NotRaced,
                (failed, not_proven) if failed > not_proven => RankClaim::Failed(reason()),
                _ => RankClaim::NotProven(reason()),
            };
        };
        let Some(interval) = self.interval(difference) else { return RankClaim::NotSeenToDiffer { at_most: None } };
        let (least, most) = (self.worse_percent(interval.low), self.worse_percent(interval.high));
        match Interval::between(least, most).filter(|by| by.low > 0.0) {
            Some(by) => RankClaim::Worse { by },
            None => RankClaim::NotSeenToDiffer { at_most: Some(most.max(0.0)) },
        }
    }

    /// Converts a difference to percent of the leader's metric; negative if the candidate is better.
    fn worse_percent(&self, difference: f64) -> f64 {
        if self.better == Better::Lower { percent(difference) } else { -percent(-difference) }
    }

    fn effect(&self, difference: &Difference) -> Effect {
        let change = |value: f64| if self.better == Better::Lower { percent(value) } else { percent(-value) };
        Effect {
            mean_percent: change(difference.value),
            median_percent: change(difference.median),
            interval: self.interval(difference).and_then(|one| Interval::between(change(one.low), change(one.high))),
        }
    }

    fn interval(&self, difference: &Difference) -> Option<Interval> {
        let others = (self.fates.len() - 1).max(1) as f64;
        (!difference.parts.is_empty())
            .then(|| mean_interval(difference.value, &difference.parts, 1.0 - TOGETHER / others))
            .flatten()
    }

    /// Returns the difference of two candidates: from the blocks that they share or, if they ran in different stages,
    /// via the winner of the first stage, which ran in both.
    fn difference(&self, candidate: usize, other: usize, commons: &TypicalVariance) -> Option<Difference> {
        let all = 0..self.rows.len();
        if let Some(direct) = self.shared(candidate, other, all, commons) {
            return Some(direct);
        }
        let winner = self.stage.winner.filter(|winner| *winner != candidate && *winner != other)?;
        let (first, second) = (0..self.stage.from, self.stage.from..self.rows.len());
        let by_way = |one: Range<usize>, two: Range<usize>| {
            let (to, from) = (self.shared(candidate, winner, one, commons)?, self.shared(winner, other, two, commons)?);
            // Different blocks, so the errors are independent.
            let parts =
                if to.parts.is_empty() || from.parts.is_empty() { Vec::new() } else { [to.parts, from.parts].concat() };
            Some(Difference { value: to.value + from.value, median: to.median + from.median, parts })
        };
        by_way(first.clone(), second.clone()).or_else(|| by_way(second, first))
    }

    fn shared(
        &self,
        candidate: usize,
        other: usize,
        blocks: Range<usize>,
        commons: &TypicalVariance,
    ) -> Option<Difference> {
        let differences = self.differences(candidate, other, blocks);
        if differences.is_empty() {
            return None;
        }
        let (count, value) = (differences.len() as f64, mean(&differences));
        let own = if differences.len() > 1 { variance(&differences) } else { 0.0 };
        let part = commons.get(&other).copied().flatten().map(|common| {
            let (variance, freedom) = moderated_variance(common, own, count - 1.0);
            Mean { value, variance: variance / count, freedom }
        });
        Some(Difference { value, median: middle(differences), parts: part.into_iter().collect() })
    }

    /// Typical variance of differences to this candidate; `None` if no candidate has at least two measurements.
    fn common_variance(&self, other: usize) -> Option<f64> {
        let variances: Vec<(f64, f64)> = (0..self.fates.len())
            .filter(|candidate| *candidate != other)
            .map(|candidate| self.differences(candidate, other, 0..self.rows.len()))
            .filter(|differences| differences.len() > 1)
            .map(|differences| (variance(&differences), differences.len() as f64 - 1.0))
            .collect();
        (!variances.is_empty()).then(|| typical_variance(&variances))
    }

    /// Returns the differences of two candidates in each of these blocks that has both.
    pub(super) fn differences(&self, candidate: usize, other: usize, blocks: Range<usize>) -> Vec<f64> {
        self.rows[blocks].iter().filter_map(|row| Some(row[candidate]? - row[other]?)).collect()
    }
}

/// Order in the ranking.
fn rank(word: &RankClaim) -> usize {
    match word {
        RankClaim::Leads => 0,
        RankClaim::NotSeenToDiffer { .. } => 1,
        RankClaim::Worse { .. } => 2,
        RankClaim::TooSlow { .. } => 3,
        RankClaim::NotProven(_) => 4,
        RankClaim::Failed(_) => 5,
        RankClaim::Searched | RankClaim::Paired => 6,
        RankClaim::NotRaced => 7,
    }
}
