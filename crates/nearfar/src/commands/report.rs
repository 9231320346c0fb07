//! `nearfar report`: one self-contained HTML file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cli::{Common, Report, TextOrJson};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::reported;
use crate::subject::{beside_store, existing_store};

/// Writes the report and says where it is.
pub fn run(args: &Report, common: &Common) -> Outcome {
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
fn beside(common: &Common) -> Result<PathBuf, Failure> {
    let path = beside_store(common, "report.html")?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::of(format!("cannot make the folder {}: {error}", folder.display())))?;
    }
    Ok(path)
}

fn say_where(path: &Path, format: TextOrJson) -> Result<(), Failure> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    match format {
        TextOrJson::Text => output::print(&path.display().to_string()),
        TextOrJson::Json => output::print_json(&serde_json::json!({ "report": path })),
    }
}
