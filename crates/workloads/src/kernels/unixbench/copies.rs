//! Runs the copies of a test: processes of a small program, each started on its CPU. All start measuring together when
//! the last one is ready, and are read when their time is over. No copy survives an error.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use machine::affinity;
use model::values::id_set::{CpuId, CpuSet};
use model::values::trial::ThreadBinding;

use crate::job::{Failure, TrialContext};
use crate::scratch::{Scratch, io_failure};
use crate::team;

pub(super) const ARITHMETIC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/arithmetic"));
/// The program of the tests that use system calls.
pub(super) const SYSTEM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/system"));

/// The locale that UnixBench 5.1.3 sets, for sorting. If it is not installed, the C locale applies.
pub(super) const LANGUAGE: (&str, &str) = ("LANG", "en_US.utf8");

/// Upper limit of the copies, several times the number of CPUs of any machine.
const COPIES_MAX: usize = 16_384;
/// Retries of `execve` after ETXTBSY: a concurrent fork of another thread may hold a just-written program open until it
/// execs.
const BUSY_TRIES_MAX: u32 = 100;

/// The program of a copy.
pub(super) struct Program<'a> {
    pub file: &'a Path,
    pub dir: &'a Path,
    /// Its arguments, which begin with the test and the nanoseconds.
    pub args: Vec<OsString>,
}

/// Results of all copies, in the order of the placement's CPUs.
pub(super) struct Copies {
    pub copies: Vec<Copy>,
    /// Empty if the copies are not pinned.
    pub seats: Vec<ThreadBinding>,
}

/// Result of one copy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Copy {
    pub count: u64,
    pub took_ns: u64,
    pub process: u32,
    /// Values that the test itself reports, for its check.
    pub values: Vec<u64>,
}

impl Copy {
    pub(super) fn seconds(&self) -> f64 {
        self.took_ns as f64 / 1e9
    }

    pub(super) fn rate(&self) -> f64 {
        self.count as f64 / self.seconds()
    }
}

/// Runs copies of a program that needs no files, from a temporary directory.
pub(super) fn run(job: &TrialContext, program: &[u8], args: &[&str]) -> Result<Copies, Failure> {
    let scratch = Scratch::new(&std::env::temp_dir())?;
    let file = scratch.program("program", program)?;
    let args: Vec<OsString> = args.iter().map(Into::into).collect();
    run_each(job, |_| Program { file: &file, dir: Path::new("/"), args: args.clone() })
}

/// Starts one program per copy and waits for all results.
pub(super) fn run_each<'a>(job: &TrialContext, program: impl Fn(usize) -> Program<'a>) -> Result<Copies, Failure> {
    check_size(job)?;
    let mut started = start_all(job, &program)?;
    let masks: Vec<CpuSet> = started.iter_mut().map(RunningCopy::wait_until_ready).collect::<Result<_, _>>()?;
    started.iter_mut().try_for_each(RunningCopy::signal_start)?;
    let ended: Vec<CopyExit> = started.iter_mut().map(RunningCopy::read).collect::<Result<_, _>>()?;
    if !job.mask.is_empty() {
        ended.iter().zip(&masks).try_for_each(|(ended, mask)| ended.check_mask(&job.mask, mask))?;
    }
    let seats = ended.iter().zip(masks).zip(&job.seats);
    let seat = |((ended, mask), asked): ((&CopyExit, CpuSet), &CpuId)| ThreadBinding {
        requested: *asked,
        mask,
        before: ended.before,
        after: ended.after,
    };
    let seats = seats.map(seat).collect();
    Ok(Copies { copies: ended.into_iter().map(|ended| ended.copy).collect(), seats })
}

/// A running copy, killed on drop.
struct RunningCopy {
    process: Child,
    stdin: Option<ChildStdin>,
    output: ChildStdout,
}

/// A copy that has ended.
struct CopyExit {
    copy: Copy,
    before: CpuId,
    after: CpuId,
}

impl CopyExit {
    /// Verifies that a copy of a loose placement could use all of its CPUs, and used no other.
    fn check_mask(&self, requested: &CpuSet, mask: &CpuSet) -> Result<(), Failure> {
        team::check_mask(requested, mask)?;
        match [self.before, self.after].into_iter().find(|cpu| !requested.contains(*cpu)) {
            Some(cpu) => Err(Failure::Failed(format!("a copy ran on CPU {cpu}, requested {requested}"))),
            None => Ok(()),
        }
    }
}

/// A child inherits the affinity of the thread that starts it. This thread therefore pins itself to the CPU of each
/// copy while it starts it, and then restores its own affinity.
fn start_all<'a>(job: &TrialContext, program: &impl Fn(usize) -> Program<'a>) -> Result<Vec<RunningCopy>, Failure> {
    if job.seats.is_empty() {
        return (0..job.threads).map(|index| start(&program(index))).collect();
    }
    let own = affinity::mask_of(0).map_err(|error| affinity_failure(&error))?;
    let start_pinned = |(index, cpu): (usize, &CpuId)| {
        affinity::pin_to(*cpu).map_err(|error| affinity_failure(&error))?;
        start(&program(index))
    };
    let started = job.seats.iter().enumerate().map(start_pinned).collect();
    affinity::pin_to_any(&own).map_err(|error| affinity_failure(&error))?;
    started
}

fn affinity_failure(error: &affinity::AffinityError) -> Failure {
    Failure::Failed(error.to_string())
}

fn start(program: &Program<'_>) -> Result<RunningCopy, Failure> {
    let mut command = Command::new(program.file);
    command.args(&program.args).current_dir(program.dir).env(LANGUAGE.0, LANGUAGE.1);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = spawn(&mut command).map_err(|error| io_failure("run", &PathBuf::from(program.file), &error))?;
    let stdin = process.stdin.take();
    let output = process.stdout.take().expect("the output is piped");
    Ok(RunningCopy { process, stdin, output })
}

fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut tries = 0;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < BUSY_TRIES_MAX => {
                tries += 1;
                std::thread::yield_now();
            }
            spawned => return spawned,
        }
    }
}

impl RunningCopy {
    /// Waits until the copy is ready. Returns its affinity mask.
    fn wait_until_ready(&mut self) -> Result<CpuSet, Failure> {
        let mut byte = [0];
        if self.output.read_exact(&mut byte).is_err() {
            return Err(self.failure());
        }
        affinity::mask_of(self.process.id()).map_err(|error| affinity_failure(&error))
    }

    fn signal_start(&mut self) -> Result<(), Failure> {
        let sent = self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(b"g").is_ok());
        if sent { Ok(()) } else { Err(self.failure()) }
    }

    fn read(&mut self) -> Result<CopyExit, Failure> {
        let mut line = String::new();
        let read = self.output.read_to_string(&mut line);
        match read.ok().and_then(|_| parse(&line, self.process.id())) {
            Some(ended) => Ok(ended),
            None => Err(self.failure()),
        }
    }

    /// Returns the error of a copy that failed, with its standard error.
    fn failure(&mut self) -> Failure {
        // The copy has closed its output, so it is exiting; if it hangs, it is killed with the process that it waits
        // for.
        let _ = self.process.kill();
        let mut message = String::new();
        if let Some(mut stderr) = self.process.stderr.take() {
            // Unreadable output is omitted.
            let _ = stderr.read_to_string(&mut message);
        }
        let status = self.process.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        Failure::Failed(format!("a copy failed with {status}: {}", message.trim()))
    }
}

impl Drop for RunningCopy {
    fn drop(&mut self) {
        // Both fail only if the copy was already reaped.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Parses the output of a copy: count, nanoseconds, CPUs before and after, then the test's values.
fn parse(line: &str, process: u32) -> Option<CopyExit> {
    let numbers: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let [count, took_ns, before, after, values @ ..] = numbers.as_slice() else { return None };
    let cpu = |number: u64| u32::try_from(number).ok().map(CpuId);
    let copy = Copy { count: *count, took_ns: (*took_ns).max(1), process, values: values.into() };
    Some(CopyExit { copy, before: cpu(*before)?, after: cpu(*after)? })
}

fn check_size(job: &TrialContext) -> Result<(), Failure> {
    if job.threads == 0 || job.threads > COPIES_MAX {
        return Err(Failure::Failed(format!(
            "invalid number of copies {}: it must be from 1 to {COPIES_MAX}",
            job.threads
        )));
    }
    if !job.seats.is_empty() && job.seats.len() != job.threads {
        return Err(Failure::Failed(format!("the placement has {} CPUs for {} copies", job.seats.len(), job.threads)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::job_for_tests;

    #[test]
    fn copies_start_pinned_and_the_parent_mask_is_restored() {
        let own = affinity::mask_of(0).unwrap();
        let cpu = own.iter().next().unwrap();
        let job = TrialContext { threads: 2, seats: vec![cpu; 2], ..job_for_tests("pipe-throughput") };
        let copies = run(&job, SYSTEM, &["pipe", "1000000"]).unwrap();
        let proof = ThreadBinding { requested: cpu, mask: [cpu].into_iter().collect(), before: cpu, after: cpu };
        assert_eq!(copies.seats, vec![proof; 2]);
        assert_eq!(copies.copies.len(), 2);
        assert_eq!(affinity::mask_of(0).unwrap(), own);
    }

    #[test]
    fn loose_copies_verify_mask_and_cpus() {
        let own = affinity::mask_of(0).unwrap();
        let job = TrialContext { threads: 2, mask: own.clone(), ..job_for_tests("pipe-context-switching") };
        assert!(run(&job, SYSTEM, &["switch", "1000000"]).unwrap().seats.is_empty());
        let wider = own.union(&[CpuId(8191)].into_iter().collect());
        let failure = run(&TrialContext { mask: wider, ..job }, SYSTEM, &["switch", "1000000"]).err().unwrap();
        assert!(failure.to_string().contains("the kernel set"), "{failure}");
        let exit = parse("1 2 3 4", 9).unwrap();
        let cpus = |list| CpuSet::parse_list(list).unwrap();
        assert_eq!(exit.check_mask(&cpus("3-4"), &cpus("3-4")), Ok(()));
        assert!(exit.check_mask(&cpus("4-5"), &cpus("4-5")).unwrap_err().to_string().contains("ran on CPU 3"));
    }

    #[test]
    fn error_contains_the_stderr_of_the_copy() {
        let failure = run(&job_for_tests("pipe-throughput"), SYSTEM, &["nothing", "1"]).err().unwrap();
        assert!(failure.to_string().contains("unknown test"), "{failure}");
        let job = TrialContext { threads: 2, seats: vec![CpuId(0)], ..job_for_tests("pipe-throughput") };
        assert!(run(&job, SYSTEM, &["pipe", "1"]).err().unwrap().to_string().contains("1 CPUs for 2 copies"));
    }

    #[test]
    fn incomplete_lines_are_rejected() {
        assert!(parse("1 2 3 4 5\n", 9).is_some());
        for line in ["", "1 2 3", "1 2 3 x", "1 2 99999999999 4"] {
            assert!(parse(line, 9).is_none(), "{line}");
        }
    }
}
