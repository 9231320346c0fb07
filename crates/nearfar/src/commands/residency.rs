//! `nearfar where`: shows which memory nodes hold the memory of processes, or the cached parts of files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use machine::foreground;
use machine::residency::{
    FileError, InspectError, cached_file, find_container, find_unit, inspect, inspect_tree, processes_in,
    resolve_cgroup,
};
use model::analysis::residency::{Residency, ResidencySample};
use model::values::shell::quote_argv;

use crate::app::{forwarded_signals, residency};
use crate::cli::{GlobalArgs, TextOrJson, WhereArgs};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;

pub fn run(args: &WhereArgs, common: &GlobalArgs) -> CommandResult {
    if !args.command.is_empty() {
        return run_command(&args.command, args.format, common);
    }
    if !args.files.is_empty() {
        return run_files(args);
    }
    let (subject, found) = match args.pid {
        Some(pid) => (format!("process {pid}"), inspect_tree(pid)),
        None => in_cgroup(args)?,
    };
    let found = found.map_err(|error| inspect_error(&error))?;
    print(&described(&subject, &found), &found, &[], args.format)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the name of a unit, container or cgroup, and the memory of its processes.
fn in_cgroup(args: &WhereArgs) -> Result<(String, Result<Residency, InspectError>), CliError> {
    let (subject, dir) = if let Some(unit) = &args.unit {
        (format!("unit {unit}"), find_unit(unit))
    } else if let Some(container) = &args.container {
        (format!("container {}", container.text), find_container(&container.id, &container.text))
    } else {
        let path = args.cgroup.as_deref().unwrap_or(Path::new("/"));
        (format!("cgroup {}", path.display()), resolve_cgroup(path))
    };
    let pids = dir.and_then(|dir| processes_in(&dir)).map_err(CliError::usage)?;
    Ok((subject, inspect(&pids)))
}

/// `process 7 (server) and 2 descendants`.
fn described(subject: &str, found: &Residency) -> String {
    match found.processes.as_slice() {
        [one] => format!("{subject} ({})", one.name),
        [first, rest @ ..] if subject.starts_with("process ") => {
            let noun = if rest.len() == 1 { "descendant" } else { "descendants" };
            format!("{subject} ({}) and {} {noun}", first.name, rest.len())
        }
        all => format!("{subject}, {} processes", all.len()),
    }
}

fn print(subject: &str, found: &Residency, samples: &[ResidencySample], format: TextOrJson) -> Result<(), CliError> {
    match format {
        TextOrJson::Json => output::print_json(&report::json::residency(subject, found, samples)),
        TextOrJson::Text => {
            output::print(&report::residency::processes(subject, found, samples, &output::stdout_style()))
        }
    }
}

fn inspect_error(error: &InspectError) -> CliError {
    let status = match error {
        InspectError::NotPermitted { .. } => CliStatus::NotPermitted,
        InspectError::Missing(_) | InspectError::KernelThread(_) => CliStatus::Usage,
        InspectError::Ended(_) | InspectError::Refused(_) => CliStatus::Failure,
    };
    CliError::with(status, error)
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
