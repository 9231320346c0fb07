//! Five tests of frequent system calls: short calls, a pipe, two processes that alternate, process creation, and
//! program replacement.
//!
//! Measure: loops per second. A loop is one of these:
//! - `close(dup(0))`, `getpid`, `getuid` and `umask`
//! - 512 bytes written to a pipe and read again
//! - a number sent to another process and back over two pipes, while both sides count
//! - a `fork` whose child exits at once, and the wait for it
//! - an `execv` of the same small program
//!
//! None of them measures memory or computation. Both processes of a pinned context-switching copy share one CPU.
//! Unpinned, they may run on two CPUs; the loop then measures the wake-up of another CPU.

use model::values::workload::WorkloadSpec;

use super::copies::{self, Copies};
use super::{Test, check, kernel_output, time_ns};
use crate::job::{Failure, KernelOutput, TrialContext};

/// The sum of the bytes 0 to 255, twice.
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
        "five short system calls: close(dup), getpid, getuid, umask",
        "Loops per second of close(dup(0)), getpid, getuid and umask, all copies together: the cost of entering the \
         Linux kernel. Does not measure the work of system calls.",
    )
}

pub(crate) fn system_calls(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let copies = run(job, "calls")?;
    check(&copies.copies, &[0], "number of failed system calls")?;
    kernel_output(copies, 1.0)
}

pub(crate) fn describe_pipe() -> WorkloadSpec {
    describe(
        "pipe-throughput",
        "512 bytes written to a pipe and read by the same process",
        "Loops per second of 512 bytes written to a pipe and read again by the same process, all copies together. Does \
         not measure the transfer to another process.",
    )
}

pub(crate) fn pipe(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let copies = run(job, "pipe")?;
    check(&copies.copies, &[0, BUFFER_SUM], "remaining bytes in the pipe, and the sum of the bytes read")?;
    kernel_output(copies, 1.0)
}

pub(crate) fn describe_switching() -> WorkloadSpec {
    describe(
        "pipe-context-switching",
        "a number sent back and forth between two processes over pipes",
        "Loops per second of a number sent to another process and back over two pipes, all pairs together. A pinned \
         pair shares one CPU, so a loop is two context switches. An unpinned pair, also of a loose placement, may use \
         two CPUs; a loop then includes the wake-up of another CPU.",
    )
}

pub(crate) fn switching(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let copies = run(job, "switch")?;
    check(&copies.copies, &[], "context switching")?;
    kernel_output(copies, 1.0)
}

pub(crate) fn describe_spawn() -> WorkloadSpec {
    describe(
        "process-creation",
        "fork, and wait for a child that exits at once",
        "Processes created and waited for per second by a small program, all copies together. Does not measure exec.",
    )
}

pub(crate) fn spawn(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let copies = run(job, "spawn")?;
    check(&copies.copies, &[], "process creation")?;
    kernel_output(copies, 1.0)
}

pub(crate) fn describe_execl() -> WorkloadSpec {
    describe(
        "execl",
        "a small program that replaces itself",
        "Replacements of a process per second by a small program that needs only the C library, all copies together. \
         Does not measure fork.",
    )
}

pub(crate) fn execl(job: &TrialContext) -> Result<KernelOutput, Failure> {
    let copies = run(job, "execl")?;
    for copy in &copies.copies {
        // The last program of the chain still has the process ID of the first.
        check(std::slice::from_ref(copy), &[u64::from(copy.process)], "the process at the end of the chain")?;
    }
    kernel_output(copies, 1.0)
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
            let output = run(&TrialContext { threads: 2, ..job_for_tests(name) }).unwrap();
            check_smoke(name, &output);
            assert_eq!(output.samples.len(), 3, "{name}: the score and two copies");
        }
    }
}
