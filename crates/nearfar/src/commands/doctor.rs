//! `nearfar doctor`: reports what disturbs or prevents measurements on this machine.

use std::path::Path;
use std::process::ExitCode;

use model::analysis::doctor::diagnose;

use crate::app::run_guard::site;
use crate::cli::{DoctorArgs, GlobalArgs, TextOrJson};
use crate::error::CommandResult;
use crate::output;
use crate::requests::results_file;

/// Diagnoses this machine. Problems do not change the exit status.
pub fn run(args: &DoctorArgs, common: &GlobalArgs) -> CommandResult {
    let store = results_file(common).sibling("results.db")?;
    let probes = machine::probes::read(store.parent().unwrap_or(Path::new(".")), &site(None));
    let diagnosis = diagnose(&machine::settings::read(), &probes);
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::diagnosis(&diagnosis))?,
        TextOrJson::Text => output::print(&report::doctor::diagnosis(&diagnosis, &output::stdout_style()))?,
    }
    Ok(ExitCode::SUCCESS)
}
