//! Observes the threads of a running service over an interval: where they may run, where they ran, how long they ran and
//! waited. Reads files of the kernel only, and changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use model::analysis::live::{Activity, ObservedThread, Rights};
use model::values::id_set::{CpuId, CpuSet, NodeSet};
use model::values::trial::CpuTime;
use model::values::units::Nanos;
use rustix::thread::CapabilitySet;

use crate::proc::Proc;
use crate::syscall::has_capability;
use crate::{cpu_times, sysfs};

/// Interval between readings of the CPUs on which threads run.
const POLL: Duration = Duration::from_millis(50);
/// Maximum number of threads that are observed.
const THREADS_MAX: usize = 65_536;

/// A service that cannot be observed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObserveError {
    #[error("all of its threads ended during the observation")]
    Ended,
    #[error("cannot read the times of the CPUs: {0}")]
    CpuTimes(String),
}

/// A thread: process, thread id, and time of its start in ticks since boot, because ids are reused.
type ThreadId = (u32, u32, u64);

/// A reading of all threads.
struct Reading {
    threads: BTreeMap<ThreadId, (Nanos, Nanos)>,
    busy: BTreeMap<CpuId, CpuTime>,
    throttled: Option<Vec<Nanos>>,
    at: Instant,
}

/// Observes the threads of processes. `processes` returns them, because a service starts and ends processes.
///
/// # Errors
/// If none of its threads lives during the whole interval, or if the kernel does not report the times of CPUs.
pub fn observe(processes: impl Fn() -> Vec<u32>, interval: Duration) -> Result<Activity, ObserveError> {
    let proc = Proc::live();
    let before = Reading::take(&proc, &processes())?;
    let cpus = watch(&proc, &before, interval);
    let after = Reading::take(&proc, &processes())?;
    let (mut threads, mut allowed_nodes) = (Vec::new(), NodeSet::new());
    for (id, (ran, waited)) in &after.threads {
        let (Some((ran_before, waited_before)), (pid, tid, _)) = (before.threads.get(id), *id) else { continue };
        let Some((name, allowed)) = proc.thread_limits(pid, tid) else { continue };
        allowed_nodes = allowed_nodes.union(&allowed.nodes.unwrap_or_default());
        threads.push(ObservedThread {
            pid,
            name,
            allowed: allowed.cpus.unwrap_or_default(),
            cpus: cpus.get(id).cloned().unwrap_or_default(),
            cpu_time: Nanos(ran.0.saturating_sub(ran_before.0)),
            wait: Nanos(waited.0.saturating_sub(waited_before.0)),
        });
    }
    if threads.is_empty() {
        return Err(ObserveError::Ended);
    }
    let all: BTreeSet<&ThreadId> = before.threads.keys().chain(after.threads.keys()).collect();
    Ok(Activity {
        interval: Nanos((after.at - before.at).as_nanos() as u64),
        short_lived: (all.len() - threads.len()) as u64,
        busy: cpu_times::between(&before.busy, &after.busy).into_iter().map(|(cpu, time)| (cpu, time.busy())).collect(),
        throttled: throttled_between(&before, &after),
        allowed_nodes: (!allowed_nodes.is_empty()).then_some(allowed_nodes),
        threads,
    })
}

/// Returns the permissions of this user to change the placement of processes.
pub fn rights(pids: &[u32]) -> Rights {
    let proc = Proc::live();
    let may_all = has_capability(CapabilitySet::SYS_NICE);
    let own = rustix::process::geteuid().as_raw();
    let are_own = pids.iter().all(|pid| proc.user(*pid).is_none_or(|user| user == own));
    Rights { affinity: may_all || are_own, pages: may_all }
}

impl Reading {
    fn take(proc: &Proc, pids: &[u32]) -> Result<Self, ObserveError> {
        let of_process = |pid: &u32| {
            let (pid, threads) = (*pid, proc.threads(*pid));
            threads.into_iter().filter_map(move |tid| {
                let started = proc.thread_stat(pid, tid)?.started;
                Some(((pid, tid, started), proc.thread_times(pid, tid)?))
            })
        };
        let throttled = pids.first().and_then(|pid| sysfs::throttled_of(Path::new("/"), &pid.to_string()).ok());
        Ok(Self {
            threads: pids.iter().flat_map(of_process).take(THREADS_MAX).collect(),
            busy: cpu_times::now().map_err(ObserveError::CpuTimes)?,
            throttled,
            at: Instant::now(),
        })
    }
}

/// Returns the CPUs on which the threads were seen during the interval.
fn watch(proc: &Proc, reading: &Reading, interval: Duration) -> BTreeMap<ThreadId, CpuSet> {
    let mut cpus: BTreeMap<ThreadId, CpuSet> = BTreeMap::new();
    loop {
        for id in reading.threads.keys() {
            if let Some(stat) = proc.thread_stat(id.0, id.1).filter(|stat| stat.started == id.2) {
                cpus.entry(*id).or_default().insert(stat.cpu);
            }
        }
        let left = interval.saturating_sub(reading.at.elapsed());
        if left.is_zero() {
            return cpus;
        }
        sleep(left.min(POLL));
    }
}

/// Returns the growth of the time for which a CPU quota stopped the service: that of the cgroup with the most.
fn throttled_between(before: &Reading, after: &Reading) -> Option<Nanos> {
    sysfs::throttled_between(before.throttled.as_ref()?, after.throttled.as_ref()?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn busy_and_idle_threads_are_distinguished() {
        let stop = AtomicBool::new(false);
        let activity = std::thread::scope(|scope| {
            let named = |name: &str| std::thread::Builder::new().name(name.into());
            let wait = || {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::park_timeout(Duration::from_millis(5));
                }
            };
            let spin = || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            let idle = named("observed-idle").spawn_scoped(scope, wait).expect("a thread");
            let busy = named("observed-busy").spawn_scoped(scope, spin).expect("a thread");
            let activity = observe(|| vec![std::process::id()], Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
            idle.join().and(busy.join()).expect("the threads end");
            activity.expect("this process is observed")
        });
        let of = |name: &str| activity.threads.iter().find(|thread| thread.name == name).expect("it was observed");
        let (idle, busy) = (of("observed-idle"), of("observed-busy"));
        assert!(busy.cpu_time.0 + busy.wait.0 > activity.interval.0 / 2, "{busy:?} in {:?}", activity.interval);
        assert!(idle.cpu_time.0 < activity.interval.0 / 4, "{idle:?}");
        assert!(!busy.cpus.is_empty() && busy.cpus.difference(&busy.allowed).is_empty(), "{busy:?}");
        assert!(activity.busy.values().map(|time| time.0).sum::<u64>() >= busy.cpu_time.0 / 2, "{:?}", activity.busy);
    }

    #[test]
    fn process_that_has_ended_is_an_error() {
        assert_eq!(observe(Vec::new, Duration::from_millis(1)), Err(ObserveError::Ended));
        let mut child = std::process::Command::new("true").spawn().expect("true starts");
        let pid = child.id();
        child.wait().expect("it ends");
        assert_eq!(observe(|| vec![pid], Duration::from_millis(1)), Err(ObserveError::Ended));
    }

    #[test]
    fn own_processes_may_be_bound() {
        assert!(rights(&[std::process::id()]).affinity);
    }
}
