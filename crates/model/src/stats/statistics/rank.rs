//! Rank tests: the probability of a difference this large between samples of equal distributions, whatever these are.

use serde::{Deserialize, Serialize};

use super::rank_distribution::RankStatistic;
use super::student::normal_two_sided;

/// Method of computing a p value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankMethod {
    /// Exact, by counting all arrangements of the ranks: fewer than 50 samples on each side, no ties.
    Exact,
    /// Normal approximation, corrected for ties and for continuity.
    Normal,
}

/// Result of a rank test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankTest {
    /// The statistic, defined by each test. A count, without a unit.
    pub statistic: f64,
    /// Two-sided probability of a statistic this far from its mean without a difference, in [0, 1].
    pub p_value: f64,
    /// Method by which the p value was computed.
    pub method: RankMethod,
}

/// Tests whether two independent samples differ (Mann and Whitney, Annals of Mathematical Statistics 18, 1947). The
/// statistic is U of the candidate: the number of pairs, one from each side, in which the candidate is larger; ties
/// count half.
///
/// `None` if a side has no samples or one that is not finite.
pub fn mann_whitney(baseline: &[f64], candidate: &[f64]) -> Option<RankTest> {
    let mut pooled: Vec<(f64, bool)> =
        baseline.iter().map(|value| (*value, false)).chain(candidate.iter().map(|value| (*value, true))).collect();
    if baseline.is_empty() || candidate.is_empty() || !pooled.iter().all(|(value, _)| value.is_finite()) {
        return None;
    }
    let (rank_sum, ties) = marked_rank_sum(&mut pooled);
    let own_pairs = (candidate.len() * (candidate.len() + 1)) as f64 / 2.0;
    let all = pooled.len() as f64;
    let shape = RankStatistic::RankSum(baseline.len(), candidate.len());
    // With one sample on each side, the variance of ties is 0 / 0; max avoids it.
    let variance = shape.variance() * (1.0 - ties / (all * (all * all - 1.0)).max(1.0));
    Some(judge(rank_sum - own_pairs, shape, variance, ties > 0.0))
}

/// Tests whether differences of pairs are centred at 0 (Wilcoxon, Biometrics Bulletin 1, 1945). Differences of exactly
/// 0 are ignored. The statistic is the sum of the ranks of the positive differences.
///
/// `None` without differences or with one that is not finite; if all are 0 the p value is 1.
pub fn wilcoxon_signed_rank(differences: &[f64]) -> Option<RankTest> {
    if differences.is_empty() || !differences.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut distances: Vec<(f64, bool)> =
        differences.iter().filter(|value| value.abs() > 0.0).map(|value| (value.abs(), *value > 0.0)).collect();
    let (rank_sum, ties) = marked_rank_sum(&mut distances);
    let shape = RankStatistic::SignedRank(distances.len());
    Some(judge(rank_sum, shape, shape.variance() - ties / 48.0, ties > 0.0))
}

/// Sorts, and returns the sum of the ranks of the marked values (ties have their mean rank), and the sum over groups of
/// `t` ties of `t^3 - t`.
fn marked_rank_sum(values: &mut [(f64, bool)]) -> (f64, f64) {
    values.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let (mut rank_sum, mut ties, mut before) = (0.0, 0.0, 0.0);
    // Compared as numbers, so that 0 and -0 are ties.
    for group in values.chunk_by(|one, other| one.0 >= other.0) {
        let size = group.len() as f64;
        let marked = group.iter().filter(|(_, mark)| *mark).count() as f64;
        rank_sum += marked * (before + f64::midpoint(size, 1.0));
        ties += size * size * size - size;
        before += size;
    }
    (rank_sum, ties)
}

/// Returns the p value of a statistic by the method that its ties and its size allow.
fn judge(statistic: f64, shape: RankStatistic, variance: f64, tied: bool) -> RankTest {
    if shape.is_exact() && !tied {
        return RankTest { statistic, p_value: exact_p_value(statistic, shape), method: RankMethod::Exact };
    }
    let distance = (statistic - shape.largest() as f64 / 2.0).abs();
    // Half a step for continuity, but not beyond the mean; without variance (all tied) there is no evidence.
    let p_value =
        if variance > 0.0 { normal_two_sided((distance - 0.5).max(0.0) / variance.sqrt()).min(1.0) } else { 1.0 };
    RankTest { statistic, p_value, method: RankMethod::Normal }
}

fn exact_p_value(statistic: f64, shape: RankStatistic) -> f64 {
    // Without ties the statistic is an integer, and its distribution is symmetric.
    let whole = statistic as usize;
    let extreme = whole.min(shape.largest() - whole);
    (2.0 * shape.cumulative()[extreme]).min(1.0)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::stats::statistics::golden::{assert_close, cases, number, numbers};

    fn check(test: Option<RankTest>, expected: &Value, name: &str) {
        let test = test.unwrap();
        assert_close(test.statistic, number(&expected["statistic"]), name);
        assert_close(test.p_value, number(&expected["p_value"]), name);
        assert_eq!(serde_json::to_value(test.method).unwrap(), expected["method"], "{name}");
    }

    #[test]
    fn mann_whitney_agrees_with_scipy() {
        for case in cases("two_samples") {
            let test = mann_whitney(&numbers(&case["baseline"]), &numbers(&case["candidate"]));
            check(test, &case["mann_whitney"], case["name"].as_str().unwrap());
        }
    }

    #[test]
    fn wilcoxon_agrees_with_scipy() {
        for case in cases("differences") {
            let test = wilcoxon_signed_rank(&numbers(&case["values"]));
            check(test, &case["wilcoxon"], case["name"].as_str().unwrap());
        }
    }

    #[test]
    fn empty_and_non_finite_samples_have_no_test() {
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        assert_eq!(mann_whitney(&[1.0], &[]), None);
        assert_eq!(mann_whitney(&[1.0], &[f64::NAN]), None);
        assert_eq!(wilcoxon_signed_rank(&[]), None);
        assert_eq!(wilcoxon_signed_rank(&[1.0, f64::INFINITY]), None);
    }

    #[test]
    fn equal_samples_have_a_p_value_of_one() {
        let one = |p: Option<RankTest>| (p.unwrap().p_value - 1.0).abs() < 1e-12;
        assert!(one(mann_whitney(&[1.0], &[2.0])) && one(mann_whitney(&[1.0], &[1.0])));
        assert!(one(mann_whitney(&[5.0; 9], &[5.0; 4])));
        assert!(one(mann_whitney(&[0.0, 0.0], &[-0.0, -0.0])), "0 and -0 tie");
        assert!(one(wilcoxon_signed_rank(&[0.0, -0.0, 0.0])));
        assert!(one(wilcoxon_signed_rank(&[3.0])));
        assert!(one(mann_whitney(&[1.0, 1.0, 2.0, 2.0], &[1.0, 1.0, 2.0, 2.0])), "a distance below the half step");
    }

    #[test]
    fn sides_can_be_swapped_and_huge_values_ranked() {
        let (baseline, candidate) = ([-f64::MAX, 3.0, 1.0, 7.5], [f64::MAX, 2.0, 1e300, 8.0, 9.0]);
        let (one, other) = (mann_whitney(&baseline, &candidate).unwrap(), mann_whitney(&candidate, &baseline).unwrap());
        assert_close(one.statistic + other.statistic, 20.0, "the two U");
        assert_close(one.p_value, other.p_value, "two-sided");
    }
}
