//! The result of a race for the terminal: the best placement and its gain, the ties, the command lines; and the ranking
//! while the race runs.

use model::analysis::place::PlaceResult;
use model::values::plan::{Plan, ReductionStep};
use model::values::record::RunRecord;

use super::lists::pasted;
use super::run::simulated;
use crate::grid::{Grid, GridCell};
use crate::race::{grid, headline, lines_of, sentences, verdict};
use crate::style::{TextStyle, Tone, clean, finished, with_symbol, wrapped};

/// Minimum line width at which all columns of a ranking are shown.
const ALL_WIDTH_MIN: usize = 120;

/// The result, its reasons, the ranking, the command lines.
pub fn answer(record: &RunRecord, answer: &PlaceResult, style: &TextStyle) -> String {
    let mut out = simulated(record).map_or(String::new(), |stamp| line(&stamp, Tone::Warning, style));
    let (text, tone) = headline(answer);
    out += &line(&text, tone, style);
    for sentence in sentences(answer) {
        out += &line(&sentence, Tone::Plain, style);
    }
    let grid = grid(answer);
    // On narrow lines the column against the kernel's choice is omitted first: the confirming pairs are more precise.
    let grid = if style.width < ALL_WIDTH_MIN { grid.without("against kernel") } else { grid };
    out += &format!("\n{}", grid.terminal(style));
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

/// The state of a race on one line of a log.
pub fn standing(answer: &PlaceResult, blocks: u32, left: usize) -> String {
    let leader = answer.winner.as_ref().map_or("no candidate".into(), |leader| clean(&leader.placement));
    format!("block {blocks}: {left} of {} candidates left, {leader} leads", answer.candidates)
}

fn line(text: &str, tone: Tone, style: &TextStyle) -> String {
    let lines = wrapped(text, style.width, style.width);
    lines.iter().map(|line| format!("{}\n", finished(&with_symbol(line, tone), style))).collect()
}
