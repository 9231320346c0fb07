//! Page cache hints for a file (`posix_fadvise`), as fio sets them. The kernel may ignore them; this is not checked.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;

use super::options::Spread;

/// Drops clean pages from the page cache.
pub(super) fn drop_pages(file: &File) {
    advise(file, libc::POSIX_FADV_DONTNEED);
}

/// Announces sequential or random access, which controls readahead.
pub(super) fn order(file: &File, spread: Spread) {
    let advice = if spread == Spread::InTurn { libc::POSIX_FADV_SEQUENTIAL } else { libc::POSIX_FADV_RANDOM };
    advise(file, advice);
}

fn advise(file: &File, advice: libc::c_int) {
    // SAFETY: takes only numbers. A file that does not support the advice is measured without it.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) };
}
