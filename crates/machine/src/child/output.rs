//! What a trial prints, kept within bounds: its beginning or its end, and how much more there was.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use model::units::Bytes;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// As much as a pipe holds by default.
const CHUNK_BYTES: usize = 64 << 10;
/// After so many chunks without a pause the other stream and the clock get their turn.
const CHUNKS_PER_TURN: usize = 16;
/// A pipe holds at most this much when its writers are gone (/proc/sys/fs/pipe-max-size, unless root raised it).
const REST_CHUNKS_MAX: usize = (1 << 20) / CHUNK_BYTES + 1;

/// Which part of a stream is kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keep {
    First(usize),
    Last(usize),
}

/// The kept part of a stream.
#[derive(Debug)]
struct Kept {
    keep: Keep,
    bytes: VecDeque<u8>,
    dropped: u64,
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        match self.keep {
            Keep::First(most) => {
                let room = most.saturating_sub(self.bytes.len()).min(bytes.len());
                self.bytes.extend(&bytes[..room]);
                self.dropped += (bytes.len() - room) as u64;
            }
            Keep::Last(most) => {
                self.bytes.extend(bytes);
                let excess = self.bytes.len().saturating_sub(most);
                self.bytes.drain(..excess);
                self.dropped += excess as u64;
            }
        }
    }
}

/// One output stream of a process, read without ever waiting for it.
pub(super) struct Stream {
    /// None after its end.
    pipe: Option<OwnedFd>,
    kept: Kept,
    chunk: Vec<u8>,
}

impl Stream {
    pub(super) fn new(pipe: OwnedFd, keep: Keep) -> Result<Self, Errno> {
        rustix::fs::fcntl_setfl(&pipe, rustix::fs::fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        let kept = Kept { keep, bytes: VecDeque::new(), dropped: 0 };
        Ok(Self { pipe: Some(pipe), kept, chunk: vec![0; CHUNK_BYTES] })
    }

    /// What to poll; none after its end.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is there, within a bound.
    pub(super) fn read_some(&mut self) {
        self.read_chunks(CHUNKS_PER_TURN);
    }

    /// Reads what is left after the writers are gone. Somebody who left the process group may still be writing, hence
    /// the bound.
    pub(super) fn read_rest(&mut self) {
        self.read_chunks(REST_CHUNKS_MAX);
        self.pipe = None;
    }

    fn read_chunks(&mut self, most: usize) {
        for _ in 0..most {
            let Some(pipe) = &self.pipe else { return };
            match rustix::io::retry_on_intr(|| rustix::io::read(pipe, &mut self.chunk[..])) {
                Ok(length) if length > 0 => self.kept.add(&self.chunk[..length]),
                Err(Errno::AGAIN) => return,
                // The end; and a pipe that cannot be read has nothing more to give.
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }

    /// What was kept, and how much was not.
    pub(super) fn into_parts(self) -> (Vec<u8>, Bytes) {
        (self.kept.bytes.into(), Bytes(self.kept.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(keep: Keep, pieces: &[&str]) -> (String, u64) {
        let mut kept = Kept { keep, bytes: VecDeque::new(), dropped: 0 };
        for piece in pieces {
            kept.add(piece.as_bytes());
        }
        (String::from_utf8(kept.bytes.into()).unwrap(), kept.dropped)
    }

    #[test]
    fn the_beginning_or_the_end_is_kept_and_the_rest_counted() {
        let cases = [
            (Keep::First(4), "abcd", 3),
            (Keep::First(7), "abcdefg", 0),
            (Keep::First(0), "", 7),
            (Keep::Last(4), "defg", 3),
            (Keep::Last(9), "abcdefg", 0),
            (Keep::Last(0), "", 7),
        ];
        for (keep, expected, dropped) in cases {
            for pieces in [&["abcdefg"][..], &["abc", "", "d", "efg"]] {
                assert_eq!(kept(keep, pieces), (expected.into(), dropped), "{keep:?} {pieces:?}");
            }
        }
    }
}
