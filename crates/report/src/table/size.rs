//! The slowdown of a command by DRAM budget as a table with bars.

use model::analysis::size::{SizeAnswer, SizePoint};

use crate::grid::{Grid, GridCell};
use crate::number::signed_percent;
use crate::race::metric_words;
use crate::style::{TextStyle, Tone, finished, with_symbol, wrapped};

/// Length of the longest bar, in characters. Bars are logarithmic, because slowdowns range from 1 % to a hundredfold.
const BAR: usize = 24;

/// The result, then the table.
pub fn size(answer: &SizeAnswer, style: &TextStyle) -> String {
    let sentences = [(Some(answer.sentence()), Tone::Strong), (answer.plain_sentence(), Tone::Plain)];
    let lines = sentences
        .into_iter()
        .filter_map(|(text, tone)| Some(wrapped(&with_symbol(&text?, tone), style.width, style.width)));
    let sentences: String = lines.flatten().map(|line| format!("{}\n", finished(&line, style))).collect();
    format!("{sentences}\n{}", size_grid(answer).terminal(style))
}

/// The budgets, each with a bar.
pub(crate) fn size_grid(answer: &SizeAnswer) -> Grid {
    let slowest = answer.points.iter().map(length).fold(0.0, f64::max);
    let slowdown = match answer.metric.as_str() {
        "wall" => "time".to_string(),
        metric => format!("slowdown ({})", metric_words(metric)),
    };
    let titles = ["swap", "DRAM", "of its memory", &slowdown, "95 % interval", "slower"];
    let mut grid = Grid::new(&titles).numbers(&titles[1..4]);
    grid.rows = answer.points.iter().map(|point| row(answer, point, slowest)).collect();
    grid
}

fn row(answer: &SizeAnswer, point: &SizePoint, slowest: f64) -> Vec<GridCell> {
    let share = 100.0 * point.dram.0 as f64 / answer.need.0.max(1) as f64;
    let interval = point.ci_low.zip(point.ci_high);
    let interval =
        interval.map_or(String::new(), |(low, high)| format!("{} to {}", signed_percent(low), signed_percent(high)));
    let bar = "─".repeat((BAR as f64 * length(point) / slowest.max(f64::MIN_POSITIVE)).round() as usize);
    let tone = if answer.enough == Some(point.dram) && point.steered { Tone::Good } else { Tone::Plain };
    vec![
        GridCell::plain(if point.steered { "steered" } else { "plain" }),
        GridCell::new(&point.dram.to_string(), tone),
        GridCell::plain(&format!("{share:.0} %")),
        GridCell::plain(&signed_percent(point.slower_percent)),
        GridCell::muted(&interval),
        GridCell::muted(&bar),
    ]
}

fn length(point: &SizePoint) -> f64 {
    (point.slower_percent.max(0.0) / 100.0).ln_1p()
}

#[cfg(test)]
mod tests {
    use model::values::units::Bytes;

    use super::*;

    #[test]
    fn budgets_are_listed_with_bars() {
        let point = |gib: u64, steered, slower: f64| SizePoint {
            dram: Bytes(gib << 30),
            steered,
            slower_percent: slower,
            ci_low: Some(slower - 1.0),
            ci_high: Some(slower + 1.0),
        };
        let points = vec![point(1, true, 100.0), point(1, false, 900.0), point(2, true, 2.0)];
        let mut answer = SizeAnswer {
            program: "app".into(),
            metric: "wall".into(),
            need: Bytes(4 << 30),
            within_percent: 5.0,
            points,
            enough: Some(Bytes(2 << 30)),
            enough_plain: None,
            saves: Some(Bytes(2 << 30)),
        };
        let text = size(&answer, &TextStyle { width: 120, ascii: true, colour: false });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("app uses 4GiB and needs 2GiB of DRAM to be within 5 % of full speed"), "{text}");
        let bar = |line: &str| line.chars().rev().take_while(|c| *c == '-').count();
        assert!(lines[1].starts_with("with the kernel's own swap none of these budgets is sufficient"), "{text}");
        for words in ["steered", "1GiB", "25 %", "+100 %", "+99.0 % to +101 %"] {
            assert!(lines[5].contains(words), "{words}: {text}");
        }
        assert_eq!((bar(lines[6]), bar(lines[5])), (24, 7), "{text}");
        assert!(lines[3].contains("  time  "), "{text}");
        answer.metric = "tps".into();
        let rate = size(&answer, &TextStyle { width: 120, ascii: true, colour: false });
        assert!(rate.contains("  slowdown (tps)  ") && !rate.contains("time"), "{rate}");
    }
}
