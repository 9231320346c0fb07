//! Explanations of command lines that clap rejects: an unknown command or option, a missing `--` before a command.
//! Must not depend on commands.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use model::values::shell::quote_argv;

use crate::cli::Cli;
use crate::error::CliError;
use crate::suggestion::{did_you_mean, hint};

/// Returns a better error than clap's for an unknown command or option, and for a command without `--` before it.
pub fn explain(error: &clap::Error, argv: &[OsString]) -> Option<CliError> {
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let name = context(error, ContextKind::InvalidSubcommand)?;
            // clap suggests several commands, some of them dissimilar.
            let root = Cli::command();
            let at = argv.iter().position(|word| word == name)?;
            let (parent, help) = match at.checked_sub(1).and_then(|before| root.find_subcommand(&argv[before])) {
                Some(parent) => (parent, format!("nearfar {} --help", parent.get_name())),
                None => (&root, "nearfar --help".to_string()),
            };
            let hint = hint(name, &visible_names(parent), &format!("list commands with {help}"));
            Some(CliError::usage(format!("unknown command '{name}'")).hint(hint))
        }
        ErrorKind::UnknownArgument => {
            let argument = context(error, ContextKind::InvalidArg)?;
            // Checked first, because a separator would turn a mistyped option into a positional argument.
            if let Some(similar) = context(error, ContextKind::SuggestedArg) {
                return Some(CliError::usage(format!("unknown option '{argument}'")).hint(did_you_mean(similar)));
            }
            let separated = with_separator(argument, argv)?;
            Some(CliError::usage(format!("unexpected argument '{argument}'")).hint(quote_argv(&separated)))
        }
        _ => None,
    }
}

fn visible_names(command: &Command) -> Vec<&str> {
    command.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name).collect()
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

/// Returns the command line with `--` before `argument`, if that makes it valid.
fn with_separator(argument: &str, argv: &[OsString]) -> Option<Vec<String>> {
    let argv: Vec<&str> = argv.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
    if argv.contains(&"--") {
        return None;
    }
    // The same word may occur earlier as the value of an option, so each position is tried.
    let positions = argv.iter().enumerate().skip(2).filter(|(_, word)| **word == argument);
    positions.map(|(index, _)| [&["nearfar"], &argv[1..index], &["--"], &argv[index..]].concat()).find_map(
        |separated| {
            Cli::command()
                .try_get_matches_from(&separated)
                .is_ok()
                .then(|| separated.into_iter().map(String::from).collect())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(argv: &[&str]) -> Option<String> {
        let argv: Vec<OsString> = ["nearfar"].iter().chain(argv).map(OsString::from).collect();
        let error = Cli::from_argv(argv.clone()).expect_err("the command line is invalid");
        explain(&error, &argv).map(|error| error.to_string())
    }

    #[test]
    fn missing_separator_is_inserted_before_the_command() {
        let cases: &[(&[&str], &str)] = &[
            (&["place", "xz", "-kc", "FILE"], "nearfar place -- xz -kc FILE"),
            (&["place", "--budget", "1m", "xz", "-k"], "nearfar place --budget 1m -- xz -k"),
            (&["place", "--save", "xz", "xz", "-t", "1"], "nearfar place --save xz -- xz -t 1"),
            (&["measure", "command", "true"], "nearfar measure command -- true"),
            (&["size", "sort", "a file"], "nearfar size -- sort 'a file'"),
            (&["expand", "--dram", "1GiB", "sort", "FILE"], "nearfar expand --dram 1GiB -- sort FILE"),
        ];
        for (argv, expected) in cases {
            let text = explained(argv).unwrap_or_default();
            assert!(text.ends_with(&format!("\nhint: {expected}")), "{argv:?}: {text}");
        }
    }

    #[test]
    fn separator_is_not_suggested_for_other_errors() {
        let cases: &[&[&str]] =
            &[&["place", "--nosuch", "--", "true"], &["show", "a", "b"], &["place"], &["list", "x"]];
        for argv in cases {
            assert_eq!(explained(argv), None, "{argv:?}");
        }
    }

    #[test]
    fn unknown_option_suggests_the_most_similar_one() {
        let cases: &[(&[&str], &str)] = &[
            (&["show", "--trails"], "unknown option '--trails'\nhint: did you mean '--trials'?"),
            (&["place", "--bugdet", "1m", "--", "true"], "unknown option '--bugdet'\nhint: did you mean '--budget'?"),
        ];
        for (argv, expected) in cases {
            assert_eq!(explained(argv).as_deref(), Some(*expected), "{argv:?}");
        }
    }

    #[test]
    fn unknown_command_suggests_the_most_similar_one() {
        let cases: &[(&[&str], &str)] = &[
            (&["mesure", "stream"], "unknown command 'mesure'\nhint: did you mean 'measure'? "),
            (&["plce", "--", "true"], "unknown command 'plce'\nhint: did you mean 'place'? "),
            (&["fleet", "collct"], "unknown command 'collct'\nhint: did you mean 'collect'? "),
            (&["xyzzy"], "unknown command 'xyzzy'\nhint: list commands with nearfar --help"),
        ];
        for (argv, expected) in cases {
            let text = explained(argv).unwrap_or_default();
            assert!(text.starts_with(expected), "{argv:?}: {text}");
        }
    }
}
