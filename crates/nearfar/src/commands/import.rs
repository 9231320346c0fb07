//! `nearfar import`: published tables, reports of other programs, or another results file.

use std::path::Path;
use std::process::ExitCode;

use model::record::ImportedTable;
use model::reports::{Named, join};
use model::shell::quote;
use store::import::{Found, ImportError, read};

use crate::cli::{Common, Import};
use crate::failure::{Failure, Outcome, Status};
use crate::subject::open_store;

/// Imports files.
pub fn run(args: &Import, common: &Common) -> Outcome {
    check_columns(args)?;
    let format = Some(args.format.as_str()).filter(|format| *format != "auto");
    let mut reports = Vec::new();
    let mut formats = Vec::new();
    for (index, file) in args.files.iter().enumerate() {
        match read(file, format).map_err(|error| failure(&error))? {
            Found::Store => return merge(args, file, common),
            Found::Report(report, format) => {
                reports.push(Named { column: args.columns.get(index).cloned(), file: stem(file), report });
                if !formats.contains(&format) {
                    formats.push(format);
                }
            }
        }
    }
    let table =
        join(&name(args)?, reports).map_err(|error| Failure::usage(&error.what).hint_of(error.hint.as_deref()))?;
    let hint = if formats == ["unixbench"] { " --index unixbench" } else { "" };
    add(&table, &formats.join(", "), hint, common)
}

fn failure(error: &ImportError) -> Failure {
    Failure::usage(error).hint_of(error.hint.as_deref())
}

fn check_columns(args: &Import) -> Result<(), Failure> {
    let (files, columns) = (args.files.len(), args.columns.len());
    if columns == 0 || columns == files {
        return Ok(());
    }
    Err(Failure::usage(format!("{files} files and {columns} columns"))
        .hint("--column NAME once for each file, in their order, or not at all"))
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The table's name: as asked, else as the files are called.
fn name(args: &Import) -> Result<String, Failure> {
    let given = args.name.clone();
    let name = given.unwrap_or_else(|| args.files.iter().map(|file| stem(file)).collect::<Vec<_>>().join("+"));
    if name.trim().is_empty() || name.len() > model::reports::NAME_BYTES_MAX {
        let what = format!("a table's name has 1 to {} bytes", model::reports::NAME_BYTES_MAX);
        return Err(Failure::usage(what).hint("choose one: --name NAME"));
    }
    Ok(name)
}

fn merge(args: &Import, file: &Path, common: &Common) -> Outcome {
    if args.files.len() > 1 || !args.columns.is_empty() || args.name.is_some() {
        return Err(Failure::usage(format!(
            "{} is a results file, which has neither columns nor a name to choose",
            file.display()
        ))
        .hint("import it alone: nearfar import FILE"));
    }
    let report = open_store(common)?.merge(file).map_err(|error| Failure::store(&error, Status::Usage))?;
    say(common, &report.to_string());
    Ok(ExitCode::SUCCESS)
}

/// Stores a table and says what can be done with it.
fn add(table: &ImportedTable, formats: &str, flags: &str, common: &Common) -> Outcome {
    let added = open_store(common)?.add_table(table).map_err(|error| match error {
        store::StoreError::TableDiffers { .. } => Failure::usage(error),
        error => Failure::store(&error, Status::Failure),
    })?;
    let verb = if added { "imported" } else { "was there already:" };
    let (rows, columns) = (counted(table.rows.len(), "row"), counted(table.columns.len(), "column"));
    say(common, &format!("{verb} {rows} of {columns} as table {} ({formats})", table.name));
    for note in &table.notes {
        say(common, &format!("note: {note}"));
    }
    let (name, baseline) = (quote(&table.name), quote(&table.columns[0]));
    say(common, &format!("hint: nearfar compare --by column --table {name} --baseline {baseline}{flags}"));
    Ok(ExitCode::SUCCESS)
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn say(common: &Common, words: &str) {
    if !common.quiet {
        eprintln!("{words}");
    }
}
