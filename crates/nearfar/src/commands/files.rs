//! `nearfar files`: moves the cached pages of files to memory nodes, or drops them.

use std::path::Path;
use std::process::ExitCode;

use machine::page_cache::{self, PageCacheError};
use model::values::id_set::NodeSet;

use super::residency::{file_error, print_files};
use crate::cli::FilesArgs;
use crate::error::{CliError, CommandResult};

pub fn run(args: &FilesArgs) -> CommandResult {
    if let Some(nodes) = &args.nodes {
        check(nodes)?;
    }
    let mut failed = Vec::new();
    for path in &args.files {
        match apply(path, args.nodes.as_ref()) {
            Ok(()) => {}
            Err(PageCacheError::File(error)) => return Err(file_error(&error)),
            Err(error) => failed.push(format!("{}: {error}", path.display())),
        }
    }
    print_files(&args.files, args.format)?;
    for message in &failed {
        message!("nearfar: {message}");
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn apply(path: &Path, nodes: Option<&NodeSet>) -> Result<(), PageCacheError> {
    match nodes {
        Some(nodes) => page_cache::place(path, nodes),
        None => page_cache::drop_pages(path),
    }
}

fn check(nodes: &NodeSet) -> Result<(), CliError> {
    let existing = page_cache::memory_nodes();
    let missing = nodes.difference(&existing);
    if missing.is_empty() {
        return Ok(());
    }
    Err(CliError::usage(format!("memory node {missing} does not exist; this machine has {existing}")))
}
