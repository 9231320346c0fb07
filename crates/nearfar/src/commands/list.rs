//! `nearfar list`: workloads, experiments, policies.

use std::process::ExitCode;

use model::placement::POLICIES;

use crate::cli::{Common, List, Listed, TextOrJson};
use crate::commands::run::BUILT_IN;
use crate::failure::{Failure, Outcome};
use crate::output;

/// Lists one kind of thing.
pub fn run(args: &List, _common: &Common) -> Outcome {
    let look = output::look();
    let (text, json) = match args.what {
        Listed::Workloads => {
            let specs = workloads::specs();
            (report::table::workloads(&specs, &look), report::json::workloads(&specs))
        }
        Listed::Experiments => {
            let experiments = built_in()?;
            (report::table::experiments(&experiments, &look), report::json::experiments(&experiments))
        }
        Listed::Policies => (report::table::policies(POLICIES, &look), report::json::policies(POLICIES)),
    };
    match args.format {
        TextOrJson::Text => output::print(&text)?,
        TextOrJson::Json => output::print_json(&json)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Name and question of every built-in experiment.
fn built_in() -> Result<Vec<(String, String)>, Failure> {
    let specs = workloads::specs();
    let read = |(file, text): &(&str, &str)| model::experiment::parse(text, file, &specs).map_err(Failure::of);
    BUILT_IN.iter().map(read).map(|experiment| experiment.map(|one| (one.name, one.question))).collect()
}
