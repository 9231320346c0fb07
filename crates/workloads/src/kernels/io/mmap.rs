//! One request after the other: copies from and to the file mapped into memory. Where the kernel has no data for a page
//! (the file was cut, the device gave an error, the disk is full) it sends SIGBUS; the page is then replaced by one of
//! zeros, and the request fails with EIO instead of the process ending.
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

/// The file's mapping of one thread.
pub(super) struct Mapping {
    start: *mut u8,
    bytes: usize,
    file: libc::c_int,
}

/// What the handler of SIGBUS needs to know of the thread that it came to.
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

/// Who had SIGBUS before; None when it could not be taken over.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

impl Mapping {
    /// Maps the first `bytes` of a file.
    pub(super) fn new(file: &File, bytes: u64, writes: bool, spread: Spread) -> Result<Self, Failure> {
        let refused = |what: &str| Failure::Failed(format!("{what}: {}", io::Error::last_os_error()));
        if BEFORE.get_or_init(take_over).is_none() {
            return Err(refused("SIGBUS cannot be caught"));
        }
        let (bytes, file) = (bytes as usize, file.as_raw_fd());
        let rights = libc::PROT_READ | if writes { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, libc::MAP_SHARED, file, 0) };
        if start == libc::MAP_FAILED {
            return Err(refused("the file cannot be mapped"));
        }
        let advice = if spread == Spread::InTurn { libc::MADV_SEQUENTIAL } else { libc::MADV_RANDOM };
        // SAFETY: of our own mapping. Advice: without it the file is mapped as well.
        unsafe { libc::madvise(start, bytes, advice) };
        GUARDED.set(SigbusContext { start: start as usize, bytes, missing: false });
        Ok(Self { start: start.cast(), bytes, file })
    }

    pub(super) fn transfer(&mut self) -> impl FnMut(&Request, *mut u8, usize) -> i64 {
        |request, buffer, length| {
            let offset = request.offset as usize;
            assert!(offset + length <= self.bytes, "places lie within the file");
            // SAFETY: within the mapping, as was just seen.
            let place = unsafe { self.start.add(offset) };
            match request.kind {
                // SAFETY: `length` bytes of the mapping and of the buffer, which do not overlap; pages that are missing are
                // replaced. Others may change the file meanwhile: bytes are copied, and none is taken for anything.
                RequestKind::Read => unsafe { ptr::copy_nonoverlapping(place, buffer, length) },
                // SAFETY: as above; the mapping is writable when there are writes.
                RequestKind::Write => unsafe { ptr::copy_nonoverlapping(buffer, place, length) },
                // SAFETY: takes a number alone.
                RequestKind::Sync => return super::last_result(unsafe { libc::fsync(self.file) as libc::ssize_t }),
            }
            if GUARDED.get().missing { -i64::from(libc::EIO) } else { length as i64 }
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        GUARDED.set(SigbusContext { start: 0, bytes: 0, missing: false });
        // SAFETY: our own mapping, to which nothing points any more.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// Has SIGBUS handled here for the rest of the process; who had it before gets what is not ours.
fn take_over() -> Option<libc::sigaction> {
    // SAFETY: all zeros is a valid sigaction: no flags, an empty mask.
    let (mut new, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = handle;
    new.sa_sigaction = handler as libc::sighandler_t;
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both structs are ours; the handler does what may be done in one.
    let taken = unsafe { libc::sigaction(libc::SIGBUS, &raw const new, &raw mut before) };
    (taken == 0).then_some(before)
}

/// Replaces a missing page of this thread's mapping. Calls nothing but mmap and sigaction, and allocates nothing.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo, and SIGBUS has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let guarded = GUARDED.get();
    if address.wrapping_sub(guarded.start) < guarded.bytes {
        // SAFETY: takes a number alone; always answers.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let start = (address & !(page - 1)) as *mut libc::c_void;
        // SAFETY: one page within our own mapping, in which the kernel has no data for us.
        if unsafe { libc::mmap(start, page, rights, how, -1, 0) } != libc::MAP_FAILED {
            return GUARDED.set(SigbusContext { missing: true, ..guarded });
        }
    }
    if let Some(Some(before)) = BEFORE.get() {
        // SAFETY: what was there before is put back; the fault then comes again, and goes there.
        unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
    }
}
