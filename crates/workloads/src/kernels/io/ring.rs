//! The engine `io_uring`, one ring per thread. One call submits a batch and waits. Buffers and the file are registered
//! with the kernel unless `registered=false`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{CompletionQueue, IoUring, SubmissionQueue, Submitter, opcode, squeue};

use super::buffers::Buffers;
use super::clock;
use super::options::Options;
use super::queue::{Queue, Wait};
use super::worker::{Request, RequestKind};
use crate::job::Failure;

/// Retries after a signal or a temporary lack of kernel memory.
const TRIES_MAX: u32 = 1000;

/// Maximum size of a registered buffer in the kernel.
const PIECE_MAX: usize = 1 << 30;

/// Idle time after which the kernel's polling thread sleeps.
const SQPOLL_IDLE_MS: u32 = 1000;

/// Maximum number of completions per round. Larger batches cost less CPU time per request but leave the device idle
/// longer. On a virtio disk at a depth of 16, unlimited batches reached 15 % less than fio, which submits one by one.
/// Batches of 4 reached the same as fio with a quarter less CPU time; batches of 1 and 2 reached no more.
fn batch(depth: usize) -> usize {
    (depth / 4).clamp(1, 4)
}

/// The submission and completion queues of a ring.
pub(super) struct UringQueue<'r> {
    submitter: Submitter<'r>,
    requests: SubmissionQueue<'r>,
    reap: CompletionQueue<'r>,
    block: u32,
    file: libc::c_int,
    /// Number of blocks per registered buffer; `None` if none is registered.
    per_piece: Option<usize>,
    batch: usize,
}

/// Creates a ring according to the options.
pub(super) fn make(options: &Options) -> Result<IoUring, Failure> {
    let depth = options.depth as u32;
    let with = |quick: bool| {
        let mut builder = IoUring::builder();
        if options.sqpoll {
            builder.setup_sqpoll(SQPOLL_IDLE_MS);
        }
        if options.iopoll {
            builder.setup_iopoll();
        }
        if quick {
            builder.setup_single_issuer();
            if !options.sqpoll {
                // Completions are processed when this thread waits for them, instead of interrupting it.
                builder.setup_coop_taskrun().setup_defer_taskrun();
            }
        }
        // The polling thread frees entries only after a whole batch, while some of its completions may be available
        // earlier.
        builder.build(if options.sqpoll { 2 * depth } else { depth })
    };
    // Falls back to default flags: kernels before 6.1 do not support the faster ones.
    let ring =
        with(true).or_else(|error| if error.raw_os_error() == Some(libc::EINVAL) { with(false) } else { Err(error) });
    ring.map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => Failure::Unavailable(format!(
            "the kernel rejected an io_uring of {depth} requests: {error}; hint: a smaller iodepth"
        )),
        Some(libc::ENOMEM) => Failure::Unavailable(format!(
            "the kernel rejected an io_uring of {depth} requests: {error}; hint: a smaller iodepth, or a larger ulimit -l"
        )),
        Some(libc::EPERM) => Failure::Unavailable(format!(
            "io_uring is not available: {error}; hint: sysctl kernel.io_uring_disabled, or engine=libaio"
        )),
        _ => Failure::Unavailable(format!("io_uring is not available: {error}; hint: engine=libaio")),
    })
}

impl<'r> UringQueue<'r> {
    /// Registers buffers and the file with the ring.
    pub(super) fn new(
        ring: &'r mut IoUring,
        options: &Options,
        file: &File,
        buffers: &Buffers<'_>,
    ) -> Result<Self, Failure> {
        let (mut submitter, requests, reap) = ring.split();
        keep_workers_here(&submitter);
        let file = file.as_raw_fd();
        if options.registered {
            // SAFETY: the buffers outlive the ring's requests, because the loop waits for all of them.
            let registered = unsafe { submitter.register_buffers(&buffers.pieces(PIECE_MAX)) };
            registered.and_then(|()| submitter.register_files(&[file])).map_err(|error| not_registered(&error))?;
            // Saves a lookup per call; kernels before 5.18 do not support it.
            let _ = submitter.register_ring_fd();
        }
        let per_piece = options.registered.then(|| buffers.blocks_per_piece(PIECE_MAX));
        Ok(Self {
            submitter,
            requests,
            reap,
            block: options.block as u32,
            file,
            per_piece,
            batch: batch(options.depth),
        })
    }

    #[inline]
    fn entry(&self, request: &Request, buffer: *mut u8) -> squeue::Entry {
        let (offset, length) = (request.offset, self.block);
        let Some(per_piece) = self.per_piece else {
            let file = Fd(self.file);
            return match request.kind {
                RequestKind::Read => opcode::Read::new(file, buffer, length).offset(offset).build(),
                RequestKind::Write => opcode::Write::new(file, buffer, length).offset(offset).build(),
                RequestKind::Sync => opcode::Fsync::new(file).build(),
            };
        };
        let (file, piece) = (Fixed(0), (request.buffer / per_piece) as u16);
        match request.kind {
            RequestKind::Read => opcode::ReadFixed::new(file, buffer, length, piece).offset(offset).build(),
            RequestKind::Write => opcode::WriteFixed::new(file, buffer, length, piece).offset(offset).build(),
            RequestKind::Sync => opcode::Fsync::new(file).build(),
        }
    }

    fn enter(&self, wait: Wait) -> io::Result<usize> {
        match wait {
            Wait::Answer => self.submitter.submit_and_wait(1),
            Wait::AtMost(ns) => {
                let time = Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32);
                self.submitter.submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        }
    }
}

/// Pins the kernel's worker threads, which process requests that would block, for example because the queue of the disk
/// is full. By default they may run on all CPUs of the memory node; here they get the CPUs of the submitting thread,
/// whose binding is measured. Kernels before 5.14 do not support this; the evidence then shows where
/// they ran.
fn keep_workers_here(submitter: &Submitter<'_>) {
    // SAFETY: all zeros is an empty set, which the call fills in.
    let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is local and has the given size; 0 is this thread.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut cpus) } == 0 {
        let _ = submitter.register_iowq_aff(&cpus);
    }
}

fn not_registered(error: &io::Error) -> Failure {
    let hint = match error.raw_os_error() {
        Some(libc::ENOMEM) => "a larger ulimit -l, which bounds registered memory, or registered=false",
        _ => "registered=false",
    };
    Failure::Unavailable(format!("the kernel rejected the registration of buffers and files: {error}; hint: {hint}"))
}

impl Queue for UringQueue<'_> {
    #[inline]
    fn put(&mut self, slot: usize, request: &Request, buffer: *mut u8) {
        let entry = self.entry(request, buffer).user_data(slot as u64);
        // SAFETY: no other request in flight uses the buffer, and it outlives this request, because the loop waits for
        // all. The ring has an entry for each of `depth` requests, so it is never full.
        unsafe { self.requests.push(&entry) }.expect("the ring has an entry for each request");
    }

    /// If submission keeps failing, the kernel would retain the buffers, so the only safe reaction is to abort this
    /// process, which only measures.
    #[inline]
    fn submit_and_wait(&mut self, wait: Wait) -> u64 {
        self.requests.sync();
        let handed = clock::now_ns();
        for _ in 0..TRIES_MAX {
            match self.enter(wait) {
                Ok(_) => return handed,
                Err(error) if error.raw_os_error() == Some(libc::ETIME) => return handed,
                Err(error) if [io::ErrorKind::Interrupted, io::ErrorKind::ResourceBusy].contains(&error.kind()) => {}
                // A lost message must not end the process before its retries.
                Err(error) => drop(writeln!(io::stderr(), "io_uring: {error}")),
            }
            self.requests.sync();
        }
        std::process::abort();
    }

    #[inline]
    fn reap(&mut self, mut take: impl FnMut(usize, i64)) {
        // Submitted requests have freed their entries.
        self.requests.sync();
        self.reap.sync();
        for answer in self.reap.by_ref().take(self.batch) {
            take(answer.user_data() as usize, i64::from(answer.result()));
        }
        self.reap.sync();
    }
}
