//! What disturbs this machine now and what it cannot tell, beside its settings: load, heat, room, daemons, counters.
//! Must not judge: that is `model::analysis::doctor`.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use model::analysis::doctor::{Counters, Load, Probes};
use model::values::topology::Movability;
use model::values::units::{Bytes, Nanos};

use crate::proc::Proc;
use crate::undo::{self, SettingsRoot};
use crate::{cpu_times, expand_probes, interrupt, syscall, sysfs, tune};

/// How long we watch the cpus: fifty ticks of /proc/stat, so that one tick is two percent of a cpu.
const WATCHED: Duration = Duration::from_millis(500);

/// Looks at this machine for half a second. `results` is where results are kept; it does not have to be there.
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
        expand: expand_probes::read(root),
    }
}

/// We sleep meanwhile, so that whoever is busy is somebody else.
fn load() -> Result<Load, String> {
    let cpus = sysfs::read_list(Path::new("/"), "sys/devices/system/cpu/online")
        .ok_or("/sys/devices/system/cpu/online cannot be read")?;
    let proc = Proc::live();
    let before = proc.cpu_times()?;
    std::thread::sleep(WATCHED);
    let meanwhile = cpu_times::of(&cpu_times::between(&before, &proc.cpu_times()?), &cpus)?;
    let milli = |time: Nanos| time.0.saturating_mul(1000) / WATCHED.as_nanos() as u64;
    Ok(Load { busy_milli: milli(meanwhile.busy()), steal_milli: milli(meanwhile.steal), cpus: cpus.len() as u64 })
}

fn counters() -> Counters {
    match syscall::open_cycle_counter() {
        Ok(_) => Counters::Work,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Counters::Forbidden(format!("perf_event_open: {error}"))
        }
        Err(error) => Counters::Missing(format!("perf_event_open: {error}")),
    }
}

/// The counts of all cores and packages since boot; x86 has them.
fn throttled(root: &Path) -> Result<u64, String> {
    let folder = root.join("sys/devices/system/cpu");
    let counts = sysfs::names(&folder).into_iter().filter_map(|cpu| {
        let folder = folder.join(cpu).join("thermal_throttle");
        let count = |name: &str| sysfs::read_text(&folder, name).ok()?.parse::<u64>().ok();
        count("core_throttle_count").into_iter().chain(count("package_throttle_count")).max()
    });
    // A package's count is that of each of its cpus, so the largest and not the sum.
    counts.max().ok_or_else(|| "this kernel does not count how often cpus are slowed down for heat".into())
}

/// Room on the file system of a folder that may not be there yet; an error says what the system said.
pub fn free_disk_bytes(folder: &Path) -> Result<Bytes, String> {
    let there = folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    let room = rustix::fs::statvfs(there).map_err(|error| format!("{}: {error}", there.display()))?;
    Ok(Bytes(room.f_bavail.saturating_mul(room.f_frsize)))
}

/// Queues of disks whose interrupts the kernel spreads over the cpus itself. Where the kernel does not tell, the names
/// of the queues of `NVMe` and virtio disks, whose drivers always ask for that.
fn managed_interrupts(root: &Path) -> Vec<String> {
    let is_managed = |line: &sysfs::InterruptLine| match interrupt::movability(root, line.number) {
        Movability::Managed => true,
        Movability::Movable => false,
        Movability::Unknown => is_queue_of_disk(&line.name),
    };
    sysfs::interrupt_lines(root).into_iter().filter(is_managed).map(|line| line.name).collect()
}

/// `nvme0q3` but not the administrator's `nvme0q0`; `virtio1-req.0`.
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
    fn queues_of_disks_are_told_by_name_or_by_the_kernel() {
        let lines = "   CPU0\n 7: 1 MSI 7-edge nvme0q0\n 8: 1 MSI 8-edge nvme0q1\n 9: 1 MSI 9-edge virtio1-req.0\n \
                     10: 1 MSI 1-edge eth0\n";
        let folder = tree(&[("proc/interrupts", lines)]);
        assert_eq!(managed_interrupts(folder.path()), ["nvme0q1", "virtio1-req.0"]);
        let folder = tree(&[
            ("proc/interrupts", lines),
            ("sys/kernel/debug/irq/irqs/8", "dstate: 0x1\n  IRQD_ACTIVATED\n"),
            ("sys/kernel/debug/irq/irqs/9", "dstate: 0x1\n  IRQD_ACTIVATED\n"),
            ("sys/kernel/debug/irq/irqs/10", "dstate: 0x1\n  IRQD_AFFINITY_MANAGED\n"),
        ]);
        assert_eq!(managed_interrupts(folder.path()), ["eth0"]);
    }

    #[test]
    fn heat_is_the_largest_count() {
        const CPU: &str = "sys/devices/system/cpu";
        let path = |rest: &str| format!("{CPU}/{rest}");
        let folder = tree(&[
            (path("cpu0/thermal_throttle/core_throttle_count"), "2\n"),
            (path("cpu0/thermal_throttle/package_throttle_count"), "7\n"),
            (path("cpu1/thermal_throttle/package_throttle_count"), "7\n"),
        ]);
        assert_eq!(throttled(folder.path()), Ok(7));
        assert!(throttled(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn room_is_that_of_the_folder_above() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_disk_bytes(&folder.path().join("a/b")).unwrap() > Bytes(0));
    }

    #[test]
    fn this_machine_has_signs() {
        let folder = tempfile::tempdir().unwrap();
        let signs = read(folder.path(), &SettingsRoot { root: "/".into(), state: folder.path().into() });
        let load = signs.load.unwrap();
        assert!(load.cpus > 0);
        // A tick may be counted late, so a little more than all of them.
        assert!(load.busy_milli + load.steal_milli <= load.cpus * 1000 + 200, "{load:?}");
        assert_eq!(signs.pending_restores, Ok(Vec::new()));
    }
}
