//! The result of a search or race in sentences and as a table, for the terminal and for HTML pages.

use model::analysis::place::{
    Claim, FileOutcome, FileRace, FileUse, LikelyCandidate, MeasuredValue, Metric, PercentRange, PlaceResult,
    PlacementText, ProgramFailures, RankingRow,
};
use model::placements::placement::CommandLines;
use model::stats::racing::{Confirmation, Effect, PairValues, RankClaim, State};
use model::values::units::Nanos;
use model::values::workload::Better;

use crate::grid::{Grid, GridCell};
use crate::number::{Scale, interval, percent_interval, percent_size, signed_percent};
use crate::style::{Tone, clean};

/// Maximum number of ties named; the others are counted.
const TIES_NAMED: usize = 6;

/// Smallest percentage that is stated of predictions.
const LEAST_PERCENT: f64 = 0.1;

/// Maximum number of candidates in the table that were not run; JSON has all.
const NOT_RUN_SHOWN: usize = 10;

/// The first sentence: the best placement, or that there is none.
pub(crate) fn headline(answer: &PlaceResult) -> (String, Tone) {
    let winner = answer.winner.as_ref().map_or(String::new(), |winner| clean(&winner.placement));
    match answer.claim {
        _ if let Some(text) = better_files(answer, &winner) => (text, Tone::Good),
        Claim::Better => (better(answer, &winner), Tone::Good),
        Claim::Likely => {
            let change = against(answer, &than_baseline(answer));
            (format!("{winner} is probably better, not proven: {change}"), Tone::Good)
        }
        Claim::KernelIsBest => (kernel_is_best(answer), Tone::Strong),
        Claim::NoDifferenceSeen => (no_difference(answer), Tone::Strong),
        Claim::Provisional => (provisional(answer, &winner), Tone::Warning),
        Claim::Inconclusive => (undecided(answer, &winner), Tone::Warning),
        Claim::ProgramFails => {
            let failures = answer.program_failures.as_ref().map_or(String::new(), failures);
            (format!("No answer: {failures}"), Tone::Bad)
        }
        Claim::NoReference => {
            let reason =
                answer.reference_failed.as_ref().map_or(String::new(), |reason| format!(": {}", clean(reason)));
            (format!("No baseline: the command produced no valid result without a placement{reason}"), Tone::Bad)
        }
        Claim::Unfinished if answer.winner.is_none() => {
            ("The search has not ended and has no result yet".into(), Tone::Warning)
        }
        Claim::Unfinished => (format!("The search has not ended: {winner} leads, not confirmed"), Tone::Warning),
    }
}

/// The headline of a winner of which the files are a part: its gain over the winner of the search, and the gain of that one.
fn better_files(answer: &PlaceResult, winner: &str) -> Option<String> {
    let FileOutcome::Better { plain, versus_plain } = &answer.file_race.as_ref()?.outcome else { return None };
    let plain = clean(&plain.placement);
    let change = change(&answer.metric, versus_plain, &format!("than {plain}"));
    Some(format!("{winner} is better: {change}; {plain} has {}", against(answer, &than_baseline(answer))))
}

/// The headline of a proven gain. A gain of another number of threads is not one of placement.
fn better(answer: &PlaceResult, winner: &str) -> String {
    let change = against(answer, &than_baseline(answer));
    if let Some(effect) = answer.thread_effect.as_ref().filter(|effect| effect.is_all) {
        let noun = if effect.threads == 1 { "thread is" } else { "threads are" };
        return format!(
            "{} {noun} better than {}, without a placement: {change}",
            effect.threads, effect.baseline_threads
        );
    }
    // Better than the baseline is confirmed; best of all only if no other candidate is likely to be better.
    let is_best = answer.search.is_resolved() || !is_kernel(&answer.baseline);
    let word = if is_best { "best" } else { "better than leaving it to the kernel" };
    format!("{winner} is {word}: {change}")
}

fn kernel_is_best(answer: &PlaceResult) -> String {
    match (&answer.challenger, answer.versus_kernel) {
        (Some(challenger), Some(_)) => {
            let change = against(answer, &than_baseline(answer));
            format!(
                "{} is best: {}, the best other candidate, has {change}",
                if is_kernel(&answer.baseline) { "The kernel's choice".into() } else { baseline(answer) },
                clean(&challenger.placement)
            )
        }
        _ => format!("No placement was found to be better than {}.", baseline(answer)),
    }
}

fn no_difference(answer: &PlaceResult) -> String {
    let Some(excluded) = answer.excluded_gain_percent.map(percent_size) else { return "No difference seen.".into() };
    let by =
        if answer.outlook.is_some() { "search and fresh pairs together exclude" } else { "the fresh pairs exclude" };
    let name = answer.challenger.as_ref().or(answer.winner.as_ref()).map_or(String::new(), |one| clean(&one.placement));
    let change = against(answer, &than_baseline(answer));
    format!(
        "No difference seen; {by} at 95 % a gain of more than {excluded} %. {name}, the best candidate, has {change}"
    )
}

fn provisional(answer: &PlaceResult, winner: &str) -> String {
    let baseline = answer.winner.as_ref() == Some(&answer.baseline);
    let predicted = answer.outlook.as_ref().map(|outlook| outlook.winner).filter(|_| !baseline);
    let predicted = predicted
        .map_or(String::new(), |range| format!(": predicted {} against the kernel's choice", predicted_range(&range)));
    let is = if answer.outlook.is_some() { "is the model's favourite" } else { "leads the race" };
    format!("Provisional: {winner} {is}{predicted}; the budget did not allow any fresh pairs")
}

/// The baseline in sentences: `the kernel's choice`, or the winner of a search whose files are raced.
fn baseline(answer: &PlaceResult) -> String {
    if is_kernel(&answer.baseline) { "the kernel's choice".into() } else { clean(&answer.baseline.placement) }
}

/// Whether a placement binds nothing, or only the load, as the user asked for.
fn is_kernel(placement: &PlacementText) -> bool {
    placement.cpus.is_empty() || placement.placement == "kernel"
}

/// `than the kernel's choice`, with its number of threads if the number is searched.
fn than_baseline(answer: &PlaceResult) -> String {
    if answer.threads_searched {
        format!("than {} with {} threads", baseline(answer), answer.baseline.threads)
    } else {
        format!("than {}", baseline(answer))
    }
}

/// `-3.1 to +2.0 %`.
pub(crate) fn predicted_range(range: &PercentRange) -> String {
    format!("{} to {}", signed_percent(range.low).trim_end_matches(" %"), signed_percent(range.high))
}

fn undecided(answer: &PlaceResult, winner: &str) -> String {
    match (&answer.winner, answer.versus_kernel) {
        (None, _) if answer.standings.iter().all(|one| one.blocks == 0) => match answer.trials {
            0 | 1 => "Not decided: the budget is shorter than one trial".into(),
            trials => format!("Not decided: the budget allowed {trials} trials, too few for a complete block"),
        },
        (None, _) => {
            format!("Not decided: the budget does not allow one block of {} candidates", answer.standings.len())
        }
        (_, None) => format!("Not decided: {winner} leads the race, not confirmed"),
        (_, Some(_)) => {
            let led = answer.challenger.as_ref().map_or_else(|| winner.to_string(), |one| clean(&one.placement));
            let fresh = against(answer, &than_baseline(answer));
            format!("Not decided: {led} led the search, but the confirming pairs show {fresh}")
        }
    }
}

/// The name of a metric in sentences.
pub(crate) fn metric_words(name: &str) -> String {
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
    sentences.extend(thread_effect(answer));
    sentences.extend(missed(answer));
    sentences.extend(likely(answer));
    sentences.extend(ties(answer));
    sentences.extend(file_race(answer));
    sentences.extend(search(answer));
    sentences.extend(unmeasured(answer));
    sentences.extend(failed_trials(answer));
    sentences.extend(
        answer
            .program_failures
            .as_ref()
            .filter(|failures| !failures.most)
            .map(|one| format!("Unreliable: {}", failures(one))),
    );
    sentences.extend(suspect(answer));
    if answer.versus_kernel.is_some_and(|versus| versus.two_modes) {
        sentences.push(
            "Mean and median disagree: the values of one of the two are bimodal; 'nearfar show --trials' lists them."
                .into(),
        );
    }
    if matches!(answer.claim, Claim::Inconclusive | Claim::Provisional) {
        sentences.push(
            "To decide: a larger --budget or --max-trials, fewer candidates (--only, --max-cpus), a longer-running command, or a less disturbed machine."
                .into(),
        );
    }
    sentences.push(cost(answer));
    sentences
}

/// The size of the difference with its interval: `12.3 % lower wall time than the kernel's choice, 95 % interval 11.1 to
/// 13.5, from 40 fresh pairs (4.210 s against 4.800 s)`.
fn against(answer: &PlaceResult, other: &str) -> String {
    match &answer.versus_kernel {
        Some(confirmed) => change(&answer.metric, confirmed, other),
        None => "not confirmed".into(),
    }
}

fn change(metric: &Metric, confirmed: &Confirmation, other: &str) -> String {
    let change = confirmed.change_percent;
    let word = if change < 0.0 { "lower" } else { "higher" };
    let (low, high) = (confirmed.ci_low, confirmed.ci_high);
    // The word gives the direction, so no sign is needed unless the interval contains both.
    let interval = match (low < 0.0, high < 0.0) {
        (true, true) => percent_interval(-high, -low, change),
        (true, false) => format!("{} % change", percent_interval(low, high, change)),
        (false, _) => percent_interval(low, high, change),
    };
    let values = confirmed.values.map_or(String::new(), |values| format!(" ({})", pair_values(metric, &values)));
    let (size, metric, pairs) = (percent_size(change), metric_words(&metric.name), confirmed.pairs);
    format!("{size} % {word} {metric} {other}, 95 % interval {interval}, from {pairs} fresh pairs{values}")
}

/// `4.210 s [4.1 to 4.3]`.
pub(crate) fn measured(metric: &Metric, value: &MeasuredValue) -> String {
    let interval = median_interval(value).map_or(String::new(), |interval| format!(" [{interval}]"));
    format!("{}{interval}", median(metric, value))
}

fn median(metric: &Metric, value: &MeasuredValue) -> String {
    format!("{}{}", Scale::of(value.median).write(value.median), unit(metric))
}

/// The 95 % interval, with the digits of the median.
fn median_interval(value: &MeasuredValue) -> Option<String> {
    interval(value.ci_low, value.ci_high, Scale::of(value.median))
}

/// The unit of a metric after a space, if it has one.
fn unit(metric: &Metric) -> String {
    if metric.unit.is_empty() { String::new() } else { format!(" {}", clean(&metric.unit)) }
}

/// `4.210 s against 4.800 s`.
fn pair_values(metric: &Metric, values: &PairValues) -> String {
    let scale = Scale::of(values.baseline);
    let unit = unit(metric);
    format!("{}{unit} against {}{unit}", scale.write(values.leader), scale.write(values.baseline))
}

/// The part of the gain that the number of threads explains.
fn thread_effect(answer: &PlaceResult) -> Option<String> {
    let effect = answer.thread_effect.as_ref()?;
    let (threads, baseline) = (effect.threads, effect.baseline_threads);
    if effect.is_all {
        return Some("The whole change comes from the number of threads; no placement was found to add to it.".into());
    }
    Some(match &effect.alone {
        Some(alone) => format!(
            "Part of the change comes from the number of threads: {threads} instead of {baseline} without a placement are predicted to change {} by {}.",
            metric_words(&answer.metric.name),
            predicted_range(alone)
        ),
        None => format!("Part of the change may come from the number of threads, {threads} instead of {baseline}."),
    })
}

/// The expected distance from the best candidate, because not every candidate was run.
fn missed(answer: &PlaceResult) -> Option<String> {
    let outlook = answer.outlook.as_ref()?;
    if let (Some(mean), Some(most)) = (outlook.missed_percent, outlook.missed_percent_90) {
        return Some(missed_text(mean, most));
    }
    let left_out = outlook.left_out_percent?;
    Some(format!(
        "The search left out candidates that are the best with a probability of {} %.",
        percent_size(left_out)
    ))
}

/// `What may be missed: 0.8 % on average, 9 in 10 times less than 2 %.`
pub(crate) fn missed_text(mean: f64, most: f64) -> String {
    // Smaller figures would claim more than a few trials support.
    let (mean, most) = (percent_size(mean.max(LEAST_PERCENT)), percent_size(most.max(LEAST_PERCENT)));
    format!("What may be missed: {mean} % on average, 9 in 10 times less than {most} %.")
}

/// The most likely other candidates.
fn likely(answer: &PlaceResult) -> Option<String> {
    likely_text(&answer.outlook.as_ref()?.likely)
}

/// The names of likely candidates with their probabilities; `None` if there are none.
pub(crate) fn likely_text(likely: &[LikelyCandidate]) -> Option<String> {
    let one = |one: &LikelyCandidate| format!("{} ({:.0} %)", clean(&one.placed.placement), one.probability_percent);
    let named: Vec<String> = likely.iter().map(one).collect();
    (!named.is_empty()).then(|| format!("May be the best instead, with this probability: {}", named.join("; ")))
}

fn failures(failures: &ProgramFailures) -> String {
    format!("the command failed in {} of {} runs, last: {}", failures.failed, failures.runs, clean(&failures.last))
}

fn suspect(answer: &PlaceResult) -> Option<String> {
    let (count, all) = (answer.suspect, answer.trials);
    let reason =
        answer.suspect_reason.as_ref().map_or(String::new(), |reason| format!(", most often: {}", clean(reason)));
    (count > 0).then(|| format!("{count} of {all} trials are suspect and count{reason}"))
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

/// Other placements of the files that the command uses.
fn file_race(answer: &PlaceResult) -> Option<String> {
    let FileRace { in_use, outcome } = answer.file_race.as_ref()?;
    let used = file_use(*in_use);
    Some(match outcome {
        FileOutcome::Better { .. } => format!("Placements of its files were raced, because {used}."),
        FileOutcome::NotBetter { rows } => {
            let row = |row: &RankingRow| {
                let change = effect(row.against_kernel);
                let change = if change.is_empty() { word(row).0 } else { change };
                format!("{}: {change}", clean(&row.placed.placement))
            };
            let rows: Vec<String> = rows.iter().map(row).collect();
            format!(
                "Because {used}, other placements of files were raced; none was found to be better ({})",
                rows.join("; ")
            )
        }
        FileOutcome::TooShort { budget_seconds } => {
            let budget = Nanos((budget_seconds * 1e9) as u64);
            format!(
                "Other placements of its files may be better, because {used}; to race them, too, use --budget {budget} or more."
            )
        }
    })
}

/// `45 % of the pages that it maps are of files`.
fn file_use(in_use: FileUse) -> String {
    if in_use.data_percent >= 1.0 && !in_use.reads {
        format!("{:.0} % of the pages that it maps are of files", in_use.data_percent)
    } else if in_use.data_matters() {
        "it reads large files".into()
    } else {
        format!("{:.0} % of the pages that it maps are program text on other nodes", in_use.remote_text_percent)
    }
}

fn search(answer: &PlaceResult) -> Option<String> {
    let why = match answer.search {
        // The sentence about the distance from the best candidate replaces it.
        _ if answer.outlook.as_ref().is_some_and(|outlook| outlook.missed_percent.is_some()) => return None,
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
    let trials = if trials == 1 { "1 trial".into() } else { format!("{trials} trials") };
    format!("{trials} in {time}; {candidates} candidates stand for {} placements", clean(&answer.raw_placements))
}

/// The command lines, and their purpose.
pub(crate) fn lines_of(answer: &PlaceResult) -> Vec<(&'static str, &CommandLines)> {
    let two = answer.standings.iter().any(|one| !one.placed.second.is_empty());
    let whose = if two { "To apply it to the load" } else { "To apply it" };
    let lines = [("To apply it to the server", &answer.second_lines), (whose, &answer.lines)];
    lines.into_iter().filter_map(|(whose, lines)| Some((whose, lines.as_ref()?))).collect()
}

/// The title of the column with the intervals of the medians, which narrow terminals omit.
pub(crate) const INTERVAL: &str = "95 % interval";

/// The candidates, best first; of those that were not run, only the best unless `all`. Also returns the number of those
/// that are left out.
pub(crate) fn grid(answer: &PlaceResult, all: bool) -> (Grid, usize) {
    let titles = [
        "placement",
        "threads",
        "cpus",
        "memory",
        "server cpus",
        "blocks",
        "median",
        INTERVAL,
        "predicted",
        "against the leader",
        "against kernel",
        "verdict",
    ];
    let numbers = ["threads", "blocks", "median", INTERVAL, "predicted", "against the leader", "against kernel"];
    let mut grid = Grid::new(&titles).numbers(&numbers);
    let mut not_run = 0;
    for one in &answer.standings {
        not_run += usize::from(is_predicted_only(one));
        if is_predicted_only(one) && not_run > NOT_RUN_SHOWN && !all {
            continue;
        }
        let (verdict, tone) = word(one);
        grid.rows.push(vec![
            GridCell::new(&one.placed.placement, tone),
            GridCell::plain(&one.placed.threads.to_string()),
            GridCell::plain(&cpus(&one.placed)),
            GridCell::plain(&one.placed.memory),
            GridCell::plain(&one.placed.second),
            GridCell::plain(&one.blocks.to_string()),
            GridCell::plain(&one.measured.as_ref().map_or(String::new(), |value| median(&answer.metric, value))),
            GridCell::plain(&one.measured.as_ref().and_then(median_interval).unwrap_or_default()),
            GridCell::plain(&one.predicted.as_ref().map_or(String::new(), predicted_range)),
            GridCell::plain(&effect(one.effect)),
            GridCell::plain(&effect(one.against_kernel)),
            GridCell::new(&verdict, tone),
        ]);
    }
    let of_any = |has: fn(&RankingRow) -> bool| answer.standings.iter().any(has);
    let columns = [
        ("threads", answer.threads_searched),
        ("memory", of_any(|one| one.placed.memory != "kernel")),
        ("server cpus", of_any(|one| !one.placed.second.is_empty())),
        ("median", of_any(|one| one.measured.is_some())),
        (INTERVAL, of_any(|one| one.measured.is_some_and(|value| value.ci_low.is_some()))),
        ("predicted", of_any(|one| one.predicted.is_some())),
        ("against the leader", of_any(|one| one.effect.is_some())),
        ("against kernel", of_any(|one| one.against_kernel.is_some())),
    ];
    // Columns with the same value in every row are omitted.
    let grid = columns.into_iter().filter(|(_, says)| !says).fold(grid, |grid, (title, _)| grid.without(title));
    (grid, if all { 0 } else { not_run.saturating_sub(NOT_RUN_SHOWN) })
}

/// The title of the table.
pub(crate) fn grid_title(answer: &PlaceResult) -> &'static str {
    if answer.outlook.is_some() {
        "Selection data, in percent of the kernel's choice: they decided what to run, so they overstate the leader."
    } else {
        "Selection data: they decided what to run, so they overstate the leader."
    }
}

/// Whether a candidate was not run and has a prediction.
fn is_predicted_only(one: &RankingRow) -> bool {
    one.word == RankClaim::NotRaced && one.predicted.is_some()
}

/// The list of CPUs of a placement.
pub(crate) fn cpus(placed: &PlacementText) -> String {
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
        RankClaim::Searched => ("run in the search".into(), Tone::Plain),
        RankClaim::Paired => ("run in fresh pairs".into(), Tone::Plain),
        RankClaim::NotRaced if one.predicted.is_some() => ("predicted, not run".into(), Tone::Quiet),
        RankClaim::NotRaced => ("not raced".into(), Tone::Quiet),
    }
}
