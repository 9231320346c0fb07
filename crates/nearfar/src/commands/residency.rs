//! `nearfar where`: shows which memory nodes hold the memory of processes, or the cached parts of files.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use machine::foreground;
use machine::residency::{FileError, InspectError, cached_file};
use model::analysis::residency::{Residency, ResidencySample};
use model::values::shell::quote_argv;

use crate::app::{forwarded_signals, residency};
use crate::cli::{GlobalArgs, TextOrJson, WhereArgs};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::requests::{Subject, inspect_error};

pub fn run(args: &WhereArgs, common: &GlobalArgs) -> CommandResult {
    if !args.command.is_empty() {
        return run_command(&args.command, args.format, common);
    }
    if !args.files.is_empty() {
        return run_files(args);
    }
    let subject = Subject::new(&args.subject)?;
    let found = subject.inspect()?;
    print(&subject.describe(&found), &found, &[], args.format)?;
    Ok(ExitCode::SUCCESS)
}

fn print(subject: &str, found: &Residency, samples: &[ResidencySample], format: TextOrJson) -> Result<(), CliError> {
    match format {
        TextOrJson::Json => output::print_json(&report::json::residency(subject, found, samples)),
        TextOrJson::Text => {
            output::print(&report::residency::processes(subject, found, samples, &output::stdout_style()))
        }
    }
}

fn run_files(args: &WhereArgs) -> CommandResult {
    print_files(&args.files, args.format)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints which parts of files are cached. If one of them cannot be inspected, nothing is printed.
pub(super) fn print_files(paths: &[PathBuf], format: TextOrJson) -> Result<(), CliError> {
    let files: Vec<_> =
        paths.iter().map(|path| cached_file(path)).collect::<Result<_, _>>().map_err(|error| file_error(&error))?;
    match format {
        TextOrJson::Json => output::print_json(&report::json::cached_files(&files)),
        TextOrJson::Text => output::print(&report::residency::files(&files, &output::stdout_style())),
    }
}

pub(super) fn file_error(error: &FileError) -> CliError {
    let status = match error {
        FileError::NotAFile { .. } | FileError::Open { is_missing: true, .. } => CliStatus::Usage,
        FileError::Open { .. } | FileError::NotOwner(_) => CliStatus::NotPermitted,
        FileError::Refused { .. } => CliStatus::Failure,
    };
    CliError::with(status, error)
}

/// Runs a command and shows its memory at the last inspection before its end. Exits like the command.
fn run_command(command: &[OsString], format: TextOrJson, common: &GlobalArgs) -> CommandResult {
    // First: an unhandled signal would end this process before it can show a result.
    let signals = forwarded_signals::receive()?;
    let mut program = match residency::start(command) {
        Ok(program) => program,
        Err(status) => return Ok(status),
    };
    let watched = residency::watch(&mut program, &signals)?;
    let words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match &watched.last {
        Ok(found) => {
            let at = watched.samples.last().map_or(0.0, |sample| sample.after_seconds);
            if !common.quiet {
                let elapsed = watched.elapsed.as_secs_f64();
                message!("nearfar: inspected {at:.2} s after the start; the command ended after {elapsed:.2} s");
            }
            print(&quote_argv(&words), found, &watched.samples, format)?;
        }
        Err(InspectError::Ended(_) | InspectError::Missing(_)) => {
            message!("nearfar: the command ended before its memory could be inspected");
        }
        Err(error) => {
            inspect_error(error).print();
        }
    }
    foreground::exit_like(watched.status)
}
