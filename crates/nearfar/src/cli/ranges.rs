//! The range of every number of the command line. Must not depend on what the numbers are used for.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::builder::ValueParser;
use clap::{Arg, Command};

type Range = RangeInclusive<f64>;

/// More threads than the CPUs of any Linux machine (`NR_CPUS` is at most 8192), so that each CPU may have two.
const THREADS: Range = 1.0..=16_384.0;

/// Options by the name of their argument, with the range of their values. An argument has the same range in every
/// command. Test: `every_number_has_a_range`.
const RANGES: [(&str, Range); 21] = [
    ("threads", THREADS),
    ("max_cpus", THREADS),
    ("cpus", 1.0..=1_048_576.0),
    ("repetitions", 1.0..=100_000.0),
    ("min_runs", 1.0..=100_000.0),
    ("max_runs", 1.0..=100_000.0),
    ("warmup", 0.0..=1000.0),
    ("max_trials", 1.0..=1e9),
    ("seed", 0.0..=u64::MAX as f64),
    ("port", 0.0..=65_535.0),
    // The kernel's PID_MAX_LIMIT.
    ("pid", 1.0..=4_194_304.0),
    ("false_alarms", 0.0..=100.0),
    // Graph commands check narrower limits themselves, and explain them.
    ("scale", 0.0..=64.0),
    ("edge_factor", 0.0..=65_536.0),
    ("columns", 0.0..=65_535.0),
    ("roots", 1.0..=4096.0),
    ("from", 0.0..=u64::MAX as f64),
    ("alpha", 1.0..=1e6),
    ("beta", 1.0..=1e9),
    ("hubs", 0.0..=1e6),
    ("parts", 1.0..=1024.0),
];

/// Adds the ranges to the parsers of all numbers.
pub fn apply(command: Command) -> Command {
    let command = command.mut_args(|arg| match range(arg.get_id().as_str()) {
        Some(range) => with_range(arg, range),
        None => arg,
    });
    let names: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_string()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, apply))
}

fn range(id: &str) -> Option<Range> {
    RANGES.iter().find(|(name, _)| *name == id).map(|(_, range)| range.clone())
}

/// Replaces the parser of a number. Text, such as a list of CPUs, is not changed.
fn with_range(arg: Arg, range: Range) -> Arg {
    let is = |number: ValueParser| number.type_id() == arg.get_value_parser().type_id();
    if is(clap::value_parser!(u16).into()) {
        arg.value_parser(move |text: &str| parse::<u16>(text, &range))
    } else if is(clap::value_parser!(u32).into()) {
        arg.value_parser(move |text: &str| parse::<u32>(text, &range))
    } else if is(clap::value_parser!(u64).into()) {
        arg.value_parser(move |text: &str| parse::<u64>(text, &range))
    } else if is(clap::value_parser!(usize).into()) {
        arg.value_parser(move |text: &str| parse::<usize>(text, &range))
    } else if is(clap::value_parser!(f64).into()) {
        arg.value_parser(move |text: &str| parse::<f64>(text, &range))
    } else {
        arg
    }
}

fn parse<T: FromStr<Err: Display>>(text: &str, range: &Range) -> Result<T, String> {
    let is_inside = text.parse().is_ok_and(|number: f64| range.contains(&number));
    let number = text.parse().map_err(|error: T::Err| error.to_string());
    match number {
        Ok(number) if is_inside => Ok(number),
        // Too large for the type, too.
        _ if text.parse::<f64>().is_ok() => Err(format!("{text} is not in {}..={}", range.start(), range.end())),
        number => number,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;
    use crate::cli::Cli;

    /// Arguments of all commands whose value is a number, with the words that precede the value.
    fn numbers(command: &Command, words: &[String]) -> Vec<(Vec<String>, String)> {
        let types: [ValueParser; 5] = [
            clap::value_parser!(u16).into(),
            clap::value_parser!(u32).into(),
            clap::value_parser!(u64).into(),
            clap::value_parser!(usize).into(),
            clap::value_parser!(f64).into(),
        ];
        let is_number = |arg: &&Arg| types.iter().any(|number| number.type_id() == arg.get_value_parser().type_id());
        let own = command.get_arguments().filter(is_number).map(|arg| {
            let option = format!("--{}", arg.get_long().expect("numbers are options"));
            ([words, &[option]].concat(), arg.get_id().to_string())
        });
        let below = command
            .get_subcommands()
            .flat_map(|below| numbers(below, &[words, &[below.get_name().to_string()]].concat()));
        own.chain(below).collect()
    }

    fn numbers_of_all() -> Vec<(Vec<String>, String)> {
        let mut cli = Cli::command();
        cli.build();
        numbers(&cli, &["nearfar".into()])
    }

    #[test]
    fn every_number_has_a_range() {
        let all = numbers_of_all();
        assert!(all.len() >= 25, "{}", all.len());
        for (words, id) in all {
            assert!(range(&id).is_some(), "{words:?}: add a row to RANGES");
        }
    }

    #[test]
    fn numbers_out_of_their_range_are_usage_errors() {
        for (words, id) in numbers_of_all() {
            let range = range(&id).expect("see every_number_has_a_range");
            let outside = [(range.end() + 1.0).to_string(), (range.start() - 1.0).to_string(), "-1".into()];
            for value in outside.iter().map(String::as_str).chain(["1e30", "99999999999999999999", "nan", "", "x"]) {
                // Not for seeds: their range is that of the type.
                if value.parse().is_ok_and(|number: f64| range.contains(&number)) {
                    continue;
                }
                let (option, command) = words.split_last().expect("an option");
                let argv = command.iter().cloned().chain([format!("{option}={value}")]);
                let kind = Cli::from_argv(argv).map(|_| ()).map_err(|error| error.kind());
                assert_eq!(kind, Err(ErrorKind::ValueValidation), "{words:?} {value}");
            }
        }
    }

    #[test]
    fn message_names_the_range() {
        let error = Cli::from_argv(["nearfar", "placements", "--threads", "18446744073709551615"]).unwrap_err();
        let expected =
            "error: invalid value '18446744073709551615' for '--threads <N>': 18446744073709551615 is not in 1..=16384";
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
