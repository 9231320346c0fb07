//! The examples of the guide to pandas, R and `ReFrame`, run with these programs. A program that is missing is skipped with
//! the reason.

use std::path::Path;
use std::process::Command;

/// Debian's packages of Python libraries belong to this interpreter, which need not be the first in PATH.
const PYTHON: &str = "/usr/bin/python3";
const PAGE: &str = include_str!("../../../docs/guides/analyse.md");

/// Returns the block of code below a heading of the page.
fn example(heading: &str) -> &'static str {
    let section = PAGE.split(&format!("## {heading}\n")).nth(1).expect("the page has the heading");
    let block = section.split("```").nth(1).expect("the section has a block");
    block.split_once('\n').expect("the block has a language").1
}

fn nearfar(dir: &Path, args: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_nearfar"))
        .args(args)
        .arg("--store")
        .arg("r.db")
        .env("NEARFAR_STATE", dir.join("state"))
        .current_dir(dir)
        .output();
    let output = output.expect("nearfar starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs an example and returns what it prints; `None` if the program cannot run the probe.
fn printed(test: &str, dir: &Path, program: &str, probe: &str, args: &[&str]) -> Option<String> {
    let flag = if program == "Rscript" { "-e" } else { "-c" };
    let reason = match Command::new(program).args([flag, probe]).output() {
        Err(error) => Some(error.to_string()),
        Ok(output) if !output.status.success() => {
            String::from_utf8_lossy(&output.stderr).trim().lines().last().map(Into::into)
        }
        Ok(_) => None,
    };
    if let Some(reason) = reason {
        println!("skipped: {test}: {program}: {reason}");
        return None;
    }
    let path = std::env::join_paths(
        Path::new(env!("CARGO_BIN_EXE_nearfar"))
            .parent()
            .map(Path::to_path_buf)
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let output = Command::new(program)
        .args(args)
        .current_dir(dir)
        .env("PATH", path.expect("paths without colons"))
        .env("NEARFAR_STATE", dir.join("state"))
        .output();
    let output = output.expect("it ran before");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

fn with_samples() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    nearfar(
        dir.path(),
        &["measure", "queens", "--smoke", "-r", "3", "--placement", "kernel", "--placement", "one-core"],
    );
    nearfar(dir.path(), &["export", "--format", "csv", "-o", "samples.csv"]);
    dir
}

#[test]
fn pandas_example_summarises_each_placement() {
    let dir = with_samples();
    std::fs::write(dir.path().join("example.py"), example("pandas")).expect("the directory is writable");
    let name = "pandas_example_summarises_each_placement";
    let Some(text) = printed(name, dir.path(), PYTHON, "import pandas", &["example.py"]) else { return };
    assert!(text.contains("queens,kernel,solutions/s,3,") && text.contains("queens,one-core,solutions/s,3,"), "{text}");
}

#[test]
fn r_example_summarises_each_placement() {
    let dir = with_samples();
    std::fs::write(dir.path().join("example.R"), example("R")).expect("the directory is writable");
    let name = "r_example_summarises_each_placement";
    let Some(text) = printed(name, dir.path(), "Rscript", "1", &["example.R"]) else { return };
    assert!(text.contains("kernel solutions/s") && text.contains("one-core solutions/s"), "{text}");
}

#[test]
fn reframe_example_passes_and_reports_the_median() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join("example.py"), example("ReFrame")).expect("the directory is writable");
    let args = ["--prefix=out", "-c", "example.py", "-r", "--performance-report"];
    let run = format!("import sys, reframe.frontend.cli as cli; sys.argv[1:] = {args:?}; cli.main()");
    let name = "reframe_example_passes_and_reports_the_median";
    let Some(text) = printed(name, dir.path(), "python3", "import reframe", &["-c", &run]) else { return };
    assert!(text.contains("P: solutions: ") && text.contains("Ran 1/1 test case(s)"), "{text}");
}
