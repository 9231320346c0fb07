//! What a comparison found, in sentences. They say only what its intervals allow.

use model::comparison::{ComparedValue, Comparison, ComparisonRow, Difference, GeomeanChange};
use model::workload::Better;

use crate::look::{Tone, clean};
use crate::number::{percent_interval, percent_size};

/// One claim, or the statement that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Without a full stop.
    pub text: String,
    /// Whether it speaks of a better (`good`) or worse (`bad`) result than the baseline's; none where nothing was seen.
    pub better: Option<bool>,
}

impl Sentence {
    /// `good`, `bad` or nothing, for style sheets.
    pub fn class(&self) -> &'static str {
        self.better.map_or("", |better| if better { Tone::Good.class() } else { Tone::Bad.class() })
    }
}

/// The geometric means first, then every test's main metric, column by column.
pub fn sentences(comparison: &Comparison) -> Vec<Sentence> {
    let tests = comparison.rows.iter().filter(|row| row.main).count();
    let overall = comparison.geomean.iter().filter(|_| tests > 1).map(|mean| overall(comparison, mean));
    let single = comparison.rows.iter().filter(|row| row.main).flat_map(|row| {
        let columns = comparison.columns.iter().filter(|column| **column != comparison.baseline);
        columns.filter_map(move |column| Some(single(comparison, row, column, row.values.get(column)?)))
    });
    overall.chain(single).collect()
}

fn overall(comparison: &Comparison, mean: &GeomeanChange) -> Sentence {
    let (name, baseline) = (clean(&mean.name), clean(&comparison.baseline));
    let change = mean.change_percent;
    let size = percent_size(change);
    match mean.ci_low.zip(mean.ci_high) {
        Some((low, high)) if low <= 0.0 && 0.0 <= high => Sentence {
            text: format!(
                "over all tests together, no difference seen between {name} and {baseline} (geometric mean, {})",
                confidence(low, high, change)
            ),
            better: None,
        },
        interval => {
            let how = interval.map_or("without an interval".into(), |(low, high)| confidence(low, high, change));
            let word = if change > 0.0 { "better" } else { "worse" };
            Sentence {
                text: format!("over all tests together, {name} is {size} % {word} than {baseline} (geometric mean, {how})"),
                better: interval.map(|_| change > 0.0),
            }
        }
    }
}

fn single(comparison: &Comparison, row: &ComparisonRow, column: &str, value: &ComparedValue) -> Sentence {
    let (name, baseline, test) = (clean(column), clean(&comparison.baseline), clean(&row.test));
    let Some(change) = value.change_percent else {
        return Sentence { text: format!("{name} cannot be compared with {baseline} for {test}"), better: None };
    };
    let interval = value.ci_low.zip(value.ci_high).map(|(low, high)| confidence(low, high, change));
    if value.difference == Some(Difference::NoneSeen) {
        let how = interval.unwrap_or_else(|| "without an interval".into());
        return Sentence {
            text: format!("no difference seen between {name} and {baseline} for {test}, {how}"),
            better: None,
        };
    }
    let claim = claim(row, &name, &baseline, change);
    match value.difference {
        Some(_) => Sentence {
            text: format!("{claim} for {test}, {}", interval.unwrap_or_else(|| "without an interval".into())),
            better: Some((change > 0.0) == (row.better == Better::Higher)),
        },
        None => Sentence { text: format!("{claim} for {test}, as single figures without an interval"), better: None },
    }
}

/// Rates are faster, times are less; of what is neither, only the direction and its worth are said.
fn claim(row: &ComparisonRow, name: &str, baseline: &str, change: f64) -> String {
    let size = percent_size(change);
    let (metric, unit) = (clean(&row.metric), row.unit.as_str());
    if row.better == Better::Higher && unit.ends_with("/s") {
        let word = if change > 0.0 { "faster" } else { "slower" };
        return format!("{name} is {size} % {word} than {baseline}");
    }
    if row.better == Better::Lower && matches!(unit, "ns" | "us" | "µs" | "ms" | "s") {
        let word = if change > 0.0 { "more" } else { "less" };
        return format!("{name} takes {size} % {word} time than {baseline}");
    }
    let higher = change > 0.0;
    let word = if higher { "higher" } else { "lower" };
    let worth = if higher == (row.better == Better::Higher) { "better" } else { "worse" };
    format!("{name} has {size} % {word} {metric} ({worth}) than {baseline}")
}

fn confidence(low: f64, high: f64, change: f64) -> String {
    format!("95 % interval {}", percent_interval(low, high, change))
}
