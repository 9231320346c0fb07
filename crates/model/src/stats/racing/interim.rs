//! One look at the whole blocks of a race: who leads, and how likely is each of the others to be better by more than
//! the indifference. Knows only a table of numbers without holes; must not know candidates, stages or budgets.
//!
//! Values are logarithms, less is better, so differences are parts of the value (0.01 is 1 %).

use crate::stats::statistics::{Interval, Mean, chi_squared_median, mean_interval, t_probability};

/// From this many blocks on one burst (a slow spell of the machine) can not carry a winsorized mean.
pub(super) const SETTLED_FROM: usize = 6;

/// A median absolute deviation times this is the standard deviation of normal values.
const MAD_TO_SD: f64 = 1.4826;
/// Values further than this many standard deviations from the median are pulled in to there: a burst of 30 % counts
/// like a bad trial. Normal noise loses little (winsorizing: Tukey; Dixon 1960).
const CUT_SDS: f64 = 2.5;
/// Pulling in makes a variance too small by about this factor, for normal noise at [`CUT_SDS`].
const WINSORIZED_VARIANCE: f64 = 1.06;
/// From this many blocks on a candidate's own deviation is known so well that half the common one is floor enough.
const OWN_DEVIATION_FROM: usize = 12;
/// The variance that all candidates share counts like this many degrees of freedom of each one's own (Smyth,
/// Statistical Applications in Genetics and Molecular Biology 3, 2004): only with it do looks at 2 to 4 blocks work.
const PRIOR_FREEDOM: f64 = 4.0;
/// Fewer challengers than this have no common variance worth the name.
const POOLED_FROM: usize = 3;

/// One column against the leader's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Challenger {
    pub column: usize,
    /// How much larger (worse) its value is.
    pub mean: f64,
    /// The probability that it is better than the leader by more than the indifference, under a flat prior.
    pub better: f64,
}

/// How a look treats the first few blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum EarlyRule {
    /// With 2 blocks the one kinder to the challenger counts, with 3 or 4 the median, so that one burst drops nobody.
    Kind,
    /// The winsorized mean counts at once.
    Plain,
}

/// The column with the smallest of [`column_effects`].
pub(super) fn leader(columns: &[Vec<f64>]) -> usize {
    let effects = column_effects(columns);
    (0..effects.len()).min_by(|one, other| effects[*one].total_cmp(&effects[*other])).unwrap_or(0)
}

/// The mean of each column once the rows' own medians are taken off: the smallest leads. Bursts within a block do not
/// cancel between neighbours, so single values are pulled in. Columns of equal length, at least one of one value.
pub fn column_effects(columns: &[Vec<f64>]) -> Vec<f64> {
    let rows = columns[0].len();
    let row_medians: Vec<f64> =
        (0..rows).map(|row| middle(columns.iter().map(|column| column[row]).collect())).collect();
    let lifted: Vec<Vec<f64>> = columns
        .iter()
        .map(|column| column.iter().zip(&row_medians).map(|(value, block)| value - block).collect())
        .collect();
    // Two values have no median worth the name: their plain mean.
    let cut =
        if rows < 3 { f64::INFINITY } else { CUT_SDS * (middle(lifted.iter().map(|c| deviation(c)).collect()) + 1e-9) };
    lifted.iter().map(|column| mean(&pulled_in(column, cut))).collect()
}

/// Looks at a table of columns of equal length, at least 2 rows and 2 columns. `seen(column, leader)` is in how many
/// rows both were really measured; the other rows were guessed and add no precision. All columns but the leader's.
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

/// The winsorized mean of each column of differences with its t interval, at least 2 rows: what a look goes by, for
/// those who compare other rules with a race.
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

/// Winsorized means of differences, with variances that lend each other strength.
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

/// The variance behind sample variances with these degrees of freedom: the median of them, each relative to the
/// median that its chi-squared distribution would have, so that a few noisy candidates do not raise it.
pub(super) fn typical_variance(variances: &[(f64, f64)]) -> f64 {
    middle(variances.iter().map(|(variance, freedom)| variance * freedom / chi_squared_median(*freedom)).collect())
}

/// The variance of one, from the common one (with `prior` degrees of freedom) and its own.
fn moderated(shared: f64, prior: f64, own: f64, freedom: f64) -> f64 {
    (prior * shared + freedom * own) / (prior + freedom)
}

/// The same with the usual weight of the common variance, and its degrees of freedom.
pub(super) fn moderated_variance(shared: f64, own: f64, freedom: f64) -> (f64, f64) {
    (moderated(shared, PRIOR_FREEDOM, own, freedom), PRIOR_FREEDOM + freedom)
}

/// The mean and error of 2 to 4 differences, such that a single burst cannot speak against a challenger. The errors
/// are those of a single value and of a median, relative to that of a mean.
fn kind(differences: &[f64], error: f64) -> (f64, f64) {
    if differences.len() == 2 {
        return (differences[0].min(differences[1]), error * 2f64.sqrt());
    }
    (middle(differences.to_vec()), error * 1.5f64.sqrt())
}

/// The probability that a value known to be at `mean` lies below `bound`; without any error it does or does not.
fn probability_below(bound: f64, mean: f64, error: f64, freedom: f64) -> f64 {
    if error <= 0.0 {
        return f64::from(u8::from(mean < bound));
    }
    t_probability((bound - mean) / error, freedom)
}

/// A robust standard deviation; the factor makes up for the smallness of MADs of few values.
pub(super) fn deviation(values: &[f64]) -> f64 {
    let center = middle(values.to_vec());
    let mad = middle(values.iter().map(|value| (value - center).abs()).collect());
    MAD_TO_SD * mad * (1.0 + 0.8 / values.len() as f64)
}

/// The values, none further than this from their median.
fn pulled_in(values: &[f64], distance: f64) -> Vec<f64> {
    let center = middle(values.to_vec());
    values.iter().map(|value| value.clamp(center - distance, center + distance)).collect()
}

/// The mean of at least one value.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The sample variance of at least two values.
pub(super) fn variance(values: &[f64]) -> f64 {
    let center = mean(values);
    values.iter().map(|value| (value - center).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

/// The median of at least one value, all finite.
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

    /// Made by `make_racing.py` beside it, with the formulas of the Python prototype that the rule was tuned with.
    fn golden() -> Value {
        serde_json::from_str(include_str!("../../../tests/golden/racing.json")).unwrap()
    }

    fn columns(rows: &Value, blocks: usize, count: usize) -> Vec<Vec<f64>> {
        let rows: Vec<Vec<f64>> = rows.as_array().unwrap().iter().take(blocks).map(numbers).collect();
        (0..count).map(|column| rows.iter().map(|row| row[column]).collect()).collect()
    }

    #[test]
    fn looks_agree_with_the_prototype() {
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
    fn holes_are_filled_as_in_the_prototype() {
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
    fn guessed_rows_add_no_precision() {
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
    fn one_burst_in_the_first_two_blocks_drops_nobody() {
        let slow = 1.3f64.ln();
        // The second column is the best by 5 %, and a burst fell on its first lap.
        let mut columns: Vec<Vec<f64>> =
            [0.05, 0.0, 0.06, 0.07, 0.06].iter().map(|value| vec![*value, value + 0.001]).collect();
        columns[1][0] += slow;
        let better = |early| {
            let look = analyse(&columns, |_, _| 2, 0.01, early);
            look.iter().find(|challenger| challenger.column == 1).unwrap().better
        };
        assert!(
            better(EarlyRule::Plain) < 0.2,
            "by the mean of both blocks it looks slow: {}",
            better(EarlyRule::Plain)
        );
        assert!(better(EarlyRule::Kind) > 0.6, "the kinder block counts: {}", better(EarlyRule::Kind));
    }

    #[test]
    fn equal_values_are_no_more_than_equal() {
        let look = analyse(&vec![vec![1.0; 6]; 4], |_, _| 6, 0.01, EarlyRule::Kind);
        assert!(look.iter().all(|challenger| challenger.better.abs() < f64::MIN_POSITIVE), "{look:?}");
        assert!((probability_below(-0.01, -0.02, 0.0, 5.0) - 1.0).abs() < f64::MIN_POSITIVE);
    }
}
