//! `nearfar gate`: tests whether a command is slower than a baseline by more than is allowed.

use std::path::PathBuf;
use std::process::ExitCode;

use lab::progress::RunEnd;
use model::analysis::gate::{GateResult, GateVerdict};
use model::experiments::experiment::{CommandList, SingleWorkload};
use model::values::plan::GatePlan;
use model::values::record::RunRecord;
use model::values::units::parse_share;

use crate::app::gate::{BaselineRequest, GateRequest, gate, gate_stored};
use crate::cli::{GateArgs, GateFormat, GateOutputArgs, GlobalArgs, Objective};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::requests::{self, command_line, named_commands};

/// Runs the gate and prints its result.
pub fn run(args: &GateArgs, common: &GlobalArgs) -> CommandResult {
    let request = request(args, common)?;
    let (run, result) = match stored_baseline(args) {
        Some(baseline) => gate_stored(&request, &baseline)?,
        None => gate(&request)?,
    };
    output::print(&rendered(&run.record, &result, args.output.format)?)?;
    for (file, format) in exports(&args.output) {
        output::write(file, &rendered(&run.record, &result, format)?)?;
    }
    Ok(status(result.verdict, run.end))
}

/// The stored runs to compare with; `None` if the baseline is a command.
fn stored_baseline(args: &GateArgs) -> Option<BaselineRequest> {
    let is_stored = !args.baselines.is_empty() || args.baseline_ref.is_some();
    is_stored.then(|| BaselineRequest { runs: args.baselines.clone(), file: args.baseline_ref.clone() })
}

fn rendered(record: &RunRecord, result: &GateResult, format: GateFormat) -> Result<String, CliError> {
    Ok(match format {
        GateFormat::Text => report::gate::text(record, result, &output::stdout_style()),
        GateFormat::Markdown => report::gate::markdown(record, result),
        GateFormat::Junit => report::gate::junit(record, result),
        GateFormat::Json => {
            serde_json::to_string_pretty(&report::json::gate(record, result)).map_err(CliError::failure)?
        }
    })
}

fn exports(args: &GateOutputArgs) -> impl Iterator<Item = (&PathBuf, GateFormat)> {
    let files = [
        (&args.export_json, GateFormat::Json),
        (&args.export_markdown, GateFormat::Markdown),
        (&args.export_junit, GateFormat::Junit),
    ];
    files.into_iter().filter_map(|(file, format)| Some((file.as_ref()?, format)))
}

fn status(verdict: GateVerdict, end: RunEnd) -> ExitCode {
    match verdict {
        _ if end == RunEnd::Interrupted => CliStatus::Interrupted.into(),
        GateVerdict::Passed => ExitCode::SUCCESS,
        GateVerdict::Failed => CliStatus::Failure.into(),
        GateVerdict::Undecided => CliStatus::Inconclusive.into(),
        GateVerdict::Invalid => CliStatus::Invalid.into(),
    }
}

fn request(args: &GateArgs, common: &GlobalArgs) -> Result<GateRequest, CliError> {
    let share =
        |option: &str, text: &str| parse_share(text).map_err(|error| CliError::usage(format!("{option}: {error}")));
    let error_rate = share("--error-rate", &args.error_rate)?;
    if error_rate >= 0.5 {
        return Err(CliError::usage(format!("--error-rate {}: it must be below 50%", args.error_rate)));
    }
    Ok(GateRequest {
        session: requests::session(&args.machine, &args.guard, common),
        commands: commands(args)?,
        map: requests::map(&args.map, common),
        gate: GatePlan { max_slower: share("--max-slower", &args.max_slower)?, error_rate },
        budget: requests::duration("--budget", &args.budget)?,
        main: match args.metric.objective {
            Objective::WallTime => None,
            Objective::CpuTime => Some("cpu-time".into()),
            Objective::PeakMemory => Some("peak-memory".into()),
        },
    })
}

fn commands(args: &GateArgs) -> Result<CommandList, CliError> {
    let commands = named_commands(&args.command, &args.names, &[], args.trial.shell)?;
    let found = commands.len();
    if stored_baseline(args).is_some() && found != 1 {
        return Err(CliError::usage(format!("with a stored baseline, expected one command, found {found}")));
    }
    if stored_baseline(args).is_none() && found != 2 {
        return Err(CliError::usage(format!("expected two commands separated by :::, found {found}"))
            .hint("nearfar gate -- BASELINE ::: CANDIDATE, or nearfar gate --baseline RUN -- CANDIDATE"));
    }
    let shared = SingleWorkload {
        workload: "command".into(),
        set: parameters(args)?,
        placements: vec![args.placement.clone()],
        threads: None,
        // The gate has its own stopping rule.
        runs: 1,
        warmup: args.trial.warmup,
        time_limit: requests::duration("--time-limit", &args.trial.time_limit)?,
    };
    Ok(CommandList { commands, shared })
}

fn parameters(args: &GateArgs) -> Result<Vec<(String, String)>, CliError> {
    let shell = args.trial.shell;
    let line =
        |option: &str, text: &Option<String>| text.as_ref().map(|text| command_line(option, text, shell)).transpose();
    let flag = |value: bool| value.then(|| "true".to_string());
    let parameters = [
        ("prepare", line("--prepare", &args.trial.prepare)?),
        ("cleanup", line("--cleanup", &args.trial.cleanup)?),
        ("shell", flag(shell)),
        ("ignore-failure", flag(args.trial.ignore_failure)),
        ("metric", args.metric.metric.clone()),
        ("metric-json", args.metric.metric_json.clone()),
        ("higher-is-better", flag(args.metric.higher_is_better)),
    ];
    Ok(parameters.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect())
}
