//! `nearfar report`: one self-contained HTML file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cli::{GlobalArgs, ReportArgs, TextOrJson};
use crate::error::{CliError, CommandResult};
use crate::output;
use crate::reported;
use crate::target_machine::{existing_store, store_sibling};

/// Writes the report and says where it is.
pub fn run(args: &ReportArgs, common: &GlobalArgs) -> CommandResult {
    let store = existing_store(common)?;
    let html =
        if args.runs.is_empty() { reported::latest(&store, None)? } else { reported::of(&store, &args.runs, None)? };
    let path = args.output.clone().map_or_else(|| beside(common), Ok)?;
    output::write(&path, &html)?;
    if path != Path::new("-") {
        say_where(&path, args.format)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Beside the results; where they are on a server, that folder may not be there yet.
fn beside(common: &GlobalArgs) -> Result<PathBuf, CliError> {
    let path = store_sibling(common, "report.html")?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .map_err(|error| CliError::of(format!("cannot make the folder {}: {error}", folder.display())))?;
    }
    Ok(path)
}

fn say_where(path: &Path, format: TextOrJson) -> Result<(), CliError> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    match format {
        TextOrJson::Text => output::print(&path.display().to_string()),
        TextOrJson::Json => output::print_json(&serde_json::json!({ "report": path })),
    }
}
