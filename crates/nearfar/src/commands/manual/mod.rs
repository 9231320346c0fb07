//! `nearfar completions` and `nearfar man`, both generated from the definitions of `cli`.

mod page;

use std::path::Path;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};

use crate::app::experiment::BUILT_IN;
use crate::cli::{Cli, CompletionsArgs, ManPagesArgs};
use crate::error::{CliError, CommandResult};
use crate::{output, suggestion};
use page::ManualPage;

const PROGRAM: &str = "nearfar";

pub fn completions(args: &CompletionsArgs) -> CommandResult {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut public(&Cli::command(), &with_names), PROGRAM, &mut bytes);
    output::print(&String::from_utf8(bytes).map_err(CliError::failure)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints one page, or writes all of them.
pub fn man(args: &ManPagesArgs) -> CommandResult {
    let pages = pages()?;
    if let Some(dir) = &args.output_dir {
        write_all(dir, &pages)?;
        return Ok(ExitCode::SUCCESS);
    }
    let command = args.command.join("-");
    let name = if command.is_empty() { PROGRAM.to_string() } else { format!("{PROGRAM}-{command}") };
    let page = pages.iter().find(|page| page.name == name).ok_or_else(|| {
        let commands: Vec<&str> = pages.iter().filter_map(|page| page.name.strip_prefix("nearfar-")).collect();
        CliError::usage(format!("there is no manual page {name}")).hint(suggestion::hint(
            &command,
            &commands,
            &format!("commands: {}", commands.join(", ")),
        ))
    })?;
    output::print(&page.text)?;
    Ok(ExitCode::SUCCESS)
}

fn write_all(dir: &Path, pages: &[ManualPage]) -> Result<(), CliError> {
    let refused = |error: std::io::Error| CliError::failure(format!("cannot write to {}: {error}", dir.display()));
    files::create_dirs(dir).map_err(refused)?;
    pages.iter().try_for_each(|page| output::write(&dir.join(page.file()), &page.text))
}

/// Returns the pages of the program and of all commands; that of the program is the first.
fn pages() -> Result<Vec<ManualPage>, CliError> {
    let mut program = public(&Cli::command(), &|_, argument| argument).disable_help_subcommand(true);
    program.build();
    with_commands_below(&program).into_iter().map(page::render).collect()
}

/// A command and all commands below it.
fn with_commands_below(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().flat_map(with_commands_below);
    std::iter::once(command).chain(below).collect()
}

/// Copies a command without hidden commands and arguments: the generators print those, and clap cannot remove them.
/// `change` maps each argument, given the name of its command; changing an argument later would move it to the end.
fn public(command: &Command, change: &dyn Fn(&str, Arg) -> Arg) -> Command {
    // clap needs names with static lifetime; the process exits after printing them.
    let name = &*command.get_name().to_string().leak();
    let mut copy = Command::new(name).version(env!("CARGO_PKG_VERSION"));
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    if let Some(help) = command.get_after_help() {
        copy = copy.after_help(help.clone());
    }
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    copy = copy.args(arguments.map(|argument| change(name, argument.clone())));
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    copy.subcommands(commands.map(|command| public(command, change)))
}

/// Adds the names of workloads, experiments and policies to completions. The parser does not check them, because the
/// commands report unknown names with a better message.
fn with_names(command: &str, argument: Arg) -> Arg {
    let policies = || {
        PossibleValuesParser::new(model::placements::placement::policy_infos().into_iter().map(|policy| policy.name))
    };
    match (command, argument.get_id().as_str()) {
        ("measure", "workload") => {
            let names = workloads::specs().into_iter().map(|spec| &*spec.name.leak());
            argument.value_parser(PossibleValuesParser::new(names))
        }
        ("run", "experiment") => {
            let names = BUILT_IN.iter().filter_map(|(file, _)| Path::new(file).file_stem()?.to_str());
            argument.value_parser(PossibleValuesParser::new(names))
        }
        ("measure" | "placements", "placements") => argument.value_parser(policies()),
        _ => argument,
    }
}
