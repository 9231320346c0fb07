//! The result of a race: its sentences, ranking and command lines for every kind of result.

use insta::{assert_json_snapshot, assert_snapshot};
use model::analysis::place::{
    BudgetForecast, Claim, CurvePoint, FileOutcome, FileRace, FileUse, LikelyCandidate, MeasuredValue, Metric, Outlook,
    PercentRange, PlaceResult, PlacementText, ProgramFailures, RankingRow, ThreadEffect,
};
use model::placements::placement::CommandLines;
use model::stats::racing::{ConfirmPlan, ConfirmResult, Confirmation, Effect, PairValues, RankClaim, State};
use model::stats::statistics::Interval;
use model::values::plan::ReductionStep;
use model::values::workload::Better;
use report::html::{ReportPage, RunSection, render};
use report::{TextStyle, json, table};

use crate::fixture::{Run, run};

const LOOK: TextStyle = TextStyle { width: 100, ascii: false, colour: false };

fn interval(low: f64, high: f64) -> Interval {
    Interval::between(low, high).unwrap()
}

fn placed(placement: &str, cpus: &str, threads: usize) -> PlacementText {
    let reason = format!("{threads} threads somewhere");
    let (placement, cpus) = (placement.to_string(), cpus.to_string());
    PlacementText { placement, reason, threads, cpus, memory: "kernel".into(), second: String::new() }
}

fn measured(median: f64, word: &RankClaim) -> Option<MeasuredValue> {
    let (ci_low, ci_high) = (Some(median - 0.125), Some(median + 0.25));
    let has_values = !matches!(word, RankClaim::NotRaced | RankClaim::Failed(_) | RankClaim::NotProven(_));
    has_values.then_some(MeasuredValue { median, ci_low, ci_high, trials: 9 })
}

fn ranked(cell: usize, placed: PlacementText, word: RankClaim) -> RankingRow {
    let effect = |mean: f64| Effect {
        mean_percent: mean,
        median_percent: mean,
        interval: Interval::between(mean - 1.5, mean + 1.75),
    };
    let against = (word != RankClaim::Leads).then(|| effect(4.0 * cell as f64));
    RankingRow {
        placed,
        cell,
        blocks: 14u32.saturating_sub(cell as u32),
        measured: measured(4.0 + 0.25 * cell as f64, &word),
        word,
        effect: against,
        against_kernel: Some(effect(-11.0)),
        predicted: None,
        measured_percent: None,
        best_percent: None,
    }
}

/// A result with a candidate for every claim.
fn answer() -> PlaceResult {
    let standings = vec![
        ranked(3, placed("compact", "0-2", 3), RankClaim::Leads),
        ranked(1, placed("-C 0,3,6", "0,3,6", 3), RankClaim::NotSeenToDiffer { at_most: Some(2.6) }),
        ranked(2, placed("spread", "0,3", 2), RankClaim::NotSeenToDiffer { at_most: None }),
        ranked(0, placed("kernel", "", 12), RankClaim::Worse { by: interval(11.2, 14.0) }),
        ranked(4, placed("one-core", "0,6", 2), RankClaim::TooSlow { times: Some(2.4) }),
        ranked(
            5,
            placed("smt-pairs", "0-1,6-7", 4),
            RankClaim::NotProven("it ran on cpus 9, outside its seats".into()),
        ),
        ranked(6, placed("-C 5", "5", 1), RankClaim::Failed("it ended with status 1: <out of memory>".into())),
        ranked(7, placed("-C 4", "4", 1), RankClaim::NotRaced),
    ];
    let confirmed = Confirmation {
        pairs: 40,
        planned: ConfirmPlan { pairs: 40, half_width: 0.012 },
        change_percent: -12.3,
        ci_low: -13.5,
        ci_high: -11.1,
        median_ratio: 0.879,
        median_interval: Interval::between(0.868, 0.891),
        values: Some(PairValues { leader: 4.209, baseline: 4.8 }),
        two_modes: false,
        verdict: ConfirmResult::Faster,
    };
    PlaceResult {
        claim: Claim::Better,
        baseline: standings[3].placed.clone(),
        search: State::Resolved,
        reference_failed: None,
        metric: Metric { name: "wall".into(), unit: "s".into(), better: Better::Lower },
        winner: Some(standings[0].placed.clone()),
        challenger: Some(standings[0].placed.clone()),
        outlook: None,
        thread_effect: None,
        curve: Vec::new(),
        ties: standings[1..3].iter().map(|one| one.placed.clone()).collect(),
        versus_kernel: Some(confirmed),
        excluded_gain_percent: Some(13.5),
        trials: 212,
        came_to_nothing: 9,
        suspect: 0,
        suspect_reason: None,
        program_failures: None,
        seconds: 192.5,
        candidates: standings.len(),
        raw_placements: "4095".into(),
        threads_searched: true,
        lines: Some(CommandLines { taskset: Some("taskset -c 0-2 ./app -t 3".into()), ..CommandLines::default() }),
        second_lines: None,
        command: Some("./app -t 3".into()),
        standings,
        file_race: None,
    }
}

/// The text before the ranking.
fn words(run: &Run, answer: &PlaceResult) -> String {
    let text = table::answer(&run.record, answer, false, &LOOK);
    text.split("\n\n").next().unwrap().to_string()
}

#[test]
fn race_with_a_winner_is_rendered() {
    let (run, answer) = (run(), answer());
    assert_snapshot!("race_text", table::answer(&run.record, &answer, false, &LOOK));
    assert_json_snapshot!("race_json", json::answer(&run.record, &answer));
    assert_snapshot!("race_ranking", table::ranking(&answer, 5, &LOOK).join("\n"));
    assert_snapshot!("race_standing", table::standing(&answer, 12, Some(3)));
}

#[test]
fn every_claim_has_a_sentence() {
    let run = run();
    let with = |change: &dyn Fn(&mut PlaceResult)| {
        let mut changed = answer();
        change(&mut changed);
        words(&run, &changed)
    };
    let undecided = |answer: &mut PlaceResult, claim| {
        let versus = answer.versus_kernel.as_mut().unwrap();
        (versus.change_percent, versus.ci_low, versus.ci_high) = (-0.4, -1.3, 0.5);
        (answer.claim, answer.lines, answer.excluded_gain_percent) = (claim, None, Some(1.3));
    };
    let texts = [
        with(&|answer| undecided(answer, Claim::NoDifferenceSeen)),
        with(&|answer| {
            undecided(answer, Claim::Inconclusive);
            answer.search = State::OutOfBudget;
        }),
        with(&|answer| (answer.claim, answer.versus_kernel) = (Claim::KernelIsBest, None)),
        with(&|answer| {
            undecided(answer, Claim::KernelIsBest);
            let versus = answer.versus_kernel.as_mut().unwrap();
            (versus.change_percent, versus.ci_low, versus.ci_high) = (1.4, 0.5, 2.3);
        }),
        with(&|answer| {
            undecided(answer, Claim::Likely);
            answer.program_failures =
                Some(ProgramFailures { failed: 2, runs: 30, last: "status 1: no luck".into(), most: false });
            (answer.suspect, answer.suspect_reason) = (71, Some("other programs used".into()));
        }),
        with(&|answer| {
            (answer.claim, answer.winner, answer.ties) = (Claim::ProgramFails, None, Vec::new());
            answer.program_failures =
                Some(ProgramFailures { failed: 4, runs: 30, last: "status 1: no luck".into(), most: true });
        }),
        with(&|answer| {
            (answer.claim, answer.versus_kernel) = (Claim::Unfinished, None);
            answer.search = State::Racing;
        }),
        with(&|answer| {
            (answer.claim, answer.winner, answer.ties) = (Claim::NoReference, None, Vec::new());
            answer.reference_failed = Some("it ended with status 1".into());
        }),
        with(&|answer| {
            answer.metric = Metric { name: "value-higher".into(), unit: String::new(), better: Better::Higher };
            let confirmed = answer.versus_kernel.as_mut().unwrap();
            (confirmed.change_percent, confirmed.ci_low, confirmed.ci_high) = (14.0, 12.5, 15.6);
            confirmed.two_modes = true;
        }),
    ];
    assert_snapshot!("race_claims", texts.join("\n----\n"));
}

#[test]
fn races_of_files_are_rendered() {
    let run = run();
    let with = |in_use: FileUse, outcome: FileOutcome| {
        let mut answer = answer();
        answer.file_race = Some(FileRace { in_use, outcome });
        words(&run, &answer)
    };
    let in_use = FileUse { data_percent: 45.0, reads: false, remote_text_percent: 0.0 };
    let mut versus_plain = answer().versus_kernel.unwrap();
    (versus_plain.change_percent, versus_plain.ci_low, versus_plain.ci_high) = (-4.5, -6.0, -3.0);
    let rows = answer().standings[..2].to_vec();
    let texts = [
        with(
            in_use,
            FileOutcome::Better { plain: placed("spread", "0,3", 3).into(), versus_plain: versus_plain.into() },
        ),
        with(FileUse { reads: true, ..in_use }, FileOutcome::NotBetter { rows }),
        with(
            FileUse { data_percent: 0.0, reads: false, remote_text_percent: 12.0 },
            FileOutcome::TooShort { budget_seconds: 1530.0 },
        ),
    ];
    assert_snapshot!("race_files", texts.join("\n----\n"));
    let mut of_files = answer();
    of_files.baseline = placed("spread", "0,3", 3);
    assert!(words(&run, &of_files).contains("than spread"), "the run of the second race has another baseline");
}

/// The result of a search, with three candidates that were run and twelve that were not.
fn searched() -> PlaceResult {
    let range = |mean: f64| PercentRange { low: mean - 2.0, mean, high: mean + 2.5 };
    let row = |cell: usize, placed: PlacementText, mean: f64, word: RankClaim| {
        let ran = !matches!(word, RankClaim::NotRaced | RankClaim::Paired);
        RankingRow {
            blocks: u32::from(ran) * 4,
            effect: None,
            against_kernel: None,
            predicted: (cell != 0).then(|| range(mean)),
            measured_percent: (ran && cell != 0).then_some(mean + 0.5),
            best_percent: Some(50.0 / (cell + 1) as f64),
            ..ranked(cell, placed, word)
        }
    };
    let mut standings = vec![
        row(3, placed("compact, 3 threads", "0-2", 3), -12.0, RankClaim::Leads),
        row(1, placed("spread, 3 threads", "0,3,6", 3), -9.0, RankClaim::Searched),
        row(0, placed("kernel, 12 threads", "", 12), 0.0, RankClaim::Searched),
        row(2, placed("one-core, 2 threads", "0-1", 2), 2.0, RankClaim::Paired),
    ];
    let others = (4..16).map(|cell| {
        row(cell, placed(&format!("-C {cell}, 1 thread"), &cell.to_string(), 1), cell as f64, RankClaim::NotRaced)
    });
    standings.extend(others);
    let likely = LikelyCandidate { placed: standings[1].placed.clone(), probability_percent: 12.3 };
    PlaceResult {
        search: State::OutOfBudget,
        baseline: standings[2].placed.clone(),
        winner: Some(standings[0].placed.clone()),
        challenger: Some(standings[0].placed.clone()),
        outlook: Some(Outlook {
            missed_percent: Some(0.8),
            missed_percent_90: Some(2.0),
            winner: range(-12.0),
            likely: vec![likely],
            left_out_percent: None,
        }),
        thread_effect: Some(ThreadEffect { threads: 3, baseline_threads: 12, is_all: false, alone: Some(range(-7.0)) }),
        curve: [(7, -4.0), (14, -11.0), (20, -11.5)]
            .map(|(trials, best_percent)| CurvePoint { trials, best_percent })
            .to_vec(),
        ties: Vec::new(),
        trials: 27,
        candidates: standings.len(),
        standings,
        ..answer()
    }
}

#[test]
fn search_states_what_may_be_missed_and_what_was_not_run() {
    let (run, answer) = (run(), searched());
    assert_snapshot!("search_text", table::answer(&run.record, &answer, false, &LOOK));
    let all = table::answer(&run.record, &answer, true, &LOOK);
    assert!(all.contains("-C 15, 1 thread") && !all.contains("more candidates"), "{all}");
    let alone = |is_all, claim| {
        let mut answer = searched();
        answer.thread_effect.as_mut().unwrap().is_all = is_all;
        answer.claim = claim;
        words(&run, &answer)
    };
    let mut raced = searched();
    let outlook = raced.outlook.as_mut().unwrap();
    (outlook.missed_percent, outlook.missed_percent_90, outlook.left_out_percent) = (None, None, Some(1.2));
    let texts = [alone(true, Claim::Better), alone(false, Claim::Provisional), words(&run, &raced)];
    assert_snapshot!("search_claims", texts.join("\n----\n"));
}

/// Returns the report of a run with this result.
fn page(run: &Run, answer: &PlaceResult) -> String {
    let section = RunSection {
        record: &run.record,
        finding: &run.finding,
        comparison: None,
        answer: Some(answer),
        size: None,
        map: None,
        invalid: &run.invalid,
    };
    render(&ReportPage { runs: vec![section], generated_by: "nearfar".into(), ..ReportPage::default() })
}

#[test]
fn search_is_drawn_as_predictions_and_learning_curve() {
    let (run, answer) = (run(), searched());
    let html = page(&run, &answer);
    let begin = html.find("<h3 id=\"run-1-the-search\">").expect("there was a search");
    let part = &html[begin..html[begin..].find("<table").map_or(html.len(), |end| begin + end)];
    assert_eq!(part.matches("<figure>").count(), 2, "{part}");
    // Two candidates that were run, besides the baseline, and three points of the curve.
    assert_eq!(part.matches("class=\"point\"").count(), 2 + 3, "{part}");
    assert_eq!(part.matches("class=\"whisker\"").count(), 2, "{part}");
    assert!(part.contains("compact, 3 threads: measured -11.5") && part.contains("14 trials: -11.0"), "{part}");
}

#[test]
fn forecast_names_trials_expectation_and_firm_answer() {
    let with = |change: &dyn Fn(&mut BudgetForecast)| {
        let mut forecast = BudgetForecast {
            candidates: 420,
            trial_seconds: 10.2,
            budget_seconds: 600.0,
            trials: 58,
            pairs: 5,
            within_percent: Some(4.0),
            firm_trials: 560,
            firm_seconds: 5712.0,
            by_max_trials: false,
        };
        change(&mut forecast);
        table::forecast(&forecast).join("\n")
    };
    let texts = [
        with(&|_| {}),
        with(&|forecast| (forecast.trials, forecast.within_percent, forecast.pairs) = (12, None, 3)),
        with(&|forecast| (forecast.trials, forecast.within_percent, forecast.pairs) = (4, None, 0)),
        with(&|forecast| forecast.trials = 600),
        with(&|forecast| (forecast.trials, forecast.within_percent, forecast.by_max_trials) = (8, None, true)),
    ];
    assert_snapshot!("place_forecast", texts.join("\n----\n"));
}

#[test]
fn pair_of_commands_has_lines_for_both() {
    let run = run();
    let mut answer = answer();
    answer.standings[0].placed.second = "3-5".into();
    answer.winner = Some(answer.standings[0].placed.clone());
    answer.second_lines =
        Some(CommandLines { taskset: Some("taskset -c 3-5 ./server".into()), ..CommandLines::default() });
    let text = table::answer(&run.record, &answer, false, &LOOK);
    assert!(text.contains("compact is best"), "{text}");
    let server = text.find("To apply it to the server:\n    taskset:\n      taskset -c 3-5 ./server");
    let load = text.find("To apply it to the load:\n    taskset:\n      taskset -c 0-2 ./app");
    assert!(server.is_some() && server < load, "{text}");
}

#[test]
fn race_is_rendered_as_html() {
    let (run, answer) = (run(), answer());
    let html = page(&run, &answer);
    let begin = html.find("<h3 id=\"run-1-answer\">").unwrap();
    let end = html.find("<h3 id=\"run-1-results\">").unwrap();
    assert_snapshot!("race_page", &html[begin..end]);
    assert!(html.contains("&lt;out of memory&gt;") || html.contains("&#60;out of memory&#62;"), "nothing breaks out");
    assert!(!html.contains("<out of memory>"));
}

#[test]
fn explanations_count_down() {
    let run = run();
    let steps = [
        ReductionStep { count: Some("4095".into()), text: "sets of any size of 12 cpus".into() },
        ReductionStep { count: None, text: "equivalent: 2 parts of 3 cores".into() },
        ReductionStep { count: Some("38".into()), text: "candidates, raced together".into() },
    ];
    assert_snapshot!("race_explanation", table::explanation(&run.record.plan, &steps, &LOOK));
}
