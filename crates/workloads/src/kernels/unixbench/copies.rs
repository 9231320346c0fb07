//! The copies of a test: processes of a small program, each started on its seat, all let go together when the last is
//! ready, and read when their time is over. Whatever fails, no copy is left running.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use machine::affinity;
use model::values::id_set::{CpuId, CpuSet};
use model::values::trial::ThreadBinding;

use crate::job::{Failure, TrialContext};
use crate::scratch::{Scratch, io_failure};

pub(super) const ARITHMETIC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/arithmetic"));
/// The tests that ask the kernel for something.
pub(super) const SYSTEM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/system"));

/// As version 5.1.3 sets it, for sorting; where it is not installed it is C's.
pub(super) const LANGUAGE: (&str, &str) = ("LANG", "en_US.utf8");

/// More copies than any machine has cpus several times over.
const COPIES_MAX: usize = 16_384;
/// Another thread that forks while a program is being written holds it open until it execs.
const BUSY_TRIES_MAX: u32 = 100;

/// What is run as every copy.
pub(super) struct Program<'a> {
    /// The program as a file.
    pub file: &'a Path,
    pub folder: &'a Path,
    /// Its words, which begin with the test and the nanoseconds.
    pub words: Vec<OsString>,
}

/// What the copies brought back, in the order of the seats.
pub(super) struct Copies {
    pub copies: Vec<Copy>,
    /// Empty when nobody was seated.
    pub seats: Vec<ThreadBinding>,
}

/// What one copy brought back.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Copy {
    pub count: u64,
    pub took_ns: u64,
    pub process: u32,
    /// What the test itself reports, for its check.
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

/// Runs copies of a program that needs no files, in a folder of its own.
pub(super) fn run(job: &TrialContext, program: &[u8], words: &[&str]) -> Result<Copies, Failure> {
    let scratch = Scratch::new(&std::env::temp_dir())?;
    let file = scratch.program("program", program)?;
    let words: Vec<OsString> = words.iter().map(Into::into).collect();
    run_each(job, |_| Program { file: &file, folder: Path::new("/"), words: words.clone() })
}

/// Runs a program for each copy.
pub(super) fn run_each<'a>(job: &TrialContext, program: impl Fn(usize) -> Program<'a>) -> Result<Copies, Failure> {
    check_size(job)?;
    let mut started = start_all(job, &program)?;
    let masks: Vec<Option<CpuSet>> = started.iter_mut().map(Started::wait_until_ready).collect::<Result<_, _>>()?;
    started.iter_mut().try_for_each(Started::go)?;
    let ended: Vec<CopyExit> = started.iter_mut().map(Started::read).collect::<Result<_, _>>()?;
    let seats = ended.iter().zip(masks).zip(&job.seats);
    let seat = |((ended, mask), asked): ((&CopyExit, Option<CpuSet>), &CpuId)| {
        Some(ThreadBinding { asked: *asked, mask: mask?, before: ended.before, after: ended.after })
    };
    let seats = seats.filter_map(seat).collect();
    Ok(Copies { copies: ended.into_iter().map(|ended| ended.copy).collect(), seats })
}

/// A copy that runs; killed when it is dropped.
struct Started {
    process: Child,
    word: Option<ChildStdin>,
    output: ChildStdout,
    seated: bool,
}

/// A copy that has ended.
struct CopyExit {
    copy: Copy,
    before: CpuId,
    after: CpuId,
}

/// A child takes its parent's seat along, so this thread sits on each copy's seat while it starts it, and then goes back.
fn start_all<'a>(job: &TrialContext, program: &impl Fn(usize) -> Program<'a>) -> Result<Vec<Started>, Failure> {
    if job.seats.is_empty() {
        return (0..job.threads).map(|index| start(&program(index), false)).collect();
    }
    let own = affinity::mask_of(0).map_err(|refusal| refused(&refusal))?;
    let start_on = |(index, cpu): (usize, &CpuId)| {
        affinity::pin_to(*cpu).map_err(|refusal| refused(&refusal))?;
        start(&program(index), true)
    };
    let started = job.seats.iter().enumerate().map(start_on).collect();
    affinity::pin_to_any(&own).map_err(|refusal| refused(&refusal))?;
    started
}

fn refused(refusal: &affinity::AffinityError) -> Failure {
    Failure::Failed(refusal.to_string())
}

fn start(program: &Program<'_>, seated: bool) -> Result<Started, Failure> {
    let mut command = Command::new(program.file);
    command.args(&program.words).current_dir(program.folder).env(LANGUAGE.0, LANGUAGE.1);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = spawn(&mut command).map_err(|error| io_failure("run", &PathBuf::from(program.file), &error))?;
    let word = process.stdin.take();
    let output = process.stdout.take().expect("its output is piped");
    Ok(Started { process, word, output, seated })
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

impl Started {
    /// Waits until the copy has prepared everything; then where it may run.
    fn wait_until_ready(&mut self) -> Result<Option<CpuSet>, Failure> {
        let mut byte = [0];
        if self.output.read_exact(&mut byte).is_err() {
            return Err(self.last_words());
        }
        if !self.seated {
            return Ok(None);
        }
        affinity::mask_of(self.process.id()).map(Some).map_err(|refusal| refused(&refusal))
    }

    fn go(&mut self) -> Result<(), Failure> {
        let said = self.word.as_mut().is_some_and(|word| word.write_all(b"g").is_ok());
        if said { Ok(()) } else { Err(self.last_words()) }
    }

    fn read(&mut self) -> Result<CopyExit, Failure> {
        let mut line = String::new();
        let read = self.output.read_to_string(&mut line);
        match read.ok().and_then(|_| parse(&line, self.process.id())) {
            Some(ended) => Ok(ended),
            None => Err(self.last_words()),
        }
    }

    /// Why a copy did not do what it should.
    fn last_words(&mut self) -> Failure {
        // It has closed its output, so it ends; if it does not, it is killed with whom it waits for.
        let _ = self.process.kill();
        let mut said = String::new();
        if let Some(mut stderr) = self.process.stderr.take() {
            // What cannot be read is not said.
            let _ = stderr.read_to_string(&mut said);
        }
        let ended = self.process.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        Failure::Failed(format!("a copy ended with {ended} and said: {}", said.trim()))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Both fail only when it has ended and been waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Count, nanoseconds, cpus before and after, then the test's values.
fn parse(line: &str, process: u32) -> Option<CopyExit> {
    let numbers: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let [count, took_ns, before, after, values @ ..] = numbers.as_slice() else { return None };
    let cpu = |number: u64| u32::try_from(number).ok().map(CpuId);
    let copy = Copy { count: *count, took_ns: (*took_ns).max(1), process, values: values.into() };
    Some(CopyExit { copy, before: cpu(*before)?, after: cpu(*after)? })
}

fn check_size(job: &TrialContext) -> Result<(), Failure> {
    if job.threads == 0 || job.threads > COPIES_MAX {
        return Err(Failure::Failed(format!("{} copies were asked for; 1 to {COPIES_MAX} can be", job.threads)));
    }
    if !job.seats.is_empty() && job.seats.len() != job.threads {
        return Err(Failure::Failed(format!("the placement has {} seats for {} copies", job.seats.len(), job.threads)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::job_for_tests;

    #[test]
    fn copies_are_seated_before_they_start_and_their_parent_goes_back() {
        let own = affinity::mask_of(0).unwrap();
        let cpu = own.iter().next().unwrap();
        let job = TrialContext { threads: 2, seats: vec![cpu; 2], ..job_for_tests("pipe-throughput") };
        let copies = run(&job, SYSTEM, &["pipe", "1000000"]).unwrap();
        let proof = ThreadBinding { asked: cpu, mask: [cpu].into_iter().collect(), before: cpu, after: cpu };
        assert_eq!(copies.seats, vec![proof; 2]);
        assert_eq!(copies.copies.len(), 2);
        assert_eq!(affinity::mask_of(0).unwrap(), own);
    }

    #[test]
    fn what_a_copy_says_at_its_end_is_the_failure() {
        let failure = run(&job_for_tests("pipe-throughput"), SYSTEM, &["nothing", "1"]).err().unwrap();
        assert!(failure.to_string().contains("there is no such test"), "{failure}");
        let job = TrialContext { threads: 2, seats: vec![CpuId(0)], ..job_for_tests("pipe-throughput") };
        assert!(run(&job, SYSTEM, &["pipe", "1"]).err().unwrap().to_string().contains("1 seats for 2 copies"));
    }

    #[test]
    fn lines_that_are_not_complete_are_no_result() {
        assert!(parse("1 2 3 4 5\n", 9).is_some());
        for line in ["", "1 2 3", "1 2 3 x", "1 2 99999999999 4"] {
            assert!(parse(line, 9).is_none(), "{line}");
        }
    }
}
