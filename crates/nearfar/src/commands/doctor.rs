//! `nearfar doctor`: what on this machine would spoil a measurement, and what cannot be measured here.

use std::path::Path;
use std::process::ExitCode;

use model::doctor::diagnose;

use crate::cli::{Common, Doctor, TextOrJson};
use crate::failure::Outcome;
use crate::hold::site;
use crate::output;
use crate::subject::beside_store;

/// Looks at this machine. What it finds is no failure.
pub fn run(args: &Doctor, common: &Common) -> Outcome {
    let store = beside_store(common, "results.db")?;
    let signs = machine::signs::read(store.parent().unwrap_or(Path::new(".")), &site(None));
    let diagnosis = diagnose(&machine::settings::read(), &signs);
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::diagnosis(&diagnosis))?,
        TextOrJson::Text => output::print(&report::doctor::diagnosis(&diagnosis, &output::look()))?,
    }
    Ok(ExitCode::SUCCESS)
}
