//! Output of data to stdout or to a file, with the width and colours of the terminal.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};
use std::path::Path;
use std::sync::OnceLock;

use clap::ColorChoice;
use files::NewFile;
use report::TextStyle;

use crate::error::CliError;

/// Width of tables if stdout is not a terminal: no table needs to be truncated.
const WIDTH_WITHOUT_TERMINAL: usize = 160;

/// The value of `--color`, which all text of the process has in common.
static COLOR: OnceLock<ColorChoice> = OnceLock::new();

/// Sets the value of `--color`. The first call counts.
pub fn set_color(choice: ColorChoice) {
    COLOR.get_or_init(|| choice);
}

/// Returns the style of text on stdout.
pub fn stdout_style() -> TextStyle {
    TextStyle { width: width(), ascii: ascii(), colour: has_colours(std::io::stdout().is_terminal()) }
}

/// Returns the style of text on stderr.
pub fn stderr_style() -> TextStyle {
    let width = terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
    TextStyle { width, ascii: ascii(), colour: has_colours(std::io::stderr().is_terminal()) }
}

/// Returns the number of columns of stdout.
fn width() -> usize {
    terminal_size::terminal_size().map_or(WIDTH_WITHOUT_TERMINAL, |(width, _)| usize::from(width.0))
}

fn has_colours(is_terminal: bool) -> bool {
    let choice = COLOR.get().copied().unwrap_or_default();
    let (no_color, term) = (std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
    is_coloured(choice, is_terminal, no_color.as_deref(), term.as_deref())
}

/// Whether text has colours, given the values of `--color`, `NO_COLOR` and `TERM`.
fn is_coloured(choice: ColorChoice, is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            is_terminal && no_color.is_none_or(OsStr::is_empty) && term.is_none_or(|term| term != "dumb")
        }
    }
}

/// Whether text must be ASCII.
fn ascii() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    // Terminals are assumed to be Unicode unless the locale is `C` or `POSIX`.
    locale.is_some_and(|locale| locale == "C" || locale == "POSIX")
}

/// Prints data to stdout. Exits successfully if the reader has closed the pipe, as `head` does.
pub fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(stdout, "{text}{newline}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(cannot_write(Path::new("-"), &error)),
        Ok(()) => Ok(()),
    }
}

pub fn print_json(value: &serde_json::Value) -> Result<(), CliError> {
    print(&serde_json::to_string_pretty(value).map_err(CliError::failure)?)
}

/// Writes a file atomically: readers never see a partial file, and the old file survives a full disk. Permissions are
/// kept. Devices and pipes are written directly; `-` is stdout.
pub fn write(path: &Path, text: &str) -> Result<(), CliError> {
    if path == Path::new("-") {
        return print(text);
    }
    write_streamed(path, |out| out.write_all(text.as_bytes()).map_err(|error| cannot_write(path, &error)))
}

/// Like [`write()`], for data that may be larger than the memory. After an error, stdout has a part of it, and a file is
/// unchanged.
pub fn write_streamed(
    path: &Path,
    stream: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    if path == Path::new("-") {
        let mut out = BufWriter::new(Stdout(std::io::stdout().lock()));
        stream(&mut out)?;
        return out.flush().map_err(|error| cannot_write(path, &error));
    }
    let write_error = |error: std::io::Error| cannot_write(path, &error);
    // A symbolic link is kept: its target is written, unless another user has made the link.
    let target = files::followed(path).map_err(write_error)?;
    let present = std::fs::metadata(&target).ok();
    if present.as_ref().is_some_and(|present| !present.is_file()) {
        let file = files::open_special(&target).map_err(write_error)?;
        return buffered(&file, path, stream);
    }
    let new = NewFile::create(&target).map_err(write_error)?;
    buffered(new.file(), path, stream)?;
    new.replace().map_err(write_error)?;
    detail!("wrote {}", path.display());
    Ok(())
}

fn buffered(
    file: &File,
    path: &Path,
    stream: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut out = BufWriter::new(file);
    stream(&mut out)?;
    out.flush().map_err(|error| cannot_write(path, &error))
}

/// The error of writing a file, or stdout if the path is `-`.
pub fn cannot_write(path: &Path, error: &std::io::Error) -> CliError {
    let what = if path == Path::new("-") { "to stdout".into() } else { path.display().to_string() };
    CliError::failure(format!("cannot write {what}: {error}"))
}

/// Ends the program successfully if the reader has closed the pipe, as `head` does.
struct Stdout(StdoutLock<'static>);

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes).inspect_err(end_at_closed_pipe)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush().inspect_err(end_at_closed_pipe)
    }
}

fn end_at_closed_pipe(error: &std::io::Error) {
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_depend_on_option_terminal_and_environment() {
        let check = |choice, is_terminal, no_color: Option<&str>, term: Option<&str>, expected| {
            let coloured = is_coloured(choice, is_terminal, no_color.map(OsStr::new), term.map(OsStr::new));
            assert_eq!(coloured, expected, "{choice:?} {is_terminal} {no_color:?} {term:?}");
        };
        check(ColorChoice::Auto, true, None, Some("xterm"), true);
        check(ColorChoice::Auto, true, None, None, true);
        check(ColorChoice::Auto, true, Some(""), Some("xterm"), true);
        check(ColorChoice::Auto, true, Some("1"), Some("xterm"), false);
        check(ColorChoice::Auto, true, None, Some("dumb"), false);
        check(ColorChoice::Auto, false, None, Some("xterm"), false);
        check(ColorChoice::Always, false, Some("1"), Some("dumb"), true);
        check(ColorChoice::Never, true, None, Some("xterm"), false);
    }
}
