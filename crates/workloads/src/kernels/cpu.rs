//! sysbench's "cpu" test: primes by trial division, which is mostly the cpu's division of 64-bit integers.
//!
//! Measures: events per second and the time of an event. An event looks at each whole number from 3 to below `max-prime`
//! and divides it by 2, 3, 4 and so on, up to its square root (in double precision, compared in double precision), until
//! one divides it. Does NOT measure anything that people mean by the speed of a cpu: no memory, no branches worth
//! predicting, and a divider whose speed differs tenfold between generations.
//! Definition: sysbench 1.0.20, `sysbench cpu` (--cpu-max-prime, --time, --events). Divisions are the instruction for 64 bits,
//! as there; compilers would look first whether the operands fit into 32 bits, which older cpus divide many times faster.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use model::values::units::Nanos;
use model::values::workload::{ParameterKind, WorkloadSpec};

use super::events::{Histograms, Totals, Until};
use super::sysbench;
use crate::describe::{Parameter, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::team::{self, TimedSpan, Worker};

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "cpu".into(),
        summary: "primes by trial division: 64-bit divisions (sysbench cpu)".into(),
        about:
            "Events per second and time per event; an event finds the primes from 3 to below `max-prime` by dividing \
                by everything up to the square root. Measures the divider and hardly anything else. Source: sysbench \
                1.0.20, sysbench cpu."
                .into(),
        parameters: parameters([
            Parameter {
                name: "max-prime",
                about: "numbers below this are looked at (--cpu-max-prime)",
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
    let asked = AtomicU64::new(0);
    let crew = team::run(job, |member| one_thread(job, member, &histograms, &asked))?;
    for (totals, primes, _) in &crew.results {
        check(*primes, totals.count, expected)?;
    }
    let threads: Vec<Totals> = crew.results.iter().map(|(totals, ..)| *totals).collect();
    let seconds = TimedSpan::seconds_of_all(crew.results.iter().map(|(.., lap)| *lap));
    let mut measured = KernelOutput { thread_seats: crew.seats, ..KernelOutput::default() };
    histograms.report(&threads, seconds, &mut measured)?;
    Ok(measured)
}

fn one_thread(
    job: &TrialContext,
    member: &Worker<'_>,
    histograms: &Histograms,
    asked: &AtomicU64,
) -> Result<(Totals, u64, TimedSpan), Failure> {
    let below = job.parameters.integer("max-prime") as u64;
    let limit = match job.parameters.integer("events") as u64 {
        0 => u64::MAX,
        events => events,
    };
    let mut book = histograms.book(job.seed, member.index);
    let (primes, lap) = member.timed_lap(|| {
        let until = Until::now_for(job.time("time"));
        let mut primes = 0;
        while until.more() && asked.fetch_add(1, Ordering::Relaxed) < limit {
            book.begin();
            primes += count_primes(black_box(below));
            book.end();
        }
        primes
    })?;
    Ok((book.totals(), primes, lap))
}

/// How many primes there are from 3 to below this.
#[inline(never)]
fn count_primes(below: u64) -> u64 {
    let mut primes = 0;
    for number in 3..below {
        let root = (number as i64 as f64).sqrt();
        let mut divisor = 2u64;
        // Whether 2 divides is in the lowest bit, and gcc divides by no constant: that is half of all numbers.
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

/// The remainder by the instruction that divides 64 bits.
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

/// The same number in another way: the sieve of Eratosthenes.
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
    Err(Failure::Failed(format!("{primes} primes were found in {events} events, {expected} in each would be right")))
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
    fn an_event_limit_is_kept_to_the_event() {
        let mut job = TrialContext { threads: 2, ..job_for_tests("cpu") };
        set(&mut job, "events", "7");
        set(&mut job, "time", "60s");
        let per_thread = |sample: &&model::values::trial::Sample| sample.series == "events-per-thread";
        let measured = run(&job).unwrap();
        let events: f64 = measured.samples.iter().filter(per_thread).map(|sample| sample.value).sum();
        assert!((events - 7.0).abs() < 0.5, "{events}");
    }

    #[test]
    fn primes_are_those_of_the_sieve_and_of_the_books() {
        // There are 1229 primes below 10000, and 2 is not looked at.
        assert_eq!((count_primes(10_000), count_by_sieve(10_000)), (1228, 1228));
        // Squares of primes have their divisor at the root itself.
        for below in [4, 5, 9, 10, 25, 26, 122] {
            assert_eq!(count_primes(below), count_by_sieve(below), "{below}");
        }
    }

    #[test]
    fn primes_that_are_missing_are_found() {
        assert_eq!(check(12, 3, 4), Ok(()));
        assert!(check(11, 3, 4).is_err());
    }
}
