//! Runs DuckDB's command-line program: one query on its standard input, rows as lines of JSON on its standard output.
//! Must not depend on what the queries mean.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde::de::DeserializeOwned;

use super::error::ParquetDirError;

/// Maximum number of bytes of standard error that are kept.
const STDERR_BYTES_MAX: u64 = 64 << 10;

/// DuckDB must download no extensions and show no progress bar.
const SETTINGS: &str =
    "SET autoinstall_known_extensions = false; SET autoload_known_extensions = false; SET enable_progress_bar = false;";

/// The program, and the directory that it reads.
#[derive(Debug)]
pub(super) struct Duckdb {
    program: PathBuf,
    dir: PathBuf,
}

impl Duckdb {
    /// A relative path of the program is relative to the current directory, not to `dir`.
    pub(super) fn new(program: &Path, dir: &Path) -> Result<Self, ParquetDirError> {
        let is_path = program.components().count() > 1;
        let missing = |error| ParquetDirError::NoProgram { program: program.into(), error };
        let program = if is_path { program.canonicalize().map_err(missing)? } else { program.into() };
        Ok(Self { program, dir: dir.into() })
    }

    /// Runs a query and passes each row to `visit` as it arrives. An error of `visit` ends the query.
    pub(super) fn query<T: DeserializeOwned>(
        &self,
        sql: &str,
        mut visit: impl FnMut(T) -> Result<(), ParquetDirError>,
    ) -> Result<(), ParquetDirError> {
        // Relative to the directory, file names need no quoting, whatever the directory is called.
        let mut child = Command::new(&self.program)
            .args(["-init", "/dev/null", "-bail", "-jsonlines"])
            .current_dir(&self.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound | ErrorKind::PermissionDenied => {
                    ParquetDirError::NoProgram { program: self.program.clone(), error }
                }
                _ => self.failed(&error),
            })?;
        let stderr = child.stderr.take().map(|stderr| std::thread::spawn(move || read_stderr(stderr)));
        let sent = self.send(&mut child, sql);
        let received = sent.and_then(|()| self.rows(&mut child, &mut visit));
        if received.is_err() {
            let _ = child.kill(); // it may have exited already
        }
        let status = child.wait().map_err(|error| self.failed(&error))?;
        let stderr = stderr.and_then(|reader| reader.join().ok()).unwrap_or_default();
        received?;
        if !status.success() {
            let cause = if stderr.is_empty() { format!("it exited with {status}") } else { stderr };
            return Err(self.failed(&cause));
        }
        Ok(())
    }

    fn send(&self, child: &mut Child, sql: &str) -> Result<(), ParquetDirError> {
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let random = files::random_name().map_err(|error| self.failed(&error))?;
        let temp_dir = std::env::temp_dir().join(format!("nearfar-duckdb-{random}"));
        let temp_dir = quoted(&temp_dir.to_string_lossy());
        let text = format!("{SETTINGS} SET temp_directory = {temp_dir};\n{sql};\n");
        match stdin.write_all(text.as_bytes()) {
            // A broken pipe means that it has exited; its standard error has the reason.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(self.failed(&error)),
            _ => Ok(()),
        }
    }

    fn rows<T: DeserializeOwned>(
        &self,
        child: &mut Child,
        visit: &mut impl FnMut(T) -> Result<(), ParquetDirError>,
    ) -> Result<(), ParquetDirError> {
        let stdout = child.stdout.take().expect("stdout is piped");
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(|error| self.failed(&error))?;
            if !line.is_empty() {
                visit(
                    serde_json::from_str(&line).map_err(|error| self.failed(&format!("unexpected output: {error}")))?,
                )?;
            }
        }
        Ok(())
    }

    fn failed(&self, cause: &dyn std::fmt::Display) -> ParquetDirError {
        ParquetDirError::Failed { program: self.program.clone(), cause: cause.to_string() }
    }
}

/// Reads all of standard error, so that the program never blocks on it, and returns the beginning without control
/// characters.
fn read_stderr(mut stderr: ChildStderr) -> String {
    let mut bytes = Vec::new();
    let _ = (&mut stderr).take(STDERR_BYTES_MAX).read_to_end(&mut bytes); // bytes read before an error are kept
    let _ = std::io::copy(&mut stderr, &mut std::io::sink()); // discarded
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines = text.lines().map(|line| line.replace(char::is_control, " "));
    lines.map(|line| line.trim_end().to_string()).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// An SQL string literal.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
