//! Converts the arguments that several commands share into requests of `app`.

mod server;
mod subject;

use std::collections::BTreeSet;

use model::experiments::experiment::{ExpandedCommand, Experiment, NamedCommand, ParameterList, expand_command};
use model::placements::placement::offer;
use model::values::placement::Placement;
use model::values::shell::quote_argv;
use model::values::topology::Topology;
use model::values::units::Nanos;
use model::values::workload::current_name;
use report::Theme;
use store::Store;

use crate::app::catalogue::MapRequest;
use crate::app::experiment::{self, ExperimentRequest, ExperimentSource};
use crate::app::results_file::ResultsFile;
use crate::app::run_guard::GuardRequest;
use crate::app::session::SessionRequest;
use crate::app::target_machine::MachineRequest;
use crate::cli::{GlobalArgs, GuardArgs, MachineArgs, MapArgs, PictureTheme, RunArgs};
use crate::error::{CliError, CliStatus};
use crate::suggestion;

pub use server::{metric_label, metric_objective, metric_parameters, server_and_load, server_parameters};
pub use subject::{Subject, inspect_error};

/// Returns the theme of a picture.
pub fn theme(theme: Option<PictureTheme>) -> Theme {
    match theme {
        Some(PictureTheme::Light) => Theme::Light,
        Some(PictureTheme::Dark) => Theme::Dark,
        Some(PictureTheme::Auto) | None => Theme::Auto,
    }
}

pub fn session(machine: &MachineArgs, guard: &GuardArgs, common: &GlobalArgs) -> SessionRequest {
    let GuardArgs { quieten, fix_frequency, ban_irqbalance, wait, settings_root } = guard;
    SessionRequest {
        machine: self::machine(machine),
        guard: GuardRequest {
            quieten: quieten.as_ref().map(|settings| settings.0.clone()),
            fix_frequency: *fix_frequency,
            ban_irqbalance: *ban_irqbalance,
            wait: *wait,
            settings_root: settings_root.clone(),
            quiet: common.quiet,
        },
        results: results_file(common),
        argv: common.argv.clone(),
    }
}

pub fn machine(args: &MachineArgs) -> MachineRequest {
    let MachineArgs { sim, sim_faults, seed, host_label, labels } = args;
    MachineRequest {
        sim: sim.clone(),
        sim_faults: sim_faults.clone(),
        seed: *seed,
        host_label: host_label.clone(),
        labels: labels.clone(),
    }
}

pub fn map(args: &MapArgs, common: &GlobalArgs) -> MapRequest {
    MapRequest { run: args.run.clone(), results: results_file(common), quiet: common.quiet }
}

pub fn results_file(common: &GlobalArgs) -> ResultsFile {
    ResultsFile(common.store.clone())
}

/// Opens or creates the results file.
pub fn open_store(common: &GlobalArgs) -> Result<Store, CliError> {
    results_file(common).open()
}

/// Opens the results file, which must exist.
pub fn existing_store(common: &GlobalArgs) -> Result<Store, CliError> {
    results_file(common).open_existing()
}

/// Reads the experiment and applies the overrides of the command line; also returns the names of their parameters.
pub fn read_experiment(args: &RunArgs, common: &GlobalArgs) -> Result<(Experiment, BTreeSet<String>), CliError> {
    if args.fio.is_none() && !args.placements.is_empty() {
        return Err(CliError::usage("--placement requires --fio; an experiment contains its placements")
            .hint("to choose placements of one workload, use nearfar measure"));
    }
    let source = match (&args.fio, &args.experiment) {
        (Some(file), _) => ExperimentSource::JobFile { file, placements: &args.placements },
        (None, name) => ExperimentSource::Named(name.as_deref().unwrap_or_default()),
    };
    experiment::read(&ExperimentRequest {
        source,
        allow_overwrite: args.allow_overwrite.as_deref(),
        overrides: &pairs(&args.set, "list parameters with nearfar list workloads")?,
        quiet: common.quiet,
    })
}

/// Parses the arguments `KEY=VALUE` of `--set`.
pub fn pairs(texts: &[String], hint: &str) -> Result<Vec<(String, String)>, CliError> {
    let pair = |text: &String| {
        let pair = text.split_once('=').map(|(name, value)| (current_name(name.trim()).to_string(), value.to_string()));
        pair.ok_or_else(|| CliError::usage(format!("--set {text}: expected KEY=VALUE")).hint(hint))
    };
    texts.iter().map(pair).collect()
}

/// Returns the placement that the user named for a running service and its devices. The threads exist already, so all of
/// them may run on all CPUs of the placement.
///
/// # Errors
/// If the name is invalid, or if the machine does not have the placement.
pub fn live_placement(topology: &Topology, text: &str, devices: &[String]) -> Result<Placement, CliError> {
    let loose = if text.starts_with('-') { format!("{text} loose") } else { format!("{text}+loose") };
    let named = |text: &str| offer(topology, text, None, workloads::offers(), devices);
    // Placements without CPUs cannot have the part.
    let loose = named(&loose).ok().filter(|offer| offer.placement.is_ok());
    let offer = loose.map_or_else(|| named(text), Ok).map_err(|error| {
        CliError::usage(error).maybe_hint(suggestion::policy_hint(std::slice::from_ref(&text.to_owned())).as_deref())
    })?;
    offer.placement.map_err(|reason| CliError::with(CliStatus::Skipped, format!("{text}: {reason}")))
}

/// Parses the duration of an option, which must not be zero.
pub fn duration(option: &str, text: &str) -> Result<Nanos, CliError> {
    match Nanos::parse(text) {
        Ok(Nanos(0)) => Err(CliError::usage(format!("{option} {text}: the duration must be greater than zero"))),
        Ok(duration) => Ok(duration),
        Err(error) => Err(CliError::usage(format!("{option}: {error}"))),
    }
}

/// Separates commands on a command line.
pub const NEXT_COMMAND: &str = ":::";

/// Splits the words after `--` into commands, replaces the parameters, and names the commands: with the given names, in
/// order, or else as typed.
pub fn named_commands(
    words: &[String],
    names: &[String],
    lists: &[ParameterList],
    shell: bool,
) -> Result<Vec<NamedCommand>, CliError> {
    let commands: Vec<&[String]> = words.split(|word| word == NEXT_COMMAND).collect();
    if commands.iter().any(|command| command.is_empty()) {
        return Err(CliError::usage(format!("a command before or after {NEXT_COMMAND} is empty")));
    }
    if names.len() > commands.len() {
        let commands = if let [_] = commands[..] { "1 command".into() } else { format!("{} commands", commands.len()) };
        let problem =
            format!("--command-name: {} names for {commands}: {NEXT_COMMAND} separates commands", names.len());
        return Err(CliError::usage(problem));
    }
    let mut named = Vec::new();
    for (number, command) in commands.iter().enumerate() {
        for ExpandedCommand { words, values } in expand_command(command, lists).map_err(CliError::usage)? {
            let line = if shell { words.join(" ") } else { quote_argv(&words) };
            // A given name does not contain the values, which distinguish the commands.
            let own = names.get(number).map(|name| std::iter::once(name).chain(&values).cloned().collect::<Vec<_>>());
            let argv = if shell { line.clone() } else { serde_json::json!(words).to_string() };
            named.push(NamedCommand { name: own.map_or(line, |words| words.join(" ")), argv });
        }
    }
    Ok(named)
}

/// Converts a command line in an option to the parameter of workload `command`: a line for the shell, or a list of the
/// arguments into which a shell would split it, without expansions.
pub fn command_line(option: &str, text: &str, shell: bool) -> Result<String, CliError> {
    if shell {
        return Ok(text.into());
    }
    Ok(serde_json::json!(server::split(option, text)?).to_string())
}
