//! Probes this machine for disturbances and missing features besides its settings: load, throttling, free disk space,
//! daemons, counters. Must not assess the results: `model::analysis::doctor` does.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use model::analysis::doctor::{Counters, Load, Probes};
use model::values::topology::Movability;
use model::values::units::{Bytes, Nanos};

use crate::file_mapping::FileMapping;
use crate::proc::Proc;
use crate::undo::{self, SettingsRoot};
use crate::{cpu_times, expand_probes, interrupt, nodes, perf, residency, sysfs, text_copy, tune};

/// Duration of the load measurement: fifty ticks of /proc/stat, so that one tick is 2 % of a CPU.
const LOAD_INTERVAL: Duration = Duration::from_millis(500);

/// Probes this machine, which takes half a second. `results` is the path for results, which need not exist.
pub fn read(results: &Path, site: &SettingsRoot) -> Probes {
    let root = Path::new("/");
    Probes {
        load: load(),
        throttled: throttled(root),
        free: free_disk_bytes(results),
        irqbalance: tune::irqbalance_runs(root),
        pending_restores: undo::pending(site).map_err(|error| error.what),
        root: rustix::process::geteuid().is_root(),
        counters: counters(),
        nodes: Proc::live().memory_node_count(),
        managed_interrupts: managed_interrupts(root),
        page_nodes: page_nodes().map_err(|error| error.to_string()),
        cached_page_nodes: cached_page_nodes().map_err(|error| error.to_string()),
        text_copies: text_copy::check_permitted().map_err(|error| error.to_string()),
        weighted_interleave: nodes::kernel_offers().weighted_interleave,
        expand: expand_probes::read(root),
    }
}

/// Measures the load of other processes; this one sleeps meanwhile.
fn load() -> Result<Load, String> {
    let cpus = sysfs::read_list(Path::new("/"), "sys/devices/system/cpu/online")
        .ok_or("/sys/devices/system/cpu/online cannot be read")?;
    let proc = Proc::live();
    let before = proc.cpu_times()?;
    std::thread::sleep(LOAD_INTERVAL);
    let interval = cpu_times::of(&cpu_times::between(&before, &proc.cpu_times()?), &cpus)?;
    let milli = |time: Nanos| time.0.saturating_mul(1000) / LOAD_INTERVAL.as_nanos() as u64;
    Ok(Load { busy_milli: milli(interval.busy()), steal_milli: milli(interval.steal), cpus: cpus.len() as u64 })
}

/// Queries the node of a page of this process.
fn page_nodes() -> io::Result<()> {
    let resident = 0_u8;
    residency::query(0, &[(&raw const resident).addr() as u64]).map(|_| ())
}

/// Queries the node of a cached page of this program.
fn cached_page_nodes() -> io::Result<()> {
    let mapping = FileMapping::new(&File::open("/proc/self/exe")?, 0, 1)?;
    mapping.populate(0, 1)?;
    residency::query(0, &[mapping.address(0)]).map(|_| ())
}

fn counters() -> Counters {
    match perf::open_cycle_counter() {
        Ok(_) => Counters::Work,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Counters::Forbidden(format!("perf_event_open: {error}"))
        }
        Err(error) => Counters::Missing(format!("perf_event_open: {error}")),
    }
}

/// Returns the largest throttle count of all cores and packages since boot (x86 only).
fn throttled(root: &Path) -> Result<u64, String> {
    let dir = root.join("sys/devices/system/cpu");
    let counts = sysfs::names(&dir).into_iter().filter_map(|cpu| {
        let dir = dir.join(cpu).join("thermal_throttle");
        let count = |name: &str| sysfs::read_text(&dir, name).ok()?.parse::<u64>().ok();
        count("core_throttle_count").into_iter().chain(count("package_throttle_count")).max()
    });
    // All CPUs of a package report the package's count, so take the maximum, not the sum.
    counts.max().ok_or_else(|| "this kernel does not count thermal throttling".into())
}

/// Returns the free space on the file system of a directory that need not exist yet, or the system's error.
pub fn free_disk_bytes(directory: &Path) -> Result<Bytes, String> {
    let existing = directory.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(Path::new("."));
    let stat = rustix::fs::statvfs(existing).map_err(|error| format!("{}: {error}", existing.display()))?;
    Ok(Bytes(stat.f_bavail.saturating_mul(stat.f_frsize)))
}

/// Returns the names of managed interrupts, whose affinity the kernel sets. If the kernel does not report whether an
/// interrupt is managed, queues of `NVMe` and virtio disks count as managed, because their drivers always request it.
fn managed_interrupts(root: &Path) -> Vec<String> {
    let is_managed = |line: &sysfs::InterruptLine| match interrupt::movability(root, line.number) {
        Movability::Managed => true,
        Movability::Movable => false,
        Movability::Unknown => is_queue_of_disk(&line.name),
    };
    sysfs::interrupt_lines(root).into_iter().filter(is_managed).map(|line| line.name).collect()
}

/// Matches `nvme0q3` and `virtio1-req.0`, but not the admin queue `nvme0q0`.
fn is_queue_of_disk(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let nvme = name.strip_prefix("nvme").and_then(|rest| rest.split_once('q'));
    let virtio = name.strip_prefix("virtio").and_then(|rest| rest.split_once("-req."));
    nvme.is_some_and(|(disk, queue)| digits(disk) && digits(queue) && queue != "0")
        || virtio.is_some_and(|(disk, queue)| digits(disk) && digits(queue))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;

    #[test]
    fn managed_interrupts_are_found_by_name_or_debugfs() {
        let lines = "   CPU0\n 7: 1 MSI 7-edge nvme0q0\n 8: 1 MSI 8-edge nvme0q1\n 9: 1 MSI 9-edge virtio1-req.0\n \
                     10: 1 MSI 1-edge eth0\n";
        let dir = tree(&[("proc/interrupts", lines)]);
        assert_eq!(managed_interrupts(dir.path()), ["nvme0q1", "virtio1-req.0"]);
        let dir = tree(&[
            ("proc/interrupts", lines),
            ("sys/kernel/debug/irq/irqs/8", "dstate: 0x1\n  IRQD_ACTIVATED\n"),
            ("sys/kernel/debug/irq/irqs/9", "dstate: 0x1\n  IRQD_ACTIVATED\n"),
            ("sys/kernel/debug/irq/irqs/10", "dstate: 0x1\n  IRQD_AFFINITY_MANAGED\n"),
        ]);
        assert_eq!(managed_interrupts(dir.path()), ["eth0"]);
    }

    #[test]
    fn throttle_count_is_the_maximum() {
        const CPU: &str = "sys/devices/system/cpu";
        let path = |rest: &str| format!("{CPU}/{rest}");
        let dir = tree(&[
            (path("cpu0/thermal_throttle/core_throttle_count"), "2\n"),
            (path("cpu0/thermal_throttle/package_throttle_count"), "7\n"),
            (path("cpu1/thermal_throttle/package_throttle_count"), "7\n"),
        ]);
        assert_eq!(throttled(dir.path()), Ok(7));
        assert!(throttled(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn free_space_of_a_missing_directory_is_that_of_its_ancestor() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_disk_bytes(&dir.path().join("a/b")).unwrap() > Bytes(0));
    }

    #[test]
    fn this_machine_is_probed() {
        let dir = tempfile::tempdir().unwrap();
        let probes = read(dir.path(), &SettingsRoot { root: "/".into(), state: dir.path().into() });
        let load = probes.load.unwrap();
        assert!(load.cpus > 0);
        // A tick may be counted late, so the sum may slightly exceed the maximum.
        assert!(load.busy_milli + load.steal_milli <= load.cpus * 1000 + 200, "{load:?}");
        assert_eq!(probes.pending_restores, Ok(Vec::new()));
    }
}
