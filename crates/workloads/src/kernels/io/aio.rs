//! Asynchronous requests through the kernel's older interface, known as libaio after its library: `io_setup`,
//! `io_submit` and `io_getevents` (Linux 2.5), called without the library.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::ptr;

use super::clock;
use super::queue::{Queue, Wait};
use super::worker::{Request, RequestKind};
use crate::job::Failure;

/// Retries after a signal or a temporary lack of kernel memory.
const TRIES_MAX: u32 = 1000;

/// Number of completions requested per call; fetching all that are available saves calls.
const EVENTS_MAX: usize = 64;

/// Completions processed per round, so that the device gets a new request for each as soon as it completes one. If a
/// call submits more than two requests, the kernel delays the first until it has the last (fs/aio.c,
/// `AIO_PLUG_THRESHOLD`). On a virtio disk at depths of 16 and 32, four per round reached 3 to 4 % less than one. One
/// per round costs a tenth more CPU time, still less than fio.
const REAP_MAX: usize = 1;

/// `struct iocb` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Iocb {
    data: u64,
    /// `aio_key` and `aio_rw_flags`, whose order depends on the byte order; both are 0.
    key_and_flags: [u32; 2],
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// `struct io_event` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct IoEvent {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

/// `IOCB_CMD_*` of `linux/aio_abi.h`.
const READ: u16 = 0;
const WRITE: u16 = 1;
const SYNC: u16 = 2;

/// The queue of one thread.
pub(super) struct Aio {
    context: libc::c_ulong,
    file: u32,
    block: u64,
    /// One entry per request; the kernel copies it on submission.
    requests: Vec<Iocb>,
    /// Requests of this batch that are not submitted yet.
    batch: Vec<*mut Iocb>,
    /// Completions fetched from the kernel; those from `next` to before `completed` are not processed yet.
    events: Vec<IoEvent>,
    next: usize,
    completed: usize,
    /// Requests that the kernel rejected, with the negative error.
    rejected: Vec<(usize, i64)>,
    in_flight: usize,
}

impl Aio {
    /// Creates a queue of `depth` requests.
    pub(super) fn new(depth: usize, block: usize, file: &File) -> Result<Self, Failure> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the context is a local variable, initialised to 0 as the kernel requires.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, depth as libc::c_long, &raw mut context) };
        if made != 0 {
            return Err(rejected(depth, &io::Error::last_os_error()));
        }
        Ok(Self {
            context,
            file: file.as_raw_fd() as u32,
            block: block as u64,
            requests: vec![Iocb::default(); depth],
            batch: Vec::with_capacity(depth),
            events: vec![IoEvent::default(); depth.min(EVENTS_MAX)],
            next: 0,
            completed: 0,
            rejected: Vec::with_capacity(depth),
            in_flight: 0,
        })
    }

    /// Submits as much of the batch as the kernel accepts. A rejected request completes with its error.
    fn submit(&mut self) {
        let mut first = 0;
        let mut tries = 0;
        while first < self.batch.len() {
            let remaining = &mut self.batch[first..];
            // SAFETY: the pointers are to entries of `requests`, which do not move. The buffers outlive the requests
            // because the loop waits for all completions.
            let taken =
                unsafe { libc::syscall(libc::SYS_io_submit, self.context, remaining.len(), remaining.as_mut_ptr()) };
            if let Some(taken) = usize::try_from(taken).ok().filter(|taken| *taken > 0) {
                first += taken;
                self.in_flight += taken;
                continue;
            }
            let error = io::Error::last_os_error();
            let passes = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
            tries += 1;
            if passes && self.in_flight > 0 {
                break;
            }
            if passes && tries < TRIES_MAX {
                continue;
            }
            // SAFETY: the entry is alive, and the kernel only reads it.
            let slot = unsafe { (*remaining[0]).data } as usize;
            self.rejected.push((slot, -i64::from(error.raw_os_error().unwrap_or(libc::EIO))));
            first += 1;
        }
        self.batch.drain(..first);
    }

    /// Waits for the first completion, or for at most the given time. If the call keeps failing, the kernel would
    /// retain the buffers, so the only safe reaction is to abort this process, which only measures.
    fn wait(&mut self, wait: Wait) {
        let mut time = match wait {
            Wait::Answer => None,
            Wait::AtMost(ns) => Some(clock::timespec(ns)),
        };
        let time = time.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        for _ in 0..TRIES_MAX {
            let (most, events) = (self.events.len(), self.events.as_mut_ptr());
            // SAFETY: the buffer has `most` events, and the time outlives the call.
            let completed =
                unsafe { libc::syscall(libc::SYS_io_getevents, self.context, 1 as libc::c_long, most, events, time) };
            if let Ok(completed) = usize::try_from(completed) {
                (self.next, self.completed) = (0, completed);
                self.in_flight -= completed;
                return;
            }
        }
        let error = io::Error::last_os_error();
        // The process ends either way.
        let _ = writeln!(io::stderr(), "io_getevents: {error}");
        std::process::abort();
    }
}

/// Converts an error of `io_setup`. The kernel limits the requests of all queues together.
fn rejected(depth: usize, error: &io::Error) -> Failure {
    let limit = fs::read_to_string("/proc/sys/fs/aio-max-nr").unwrap_or_default();
    Failure::Unavailable(match error.raw_os_error() {
        Some(libc::EAGAIN) => format!(
            "the kernel rejected a queue of {depth} requests: fs.aio-max-nr is {} for all queues together; hint: a \
             smaller iodepth, or sysctl fs.aio-max-nr=1048576",
            limit.trim()
        ),
        Some(libc::ENOSYS) => format!("the kernel does not support io_setup: {error}; hint: engine=io_uring"),
        _ => format!("the kernel rejected a queue of {depth} requests: {error}; hint: a smaller iodepth"),
    })
}

impl Queue for Aio {
    #[inline]
    fn put(&mut self, slot: usize, request: &Request, buffer: *mut u8) {
        let (opcode, bytes) = match request.kind {
            RequestKind::Read => (READ, self.block),
            RequestKind::Write => (WRITE, self.block),
            RequestKind::Sync => (SYNC, 0),
        };
        let place = &mut self.requests[slot];
        *place = Iocb { data: slot as u64, opcode, file: self.file, ..Iocb::default() };
        if bytes > 0 {
            (place.buffer, place.bytes, place.offset) = (buffer as u64, bytes, request.offset as i64);
        }
        self.batch.push(ptr::from_mut(place));
    }

    #[inline]
    fn submit_and_wait(&mut self, wait: Wait) -> u64 {
        self.submit();
        let submitted = clock::now_ns();
        if self.rejected.is_empty() && self.next == self.completed && self.in_flight > 0 {
            self.wait(wait);
        }
        submitted
    }

    #[inline]
    fn reap(&mut self, mut take: impl FnMut(usize, i64)) {
        for (slot, error) in self.rejected.drain(..) {
            take(slot, error);
        }
        let until = self.completed.min(self.next + REAP_MAX);
        for event in &self.events[self.next..until] {
            take(event.data as usize, event.result);
        }
        self.next = until;
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: the context belongs to this value and is not used again. The call waits for requests in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn completions_are_processed_one_by_one_without_loss() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![7; 8 * 4096], 0).unwrap();
        let mut buffer = vec![0u8; 8 * 4096];
        let mut aio = match Aio::new(8, 4096, &file) {
            Ok(aio) => aio,
            Err(reason) => return println!("skipped: {reason}"),
        };
        for slot in 0..8 {
            let request = Request { kind: RequestKind::Read, offset: slot as u64 * 4096, ..Request::IDLE };
            aio.put(slot, &request, buffer[slot * 4096..].as_mut_ptr());
        }
        let mut seen = BTreeSet::new();
        for _ in 0..8 {
            aio.submit_and_wait(Wait::Answer);
            let mut taken = 0;
            aio.reap(|slot, result| {
                assert_eq!(result, 4096);
                assert!(seen.insert(slot), "{slot} completed twice");
                taken += 1;
            });
            assert_eq!(taken, 1);
        }
        assert_eq!(seen.len(), 8);
        aio.submit_and_wait(Wait::Answer);
        aio.reap(|slot, _| panic!("{slot} has no request in flight"));
        drop(aio);
        assert!(buffer.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn kernel_structs_have_their_sizes() {
        assert_eq!((size_of::<Iocb>(), size_of::<IoEvent>()), (64, 32));
        assert_eq!(std::mem::offset_of!(Iocb, opcode), 16);
        assert_eq!((std::mem::offset_of!(Iocb, buffer), std::mem::offset_of!(Iocb, flags)), (24, 56));
    }
}
