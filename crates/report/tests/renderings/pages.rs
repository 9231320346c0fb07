//! The HTML report: content, escaping, size and reproducibility.

use model::analysis::compare::compare_table;
use model::values::id_set::{CpuId, NodeId};
use model::values::record::{ImportedRow, ImportedTable};
use model::values::trial::CpuTime;
use model::values::units::Nanos;
use model::values::workload::Better;
use report::html::{ReportPage, RunSection, TableSection, render};

use crate::fixture::{Run, Shape, finished, hostile, run, run_of};

fn section(run: &Run) -> RunSection<'_> {
    RunSection {
        record: &run.record,
        finding: &run.finding,
        comparison: run.comparison.as_ref(),
        answer: None,
        size: None,
        map: None,
        invalid: &run.invalid,
    }
}

fn page<'a>(runs: Vec<RunSection<'a>>, tables: Vec<TableSection<'a>>) -> ReportPage<'a> {
    ReportPage { runs, tables, generated_by: "nearfar 0.1.0".into(), ..ReportPage::default() }
}

fn published() -> ImportedTable {
    let row = |test: &str, better, values| ImportedRow {
        test: test.into(),
        metric: "throughput".into(),
        unit: "lps".into(),
        better,
        values,
        published_change_percent: None,
        samples: Vec::new(),
    };
    ImportedTable {
        name: "ryzen-2600-ccx".into(),
        columns: vec!["6-core-2ccx".into(), "6-thread-1ccx".into()],
        rows: vec![
            row("dhrystone", Better::Higher, vec![Some(267_065_871.8), Some(177_565_964.9)]),
            row("execl", Better::Higher, vec![Some(24743.5), None]),
        ],
        notes: Vec::new(),
    }
}

#[test]
fn a_report_of_a_run_and_an_imported_table() {
    let (run, table) = (run(), published());
    let comparison = compare_table(&table, None).unwrap();
    let tables = vec![TableSection { table: &table, comparison: &comparison }];
    insta::assert_snapshot!(render(&page(vec![section(&run)], tables)));
}

#[test]
fn cpu_load_is_shown_for_disk_requests_only() {
    let mut run = run_of(&Shape { name: "disk", placements: 2, blocks: 6, with_failures: false, compared: false });
    for trial in &mut run.trials {
        let times =
            |user, irq, idle| CpuTime { user: Nanos(user), irq: Nanos(irq), idle: Nanos(idle), ..CpuTime::default() };
        trial.outcome.evidence.cpu_times = [(CpuId(0), times(50, 25, 25)), (CpuId(7), times(0, 0, 9))].into();
    }
    let rendered = |run: &Run| render(&page(vec![section(run)], Vec::new()));
    let again = |run: Run| finished(run.record, run.trials, false);
    let mut run = again(run);
    assert!(!rendered(&run).contains("strips loads"), "other workloads show it only on request");
    run.record.plan.workloads.iter_mut().for_each(|spec| spec.metrics[0].unit = "IO/s".into());
    let run = again(run);
    let html = rendered(&run);
    assert!(html.contains("strips loads"));
    assert!(html.contains("CPU 0 75 %"), "the text alternative");
    let rows = html.matches("<td class=\"number\">7</td><td class=\"number\">0.0</td>").count();
    assert_eq!(rows, run.finding.cells.len(), "and the table");
}

#[test]
fn memory_is_shown_by_node_on_machines_with_several_nodes() {
    let mut run = run_of(&Shape { name: "disk", placements: 2, blocks: 6, with_failures: false, compared: false });
    for trial in &mut run.trials {
        trial.outcome.evidence.thread_bindings.clear();
        trial.outcome.evidence.pages = [(NodeId(0), 300)].into();
        trial.outcome.evidence.file_pages = [(NodeId(1), 100)].into();
    }
    let allowed = |run: Run, nodes: &[u32]| {
        let mut run = finished(run.record, run.trials, false);
        run.record.machine.topology.allowed_nodes = nodes.iter().copied().map(NodeId).collect();
        run
    };
    let run = allowed(run, &[0]);
    let rendered = |run: &Run| render(&page(vec![section(run)], Vec::new()));
    assert!(!rendered(&run).contains("memory on each node"));
    let html = rendered(&allowed(run, &[0, 1]));
    assert!(html.contains("node 0 75 %, node 1 25 %."), "the text alternative");
    assert!(html.contains("other files %"), "the table");
}

#[test]
fn equal_input_gives_equal_bytes() {
    assert_eq!(render(&page(vec![section(&run())], Vec::new())), render(&page(vec![section(&run())], Vec::new())));
}

#[test]
fn page_fetches_nothing_and_has_one_script() {
    let html = render(&page(vec![section(&run())], Vec::new()));
    let script = format!("<script>{}</script>\n</body>", report::html::SCRIPT);
    assert_eq!(html.matches(&script).count(), 1, "verbatim, so that a server can allow it by its hash");
    let html = html.replace(&script, "");
    for forbidden in
        ["fetch(", "XMLHttpRequest", "WebSocket", "EventSource", "import(", "eval", "innerHTML", "localStorage"]
    {
        assert!(!report::html::SCRIPT.contains(forbidden), "{forbidden}");
    }
    let without_names = html.replace("http://www.w3.org/2000/svg", "");
    for forbidden in
        ["http:", "https:", "<script", "<link", "<iframe", "@import", "url(", " src=", "onload", "javascript:"]
    {
        assert!(!without_names.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn file_allows_only_its_script() {
    let html = render(&page(vec![section(&run())], Vec::new()));
    let policy = report::html::security_policy(&[report::html::SCRIPT]);
    let element = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}; form-action 'none'\">");
    let (head, _) = html.split_once("<style>").expect("the page has a style sheet");
    assert_eq!(head.matches(&element).count(), 1, "{head}");
}

/// Names, parameters, reasons and settings are escaped.
#[test]
fn user_text_cannot_become_markup() {
    let run = hostile();
    let html = render(&page(vec![section(&run)], Vec::new()));
    assert_eq!(html.matches("<script").count(), 1, "a name became an element");
    let html = html.replace(&format!("<script>{}</script>", report::html::SCRIPT), "");
    assert!(!html.contains('\u{1b}'), "a control character came through");
    assert!(html.contains("&#60;script&#62;") || html.contains("&lt;script&gt;"));
    // A quote inside an attribute would end it, so the number of elements is checked.
    let elements: std::collections::BTreeSet<&str> = html
        .split('<')
        .skip(1)
        .filter_map(|rest| rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '/' || c == '!')).next())
        .collect();
    assert!(!elements.contains("script") && !elements.contains("img"), "{elements:?}");
    assert!(!html.contains("aria-label=\"<"), "an attribute holds markup");
}

#[test]
fn simulated_runs_are_marked_at_the_top_and_in_their_sections() {
    let mut run = run();
    run.record.simulated = Some("ryzen5-2600.xml:7".into());
    let html = render(&page(vec![section(&run)], Vec::new()));
    assert!(html.contains("<p class=\"stamp\"><strong>Simulated.</strong>"));
    assert!(html.contains("SIMULATED on ryzen5-2600.xml:7"));
    assert!(html.contains("nearfar run ccx.toml --seed 42 --sim ryzen5-2600.xml:7"));
    run.record.simulated = None;
    assert!(!render(&page(vec![section(&run)], Vec::new())).to_lowercase().contains("simulated"));
}

/// A hundred thousand samples in few cells, which are thinned, and in many cells, whose tables are truncated.
#[test]
fn a_hundred_thousand_samples_stay_below_three_megabytes() {
    for (placements, blocks, bytes_max) in [(4, 8_400, 200_000), (1_000, 34, 3_000_000)] {
        let run = run_of(&Shape { name: "large", placements, blocks, with_failures: false, compared: false });
        let samples: usize = run.finding.cells.iter().map(|cell| cell.metrics[0].samples.len()).sum();
        assert!(samples >= 100_000);
        let html = render(&page(vec![section(&run)], Vec::new()));
        assert!(html.len() < bytes_max, "{} bytes for {placements} placements", html.len());
        assert!(html.contains("<details>"));
    }
}

#[test]
fn thinned_figure_states_that_it_is_thinned() {
    let run = run_of(&Shape { name: "long", placements: 2, blocks: 3_000, with_failures: false, compared: false });
    let html = render(&page(vec![section(&run)], Vec::new()));
    assert!(html.contains("Of up to 3000 samples per placement, at most 400 are drawn"));
    let short = run_of(&Shape { name: "short", placements: 2, blocks: 12, with_failures: false, compared: false });
    assert!(!render(&page(vec![section(&short)], Vec::new())).contains("are drawn"));
}

#[test]
fn machine_of_a_second_run_is_not_drawn_again() {
    let run = run();
    let html = render(&page(vec![section(&run), section(&run)], Vec::new()));
    assert_eq!(html.matches("The machine of run 3f9c2a7b11d04e58, shown there.").count(), 1);
    assert!(html.contains("href=\"#run-2\"") && html.contains("id=\"run-2\""));
}

#[test]
fn empty_report_is_a_valid_page() {
    let html = render(&ReportPage::default());
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
}

/// The links of the contents are the headings of the page, in their order, and every link has a target.
#[test]
fn contents_link_to_every_section() {
    let (run, table) = (run(), published());
    let comparison = compare_table(&table, None).unwrap();
    let tables = vec![TableSection { table: &table, comparison: &comparison }];
    let html = render(&page(vec![section(&run), section(&run)], tables));
    let (_, rest) = html.split_once("<nav class=\"contents\"").expect("the page has contents");
    let (contents, main) = rest.split_once("</nav>").expect("they end");
    let linked: Vec<&str> = texts(contents, "<a href=\"#");
    let mut headings: Vec<&str> = texts(main, "<h");
    headings.retain(|heading| !heading.is_empty());
    assert!(linked.len() > 20, "{linked:?}");
    assert_eq!(linked, headings);
    for target in html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert_eq!(html.matches(&format!(" id=\"{target}\"")).count(), 1, "{target}");
    }
}

/// The texts of the elements whose tags begin like this.
fn texts<'a>(html: &'a str, tag: &str) -> Vec<&'a str> {
    let elements = html.split(tag).skip(1).filter_map(|rest| rest.split_once('>'));
    elements.filter_map(|(_, text)| text.split('<').next()).map(str::trim).collect()
}
