//! Figures that the published studies computed from their raw numbers: percentages, means and efficiencies are those
//! that they printed. Known slips of the studies are named where they are tested.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/published");

fn nearfar(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.arg("--store").arg(dir.join("results.db")).args(args).env_remove("NEARFAR_STORE");
    command.output().expect("the program starts")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).replace(['\u{a0}', '\u{202f}'], " ")
}

/// Compares the columns of a published table.
fn compared(table: &str, options: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = format!("{PUBLISHED}/{table}.csv");
    text(&nearfar(dir.path(), &["import", &file]));
    text(&nearfar(dir.path(), &[&["compare", "--table", table], options].concat()))
}

fn json(table: &str, options: &[&str]) -> Value {
    serde_json::from_str(&compared(table, &[options, &["--format", "json"]].concat())).expect("JSON")
}

/// Returns the change of a test in a column, in percent.
fn change(comparison: &Value, test: &str, metric: &str, column: &str) -> f64 {
    let rows = comparison["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["test"] == test && row["metric"] == metric).expect("a row");
    row["values"][column]["change_percent"].as_f64().expect("a change")
}

/// Returns the geometric means as they are printed, with the number of tests.
fn means(comparison: &Value) -> Vec<String> {
    let mean = |mean: &Value| {
        assert!(mean["ci_low"].is_null(), "single figures have no interval: {mean}");
        let threads = mean["threads"].as_u64().map_or(String::new(), |threads| format!("x{threads} "));
        format!("{threads}{:+.2} of {}", mean["change_percent"].as_f64().expect("a change"), mean["tests"])
    };
    comparison["geomean"].as_array().expect("means").iter().map(mean).collect()
}

#[test]
fn ccx_percentages_are_those_printed() {
    let comparison = json("ryzen-2600-ccx", &[]);
    // The study compares each test with its better column.
    let cases = [
        ("dhrystone", -34),
        ("execl", -2),
        ("pipe-context-switching", -26),
        ("shell-1", -19),
        ("shell-8", -23),
        ("shell-16", -23),
        ("m-queens-17", -21),
    ];
    let text = compared("ryzen-2600-ccx", &["--digits", "2"]);
    for (test, printed) in cases {
        assert_eq!(change(&comparison, test, "throughput", "6-thread-1ccx").round() as i64, printed, "{test}");
        let line = text.lines().find(|line| line.starts_with(test)).expect("a line per test");
        assert!(line.trim_end().ends_with(&format!(" {printed} %")), "{line}");
    }
    let turned = json("ryzen-2600-ccx", &["--baseline", "6-thread-1ccx"]);
    let creation = change(&turned, "process-creation", "throughput", "6-core-2ccx");
    assert_eq!(creation.round() as i64, -13, "better in one L3 cache");
}

#[test]
fn fake_numa_means_are_those_printed() {
    assert_eq!(means(&json("fake-numa-pi5-wide", &[])), ["+15.80 of 7", "+45.98 of 8"]);
    assert_eq!(means(&json("fake-numa-pi4-wide", &[])), ["+1.96 of 7", "+8.46 of 8"]);
    let narrow = means(&json("fake-numa-pi5", &[]));
    assert_eq!(narrow[1..], ["x1 +15.80 of 7", "x4 +45.98 of 8"], "means by number of threads");
    assert_eq!(means(&json("fake-numa-pi4", &[]))[1..], ["x1 +1.96 of 7", "x4 +8.46 of 8"]);
}

#[test]
fn means_of_single_figures_are_printed_in_text_and_markdown() {
    for table in ["fake-numa-pi5", "fake-numa-pi5-wide", "fake-numa-pi4", "fake-numa-pi4-wide"] {
        let printed = if table.contains("pi5") { ["+15.80 %", "+45.98 %"] } else { ["+1.96 %", "+8.46 %"] };
        for format in ["text", "markdown"] {
            let text = compared(table, &["--format", format]);
            for mean in printed {
                assert!(text.contains(mean), "{table} {format} {mean}\n{text}");
            }
            assert!(text.contains("7 tests, single figures") && !text.contains("no difference seen"), "{text}");
        }
    }
}

#[test]
fn far_memory_efficiencies_are_those_printed() {
    let gemm = json("far-memory-gemm", &[]);
    let percent =
        |comparison: &Value, test, metric, column| format!("{:.1}", 100.0 + change(comparison, test, metric, column));
    assert_eq!(percent(&gemm, "GEMM FP32", "gflops", "expand"), "95.0");
    assert_eq!(percent(&gemm, "GEMM FP64", "gflops", "expand"), "95.8");
    let graph = json("far-memory-graph500", &[]);
    assert_eq!(percent(&graph, "Graph500", "teps", "memory-s30"), "78.3");
    // The study printed 45.8: it truncated 45.89.
    assert_eq!(percent(&graph, "Graph500", "teps", "storage-s30"), "45.9");
}

#[test]
fn openssl_ratios_follow_from_the_figures() {
    let comparison = json("boards-openssl", &["--baseline", "neo2-armbian"]);
    let cases = [
        ("AES-128-CBC 1KB w/o -evp", "r4s-armbian", 266.26),
        ("AES-128-CBC 1KB w -evp", "r4s-armbian", 134.39),
        ("AES-256-CBC 1KB w -evp", "r4s-friendlycore", 158.82),
    ];
    for (test, column, expected) in cases {
        let change = change(&comparison, test, "throughput", column);
        assert!((change - expected).abs() < 0.005, "{test} {change}");
    }
    let text = compared("boards-openssl", &["--baseline", "neo2-armbian"]);
    assert!(text.contains("2.34 times, +134 %"), "{text}");
}

/// Study A prints +43.69 % for Execl.
#[test]
fn known_slip_of_the_boards_study_is_computed_correctly() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("execl.csv");
    std::fs::write(&file, "test,metric,unit,better,one,other\nExecl Throughput,score,lps,higher,1235.9,1775.6\n")
        .expect("writable");
    text(&nearfar(dir.path(), &["import", &file.to_string_lossy()]));
    let printed = text(&nearfar(dir.path(), &["compare", "--by", "column", "--digits", "4"]));
    assert!(printed.contains("+43.67 %"), "{printed}");
    // The index knows the title of UnixBench's report.
    let index = text(&nearfar(dir.path(), &["compare", "--by", "column", "--index", "unixbench"]));
    assert!(index.contains("execl") && index.contains("no interval"), "{index}");
}

#[test]
fn tests_of_a_comparison_are_chosen_by_name() {
    let comparison = json("ryzen-2600-ccx", &["--test", "execl", "--test", "shell-1"]);
    let tests: Vec<&Value> = comparison["rows"].as_array().expect("rows").iter().map(|row| &row["test"]).collect();
    assert_eq!(tests, ["execl", "shell-1"]);
    assert!(means(&comparison)[0].ends_with(" of 2"), "{:?}", means(&comparison));
    let dir = tempfile::tempdir().expect("a temporary directory");
    text(&nearfar(dir.path(), &["import", &format!("{PUBLISHED}/ryzen-2600-ccx.csv")]));
    let unknown = nearfar(dir.path(), &["compare", "--by", "column", "--test", "shell"]);
    let stderr = String::from_utf8_lossy(&unknown.stderr);
    assert_eq!(unknown.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("no test is named 'shell'") && stderr.contains("shell-16"), "{stderr}");
}
