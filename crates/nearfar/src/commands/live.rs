//! `nearfar live`: examines the placement of a running service.

use std::process::ExitCode;
use std::time::Duration;

use machine::live::{ObserveError, observe, rights};
use model::analysis::live::LiveAudit;
use model::values::units::Nanos;

use crate::app::target_machine::read_topology;
use crate::cli::{GlobalArgs, LiveArgs, LiveAuditArgs, LiveCommand, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::requests::{self, Subject};

/// Observations that take longer are announced.
const ANNOUNCED_FROM: Duration = Duration::from_secs(1);

pub fn run(args: &LiveArgs, common: &GlobalArgs) -> CommandResult {
    match &args.command {
        LiveCommand::Audit(args) => audit(args, common),
    }
}

fn audit(args: &LiveAuditArgs, common: &GlobalArgs) -> CommandResult {
    let duration = Duration::from_nanos(requests::duration("--duration", &args.duration)?.0);
    let subject = Subject::new(&args.subject)?;
    // First, because it names processes that do not exist or may not be inspected.
    let memory = subject.inspect()?;
    let topology = read_topology(None)?;
    if !common.quiet && duration > ANNOUNCED_FROM {
        message!("nearfar: observing {} for {}", subject.name, Nanos(duration.as_nanos() as u64));
    }
    let activity = observe(|| subject.processes().unwrap_or_default(), duration).map_err(|error| match error {
        ObserveError::Ended => CliError::with(CliStatus::Failure, error),
        ObserveError::CpuTimes(_) => CliError::with(CliStatus::Skipped, error),
    })?;
    let rights = rights(&subject.processes().unwrap_or_default());
    let name = subject.describe(&memory);
    let audit = LiveAudit::new(&topology, &activity, memory, rights);
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::live_audit(&name, &audit))?,
        TextOrJson::Text => output::print(&report::live::audit(&name, &audit, &output::stdout_style()))?,
    }
    Ok(ExitCode::SUCCESS)
}
