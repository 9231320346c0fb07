//! Ping-pong: the time that one cache line takes from one core to another.
//!
//! Measures: nanoseconds per one-way transfer of a line between two threads that take turns. Each thread waits until
//! the counter in the line has the value of its turn, then stores the next value. A round trip is two transfers.
//! With `op=store` a thread waits with loads and answers with a store, as a flag is passed. The waiting side shares the
//! line, so a transfer includes reading the line and taking ownership of it for the store. With `op=cas` a thread
//! retries a compare-and-swap until it succeeds, as in a spinlock. Every attempt takes the line away from the other
//! side, so both compete for it.
//! Does NOT measure bandwidth between cores, atomics contended by more than two threads, or wake-ups.
//! Definition: `op=store` as google/multichase's pingpong, `op=cas` as the first test of the crate
//! core-to-core-latency. (The second test of that crate also uses loads and stores, but with one line per direction.)

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use model::values::id_set::CpuSet;
use model::values::units::Nanos;
use model::values::workload::{Better, ParameterKind, WorkloadSpec};

use super::arena::Arena;
use crate::describe::{Metric, Parameter, choice, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::team::{self, Worker};

/// Spins before a yield, about 100 us. A longer wait means that the other thread is not running; if both share one CPU,
/// it runs then.
const SPINS_BEFORE_YIELD: u32 = 1 << 14;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "pingpong".into(),
        summary: "core-to-core latency: one cache line bounced between two threads".into(),
        about: "Nanoseconds per one-way transfer of a cache line between two threads that take turns by loads and \
                stores (`op=cas`: by compare-and-swap). Without pinning, it measures the cores that the Linux kernel \
                chose. Does not measure bandwidth, contention or wake-ups. Source: the usual core-to-core latency test \
                (google/multichase pingpong)."
            .into(),
        parameters: parameters([
            Parameter {
                name: "op",
                about: "how a thread takes its turn: store waits with loads, then stores; cas retries a \
                        compare-and-swap until it succeeds",
                kind: choice(&["store", "cas"]),
                default: Some("store"),
                smoke: None,
            },
            Parameter {
                name: "rounds",
                about: "number of samples",
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
    require_two_cpus(job)?;
    let rounds = job.parameters.size("rounds");
    let trips = job.parameters.size("round-trips") as u64;
    let mut arena = Arena::small(job, 4096)?;
    // A separate page: nothing else shares the line or the adjacent ones.
    let line = &arena.as_atomics()[0];
    let op = if job.parameters.text("op") == "cas" { Op::CompareAndSwap } else { Op::Store };
    let team = team::run(job, |worker| one_thread(worker, line, op, rounds, trips))?;
    check(line.load(Ordering::SeqCst), rounds, trips)?;

    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    for nanos in &team.results[0] {
        output.push("latency", nanos / (2 * trips) as f64)?;
    }
    output.pages = arena.pages_by_node()?;
    Ok(output)
}

fn require_two_cpus(job: &TrialContext) -> Result<(), Failure> {
    let seats: CpuSet = job.seats.iter().copied().collect();
    if seats.len() == 1 {
        return Err(Failure::Failed(format!("both threads are pinned to CPU {seats}; pingpong needs two CPUs")));
    }
    if job.seats.is_empty() && std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err(Failure::Unavailable("only one CPU is available; pingpong needs two".into()));
    }
    Ok(())
}

/// The operation that takes a turn.
#[derive(Clone, Copy)]
enum Op {
    Store,
    CompareAndSwap,
}

fn one_thread(worker: &Worker<'_>, line: &AtomicU64, op: Op, rounds: usize, trips: u64) -> Result<Vec<f64>, Failure> {
    let mut times = Vec::with_capacity(rounds);
    let index = worker.index as u64;
    worker.timed(|| {
        for round in 0..rounds as u64 {
            worker.barrier()?;
            let turn = round * 2 * trips + index;
            let began = Instant::now();
            match op {
                Op::Store => bounce(turn, trips, |turn| store(line, turn), || worker.check_abort())?,
                Op::CompareAndSwap => {
                    bounce(turn, trips, |turn| compare_and_swap(line, turn), || worker.check_abort())?;
                }
            }
            times.push(began.elapsed().as_nanos() as f64);
        }
        Ok(())
    })?;
    Ok(times)
}

/// Takes the turn if it has come. Returns whether it did.
#[inline]
fn store(line: &AtomicU64, turn: u64) -> bool {
    let is_my_turn = line.load(Ordering::Acquire) == turn;
    if is_my_turn {
        line.store(turn + 1, Ordering::Release);
    }
    is_my_turn
}

/// Like [`store`], but by an instruction that takes ownership of the line whether or not the turn has come.
#[inline]
fn compare_and_swap(line: &AtomicU64, turn: u64) -> bool {
    line.compare_exchange(turn, turn + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Takes every second turn, `trips` times, beginning when the counter is `turn`. While it waits, it periodically checks
/// whether the trial was aborted.
#[inline(never)]
fn bounce(
    mut turn: u64,
    trips: u64,
    take: impl Fn(u64) -> bool,
    check_abort: impl Fn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    for _ in 0..trips {
        let mut spins = 0;
        while !take(turn) {
            // No pause instruction: it costs up to 140 cycles on some CPUs, more than a transfer.
            spins += 1;
            if spins == SPINS_BEFORE_YIELD {
                std::thread::yield_now();
                check_abort()?;
                spins = 0;
            }
        }
        turn += 2;
    }
    Ok(())
}

/// Verifies that every turn was taken exactly once.
fn check(counter: u64, rounds: usize, trips: u64) -> Result<(), Failure> {
    let expected = rounds as u64 * trips * 2;
    if counter == expected {
        return Ok(());
    }
    Err(Failure::Failed(format!("wrong number of transfers of the line: {counter}, expected {expected}")))
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
            let output = run(&job).unwrap();
            check_smoke("pingpong", &output);
            assert_eq!(output.samples.len(), 20, "{op}");
        }
    }

    #[test]
    fn pinning_both_threads_to_one_cpu_returns_an_error() {
        let job = TrialContext { seats: vec![CpuId(0); 2], ..job_for_tests("pingpong") };
        assert!(run(&job).unwrap_err().to_string().contains("both threads"));
    }

    #[test]
    fn bounce_completes_on_a_shared_cpu() {
        // `run` rejects such a placement because it measures nothing useful. Here the threads are pinned to one CPU
        // directly.
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
    fn missing_turn_times_out_at_the_time_limit() {
        let job = TrialContext { threads: 3, time_limit: Nanos(50_000_000), ..job_for_tests("pingpong") };
        assert!(matches!(run(&job), Err(Failure::TimedOut(_))));
    }

    #[test]
    fn missed_turn_returns_an_error() {
        assert!(check(2 * 20 - 1, 1, 20).is_err());
        assert!(check(2 * 20 + 2, 1, 20).is_err());
    }
}
