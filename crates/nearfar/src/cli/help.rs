//! Adds exit status and examples to the help of every command. Must not depend on the arguments of commands.

use std::fmt::Write;

use clap::Command;
use clap::builder::StyledStr;

use super::examples::examples_of;
use super::reference::exit_status_of;

/// Adds them to the end of the help of a command and of the commands below it.
pub fn apply(command: Command) -> Command {
    apply_below(command, "")
}

/// `words` are those after `nearfar`; empty for the program.
fn apply_below(command: Command, words: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_string()).collect();
    let command = match ending(&command, words) {
        Some(text) => command.after_help(text),
        None => command,
    };
    names.into_iter().fold(command, |command, name| {
        let words = format!("{words} {name}");
        command.mut_subcommand(name, |below| apply_below(below, words.trim()))
    })
}

/// Returns the end of the help of a command; `None` for a hidden command.
fn ending(command: &Command, words: &str) -> Option<StyledStr> {
    let entry = examples_of(words)?;
    let heading = command.get_styles().get_header();
    let mut text = StyledStr::new();
    let mut write = |part: std::fmt::Arguments| text.write_fmt(part).expect("writing to a string succeeds");
    if let Some(description) = command.get_after_help() {
        write(format_args!("{}\n\n", description.ansi()));
    }
    if let Some(status) = exit_status_of(words) {
        write(format_args!("Exit status: {status}. 'nearfar man {words}' lists all.\n\n"));
    }
    write(format_args!("{heading}Examples:{heading:#}"));
    for example in entry.examples {
        write(format_args!("\n  {}\n      {}", example.line.replace('\n', "\n  "), example.effect));
    }
    Some(text)
}
