//! Five tests of what a program asks the kernel for most: calls that do little, a pipe, two processes that take turns,
//! new processes, and programs that replace each other.
//!
//! Measure: loops per second. A loop is `close(dup(0))`, `getpid`, `getuid` and `umask`; or 512 bytes written to a pipe
//! and read again; or a number handed to another process and back over two pipes, both sides counting along; or a
//! `fork` whose child ends at once, and the wait for it; or an `execv` of the same small program.
//! None measures memory or computes. Seated, both processes of a context-switching copy share its seat; left to the
//! kernel they may be on two cpus, and then it is the wake-up of another cpu that is measured.

use model::values::workload::WorkloadSpec;

use super::copies::{self, Copies};
use super::{Test, check, measured, time_ns};
use crate::job::{Failure, KernelOutput, TrialContext};

/// The bytes 0 to 255, twice.
const BUFFER_SUM: u64 = 2 * (255 * 256 / 2);

fn run(job: &TrialContext, test: &str) -> Result<Copies, Failure> {
    copies::run(job, copies::SYSTEM, &[test, &time_ns(job)])
}

fn describe(name: &'static str, summary: &'static str, about: &'static str) -> WorkloadSpec {
    super::describe(Test { name, summary, about, unit: "lps", parameters: Vec::new() })
}

pub(crate) fn describe_system_calls() -> WorkloadSpec {
    describe(
        "system-call-overhead",
        "five calls that do little: close(dup), getpid, getuid, umask",
        "Loops per second of close(dup(0)), getpid, getuid and umask, all copies together: the cost of entering the \
         kernel. Does not measure what calls do for programs.",
    )
}

pub(crate) fn system_calls(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let copies = run(job, "calls")?;
    check(&copies.copies, &[0], "calls that failed")?;
    measured(copies, 1.0)
}

pub(crate) fn describe_pipe() -> WorkloadSpec {
    describe(
        "pipe-throughput",
        "512 bytes through a pipe, by one process",
        "Loops per second of 512 bytes written to a pipe and read again by the same process, all copies together. Does \
         not measure the handing over to another process.",
    )
}

pub(crate) fn pipe(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let copies = run(job, "pipe")?;
    check(&copies.copies, &[0, BUFFER_SUM], "bytes left in the pipe, and the sum of those that came through")?;
    measured(copies, 1.0)
}

pub(crate) fn describe_switching() -> WorkloadSpec {
    describe(
        "pipe-context-switching",
        "a number to and fro between two processes over pipes",
        "Loops per second of a number handed to another process and back over two pipes, all pairs together. A seated \
         pair shares its seat, and a loop is two context switches; left to the kernel it may wake another cpu instead.",
    )
}

pub(crate) fn switching(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let copies = run(job, "switch")?;
    check(&copies.copies, &[], "context switching")?;
    measured(copies, 1.0)
}

pub(crate) fn describe_spawn() -> WorkloadSpec {
    describe(
        "process-creation",
        "fork, and wait for the child that ends at once",
        "Processes made and waited for per second by a small program, all copies together. Does not measure exec.",
    )
}

pub(crate) fn spawn(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let copies = run(job, "spawn")?;
    check(&copies.copies, &[], "process creation")?;
    measured(copies, 1.0)
}

pub(crate) fn describe_execl() -> WorkloadSpec {
    describe(
        "execl",
        "a small program that replaces itself",
        "Replacements of a process by a small program that needs the C library only, per second, all copies together. \
         Does not measure fork.",
    )
}

pub(crate) fn execl(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let copies = run(job, "execl")?;
    for copy in &copies.copies {
        // The last program of the chain is still the process that was started.
        check(std::slice::from_ref(copy), &[u64::from(copy.process)], "the process at the end of the chain")?;
    }
    measured(copies, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests};

    #[test]
    fn smoke_runs_with_two_copies() {
        type Run = fn(&TrialContext) -> Result<KernelOutput, Failure>;
        let tests: [(&str, Run); 5] = [
            ("system-call-overhead", system_calls),
            ("pipe-throughput", pipe),
            ("pipe-context-switching", switching),
            ("process-creation", spawn),
            ("execl", execl),
        ];
        for (name, run) in tests {
            let measured = run(&TrialContext { threads: 2, ..job_for_tests(name) }).unwrap();
            check_smoke(name, &measured);
            assert_eq!(measured.samples.len(), 3, "{name}: the score and two copies");
        }
    }
}
