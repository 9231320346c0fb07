//! Many requests at once: the loop of the engines `io_uring` and libaio. Each round hands over what the last one answered,
//! and waits for one answer where none is there.

use super::worker::{Next, Request, WorkerState};
use super::{clock, pace};
use crate::job::Failure;

/// A queue of the kernel.
pub(super) trait Queue {
    /// Puts a request into the batch. `slot` comes back with its answer.
    fn put(&mut self, slot: usize, request: &Request, buffer: *mut u8);

    /// Hands the batch over and waits. Gives the time at which it was handed over.
    fn hand_over(&mut self, wait: Wait) -> u64;

    /// Takes answers that are there, few enough that the device does not stand idle until they are replaced: their slots, and bytes or an error below zero.
    fn answers(&mut self, take: impl FnMut(usize, i64));
}

/// How long a batch is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Until an answer is there.
    Answer,
    /// As well, but so many nanoseconds at most.
    AtMost(u64),
}

/// Does the work, then waits for what is under way: the kernel has its buffers until then.
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
        let handed = queue.hand_over(wake.map_or(Wait::Answer, |at| Wait::AtMost(pace::sleep_for(now, at))));
        for slot in batch.drain(..) {
            slots[slot].handed = handed;
        }
        queue.answers(|slot, result| {
            now = clock::now_ns();
            let done = work.done(&slots[slot], result, now);
            if outcome.is_ok() {
                outcome = done;
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
