//! Lines that users paste into a shell give the program the arguments that were measured.

use std::process::Command;

use model::values::shell::quote_argv;

const LISTS: usize = 1000;

/// Characters and fragments that shells expand, split or remove.
const NASTY: [&str; 40] = [
    "a",
    "b1",
    " ",
    "  ",
    "\t",
    "\n",
    "\r",
    "\u{1b}",
    "\u{7f}",
    "\u{9b}",
    "'",
    "\"",
    "\\",
    "`",
    "$",
    "$HOME",
    "${x}",
    "$(id)",
    "$$",
    "*",
    "?",
    "[a]",
    "~",
    "{a,b}",
    "{1..3}",
    "{threads}",
    "{",
    "}",
    "!",
    "#",
    "&",
    ";",
    "|",
    "<",
    ">",
    "(",
    ")",
    "=",
    "%s",
    "é",
];

/// Returns argument lists of random fragments; the same in every run.
fn lists() -> Vec<Vec<String>> {
    let mut state = 1_u64;
    let mut random = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    let mut word = |length: usize| (0..length).map(|_| NASTY[random(NASTY.len())]).collect::<String>();
    (0..LISTS).map(|list| (0..=(list % 5)).map(|at| word((list + at) % 6)).collect()).collect()
}

/// Checks that a shell passes the arguments of every list unchanged.
fn check(shell: &str) {
    let lists = lists();
    let line = |words: &Vec<String>| {
        format!("printf '%s\\0' {}; printf '\\1\\0'\n", quote_argv(&[&["x".into()], &words[..]].concat()))
    };
    let script: String = lists.iter().map(line).collect();
    let output = Command::new(shell).args(["-c", &script]).output();
    let Ok(output) = output else { return println!("skipped: quoting: {shell} is not installed") };
    assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("the words are UTF-8");
    let parsed: Vec<Vec<&str>> =
        text.split_terminator("\u{1}\0").map(|list| list.split_terminator('\0').collect()).collect();
    assert_eq!(parsed.len(), LISTS);
    for (words, parsed) in lists.iter().zip(parsed) {
        assert_eq!(&parsed[1..], words, "{shell}");
    }
}

#[test]
fn sh_parses_the_original_arguments() {
    check("sh");
}

#[test]
fn bash_parses_the_original_arguments() {
    check("bash");
}

#[test]
fn zsh_parses_the_original_arguments() {
    check("zsh");
}

#[test]
fn nasty_words_can_be_the_program() {
    for word in ["A=b", "if", "{", "!", "=ls", "do"] {
        let output = Command::new("bash").args(["-c", &quote_argv(&[word])]).output().expect("bash is installed");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(127), "{word}: {stderr}");
        assert!(stderr.contains("command not found"), "{word}: {stderr}");
    }
}
