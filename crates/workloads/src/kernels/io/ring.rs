//! Many requests at once: `io_uring`, one ring per thread. One call hands over a batch and waits. Buffers and the file are
//! known to the kernel beforehand unless `registered=false`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{CompletionQueue, IoUring, SubmissionQueue, Submitter, opcode, squeue};

use super::buffers::Buffers;
use super::clock;
use super::options::Options;
use super::queue::{Queue, Wait};
use super::worker::{Request, RequestKind};
use crate::job::Failure;

/// Signals and a kernel short of memory pass.
const TRIES_MAX: u32 = 1000;

/// The kernel registers no more as one buffer.
const PIECE_MAX: usize = 1 << 30;

/// A polling thread of the kernel goes to sleep after so long without requests.
const SQPOLL_IDLE_MS: u32 = 1000;

/// How many answers a round takes at most. The larger the batches, the less each request costs the processor, and the
/// longer the device stands idle: with batches of any size a virtio disk did 15 % less at a depth of 16 than fio, which
/// hands over one by one, with batches of 4 as much, at a quarter less cpu time; with 1 and 2 no more.
fn batch(depth: usize) -> usize {
    (depth / 4).clamp(1, 4)
}

/// The queues of a ring.
pub(super) struct UringQueue<'r> {
    submitter: Submitter<'r>,
    requests: SubmissionQueue<'r>,
    answers: CompletionQueue<'r>,
    block: u32,
    file: libc::c_int,
    /// How many blocks a registered buffer has; none when none is registered.
    per_piece: Option<usize>,
    batch: usize,
}

/// A ring as the options ask for.
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
                // Answers are looked after when they are waited for, and not by interrupting this thread.
                builder.setup_coop_taskrun().setup_defer_taskrun();
            }
        }
        // A polling thread gives places back only after a whole batch, of which some answers may be there before.
        builder.build(if options.sqpoll { 2 * depth } else { depth })
    };
    // Kernels before 6.1 do not know the quick ways.
    let ring =
        with(true).or_else(|error| if error.raw_os_error() == Some(libc::EINVAL) { with(false) } else { Err(error) });
    ring.map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => Failure::Unavailable(format!(
            "this kernel gives no io_uring of {depth} requests: {error}; hint: a smaller iodepth"
        )),
        Some(libc::ENOMEM) => Failure::Unavailable(format!(
            "this kernel gives no io_uring of {depth} requests: {error}; hint: a smaller iodepth, or a larger ulimit -l"
        )),
        Some(libc::EPERM) => Failure::Unavailable(format!(
            "this kernel gives no io_uring: {error}; hint: sysctl kernel.io_uring_disabled, or engine=libaio"
        )),
        _ => Failure::Unavailable(format!("this kernel gives no io_uring: {error}; hint: engine=libaio")),
    })
}

impl<'r> UringQueue<'r> {
    /// Tells the ring of buffers and file.
    pub(super) fn new(
        ring: &'r mut IoUring,
        options: &Options,
        file: &File,
        buffers: &Buffers<'_>,
    ) -> Result<Self, Failure> {
        let (mut submitter, requests, answers) = ring.split();
        keep_workers_here(&submitter);
        let file = file.as_raw_fd();
        if options.registered {
            // SAFETY: the buffers outlive the ring's requests: the loop waits for all of them.
            let told = unsafe { submitter.register_buffers(&buffers.pieces(PIECE_MAX)) };
            told.and_then(|()| submitter.register_files(&[file])).map_err(|error| not_registered(&error))?;
            // Spares the kernel a look-up in each call; kernels before 5.18 do it.
            let _ = submitter.register_ring_fd();
        }
        let per_piece = options.registered.then(|| buffers.blocks_per_piece(PIECE_MAX));
        Ok(Self {
            submitter,
            requests,
            answers,
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

/// What cannot be handed over without waiting, such as requests for a disk whose own queue is full, threads of the kernel
/// do. They may run on all cpus of the memory node; here they get those of the thread that they work for, as its seat is
/// what is measured. Kernels before 5.14 let nobody say, and then the evidence shows where they ran.
fn keep_workers_here(submitter: &Submitter<'_>) {
    // SAFETY: all zeros is an empty set, which the call alone fills in.
    let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours and as large as is said; 0 is this thread.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut cpus) } == 0 {
        let _ = submitter.register_iowq_aff(&cpus);
    }
}

fn not_registered(error: &io::Error) -> Failure {
    let hint = match error.raw_os_error() {
        Some(libc::ENOMEM) => "a larger ulimit -l, which bounds registered memory, or registered=false",
        _ => "registered=false",
    };
    Failure::Unavailable(format!("this kernel registers no buffers and files: {error}; hint: {hint}"))
}

impl Queue for UringQueue<'_> {
    #[inline]
    fn put(&mut self, slot: usize, request: &Request, buffer: *mut u8) {
        let entry = self.entry(request, buffer).user_data(slot as u64);
        // SAFETY: the buffer belongs to no other request under way, and outlives this one: the loop waits for all. The ring
        // has a place for each of `depth` requests, so that it is never full.
        unsafe { self.requests.push(&entry) }.expect("the ring has a place for each request");
    }

    /// Without an answer the buffers would stay the kernel's: where the kernel takes no requests and gives no answers,
    /// nothing can be done but to end this process, which measures and does nothing else.
    #[inline]
    fn hand_over(&mut self, wait: Wait) -> u64 {
        self.requests.sync();
        let handed = clock::now_ns();
        for _ in 0..TRIES_MAX {
            match self.enter(wait) {
                Ok(_) => return handed,
                Err(error) if error.raw_os_error() == Some(libc::ETIME) => return handed,
                Err(error) if [io::ErrorKind::Interrupted, io::ErrorKind::ResourceBusy].contains(&error.kind()) => {}
                Err(error) => eprintln!("io_uring: {error}"),
            }
            self.requests.sync();
        }
        std::process::abort();
    }

    #[inline]
    fn answers(&mut self, mut take: impl FnMut(usize, i64)) {
        // What was handed over has left its places.
        self.requests.sync();
        self.answers.sync();
        for answer in self.answers.by_ref().take(self.batch) {
            take(answer.user_data() as usize, i64::from(answer.result()));
        }
        self.answers.sync();
    }
}
