//! One thread's work, whatever engine does it: which request is next and when, what its buffer holds, whether what came
//! of it is right, and how long it took.

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
    /// With `verify`: what was written.
    pub written: Option<WrittenBlocks>,
    check: Check,
}

/// What is known of data that are read.
enum Check {
    Nothing,
    /// Sectors carry the stamps of one of these seeds.
    Stamps([u64; 2]),
    Zeros,
    /// Blocks prove themselves, with this seed or any.
    Sealed(Option<u64>),
}

#[derive(Clone, Copy)]
pub(super) struct Request {
    pub kind: RequestKind,
    pub offset: u64,
    /// Which block of the buffers.
    pub buffer: usize,
    /// When it was due, and when it was handed to the kernel.
    pub due: u64,
    pub handed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    Read,
    Write,
    /// Everything written to the device.
    Sync,
}

/// What is to be done next.
pub(super) enum Next {
    Request(Request),
    At(u64),
    Nothing,
}

pub(super) struct WorkerState<'t> {
    pub task: &'t IoPlan,
    pub file: &'t File,
    pub buffers: Buffers<'t>,
    pub tally: IoStats,
    places: Offsets,
    pace: Schedule,
    end: u64,
    /// How many requests are still to start; none when the time bounds it.
    left: Option<u64>,
    unsynced: u64,
}

impl IoPlan {
    pub(super) fn new(options: Options, target: IoTarget, seed: u64) -> Result<Self, Failure> {
        let written = (options.verify && options.writes()).then(|| WrittenBlocks::new(target.bytes, options.block));
        let fill_seed = target::fill_seed(seed, &options);
        let check = match (target.ours, options.verify && !options.writes()) {
            (ours, true) => Check::Sealed(ours.then_some(fill_seed)),
            (false, false) => Check::Nothing,
            (true, false) if options.stamped() => Check::Stamps([fill_seed, seed]),
            (true, false) => Check::Zeros,
        };
        Ok(Self { options, target, seed, written: written.transpose()?, check })
    }

    /// Whether data that were read are looked at.
    pub(super) fn checks(&self) -> bool {
        !matches!(self.check, Check::Nothing)
    }
}

impl Request {
    /// For places in a queue that have none.
    pub(super) const IDLE: Self = Self { kind: RequestKind::Sync, offset: 0, buffer: 0, due: 0, handed: 0 };

    /// The words in which it went wrong.
    fn what(&self) -> String {
        match self.kind {
            RequestKind::Read => format!("a read at {}", self.offset),
            RequestKind::Write => format!("a write at {}", self.offset),
            RequestKind::Sync => "an fsync".into(),
        }
    }
}

impl<'t> WorkerState<'t> {
    /// `parts`: whether the engine tells handing over from being done.
    pub(super) fn new(task: &'t IoPlan, file: &'t File, buffers: Buffers<'t>, places: Offsets, parts: bool) -> Self {
        let (amount, block) = (task.options.amount, task.options.block as u64);
        Self {
            task,
            file,
            buffers,
            tally: IoStats::new(parts),
            places,
            pace: Schedule::new(task.options.rate),
            end: 0,
            left: (amount > 0).then(|| amount.div_ceil(block)),
            unsynced: 0,
        }
    }

    pub(super) fn begin(&mut self) -> u64 {
        let (options, now) = (&self.task.options, clock::now_ns());
        let counts_from = now + options.ramp_ns;
        self.end = counts_from + options.runtime_ns;
        self.pace.begin(now);
        self.tally.begin(now, counts_from);
        now
    }

    /// What is next for this place in the queue, and its data where it is a write.
    #[inline]
    pub(super) fn next(&mut self, now: u64, slot: usize) -> Next {
        let options = &self.task.options;
        if options.fsync > 0 && self.unsynced >= options.fsync {
            self.unsynced = 0;
            return Next::Request(Request { kind: RequestKind::Sync, due: now, ..Request::IDLE });
        }
        match self.left {
            Some(0) => return Next::Nothing,
            None if now >= self.end => return Next::Nothing,
            _ => {}
        }
        let due = match self.pace.due(now) {
            NextStart::Since(due) => due,
            NextStart::At(at) if self.left.is_none() && at >= self.end => return Next::Nothing,
            NextStart::At(at) => return Next::At(at),
        };
        self.pace.start();
        if self.tally.is_counting()
            && let Some(left) = &mut self.left
        {
            *left -= 1;
        }
        let (write, offset) = self.places.next();
        let (kind, buffer) = if write {
            self.unsynced += 1;
            (RequestKind::Write, self.data_for(slot, offset))
        } else {
            (RequestKind::Read, slot)
        };
        Next::Request(Request { kind, offset, buffer, due, handed: due })
    }

    /// A block with the data that belong at `offset`.
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

    /// Counts and checks a request that is done. `result` is the kernel's: bytes, or an error below zero.
    #[inline]
    pub(super) fn done(&mut self, request: &Request, result: i64, now: u64) -> Result<(), Failure> {
        if request.kind == RequestKind::Sync {
            return if result == 0 { Ok(()) } else { self.mend(request, result) };
        }
        if result != self.task.options.block as i64 {
            self.mend(request, result)?;
        }
        let write = request.kind == RequestKind::Write;
        self.tally.record(write, Times { due: request.due, handed: request.handed, done: now });
        if !write {
            return self.check(request);
        }
        if let Some(written) = &self.task.written {
            written.mark(request.offset);
        }
        Ok(())
    }

    /// Whether what was read is what was written there.
    #[inline]
    fn check(&mut self, request: &Request) -> Result<(), Failure> {
        let wrong = match self.task.check {
            Check::Nothing => return Ok(()),
            Check::Stamps(seeds) => data::wrong_stamp(self.buffers.words(request.buffer), seeds, request.offset),
            Check::Zeros => data::not_zero(self.buffers.words(request.buffer)),
            Check::Sealed(seed) => return verify::examine(self.buffers.words(request.buffer), seed, request.offset),
        };
        match wrong {
            None => Ok(()),
            Some(sector) => Err(Failure::Failed(format!(
                "wrong data at {}: other data than were written, in sector {sector} of the block",
                request.offset
            ))),
        }
    }

    /// The timed region is over. Requests that should have started and never did count with what they have waited.
    pub(super) fn finish(&mut self, now: u64) {
        if self.left.is_none() {
            let Self { pace, tally, .. } = self;
            pace.missed(tally.counts_from(), self.end, now, |waited, count| tally.record_missed(waited, count));
        }
        self.tally.end(now);
    }

    /// What did not go through as a whole: an error, or the rest is tried once more, to be told why it is missing.
    #[cold]
    fn mend(&mut self, request: &Request, result: i64) -> Result<(), Failure> {
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
        let (left, from) = (&mut self.buffers.bytes(request.buffer)[got..], request.offset + got as u64);
        match request.kind {
            RequestKind::Read => self.file.read_at(left, from),
            RequestKind::Write => self.file.write_at(left, from),
            RequestKind::Sync => Ok(0),
        }
    }

    fn short(&self, request: &Request, got: usize) -> Failure {
        let what = format!("{} of {} bytes moved {got}", request.what(), self.task.options.block);
        Failure::Failed(match self.cut(request) {
            Some(cut) => format!("{what}: {cut}"),
            None => what,
        })
    }

    /// Whether the file is too short for a request that was within it when it began.
    fn cut(&self, request: &Request) -> Option<String> {
        let length = self.task.target.length_now()?;
        let short = length < request.offset + self.task.options.block as u64;
        short.then(|| format!("the file ends at {length}, so it was cut meanwhile"))
    }

    fn failed(&self, request: &Request, error: &io::Error) -> Failure {
        let options = &self.task.options;
        let words = format!("{}: {error}", request.what());
        match error.raw_os_error() {
            Some(libc::EINVAL) if options.direct => Failure::Failed(format!(
                "{words}; hint: past the page cache some disks want bs=4KiB or more, and some file systems direct=false"
            )),
            Some(libc::EOPNOTSUPP) if options.iopoll => {
                Failure::Unavailable(format!("{words}; hint: this file or its disk cannot be polled: iopoll=false"))
            }
            Some(libc::EIO) => match self.cut(request) {
                Some(cut) => Failure::Failed(format!("{}: {cut}", request.what())),
                None => Failure::Failed(format!("{words}; hint: dmesg says what the device had")),
            },
            Some(libc::ETXTBSY) => Failure::Failed(format!("{words}; hint: it is in use as a program or as swap")),
            Some(libc::ENOSPC) => Failure::Failed(format!("{words}; hint: a smaller size, or a file elsewhere")),
            _ => Failure::Failed(words),
        }
    }
}
