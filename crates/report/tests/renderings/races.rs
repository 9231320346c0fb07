//! The result of a race: its sentences, ranking and command lines for every kind of result.

use insta::{assert_json_snapshot, assert_snapshot};
use model::analysis::place::{Claim, Metric, PlaceResult, PlacementText, RankingRow};
use model::placements::placement::CommandLines;
use model::stats::racing::{ConfirmPlan, ConfirmResult, Confirmation, Effect, RankClaim, State};
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

fn ranked(cell: usize, placed: PlacementText, word: RankClaim) -> RankingRow {
    let effect = |mean: f64| Effect {
        mean_percent: mean,
        median_percent: mean,
        interval: Interval::between(mean - 1.5, mean + 1.75),
    };
    let against = (word != RankClaim::Leads).then(|| effect(4.0 * cell as f64));
    RankingRow { placed, cell, blocks: 14 - cell as u32, word, effect: against, against_kernel: Some(effect(-11.0)) }
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
        two_modes: false,
        verdict: ConfirmResult::Faster,
    };
    PlaceResult {
        claim: Claim::Better,
        search: State::Resolved,
        reference_failed: None,
        metric: Metric { name: "wall".into(), unit: "s".into(), better: Better::Lower },
        winner: Some(standings[0].placed.clone()),
        ties: standings[1..3].iter().map(|one| one.placed.clone()).collect(),
        versus_kernel: Some(confirmed),
        trials: 212,
        came_to_nothing: 9,
        seconds: 192.5,
        candidates: standings.len(),
        raw_placements: "4095".into(),
        threads_searched: true,
        lines: Some(CommandLines { taskset: Some("taskset -c 0-2 ./app -t 3".into()), ..CommandLines::default() }),
        second_lines: None,
        standings,
    }
}

/// The text before the ranking.
fn words(run: &Run, answer: &PlaceResult) -> String {
    let text = table::answer(&run.record, answer, &LOOK);
    text.split("\n\n").next().unwrap().to_string()
}

#[test]
fn race_with_a_winner_is_rendered() {
    let (run, answer) = (run(), answer());
    assert_snapshot!("race_text", table::answer(&run.record, &answer, &LOOK));
    assert_json_snapshot!("race_json", json::answer(&run.record, &answer));
    assert_snapshot!("race_ranking", table::ranking(&answer, 5, &LOOK).join("\n"));
    assert_snapshot!("race_standing", table::standing(&answer, 12, 3));
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
        (answer.claim, answer.lines) = (claim, None);
    };
    let texts = [
        with(&|answer| undecided(answer, Claim::NoDifferenceSeen)),
        with(&|answer| {
            undecided(answer, Claim::Inconclusive);
            answer.search = State::OutOfBudget;
        }),
        with(&|answer| (answer.claim, answer.versus_kernel) = (Claim::KernelIsBest, None)),
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
fn pair_of_commands_has_lines_for_both() {
    let run = run();
    let mut answer = answer();
    answer.standings[0].placed.second = "3-5".into();
    answer.winner = Some(answer.standings[0].placed.clone());
    answer.second_lines =
        Some(CommandLines { taskset: Some("taskset -c 3-5 ./server".into()), ..CommandLines::default() });
    let text = table::answer(&run.record, &answer, &LOOK);
    assert!(text.contains("compact is best"), "{text}");
    assert!(text.contains("To apply it to the measured command:\n    taskset:\n      taskset -c 0-2 ./app"), "{text}");
    assert!(text.contains("To apply it to the server:\n    taskset:\n      taskset -c 3-5 ./server"), "{text}");
}

#[test]
fn race_is_rendered_as_html() {
    let (run, answer) = (run(), answer());
    let section = RunSection {
        record: &run.record,
        finding: &run.finding,
        comparison: None,
        answer: Some(&answer),
        size: None,
        map: None,
        trials: &run.trials,
    };
    let page = ReportPage { runs: vec![section], generated_by: "nearfar".into(), ..ReportPage::default() };
    let html = render(&page);
    let begin = html.find("<h3>Answer</h3>").unwrap();
    let end = html.find("<h3>Results</h3>").unwrap();
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
