//! The columns of a run's result table: the only list, from which terminal, Markdown, HTML and CSV follow.
//! docs/reference/result-columns.md and the field names of JSON are checked against it. Must not compute values: they
//! are fields of a finding.

use std::borrow::Cow;

use model::analysis::finding::{CellFinding, MetricFinding};
use model::values::record::{RunRecord, VerdictCounts};
use model::values::workload::Better;

use super::csv_number;
use crate::grid::{CellKind, Grid, GridCell, GridColumn};
use crate::number::{Scale, interval};
use crate::style::{Tone, clean};

/// The columns in the order of CSV, where names and meanings never change: new columns are appended. Tables order them
/// by [`Group`].
static COLUMNS: &[Column] = &[
    csv("run", |row| text(&row.record.id.0)),
    csv("simulated", |row| text(row.record.simulated.as_deref().unwrap_or_default())),
    column("test", "test", Group::Test, CellKind::Text, |row| text(&row.cell.test)).in_heading(),
    csv("workload", |row| text(&row.cell.workload)),
    csv("parameters", parameters),
    column("placement", "placement", Group::Placement, CellKind::Text, |row| text(&row.cell.placement)),
    column("threads", "threads", Group::Placement, CellKind::Number, |row| count(row.cell.threads)),
    csv("cpus", |row| text(&row.cell.cpus)),
    csv("memory", |row| text(&row.cell.memory)),
    column("metric", "metric", Group::Test, CellKind::Text, |row| text(&row.metric.name)).in_heading(),
    column("unit", "unit", Group::Trials, CellKind::Text, |row| CellValue::Muted(&row.metric.unit)).in_heading(),
    column("better", "better", Group::Test, CellKind::Text, |row| CellValue::Muted(row.better())).in_heading(),
    column("median", "median", Group::Values, CellKind::Number, |row| number(row.metric.median, "no result")),
    column("interval", "95 % interval", Group::Values, CellKind::Word, ends).without_csv(),
    csv("ci_low", |row| number(row.metric.ci_low, "")),
    csv("ci_high", |row| number(row.metric.ci_high, "")),
    column("best", "best", Group::Values, CellKind::Number, |row| number(row.metric.best, "")).only_with_passes(),
    column("mean", "mean", Group::Values, CellKind::Number, |row| number(row.metric.mean, "")).only_with_passes(),
    column("samples", "n", Group::Trials, CellKind::Number, |row| count(row.metric.samples.len())),
    csv("valid", |row| count(row.cell.verdicts.valid)),
    csv("suspect", |row| count(row.cell.verdicts.suspect)),
    csv("invalid", |row| count(row.cell.verdicts.invalid)),
    column("verdicts", "trials", Group::Trials, CellKind::Text, verdicts).without_csv(),
    csv("smoke", |row| CellValue::Muted(if row.record.stamp().smoke { "true" } else { "false" })),
    csv("host", |row| text(row.record.host.as_deref().unwrap_or_default())),
    csv("cpu_model", |row| text(row.record.machine.settings.get("cpu.model").unwrap_or_default())),
];

/// A column of the result table.
#[derive(Clone, Copy)]
pub(super) struct Column {
    /// Name in CSV, and of the field in JSON.
    pub(super) id: &'static str,
    /// Title in tables.
    title: &'static str,
    group: Group,
    holds: CellKind,
    formats: &'static [Format],
    /// Whether tables have it only for runs whose trials are passes.
    only_with_passes: bool,
    cell: CellReader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// The table of the terminal, with headings for the values that all rows of a test and metric share.
    Terminal,
    /// The table without headings: Markdown, and below the figures of a page.
    Table,
    Csv,
}

/// The parts of a table from left to right. A part has the order of [`COLUMNS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Test,
    Placement,
    Values,
    Trials,
}

/// A row of the result table: one metric of one cell.
#[derive(Clone, Copy)]
pub(super) struct ResultRow<'a> {
    pub(super) record: &'a RunRecord,
    pub(super) cell: &'a CellFinding,
    pub(super) metric: &'a MetricFinding,
}

type CellReader = for<'a> fn(ResultRow<'a>) -> CellValue<'a>;

/// The value of a cell, which each format writes in its own way.
enum CellValue<'a> {
    Text(Cow<'a, str>),
    Muted(&'a str),
    /// In the unit of the metric. Tables round it to the scale of the median.
    Number {
        value: Option<f64>,
        /// Replaces a missing value in tables.
        missing: &'static str,
    },
    /// Made for tables only.
    Formatted(GridCell),
}

/// A column of CSV only.
const fn csv(id: &'static str, cell: CellReader) -> Column {
    let formats = &[Format::Csv];
    Column { id, title: "", group: Group::Test, holds: CellKind::Text, formats, only_with_passes: false, cell }
}

/// A column of all formats.
const fn column(id: &'static str, title: &'static str, group: Group, holds: CellKind, cell: CellReader) -> Column {
    let formats = &[Format::Terminal, Format::Table, Format::Csv];
    Column { id, title, group, holds, formats, only_with_passes: false, cell }
}

impl Column {
    /// Removes it from the table of the terminal, whose headings contain it ([`ResultRow::heading`]).
    const fn in_heading(self) -> Self {
        Self { formats: &[Format::Table, Format::Csv], ..self }
    }

    const fn without_csv(self) -> Self {
        Self { formats: &[Format::Terminal, Format::Table], ..self }
    }

    const fn only_with_passes(self) -> Self {
        Self { only_with_passes: true, ..self }
    }

    pub(super) fn grid_cell(&self, row: ResultRow<'_>) -> GridCell {
        match (self.cell)(row) {
            CellValue::Text(text) => GridCell::plain(&text),
            CellValue::Muted(text) => GridCell::muted(text),
            CellValue::Number { value, missing } => {
                let written = value.zip(row.scale()).map(|(value, scale)| scale.write(value));
                let cell = GridCell::plain(written.as_deref().unwrap_or(missing));
                cell.of(value.unwrap_or(f64::NAN), Some(&row.metric.unit))
            }
            CellValue::Formatted(cell) => cell,
        }
    }

    pub(super) fn csv_field(&self, row: ResultRow<'_>) -> String {
        match (self.cell)(row) {
            CellValue::Text(text) => text.into_owned(),
            CellValue::Muted(text) => text.into(),
            CellValue::Number { value, .. } => csv_number(value),
            CellValue::Formatted(cell) => cell.text,
        }
    }
}

impl ResultRow<'_> {
    /// The values that all rows of a test and metric share, as a sentence.
    pub(super) fn heading(self) -> String {
        let (test, metric) = (&self.cell.test, self.metric);
        clean(&format!("{test}: {} in {}, {} is better", metric.name, metric.unit, self.better()))
    }

    fn better(self) -> &'static str {
        better_word(self.metric.better)
    }

    fn scale(self) -> Option<Scale> {
        self.metric.median.map(Scale::of)
    }
}

/// The columns of a format in its order.
pub(super) fn columns(format: Format, passes: bool) -> Vec<&'static Column> {
    let csv = format == Format::Csv;
    let contains = |column: &&Column| column.formats.contains(&format) && (csv || passes || !column.only_with_passes);
    let mut columns: Vec<&Column> = COLUMNS.iter().filter(contains).collect();
    if !csv {
        columns.sort_by_key(|column| column.group);
    }
    columns
}

/// A table of these columns without rows.
pub(super) fn empty_grid(columns: &[&Column]) -> Grid {
    let column = |column: &&Column| GridColumn { title: column.title.into(), holds: column.holds };
    Grid { columns: columns.iter().map(column).collect(), ..Grid::default() }
}

pub(crate) fn better_word(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
    }
}

fn text(text: &str) -> CellValue<'_> {
    CellValue::Text(text.into())
}

fn count(count: impl ToString + Copy) -> CellValue<'static> {
    CellValue::Text(count.to_string().into())
}

fn number(value: Option<f64>, missing: &'static str) -> CellValue<'static> {
    CellValue::Number { value, missing }
}

fn parameters(row: ResultRow<'_>) -> CellValue<'_> {
    let parameters: Vec<String> = row.cell.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    CellValue::Text(parameters.join(" ").into())
}

fn ends(row: ResultRow<'_>) -> CellValue<'_> {
    let MetricFinding { ci_low, ci_high, unit, .. } = row.metric;
    let ends = row.scale().and_then(|scale| interval(*ci_low, *ci_high, scale));
    let cell = GridCell::plain(ends.as_deref().unwrap_or("too few trials"));
    CellValue::Formatted(cell.of_interval(ci_low.zip(*ci_high), unit))
}

fn verdicts(row: ResultRow<'_>) -> CellValue<'_> {
    let (words, tone) = verdict_words(row.cell.verdicts);
    CellValue::Formatted(GridCell::new(&words, tone))
}

/// `all valid`, `2 suspect`, `7 of 9 suspect` if these are most, `no trial yet`.
fn verdict_words(verdicts: VerdictCounts) -> (String, Tone) {
    let VerdictCounts { valid, suspect, invalid } = verdicts;
    match (valid, suspect, invalid) {
        (0, 0, 0) => ("no trial yet".into(), Tone::Warning),
        (_, 0, 0) => ("all valid".into(), Tone::Plain),
        (0, 0, _) => ("all invalid".into(), Tone::Bad),
        (_, _, 0) if suspect > valid => (format!("{suspect} of {} suspect", valid + suspect), Tone::Bad),
        (_, _, 0) => (format!("{suspect} suspect"), Tone::Warning),
        (_, 0, _) => (format!("{invalid} invalid"), Tone::Bad),
        _ => (format!("{suspect} suspect, {invalid} invalid"), Tone::Bad),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use model::analysis::finding::{CpuLoad, NodePages};
    use model::values::id_set::{CpuId, NodeId};
    use model::values::trial::TrialId;
    use serde_json::Value;

    use super::*;

    /// Columns that are not a field of a cell, its metric or its verdicts in JSON, with the reason.
    const NOT_FIELDS: [(&str, &str); 7] = [
        ("run", "the field `id` of the object `run`"),
        ("simulated", "a field of the object `run`"),
        ("smoke", "a field next to `run`"),
        ("host", "a field of the object `run`"),
        ("cpu_model", "a field of the object `run`"),
        ("metric", "the field `name` of the metric"),
        ("interval", "the fields `ci_low` and `ci_high`"),
    ];

    #[test]
    fn figures_that_rest_mostly_on_suspect_trials_are_marked() {
        let words = |valid, suspect, invalid| verdict_words(VerdictCounts { valid, suspect, invalid });
        assert_eq!(words(7, 2, 0), ("2 suspect".into(), Tone::Warning));
        assert_eq!(words(2, 7, 0), ("7 of 9 suspect".into(), Tone::Bad));
        assert_eq!(words(9, 0, 0), ("all valid".into(), Tone::Plain));
    }

    #[test]
    fn column_ids_are_the_names_of_json() {
        let fields = json_fields();
        for column in COLUMNS {
            let id = column.id;
            match NOT_FIELDS.iter().find(|(known, _)| *known == id) {
                Some((_, reason)) => assert!(!fields.contains(id), "{id} is a field of JSON, not {reason}"),
                None => assert!(fields.contains(id), "JSON has no field {id}, only {fields:?}"),
            }
        }
        let known = |id: &&str| COLUMNS.iter().any(|column| column.id == *id);
        assert!(NOT_FIELDS.iter().all(|(id, _)| known(id)), "an exception without a column");
    }

    /// The names of a cell's fields, its metric's and its verdicts'.
    fn json_fields() -> BTreeSet<String> {
        let cell = serde_json::to_value(cell()).unwrap();
        let objects = [&cell, &cell["metrics"][0], &cell["verdicts"]];
        objects.into_iter().filter_map(Value::as_object).flat_map(|object| object.keys().cloned()).collect()
    }

    /// A cell without empty lists, which JSON may omit.
    fn cell() -> CellFinding {
        let load =
            CpuLoad { cpu: CpuId(0), user: 0., system: 0., irq: 0., softirq: 0., iowait: 0., idle: 100., steal: 0. };
        let node = NodeId(0);
        let pages = NodePages { node, memory: 100., program: 0., library: 0., data: 0., other_files: 0. };
        CellFinding {
            workload: "chase".into(),
            test: "chase".into(),
            parameters: [("size".into(), "1GiB".into())].into(),
            placement: "kernel".into(),
            threads: 1,
            cpus: String::new(),
            memory: "kernel".into(),
            reason: "the kernel decides".into(),
            metrics: vec![metric()],
            verdicts: VerdictCounts::default(),
            cpu_load: vec![load],
            node_pages: vec![pages],
            budget: None,
            reasons: vec![("steal".into(), 1)],
            outside_means: false,
            caveats: vec!["one trial".into()],
        }
    }

    fn metric() -> MetricFinding {
        MetricFinding {
            name: "latency".into(),
            unit: "ns".into(),
            better: Better::Lower,
            median: Some(90.0),
            ci_low: Some(89.0),
            ci_high: Some(91.0),
            best: Some(88.0),
            mean: Some(90.0),
            samples: vec![90.0],
            blocks: vec![0],
            trials: vec![TrialId("t".into())],
            suspect: Vec::new(),
        }
    }

    /// The reference page has a row `| name | title | meaning |` for each column, in the same order.
    #[test]
    fn reference_page_lists_every_column() {
        let page = include_str!("../../../../docs/reference/result-columns.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
        let documented: Vec<(&str, &str)> = rows
            .map(|row| {
                let cells: Vec<&str> = row.split('|').map(str::trim).collect();
                let [id, title, meaning] = cells[..] else { panic!("not three cells: {row}") };
                assert!(!meaning.is_empty(), "no meaning: {row}");
                (id.trim_end_matches('`'), title)
            })
            .collect();
        let columns: Vec<(&str, &str)> = COLUMNS.iter().map(|column| (column.id, column.title)).collect();
        let missing: Vec<_> = columns.iter().filter(|column| !documented.contains(column)).collect();
        assert!(missing.is_empty(), "docs/reference/result-columns.md lacks {missing:?}");
        assert_eq!(documented, columns);
    }
}
