//! One read after the other: `pread`.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::time::Instant;

use super::{Arena, Failure, Latencies, Offsets, Task, short};

/// Reads for the time of the task.
pub(super) fn read(
    task: &Task,
    offsets: &mut Offsets,
    arena: &mut Arena,
    latencies: &mut Latencies,
) -> Result<(), Failure> {
    let words = &mut arena.as_u64()[..task.block / 8];
    let began = Instant::now();
    let mut from = began;
    loop {
        let offset = offsets.next();
        // SAFETY: the buffer is ours alone and has `block` bytes; the kernel has written them when the call is back.
        let got = unsafe {
            libc::pread(task.target.file.as_raw_fd(), words.as_mut_ptr().cast(), task.block, offset as libc::off_t)
        };
        let to = Instant::now();
        let got = usize::try_from(got)
            .map_err(|_| Failure::Failed(format!("a read at {offset}: {}", std::io::Error::last_os_error())))?;
        if got != task.block {
            return Err(short(offset, task.block, got));
        }
        task.target.check(offset, words)?;
        latencies.record((to - from).as_nanos() as u64);
        if to - began >= task.runtime {
            return Ok(());
        }
        from = Instant::now();
    }
}
