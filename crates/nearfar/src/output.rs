//! Where results go: data to stdout or a file, talk to stderr, colours and widths as the terminal has them.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

use report::TextStyle;

use crate::error::CliError;

/// Width of tables when stdout is not a terminal: wide enough that nothing needs to be cut.
const WIDTH_WITHOUT_TERMINAL: usize = 160;

/// How text on stdout may look.
pub fn look() -> TextStyle {
    TextStyle { width: width(), ascii: ascii(), colour: colours() }
}

/// How text on stderr may look, where that is a terminal.
pub fn stderr_style() -> TextStyle {
    let width = terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
    TextStyle { width, ascii: ascii(), colour: std::io::stderr().is_terminal() && colours_wanted() }
}

/// Columns of the terminal that stdout is.
fn width() -> usize {
    terminal_size::terminal_size().map_or(WIDTH_WITHOUT_TERMINAL, |(width, _)| usize::from(width.0))
}

/// Whether text on stdout may have colours: a terminal, and no `NO_COLOR`.
fn colours() -> bool {
    std::io::stdout().is_terminal() && colours_wanted()
}

fn colours_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether pictures must do without Unicode.
fn ascii() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    // Without any locale the terminal of today is Unicode; `C` and `POSIX` say that it is not.
    locale.is_some_and(|locale| locale == "C" || locale == "POSIX")
}

/// Prints data. A reader that closed its end, as `head` does, ends the program quietly.
pub fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(stdout, "{text}{newline}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(CliError::of(format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}

pub fn print_json(value: &serde_json::Value) -> Result<(), CliError> {
    print(&serde_json::to_string_pretty(value).map_err(CliError::of)?)
}

/// Writes data to a file as a whole: a reader never sees half of it, a full disk leaves the old file, which keeps its
/// permissions. What is no file (a device, a pipe) is written to as it is; `-` is stdout.
pub fn write(path: &Path, text: &str) -> Result<(), CliError> {
    if path == Path::new("-") {
        return print(text);
    }
    let refused = |error: std::io::Error| CliError::of(format!("cannot write {}: {error}", path.display()));
    // A link stays one: what it leads to is written.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let present = std::fs::metadata(&target).ok();
    if present.as_ref().is_some_and(|present| !present.is_file()) {
        let mut file = std::fs::OpenOptions::new().write(true).open(&target).map_err(refused)?;
        return file.write_all(text.as_bytes()).map_err(refused);
    }
    let temporary = target.with_extension("nearfar-partial");
    let written = std::fs::write(&temporary, text)
        .and_then(|()| present.map_or(Ok(()), |present| std::fs::set_permissions(&temporary, present.permissions())))
        .and_then(|()| std::fs::rename(&temporary, &target));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&temporary); // may not exist
        refused(error)
    })
}
