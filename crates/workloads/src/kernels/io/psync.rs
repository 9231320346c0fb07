//! Synchronous requests by `pread` and `pwrite`.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;

use super::last_result;
use super::worker::{Request, RequestKind};

pub(super) fn transfer(file: &File) -> impl FnMut(&Request, *mut u8, usize) -> i64 {
    let file = file.as_raw_fd();
    move |request, buffer, length| {
        let offset = request.offset as libc::off_t;
        last_result(match request.kind {
            // SAFETY: the buffer has `length` bytes and no other request uses it; the descriptor is open while the file
            // is borrowed.
            RequestKind::Read => unsafe { libc::pread(file, buffer.cast(), length, offset) },
            // SAFETY: as above.
            RequestKind::Write => unsafe { libc::pwrite(file, buffer.cast(), length, offset) },
            // SAFETY: takes only a number.
            RequestKind::Sync => unsafe { libc::fsync(file) as libc::ssize_t },
        })
    }
}
