//! Lines that users paste into a shell give the program the arguments that were measured.

mod nasty;

use std::process::Command;

use model::values::shell::quote_argv;
use nasty::{LISTS, lists};

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
