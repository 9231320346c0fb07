//! What the page cache is told about a file, as fio tells it. Advice: what the kernel makes of it is not asked.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;

use super::options::Spread;

/// Takes what is not dirty out of the page cache.
pub(super) fn drop_pages(file: &File) {
    advise(file, libc::POSIX_FADV_DONTNEED);
}

/// Whether reading ahead is worth while.
pub(super) fn order(file: &File, spread: Spread) {
    let advice = if spread == Spread::InTurn { libc::POSIX_FADV_SEQUENTIAL } else { libc::POSIX_FADV_RANDOM };
    advise(file, advice);
}

fn advise(file: &File, advice: libc::c_int) {
    // SAFETY: takes numbers alone. A file that takes no advice is measured without.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) };
}
