//! The result of an experiment on a running service, as text.

use model::analysis::live::{LiveAnswer, LiveTrial};
use model::stats::switchback::{ArmId, Change, DropReason, NoClaim, Outcome};

use crate::grid::{CellKind, Grid, GridCell};
use crate::number::significant;
use crate::residency::paragraph;
use crate::style::{TextStyle, Tone, clean, with_symbol};

/// The answer, the placements, and what the figures mean.
pub fn live_trial(trial: &LiveTrial, style: &TextStyle) -> String {
    let (answer, tone) = answer(trial);
    let mut out = paragraph(&with_symbol(&answer, tone), style);
    out += &format!("\n{}", grid(trial).terminal(style));
    out += "\n";
    out += &notes(trial).iter().map(|note| paragraph(note, style)).collect::<String>();
    out
}

/// `+3.1 % [+2.0, +4.2]`.
fn change_text(change: &Change) -> String {
    let percent = |value: f64| format!("{:+.1}", 100.0 * value);
    format!("{} % [{}, {}]", percent(change.value), percent(change.interval.low), percent(change.interval.high))
}

fn name(trial: &LiveTrial, arm: ArmId) -> String {
    trial.placement(arm).map_or_else(|| "?".into(), |placement| clean(&placement.name))
}

/// The answer in words, and whether it is good news.
fn answer(trial: &LiveTrial) -> (String, Tone) {
    let subject = clean(&trial.subject);
    match &trial.answer {
        LiveAnswer::Ended(outcome) => ended(trial, &subject, outcome),
        LiveAnswer::CarriedOver { arm, carry_over } => {
            let text = format!(
                "{subject}: no claim. The rate still changed by {:+.1} % in the periods of {}, after {} s: the periods of one placement depend on the previous one",
                100.0 * carry_over.change,
                name(trial, *arm),
                significant(trial.wash_out_s.unwrap_or_default())
            );
            (text, Tone::Warning)
        }
        LiveAnswer::NotSettled { longest_period_s } => {
            let text = format!(
                "{subject}: no claim. The rate does not settle within {} s after a change of the placement",
                significant(*longest_period_s)
            );
            (text, Tone::Warning)
        }
        LiveAnswer::Stopped { reason } => (format!("{subject}: no claim: {}", clean(reason)), Tone::Warning),
    }
}

fn ended(trial: &LiveTrial, subject: &str, outcome: &Outcome) -> (String, Tone) {
    let pairs = |change: &Change| format!("{} fresh pairs of periods", change.blocks);
    match outcome {
        Outcome::Gain { arm, change } => {
            let (arm, by, pairs) = (name(trial, *arm), change_text(change), pairs(change));
            (format!("{subject}: {arm} changes its rate by {by}, in {pairs}"), Tone::Good)
        }
        Outcome::Loss { arm, change } => {
            let (arm, by, pairs) = (name(trial, *arm), change_text(change), pairs(change));
            let text = format!(
                "{subject}: no placement is better than the one found; the best of them, {arm}, changes the rate by {by}, in {pairs}"
            );
            (text, Tone::Good)
        }
        Outcome::NoDifferenceSeen { arm, change, excluded_gain } => {
            let text = format!(
                "{subject}: no difference seen between {} and the placement found: {}, in {}. A gain of more than {:.1} % is excluded",
                name(trial, *arm),
                change_text(change),
                pairs(change),
                100.0 * excluded_gain
            );
            (text, Tone::Plain)
        }
        Outcome::NoAlternatives => {
            (format!("{subject}: no claim: no other placement could be verified"), Tone::Warning)
        }
        Outcome::NoClaim { reason } => (format!("{subject}: no claim: {}", no_claim(reason)), Tone::Warning),
    }
}

fn no_claim(reason: &NoClaim) -> String {
    match reason {
        NoClaim::TooFewBlocks { .. } => format!("{reason}; a longer --budget allows more"),
        NoClaim::InvalidValue { .. } | NoClaim::OutOfRange => reason.to_string(),
    }
}

fn grid(trial: &LiveTrial) -> Grid {
    let mut grid = Grid::new(&["placement", "CPUs", "rate", "periods", "in the race", "left"])
        .numbers(&["rate", "periods", "in the race"])
        .holding(CellKind::Text, &["CPUs", "left"]);
    for (at, placement) in trial.placements.iter().enumerate() {
        let arm = ArmId(at as u32);
        let (rate, periods) = trial.rate(arm);
        let change = trial.race.iter().find(|(other, _)| *other == arm).and_then(|(_, change)| change.as_ref());
        let left = trial.dropped.iter().find(|dropped| dropped.arm == arm).map(|dropped| match dropped.reason {
            DropReason::Worse => "worse",
            DropReason::NotProven => "not verified",
            DropReason::Withdrawn => "withdrawn",
        });
        grid.rows.push(vec![
            GridCell::plain(&placement.name),
            GridCell::plain(&placement.cpus.to_string()),
            GridCell::plain(&rate.map_or_else(|| "–".into(), |rate| format!("{}/s", significant(rate)))),
            GridCell::plain(&periods.to_string()),
            GridCell::plain(&change.map_or_else(|| "–".into(), change_text)),
            GridCell::plain(left.unwrap_or_default()),
        ]);
    }
    grid
}

fn notes(trial: &LiveTrial) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Some(period), Some(wash_out)) = (trial.period_s, trial.wash_out_s) {
        notes.push(format!(
            "{}: periods of {} s, of which the first {} s do not count. Effects that take longer than a period are not seen",
            clean(&trial.metric),
            significant(period),
            significant(wash_out)
        ));
    }
    match trial.unproven() {
        0 => {}
        1 => notes.push("1 period does not count, because its placement was not verified".into()),
        more => notes.push(format!("{more} periods do not count, because their placement was not verified")),
    }
    match trial.pinned_threads {
        0 => {}
        1 => notes.push("1 thread is bound by the program itself and was not changed".into()),
        more => notes.push(format!("{more} threads are bound by the program itself and were not changed")),
    }
    notes
}
