//! A cgroup (version 2) around one trial. It contains every descendant, also those that leave the process group and the
//! session, and measures for how long they waited for CPUs. Limits nothing.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use model::values::undo::GROUP_PREFIX;
use model::values::units::Nanos;

use crate::proc::parse_full_pressure;
use crate::{cgroup, stale, sysfs};

/// Attempts to remove the cgroup: each moves the processes that have entered it since the last one.
const REMOVALS_MAX: u32 = 10;

/// A cgroup below that of this process. Dropping it removes it, and its processes return to the parent.
#[derive(Debug)]
pub(crate) struct TrialCgroup {
    dir: PathBuf,
}

impl TrialCgroup {
    /// Creates a cgroup.
    ///
    /// # Errors
    /// The reason why it cannot be created: no cgroup version 2, or no permission.
    pub(crate) fn create(root: &Path) -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        static STALE: Once = Once::new();
        let parent = sysfs::unified_group(root).ok_or("cgroup version 2 is not mounted")?;
        STALE.call_once(|| remove_stale(&parent));
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = parent.join(format!("{}{}-{number}", prefix(), std::process::id()));
        std::fs::create_dir(&dir).map_err(|error| format!("create a cgroup in {}: {error}", parent.display()))?;
        Ok(Self { dir })
    }

    /// Opens the file into which a process writes `0` to enter.
    pub(crate) fn entrance(&self) -> io::Result<File> {
        File::options().write(true).open(self.dir.join("cgroup.procs"))
    }

    pub(crate) fn processes(&self) -> Vec<u32> {
        cgroup::processes(&self.dir)
    }

    /// Returns the time for which its threads were ready but none of them ran on their CPU, as the mean over the CPUs in
    /// use. Threads that wait for another thread of the cgroup do not count. Linux 5.13 introduced it.
    pub(crate) fn cpu_stall(&self) -> Result<Nanos, String> {
        let path = self.dir.join("cpu.pressure");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        parse_full_pressure(&text).ok_or_else(|| format!("{} has no 'full' line", path.display()))
    }
}

impl Drop for TrialCgroup {
    fn drop(&mut self) {
        let parent = self.dir.with_file_name("cgroup.procs");
        for _ in 0..REMOVALS_MAX {
            for pid in self.processes() {
                // A process that has ended needs no cgroup.
                let _ = std::fs::write(&parent, pid.to_string());
            }
            if std::fs::remove_dir(&self.dir).is_ok() {
                return;
            }
        }
    }
}

fn prefix() -> String {
    format!("{GROUP_PREFIX}trial-")
}

/// Removes the cgroups of killed programs. The kernel refuses to remove one that contains processes.
fn remove_stale(parent: &Path) {
    let prefix = prefix();
    let pid_of = |name: &str| name.strip_prefix(&prefix)?.split_once('-')?.0.parse().ok();
    for dir in stale::stale_entries(parent, pid_of).unwrap_or_default() {
        let _ = std::fs::remove_dir(dir);
    }
}

/// Removes the cgroups that a killed program left behind.
#[cfg(test)]
pub(crate) fn remove_left_behind() {
    if let Some(parent) = sysfs::unified_group(Path::new("/")) {
        remove_stale(&parent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_is_removed_with_its_processes_inside() {
        let group = match TrialCgroup::create(Path::new("/")) {
            Ok(group) => group,
            Err(reason) => return println!("skipped: cgroup_is_removed_with_its_processes_inside: {reason}"),
        };
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        std::fs::write(group.dir.join("cgroup.procs"), child.id().to_string()).unwrap();
        assert_eq!(group.processes(), [child.id()]);
        let dir = group.dir.clone();
        drop(group);
        assert!(!dir.exists());
        assert!(child.try_wait().unwrap().is_none(), "the process continues");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn missing_hierarchy_returns_the_reason() {
        assert_eq!(TrialCgroup::create(Path::new("/nowhere")).unwrap_err(), "cgroup version 2 is not mounted");
    }
}
