//! The loop of the asynchronous engines `io_uring` and libaio. Each round submits new requests for the slots that
//! completed, and waits for a completion if none is available.

use super::worker::{Next, Request, WorkerState};
use super::{clock, pace};
use crate::job::Failure;

/// An asynchronous queue of the kernel.
pub(super) trait Queue {
    /// Adds a request to the batch. Its completion has the same `slot`.
    fn put(&mut self, slot: usize, request: &Request, buffer: *mut u8);

    /// Submits the batch and waits for completions. Returns the time of submission.
    fn submit_and_wait(&mut self, wait: Wait) -> u64;

    /// Processes available completions: slots, and bytes or a negative error. Processes few per call, so that the
    /// device does not become idle before they are replaced.
    fn reap(&mut self, take: impl FnMut(usize, i64));
}

/// The condition that ends the wait after submitting a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Until a completion is available.
    Answer,
    /// Until a completion is available, but at most this many nanoseconds.
    AtMost(u64),
}

/// Runs the requests, then waits for those in flight, because the kernel uses their buffers until then.
pub(super) fn run(work: &mut WorkerState<'_>, queue: &mut impl Queue) -> Result<(), Failure> {
    let depth = work.task.options.depth;
    let mut slots = vec![Request::IDLE; depth];
    let mut free: Vec<usize> = (0..depth).rev().collect();
    let mut batch = Vec::with_capacity(depth);
    let mut outcome = Ok(());
    let mut now = work.begin();
    loop {
        let mut wake = None;
        while let Some(slot) = free.last().copied().filter(|_| outcome.is_ok()) {
            match work.next(now, slot) {
                Next::Request(request) => {
                    free.pop();
                    slots[slot] = request;
                    queue.put(slot, &request, work.buffers.address(request.buffer));
                    batch.push(slot);
                }
                Next::At(at) => {
                    wake = Some(at);
                    break;
                }
                Next::Nothing => break,
            }
        }
        if free.len() == depth {
            let Some(at) = wake else { break };
            pace::wait_until(at);
            now = clock::now_ns();
            continue;
        }
        let submitted = queue.submit_and_wait(wake.map_or(Wait::Answer, |at| Wait::AtMost(pace::sleep_for(now, at))));
        for slot in batch.drain(..) {
            slots[slot].submitted = submitted;
        }
        queue.reap(|slot, result| {
            now = clock::now_ns();
            let checked = work.complete(&slots[slot], result, now);
            if outcome.is_ok() {
                outcome = checked;
            }
            free.push(slot);
        });
        if wake.is_some() {
            now = clock::now_ns();
        }
    }
    outcome?;
    work.finish(now);
    Ok(())
}
