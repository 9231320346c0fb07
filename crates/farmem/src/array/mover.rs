//! Pieces of a far file to and from DRAM while the caller computes: requests past the page cache, many under way at once.
//! A buffer is given to the mover with a request and comes back with its answer, so that nobody looks at bytes that the
//! kernel is working on.
#![allow(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::values::units::Bytes;

use super::buffers::{Buffer, NearArena};
use super::ring::{FileRing, REGISTERED_MAX, Transfer, passes};
use super::{Access, FarError, FarFile};

/// How a mover cuts its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoverSettings {
    /// The most bytes of one request; 256 KiB to 1 MiB keep a disk busy without making the first piece late.
    pub transfer_bytes: usize,
    /// How many requests are under way at once.
    pub depth: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferStats {
    /// Bytes from the file.
    pub read: u64,
    /// Bytes to the file.
    pub written: u64,
    /// How long the caller waited for both.
    pub waited: Duration,
}

/// Stands for a buffer that is on its way.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "the buffer comes back through Mover::finish alone"]
pub struct TransferId(u64);

/// A request failed. The buffer is as it was given where it was to be written, and undefined where it was to be read.
#[derive(Debug)]
pub struct TransferError {
    /// What was given to the mover.
    pub buffer: Buffer,
    pub error: FarError,
}

/// Moves pieces of one file, for one thread.
pub struct Mover {
    ring: FileRing,
    file: Arc<FarFile>,
    near: NearArena,
    settings: MoverSettings,
    next_ticket: u64,
    jobs: HashMap<u64, PendingTransfer>,
    /// Not yet given to the kernel.
    queue: VecDeque<Piece>,
    /// By the number of the request; none where no request is under way.
    flying: Vec<Option<Piece>>,
    traffic: TransferStats,
}

struct PendingTransfer {
    buffer: Buffer,
    /// Pieces without an answer.
    left: usize,
    error: Option<FarError>,
}

#[derive(Clone, Copy)]
struct Piece {
    job: u64,
    transfer: Transfer,
    tries: u32,
}

impl Mover {
    /// A mover between a file that was made for direct access and buffers of this memory. It belongs to the thread that makes it.
    pub fn new(file: Arc<FarFile>, near: &NearArena, settings: MoverSettings) -> Result<Self, FarError> {
        assert!(file.access() == Access::Direct, "a mover goes past the page cache");
        assert!(settings.transfer_bytes.is_multiple_of(file.alignment()) && settings.transfer_bytes > 0);
        let depth = settings.depth.max(1);
        Ok(Self {
            ring: FileRing::new(&file, near, depth)?,
            file,
            near: near.clone(),
            settings,
            next_ticket: 0,
            jobs: HashMap::new(),
            queue: VecDeque::new(),
            flying: vec![None; depth as usize],
            traffic: TransferStats::default(),
        })
    }

    /// Begins to fill a buffer from a place in the file.
    pub fn read(&mut self, buffer: Buffer, offset: u64) -> TransferId {
        self.start(false, buffer, offset)
    }

    /// Begins to write a buffer to a place in the file.
    pub fn write(&mut self, buffer: Buffer, offset: u64) -> TransferId {
        self.start(true, buffer, offset)
    }

    /// Waits for a request and gives its buffer back.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is good for one buffer")]
    pub fn finish(&mut self, ticket: TransferId) -> Result<Buffer, TransferError> {
        let TransferId(job) = ticket;
        let begun = Instant::now();
        while self.jobs.get(&job).expect("a ticket is given by its own mover, once").left > 0 {
            self.take_answers();
            self.submit();
            if self.jobs[&job].left > 0 {
                self.ring.submit(true);
                self.take_answers();
            }
        }
        self.traffic.waited += begun.elapsed();
        let PendingTransfer { buffer, error, .. } = self.jobs.remove(&job).expect("it was there just now");
        match error {
            None => Ok(buffer),
            Some(error) => Err(TransferError { buffer, error }),
        }
    }

    /// Takes what has come and hands over what waits, without waiting.
    pub fn poll(&mut self) {
        self.take_answers();
        self.submit();
    }

    /// What it has moved so far.
    pub fn traffic(&self) -> TransferStats {
        self.traffic
    }

    /// Whether the kernel keeps the buffers' pages at hand (registered buffers).
    pub fn is_registered(&self) -> bool {
        self.ring.is_registered()
    }

    pub fn file(&self) -> &FarFile {
        &self.file
    }

    #[cfg(test)]
    pub(super) fn plan_fault(&mut self, plan: super::tests::FaultPlan) {
        self.ring.fault = plan;
    }

    #[cfg(test)]
    pub(super) fn requests(&self) -> u64 {
        self.ring.fault.seen
    }

    fn start(&mut self, write: bool, buffer: Buffer, offset: u64) -> TransferId {
        let (from, bytes, unit) = (buffer.from(), buffer.bytes(), self.file.alignment());
        assert!(self.near.has(&buffer), "a mover moves buffers of its own near memory");
        assert!(
            from.is_multiple_of(unit) && bytes.is_multiple_of(unit) && offset.is_multiple_of(unit as u64),
            "requests past the page cache are multiples of {unit}: {bytes} bytes at {offset}"
        );
        assert!(offset + bytes as u64 <= self.file.bytes() as u64, "{bytes} bytes at {offset} lie beyond the far file");
        let job = self.next_ticket;
        self.next_ticket += 1;
        let mut left = 0;
        let mut done = 0;
        while done < bytes {
            let near = from + done;
            let to_border = REGISTERED_MAX - near % REGISTERED_MAX;
            let piece = self.settings.transfer_bytes.min(bytes - done).min(to_border);
            let transfer = Transfer { write, near, offset: offset + done as u64, bytes: piece };
            self.queue.push_back(Piece { job, transfer, tries: 0 });
            done += piece;
            left += 1;
        }
        self.jobs.insert(job, PendingTransfer { buffer, left, error: None });
        self.poll();
        TransferId(job)
    }

    fn submit(&mut self) {
        let mut any = false;
        for number in 0..self.flying.len() {
            if self.flying[number].is_some() {
                continue;
            }
            let Some(piece) = self.queue.pop_front() else { break };
            self.flying[number] = Some(piece);
            // SAFETY: the piece lies in its job's buffer, which the job keeps until all of its answers have come; the mover
            // keeps the near memory; requests under way have a number each, of which there are as many as the ring is deep.
            unsafe { self.ring.put(number as u64, piece.transfer) };
            any = true;
        }
        if any {
            self.ring.submit(false);
        }
    }

    fn take_answers(&mut self) {
        let Self { ring, flying, jobs, queue, traffic, .. } = self;
        ring.answers(|number, result| {
            let piece = flying[number as usize].take().expect("answers come to requests that are under way");
            if passes(result, piece.tries) {
                queue.push_front(Piece { tries: piece.tries + 1, ..piece });
                return;
            }
            let job = jobs.get_mut(&piece.job).expect("a job stays until its last answer");
            job.left -= 1;
            match outcome(&piece.transfer, result) {
                Ok(()) if piece.transfer.write => traffic.written += piece.transfer.bytes as u64,
                Ok(()) => traffic.read += piece.transfer.bytes as u64,
                Err(error) => {
                    job.error.get_or_insert(error);
                }
            }
        });
    }
}

/// All of it, or an error: nobody asks for bytes beyond the end of the file, so fewer are something lost.
pub(super) fn outcome(transfer: &Transfer, result: i32) -> Result<(), FarError> {
    match usize::try_from(result) {
        Ok(moved) if moved == transfer.bytes => Ok(()),
        Ok(moved) => Err(FarError::Short { what: transfer.to_string(), moved }),
        Err(_) => Err(FarError::Transfer { what: transfer.to_string(), errno: -result }),
    }
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.write { "write" } else { "read" };
        write!(f, "{verb} {} at byte {} of the far file", Bytes(self.bytes as u64), self.offset)
    }
}

impl Drop for Mover {
    /// The kernel may still be at work on buffers.
    fn drop(&mut self) {
        self.queue.clear();
        while self.flying.iter().any(Option::is_some) {
            self.ring.submit(true);
            let flying = &mut self.flying;
            self.ring.answers(|number, _| flying[number as usize] = None);
        }
    }
}
