//! System call rate: how often a thread enters and leaves the Linux kernel.
//!
//! Measures: calls of getppid per second, all threads together. The Linux kernel executes only two loads for it, so
//! this is the cost of entry and exit with the mitigations of the machine. The call is made directly (`SYS_getppid`),
//! so that no C library can answer it from a cache.
//! Does NOT measure the work of system calls: no copying, no locks, no waiting.
//! Definition: as lmbench's `lat_syscall null` (getppid), expressed as a rate.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use model::values::units::Nanos;
use model::values::workload::{Better, ParameterKind, WorkloadSpec};

use crate::describe::{Metric, Parameter, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::team::{self, Worker};

/// Samples per trial.
const ROUNDS: u32 = 10;

/// Calls between two readings of the clock: about 50 us, so that a reading takes less than a thousandth of it.
const BATCH: u64 = 1000;

pub(crate) fn describe() -> WorkloadSpec {
    WorkloadSpec {
        name: "syscall".into(),
        summary: "system call rate: getppid, entered directly".into(),
        about: "Calls of getppid per second, all threads together: the cost of entering and leaving the Linux kernel. \
             Does not measure the work of system calls. Source: lmbench lat_syscall null, as a rate."
            .into(),
        parameters: parameters([Parameter {
            name: "time",
            about: "total duration of the ten rounds",
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
    /// Sum of the values that the calls returned.
    sum: u64,
    took: Duration,
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let round = job.time("time") / ROUNDS;
    let team = team::run(job, |worker| one_thread(worker, round))?;
    for round in team.results.iter().flatten() {
        check(*round, std::os::unix::process::parent_id())?;
    }
    let mut output = KernelOutput { thread_seats: team.seats, ..KernelOutput::default() };
    for index in 0..ROUNDS as usize {
        let rates = team.results.iter().map(|rounds| rounds[index].calls as f64 / rounds[index].took.as_secs_f64());
        output.push("calls", rates.sum())?;
    }
    Ok(output)
}

fn one_thread(worker: &Worker<'_>, round: Duration) -> Result<Vec<Round>, Failure> {
    let mut rounds = Vec::with_capacity(ROUNDS as usize);
    worker.timed(|| {
        for _ in 0..ROUNDS {
            worker.barrier()?;
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
            // SAFETY: getppid takes no arguments, changes nothing and never fails (Linux, all versions).
            round.sum += unsafe { libc::syscall(libc::SYS_getppid) } as u64;
        }
        round.calls += BATCH;
        round.took = began.elapsed();
    }
    round
}

/// Verifies that each call returned the parent's process ID.
fn check(round: Round, parent: u32) -> Result<(), Failure> {
    if round.calls > 0 && round.sum == round.calls * u64::from(parent) {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "wrong sum of {} calls of getppid: {}; the parent is {parent} (or it ended during the trial)",
        round.calls, round.sum
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests};

    #[test]
    fn smoke_runs_on_two_threads() {
        let output = run(&TrialContext { threads: 2, ..job_for_tests("syscall") }).unwrap();
        check_smoke("syscall", &output);
        assert_eq!(output.samples.len(), ROUNDS as usize);
    }

    #[test]
    fn missing_call_returns_an_error() {
        let round = call_for(Duration::from_micros(10));
        let parent = std::os::unix::process::parent_id();
        assert_eq!(check(round, parent), Ok(()));
        assert!(check(Round { calls: round.calls + 1, ..round }, parent).is_err());
        assert!(check(Round { calls: 0, sum: 0, ..round }, parent).is_err());
    }
}
