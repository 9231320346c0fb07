//! The `io_uring` of one thread, for transfers of a far file. Tests inject transfer failures here.
#![allow(unsafe_code)]

use std::io::{self, Write};
use std::os::fd::AsRawFd;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};

use super::FarError;
use super::buffers::NearArena;
use super::file::FarFile;

/// Maximum number of submissions of a request that the kernel cannot start.
const BEGINS_MAX: u32 = 100;
/// Maximum number of submissions after interruptions by signals or while kernel memory is short.
const TRIES_MAX: u32 = 1000;
/// Polls before sleeping: about a third of a millisecond.
const SPINS: u32 = 10_000;
/// Maximum size of one registered buffer.
pub(super) const REGISTERED_MAX: usize = 1 << 30;

/// One transfer between near memory and an offset of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub write: bool,
    /// Offset in the near memory.
    pub near: usize,
    pub offset: u64,
    pub bytes: usize,
}

pub(super) struct FileRing {
    ring: IoUring,
    file: i32,
    near: NearArena,
    /// Whether the near memory is registered. If not, the kernel looks up its pages at each request.
    registered: bool,
    #[cfg(test)]
    pub(super) fault: super::tests::FaultPlan,
}

/// Returns true if a request with this result should be submitted again, after `tries` submissions.
pub(super) fn passes(result: i32, tries: u32) -> bool {
    matches!(-result, libc::EAGAIN | libc::EINTR) && tries < BEGINS_MAX
}

impl FileRing {
    /// Creates a ring for `depth` concurrent requests.
    pub(super) fn new(file: &FarFile, near: &NearArena, depth: u32) -> Result<Self, FarError> {
        let ring = make(depth).map_err(|error| {
            let refused = FarError::refused(format!("create an io_uring of {depth} requests"), &error);
            match error.raw_os_error() {
                Some(libc::EPERM) => {
                    refused.with_hint("set sysctl kernel.io_uring_disabled=0, or use a container that allows io_uring")
                }
                Some(libc::ENOSYS) => refused.with_hint("io_uring needs Linux 5.1; processor emulators may lack it"),
                _ => refused.with_hint("raise the limit of locked memory (ulimit -l)"),
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

    /// Whether the near memory is registered with the kernel.
    pub(super) fn is_registered(&self) -> bool {
        self.registered
    }

    /// Queues one request. `number` identifies its completion.
    ///
    /// # Safety
    /// No other code accesses the bytes until the completion has arrived, the near memory outlives it, and at most as
    /// many requests are in flight as the ring was created for.
    pub(super) unsafe fn put(&mut self, number: u64, transfer: Transfer) {
        #[cfg(test)]
        let Some(transfer) = self.faulty(number, transfer) else { return };
        let Transfer { write, near, offset, bytes } = transfer;
        assert!(near + bytes <= self.near.bytes(), "the transfer exceeds the near memory");
        let (file, length) = (Fd(self.file), bytes as u32);
        let address = self.near.start().wrapping_add(near);
        let index = (near / REGISTERED_MAX) as u16;
        let entry = match (self.registered, write) {
            (true, false) => opcode::ReadFixed::new(file, address, length, index).offset(offset).build(),
            (true, true) => opcode::WriteFixed::new(file, address, length, index).offset(offset).build(),
            (false, false) => opcode::Read::new(file, address, length).offset(offset).build(),
            (false, true) => opcode::Write::new(file, address, length).offset(offset).build(),
        };
        // SAFETY: the caller guarantees it; the queue has an entry for each request that may be in flight.
        unsafe { self.ring.submission().push(&entry.user_data(number)) }.expect("the ring is deep enough");
    }

    /// Submits the queue to the kernel, and waits for a completion if `wait`.
    pub(super) fn submit(&mut self, wait: bool) {
        for _ in 0..TRIES_MAX {
            match self.ring.submit_and_wait(usize::from(wait)) {
                Ok(_) => return,
                Err(error) if [io::ErrorKind::Interrupted, io::ErrorKind::ResourceBusy].contains(&error.kind()) => {}
                // A lost message must not end the process before its retries.
                Err(error) => drop(writeln!(io::stderr(), "io_uring: {error}")),
            }
        }
        // The kernel would still own buffers of unknown content, so no result could be trusted.
        std::process::abort();
    }

    /// Lets the kernel run pending completions, if it reports any.
    pub(super) fn run_pending(&mut self) {
        if self.ring.submission().taskrun() {
            self.submit(false);
        }
    }

    /// Number of completions that were not processed.
    pub(super) fn waiting(&mut self) -> usize {
        self.run_pending();
        self.ring.completion().len()
    }

    /// Polls for a completion for some tenths of a millisecond, the latency of a disk. A thread that sleeps is woken
    /// later than that, in particular if its virtual CPU sleeps too. Returns true if one has arrived.
    pub(super) fn spin_for_completion(&mut self) -> bool {
        (0..SPINS).any(|_| {
            std::hint::spin_loop();
            self.ring.submission().taskrun() || !self.ring.completion().is_empty()
        })
    }

    /// Calls `with` for each completion, with the request's number and the bytes transferred or a negative errno.
    pub(super) fn completions(&mut self, mut take: impl FnMut(u64, i32)) {
        for answer in self.ring.completion() {
            let (number, result) = (answer.user_data(), answer.result());
            #[cfg(test)]
            let result = self.fault.made_up.remove(&number).unwrap_or(result);
            take(number, result);
        }
    }

    /// The request as modified by the test's plan; `None` if only its completion is simulated.
    #[cfg(test)]
    fn faulty(&mut self, number: u64, transfer: Transfer) -> Option<Transfer> {
        match self.fault.next() {
            None => Some(transfer),
            // The transfer is really short: the rest of the buffer keeps its content.
            Some(super::tests::Fault::Short) => Some(Transfer { bytes: transfer.bytes / 8192 * 4096, ..transfer }),
            Some(super::tests::Fault::Errno(errno)) => {
                // A request that fails in the kernel, whose error is replaced by the planned one.
                self.fault.made_up.insert(number, -errno);
                let nothing = opcode::Nop::new().build().user_data(number);
                // SAFETY: the request has no buffer.
                unsafe { self.ring.submission().push(&nothing) }.expect("the ring is deep enough");
                None
            }
        }
    }
}

fn make(depth: u32) -> io::Result<IoUring> {
    let with = |quick: bool| {
        let mut builder = IoUring::builder();
        if quick {
            // Completions run when this thread waits for them, and do not interrupt its computation.
            builder.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag().setup_defer_taskrun();
        }
        builder.build(depth)
    };
    // Kernels before 6.1 lack these flags.
    with(true).or_else(|error| if error.raw_os_error() == Some(libc::EINVAL) { with(false) } else { Err(error) })
}

/// The kernel runs requests that block on worker threads of this process. Their affinity is set to that of the calling
/// thread, so that the work of a pinned thread stays on its CPU. Kernels before 5.14 cannot do this.
fn keep_here(ring: &IoUring) {
    // SAFETY: a cpu_set_t is an array of bits, for which all zeros are valid.
    let mut cpus: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most `size_of` bytes into a live mask.
    let read = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut cpus) };
    if read == 0 {
        // If refused, the kernel places the threads, which the evidence of the trial shows.
        let _ = ring.submitter().register_iowq_aff(&cpus);
    }
}

/// Registers the memory with the ring. Users with a small limit on locked memory do without, at the cost of some CPU
/// time.
fn register(ring: &IoUring, near: &NearArena) -> bool {
    let piece = |from: usize| libc::iovec {
        iov_base: near.start().wrapping_add(from).cast(),
        iov_len: (near.bytes() - from).min(REGISTERED_MAX),
    };
    let pieces: Vec<libc::iovec> = (0..near.bytes()).step_by(REGISTERED_MAX).map(piece).collect();
    // SAFETY: the ring keeps the near memory alive, so the pieces outlive it.
    unsafe { ring.submitter().register_buffers(&pieces) }.is_ok()
}
