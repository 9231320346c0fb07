//! Synchronous requests by copying from and to the memory-mapped file. If the kernel has no data for a page (truncated
//! file, device error, full disk), it sends SIGBUS. The handler then replaces the page by a page of zeros, and the
//! request fails with EIO instead of ending the process.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::OnceLock;

use super::options::Spread;
use super::worker::{Request, RequestKind};
use crate::job::Failure;

/// The mapping of the file for one thread.
pub(super) struct Mapping {
    start: *mut u8,
    bytes: usize,
    file: libc::c_int,
}

/// State of a thread that the SIGBUS handler needs.
#[derive(Clone, Copy)]
struct SigbusContext {
    start: usize,
    bytes: usize,
    /// Whether a page was missing.
    missing: bool,
}

thread_local! {
    static GUARDED: Cell<SigbusContext> = const { Cell::new(SigbusContext { start: 0, bytes: 0, missing: false }) };
}

/// The previous SIGBUS action; `None` if the handler could not be installed.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

impl Mapping {
    /// Maps the first `bytes` of a file.
    pub(super) fn new(file: &File, bytes: u64, writes: bool, spread: Spread) -> Result<Self, Failure> {
        let refused = |operation: &str| Failure::Failed(format!("{operation}: {}", io::Error::last_os_error()));
        if BEFORE.get_or_init(install_handler).is_none() {
            return Err(refused("cannot install a SIGBUS handler"));
        }
        let (bytes, file) = (bytes as usize, file.as_raw_fd());
        let rights = libc::PROT_READ | if writes { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, libc::MAP_SHARED, file, 0) };
        if start == libc::MAP_FAILED {
            return Err(refused("cannot map the file"));
        }
        let advice = if spread == Spread::InTurn { libc::MADV_SEQUENTIAL } else { libc::MADV_RANDOM };
        // SAFETY: applies to our mapping. A failure is ignored because this is only a hint.
        unsafe { libc::madvise(start, bytes, advice) };
        GUARDED.set(SigbusContext { start: start as usize, bytes, missing: false });
        Ok(Self { start: start.cast(), bytes, file })
    }

    pub(super) fn transfer(&mut self) -> impl FnMut(&Request, *mut u8, usize) -> i64 {
        |request, buffer, length| {
            let offset = request.offset as usize;
            assert!(offset + length <= self.bytes, "offsets are within the file");
            // SAFETY: within the mapping, as asserted above.
            let place = unsafe { self.start.add(offset) };
            match request.kind {
                // SAFETY: `length` bytes of the mapping and of the buffer, which do not overlap; missing pages are
                // replaced. Other processes may change the file concurrently; the bytes are only copied, not
                // interpreted.
                RequestKind::Read => unsafe { ptr::copy_nonoverlapping(place, buffer, length) },
                // SAFETY: as above; the mapping is writable if there are writes.
                RequestKind::Write => unsafe { ptr::copy_nonoverlapping(buffer, place, length) },
                // SAFETY: takes only a number.
                RequestKind::Sync => return super::last_result(unsafe { libc::fsync(self.file) as libc::ssize_t }),
            }
            if GUARDED.get().missing { -i64::from(libc::EIO) } else { length as i64 }
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        GUARDED.set(SigbusContext { start: 0, bytes: 0, missing: false });
        // SAFETY: unmaps our mapping, to which no pointer remains.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// Installs the SIGBUS handler for the rest of the process. Signals for other addresses go to the previous handler.
fn install_handler() -> Option<libc::sigaction> {
    // SAFETY: all zeros is a valid sigaction: no flags, an empty mask.
    let (mut new, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = handle;
    new.sa_sigaction = handler as libc::sighandler_t;
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both structs are local; the handler is async-signal-safe.
    let taken = unsafe { libc::sigaction(libc::SIGBUS, &raw const new, &raw mut before) };
    (taken == 0).then_some(before)
}

/// Replaces a missing page of this thread's mapping. Calls only mmap and sigaction, and allocates nothing.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo, and SIGBUS has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let guarded = GUARDED.get();
    if address.wrapping_sub(guarded.start) < guarded.bytes {
        // SAFETY: takes only a number and always succeeds.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let start = (address & !(page - 1)) as *mut libc::c_void;
        // SAFETY: replaces one page within our mapping, for which the kernel has no data.
        if unsafe { libc::mmap(start, page, rights, how, -1, 0) } != libc::MAP_FAILED {
            return GUARDED.set(SigbusContext { missing: true, ..guarded });
        }
    }
    if let Some(Some(before)) = BEFORE.get() {
        // SAFETY: restores the previous action; the fault is then raised again and handled there.
        unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
    }
}
