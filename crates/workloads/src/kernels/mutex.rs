//! sysbench's "mutex" test: many short lock operations on randomly chosen locks, with work in between.
//!
//! Measures: events per second and the time per event. Every thread runs one event, which repeats these steps `locks`
//! times: choose one of `mutexes` at random, run `loops` empty iterations, lock the mutex, add one to a shared counter,
//! unlock.
//! Does NOT measure contention for one lock: with 4096 locks, two threads rarely choose the same one. With the default
//! of 10000 loops, nearly all of the time is the empty loop (one cycle per iteration). The result therefore depends on
//! clock rates and on which threads share a core.
//! Definition: sysbench 1.0.20, `sysbench mutex` (--mutex-num, --mutex-locks, --mutex-loops): the loop is outside the
//! lock, each lock has 256 bytes of padding, every thread runs one event, and all locks share one counter.
#![allow(unsafe_code)]

use std::arch::asm;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use model::values::units::Nanos;
use model::values::workload::{ParameterKind, WorkloadSpec};

use super::latency::Latencies;
use super::pthread::PthreadMutex;
use super::sysbench;
use crate::describe::{Parameter, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::random::Random;
use crate::team::{self, TimedSpan, Worker};

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "mutex".into(),
        summary: "locks: short lock operations on random mutexes with work in between (sysbench mutex)".into(),
        about: "Events per second and time per event. Each thread runs one event: `locks` times it runs `loops` empty \
                iterations, then locks one of `mutexes` at random, counts and unlocks. With default values, most of \
                the time is the empty loop. Source: sysbench 1.0.20, sysbench mutex."
            .into(),
        parameters: parameters([
            Parameter {
                name: "mutexes",
                about: "number of mutexes (--mutex-num)",
                kind: ParameterKind::Integer { min: 1, max: 1 << 24 },
                default: Some("4096"),
                smoke: None,
            },
            Parameter {
                name: "locks",
                about: "lock operations per thread (--mutex-locks)",
                kind: ParameterKind::Integer { min: 1, max: 1_000_000_000 },
                default: Some("50000"),
                smoke: Some("2000"),
            },
            Parameter {
                name: "loops",
                about: "empty iterations before each lock (--mutex-loops)",
                kind: ParameterKind::Integer { min: 0, max: 1_000_000_000 },
                default: Some("10000"),
                smoke: Some("1000"),
            },
            sysbench::workers(),
        ]),
        metrics: sysbench::metrics(),
        threads_exactly: None,
        trial_time_guess: Nanos(200_000_000),
    }
}

const PADDING: usize = 256;

/// A lock with sysbench's layout. The padding holds a counter that only the lock's holder writes. It shows afterwards
/// that every lock operation took place and that none was lost.
#[repr(C)]
struct PaddedMutex {
    mutex: PthreadMutex,
    locked: AtomicU64,
    _padding: [u8; PADDING - size_of::<AtomicU64>()],
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let job = &job.oversubscribed();
    let mutexes: Vec<PaddedMutex> = (0..job.parameters.size("mutexes")).map(|_| PaddedMutex::new()).collect();
    let counter = AtomicU32::new(0);
    let team = team::run(job, |worker| one_thread(job, worker, &mutexes, &counter))?;
    let locked = mutexes.into_iter().map(|mutex| mutex.locked.into_inner()).sum();
    check(locked, job.threads, job.parameters.size("locks"))?;

    let mut all = Latencies::new();
    team.results.iter().for_each(|lap| all.record(lap.end.duration_since(lap.start).as_nanos() as u64));
    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    output.push("events", all.count() as f64 / TimedSpan::seconds_of_all(team.results.iter().copied()))?;
    all.report(&mut output)?;
    Ok(output)
}

fn one_thread(
    job: &TrialContext,
    worker: &Worker<'_>,
    mutexes: &[PaddedMutex],
    counter: &AtomicU32,
) -> Result<TimedSpan, Failure> {
    let (locks, loops) = (job.parameters.size("locks"), job.parameters.size("loops") as u32);
    let mut random = Random::of_thread(job.seed, worker.index);
    let ((), lap) = worker.timed_lap(|| event(mutexes, counter, &mut random, Amount { locks, loops }))?;
    Ok(lap)
}

/// Amount of work per event.
#[derive(Clone, Copy)]
struct Amount {
    locks: usize,
    loops: u32,
}

#[inline(never)]
fn event(mutexes: &[PaddedMutex], counter: &AtomicU32, random: &mut Random, amount: Amount) {
    for _ in 0..amount.locks {
        let mutex = &mutexes[random.below(mutexes.len())];
        for _ in 0..amount.loops {
            empty_pass();
        }
        mutex.mutex.hold(|| {
            // A load and a store instead of an atomic addition: sysbench's counter is a plain variable shared by the
            // holders of different locks, so it may lose counts. The counter in the padding belongs to one lock and
            // must not.
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            mutex.locked.store(mutex.locked.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        });
    }
}

/// Emits no instruction, but the compiler cannot see that, so it keeps the surrounding loop. (It would remove a loop
/// around `compiler_fence`.)
#[inline]
fn empty_pass() {
    // SAFETY: the empty assembly text accesses nothing.
    unsafe { asm!("", options(nostack, preserves_flags)) };
}

impl PaddedMutex {
    fn new() -> Self {
        Self { mutex: PthreadMutex::new(), locked: AtomicU64::new(0), _padding: [0; PADDING - size_of::<AtomicU64>()] }
    }
}

/// Verifies that no lock operation is missing, and that no holder overwrote the count of another.
fn check(locked: u64, threads: usize, locks: usize) -> Result<(), Failure> {
    let expected = threads as u64 * locks as u64;
    if locked == expected {
        return Ok(());
    }
    Err(Failure::Failed(format!("wrong number of lock operations: {locked}, expected {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, set};

    #[test]
    fn smoke_runs_on_more_threads_than_cpus() {
        check_smoke("mutex", &run(&TrialContext { threads: 5, ..job_for_tests("mutex") }).unwrap());
    }

    #[test]
    fn contended_mutex_loses_no_count() {
        let mut job = TrialContext { threads: 4, ..job_for_tests("mutex") };
        set(&mut job, "mutexes", "1");
        set(&mut job, "loops", "0");
        run(&job).unwrap();
    }

    #[test]
    fn mutex_layout_matches_sysbench() {
        assert_eq!(size_of::<PaddedMutex>(), size_of::<libc::pthread_mutex_t>() + 256);
    }

    #[test]
    fn lost_lock_operation_returns_an_error() {
        assert_eq!(check(6, 2, 3), Ok(()));
        assert!(check(5, 2, 3).is_err());
    }
}
