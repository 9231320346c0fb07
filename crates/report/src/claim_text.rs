//! The findings of a comparison in sentences, which claim only what its intervals support.

use std::cmp::Ordering;

use model::analysis::place::PlaceResult;
use model::analysis::size::SizeAnswer;
use model::values::comparison::{
    ClaimCounts, ComparedValue, Comparison, ComparisonRow, Difference, GeomeanChange, Replication,
};
use model::values::units::thread_count;
use model::values::workload::Better;

use crate::comparison_notes::{JUDGED_MIN, baseline_value, mean_remarks, remarks};
use crate::number::{percent_interval, percent_size, signed_percent};
use crate::race::headline;
use crate::style::{Tone, clean};

const NONE_SEEN: &str = "no difference seen";
/// Of single runs, or of single figures in a mean.
const NONE_CLAIMED: &str = "no difference claimed";

/// A claim, or the statement that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimText {
    /// Without a full stop.
    pub text: String,
    /// Whether the result is better or worse than the baseline's. `None` if no difference was seen.
    pub better: Option<bool>,
}

impl ClaimText {
    /// Whether it states that no difference was seen or is claimed.
    pub fn is_without_claim(&self) -> bool {
        self.text.starts_with(NONE_SEEN) || self.text.starts_with(NONE_CLAIMED)
    }

    /// The CSS class: `good`, `bad` or empty.
    pub fn class(&self) -> &'static str {
        self.better.map_or("", |better| if better { Tone::Good.class() } else { Tone::Bad.class() })
    }
}

/// The claims over all tests, then those of each test's main metric: first those that remain after the correction for their
/// number, the largest first. Tests without a difference come last. A smoke test makes no claims.
pub fn sentences(comparison: &Comparison) -> Vec<ClaimText> {
    if comparison.stamp.smoke {
        return Vec::new();
    }
    let claims = comparison.claims();
    // The mean of one test adds no information.
    let overall = comparison
        .geomean
        .iter()
        .filter(|mean| mean.tests > 1)
        .map(|mean| (ClaimRank::Overall, mean.change_percent, overall(comparison, mean)));
    let single = comparison.rows.iter().filter(|row| row.main).flat_map(|row| {
        comparison.compared().filter_map(move |column| {
            let baseline = comparison.baseline_of(column)?;
            let value = row.values.get(column)?;
            let rank = if is_corrected_away(&claims, value) { ClaimRank::NotRemaining } else { ClaimRank::Remaining };
            Some((
                rank,
                value.change_percent.unwrap_or(0.0),
                single(comparison, row, (column, baseline), value, &claims),
            ))
        })
    });
    let ranked = overall.chain(single).map(|(rank, percent, claim)| {
        let rank = if claim.is_without_claim() { ClaimRank::NoClaim } else { rank };
        (rank, (percent / 100.0).ln_1p().abs(), claim)
    });
    let mut all: Vec<(ClaimRank, f64, ClaimText)> = ranked.collect();
    // Claims over all tests, and statements without a claim, keep their order.
    all.sort_by(|(rank, size, _), (other, other_size, _)| {
        let is_by_size = matches!(rank, ClaimRank::Remaining | ClaimRank::NotRemaining);
        rank.cmp(other).then(if is_by_size { other_size.total_cmp(size) } else { Ordering::Equal })
    });
    all.into_iter().map(|(.., claim)| claim).collect()
}

/// The order of the sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ClaimRank {
    Overall,
    /// It is still significant after Holm's correction.
    Remaining,
    NotRemaining,
    NoClaim,
}

/// The result of a run in one sentence: of its race, the DRAM that its command needs, or the first claim of its
/// comparison.
pub fn in_words(
    answer: Option<&PlaceResult>,
    size: Option<&SizeAnswer>,
    comparison: Option<&Comparison>,
) -> Option<String> {
    let first = || {
        let comparison = comparison?;
        Some(crate::answer::answer(comparison).or_else(|| sentences(comparison).into_iter().next())?.text)
    };
    answer.map(|answer| headline(answer).0).or_else(|| size.map(SizeAnswer::sentence)).or_else(first)
}

/// A column's name without its context: numbers of threads get their noun.
pub(crate) fn column(comparison: &Comparison, name: &str) -> String {
    column_by(&comparison.by, name)
}

/// The same for a column of the dimension `by`.
pub(crate) fn column_by(by: &str, name: &str) -> String {
    let threads = Some(by).filter(|by| *by == "threads").and_then(|_| name.parse().ok());
    threads.map_or_else(|| clean(name), thread_count)
}

fn overall(comparison: &Comparison, mean: &GeomeanChange) -> ClaimText {
    let baseline = comparison.baseline_of(&mean.name).unwrap_or(&comparison.baseline);
    let (name, baseline) = (column(comparison, &mean.name), column(comparison, baseline));
    let change = mean.change_percent;
    let ends = mean.ci_low.zip(mean.ci_high);
    let tests = match mean.threads {
        Some(threads) => format!("all tests with {}", thread_count(threads)),
        None => "all tests".into(),
    };
    let remarks = remarked(&mean_remarks(mean));
    let is_of_trials = mean.replication == Some(Replication::Trials);
    if let Some((low, high)) = ends.filter(|(low, high)| *low <= 0.0 && 0.0 <= *high || is_of_trials) {
        let none = if low <= 0.0 && 0.0 <= high { NONE_SEEN } else { NONE_CLAIMED };
        let how = format!("{}, {}{remarks}", signed_percent(change), signed(low, high, change));
        let text = format!("{none} between {name} and {baseline} over {tests} (geometric mean), {how}");
        return ClaimText { text, better: None };
    }
    let word = if change > 0.0 { "better" } else { "worse" };
    let size = percent_size(change);
    let claim = format!("over {tests} {name} is {size} % {word} than {baseline} (geometric mean)");
    match ends {
        Some((low, high)) => {
            let text = format!("{claim}, {}{remarks}", unsigned(low, high, change));
            ClaimText { text, better: Some(change > 0.0) }
        }
        None => ClaimText { text: format!("{claim}, without an interval"), better: None },
    }
}

fn single(
    comparison: &Comparison,
    row: &ComparisonRow,
    (other, baseline): (&str, &str),
    value: &ComparedValue,
    claims: &ClaimCounts,
) -> ClaimText {
    let (name, baseline) = (column(comparison, other), column(comparison, baseline));
    let test = clean(&row.test);
    let Some(change) = value.change_percent else {
        return ClaimText { text: format!("{name} cannot be compared with {baseline} for {test}"), better: None };
    };
    let ends = value.ci_low.zip(value.ci_high);
    let how = |write: fn(f64, f64, f64) -> String| {
        ends.map_or("without an interval".into(), |(low, high)| write(low, high, change))
    };
    let claim = claim(&row.metric, &row.unit, row.better, &name, &baseline, change);
    let higher_is_better = row.better == Better::Higher;
    let remarks = remarked(&remarks(value, baseline_value(comparison, row, other)));
    match value.difference {
        Some(Difference::NoneSeen) => ClaimText {
            text: format!("{NONE_SEEN} between {name} and {baseline} for {test}, {}{remarks}", how(signed)),
            better: None,
        },
        Some(difference) => ClaimText {
            text: format!("{claim} for {test}, {}{remarks}{}", how(unsigned), correction(claims, value)),
            better: Some((difference == Difference::Higher) == higher_is_better),
        },
        None if value.replication == Some(Replication::Trials) => {
            let how = format!("{}, {}{remarks}", signed_percent(change), how(signed));
            ClaimText { text: format!("{NONE_CLAIMED} between {name} and {baseline} for {test}, {how}"), better: None }
        }
        None => ClaimText { text: format!("{claim} for {test}, without an interval"), better: None },
    }
}

pub(crate) fn remarked(remarks: &[String]) -> String {
    remarks.iter().map(|remark| format!(", {remark}")).collect()
}

/// A remark on a claim that may be one of those that chance makes in a table of many rows.
fn correction(claims: &ClaimCounts, value: &ComparedValue) -> String {
    if !is_corrected_away(claims, value) {
        return String::new();
    }
    format!(", which does not remain after Holm's correction for {} differences", claims.judged)
}

fn is_corrected_away(claims: &ClaimCounts, value: &ComparedValue) -> bool {
    claims.judged >= JUDGED_MIN && !value.p_value.is_some_and(|p_value| claims.remains(p_value))
}

/// Rates are faster or slower, times more or less; other metrics are higher or lower, and better or worse.
pub(crate) fn claim(metric: &str, unit: &str, better: Better, name: &str, baseline: &str, change: f64) -> String {
    let size = percent_size(change);
    let metric = clean(metric);
    if better == Better::Higher && unit.ends_with("/s") {
        let word = if change > 0.0 { "faster" } else { "slower" };
        return format!("{name} is {size} % {word} than {baseline}");
    }
    if better == Better::Lower && matches!(unit, "ns" | "us" | "µs" | "ms" | "s") {
        let word = if change > 0.0 { "more" } else { "less" };
        return format!("{name} takes {size} % {word} time than {baseline}");
    }
    let higher = change > 0.0;
    let word = if higher { "higher" } else { "lower" };
    let worth = if higher == (better == Better::Higher) { "better" } else { "worse" };
    format!("{name} has {size} % {word} {metric} ({worth}) than {baseline}")
}

/// An interval that contains zero, with signs.
fn signed(low: f64, high: f64, change: f64) -> String {
    format!("95 % interval {} %", percent_interval(low, high, change))
}

/// The interval of a change next to a word for its direction; with signs if it contains zero.
pub(crate) fn percents(low: f64, high: f64, change: f64) -> String {
    if low <= 0.0 && 0.0 <= high { signed(low, high, change) } else { unsigned(low, high, change) }
}

/// An interval next to a word for the direction, without signs.
fn unsigned(low: f64, high: f64, change: f64) -> String {
    if change < 0.0 { signed(-high, -low, change) } else { signed(low, high, change) }
}
