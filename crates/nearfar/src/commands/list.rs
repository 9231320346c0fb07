//! `nearfar list`: workloads, experiments, policies.

use std::process::ExitCode;

use model::placements::placement::POLICIES;

use crate::cli::{GlobalArgs, ListArgs, ListKind, TextOrJson};
use crate::commands::run::BUILT_IN;
use crate::error::{CliError, CommandResult};
use crate::output;

/// Lists one kind of thing.
pub fn run(args: &ListArgs, _common: &GlobalArgs) -> CommandResult {
    let look = output::look();
    let (text, json) = match args.what {
        ListKind::Workloads => {
            let specs = workloads::specs();
            (report::table::workloads(&specs, &look), report::json::workloads(&specs))
        }
        ListKind::Experiments => {
            let experiments = built_in()?;
            (report::table::experiments(&experiments, &look), report::json::experiments(&experiments))
        }
        ListKind::Policies => (report::table::policies(POLICIES, &look), report::json::policies(POLICIES)),
    };
    match args.format {
        TextOrJson::Text => output::print(&text)?,
        TextOrJson::Json => output::print_json(&json)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Name and question of every built-in experiment.
fn built_in() -> Result<Vec<(String, String)>, CliError> {
    let specs = workloads::specs();
    let read =
        |(file, text): &(&str, &str)| model::experiments::experiment::parse(text, file, &specs).map_err(CliError::of);
    BUILT_IN.iter().map(read).map(|experiment| experiment.map(|one| (one.name, one.question))).collect()
}
