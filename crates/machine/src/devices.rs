//! Reads the disks and network interfaces of this machine: their buses, memory nodes and interrupts.

use std::path::{Path, PathBuf};

use model::values::id_set::NodeId;
use model::values::topology::{Device, DeviceKind};

use crate::sysfs::{self, InterruptLine};

/// Prefixes of virtual block devices. Such a device counts as a disk if it has a parent device.
const VIRTUAL: [&str; 7] = ["loop", "ram", "zram", "dm-", "md", "nbd", "drbd"];
/// Prefixes of drives with removable media, which are not used for measurements.
const REMOVABLE: [&str; 2] = ["sr", "fd"];

/// Reads all physical disks and network interfaces under `root`: disks first, each kind sorted by name.
pub fn read(root: &Path) -> Vec<Device> {
    let lines = sysfs::interrupt_lines(root);
    let disks = sysfs::names(&root.join("sys/block")).into_iter().map(|name| (DeviceKind::Block, "sys/block", name));
    let interfaces =
        sysfs::names(&root.join("sys/class/net")).into_iter().map(|name| (DeviceKind::Network, "sys/class/net", name));
    disks.chain(interfaces).filter_map(|(kind, directory, name)| device(root, kind, directory, name, &lines)).collect()
}

fn device(root: &Path, kind: DeviceKind, directory: &str, name: String, lines: &[InterruptLine]) -> Option<Device> {
    let parent = std::fs::canonicalize(root.join(directory).join(&name).join("device")).ok();
    if !is_real(kind, &name, parent.is_some()) {
        return None;
    }
    let Some(parent) = parent else {
        return Some(Device { name, kind, bus: None, node: None, interrupts: Vec::new() });
    };
    let chain = chain(root, &parent);
    let numbers = message_interrupts(&chain);
    let tokens: Vec<String> = chain.iter().filter_map(|directory| base_name(directory)).chain([name.clone()]).collect();
    let interrupts = lines
        .iter()
        .filter(|line| numbers.contains(&line.number) || tokens.iter().any(|token| names(&line.name, token)))
        .map(|line| sysfs::interrupt(root, line))
        .collect();
    Some(Device { name, kind, bus: bus(&chain), node: node(&chain), interrupts })
}

fn is_real(kind: DeviceKind, name: &str, has_parent: bool) -> bool {
    match kind {
        DeviceKind::Network => has_parent,
        DeviceKind::Block => {
            let named = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
            !named(&REMOVABLE) && (has_parent || !named(&VIRTUAL))
        }
    }
}

/// Returns the device and its ancestors up to its PCI function or, if it has none, its platform device. Above these are
/// bridges, whose interrupts do not belong to the device.
fn chain(root: &Path, device: &Path) -> Vec<PathBuf> {
    let top = std::fs::canonicalize(root.join("sys/devices")).unwrap_or_else(|_| root.join("sys/devices"));
    let mut chain: Vec<PathBuf> = Vec::new();
    for directory in device.ancestors().take_while(|directory| directory.starts_with(&top) && *directory != top) {
        // `platform` and `pci0000:00` are the roots of the device trees.
        if base_name(directory).is_none_or(|name| name == "platform" || name.starts_with("pci")) {
            break;
        }
        chain.push(directory.into());
        if base_name(directory).is_some_and(|name| is_pci_address(&name)) {
            break;
        }
    }
    chain
}

fn base_name(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

/// Returns whether a name has the form of a PCI address: `0000:01:00.0`.
fn is_pci_address(name: &str) -> bool {
    let parts: Vec<&str> = name.split([':', '.']).collect();
    let hex = |text: &&str, digits: std::ops::RangeInclusive<usize>| {
        digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    matches!(&parts[..], [domain, bus, slot, function]
        if hex(domain, 4..=8) && hex(bus, 2..=2) && hex(slot, 2..=2) && hex(function, 1..=1))
        && name.matches('.').count() == 1
}

/// Returns the nearest bus address: `virtio3`, a PCI function, or the outermost platform device.
fn bus(chain: &[PathBuf]) -> Option<String> {
    let names: Vec<String> = chain.iter().filter_map(|directory| base_name(directory)).collect();
    let is_virtio = |name: &&String| {
        name.strip_prefix("virtio")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let known = names.iter().find(|name| is_virtio(name) || is_pci_address(name));
    known.or(names.last()).cloned()
}

fn node(chain: &[PathBuf]) -> Option<NodeId> {
    // The kernel writes -1 for an unknown node, which does not parse as u32.
    chain.iter().find_map(|directory| sysfs::read_text(directory, "numa_node").ok()?.parse().ok().map(NodeId))
}

/// Returns the numbers of the message-signalled interrupts, or else of the legacy interrupt line.
fn message_interrupts(chain: &[PathBuf]) -> Vec<u32> {
    let numbers = |directory: &PathBuf| {
        let numbers: Vec<u32> =
            sysfs::names(&directory.join("msi_irqs")).iter().filter_map(|name| name.parse().ok()).collect();
        (!numbers.is_empty()).then_some(numbers)
    };
    let line = |directory: &PathBuf| sysfs::read_text(directory, "irq").ok()?.parse().ok().filter(|number| *number > 0);
    chain
        .iter()
        .find_map(numbers)
        .or_else(|| chain.iter().find_map(line).map(|number| vec![number]))
        .unwrap_or_default()
}

/// Returns whether an interrupt's name contains a device's name: `virtio1-req.0` contains `virtio1` but not `virtio`,
/// `nvme0q12` contains `nvme0`, `ahci[0000:00:17.0]` contains `0000:00:17.0`.
fn names(interrupt: &str, token: &str) -> bool {
    if !token.bytes().any(|byte| byte.is_ascii_digit()) {
        // `net`, `block`, `nvme`: names of grouping directories and drivers.
        return false;
    }
    interrupt.match_indices(token).any(|(at, _)| {
        let before = interrupt[..at].chars().next_back();
        let mut after = interrupt[at + token.len()..].chars();
        let queue =
            |mut rest: std::str::Chars<'_>| rest.next() == Some('q') && rest.next().is_some_and(|c| c.is_ascii_digit());
        before.is_none_or(|c| !c.is_alphanumeric())
            && (queue(after.clone()) || after.next().is_none_or(|c| !c.is_alphanumeric()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::{link, tree};

    #[test]
    fn server_with_nvme_sata_and_a_network_card_is_read() {
        let pci = "sys/devices/pci0000:00";
        let dir = tree(&[
            (format!("{pci}/0000:00:01.0/0000:01:00.0/numa_node"), "1\n"),
            (format!("{pci}/0000:00:01.0/msi_irqs/20"), "msi\n"),
            (format!("{pci}/0000:00:01.0/0000:01:00.0/msi_irqs/53"), "msi\n"),
            (format!("{pci}/0000:00:01.0/0000:01:00.0/msi_irqs/54"), "msi\n"),
            (format!("{pci}/0000:00:01.0/0000:01:00.0/msi_irqs/99"), "msi\n"),
            (format!("{pci}/0000:00:17.0/numa_node"), "-1\n"),
            (format!("{pci}/0000:00:17.0/irq"), "16\n"),
            (
                "proc/interrupts".into(),
                "  CPU0 CPU1\n 20: 0 0 PCI-MSI 1-edge pcieport\n 16: 0 1 IO-APIC 16-fasteoi ahci[0000:00:17.0]\n \
                 53: 1 2 PCI-MSI 7-edge nvme0q0\n 54: 1 2 PCI-MSI 8-edge nvme0q1\n 60: 9 9 PCI-MSI 9-edge eno1-TxRx-0\n",
            ),
            ("proc/irq/54/smp_affinity_list".into(), "0-1\n"),
            ("proc/irq/54/effective_affinity_list".into(), "1\n"),
        ]);
        link(&dir, "sys/block/nvme0n1/device", &format!("{pci}/0000:00:01.0/0000:01:00.0/nvme/nvme0"));
        link(&dir, "sys/block/sda/device", &format!("{pci}/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0"));
        link(&dir, "sys/block/sr0/device", &format!("{pci}/0000:00:17.0/ata2/host1/target1:0:0/1:0:0:0"));
        link(&dir, "sys/class/net/eno1/device", &format!("{pci}/0000:00:01.0/0000:02:00.0"));
        for device in ["block/loop0", "block/dm-0", "block/zram0", "class/net/lo", "class/net/docker0"] {
            std::fs::create_dir_all(dir.path().join("sys").join(device)).unwrap();
        }
        let devices = read(dir.path());
        let shown = devices.iter().map(|device| {
            let numbers: Vec<u32> = device.interrupts.iter().map(|interrupt| interrupt.number).collect();
            let node = device.node.map_or(-1, |node| i64::from(node.0));
            format!("{} {} {node} {numbers:?}", device.name, device.bus.as_deref().unwrap_or("-"))
        });
        let shown: Vec<String> = shown.collect();
        let expected = ["nvme0n1 0000:01:00.0 1 [53, 54]", "sda 0000:00:17.0 -1 [16]", "eno1 0000:02:00.0 -1 [60]"];
        assert_eq!(shown, expected);
        let second = &devices[0].interrupts[1];
        assert_eq!((second.affinity.to_string(), second.effective.to_string()), ("0-1".into(), "1".into()));
    }

    #[test]
    fn devices_of_a_board_and_a_virtual_machine_are_read() {
        let dir = tree(&[
            ("sys/devices/pci0000:00/0000:00:02.0/msi_irqs/36", "msix"),
            (
                "proc/interrupts",
                " 36: 1 MSIX 1-edge virtio1-req.0\n 37: 1 MSIX 1-edge virtio10-req.0\n 30: 5 GICv2 158 Level mmc1, mmc0\n",
            ),
        ]);
        link(&dir, "sys/block/vda/device", "sys/devices/pci0000:00/0000:00:02.0/virtio1");
        link(&dir, "sys/block/mmcblk0/device", "sys/devices/platform/fe300000.mmc/mmc_host/mmc0/mmc0:aaaa");
        link(&dir, "sys/class/net/eth0/device", "sys/devices/platform/virtio-mmio.2/virtio10");
        std::fs::create_dir_all(dir.path().join("sys/block/nullb0")).unwrap();
        let shown = read(dir.path()).into_iter().map(|device| {
            let names: Vec<String> = device.interrupts.into_iter().map(|line| line.name).collect();
            format!("{} {} {names:?}", device.name, device.bus.unwrap_or("-".into()))
        });
        let shown: Vec<String> = shown.collect();
        let expected = [
            r#"mmcblk0 fe300000.mmc ["mmc1, mmc0"]"#,
            "nullb0 - []",
            r#"vda virtio1 ["virtio1-req.0"]"#,
            r#"eth0 virtio10 ["virtio10-req.0"]"#,
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn interrupt_names_match_devices_at_word_boundaries() {
        let cases = [
            ("virtio1-req.0", "virtio1", true),
            ("virtio10-req.0", "virtio1", false),
            ("xvirtio1", "virtio1", false),
            ("nvme0q12", "nvme0", true),
            ("nvme0queue", "nvme0", false),
            ("mlx5_comp0@pci:0000:3b:00.0", "0000:3b:00.0", true),
            ("mmc1, mmc0", "mmc0", true),
            ("nvme-x", "nvme", false),
        ];
        for (interrupt, token, expected) in cases {
            assert_eq!(names(interrupt, token), expected, "{interrupt} {token}");
        }
        for (name, expected) in
            [("0000:00:1f.2", true), ("10000:e1:00.0", true), ("0:0:0:0", false), ("virtio1", false)]
        {
            assert_eq!(is_pci_address(name), expected, "{name}");
        }
    }

    #[test]
    fn interrupts_of_this_machine_are_sorted() {
        for device in read(Path::new("/")) {
            assert!(device.interrupts.windows(2).all(|pair| pair[0].number < pair[1].number), "{device:?}");
        }
    }
}
