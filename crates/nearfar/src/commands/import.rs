//! `nearfar import`: imports published tables, reports of other programs, or another results file.

use std::path::Path;
use std::process::ExitCode;

use model::import::reports::{NamedReport, join};
use model::values::record::ImportedTable;
use model::values::shell::quote_arg;
use store::import::{ImportError, ImportFormat, read};

use crate::cli::{GlobalArgs, ImportArgs};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::requests::open_store;

pub fn run(args: &ImportArgs, common: &GlobalArgs) -> CommandResult {
    check_columns(args)?;
    let format = Some(args.format.as_str()).filter(|format| *format != "auto");
    let mut reports = Vec::new();
    let mut formats = Vec::new();
    for (index, file) in args.files.iter().enumerate() {
        match read(file, format).map_err(|error| failure(&error))? {
            ImportFormat::Store => return merge(args, file, common),
            ImportFormat::Report(report, format) => {
                reports.push(NamedReport { column: args.columns.get(index).cloned(), file: stem(file), report });
                if !formats.contains(&format) {
                    formats.push(format);
                }
            }
        }
    }
    let table =
        join(&name(args)?, reports).map_err(|error| CliError::usage(&error.what).maybe_hint(error.hint.as_ref()))?;
    let hint = if formats == ["unixbench"] { " --index unixbench" } else { "" };
    add(&table, &formats.join(", "), hint, common)
}

fn failure(error: &ImportError) -> CliError {
    CliError::usage(error)
}

fn check_columns(args: &ImportArgs) -> Result<(), CliError> {
    let (files, columns) = (args.files.len(), args.columns.len());
    if columns == 0 || columns == files {
        return Ok(());
    }
    Err(CliError::usage(format!("{files} files and {columns} columns"))
        .hint("use --column NAME once per file, in their order, or omit it"))
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the name of the table: `--name`, else derived from the file names.
fn name(args: &ImportArgs) -> Result<String, CliError> {
    let name = args.name.clone();
    let name = name.unwrap_or_else(|| args.files.iter().map(|file| stem(file)).collect::<Vec<_>>().join("+"));
    if name.trim().is_empty() || name.len() > model::import::reports::NAME_BYTES_MAX {
        let message = format!("the name of the table must have 1 to {} bytes", model::import::reports::NAME_BYTES_MAX);
        return Err(CliError::usage(message).hint("choose a name with --name NAME"));
    }
    Ok(name)
}

fn merge(args: &ImportArgs, file: &Path, common: &GlobalArgs) -> CommandResult {
    if args.files.len() > 1 || !args.columns.is_empty() || args.name.is_some() {
        return Err(CliError::usage(format!(
            "{} is a results file; it cannot be imported with other files, --column or --name",
            file.display()
        ))
        .hint("import it separately: nearfar import FILE"));
    }
    let report = open_store(common)?.merge(file).map_err(|error| CliError::store(&error, CliStatus::Usage))?;
    info(common, &report.to_string());
    Ok(ExitCode::SUCCESS)
}

/// Stores a table, and prints the command that compares its columns.
fn add(table: &ImportedTable, formats: &str, flags: &str, common: &GlobalArgs) -> CommandResult {
    let added = open_store(common)?.add_table(table).map_err(|error| match error {
        store::StoreError::TableDiffers { .. } => CliError::usage(error),
        error => CliError::store(&error, CliStatus::Failure),
    })?;
    let verb = if added { "imported" } else { "already present:" };
    let (rows, columns) = (counted(table.rows.len(), "row"), counted(table.columns.len(), "column"));
    info(common, &format!("{verb} {rows} of {columns} as table {} ({formats})", table.name));
    for note in &table.notes {
        info(common, &format!("note: {note}"));
    }
    let (name, baseline) = (quote_arg(&table.name), quote_arg(&table.columns[0]));
    info(common, &format!("hint: nearfar compare --by column --table {name} --baseline {baseline}{flags}"));
    Ok(ExitCode::SUCCESS)
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn info(common: &GlobalArgs, message: &str) {
    if !common.quiet {
        message!("{message}");
    }
}
