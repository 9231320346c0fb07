//! Exact distributions of the two rank statistics under the null hypothesis, and the depth of intervals.

use super::is_confidence;
use super::student::{normal_quantile, normal_two_sided};

/// Number of samples (on each side) from which the normal approximation is used, as in R. The cost of exact
/// distributions grows with the fourth power, and from here on the approximation agrees to three digits.
pub(super) const EXACT_BELOW: usize = 50;

/// The two statistics, with their numbers of samples.
#[derive(Clone, Copy, Debug)]
pub(super) enum RankStatistic {
    /// Wilcoxon's sum of the ranks of positive differences.
    SignedRank(usize),
    /// Mann and Whitney's count of ordered pairs, one from each side.
    RankSum(usize, usize),
}

impl RankStatistic {
    /// Returns the largest value; the smallest is 0 and the mean halfway.
    pub(super) fn largest(self) -> usize {
        match self {
            Self::SignedRank(count) => count * (count + 1) / 2,
            Self::RankSum(one, other) => one * other,
        }
    }

    /// Returns the variance without ties.
    pub(super) fn variance(self) -> f64 {
        match self {
            Self::SignedRank(count) => {
                let n = count as f64;
                n * (n + 1.0) * (2.0 * n + 1.0) / 24.0
            }
            Self::RankSum(one, other) => {
                let (n, m) = (one as f64, other as f64);
                n * m * (n + m + 1.0) / 12.0
            }
        }
    }

    /// Whether the exact distribution is cheap enough.
    pub(super) fn is_exact(self) -> bool {
        match self {
            Self::SignedRank(count) => count < EXACT_BELOW,
            Self::RankSum(one, other) => one < EXACT_BELOW && other < EXACT_BELOW,
        }
    }

    /// Returns the probabilities of at most 0, at most 1, and so on up to the middle.
    pub(super) fn cumulative(self) -> Vec<f64> {
        let probabilities = match self {
            Self::SignedRank(count) => signed_rank_probabilities(count),
            Self::RankSum(one, other) => rank_sum_probabilities(one, other),
        };
        let mut sum = 0.0;
        let add = |probability: f64| {
            sum += probability;
            sum
        };
        probabilities.into_iter().map(add).collect()
    }

    /// Returns the two-sided p value of a statistic, counted from its nearer end: of the tests whose interval has the
    /// [`Self::depth`], which excludes a value if fewer than d averages or differences are on its other side.
    pub(super) fn p_value(self, statistic: usize) -> f64 {
        if self.is_exact() {
            let cumulative = self.cumulative();
            return (2.0 * cumulative[statistic.min(cumulative.len() - 1)]).min(1.0);
        }
        let distance = self.largest() as f64 / 2.0 - (statistic as f64 + 0.5);
        normal_two_sided(distance.max(0.0) / self.variance().sqrt()).min(1.0)
    }

    /// Returns the depth d of an interval of this confidence, which extends from the d-th smallest to the d-th largest
    /// of the ordered averages or differences. `None` if even the outermost do not reach the confidence. (Hollander,
    /// Wolfe and Chicken, Nonparametric Statistical Methods, 2014, sections 3.3 and 4.3.)
    pub(super) fn depth(self, confidence: f64) -> Option<usize> {
        if !is_confidence(confidence) {
            return None;
        }
        let tail = f64::midpoint(1.0, -confidence);
        let depth = if self.is_exact() {
            self.cumulative().partition_point(|probability| *probability <= tail)
        } else {
            let middle = self.largest() as f64 / 2.0;
            // Half a step for continuity; a negative depth becomes 0 in the cast.
            (middle + 0.5 + normal_quantile(tail) * self.variance().sqrt()) as usize
        };
        (depth > 0).then_some(depth)
    }
}

/// Distribution of the sum of the ranks whose coin shows heads, from 0 to the middle.
fn signed_rank_probabilities(count: usize) -> Vec<f64> {
    let middle = count * (count + 1) / 4;
    let mut probabilities = vec![0.0; middle + 1];
    probabilities[0] = 1.0;
    for rank in 1..=count {
        for sum in (0..=middle).rev() {
            let without = probabilities[sum];
            let with = if sum >= rank { probabilities[sum - rank] } else { 0.0 };
            probabilities[sum] = f64::midpoint(without, with);
        }
    }
    probabilities
}

/// Coefficients of the Gaussian binomial over their sum (Mann and Whitney, Annals of Mathematical Statistics 18, 1947),
/// from 0 to the middle.
fn rank_sum_probabilities(one: usize, other: usize) -> Vec<f64> {
    let middle = one * other / 2;
    // Integers, because the division below is only exact for them; at most C(98, 49), which is below 2^95.
    let mut ways = vec![0_i128; middle + 1];
    ways[0] = 1;
    let mut all = 1_i128;
    let (few, many) = (one.min(other), one.max(other));
    for step in 1..=few {
        // Multiplied by 1 - q^(many + step), then divided by 1 - q^step.
        for at in (many + step..=middle).rev() {
            ways[at] -= ways[at - many - step];
        }
        for at in step..=middle {
            ways[at] += ways[at - step];
        }
        all = all * (many + step) as i128 / step as i128;
    }
    ways.into_iter().map(|ways| ways as f64 / all as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::statistics::golden::{assert_close, cases, numbers};

    #[test]
    fn distributions_agree_with_counting_every_case() {
        for case in cases("rank_distribution") {
            let sizes: Vec<usize> = numbers(&case["sizes"]).iter().map(|size| *size as usize).collect();
            let statistic = match sizes.as_slice() {
                [count] => RankStatistic::SignedRank(*count),
                [one, other] => RankStatistic::RankSum(*one, *other),
                _ => unreachable!("one size or two"),
            };
            let (actual, expected) = (statistic.cumulative(), numbers(&case["cumulative"]));
            assert_eq!(actual.len(), expected.len(), "{sizes:?}");
            for (actual, expected) in actual.iter().zip(expected) {
                assert_close(*actual, expected, &format!("{sizes:?}"));
            }
        }
    }

    #[test]
    fn largest_exact_distributions_sum_to_one_half() {
        let most = EXACT_BELOW - 1;
        for statistic in [RankStatistic::SignedRank(most), RankStatistic::RankSum(most, most)] {
            let cumulative = statistic.cumulative();
            // An odd largest value splits into two equal halves.
            assert_eq!(statistic.largest() % 2, 1);
            assert_close(*cumulative.last().unwrap(), 0.5, &format!("{statistic:?}"));
            assert!(cumulative.is_sorted());
        }
    }

    #[test]
    fn depths_agree_with_published_tables() {
        // Hollander, Wolfe and Chicken, tables A.4 and A.6: P(T+ <= 8) = 0.0244 for 10; P(U <= 23) = 0.0217 for 10, 10.
        assert_eq!(RankStatistic::SignedRank(10).depth(0.95), Some(9));
        assert_eq!(RankStatistic::RankSum(10, 10).depth(0.95), Some(24));
        assert_eq!(RankStatistic::SignedRank(5).depth(0.95), None);
        assert_eq!(RankStatistic::SignedRank(6).depth(0.95), Some(1));
        assert_eq!(RankStatistic::RankSum(3, 3).depth(0.95), None);
        assert_eq!(RankStatistic::RankSum(4, 4).depth(0.95), Some(1));
        for confidence in [-1.0, 0.0, 1.0, 2.0, f64::NAN] {
            assert_eq!(RankStatistic::SignedRank(10).depth(confidence), None);
            assert_eq!(RankStatistic::SignedRank(60).depth(confidence), None);
        }
    }

    #[test]
    fn normal_depth_continues_the_exact_one() {
        let exact = RankStatistic::SignedRank(49);
        let normal = (612.5 + 0.5 + normal_quantile(0.025) * exact.variance().sqrt()) as usize;
        assert!(exact.depth(0.95).unwrap().abs_diff(normal) <= 1);
        let larger = RankStatistic::SignedRank(50).depth(0.95).unwrap();
        assert!((1..30).contains(&(larger - exact.depth(0.95).unwrap())), "{larger}");
    }
}
