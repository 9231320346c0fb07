//! Tables for the terminal, as Markdown and CSV, and the JSON contract.

use insta::{assert_json_snapshot, assert_snapshot};
use model::placements::placement::{CommandLines, PolicyResult};
use model::values::comparison::Comparison;
use model::values::plan::{Plan, StoppingRule};
use model::values::record::{EndReason, RunId, RunRecord, RunSummary, VerdictCounts};
use model::values::units::Nanos;
use model::values::workload::Better;
use report::number::Digits;
use report::table::{self, Metrics, PolicyLines};
use report::{TextStyle, json};

use crate::fixture::{self, Run, Shape, run, run_of};

const LOOK: TextStyle = TextStyle { width: 80, ascii: false, colour: false };
const WIDE: TextStyle = TextStyle { width: 120, ..LOOK };

fn comparison(run: &Run) -> &Comparison {
    run.comparison.as_ref().unwrap()
}

#[test]
fn results() {
    let run = run();
    assert_snapshot!(table::run(&run.record, &run.finding, Metrics::Main, &LOOK));
}

#[test]
fn passes_have_columns_for_best_and_mean() {
    let shape = Shape { name: "passes", placements: 2, blocks: 5, with_failures: false, compared: false };
    let run = run_of(&shape);
    let plan = &run.record.plan;
    let shown = |max: u32| {
        let repeat = StoppingRule { min: max, max, ..plan.repeat.clone() };
        let record = RunRecord { plan: Plan { repeat, ..plan.clone() }, ..run.record.clone() };
        let finding = model::analysis::finding::summarise(&record.plan, &run.trials);
        table::run(&record, &finding, Metrics::Main, &WIDE)
    };
    let head = |text: String| text.lines().find(|line| line.starts_with("placement")).map(str::to_string);
    let columns = |max| head(shown(max)).unwrap().split_whitespace().map(String::from).collect::<Vec<_>>();
    let (passes, others) = (columns(5), columns(6));
    assert!(passes.len() == others.len() + 2 && !others.iter().any(|title| ["best", "mean"].contains(&title.as_str())));
    assert!(passes.windows(3).any(|titles| titles == ["interval", "best", "mean"]), "{passes:?}");
    for metric in run.finding.cells.iter().filter_map(|cell| cell.metrics.first()) {
        let samples = || metric.samples.iter().copied();
        let best =
            if metric.better == Better::Higher { samples().reduce(f64::max) } else { samples().reduce(f64::min) };
        assert_eq!((metric.best, metric.mean), (best, Some(samples().sum::<f64>() / 5.0)));
    }
}

#[test]
fn columns_of_thread_counts_have_a_noun() {
    let run = run();
    let mut compared = comparison(&run).clone();
    compared.columns = ["1", "2"].map(String::from).to_vec();
    (compared.by, compared.baseline) = ("threads".into(), "1".into());
    compared.rows.iter_mut().for_each(|row| row.values.clear());
    let text = table::comparison(&compared, &WIDE);
    assert!(text.contains("1 thread (baseline)  2 threads"), "{text}");
}

#[test]
fn results_of_all_metrics_in_ascii() {
    let run = run();
    let text = table::run(&run.record, &run.finding, Metrics::All, &TextStyle { ascii: true, ..LOOK });
    assert!(text.is_ascii());
    assert_snapshot!(text);
}

#[test]
fn colours_only_repeat_the_text() {
    let run = run();
    let plain =
        table::run(&run.record, &run.finding, Metrics::Main, &LOOK) + &table::comparison(comparison(&run), &LOOK);
    let style = TextStyle { colour: true, ..LOOK };
    let coloured =
        table::run(&run.record, &run.finding, Metrics::Main, &style) + &table::comparison(comparison(&run), &style);
    assert!(!plain.contains('\u{1b}') && coloured.contains("\u{1b}[32m"));
    let mut bare = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        bare += before;
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(bare + rest, plain);
}

#[test]
fn simulated_run_is_marked_in_every_format() {
    let mut run = run();
    run.record.simulated = Some("ryzen5-2600.xml:7".into());
    let texts = [
        table::run(&run.record, &run.finding, Metrics::Main, &LOOK),
        table::run_markdown(&run.record, &run.finding, Metrics::Main),
        table::run_csv(&run.record, &run.finding),
        json::run(&run.record, &run.finding, &[]).to_string(),
    ];
    for text in texts {
        assert!(text.contains("ryzen5-2600.xml:7"), "{text}");
    }
}

#[test]
fn a_comparison_on_a_narrow_terminal() {
    assert_snapshot!(table::comparison(comparison(&run()), &LOOK));
}

#[test]
fn a_comparison_on_a_wide_terminal() {
    assert_snapshot!(table::comparison(comparison(&run()), &WIDE));
}

#[test]
fn a_comparison_as_markdown() {
    assert_snapshot!(table::comparison_markdown(comparison(&run())));
}

/// Every cell repeated `2 of 2 trials suspect, baseline 2 of 2 trials suspect`.
#[test]
fn suspect_figures_are_marked_and_explained_once() {
    let run = run();
    let mut comparison = comparison(&run).clone();
    for value in comparison.rows.iter_mut().flat_map(|row| row.values.values_mut()) {
        value.suspect = value.samples;
    }
    let values: usize = comparison.rows.iter().map(|row| row.values.len()).sum();
    let terminal = |style| table::comparison(&comparison, style);
    let written = [
        terminal(&LOOK),
        terminal(&WIDE),
        table::comparison_markdown(&comparison),
        table::comparison_html(&comparison, Digits::default()),
    ];
    for text in written.map(|text| text.replace(['\n', '\u{a0}'], " ")) {
        // The note has another mark.
        assert!(text.matches('*').count() > values, "{values} values: {text}");
        assert!(!text.contains("trials suspect"), "{text}");
        assert_eq!(text.matches("suspect trials, which were disturbed").count(), 1, "{text}");
        assert_eq!(text.matches("* marks figures that rest mostly on them").count(), 1, "{text}");
    }
}

#[test]
fn a_comparison_as_csv() {
    assert_snapshot!(table::comparison_csv(comparison(&run())));
}

#[test]
fn results_as_markdown() {
    let run = run();
    assert_snapshot!(table::run_markdown(&run.record, &run.finding, Metrics::Main));
}

#[test]
fn results_as_csv() {
    let run = run();
    assert_snapshot!(table::run_csv(&run.record, &run.finding));
}

/// Commas, quotes and line feeds in a name do not shift columns.
#[test]
fn csv_quotes_special_characters() {
    let mut run = run();
    run.finding.cells[0].test = "a,b\"c\nd".into();
    let text = table::run_csv(&run.record, &run.finding);
    assert!(text.contains(",\"a,b\"\"c\nd\",stream,"), "{text}");
}

#[test]
fn trials() {
    let run = run();
    assert_snapshot!(table::trials(&run.record, &run.trials[..32], &LOOK));
}

#[test]
fn trials_on_a_wide_terminal() {
    let run = run();
    assert_snapshot!(table::trials(&run.record, &run.trials[48..54], &WIDE));
}

#[test]
fn runs_plans_and_lists() {
    let line = RunSummary {
        id: RunId("3f9c2a7b11d04e58".into()),
        experiment: "ccx".into(),
        host: Some("ryzen-desk".into()),
        simulated: None,
        smoke: false,
        started_unix_ms: 1_768_000_000_000,
        ended: Some(EndReason::Precise),
        cells: 12,
        fingerprint: "8d1b6f02c3e94a75".into(),
        trials: 156,
        counted: 144,
        verdicts: VerdictCounts { valid: 140, suspect: 4, invalid: 0 },
    };
    let simulated = RunSummary { simulated: Some("ryzen5-2600.xml:7".into()), ended: None, ..line.clone() };
    let lines = [line, simulated];
    assert_snapshot!("runs", table::runs(&lines, &LOOK));
    assert_json_snapshot!("runs_json", json::runs(&lines, &[]));
    let record = run().record;
    assert_snapshot!("plan", table::plan(&record.plan, 156, Nanos(165_000_000_000), &LOOK));
    assert_snapshot!("workloads", table::workloads(&fixture::specs(), &LOOK));
    let experiments = [("ccx".to_string(), record.plan.question)];
    assert_snapshot!("experiments", table::experiments(&experiments, &LOOK));
}

#[test]
fn placements_with_their_lines() {
    let made = fixture::placements(4);
    let offer = |index: usize, same_as: Option<&str>| PolicyResult {
        policy: made[index].name.clone(),
        placement: Ok(made[index].clone()),
        same_as: same_as.map(Into::into),
    };
    let offers = [
        offer(1, None),
        offer(2, Some("one-core")),
        PolicyResult {
            policy: "remote".into(),
            placement: Err("this machine has one memory node".into()),
            same_as: None,
        },
    ];
    let lines = CommandLines {
        taskset: Some("taskset -c 0-2,6-8 CMD".into()),
        systemd: Some("[Service]\nCPUAffinity=0-2 6-8".into()),
        ..CommandLines::default()
    };
    let shown = [
        PolicyLines { offer: &offers[0], lines: Some(lines) },
        PolicyLines { offer: &offers[1], lines: None },
        PolicyLines { offer: &offers[2], lines: None },
    ];
    assert_snapshot!(table::placements(&shown, &LOOK));
    assert_json_snapshot!(json::placements(&shown)["placements"][2]);
}

#[test]
fn the_json_of_a_run_keeps_its_contract() {
    let run = run();
    let json = json::run(&run.record, &run.finding, &[]);
    let cell = &json["cells"][1];
    for field in ["workload", "parameters", "placement", "metrics", "verdicts"] {
        assert!(cell.get(field).is_some(), "{field}");
    }
    for field in ["name", "unit", "better", "median", "ci_low", "ci_high", "samples"] {
        assert!(cell["metrics"][0].get(field).is_some(), "{field}");
    }
    assert_eq!(cell["verdicts"], serde_json::json!({ "valid": 11, "suspect": 1, "invalid": 0 }));
    assert_json_snapshot!(json["run"]);
    assert_json_snapshot!(cell["reasons"]);
}

#[test]
fn the_json_of_trials_keeps_its_contract() {
    let run = run();
    let mut json = json::trials(&run.record, &run.trials);
    assert_eq!(json["trials"].as_array().unwrap().len(), run.trials.len());
    let trial = &mut json["trials"][50];
    assert_eq!(trial["evidence"]["wall"], 1_002_000_000);
    trial["evidence"] = "(model's)".into();
    assert_json_snapshot!(trial);
}

#[test]
fn the_json_of_a_comparison_keeps_its_contract() {
    let run = run();
    let json = json::comparison(comparison(&run));
    assert_json_snapshot!((&json["baseline"], &json["rows"][2], &json["geomean"][0]));
}

/// Tables fit for any names; only numbers and unbreakable text may be wider.
#[test]
fn lines_of_tables_fit_the_terminal() {
    let run = run_of(&Shape { name: "many", placements: 9, blocks: 3, with_failures: true, compared: true });
    for width in [80, 100, 120, 160] {
        let style = TextStyle { width, ..LOOK };
        let texts = [
            table::run(&run.record, &run.finding, Metrics::All, &style),
            table::comparison(comparison(&run), &style),
            table::trials(&run.record, &run.trials, &style),
            table::workloads(&fixture::specs(), &style),
            table::plan(&run.record.plan, 1, Nanos(1), &style),
        ];
        for text in texts {
            let longest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
            assert!(longest.chars().count() <= width, "on {width} columns:\n{longest}");
        }
    }
}

/// User-provided names cannot control the terminal or break a Markdown table.
#[test]
fn hostile_names_are_escaped() {
    let run = fixture::hostile();
    let text = table::run(&run.record, &run.finding, Metrics::All, &LOOK)
        + &table::comparison(comparison(&run), &LOOK)
        + &table::trials(&run.record, &run.trials, &LOOK)
        + &report::map::text(&run.record.machine.topology, Some(&run.record.machine.settings), &LOOK);
    assert!(!text.contains('\u{1b}'));
    let markdown = table::comparison_markdown(comparison(&run));
    assert!(!markdown.contains("<script"));
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    let lines: Vec<&str> = markdown.lines().take_while(|line| !line.is_empty()).collect();
    assert!(lines.iter().all(|line| bars(line) == bars(lines[0])), "{markdown}");
}
