//! A race in a report: its result in sentences, the blocks of each candidate as bars, the ranking, the command lines.

use askama::Template;
use model::analysis::place::PlaceResult;
use model::placements::placement::CommandLines;
use model::stats::racing::RankClaim;

use super::search::{SearchFigure, figures};
use super::table::HtmlTable;
use super::unbroken;
use crate::json::value;
use crate::race::{grid, grid_title, headline, lines_of, sentences, verdict};
use crate::style::clean;

/// Maximum number of candidates in the figure; the table has all.
const DRAWN_MAX: usize = 40;
const ROW_HEIGHT: usize = 20;
const WIDTH: f64 = 760.0;
const LABEL_WIDTH: f64 = 230.0;
/// Width of the verdict next to a bar.
const VERDICT_WIDTH: f64 = 240.0;

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

/// The number of blocks of each candidate.
#[derive(Template)]
#[template(path = "race.svg")]
struct RacePicture {
    title: String,
    height: usize,
    bars: Vec<Bar>,
    left_out: usize,
}

struct Bar {
    label: String,
    class: &'static str,
    top: usize,
    middle: usize,
    width: String,
    verdict_x: String,
    verdict: String,
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
    let most = answer.standings.iter().map(|one| one.blocks).max().filter(|most| *most > 0)?;
    let per_block = (WIDTH - LABEL_WIDTH - VERDICT_WIDTH) / f64::from(most);
    let shown = answer.standings.iter().take(DRAWN_MAX).enumerate();
    let bars: Vec<Bar> = shown
        .map(|(row, one)| {
            let width = per_block * f64::from(one.blocks);
            Bar {
                label: clean(&one.placed.placement),
                class: match one.word {
                    RankClaim::Leads => "leads",
                    RankClaim::NotSeenToDiffer { .. } => "ties",
                    _ => "left",
                },
                top: row * ROW_HEIGHT + 4,
                middle: row * ROW_HEIGHT + 14,
                width: format!("{width:.1}"),
                verdict_x: format!("{:.1}", LABEL_WIDTH + width + 6.0),
                verdict: verdict(one, answer.metric.better).0,
            }
        })
        .collect();
    Some(RacePicture {
        title: format!("Blocks of each candidate, out of {most}"),
        height: bars.len() * ROW_HEIGHT + 8,
        left_out: answer.standings.len() - bars.len(),
        bars,
    })
}
