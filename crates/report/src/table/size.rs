//! The slowdown of a command by DRAM budget as a table with bars.

use model::analysis::size::{SizeAnswer, SizePoint, SizeTier};

use crate::grid::{Grid, GridCell};
use crate::number::signed_percent;
use crate::race::metric_words;
use crate::style::{TextStyle, Tone, finished, with_symbol, wrapped};

/// Length of the longest bar, in characters. Bars are logarithmic, because slowdowns range from 1 % to a hundredfold.
const BAR: usize = 24;
/// Title of the DRAM that compressed pages use, a part of the budget.
const COMPRESSED: &str = "compressed";
const CPU_TIME: &str = "CPU time";

/// The result, then the table.
pub fn size(answer: &SizeAnswer, style: &TextStyle) -> String {
    let others = answer.other_sentences().into_iter().chain(answer.compressibility_sentence());
    let sentences = std::iter::once((answer.sentence(), Tone::Strong)).chain(others.map(|text| (text, Tone::Plain)));
    let lines = sentences.map(|(text, tone)| wrapped(&with_symbol(&text, tone), style.width, style.width));
    let sentences: String = lines.flatten().map(|line| format!("{}\n", finished(&line, style))).collect();
    format!("{sentences}\n{}", size_grid(answer).terminal(style))
}

/// The budgets, each with a bar. The costs in CPU time and in DRAM of compressed pages are shown if they were measured.
pub(crate) fn size_grid(answer: &SizeAnswer) -> Grid {
    let slowest = answer.points.iter().map(length).fold(0.0, f64::max);
    let slowdown = match answer.metric.as_str() {
        "wall" => "time".to_string(),
        metric => format!("slowdown ({})", metric_words(metric)),
    };
    let titles = ["swap", "DRAM", COMPRESSED, "of its memory", &slowdown, "95 % interval", CPU_TIME, "slower"];
    let mut grid = Grid::new(&titles).numbers(&titles[1..5]).numbers(&[CPU_TIME]);
    grid.rows = answer.points.iter().map(|point| row(answer, point, slowest)).collect();
    let has_costs = answer.points.iter().any(|point| point.cpu_percent.is_some());
    let has_compressed = answer.points.iter().any(|point| point.compressed_dram.is_some());
    let grid = if has_costs { grid } else { grid.without(CPU_TIME) };
    if has_compressed { grid } else { grid.without(COMPRESSED) }
}

fn row(answer: &SizeAnswer, point: &SizePoint, slowest: f64) -> Vec<GridCell> {
    let share = 100.0 * point.dram.0 as f64 / answer.need.0.max(1) as f64;
    let interval = point.ci_low.zip(point.ci_high);
    let interval =
        interval.map_or(String::new(), |(low, high)| format!("{} to {}", signed_percent(low), signed_percent(high)));
    let bar = "─".repeat((BAR as f64 * length(point) / slowest.max(f64::MIN_POSITIVE)).round() as usize);
    let is_answer = answer.enough == Some(point.dram) && answer.main_tier().is_some_and(|main| main.tier == point.tier);
    let text = |value: Option<String>| GridCell::plain(&value.unwrap_or_default());
    vec![
        GridCell::plain(tier_name(point.tier)),
        GridCell::new(&point.dram.to_string(), if is_answer { Tone::Good } else { Tone::Plain }),
        text(point.compressed_dram.map(|bytes| bytes.to_string())),
        GridCell::plain(&format!("{share:.0} %")),
        GridCell::plain(&signed_percent(point.slower_percent)),
        GridCell::muted(&interval),
        text(point.cpu_percent.map(signed_percent)),
        GridCell::muted(&bar),
    ]
}

fn tier_name(tier: SizeTier) -> &'static str {
    match (tier.steered, tier.compressed) {
        (true, false) => "steered",
        (true, true) => "steered, compressed",
        (false, false) => "plain",
        (false, true) => "plain, compressed",
    }
}

fn length(point: &SizePoint) -> f64 {
    (point.slower_percent.max(0.0) / 100.0).ln_1p()
}

#[cfg(test)]
mod tests {
    use model::analysis::size::TierAnswer;
    use model::values::units::Bytes;

    use super::*;

    const STYLE: TextStyle = TextStyle { width: 140, ascii: true, colour: false };

    fn point(gib: u64, steered: bool, slower: f64) -> SizePoint {
        SizePoint {
            dram: Bytes(gib << 30),
            tier: SizeTier { steered, compressed: false },
            slower_percent: slower,
            ci_low: Some(slower - 1.0),
            ci_high: Some(slower + 1.0),
            compressed_dram: None,
            cpu_percent: None,
        }
    }

    fn answer(points: Vec<SizePoint>, tiers: Vec<TierAnswer>) -> SizeAnswer {
        SizeAnswer {
            program: "app".into(),
            metric: "wall".into(),
            need: Bytes(4 << 30),
            within_percent: 5.0,
            compressibility: None,
            points,
            tiers,
            enough: Some(Bytes(2 << 30)),
            enough_plain: None,
            saves: Some(Bytes(2 << 30)),
        }
    }

    fn tier(steered: bool, compressed: bool, gib: Option<u64>) -> TierAnswer {
        let enough = gib.map(|gib| Bytes(gib << 30));
        TierAnswer { tier: SizeTier { steered, compressed }, enough, unresolved: false, compressed_dram: None }
    }

    #[test]
    fn budgets_are_listed_with_bars() {
        let points = vec![point(1, true, 100.0), point(1, false, 900.0), point(2, true, 2.0)];
        let mut answer = answer(points, vec![tier(true, false, Some(2)), tier(false, false, None)]);
        let text = size(&answer, &STYLE);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("app uses 4GiB and needs 2GiB of DRAM to be within 5 % of full speed"), "{text}");
        let bar = |line: &str| line.chars().rev().take_while(|c| *c == '-').count();
        assert!(lines[1].starts_with("with the kernel's own swap none of these budgets is sufficient"), "{text}");
        for words in ["steered", "1GiB", "25 %", "+100 %", "+99.0 % to +101 %"] {
            assert!(lines[5].contains(words), "{words}: {text}");
        }
        assert_eq!((bar(lines[6]), bar(lines[5])), (24, 7), "{text}");
        assert!(lines[3].contains("  time  ") && !text.contains("CPU time") && !text.contains("compressed"), "{text}");
        answer.metric = "tps".into();
        let rate = size(&answer, &STYLE);
        assert!(rate.contains("  slowdown (tps)  ") && !rate.contains("time"), "{rate}");
    }

    #[test]
    fn compressed_budgets_are_listed_with_their_costs() {
        let compressed = SizePoint {
            tier: SizeTier { steered: true, compressed: true },
            compressed_dram: Some(Bytes(300 << 20)),
            cpu_percent: Some(12.0),
            ..point(2, true, 2.0)
        };
        let points = vec![point(2, true, 60.0), compressed];
        let text = size(&answer(points, vec![tier(true, false, None), tier(true, true, Some(2))]), &STYLE);
        assert!(text.contains("without compression none of these budgets is sufficient"), "{text}");
        let row = text.lines().find(|line| line.starts_with("steered, compressed")).expect("a row");
        let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells[1..4], ["2GiB", "300MiB", "50 %"], "{text}");
        assert!(row.contains("+12.0 %"), "{text}");
    }
}
