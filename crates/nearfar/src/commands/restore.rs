//! `nearfar restore`: puts back the settings that an interrupted run left changed.

use std::process::ExitCode;

use machine::undo;
use model::undo::{Restoration, Restored};

use crate::cli::{Restore, TextOrJson};
use crate::failure::{Failure, Outcome, Status};
use crate::hold::{failure, site, turn_now};
use crate::output;

/// Puts back what the journal has.
pub fn run(args: &Restore) -> Outcome {
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

fn not_back(restored: &Restored) -> Failure {
    match &restored.outcome {
        Restoration::Failed { not_permitted: true, .. } => {
            Failure::with(Status::NotPermitted, "not everything could be put back").hint("settings are changed by root")
        }
        _ => Failure::of("not everything could be put back")
            .hint("--force writes the old values over anything, --forget leaves all as it is"),
    }
}
