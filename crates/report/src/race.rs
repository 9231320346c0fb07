//! The result of a race in sentences and as a table, for the terminal and for HTML pages.

use model::analysis::place::{Claim, PlaceResult, PlacementText, RankingRow};
use model::placements::placement::CommandLines;
use model::stats::racing::{Effect, RankClaim, State};
use model::values::units::Nanos;
use model::values::workload::Better;

use crate::grid::{Grid, GridCell};
use crate::number::{percent_interval, percent_size, signed_percent};
use crate::style::{Tone, clean};

/// Maximum number of ties named; the others are counted.
const TIES_NAMED: usize = 6;

/// The first sentence: the best placement, or that there is none.
pub(crate) fn headline(answer: &PlaceResult) -> (String, Tone) {
    let winner = answer.winner.as_ref().map_or(String::new(), |winner| clean(&winner.placement));
    match answer.claim {
        Claim::Better => {
            // Better than the baseline is confirmed; best of all only if no other candidate is likely to be better.
            let word = if answer.search.is_resolved() { "best" } else { "better than leaving it to the kernel" };
            (format!("{winner} is {word}: {}", against(answer, "than the kernel's choice")), Tone::Good)
        }
        Claim::KernelIsBest => ("No placement is better than leaving it to the kernel.".into(), Tone::Strong),
        Claim::NoDifferenceSeen => (
            format!("No placement is better than leaving it to the kernel: {}", against(answer, "for the best")),
            Tone::Strong,
        ),
        Claim::Inconclusive => (undecided(answer, &winner), Tone::Warning),
        Claim::NoReference => {
            let reason =
                answer.reference_failed.as_ref().map_or(String::new(), |reason| format!(": {}", clean(reason)));
            (format!("No baseline: the command produced no valid result without a placement{reason}"), Tone::Bad)
        }
        Claim::Unfinished if answer.winner.is_none() => {
            ("The race has not ended and has no result yet".into(), Tone::Warning)
        }
        Claim::Unfinished => (format!("The race has not ended: {winner} leads, not confirmed"), Tone::Warning),
    }
}

fn undecided(answer: &PlaceResult, winner: &str) -> String {
    match (&answer.winner, answer.versus_kernel) {
        (None, _) => {
            format!("Not decided: the budget does not allow one block of {} candidates", answer.standings.len())
        }
        (_, None) => format!("Not decided: {winner} leads the race, not confirmed"),
        (_, Some(_)) => {
            let fresh = against(answer, "than the kernel's choice");
            format!("Not decided: {winner} led the race, but the confirming pairs show {fresh}")
        }
    }
}

/// The name of a metric in sentences.
fn metric_words(name: &str) -> String {
    match name {
        "wall" => "wall time".into(),
        "value" | "value-higher" => "metric".into(),
        name => clean(name).replace('-', " "),
    }
}

/// The meaning and the cost of the result, and what would improve it.
pub(crate) fn sentences(answer: &PlaceResult) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some(winner) = &answer.winner {
        sentences.push(format!("{}: {}", clean(&winner.placement), clean(&winner.reason)));
    }
    sentences.extend(ties(answer));
    sentences.extend(search(answer));
    sentences.extend(unmeasured(answer));
    sentences.extend(failed_trials(answer));
    if answer.versus_kernel.is_some_and(|versus| versus.two_modes) {
        sentences.push(
            "Mean and median disagree: the values of one of the two are bimodal; 'nearfar show --trials' lists them."
                .into(),
        );
    }
    if answer.claim == Claim::Inconclusive {
        sentences.push(
            "To decide: a larger --budget or --max-trials, fewer candidates (--only, --max-cpus), a longer-running command, or a less disturbed machine."
                .into(),
        );
    }
    sentences.push(cost(answer));
    sentences
}

/// The size of the difference with its interval: `12.3 % lower wall than the kernel's choice, 95 % interval 11.1 to
/// 13.5, from 40 fresh pairs`.
fn against(answer: &PlaceResult, other: &str) -> String {
    let Some(confirmed) = answer.versus_kernel else { return "not confirmed".into() };
    let change = confirmed.change_percent;
    let word = if change < 0.0 { "lower" } else { "higher" };
    let (low, high) = (confirmed.ci_low, confirmed.ci_high);
    // The word gives the direction, so no sign is needed unless the interval contains both.
    let interval = match (low < 0.0, high < 0.0) {
        (true, true) => percent_interval(-high, -low, change),
        (true, false) => format!("{} % change", percent_interval(low, high, change)),
        (false, _) => percent_interval(low, high, change),
    };
    let (size, metric) = (percent_size(change), metric_words(&answer.metric.name));
    format!("{size} % {word} {metric} {other}, 95 % interval {interval}, from {} fresh pairs", confirmed.pairs)
}

fn ties(answer: &PlaceResult) -> Option<String> {
    if answer.ties.is_empty() {
        return None;
    }
    let named: Vec<String> = answer.ties.iter().take(TIES_NAMED).map(|tie| clean(&tie.placement)).collect();
    let more = answer.ties.len().saturating_sub(TIES_NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!("Not shown to be worse than the leader: {}{more}", named.join("; ")))
}

fn search(answer: &PlaceResult) -> Option<String> {
    let why = match answer.search {
        State::Racing | State::Resolved | State::OnlyOneLeft | State::NoReference => return None,
        State::OutOfBlocks => "the maximum number of blocks was run",
        State::OutOfBudget => "the budget or the number of trials is used up",
        State::Stopped => "it was stopped",
        State::NobodyLeft => "no candidate could be measured completely",
    };
    Some(format!("The search is not resolved, {why}: another candidate may be better."))
}

/// Candidates that could not be measured, which might have been better.
fn unmeasured(answer: &PlaceResult) -> Option<String> {
    let could_not = |one: &&RankingRow| matches!(one.word, RankClaim::Failed(_) | RankClaim::NotProven(_));
    let count = answer.standings.iter().filter(could_not).count();
    let first = answer.standings.iter().find(could_not)?;
    let (RankClaim::Failed(why) | RankClaim::NotProven(why)) = &first.word else { return None };
    let name = clean(&first.placed.placement);
    Some(match count {
        1 => format!("Could not be measured: {name} ({})", clean(why)),
        count => format!("{count} candidates could not be measured, {name} for one ({})", clean(why)),
    })
}

/// Failed trials of candidates that were not dropped, which would otherwise not be visible.
fn failed_trials(answer: &PlaceResult) -> Option<String> {
    let (count, all) = (answer.came_to_nothing, answer.trials);
    let hint = "'nearfar show --trials' lists the reasons";
    (count > 0).then(|| format!("{count} of {all} trials failed, timed out, or had an unverified placement; {hint}"))
}

fn cost(answer: &PlaceResult) -> String {
    let time = Nanos((answer.seconds * 1e9) as u64);
    let (trials, candidates) = (answer.trials, answer.candidates);
    format!("{trials} trials in {time}; {candidates} candidates stand for {} placements", clean(&answer.raw_placements))
}

/// The command lines, and their purpose.
pub(crate) fn lines_of(answer: &PlaceResult) -> Vec<(&'static str, &CommandLines)> {
    let two = answer.standings.iter().any(|one| !one.placed.second.is_empty());
    let whose = if two { "To apply it to the measured command" } else { "To apply it" };
    let lines = [(whose, &answer.lines), ("To apply it to the server", &answer.second_lines)];
    lines.into_iter().filter_map(|(whose, lines)| Some((whose, lines.as_ref()?))).collect()
}

/// All candidates, best first.
pub(crate) fn grid(answer: &PlaceResult) -> Grid {
    let titles = [
        "placement",
        "threads",
        "cpus",
        "memory",
        "server cpus",
        "blocks",
        "against the leader",
        "against kernel",
        "verdict",
    ];
    let mut grid = Grid::new(&titles).numbers(&["threads", "blocks", "against the leader", "against kernel"]);
    for one in &answer.standings {
        let (verdict, tone) = word(one);
        grid.rows.push(vec![
            GridCell::new(&one.placed.placement, tone),
            GridCell::plain(&one.placed.threads.to_string()),
            GridCell::plain(&cpus(&one.placed)),
            GridCell::plain(&one.placed.memory),
            GridCell::plain(&one.placed.second),
            GridCell::plain(&one.blocks.to_string()),
            GridCell::plain(&effect(one.effect)),
            GridCell::plain(&effect(one.against_kernel)),
            GridCell::new(&verdict, tone),
        ]);
    }
    let of_any = |differs: fn(&PlacementText) -> bool| answer.standings.iter().any(|one| differs(&one.placed));
    let columns = [
        ("threads", answer.threads_searched),
        ("memory", of_any(|placed| placed.memory != "kernel")),
        ("server cpus", of_any(|placed| !placed.second.is_empty())),
    ];
    // Columns with the same value in every row are omitted.
    columns.into_iter().filter(|(_, says)| !says).fold(grid, |grid, (title, _)| grid.without(title))
}

fn cpus(placed: &PlacementText) -> String {
    if placed.cpus.is_empty() { "any".into() } else { placed.cpus.replace(',', ", ") }
}

fn effect(effect: Option<Effect>) -> String {
    let Some(effect) = effect else { return String::new() };
    match effect.interval {
        Some(interval) => {
            let ends = percent_interval(interval.low, interval.high, effect.mean_percent);
            format!("{} [{ends}]", signed_percent(effect.mean_percent))
        }
        None => signed_percent(effect.mean_percent),
    }
}

/// The status of a candidate with its tone, for a separate line.
pub(crate) fn verdict(one: &RankingRow, better: Better) -> (String, Tone) {
    let (word, tone) = word(one);
    let worse = if better == Better::Lower { "more" } else { "less" };
    let text = match &one.word {
        RankClaim::Worse { by } => format!("{word}: {} % {worse}", percent_interval(by.low, by.high, by.high)),
        RankClaim::NotSeenToDiffer { at_most: Some(at_most) } => {
            format!("{word}, at most {} % worse", percent_size(*at_most))
        }
        RankClaim::TooSlow { times: Some(times) } => format!("{word}: {times:.1} times"),
        _ => word,
    };
    (text, tone)
}

/// The status for a table with a column for the effect.
fn word(one: &RankingRow) -> (String, Tone) {
    match &one.word {
        RankClaim::Leads => ("leads".into(), Tone::Good),
        RankClaim::Worse { .. } => ("worse".into(), Tone::Quiet),
        RankClaim::NotSeenToDiffer { at_most: None } => ("too few blocks".into(), Tone::Plain),
        RankClaim::NotSeenToDiffer { .. } => ("no difference seen".into(), Tone::Plain),
        RankClaim::TooSlow { .. } => ("too slow, aborted".into(), Tone::Quiet),
        RankClaim::NotProven(reason) => (format!("not verified: {}", clean(reason)), Tone::Bad),
        RankClaim::Failed(reason) => (format!("failed: {}", clean(reason)), Tone::Bad),
        RankClaim::NotRaced => ("not raced".into(), Tone::Quiet),
    }
}
