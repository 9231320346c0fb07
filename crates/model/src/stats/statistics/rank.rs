//! Rank tests: could samples that do not differ look like this? No assumption on their distribution.

use serde::{Deserialize, Serialize};

use super::rank_distribution::RankStatistic;
use super::student::normal_two_sided;

/// How a p value was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankMethod {
    /// By counting every arrangement of the ranks: fewer than 50 samples on each side, no ties.
    Exact,
    /// By the normal approximation, corrected for ties and for continuity.
    Normal,
}

/// What a rank test found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankTest {
    /// The statistic; each test says which. A count, without a unit.
    pub statistic: f64,
    /// The two-sided probability of a statistic this far from its mean if nothing differs, in [0, 1].
    pub p_value: f64,
    /// How the probability was made.
    pub method: RankMethod,
}

/// Whether two samples measured apart differ (Mann and Whitney, Annals of Mathematical Statistics 18, 1947). The
/// statistic is U of the candidate: the number of pairs, one from each side, in which the candidate is the larger,
/// ties counting half.
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
    // One sample on each side have no tied variance to speak of; max keeps 0 / 0 out.
    let variance = shape.variance() * (1.0 - ties / (all * (all * all - 1.0)).max(1.0));
    Some(judge(rank_sum - own_pairs, shape, variance, ties > 0.0))
}

/// Whether differences of pairs lie around 0 (Wilcoxon, Biometrics Bulletin 1, 1945). Differences of exactly 0 are
/// left out. The statistic is the sum of the ranks of the positive differences.
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

/// Sorts, and gives the sum of the ranks of the marked values (tied ones share their mean rank), and the sum over
/// groups of `t` tied values of `t^3 - t`.
fn marked_rank_sum(values: &mut [(f64, bool)]) -> (f64, f64) {
    values.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let (mut rank_sum, mut ties, mut before) = (0.0, 0.0, 0.0);
    // Compared as numbers, so that 0 and -0 tie.
    for group in values.chunk_by(|one, other| one.0 >= other.0) {
        let size = group.len() as f64;
        let marked = group.iter().filter(|(_, mark)| *mark).count() as f64;
        rank_sum += marked * (before + f64::midpoint(size, 1.0));
        ties += size * size * size - size;
        before += size;
    }
    (rank_sum, ties)
}

/// From the statistic to its probability, by the way that its ties and its size allow.
fn judge(statistic: f64, shape: RankStatistic, variance: f64, tied: bool) -> RankTest {
    if shape.is_exact() && !tied {
        return RankTest { statistic, p_value: exact_p_value(statistic, shape), method: RankMethod::Exact };
    }
    let distance = (statistic - shape.largest() as f64 / 2.0).abs();
    // Half a step for continuity, but not past the mean; without variance (all tied) nothing can be told apart.
    let p_value =
        if variance > 0.0 { normal_two_sided((distance - 0.5).max(0.0) / variance.sqrt()).min(1.0) } else { 1.0 };
    RankTest { statistic, p_value, method: RankMethod::Normal }
}

fn exact_p_value(statistic: f64, shape: RankStatistic) -> f64 {
    // Without ties the statistic is a whole number, and its distribution is symmetric.
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
    fn tests_of_nothing_and_of_what_is_not_finite_say_nothing() {
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        assert_eq!(mann_whitney(&[1.0], &[]), None);
        assert_eq!(mann_whitney(&[1.0], &[f64::NAN]), None);
        assert_eq!(wilcoxon_signed_rank(&[]), None);
        assert_eq!(wilcoxon_signed_rank(&[1.0, f64::INFINITY]), None);
    }

    #[test]
    fn equal_samples_are_certain_not_to_differ() {
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
