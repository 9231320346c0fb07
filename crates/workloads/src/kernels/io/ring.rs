//! Many reads at once: `io_uring`, one ring per thread, each answer replaced by the next read.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::time::Instant;

use io_uring::{IoUring, opcode, types};

use super::{Arena, Failure, Latencies, Offsets, Task, short};

/// Signals and a kernel short of memory pass.
const TRIES_MAX: u32 = 1000;

/// A place in the ring: where it reads and since when.
#[derive(Clone, Copy)]
struct Slot {
    offset: u64,
    since: Instant,
}

/// Reads for the time of the task, then waits for what is under way.
pub(super) fn read(
    task: &Task,
    offsets: &mut Offsets,
    arena: &mut Arena,
    latencies: &mut Latencies,
) -> Result<(), Failure> {
    let mut ring = IoUring::new(task.depth as u32)
        .map_err(|error| Failure::Unavailable(format!("this kernel gives no io_uring: {error}; hint: engine=psync")))?;
    let words = arena.as_u64();
    let began = Instant::now();
    let mut slots = vec![Slot { offset: 0, since: began }; task.depth];
    let mut outcome = Ok(());
    for (index, slot) in slots.iter_mut().enumerate() {
        *slot = Slot { offset: offsets.next(), since: Instant::now() };
        push(&mut ring, task, words, slot.offset, index);
    }
    let mut under_way = task.depth;
    while under_way > 0 {
        wait(&mut ring);
        loop {
            let came = ring.completion().next();
            let Some((index, result)) = came.map(|entry| (entry.user_data() as usize, entry.result())) else { break };
            let now = Instant::now();
            under_way -= 1;
            let slot = slots[index];
            let buffer = &words[index * task.block / 8..(index + 1) * task.block / 8];
            let checked = complete(task, slot.offset, result).and_then(|()| task.target.check(slot.offset, buffer));
            latencies.record((now - slot.since).as_nanos() as u64);
            outcome = outcome.and(checked);
            if outcome.is_ok() && now - began < task.runtime {
                slots[index] = Slot { offset: offsets.next(), since: Instant::now() };
                push(&mut ring, task, words, slots[index].offset, index);
                under_way += 1;
            }
        }
    }
    outcome
}

/// Hands over what is new and waits for an answer. Without one, the buffers would stay the kernel's: nothing can be done
/// then but to end this process, which measures and does nothing else.
fn wait(ring: &mut IoUring) {
    for _ in 0..TRIES_MAX {
        match ring.submit_and_wait(1) {
            Ok(_) => return,
            Err(error) if [io::ErrorKind::Interrupted, io::ErrorKind::ResourceBusy].contains(&error.kind()) => {}
            Err(error) => eprintln!("io_uring: {error}"),
        }
    }
    std::process::abort();
}

fn push(ring: &mut IoUring, task: &Task, words: &mut [u64], offset: u64, index: usize) {
    let buffer = words[index * task.block / 8..].as_mut_ptr().cast();
    let read = opcode::Read::new(types::Fd(task.target.file.as_raw_fd()), buffer, task.block as u32);
    let entry = read.offset(offset).build().user_data(index as u64);
    // SAFETY: the buffer of this place belongs to no other read, and outlives it: `read` waits for all. The ring has a
    // place for each of `depth` reads, so that it is never full.
    unsafe { ring.submission().push(&entry) }.expect("the ring has a place for each read");
}

fn complete(task: &Task, offset: u64, result: i32) -> Result<(), Failure> {
    match usize::try_from(result) {
        Ok(got) if got == task.block => Ok(()),
        Ok(got) => Err(short(offset, task.block, got)),
        Err(_) => Err(Failure::Failed(format!("a read at {offset}: {}", io::Error::from_raw_os_error(-result)))),
    }
}
