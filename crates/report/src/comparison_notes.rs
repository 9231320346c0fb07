//! Limits on the interpretation of a comparison: remarks on single values, and notes below the table. Must not compute
//! values.

use model::values::comparison::{ComparedValue, Comparison, ComparisonRow, GeomeanChange, Replication, SuspectCount};

use crate::style::clean;
use crate::table::means;

/// Minimum number of judged differences for a note on those due to chance: with 10, every other table has one.
pub(crate) const JUDGED_MIN: usize = 10;

/// Comparisons within runs need no note.
const REPLICATION_NOTES: [(Replication, &str); 3] = [
    (
        Replication::Runs,
        "the sides are of different runs, so that the run is the unit: changes and intervals are those of the medians of \
         runs",
    ),
    (
        Replication::OtherRuns,
        "a side has a single run: how much runs differ is known from other runs of the same cells on this machine",
    ),
    (
        Replication::Trials,
        "of these trials: a side has a single run, and nothing shows how much runs differ. No difference is claimed; \
         repeat the runs of both sides",
    ),
];

/// The value that a column of a row is compared with.
pub(crate) fn baseline_value<'a>(
    comparison: &Comparison,
    row: &'a ComparisonRow,
    column: &str,
) -> Option<&'a ComparedValue> {
    row.values.get(comparison.baseline_of(column)?)
}

/// Remarks that belong into the same line as a change.
pub(crate) fn remarks(value: &ComparedValue, baseline: Option<&ComparedValue>) -> Vec<String> {
    let of_baseline = baseline.and_then(|baseline| suspect_remark(baseline.counts()));
    let of_baseline = of_baseline.map(|remark| format!("baseline {remark}"));
    let replication = value.replication.and_then(replication_remark);
    replication.map(str::to_string).into_iter().chain(suspect_remark(value.counts())).chain(of_baseline).collect()
}

/// Marks a figure of a table that rests mostly on suspect trials. A note below the table explains it once, instead of a
/// remark in every cell.
pub(crate) const SUSPECT_MARK: &str = "*";

/// Remarks on a figure of a table: that of single runs, and the mark of suspect trials.
pub(crate) fn table_remarks(value: &ComparedValue, baseline: Option<&ComparedValue>) -> Vec<String> {
    let replication = value.replication.and_then(replication_remark);
    with_mark(replication, value.rests_on_suspect(baseline))
}

/// The same for a mean.
pub(crate) fn mean_table_remarks(mean: &GeomeanChange) -> Vec<String> {
    with_mark(mean.replication.and_then(replication_remark), of_mean(mean).is_most())
}

fn with_mark(replication: Option<&str>, is_suspect: bool) -> Vec<String> {
    replication.into_iter().chain(is_suspect.then_some(SUSPECT_MARK)).map(str::to_string).collect()
}

fn of_mean(mean: &GeomeanChange) -> SuspectCount {
    SuspectCount { suspect: mean.suspect, trials: mean.trials }
}

/// A remark on a figure that rests mostly on suspect trials.
pub(crate) fn suspect_remark(counts: SuspectCount) -> Option<String> {
    counts.is_most().then(|| format!("{} of {} trials suspect", counts.suspect, counts.trials))
}

pub(crate) fn mean_remarks(mean: &GeomeanChange) -> Vec<String> {
    let suspect = suspect_remark(of_mean(mean));
    mean.replication.and_then(replication_remark).map(str::to_string).into_iter().chain(suspect).collect()
}

fn replication_remark(replication: Replication) -> Option<&'static str> {
    (replication == Replication::Trials).then_some("of these trials")
}

/// Notes below the table, which explain its values.
pub(crate) fn footnotes(comparison: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    let changes =
        || comparison.rows.iter().flat_map(|row| row.values.values()).filter(|value| value.change_percent.is_some());
    if changes().any(|value| value.ci_low.is_some()) {
        notes.push("intervals are 95 % intervals; no difference is claimed if the interval contains 0 %".into());
    }
    let replications = || changes().filter_map(|value| value.replication);
    let occurs = |replication: Replication| replications().any(|other| other == replication);
    notes.extend(
        REPLICATION_NOTES.iter().filter(|(replication, _)| occurs(*replication)).map(|(_, note)| (*note).into()),
    );
    if changes().any(|value| value.ci_low.is_none()) && !comparison.stamp.smoke {
        notes.push(
            "a change without an interval is between single figures or fewer than three trials: its noise is unknown"
                .into(),
        );
    }
    if means(comparison).iter().any(|mean| mean.ci_low.is_none()) && !comparison.stamp.smoke {
        notes.push("a geometric mean has no interval if one of its tests has none".into());
    }
    notes.extend(suspect_note(comparison));
    notes.extend(chance_note(comparison));
    notes
}

/// Numbers of suspect trials of each column; `None` without any.
fn suspect_note(comparison: &Comparison) -> Option<String> {
    let of_column = |column: &String| {
        let values = comparison.rows.iter().filter(|row| row.main).filter_map(|row| row.values.get(column));
        let (suspect, all) =
            values.fold((0, 0), |(suspect, all), value| (suspect + value.suspect, all + value.samples));
        (suspect > 0).then(|| format!("{} {suspect} of {all}", clean(column)))
    };
    let columns: Vec<String> = comparison.columns.iter().filter_map(of_column).collect();
    let what = "suspect trials, which were disturbed and may differ for this reason";
    let values = || comparison.rows.iter().flat_map(|row| row.values.values());
    let is_marked = values().any(|value| value.counts().is_most());
    let mark =
        if is_marked { format!("; {SUSPECT_MARK} marks figures that rest mostly on them") } else { String::new() };
    (!columns.is_empty() || is_marked)
        .then(|| format!("{what}: {}{mark}; --strict leaves them out", columns.join(", ")))
}

/// Numbers of claimed differences, and of those that chance alone would claim; `None` for few differences.
fn chance_note(comparison: &Comparison) -> Option<String> {
    let claims = comparison.claims();
    (claims.judged >= JUDGED_MIN).then(|| {
        format!(
            "{} of {} differences are claimed; chance alone claims {:.1} of {} where there is none, and {} remain after \
             Holm's correction",
            claims.claimed, claims.judged, claims.expected_by_chance, claims.judged, claims.after_correction
        )
    })
}
