//! Shell completions and manual pages, tested with the shells and formatters that use them.

use std::path::Path;
use std::process::{Command, Output};

/// Sections of every page.
const SECTIONS: [&str; 8] =
    ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"];

/// Number of commands below `graph`, `fleet` and `live`.
const NESTED_COMMANDS: usize = 12;

const COMMANDS: [&str; 27] = [
    "expand",
    "files",
    "copy-text",
    "size",
    "map",
    "placements",
    "list",
    "measure",
    "run",
    "place",
    "gate",
    "show",
    "compare",
    "report",
    "serve",
    "export",
    "import",
    "share",
    "graph",
    "bfs",
    "fleet",
    "where",
    "live",
    "doctor",
    "restore",
    "completions",
    "man",
];

fn nearfar(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearfar")).args(args).output().expect("the program starts")
}

fn completions(shell: &str, dir: &Path) -> String {
    let output = nearfar(&["completions", shell]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = dir.join("nearfar");
    std::fs::write(&file, output.stdout).expect("the directory is writable");
    file.to_str().expect("the path is UTF-8").to_string()
}

/// Returns the stdout of a program; `None`, with the reason printed, if it is not installed.
fn output_of(program: &str, args: &[&str], test: &str) -> Option<String> {
    let Ok(output) = Command::new(program).args(args).env("LC_ALL", "C.UTF-8").output() else {
        println!("skipped: {test}: {program} is not installed");
        return None;
    };
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && stderr.is_empty(), "{program} {args:?}: {stderr}");
    Some(String::from_utf8(output.stdout).expect("the output is text"))
}

/// Returns bash's completions of the last word.
fn bash_completions(file: &str, words: &[&str]) -> Option<Vec<String>> {
    // Calls the function registered with `complete -F` as bash does: with the command, the word and the previous word.
    let script = "source \"$1\"; shift; set -- \"$@\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                  registered=$(complete -p nearfar); function=${registered#*-F }; \
                  ${function%% *} nearfar \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"; \
                  printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut args = vec!["--norc", "-c", script, "bash", file];
    args.extend(words);
    Some(output_of("bash", &args, "completions in bash")?.lines().map(String::from).collect())
}

#[test]
fn bash_completes_commands_flags_and_names() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = completions("bash", dir.path());
    let Some(commands) = bash_completions(&file, &["nearfar", ""]) else { return };
    for command in COMMANDS {
        assert!(commands.iter().any(|offer| offer == command), "{command}: {commands:?}");
    }
    assert!(!commands.iter().any(|offer| offer.starts_with("__")), "hidden commands are not completed: {commands:?}");
    let offers = |words: &[&str]| bash_completions(&file, words).expect("bash is installed");
    assert_eq!(offers(&["nearfar", "comp"]), ["compare", "completions"]);
    assert_eq!(offers(&["nearfar", "measure", "--warm"]), ["--warmup"]);
    assert_eq!(offers(&["nearfar", "export", "--format", "o"]), ["openmetrics"]);
    assert_eq!(offers(&["nearfar", "measure", "--placement", "smt"]), ["smt-one-l3", "smt-pairs"]);
    assert_eq!(offers(&["nearfar", "measure", "st"]), ["stream"]);
    assert_eq!(offers(&["nearfar", "run", "q"]), ["quick"]);
    assert!(offers(&["nearfar", "run", "--sim-f"]).iter().all(|offer| offer != "--sim-faults"));
}

#[test]
fn fish_completes_commands_and_workloads() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = completions("fish", dir.path());
    let offers = |line: &str| {
        let script = format!("source {file}; complete -C '{line}'");
        output_of("fish", &["--no-config", "-c", &script], "completions in fish")
    };
    let Some(commands) = offers("nearfar ") else { return };
    for command in COMMANDS {
        assert!(commands.lines().any(|offer| offer.split('\t').next() == Some(command)), "{command}: {commands}");
    }
    let placements = offers("nearfar measure stream --placement com").expect("fish is installed");
    assert!(placements.contains("compact"), "{placements}");
}

#[test]
fn zsh_loads_its_completions() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = completions("zsh", dir.path());
    // compinit finds the file in fpath by its first line and its name.
    std::fs::rename(&file, dir.path().join("_nearfar")).expect("the file exists");
    let script = format!(
        "fpath=({0} $fpath); autoload -U compinit; compinit -u -D; print -- $_comps[nearfar]; autoload +X _nearfar; \
         print -- ${{+functions[_nearfar]}}",
        dir.path().display()
    );
    let Some(output) = output_of("zsh", &["-f", "-c", &script], "completions in zsh") else { return };
    assert_eq!(output.lines().collect::<Vec<_>>(), ["_nearfar", "1"]);
}

fn pages(dir: &Path) -> Vec<String> {
    let output = nearfar(&["man", "--output-dir", dir.to_str().expect("the path is UTF-8")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let entries = std::fs::read_dir(dir).expect("the directory exists");
    let mut files: Vec<String> = entries.map(|entry| entry.expect("readable").path().display().to_string()).collect();
    files.sort();
    files
}

#[test]
fn manual_pages_are_formatted_without_warnings() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let files = pages(dir.path());
    assert_eq!(files.len(), COMMANDS.len() + NESTED_COMMANDS + 1, "{files:?}");
    for file in &files {
        let Some(text) = output_of("man", &["--warnings", "-E", "UTF-8", "-l", file], "manual pages by man") else {
            break;
        };
        let missing: Vec<&str> =
            SECTIONS.into_iter().filter(|section| !text.lines().any(|line| line == *section)).collect();
        assert!(missing.is_empty() && !text.contains("__worker"), "{file} lacks {missing:?}: {text}");
    }
    for file in &files {
        if output_of("groff", &["-man", "-ww", "-z", "-Kutf8", file], "manual pages by groff").is_none() {
            break;
        }
    }
    for file in &files {
        if output_of("mandoc", &["-Tlint", "-Wunsupp", file], "manual pages by mandoc").is_none() {
            break;
        }
    }
}

#[test]
fn page_is_printed_and_unknown_command_is_rejected() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    pages(dir.path());
    let page = nearfar(&["man", "place"]).stdout;
    assert_eq!(page, std::fs::read(dir.path().join("nearfar-place.1")).expect("the file exists"));
    assert!(String::from_utf8(page).expect("roff is text").contains("\\-\\-budget"));
    let nested = nearfar(&["man", "fleet", "run"]).stdout;
    assert_eq!(nested, std::fs::read(dir.path().join("nearfar-fleet-run.1")).expect("the file exists"));
    let wrong = nearfar(&["man", "__worker"]);
    let stderr = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr.contains("no manual page nearfar-__worker") && stderr.contains("hint: commands: map, "), "{stderr}");
}

#[test]
fn help_of_every_command_ends_with_examples() {
    let nested = ["edges", "build", "info"].map(|name| vec!["graph", name]);
    let fleet = ["run", "status", "collect", "compare"].map(|name| vec!["fleet", name]);
    for words in COMMANDS.map(|name| vec![name]).into_iter().chain(nested).chain(fleet).chain([Vec::new()]) {
        let help = String::from_utf8(nearfar(&[&words[..], &["--help"]].concat()).stdout).expect("help is text");
        let (_, examples) = help.rsplit_once("Examples:\n").unwrap_or_else(|| panic!("{words:?}: {help}"));
        assert!(examples.contains("nearfar") && !examples.contains("\n\n"), "{words:?}: {examples}");
    }
}

/// The tables are read when the program is built, so a page and the documentation cannot differ.
#[test]
fn pages_have_the_reference_of_their_command() {
    let page = |command: &str| String::from_utf8(nearfar(&["man", command]).stdout).expect("roff is text");
    let (compare, export) = (page("compare"), page("export"));
    assert!(compare.contains("NEARFAR_DUCKDB") && !compare.contains("AWS_REGION"), "{compare}");
    assert!(export.contains("AWS_REGION") && !export.contains("NEARFAR_DUCKDB"), "{export}");
    assert!(page("expand").contains("127 if the program is not found"));
}
