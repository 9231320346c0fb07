//! How this machine is set: the facts that change what is measured. Each is a value or the reason why it cannot be
//! read. No serial numbers, no host name: that one only by [`host_name`].

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::path::Path;

use model::values::id_set::CpuSet;
use model::values::settings::{FactValue, Settings};

use crate::sysfs::{self, Limit};

/// All facts of this machine, in the order in which they are shown.
pub fn read() -> Settings {
    let mut settings = read_at(Path::new("/"));
    settings.record("memory.page-bytes", FactValue::Known(page_bytes().to_string()));
    settings
}

/// The name of this machine. Personal: recorded only when somebody asked for it.
pub fn host_name() -> Option<String> {
    sysfs::read_text(Path::new("/"), "proc/sys/kernel/hostname").ok().filter(|name| !name.is_empty())
}

/// A fact that one file holds: its key, the file, what to make of the text, and why the file may be missing.
struct FileFact(&'static str, &'static str, fn(&str) -> String, &'static str);

const NO_CPUFREQ: &str = "no cpufreq driver: the frequency is not in this kernel's hands";
const NO_OPTION: &str = "this kernel is built without it";

const NO_DMI: &str = "no DMI tables";

const FILE_FACTS: [FileFact; 24] = [
    FileFact("machine.bios-version", "sys/devices/virtual/dmi/id/bios_version", as_it_is, NO_DMI),
    FileFact("machine.bios-date", "sys/devices/virtual/dmi/id/bios_date", year_first, NO_DMI),
    FileFact("kernel.release", "proc/sys/kernel/osrelease", as_it_is, "no /proc"),
    FileFact("kernel.version", "proc/sys/kernel/version", as_it_is, "no /proc"),
    FileFact("kernel.command-line", "proc/cmdline", public_command_line, "no /proc"),
    FileFact("kernel.boot-id", "proc/sys/kernel/random/boot_id", as_it_is, "no /proc"),
    FileFact("kernel.aslr", "proc/sys/kernel/randomize_va_space", as_it_is, "no /proc"),
    FileFact(
        "kernel.clocksource",
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        as_it_is,
        NO_OPTION,
    ),
    FileFact("kernel.isolated-cpus", "sys/devices/system/cpu/isolated", list_or_none, NO_OPTION),
    FileFact("kernel.nohz-full-cpus", "sys/devices/system/cpu/nohz_full", list_or_none, NO_OPTION),
    FileFact("kernel.numa-balancing", "proc/sys/kernel/numa_balancing", as_it_is, NO_OPTION),
    FileFact("cpu.online", "sys/devices/system/cpu/online", as_it_is, "no /sys"),
    FileFact("cpu.smt", "sys/devices/system/cpu/smt/control", as_it_is, NO_OPTION),
    FileFact("cpu.frequency-driver", "sys/devices/system/cpu/cpufreq/policy0/scaling_driver", as_it_is, NO_CPUFREQ),
    FileFact("cpu.idle-driver", "sys/devices/system/cpu/cpuidle/current_driver", as_it_is, NO_OPTION),
    FileFact("memory.thp", "sys/kernel/mm/transparent_hugepage/enabled", selected, NO_OPTION),
    FileFact("memory.thp-defrag", "sys/kernel/mm/transparent_hugepage/defrag", selected, NO_OPTION),
    FileFact("memory.ksm", "sys/kernel/mm/ksm/run", as_it_is, NO_OPTION),
    FileFact("memory.overcommit", "proc/sys/vm/overcommit_memory", as_it_is, "no /proc"),
    FileFact("memory.swappiness", "proc/sys/vm/swappiness", as_it_is, "no /proc"),
    FileFact("memory.zswap", "sys/module/zswap/parameters/enabled", as_it_is, NO_OPTION),
    FileFact("memory.numa-demotion", "sys/kernel/mm/numa/demotion_enabled", as_it_is, NO_OPTION),
    FileFact("memory.zone-reclaim", "proc/sys/vm/zone_reclaim_mode", as_it_is, NO_OPTION),
    FileFact("machine.power-profile", "sys/firmware/acpi/platform_profile", as_it_is, "no platform profile"),
];

fn read_at(root: &Path) -> Settings {
    let mut settings = Settings::default();
    settings.record("machine.model", machine_model(root));
    settings.record("machine.architecture", FactValue::Known(std::env::consts::ARCH.into()));
    settings.record("machine.virtualization", virtualization(root));
    settings.record("machine.container", container(root));
    settings.record("os.distribution", distribution(root));
    record_cpu(&mut settings, root);
    for FileFact(key, path, refine, missing) in FILE_FACTS {
        settings.record(key, file_fact(root, path, refine, missing));
    }
    record_memory(&mut settings, root);
    record_cgroup(&mut settings, root);
    record_mitigations(&mut settings, root);
    settings
}

fn file_fact(root: &Path, path: &str, refine: fn(&str) -> String, missing: &str) -> FactValue {
    match sysfs::read_text(root, path) {
        Ok(text) => FactValue::Known(refine(&text)),
        Err(error) if error.kind() == ErrorKind::NotFound => unavailable(missing),
        Err(error) => FactValue::Unavailable(format!("/{path}: {error}")),
    }
}

fn unavailable(why: &str) -> FactValue {
    FactValue::Unavailable(why.into())
}

fn known_or(value: Option<String>, why: &str) -> FactValue {
    value.map_or_else(|| unavailable(why), FactValue::Known)
}

fn as_it_is(text: &str) -> String {
    text.into()
}

/// `07/23/2025` as `2025-07-23`, so that dates are in order; what is no such date as it is.
fn year_first(text: &str) -> String {
    match text.split('/').collect::<Vec<_>>()[..] {
        [month, day, year] => format!("{year}-{month}-{day}"),
        _ => text.into(),
    }
}

fn selected(text: &str) -> String {
    sysfs::selected(text).into()
}

fn list_or_none(text: &str) -> String {
    if text.is_empty() || text == "(null)" { "none".into() } else { text.into() }
}

/// Parameters whose values name this machine or let somebody into it.
const PRIVATE_PARAMETERS: [&str; 8] = [
    "hostname",
    "systemd.hostname",
    "ip",
    "nfsroot",
    "ifname",
    "rd.iscsi.initiator",
    "rd.luks.uuid",
    "systemd.machine_id",
];

/// The kernel's parameters without names and keys of this machine. What follows `--` is for the first process.
fn public_command_line(text: &str) -> String {
    let parameters = text.split(" -- ").next().unwrap_or(text);
    let public = |parameter: &str| {
        let Some((name, value)) = parameter.split_once('=') else { return parameter.to_owned() };
        let is_private = PRIVATE_PARAMETERS.contains(&name) || name.starts_with("systemd.set_credential");
        match value.split_once('=') {
            _ if is_private => format!("{name}=..."),
            // root=UUID=0123 is as good as a serial number.
            Some((kind, _)) if kind.ends_with("UUID") => format!("{name}={kind}=..."),
            _ => parameter.to_owned(),
        }
    };
    parameters.split_whitespace().map(public).collect::<Vec<_>>().join(" ")
}

fn machine_model(root: &Path) -> FactValue {
    let text = |path: &str| sysfs::read_text(root, path).ok().filter(|text| !text.is_empty());
    let from_tables = || {
        let parts = ["sys_vendor", "product_name"].map(|name| text(&format!("sys/devices/virtual/dmi/id/{name}")));
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    };
    known_or(text("proc/device-tree/model").or_else(from_tables), "neither a device tree nor DMI tables")
}

/// What makers of virtual machines call themselves in DMI tables.
const GUESTS: [&str; 9] =
    ["QEMU", "KVM", "VMware", "VirtualBox", "Xen", "Amazon EC2", "Google Compute Engine", "Virtual Machine", "Bochs"];

fn virtualization(root: &Path) -> FactValue {
    if let Ok(kind) = sysfs::read_text(root, "sys/hypervisor/type") {
        return FactValue::Known(kind);
    }
    let flag = cpuinfo(root).lines().any(|line| line.starts_with("flags") && line.contains(" hypervisor"));
    let vendor = sysfs::read_text(root, "sys/devices/virtual/dmi/id/sys_vendor").unwrap_or_default();
    let product = sysfs::read_text(root, "sys/devices/virtual/dmi/id/product_name").unwrap_or_default();
    let named = GUESTS.iter().find(|guest| vendor.contains(**guest) || product.contains(**guest));
    match (named, flag) {
        // Amazon rents whole machines under the same vendor; only the flag tells a guest from them.
        (Some(&"Amazon EC2") | None, false) => FactValue::Known("none seen".into()),
        (Some(guest), _) => FactValue::Known((*guest).into()),
        (None, true) => FactValue::Known("a hypervisor".into()),
    }
}

fn container(root: &Path) -> FactValue {
    let marks = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
    let marked = marks.iter().find(|(file, _)| root.join(file).exists()).map(|(_, kind)| (*kind).to_owned());
    let told = || sysfs::read_text(root, "run/systemd/container").ok().filter(|kind| !kind.is_empty());
    let groups = sysfs::read_text(root, "proc/self/cgroup").unwrap_or_default();
    let grouped = || {
        ["kubepods", "docker", "lxc", "containerd"]
            .iter()
            .find(|kind| groups.contains(**kind))
            .map(|kind| (*kind).into())
    };
    FactValue::Known(told().or_else(grouped).or(marked).unwrap_or_else(|| "none seen".into()))
}

fn distribution(root: &Path) -> FactValue {
    let text = sysfs::read_text(root, "etc/os-release").or_else(|_| sysfs::read_text(root, "usr/lib/os-release"));
    let text = text.unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    known_or(name.map(|name| name.trim_matches(['"', '\'']).to_owned()), "no os-release file")
}

fn cpuinfo(root: &Path) -> String {
    sysfs::read_text(root, "proc/cpuinfo").unwrap_or_default()
}

fn record_cpu(settings: &mut Settings, root: &Path) {
    let cpuinfo = cpuinfo(root);
    settings.record("cpu.model", known_or(cpu_model(&cpuinfo), "/proc/cpuinfo names no model"));
    settings.record("cpu.microcode", known_or(counted(&cpuinfo, &["microcode"]), "/proc/cpuinfo has no microcode"));
    settings.record("cpu.governor", known_or(per_policy(root, "scaling_governor"), NO_CPUFREQ));
    settings.record("cpu.frequency-khz-min", known_or(per_policy(root, "scaling_min_freq"), NO_CPUFREQ));
    settings.record("cpu.frequency-khz-max", known_or(per_policy(root, "scaling_max_freq"), NO_CPUFREQ));
    settings.record(
        "cpu.energy-preference",
        known_or(per_policy(root, "energy_performance_preference"), "no driver that takes one"),
    );
    settings.record("cpu.turbo", turbo(root));
    settings.record("cpu.wake-up-us-max", wake_up_us_max(root));
    settings.record("cpu.idle-states", known_or(idle_states(root), "no idle states in this kernel's hands"));
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    counted(cpuinfo, &["model name"])
        .or_else(|| counted(cpuinfo, &["CPU implementer", "CPU part"]))
        .or_else(|| counted(cpuinfo, &["cpu"]))
}

/// The values of these keys, cpu by cpu: one value alone where all agree, else each with how many cpus have it.
fn counted(cpuinfo: &str, keys: &[&str]) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for cpu in cpuinfo.split("\n\n") {
        let value = |key: &&str| {
            let line = cpu.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                (name.trim() == *key).then(|| value.trim().to_owned())
            })?;
            // ARM's numbers mean nothing without what they number.
            Some(if keys.len() > 1 { format!("{} {line}", key.trim_start_matches("CPU ")) } else { line })
        };
        if let Some(values) = keys.iter().map(value).collect::<Option<Vec<String>>>() {
            *counts.entry(values.join(" ")).or_default() += 1;
        }
    }
    match counts.len() {
        0 => None,
        1 => counts.into_keys().next(),
        _ => Some(counts.iter().map(|(value, count)| format!("{count} x {value}")).collect::<Vec<_>>().join(", ")),
    }
}

/// A file of the cpufreq policies: one value alone where all agree, else `0-3: powersave, 4-5: performance`.
fn per_policy(root: &Path, file: &str) -> Option<String> {
    let mut cpus_by_value: BTreeMap<String, CpuSet> = BTreeMap::new();
    let folder = root.join("sys/devices/system/cpu/cpufreq");
    for policy in sysfs::names(&folder).iter().map(|name| folder.join(name)) {
        let Ok(value) = sysfs::read_text(&policy, file) else { continue };
        let related = sysfs::read_text(&policy, "related_cpus").unwrap_or_default();
        let cpus = CpuSet::parse_list(&related.split_whitespace().collect::<Vec<_>>().join(",")).unwrap_or_default();
        let known = cpus_by_value.entry(value).or_default();
        *known = known.union(&cpus);
    }
    if cpus_by_value.len() < 2 {
        return cpus_by_value.into_keys().next();
    }
    let mut rows: Vec<(CpuSet, String)> = cpus_by_value.into_iter().map(|(value, cpus)| (cpus, value)).collect();
    rows.sort_by_key(|(cpus, _)| cpus.first());
    Some(rows.iter().map(|(cpus, value)| format!("{cpus}: {value}")).collect::<Vec<_>>().join(", "))
}

fn turbo(root: &Path) -> FactValue {
    let text = |path: &str| sysfs::read_text(root, path).ok();
    let switch = |on: bool| FactValue::Known(if on { "on" } else { "off" }.into());
    // Intel's switch says no; everybody else's says yes.
    if let Some(no_turbo) = text("sys/devices/system/cpu/intel_pstate/no_turbo") {
        return switch(no_turbo == "0");
    }
    text("sys/devices/system/cpu/cpufreq/boost")
        .map_or_else(|| unavailable("no driver that switches it"), |boost| switch(boost == "1"))
}

/// What somebody has asked for by holding the file open; the kernel writes "nobody" as 2000 s.
fn wake_up_us_max(root: &Path) -> FactValue {
    let read = || -> std::io::Result<i32> {
        let mut bytes = [0_u8; 4];
        std::fs::File::open(root.join("dev/cpu_dma_latency"))?.read_exact(&mut bytes)?;
        Ok(i32::from_ne_bytes(bytes))
    };
    match read() {
        Ok(2_000_000_000) => FactValue::Known("any".into()),
        Ok(us) => FactValue::Known(us.to_string()),
        Err(error) => FactValue::Unavailable(format!("/dev/cpu_dma_latency: {error}")),
    }
}

/// The idle states of cpu 0 that are not disabled.
fn idle_states(root: &Path) -> Option<String> {
    let folder = root.join("sys/devices/system/cpu/cpu0/cpuidle");
    let enabled = |state: &String| {
        let folder = folder.join(state);
        let disabled = sysfs::read_text(&folder, "disable").is_ok_and(|value| value != "0");
        (!disabled).then(|| sysfs::read_text(&folder, "name").ok()).flatten()
    };
    let states = sysfs::names(&folder);
    (!states.is_empty()).then(|| states.iter().filter_map(enabled).collect::<Vec<_>>().join(", "))
}

fn record_memory(settings: &mut Settings, root: &Path) {
    let meminfo = sysfs::read_text(root, "proc/meminfo").unwrap_or_default();
    let bytes = |name: &str| sysfs::meminfo_bytes(&meminfo, name).map(|bytes| bytes.0);
    let used = bytes("SwapTotal").zip(bytes("SwapFree")).map(|(total, free)| total.saturating_sub(free));
    let sizes = [
        ("memory.total-bytes", bytes("MemTotal")),
        ("memory.available-bytes", bytes("MemAvailable")),
        ("memory.swap-total-bytes", bytes("SwapTotal")),
        ("memory.swap-used-bytes", used),
    ];
    for (key, size) in sizes {
        settings.record(key, known_or(size.map(|size| size.to_string()), "/proc/meminfo does not say"));
    }
    let folder = root.join("sys/kernel/mm/hugepages");
    for size in sysfs::names(&folder) {
        let count = sysfs::read_text(&folder.join(&size), "nr_hugepages").ok();
        let size = size.trim_start_matches("hugepages-").to_ascii_lowercase();
        settings.record(&format!("memory.hugepages-{size}"), known_or(count, "nr_hugepages cannot be read"));
    }
}

const CGROUP_KEYS: [&str; 6] = [
    "cgroup.version",
    "cgroup.cpu-quota",
    "cgroup.memory-bytes",
    "cgroup.swap-bytes",
    "cgroup.cpus",
    "cgroup.memory-nodes",
];

fn record_cgroup(settings: &mut Settings, root: &Path) {
    let Some(limits) = sysfs::limits(root) else {
        for key in CGROUP_KEYS {
            settings.record(key, unavailable("no cgroup file system is mounted"));
        }
        return;
    };
    let limit = |limit: Limit<String>| match limit {
        Limit::None => FactValue::Known("none".into()),
        Limit::At(value) => FactValue::Known(value),
    };
    let list = |list: Option<String>| known_or(list, "no cpuset controller");
    let values = [
        FactValue::Known(limits.version.into()),
        limit(limits.cpu_quota_milli.map(|milli| format!("{}.{:03} cpus", milli / 1000, milli % 1000))),
        limit(limits.memory.map(|bytes| bytes.0.to_string())),
        limit(limits.swap.map(|bytes| bytes.0.to_string())),
        list(limits.cpus),
        list(limits.memory_nodes),
    ];
    for (key, value) in CGROUP_KEYS.into_iter().zip(values) {
        settings.record(key, value);
    }
}

/// One fact for each weakness that the kernel knows; those that do not concern this cpu as well.
fn record_mitigations(settings: &mut Settings, root: &Path) {
    let folder = root.join("sys/devices/system/cpu/vulnerabilities");
    let names = sysfs::names(&folder);
    if names.is_empty() {
        settings.record("mitigations", unavailable("this kernel does not list them"));
    }
    for name in names {
        let state = sysfs::read_text(&folder, &name).ok();
        settings.record(&format!("mitigations.{}", name.replace('_', "-")), known_or(state, "cannot be read"));
    }
}

#[allow(unsafe_code)]
fn page_bytes() -> u64 {
    // SAFETY: sysconf has no preconditions and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).expect("every Linux knows its page size")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;

    /// Files by path, a key, and the value that it must have then.
    type Case<'a, P> = (Vec<(P, &'a str)>, &'a str, &'a str);

    fn value(files: &[(&str, &str)], key: &str) -> String {
        let settings = read_at(tree(files).path());
        settings.fact(key).unwrap_or_else(|| panic!("no fact {key}")).to_string()
    }

    #[test]
    fn facts_are_read_from_their_files() {
        const CPU: &str = "sys/devices/system/cpu";
        let path = |rest: &str| format!("{CPU}/{rest}");
        let cases: Vec<Case<String>> = vec![
            (vec![("proc/sys/kernel/osrelease".into(), "6.18\n")], "kernel.release", "6.18"),
            (vec![("proc/cmdline".into(), "quiet\n")], "kernel.command-line", "quiet"),
            (vec![(path("isolated"), "\n")], "kernel.isolated-cpus", "none"),
            (vec![(path("isolated"), "2-3\n")], "kernel.isolated-cpus", "2-3"),
            (vec![(path("nohz_full"), "  (null)\n")], "kernel.nohz-full-cpus", "none"),
            (
                vec![("sys/kernel/mm/transparent_hugepage/enabled".into(), "always [madvise] never\n")],
                "memory.thp",
                "madvise",
            ),
            (vec![(path("smt/control"), "notsupported\n")], "cpu.smt", "notsupported"),
            (vec![(path("intel_pstate/no_turbo"), "1\n")], "cpu.turbo", "off"),
            (vec![(path("intel_pstate/no_turbo"), "0\n")], "cpu.turbo", "on"),
            (vec![(path("cpufreq/boost"), "1\n")], "cpu.turbo", "on"),
            (vec![], "cpu.turbo", "unavailable: no driver that switches it"),
            (vec![], "cpu.governor", "unavailable: no cpufreq driver: the frequency is not in this kernel's hands"),
            (vec![(path("cpufreq/policy0/scaling_governor"), "performance\n")], "cpu.governor", "performance"),
            (
                vec![
                    (path("cpufreq/policy0/scaling_governor"), "schedutil\n"),
                    (path("cpufreq/policy0/related_cpus"), "0 1 2 3\n"),
                    (path("cpufreq/policy4/scaling_governor"), "performance\n"),
                    (path("cpufreq/policy4/related_cpus"), "4 5\n"),
                ],
                "cpu.governor",
                "0-3: schedutil, 4-5: performance",
            ),
            (
                vec![
                    (path("cpu0/cpuidle/state0/name"), "POLL"),
                    (path("cpu0/cpuidle/state1/name"), "C1"),
                    (path("cpu0/cpuidle/state1/disable"), "0"),
                    (path("cpu0/cpuidle/state2/name"), "C6"),
                    (path("cpu0/cpuidle/state2/disable"), "1"),
                ],
                "cpu.idle-states",
                "POLL, C1",
            ),
            (vec![("dev/cpu_dma_latency".into(), "\0\0\0\0")], "cpu.wake-up-us-max", "0"),
            (vec![("dev/cpu_dma_latency".into(), "\0\u{14}\0\0")], "cpu.wake-up-us-max", "5120"),
            (
                vec![(path("vulnerabilities/spec_store_bypass"), "Vulnerable\n")],
                "mitigations.spec-store-bypass",
                "Vulnerable",
            ),
            (vec![], "mitigations", "unavailable: this kernel does not list them"),
            (vec![("proc/meminfo".into(), "MemTotal: 4 kB\n")], "memory.total-bytes", "4096"),
            (vec![("proc/meminfo".into(), "SwapTotal: 4 kB\nSwapFree: 1 kB\n")], "memory.swap-used-bytes", "3072"),
            (
                vec![("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages".into(), "7\n")],
                "memory.hugepages-2048kb",
                "7",
            ),
            (vec![("etc/os-release".into(), "NAME=x\nPRETTY_NAME=\"Debian 12\"\n")], "os.distribution", "Debian 12"),
            (vec![("proc/device-tree/model".into(), "Raspberry Pi 5\0")], "machine.model", "Raspberry Pi 5"),
            (vec![("sys/devices/virtual/dmi/id/bios_version".into(), "2.14.1 \n")], "machine.bios-version", "2.14.1"),
            (vec![("sys/devices/virtual/dmi/id/bios_date".into(), "07/23/2025\n")], "machine.bios-date", "2025-07-23"),
            (vec![], "machine.bios-date", "unavailable: no DMI tables"),
            (vec![], "cgroup.version", "unavailable: no cgroup file system is mounted"),
            (
                vec![
                    ("proc/self/cgroup".into(), "0::/\n"),
                    ("proc/self/mountinfo".into(), "1 1 0:1 / /c rw - cgroup2 c rw\n"),
                    ("c/cpu.max".into(), "150000 100000\n"),
                ],
                "cgroup.cpu-quota",
                "1.500 cpus",
            ),
        ];
        for (files, key, expected) in cases {
            let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
            assert_eq!(value(&files, key), expected, "{key} {files:?}");
        }
    }

    #[test]
    fn processors_are_named_by_model_or_by_part() {
        let intel = "processor\t: 0\nmodel name\t: Xeon\nmicrocode\t: 0x1\n\nprocessor\t: 1\nmodel name\t: Xeon\nmicrocode\t: 0x1\n";
        assert_eq!(value(&[("proc/cpuinfo", intel)], "cpu.model"), "Xeon");
        assert_eq!(value(&[("proc/cpuinfo", intel)], "cpu.microcode"), "0x1");
        let arm = "processor: 0\nCPU implementer : 0x41\nCPU part : 0xd03\n\nprocessor: 1\nCPU implementer : 0x41\nCPU part : 0xd08\n\n\
                   processor: 2\nCPU implementer : 0x41\nCPU part : 0xd03\n";
        let expected = "2 x implementer 0x41 part 0xd03, 1 x implementer 0x41 part 0xd08";
        assert_eq!(value(&[("proc/cpuinfo", arm)], "cpu.model"), expected);
        assert_eq!(value(&[], "cpu.microcode"), "unavailable: /proc/cpuinfo has no microcode");
    }

    #[test]
    fn guests_and_containers_are_seen() {
        const VENDOR: &str = "sys/devices/virtual/dmi/id/sys_vendor";
        const GUEST: (&str, &str) = ("proc/cpuinfo", "flags\t: fpu hypervisor lm\n");
        let cases: [Case<&str>; 9] = [
            (vec![], "machine.virtualization", "none seen"),
            (vec![GUEST], "machine.virtualization", "a hypervisor"),
            (vec![(VENDOR, "QEMU"), GUEST], "machine.virtualization", "QEMU"),
            (vec![(VENDOR, "Amazon EC2")], "machine.virtualization", "none seen"),
            (vec![("sys/hypervisor/type", "xen")], "machine.virtualization", "xen"),
            (vec![], "machine.container", "none seen"),
            (vec![(".dockerenv", "")], "machine.container", "docker"),
            (vec![("run/systemd/container", "systemd-nspawn")], "machine.container", "systemd-nspawn"),
            (vec![("proc/self/cgroup", "0::/kubepods/x\n"), (".dockerenv", "")], "machine.container", "kubepods"),
        ];
        for (files, key, expected) in cases {
            assert_eq!(value(&files, key), expected, "{files:?}");
        }
    }

    #[test]
    fn the_command_line_tells_nothing_private() {
        let cases = [
            ("quiet numa=fake=8 ipv6.disable=1", "quiet numa=fake=8 ipv6.disable=1"),
            ("root=UUID=0123-45 ro", "root=UUID=... ro"),
            ("root=PARTUUID=77 x=LABEL=y", "root=PARTUUID=... x=LABEL=y"),
            ("ip=10.0.0.1::host nfsroot=1.2.3.4:/x", "ip=... nfsroot=..."),
            (
                "systemd.set_credential_binary=a:b systemd.hostname=me",
                "systemd.set_credential_binary=... systemd.hostname=...",
            ),
            ("quiet -- --secret 7", "quiet"),
        ];
        for (text, expected) in cases {
            assert_eq!(public_command_line(text), expected);
        }
    }

    #[test]
    fn this_machine_has_its_facts_once_each() {
        let settings = read();
        assert!(settings.get("kernel.release").is_some_and(|release| !release.is_empty()));
        assert!(settings.number("memory.total-bytes").is_some_and(|bytes| bytes > 1 << 20));
        assert!(settings.number("memory.page-bytes").is_some_and(u64::is_power_of_two));
        let mut keys: Vec<&str> = settings.facts.iter().map(|fact| fact.key.as_str()).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
        let host = host_name().unwrap_or_default();
        assert!(host.len() < 4 || settings.facts.iter().all(|fact| !fact.value.to_string().contains(&host)), "{host}");
        assert_eq!(read().fingerprint(), settings.fingerprint());
    }
}
