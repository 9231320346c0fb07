//! `nearfar export`: results for other programs.

use std::path::Path;
use std::process::ExitCode;

use crate::cli::{Common, Export, ExportFormat};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::subject::existing_store;

/// Exports one run.
pub fn run(args: &Export, common: &Common) -> Outcome {
    let store = existing_store(common)?;
    let record = store.run(&args.run).map_err(Failure::usage)?;
    let mut bytes = Vec::new();
    let written = match args.format {
        ExportFormat::Csv => store::export::csv(&store, &record.id, &mut bytes),
        ExportFormat::Json => store::export::json(&store, &record.id, &mut bytes),
        ExportFormat::Hyperfine => store::export::hyperfine(&store, &record.id, &mut bytes),
        ExportFormat::Openmetrics => store::export::openmetrics(&store, &record.id, &mut bytes),
    };
    written.map_err(Failure::of)?;
    let text = String::from_utf8(bytes).map_err(Failure::of)?;
    output::write(args.output.as_deref().unwrap_or(Path::new("-")), &text)?;
    Ok(ExitCode::SUCCESS)
}
