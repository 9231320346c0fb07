//! `nearfar run`: runs an experiment.

use lab::progress::RunEnd;
use model::experiments::experiment::Experiment;
use model::values::units::Nanos;
use store::Store;

use crate::app::run::{self, RunRequest, measured_boots};
use crate::app::run_guard::print_preview;
use crate::app::session::ResumeRule;
use crate::cli::{GlobalArgs, RunArgs};
use crate::error::{CliError, CommandResult};
use crate::requests;
use crate::run_output::{print_plan, print_run};

/// Runs an experiment, or resumes an unfinished run of it. Then repeats it as new runs, if requested.
pub fn run(args: &RunArgs, common: &GlobalArgs) -> CommandResult {
    let mut request = request(args, common)?;
    if args.dry_run {
        print_preview(&request.session.guard);
        return print_plan(&run::plan(&request)?, args.format);
    }
    let mut result = run::run(&request)?;
    for _ in 1..args.repeat_runs.unwrap_or(1) {
        if result.end == RunEnd::Interrupted {
            break;
        }
        print_run(&result, args.format, common.quiet)?;
        request.resume = ResumeRule::Fresh;
        result = run::run(&request)?;
    }
    let status = print_run(&result, args.format, common.quiet)?;
    if !common.quiet && result.record.simulated.is_none() {
        print_next_boot(&request.experiment, &result.store)?;
    }
    Ok(status)
}

fn request(args: &RunArgs, common: &GlobalArgs) -> Result<RunRequest, CliError> {
    let (experiment, overridden) = requests::read_experiment(args, common)?;
    Ok(RunRequest {
        session: requests::session(&args.machine, &args.guard, common),
        experiment,
        overridden,
        map: requests::map(&args.map, common),
        devices: args.devices.clone(),
        smoke: args.smoke,
        budget: args.budget.as_deref().map(Nanos::parse).transpose().map_err(CliError::usage)?,
        resume: ResumeRule::new(args.fresh, args.resume.as_deref()),
    })
}

/// Prints the kernel parameters that the experiment requests next.
fn print_next_boot(experiment: &Experiment, store: &Store) -> Result<(), CliError> {
    let command_lines = measured_boots(experiment, store)?;
    let lines: Vec<&str> = command_lines.iter().map(String::as_str).collect();
    match experiment.unmeasured_boots(&lines)[..] {
        [] if experiment.boots.is_empty() => {}
        [] => message!("all boots are measured; compare them with nearfar compare --by boot"),
        ["", ..] => message!("next: boot without {} and rerun the command", experiment.boots.join(", ")),
        [boot, ..] => message!("next: boot with the kernel parameters {boot} and rerun the command"),
    }
    Ok(())
}
