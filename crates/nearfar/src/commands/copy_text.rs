//! `nearfar copy-text`: runs a command from copies of its program and libraries in memory of the nodes of its CPUs.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use machine::affinity::mask_of;
use machine::page_cache::nodes_of;
use machine::text_copy::{self, TextCopyError};
use model::values::placement::MemoryPolicy;

use crate::cli::CopyTextArgs;
use crate::error::{CliError, CliStatus, CommandResult};

/// Exit statuses of a shell for a program that does not exist, and for one that cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTED: u8 = 126;

/// Executes the command in this process; returns only after an error.
pub fn run(args: &CopyTextArgs) -> CommandResult {
    text_copy::check_permitted().map_err(|error| CliError::with(CliStatus::NotPermitted, error))?;
    let files = match files(args) {
        Ok(files) => files,
        Err(error @ TextCopyError::NotFound(_)) => {
            CliError::failure(error).print();
            return Ok(ExitCode::from(NOT_FOUND));
        }
        Err(error) => return Err(CliError::failure(error)),
    };
    let cpus = mask_of(0).map_err(CliError::failure)?;
    text_copy::enter(&files, &nodes_of(&cpus, &MemoryPolicy::Kernel)).map_err(CliError::failure)?;
    let error = Command::new(&args.command[0]).args(&args.command[1..]).exec();
    CliError::failure(format!("cannot run '{}': {error}", args.command[0].display())).print();
    Ok(ExitCode::from(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTED }))
}

/// Returns the files to copy: those of the command, and those that the user names.
fn files(args: &CopyTextArgs) -> Result<BTreeSet<PathBuf>, TextCopyError> {
    let mut files = text_copy::text_files(&args.command)?;
    for file in &args.files {
        files.extend(text_copy::text_files(&[file])?);
    }
    Ok(files)
}
