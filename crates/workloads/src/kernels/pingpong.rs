//! Ping-pong: how long one cache line takes from one core to another.
//!
//! Measures: nanoseconds per one-way transfer of a line between two threads that take turns: each waits until the
//! counter in the line has the value that means its turn, then puts the next value there. A round trip is two transfers.
//! With `op=store` a thread waits by loads and answers by a store, as a flag is handed over: the waiting side shares the
//! line, and a transfer includes the reading of it and the store's taking of it. With `op=cas` it tries to compare and
//! swap until that succeeds, as a spinlock is taken: the waiting side takes the line away with every try, so that the
//! two fight for it.
//! Does NOT measure bandwidth between cores, atomics contended by more than two, or wake-ups.
//! Definition: `op=store` as google/multichase's pingpong, `op=cas` as the first test of the crate core-to-core-latency
//! (its second hands over by loads and stores too, and through two lines, one for each direction).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use model::values::id_set::CpuSet;
use model::values::units::Nanos;
use model::values::workload::{Better, ParameterKind, WorkloadSpec};

use super::arena::Arena;
use crate::describe::{Metric, Parameter, choice, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::team::{self, Worker};

/// A wait this long means that the other thread is not running: on one shared cpu it then gets it. Some 100 us.
const SPINS_BEFORE_YIELD: u32 = 1 << 14;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "pingpong".into(),
        summary: "core-to-core latency: one cache line bounced between two threads".into(),
        about: "Nanoseconds per one-way transfer of a cache line between two threads that take turns by loads and \
                stores (`op=cas`: by compare-and-swap). Unseated, it measures whichever cores the kernel chose. Does not measure bandwidth, contention \
                or wake-ups. Source: the usual core-to-core latency test (google/multichase pingpong)."
            .into(),
        parameters: parameters([
            Parameter {
                name: "op",
                about: "how a turn is taken: load until it is one's own, then store; or compare and swap until it succeeds",
                kind: choice(&["store", "cas"]),
                default: Some("store"),
                smoke: None,
            },
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
        metrics: metrics([Metric::median("latency", "ns", Better::Lower)]),
        threads_exactly: Some(2),
        trial_time_guess: Nanos(500_000_000),
    }
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    refuse_one_cpu(job)?;
    let rounds = job.parameters.size("rounds");
    let trips = job.parameters.size("round-trips") as u64;
    let mut arena = Arena::small(job, 4096)?;
    // A page of its own: nothing else is in the line or beside it.
    let line = &arena.as_atomics()[0];
    let op = if job.parameters.text("op") == "cas" { Op::CompareAndSwap } else { Op::Store };
    let crew = team::run(job, |member| one_thread(member, line, op, rounds, trips))?;
    check(line.load(Ordering::SeqCst), rounds, trips)?;

    let mut measured = KernelOutput { thread_seats: crew.seats, ..KernelOutput::default() };
    for nanos in &crew.results[0] {
        measured.push("latency", nanos / (2 * trips) as f64)?;
    }
    measured.pages = arena.pages_by_node()?;
    Ok(measured)
}

fn refuse_one_cpu(job: &TrialContext) -> Result<(), Failure> {
    let seats: CpuSet = job.seats.iter().copied().collect();
    if seats.len() == 1 {
        return Err(Failure::Failed(format!("both threads were to sit on cpu {seats}; a line bounces between two")));
    }
    if job.seats.is_empty() && std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err(Failure::Unavailable("there is one cpu, and a line bounces between two".into()));
    }
    Ok(())
}

/// How a turn is taken.
#[derive(Clone, Copy)]
enum Op {
    Store,
    CompareAndSwap,
}

fn one_thread(member: &Worker<'_>, line: &AtomicU64, op: Op, rounds: usize, trips: u64) -> Result<Vec<f64>, Failure> {
    let mut times = Vec::with_capacity(rounds);
    let mine = member.index as u64;
    member.timed(|| {
        for round in 0..rounds as u64 {
            member.barrier()?;
            let turn = round * 2 * trips + mine;
            let began = Instant::now();
            match op {
                Op::Store => bounce(turn, trips, |turn| store(line, turn), || member.check_abort())?,
                Op::CompareAndSwap => {
                    bounce(turn, trips, |turn| compare_and_swap(line, turn), || member.check_abort())?
                }
            }
            times.push(began.elapsed().as_nanos() as f64);
        }
        Ok(())
    })?;
    Ok(times)
}

/// Takes the turn if it has come; whether it had.
#[inline]
fn store(line: &AtomicU64, turn: u64) -> bool {
    let mine = line.load(Ordering::Acquire) == turn;
    if mine {
        line.store(turn + 1, Ordering::Release);
    }
    mine
}

/// As [`store`], by an instruction that takes the line whether or not the turn has come.
#[inline]
fn compare_and_swap(line: &AtomicU64, turn: u64) -> bool {
    line.compare_exchange(turn, turn + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Takes every second turn, `trips` times, beginning when the counter is at `turn`. Asks now and then, while it waits,
/// whether to go on.
#[inline(never)]
fn bounce(
    mut turn: u64,
    trips: u64,
    take: impl Fn(u64) -> bool,
    go_on: impl Fn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    for _ in 0..trips {
        let mut spins = 0;
        while !take(turn) {
            // No pause instruction: it costs up to 140 cycles on some cpus, more than a transfer.
            spins += 1;
            if spins == SPINS_BEFORE_YIELD {
                std::thread::yield_now();
                go_on()?;
                spins = 0;
            }
        }
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
    use model::values::id_set::CpuId;

    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, set};

    #[test]
    fn smoke_runs_and_has_a_sample_per_round() {
        if std::thread::available_parallelism().unwrap().get() < 2 {
            return eprintln!("skipped: needs 2 cpus");
        }
        for op in ["store", "cas"] {
            let mut job = job_for_tests("pingpong");
            set(&mut job, "op", op);
            let measured = run(&job).unwrap();
            check_smoke("pingpong", &measured);
            assert_eq!(measured.samples.len(), 20, "{op}");
        }
    }

    #[test]
    fn two_threads_on_one_cpu_are_refused() {
        let job = TrialContext { seats: vec![CpuId(0); 2], ..job_for_tests("pingpong") };
        assert!(run(&job).unwrap_err().to_string().contains("both threads"));
    }

    #[test]
    fn turns_end_even_when_both_threads_share_a_cpu() {
        // The refusal above guards the measurement, not the ending: here the players are sat on one cpu by hand.
        let cpu = machine::affinity::current_cpu();
        for take in [store, compare_and_swap] {
            let line = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for turn in [0, 1] {
                    let take = |turn| take(&line, turn);
                    scope.spawn(move || machine::affinity::pin_to(cpu).map(|_| bounce(turn, 20, take, || Ok(()))));
                }
            });
            assert_eq!(check(line.into_inner(), 1, 20), Ok(()));
        }
    }

    #[test]
    fn a_turn_that_never_comes_is_not_waited_for_longer_than_the_time_limit() {
        let job = TrialContext { threads: 3, time_limit: Nanos(50_000_000), ..job_for_tests("pingpong") };
        assert!(matches!(run(&job), Err(Failure::TimedOut(_))));
    }

    #[test]
    fn a_missed_turn_is_found() {
        assert!(check(2 * 20 - 1, 1, 20).is_err());
        assert!(check(2 * 20 + 2, 1, 20).is_err());
    }
}
