//! Where results go: data to stdout or a file, talk to stderr, colours and widths as the terminal has them.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;

use report::Look;

use crate::failure::Failure;

/// Width of tables when stdout is not a terminal: wide enough that nothing needs to be cut.
const WIDTH_WITHOUT_TERMINAL: usize = 160;

/// How text on stdout may look.
pub fn look() -> Look {
    Look { width: width(), ascii: ascii(), colour: colours() }
}

/// How text on stderr may look, where that is a terminal.
pub fn look_of_stderr() -> Look {
    let width = terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
    Look { width, ascii: ascii(), colour: std::io::stderr().is_terminal() && colours_wanted() }
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
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(stdout, "{text}{newline}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Failure::of(format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints a JSON value.
pub fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(&serde_json::to_string_pretty(value).map_err(Failure::of)?)
}

/// Writes data to a file as a whole: a reader never sees half of it, a full disk leaves the old file. `-` is stdout.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return print(text);
    }
    let temporary = path.with_extension("nearfar-partial");
    let refused = |error: std::io::Error| {
        let _ = std::fs::remove_file(&temporary); // may not exist
        Failure::of(format!("cannot write {}: {error}", path.display()))
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(refused)?;
    }
    std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, path)).map_err(refused)
}
