//! `nearfar restore`: puts back the settings that an interrupted run left changed.

use std::process::ExitCode;

use machine::undo;
use model::values::undo::{RestoreStatus, Restored};

use crate::cli::{RestoreArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::run_guard::{failure, site, turn_now};

/// Puts back what the journal has.
pub fn run(args: &RestoreArgs) -> CommandResult {
    // The settings of a run that is not over are its own.
    let _turn = turn_now()?;
    let site = site(args.settings_root.as_deref());
    let restored = undo::restore(&site, args.force).map_err(|error| failure(&error))?;
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::restored(&restored))?,
        TextOrJson::Text => output::print(&report::table::restored(&restored))?,
    }
    if args.forget {
        undo::forget(&site).map_err(|error| failure(&error))?;
        return Ok(ExitCode::SUCCESS);
    }
    match restored.iter().find(|restored| !restored.is_settled()) {
        None => Ok(ExitCode::SUCCESS),
        Some(restored) => Err(not_back(restored)),
    }
}

fn not_back(restored: &Restored) -> CliError {
    match &restored.outcome {
        RestoreStatus::Failed { not_permitted: true, .. } => {
            CliError::with(CliStatus::NotPermitted, "not everything could be put back")
                .hint("settings are changed by root")
        }
        _ => CliError::of("not everything could be put back")
            .hint("--force writes the old values over anything, --forget leaves all as it is"),
    }
}
