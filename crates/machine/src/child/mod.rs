//! The process of a trial: seated before its first instruction, watched while it runs, bounded in time and output,
//! and gone with all its process group afterwards. Never a shell.

mod aside;
mod output;
mod reap;
mod server;
mod start;
mod wait;

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Once, OnceLock};
use std::time::{Duration, Instant};

use model::placements::placement::MemoryPolicy;
use model::values::id_set::CpuSet;
use model::values::trial::Evidence;
use model::values::units::{Bytes, Nanos};

use crate::affinity;
use crate::evidence::{Counters, TrialMonitor, WatchScope};
use crate::proc::Proc;
use crate::syscall::{self, SyscallError};
use crate::sysfs;
use aside::Aside;
use reap::ResourceUsage;
pub use server::{Readiness, ServerCommand, ServerError, with_server};
pub use start::find_program;
use start::{StartProof, Started};
use wait::{Cause, WaitOutcome, WaitPolicy};

/// How much of stderr a failure quotes.
const QUOTED_BYTES_MAX: usize = 1000;
/// What a program gets between being asked to end and being killed.
const GRACE: Duration = Duration::from_millis(500);

/// What is to be run, and where.
#[derive(Clone, Debug)]
pub struct SpawnSpec {
    /// The program (a path, or a name to look for in PATH) and its arguments.
    pub argv: Vec<OsString>,
    /// Variables to set on top of our own environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it runs; none is here.
    pub directory: Option<PathBuf>,
    /// What it can read from its standard input.
    pub stdin: Vec<u8>,
    /// The cpus it may use; empty leaves it those that this process was started with.
    pub cpus: CpuSet,
    /// The memory policy it starts with.
    pub memory: MemoryPolicy,
    /// Longer than this and it is stopped; for a server: until it is ready.
    pub time_limit: Nanos,
    /// How much of its standard output is kept; the rest is read, counted and dropped.
    pub output_max: Bytes,
    /// How its moves from cpu to cpu are counted.
    pub migrations: Migrations,
    /// A cgroup that it enters before it becomes the program; see [`crate::cgroup::MemoryCgroup::entrance`].
    pub entrance: Option<Arc<File>>,
}

/// How moves from cpu to cpu are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrations {
    /// From /proc/PID/sched at every look: free, and misses what threads did after the last look at them.
    Sampled,
    /// By a perf event in every thread: exact, and it slows every switch between threads (by about a microsecond; pipe
    /// ping-pong ran 10 to 25 % longer), so it is not for trials whose time matters.
    Counted,
}

/// A trial's process that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessResult {
    pub exit: Exit,
    /// The beginning of its standard output, up to [`SpawnSpec::output_max`].
    pub stdout: Vec<u8>,
    /// How much of its standard output was not kept.
    pub stdout_dropped: Bytes,
    /// The end of its standard error, up to 64 KiB.
    pub stderr: Vec<u8>,
    /// How much of its standard error was not kept.
    pub stderr_dropped: Bytes,
    /// Time in user mode, of it and the children that were waited for.
    pub user: Nanos,
    pub system: Nanos,
    /// The most memory that one of its processes had resident.
    pub max_rss: Bytes,
    /// What proved its placement, and what disturbed it.
    pub evidence: Evidence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    Signal(i32),
    /// We stopped it at its time limit.
    TimedOut,
    /// We stopped it because we were told to stop.
    Stopped,
}

/// Why a process could not be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchError {
    /// There is no such program.
    NotFound {
        /// As it was asked for.
        program: String,
        hint: String,
    },
    /// The program may not be run.
    NotPermitted {
        /// As it was asked for.
        program: String,
        hint: String,
    },
    /// The kernel refused something else, such as the seats.
    Refused(SyscallError),
    /// It was killed and did not go: a device or a network file system holds it.
    WillNotDie { pid: u32 },
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "status {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::TimedOut => f.write_str("its time limit"),
            Self::Stopped => f.write_str("being stopped"),
        }
    }
}

impl ProcessResult {
    /// How it ended, and the last of what it said on stderr, up to 1000 bytes: `status 3: no such file`.
    pub fn stderr_tail(&self) -> String {
        match self.stderr_end().as_str() {
            "" => self.exit.to_string(),
            words => format!("{}: {words}", self.exit),
        }
    }

    fn stderr_end(&self) -> String {
        let tail = &self.stderr[self.stderr.len().saturating_sub(QUOTED_BYTES_MAX)..];
        String::from_utf8_lossy(tail).trim().to_owned()
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { program, .. } => write!(f, "cannot run '{program}': no such program"),
            Self::NotPermitted { program, .. } => write!(f, "cannot run '{program}': permission denied"),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::WillNotDie { pid } => write!(f, "process {pid} was killed and does not go away"),
        }
    }
}

impl std::error::Error for LaunchError {}

impl LaunchError {
    /// The next step, where one is known.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::NotFound { hint, .. } | Self::NotPermitted { hint, .. } => Some(hint),
            Self::Refused(refusal) => refusal.hint.as_deref(),
            Self::WillNotDie { .. } => Some("see /proc/PID/stack for what it waits for in the kernel"),
        }
    }
}

static ORIGINAL_MASK: OnceLock<CpuSet> = OnceLock::new();

/// Remembers the cpus that this process was started with, before it moves itself anywhere; unbound children get
/// these. To be called first in `main`; otherwise the mask of the first launch counts.
pub fn remember_original_mask() -> CpuSet {
    ORIGINAL_MASK.get_or_init(|| affinity::mask_of(0).unwrap_or_default()).clone()
}

/// Whether this process was started with a signal ignored, as nohup and shells do for what is to outlive them.
pub fn is_ignored(signal: i32) -> bool {
    let status = sysfs::read_text(Path::new("/"), "proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    // Signals count from 1.
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Runs a process to its end, and gathers the evidence. Set one of `stop` to end it early, from a signal handler or
/// another thread. While it runs, the calling thread stays off its cpus if there are others. Whatever is left of its
/// process group is killed before this returns; processes that left the group are not followed.
///
/// The child dies with the thread that calls this, even when that is killed; its own children then do not.
pub fn run(launch: &SpawnSpec, stop: &[&AtomicBool]) -> Result<ProcessResult, LaunchError> {
    let original = remember_original_mask();
    let cpus = seats_or(&launch.cpus, &original);
    adopt_orphans();
    let _aside = Aside::from(&original, &[&cpus]);
    let orders = WaitPolicy {
        output_max: launch.output_max,
        time_limit: Some(Duration::from_nanos(launch.time_limit.0)),
        stop,
        hang_up: None,
        grace: GRACE,
        lines: None,
    };
    observe(launch, &cpus, |started| wait::attend(started, orders))
}

/// The seats, or all that there are when none are named.
fn seats_or(cpus: &CpuSet, all: &CpuSet) -> CpuSet {
    if cpus.is_empty() { all.clone() } else { cpus.clone() }
}

/// Starts a process, watches it while `attend` waits for its end, and reaps it and its group.
fn observe(
    launch: &SpawnSpec,
    cpus: &CpuSet,
    attend: impl FnOnce(Started) -> Result<WaitOutcome, LaunchError>,
) -> Result<ProcessResult, LaunchError> {
    let proc = Proc::live();
    let before = Counters::read(&proc, cpus);
    let counter = Counter::open(launch.migrations);
    // The watching thread is there before the trial starts, so that its creation disturbs nobody.
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        let watching = {
            let proc = proc.clone();
            let question = WatchScope {
                memory: launch.memory.clone(),
                local_nodes: Some(proc.nodes_of(&launch.cpus)).filter(|nodes| !nodes.is_empty()),
                migrations_counted: launch.migrations == Migrations::Counted,
            };
            scope.spawn(move || watch(proc, question, &receive))
        };
        let started = start::start(launch, cpus)?;
        // A watcher that is gone has panicked, and the join below says so.
        let _ = send.send(Some((started.pid, started.at)));
        let (proof, pid) = (started.proof.clone(), started.pid);
        let attended = attend(started);
        let after = Counters::read(&proc, cpus);
        drop(send);
        let watch = watching.join().expect("looking at a process has no reason to panic");
        let used = reap::all(pid, &proc)?;
        let attended = attended?.drain_rest();
        let mut evidence = evidence(proof, &attended, &used, (&before, &after));
        counter.explain(&mut evidence);
        if let Some(watch) = watch {
            watch.into_evidence(&mut evidence);
        }
        Ok(finished(attended, &used, evidence))
    })
}

type Leader = Option<(u32, Instant)>;

/// Looks at the trial from its start until the sender is dropped, and once more then.
fn watch(proc: Proc, question: WatchScope, from: &Receiver<Leader>) -> Option<TrialMonitor> {
    let (leader, started) = from.recv().ok().flatten()?;
    let mut watch = TrialMonitor::new(proc, leader, started, question);
    let mut pause = watch.sample();
    // Nothing more is ever sent: the wait ends with the time or with the trial.
    while from.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout) {
        pause = watch.sample();
    }
    watch.sample();
    Some(watch)
}

fn evidence(
    proof: StartProof,
    attended: &WaitOutcome,
    used: &ResourceUsage,
    counters: (&Counters, &Counters),
) -> Evidence {
    let mut evidence = Evidence {
        mask_at_start: proof.mask,
        switches_voluntary: Some(used.switches_voluntary),
        switches_involuntary: Some(used.switches_involuntary),
        faults_major: Some(used.faults_major),
        faults_minor: Some(used.faults_minor),
        wall: Nanos(attended.ended.duration_since(attended.began).as_nanos() as u64),
        cpu_time: Nanos(used.user.0 + used.system.0),
        ..Evidence::default()
    };
    match proof.memory_policy {
        Ok(words) => evidence.memory_policy = Some(words),
        Err(why) => drop(evidence.unavailable.insert("memory_policy".into(), why.to_string())),
    }
    Counters::explain(counters.0, counters.1, &mut evidence);
    evidence
}

fn finished(attended: WaitOutcome, used: &ResourceUsage, evidence: Evidence) -> ProcessResult {
    let exit = match attended.cause {
        Cause::Itself => used.exit,
        Cause::TimeLimit => Exit::TimedOut,
        Cause::Stop => Exit::Stopped,
    };
    let (stdout, stdout_dropped) = attended.stdout.into_parts();
    let (stderr, stderr_dropped) = attended.stderr.into_parts();
    ProcessResult {
        exit,
        stdout,
        stdout_dropped,
        stderr,
        stderr_dropped,
        user: used.user,
        system: used.system,
        max_rss: used.max_rss,
        evidence,
    }
}

/// Makes orphans of a trial ours, so that they can be seen, and waited for after being killed.
fn adopt_orphans() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Linux has it since 3.4; without it, orphans of a trial are killed and not waited for.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    });
}

/// The count of migrations, if it was asked for.
enum Counter {
    NotAsked,
    Open(std::os::fd::OwnedFd),
    Unavailable(String),
}

impl Counter {
    /// Counts for processes that this thread forks from now on.
    fn open(migrations: Migrations) -> Self {
        if migrations == Migrations::Sampled {
            return Self::NotAsked;
        }
        match syscall::open_migration_counter() {
            Ok(counter) => Self::Open(counter),
            Err(error) => Self::Unavailable(format!("perf_event_open: {error}")),
        }
    }

    fn explain(self, evidence: &mut Evidence) {
        let count = match self {
            Self::NotAsked => return,
            Self::Open(counter) => syscall::read_counter(&counter).map_err(|error| format!("perf event: {error}")),
            Self::Unavailable(why) => Err(why),
        };
        match count {
            Ok(count) => evidence.migrations = Some(count),
            Err(why) => drop(evidence.unavailable.insert("migrations".into(), why)),
        }
    }
}

#[cfg(test)]
mod tests;
