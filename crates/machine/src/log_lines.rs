//! Counts the lines that are appended to a log file, while it is rotated. Must not depend on what they mean.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use regex::bytes::Regex;

/// Bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// A longer line is matched without its beginning.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Number of lines appended to a file since [`Self::open`].
#[derive(Debug)]
pub struct LogLines {
    path: PathBuf,
    pattern: Option<Regex>,
    present: Tail,
    /// The file before the last rotation: its writers may use it until they are notified.
    previous: Option<Tail>,
    total: u64,
}

/// An open file that grows.
#[derive(Debug)]
struct Tail {
    file: File,
    at: u64,
    /// The incomplete last line.
    begun: Vec<u8>,
}

impl LogLines {
    /// Begins with 0, at the end of the file. Only lines that match the pattern count.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(path: &Path, pattern: Option<Regex>) -> io::Result<Self> {
        let mut present = Tail::open(path)?;
        if !present.file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        present.at = present.file.seek(SeekFrom::End(0))?;
        Ok(Self { path: path.into(), pattern, present, previous: None, total: 0 })
    }

    /// Returns the number of complete lines.
    ///
    /// A file that is renamed and created again, or truncated, is followed. Lines that a truncation removes before they
    /// were read are lost.
    ///
    /// # Errors
    /// If the file cannot be read. A file that is missing during its rotation is not an error.
    pub fn read(&mut self) -> io::Result<u64> {
        if let Some(previous) = &mut self.previous {
            self.total += previous.read(self.pattern.as_ref())?;
        }
        self.total += self.present.read(self.pattern.as_ref())?;
        match Tail::open(&self.path) {
            Ok(next) if next.identity()? != self.present.identity()? => {
                self.previous = Some(std::mem::replace(&mut self.present, next));
                self.total += self.present.read(self.pattern.as_ref())?;
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(self.total)
    }
}

impl Tail {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, at: 0, begun: Vec::new() })
    }

    fn identity(&self) -> io::Result<(u64, u64)> {
        let metadata = self.file.metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// Returns the number of lines since the last call.
    fn read(&mut self, pattern: Option<&Regex>) -> io::Result<u64> {
        let length = self.file.metadata()?.len();
        if length < self.at {
            self.at = self.file.seek(SeekFrom::Start(0))?;
            self.begun.clear();
        }
        let (mut lines, mut chunk) = (0, vec![0; CHUNK_BYTES]);
        // Not more than there was, so that a fast writer cannot keep this busy for ever.
        while self.at < length {
            let most = chunk.len().min((length - self.at) as usize);
            match self.file.read(&mut chunk[..most])? {
                0 => break,
                read => {
                    self.at += read as u64;
                    lines += self.add(&chunk[..read], pattern);
                }
            }
        }
        Ok(lines)
    }

    fn add(&mut self, bytes: &[u8], pattern: Option<&Regex>) -> u64 {
        let mut lines = 0;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend(piece);
            if let Some(line) = self.begun.strip_suffix(b"\n") {
                lines += u64::from(pattern.is_none_or(|pattern| pattern.is_match(line)));
                self.begun.clear();
            }
            let excess = self.begun.len().saturating_sub(LINE_BYTES_MAX);
            self.begun.drain(..excess);
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;

    struct Log {
        dir: tempfile::TempDir,
    }

    impl Log {
        fn new() -> Self {
            let log = Self { dir: tempfile::tempdir().unwrap() };
            fs::write(log.path("log"), "old\nincomplete").unwrap();
            log
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn append(&self, name: &str, text: impl AsRef<[u8]>) {
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(self.path(name))
                .unwrap()
                .write_all(text.as_ref())
                .unwrap();
        }
    }

    #[test]
    fn appended_lines_are_counted_when_complete() {
        let log = Log::new();
        let mut lines = LogLines::open(&log.path("log"), None).unwrap();
        assert_eq!(lines.read().unwrap(), 0, "lines before are not counted");
        log.append("log", " line\nsecond\nthi");
        assert_eq!(lines.read().unwrap(), 2);
        log.append("log", "rd\n\n");
        assert_eq!(lines.read().unwrap(), 4);
        log.append("log", "x".repeat(3 * LINE_BYTES_MAX));
        assert_eq!((lines.read().unwrap(), lines.present.begun.len()), (4, LINE_BYTES_MAX));
        log.append("log", "\n");
        assert_eq!(lines.read().unwrap(), 5);
        assert!(LogLines::open(&log.path("missing"), None).is_err());
        assert!(LogLines::open(log.dir.path(), None).is_err());
    }

    #[test]
    fn only_matching_lines_are_counted() {
        let log = Log::new();
        let mut lines = LogLines::open(&log.path("log"), Some(Regex::new("^GET / 5").unwrap())).unwrap();
        log.append("log", b"\nGET / 200\nGET / 503\nPOST / 500\nGET / 500 \xfe\n");
        log.append("log", "GET /");
        assert_eq!(lines.read().unwrap(), 2);
        log.append("log", " 502\n");
        assert_eq!(lines.read().unwrap(), 3);
    }

    #[test]
    fn renamed_and_truncated_logs_are_followed() {
        let log = Log::new();
        let mut lines = LogLines::open(&log.path("log"), None).unwrap();
        log.append("log", "\n1\n");
        fs::rename(log.path("log"), log.path("log.1")).unwrap();
        assert_eq!(lines.read().unwrap(), 2, "the file is missing");
        log.append("log.1", "2\n");
        log.append("log", "3\n4");
        assert_eq!(lines.read().unwrap(), 4, "before and after the rotation");
        log.append("log.1", "5\n");
        log.append("log", "\n");
        assert_eq!(lines.read().unwrap(), 6, "the writer has not reopened it");
        // As `copytruncate` of logrotate.
        fs::write(log.path("log"), "").unwrap();
        assert_eq!(lines.read().unwrap(), 6);
        log.append("log", "7\n");
        assert_eq!(lines.read().unwrap(), 7);
        fs::write(log.path("log"), "8").unwrap();
        assert_eq!(lines.read().unwrap(), 7);
        log.append("log", "\n9\n");
        fs::rename(log.path("log"), log.path("log.1")).unwrap();
        log.append("log", "10\n");
        assert_eq!(lines.read().unwrap(), 10);
    }
}
