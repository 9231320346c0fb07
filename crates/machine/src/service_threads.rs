//! Reads and changes the CPU affinity of all threads of a running service. Must not depend on why it is changed, or on the
//! journal: the caller journals a change before the first call of [`ServiceThreads::replace`].
//!
//! Threads inherit the affinity of the thread that creates them, so a thread that begins while others are being changed
//! may keep an old one. All threads are therefore read again until several rounds in a row find nothing to change.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use model::analysis::live::ServiceIdentity;
use model::values::id_set::CpuSet;
use model::values::undo::{ANY_CPU, ServiceProcesses};

use crate::affinity::refusal;
use crate::proc::Proc;
use crate::residency::{descendants, processes_in};
use crate::syscall::{self, CpuMask};
use crate::sysfs;
use crate::undo::boot_id;

/// Rounds without a change after which no thread is believed to have been missed. After one such round, threads that
/// lived for 5 µs each were missed in one of 40 trials, after three in none of 130.
const CLEAN_ROUNDS: u32 = 3;
/// Pause after a round without a change. A thread that was interrupted while it created another one needs time to finish.
const CLEAN_PAUSE: Duration = Duration::from_millis(2);
/// Time for which threads are searched for that were being created during the last change, and pause between the searches.
const LATE: Duration = Duration::from_secs(1);
const LATE_PAUSE: Duration = Duration::from_millis(100);
/// Time limit for the rounds. 64 threads that create others took 0.55 s at most.
const ROUNDS_TIMEOUT: Duration = Duration::from_secs(5);

/// A thread: process and thread id.
type ThreadId = (u32, u32);

/// CPU affinity to give to threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mask {
    /// All CPUs that the cpuset allows, now and after it grows. A thread that never had an affinity must get this one back,
    /// because the kernel would keep a list of the same CPUs when the cpuset grows.
    Any,
    Only(CpuSet),
}

/// The affinity of most threads of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundMask {
    pub mask: Mask,
    /// The CPUs on which they may run.
    pub cpus: CpuSet,
    /// Number of threads with this affinity.
    pub threads: usize,
    /// Other affinities, with their numbers of threads. The program has set them itself.
    pub others: BTreeMap<CpuSet, usize>,
}

/// The threads of a running service.
#[derive(Clone, Debug)]
pub struct ServiceThreads {
    processes: ServiceProcesses,
}

impl Mask {
    /// Parses the notation of the journal.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == ANY_CPU { Ok(Self::Any) } else { CpuSet::parse_list(text).map(Self::Only) }
    }

    fn to_kernel(&self) -> io::Result<CpuMask> {
        match self {
            Self::Any => Ok(CpuMask::ALL),
            Self::Only(cpus) => CpuMask::from_set(cpus).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }
}

/// `all allowed CPUs` or `0-3`.
impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str(ANY_CPU),
            Self::Only(cpus) => cpus.fmt(f),
        }
    }
}

impl ServiceThreads {
    pub fn new(processes: ServiceProcesses) -> Self {
        Self { processes }
    }

    /// Returns the threads of a process and its descendants, or `None` if the process has ended.
    pub fn of_tree(pid: u32) -> Option<Self> {
        let started = Proc::live().thread_stat(pid, pid)?.started;
        Some(Self::new(ServiceProcesses::Tree { pid, started }))
    }

    pub fn processes(&self) -> &ServiceProcesses {
        &self.processes
    }

    /// Returns what distinguishes the service from others, and from itself after a restart: its oldest process. `None` if it
    /// has ended.
    pub fn identity(&self) -> Option<ServiceIdentity> {
        let proc = Proc::live();
        let started = |pid: u32| Some((proc.thread_stat(pid, pid)?.started, pid));
        let (started, pid) = self.pids(&proc).into_iter().filter_map(started).min()?;
        Some(ServiceIdentity { pid, started, boot: boot_id(Path::new("/")) })
    }

    /// Returns the affinity of most threads; `None` if the service has ended.
    pub fn found(&self) -> Option<FoundMask> {
        let masks = self.masks();
        let mut others: BTreeMap<CpuSet, usize> = BTreeMap::new();
        masks.values().for_each(|mask| *others.entry(mask.clone()).or_default() += 1);
        let (cpus, threads) =
            others.iter().max_by_key(|(cpus, threads)| (**threads, cpus.len())).map(|(c, t)| (c.clone(), *t))?;
        others.remove(&cpus);
        let (pid, _) = masks.iter().find(|(_, mask)| **mask == cpus)?.0;
        let mask =
            if allowed_cpus(*pid).is_none_or(|allowed| allowed == cpus) { Mask::Any } else { Mask::Only(cpus.clone()) };
        Some(FoundMask { mask, cpus, threads, others })
    }

    /// Returns the CPUs on which each thread may run.
    pub fn masks(&self) -> BTreeMap<ThreadId, CpuSet> {
        let proc = Proc::live();
        let of_process = |pid: u32| proc.threads(pid).into_iter().map(move |tid| (pid, tid));
        let threads = self.pids(&proc).into_iter().flat_map(of_process);
        // A process that has ended keeps its affinity until its parent asks for its exit status.
        let runs =
            |(pid, tid): &ThreadId| proc.thread_stat(*pid, *tid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'));
        threads
            .filter(runs)
            .filter_map(|(pid, tid)| Some(((pid, tid), syscall::affinity(tid).ok()?.to_set())))
            .collect()
    }

    /// Sets the affinity of all threads that have one of `from`, and returns the number of calls. Threads with another
    /// affinity are not changed. `from` must not contain the CPUs that the kernel reports for `to`.
    ///
    /// # Errors
    /// If the kernel refuses, or if threads begin faster than they can be changed.
    pub fn replace(&self, from: &[Mask], to: &Mask) -> io::Result<usize> {
        let (proc, mask, end) = (Proc::live(), to.to_kernel()?, Instant::now() + ROUNDS_TIMEOUT);
        let from: Vec<CpuMask> = from.iter().map(Mask::to_kernel).collect::<Result<_, _>>()?;
        let (mut clean, mut calls) = (0, 0);
        while clean < CLEAN_ROUNDS {
            let changed = self.round(&proc, &from, to, &mask)?;
            calls += changed;
            if changed > 0 {
                clean = 0;
            } else {
                clean += 1;
                std::thread::sleep(CLEAN_PAUSE);
            }
            if Instant::now() > end {
                let why = format!("threads begin faster than their affinity can be changed ({calls} changes)");
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
        Ok(calls)
    }

    /// Like [`Self::replace`], and looks again for a second: a process whose creation was interrupted for longer than the
    /// rounds take would otherwise keep its affinity for good.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn replace_for_good(&self, from: &[Mask], to: &Mask) -> io::Result<()> {
        let end = Instant::now() + LATE;
        self.replace(from, to)?;
        while Instant::now() < end {
            std::thread::sleep(LATE_PAUSE);
            self.replace(from, to)?;
        }
        Ok(())
    }

    /// Changes the threads that exist, parents before their descendants, and returns their number.
    fn round(&self, proc: &Proc, from: &[CpuMask], to: &Mask, mask: &CpuMask) -> io::Result<usize> {
        let mut changed = 0;
        for pid in self.pids(proc) {
            for tid in proc.threads(pid) {
                let Ok(present) = syscall::affinity(tid) else { continue };
                if present == *mask || !from.contains(&present) {
                    continue;
                }
                match syscall::set_affinity(tid, mask) {
                    Ok(()) => changed += 1,
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => return Err(refused(pid, tid, to, &error)),
                }
            }
        }
        Ok(changed)
    }

    /// Returns its processes, parents first.
    fn pids(&self, proc: &Proc) -> Vec<u32> {
        match &self.processes {
            ServiceProcesses::Tree { pid, started } => {
                let lives = proc.thread_stat(*pid, *pid).is_some_and(|stat| stat.started == *started);
                if lives { descendants(*pid) } else { Vec::new() }
            }
            ServiceProcesses::Cgroup(path) => processes_in(&Path::new("/").join(path)).unwrap_or_default(),
        }
    }
}

/// Returns the CPUs that a process without an affinity may use.
fn allowed_cpus(pid: u32) -> Option<CpuSet> {
    let root = Path::new("/");
    sysfs::cpuset_of(root, pid).or_else(|| sysfs::read_list(root, "sys/devices/system/cpu/online"))
}

fn refused(pid: u32, tid: u32, to: &Mask, error: &io::Error) -> io::Error {
    let cpus = match to {
        Mask::Any => CpuSet::new(),
        Mask::Only(cpus) => cpus.clone(),
    };
    let hint = refusal(&cpus, error).hint.map_or_else(String::new, |hint| format!("; {hint}"));
    io::Error::new(
        error.kind(),
        format!("thread {tid} of process {pid}: cannot set the affinity to {to}: {error}{hint}"),
    )
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A shell with two descendants, ended with the test.
    struct Service(Child);

    impl Service {
        fn start(script: &str) -> Self {
            let child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().expect("sh starts");
            let mut service = Self(child);
            let mut line = String::new();
            let stdout = service.0.stdout.as_mut().expect("a pipe");
            io::BufRead::read_line(&mut io::BufReader::new(stdout), &mut line).expect("it reports that it runs");
            service
        }

        fn threads(&self) -> ServiceThreads {
            ServiceThreads::of_tree(self.0.id()).expect("it runs")
        }
    }

    impl Drop for Service {
        fn drop(&mut self) {
            for pid in descendants(self.0.id()).into_iter().rev() {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
            }
            let _ = self.0.wait();
        }
    }

    const THREE_PROCESSES: &str = "sleep 600 & sleep 600 & echo ready; wait";

    fn two_cpus() -> Option<(CpuSet, Mask, Mask)> {
        let all = crate::affinity::mask_of(0).unwrap();
        let one = |at: usize| all.iter().nth(at).map(|cpu| Mask::Only([cpu].into_iter().collect()));
        Some((all.clone(), one(0)?, one(1)?))
    }

    #[test]
    fn all_threads_are_changed_and_given_back() {
        let name = "all_threads_are_changed_and_given_back";
        let Some((all, first, second)) = two_cpus() else { return println!("skipped: {name}: it needs two CPUs") };
        let service = Service::start(THREE_PROCESSES);
        let threads = service.threads();
        let found = threads.found().unwrap();
        assert_eq!((found.cpus.clone(), found.threads, found.others.len()), (all.clone(), 3, 0));
        let here = Mask::Only(found.cpus.clone());
        assert_eq!(threads.replace(&[here.clone(), second.clone()], &first).unwrap(), 3);
        assert_eq!(threads.replace(&[here, second.clone()], &first).unwrap(), 0, "nothing is left to change");
        assert!(threads.masks().values().all(|mask| Mask::Only(mask.clone()) == first), "{:?}", threads.masks());
        assert_eq!(threads.replace(&[first, second], &found.mask).unwrap(), 3);
        assert_eq!(threads.found().unwrap(), found);
    }

    #[test]
    fn affinity_that_the_program_set_itself_is_kept() {
        let name = "affinity_that_the_program_set_itself_is_kept";
        let Some((all, first, second)) = two_cpus() else { return println!("skipped: {name}: it needs two CPUs") };
        let pinned = all.iter().nth(1).expect("a second CPU");
        let service =
            Service::start(&format!("sleep 600 & taskset -c {pinned} sh -c 'echo ready; exec sleep 600' & wait"));
        let threads = service.threads();
        let found = threads.found().unwrap();
        assert_eq!((found.threads, found.others.values().sum::<usize>()), (2, 1));
        threads.replace(&[Mask::Only(found.cpus.clone())], &first).unwrap();
        let kept = threads.masks().into_values().filter(|mask| Mask::Only(mask.clone()) == second).count();
        assert_eq!(kept, 1);
        threads.replace(&[first], &found.mask).unwrap();
        assert_eq!(threads.found().unwrap(), found);
    }

    /// Each process lives for a moment, so that every round meets other ones. On a busy machine, one that is still being
    /// created may be missed; an experiment then does not count the period.
    #[test]
    fn processes_that_begin_meanwhile_are_changed() {
        let name = "processes_that_begin_meanwhile_are_changed";
        let Some((_, first, second)) = two_cpus() else { return println!("skipped: {name}: it needs two CPUs") };
        let service = Service::start("echo ready; while :; do (true); done");
        let threads = service.threads();
        let found = threads.found().unwrap();
        let mut from = vec![Mask::Only(found.cpus.clone()), first.clone(), second.clone()];
        let mut missed = 0;
        for turn in 0..20 {
            let to = if turn % 2 == 0 { &first } else { &second };
            threads.replace(&from, to).unwrap();
            let is_set = || threads.masks().values().all(|mask| Mask::Only(mask.clone()) == *to);
            missed += u32::from(!(0..20).all(|_| is_set()));
        }
        assert!(missed <= 4, "processes were missed in {missed} of 20 changes");
        from.remove(0);
        threads.replace(&from, &found.mask).unwrap();
        assert_eq!(threads.found().unwrap().cpus, found.cpus);
    }

    #[test]
    fn service_that_has_ended_has_no_threads() {
        let mut child = Command::new("true").spawn().unwrap();
        let started = Proc::live().thread_stat(child.id(), child.id()).map_or(0, |stat| stat.started);
        let threads = ServiceThreads::new(ServiceProcesses::Tree { pid: child.id(), started });
        while threads.found().is_some() {
            std::thread::yield_now();
        }
        assert!(Proc::live().thread_stat(child.id(), child.id()).is_some(), "it was not waited for");
        child.wait().unwrap();
        assert_eq!((threads.found(), threads.replace(&[Mask::Any], &Mask::Any).unwrap()), (None, 0));
        let other = ServiceProcesses::Tree { pid: std::process::id(), started: 1 };
        assert_eq!(ServiceThreads::new(other).found(), None, "another process with the same id");
    }

    #[test]
    fn masks_are_parsed_as_they_are_written() {
        for mask in [Mask::Any, Mask::Only(CpuSet::parse_list("0-3,7").unwrap())] {
            assert_eq!(Mask::parse(&mask.to_string()), Ok(mask));
        }
        assert!(Mask::parse("all").is_err());
    }
}
