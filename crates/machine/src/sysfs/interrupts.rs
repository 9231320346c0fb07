//! Reads /proc/interrupts and /proc/irq: numbers, names, counts and CPU affinities of interrupts.

use std::path::Path;

use model::values::id_set::CpuId;
use model::values::topology::{Interrupt, InterruptCounts};

use super::{read_list, read_text};
use crate::interrupt;

/// A numbered line of /proc/interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InterruptLine {
    pub number: u32,
    /// Its actions, such as `virtio0-req.0`; a shared line has several, separated by commas.
    pub name: String,
}

/// Returns the numbered lines of /proc/interrupts in ascending order.
pub(crate) fn interrupt_lines(root: &Path) -> Vec<InterruptLine> {
    let text = read_text(root, "proc/interrupts").unwrap_or_default();
    let mut lines: Vec<InterruptLine> = text.lines().filter_map(parse_line).collect();
    lines.sort_by_key(|line| line.number);
    lines
}

/// Returns the interrupt of a line, with its current affinity.
pub(crate) fn interrupt(root: &Path, line: &InterruptLine) -> Interrupt {
    let list = |name: &str| read_list(root, &format!("proc/irq/{}/{name}", line.number)).unwrap_or_default();
    Interrupt {
        number: line.number,
        name: line.name.clone(),
        affinity: list("smp_affinity_list"),
        effective: list("effective_affinity_list"),
        movability: interrupt::movability(root, line.number),
    }
}

/// Returns the count of each numbered line by CPU.
pub(crate) fn interrupt_counts(root: &Path) -> std::io::Result<InterruptCounts> {
    Ok(parse_counts(&read_text(root, "proc/interrupts")?))
}

/// Parses the counts. Only online CPUs have a column; the heading lists their numbers.
fn parse_counts(text: &str) -> InterruptCounts {
    let mut lines = text.lines();
    let heading = lines.next().unwrap_or_default().split_whitespace();
    let cpus: Vec<CpuId> = heading.filter_map(|word| word.strip_prefix("CPU")?.parse().ok().map(CpuId)).collect();
    let counts = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let counts = rest.split_whitespace().map_while(|word| word.parse::<u64>().ok());
        let by_cpu = cpus.iter().copied().zip(counts).filter(|(_, count)| *count > 0);
        Some((number.trim().parse().ok()?, by_cpu.collect()))
    };
    lines.filter_map(counts).collect()
}

/// Parses `36:  0  67725 PCI-MSIX-0000:00:02.0   1-edge   virtio1-req.0`: one count per online CPU, then the chip, the
/// line on the chip, its trigger (joined to the line on x86, a separate word on ARM), and the actions. For other
/// triggers (`9-fasteoi`), the chip and the line are assumed to be two words.
fn parse_line(line: &str) -> Option<InterruptLine> {
    let (number, rest) = line.split_once(':')?;
    let number = number.trim().parse().ok()?;
    let is_count = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
    let words: Vec<&str> = rest.split_whitespace().skip_while(is_count).collect();
    let is_trigger = |word: &&str| {
        let word = word.to_ascii_lowercase();
        ["edge", "level"].iter().any(|trigger| word == *trigger || word.ends_with(&format!("-{trigger}")))
    };
    let actions = words.iter().position(is_trigger).map_or(2, |trigger| trigger + 1);
    let name = words.get(actions..).unwrap_or_default().join(" ");
    // No driver has requested a line without actions.
    (!name.is_empty()).then_some(InterruptLine { number, name })
}

#[cfg(test)]
mod tests {
    use super::super::test_tree::tree;
    use super::*;

    #[test]
    fn lines_of_several_architectures_are_read() {
        let cases = [
            (" 36:    0  67725 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0", Some((36, "virtio1-req.0"))),
            ("  9:    0  IO-APIC   9-fasteoi   acpi", Some((9, "acpi"))),
            (
                " 16:    3  IR-IO-APIC   16-fasteoi   ehci_hcd:usb1, ahci[0000:00:17.0]",
                Some((16, "ehci_hcd:usb1, ahci[0000:00:17.0]")),
            ),
            (" 38:   7  0  GICv2 158 Level     mmc1, mmc0", Some((38, "mmc1, mmc0"))),
            (" 52:   7  ITS-MSI 524288 Edge      nvme0q0", Some((52, "nvme0q0"))),
            (" 17:   7  XIVE-IRQ 65537 Edge      IPI", Some((17, "IPI"))),
            (" 20:   7  chip 5 odd-name", Some((20, "odd-name"))),
            (" 21:   0  0  IO-APIC   5-edge", None),
            ("NMI:   0  0  Non-maskable interrupts", None),
            ("ERR:   0", None),
            ("       CPU0       CPU1", None),
        ];
        for (line, expected) in cases {
            let expected = expected.map(|(number, name)| InterruptLine { number, name: name.into() });
            assert_eq!(parse_line(line), expected, "{line}");
        }
    }

    #[test]
    fn counts_belong_to_the_cpus_of_the_heading() {
        let text =
            "       CPU0  CPU3\n 7:  5  0  MSI 7-edge 8\n 52:  1  18446744073709551615  MSI 2-edge nvme0q2\nNMI: 9 9\n";
        let shown = format!("{:?}", parse_counts(text));
        assert_eq!(
            shown,
            format!("{{7: {{{:?}: 5}}, 52: {{{:?}: 1, {:?}: {}}}}}", CpuId(0), CpuId(0), CpuId(3), u64::MAX)
        );
        assert!(parse_counts("").is_empty());
    }

    #[test]
    fn affinity_and_name_are_read() {
        let dir = tree(&[
            ("proc/interrupts", "   CPU0\n 52: 1 MSI 7-edge b\n 7: 1 MSI 7-edge a\n"),
            ("proc/irq/7/smp_affinity_list", "0-3\n"),
            ("proc/irq/7/effective_affinity_list", "2\n"),
        ]);
        let lines = interrupt_lines(dir.path());
        assert_eq!(lines.iter().map(|line| line.number).collect::<Vec<_>>(), [7, 52]);
        let first = interrupt(dir.path(), &lines[0]);
        assert_eq!(
            (first.name.as_str(), first.affinity.to_string(), first.effective.to_string()),
            ("a", "0-3".into(), "2".into())
        );
        assert!(interrupt(dir.path(), &lines[1]).affinity.is_empty());
    }
}
