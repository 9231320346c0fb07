//! `nearfar size`: measures a command under DRAM budgets, and reports the smallest budget that is large enough.

use std::process::ExitCode;

use model::analysis::place::Objective;
use model::values::program::program_name;
use model::values::units::{Bytes, Nanos, parse_share, share_percent};

use crate::app::size::{SizeBudget, SizeRequest, answer, size};
use crate::cli::{Engines, GlobalArgs, SizeArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::requests::{self, metric_label, metric_objective, metric_parameters, server_and_load, server_parameters};
use crate::run_output::end_message;

/// Measures the command and prints the answer.
pub fn run(args: &SizeArgs, common: &GlobalArgs) -> CommandResult {
    let result = size(&request(args, common)?)?;
    if !common.quiet {
        message!("{}", end_message(result.end, &result.record));
    }
    let (answer, comparison) = answer(&result)?;
    match args.format {
        TextOrJson::Text => output::print(&report::table::size(&answer, &output::stdout_style()))?,
        TextOrJson::Json => output::print_json(&report::json::size(&answer, &comparison))?,
    }
    Ok(if answer.enough.is_some() { ExitCode::SUCCESS } else { CliStatus::Inconclusive.into() })
}

fn request(args: &SizeArgs, common: &GlobalArgs) -> Result<SizeRequest, CliError> {
    let share = parse_share(&args.max_slowdown).map_err(|error| CliError::usage(format!("--max-slowdown: {error}")))?;
    let commands = server_and_load(&args.server, &args.command)?;
    let mut parameters = server_parameters(&args.server, &args.command, false)?;
    parameters.extend(metric_parameters(&args.number));
    let request = SizeRequest {
        session: requests::session(&args.machine, &args.guard, common),
        program: program_name(commands.limited()).to_string(),
        parameters: parameters.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
        objective: metric_objective(&args.number).unwrap_or(Objective::WallTime),
        label: metric_label(&args.number)?,
        within_percent: share_percent(share),
        time_limit: Nanos::parse(&args.repeats.time_limit).map_err(CliError::usage)?,
        time_budget: args.budget.as_ref().map(|text| requests::duration("--budget", text)).transpose()?,
        budgets: args.dram.iter().map(|text| budget(text)).collect::<Result<_, _>>()?,
        steered: match args.engine {
            Engines::Steered => &[true],
            Engines::Kernel => &[false],
            Engines::Both => &[true, false],
        },
        compressed: if args.compressed { &[false, true] } else { &[false] },
        repetitions: args.repeats.repetitions,
        warmup: args.repeats.warmup,
    };
    for command in commands.server.iter().chain([&commands.measured]) {
        machine::child::find_program(&command[0]).map_err(CliError::usage)?;
    }
    if args.machine.sim.is_some() {
        return Err(CliError::usage("--sim is not supported: a simulated machine has no swap"));
    }
    Ok(request)
}

/// Parses a value of `--dram`.
fn budget(text: &str) -> Result<SizeBudget, CliError> {
    let budget = if text.trim_end().ends_with('%') {
        parse_share(text).map(SizeBudget::Share)
    } else {
        Bytes::parse(text).map(SizeBudget::Bytes)
    };
    budget.map_err(|error| CliError::usage(format!("--dram: {error}")))
}
