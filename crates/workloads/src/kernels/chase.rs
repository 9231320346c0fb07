//! Random pointer chase: the latency of a load whose address is the result of the previous load.
//!
//! Measures: nanoseconds per load along one random cycle through all lines of a buffer. Each thread has a separate
//! buffer. Every load depends on the previous one, so loads never overlap.
//! Does NOT measure bandwidth or overlapping misses. With 4 KiB pages, most loads from a buffer larger than the TLB
//! reach include a page walk. Huge pages (the default) avoid that, and the difference between both settings is the cost
//! of TLB misses. `tlb-locality` avoids it as multichase does: the order is random within a group of that many bytes.
//! Definition: google/multichase's "simple" chase (-c simple -s STRIDE -m SIZE -T LOCALITY). Sattolo's shuffle (1986)
//! builds the cycle; it makes every single cycle through all lines equally likely.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use model::values::units::{Bytes, Nanos};
use model::values::workload::{Better, ParameterKind, WorkloadSpec};

use super::arena::{self, Arena};
use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, KernelOutput, MemoryReport, TrialContext};
use crate::random::Random;
use crate::team::{self, Worker};

/// Loads per loop iteration, without a branch between them. The loop overhead is then below 1 % of a load from L1.
pub(super) const UNROLLED: usize = 64;

/// Samples per thread, enough for a median and its dispersion.
const ROUNDS: u32 = 100;

/// Upper limit of the loads before the timed region: a whole cycle, unless that takes more than a few seconds.
const WARM_LOADS_MAX: usize = 1 << 24;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "chase".into(),
        summary: "memory latency: dependent loads along a random cycle through a buffer".into(),
        about: "Nanoseconds per load if the address of each load is the result of the previous load. Every thread \
                chases through a separate buffer. With 4 KiB pages (huge-pages=no) large buffers also pay for TLB \
                misses. Does not measure bandwidth. Source: google/multichase, simple chase; Sattolo's shuffle."
            .into(),
        parameters: parameters([
            Parameter {
                name: "size",
                about: "bytes that each thread chases through; a size below that of a cache measures the cache",
                kind: ParameterKind::Size { min: Bytes(4096), max: Bytes(1 << 43) },
                default: Some("512MiB"),
                smoke: Some("256KiB"),
            },
            Parameter {
                name: "stride",
                about: "distance in bytes between consecutive pointers in memory; one cache line",
                kind: ParameterKind::Size { min: Bytes(8), max: Bytes(1 << 21) },
                default: Some("64"),
                smoke: None,
            },
            Parameter {
                name: "tlb-locality",
                about: "visit all lines of this many bytes before moving on; 0 means random over the whole buffer",
                kind: ParameterKind::Size { min: Bytes(0), max: Bytes(1 << 43) },
                default: Some("0"),
                smoke: None,
            },
            Parameter {
                name: "time",
                about: "total duration of the timed loads",
                kind: ParameterKind::Time { min: Nanos(1_000_000), max: Nanos(3_600_000_000_000) },
                default: Some("1s"),
                smoke: Some("50ms"),
            },
            arena::huge_pages_parameter(),
        ]),
        metrics: metrics([Metric::median("latency", "ns", Better::Lower)]),
        threads_exactly: None,
        trial_time_guess: Nanos(5_000_000_000),
    }
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let team = team::run(job, |worker| one_thread(job, worker))?;
    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    for (latencies, found) in team.results {
        for latency in latencies {
            output.push("latency", latency)?;
        }
        output.found(found);
    }
    Ok(output)
}

/// Latency samples in ns and the memory report of one thread.
type ChaseResult = (Vec<f64>, MemoryReport);

fn one_thread(job: &TrialContext, worker: &Worker<'_>) -> Result<ChaseResult, Failure> {
    let stride = job.parameters.size("stride");
    let bytes = job.parameters.size("size");
    // Allocated by the thread that uses it, so that a first-touch policy puts it on the thread's node.
    let mut arena = Arena::new(job, bytes)?;
    let mut cycle = Cycle::new(arena.as_u64(), stride)?;
    let locality = match job.parameters.size("tlb-locality") {
        0 => cycle.lines,
        bytes => (bytes / stride).max(1),
    };
    cycle.shuffle(locality, &mut Random::of_thread(job.seed, worker.index));

    let warm_steps = cycle.lines.clamp(UNROLLED, WARM_LOADS_MAX) / UNROLLED;
    let began = Instant::now();
    let (mut position, _) = cycle.walk(0, warm_steps);
    let round = steps_per_round(warm_steps, began.elapsed(), job.time("time") / ROUNDS);

    let mut latencies = Vec::with_capacity(ROUNDS as usize);
    worker.timed(|| {
        for _ in 0..ROUNDS {
            let (after, took) = cycle.walk(position, round);
            position = after;
            latencies.push(took.as_nanos() as f64 / (round * UNROLLED) as f64);
        }
        Ok(())
    })?;
    check(&cycle)?;
    Ok((latencies, arena.report()?))
}

/// Returns the number of unrolled steps that fill a round at the speed of the warm-up.
pub(super) fn steps_per_round(warm_steps: usize, warm_time: Duration, round: Duration) -> usize {
    let step = warm_time.as_secs_f64().max(1e-9) / warm_steps as f64;
    ((round.as_secs_f64() / step) as usize).max(1)
}

/// A buffer in which each line begins with the address of the next line.
pub(super) struct Cycle<'m> {
    memory: &'m mut [u64],
    /// Distance between lines, in words.
    stride: usize,
    pub(super) lines: usize,
}

/// The pointer at the start of each line.
type Link = *const u64;

impl<'m> Cycle<'m> {
    pub(super) fn new(memory: &'m mut [u64], stride_bytes: usize) -> Result<Self, Failure> {
        let word = size_of::<u64>();
        if !stride_bytes.is_multiple_of(word) {
            return Err(Failure::Failed(format!("a stride of {stride_bytes} bytes is not a multiple of {word}")));
        }
        let stride = stride_bytes / word;
        let lines = memory.len() / stride;
        if lines < 2 {
            return Err(Failure::Failed(format!(
                "a stride of {stride_bytes} bytes leaves fewer than two lines in the buffer"
            )));
        }
        Ok(Self { memory, stride, lines })
    }

    /// Builds one random cycle. Lines are grouped by `locality` neighbours; the cycle visits a whole group before the
    /// next one.
    pub(super) fn shuffle(&mut self, locality: usize, random: &mut Random) {
        for line in 0..self.lines {
            self.set_next(line, line);
        }
        let mut last_of_previous = None;
        for first in (0..self.lines).step_by(locality) {
            let count = locality.min(self.lines - first);
            for line in (1..count).rev() {
                self.swap_next(first + line, first + random.below(line));
            }
            // Swapping the successors of two lines of different cycles joins the cycles.
            let joint = first + random.below(count);
            if let Some(previous) = last_of_previous.replace(joint) {
                self.swap_next(previous, joint);
            }
        }
    }

    fn address(&self, line: usize) -> Link {
        &raw const self.memory[line * self.stride]
    }

    fn set_next(&mut self, line: usize, next: usize) {
        let next = self.address(next);
        // SAFETY: a link has the size and alignment of the word that it replaces, and the index is bounds-checked.
        unsafe { std::ptr::from_mut(&mut self.memory[line * self.stride]).cast::<Link>().write(next) };
    }

    fn next(&self, line: usize) -> usize {
        (self.memory[line * self.stride] as usize - self.address(0).addr()) / (self.stride * size_of::<u64>())
    }

    fn swap_next(&mut self, one: usize, other: usize) {
        self.memory.swap(one * self.stride, other * self.stride);
    }

    /// Follows `steps` × [`UNROLLED`] links from a line. Returns the last line and the elapsed time.
    pub(super) fn walk(&self, from: usize, steps: usize) -> (usize, Duration) {
        let began = Instant::now();
        // SAFETY: `shuffle` has made every line of this buffer hold a link to a line of this buffer, and `self` borrows
        // the buffer.
        let end = unsafe { follow(self.address(from), steps) };
        let took = began.elapsed();
        ((end.addr() - self.address(0).addr()) / (self.stride * size_of::<u64>()), took)
    }
}

/// # Safety
/// `link`, and every link reached from it, points to a word that holds such a link.
#[inline(never)]
unsafe fn follow(mut link: Link, steps: usize) -> Link {
    macro_rules! eight_times {
        ($($body:tt)*) => { $($body)* $($body)* $($body)* $($body)* $($body)* $($body)* $($body)* $($body)* };
    }
    for _ in 0..steps {
        // SAFETY: the caller guarantees that each link leads to another.
        unsafe {
            eight_times! { eight_times! { link = *link.cast::<Link>(); } }
        }
    }
    std::hint::black_box(link)
}

/// Walks the cycle by line numbers and verifies that it visits every line exactly once before it closes.
pub(super) fn check(cycle: &Cycle<'_>) -> Result<(), Failure> {
    let mut seen = vec![0u64; cycle.lines.div_ceil(64)];
    let mut line = 0;
    for step in 0..cycle.lines {
        let (word, bit) = (line / 64, 1 << (line % 64));
        if seen[word] & bit != 0 {
            return Err(Failure::Failed(format!("the cycle closed after {step} of {} lines", cycle.lines)));
        }
        seen[word] |= bit;
        line = cycle.next(line);
        if line >= cycle.lines {
            return Err(Failure::Failed(format!("step {step} of the cycle leads out of the buffer")));
        }
    }
    if line == 0 { Ok(()) } else { Err(Failure::Failed("the cycle does not return to its start".into())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{can_query_pages, check_smoke, job_for_tests, set};

    #[test]
    fn smoke_runs_on_two_threads() {
        let job = TrialContext { threads: 2, ..job_for_tests("chase") };
        let output = run(&job).unwrap();
        check_smoke("chase", &output);
        assert_eq!(output.samples.len(), 2 * ROUNDS as usize);
        assert_eq!(output.pages.values().sum::<u64>() > 0, can_query_pages());
    }

    #[test]
    fn shuffles_make_one_cycle_for_any_locality() {
        for (words, stride, locality) in [(16, 8, 2), (1000, 8, 1000), (1000, 8, 7), (1000, 8, 1), (1 << 14, 64, 100)] {
            let mut memory = vec![0u64; words];
            let mut cycle = Cycle::new(&mut memory, stride).unwrap();
            cycle.shuffle(locality, &mut Random::of_thread(3, 0));
            assert_eq!(check(&cycle), Ok(()), "{words} words, stride {stride}, locality {locality}");
        }
    }

    #[test]
    fn groups_are_completed_before_the_next_group() {
        let mut memory = vec![0u64; 4096];
        let mut cycle = Cycle::new(&mut memory, 64).unwrap();
        cycle.shuffle(64, &mut Random::of_thread(3, 0));
        let mut line = 0;
        let mut changes = 0;
        for _ in 0..cycle.lines {
            let next = cycle.next(line);
            changes += usize::from(next / 64 != line / 64);
            line = next;
        }
        assert_eq!(changes, 512 / 64);
    }

    #[test]
    fn walks_follow_the_links() {
        let mut memory = vec![0u64; 1024];
        let mut cycle = Cycle::new(&mut memory, 64).unwrap();
        cycle.shuffle(128, &mut Random::of_thread(9, 0));
        let slow = (0..3 * UNROLLED).fold(5, |line, _| cycle.next(line));
        assert_eq!(cycle.walk(5, 3).0, slow);
    }

    #[test]
    fn short_cycles_and_stray_links_return_errors() {
        let mut memory = vec![0u64; 1024];
        let mut cycle = Cycle::new(&mut memory, 64).unwrap();
        cycle.shuffle(128, &mut Random::of_thread(3, 0));
        cycle.swap_next(17, 80);
        assert!(check(&cycle).unwrap_err().to_string().contains("closed after"));
        cycle.swap_next(17, 80);
        assert_eq!(check(&cycle), Ok(()));
        cycle.memory[0] = cycle.address(127).addr() as u64 + 64;
        assert!(check(&cycle).unwrap_err().to_string().contains("out of the buffer"));
    }

    #[test]
    fn invalid_strides_return_errors() {
        let mut job = job_for_tests("chase");
        set(&mut job, "stride", "12");
        assert!(run(&job).unwrap_err().to_string().contains("multiple of 8"));
        set(&mut job, "stride", "2MiB");
        assert!(run(&job).unwrap_err().to_string().contains("fewer than two lines"));
    }
}
