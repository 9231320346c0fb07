//! The result of a race for the terminal: the best placement and its gain, the ties, the command lines; and the ranking
//! while the race runs.

use model::analysis::place::PlaceResult;
use model::values::plan::{Plan, ReductionStep};
use model::values::record::RunRecord;

use super::lists::pasted;
use crate::grid::{Grid, GridCell};
use crate::race::{INTERVAL, grid, grid_title, headline, lines_of, sentences, verdict};
use crate::stamp;
use crate::style::{TextStyle, Tone, clean, finished, with_symbol, wrapped};

/// Minimum line width at which all columns of a ranking are shown.
const ALL_WIDTH_MIN: usize = 120;

/// The result, its reasons, the ranking, the command lines. `all` includes all candidates that were not run.
pub fn answer(record: &RunRecord, answer: &PlaceResult, all: bool, style: &TextStyle) -> String {
    let mut out = stamp::terminal(&stamp::of_run(record), style);
    let (text, tone) = headline(answer);
    out += &line(&text, tone, style);
    for sentence in sentences(answer) {
        out += &line(&sentence, Tone::Plain, style);
    }
    let (grid, left_out) = grid(answer, all);
    // Narrow lines omit the column against the kernel's choice, because the confirming pairs are more precise, and the
    // intervals of the medians.
    let grid = if style.width < ALL_WIDTH_MIN { grid.without("against kernel").without(INTERVAL) } else { grid };
    // A search without a valid trial has no ranking.
    if !grid.rows.is_empty() {
        out += &format!("\n{}\n{}", line(grid_title(answer), Tone::Quiet, style), grid.terminal(style));
    }
    if left_out > 0 {
        out += &line(
            &format!("{left_out} more candidates were not run; place --all and --format json list them"),
            Tone::Quiet,
            style,
        );
    }
    for (whose, lines) in lines_of(answer) {
        out += &format!("\n{whose}:\n{}", pasted(lines, style));
    }
    out
}

/// The reduction of raw placements to candidates, and the candidates.
pub fn explanation(plan: &Plan, steps: &[ReductionStep], style: &TextStyle) -> String {
    let mut out = String::new();
    for step in steps {
        let count = step.count.as_ref().map_or(String::new(), |count| format!("{count:>14}  "));
        out += &line(&format!("{count}{}", clean(&step.text)), Tone::Plain, style);
    }
    let mut grid =
        Grid::new(&["placement", "threads", "cpus", "memory", "server cpus", "reason"]).numbers(&["threads"]);
    for cell in &plan.cells {
        let placement = &cell.placement;
        let cpus = placement.cpus().to_string().replace(',', ", ");
        grid.rows.push(vec![
            GridCell::plain(&placement.name),
            GridCell::plain(&placement.threads.to_string()),
            GridCell::plain(if cpus.is_empty() { "any" } else { &cpus }),
            GridCell::plain(&placement.memory.to_string()),
            GridCell::plain(&placement.server_cpus.to_string()),
            GridCell::muted(&placement.reason),
        ]);
    }
    let second = plan.cells.iter().any(|cell| !cell.placement.server_cpus.is_empty());
    let grid = if second { grid } else { grid.without("server cpus") };
    format!("{out}\n{}", grid.terminal(style))
}

/// The best few candidates, one line each, for a display that is redrawn after each block.
pub fn ranking(answer: &PlaceResult, lines: usize, style: &TextStyle) -> Vec<String> {
    let best = answer.standings.iter().take(lines).enumerate();
    let line = best.map(|(rank, one)| {
        let (verdict, tone) = verdict(one, answer.metric.better);
        let text = format!("{:>3}  {:<32} {verdict}", rank + 1, clean(&one.placed.placement));
        let short: String = text.chars().take(style.width).collect();
        finished(&with_symbol(&short, tone), style)
    });
    line.collect()
}

/// The state of a search or race on one line of a log. `left` is the number of candidates of a race.
pub fn standing(answer: &PlaceResult, blocks: u32, left: Option<usize>) -> String {
    let leader = answer.winner.as_ref().map_or("no candidate".into(), |leader| clean(&leader.placement));
    let left = left.map_or(String::new(), |left| format!("{left} of {} candidates left, ", answer.candidates));
    format!("block {blocks}: {left}{leader} leads")
}

/// Wraps a sentence into lines.
pub(super) fn line(text: &str, tone: Tone, style: &TextStyle) -> String {
    let lines = wrapped(text, style.width, style.width);
    lines.iter().map(|line| format!("{}\n", finished(&with_symbol(line, tone), style))).collect()
}
