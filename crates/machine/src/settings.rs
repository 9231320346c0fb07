//! Reads the settings of this machine that affect measurements. Each fact is a value or the reason why it cannot be
//! read. Serial numbers are never read, and the host name only by [`host_name`].

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::path::Path;

use model::values::id_set::{CpuSet, NodeSet};
use model::values::settings::{FactValue, MEMORY_POLICY, Settings};

use crate::affinity;
use crate::sysfs::{self, Limit};

/// Reads all facts of this machine, in display order.
pub fn read() -> Settings {
    let mut settings = read_at(Path::new("/"));
    settings.record("memory.page-bytes", FactValue::Known(page_bytes().to_string()));
    settings.record(MEMORY_POLICY, memory_policy());
    settings
}

/// The policy of this process, which trials without a memory policy inherit, as `numactl --show` reports it.
fn memory_policy() -> FactValue {
    affinity::memory_policy().map_or_else(|error| FactValue::Unavailable(error.to_string()), FactValue::Known)
}

/// Returns the host name. It is personal data, so callers must record it only on request.
pub fn host_name() -> Option<String> {
    sysfs::read_text(Path::new("/"), "proc/sys/kernel/hostname").ok().filter(|name| !name.is_empty())
}

/// A fact that is read from one file: key, path, conversion of the text, and the reason if the file is missing.
struct FileFact(&'static str, &'static str, fn(&str) -> String, &'static str);

const NO_CPUFREQ: &str = "no cpufreq driver: this kernel does not control the frequency";
const NO_OPTION: &str = "not built into this kernel";

const NO_DMI: &str = "no DMI tables";

const FILE_FACTS: [FileFact; 26] = [
    FileFact("machine.bios-version", "sys/devices/virtual/dmi/id/bios_version", verbatim, NO_DMI),
    FileFact("machine.bios-date", "sys/devices/virtual/dmi/id/bios_date", year_first, NO_DMI),
    FileFact("kernel.release", "proc/sys/kernel/osrelease", verbatim, "no /proc"),
    FileFact("kernel.version", "proc/sys/kernel/version", verbatim, "no /proc"),
    FileFact("kernel.command-line", "proc/cmdline", public_command_line, "no /proc"),
    FileFact("kernel.boot-id", "proc/sys/kernel/random/boot_id", verbatim, "no /proc"),
    FileFact("kernel.aslr", "proc/sys/kernel/randomize_va_space", verbatim, "no /proc"),
    FileFact(
        "kernel.clocksource",
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        verbatim,
        NO_OPTION,
    ),
    FileFact("kernel.isolated-cpus", "sys/devices/system/cpu/isolated", list_or_none, NO_OPTION),
    FileFact("kernel.nohz-full-cpus", "sys/devices/system/cpu/nohz_full", list_or_none, NO_OPTION),
    FileFact("kernel.numa-balancing", "proc/sys/kernel/numa_balancing", verbatim, NO_OPTION),
    FileFact("kernel.sched-autogroup", "proc/sys/kernel/sched_autogroup_enabled", verbatim, NO_OPTION),
    FileFact("kernel.perf-event-paranoid", "proc/sys/kernel/perf_event_paranoid", verbatim, NO_OPTION),
    FileFact("cpu.online", "sys/devices/system/cpu/online", verbatim, "no /sys"),
    FileFact("cpu.smt", "sys/devices/system/cpu/smt/control", verbatim, NO_OPTION),
    FileFact("cpu.frequency-driver", "sys/devices/system/cpu/cpufreq/policy0/scaling_driver", verbatim, NO_CPUFREQ),
    FileFact("cpu.idle-driver", "sys/devices/system/cpu/cpuidle/current_driver", verbatim, NO_OPTION),
    FileFact("memory.thp", "sys/kernel/mm/transparent_hugepage/enabled", selected, NO_OPTION),
    FileFact("memory.thp-defrag", "sys/kernel/mm/transparent_hugepage/defrag", selected, NO_OPTION),
    FileFact("memory.ksm", "sys/kernel/mm/ksm/run", verbatim, NO_OPTION),
    FileFact("memory.overcommit", "proc/sys/vm/overcommit_memory", verbatim, "no /proc"),
    FileFact("memory.swappiness", "proc/sys/vm/swappiness", verbatim, "no /proc"),
    FileFact("memory.zswap", "sys/module/zswap/parameters/enabled", verbatim, NO_OPTION),
    FileFact("memory.numa-demotion", "sys/kernel/mm/numa/demotion_enabled", verbatim, NO_OPTION),
    FileFact("memory.zone-reclaim", "proc/sys/vm/zone_reclaim_mode", verbatim, NO_OPTION),
    FileFact("machine.power-profile", "sys/firmware/acpi/platform_profile", verbatim, "no platform profile"),
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
    settings.record("kernel.sched-ext", sched_ext(root));
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

fn verbatim(text: &str) -> String {
    text.into()
}

/// Converts `07/23/2025` to `2025-07-23`, so that dates sort chronologically; other texts are unchanged.
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

/// Parameters whose values identify this machine or grant access to it.
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

/// Returns the kernel's parameters without private values. Text after `--` is for the init process and is dropped.
fn public_command_line(text: &str) -> String {
    let parameters = text.split(" -- ").next().unwrap_or(text);
    let public = |parameter: &str| {
        let Some((name, value)) = parameter.split_once('=') else { return parameter.to_owned() };
        let is_private = PRIVATE_PARAMETERS.contains(&name) || name.starts_with("systemd.set_credential");
        match value.split_once('=') {
            _ if is_private => format!("{name}=..."),
            // root=UUID=0123 identifies the machine like a serial number.
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
    known_or(text("proc/device-tree/model").or_else(from_tables), "no device tree and no DMI tables")
}

/// Names of hypervisors in DMI tables.
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
        // Bare-metal instances of Amazon have the same vendor; only the flag identifies a guest.
        (Some(&"Amazon EC2") | None, false) => FactValue::Known("none seen".into()),
        (Some(guest), _) => FactValue::Known((*guest).into()),
        (None, true) => FactValue::Known("a hypervisor".into()),
    }
}

fn container(root: &Path) -> FactValue {
    let marker_files = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
    let marked = marker_files.iter().find(|(file, _)| root.join(file).exists()).map(|(_, kind)| (*kind).to_owned());
    let declared = || sysfs::read_text(root, "run/systemd/container").ok().filter(|kind| !kind.is_empty());
    let groups = sysfs::read_text(root, "proc/self/cgroup").unwrap_or_default();
    let from_cgroup = || {
        ["kubepods", "docker", "lxc", "containerd"]
            .iter()
            .find(|kind| groups.contains(**kind))
            .map(|kind| (*kind).into())
    };
    FactValue::Known(declared().or_else(from_cgroup).or(marked).unwrap_or_else(|| "none seen".into()))
}

fn distribution(root: &Path) -> FactValue {
    let text = sysfs::read_text(root, "etc/os-release").or_else(|_| sysfs::read_text(root, "usr/lib/os-release"));
    let text = text.unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    known_or(name.map(|name| name.trim_matches(['"', '\'']).to_owned()), "no os-release file")
}

/// Returns the name of the scheduler that `sched_ext` has loaded, which decides where unbound threads run, or its state.
fn sched_ext(root: &Path) -> FactValue {
    let state = file_fact(root, "sys/kernel/sched_ext/state", verbatim, NO_OPTION);
    match (state, sysfs::read_text(root, "sys/kernel/sched_ext/root/ops")) {
        (FactValue::Known(state), Ok(scheduler)) if state != "disabled" => {
            FactValue::Known(format!("{state}: {scheduler}"))
        }
        (state, _) => state,
    }
}

/// Returns the kernel's memory tiers with their nodes, the fastest tier first: `4: 0-1, 22: 2`. `None` if all memory is in
/// one tier, so that the settings of most machines remain comparable with those that earlier versions recorded.
fn memory_tiers(root: &Path) -> Option<String> {
    let dir = root.join("sys/devices/virtual/memory_tiering");
    let tier = |name: &String| -> Option<(u32, NodeSet)> {
        // A lower number is a faster tier.
        let number = name.strip_prefix("memory_tier")?.parse().ok()?;
        Some((number, sysfs::read_list(&dir, &format!("{name}/nodelist"))?))
    };
    let tiers: BTreeMap<u32, NodeSet> = sysfs::names(&dir).iter().filter_map(tier).collect();
    let texts: Vec<String> = tiers.iter().map(|(number, nodes)| format!("{number}: {nodes}")).collect();
    (texts.len() > 1).then(|| texts.join(", "))
}

fn cpuinfo(root: &Path) -> String {
    sysfs::read_text(root, "proc/cpuinfo").unwrap_or_default()
}

fn record_cpu(settings: &mut Settings, root: &Path) {
    let cpuinfo = cpuinfo(root);
    settings.record("cpu.model", known_or(cpu_model(&cpuinfo), "/proc/cpuinfo has no model"));
    settings.record("cpu.microcode", known_or(counted(&cpuinfo, &["microcode"]), "/proc/cpuinfo has no microcode"));
    settings.record("cpu.governor", known_or(per_policy(root, "scaling_governor"), NO_CPUFREQ));
    settings.record("cpu.frequency-khz-min", known_or(per_policy(root, "scaling_min_freq"), NO_CPUFREQ));
    settings.record("cpu.frequency-khz-max", known_or(per_policy(root, "scaling_max_freq"), NO_CPUFREQ));
    settings.record(
        "cpu.energy-preference",
        known_or(per_policy(root, "energy_performance_preference"), "the frequency driver does not support it"),
    );
    settings.record("cpu.turbo", turbo(root));
    settings.record("cpu.wake-up-us-max", wake_up_us_max(root));
    settings.record("cpu.idle-states", known_or(idle_states(root), "this kernel does not control idle states"));
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    counted(cpuinfo, &["model name"])
        .or_else(|| counted(cpuinfo, &["CPU implementer", "CPU part"]))
        .or_else(|| counted(cpuinfo, &["cpu"]))
}

/// Returns the value of these keys if all CPUs agree, else each value with its number of CPUs.
fn counted(cpuinfo: &str, keys: &[&str]) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for cpu in cpuinfo.split("\n\n") {
        let value = |key: &&str| {
            let line = cpu.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                (name.trim() == *key).then(|| value.trim().to_owned())
            })?;
            // ARM's part numbers are meaningful only together with their key.
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

/// Reads a file of the cpufreq policies: one value if all agree, else `0-3: powersave, 4-5: performance`.
fn per_policy(root: &Path, file: &str) -> Option<String> {
    let mut cpus_by_value: BTreeMap<String, CpuSet> = BTreeMap::new();
    let dir = root.join("sys/devices/system/cpu/cpufreq");
    for policy in sysfs::names(&dir).iter().map(|name| dir.join(name)) {
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
    // Intel's switch disables turbo; that of other drivers enables it.
    if let Some(no_turbo) = text("sys/devices/system/cpu/intel_pstate/no_turbo") {
        return switch(no_turbo == "0");
    }
    text("sys/devices/system/cpu/cpufreq/boost")
        .map_or_else(|| unavailable("no frequency driver that can switch it"), |boost| switch(boost == "1"))
}

/// Returns the latency limit requested by processes that hold the file open; 2000 s means that no process requests one.
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

/// Returns the enabled idle states of CPU 0.
fn idle_states(root: &Path) -> Option<String> {
    let dir = root.join("sys/devices/system/cpu/cpu0/cpuidle");
    let enabled = |state: &String| {
        let dir = dir.join(state);
        let disabled = sysfs::read_text(&dir, "disable").is_ok_and(|value| value != "0");
        (!disabled).then(|| sysfs::read_text(&dir, "name").ok()).flatten()
    };
    let states = sysfs::names(&dir);
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
        settings.record(key, known_or(size.map(|size| size.to_string()), "/proc/meminfo does not list it"));
    }
    if let Some(tiers) = memory_tiers(root) {
        settings.record("memory.tiers", FactValue::Known(tiers));
    }
    let dir = root.join("sys/kernel/mm/hugepages");
    for size in sysfs::names(&dir) {
        let count = sysfs::read_text(&dir.join(&size), "nr_hugepages").ok();
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

/// Records one fact per vulnerability that the kernel lists, including those that do not affect this CPU.
fn record_mitigations(settings: &mut Settings, root: &Path) {
    let dir = root.join("sys/devices/system/cpu/vulnerabilities");
    let names = sysfs::names(&dir);
    if names.is_empty() {
        settings.record("mitigations", unavailable("this kernel does not list them"));
    }
    for name in names {
        let state = sysfs::read_text(&dir, &name).ok();
        settings.record(&format!("mitigations.{}", name.replace('_', "-")), known_or(state, "cannot be read"));
    }
}

#[allow(unsafe_code)]
fn page_bytes() -> u64 {
    // SAFETY: sysconf has no preconditions and accesses no memory of this program.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).expect("the page size is positive")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;

    /// Files by path, a key, and its expected value.
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
            (vec![("proc/sys/kernel/sched_autogroup_enabled".into(), "1\n")], "kernel.sched-autogroup", "1"),
            (vec![("proc/sys/kernel/perf_event_paranoid".into(), "-1\n")], "kernel.perf-event-paranoid", "-1"),
            (vec![], "kernel.sched-ext", "unavailable: not built into this kernel"),
            (vec![("sys/kernel/sched_ext/state".into(), "disabled\n")], "kernel.sched-ext", "disabled"),
            (
                vec![
                    ("sys/kernel/sched_ext/state".into(), "enabled\n"),
                    ("sys/kernel/sched_ext/root/ops".into(), "rusty_1.0.4\n"),
                ],
                "kernel.sched-ext",
                "enabled: rusty_1.0.4",
            ),
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
            (vec![], "cpu.turbo", "unavailable: no frequency driver that can switch it"),
            (vec![], "cpu.governor", "unavailable: no cpufreq driver: this kernel does not control the frequency"),
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
    fn cpu_model_is_the_name_or_the_part_numbers() {
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
    fn guests_and_containers_are_detected() {
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
    fn memory_tiers_are_recorded_if_there_are_several() {
        const DIR: &str = "sys/devices/virtual/memory_tiering";
        let tier = |number: u32| format!("{DIR}/memory_tier{number}/nodelist");
        let fact = |files: &[(String, &str)]| read_at(tree(files).path()).get("memory.tiers").map(String::from);
        assert_eq!(fact(&[(tier(22), "2-3\n"), (tier(4), "0-1\n")]).as_deref(), Some("4: 0-1, 22: 2-3"));
        assert_eq!(fact(&[(tier(4), "0-1\n"), (format!("{DIR}/power/control"), "auto\n")]), None);
        assert_eq!(fact(&[]), None);
    }

    #[test]
    fn private_command_line_values_are_removed() {
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
    fn facts_of_this_machine_are_distinct() {
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
