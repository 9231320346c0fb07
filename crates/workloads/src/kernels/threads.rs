//! sysbench's "threads" test: the scheduler under threads that yield while they hold one of a few locks.
//!
//! Measures: events per second and the time per event. An event uses one of the locks in turn and repeats `yields`
//! times: lock it, yield the CPU, unlock it. With more threads than locks, it includes waiting for locks.
//! Does NOT measure thread creation. One event is `yields` system calls and twice as many lock operations.
//! Definition: sysbench 1.0.20, `sysbench threads` (--thread-yields, --thread-locks, --time, --events). The locks are
//! the C library's and are adjacent in one array, as in sysbench, so that they share cache lines in the same way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::values::units::Nanos;
use model::values::workload::{ParameterKind, WorkloadSpec};

use super::latency::Latencies;
use super::pthread::PthreadMutex;
use super::sysbench;
use crate::describe::{Parameter, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::team::{self, TimedSpan, Worker};

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "threads".into(),
        summary: "scheduler: threads that yield while they hold a lock (sysbench threads)".into(),
        about:
            "Events per second and time per event. An event repeats `yields` times: lock, yield, unlock one of `locks` \
             mutexes. Does not measure thread creation. Source: sysbench 1.0.20, sysbench threads."
                .into(),
        parameters: parameters([
            Parameter {
                name: "yields",
                about: "yields per event (--thread-yields)",
                kind: ParameterKind::Integer { min: 1, max: 1_000_000 },
                default: Some("1000"),
                smoke: Some("100"),
            },
            Parameter {
                name: "locks",
                about: "number of locks (--thread-locks)",
                kind: ParameterKind::Integer { min: 1, max: 65_536 },
                default: Some("8"),
                smoke: None,
            },
            sysbench::time(),
            sysbench::events(),
            sysbench::workers(),
        ]),
        metrics: sysbench::metrics(),
        threads_exactly: None,
        trial_time_guess: Nanos(3_000_000_000),
    }
}

/// Limits of the event loop, as plain numbers.
struct EventLimits {
    yields: u64,
    events: u64,
    time: Duration,
}

/// Counters from which the threads draw their events.
struct TurnLocks {
    /// Events requested, including those beyond the limit.
    requested: AtomicU64,
    /// Events started; the lock of an event is its number modulo the number of locks.
    started: AtomicU64,
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let job = &job.oversubscribed();
    let locks: Vec<PthreadMutex> = (0..job.parameters.size("locks")).map(|_| PthreadMutex::new()).collect();
    let limits = EventLimits {
        yields: job.parameters.size("yields") as u64,
        events: match job.parameters.size("events") as u64 {
            0 => u64::MAX,
            events => events,
        },
        time: job.time("time"),
    };
    let turns = TurnLocks { requested: AtomicU64::new(0), started: AtomicU64::new(0) };
    let team = team::run(job, |worker| one_thread(worker, &locks, &limits, &turns))?;

    let mut all = Latencies::new();
    team.results.iter().for_each(|(latencies, _)| all.merge(latencies));
    check(all.count(), turns.started.into_inner(), limits.events)?;
    check_exclusion(&locks, job.threads)?;

    let seconds = TimedSpan::seconds_of_all(team.results.iter().map(|(_, lap)| *lap));
    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    output.push("events", all.count() as f64 / seconds)?;
    all.report(&mut output)?;
    // Fairness of the scheduler: stored as raw samples, not as a metric.
    for (latencies, _) in &team.results {
        output.push("events-per-thread", latencies.count() as f64)?;
    }
    Ok(output)
}

fn one_thread(
    worker: &Worker<'_>,
    locks: &[PthreadMutex],
    limits: &EventLimits,
    turns: &TurnLocks,
) -> Result<(Latencies, TimedSpan), Failure> {
    let mut latencies = Latencies::new();
    let ((), lap) = worker.timed_lap(|| take_turns(locks, limits, turns, &mut latencies))?;
    Ok((latencies, lap))
}

#[inline(never)]
fn take_turns(locks: &[PthreadMutex], limits: &EventLimits, turns: &TurnLocks, latencies: &mut Latencies) {
    let began = Instant::now();
    while began.elapsed() < limits.time && turns.requested.fetch_add(1, Ordering::Relaxed) < limits.events {
        let turn = turns.started.fetch_add(1, Ordering::Relaxed);
        let lock = &locks[turn as usize % locks.len()];
        let start = Instant::now();
        for _ in 0..limits.yields {
            lock.hold(std::thread::yield_now);
        }
        latencies.record(start.elapsed().as_nanos() as u64);
    }
}

/// Verifies that every started event was counted, and that no more were started than allowed.
fn check(counted: u64, started: u64, limit: u64) -> Result<(), Failure> {
    if counted == started && counted <= limit {
        return Ok(());
    }
    Err(Failure::Failed(format!("wrong number of events: {counted} counted, {started} started, limit {limit}")))
}

/// Verifies mutual exclusion: a counter that is read and written in two steps under each lock loses no count.
fn check_exclusion(locks: &[PthreadMutex], threads: usize) -> Result<(), Failure> {
    // A few of the locks and a few rounds, because this runs after every trial.
    const LOCKS_MAX: usize = 8;
    const ROUNDS: u64 = 20;
    let threads = threads.min(4);
    for lock in locks.iter().take(LOCKS_MAX) {
        let counted = count_in_two_steps(threads, ROUNDS, |step| lock.hold(step));
        if counted != threads as u64 * ROUNDS {
            return Err(Failure::Failed("a lock was held by two threads at once".into()));
        }
    }
    Ok(())
}

/// Counts with a separate read and write; `guarded` runs each pair.
fn count_in_two_steps(threads: usize, rounds: u64, guarded: impl Fn(&dyn Fn()) + Sync) -> u64 {
    let counter = AtomicU64::new(0);
    let step = || {
        let before = counter.load(Ordering::Relaxed);
        std::thread::yield_now();
        counter.store(before + 1, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (guarded, step) = (&guarded, &step);
            scope.spawn(move || (0..rounds).for_each(|_| guarded(step)));
        }
    });
    counter.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, set};

    #[test]
    fn smoke_runs_with_more_threads_than_locks() {
        let job = TrialContext { threads: 12, ..job_for_tests("threads") };
        let output = run(&job).unwrap();
        check_smoke("threads", &output);
        assert_eq!(output.samples.iter().filter(|sample| sample.series == "events-per-thread").count(), 12);
    }

    #[test]
    fn workers_share_the_cpus_and_are_not_pinned() {
        let cpu = machine::affinity::current_cpu();
        let mut job = TrialContext { threads: 1, seats: vec![cpu], ..job_for_tests("threads") };
        set(&mut job, "workers", "5");
        // As in a trial, workers inherit the CPUs of the placement.
        machine::affinity::pin_to(cpu).unwrap();
        let output = run(&job).unwrap();
        assert!(output.thread_seats.is_empty());
        assert_eq!(output.samples.iter().filter(|sample| sample.series == "events-per-thread").count(), 5);
        set(&mut job, "workers", "0");
        assert_eq!(run(&job).unwrap().thread_seats.len(), 1);
    }

    #[test]
    fn event_limit_is_exact() {
        let mut job = TrialContext { threads: 3, ..job_for_tests("threads") };
        set(&mut job, "events", "10");
        set(&mut job, "time", "60s");
        let per_thread = |sample: &&model::values::trial::Sample| sample.series == "events-per-thread";
        let events: f64 = run(&job).unwrap().samples.iter().filter(per_thread).map(|sample| sample.value).sum();
        assert!((events - 10.0).abs() < 0.5, "{events}");
    }

    #[test]
    fn lost_and_extra_events_return_errors() {
        assert_eq!(check(10, 10, 10), Ok(()));
        assert!(check(9, 10, 10).is_err());
        assert!(check(11, 11, 10).is_err());
    }

    #[test]
    fn broken_lock_returns_an_error() {
        let lock = PthreadMutex::new();
        assert_eq!(count_in_two_steps(4, 100, |step| lock.hold(step)), 400);
        // Without the lock, the threads overwrite each other's counts while they yield in between.
        assert_ne!(count_in_two_steps(4, 20_000, |step| step()), 80_000);
    }
}
