//! Interrupts of devices: movability and counts. `routes` sets their affinity for placements.

mod routes;

pub use routes::{InterruptMonitor, RouteError, Routes, affinities};

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use model::values::topology::{InterruptCounts, Movability};
use model::values::undo::{CurrentValue, SettingTarget};

use crate::undo::{self, AppliedSettings, ChangeError};
use crate::{irqbalance, sysfs, tune};

/// Invalid CPU list. The kernel checks whether an interrupt may be moved before it parses the list.
const INVALID_LIST: &[u8] = b"?";

/// Returns the count of each interrupt by CPU since boot.
pub fn counts() -> io::Result<InterruptCounts> {
    sysfs::interrupt_counts(Path::new("/"))
}

/// Returns whether an interrupt can be moved, from debugfs if available, else by writing an invalid affinity.
pub(crate) fn movability(root: &Path, number: u32) -> Movability {
    if let Ok(text) = sysfs::read_text(root, &format!("sys/kernel/debug/irq/irqs/{number}")) {
        return if text.contains("IRQD_AFFINITY_MANAGED") { Movability::Managed } else { Movability::Movable };
    }
    // The plain files of a recorded tree would accept any text.
    if root == Path::new("/") { probe_by_write(number) } else { Movability::Unknown }
}

/// Writes an invalid list, which changes nothing: the kernel returns EINVAL for a movable interrupt, and EPERM (older
/// kernels EIO) for a managed one.
fn probe_by_write(number: u32) -> Movability {
    let path = format!("/proc/irq/{number}/smp_affinity_list");
    let Ok(mut file) = OpenOptions::new().write(true).open(path) else { return Movability::Unknown };
    match file.write(INVALID_LIST).map_err(|error| error.raw_os_error()) {
        Err(Some(libc::EINVAL)) => Movability::Movable,
        Err(Some(libc::EPERM | libc::EIO)) => Movability::Managed,
        _ => Movability::Unknown,
    }
}

/// Adds these interrupts to the list that each irqbalance process ignores.
pub fn ban_irqbalance(changed: &mut AppliedSettings, numbers: &[u32]) -> Result<(), ChangeError> {
    for (pid, started) in tune::irqbalances(changed.root()) {
        let target = SettingTarget::Banned { pid, started };
        let mut all = match undo::read(changed.root(), &target) {
            CurrentValue::Value(list) => irqbalance::numbers(&list),
            // The write below reports the cause.
            CurrentValue::Gone | CurrentValue::Unreadable(_) => Vec::new(),
        };
        all.extend(numbers);
        changed.set("irqbalance", target, &irqbalance::list(&all))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;

    #[test]
    fn probing_changes_nothing_and_agrees_with_queue_names() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: movability of interrupts: requires root");
        }
        let root = Path::new("/");
        let mut known = 0;
        for line in sysfs::interrupt_lines(root) {
            let file = format!("proc/irq/{}/smp_affinity_list", line.number);
            let before = sysfs::read_text(root, &file).ok();
            let movability = movability(root, line.number);
            assert_eq!(sysfs::read_text(root, &file).ok(), before, "{line:?}");
            known += u32::from(movability != Movability::Unknown);
            if line.name.contains("-req.") {
                // Dedicated interrupts of virtio disks have always been managed.
                assert_ne!(movability, Movability::Movable, "{line:?}");
            }
        }
        if known == 0 {
            println!("skipped: movability of interrupts: /proc/irq is not writable");
        }
    }

    #[test]
    fn recorded_tree_is_not_written() {
        let file = "proc/irq/7/smp_affinity_list";
        let dir = tree(&[(file, "0-1\n"), ("sys/kernel/debug/irq/irqs/8", "dstate: IRQD_AFFINITY_MANAGED\n")]);
        assert_eq!(movability(dir.path(), 7), Movability::Unknown);
        assert_eq!(std::fs::read_to_string(dir.path().join(file)).unwrap(), "0-1\n");
        assert_eq!(movability(dir.path(), 8), Movability::Managed);
    }
}
