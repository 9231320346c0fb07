//! sysbench's "cpu" test: primes by trial division, which is mostly 64-bit integer division.
//!
//! Measures: events per second and the time per event. An event tests each integer from 3 to below `max-prime`: it
//! divides by 2, 3, 4 and so on up to the square root (computed and compared in double precision) until
//! one divides it.
//! Does NOT measure general CPU speed: it uses no memory and few hard branches, and divider speed differs tenfold
//! between generations.
//! Definition: sysbench 1.0.20, `sysbench cpu` (--cpu-max-prime, --time, --events). Divisions use the 64-bit
//! instruction, as in sysbench. A compiler would first test whether the operands fit in 32 bits, a case that older CPUs
//! divide many times faster.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use model::values::units::Nanos;
use model::values::workload::{ParameterKind, WorkloadSpec};

use super::events::{Deadline, Histograms, Totals};
use super::sysbench;
use crate::describe::{Parameter, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::team::{self, TimedSpan, Worker};

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "cpu".into(),
        summary: "primes by trial division: 64-bit divisions (sysbench cpu)".into(),
        about:
            "Events per second and time per event. An event finds the primes from 3 to below `max-prime` by dividing \
             by every integer up to the square root. Measures little besides the divider. Source: sysbench 1.0.20, \
             sysbench cpu."
                .into(),
        parameters: parameters([
            Parameter {
                name: "max-prime",
                about: "numbers below this are tested (--cpu-max-prime)",
                kind: ParameterKind::Integer { min: 4, max: 100_000_000 },
                default: Some("10000"),
                smoke: None,
            },
            sysbench::time(),
            sysbench::events(),
        ]),
        metrics: sysbench::metrics(),
        threads_exactly: None,
        trial_time_guess: Nanos(3_000_000_000),
    }
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let below = job.parameters.integer("max-prime") as u64;
    let expected = count_by_sieve(below);
    let histograms = Histograms::new();
    let started = AtomicU64::new(0);
    let team = team::run(job, |worker| one_thread(job, worker, &histograms, &started))?;
    for (totals, primes, _) in &team.results {
        check(*primes, totals.count, expected)?;
    }
    let threads: Vec<Totals> = team.results.iter().map(|(totals, ..)| *totals).collect();
    let seconds = TimedSpan::seconds_of_all(team.results.iter().map(|(.., lap)| *lap));
    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    histograms.report(&threads, seconds, &mut output)?;
    Ok(output)
}

fn one_thread(
    job: &TrialContext,
    worker: &Worker<'_>,
    histograms: &Histograms,
    started: &AtomicU64,
) -> Result<(Totals, u64, TimedSpan), Failure> {
    let below = job.parameters.integer("max-prime") as u64;
    let limit = match job.parameters.integer("events") as u64 {
        0 => u64::MAX,
        events => events,
    };
    let mut event_log = histograms.event_log(job.seed, worker.index);
    let (primes, lap) = worker.timed_lap(|| {
        let deadline = Deadline::now_for(job.time("time"));
        let mut primes = 0;
        while deadline.may_start() && started.fetch_add(1, Ordering::Relaxed) < limit {
            event_log.begin();
            primes += count_primes(black_box(below));
            event_log.end();
        }
        primes
    })?;
    Ok((event_log.totals(), primes, lap))
}

/// Number of primes from 3 to below `below`.
#[inline(never)]
fn count_primes(below: u64) -> u64 {
    let mut primes = 0;
    for number in 3..below {
        let root = (number as i64 as f64).sqrt();
        let mut divisor = 2u64;
        // 2 divides if the lowest bit is 0. gcc emits no division by a constant, so half of all numbers need none.
        if 2.0 <= root && number % 2 != 0 {
            divisor = 3;
            while divisor as i64 as f64 <= root && remainder(number, divisor) != 0 {
                divisor += 1;
            }
        }
        primes += u64::from(divisor as i64 as f64 > root);
    }
    primes
}

/// Remainder by the 64-bit division instruction.
#[inline]
fn remainder(number: u64, divisor: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let remainder;
        // SAFETY: the divisor is at least 2, so with an upper half of zero the quotient fits.
        unsafe {
            std::arch::asm!("div {divisor}", divisor = in(reg) divisor, inout("rax") number => _,
                inout("rdx") 0u64 => remainder, options(pure, nomem, nostack));
        }
        remainder
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        number % divisor
    }
}

/// Counts the same primes by an independent method, the sieve of Eratosthenes.
fn count_by_sieve(below: u64) -> u64 {
    let below = below as usize;
    let mut is_composite = vec![false; below];
    for number in 2..below {
        if !is_composite[number] {
            (number * number..below).step_by(number).for_each(|multiple| is_composite[multiple] = true);
        }
    }
    is_composite.iter().skip(3).filter(|is_composite| !**is_composite).count() as u64
}

fn check(primes: u64, events: u64, expected: u64) -> Result<(), Failure> {
    if primes == events * expected {
        return Ok(());
    }
    Err(Failure::Failed(format!("wrong number of primes: {primes} in {events} events, expected {expected} per event")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, set};

    #[test]
    fn smoke_runs_on_more_threads_than_cpus() {
        check_smoke("cpu", &run(&TrialContext { threads: 3, ..job_for_tests("cpu") }).unwrap());
    }

    #[test]
    fn event_limit_is_exact() {
        let mut job = TrialContext { threads: 2, ..job_for_tests("cpu") };
        set(&mut job, "events", "7");
        set(&mut job, "time", "60s");
        let per_thread = |sample: &&model::values::trial::Sample| sample.series == "events-per-thread";
        let output = run(&job).unwrap();
        let events: f64 = output.samples.iter().filter(per_thread).map(|sample| sample.value).sum();
        assert!((events - 7.0).abs() < 0.5, "{events}");
    }

    #[test]
    fn prime_counts_match_the_sieve_and_published_values() {
        // There are 1229 primes below 10000, and 2 is not tested.
        assert_eq!((count_primes(10_000), count_by_sieve(10_000)), (1228, 1228));
        // Squares of primes have their divisor at the square root.
        for below in [4, 5, 9, 10, 25, 26, 122] {
            assert_eq!(count_primes(below), count_by_sieve(below), "{below}");
        }
    }

    #[test]
    fn missing_primes_return_an_error() {
        assert_eq!(check(12, 3, 4), Ok(()));
        assert!(check(11, 3, 4).is_err());
    }
}
