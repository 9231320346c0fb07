//! `nearfar doctor`: what on this machine would spoil a measurement, and what cannot be measured here.

use std::path::Path;
use std::process::ExitCode;

use model::analysis::doctor::diagnose;

use crate::cli::{DoctorArgs, GlobalArgs, TextOrJson};
use crate::error::CommandResult;
use crate::output;
use crate::run_guard::site;
use crate::target_machine::store_sibling;

/// Looks at this machine. What it finds is no failure.
pub fn run(args: &DoctorArgs, common: &GlobalArgs) -> CommandResult {
    let store = store_sibling(common, "results.db")?;
    let signs = machine::probes::read(store.parent().unwrap_or(Path::new(".")), &site(None));
    let diagnosis = diagnose(&machine::settings::read(), &signs);
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::diagnosis(&diagnosis))?,
        TextOrJson::Text => output::print(&report::doctor::diagnosis(&diagnosis, &output::look()))?,
    }
    Ok(ExitCode::SUCCESS)
}
