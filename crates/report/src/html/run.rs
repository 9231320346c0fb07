//! The section of one run.

use askama::Template;
use model::analysis::curves::sweeps;
use model::analysis::finding::{CellFinding, RunFinding, SUSPECT_LEFT_OUT, load_belongs_to};
use model::analysis::place::PlaceResult;
use model::values::placement::Placement;
use model::values::plan::test_title;
use model::values::record::{RunRecord, VerdictCounts};
use model::values::settings::{FactValue, Settings};
use model::values::shell::quote_argv;

use super::figure::FigurePart;
use super::load::loads;
use super::node_pages::node_pages;
use super::plot::{Strip, figure};
use super::race::RacePart;
use super::size::SizePart;
use super::stacked::{BARS_MAX, ROWS_MAX, StackedFigure};
use super::sweep;
use super::table::HtmlTable;
use super::{ComparedPart, InvalidTrial, PageLimits, RunSection};
use crate::figure_style::Theme;
use crate::grid::{Grid, GridCell};
use crate::map as maps;
use crate::number::date;
use crate::stamp;
use crate::style::{Tone, clean};
use crate::table::{
    Metrics, caveats_grid, ending, headed_grid, invalid_trials_grid, load_grid, machine, pages_grid, run_grid,
    skipped_grid,
};

/// The workload of commands, and the dimension of their comparison.
const COMMAND: &str = "command";
/// Sentences per run at the top of a page with several runs.
const HEADLINES: usize = 1;
/// Maximum number of placements of a legend; the table of placements has all.
const LEGEND_MAX: usize = 8;
/// Maximum number of strips of a figure.
const STRIPS_MAX: usize = 40;
/// Number of figures shown; the others are in a collapsed section.
const FIGURES_OPEN: usize = 12;
const FIGURES_MAX: usize = 150;
/// Limits for figures of placements: their number, and the CPUs of the machine.
const PICTURES_MAX: usize = 12;
const PICTURE_CPUS_MAX: usize = 64;
/// The figure of a larger machine is collapsed.
const OPEN_CPUS_MAX: usize = 128;

/// A run, ready for the template.
pub(crate) struct RunPart {
    pub(crate) anchor: String,
    pub(crate) experiment: String,
    pub(crate) question: String,
    pub(crate) stamps: Vec<String>,
    /// How good the evidence is, in one sentence.
    pub(crate) evidence: String,
    /// Names of the placements with their meaning. Empty if they are many, or only one.
    pub(crate) legend: Vec<(String, String)>,
    pub(crate) facts: Vec<(&'static str, String)>,
    /// The first sentences, for the top of a page with several runs.
    pub(crate) headlines: Vec<String>,
    pub(crate) race: Option<RacePart>,
    /// The figure of the winner of a race, with its name.
    pub(crate) winner: Option<(String, String)>,
    pub(crate) size: Option<SizePart>,
    /// The picture of a measured map.
    pub(crate) measured: Option<String>,
    pub(crate) compared: Option<ComparedPart>,
    pub(crate) results: HtmlTable,
    pub(crate) all_results: Option<HtmlTable>,
    pub(crate) sweeps: Vec<FigurePart>,
    pub(crate) figures: Vec<FigurePart>,
    pub(crate) more_figures: Vec<FigurePart>,
    pub(crate) figures_left_out: usize,
    pub(crate) validity: String,
    pub(crate) invalid_trials: Option<HtmlTable>,
    pub(crate) caveats: Option<HtmlTable>,
    pub(crate) invalid: Option<HtmlTable>,
    pub(crate) skipped: Option<HtmlTable>,
    pub(crate) placements: HtmlTable,
    pub(crate) pictures: Vec<(String, String)>,
    /// The id of an earlier run on the page with the same machine.
    pub(crate) same_machine: Option<String>,
    pub(crate) machine: String,
    pub(crate) machine_folded: bool,
    pub(crate) notes: Vec<String>,
    pub(crate) settings: Option<HtmlTable>,
    pub(crate) fingerprint: String,
    pub(crate) command: String,
    pub(crate) steps: Vec<(&'static str, String)>,
}

impl RunPart {
    /// `before` are the runs above it on the page, whose machine it may share.
    pub(crate) fn new(section: &RunSection, before: &[RunSection], limits: &PageLimits) -> Self {
        let RunSection { record, finding, comparison, answer, size, map, invalid } = section;
        let same = before.iter().find(|other| other.record.machine.topology == record.machine.topology);
        let mut figures = figures(section, limits);
        let figures_left_out = figures.len().saturating_sub(FIGURES_MAX);
        figures.truncate(FIGURES_MAX);
        let more_figures = figures.split_off(figures.len().min(FIGURES_OPEN));
        let several = finding.cells.iter().any(|cell| cell.metrics.len() > 1);
        let all = || HtmlTable::new("All metrics", headed_grid(record, finding, Metrics::All), limits.rows).folded();
        let invalid_trials = invalid_trials_grid(finding);
        let topology = &record.machine.topology;
        let compared = comparison.map(|comparison| ComparedPart::new("", comparison, limits.rows));
        let race = answer.map(|answer| RacePart::new(answer, limits.rows));
        let size = size.map(|answer| SizePart::new(answer, limits.rows));
        Self {
            anchor: format!("run-{}", before.len() + 1),
            experiment: clean(&record.plan.experiment),
            question: clean(&record.plan.question),
            stamps: stamp::of_run(record),
            evidence: evidence(finding),
            legend: legend(record),
            facts: facts(record),
            headlines: headlines(race.as_ref(), size.as_ref(), compared.as_ref()),
            race,
            winner: answer.and_then(|answer| winner(record, answer)),
            size,
            measured: map.map(|map| maps::measured::svg(map, record.stamp(), Theme::Auto)),
            compared,
            results: HtmlTable::new("Medians over trials", headed_grid(record, finding, Metrics::Main), limits.rows),
            all_results: several.then(all),
            sweeps: drawn_sweeps(section, limits),
            figures,
            more_figures,
            figures_left_out,
            validity: validity(finding),
            caveats: table("Limitations of these results", caveats_grid(finding), limits.rows),
            invalid_trials: table("Why trials were suspect or invalid", invalid_trials, limits.rows),
            invalid: table("Trials that do not count", invalid_grid(invalid), limits.rows).map(HtmlTable::folded),
            skipped: table(
                "Not available on this machine",
                skipped_grid(&finding.skipped).without_repeats(1),
                limits.rows,
            ),
            placements: HtmlTable::new(
                "CPUs and memory of each placement, with the reason",
                placement_grid(record),
                limits.rows,
            ),
            pictures: pictures(record),
            same_machine: same.map(|other| clean(&other.record.id.0)),
            machine: if same.is_some() { String::new() } else { maps::svg(topology, None, Theme::Auto) },
            machine_folded: topology.counts().pus > OPEN_CPUS_MAX,
            notes: topology.notes.iter().map(|note| clean(note)).collect(),
            settings: settings_table(&record.machine.settings, limits.rows),
            fingerprint: record.machine.settings.fingerprint(),
            command: command(record),
            steps: steps(record),
        }
    }
}

fn headlines(race: Option<&RacePart>, size: Option<&SizePart>, compared: Option<&ComparedPart>) -> Vec<String> {
    let answer = race.map(|race| race.headline.clone()).or(size.map(|size| size.answer.clone()));
    let answer = answer.or_else(|| Some(compared?.answer.as_ref()?.text.clone()));
    let sentences = compared.into_iter().flat_map(|compared| &compared.sentences).map(|sentence| sentence.text.clone());
    answer.into_iter().chain(sentences).take(HEADLINES).collect()
}

fn table(caption: &str, grid: Grid, rows_max: usize) -> Option<HtmlTable> {
    (!grid.rows.is_empty()).then(|| HtmlTable::new(caption, grid, rows_max))
}

fn facts(record: &RunRecord) -> Vec<(&'static str, String)> {
    let (ended, _) = ending(record.ended);
    let kernel = record.machine.settings.get("kernel.release").map(|release| ("kernel", clean(release)));
    let run = [
        ("machine", machine(record)),
        ("run", clean(&record.id.0)),
        ("begun", date(record.started_unix_ms)),
        ("ended", ended.into()),
    ];
    run.into_iter().chain(kernel).collect()
}

/// Figures of parameters with several values; further ones are in the tables.
fn drawn_sweeps(section: &RunSection, limits: &PageLimits) -> Vec<FigurePart> {
    let all = sweeps(&section.record.plan, section.finding);
    all.iter().filter_map(|one| sweep::figure(one, limits.rows)).take(FIGURES_OPEN).collect()
}

/// One figure per test of its main metric, and one of the CPU load if it belongs to the result.
fn figures(section: &RunSection, limits: &PageLimits) -> Vec<FigurePart> {
    let baseline =
        section.comparison.map_or(section.record.plan.baseline.as_deref(), |made| Some(made.baseline.as_str()));
    let tests = section.finding.cells.chunk_by(|a, b| a.test == b.test);
    let one = |cells: &[CellFinding]| {
        let strips: Vec<Strip> = cells
            .iter()
            .filter_map(|cell| {
                let metric = cell.metrics.first()?;
                let name = cell.placement.as_str();
                Some(Strip { cell, metric, baseline: baseline == Some(name), name })
            })
            .collect();
        figure_part(section.record, &cells[0].test, &strips, limits)
    };
    let plan = &section.record.plan;
    let load = |cells: &[CellFinding]| {
        plan.spec(&cells[0].workload).filter(|spec| load_belongs_to(spec)).and_then(|_| load_part(cells, limits))
    };
    // With one node, every bar would be full.
    let has_nodes = section.record.machine.topology.allowed_nodes.len() > 1;
    let pages = |cells: &[CellFinding]| has_nodes.then(|| pages_part(cells, limits)).flatten();
    let commands = command_figures(section, limits);
    // A figure of one command and one placement would repeat a part of the figure of all commands.
    let is_shown = |cells: &[CellFinding]| !commands.is_empty() && cells.len() == 1 && cells[0].workload == COMMAND;
    let each = tests.flat_map(|cells| {
        let samples = if is_shown(cells) { None } else { one(cells) };
        [samples, load(cells), pages(cells)]
    });
    let each: Vec<FigurePart> = each.flatten().collect();
    commands.into_iter().chain(each).collect()
}

/// One figure per placement and metric with the samples of all commands on one axis, if the run compares commands.
fn command_figures(section: &RunSection, limits: &PageLimits) -> Vec<FigurePart> {
    let plan = &section.record.plan;
    let mut groups: Vec<Vec<Strip>> = Vec::new();
    let commands = section.finding.cells.iter().filter(|_| plan.compare_by == COMMAND || plan.gate.is_some());
    for cell in commands.filter(|cell| cell.workload == COMMAND) {
        let Some(metric) = cell.metrics.first() else { continue };
        let strip = Strip { cell, metric, baseline: false, name: title_of(cell) };
        let joins = |group: &&mut Vec<Strip>| {
            let first = &group[0];
            (&first.cell.placement, &first.metric.name, &first.metric.unit)
                == (&cell.placement, &metric.name, &metric.unit)
        };
        match groups.iter_mut().find(joins) {
            Some(group) => group.push(strip),
            None => groups.push(vec![Strip { baseline: true, ..strip }]),
        }
    }
    let several = groups.iter().filter(|strips| strips.len() > 1);
    let title = |strips: &[Strip]| format!("Commands under placement {}", strips[0].cell.placement);
    several.filter_map(|strips| figure_part(section.record, &title(strips), strips, limits)).collect()
}

/// The name of a command that its user chose, without parameters.
fn title_of(cell: &CellFinding) -> &str {
    test_title(&cell.test, cell.parameters.keys())
}

/// The load of each CPU next to the medians of a test.
fn load_part(cells: &[CellFinding], limits: &PageLimits) -> Option<FigurePart> {
    let figure = loads(&cells[0].test, cells)?;
    let mut caption = format!(
        "{}. The median of each placement, and the load of each CPU of the machine by all processes: one bar per \
         CPU, whose full height is all of its time; means of the trials.",
        clean(&cells[0].test)
    );
    if cells.len() > ROWS_MAX || cells.iter().any(|cell| cell.cpu_load.len() > BARS_MAX) {
        caption += &format!(" The first {ROWS_MAX} placements and {BARS_MAX} cpus; the table has more.");
    }
    Some(stacked_part(&figure, caption, load_grid(cells), limits))
}

/// The memory on each node next to the medians of a test.
fn pages_part(cells: &[CellFinding], limits: &PageLimits) -> Option<FigurePart> {
    let figure = node_pages(&cells[0].test, cells)?;
    let caption = format!(
        "{}. The median of each placement, and where its memory was: one bar per memory node, whose full height is all \
         memory and mapped files of the trial; means of the trials. Files that are only read are not included.",
        clean(&cells[0].test)
    );
    Some(stacked_part(&figure, caption, pages_grid(cells), limits))
}

/// A figure of stacked bars with its data. Columns `test` and the repeated names are redundant next to the figure.
fn stacked_part(figure: &StackedFigure, caption: String, grid: Grid, limits: &PageLimits) -> FigurePart {
    let grid = grid.without("test").without_repeats(2);
    FigurePart {
        svg: figure.render().expect("the template renders"),
        caption,
        table: HtmlTable::new("The same data as a table", grid, limits.rows).folded(),
    }
}

fn figure_part(record: &RunRecord, test: &str, strips: &[Strip], limits: &PageLimits) -> Option<FigurePart> {
    let shown = &strips[..strips.len().min(STRIPS_MAX)];
    let figure = figure(test, shown, limits.points)?;
    let cells = strips.iter().map(|strip| strip.cell.clone()).collect();
    let finding = RunFinding { cells, skipped: Vec::new(), passes: false };
    let grid = run_grid(record, &finding, Metrics::Main);
    let has_one_test = strips.iter().all(|strip| strip.cell.test == strips[0].cell.test);
    let repeated: &[&str] = if has_one_test { &["test", "metric", "better"] } else { &["metric", "better"] };
    let grid = repeated.iter().fold(grid, |grid, title| grid.without(title));
    Some(FigurePart {
        svg: figure.render().expect("the template renders"),
        caption: caption(test, shown, strips.len(), limits.points),
        table: HtmlTable::new("The same data as a table", grid, limits.rows).folded(),
    })
}

/// Explains how to read the figure.
fn caption(test: &str, shown: &[Strip], all: usize, points_max: usize) -> String {
    let mut text = clean(test);
    text += ". Trials of each row in the order in which they ran, from top to bottom; the line is the median, the band its 95 % interval.";
    if shown.iter().any(|strip| strip.metric.suspect.contains(&true)) {
        text += " Crosses are disturbed trials.";
    }
    let largest = shown.iter().map(|strip| strip.metric.samples.len()).max().unwrap_or(0);
    if largest > points_max {
        text += &format!(
            " Of up to {largest} samples per placement, at most {points_max} are drawn, evenly spaced and with the \
             extremes; medians and intervals use all samples."
        );
    }
    if all > shown.len() {
        text += &format!(" The first {} of {all} placements; the table has all.", shown.len());
    }
    text
}

/// The validity of the trials in one sentence.
fn validity(finding: &RunFinding) -> String {
    let any = |invalid_trials: fn(&VerdictCounts) -> u32| {
        finding.cells.iter().filter(|cell| invalid_trials(&cell.verdicts) > 0).count()
    };
    let cells = finding.cells.len();
    match (any(|verdicts| verdicts.suspect), any(|verdicts| verdicts.invalid)) {
        (0, 0) => {
            "Every trial is valid: the placement of threads and memory was verified, and no disturbance was observed."
                .into()
        }
        (suspect, invalid) => {
            let left_out = finding.cells.iter().any(|cell| cell.caveats.iter().any(|it| it == SUSPECT_LEFT_OUT));
            let suspect_counts = if left_out { "left out by --strict" } else { "they count" };
            format!(
                "Of {cells} cells, {suspect} had trials that were disturbed (suspect: {suspect_counts}) and {invalid} had \
                 trials whose placement was not verified or that failed (invalid: they do not count)."
            )
        }
    }
}

/// The number of disturbed and invalid trials in one sentence.
fn evidence(finding: &RunFinding) -> String {
    let sum = |of: fn(&VerdictCounts) -> u32| finding.cells.iter().map(|cell| of(&cell.verdicts)).sum::<u32>();
    let (valid, suspect, invalid) =
        (sum(|counts| counts.valid), sum(|counts| counts.suspect), sum(|counts| counts.invalid));
    let all = valid + suspect + invalid;
    match (suspect, invalid) {
        (0, 0) => format!("Evidence: {all} trials, all valid."),
        (suspect, 0) => format!("Evidence: {suspect} of {all} trials were disturbed."),
        (0, invalid) => format!("Evidence: {invalid} of {all} trials are invalid and do not count."),
        (suspect, invalid) => {
            format!("Evidence: {suspect} of {all} trials were disturbed; {invalid} are invalid and do not count.")
        }
    }
}

/// The names of the placements with their meaning.
fn legend(record: &RunRecord) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for placement in placements(record) {
        let name = clean(&placement.name);
        // With another number of threads, a name has other CPUs; the table lists them.
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, clean(&placement.reason)));
        }
    }
    if (2..=LEGEND_MAX).contains(&all.len()) { all } else { Vec::new() }
}

fn invalid_grid(trials: &[InvalidTrial]) -> Grid {
    let mut grid =
        Grid::new(&["trial", "test", "placement", "repetition", "reasons"]).numbers(&["trial", "repetition"]);
    let row = |trial: &InvalidTrial| {
        let InvalidTrial { position, test, placement, repetition, reasons } = trial;
        let texts = [&position.to_string(), test, placement, &repetition.to_string(), reasons];
        texts.iter().map(|text| GridCell::plain(text)).collect()
    };
    grid.rows = trials.iter().map(row).collect();
    grid
}

/// The distinct placements in plan order.
fn placements(record: &RunRecord) -> Vec<&Placement> {
    let mut placements: Vec<&Placement> = Vec::new();
    for cell in &record.plan.cells {
        let known = |other: &&Placement| {
            let one = &cell.placement;
            (&other.name, &other.bindings, &other.memory, other.threads)
                == (&one.name, &one.bindings, &one.memory, one.threads)
        };
        if !placements.iter().any(known) {
            placements.push(&cell.placement);
        }
    }
    placements
}

fn placement_grid(record: &RunRecord) -> Grid {
    let mut grid = Grid::new(&["placement", "threads", "cpus", "memory", "why"]).numbers(&["threads"]);
    for placement in placements(record) {
        let cpus = if placement.is_pinned() { placement.cpus().to_string() } else { "any".into() };
        let texts = [
            &placement.name,
            &placement.threads.to_string(),
            &cpus.replace(',', ", "),
            &placement.memory.to_string(),
            &placement.reason,
        ];
        grid.rows.push(texts.iter().map(|text| GridCell::plain(text)).collect());
    }
    grid
}

/// The figure of a race's winner. `None` if the winner is not pinned.
fn winner(record: &RunRecord, answer: &PlaceResult) -> Option<(String, String)> {
    let won = answer.winner.as_ref()?;
    let is_it = |placement: &&Placement| {
        placement.is_pinned() && placement.name == won.placement && placement.threads == won.threads
    };
    let placement = placements(record).into_iter().find(is_it)?;
    let drawn = record.machine.topology.counts().pus <= OPEN_CPUS_MAX;
    drawn.then(|| (clean(&placement.name), maps::svg(&record.machine.topology, Some(placement), Theme::Auto)))
}

/// Figures of pinned placements, each with its name.
fn pictures(record: &RunRecord) -> Vec<(String, String)> {
    let topology = &record.machine.topology;
    if topology.counts().pus > PICTURE_CPUS_MAX {
        return Vec::new();
    }
    let seated = placements(record).into_iter().filter(|placement| placement.is_pinned()).take(PICTURES_MAX);
    seated.map(|placement| (clean(&placement.name), maps::svg(topology, Some(placement), Theme::Auto))).collect()
}

fn settings_table(settings: &Settings, rows_max: usize) -> Option<HtmlTable> {
    let mut grid = Grid::new(&["setting", "value"]);
    for fact in &settings.facts {
        let tone = if matches!(fact.value, FactValue::Unavailable(_)) { Tone::Quiet } else { Tone::Plain };
        grid.rows.push(vec![GridCell::plain(&fact.key), GridCell::new(&maps::fact_text(fact), tone)]);
    }
    table("Settings at the start of the run", grid, rows_max)
}

fn command(record: &RunRecord) -> String {
    let mut words = vec!["nearfar".to_string()];
    words.extend(record.plan.command.iter().cloned());
    let mut machine = vec!["--seed".to_string(), record.seed.to_string()];
    machine.extend(record.simulated.iter().flat_map(|simulated| ["--sim".into(), simulated.clone()]));
    // The arguments after `--` belong to another program.
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.splice(end..end, machine);
    clean(&quote_argv(&words))
}

fn steps(record: &RunRecord) -> Vec<(&'static str, String)> {
    let repeat = &record.plan.repeat;
    vec![
        ("program", clean(&record.program)),
        ("seed", record.seed.to_string()),
        ("plan", record.plan.key()),
        (
            "repetitions",
            format!(
                "{} to {} measured repetitions after {} of warm-up, in random order within each block",
                repeat.min, repeat.max, repeat.warmup
            ),
        ),
        ("budget", repeat.budget.to_string()),
    ]
}
