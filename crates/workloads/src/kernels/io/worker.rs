//! The state of one thread, independent of the engine: the next request and its start time, the content of its buffer,
//! the check of its result, and its latency.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::buffers::Buffers;
use super::offsets::Offsets;
use super::options::Options;
use super::pace::{NextStart, Schedule};
use super::tally::{IoStats, Times};
use super::target::{self, IoTarget};
use super::verify::{self, WrittenBlocks};
use super::{clock, data};
use crate::job::Failure;

pub(super) struct IoPlan {
    pub options: Options,
    pub target: IoTarget,
    pub seed: u64,
    /// The blocks written, with `verify`.
    pub written: Option<WrittenBlocks>,
    check: Check,
}

/// How data that was read is checked.
enum Check {
    Nothing,
    /// Sectors carry the stamps of one of these seeds.
    Stamps([u64; 2]),
    Zeros,
    /// Blocks are sealed, with this seed or any.
    Sealed(Option<u64>),
}

#[derive(Clone, Copy)]
pub(super) struct Request {
    pub kind: RequestKind,
    pub offset: u64,
    /// Index of the request's block in [`Buffers`].
    pub buffer: usize,
    /// When the request was due, and when it was submitted to the kernel.
    pub due: u64,
    pub submitted: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    Read,
    Write,
    /// Flush of all written data to the device.
    Sync,
}

/// The next action of a thread.
pub(super) enum Next {
    Request(Request),
    At(u64),
    Nothing,
}

pub(super) struct WorkerState<'t> {
    pub task: &'t IoPlan,
    pub file: &'t File,
    pub buffers: Buffers<'t>,
    pub stats: IoStats,
    offsets: Offsets,
    schedule: Schedule,
    end: u64,
    /// Number of requests to start; `None` if the time limits the run.
    remaining: Option<u64>,
    unsynced: u64,
}

impl IoPlan {
    pub(super) fn new(options: Options, target: IoTarget, seed: u64) -> Result<Self, Failure> {
        let written = (options.verify && options.writes()).then(|| WrittenBlocks::new(target.bytes, options.block));
        let fill_seed = target::fill_seed(seed, &options);
        let check = match (target.created, options.verify && !options.writes()) {
            (created, true) => Check::Sealed(created.then_some(fill_seed)),
            (false, false) => Check::Nothing,
            (true, false) if options.stamped() => Check::Stamps([fill_seed, seed]),
            (true, false) => Check::Zeros,
        };
        Ok(Self { options, target, seed, written: written.transpose()?, check })
    }

    /// Returns whether data that was read is checked.
    pub(super) fn checks(&self) -> bool {
        !matches!(self.check, Check::Nothing)
    }
}

impl Request {
    /// Placeholder for free slots.
    pub(super) const IDLE: Self = Self { kind: RequestKind::Sync, offset: 0, buffer: 0, due: 0, submitted: 0 };

    /// Describes the request for error messages.
    fn describe(&self) -> String {
        match self.kind {
            RequestKind::Read => format!("read at {}", self.offset),
            RequestKind::Write => format!("write at {}", self.offset),
            RequestKind::Sync => "fsync".into(),
        }
    }
}

impl<'t> WorkerState<'t> {
    /// `parts`: whether the engine distinguishes submission and completion.
    pub(super) fn new(task: &'t IoPlan, file: &'t File, buffers: Buffers<'t>, offsets: Offsets, parts: bool) -> Self {
        let (amount, block) = (task.options.amount, task.options.block as u64);
        Self {
            task,
            file,
            buffers,
            stats: IoStats::new(parts),
            offsets,
            schedule: Schedule::new(task.options.rate),
            end: 0,
            remaining: (amount > 0).then(|| amount.div_ceil(block)),
            unsynced: 0,
        }
    }

    pub(super) fn begin(&mut self) -> u64 {
        let (options, now) = (&self.task.options, clock::now_ns());
        let counts_from = now + options.ramp_ns;
        self.end = counts_from + options.runtime_ns;
        self.schedule.begin(now);
        self.stats.begin(now, counts_from);
        now
    }

    /// Returns the next action for this slot. For a write, its buffer already holds the data.
    #[inline]
    pub(super) fn next(&mut self, now: u64, slot: usize) -> Next {
        let options = &self.task.options;
        if options.fsync > 0 && self.unsynced >= options.fsync {
            self.unsynced = 0;
            return Next::Request(Request { kind: RequestKind::Sync, due: now, ..Request::IDLE });
        }
        match self.remaining {
            Some(0) => return Next::Nothing,
            None if now >= self.end => return Next::Nothing,
            _ => {}
        }
        let due = match self.schedule.due(now) {
            NextStart::Since(due) => due,
            NextStart::At(at) if self.remaining.is_none() && at >= self.end => return Next::Nothing,
            NextStart::At(at) => return Next::At(at),
        };
        self.schedule.start();
        if self.stats.is_counting()
            && let Some(remaining) = &mut self.remaining
        {
            *remaining -= 1;
        }
        let (write, offset) = self.offsets.next();
        let (kind, buffer) = if write {
            self.unsynced += 1;
            (RequestKind::Write, self.data_for(slot, offset))
        } else {
            (RequestKind::Read, slot)
        };
        Next::Request(Request { kind, offset, buffer, due, submitted: due })
    }

    /// Prepares a block with the data that belongs at `offset`.
    #[inline]
    fn data_for(&mut self, slot: usize, offset: u64) -> usize {
        let buffer = self.buffers.for_write(slot);
        let (seed, options) = (self.task.seed, &self.task.options);
        if options.verify {
            verify::seal(self.buffers.words(buffer), seed, offset);
        } else if options.stamped() {
            data::stamp_all(self.buffers.words(buffer), seed, offset);
        }
        buffer
    }

    /// Counts and checks a completed request. `result` is the kernel's: bytes, or a negative error.
    #[inline]
    pub(super) fn complete(&mut self, request: &Request, result: i64, now: u64) -> Result<(), Failure> {
        if request.kind == RequestKind::Sync {
            return if result == 0 { Ok(()) } else { self.retry_rest(request, result) };
        }
        if result != self.task.options.block as i64 {
            self.retry_rest(request, result)?;
        }
        let write = request.kind == RequestKind::Write;
        self.stats.record(write, Times { due: request.due, submitted: request.submitted, completed: now });
        if !write {
            return self.check(request);
        }
        if let Some(written) = &self.task.written {
            written.mark(request.offset);
        }
        Ok(())
    }

    /// Verifies that the data read is the data written there.
    #[inline]
    fn check(&mut self, request: &Request) -> Result<(), Failure> {
        let wrong = match self.task.check {
            Check::Nothing => return Ok(()),
            Check::Stamps(seeds) => data::wrong_stamp(self.buffers.words(request.buffer), seeds, request.offset),
            Check::Zeros => data::not_zero(self.buffers.words(request.buffer)),
            Check::Sealed(seed) => {
                return verify::verify_block(self.buffers.words(request.buffer), seed, request.offset);
            }
        };
        match wrong {
            None => Ok(()),
            Some(sector) => Err(Failure::Failed(format!(
                "wrong data at {}: unexpected content in sector {sector} of the block",
                request.offset
            ))),
        }
    }

    /// Ends the timed region. Requests that should have started but did not count with the time that they waited.
    pub(super) fn finish(&mut self, now: u64) {
        if self.remaining.is_none() {
            let Self { schedule, stats, .. } = self;
            schedule.missed(stats.counts_from(), self.end, now, |waited, count| stats.record_missed(waited, count));
        }
        self.stats.end(now);
    }

    /// Handles an error or a partial transfer. The rest is retried synchronously to obtain the cause.
    #[cold]
    fn retry_rest(&mut self, request: &Request, result: i64) -> Result<(), Failure> {
        let block = self.task.options.block;
        let Ok(mut got) = usize::try_from(result) else {
            return Err(self.failed(request, &io::Error::from_raw_os_error(-result as i32)));
        };
        while got < block {
            let more = self.rest(request, got).map_err(|error| self.failed(request, &error))?;
            if more == 0 {
                return Err(self.short(request, got));
            }
            got += more;
        }
        Ok(())
    }

    fn rest(&mut self, request: &Request, got: usize) -> io::Result<usize> {
        let (remaining, from) = (&mut self.buffers.bytes(request.buffer)[got..], request.offset + got as u64);
        match request.kind {
            RequestKind::Read => self.file.read_at(remaining, from),
            RequestKind::Write => self.file.write_at(remaining, from),
            RequestKind::Sync => Ok(0),
        }
    }

    fn short(&self, request: &Request, got: usize) -> Failure {
        let message = format!("{}: transferred {got} of {} bytes", request.describe(), self.task.options.block);
        Failure::Failed(match self.truncation(request) {
            Some(truncation) => format!("{message}: {truncation}"),
            None => message,
        })
    }

    /// Reports truncation if the file has become too short for a request.
    fn truncation(&self, request: &Request) -> Option<String> {
        let length = self.task.target.length_now()?;
        let short = length < request.offset + self.task.options.block as u64;
        short.then(|| format!("the file was truncated to {length} bytes during the trial"))
    }

    fn failed(&self, request: &Request, error: &io::Error) -> Failure {
        let options = &self.task.options;
        let message = format!("{}: {error}", request.describe());
        match error.raw_os_error() {
            Some(libc::EINVAL) if options.direct => Failure::Failed(format!(
                "{message}; hint: some disks require bs=4KiB or more, some file systems direct=false"
            )),
            Some(libc::EOPNOTSUPP) if options.iopoll => Failure::Unavailable(format!(
                "{message}; hint: this file or its disk does not support polling: iopoll=false"
            )),
            Some(libc::EIO) => match self.truncation(request) {
                Some(truncation) => Failure::Failed(format!("{}: {truncation}", request.describe())),
                None => Failure::Failed(format!("{message}; hint: dmesg shows the device error")),
            },
            Some(libc::ETXTBSY) => Failure::Failed(format!("{message}; hint: it is in use as a program or as swap")),
            Some(libc::ENOSPC) => {
                Failure::Failed(format!("{message}; hint: a smaller size, or a file on another disk"))
            }
            _ => Failure::Failed(message),
        }
    }
}
