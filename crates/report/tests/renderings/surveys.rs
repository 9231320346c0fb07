//! Surveys of many machines as text and HTML, including escaping.

use model::analysis::survey::{
    Association, LevelChange, Machine, MachineClass, MachineScore, OutlierSide, RunTime, SeriesPoint, Survey, Test,
};
use model::values::comparison::SuspectCount;
use model::values::stamp::Stamp;
use model::values::workload::Better;
use report::TextStyle;
use report::html::{ReportPage, render};

const DAY_MS: u64 = 24 * 3600 * 1000;

fn moment(day: u64) -> RunTime {
    RunTime { run: format!("run{day}"), unix_ms: 1_772_323_500_000 + day * DAY_MS }
}

/// Nine trials, of which seven may be suspect.
fn counts(are_suspect: bool) -> SuspectCount {
    SuspectCount { suspect: if are_suspect { 7 } else { 0 }, trials: 9 }
}

fn parting(value: &str) -> Association {
    Association {
        key: "cpu.microcode".into(),
        value: value.into(),
        here: 1,
        here_of: 1,
        elsewhere: 0,
        elsewhere_of: 7,
        p_value: 0.125,
    }
}

/// Eight machines, of which the second is slow and the third became so.
fn survey(name: fn(usize) -> String) -> Survey {
    let change = |at: usize| if at == 1 { 11.5 } else { at as f64 / 10.0 - 0.4 };
    let standing = |at: usize| MachineScore {
        machine: name(at),
        median: Some(5.0 + change(at) / 20.0),
        change_percent: change(at),
        ci_low: Some(change(at) - 0.5),
        ci_high: Some(change(at) + 0.6),
        p_value: Some(0.5),
        stands_out: (at == 1).then_some(OutlierSide::Worse),
        counts: counts(at == 1),
    };
    let machine = |at: usize| Machine {
        name: name(at),
        runs: if at == 1 { 1 } else { 8 },
        first_unix_ms: moment(0).unix_ms,
        last_unix_ms: moment(7).unix_ms,
        stands_out: standing(at).stands_out,
        counts: standing(at).counts,
    };
    let test = Test {
        test: "queens".into(),
        metric: "time".into(),
        unit: "s".into(),
        better: Better::Lower,
        median: Some(5.0),
        judged: true,
        values: (0..8).map(standing).collect(),
    };
    let point = |day: u64| {
        let RunTime { run, unix_ms } = moment(day);
        SeriesPoint { run, unix_ms, change_percent: if day < 5 { 0.1 } else { 6.3 }, counts: counts(day > 5) }
    };
    let change = LevelChange {
        machine: Some(name(2)),
        test: "queens".into(),
        metric: "time".into(),
        unit: "s".into(),
        better: Better::Lower,
        change_percent: 6.2,
        ci_low: Some(5.0),
        ci_high: Some(7.4),
        worth: OutlierSide::Worse,
        p_value: 0.001,
        before: moment(4),
        after: moment(5),
        earliest: moment(3),
        latest: moment(5),
        points: (0..8).map(point).collect(),
        facts: vec![parting(&name(9))],
    };
    let class = MachineClass {
        name: name(8),
        machines: (0..8).map(machine).collect(),
        not_judged: None,
        tests: vec![test],
        facts_of_worse: vec![parting(&name(9))],
        facts_of_better: Vec::new(),
        since_unix_ms: None,
        changes: vec![change],
    };
    Survey { false_alarms_percent: 5.0, class_by: Vec::new(), stamp: Stamp::default(), classes: vec![class] }
}

fn page(survey: &Survey) -> String {
    render(&ReportPage { survey: Some(survey), generated_by: "nearfar 0.1.0".into(), ..ReportPage::default() })
}

#[test]
fn text_states_outliers_changes_times_and_facts() {
    let survey = survey(|at| format!("node-{at}"));
    let text = report::survey::text(&survey, &TextStyle { width: 400, ascii: true, colour: false });
    for words in [
        "node-8: 8 machines\n",
        "node-1 takes 11.5 % more time than the others for queens, 95 % interval 11.0 to 12.1 %; measured once only, so measure it again; 7 of 9 trials suspect\n",
        "may differ for this reason: node-1 7 of 9; --strict leaves them out\n",
        "node-2 takes 6.2 % more time than before for queens, 95 % interval 5.0 to 7.4 %, since run run5 of 2026-03-06 00:05 UTC",
        "or another between 2026-03-04 00:05 UTC and 2026-03-06 00:05 UTC (95 %); 14 of 27 trials suspect; changed with it: cpu.microcode node-9\n",
        "At most 5 of a hundred surveys",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let row = text.lines().find(|line| line.starts_with("cpu.microcode")).expect("the fact has a line");
    assert_eq!(row.split_whitespace().collect::<Vec<_>>().join(" "), "cpu.microcode node-9 1 of 1 0 of 7 12 %");
    let markdown = report::survey::markdown(&survey);
    assert!(markdown.contains("| node-1 | 1 | 2026-03-08 00:05 UTC | +11.5 % (11.0 to 12.1) | worse |"), "{markdown}");
}

#[test]
fn figures_have_descriptions_and_worse_is_to_the_left() {
    let html = page(&survey(|at| format!("node-{at}")));
    for title in ["node-8: machines by tests", "node-1 against its class", "node-2: queens over time"] {
        assert!(html.contains(&format!("role=\"img\" aria-label=\"{title}\"")), "{title}");
    }
    // More time is worse: orange, framed, and the dot is left of the line for no difference.
    assert_eq!(html.matches("<rect class=\"heat worse\"").count(), 5, "of eight, four take more time, and the legend");
    assert!(html.contains("node-1, queens: +11.5 %, 95 % interval 11.0 to 12.1 %, outlier, worse"));
    let after = |html: &str, from: &str| -> f64 {
        let rest = &html[html.find(from).expect("the mark exists") + from.len()..];
        rest[..rest.find('"').expect("it ends")].parse().expect("a number")
    };
    let against = &html[html.find("aria-label=\"node-1 against its class\"").expect("the figure exists")..];
    let zero = &against[against.find("class=\"step\" d=\"M").expect("a line for no difference")..];
    let zero: f64 =
        zero["class=\"step\" d=\"M".len()..].split(' ').next().and_then(|x| x.parse().ok()).expect("a place");
    assert!(after(against, "<circle class=\"point\" cx=\"") < zero - 100.0);
}

#[test]
fn user_text_on_the_page_of_a_survey_is_escaped() {
    let html = page(&survey(|at| format!("<script>\u{1b}[31m\"onload=x{at}")));
    assert_eq!(html.matches("<script").count(), 1, "a name became an element");
    assert!(!html.contains('\u{1b}'));
    assert!(!html.contains("\"onload=x1"), "an attribute ended early");
}
