//! Many requests at once: the kernel's older interface, which people call libaio after its library: `io_setup`, `io_submit`
//! and `io_getevents` (Linux 2.5), called without the library.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use super::clock;
use super::queue::{Queue, Wait};
use super::worker::{Request, RequestKind};
use crate::job::Failure;

/// Signals and a kernel short of memory pass.
const TRIES_MAX: u32 = 1000;

/// As many answers are asked for at once: all that are there spare calls.
const EVENTS_MAX: usize = 64;

/// So many of them are taken in a round, so that the device gets a new request for each as soon as it has done one. Of more
/// than two in one call the kernel holds the first back until it has the last (fs/aio.c, `AIO_PLUG_THRESHOLD`). On a virtio
/// disk at depths of 16 and 32 four in a round did 3 to 4 % less than one; one costs a tenth more cpu time, still less
/// than fio.
const TAKEN: usize = 1;

/// `struct iocb` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Iocb {
    data: u64,
    /// `aio_key` and `aio_rw_flags`, whose order is the machine's; both are 0.
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
    /// A place for each request; the kernel copies it when it is handed over.
    requests: Vec<Iocb>,
    /// Those of this batch that are not handed over yet.
    batch: Vec<*mut Iocb>,
    /// Answers that came and are not taken yet: those from `next` to before `came`.
    events: Vec<IoEvent>,
    next: usize,
    came: usize,
    /// Requests that the kernel did not take, with its error below zero.
    refused: Vec<(usize, i64)>,
    under_way: usize,
}

impl Aio {
    /// A queue of `depth` requests.
    pub(super) fn new(depth: usize, block: usize, file: &File) -> Result<Self, Failure> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the context is ours, and 0 as the kernel wants it.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, depth as libc::c_long, &raw mut context) };
        if made != 0 {
            return Err(refused(depth, &io::Error::last_os_error()));
        }
        Ok(Self {
            context,
            file: file.as_raw_fd() as u32,
            block: block as u64,
            requests: vec![Iocb::default(); depth],
            batch: Vec::with_capacity(depth),
            events: vec![IoEvent::default(); depth.min(EVENTS_MAX)],
            next: 0,
            came: 0,
            refused: Vec::with_capacity(depth),
            under_way: 0,
        })
    }

    /// Hands over as much of the batch as the kernel takes. A request that it does not take is answered with its error.
    fn submit(&mut self) {
        let mut first = 0;
        let mut tries = 0;
        while first < self.batch.len() {
            let left = &mut self.batch[first..];
            // SAFETY: the pointers are to requests of ours, whose places do not move; buffers outlive them: the loop waits for
            // all answers.
            let taken = unsafe { libc::syscall(libc::SYS_io_submit, self.context, left.len(), left.as_mut_ptr()) };
            if let Some(taken) = usize::try_from(taken).ok().filter(|taken| *taken > 0) {
                first += taken;
                self.under_way += taken;
                continue;
            }
            let error = io::Error::last_os_error();
            let passes = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
            tries += 1;
            if passes && self.under_way > 0 {
                break;
            }
            if passes && tries < TRIES_MAX {
                continue;
            }
            // SAFETY: as above; the kernel only reads it.
            let slot = unsafe { (*left[0]).data } as usize;
            self.refused.push((slot, -i64::from(error.raw_os_error().unwrap_or(libc::EIO))));
            first += 1;
        }
        self.batch.drain(..first);
    }

    /// Waits for answers, for the first one or as long as is said. Without an answer the buffers would stay the kernel's:
    /// nothing can be done then but to end this process, which measures and does nothing else.
    fn wait(&mut self, wait: Wait) {
        let mut time = match wait {
            Wait::Answer => None,
            Wait::AtMost(ns) => Some(clock::timespec(ns)),
        };
        let time = time.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        for _ in 0..TRIES_MAX {
            let (most, events) = (self.events.len(), self.events.as_mut_ptr());
            // SAFETY: the events are ours, and as many as is said; the time outlives the call.
            let came =
                unsafe { libc::syscall(libc::SYS_io_getevents, self.context, 1 as libc::c_long, most, events, time) };
            if let Ok(came) = usize::try_from(came) {
                (self.next, self.came) = (0, came);
                self.under_way -= came;
                return;
            }
        }
        eprintln!("io_getevents: {}", io::Error::last_os_error());
        std::process::abort();
    }
}

/// The kernel bounds the requests of all queues together.
fn refused(depth: usize, error: &io::Error) -> Failure {
    let limit = fs::read_to_string("/proc/sys/fs/aio-max-nr").unwrap_or_default();
    Failure::Unavailable(match error.raw_os_error() {
        Some(libc::EAGAIN) => format!(
            "this kernel gives no queue of {depth} requests: fs.aio-max-nr is {} for all together; \
             hint: a smaller iodepth, or sysctl fs.aio-max-nr=1048576",
            limit.trim()
        ),
        Some(libc::ENOSYS) => format!("this kernel has no io_setup: {error}; hint: engine=io_uring"),
        _ => format!("this kernel gives no queue of {depth} requests: {error}; hint: a smaller iodepth"),
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
    fn hand_over(&mut self, wait: Wait) -> u64 {
        self.submit();
        let handed = clock::now_ns();
        if self.refused.is_empty() && self.next == self.came && self.under_way > 0 {
            self.wait(wait);
        }
        handed
    }

    #[inline]
    fn answers(&mut self, mut take: impl FnMut(usize, i64)) {
        for (slot, error) in self.refused.drain(..) {
            take(slot, error);
        }
        let until = self.came.min(self.next + TAKEN);
        for event in &self.events[self.next..until] {
            take(event.data as usize, event.result);
        }
        self.next = until;
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: our own context, which is used no more. Waits for what is under way.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn answers_that_came_together_are_taken_one_by_one_and_none_is_lost() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![7; 8 * 4096], 0).unwrap();
        let mut buffer = vec![0u8; 8 * 4096];
        let mut aio = match Aio::new(8, 4096, &file) {
            Ok(aio) => aio,
            Err(why) => return println!("skipped: {why}"),
        };
        for slot in 0..8 {
            let request = Request { kind: RequestKind::Read, offset: slot as u64 * 4096, ..Request::IDLE };
            aio.put(slot, &request, buffer[slot * 4096..].as_mut_ptr());
        }
        let mut seen = BTreeSet::new();
        for _ in 0..8 {
            aio.hand_over(Wait::Answer);
            let mut taken = 0;
            aio.answers(|slot, result| {
                assert_eq!(result, 4096);
                assert!(seen.insert(slot), "{slot} came twice");
                taken += 1;
            });
            assert_eq!(taken, 1);
        }
        assert_eq!(seen.len(), 8);
        aio.hand_over(Wait::Answer);
        aio.answers(|slot, _| panic!("{slot} has no request under way"));
        drop(aio);
        assert!(buffer.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn the_kernels_structs_have_their_sizes() {
        assert_eq!((size_of::<Iocb>(), size_of::<IoEvent>()), (64, 32));
        assert_eq!(std::mem::offset_of!(Iocb, opcode), 16);
        assert_eq!((std::mem::offset_of!(Iocb, buffer), std::mem::offset_of!(Iocb, flags)), (24, 56));
    }
}
