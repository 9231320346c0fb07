//! One request after the other: the loop of the engines psync, preadv2 and mmap.

use super::worker::{Next, Request, WorkerState};
use super::{clock, pace};
use crate::job::Failure;

/// Does the work with `transfer`, which gives what the kernel gives: bytes, or an error below zero.
pub(super) fn run(
    work: &mut WorkerState<'_>,
    mut transfer: impl FnMut(&Request, *mut u8, usize) -> i64,
) -> Result<(), Failure> {
    let block = work.task.options.block;
    let mut now = work.begin();
    loop {
        let request = match work.next(now, 0) {
            Next::Request(request) => request,
            Next::At(at) => {
                pace::wait_until(at);
                now = clock::now_ns();
                continue;
            }
            Next::Nothing => {
                work.finish(now);
                return Ok(());
            }
        };
        let result = transfer(&request, work.buffers.address(request.buffer), block);
        let done = clock::now_ns();
        work.done(&request, result, done)?;
        // Checking is no part of the next request; without it there is nothing between the two.
        now = if work.task.checks() { clock::now_ns() } else { done };
    }
}
