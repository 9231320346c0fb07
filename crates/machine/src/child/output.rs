//! Output of a trial, limited in size: its beginning or end, the number of discarded bytes, and whether an awaited line
//! appeared.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::Sender;

use model::values::units::Bytes;
use regex::bytes::Regex;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Default capacity of a pipe.
const CHUNK_BYTES: usize = 64 << 10;
/// Number of chunks read without a pause before the other stream and the time limit are served.
const CHUNKS_PER_TURN: usize = 16;
/// Maximum capacity of a pipe whose writers have ended (/proc/sys/fs/pipe-max-size, unless root raised it).
const REST_CHUNKS_MAX: usize = (1 << 20) / CHUNK_BYTES + 1;

/// The part of a stream that is kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeptRange {
    First(usize),
    Last(usize),
}

/// The kept part of a stream.
#[derive(Debug)]
struct KeptOutput {
    keep: KeptRange,
    bytes: VecDeque<u8>,
    dropped: u64,
}

impl KeptOutput {
    fn add(&mut self, bytes: &[u8]) {
        match self.keep {
            KeptRange::First(most) => {
                let room = most.saturating_sub(self.bytes.len()).min(bytes.len());
                self.bytes.extend(&bytes[..room]);
                self.dropped += (bytes.len() - room) as u64;
            }
            KeptRange::Last(most) => {
                self.bytes.extend(bytes);
                let excess = self.bytes.len().saturating_sub(most);
                self.bytes.drain(..excess);
                self.dropped += excess as u64;
            }
        }
    }
}

/// A longer line is matched without its beginning.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Waits for a line of a stream, and reports the first one that matches.
#[derive(Clone, Debug)]
pub(super) struct LineWatch {
    wanted: Regex,
    found: Sender<()>,
    /// The incomplete last line.
    begun: Vec<u8>,
}

impl LineWatch {
    pub(super) fn new(wanted: Regex, found: Sender<()>) -> Self {
        Self { wanted, found, begun: Vec::new() }
    }

    /// Adds bytes. Returns true once a line has matched. Only complete lines count: `ready` is not a line if ` in 5 s`
    /// follows.
    fn add(&mut self, bytes: &[u8]) -> bool {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend(piece);
            if let Some(line) = self.begun.strip_suffix(b"\n") {
                if self.wanted.is_match(line.strip_suffix(b"\r").unwrap_or(line)) {
                    // The receiver is gone if the other stream matched first, or after a timeout.
                    let _ = self.found.send(());
                    return true;
                }
                self.begun.clear();
            }
            let excess = self.begun.len().saturating_sub(LINE_BYTES_MAX);
            self.begun.drain(..excess);
        }
        false
    }
}

/// An output stream of a process, read without blocking.
pub(super) struct Stream {
    /// `None` after its end.
    pipe: Option<OwnedFd>,
    kept: KeptOutput,
    chunk: Vec<u8>,
    /// `None` if no line is awaited, or no longer.
    lines: Option<LineWatch>,
}

impl Stream {
    pub(super) fn new(pipe: OwnedFd, keep: KeptRange, lines: Option<LineWatch>) -> Result<Self, Errno> {
        rustix::fs::fcntl_setfl(&pipe, rustix::fs::fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        let kept = KeptOutput { keep, bytes: VecDeque::new(), dropped: 0 };
        Ok(Self { pipe: Some(pipe), kept, chunk: vec![0; CHUNK_BYTES], lines })
    }

    /// The descriptor to poll; `None` after its end.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads the available bytes, up to a limit.
    pub(super) fn read_some(&mut self) {
        self.read_chunks(CHUNKS_PER_TURN);
    }

    /// Reads the remaining bytes after the writers have ended. A process that left the process group may still be
    /// writing, hence the limit.
    pub(super) fn read_rest(&mut self) {
        self.read_chunks(REST_CHUNKS_MAX);
        self.pipe = None;
    }

    fn read_chunks(&mut self, most: usize) {
        for _ in 0..most {
            let Some(pipe) = &self.pipe else { return };
            match rustix::io::retry_on_intr(|| rustix::io::read(pipe, &mut self.chunk[..])) {
                Ok(length) if length > 0 => {
                    self.kept.add(&self.chunk[..length]);
                    self.lines.take_if(|lines| lines.add(&self.chunk[..length]));
                }
                Err(Errno::AGAIN) => return,
                // The end of the stream; a pipe that cannot be read is treated the same.
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }

    /// Returns the kept bytes and the number of discarded ones.
    pub(super) fn into_parts(self) -> (Vec<u8>, Bytes) {
        (self.kept.bytes.into(), Bytes(self.kept.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(keep: KeptRange, pieces: &[&str]) -> (String, u64) {
        let mut kept = KeptOutput { keep, bytes: VecDeque::new(), dropped: 0 };
        for piece in pieces {
            kept.add(piece.as_bytes());
        }
        (String::from_utf8(kept.bytes.into()).unwrap(), kept.dropped)
    }

    #[test]
    fn only_complete_lines_match() {
        let cases: [(&[&str], bool); 7] = [
            (&["ready\n"], true),
            (&["ready"], false),
            (&["re", "ady", "\n"], true),
            (&["not\nready\r\nmore"], true),
            (&["ready in 5 s\n"], false),
            (&["already\n", "rea", "\ndy\n"], false),
            (&["\u{fe}\nready\n"], true),
        ];
        let wanted = Regex::new("^ready$").unwrap();
        for (pieces, expected) in cases {
            let (found, _listener) = std::sync::mpsc::channel();
            let mut lines = LineWatch::new(wanted.clone(), found);
            assert_eq!(pieces.iter().any(|piece| lines.add(piece.as_bytes())), expected, "{pieces:?}");
        }
        let (found, listener) = std::sync::mpsc::channel();
        let mut endless = LineWatch::new(Regex::new("x$").unwrap(), found);
        assert!(!endless.add(&vec![b'x'; 3 * LINE_BYTES_MAX]) && endless.begun.len() == LINE_BYTES_MAX);
        assert!(endless.add(b"\n") && listener.try_recv().is_ok(), "the end of a long line matches");
    }

    #[test]
    fn beginning_or_end_is_kept_and_the_rest_counted() {
        let cases = [
            (KeptRange::First(4), "abcd", 3),
            (KeptRange::First(7), "abcdefg", 0),
            (KeptRange::First(0), "", 7),
            (KeptRange::Last(4), "defg", 3),
            (KeptRange::Last(9), "abcdefg", 0),
            (KeptRange::Last(0), "", 7),
        ];
        for (keep, expected, dropped) in cases {
            for pieces in [&["abcdefg"][..], &["abc", "", "d", "efg"]] {
                assert_eq!(kept(keep, pieces), (expected.into(), dropped), "{keep:?} {pieces:?}");
            }
        }
    }
}
