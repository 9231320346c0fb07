//! Transfers between a far file and DRAM while the caller computes: direct I/O with many requests in flight. A buffer
//! is handed to the mover with a request and returned with its completion, so that no code accesses bytes that the
//! kernel is transferring.
#![allow(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::values::units::Bytes;

use super::buffers::{Buffer, NearArena};
use super::ring::{FileRing, REGISTERED_MAX, Transfer, passes};
use super::{Access, FarError, FarFile};

/// Request size and queue depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoverSettings {
    /// Maximum size of one I/O request; 256 KiB to 1 MiB keep a disk busy without delaying the first one.
    pub transfer_bytes: usize,
    /// Maximum number of concurrent requests.
    pub depth: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferStats {
    /// Bytes read from the file.
    pub read: u64,
    /// Bytes written to the file.
    pub written: u64,
    /// Time the caller waited for transfers.
    pub waited: Duration,
}

/// Identifies a buffer in transfer.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "only Mover::finish returns the buffer"]
pub struct TransferId(u64);

/// A failed request. The buffer is unchanged after a write and undefined after a read.
#[derive(Debug)]
pub struct TransferError {
    /// The buffer of the request.
    pub buffer: Buffer,
    pub error: FarError,
}

/// Transfers pieces of one file, on one thread.
pub struct Mover {
    ring: FileRing,
    file: Arc<FarFile>,
    near: NearArena,
    settings: MoverSettings,
    next_id: u64,
    jobs: HashMap<u64, PendingTransfer>,
    /// Not yet submitted to the kernel.
    queue: VecDeque<Piece>,
    /// Pieces in flight by request number; `None` for a free number.
    in_flight: Vec<Option<Piece>>,
    traffic: TransferStats,
}

struct PendingTransfer {
    buffer: Buffer,
    /// Pieces without a completion.
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
    /// Creates a mover between a file opened for direct I/O and buffers of this memory. It belongs to the calling
    /// thread.
    pub fn new(file: Arc<FarFile>, near: &NearArena, settings: MoverSettings) -> Result<Self, FarError> {
        assert!(file.access() == Access::Direct, "a mover needs direct I/O");
        assert!(settings.transfer_bytes.is_multiple_of(file.alignment()) && settings.transfer_bytes > 0);
        let depth = settings.depth.max(1);
        Ok(Self {
            ring: FileRing::new(&file, near, depth)?,
            file,
            near: near.clone(),
            settings,
            next_id: 0,
            jobs: HashMap::new(),
            queue: VecDeque::new(),
            in_flight: vec![None; depth as usize],
            traffic: TransferStats::default(),
        })
    }

    /// Starts to fill a buffer from an offset of the file.
    pub fn read(&mut self, buffer: Buffer, offset: u64) -> TransferId {
        self.start(false, buffer, offset)
    }

    /// Starts to write a buffer to an offset of the file.
    pub fn write(&mut self, buffer: Buffer, offset: u64) -> TransferId {
        self.start(true, buffer, offset)
    }

    /// Waits for a request and returns its buffer.
    #[expect(clippy::needless_pass_by_value, reason = "an identifier is valid once")]
    pub fn finish(&mut self, ticket: TransferId) -> Result<Buffer, TransferError> {
        let TransferId(job) = ticket;
        let begun = Instant::now();
        while self.jobs.get(&job).expect("the identifier belongs to this mover and was not used").left > 0 {
            self.process_completions();
            self.submit();
            if self.jobs[&job].left > 0 {
                self.ring.submit(true);
                self.process_completions();
            }
        }
        self.traffic.waited += begun.elapsed();
        let PendingTransfer { buffer, error, .. } = self.jobs.remove(&job).expect("the job was just looked up");
        match error {
            None => Ok(buffer),
            Some(error) => Err(TransferError { buffer, error }),
        }
    }

    /// Processes completions and submits queued pieces, without waiting.
    pub fn poll(&mut self) {
        self.process_completions();
        self.submit();
    }

    /// Transfer counts so far.
    pub fn traffic(&self) -> TransferStats {
        self.traffic
    }

    /// Whether the buffers are registered with the kernel, which then keeps their pages pinned.
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
        assert!(self.near.has(&buffer), "the buffer belongs to other near memory");
        assert!(
            from.is_multiple_of(unit) && bytes.is_multiple_of(unit) && offset.is_multiple_of(unit as u64),
            "direct I/O needs multiples of {unit}, not {bytes} bytes at {offset}"
        );
        assert!(offset + bytes as u64 <= self.file.bytes() as u64, "{bytes} bytes at {offset} exceed the far file");
        let job = self.next_id;
        self.next_id += 1;
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
        for number in 0..self.in_flight.len() {
            if self.in_flight[number].is_some() {
                continue;
            }
            let Some(piece) = self.queue.pop_front() else { break };
            self.in_flight[number] = Some(piece);
            // SAFETY: the piece is in its job's buffer, which the job keeps until all completions have arrived; the
            // mover keeps the near memory alive; each request in flight has its own number, and the ring is as deep as
            // there are numbers.
            unsafe { self.ring.put(number as u64, piece.transfer) };
            any = true;
        }
        if any {
            self.ring.submit(false);
        }
    }

    fn process_completions(&mut self) {
        let Self { ring, in_flight, jobs, queue, traffic, .. } = self;
        ring.completions(|number, result| {
            let piece = in_flight[number as usize].take().expect("completions belong to requests in flight");
            if passes(result, piece.tries) {
                queue.push_front(Piece { tries: piece.tries + 1, ..piece });
                return;
            }
            let job = jobs.get_mut(&piece.job).expect("a job exists until its last completion");
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

/// Converts a result: anything but the full length is an error, because no request extends beyond the end of the file.
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
    /// Waits for requests in flight, because the kernel still accesses their buffers.
    fn drop(&mut self) {
        self.queue.clear();
        while self.in_flight.iter().any(Option::is_some) {
            self.ring.submit(true);
            let in_flight = &mut self.in_flight;
            self.ring.completions(|number, _| in_flight[number as usize] = None);
        }
    }
}
