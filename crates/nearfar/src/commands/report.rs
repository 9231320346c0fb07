//! `nearfar report`: writes one self-contained HTML file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::app::report::{SuspectTrials, latest_html, runs_html};
use crate::cli::{GlobalArgs, ReportArgs, TextOrJson};
use crate::error::{CliError, CommandResult};
use crate::output;
use crate::requests::{existing_store, results_file};

/// Writes the report and prints its path.
pub fn run(args: &ReportArgs, common: &GlobalArgs) -> CommandResult {
    let store = existing_store(common)?;
    let suspect = if args.strict { SuspectTrials::LeftOut } else { SuspectTrials::Kept };
    let html = if args.runs.is_empty() {
        latest_html(&store, suspect, None)?
    } else {
        runs_html(&store, &args.runs, suspect, None)?
    };
    let path = args.output.clone().map_or_else(|| default_path(common), Ok)?;
    output::write(&path, &html)?;
    if path != Path::new("-") {
        print_path(&path, args.format)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the path next to the results file. Creates the directory, which may not exist if results are on a server.
fn default_path(common: &GlobalArgs) -> Result<PathBuf, CliError> {
    let path = results_file(common).sibling("report.html")?;
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        files::create_dirs(dir)
            .map_err(|error| CliError::failure(format!("cannot create the directory {}: {error}", dir.display())))?;
    }
    Ok(path)
}

fn print_path(path: &Path, format: TextOrJson) -> Result<(), CliError> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    match format {
        TextOrJson::Text => output::print(&path.display().to_string()),
        TextOrJson::Json => output::print_json(&serde_json::json!({ "report": path })),
    }
}
