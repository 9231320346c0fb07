//! sysbench's "mutex" test: many short lock operations on locks chosen at random, with work in between.
//!
//! Measures: events per second and the time of an event. Every thread does one event: `locks` times choose one of
//! `mutexes` at random, count through `loops` empty loops, lock it, add one to a shared counter, unlock it.
//! Does NOT measure contention for one lock: with 4096 locks two threads seldom meet. At the default 10000 loops nearly
//! all of the time is the empty loop (one cycle a pass), so this is a test of clocks and of who shares a core.
//! Definition: sysbench 1.0.20, `sysbench mutex` (--mutex-num, --mutex-locks, --mutex-loops): the loop is outside the
//! lock, each lock has 256 bytes of padding, every thread does one event, and the counter is one word for all.
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
        about: "Events per second and time per event; each thread does one event, `locks` times: `loops` empty loops, \
                then lock one of `mutexes` at random, count, unlock. Mostly the empty loops, at default values. \
                Source: sysbench 1.0.20, sysbench mutex."
            .into(),
        parameters: parameters([
            Parameter {
                name: "mutexes",
                about: "how many mutexes there are (--mutex-num)",
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
                about: "empty loops before each lock (--mutex-loops)",
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

/// A lock as sysbench lays it out, but for a count in the padding that only its holder writes: it shows afterwards
/// that every lock operation took place and that none was overtaken.
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
    let crew = team::run(job, |member| one_thread(job, member, &mutexes, &counter))?;
    let locked = mutexes.into_iter().map(|mutex| mutex.locked.into_inner()).sum();
    check(locked, job.threads, job.parameters.size("locks"))?;

    let mut all = Latencies::new();
    crew.results.iter().for_each(|lap| all.record(lap.end.duration_since(lap.start).as_nanos() as u64));
    let mut measured = KernelOutput { thread_seats: crew.seats, ..KernelOutput::default() };
    measured.push("events", all.count() as f64 / TimedSpan::seconds_of_all(crew.results.iter().copied()))?;
    all.report(&mut measured)?;
    Ok(measured)
}

fn one_thread(
    job: &TrialContext,
    member: &Worker<'_>,
    mutexes: &[PaddedMutex],
    counter: &AtomicU32,
) -> Result<TimedSpan, Failure> {
    let (locks, loops) = (job.parameters.size("locks"), job.parameters.size("loops") as u32);
    let mut random = Random::of_thread(job.seed, member.index);
    let ((), lap) = member.timed_lap(|| event(mutexes, counter, &mut random, Amount { locks, loops }))?;
    Ok(lap)
}

/// How much one event does.
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
            // A load and a store and no atomic addition: sysbench's plain counter, shared by holders of different
            // locks, so it may lose counts. The other one is the lock's own and may not.
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            mutex.locked.store(mutex.locked.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        });
    }
}

/// No instruction, but the compiler does not know that, so it keeps the loop around it (it sees through a
/// `compiler_fence` and drops the loop).
#[inline]
fn empty_pass() {
    // SAFETY: the empty text touches nothing.
    unsafe { asm!("", options(nostack, preserves_flags)) };
}

impl PaddedMutex {
    fn new() -> Self {
        Self { mutex: PthreadMutex::new(), locked: AtomicU64::new(0), _padding: [0; PADDING - size_of::<AtomicU64>()] }
    }
}

/// No lock operation is missing and none was lost to another in the same lock.
fn check(locked: u64, threads: usize, locks: usize) -> Result<(), Failure> {
    let expected = threads as u64 * locks as u64;
    if locked == expected {
        return Ok(());
    }
    Err(Failure::Failed(format!("{locked} lock operations were counted under the locks, it should be {expected}")))
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
    fn one_contended_mutex_loses_nothing() {
        let mut job = TrialContext { threads: 4, ..job_for_tests("mutex") };
        set(&mut job, "mutexes", "1");
        set(&mut job, "loops", "0");
        run(&job).unwrap();
    }

    #[test]
    fn the_layout_is_sysbenchs() {
        assert_eq!(size_of::<PaddedMutex>(), size_of::<libc::pthread_mutex_t>() + 256);
    }

    #[test]
    fn a_lost_lock_operation_is_found() {
        assert_eq!(check(6, 2, 3), Ok(()));
        assert!(check(5, 2, 3).is_err());
    }
}
