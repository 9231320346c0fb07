//! `nearfar completions` and `nearfar man`: what a shell and a reader need to know of the flags, made from the flags.

use std::path::Path;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::{Cli, CompletionsArgs, ManPagesArgs};
use crate::error::{CliError, CommandResult};
use crate::output;

const PROGRAM: &str = "nearfar";

pub fn completions(args: &CompletionsArgs) -> CommandResult {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut public(&Cli::command(), &with_names), PROGRAM, &mut bytes);
    output::print(&String::from_utf8(bytes).map_err(CliError::of)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints one page, or writes all of them.
pub fn man(args: &ManPagesArgs) -> CommandResult {
    let pages = pages()?;
    if let Some(folder) = &args.folder {
        write_all(folder, &pages)?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = args.command.as_ref().map_or(PROGRAM.to_string(), |command| format!("{PROGRAM}-{command}"));
    let wanted = format!("{name}.1");
    let page = pages.iter().find(|(file, _)| *file == wanted).ok_or_else(|| {
        let commands: Vec<&str> =
            pages.iter().filter_map(|(file, _)| file.strip_prefix("nearfar-")?.strip_suffix(".1")).collect();
        CliError::usage(format!("there is no page {name}")).hint(format!("commands are {}", commands.join(", ")))
    })?;
    output::print(&page.1)?;
    Ok(ExitCode::SUCCESS)
}

fn write_all(folder: &Path, pages: &[(String, String)]) -> Result<(), CliError> {
    let refused = |error: std::io::Error| CliError::of(format!("cannot write to {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(refused)?;
    pages.iter().try_for_each(|(file, text)| output::write(&folder.join(file), text))
}

/// Every page's file name and text, the program's own first.
fn pages() -> Result<Vec<(String, String)>, CliError> {
    let mut program = public(&Cli::command(), &|_, argument| argument).disable_help_subcommand(true);
    program.build();
    let commands = program.get_subcommands().cloned();
    std::iter::once(program.clone()).chain(commands).map(page).collect()
}

fn page(command: Command) -> Result<(String, String), CliError> {
    let page = Man::new(command).manual("Nearfar");
    let mut bytes = Vec::new();
    page.render(&mut bytes).map_err(CliError::of)?;
    Ok((page.get_filename(), String::from_utf8(bytes).map_err(CliError::of)?))
}

/// The commands and flags that people use. Generators show hidden ones too, and clap cannot take one away. Each argument
/// passes `change` on its way, with its command's name; changing it later would make it the last one.
fn public(command: &Command, change: &dyn Fn(&str, Arg) -> Arg) -> Command {
    // clap wants names that live as long as the program, which ends with these.
    let name = &*command.get_name().to_string().leak();
    let mut shown = Command::new(name).version(env!("CARGO_PKG_VERSION"));
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(help) = command.get_after_help() {
        shown = shown.after_help(help.clone());
    }
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    shown = shown.args(arguments.map(|argument| change(name, argument.clone())));
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.subcommands(commands.map(|command| public(command, change)))
}

/// Workloads, experiments and policies are words to complete, not words to refuse: that is done with a better message
/// where they are read.
fn with_names(command: &str, argument: Arg) -> Arg {
    let policies =
        || PossibleValuesParser::new(model::placements::placement::POLICIES.iter().map(|policy| policy.name));
    match (command, argument.get_id().as_str()) {
        ("measure", "workload") => {
            let names = workloads::specs().into_iter().map(|spec| &*spec.name.leak());
            argument.value_parser(PossibleValuesParser::new(names))
        }
        ("run", "experiment") => {
            let names = super::run::BUILT_IN.iter().filter_map(|(file, _)| Path::new(file).file_stem()?.to_str());
            argument.value_parser(PossibleValuesParser::new(names))
        }
        ("measure" | "placements", "placements") => argument.value_parser(policies()),
        _ => argument,
    }
}
