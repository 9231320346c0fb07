//! Synchronous requests by `preadv2` and `pwritev2` (Linux 4.6), which can poll the device (`iopoll`).
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;

use super::last_result;
use super::worker::{Request, RequestKind};

pub(super) fn transfer(file: &File, polled: bool) -> impl FnMut(&Request, *mut u8, usize) -> i64 {
    let file = file.as_raw_fd();
    let flags = if polled { libc::RWF_HIPRI } else { 0 };
    move |request, buffer, length| {
        let (piece, offset) = (libc::iovec { iov_base: buffer.cast(), iov_len: length }, request.offset as libc::off_t);
        last_result(match request.kind {
            // SAFETY: the buffer has `length` bytes and no other request uses it; the vector outlives the call.
            RequestKind::Read => unsafe { libc::preadv2(file, &raw const piece, 1, offset, flags) },
            // SAFETY: as above.
            RequestKind::Write => unsafe { libc::pwritev2(file, &raw const piece, 1, offset, flags) },
            // SAFETY: takes only a number.
            RequestKind::Sync => unsafe { libc::fsync(file) as libc::ssize_t },
        })
    }
}
