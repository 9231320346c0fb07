//! Loaded latency: how long one load from memory takes while other cores keep the memory busy.
//!
//! Measures: the first thread chases a random cycle, as `chase` does; every other thread reads a buffer of its own in
//! runs of 4 KiB and waits between them, so that the load is as heavy as asked. Nanoseconds per load of the first thread,
//! and the bytes per second that the others read in the same time. With one thread there is no load.
//! Does NOT measure writes under load, or the most that the memory can give: the readers wait for nothing but their own
//! reads, so the bandwidth shown is what they reached, not what was asked.
//! Definition: as Intel's Memory Latency Checker's loaded latencies: dependent loads beside readers with a delay.

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

/// Samples of the chasing thread: enough for a median and its spread.
const ROUNDS: u32 = 100;

/// Loads before the timed region, of the chasing thread.
const WARM_STEPS: usize = 1 << 12;

/// What a reader takes between two waits, in words: 4 KiB, as short as a prefetcher's reach, so that a delay spreads
/// the load and does not make bursts.
const RUN_WORDS: usize = 4096 / 8;

/// Independent sums, so that additions do not wait for each other.
const LANES: usize = 8;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "loaded".into(),
        summary: "memory latency under load: one thread chases while the others read".into(),
        about: "Nanoseconds per load of the first thread's random chase, and the MB/s (10^6 bytes) that all other \
                threads read meanwhile, each waiting for `delay` after every 4 KiB. With one thread there is no load. \
                Does not measure writes. Source: the loaded latencies of Intel's Memory Latency Checker."
            .into(),
        parameters: parameters([
            Parameter {
                name: "size",
                about: "bytes that each thread works on; more than the caches hold",
                kind: ParameterKind::Size { min: Bytes(64 << 10), max: Bytes(1 << 43) },
                default: Some("4xllc"),
                smoke: Some("1MiB"),
            },
            Parameter {
                name: "delay",
                about: "how long each reading thread waits after every 4 KiB; 0 is as fast as it can",
                kind: ParameterKind::Time { min: Nanos(0), max: Nanos(1_000_000_000) },
                default: Some("0ns"),
                smoke: None,
            },
            Parameter {
                name: "time",
                about: "how long the timed loads take together",
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

/// What a thread brought back.
enum ThreadOutcome {
    /// Latencies of the rounds in ns.
    Chased(Vec<f64>),
    /// So many bytes in so long.
    Read(u64, TimedSpan),
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let over = AtomicBool::new(false);
    let crew = team::run(job, |member| {
        let mut arena = Arena::new(job, job.parameters.size("size"))?;
        let did = if member.index == 0 {
            chase(job, member, arena.as_u64(), &over)
        } else {
            read(job, member, arena.as_u64(), &over)
        };
        // Also when this thread failed: the readers must not wait for the chase.
        over.store(true, Ordering::Relaxed);
        Ok((did?, arena.found()?))
    })?;
    let mut measured = KernelOutput { thread_seats: crew.seats, ..KernelOutput::default() };
    let mut rate = 0.0;
    for (did, found) in crew.results {
        match did {
            ThreadOutcome::Chased(latencies) => {
                latencies.into_iter().try_for_each(|ns| measured.push("latency", ns))?
            }
            ThreadOutcome::Read(bytes, lap) => {
                rate += bytes as f64 / (lap.end - lap.start).as_secs_f64().max(1e-9) / 1e6
            }
        }
        measured.found(found);
    }
    if rate > 0.0 {
        measured.push("load", rate)?;
    }
    Ok(measured)
}

fn chase(
    job: &TrialContext,
    member: &Worker<'_>,
    memory: &mut [u64],
    over: &AtomicBool,
) -> Result<ThreadOutcome, Failure> {
    let mut cycle = Cycle::new(memory, 64)?;
    cycle.shuffle(cycle.lines, &mut Random::of_thread(job.seed, member.index));
    let mut latencies = Vec::with_capacity(ROUNDS as usize);
    member.timed(|| {
        // Under load, so that the rounds have the length that was asked for.
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
    member: &Worker<'_>,
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
    member.timed(|| {
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
            member.check_abort()?;
        }
        lap = Some(TimedSpan { start, end: Instant::now() });
        Ok(())
    })?;
    check(memory.len(), runs, found)?;
    let lap = lap.expect("the timed region has set it");
    Ok(ThreadOutcome::Read(runs * (RUN_WORDS * size_of::<u64>()) as u64, lap))
}

/// Adds up a run. Never inlined, and its result is used, so that nothing of the reading is left out.
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

/// The sum that so many runs over a buffer of 0, 1, 2 and so on have, by arithmetic.
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
    Err(Failure::Failed(format!("the readers' sum is {found}, it should be {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, pages_can_be_asked, set};

    #[test]
    fn smoke_runs_under_load() {
        let job = TrialContext { threads: 2, ..job_for_tests("loaded") };
        let measured = run(&job).unwrap();
        check_smoke("loaded", &measured);
        assert_eq!(measured.samples.len(), ROUNDS as usize + 1);
        assert_eq!(measured.pages.values().sum::<u64>() > 0, pages_can_be_asked());
    }

    #[test]
    fn one_thread_has_no_load() {
        let measured = run(&job_for_tests("loaded")).unwrap();
        assert!(measured.samples.iter().all(|sample| sample.series == "latency"), "{:?}", measured.samples.last());
    }

    #[test]
    fn a_delay_lightens_the_load() {
        let load = |delay: &str| {
            let mut job = TrialContext { threads: 2, ..job_for_tests("loaded") };
            set(&mut job, "delay", delay);
            run(&job).unwrap().samples.last().unwrap().value
        };
        // 4 KiB in at least 1 ms is 4.1 MB/s at most; at full speed it is hundreds even on a busy machine.
        let (light, heavy) = (load("1ms"), load("0ns"));
        assert!(light < 4.2 && heavy > 10.0 * light, "{light} {heavy}");
    }

    #[test]
    fn sums_are_those_of_arithmetic() {
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
