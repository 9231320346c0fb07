//! The arguments that reproduce a plan, taken from the command line as typed.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, ColorChoice, Command, CommandFactory, FromArgMatches, ValueEnum};

use super::{Cli, help, ranges};

/// Arguments that do not determine the plan: where results go, how they are printed, on which machine, seed and
/// settings the plan runs, and what happens before and after. A stored run records the machine and the seed separately;
/// `--store` may contain a password.
const OMITTED: &[&str] = &[
    "store",
    "quiet",
    "verbose",
    "color",
    "format",
    "output",
    "export_json",
    "export_csv",
    "export_markdown",
    "export_junit",
    "dry_run",
    "fresh",
    "resume",
    "repeat_runs",
    "explain",
    "all_candidates",
    "apply",
    "weights",
    "save",
    "saved",
    "map",
    "sim",
    "sim_faults",
    "seed",
    "host_label",
    "labels",
    "quieten",
    "fix_frequency",
    "ban_irqbalance",
    "wait",
    "settings_root",
    "theme",
];

impl Cli {
    /// Parses a command line, and keeps the arguments that reproduce its plan.
    pub fn from_argv<T: Into<std::ffi::OsString> + Clone>(
        argv: impl IntoIterator<Item = T>,
    ) -> Result<Self, clap::Error> {
        let argv: Vec<std::ffi::OsString> = argv.into_iter().map(Into::into).collect();
        let color = typed_color(&argv);
        let mut command = ranges::apply(Self::command()).color(color);
        let matches = match command.try_get_matches_from_mut(&argv) {
            // Examples and exit status are added only here, because that takes as long as parsing.
            Err(error) if is_help(&error) => help::apply(Self::command()).color(color).try_get_matches_from(&argv),
            result => result,
        }?;
        let mut cli = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        cli.common.argv = replay_argv(&command, &matches);
        Ok(cli)
    }
}

fn is_help(error: &clap::Error) -> bool {
    matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
}

/// Returns the value of `--color`, which also applies to help and to errors of the parser.
fn typed_color(argv: &[std::ffi::OsString]) -> ColorChoice {
    let words: Vec<&str> = argv.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str()).collect();
    let following = words.windows(2).filter(|pair| pair[0] == "--color").map(|pair| pair[1]);
    let joined = words.iter().filter_map(|word| word.strip_prefix("--color="));
    let value = following.chain(joined).next();
    value.and_then(|value| ColorChoice::from_str(value, false).ok()).unwrap_or_default()
}

/// Returns the subcommand and its arguments that determine the plan, in typed order and canonical spelling.
fn replay_argv(cli: &Command, matches: &ArgMatches) -> Vec<String> {
    let Some((name, matches)) = matches.subcommand() else { return Vec::new() };
    let Some(command) = cli.find_subcommand(name) else { return Vec::new() };
    let typed = command.get_arguments().filter(|arg| {
        let id = arg.get_id().as_str();
        !OMITTED.contains(&id) && matches.value_source(id) == Some(ValueSource::CommandLine)
    });
    let (external, own): (Vec<&Arg>, Vec<&Arg>) = typed.partition(|arg| arg.is_last_set());
    let mut own: Vec<(usize, Vec<String>)> = own.into_iter().flat_map(|arg| occurrences(arg, matches)).collect();
    own.sort_by_key(|(index, _)| *index);
    let mut argv = vec![name.to_string()];
    argv.extend(own.into_iter().flat_map(|(_, words)| words));
    for arg in external {
        argv.push("--".into());
        argv.extend(values(arg, matches));
    }
    argv
}

/// Returns each occurrence of an argument with its index on the command line.
fn occurrences(arg: &Arg, matches: &ArgMatches) -> Vec<(usize, Vec<String>)> {
    let indices: Vec<usize> = matches.indices_of(arg.get_id().as_str()).into_iter().flatten().collect();
    let option = arg.get_long().map(|long| format!("--{long}"));
    if !arg.get_action().takes_values() {
        return indices.into_iter().zip(option).map(|(index, option)| (index, vec![option])).collect();
    }
    let values = values(arg, matches);
    if let Some(delimiter) = arg.get_value_delimiter() {
        let joined = values.join(&delimiter.to_string());
        return indices.into_iter().take(1).map(|index| (index, spelt(option.as_deref(), joined.clone()))).collect();
    }
    indices.into_iter().zip(values).map(|(index, value)| (index, spelt(option.as_deref(), value))).collect()
}

fn spelt(option: Option<&str>, value: String) -> Vec<String> {
    match option {
        // Otherwise clap takes the value for an option.
        Some(option) if value.starts_with('-') => vec![format!("{option}={value}")],
        Some(option) => vec![option.into(), value],
        None => vec![value],
    }
}

fn values(arg: &Arg, matches: &ArgMatches) -> Vec<String> {
    let values = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
    values.map(|value| value.to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn replayed(argv: &[&str]) -> Vec<String> {
        Cli::from_argv(["nearfar"].iter().chain(argv)).unwrap().common.argv
    }

    #[test]
    fn arguments_of_the_plan_are_replayed_in_typed_order() {
        let cases: &[(&[&str], &[&str])] = &[
            (
                &["run", "quick", "--set", "size=1", "--set=size=2"],
                &["run", "quick", "--set", "size=1", "--set", "size=2"],
            ),
            (
                &["measure", "stream", "-C", "0-3", "-qr", "3", "--smoke"],
                &["measure", "stream", "--physcpubind", "0-3", "--repetitions", "3", "--smoke"],
            ),
            (&["measure", "io", "--placement", "-C 0"], &["measure", "io", "--placement=-C 0"]),
            (
                &["place", "--cpus-max", "2", "--with", "load", "--", "server", "--fresh", "-x"],
                &["place", "--max-cpus", "2", "--load", "load", "--", "server", "--fresh", "-x"],
            ),
            (&["map", "--measure", "--all"], &["map", "--measure", "--all"]),
        ];
        for (argv, expected) in cases {
            assert_eq!(replayed(argv), *expected);
        }
    }

    #[test]
    fn replay_omits_results_file_machine_and_output() {
        let common = ["--store", "postgres://user:secret@host/db", "--quiet", "--format", "json", "--seed", "7"];
        let machine = ["--sim", "pack:2 core:2 pu:1", "--host-label", "left", "--label", "rack=1", "--wait"];
        let argv = [&["run", "quick", "--fresh", "--map", "none"][..], &common, &machine].concat();
        assert_eq!(replayed(&argv), ["run", "quick"]);
    }

    #[test]
    fn issue_23_size_replays_warmup_and_time_limit() {
        let argv =
            ["size", "--dram", "50%,100%", "--warmup", "2", "--time-limit", "1m", "--within", "3%", "--", "xz", "-k"];
        let expected = [
            "size",
            "--dram",
            "50%,100%",
            "--warmup",
            "2",
            "--time-limit",
            "1m",
            "--max-slowdown",
            "3%",
            "--",
            "xz",
            "-k",
        ];
        assert_eq!(replayed(&argv), expected);
    }

    /// A replayed command line has the same plan arguments when it is parsed again.
    #[test]
    fn replayed_arguments_parse_to_themselves() {
        let argvs: &[&[&str]] = &[
            &["measure", "command", "--set", "metric=x", "-t", "4", "-i", "0,1", "--", "sh", "-c", "exit 1"],
            &["place", "--server", "redis", "--ready", "port:1", "-w", "1", "--strict", "--", "load"],
            &["size", "--engine", "plain", "--compressed", "-r", "2", "--", "xz"],
        ];
        for argv in argvs {
            let once = replayed(argv);
            assert_eq!(replayed(&once.iter().map(String::as_str).collect::<Vec<_>>()), once);
        }
    }

    /// Arguments that determine the plan. A new argument belongs in this list or in `OMITTED`.
    const KEPT: &[&str] = &[
        "all",
        "allow_overwrite",
        "baseline_ref",
        "baselines",
        "budget",
        "cleanup",
        "command",
        "compressed",
        "cpunodebind",
        "cpus",
        "devices",
        "dram",
        "engine",
        "error_rate",
        "exclude",
        "experiment",
        "fio",
        "from",
        "guess",
        "higher_is_better",
        "ignore_failure",
        "indifference",
        "interleave",
        "interrupts",
        "like",
        "load",
        "load_cpus",
        "max_cpus",
        "max_runs",
        "max_slowdown",
        "max_slower",
        "max_trials",
        "measure",
        "membind",
        "metric",
        "metric_json",
        "metric_name",
        "metric_unit",
        "min_runs",
        "names",
        "objective",
        "only",
        "openmp",
        "parameter_list",
        "parameter_scan",
        "parameter_step_size",
        "physcpubind",
        "placement",
        "placements",
        "preferred",
        "prepare",
        "prior",
        "ready",
        "ready_timeout",
        "refine",
        "repetitions",
        "run",
        "server",
        "set",
        "shell",
        "smoke",
        "stop_timeout",
        "page_cache",
        "strict",
        "thorough",
        "threads",
        "time_limit",
        "warmup",
        "workload",
    ];

    #[test]
    fn every_argument_is_either_kept_or_omitted() {
        let cli = Cli::command();
        let commands =
            ["run", "measure", "place", "size", "map", "gate"].map(|name| cli.find_subcommand(name).unwrap());
        let arguments = commands.iter().flat_map(|command| command.get_arguments()).chain(cli.get_arguments());
        let arguments: BTreeSet<&str> = arguments.map(|argument| argument.get_id().as_str()).collect();
        let decided: Vec<&str> = KEPT.iter().chain(OMITTED).copied().collect();
        let decided_once: BTreeSet<&str> = decided.iter().copied().collect();
        assert_eq!(arguments, decided_once, "left: arguments, right: KEPT and OMITTED");
        assert_eq!(decided.len(), decided_once.len(), "an argument is listed twice");
    }
}
