//! CPU time and CPU pressure of a running service. Reads files of the kernel only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::analysis::live::CpuTotals;
use model::values::id_set::CpuSet;
use model::values::units::Nanos;

use crate::proc::{Proc, parse_pressure};
use crate::service_threads::ServiceThreads;
use crate::{cgroup, cpu_times, sysfs};

/// A thread: process, thread id, and time of its start in ticks since boot, because ids are reused.
type ThreadId = (u32, u32, u64);

/// Readings after which a thread that was not listed has ended. A list may lack threads if others end meanwhile.
const MISSED_MAX: u32 = 3;

/// Times that the threads of a service have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    pub ran: Duration,
    /// For which they were ready and waited for a CPU.
    pub waited: Duration,
}

#[derive(Debug)]
struct Seen {
    times: ThreadTimes,
    /// Readings since.
    missed: u32,
}

/// CPU time of the threads of a service, and time for which they waited for a CPU.
///
/// The time of a thread between its last reading and its end is lost.
#[derive(Debug)]
pub struct ServiceCpuTime {
    threads: ServiceThreads,
    seen: BTreeMap<ThreadId, Seen>,
    total: ThreadTimes,
    began: Instant,
}

impl ServiceCpuTime {
    /// Begins with 0.
    pub fn new(threads: ServiceThreads) -> Self {
        let mut time = Self { threads, seen: BTreeMap::new(), total: ThreadTimes::default(), began: Instant::now() };
        time.read();
        time.total = ThreadTimes::default();
        time
    }

    /// Returns the times of all threads since [`Self::new`].
    pub fn read(&mut self) -> ThreadTimes {
        let proc = Proc::live();
        self.seen.values_mut().for_each(|seen| seen.missed += 1);
        for (pid, tid) in self.threads.masks().into_keys() {
            let Some(stat) = proc.thread_stat(pid, tid) else { continue };
            let Some((ran, waited)) = proc.thread_times(pid, tid) else { continue };
            let times = ThreadTimes { ran: Duration::from_nanos(ran.0), waited: Duration::from_nanos(waited.0) };
            let before = self.seen.insert((pid, tid, stat.started), Seen { times, missed: 0 });
            let before = before.map_or_else(ThreadTimes::default, |seen| seen.times);
            self.total.ran += times.ran.saturating_sub(before.ran);
            self.total.waited += times.waited.saturating_sub(before.waited);
        }
        self.seen.retain(|_, seen| seen.missed <= MISSED_MAX);
        self.total
    }

    /// Returns the times of all threads and of these CPUs; `None` if the kernel does not report those of CPUs.
    pub fn totals(&mut self, cpus: &CpuSet) -> Option<CpuTotals> {
        let at = self.began.elapsed();
        let of_cpus = cpu_times::now().and_then(|times| cpu_times::of(&times, cpus)).ok()?;
        let ThreadTimes { ran, waited } = self.read();
        let duration = |time: Nanos| Duration::from_nanos(time.0);
        let (busy, stolen) = (duration(of_cpus.busy()), duration(of_cpus.steal));
        Some(CpuTotals { at, service: ran, waited, busy, stolen })
    }
}

/// Time for which at least one thread of a cgroup was ready and waited for a CPU.
#[derive(Debug)]
pub struct CpuPressure {
    file: PathBuf,
}

impl CpuPressure {
    /// Finds the cgroup of the service in the v2 hierarchy.
    ///
    /// # Errors
    /// If the kernel does not report its pressure, or if other processes are in the cgroup.
    pub fn open(threads: &ServiceThreads) -> Result<Self, String> {
        let pids: Vec<u32> = threads.masks().into_keys().map(|(pid, _)| pid).collect();
        let first = pids.first().ok_or("the service has ended")?;
        let group = sysfs::unified_group_of(Path::new("/"), &first.to_string());
        let group = group.ok_or("pressure needs cgroup v2, which is not mounted")?;
        let others = cgroup::processes(&group).into_iter().filter(|pid| !pids.contains(pid)).count();
        if others > 0 {
            return Err(format!("{others} other processes are in its cgroup {}", group.display()));
        }
        let pressure = Self { file: group.join("cpu.pressure") };
        pressure.read().map(|_| pressure)
    }

    /// Returns the time since the cgroup was created.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self) -> Result<Duration, String> {
        let failed = |error: String| format!("{}: {error}", self.file.display());
        let text = std::fs::read_to_string(&self.file).map_err(|error| failed(error.to_string()))?;
        let waited = parse_pressure(&text).ok_or_else(|| failed("it has no 'some' line".into()))?;
        Ok(Duration::from_nanos(waited.0))
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use model::analysis::live::CpuUse;

    use super::*;

    #[test]
    fn cpu_time_of_threads_that_begin_later_is_counted() {
        let mut shell = Command::new("sh")
            .args(["-c", "read go; sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done; read end'"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let threads = ServiceThreads::of_tree(shell.id()).unwrap();
        let mut time = ServiceCpuTime::new(threads.clone());
        assert!(time.read().ran < Duration::from_secs(1));
        std::io::Write::write_all(&mut shell.stdin.as_mut().unwrap(), b"go\n").unwrap();
        let mut line = [0; 5];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let used = time.read().ran;
        assert!(used > Duration::from_millis(1), "{used:?}");
        assert!(time.read().ran >= used, "it only grows");
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(time.read().ran >= used, "ended threads keep what they have used");
    }

    #[test]
    fn pressure_of_a_cgroup_with_other_processes_is_refused() {
        let mut sleeping = Command::new("sleep").arg("1000").spawn().unwrap();
        let refused = CpuPressure::open(&ServiceThreads::of_tree(sleeping.id()).unwrap());
        sleeping.kill().and_then(|()| sleeping.wait()).unwrap();
        let error = refused.expect_err("this process is in the same cgroup");
        assert!(error.contains("in its cgroup") || error.contains("cgroup v2"), "{error}");
    }

    /// Two programs of one thread each share a CPU, so that the one that is observed runs for half of the time, and waits
    /// for the other half.
    #[test]
    fn time_of_other_programs_on_its_cpus_is_counted() {
        let cpu = CpuSet::parse_list(&crate::affinity::mask_of(0).unwrap().iter().next().unwrap().to_string()).unwrap();
        let spin = || Command::new("taskset").args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"]).spawn();
        let (mut service, mut other) = (spin().unwrap(), spin().unwrap());
        let mut time = ServiceCpuTime::new(ServiceThreads::of_tree(service.id()).unwrap());
        let before = time.totals(&cpu).expect("/proc/stat is readable");
        std::thread::sleep(Duration::from_secs(2));
        let used = CpuUse::between(&before, &time.totals(&cpu).unwrap()).expect("two seconds");
        for child in [&mut service, &mut other] {
            child.kill().and_then(|()| child.wait()).unwrap();
        }
        // Other tests run on this CPU, too.
        assert!(used.service > 0.05 && used.service < 0.7, "{used:?}");
        assert!(used.others > 0.2 && used.waiting > 0.2, "{used:?}");
        assert!(used.service + used.others + used.stolen < 1.2, "{used:?}");
    }
}
