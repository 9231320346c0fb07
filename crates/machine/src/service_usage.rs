//! CPU time and CPU pressure of a running service. Reads files of the kernel only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::proc::{Proc, parse_pressure};
use crate::service_threads::ServiceThreads;
use crate::{cgroup, sysfs};

/// A thread: process, thread id, and time of its start in ticks since boot, because ids are reused.
type ThreadId = (u32, u32, u64);

/// Readings after which a thread that was not listed has ended. A list may lack threads if others end meanwhile.
const MISSED_MAX: u32 = 3;

#[derive(Debug)]
struct Seen {
    ran: Duration,
    /// Readings since.
    missed: u32,
}

/// CPU time of the threads of a service.
///
/// The time of a thread between its last reading and its end is lost.
#[derive(Debug)]
pub struct ServiceCpuTime {
    threads: ServiceThreads,
    seen: BTreeMap<ThreadId, Seen>,
    total: Duration,
}

impl ServiceCpuTime {
    /// Begins with 0.
    pub fn new(threads: ServiceThreads) -> Self {
        let mut time = Self { threads, seen: BTreeMap::new(), total: Duration::ZERO };
        time.read();
        time.total = Duration::ZERO;
        time
    }

    /// Returns the time that all threads have used since [`Self::new`].
    pub fn read(&mut self) -> Duration {
        let proc = Proc::live();
        self.seen.values_mut().for_each(|seen| seen.missed += 1);
        for (pid, tid) in self.threads.masks().into_keys() {
            let Some(stat) = proc.thread_stat(pid, tid) else { continue };
            let Some((ran, _)) = proc.thread_times(pid, tid) else { continue };
            let ran = Duration::from_nanos(ran.0);
            let before = self.seen.insert((pid, tid, stat.started), Seen { ran, missed: 0 });
            self.total += ran.saturating_sub(before.map_or(Duration::ZERO, |seen| seen.ran));
        }
        self.seen.retain(|_, seen| seen.missed <= MISSED_MAX);
        self.total
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
        assert!(time.read() < Duration::from_secs(1));
        std::io::Write::write_all(&mut shell.stdin.as_mut().unwrap(), b"go\n").unwrap();
        let mut line = [0; 5];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let used = time.read();
        assert!(used > Duration::from_millis(1), "{used:?}");
        assert!(time.read() >= used, "it only grows");
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(time.read() >= used, "ended threads keep what they have used");
    }

    #[test]
    fn pressure_of_a_cgroup_with_other_processes_is_refused() {
        let mut sleeping = Command::new("sleep").arg("1000").spawn().unwrap();
        let refused = CpuPressure::open(&ServiceThreads::of_tree(sleeping.id()).unwrap());
        sleeping.kill().and_then(|()| sleeping.wait()).unwrap();
        let error = refused.expect_err("this process is in the same cgroup");
        assert!(error.contains("in its cgroup") || error.contains("cgroup v2"), "{error}");
    }
}
