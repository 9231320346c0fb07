//! The process of a trial: bound before its first instruction, monitored while it runs, limited in time and output, and
//! ended with its whole process group. Never runs a shell.

mod aside;
mod awaited;
mod exit;
mod output;
mod reap;
mod server;
mod shared;
mod spawn;
mod start;
mod starter;
mod stops;
mod wait;

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use model::hint::Hinted;
use model::values::id_set::CpuSet;
use model::values::placement::MemoryPolicy;
use model::values::trial::Evidence;
use model::values::units::{Bytes, Nanos};

use crate::affinity;
use crate::descendants::Descendants;
use crate::evidence::{Counters, Leader, TrialMonitor, WatchScope};
use crate::perf;
use crate::proc::Proc;
use crate::syscall::SyscallError;
use crate::sysfs;
use crate::trial_cgroup::TrialCgroup;
use aside::Aside;
use exit::ExitWatch;
use reap::ResourceUsage;
pub use server::{Readiness, ServerCommand, ServerError, with_server};
use start::{StartProof, Started};
pub use start::{find_program, starter_pid};
use wait::{Cause, WaitOutcome, WaitPolicy};

/// Bytes of stderr that a failure message quotes.
const QUOTED_BYTES_MAX: usize = 1000;
/// Grace period between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(500);

/// A command to run, and its environment.
#[derive(Clone, Debug)]
pub struct SpawnSpec {
    /// The program (a path, or a name to search in PATH) and its arguments.
    pub argv: Vec<OsString>,
    /// Command of this program that precedes `argv`, and executes it. Empty for none.
    pub wrapper: Vec<OsString>,
    /// Variables to set in addition to the environment of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory; `None` for the current one.
    pub directory: Option<PathBuf>,
    /// Content of its standard input.
    pub stdin: Vec<u8>,
    /// CPUs it may use. If empty, those that this process was started with.
    pub cpus: CpuSet,
    /// Initial memory policy.
    pub memory: MemoryPolicy,
    /// Time limit; for a server, the limit until it is ready.
    pub time_limit: Nanos,
    /// Maximum number of bytes kept of its standard output; the rest is read, counted and discarded.
    pub output_max: Bytes,
    /// How migrations between CPUs are counted.
    pub migrations: Migrations,
    /// Whether the files that it uses are recorded on a machine with one memory node, too.
    pub lists_files: bool,
    /// A cgroup that it enters before exec; see [`crate::cgroup::MemoryCgroup::entrance`].
    pub entrance: Option<Arc<File>>,
}

impl SpawnSpec {
    /// Returns the start of a command without affinity, memory policy, input or time limit.
    pub fn new(argv: impl IntoIterator<Item = impl Into<OsString>>, output_max: Bytes) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            wrapper: Vec::new(),
            environment: Vec::new(),
            directory: None,
            stdin: Vec::new(),
            cpus: CpuSet::new(),
            memory: MemoryPolicy::Kernel,
            time_limit: Nanos(u64::MAX),
            output_max,
            migrations: Migrations::Sampled,
            lists_files: false,
            entrance: None,
        }
    }
}

/// How migrations between CPUs are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrations {
    /// From /proc/PID/sched at every sample: free, but misses migrations after the last sample of a thread.
    Sampled,
    /// By a perf event in every thread: exact, but slows every context switch by about a microsecond (pipe ping-pong
    /// took 10 to 25 % longer), so it is not suitable for timed trials.
    Counted,
}

/// The result of a trial's process.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessResult {
    pub exit: Exit,
    /// The beginning of its standard output, up to [`SpawnSpec::output_max`].
    pub stdout: Vec<u8>,
    /// Number of discarded bytes of its standard output.
    pub stdout_dropped: Bytes,
    /// The end of its standard error, up to 64 KiB.
    pub stderr: Vec<u8>,
    /// Number of discarded bytes of its standard error.
    pub stderr_dropped: Bytes,
    /// User time of the process and of the children that were waited for.
    pub user: Nanos,
    pub system: Nanos,
    /// Maximum resident set size of any of its processes.
    pub max_rss: Bytes,
    /// Evidence of its placement and of disturbances.
    pub evidence: Evidence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Exited with this status.
    Code(i32),
    Signal(i32),
    /// Ended at its time limit.
    TimedOut,
    /// Ended because the caller requested it.
    Stopped,
}

/// The reason why a process could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The program does not exist.
    #[error("cannot run '{program}': no such program")]
    NotFound {
        /// The name as given.
        program: String,
        hint: String,
    },
    /// The program must not be executed.
    #[error("cannot run '{program}': permission denied")]
    NotPermitted {
        /// The name as given.
        program: String,
        hint: String,
    },
    /// The kernel refused another operation, such as setting the affinity.
    #[error(transparent)]
    Refused(SyscallError),
    /// The killed process does not end: it is blocked by a device or a network file system.
    #[error("process {pid} was killed but does not end")]
    WillNotDie { pid: u32 },
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "status {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::TimedOut => f.write_str("its time limit"),
            Self::Stopped => f.write_str("an interruption"),
        }
    }
}

impl ProcessResult {
    /// Exit status and the last line of stderr, up to 1000 bytes: `status 3: no such file`.
    pub fn stderr_tail(&self) -> String {
        match self.stderr_end().as_str() {
            "" => self.exit.to_string(),
            words => format!("{}: {words}", self.exit),
        }
    }

    fn stderr_end(&self) -> String {
        end_of(&self.stderr)
    }

    /// Returns the end of stderr or, if stderr is empty, the last line of stdout, to which many servers write their
    /// messages. Returns an empty text if there is no output, or if the end of stdout was not kept.
    fn last_output(&self) -> String {
        match self.stderr_end() {
            words if !words.is_empty() || self.stdout_dropped > Bytes(0) => words,
            _ => end_of(&self.stdout).lines().last().unwrap_or_default().to_owned(),
        }
    }
}

fn end_of(output: &[u8]) -> String {
    String::from_utf8_lossy(&output[output.len().saturating_sub(QUOTED_BYTES_MAX)..]).trim().to_owned()
}

impl Hinted for LaunchError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { hint, .. } | Self::NotPermitted { hint, .. } => Some(hint.clone()),
            Self::Refused(refused) => refused.hint(),
            Self::WillNotDie { .. } => Some("see /proc/PID/stack for the kernel function it waits in".into()),
        }
    }
}

static ORIGINAL_MASK: OnceLock<CpuSet> = OnceLock::new();

/// Records the CPUs that this process was started with, before it changes its affinity; unbound children get them. Call
/// it first in `main`; otherwise the mask at the first launch counts.
pub fn remember_original_mask() -> CpuSet {
    ORIGINAL_MASK.get_or_init(|| affinity::mask_of(0).unwrap_or_default()).clone()
}

/// Returns true if this process was started with a signal ignored, as by nohup.
pub fn is_ignored(signal: i32) -> bool {
    let status = sysfs::read_text(Path::new("/"), "proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    // Signals are numbered from 1.
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Runs a process until it ends and collects the evidence. Setting one of `stop`, from a signal handler or another
/// thread, ends it early. While it runs, the calling thread stays off its CPUs if there are others. The remaining
/// processes of its group are killed before this returns; processes that left the group are observed, but continue.
///
/// The child is killed when the calling thread ends, even by SIGKILL; its own children are not.
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
        background: None,
    };
    observe(launch, &cpus, |started, _| wait::attend(started, orders))
}

/// The CPUs of the trial, or all CPUs if none are named.
fn seats_or(cpus: &CpuSet, all: &CpuSet) -> CpuSet {
    if cpus.is_empty() { all.clone() } else { cpus.clone() }
}

/// Starts a process, monitors it while `attend` waits for its end, and reaps it and its group.
fn observe(
    launch: &SpawnSpec,
    cpus: &CpuSet,
    attend: impl FnOnce(Started, &Descendants) -> Result<WaitOutcome, LaunchError>,
) -> Result<ProcessResult, LaunchError> {
    let proc = Proc::live();
    let follower = Follower::create(launch);
    let before = Counters::read(&proc, cpus);
    let counter = Counter::open(launch.migrations);
    // The monitoring thread starts before the trial, so that its creation does not disturb it.
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        let monitoring = {
            let proc = proc.clone();
            let watch_scope = WatchScope {
                memory: launch.memory.clone(),
                local_nodes: Some(proc.nodes_of(&launch.cpus)).filter(|nodes| !nodes.is_empty()),
                migrations_counted: launch.migrations == Migrations::Counted,
                lists_files: launch.lists_files,
                ignores_own_program: !launch.wrapper.is_empty(),
            };
            scope.spawn(move || watch(proc, watch_scope, &receive))
        };
        let mut started = start::start(launch, cpus, follower.entrance())?;
        let follower = follower.entered(started.proof.is_followed);
        let stall = follower.cpu_stall();
        let (proof, pid) = (started.proof.clone(), started.pid);
        let descendants = Descendants::of(pid, &proc, follower.group());
        // A failed send means that the monitor panicked; the join below reports it.
        let _ = send.send(Leader::observe(&proc, started.at, descendants.clone()));
        let stops = scope.spawn(move || stops::measure(pid));
        // A short program may already have ended. If this fails, `attend` reports the error.
        let _ = started.exit.as_mut().map(ExitWatch::look);
        let attended = attend(started, &descendants);
        let after = Counters::read(&proc, cpus);
        let stalled = follower.cpu_stall_since(stall);
        drop(send);
        let monitor = monitoring.join().expect("the monitor does not panic");
        let mut used = reap::all(pid, &proc)?;
        if attended.as_ref().is_ok_and(|attended| attended.may_have_orphans) {
            reap::orphans(&descendants, &mut used)?;
        }
        let stopped = stops.join().expect("the thread that waits for stops does not panic");
        let attended = attended?.drain_rest();
        let mut evidence = evidence(proof, &attended, &used, (&before, &after));
        evidence.stopped = Some(Nanos(stopped.as_nanos() as u64));
        match stalled {
            Ok(stalled) => evidence.cpu_stall = Some(stalled),
            Err(why) => drop(evidence.unavailable.insert("cpu_stall".into(), why)),
        }
        counter.explain(&mut evidence);
        if let Some(monitor) = monitor {
            monitor.into_evidence(used.max_rss, &mut evidence);
        }
        Ok(finished(attended, &used, evidence))
    })
}

/// The cgroup that follows the descendants of a trial, or the reason why there is none.
struct Follower(Result<(Arc<TrialCgroup>, File), String>);

impl Follower {
    fn create(launch: &SpawnSpec) -> Self {
        // A process is in one cgroup of version 2 only.
        if launch.entrance.is_some() {
            return Self(Err("it runs in a cgroup with a DRAM limit".into()));
        }
        let entrance = |group: TrialCgroup| {
            let file = group.entrance().map_err(|error| format!("enter a cgroup: {error}"))?;
            Ok((Arc::new(group), file))
        };
        Self(TrialCgroup::create(Path::new("/")).and_then(entrance))
    }

    fn entrance(&self) -> Option<&File> {
        self.0.as_ref().ok().map(|(_, file)| file)
    }

    fn entered(self, is_inside: bool) -> Self {
        Self(self.0.and_then(|group| if is_inside { Ok(group) } else { Err("it could not enter a cgroup".into()) }))
    }

    fn group(&self) -> Option<Arc<TrialCgroup>> {
        self.0.as_ref().ok().map(|(group, _)| Arc::clone(group))
    }

    fn cpu_stall(&self) -> Result<Nanos, String> {
        self.0.as_ref().map_err(Clone::clone).and_then(|(group, _)| group.cpu_stall())
    }

    /// Returns the growth since a reading.
    fn cpu_stall_since(&self, before: Result<Nanos, String>) -> Result<Nanos, String> {
        Ok(Nanos(self.cpu_stall()?.0.saturating_sub(before?.0)))
    }
}

/// Samples the trial from its start until the sender is dropped, and once after that.
fn watch(proc: Proc, question: WatchScope, from: &Receiver<Leader>) -> Option<TrialMonitor> {
    let leader = from.recv().ok()?;
    let mut watch = TrialMonitor::new(proc, leader, question);
    let mut pause = watch.sample();
    // No second leader is ever sent: the wait ends by timeout or with the trial.
    while matches!(from.recv_timeout(pause), Err(mpsc::RecvTimeoutError::Timeout)) {
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
        mask_at_start: Some(proof.mask),
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

/// Makes this process the reaper of orphans of a trial, so that they are visible and can be reaped.
fn adopt_orphans() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Available since Linux 3.4; without it, orphans of a trial are killed but not reaped.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    });
}

/// The migration count, if requested.
enum Counter {
    NotAsked,
    Open(std::os::fd::OwnedFd),
    Unavailable(String),
}

impl Counter {
    /// Opens counters for the trials that this thread starts from now on.
    fn open(migrations: Migrations) -> Self {
        if migrations == Migrations::Sampled {
            return Self::NotAsked;
        }
        match start::starter_pid().and_then(perf::open_migration_counter) {
            Ok(counter) => Self::Open(counter),
            Err(error) => Self::Unavailable(format!("perf_event_open: {error}")),
        }
    }

    fn explain(self, evidence: &mut Evidence) {
        let count = match self {
            Self::NotAsked => return,
            Self::Open(counter) => perf::read_counter(&counter).map_err(|error| format!("perf event: {error}")),
            Self::Unavailable(why) => Err(why),
        };
        match count {
            Ok(count) => evidence.migrations = Some(count),
            Err(why) => drop(evidence.unavailable.insert("migrations".into(), why)),
        }
    }
}

#[cfg(test)]
mod disturbance_tests;
#[cfg(test)]
mod tests;
