//! The kernel's queue of transfers (`io_uring`), of one thread. This is the seam below which tests have transfers fail.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};

use super::FarError;
use super::buffers::NearArena;
use super::file::FarFile;

/// A request that the kernel could not begin just now is given to it again so often.
const BEGINS_MAX: u32 = 100;
/// Signals, and a kernel short of memory, pass.
const TRIES_MAX: u32 = 1000;
/// Looks for an answer before sleeping: a third of a millisecond or so.
const SPINS: u32 = 10_000;
/// The kernel registers no more as one buffer.
pub(super) const REGISTERED_MAX: usize = 1 << 30;

/// One request: so many bytes between an address and a place in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub write: bool,
    /// From the beginning of the near memory.
    pub near: usize,
    pub offset: u64,
    pub bytes: usize,
}

pub(super) struct FileRing {
    ring: IoUring,
    file: i32,
    near: NearArena,
    /// The kernel knows the near memory already; else it looks its pages up at each request.
    registered: bool,
    #[cfg(test)]
    pub(super) fault: super::tests::FaultPlan,
}

/// Whether a request with this answer is to be given to the kernel again, after so many times.
pub(super) fn passes(result: i32, tries: u32) -> bool {
    matches!(-result, libc::EAGAIN | libc::EINTR) && tries < BEGINS_MAX
}

impl FileRing {
    /// A ring of so many requests at once.
    pub(super) fn new(file: &FarFile, near: &NearArena, depth: u32) -> Result<Self, FarError> {
        let ring = make(depth).map_err(|error| {
            let refused = FarError::refused(format!("have an io_uring of {depth} requests"), &error);
            match error.raw_os_error() {
                Some(libc::EPERM) => {
                    refused.with_hint("sysctl kernel.io_uring_disabled=0, or a container that allows io_uring")
                }
                Some(libc::ENOSYS) => {
                    refused.with_hint("io_uring is in Linux from 5.1 on; emulators of processors may lack it")
                }
                _ => refused.with_hint("a larger ulimit -l"),
            }
        })?;
        let registered = register(&ring, near);
        keep_here(&ring);
        Ok(Self {
            ring,
            file: file.file().as_raw_fd(),
            near: near.clone(),
            registered,
            #[cfg(test)]
            fault: super::tests::FaultPlan::default(),
        })
    }

    /// Whether the kernel keeps the near memory's pages at hand.
    pub(super) fn is_registered(&self) -> bool {
        self.registered
    }

    /// Puts one request into the queue, under a number that its answer will bear.
    ///
    /// # Safety
    /// The bytes belong to nobody else until the answer has come, the near memory outlives it, and no more requests are
    /// under way than the ring was made for.
    pub(super) unsafe fn put(&mut self, number: u64, transfer: Transfer) {
        #[cfg(test)]
        let Some(transfer) = self.faulty(number, transfer) else { return };
        let Transfer { write, near, offset, bytes } = transfer;
        assert!(near + bytes <= self.near.bytes(), "a transfer lies within the near memory");
        let (file, length) = (Fd(self.file), bytes as u32);
        let address = self.near.start().wrapping_add(near);
        let index = (near / REGISTERED_MAX) as u16;
        let entry = match (self.registered, write) {
            (true, false) => opcode::ReadFixed::new(file, address, length, index).offset(offset).build(),
            (true, true) => opcode::WriteFixed::new(file, address, length, index).offset(offset).build(),
            (false, false) => opcode::Read::new(file, address, length).offset(offset).build(),
            (false, true) => opcode::Write::new(file, address, length).offset(offset).build(),
        };
        // SAFETY: as the caller says; the queue has a place for each request that may be under way.
        unsafe { self.ring.submission().push(&entry.user_data(number)) }
            .expect("the ring has a place for each request");
    }

    /// Hands the queue to the kernel, and waits for an answer if asked.
    pub(super) fn submit(&mut self, wait: bool) {
        for _ in 0..TRIES_MAX {
            match self.ring.submit_and_wait(usize::from(wait)) {
                Ok(_) => return,
                Err(error) if [io::ErrorKind::Interrupted, io::ErrorKind::ResourceBusy].contains(&error.kind()) => {}
                Err(error) => eprintln!("io_uring: {error}"),
            }
        }
        // Buffers would stay the kernel's and nobody could say what is in them: nothing that follows could be right.
        std::process::abort();
    }

    /// Has the kernel finish answers that have come in the meantime, if it says that there are any.
    pub(super) fn look(&mut self) {
        if self.ring.submission().taskrun() {
            self.submit(false);
        }
    }

    /// How many answers have come and were not looked at.
    pub(super) fn waiting(&mut self) -> usize {
        self.look();
        self.ring.completion().len()
    }

    /// Whether an answer comes within some tenths of a millisecond, which is what a disk takes: a thread that sleeps for it is woken
    /// later than that, above all where a virtual cpu sleeps with it.
    pub(super) fn spin_for_completion(&mut self) -> bool {
        (0..SPINS).any(|_| {
            std::hint::spin_loop();
            self.ring.submission().taskrun() || !self.ring.completion().is_empty()
        })
    }

    /// The answers that have come: number, and bytes moved or a negative errno.
    pub(super) fn answers(&mut self, mut take: impl FnMut(u64, i32)) {
        for answer in self.ring.completion() {
            let (number, result) = (answer.user_data(), answer.result());
            #[cfg(test)]
            let result = self.fault.made_up.remove(&number).unwrap_or(result);
            take(number, result);
        }
    }

    /// The request as the test's plan wants it; none when only its answer is made up.
    #[cfg(test)]
    fn faulty(&mut self, number: u64, transfer: Transfer) -> Option<Transfer> {
        match self.fault.next() {
            None => Some(transfer),
            // Really short: the rest of the buffer keeps what it had.
            Some(super::tests::Fault::Short) => Some(Transfer { bytes: transfer.bytes / 8192 * 4096, ..transfer }),
            Some(super::tests::Fault::Errno(errno)) => {
                // A request that the kernel answers with an error of its own, turned into the planned one.
                self.fault.made_up.insert(number, -errno);
                let nothing = opcode::Nop::new().build().user_data(number);
                // SAFETY: a request without buffers.
                unsafe { self.ring.submission().push(&nothing) }.expect("the ring has a place for each request");
                None
            }
        }
    }
}

fn make(depth: u32) -> io::Result<IoUring> {
    let with = |quick: bool| {
        let mut builder = IoUring::builder();
        if quick {
            // Answers are looked after when they are waited for, and not by interrupting what this thread computes.
            builder.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag().setup_defer_taskrun();
        }
        builder.build(depth)
    };
    // Kernels before 6.1 do not know the quick ways.
    with(true).or_else(|error| if error.raw_os_error() == Some(libc::EINVAL) { with(false) } else { Err(error) })
}

/// What a request cannot begin at once the kernel does on threads of its own, of this process: on the cpus of the thread
/// that asked, so that a seated thread's work stays on its seat. Kernels before 5.14 cannot be asked.
fn keep_here(ring: &IoUring) {
    // SAFETY: a cpu_set_t is an array of bits, of which all zero is one.
    let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most so many bytes into a live mask of that size.
    let read = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut cpus) };
    if read == 0 {
        // A refusal leaves the threads where the kernel likes, which the trial's evidence shows.
        let _ = ring.submitter().register_iowq_aff(&cpus);
    }
}

/// Tells the ring of the memory. Users who may lock little memory do without: it costs them some processor time.
fn register(ring: &IoUring, near: &NearArena) -> bool {
    let piece = |from: usize| libc::iovec {
        iov_base: near.start().wrapping_add(from).cast(),
        iov_len: (near.bytes() - from).min(REGISTERED_MAX),
    };
    let pieces: Vec<libc::iovec> = (0..near.bytes()).step_by(REGISTERED_MAX).map(piece).collect();
    // SAFETY: the ring holds the near memory, so the pieces outlive it.
    unsafe { ring.submitter().register_buffers(&pieces) }.is_ok()
}
