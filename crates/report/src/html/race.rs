//! A race in a report: its result in sentences, the median of each candidate as a picture, the ranking, the command lines.

use askama::Template;
use model::analysis::place::{MeasuredValue, PlaceResult, RankingRow};
use model::placements::placement::CommandLines;
use model::stats::racing::RankClaim;
use model::values::workload::Better;

use super::search::{SearchFigure, figures};
use super::table::HtmlTable;
use super::unbroken;
use crate::axis::Axis;
use crate::json::value;
use crate::race::{grid, grid_title, headline, lines_of, measured, sentences, verdict};
use crate::style::{clean, shortened};
use crate::svg::pixels;

/// Maximum number of candidates in the figure; the table has all.
const DRAWN_MAX: usize = 40;
const ROW_HEIGHT: usize = 20;
const WIDTH: f64 = 760.0;
const LABEL_WIDTH: f64 = 230.0;
/// Characters of a name that fit into this width.
const LABEL_CHARACTERS: usize = 34;
/// Width of the values on the right.
const VALUE_WIDTH: f64 = 200.0;
/// Height of the axis with its labels.
const AXIS_HEIGHT: usize = 44;

/// A race, ready for its template.
#[derive(Template)]
#[template(path = "race.html")]
pub(crate) struct RacePart {
    pub(crate) headline: String,
    class: &'static str,
    sentences: Vec<String>,
    /// The purpose of the command lines, and each tool with its line.
    lines: Vec<(&'static str, Vec<(String, String)>)>,
    picture: Option<RacePicture>,
    figures: Vec<SearchFigure>,
    ranking: HtmlTable,
}

/// The median of each candidate with its interval.
#[derive(Template)]
#[template(path = "race.svg")]
struct RacePicture {
    title: String,
    height: usize,
    rows: Vec<RaceRow>,
    ticks: Vec<(String, String)>,
    /// Vertical position of the axis.
    axis: usize,
    value_x: String,
    /// The right end of the axis, below which the unit and the direction are.
    right: String,
    below: String,
    left_out: usize,
}

struct RaceRow {
    label: String,
    /// The whole name and the verdict.
    title: String,
    class: &'static str,
    text_y: usize,
    middle: usize,
    interval: Option<(String, String)>,
    median: String,
    value: String,
}

impl RacePart {
    pub(crate) fn new(answer: &PlaceResult, rows_max: usize) -> Self {
        let (text, tone) = headline(answer);
        Self {
            headline: unbroken(&text),
            class: tone.class(),
            sentences: sentences(answer).iter().map(|text| unbroken(text)).collect(),
            lines: lines_of(answer).into_iter().map(|(whose, lines)| (whose, pasted(lines))).collect(),
            picture: picture(answer),
            figures: figures(answer),
            ranking: HtmlTable::new(grid_title(answer), grid(answer, true).0, rows_max),
        }
    }
}

fn pasted(lines: &CommandLines) -> Vec<(String, String)> {
    let lines = value(lines);
    let fields = lines.as_object().into_iter().flatten();
    fields.filter_map(|(tool, line)| Some((tool.replace('_', "-"), clean_lines(line.as_str()?)))).collect()
}

fn clean_lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

fn picture(answer: &PlaceResult) -> Option<RacePicture> {
    let ran: Vec<(&RankingRow, MeasuredValue)> =
        answer.standings.iter().filter_map(|one| Some((one, one.measured?))).collect();
    let shown = &ran[..ran.len().min(DRAWN_MAX)];
    let medians: Vec<f64> = shown.iter().map(|(_, value)| value.median).collect();
    let ends: Vec<f64> = shown.iter().flat_map(|(_, value)| value.ci_low.into_iter().chain(value.ci_high)).collect();
    let axis = Axis::over(&medians, &ends)?;
    let x = |value: f64| pixels(LABEL_WIDTH + axis.share(value) * (WIDTH - LABEL_WIDTH - VALUE_WIDTH));
    let metric = &answer.metric;
    let row = |(index, (one, value)): (usize, &(&RankingRow, MeasuredValue))| RaceRow {
        label: shortened(&clean(&one.placed.placement), LABEL_CHARACTERS),
        title: format!("{}: {}", clean(&one.placed.placement), verdict(one, metric.better).0),
        class: match one.word {
            RankClaim::Leads => "leads",
            RankClaim::NotSeenToDiffer { .. } => "ties",
            _ => "left",
        },
        text_y: index * ROW_HEIGHT + 14,
        middle: index * ROW_HEIGHT + 13,
        interval: value.ci_low.zip(value.ci_high).map(|(low, high)| (x(low), x(high))),
        median: x(value.median),
        value: measured(metric, value),
    };
    let unit = if metric.unit.is_empty() { String::new() } else { format!(", {}", clean(&metric.unit)) };
    let direction = if metric.better == Better::Lower { "less is better" } else { "more is better" };
    let name = clean(&metric.name);
    Some(RacePicture {
        title: format!("Median {name} of each candidate that was run, with its 95 % interval"),
        height: shown.len() * ROW_HEIGHT + AXIS_HEIGHT,
        rows: shown.iter().enumerate().map(row).collect(),
        ticks: axis.ticks().into_iter().map(|(tick, text)| (x(tick), text)).collect(),
        axis: shown.len() * ROW_HEIGHT + 4,
        value_x: pixels(WIDTH - VALUE_WIDTH + 12.0),
        right: pixels((LABEL_WIDTH + WIDTH - VALUE_WIDTH) / 2.0),
        below: format!("{name}{unit} ({direction})"),
        left_out: ran.len() - shown.len(),
    })
}
