//! One manual page: the sections that `clap_mangen` generates from the arguments of a command, and those of the tables
//! of examples and of the reference. Must not depend on the place where pages are written.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::cli::{
    CommandExamples, ReferenceRow, environment, examples_of, exit_status_of, exit_statuses, files, words_of_page,
};
use crate::error::CliError;

/// A manual page in roff.
pub struct ManualPage {
    /// Name without the section, such as `nearfar-fleet-run`.
    pub name: String,
    pub text: String,
}

impl ManualPage {
    pub fn file(&self) -> String {
        format!("{}.1", self.name)
    }
}

/// Renders the page of a built command.
pub fn render(command: &Command) -> Result<ManualPage, CliError> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_string();
    let words =
        words_of_page(name.strip_prefix(super::PROGRAM).unwrap_or_default().trim_start_matches('-')).to_string();
    let has_commands = command.get_subcommands().next().is_some();
    let version = concat!("nearfar ", env!("CARGO_PKG_VERSION"));
    let page = Man::new(with_description(command.clone())).manual("Nearfar").source(version);
    let mut bytes = Vec::new();
    let mut generate = || {
        page.render_title(&mut bytes)?;
        page.render_name_section(&mut bytes)?;
        page.render_synopsis_section(&mut bytes)?;
        page.render_description_section(&mut bytes)?;
        page.render_options_section(&mut bytes)?;
        if has_commands {
            page.render_subcommands_section(&mut bytes)?;
        }
        tables(&words).to_writer(&mut bytes)
    };
    generate().map_err(CliError::failure)?;
    Ok(ManualPage { name, text: String::from_utf8(bytes).map_err(CliError::failure)? })
}

/// Moves the text after the help of a command to its description, because `clap_mangen` would print it as section EXTRA.
fn with_description(command: Command) -> Command {
    let Some(text) = command.get_after_help() else { return command };
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let description = format!("{about}.\n\n{text}");
    command.long_about(description)
}

/// The sections of the tables, in the order of man-pages(7).
fn tables(words: &str) -> Roff {
    let command = words.split(' ').next().unwrap_or_default();
    let mut roff = Roff::new();
    section(&mut roff, "EXIT STATUS", &exit_statuses());
    if let Some(difference) = exit_status_of(command) {
        roff.control("PP", []);
        roff.text([roman(format!("For nearfar {command}: {difference}."))]);
    }
    section(&mut roff, "ENVIRONMENT", &environment(command));
    section(&mut roff, "FILES", &files(command));
    if let Some(entry) = examples_of(words) {
        examples(&mut roff, entry);
        see_also(&mut roff, entry);
    }
    roff
}

fn section(roff: &mut Roff, heading: &str, rows: &[ReferenceRow]) {
    roff.control("SH", [heading]);
    for row in rows {
        roff.control("TP", []);
        roff.text([bold(row.name.as_str())]);
        roff.text([roman(row.meaning.as_str())]);
    }
}

fn examples(roff: &mut Roff, entry: &CommandExamples) {
    roff.control("SH", ["EXAMPLES"]);
    for example in entry.examples {
        roff.control("PP", []);
        roff.text([roman(format!("{}:", example.effect))]);
        roff.control("PP", []);
        // Lines are not filled, so that they can be copied.
        roff.control("RS", ["4"]);
        roff.control("nf", []);
        for line in example.line.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
        roff.control("RE", []);
    }
}

fn see_also(roff: &mut Roff, entry: &CommandExamples) {
    roff.control("SH", ["SEE ALSO"]);
    let program = (!entry.command.is_empty()).then(|| format!("{}(1)", super::PROGRAM));
    let others = entry.see_also.iter().map(|page| {
        let is_other_program = page.ends_with(')');
        if is_other_program { (*page).to_string() } else { format!("{}-{}(1)", super::PROGRAM, page.replace(' ', "-")) }
    });
    let pages: Vec<String> = program.into_iter().chain(others).collect();
    roff.text([roman(pages.join(", "))]);
}
