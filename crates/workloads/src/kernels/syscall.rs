//! System call rate: how often a thread enters the kernel and comes back.
//!
//! Measures: calls of getppid per second, all threads together. The kernel does next to nothing in it (two loads), so
//! this is the cost of entry and exit, with the mitigations of the machine. The call is made directly (`SYS_getppid`):
//! no C library could answer it from a cache.
//! Does NOT measure what calls do for programs: no copying, no locks, no waiting.
//! Definition: as lmbench's `lat_syscall null` (getppid), turned into a rate.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use model::values::units::Nanos;
use model::values::workload::{Better, ParameterKind, WorkloadSpec};

use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::team::{self, Worker};

/// Samples per trial.
const ROUNDS: u32 = 10;

/// Calls between two looks at the clock: some 50 us, so that a look is less than a thousandth of it.
const BATCH: u64 = 1000;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "syscall".into(),
        summary: "system call rate: getppid, entered directly".into(),
        about:
            "Calls of getppid per second, all threads together: the cost of entering the kernel and coming back. Does \
                not measure what calls do for programs. Source: lmbench lat_syscall null, as a rate."
                .into(),
        parameters: parameters([Parameter {
            name: "time",
            about: "how long the ten rounds take together",
            kind: ParameterKind::Time { min: Nanos(1_000_000), max: Nanos(3_600_000_000_000) },
            default: Some("1s"),
            smoke: Some("50ms"),
        }]),
        metrics: metrics([Metric::median("calls", "calls/s", Better::Higher)]),
        threads_exactly: None,
        trial_time_guess: Nanos(1_000_000_000),
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Round {
    calls: u64,
    /// The sum of what the calls returned.
    sum: u64,
    took: Duration,
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let round = job.time("time") / ROUNDS;
    let crew = team::run(job, |member| one_thread(member, round))?;
    for round in crew.results.iter().flatten() {
        check(*round, std::os::unix::process::parent_id())?;
    }
    let mut measured = KernelOutput { thread_seats: crew.seats, ..KernelOutput::default() };
    for index in 0..ROUNDS as usize {
        let rates = crew.results.iter().map(|rounds| rounds[index].calls as f64 / rounds[index].took.as_secs_f64());
        measured.push("calls", rates.sum())?;
    }
    Ok(measured)
}

fn one_thread(member: &Worker<'_>, round: Duration) -> Result<Vec<Round>, Failure> {
    let mut rounds = Vec::with_capacity(ROUNDS as usize);
    member.timed(|| {
        for _ in 0..ROUNDS {
            member.barrier()?;
            rounds.push(call_for(round));
        }
        Ok(())
    })?;
    Ok(rounds)
}

#[inline(never)]
fn call_for(time: Duration) -> Round {
    let began = Instant::now();
    let mut round = Round { calls: 0, sum: 0, took: Duration::ZERO };
    while round.took < time {
        for _ in 0..BATCH {
            // SAFETY: getppid takes no argument, changes nothing and never fails (Linux, all versions).
            round.sum += unsafe { libc::syscall(libc::SYS_getppid) } as u64;
        }
        round.calls += BATCH;
        round.took = began.elapsed();
    }
    round
}

/// Each call returned the parent's number.
fn check(round: Round, parent: u32) -> Result<(), Failure> {
    if round.calls > 0 && round.sum == round.calls * u64::from(parent) {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "{} calls of getppid returned {} together, the parent is {parent} (or it ended meanwhile)",
        round.calls, round.sum
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests};

    #[test]
    fn smoke_runs_on_two_threads() {
        let measured = run(&TrialContext { threads: 2, ..job_for_tests("syscall") }).unwrap();
        check_smoke("syscall", &measured);
        assert_eq!(measured.samples.len(), ROUNDS as usize);
    }

    #[test]
    fn a_call_that_did_not_happen_is_found() {
        let round = call_for(Duration::from_micros(10));
        let parent = std::os::unix::process::parent_id();
        assert_eq!(check(round, parent), Ok(()));
        assert!(check(Round { calls: round.calls + 1, ..round }, parent).is_err());
        assert!(check(Round { calls: 0, sum: 0, ..round }, parent).is_err());
    }
}
