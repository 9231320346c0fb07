//! A report as one HTML file: it loads nothing, does not depend on the time or place of its creation, and reads the
//! same without its script. All HTML of the workspace is generated here and in `templates`.

mod contents;
mod figure;
mod http_pages;
mod live;
mod load;
mod node_pages;
mod plot;
mod policy;
mod race;
mod run;
mod search;
mod size;
mod stacked;
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
use model::values::stamp::Stamp;
use model::values::trial::{Grade, Role};

use crate::answer::answer;
use crate::changes;
use crate::claim_text::{ClaimText, sentences};
use crate::comparison_notes::footnotes;
use crate::number::Digits;
use crate::style::clean;
use crate::table::{
    EFFICIENCY, caption, comparison_grid, efficiency_grid, headnotes, index_caption, index_grid, index_notes, long_grid,
};
use contents::ContentsEntry;
use live::LivePart;
use run::RunPart;
use survey::SurveyPart;
use table::HtmlTable;

pub use http_pages::{CompareForm, LIVE_SCRIPT, RunLine, RunsPage, ServedHeader, error_page, query, runs};
pub use live::{LiveSection, live_trial};
pub use policy::security_policy;

/// Sorts and filters tables, shows samples of figures, converts units. Pages contain it verbatim between `<script>` and
/// `</script>`, so that a server can allow it by its hash.
pub const SCRIPT: &str = include_str!("../../templates/report.js");
/// The style sheet of all pages.
const STYLE: &str = include_str!("../../templates/report.css");

/// The content of a report.
#[derive(Clone, Debug, Default)]
pub struct ReportPage<'a> {
    /// Runs in reading order.
    pub runs: Vec<RunSection<'a>>,
    /// Experiments on running services.
    pub live: Vec<LiveSection<'a>>,
    /// Comparisons across runs: hosts, kernels, boots.
    pub comparisons: Vec<&'a Comparison>,
    /// Indices of suites, each with the name of its run or table.
    pub indices: Vec<(&'a str, &'a IndexTable)>,
    pub tables: Vec<TableSection<'a>>,
    /// A survey of machines, if there are several.
    pub survey: Option<&'a Survey>,
    /// The program and its version.
    pub generated_by: String,
    /// The header of a server's page. `None` for a file.
    pub served: Option<ServedHeader>,
    /// The form of a server's page for comparisons.
    pub form: Option<CompareForm>,
}

/// One run with its findings.
#[derive(Clone, Copy, Debug)]
pub struct RunSection<'a> {
    pub record: &'a RunRecord,
    pub finding: &'a RunFinding,
    /// The comparison of its columns, if it has several.
    pub comparison: Option<&'a Comparison>,
    /// The result of its race, if it is a race.
    pub answer: Option<&'a PlaceResult>,
    /// The DRAM that its command needs, if it measured that.
    pub size: Option<&'a SizeAnswer>,
    /// The measured map of the machine, if it measured one.
    pub map: Option<&'a MeasuredMap>,
    /// Its trials that do not count.
    pub invalid: &'a [InvalidTrial],
}

/// A trial that does not count, as a page lists it.
#[derive(Clone, Debug)]
pub struct InvalidTrial {
    pub(crate) position: u32,
    pub(crate) test: String,
    pub(crate) placement: String,
    pub(crate) repetition: u32,
    pub(crate) reasons: String,
}

impl InvalidTrial {
    /// Returns `None` for a trial that counts, and for warm-ups.
    pub fn of(record: &RunRecord, trial: &TrialRecord) -> Option<Self> {
        let TrialRecord { position, trial, verdict, .. } = trial;
        (trial.role == Role::Measured && verdict.grade == Grade::Invalid).then(|| Self {
            position: *position,
            test: record.plan.cells.get(trial.cell).map_or(&trial.workload, |cell| &cell.test).clone(),
            placement: trial.placement.name.clone(),
            repetition: trial.block,
            reasons: verdict.reasons.join("; "),
        })
    }
}

/// An imported table with the comparison of its columns.
#[derive(Clone, Copy, Debug)]
pub struct TableSection<'a> {
    pub table: &'a ImportedTable,
    pub comparison: &'a Comparison,
}

/// Maximum number of sentences of a summary; the others are in a collapsed section.
const SENTENCES_MAX: usize = 3;
/// Maximum number of columns of a comparison in the wide layout.
const COLUMNS_MAX: usize = 5;
/// Limits for the whole page, which keep the file below 3 MB: rows of tables and points of figures.
const ROWS_MAX: usize = 3_000;
const POINTS_MAX: usize = 20_000;

/// Renders the page. Equal input yields equal bytes.
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
    let main = MainTemplate {
        survey: page.survey.map(|survey| SurveyPart::new(survey, limits.rows)),
        lives: page.live.iter().map(LivePart::new).collect(),
        runs,
        comparisons: compared.collect(),
        indices: page.indices.iter().map(|(name, table)| IndexPart::new(name, table, limits.rows)).collect(),
        tables: tables.collect(),
        form: page.form.as_ref(),
    };
    let (body, contents) = contents::with_anchors(&main.render().expect("the template renders"));
    let report = ReportTemplate {
        title: title(page),
        simulated: stamps(page).any(|stamp| stamp.simulated),
        smoke: stamps(page).any(|stamp| stamp.smoke),
        main: &main,
        body,
        contents,
        generated_by: clean(&page.generated_by),
        served: page.served.as_ref(),
        style: STYLE,
        script: SCRIPT,
        live: LIVE_SCRIPT,
        // A server sends its own policy.
        policy: page.served.is_none().then(|| format!("{}; form-action 'none'", security_policy(&[SCRIPT]))),
    };
    report.render().expect("the template renders")
}

/// The stamps of the parts of a page.
fn stamps<'a>(page: &'a ReportPage<'_>) -> impl Iterator<Item = Stamp> + 'a {
    let survey = page.survey.iter().map(|survey| survey.stamp);
    let compared = page.comparisons.iter().map(|comparison| comparison.stamp);
    page.runs.iter().map(|run| run.record.stamp()).chain(survey).chain(compared)
}

/// The limits of each part of a page.
pub(crate) struct PageLimits {
    pub(crate) rows: usize,
    pub(crate) points: usize,
}

impl PageLimits {
    fn of(page: &ReportPage) -> Self {
        let cells: usize = page.runs.iter().map(|run| run.finding.cells.len()).sum();
        let parts = page.runs.len() + page.comparisons.len() + page.indices.len() + page.tables.len();
        // Minimums, so that a strip shows a distribution and a table its beginning.
        Self { rows: (ROWS_MAX / parts.max(1)).clamp(50, 1_000), points: (POINTS_MAX / cells.max(1)).clamp(24, 400) }
    }
}

#[derive(Template)]
#[template(path = "report.html")]
struct ReportTemplate<'a> {
    title: String,
    simulated: bool,
    smoke: bool,
    main: &'a MainTemplate<'a>,
    /// The rendered `main`, whose headings are the targets of the contents.
    body: String,
    contents: Vec<ContentsEntry>,
    generated_by: String,
    served: Option<&'a ServedHeader>,
    style: &'static str,
    script: &'static str,
    live: &'static str,
    /// The Content-Security-Policy of a file.
    policy: Option<String>,
}

#[derive(Template)]
#[template(path = "report-main.html")]
struct MainTemplate<'a> {
    survey: Option<SurveyPart>,
    lives: Vec<LivePart>,
    runs: Vec<RunPart>,
    comparisons: Vec<ComparedPart>,
    indices: Vec<IndexPart>,
    tables: Vec<ComparedPart>,
    form: Option<&'a CompareForm>,
}

impl MainTemplate<'_> {
    /// Whether the page begins with the first sentences of its runs and experiments: a single one has them below its title.
    fn has_summary(&self) -> bool {
        let (answered, others) =
            (self.runs.len() + self.lives.len(), self.comparisons.len() + self.indices.len() + self.tables.len());
        answered > 0 && answered + others + usize::from(self.survey.is_some()) > 1
    }
}

/// A comparison with its findings in sentences.
pub(crate) struct ComparedPart {
    pub(crate) name: String,
    /// One sentence that answers the question.
    pub(crate) answer: Option<ClaimText>,
    pub(crate) sentences: Vec<ClaimText>,
    pub(crate) more: Vec<ClaimText>,
    /// The figure of all changes with their intervals.
    pub(crate) picture: Option<String>,
    pub(crate) table: HtmlTable,
    /// Cells in percent of reference cells.
    pub(crate) efficiency: Option<HtmlTable>,
    pub(crate) above: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl ComparedPart {
    pub(crate) fn new(name: &str, comparison: &Comparison, rows_max: usize) -> Self {
        let mut answer = answer(comparison);
        let mut sentences = sentences(comparison);
        answer.iter_mut().chain(&mut sentences).for_each(|sentence| sentence.text = unbroken(&sentence.text));
        let claims = sentences.iter().take_while(|sentence| !sentence.is_without_claim()).count();
        let mut more = sentences.split_off(claims.min(SENTENCES_MAX));
        sentences.extend(not_seen(&more));
        more.truncate(rows_max);
        // A wider table would need horizontal scrolling.
        let wide = comparison.columns.len() <= COLUMNS_MAX;
        let digits = Digits::default();
        let grid =
            if wide { comparison_grid(comparison, digits).without_repeats(1) } else { long_grid(comparison, digits) };
        let efficiency = efficiency_grid(&comparison.efficiency, digits);
        Self {
            name: clean(name),
            answer,
            sentences,
            more,
            picture: changes::svg(comparison),
            table: HtmlTable::new(&caption(comparison), grid, rows_max),
            efficiency: (!efficiency.rows.is_empty()).then(|| HtmlTable::new(EFFICIENCY, efficiency, rows_max)),
            above: headnotes(comparison),
            notes: footnotes(comparison),
        }
    }
}

/// Counts the statements without a difference in one line, because many of them say little. `None` without any.
fn not_seen(sentences: &[ClaimText]) -> Option<ClaimText> {
    let count = sentences.iter().filter(|sentence| sentence.is_without_claim()).count();
    let noun = if count == 1 { "comparison" } else { "comparisons" };
    (count > 0).then(|| ClaimText { text: format!("no difference is seen or claimed in {count} {noun}"), better: None })
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
        Self { name: clean(name), tables: index.groups.iter().map(table).collect(), notes: index_notes(index) }
    }
}

/// Replaces the space before a percent sign by a no-break space.
pub(crate) fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

fn title(page: &ReportPage) -> String {
    let runs = page.runs.iter().map(|run| &run.record.plan.experiment);
    let names = runs.chain(page.live.iter().map(|section| &section.trial.subject));
    let names = names.chain(page.tables.iter().map(|part| &part.table.name));
    let mut names: Vec<String> = names.map(|name| clean(name)).collect();
    names.dedup();
    match names.as_slice() {
        [] if page.form.is_some() => "Compare".into(),
        [] if page.survey.is_some() => "Survey of machines".into(),
        [] => "Empty".into(),
        [first, second, third, _, ..] => format!("{first}, {second}, {third} and more"),
        names => names.join(", "),
    }
}
