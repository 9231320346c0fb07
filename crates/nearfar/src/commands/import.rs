//! `nearfar import`: published tables, reports of other suites, or another results file.

use std::process::ExitCode;

use model::record::ImportedTable;
use store::import::ImportError;

use crate::cli::{Common, Import, ImportFormat};
use crate::failure::{Failure, Outcome};
use crate::subject::open_store;

/// Imports a file.
pub fn run(args: &Import, common: &Common) -> Outcome {
    let said = match args.format {
        ImportFormat::Store => merge(args, common)?,
        ImportFormat::Table => table(store::import::read_table(&args.file), "", common)?,
        ImportFormat::Unixbench => table(store::import::read_unixbench(&args.file), " --index unixbench", common)?,
    };
    if !common.quiet {
        eprintln!("{said}");
    }
    Ok(ExitCode::SUCCESS)
}

fn merge(args: &Import, common: &Common) -> Result<String, Failure> {
    let report = open_store(common)?.merge(&args.file).map_err(Failure::usage)?;
    Ok(report.to_string())
}

/// Stores a table and says what can be done with it.
fn table(read: Result<ImportedTable, ImportError>, flags: &str, common: &Common) -> Result<String, Failure> {
    let table = read.map_err(Failure::usage)?;
    open_store(common)?.add_table(&table).map_err(Failure::of)?;
    let words =
        format!("imported {} rows of {} columns as table {}", table.rows.len(), table.columns.len(), table.name);
    Ok(format!("{words}\nhint: nearfar compare --by column --baseline '{}'{flags}", table.columns[0]))
}
