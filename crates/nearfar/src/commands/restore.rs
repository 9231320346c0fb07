//! `nearfar restore`: restores settings that an interrupted run left changed, and those that are kept until then.

use std::process::ExitCode;

use machine::undo::{self, ChangeError, SettingsRoot};
use model::values::undo::{RestoreStatus, Restored};

use crate::app::applied::Applied;
use crate::app::run_guard::{failure, lock_now, site};
use crate::cli::{RestoreArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;

/// Restores the settings of the undo journal.
pub fn run(args: &RestoreArgs) -> CommandResult {
    // The settings of a run in progress must not be restored.
    let _lock = lock_now()?;
    let site = site(args.settings_root.as_deref());
    detail!("undo journal: {}", site.state.display());
    let all = || std::iter::once(site.clone()).chain(site.kept());
    let of_all = |restore: fn(&SettingsRoot, bool) -> Result<Vec<Restored>, ChangeError>| {
        let restored: Result<Vec<_>, _> = all().map(|site| restore(&site, args.force)).collect();
        restored.map(|restored| restored.concat()).map_err(|error| failure(&error))
    };
    if args.dry_run {
        print(&of_all(undo::preview)?, args.format)?;
        for applied in Applied::all(&site)?.iter().filter(|applied| applied.placement.is_experiment) {
            message!("{}: its memory would be moved back", applied.placement.subject);
        }
        return Ok(ExitCode::SUCCESS);
    }
    workloads::remove_stale_trial_dirs();
    let restored = of_all(undo::restore)?;
    for undone in Applied::undo_experiments(&site)? {
        message!("{}: its memory was moved back", undone.subject);
    }
    print(&restored, args.format)?;
    match site.applied().len() {
        0 => {}
        1 => message!("1 placement of a running service stays; undo it with nearfar live undo --all"),
        more => message!("{more} placements of running services stay; undo them with nearfar live undo --all"),
    }
    if args.forget {
        all().try_for_each(|site| undo::forget(&site)).map_err(|error| failure(&error))?;
        return Ok(ExitCode::SUCCESS);
    }
    match restored.iter().find(|restored| !restored.is_settled()) {
        None => Ok(ExitCode::SUCCESS),
        Some(restored) => Err(not_restored(restored)),
    }
}

fn print(restored: &[Restored], format: TextOrJson) -> Result<(), CliError> {
    match format {
        TextOrJson::Json => output::print_json(&report::json::restored(restored)),
        TextOrJson::Text => output::print(&report::table::restored(restored)),
    }
}

fn not_restored(restored: &Restored) -> CliError {
    match &restored.outcome {
        RestoreStatus::Failed { not_permitted: true, .. } => {
            CliError::with(CliStatus::NotPermitted, "some settings could not be restored")
                .hint("run nearfar restore as root")
        }
        _ => CliError::failure("some settings could not be restored").hint(
            "use --force to restore settings that another program has changed, or --forget to keep the present values",
        ),
    }
}
