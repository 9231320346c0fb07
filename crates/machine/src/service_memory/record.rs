//! The file that records where the memory of a service was: for each process a line `process PID STARTED`, and for each
//! span a line `START PAGES PAGE-BYTES NODE`, with START in hexadecimal.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::path::Path;

use files::NewFile;
use model::values::id_set::NodeId;

use super::ServiceMemory;
use crate::residency::{PageSpan, ProcessSpans};

const PROCESS: &str = "process";

impl ServiceMemory {
    /// Writes the record to the disk.
    ///
    /// # Errors
    /// If the file cannot be written; it then does not exist, or is the previous one.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let file = NewFile::create(path)?;
        let mut out = BufWriter::new(file.file());
        for process in &self.processes {
            writeln!(out, "{PROCESS} {} {}", process.pid, process.started)?;
            for span in &process.spans {
                writeln!(out, "{:x} {} {} {}", span.start, span.pages, span.page_bytes, span.node.0)?;
            }
        }
        out.into_inner()?;
        file.replace()
    }

    /// Reads a record. Without a file, no memory is listed.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a record.
    pub fn read(path: &Path) -> io::Result<Self> {
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            file => file?,
        };
        // A user who can change it decides where memory is moved to.
        files::check_dir(files::dir_of(path))?;
        let mut memory = Self::default();
        for (at, line) in BufReader::new(file).lines().enumerate() {
            let invalid = || io::Error::new(ErrorKind::InvalidData, format!("{}: line {}", path.display(), at + 1));
            memory.add(&line?).ok_or_else(invalid)?;
        }
        Ok(memory)
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        if let [PROCESS, pid, started] = words[..] {
            let process = ProcessSpans { pid: pid.parse().ok()?, started: started.parse().ok()?, spans: Vec::new() };
            self.processes.push(process);
            return Some(());
        }
        let [start, pages, page_bytes, node] = words[..] else { return None };
        let span = PageSpan {
            start: u64::from_str_radix(start, 16).ok()?,
            pages: pages.parse().ok()?,
            page_bytes: page_bytes.parse().ok().filter(|bytes| *bytes > 0)?,
            node: NodeId(node.parse().ok()?),
        };
        self.processes.last_mut()?.spans.push(span);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_read_as_it_was_written() {
        let span = |start, node| PageSpan { start, pages: 3, page_bytes: 4096, node: NodeId(node) };
        let process = |pid, spans| ProcessSpans { pid, started: 9, spans };
        let memory = ServiceMemory {
            processes: vec![process(7, vec![span(0x7f00_0000, 0), span(0x7f10_0000, 1)]), process(8, Vec::new())],
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pages");
        assert_eq!(ServiceMemory::read(&path).unwrap(), ServiceMemory::default());
        memory.write(&path).unwrap();
        assert_eq!(ServiceMemory::read(&path).unwrap(), memory);
        for text in ["7f00 1 4096 0\n", "process 7\n", "process 7 9\nzz 1 4096 0\n", "process 7 9\n10 1 0 0\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(ServiceMemory::read(&path).unwrap_err().kind(), ErrorKind::InvalidData, "{text}");
        }
    }
}
