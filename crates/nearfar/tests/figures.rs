//! Pictures and tables for articles: themes, the source line, PNG and HTML.

#[allow(dead_code)] // other tests use the rest
mod results_dir;

use crate::results_dir::{nearfar, stdout};

const SIM: &str = "pack:2 [numa] core:2 pu:2:7";

fn measured() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let measure = ["measure", "dhrystone", "--sim", SIM, "-r", "8", "--placement", "kernel", "--placement", "one-core"];
    stdout(dir.path(), &measure);
    dir
}

#[test]
fn chosen_theme_is_literal_and_figures_load_nothing() {
    let dir = measured();
    let index = ["--index", "unixbench"];
    for more in [&[][..], &index] {
        let svg = |theme: &str| stdout(dir.path(), &[&["compare", "--format", "svg", "--theme", theme], more].concat());
        let [auto, light, dark] = ["auto", "light", "dark"].map(svg);
        assert!(auto.contains("prefers-color-scheme") && auto.contains("var(--ink)"), "{auto}");
        for (figure, paper) in [(&light, ".paper{fill:#fff}"), (&dark, ".paper{fill:#161b20}")] {
            assert!(figure.contains(paper), "{figure}");
            assert!(!figure.contains("var(") && !figure.contains("@media"), "{figure}");
        }
        for figure in [auto, light, dark] {
            assert!(!figure.contains("url(") && !figure.contains("<script") && !figure.contains("href"), "{figure}");
            assert!(figure.contains("nearfar 0.") && figure.contains("SIMULATED"), "source and stamp: {figure}");
        }
    }
}

#[test]
fn png_is_written_to_files_and_pipes() {
    let dir = measured();
    let file = dir.path().join("changes.png");
    let written = nearfar(dir.path(), &["compare", "--format", "png", "-o", file.to_str().expect("a path")]);
    let error = String::from_utf8_lossy(&written.stderr);
    if error.contains("no font is installed") {
        println!("skipped: png_is_written_to_files_and_pipes: no font is installed");
        return;
    }
    assert!(written.status.success() && written.stdout.is_empty(), "{error}");
    let file = std::fs::read(file).expect("the picture exists");
    assert!(file.starts_with(b"\x89PNG\r\n\x1a\n"));
    assert_eq!(u32::from_be_bytes(file[16..20].try_into().expect("four bytes")), 1560, "width in pixels");
    assert_eq!(nearfar(dir.path(), &["compare", "--format", "png"]).stdout, file);
    assert_ne!(nearfar(dir.path(), &["compare", "--format", "png", "--theme", "dark"]).stdout, file);
}

#[test]
fn html_is_a_fragment_without_styles() {
    let dir = measured();
    let html = stdout(dir.path(), &["compare", "--format", "html"]);
    assert!(html.starts_with("<p>SIMULATED") && html.contains("<table>\n<caption>"), "{html}");
    assert!(!html.contains("<html") && !html.contains("class=") && !html.contains("<style"), "{html}");
}

#[test]
fn simulated_index_is_not_compared_with_imported_ones() {
    let dir = measured();
    let scores = dir.path().join("scores.csv");
    std::fs::write(&scores, "test,metric,unit,better,board\ndhrystone,score,lps,higher,1167000\n").expect("a file");
    stdout(dir.path(), &["import", scores.to_str().expect("a path")]);
    let refused = nearfar(dir.path(), &["compare", "--index", "unixbench", "--add-table", "scores"]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && error.contains("never compared with imported ones"), "{error}");
}

#[test]
fn commands_share_one_figure_in_the_report() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let named = ["-n", "old build", "-n", "new build"];
    let measure = ["measure", "command", "--sim", SIM, "-r", "4"];
    let gate = ["gate", "--sim", SIM, "--budget", "20s"];
    let commands = ["--", "./old", ":::", "./new"];
    for run in [&measure[..], &gate] {
        // A gate on equal commands has no particular verdict.
        nearfar(dir.path(), &[run, &named, &commands].concat());
        let report = stdout(dir.path(), &["report", "latest", "-o", "-"]);
        let start = report.find("Commands under placement").expect("one figure of all commands");
        let figure = &report[start..];
        let figure = &figure[..figure.find("</svg>").expect("a figure")];
        assert!(figure.contains(">old build</text>") && figure.contains(">new build</text>"), "{figure}");
        assert_eq!(figure.matches("class=\"median\"").count(), 2, "{figure}");
    }
}
