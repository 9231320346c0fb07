//! `DuckDB`'s command-line program: asked one question through its standard input, it answers in lines of JSON. Must not know what is asked.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde::de::DeserializeOwned;

use super::error::FolderError;

/// Of what it complains so much is read.
const COMPLAINT_BYTES_MAX: u64 = 64 << 10;

/// Nothing is fetched or drawn, and what does not fit into memory is not put beside the results.
const SETTINGS: &str =
    "SET autoinstall_known_extensions = false; SET autoload_known_extensions = false; SET enable_progress_bar = false;";

/// The program, in the folder that it is asked about.
#[derive(Debug)]
pub(super) struct Duckdb {
    program: PathBuf,
    folder: PathBuf,
}

impl Duckdb {
    /// A relative path is meant from here and not from the folder.
    pub(super) fn new(program: &Path, folder: &Path) -> Result<Self, FolderError> {
        let is_path = program.components().count() > 1;
        let missing = |error| FolderError::NoProgram { program: program.into(), error };
        let program = if is_path { program.canonicalize().map_err(missing)? } else { program.into() };
        Ok(Self { program, folder: folder.into() })
    }

    /// Asks, and hands each row of the answer over as it comes. Whoever is handed one may end it.
    pub(super) fn query<T: DeserializeOwned>(
        &self,
        sql: &str,
        mut take: impl FnMut(T) -> Result<(), FolderError>,
    ) -> Result<(), FolderError> {
        // In the folder names of files need no quoting, whatever the folder is called.
        let mut child = Command::new(&self.program)
            .args(["-init", "/dev/null", "-bail", "-jsonlines"])
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound | ErrorKind::PermissionDenied => {
                    FolderError::NoProgram { program: self.program.clone(), error }
                }
                _ => self.failed(&error),
            })?;
        let complaint = child.stderr.take().map(|stderr| std::thread::spawn(move || complaint(stderr)));
        let asked = self.question(&mut child, sql);
        let heard = asked.and_then(|()| self.rows(&mut child, &mut take));
        if heard.is_err() {
            let _ = child.kill(); // it may have ended by itself
        }
        let status = child.wait().map_err(|error| self.failed(&error))?;
        let complaint = complaint.and_then(|reader| reader.join().ok()).unwrap_or_default();
        heard?;
        if !status.success() {
            let words = if complaint.is_empty() { format!("it ended with {status}") } else { complaint };
            return Err(self.failed(&words));
        }
        Ok(())
    }

    fn question(&self, child: &mut Child, sql: &str) -> Result<(), FolderError> {
        let mut stdin = child.stdin.take().expect("it was asked for");
        let scratch = std::env::temp_dir().join(format!("nearfar-duckdb-{}", std::process::id()));
        let scratch = quoted(&scratch.to_string_lossy());
        let text = format!("{SETTINGS} SET temp_directory = {scratch};\n{sql};\n");
        match stdin.write_all(text.as_bytes()) {
            // It has ended already, and says why.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(self.failed(&error)),
            _ => Ok(()),
        }
    }

    fn rows<T: DeserializeOwned>(
        &self,
        child: &mut Child,
        take: &mut impl FnMut(T) -> Result<(), FolderError>,
    ) -> Result<(), FolderError> {
        let stdout = child.stdout.take().expect("it was asked for");
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(|error| self.failed(&error))?;
            if !line.is_empty() {
                take(
                    serde_json::from_str(&line)
                        .map_err(|error| self.failed(&format!("it answers what was not asked: {error}")))?,
                )?;
            }
        }
        Ok(())
    }

    fn failed(&self, what: &dyn std::fmt::Display) -> FolderError {
        FolderError::Failed { program: self.program.clone(), what: what.to_string() }
    }
}

/// All that it says is read, or it would wait for a reader; the beginning is kept, without what a terminal obeys.
fn complaint(mut stderr: ChildStderr) -> String {
    let mut bytes = Vec::new();
    let _ = (&mut stderr).take(COMPLAINT_BYTES_MAX).read_to_end(&mut bytes); // what came is what there is
    let _ = std::io::copy(&mut stderr, &mut std::io::sink()); // as above
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines = text.lines().map(|line| line.replace(char::is_control, " "));
    lines.map(|line| line.trim_end().to_string()).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A text as SQL has it.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
