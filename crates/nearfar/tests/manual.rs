//! Completions and manual pages, as the programs take them that they are for: a shell that completes, `man` that formats.

use std::path::Path;
use std::process::{Command, Output};

const COMMANDS: [&str; 22] = [
    "expand",
    "size",
    "map",
    "placements",
    "list",
    "measure",
    "run",
    "place",
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
    "doctor",
    "restore",
    "completions",
    "man",
];

fn nearfar(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearfar")).args(args).output().expect("the program starts")
}

fn completions(shell: &str, folder: &Path) -> String {
    let output = nearfar(&["completions", shell]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = folder.join("nearfar");
    std::fs::write(&file, output.stdout).expect("the folder can be written");
    file.to_str().expect("scratch folders are UTF-8").to_string()
}

/// What a program prints; none where it is not installed, which is said.
fn output_of(program: &str, args: &[&str], test: &str) -> Option<String> {
    let Ok(output) = Command::new(program).args(args).env("LC_ALL", "C.UTF-8").output() else {
        println!("skipped: {test}: no {program}");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{program} {args:?}: {said}");
    Some(String::from_utf8(output.stdout).expect("it prints text"))
}

/// What bash offers for the last of these words.
fn bash_offers(file: &str, words: &[&str]) -> Option<Vec<String>> {
    // As bash itself calls it: the function that `complete -F` has set, with the command, the word and the one before.
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
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = completions("bash", folder.path());
    let Some(commands) = bash_offers(&file, &["nearfar", ""]) else { return };
    for command in COMMANDS {
        assert!(commands.iter().any(|offer| offer == command), "{command}: {commands:?}");
    }
    assert!(!commands.iter().any(|offer| offer.starts_with("__")), "hidden commands stay hidden: {commands:?}");
    let offers = |words: &[&str]| bash_offers(&file, words).expect("bash was here just now");
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
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = completions("fish", folder.path());
    let offers = |line: &str| {
        let script = format!("source {file}; complete -C '{line}'");
        output_of("fish", &["--no-config", "-c", &script], "completions in fish")
    };
    let Some(commands) = offers("nearfar ") else { return };
    for command in COMMANDS {
        assert!(commands.lines().any(|offer| offer.split('\t').next() == Some(command)), "{command}: {commands}");
    }
    let placements = offers("nearfar measure stream --placement com").expect("fish was here just now");
    assert!(placements.contains("compact"), "{placements}");
}

#[test]
fn zsh_reads_its_completions() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = completions("zsh", folder.path());
    // compinit finds the file in fpath by its first line and its name.
    std::fs::rename(&file, folder.path().join("_nearfar")).expect("it was just written");
    let script = format!(
        "fpath=({0} $fpath); autoload -U compinit; compinit -u -D; print -- $_comps[nearfar]; autoload +X _nearfar; \
         print -- ${{+functions[_nearfar]}}",
        folder.path().display()
    );
    let Some(said) = output_of("zsh", &["-f", "-c", &script], "completions in zsh") else { return };
    assert_eq!(said.lines().collect::<Vec<_>>(), ["_nearfar", "1"]);
}

fn pages(folder: &Path) -> Vec<String> {
    let output = nearfar(&["man", "--output-dir", folder.to_str().expect("scratch folders are UTF-8")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let entries = std::fs::read_dir(folder).expect("it was written");
    let mut files: Vec<String> = entries.map(|entry| entry.expect("readable").path().display().to_string()).collect();
    files.sort();
    files
}

#[test]
fn manual_pages_are_formatted_without_a_warning() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let files = pages(folder.path());
    assert_eq!(files.len(), COMMANDS.len() + 1, "{files:?}");
    for file in &files {
        let Some(text) = output_of("man", &["--warnings", "-E", "UTF-8", "-l", file], "manual pages by man") else {
            break;
        };
        assert!(text.contains("NAME") && text.contains("SYNOPSIS") && !text.contains("__worker"), "{file}: {text}");
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
fn one_page_is_printed_and_a_wrong_name_is_named() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    pages(folder.path());
    let page = nearfar(&["man", "place"]).stdout;
    assert_eq!(page, std::fs::read(folder.path().join("nearfar-place.1")).expect("it is there"));
    assert!(String::from_utf8(page).expect("roff is text").contains("\\-\\-budget"));
    let wrong = nearfar(&["man", "__worker"]);
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(said.contains("no manual page nearfar-__worker") && said.contains("hint: commands: map, "), "{said}");
}
