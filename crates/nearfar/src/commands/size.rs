//! `nearfar size`: measures a command under DRAM budgets, and reports the smallest budget that is large enough.

use std::process::ExitCode;

use model::values::units::{Bytes, Nanos, parse_share};

use crate::app::size::{SizeBudget, SizeRequest, answer, size};
use crate::cli::{Engines, GlobalArgs, SizeArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::requests;
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
    let request = SizeRequest {
        session: requests::session(&args.machine, &args.guard, common),
        command: args.command.clone(),
        within_percent: 100.0 * share,
        time_limit: Nanos::parse(&args.repeats.time_limit).map_err(CliError::usage)?,
        budgets: args.dram.iter().map(|text| budget(text)).collect::<Result<_, _>>()?,
        steered: match args.engine {
            Engines::Steered => &[true],
            Engines::Kernel => &[false],
            Engines::Both => &[true, false],
        },
        repetitions: args.repeats.repetitions,
        warmup: args.repeats.warmup,
    };
    machine::child::find_program(&args.command[0]).map_err(CliError::usage)?;
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
