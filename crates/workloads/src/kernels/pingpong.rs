//! Ping-pong: how long one cache line takes from one core to another.
//!
//! Measures: nanoseconds per one-way transfer of a line between two threads that take turns: each waits until the
//! counter in the line has the value that means its turn, then stores the next value. A round trip is two transfers.
//! Does NOT measure bandwidth between cores, contended atomics or wake-ups; a transfer includes the reading of the
//! line and the store's taking of it, as a flag that is handed over does.
//! Definition: as google/multichase's pingpong and the usual core-to-core latency tests, with load and store in place
//! of compare-and-swap, which would also take the line while waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use model::id_set::CpuSet;
use model::units::Nanos;
use model::workload::{Better, ParameterKind, Reduce, WorkloadSpec};

use super::arena::Arena;
use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, Job, Measured};
use crate::team::{self, Member};

/// A wait this long means that the other thread is not running: on one shared cpu it then gets it. Some 100 us.
const SPINS_BEFORE_YIELD: u32 = 1 << 14;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "pingpong".into(),
        summary: "core-to-core latency: one cache line bounced between two threads".into(),
        about: "Nanoseconds per one-way transfer of a cache line between two threads that take turns by loads and \
                stores. Unseated, it measures whichever cores the kernel chose. Does not measure bandwidth, contention \
                or wake-ups. Source: the usual core-to-core latency test (google/multichase pingpong)."
            .into(),
        parameters: parameters([
            Parameter {
                name: "rounds",
                about: "how many samples",
                kind: ParameterKind::Integer { min: 1, max: 100_000 },
                default: Some("100"),
                smoke: Some("20"),
            },
            Parameter {
                name: "round-trips",
                about: "round trips per sample",
                kind: ParameterKind::Integer { min: 1, max: 1_000_000_000 },
                default: Some("10000"),
                smoke: Some("500"),
            },
        ]),
        metrics: metrics([Metric {
            name: "latency",
            unit: "ns",
            better: Better::Lower,
            series: "latency",
            reduce: Reduce::Median,
        }]),
        threads_exactly: Some(2),
        trial_time_guess: Nanos(500_000_000),
    }
}

pub(crate) fn run(job: &Job) -> Result<Measured, Failure> {
    refuse_one_cpu(job)?;
    let rounds = job.parameters.size("rounds");
    let trips = job.parameters.size("round-trips") as u64;
    let arena = Arena::small(job, 4096)?;
    // A page of its own: nothing else is in the line or beside it.
    let line = &arena.as_atomics()[0];
    let crew = team::run(job, |member| one_thread(member, line, rounds, trips))?;
    check(line.load(Ordering::SeqCst), rounds, trips)?;

    let mut measured = Measured { thread_seats: crew.seats, ..Measured::default() };
    for nanos in &crew.results[0] {
        measured.push("latency", nanos / (2 * trips) as f64)?;
    }
    measured.pages = arena.pages_by_node()?;
    Ok(measured)
}

fn refuse_one_cpu(job: &Job) -> Result<(), Failure> {
    let seats: CpuSet = job.seats.iter().copied().collect();
    if seats.len() == 1 {
        return Err(Failure::Failed(format!("both threads were to sit on cpu {seats}; a line bounces between two")));
    }
    if job.seats.is_empty() && std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err(Failure::Unavailable("there is one cpu, and a line bounces between two".into()));
    }
    Ok(())
}

fn one_thread(member: &Member<'_>, line: &AtomicU64, rounds: usize, trips: u64) -> Result<Vec<f64>, Failure> {
    let mut times = Vec::with_capacity(rounds);
    let mine = member.index as u64;
    member.timed(|| {
        for round in 0..rounds as u64 {
            member.meet()?;
            let began = Instant::now();
            bounce(line, round * 2 * trips + mine, trips, || member.go_on())?;
            times.push(began.elapsed().as_nanos() as f64);
        }
        Ok(())
    })?;
    Ok(times)
}

/// Takes every second turn, `trips` times, beginning when the counter is at `turn`. Asks now and then, while it waits,
/// whether to go on.
#[inline(never)]
fn bounce(line: &AtomicU64, mut turn: u64, trips: u64, go_on: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
    for _ in 0..trips {
        let mut spins = 0;
        while line.load(Ordering::Acquire) != turn {
            // No pause instruction: it costs up to 140 cycles on some cpus, more than a transfer.
            spins += 1;
            if spins == SPINS_BEFORE_YIELD {
                std::thread::yield_now();
                go_on()?;
                spins = 0;
            }
        }
        line.store(turn + 1, Ordering::Release);
        turn += 2;
    }
    Ok(())
}

/// Every turn was taken exactly once if the counter counts them all.
fn check(counter: u64, rounds: usize, trips: u64) -> Result<(), Failure> {
    let expected = rounds as u64 * trips * 2;
    if counter == expected {
        return Ok(());
    }
    Err(Failure::Failed(format!("the line was handed over {counter} times, it should be {expected}")))
}

#[cfg(test)]
mod tests {
    use model::id_set::CpuId;

    use super::*;
    use crate::kernels::{check_smoke, job_for_tests};

    #[test]
    fn smoke_runs_and_has_a_sample_per_round() {
        if std::thread::available_parallelism().unwrap().get() < 2 {
            return eprintln!("skipped: needs 2 cpus");
        }
        let measured = run(&job_for_tests("pingpong")).unwrap();
        check_smoke("pingpong", &measured);
        assert_eq!(measured.samples.len(), 20);
    }

    #[test]
    fn two_threads_on_one_cpu_are_refused() {
        let job = Job { seats: vec![CpuId(0); 2], ..job_for_tests("pingpong") };
        assert!(run(&job).unwrap_err().to_string().contains("both threads"));
    }

    #[test]
    fn turns_end_even_when_both_threads_share_a_cpu() {
        // The refusal above guards the measurement, not the ending: here the players are sat on one cpu by hand.
        let cpu = machine::seat::current_cpu();
        let line = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for turn in [0, 1] {
                let line = &line;
                scope.spawn(move || machine::seat::sit_on(cpu).map(|_| bounce(line, turn, 20, || Ok(()))));
            }
        });
        assert_eq!(check(line.into_inner(), 1, 20), Ok(()));
    }

    #[test]
    fn a_turn_that_never_comes_is_not_waited_for_longer_than_the_time_limit() {
        let job = Job { threads: 3, time_limit: Nanos(50_000_000), ..job_for_tests("pingpong") };
        assert!(matches!(run(&job), Err(Failure::TimedOut(_))));
    }

    #[test]
    fn a_missed_turn_is_found() {
        assert!(check(2 * 20 - 1, 1, 20).is_err());
        assert!(check(2 * 20 + 2, 1, 20).is_err());
    }
}
