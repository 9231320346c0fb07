//! Converts the arguments of a server, its load and a number in an output into parameters of workload `command`.

use model::analysis::place::{MetricLabel, Objective};
use model::values::command_number::group_name;

use super::command_line;
use crate::cli::{MetricArgs, ServerArgs};
use crate::error::CliError;

/// The words of a measured command, and of its server if it has one.
pub struct ServerAndLoad {
    pub server: Option<Vec<String>>,
    pub measured: Vec<String>,
}

impl ServerAndLoad {
    /// The program to name a run after: the one with the limit or, without a server, the only one.
    pub fn limited(&self) -> &[String] {
        self.server.as_ref().unwrap_or(&self.measured)
    }
}

/// Returns which of the commands is the server, and which one is measured.
pub fn server_and_load(args: &ServerArgs, command: &[String]) -> Result<ServerAndLoad, CliError> {
    let command = command.to_vec();
    Ok(match (&args.load, &args.server) {
        (Some(load), _) => ServerAndLoad { server: Some(command), measured: split("--load", load)? },
        (None, server) => ServerAndLoad {
            server: server.as_ref().map(|server| split("--server", server)).transpose()?,
            measured: command,
        },
    })
}

/// Returns the parameters that describe the measured command and its server.
pub fn server_parameters(
    args: &ServerArgs,
    command: &[String],
    shell: bool,
) -> Result<Vec<(&'static str, String)>, CliError> {
    let line = |option: &str, text: &String| command_line(option, text, shell);
    let command = if shell { command.join(" ") } else { serde_json::json!(command).to_string() };
    let (argv, server) = match (&args.load, &args.server) {
        (Some(load), _) => (line("--load", load)?, Some(command)),
        (None, server) => (command, server.as_ref().map(|server| line("--server", server)).transpose()?),
    };
    let parameters = [
        ("argv", Some(argv)),
        ("server", server),
        ("ready", args.ready.clone()),
        ("ready-timeout", args.ready_timeout.clone()),
        ("stop-timeout", args.stop_timeout.clone()),
    ];
    Ok(given(parameters))
}

/// Returns the parameters that describe the number.
pub fn metric_parameters(args: &MetricArgs) -> Vec<(&'static str, String)> {
    let parameters = [
        ("metric", args.metric.clone()),
        ("metric-json", args.metric_json.clone()),
        ("higher-is-better", Some(args.higher_is_better.to_string())),
    ];
    given(parameters)
}

fn given<const N: usize>(parameters: [(&'static str, Option<String>); N]) -> Vec<(&'static str, String)> {
    parameters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Returns the objective that a number in the output is; `None` without one.
pub fn metric_objective(args: &MetricArgs) -> Option<Objective> {
    let objective = if args.higher_is_better { Objective::NumberHigher } else { Objective::Number };
    args.has_metric().then_some(objective)
}

/// Returns the name and the unit of a number in the output.
pub fn metric_label(args: &MetricArgs) -> Result<MetricLabel, CliError> {
    let name = args.metric_name.clone().or_else(|| group_name(args.metric.as_ref()?));
    let label = MetricLabel { name, unit: args.metric_unit.clone() };
    if label != MetricLabel::default() && !args.has_metric() {
        return Err(CliError::usage("--metric-name and --metric-unit require --metric or --metric-json"));
    }
    Ok(label)
}

/// Splits a command line into arguments as a shell does, without expansions.
pub(super) fn split(option: &str, text: &str) -> Result<Vec<String>, CliError> {
    let words = shlex::split(text).filter(|words| !words.is_empty());
    words.ok_or_else(|| CliError::usage(format!("{option} '{text}': the command is empty or has an unclosed quote")))
}
