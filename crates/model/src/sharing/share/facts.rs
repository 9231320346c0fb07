//! Selects the machine settings that may be shared. A fact that is not listed is omitted, so that new facts are private
//! by default.

use super::pseudonyms::Pseudonyms;
use crate::values::settings::{Fact, FactValue, Settings};
use crate::values::trial::short_hash;

/// Facts that describe a machine without identifying it; an entry that ends in a dot is a prefix.
const PUBLIC: [&str; 18] = [
    "cpu.",
    "memory.",
    "mitigations",
    "mitigations.",
    "cgroup.",
    "machine.model",
    "machine.bios-version",
    "machine.bios-date",
    "machine.architecture",
    "machine.virtualization",
    "machine.container",
    "machine.power-profile",
    "os.distribution",
    "kernel.release",
    "kernel.version",
    "kernel.aslr",
    "kernel.clocksource",
    "kernel.numa-balancing",
];

const PUBLIC_LISTS: [&str; 2] = ["kernel.isolated-cpus", "kernel.nohz-full-cpus"];

/// Facts with product names, which can look like serial numbers.
const VENDOR_TEXTS: [&str; 6] =
    ["cpu.model", "machine.model", "machine.bios-version", "machine.bios-date", "os.distribution", "cpu.microcode"];

/// Kernel parameters that affect measurements, with or without a value.
const PARAMETERS: [&str; 70] = [
    "amd_iommu",
    "amd_pstate",
    "audit",
    "cgroup_disable",
    "cgroup_enable",
    "cgroup_memory",
    "clocksource",
    "cma",
    "default_hugepagesz",
    "highres",
    "hpet",
    "hugepages",
    "hugepagesz",
    "idle",
    "init_on_alloc",
    "init_on_free",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "irqaffinity",
    "isolcpus",
    "kpti",
    "kthread_cpus",
    "kvm-intel.nested",
    "l1tf",
    "lru_gen",
    "maxcpus",
    "mce",
    "mds",
    "mem",
    "memmap",
    "mitigations",
    "movable_node",
    "movablecore",
    "nmi_watchdog",
    "no_turbo",
    "nohz",
    "nohz_full",
    "nokaslr",
    "nopti",
    "nosmt",
    "noswap",
    "nospectre_v1",
    "nospectre_v2",
    "nowatchdog",
    "nr_cpus",
    "numa",
    "numa_balancing",
    "numa_policy",
    "pci",
    "pcie_aspm",
    "preempt",
    "processor.max_cstate",
    "psi",
    "pti",
    "quiet",
    "rcu_nocbs",
    "retbleed",
    "ro",
    "rw",
    "sched_debug",
    "skew_tick",
    "spec_store_bypass_disable",
    "spectre_v2",
    "swapaccount",
    "threadirqs",
    "transparent_hugepage",
    "tsc",
    "zswap.enabled",
];

/// Replaces a kernel parameter that is not shared.
const HIDDEN: &str = "...";

pub(super) fn share(settings: &Settings, words: &mut Pseudonyms) -> Settings {
    Settings { facts: settings.facts.iter().filter_map(|fact| shared_fact(fact, words)).collect() }
}

fn shared_fact(fact: &Fact, words: &mut Pseudonyms) -> Option<Fact> {
    let key = fact.key.as_str();
    let value = match &fact.value {
        FactValue::Unavailable(why) if is_known(key) => FactValue::Unavailable(words.sentence(why)),
        FactValue::Known(value) if key == "kernel.command-line" => FactValue::Known(command_line(value, words)),
        // Distinguishes boots without identifying them.
        FactValue::Known(id) if key == "kernel.boot-id" => {
            words.count("boot ids");
            FactValue::Known(short_hash(&format!("shared boot\n{id}")))
        }
        FactValue::Known(value) if VENDOR_TEXTS.contains(&key) => FactValue::Known(words.public(value)),
        FactValue::Known(value) if is_known(key) => FactValue::Known(words.sentence(value)),
        _ => {
            words.count("settings that are not known to be harmless");
            return None;
        }
    };
    Some(Fact { key: key.into(), value })
}

fn is_known(key: &str) -> bool {
    let plain = key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte));
    let listed = |known: &&str| if known.ends_with('.') { key.starts_with(*known) } else { key == *known };
    let special = key == "kernel.command-line" || key == "kernel.boot-id";
    plain && key.len() <= 60 && (special || PUBLIC.iter().chain(&PUBLIC_LISTS).any(listed))
}

/// Keeps the kernel parameters that affect measurements and replaces every other one by `...`.
fn command_line(text: &str, words: &mut Pseudonyms) -> String {
    let public = |parameter: &str| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let written = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.,:@$!%=".contains(&byte);
        PARAMETERS.contains(&name) && value.bytes().all(written)
    };
    let mut shared: Vec<String> = Vec::new();
    for parameter in text.split_whitespace() {
        if public(parameter) {
            shared.push(words.sentence(parameter));
        } else {
            if parameter != HIDDEN {
                words.count("kernel parameters");
            }
            shared.push(HIDDEN.into());
        }
    }
    shared.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(key: &str, value: &str) -> Option<FactValue> {
        let mut settings = Settings::default();
        settings.record(key, FactValue::Known(value.into()));
        share(&settings, &mut Pseudonyms::new(&["alice".into()])).fact(key).cloned()
    }

    fn check(key: &str, value: &str, expected: &str) {
        assert_eq!(shared(key, value), Some(FactValue::Known(expected.into())), "{key}");
    }

    #[test]
    fn compared_facts_are_kept() {
        for (key, value) in [
            ("cpu.model", "Intel(R) Xeon(R) Gold 6226R CPU @ 2.90GHz"),
            ("machine.model", "GIGABYTE MZ32-AR0-00"),
            ("machine.bios-version", "F31_2023.07.11 (R23)"),
            ("machine.bios-date", "2023-07-11"),
            ("kernel.release", "6.1.0-18-amd64"),
            ("kernel.version", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)"),
            ("mitigations.spectre-v2", "Mitigation: Retpolines; STIBP: disabled"),
            ("memory.hugepages-2048kb", "0"),
            ("kernel.isolated-cpus", "2-3,8"),
        ] {
            check(key, value, value);
        }
    }

    #[test]
    fn unlisted_facts_are_removed() {
        for key in [
            "label.rack",
            "machine.bios-serial",
            "kernel.hostname",
            "disk.serial",
            "machine.serial",
            "cpu.model of alice",
            "Cpu.x",
            "user",
        ] {
            assert_eq!(shared(key, "x"), None, "{key}");
        }
        check("kernel.release", "6.1.0-alice", "6.1.0-NAME");
        assert_ne!(shared("kernel.boot-id", "0d6e6ef3"), shared("kernel.boot-id", "0d6e6ef4"));
    }

    #[test]
    fn kernel_parameters_that_affect_measurements_are_kept() {
        check(
            "kernel.command-line",
            "BOOT_IMAGE=/boot/vmlinuz-6.1 root=/dev/mapper/alice--vg-root ro quiet numa=fake=8 isolcpus=managed_irq,2-3 \
             init=/home/x resume=LABEL=alice token numa_policy=interleave hugepages=/home/alice",
            "... ... ro quiet numa=fake=8 isolcpus=managed_irq,2-3 ... ... ... numa_policy=interleave ...",
        );
        check("kernel.command-line", "", "");
        check("kernel.command-line", "... ro", "... ro");
    }
}
