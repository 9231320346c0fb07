//! Checks README.md and `docs/`: documented commands work, links lead somewhere, and the reference is complete.
//!
//! Each `nearfar` line of a `sh` block runs in order and unchanged, except that measurements are shortened and servers get
//! free ports, because pages are tested concurrently. The temporary directory contains links to the repository's `tests`,
//! `crates` and `docs`, and the files that readers of the page save: `toml` blocks whose first line is `# NAME.toml`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

mod ports;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The `nearfar` lines of the `sh` blocks of a page. A trailing backslash continues a line.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut is_shell = false;
    for line in page.replace("\\\n", " ").lines() {
        if line.starts_with("```") {
            is_shell = !is_shell && line == "```sh";
        } else if is_shell && line.starts_with("nearfar ") {
            commands.push(line.to_string());
        }
    }
    commands
}

/// Names and contents of the `toml` blocks that begin with `# NAME.toml`.
fn files(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter_map(|block| Some((block.lines().next()?.strip_prefix("# ")?, block))).collect()
}

/// The command with less measuring: documented commands may take minutes.
fn shortened(command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[1] {
        "run" => command.replacen("nearfar run", "nearfar run --smoke --budget 5s", 1),
        // Few trials in a budget that a busy machine does not exhaust: the next commands need results.
        "place" => {
            command.replacen("nearfar place", "nearfar place --max-trials 16", 1).replace("--budget 1m", "--budget 20s")
        }
        "map" if words.contains(&"--measure") => {
            command.replacen("nearfar map --measure", "nearfar map --measure --smoke", 1)
        }
        "size" => command.replace("--dram 50%,100%", "--dram 100%"),
        "gate" => command.replace("--budget 20s", "--budget 5s"),
        // Runs until it is interrupted.
        "serve" => command.replacen("nearfar serve", "timeout --preserve-status --signal INT 2 nearfar serve", 1),
        // Explicit sizes take precedence over those of a smoke test.
        "measure" if words[2] != "command" => command
            .replacen("nearfar measure", "nearfar measure --smoke", 1)
            .replace("size=512MiB", "size=16MiB")
            .replace("size=64MiB", "size=16MiB")
            .replace("expand:32MiB", "expand:8MiB")
            .replace("swap:32MiB", "swap:8MiB")
            .replace("time=1s", "time=200ms")
            .replace("n=4096", "n=512"),
        _ => command.to_string(),
    }
}

/// The command with a free port instead of the one that `--ready` names, wherever it occurs.
fn with_free_port(command: &str) -> String {
    let rest = command.split_once("--ready port:").map(|(_, rest)| rest);
    match rest.and_then(|rest| rest.split_whitespace().next()) {
        Some(port) => command.replace(port, &ports::free().to_string()),
        None => command.to_string(),
    }
}

/// Messages for requirements that this machine or build lacks.
const LACKING: &[&str] = &[
    "no such program",
    // Programs and libraries of other packages.
    "hint: apt-get install ",
    "hint: install libopenblas0-pthread",
    // Requirements that are noticed in the trial.
    "cannot be measured here: ",
    "run nearfar restore as root",
    "hint: run as root, not in a restricted container",
    "a DRAM limit needs root",
    "no directory on a disk",
    "this build of nearfar does not support Parquet",
    // Containers: no loop devices, no perf events, no memory controller.
    "cannot create a loop device",
    "(perf_event_open)",
    "memory controller",
    // Other users' files, and containers without the system call.
    "cached only to its owner",
    "(move_pages)",
];

/// Runs a command and returns whether it ended with status 0. `is_saved` is false if an earlier search saved no winner.
fn run_command(directory: &Path, command: &str, is_saved: bool) -> bool {
    if !is_saved && command.contains(" --use ") {
        println!("skipped: {command}: the search that should have saved its winner was not decided");
        return true;
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_nearfar")).parent().expect("the program is in a directory");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", &with_free_port(&shortened(command))]).current_dir(directory).env("PATH", path);
    shell.env("NEARFAR_STATE", directory.join("state"));
    let output = shell.env("NEARFAR_STORE", directory.join("results.db")).output().expect("a shell starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    // 3: a search this short may be inconclusive.
    let may_be_inconclusive =
        ["nearfar place", "nearfar size", "nearfar gate"].iter().any(|start| command.starts_with(start));
    let allowed: &[i32] = if may_be_inconclusive { &[0, 3] } else { &[0] };
    let status = output.status.code().unwrap_or(-1);
    if !allowed.contains(&status) && LACKING.iter().any(|message| stderr.contains(message)) {
        println!("skipped: {command}: {stderr}");
        return true;
    }
    assert!(allowed.contains(&status), "{command}\nended with {}: {stderr}", output.status);
    status == 0
}

/// Runs the commands of a page and returns their number.
fn run_page(page: &Path) -> usize {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for part in ["tests", "crates", "docs"] {
        std::os::unix::fs::symlink(Path::new(ROOT).join(part), directory.path().join(part))
            .expect("links can be created");
    }
    let text = std::fs::read_to_string(page).expect("the page is readable");
    for (name, file) in files(&text) {
        std::fs::write(directory.path().join(name), file).expect("the directory is writable");
    }
    let commands = commands(&text);
    let mut is_saved = true;
    for command in &commands {
        let is_decided = run_command(directory.path(), command, is_saved);
        is_saved &= is_decided || !command.contains(" --save ");
    }
    commands.len()
}

/// The Markdown pages directly in a directory below `docs`, sorted.
fn pages(directory: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new(ROOT).join("docs").join(directory)).expect("the directory exists");
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.expect("entries are readable").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages
}

/// Runs the pages of a directory whose names begin with one of these letters. `min` detects commands outside `sh`.
fn run_pages(directory: &str, letters: std::ops::RangeInclusive<char>, min: usize) {
    let of_letters = |page: &&PathBuf| {
        let name = page.file_name().and_then(|name| name.to_str()).expect("names are UTF-8");
        name.starts_with(|first: char| letters.contains(&first.to_ascii_lowercase()))
    };
    let count: usize = pages(directory).iter().filter(of_letters).map(|page| run_page(page)).sum();
    assert!(count >= min, "docs/{directory} should contain at least {min} commands, found {count}");
}

#[test]
fn readme_commands_work() {
    let count = run_page(&Path::new(ROOT).join("README.md"));
    assert!(count >= 5, "README.md should show how to use the program, found {count} commands");
}

#[test]
fn tutorial_commands_work() {
    run_pages("tutorials", 'a'..='z', 12);
}

#[test]
fn guide_commands_from_a_to_l_work() {
    run_pages("guides", 'a'..='l', 65);
}

#[test]
fn guide_commands_from_m_to_z_work() {
    run_pages("guides", 'm'..='z', 80);
}

#[test]
fn study_commands_work() {
    run_pages("guides/studies", 'a'..='z', 11);
}

#[test]
fn reference_commands_work() {
    run_pages("reference", 'a'..='z', 15);
}

/// All Markdown files of the documentation.
fn all_pages() -> Vec<PathBuf> {
    let mut pages_found: Vec<PathBuf> = pages("..");
    for directory in [
        ".",
        "tutorials",
        "guides",
        "guides/recipes",
        "guides/studies",
        "reference",
        "explanation",
        "results",
        "internals",
    ] {
        pages_found.extend(pages(directory));
    }
    pages_found
}

/// The anchors of the headings of a page, as GitHub generates them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut anchors = BTreeSet::new();
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        if let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) {
            let kept = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            anchors.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
    }
    anchors
}

/// The targets of the links of a page, code excluded.
fn links(page: &str) -> Vec<String> {
    let mut is_code = false;
    let mut text = String::new();
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        if !is_code {
            // Odd parts are inline code.
            text.extend(line.split('`').step_by(2));
        }
        text.push('\n');
    }
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.replace('\n', ""))
        .collect()
}

#[test]
fn links_between_pages_lead_to_files_and_headings() {
    let mut count = 0;
    for page in all_pages() {
        let text = std::fs::read_to_string(&page).expect("the page is readable");
        for link in links(&text).iter().filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { page.with_file_name("").join(path) };
            assert!(target.exists(), "{}: {link} does not exist", page.display());
            if !anchor.is_empty() {
                let target = std::fs::read_to_string(&target).expect("the target is readable");
                assert!(anchors(&target).contains(anchor), "{}: {link} has no such heading", page.display());
            }
            count += 1;
        }
    }
    assert!(count > 100, "only {count} links were found");
}

/// Collects the files below a directory that have one of these extensions.
fn sources(directory: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("the directory is readable") {
        let path = entry.expect("entries are readable").path();
        if path.is_dir() {
            sources(&path, extensions, found);
        } else if path.extension().is_some_and(|extension| extensions.iter().any(|one| extension == *one)) {
            found.push(path);
        }
    }
}

/// Messages, help and comments name pages by their path in the repository.
#[test]
fn pages_named_in_sources_exist() {
    let root = Path::new(ROOT);
    let mut files: Vec<PathBuf> = ["Cargo.toml", "Makefile", "Containerfile"].map(|name| root.join(name)).into();
    let scripts = std::fs::read_dir(root.join("scripts")).expect("the directory is readable");
    files.extend(scripts.map(|entry| entry.expect("entries are readable").path()).filter(|path| path.is_file()));
    sources(&root.join("crates"), &["rs", "toml"], &mut files);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        for rest in text.split("docs/").skip(1) {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_/.".contains(c))).unwrap_or(rest.len());
            if let Some((name, _)) = rest[..end].split_once(".md") {
                assert!(
                    root.join(format!("docs/{name}.md")).exists(),
                    "{}: docs/{name}.md does not exist",
                    file.display()
                );
            }
        }
    }
}

/// The error for an unknown key lists the known ones.
#[test]
fn experiment_file_reference_lists_every_key() {
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/reference/experiment-file.md"));
    let page = page.expect("the page is readable");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (top, task) = ("name = 'a'\nquestion = 'b'\n", "[[workload]]\nname = 'chase'\n");
    let experiments = [
        format!("{top}strange = 1\n{task}"),
        format!("{top}[repeat]\nstrange = 1\n{task}"),
        format!("{top}[compare]\nstrange = 1\n{task}"),
        format!("{top}{task}strange = 1\n"),
    ];
    for text in experiments {
        std::fs::write(directory.path().join("strange.toml"), &text).expect("the directory is writable");
        let mut program = Command::new(env!("CARGO_BIN_EXE_nearfar"));
        let output = program.args(["run", "strange.toml", "--dry-run"]).current_dir(directory.path()).output();
        let stderr = String::from_utf8_lossy(&output.expect("the program starts").stderr).into_owned();
        let keys = stderr.split("hint: the keys are ").nth(1).unwrap_or_else(|| panic!("no keys are listed: {stderr}"));
        for key in keys.trim().split(", ") {
            // Keys are rows of a table; sections are headings of one.
            let rows = [format!("| `{key}` |"), format!("`[{key}]`"), format!("`[[{key}]]`")];
            assert!(rows.iter().any(|row| page.contains(row)), "docs/reference/experiment-file.md lacks the key {key}");
        }
    }
}
