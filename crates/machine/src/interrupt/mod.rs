//! Interrupts of devices: whether they can be moved, and how often they came; `routes` sends them where placements say.

mod routes;

pub use routes::{InterruptMonitor, RouteError, Routes};

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use model::values::topology::{InterruptCounts, Movability};
use model::values::undo::{CurrentValue, SettingTarget};

use crate::undo::{self, AppliedSettings, ChangeError};
use crate::{irqbalance, sysfs, tune};

/// No list of cpus: the kernel looks at whether an interrupt may be moved before it reads where to.
const NO_LIST: &[u8] = b"?";

/// How often each interrupt of this machine came since boot.
pub fn counts() -> io::Result<InterruptCounts> {
    sysfs::interrupt_counts(Path::new("/"))
}

/// Whether an interrupt can be moved, as debugfs tells; else the kernel is asked to move it nowhere.
pub(crate) fn movability(root: &Path, number: u32) -> Movability {
    if let Ok(text) = sysfs::read_text(root, &format!("sys/kernel/debug/irq/irqs/{number}")) {
        return if text.contains("IRQD_AFFINITY_MANAGED") { Movability::Managed } else { Movability::Movable };
    }
    // A recorded tree has plain files, which would take anything.
    if root == Path::new("/") { ask(number) } else { Movability::Unknown }
}

/// Writes what the kernel cannot take. Nothing is changed: one that may be moved is refused for the list (EINVAL), one
/// that may not as such (EPERM, of older kernels EIO).
fn ask(number: u32) -> Movability {
    let path = format!("/proc/irq/{number}/smp_affinity_list");
    let Ok(mut file) = OpenOptions::new().write(true).open(path) else { return Movability::Unknown };
    match file.write(NO_LIST).map_err(|error| error.raw_os_error()) {
        Err(Some(libc::EINVAL)) => Movability::Movable,
        Err(Some(libc::EPERM | libc::EIO)) => Movability::Managed,
        _ => Movability::Unknown,
    }
}

/// Tells every irqbalance to leave these interrupts alone too, beside those that it leaves alone already.
pub fn ban_irqbalance(changed: &mut AppliedSettings, numbers: &[u32]) -> Result<(), ChangeError> {
    for (pid, started) in tune::irqbalances(changed.root()) {
        let target = SettingTarget::Banned { pid, started };
        let mut all = match undo::read(changed.root(), &target) {
            CurrentValue::Value(list) => irqbalance::numbers(&list),
            // Writing tells what is the matter.
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
    fn asking_changes_nothing_and_agrees_with_the_names_of_queues() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: whether interrupts can be moved: the kernel tells root only");
        }
        let root = Path::new("/");
        let mut told = 0;
        for line in sysfs::interrupt_lines(root) {
            let file = format!("proc/irq/{}/smp_affinity_list", line.number);
            let before = sysfs::read_text(root, &file).ok();
            let movability = movability(root, line.number);
            assert_eq!(sysfs::read_text(root, &file).ok(), before, "{line:?}");
            told += u32::from(movability != Movability::Unknown);
            if line.name.contains("-req.") {
                // virtio disks have always had managed interrupts where they have any of their own.
                assert_ne!(movability, Movability::Movable, "{line:?}");
            }
        }
        if told == 0 {
            println!("skipped: whether interrupts can be moved: /proc/irq cannot be written here");
        }
    }

    #[test]
    fn a_recorded_tree_is_never_asked() {
        let file = "proc/irq/7/smp_affinity_list";
        let folder = tree(&[(file, "0-1\n"), ("sys/kernel/debug/irq/irqs/8", "dstate: IRQD_AFFINITY_MANAGED\n")]);
        assert_eq!(movability(folder.path(), 7), Movability::Unknown);
        assert_eq!(std::fs::read_to_string(folder.path().join(file)).unwrap(), "0-1\n");
        assert_eq!(movability(folder.path(), 8), Movability::Managed);
    }
}
