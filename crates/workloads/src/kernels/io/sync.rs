//! The loop of the synchronous engines psync, preadv2 and mmap.

use super::worker::{Next, Request, WorkerState};
use super::{clock, pace};
use crate::job::Failure;

/// Runs the requests with `transfer`, which returns bytes or a negative error.
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
        work.complete(&request, result, done)?;
        // The time of checking does not count for the next request. Without checks, no time passes between requests.
        now = if work.task.checks() { clock::now_ns() } else { done };
    }
}
