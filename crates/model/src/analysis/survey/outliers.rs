//! Outliers within a class. Distances are scaled by the spread between machines of the class, so usual differences are
//! not reported, however narrow the intervals of the runs are. Must not depend on times of measurements.
//!
//! The distance of a machine from the median of the others, in units of the robust spread of the class, is treated as a
//! Student's t. The degrees of freedom are low on purpose: the spread is only an estimate, and distant machines are
//! more common than in a normal distribution. All distances of a survey are judged together (Holm, Scandinavian Journal
//! of Statistics 6, 1979), so the rate of surveys of equal machines that report an outlier stays below the requested
//! rate.

use super::rows::{Class, RunValue, TestSeries};
use super::{MachineScore, OutlierSide, Test};
use crate::stats::statistics::{
    CONFIDENCE, Interval, Mean, mean_interval, median, median_interval, qn_scale, t_probability,
};
use crate::values::comparison::SuspectCount;
use crate::values::workload::Better;

/// Minimum number of machines. Six others must remain: the median of fewer has no distribution-free 95 % interval, and
/// their spread is poorly known.
pub const MACHINES_MIN: usize = 7;

/// Degrees of freedom of the robust spread per machine beyond the first: by simulation, for typical class sizes. Larger
/// classes would have more, but see [`FREEDOM_MAX`].
const FREEDOM_SHARE: f64 = 0.65;
/// Maximum degrees of freedom. With this value the false-alarm rate holds for machines and days that are distributed as
/// a Student's t with 5 degrees of freedom; for normal distributions it is lower.
const FREEDOM_MAX: f64 = 8.0;
/// Ratio of the variance of a median to that of a mean, for normal values.
const MEDIAN_VARIANCE: f64 = std::f64::consts::FRAC_PI_2;
/// Minimum degrees of freedom to estimate the error of a run from differences between runs of the same machines, rather
/// than from its trials, which were run on one day.
const RUN_FREEDOM_MIN: f64 = 5.0;
/// Degrees of freedom of an error estimated from trials, whose interval already accounts for their number.
const MANY: f64 = 1e6;

/// Returns the tests of each class with the results of all machines.
pub(super) fn find_outliers(classes: &[Class], false_alarms: f64) -> Vec<Vec<Test>> {
    let mut all: Vec<Vec<Test>> =
        classes.iter().map(|class| class.rows.iter().map(|row| test(class, row)).collect()).collect();
    let (mut single, mut together): (Vec<Outlier<'_>>, Vec<Outlier<'_>>) = (Vec::new(), Vec::new());
    for test in all.iter_mut().flatten() {
        let judged = test.values.iter_mut().filter_map(|value| Some((value.p_value?, test.better, value)));
        if test.median.is_some() { single.extend(judged) } else { together.extend(judged) }
    }
    // The few rows over all tests are most sensitive to machines that are slow in every test: they get half of the
    // rate.
    let each = if together.is_empty() { false_alarms } else { false_alarms / 2.0 };
    name(single, each);
    name(together, each);
    all
}

/// P value, direction in which the metric is better, and the result to mark.
type Outlier<'t> = (f64, Better, &'t mut MachineScore);

/// Marks the outliers in ascending order of p values.
fn name(mut judged: Vec<Outlier<'_>>, false_alarms: f64) {
    judged.sort_by(|one, other| one.0.total_cmp(&other.0));
    let count = judged.len();
    for (rank, (p_value, better, value)) in judged.into_iter().enumerate() {
        if p_value * (count - rank) as f64 > false_alarms {
            break;
        }
        let is_better = (value.change_percent > 0.0) == (better == Better::Higher);
        value.stands_out = Some(if is_better { OutlierSide::Better } else { OutlierSide::Worse });
    }
}

/// Returns the reason why no machine of a class can be judged; `None` if machines can.
pub(super) fn not_judged(tests: &[Test], machines: usize) -> Option<String> {
    if tests.iter().any(|test| test.judged) {
        return None;
    }
    Some(if machines < MACHINES_MIN {
        let count = if machines == 1 { "1 machine".into() } else { format!("{machines} machines") };
        format!("{count}; at least {MACHINES_MIN} machines of a class are required")
    } else {
        format!("no test was measured on at least {MACHINES_MIN} machines with different results")
    })
}

struct MachineLevel {
    machine: usize,
    value: f64,
    /// Standard error and degrees of freedom of the value; `None` if the noise is unknown.
    error: Option<Mean>,
    counts: SuspectCount,
}

fn test(class: &Class, row: &TestSeries) -> Test {
    let levels = levels(row);
    let values: Vec<f64> = levels.iter().map(|level| level.value).collect();
    let typical = median(&levels.iter().filter_map(|level| Some(level.error?.variance)).collect::<Vec<_>>());
    let typical = typical.unwrap_or(0.0);
    let enough = levels.len() >= MACHINES_MIN;
    // If most values are exactly equal, the scale is at least the noise.
    let spread = qn_scale(&values).filter(|_| enough).map_or(0.0, |spread| spread.max(typical.sqrt()));
    let standing = |(at, level): (usize, &MachineLevel)| {
        let others: Vec<f64> = values[..at].iter().chain(&values[at + 1..]).copied().collect();
        let center = median(&others).unwrap_or(level.value);
        // A machine with a larger error may be farther from the median.
        let own = level.error.map_or(0.0, |error| (error.variance - typical).max(0.0));
        let usual = (spread * spread * (1.0 + MEDIAN_VARIANCE / others.len() as f64) + own).sqrt();
        let ends = ends(level, center, &others);
        MachineScore {
            machine: class.machines[level.machine].name.clone(),
            median: row.unit.is_some().then(|| row.measured(level.value)),
            change_percent: row.percent(level.value - center),
            ci_low: ends.map(|(low, high)| row.percent(low).min(row.percent(high))),
            ci_high: ends.map(|(low, high)| row.percent(low).max(row.percent(high))),
            p_value: (spread > 0.0).then(|| {
                let freedom = (FREEDOM_SHARE * others.len() as f64).min(FREEDOM_MAX);
                2.0 * t_probability(-(level.value - center).abs() / usual, freedom)
            }),
            stands_out: None,
            counts: level.counts,
        }
    };
    Test {
        test: row.test.clone(),
        metric: row.metric.clone(),
        unit: row.unit.clone().unwrap_or_default(),
        better: row.better,
        median: median(&values).filter(|_| row.unit.is_some()).map(|value| row.measured(value)),
        judged: spread > 0.0,
        values: levels.iter().enumerate().map(standing).collect(),
    }
}

fn levels(row: &TestSeries) -> Vec<MachineLevel> {
    let machines = row.by_machine();
    let between = between_runs(machines.values());
    let level = |(machine, seen): (&usize, &Vec<&RunValue>)| {
        let values: Vec<f64> = seen.iter().map(|seen| seen.value).collect();
        let value = median(&values)?;
        let count = values.len() as f64;
        let error = match between {
            // The median of two values is their mean.
            Some(run) if count > 2.0 => Some(Mean { value, variance: run.variance * MEDIAN_VARIANCE / count, ..run }),
            Some(run) => Some(Mean { value, variance: run.variance / count, ..run }),
            None => {
                let squares: Option<f64> = seen.iter().map(|seen| Some(seen.error?.powi(2))).sum();
                squares.map(|squares| Mean { value, variance: squares / (count * count), freedom: MANY })
            }
        };
        let counts = seen.iter().map(|seen| seen.counts).sum();
        Some(MachineLevel { machine: *machine, value, error, counts })
    };
    machines.iter().filter_map(level).collect()
}

/// Returns the variance of runs around the mean of their machine, over all machines with several runs; `None` with too
/// few.
fn between_runs<'s>(machines: impl Iterator<Item = &'s Vec<&'s RunValue>>) -> Option<Mean> {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for seen in machines {
        let mean = seen.iter().map(|seen| seen.value).sum::<f64>() / seen.len() as f64;
        squares += seen.iter().map(|seen| (seen.value - mean).powi(2)).sum::<f64>();
        freedom += seen.len() as f64 - 1.0;
    }
    (freedom >= RUN_FREEDOM_MIN).then(|| Mean { value: 0.0, variance: squares / freedom, freedom })
}

/// Returns the 95 % interval of the difference between a level and the median of the others, from the intervals of both
/// (Zou and Donner, Statistics in Medicine 27, 2008).
fn ends(level: &MachineLevel, center: f64, others: &[f64]) -> Option<(f64, f64)> {
    let own = mean_interval(level.value, &[level.error?], CONFIDENCE)?.half_width();
    let Interval { low, high } = median_interval(others, CONFIDENCE).filter(|_| others.len() + 1 >= MACHINES_MIN)?;
    let difference = level.value - center;
    Some((difference - own.hypot(high - center), difference + own.hypot(center - low)))
}
