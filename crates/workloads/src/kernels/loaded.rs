//! Loaded latency: the latency of one load from memory while other cores keep the memory busy.
//!
//! Measures: nanoseconds per load of the first thread, which chases a random cycle as in `chase`, and bytes per second
//! of all other threads during that time. Each of those reads a separate buffer in runs of 4 KiB and waits for `delay`
//! after each run, which sets the load. With one thread there is no load.
//! Does NOT measure writes under load or peak bandwidth: the readers wait for their own reads, so the reported
//! bandwidth is the achieved one, not the requested one.
//! Definition: as the loaded latencies of Intel's Memory Latency Checker: dependent loads concurrent with delayed
//! readers.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::values::units::{Bytes, Nanos};
use model::values::workload::{Better, ParameterKind, WorkloadSpec};

use super::arena::{self, Arena};
use super::chase::{Cycle, UNROLLED, steps_per_round};
use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::random::Random;
use crate::team::{self, TimedSpan, Worker};

/// Samples of the chasing thread, enough for a median and its dispersion.
const ROUNDS: u32 = 100;

/// Steps of the chasing thread before the timed region.
const WARM_STEPS: usize = 1 << 12;

/// Words that a reader reads between two waits: 4 KiB, no more than a prefetcher covers, so that a delay spreads the
/// load evenly instead of producing bursts.
const RUN_WORDS: usize = 4096 / 8;

/// Independent sums, so that additions do not wait for each other.
const LANES: usize = 8;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "loaded".into(),
        summary: "memory latency under load: one thread chases while the others read".into(),
        about: "Nanoseconds per load of the first thread's random chase, and the MB/s (10^6 bytes) that all other \
                threads read during that time. Each of them waits for `delay` after every 4 KiB. With one thread there \
                is no load. Does not measure writes. Source: the loaded latencies of Intel's Memory Latency Checker."
            .into(),
        parameters: parameters([
            Parameter {
                name: "size",
                about: "bytes per thread; choose a size above that of the caches",
                kind: ParameterKind::Size { min: Bytes(64 << 10), max: Bytes(1 << 43) },
                default: Some("4xllc"),
                smoke: Some("1MiB"),
            },
            Parameter {
                name: "delay",
                about: "wait of each reading thread after every 4 KiB; 0 reads at full speed",
                kind: ParameterKind::Time { min: Nanos(0), max: Nanos(1_000_000_000) },
                default: Some("0ns"),
                smoke: None,
            },
            Parameter {
                name: "time",
                about: "total duration of the timed loads",
                kind: ParameterKind::Time { min: Nanos(1_000_000), max: Nanos(3_600_000_000_000) },
                default: Some("500ms"),
                smoke: Some("50ms"),
            },
            arena::huge_pages_parameter(),
        ]),
        metrics: metrics([
            Metric::median("latency", "ns", Better::Lower),
            Metric::median("load", "MB/s", Better::Higher),
        ]),
        threads_exactly: None,
        trial_time_guess: Nanos(2_000_000_000),
    }
}

/// Result of one thread.
enum ThreadOutcome {
    /// Latencies of the rounds, in ns.
    Chased(Vec<f64>),
    /// Bytes read, and the timed span.
    Read(u64, TimedSpan),
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let over = AtomicBool::new(false);
    let team = team::run(job, |worker| {
        let mut arena = Arena::new(job, job.parameters.size("size"))?;
        let outcome = if worker.index == 0 {
            chase(job, worker, arena.as_u64(), &over)
        } else {
            read(job, worker, arena.as_u64(), &over)
        };
        // Also if this thread failed, so that the readers do not keep running.
        over.store(true, Ordering::Relaxed);
        Ok((outcome?, arena.report()?))
    })?;
    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    let mut rate = 0.0;
    for (outcome, found) in team.results {
        match outcome {
            ThreadOutcome::Chased(latencies) => latencies.into_iter().try_for_each(|ns| output.push("latency", ns))?,
            ThreadOutcome::Read(bytes, lap) => {
                rate += bytes as f64 / (lap.end - lap.start).as_secs_f64().max(1e-9) / 1e6;
            }
        }
        output.found(found);
    }
    if rate > 0.0 {
        output.push("load", rate)?;
    }
    Ok(output)
}

fn chase(
    job: &TrialContext,
    worker: &Worker<'_>,
    memory: &mut [u64],
    over: &AtomicBool,
) -> Result<ThreadOutcome, Failure> {
    let mut cycle = Cycle::new(memory, 64)?;
    cycle.shuffle(cycle.lines, &mut Random::of_thread(job.seed, worker.index));
    let mut latencies = Vec::with_capacity(ROUNDS as usize);
    worker.timed(|| {
        // Measured under load, so that the rounds have the requested length.
        let began = Instant::now();
        let (mut position, _) = cycle.walk(0, WARM_STEPS);
        let round = steps_per_round(WARM_STEPS, began.elapsed(), job.time("time") / ROUNDS);
        for _ in 0..ROUNDS {
            let (after, took) = cycle.walk(position, round);
            position = after;
            latencies.push(took.as_nanos() as f64 / (round * UNROLLED) as f64);
        }
        over.store(true, Ordering::Relaxed);
        Ok(())
    })?;
    super::chase::check(&cycle)?;
    Ok(ThreadOutcome::Chased(latencies))
}

fn read(
    job: &TrialContext,
    worker: &Worker<'_>,
    memory: &mut [u64],
    over: &AtomicBool,
) -> Result<ThreadOutcome, Failure> {
    let delay = job.time("delay");
    for (index, word) in memory.iter_mut().enumerate() {
        *word = index as u64;
    }
    let memory = &*memory;
    let mut runs = 0u64;
    let mut found = 0u64;
    let mut lap = None;
    worker.timed(|| {
        let start = Instant::now();
        'reading: loop {
            for words in memory.chunks_exact(RUN_WORDS) {
                found = found.wrapping_add(sum(words));
                runs += 1;
                wait(delay);
                if over.load(Ordering::Relaxed) {
                    break 'reading;
                }
            }
            worker.check_abort()?;
        }
        lap = Some(TimedSpan { start, end: Instant::now() });
        Ok(())
    })?;
    check(memory.len(), runs, found)?;
    let lap = lap.expect("the timed region sets the span");
    Ok(ThreadOutcome::Read(runs * (RUN_WORDS * size_of::<u64>()) as u64, lap))
}

/// Sums one run of words. Not inlined, and the result is used, so that the compiler cannot remove the reads.
#[inline(never)]
fn sum(words: &[u64]) -> u64 {
    let mut lanes = [0u64; LANES];
    for group in black_box(words).chunks_exact(LANES) {
        for (lane, word) in lanes.iter_mut().zip(group) {
            *lane = lane.wrapping_add(*word);
        }
    }
    lanes.iter().fold(0, |all, lane| all.wrapping_add(*lane))
}

fn wait(delay: Duration) {
    if delay.is_zero() {
        return;
    }
    let began = Instant::now();
    while began.elapsed() < delay {
        spin_loop();
    }
}

/// Compares with the arithmetic sum of this many runs over a buffer of 0, 1, 2 and so on.
fn check(words: usize, runs: u64, found: u64) -> Result<(), Failure> {
    let per_pass = (words / RUN_WORDS) as u64;
    let first = |runs: u64| {
        let words = u128::from(runs) * RUN_WORDS as u128;
        (words * words.saturating_sub(1) / 2) as u64
    };
    let expected = first(per_pass).wrapping_mul(runs / per_pass.max(1)).wrapping_add(first(runs % per_pass.max(1)));
    if found == expected {
        return Ok(());
    }
    Err(Failure::Failed(format!("wrong sum of the readers: {found}, expected {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{can_query_pages, check_smoke, job_for_tests, set};

    #[test]
    fn smoke_runs_under_load() {
        let job = TrialContext { threads: 2, ..job_for_tests("loaded") };
        let output = run(&job).unwrap();
        check_smoke("loaded", &output);
        assert_eq!(output.samples.len(), ROUNDS as usize + 1);
        assert_eq!(output.pages.values().sum::<u64>() > 0, can_query_pages());
    }

    #[test]
    fn one_thread_has_no_load() {
        let output = run(&job_for_tests("loaded")).unwrap();
        assert!(output.samples.iter().all(|sample| sample.series == "latency"), "{:?}", output.samples.last());
    }

    #[test]
    fn delay_reduces_the_load() {
        let load = |delay: &str| {
            let mut job = TrialContext { threads: 2, ..job_for_tests("loaded") };
            set(&mut job, "delay", delay);
            run(&job).unwrap().samples.last().unwrap().value
        };
        // 4 KiB per 1 ms is at most 4.1 MB/s; at full speed it is hundreds even on a busy machine.
        let (light, heavy) = (load("1ms"), load("0ns"));
        assert!(light < 4.2 && heavy > 10.0 * light, "{light} {heavy}");
    }

    #[test]
    fn sums_match_the_arithmetic_sum() {
        let memory: Vec<u64> = (0..3 * RUN_WORDS as u64).collect();
        let total = |runs: usize| {
            (0..runs).fold(0u64, |all, run| all.wrapping_add(sum(&memory[run % 3 * RUN_WORDS..][..RUN_WORDS])))
        };
        for runs in [0, 1, 2, 3, 4, 7, 300] {
            assert_eq!(check(memory.len(), runs as u64, total(runs)), Ok(()), "{runs}");
            assert!(check(memory.len(), runs as u64, total(runs) + 1).is_err());
        }
    }
}
