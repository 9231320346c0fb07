//! The answer of a comparison in one sentence: the best column, and the worst. Claims only what the intervals support.

use model::values::comparison::{Comparison, ComparisonRow, Difference, GeomeanChange, Replication};
use model::values::workload::Better;

use crate::claim_text::{ClaimText, column, remarked};
use crate::comparison_notes::{baseline_value, mean_remarks, remarks};
use crate::number::percent_size;
use crate::style::clean;

/// Placement that leaves every decision to Linux.
const KERNEL: &str = "kernel";

/// The change of one column from the baseline.
struct Change<'a> {
    column: &'a str,
    /// Positive is better.
    percent: f64,
    /// Whether it is better or worse; `None` if no difference was seen.
    better: Option<bool>,
    /// Limitations such as disturbed trials: starts with a comma, or is empty.
    remarks: String,
}

/// Returns the answer over all tests, or for the only one. `None` if the comparison has no common baseline, several tests
/// without a mean, or runs that were not replicated, and for a smoke test.
pub(crate) fn answer(comparison: &Comparison) -> Option<ClaimText> {
    if comparison.stamp.smoke || !comparison.baselines.is_empty() {
        return None;
    }
    let rows: Vec<&ComparisonRow> = comparison.rows.iter().filter(|row| row.main).collect();
    let (scope, changes) = match rows.as_slice() {
        [row] => (format!("for {}", clean(&row.test)), of_test(comparison, row)?),
        rows => (format!("over all {} tests", rows.len()), of_means(comparison, rows.len())?),
    };
    let baseline = column(comparison, &comparison.baseline);
    let size = |change: &Change<'_>| percent_size(change.percent);
    let worst = changes.iter().filter(|one| one.better == Some(false)).min_by(|a, b| a.percent.total_cmp(&b.percent));
    let worse = worst
        .map(|worst| format!("; {} is {} % worse{}", column(comparison, worst.column), size(worst), worst.remarks));
    let best = changes.iter().filter(|one| one.better == Some(true)).max_by(|a, b| a.percent.total_cmp(&b.percent));
    let text = match (best, worst) {
        (Some(best), _) => {
            let name = column(comparison, best.column);
            format!("{name} is {} % better than {baseline} {scope}{}", size(best), best.remarks)
        }
        (None, Some(_)) if comparison.baseline == KERNEL => {
            format!("Leave it to the kernel: nothing is seen to be better {scope}")
        }
        (None, Some(_)) => format!("Nothing is seen to be better than {baseline} {scope}"),
        (None, None) => format!("No difference is seen between {baseline} and {} {scope}", others(&changes)),
    };
    let better = if best.is_some() { Some(true) } else { None };
    Some(ClaimText { text: format!("{text}{}", worse.unwrap_or_default()), better })
}

fn others(changes: &[Change<'_>]) -> String {
    match changes {
        [one] => clean(one.column),
        _ => format!("the {} others", changes.len()),
    }
}

/// Returns the changes in the only test.
fn of_test<'a>(comparison: &Comparison, row: &'a ComparisonRow) -> Option<Vec<Change<'a>>> {
    let sign = if row.better == Better::Higher { 1.0 } else { -1.0 };
    let changes = row.values.iter().filter_map(|(column, value)| {
        let better = match value.difference? {
            Difference::NoneSeen => None,
            difference => Some((difference == Difference::Higher) == (row.better == Better::Higher)),
        };
        let remarks = remarked(&remarks(value, baseline_value(comparison, row, column)));
        Some(Change { column, percent: sign * value.change_percent?, better, remarks })
    });
    Some(changes.collect()).filter(|changes: &Vec<_>| !changes.is_empty())
}

/// Returns the changes of the means over all tests.
fn of_means(comparison: &Comparison, tests: usize) -> Option<Vec<Change<'_>>> {
    let is_whole = |mean: &&GeomeanChange| mean.threads.is_none() && mean.tests > 1;
    let means: Vec<&GeomeanChange> = comparison.geomean.iter().filter(is_whole).collect();
    if tests < 2 || means.is_empty() || means.iter().any(|mean| mean.replication == Some(Replication::Trials)) {
        return None;
    }
    let changes = means.into_iter().filter_map(|mean| {
        let better = match (mean.ci_low?, mean.ci_high?) {
            (low, _) if low > 0.0 => Some(true),
            (_, high) if high < 0.0 => Some(false),
            _ => None,
        };
        let remarks = remarked(&mean_remarks(mean));
        Some(Change { column: &mean.name, percent: mean.change_percent, better, remarks })
    });
    Some(changes.collect()).filter(|changes: &Vec<_>| !changes.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A comparison with `kernel`: the change of each column and half the width of its interval, in percent.
    fn comparison(tests: &[&str], changes: &[(&str, f64, f64)]) -> Comparison {
        let value = |(name, change, half): &(&str, f64, f64)| {
            let (low, high) = (change - half, change + half);
            let difference = if low > 0.0 {
                "higher"
            } else if high < 0.0 {
                "lower"
            } else {
                "none seen"
            };
            let value = json!({"median": 1.0, "change_percent": change, "ci_low": low, "ci_high": high,
                "difference": difference, "p_value": 0.01, "samples": 9, "replication": "blocks"});
            ((*name).to_string(), value)
        };
        let row = |test: &&str| {
            let values: serde_json::Map<String, Value> = changes.iter().map(value).collect();
            json!({"test": test, "metric": "wall", "unit": "s", "better": "lower", "main": true, "values": values})
        };
        let mean = |(name, change, half): &(&str, f64, f64)| {
            json!({"name": name, "change_percent": change, "ci_low": change - half, "ci_high": change + half,
                "replication": "blocks", "tests": tests.len(), "trials": 20, "suspect": 0})
        };
        let columns: Vec<&str> = ["kernel"].into_iter().chain(changes.iter().map(|(name, ..)| *name)).collect();
        let text = json!({"by": "placement", "baseline": "kernel", "columns": columns, "notes": [],
            "rows": tests.iter().map(row).collect::<Vec<_>>(),
            "geomean": changes.iter().map(mean).collect::<Vec<_>>(), "simulated": false, "smoke": false});
        serde_json::from_value(text).expect("the fields are those of a comparison")
    }

    fn text(tests: &[&str], changes: &[(&str, f64, f64)]) -> String {
        answer(&comparison(tests, changes)).expect("there is an answer").text
    }

    #[test]
    fn answer_names_the_best_and_the_worst() {
        let two = ["a", "b"];
        let all = [("spread", 5.0, 1.0), ("compact", 9.0, 1.0), ("one-core", -40.0, 2.0), ("loose", -50.0, 60.0)];
        let best = "compact is 9.0 % better than kernel over all 2 tests; one-core is 40.0 % worse";
        assert_eq!(text(&two, &all), best);
        let none = "Leave it to the kernel: nothing is seen to be better over all 2 tests; one-core is 40.0 % worse";
        assert_eq!(text(&two, &all[2..]), none);
        assert_eq!(text(&two, &all[3..]), "No difference is seen between kernel and loose over all 2 tests");
    }

    /// Less is better for a test in seconds.
    #[test]
    fn answer_of_one_test_has_the_direction_of_its_metric() {
        let all = [("compact", 9.0, 1.0), ("one-core", -40.0, 2.0)];
        assert_eq!(text(&["a"], &all), "one-core is 40.0 % better than kernel for a; compact is 9.0 % worse");
    }

    #[test]
    fn runs_that_were_not_repeated_and_smoke_tests_have_no_answer() {
        let mut single = comparison(&["a", "b"], &[("compact", 9.0, 1.0)]);
        let smoke = single.clone().stamped(model::values::stamp::Stamp { smoke: true, ..single.stamp });
        single.geomean[0].replication = Some(Replication::Trials);
        assert_eq!((answer(&single), answer(&smoke)), (None, None));
    }

    #[test]
    fn answer_from_disturbed_trials_states_them() {
        let mut disturbed = comparison(&["a", "b"], &[("compact", 9.0, 1.0)]);
        disturbed.geomean[0].suspect = 15;
        let text = answer(&disturbed).expect("there is an answer").text;
        assert!(text.contains("15 of 20"), "{text}");
    }
}
