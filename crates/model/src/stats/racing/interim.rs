//! Interim analysis of complete blocks: the leader, and the probability of each other candidate to be better by more
//! than the indifference. Uses a table of numbers without missing values; must not depend on candidates, stages or
//! budgets.
//!
//! Values are logarithms and less is better, so differences are relative (0.01 is 1 %).

use crate::stats::statistics::{Interval, Mean, chi_squared_median, mean_interval, t_probability};

/// From this number of blocks, one burst (a slow phase of the machine) cannot dominate a winsorized mean.
pub(super) const SETTLED_FROM: usize = 6;

/// Ratio of the standard deviation to the median absolute deviation of normal values.
const MAD_TO_SD: f64 = 1.4826;
/// Values further than this many standard deviations from the median are winsorized to that distance, so a burst of 30
/// % has the effect of one bad trial. Normal noise is hardly changed (Tukey; Dixon 1960).
const CUT_SDS: f64 = 2.5;
/// Factor by which winsorizing at [`CUT_SDS`] reduces the variance of normal noise.
const WINSORIZED_VARIANCE: f64 = 1.06;
/// From this number of blocks, a candidate's own deviation is precise enough that half the common one suffices as
/// minimum.
const OWN_DEVIATION_FROM: usize = 12;
/// Weight of the common variance against a candidate's own, in degrees of freedom (Smyth, Statistical Applications in
/// Genetics and Molecular Biology 3, 2004). Interim analyses of 2 to 4 blocks only work with it.
const PRIOR_FREEDOM: f64 = 4.0;
/// Minimum number of challengers for a common variance.
const POOLED_FROM: usize = 3;

/// A column compared with the leader's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Challenger {
    pub column: usize,
    /// Mean difference to the leader; larger is worse.
    pub mean: f64,
    /// Probability that it is better than the leader by more than the indifference, under a flat prior.
    pub better: f64,
}

/// Treatment of the first blocks in an interim analysis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum EarlyRule {
    /// With 2 blocks use the value that favours the challenger, with 3 or 4 the median, so that one burst drops no
    /// candidate.
    Kind,
    /// Use the winsorized mean from the start.
    Plain,
}

/// Returns the column with the smallest of [`column_effects`].
pub(super) fn leader(columns: &[Vec<f64>]) -> usize {
    let effects = column_effects(columns);
    (0..effects.len()).min_by(|one, other| effects[*one].total_cmp(&effects[*other])).unwrap_or(0)
}

/// Returns the mean of each column after subtracting the medians of the rows; the smallest leads. Bursts within a block
/// do not cancel between neighbours, so values are winsorized. Requires columns of equal length with at least one
/// value.
pub fn column_effects(columns: &[Vec<f64>]) -> Vec<f64> {
    let rows = columns[0].len();
    let row_medians: Vec<f64> =
        (0..rows).map(|row| middle(columns.iter().map(|column| column[row]).collect())).collect();
    let lifted: Vec<Vec<f64>> = columns
        .iter()
        .map(|column| column.iter().zip(&row_medians).map(|(value, block)| value - block).collect())
        .collect();
    // The median of two values is not robust; use their mean.
    let cut =
        if rows < 3 { f64::INFINITY } else { CUT_SDS * (middle(lifted.iter().map(|c| deviation(c)).collect()) + 1e-9) };
    lifted.iter().map(|column| mean(&pulled_in(column, cut))).collect()
}

/// Analyses columns of equal length, with at least 2 rows and 2 columns. `seen(column, leader)` is the number of rows
/// in which both were measured; imputed rows add no precision. Returns all columns except the leader's.
pub(super) fn analyse(
    columns: &[Vec<f64>],
    seen: impl Fn(usize, usize) -> usize,
    indifference: f64,
    early: EarlyRule,
) -> Vec<Challenger> {
    let leader = leader(columns);
    let rows = columns[0].len();
    let others: Vec<usize> = (0..columns.len()).filter(|column| *column != leader).collect();
    let differences: Vec<Vec<f64>> = others
        .iter()
        .map(|column| columns[*column].iter().zip(&columns[leader]).map(|(one, best)| one - best).collect())
        .collect();
    let estimates = estimates(&differences);
    let challenger = |(index, column): (usize, &usize)| {
        let Estimate { mut mean, mut error, freedom } = estimates[index];
        if early == EarlyRule::Kind && rows < SETTLED_FROM - 1 {
            (mean, error) = kind(&differences[index], error);
        }
        error *= (rows as f64 / seen(*column, leader).max(1) as f64).sqrt();
        Challenger { column: *column, mean, better: probability_below(-indifference, mean, error, freedom) }
    };
    others.iter().enumerate().map(challenger).collect()
}

/// Returns the winsorized mean of each column of differences, with its t interval; at least 2 rows. This is the
/// estimate of interim analyses, for comparisons of a race with other rules.
pub fn winsorized_means(differences: &[Vec<f64>], confidence: f64) -> Vec<(f64, Option<Interval>)> {
    let with_interval = |Estimate { mean, error, freedom }: Estimate| {
        let part = Mean { value: mean, variance: error * error, freedom };
        (mean, mean_interval(mean, &[part], confidence))
    };
    estimates(differences).into_iter().map(with_interval).collect()
}

/// A mean difference with its standard error and degrees of freedom.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    mean: f64,
    error: f64,
    freedom: f64,
}

/// Returns winsorized means of differences, with moderated variances.
fn estimates(differences: &[Vec<f64>]) -> Vec<Estimate> {
    let rows = differences[0].len() as f64;
    let pooled = differences.len() >= POOLED_FROM;
    let deviations: Vec<f64> = differences.iter().map(|column| deviation(column)).collect();
    let common =
        if pooled { middle(deviations.clone()) } else { deviations.iter().fold(0.0, |most: f64, one| most.max(*one)) };
    let floor = if differences[0].len() < OWN_DEVIATION_FROM { common } else { common / 2.0 };
    let moments: Vec<(f64, f64)> = differences
        .iter()
        .zip(&deviations)
        .map(|(column, own)| {
            let kept = pulled_in(column, CUT_SDS * own.max(floor));
            (mean(&kept), WINSORIZED_VARIANCE * variance(&kept))
        })
        .collect();
    let own_freedom = rows - 1.0;
    let prior = if pooled { PRIOR_FREEDOM } else { 0.0 };
    let shared = typical_variance(&moments.iter().map(|(_, variance)| (*variance, own_freedom)).collect::<Vec<_>>());
    let estimate = |&(mean, own): &(f64, f64)| {
        let variance = moderated(shared, prior, own, own_freedom);
        Estimate { mean, error: (variance / rows).sqrt(), freedom: own_freedom + prior }
    };
    moments.iter().map(estimate).collect()
}

/// Estimates the common variance from sample variances with their degrees of freedom: the median of their ratios to the
/// median of the chi-squared distribution, so that a few noisy candidates do not increase it.
pub(super) fn typical_variance(variances: &[(f64, f64)]) -> f64 {
    middle(variances.iter().map(|(variance, freedom)| variance * freedom / chi_squared_median(*freedom)).collect())
}

/// Combines the common variance (with `prior` degrees of freedom) with a candidate's own.
fn moderated(shared: f64, prior: f64, own: f64, freedom: f64) -> f64 {
    (prior * shared + freedom * own) / (prior + freedom)
}

/// Like [`moderated`] with the default weight of the common variance; also returns the degrees of freedom.
pub(super) fn moderated_variance(shared: f64, own: f64, freedom: f64) -> (f64, f64) {
    (moderated(shared, PRIOR_FREEDOM, own, freedom), PRIOR_FREEDOM + freedom)
}

/// Returns mean and error of 2 to 4 differences such that a single burst does not count against a challenger. The
/// errors are those of a single value and of a median, relative to that of a mean.
fn kind(differences: &[f64], error: f64) -> (f64, f64) {
    if differences.len() == 2 {
        return (differences[0].min(differences[1]), error * 2f64.sqrt());
    }
    (middle(differences.to_vec()), error * 1.5f64.sqrt())
}

/// Returns the probability that a value with estimate `mean` is below `bound`; 0 or 1 if the error is zero.
fn probability_below(bound: f64, mean: f64, error: f64, freedom: f64) -> f64 {
    if error <= 0.0 {
        return f64::from(u8::from(mean < bound));
    }
    t_probability((bound - mean) / error, freedom)
}

/// Returns a robust standard deviation, with a correction for small samples.
pub(super) fn deviation(values: &[f64]) -> f64 {
    let center = middle(values.to_vec());
    let mad = middle(values.iter().map(|value| (value - center).abs()).collect());
    MAD_TO_SD * mad * (1.0 + 0.8 / values.len() as f64)
}

/// Winsorizes values to this distance from their median.
fn pulled_in(values: &[f64], distance: f64) -> Vec<f64> {
    let center = middle(values.to_vec());
    values.iter().map(|value| value.clamp(center - distance, center + distance)).collect()
}

/// Returns the mean of at least one value.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the sample variance of at least two values.
pub(super) fn variance(values: &[f64]) -> f64 {
    let center = mean(values);
    values.iter().map(|value| (value - center).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

/// Returns the median of at least one value; all must be finite.
pub(super) fn middle(mut values: Vec<f64>) -> f64 {
    let half = values.len() / 2;
    let even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    if even { f64::midpoint(*upper, below.iter().copied().fold(f64::NEG_INFINITY, f64::max)) } else { *upper }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::stats::racing::missing::complete;
    use crate::stats::statistics::golden::{assert_close, number, numbers};

    /// Values by `make_racing.py` in the same directory, with the formulas of the Python prototype used to tune the
    /// rule.
    fn golden() -> Value {
        serde_json::from_str(include_str!("../../../tests/golden/racing.json")).unwrap()
    }

    fn columns(rows: &Value, blocks: usize, count: usize) -> Vec<Vec<f64>> {
        let rows: Vec<Vec<f64>> = rows.as_array().unwrap().iter().take(blocks).map(numbers).collect();
        (0..count).map(|column| rows.iter().map(|row| row[column]).collect()).collect()
    }

    #[test]
    fn interim_analyses_agree_with_the_prototype() {
        let golden = golden();
        for case in golden["looks"].as_array().unwrap() {
            let blocks = case["blocks"].as_u64().unwrap() as usize;
            let columns = columns(&golden["rows"], blocks, case["columns"].as_u64().unwrap() as usize);
            let name = format!("{blocks} blocks of {}", columns.len());
            assert_eq!(leader(&columns) as u64, case["leader"].as_u64().unwrap(), "{name}");
            for (early, key) in [(EarlyRule::Kind, "probability"), (EarlyRule::Plain, "plain")] {
                let look = analyse(&columns, |_, _| blocks, 0.01, early);
                for (index, challenger) in look.iter().enumerate() {
                    assert_close(challenger.better, numbers(&case[key])[index], &name);
                    if early == EarlyRule::Kind || blocks >= 5 {
                        assert_close(challenger.mean, numbers(&case["mean"])[index], &name);
                    }
                }
            }
        }
    }

    #[test]
    fn missing_values_are_imputed_as_in_the_prototype() {
        let golden = golden();
        let blocks = golden["filled"]["blocks"].as_u64().unwrap() as usize;
        let mut rows: Vec<Vec<Option<f64>>> = golden["rows"].as_array().unwrap()[..blocks]
            .iter()
            .map(|row| numbers(row).into_iter().map(Some).collect())
            .collect();
        for hole in golden["filled"]["holes"].as_array().unwrap() {
            rows[number(&hole[0]) as usize][number(&hole[1]) as usize] = None;
        }
        for (column, expected) in complete(&rows).iter().zip(golden["filled"]["columns"].as_array().unwrap()) {
            for (value, expected) in column.iter().zip(numbers(expected)) {
                assert_close(*value, expected, "filled");
            }
        }
    }

    #[test]
    fn imputed_rows_add_no_precision() {
        let golden = golden();
        let columns = columns(&golden["rows"], 6, 7);
        let all = analyse(&columns, |_, _| 6, 0.01, EarlyRule::Kind);
        let half = analyse(&columns, |_, _| 3, 0.01, EarlyRule::Kind);
        for (all, half) in all.iter().zip(&half) {
            assert_eq!(all.mean.to_bits(), half.mean.to_bits());
            assert!(half.better > all.better, "{half:?} {all:?}");
        }
    }

    #[test]
    fn one_burst_in_the_first_two_blocks_drops_no_candidate() {
        let slow = 1.3f64.ln();
        // The second column is the best by 5 %, with a burst in its first block.
        let mut columns: Vec<Vec<f64>> =
            [0.05, 0.0, 0.06, 0.07, 0.06].iter().map(|value| vec![*value, value + 0.001]).collect();
        columns[1][0] += slow;
        let better = |early| {
            let look = analyse(&columns, |_, _| 2, 0.01, early);
            look.iter().find(|challenger| challenger.column == 1).unwrap().better
        };
        assert!(better(EarlyRule::Plain) < 0.2, "the mean of both blocks is slow: {}", better(EarlyRule::Plain));
        assert!(better(EarlyRule::Kind) > 0.6, "the better block counts: {}", better(EarlyRule::Kind));
    }

    #[test]
    fn equal_values_have_equal_probability() {
        let look = analyse(&vec![vec![1.0; 6]; 4], |_, _| 6, 0.01, EarlyRule::Kind);
        assert!(look.iter().all(|challenger| challenger.better.abs() < f64::MIN_POSITIVE), "{look:?}");
        assert!((probability_below(-0.01, -0.02, 0.0, 5.0) - 1.0).abs() < f64::MIN_POSITIVE);
    }
}
