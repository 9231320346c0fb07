//! The program `nearfar`: parses the command line, calls one command, and exits with its status.
#![deny(clippy::disallowed_macros)]

// First: the others use its macro.
#[macro_use]
mod message;

mod app;
mod cli;
mod commands;
mod coordinator;
mod error;
#[cfg(feature = "mpi")]
mod mpi;
mod mpi_launch;
mod node;
mod output;
mod png;
mod progress;
mod requests;
mod run_output;
mod serve;
mod suggestion;
mod trial_details;
mod usage;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::error::CommandResult;

fn main() -> ExitCode {
    // First, because a run later moves this process away from the CPUs that it measures.
    machine::child::remember_original_mask();
    let argv: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::from_argv(&argv) {
        Ok(cli) => cli,
        Err(error) => return mpi_launch::usage_error(&error, usage::explain(&error, &argv).as_ref()),
    };
    output::set_color(cli.common.color);
    message::set_verbose(cli.common.verbose);
    match execute(&cli) {
        Ok(status) => status,
        Err(error) => error.print(),
    }
}

fn execute(cli: &Cli) -> CommandResult {
    let settings = &cli.common;
    match &cli.command {
        Command::Map(args) => commands::map::run(args, settings),
        Command::Placements(args) => commands::placements::run(args, settings),
        Command::List(args) => commands::list::run(args, settings),
        Command::Measure(args) => commands::measure::run(args, settings),
        Command::Run(args) => commands::run::run(args, settings),
        Command::Place(args) => commands::place::run(args, settings),
        Command::Gate(args) => commands::gate::run(args, settings),
        Command::Expand(args) => commands::expand::run(args, settings),
        Command::Size(args) => commands::size::run(args, settings),
        Command::Show(args) => commands::show::run(args, settings),
        Command::Compare(args) => commands::compare::run(args, settings),
        Command::Report(args) => commands::report::run(args, settings),
        Command::Serve(args) => commands::serve::run(args, settings),
        Command::Export(args) => commands::export::run(args, settings),
        Command::Import(args) => commands::import::run(args, settings),
        Command::Share(args) => commands::share::run(args, settings),
        Command::Graph(args) => commands::graph::run(args),
        Command::Bfs(args) => commands::bfs::run(args, settings),
        Command::Fleet(args) => commands::fleet::run(args, settings),
        Command::Where(args) => commands::residency::run(args, settings),
        Command::Live(args) => commands::live::run(args, settings),
        Command::Files(args) => commands::files::run(args),
        Command::CopyText(args) => commands::copy_text::run(args),
        Command::Doctor(args) => commands::doctor::run(args, settings),
        Command::Restore(args) => commands::restore::run(args),
        Command::Completions(args) => commands::manual::completions(args),
        Command::Man(args) => commands::manual::man(args),
        Command::Worker => commands::internal::worker(),
        Command::Node(args) => match commands::internal::node(args, settings)? {
            Some(job) => execute(&job.cli),
            None => Ok(ExitCode::SUCCESS),
        },
        Command::RestoreGuard => commands::internal::restore_guard(),
        Command::ReadTopology { source } => commands::internal::read_topology(source),
    }
}
