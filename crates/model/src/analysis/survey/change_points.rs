//! Change-point detection: finds level shifts in several series with the same kind of noise. Must not depend on
//! machines, runs or times.
//!
//! The search finds the largest shift over all series. A permutation test of the maximum decides whether noise alone
//! can produce it: residuals around the levels are shuffled (Westfall and Young, Resampling-Based Multiple Testing,
//! 1993). If the shift is significant, its series is split there and the search continues in all segments (binary
//! segmentation: Vostrikova, Soviet Mathematics 24, 1981), until no shift is significant. The rate of searches that
//! find a shift in series without one therefore stays below the requested rate, for any number of series and any
//! distribution of the noise.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::stats::statistics::{mad_noise, median};

/// Minimum number of values on each side of a shift: one or two bad days are not a new level.
const SIDE_MIN: usize = 3;
/// Minimum length of a series.
pub const RUNS_MIN: usize = 2 * SIDE_MIN;
/// Maximum number of values, the newest ones, to bound the duration of the search.
pub(super) const VALUES_MAX: usize = 100;
/// Maximum number of shifts.
const STEPS_MAX: usize = 50;
/// Residuals are clipped at this multiple of the noise, so that a single outlier is not a shift.
const FAR: f64 = 5.0;
/// Number of shuffles with at least as large a shift on which a p value at the bound is based.
const EXCEEDING: f64 = 20.0;
const SHUFFLES: (usize, usize) = (999, 50_000);
/// Bound on twice the log-likelihood ratio to the most likely position, for a 95 % confidence set of positions: the
/// root x of (1 - exp(-x / 2))^2 = 0.95 (Siegmund, International Statistical Review 56, 1988).
const PLACE: f64 = 7.35;

/// Minimum number of series to estimate the noise of one from the others; with fewer, each series is its own reference.
const SERIES_MIN: usize = 5;
/// Returns the number of lags of the autocorrelation, which grows with the length of the series.
const LAGS_MAX: usize = 6;
const VALUES_PER_LAG: f64 = 4.0;

/// Scale of the size of a shift. Consecutive values may be correlated without a shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScaleEstimate {
    /// Noise of all series, assumed equal, and the autocorrelation factor of the other series.
    All,
    /// Variation of the series on both sides of the shift.
    Own,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LevelShift {
    pub(super) series: usize,
    /// Index of the first value of the new level.
    pub(super) at: usize,
    /// 95 % confidence set of that index.
    pub(super) first: usize,
    pub(super) last: usize,
    /// Segment of the series in which the shift was found, which contains no other shift.
    pub(super) begin: usize,
    pub(super) end: usize,
    /// Probability of a shift of at least this size in series without one.
    pub(super) p_value: f64,
}

/// Part of a series without a known shift.
#[derive(Clone, Copy)]
struct Segment {
    series: usize,
    begin: usize,
    end: usize,
}

impl Segment {
    fn values<'s>(&self, series: &'s [Vec<f64>]) -> &'s [f64] {
        &series[self.series][self.begin..self.end]
    }
}

/// Returns the shifts in the series, the most significant first.
pub(super) fn steps(series: &[Vec<f64>], false_alarms: f64, seed: u64) -> Vec<LevelShift> {
    let yardstick = if series.len() < SERIES_MIN { ScaleEstimate::Own } else { ScaleEstimate::All };
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let whole = |(series, values): (usize, &Vec<f64>)| Segment { series, begin: 0, end: values.len() };
    let mut parts: Vec<Segment> = series.iter().enumerate().map(whole).collect();
    let mut found = Vec::new();
    while found.len() < STEPS_MAX {
        parts.retain(|part| part.end - part.begin >= RUNS_MIN);
        let Some(step) = clearest(series, &parts, yardstick, false_alarms, &mut random) else { break };
        parts.retain(|part| (part.series, part.begin) != (step.series, step.begin));
        parts.push(Segment { series: step.series, begin: step.begin, end: step.at });
        parts.push(Segment { series: step.series, begin: step.at, end: step.end });
        found.push(step);
    }
    found
}

/// Returns the largest shift of all segments; `None` if it is not significant.
fn clearest(
    series: &[Vec<f64>],
    parts: &[Segment],
    yardstick: ScaleEstimate,
    false_alarms: f64,
    random: &mut ChaCha8Rng,
) -> Option<LevelShift> {
    let levelled: Vec<Vec<f64>> = parts.iter().map(|part| around_level(part.values(series))).collect();
    let usual = mad_noise(&levelled.concat())?;
    let bound = |value: f64| if usual > 0.0 { value.clamp(-FAR * usual, FAR * usual) } else { value };
    let levelled: Vec<Vec<f64>> = levelled.into_iter().map(|values| values.into_iter().map(bound).collect()).collect();
    let sizes: Vec<Vec<f64>> = levelled.iter().map(|values| yardstick.sizes(values)).collect();
    let of_all = sizes
        .iter()
        .enumerate()
        .flat_map(|(part, sizes)| sizes.iter().enumerate().map(move |(at, size)| (*size, part, at)));
    let (largest, part, at) = of_all.max_by(|one, other| one.0.total_cmp(&other.0)).filter(|(size, ..)| *size > 0.0)?;
    let wandering = match yardstick {
        ScaleEstimate::All => {
            let others = levelled.iter().enumerate().filter(|(other, _)| *other != part);
            wandering(&others.map(|(_, values)| values).collect::<Vec<_>>())
        }
        ScaleEstimate::Own => 1.0,
    };
    let by_noise = NoiseTest { levelled: &levelled, yardstick, largest, wandering };
    let p_value = by_noise.p_value(false_alarms, random)?;
    let Segment { series, begin, end } = parts[part];
    // Likelihoods need sizes in units of the common noise; self-normalised sizes are not likelihoods.
    let likely = ScaleEstimate::All.sizes(&levelled[part]);
    let possible = |other: &usize| likely[*other].powi(2) >= likely[at].powi(2) - PLACE * usual * usual * wandering;
    let (first, last) = ((0..=at).find(possible)?, (at..likely.len()).rev().find(possible)?);
    let place = |at: usize| begin + SIDE_MIN + at;
    Some(LevelShift { series, at: place(at), first: place(first), last: place(last), begin, end, p_value })
}

/// Returns the ratio, at least 1, of the variance of means of consecutive values to that of independent values: the
/// long-run variance with Bartlett weights (Newey and West, Econometrica 55, 1987) over all series.
fn wandering(levelled: &[&Vec<f64>]) -> f64 {
    let count: f64 = levelled.iter().map(|values| values.len() as f64).sum();
    let mean_length = count / levelled.len().max(1) as f64;
    let lags = ((mean_length / VALUES_PER_LAG) as usize).clamp(1, LAGS_MAX);
    let product = |lag: usize| -> f64 {
        let long = levelled.iter().filter(|values| values.len() > lag);
        // Normalised as if there were as many pairs as values.
        let of = |values: &&&Vec<f64>| {
            let sum: f64 = values.iter().zip(&values[lag..]).map(|(one, later)| one * later).sum();
            sum * values.len() as f64 / (values.len() - lag) as f64
        };
        long.map(|values| of(&values)).sum()
    };
    let own = product(0);
    if own <= 0.0 {
        return 1.0;
    }
    // Corrects the bias of autocorrelations around an estimated level.
    let taken = 1.0 / mean_length;
    let alike = |lag: usize| product(lag) / own * (1.0 - taken) + taken;
    let sum: f64 = (1..=lags).map(|lag| (1.0 - lag as f64 / (lags + 1) as f64) * alike(lag)).sum();
    (1.0 + 2.0 * sum).max(1.0)
}

/// Permutation test of whether noise alone produces a shift of this size.
struct NoiseTest<'v> {
    levelled: &'v [Vec<f64>],
    yardstick: ScaleEstimate,
    largest: f64,
    wandering: f64,
}

impl NoiseTest<'_> {
    /// Returns the rate of shuffles with at least as large a shift; `None` as soon as it exceeds the bound.
    fn p_value(&self, false_alarms: f64, random: &mut ChaCha8Rng) -> Option<f64> {
        // Corrects the bias of residuals around an estimated level.
        let widened = |values: &Vec<f64>| {
            let wider = (self.wandering * values.len() as f64 / (values.len() as f64 - 1.0)).sqrt();
            values.iter().map(|value| value * wider).collect::<Vec<f64>>()
        };
        let mut pool: Vec<f64> = self.levelled.iter().flat_map(widened).collect();
        let shuffles = ((EXCEEDING / false_alarms) as usize).clamp(SHUFFLES.0, SHUFFLES.1);
        let allowed = (false_alarms * (shuffles + 1) as f64) as usize;
        let mut exceeding = 1;
        for _ in 0..shuffles {
            shuffle(&mut pool, random);
            exceeding += usize::from(self.has_one(&pool));
            if exceeding > allowed {
                return None;
            }
        }
        Some(exceeding as f64 / (shuffles + 1) as f64)
    }

    fn has_one(&self, mut pool: &[f64]) -> bool {
        self.levelled.iter().any(|part| {
            let (values, rest) = pool.split_at(part.len());
            pool = rest;
            self.yardstick.sizes(values).iter().any(|size| *size >= self.largest)
        })
    }
}

fn shuffle(values: &mut [f64], random: &mut ChaCha8Rng) {
    for last in (1..values.len()).rev() {
        values.swap(last, random.random_range(0..=last));
    }
}

fn around_level(values: &[f64]) -> Vec<f64> {
    let level = median(values).unwrap_or(0.0);
    values.iter().map(|value| value - level).collect()
}

impl ScaleEstimate {
    /// Returns the size of the shift at each position with [`SIDE_MIN`] values on both sides; the first position
    /// precedes the value with that index.
    fn sizes(self, values: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0];
        for value in values {
            sums.push(sums[sums.len() - 1] + value);
        }
        let places = SIDE_MIN..=values.len().saturating_sub(SIDE_MIN);
        match self {
            Self::All => places.map(|place| step(&sums, place)).collect(),
            Self::Own => places.map(|place| step(&sums, place) / own_way(&sums, place)).collect(),
        }
    }
}

/// Returns the difference of the means on both sides, scaled so that its noise equals that of one value.
fn step(sums: &[f64], place: usize) -> f64 {
    let count = sums.len() - 1;
    let (before, after) = (place as f64, (count - place) as f64);
    let difference = (sums[count] - sums[place]) / after - sums[place] / before;
    difference.abs() / (1.0 / before + 1.0 / after).sqrt()
}

/// Returns the deviation of the partial sums on both sides from straight lines: the self-normaliser of Shao and Zhang,
/// Journal of the American Statistical Association 105, 2010, whose test keeps its rate for correlated values.
fn own_way(sums: &[f64], place: usize) -> f64 {
    let count = sums.len() - 1;
    let side = |from: usize, to: usize| -> f64 {
        let slope = (sums[to] - sums[from]) / (to - from) as f64;
        (from..to).map(|at| (sums[at] - sums[from] - slope * (at - from) as f64).powi(2)).sum()
    };
    ((side(0, place) + side(place, count)) / (count as f64 * count as f64)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deterministic pseudo-random values around 0.
    fn noise(series: usize, values: usize) -> Vec<Vec<f64>> {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let mut value = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        (0..series).map(|_| (0..values).map(|_| value()).collect()).collect()
    }

    fn raised(mut series: Vec<Vec<f64>>, which: usize, from: usize, by: f64) -> Vec<Vec<f64>> {
        series[which][from..].iter_mut().for_each(|value| *value += by);
        series
    }

    #[test]
    fn shift_is_found_at_its_position_and_noise_has_none() {
        for series in [6, 2] {
            assert_eq!(steps(&noise(series, 20), 0.02, 1), [], "{series}");
            let found = steps(&raised(noise(series, 20), 1, 12, 6.0), 0.02, 1);
            let places: Vec<(usize, usize)> = found.iter().map(|step| (step.series, step.at)).collect();
            assert_eq!(places, [(1, 12)], "{series}");
            assert!(found[0].first <= 12 && found[0].last >= 12 && found[0].p_value <= 0.02, "{found:?}");
        }
    }

    /// Independent values, and values with autocorrelation 0.5.
    #[test]
    fn autocorrelation_factor_is_estimated() {
        let independent = noise(20, 20);
        let mut alike = independent.clone();
        for values in &mut alike {
            (1..values.len()).for_each(|at| values[at] += 0.5 * values[at - 1]);
        }
        let of = |series: &[Vec<f64>]| wandering(&series.iter().collect::<Vec<_>>());
        assert!((1.0..1.3).contains(&of(&independent)), "{}", of(&independent));
        // The long-run ratio is 3; five lags give 1 + 2 (5/6 1/2 + 4/6 1/4 + 3/6 1/8 + ...).
        assert!((1.9..2.8).contains(&of(&alike)), "{}", of(&alike));
        assert!((of(&[vec![0.0; 9]]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_series_can_have_several_shifts() {
        let series = raised(raised(noise(8, 30), 2, 10, 7.0), 2, 21, -9.0);
        let mut found = steps(&raised(series, 5, 25, 7.0), 0.02, 1);
        found.sort_by_key(|step| (step.series, step.at));
        let places: Vec<(usize, usize)> = found.iter().map(|step| (step.series, step.at)).collect();
        assert_eq!(places, [(2, 10), (2, 21), (5, 25)]);
    }

    #[test]
    fn two_outliers_and_short_or_constant_series_have_no_shift() {
        let mut series = noise(6, 20);
        series[3][18..].iter_mut().for_each(|value| *value -= 40.0);
        assert_eq!(steps(&series, 0.02, 1), []);
        assert_eq!(steps(&[vec![0.0, 0.0, 9.0, 9.0, 9.0]], 0.02, 1), []);
        assert_eq!(steps(&[vec![3.0; 30]], 0.02, 1), []);
        assert_eq!(steps(&[], 0.02, 1), []);
    }

    #[test]
    fn small_shift_has_a_wide_confidence_set() {
        let wide = steps(&raised(noise(6, 40), 1, 20, 2.4), 0.02, 1);
        let narrow = steps(&raised(noise(6, 40), 1, 20, 9.0), 0.02, 1);
        let width = |step: &LevelShift| step.last - step.first;
        assert!(width(&wide[0]) > width(&narrow[0]), "{wide:?} {narrow:?}");
        assert_eq!((narrow[0].first, narrow[0].last), (20, 20));
    }
}
