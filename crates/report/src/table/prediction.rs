//! The prediction for a machine on which nothing was measured, for the terminal.

use model::analysis::place::{PlacePrediction, PredictedRow};
use model::values::record::RunRecord;
use model::values::workload::Better;

use super::race::line;
use crate::grid::{Grid, GridCell};
use crate::race::{cpus, likely_text, metric_words, missed_text, predicted_range};
use crate::stamp;
use crate::style::{TextStyle, Tone, clean};

/// Maximum number of candidates in the table; JSON has all.
const SHOWN: usize = 15;

/// The prediction with its stamps, reasons and ranking. `machine` names the other machine; `all` lists all candidates.
pub fn prediction(
    machine: &str,
    record: &RunRecord,
    predicted: &PlacePrediction,
    all: bool,
    style: &TextStyle,
) -> String {
    let mut stamps = vec![stamp::predicted(machine, record)];
    stamps.extend(stamp::of_run(record));
    let (text, tone) = headline(predicted);
    let mut out = stamp::terminal(&stamps, style) + &line(&text, tone, style);
    for sentence in sentences(predicted) {
        out += &line(&sentence, Tone::Plain, style);
    }
    let shown = if all { predicted.ranking.len() } else { SHOWN };
    out += &format!("\n{}", grid(predicted, shown).terminal(style));
    let left_out = predicted.ranking.len().saturating_sub(shown);
    if left_out > 0 {
        out += &line(&format!("{left_out} more candidates; --all and --format json list them"), Tone::Quiet, style);
    }
    out
}

fn headline(predicted: &PlacePrediction) -> (String, Tone) {
    if predicted.best == predicted.baseline {
        return ("No placement is predicted to be better than the kernel's choice".into(), Tone::Strong);
    }
    let (best, metric) = (clean(&predicted.best.placement), metric_words(&predicted.metric.name));
    let range = predicted_range(&predicted.change);
    let change = format!("90 % range of the {metric} {range} against the kernel's choice");
    let is_clear = match predicted.metric.better {
        Better::Lower => predicted.change.high < 0.0,
        Better::Higher => predicted.change.low > 0.0,
    };
    if is_clear {
        (format!("{best} is predicted to be better: {change}"), Tone::Good)
    } else {
        (
            format!("No placement is clearly predicted to be better. {best} has the best prediction: {change}"),
            Tone::Strong,
        )
    }
}

fn sentences(predicted: &PlacePrediction) -> Vec<String> {
    let mut sentences = vec![format!("{}: {}", clean(&predicted.best.placement), clean(&predicted.best.reason))];
    sentences.push(missed_text(predicted.missed_percent, predicted.missed_percent_90));
    sentences.extend(likely_text(&predicted.likely));
    let like = &predicted.like;
    sentences.push(format!(
        "From {} trials of {} placements; the simulated programs deviate from them by {:.1} % (root mean square), and about {:.0} of {} programs have weight.",
        like.trials, like.candidates, predicted.misfit_percent, predicted.effective_programs, predicted.programs
    ));
    sentences
}

fn grid(predicted: &PlacePrediction, shown: usize) -> Grid {
    let titles = ["placement", "threads", "cpus", "memory", "server cpus", "predicted", "best"];
    let mut grid = Grid::new(&titles).numbers(&["threads", "predicted", "best"]);
    for row in predicted.ranking.iter().take(shown) {
        let range = row.predicted.as_ref().map_or("baseline".into(), predicted_range);
        grid.rows.push(vec![
            GridCell::plain(&row.placed.placement),
            GridCell::plain(&row.placed.threads.to_string()),
            GridCell::plain(&cpus(&row.placed)),
            GridCell::plain(&row.placed.memory),
            GridCell::plain(&row.placed.second),
            GridCell::plain(&range),
            GridCell::plain(&format!("{:.0} %", row.best_percent)),
        ]);
    }
    let of_any = |has: fn(&PredictedRow) -> bool| predicted.ranking.iter().any(has);
    let columns = [
        ("threads", predicted.threads_searched),
        ("memory", of_any(|row| row.placed.memory != "kernel")),
        ("server cpus", of_any(|row| !row.placed.second.is_empty())),
    ];
    columns.into_iter().filter(|(_, says)| !says).fold(grid, |grid, (title, _)| grid.without(title))
}
