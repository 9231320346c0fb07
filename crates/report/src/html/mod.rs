//! A report as one HTML file: no network, nothing that depends on when or where it is made, and one script without which it
//! reads the same. All HTML of the workspace is made here and in `templates`.

mod http_pages;
mod load;
mod plot;
mod race;
mod run;
mod size;
mod survey;
mod sweep;
mod table;

use askama::Template;
use model::analysis::finding::RunFinding;
use model::analysis::place::PlaceResult;
use model::analysis::size::SizeAnswer;
use model::analysis::survey::Survey;
use model::import::unixbench::IndexTable;
use model::placements::measured_map::MeasuredMap;
use model::values::comparison::Comparison;
use model::values::record::{ImportedTable, RunRecord, TrialRecord};

use crate::changes;
use crate::claim_text::{ClaimText, sentences};
use crate::style::clean;
use crate::table::{comparison_grid, footnotes, headnotes, index_caption, index_grid, long_grid};
use run::RunPart;
use survey::SurveyPart;
use table::HtmlTable;

pub use http_pages::{CompareForm, LIVE_SCRIPT, RunLine, RunsPage, ServedHeader, query, refusal, runs};

/// Sorts and filters tables, tells samples of figures, changes units. Pages have it between `<script>` and `</script>` as it
/// is, so that a server can name it by its hash.
pub const SCRIPT: &str = include_str!("../../templates/report.js");
/// How all pages look.
const STYLE: &str = include_str!("../../templates/report.css");

/// What a report is made from.
#[derive(Clone, Debug, Default)]
pub struct ReportPage<'a> {
    /// Runs in reading order.
    pub runs: Vec<RunSection<'a>>,
    /// Comparisons across runs: hosts, kernels, boots.
    pub comparisons: Vec<&'a Comparison>,
    /// Indices of suites, each with the name of the run or table that it is of.
    pub indices: Vec<(&'a str, &'a IndexTable)>,
    pub tables: Vec<TableSection<'a>>,
    /// Many machines side by side, where there are several.
    pub survey: Option<&'a Survey>,
    /// The program and its version.
    pub generated_by: String,
    /// Where a server gives it out; none for a file.
    pub served: Option<ServedHeader>,
    /// What was or may be compared, on a server's page for that.
    pub form: Option<CompareForm>,
}

/// One run with its findings.
#[derive(Clone, Copy, Debug)]
pub struct RunSection<'a> {
    pub record: &'a RunRecord,
    pub finding: &'a RunFinding,
    /// Its columns side by side, where it has something to compare.
    pub comparison: Option<&'a Comparison>,
    /// What its race came to, where it is one.
    pub answer: Option<&'a PlaceResult>,
    /// How much DRAM its command needs, where it asked that.
    pub size: Option<&'a SizeAnswer>,
    /// What it measured of the machine itself, where it is a measured map.
    pub map: Option<&'a MeasuredMap>,
    /// Its trials; they say which samples were disturbed.
    pub trials: &'a [TrialRecord],
}

/// One imported table with its columns side by side.
#[derive(Clone, Copy, Debug)]
pub struct TableSection<'a> {
    pub table: &'a ImportedTable,
    pub comparison: &'a Comparison,
}

/// Sentences beyond this are folded away: a summary has to be short.
const SENTENCES_MAX: usize = 12;
/// Columns that stand side by side.
const COLUMNS_MAX: usize = 5;
/// What keeps the file below 3 MB: rows of tables and points of figures of the whole page.
const ROWS_MAX: usize = 3_000;
const POINTS_MAX: usize = 20_000;

/// The page. Equal input gives equal bytes.
pub fn render(page: &ReportPage) -> String {
    let limits = PageLimits::of(page);
    let runs: Vec<RunPart> =
        page.runs.iter().enumerate().map(|(index, run)| RunPart::new(run, &page.runs[..index], &limits)).collect();
    let compared = page
        .comparisons
        .iter()
        .map(|comparison| ComparedPart::new(&format!("By {}", comparison.by), comparison, limits.rows));
    let tables =
        page.tables.iter().map(|section| ComparedPart::new(&section.table.name, section.comparison, limits.rows));
    let report = ReportTemplate {
        title: title(page),
        simulated: page.runs.iter().any(|run| run.record.simulated.is_some())
            || page.survey.is_some_and(|survey| survey.simulated),
        parts: usize::from(page.survey.is_some()),
        survey: page.survey.map(|survey| SurveyPart::new(survey, limits.rows)),
        runs,
        comparisons: compared.collect(),
        indices: page.indices.iter().map(|(name, table)| IndexPart::new(name, table, limits.rows)).collect(),
        tables: tables.collect(),
        generated_by: clean(&page.generated_by),
        served: page.served.as_ref(),
        form: page.form.as_ref(),
        style: STYLE,
        script: SCRIPT,
        live: LIVE_SCRIPT,
    };
    report.render().expect("a template of values that are there renders")
}

/// How much each part may take.
pub(crate) struct PageLimits {
    pub(crate) rows: usize,
    pub(crate) points: usize,
}

impl PageLimits {
    fn of(page: &ReportPage) -> Self {
        let cells: usize = page.runs.iter().map(|run| run.finding.cells.len()).sum();
        let parts = page.runs.len() + page.comparisons.len() + page.indices.len() + page.tables.len();
        // At least so many that a strip shows a distribution and a table its beginning.
        Self { rows: (ROWS_MAX / parts.max(1)).clamp(50, 1_000), points: (POINTS_MAX / cells.max(1)).clamp(24, 400) }
    }
}

#[derive(Template)]
#[template(path = "report.html")]
struct ReportTemplate<'a> {
    title: String,
    simulated: bool,
    /// How many of them are there beside those in lists.
    parts: usize,
    survey: Option<SurveyPart>,
    runs: Vec<RunPart>,
    comparisons: Vec<ComparedPart>,
    indices: Vec<IndexPart>,
    tables: Vec<ComparedPart>,
    generated_by: String,
    served: Option<&'a ServedHeader>,
    form: Option<&'a CompareForm>,
    style: &'static str,
    script: &'static str,
    live: &'static str,
}

/// A comparison with what it says in words.
pub(crate) struct ComparedPart {
    pub(crate) name: String,
    pub(crate) sentences: Vec<ClaimText>,
    pub(crate) more: Vec<ClaimText>,
    /// Every change with its interval.
    pub(crate) picture: Option<String>,
    pub(crate) table: HtmlTable,
    pub(crate) above: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl ComparedPart {
    pub(crate) fn new(name: &str, comparison: &Comparison, rows_max: usize) -> Self {
        let mut sentences = sentences(comparison);
        sentences.iter_mut().for_each(|sentence| sentence.text = unbroken(&sentence.text));
        let mut more = sentences.split_off(sentences.len().min(SENTENCES_MAX));
        more.truncate(rows_max);
        // Beyond that a reader would have to scroll sideways to compare.
        let wide = comparison.columns.len() <= COLUMNS_MAX;
        let grid = if wide { comparison_grid(comparison).without_repeats(1) } else { long_grid(comparison) };
        let caption = format!("Against {}, by {}", clean(&comparison.baseline), clean(&comparison.by));
        Self {
            name: clean(name),
            sentences,
            more,
            picture: changes::svg(comparison),
            table: HtmlTable::new(&caption, grid, rows_max),
            above: headnotes(comparison),
            notes: footnotes(comparison),
        }
    }
}

/// The tables of an index.
struct IndexPart {
    name: String,
    tables: Vec<HtmlTable>,
    notes: Vec<String>,
}

impl IndexPart {
    fn new(name: &str, index: &IndexTable, rows_max: usize) -> Self {
        let table = |group| HtmlTable::new(&index_caption(index, group), index_grid(index, group), rows_max);
        Self {
            name: clean(name),
            tables: index.groups.iter().map(table).collect(),
            notes: index.notes.iter().map(|note| clean(note)).collect(),
        }
    }
}

/// A number and its percent sign stay on one line.
pub(crate) fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

fn title(page: &ReportPage) -> String {
    let names =
        page.runs.iter().map(|run| &run.record.plan.experiment).chain(page.tables.iter().map(|part| &part.table.name));
    let mut names: Vec<String> = names.map(|name| clean(name)).collect();
    names.dedup();
    match names.as_slice() {
        [] if page.form.is_some() => "Compare".into(),
        [] if page.survey.is_some() => "Machines side by side".into(),
        [] => "Empty".into(),
        [first, second, third, _, ..] => format!("{first}, {second}, {third} and more"),
        names => names.join(", "),
    }
}
