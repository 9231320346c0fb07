//! The tables of a survey: machines, tests by machine, facts, and the points of a change.

use model::analysis::survey::{Association, LevelChange, MachineClass, MachineScore, OutlierSide, Test};
use model::values::comparison::SuspectCount;
use model::values::workload::Better;

use super::text::{interval, suspect};
use crate::grid::{CellKind, Grid, GridCell};
use crate::number::{date, signed_percent, significant};
use crate::style::{HARD_SPACE, Tone, clean};

/// One row per machine with its distance over all tests of an experiment, or in the first test.
pub(crate) fn machines_grid(class: &MachineClass) -> Grid {
    let overall: Vec<&Test> = class.tests.iter().filter(|test| test.median.is_none()).collect();
    let shown: Vec<&Test> = if overall.is_empty() { class.tests.iter().take(1).collect() } else { overall };
    let mut titles = vec!["machine", "runs", "last run"];
    titles.extend(shown.iter().map(|test| test.test.as_str()));
    titles.extend(["outlier", "suspect"]);
    let mut grid = Grid::new(&titles).numbers(&["runs"]).holding(CellKind::Word, &["last run", "outlier", "suspect"]);
    for machine in &class.machines {
        let mut cells = vec![
            GridCell::plain(&machine.name),
            GridCell::plain(&machine.runs.to_string()),
            GridCell::muted(&held(&date(machine.last_unix_ms))),
        ];
        cells.extend(
            shown.iter().map(|test| against(test.values.iter().find(|value| value.machine == machine.name), test)),
        );
        let (word, tone) = worth(machine.stands_out);
        cells.extend([GridCell::new(word, tone), suspect_cell(machine.counts)]);
        grid.rows.push(cells);
    }
    grid
}

/// One row per machine and test.
pub(crate) fn tests_grid(class: &MachineClass) -> Grid {
    let titles =
        ["test", "metric", "machine", "median", "unit", "against the others", "95 % interval", "outlier", "suspect"];
    let mut grid = Grid::new(&titles)
        .numbers(&["median", "against the others"])
        .holding(CellKind::Word, &["95 % interval", "outlier", "suspect"]);
    for test in &class.tests {
        for value in &test.values {
            let (word, tone) = worth(value.stands_out);
            let median = value.median.map_or(GridCell::plain(""), |median| {
                GridCell::plain(&significant(median)).of(median, Some(&test.unit))
            });
            grid.rows.push(vec![
                GridCell::plain(&test.test),
                GridCell::plain(&test.metric),
                GridCell::plain(&value.machine),
                median,
                GridCell::muted(&test.unit),
                GridCell::new(&signed_percent(value.change_percent), tone).of(value.change_percent, None),
                GridCell::muted(&interval(value.ci_low, value.ci_high, value.change_percent)),
                GridCell::new(word, tone),
                suspect_cell(value.counts),
            ]);
        }
    }
    grid
}

/// Facts with their counts in both groups.
pub(crate) fn facts_grid(facts: &[Association], sides: [&str; 2]) -> Grid {
    let titles = ["fact", "value", sides[0], sides[1], "by chance"];
    let mut grid = Grid::new(&titles).holding(CellKind::Word, &titles[2..]);
    for fact in facts {
        let count = |have: usize, all: usize| format!("{have} of {all}");
        grid.rows.push(vec![
            GridCell::plain(&fact.key),
            GridCell::plain(&fact.value),
            GridCell::plain(&count(fact.here, fact.here_of)),
            GridCell::plain(&count(fact.elsewhere, fact.elsewhere_of)),
            GridCell::muted(&chance(fact.p_value)),
        ]);
    }
    grid
}

pub(crate) fn points_grid(change: &LevelChange) -> Grid {
    let titles = ["run", "began", "against its median", "suspect"];
    let mut grid =
        Grid::new(&titles).holding(CellKind::Word, &["run", "began", "suspect"]).numbers(&["against its median"]);
    for point in &change.points {
        grid.rows.push(vec![
            GridCell::plain(&point.run),
            GridCell::plain(&date(point.unix_ms)),
            GridCell::plain(&signed_percent(point.change_percent)).of(point.change_percent, None),
            suspect_cell(point.counts),
        ]);
    }
    grid
}

fn against(value: Option<&MachineScore>, test: &Test) -> GridCell {
    let Some(value) = value else { return GridCell::muted("not measured") };
    let ends = interval(value.ci_low, value.ci_high, value.change_percent);
    let ends = if ends.is_empty() { ends } else { format!(" ({})", ends.trim_end_matches(" %")) };
    let tone = match (value.stands_out, (value.change_percent > 0.0) == (test.better == Better::Higher)) {
        (None, _) => Tone::Plain,
        (Some(_), true) => Tone::Good,
        (Some(_), false) => Tone::Bad,
    };
    GridCell::trusted(&held(&format!("{}{ends}", signed_percent(value.change_percent))), tone)
        .of(value.change_percent, None)
}

/// Share of the trials that are suspect; emphasised if most are.
fn suspect_cell(counts: SuspectCount) -> GridCell {
    GridCell::new(&suspect(counts), if counts.is_most() { Tone::Bad } else { Tone::Warning })
}

fn worth(worth: Option<OutlierSide>) -> (&'static str, Tone) {
    match worth {
        Some(OutlierSide::Worse) => ("worse", Tone::Bad),
        Some(OutlierSide::Better) => ("better", Tone::Good),
        None => ("", Tone::Plain),
    }
}

/// `5 %`, `0.09 %`, `below 0.01 %`.
fn chance(p_value: f64) -> String {
    match 100.0 * p_value {
        percent if percent < 0.01 => "below 0.01 %".into(),
        percent if percent < 1.0 => format!("{percent:.2} %"),
        percent => format!("{percent:.0} %"),
    }
}

fn held(text: &str) -> String {
    clean(text).replace(' ', &HARD_SPACE.to_string())
}
