//! The checks of `nearfar doctor`, one row each.

use super::{Counters, Probes, ProblemGroup};
use crate::values::settings::{FactValue, MEMORY_POLICY, Settings};
use crate::values::undo::SettingChange;
use crate::values::units::Bytes;

/// `Some(Some(finding))` is a problem, `Some(None)` is ok, `None` means that the fact is unavailable.
pub(super) type CheckResult = Option<Option<String>>;

pub(super) struct Check {
    pub key: &'static str,
    pub group: ProblemGroup,
    pub run: fn(&Settings, &Probes) -> CheckResult,
    pub effect: &'static str,
    pub fix: &'static str,
    pub command: Option<&'static str>,
}

/// A load below a tenth of a CPU is kernel housekeeping.
const BUSY_MILLI_MAX: u64 = 100;
/// One percent of a CPU: a timer of the hypervisor takes less.
const STEAL_MILLI_MAX: u64 = 10;
/// Swapped-out memory that is never accessed is harmless, and is normal on machines with a long uptime.
const SWAP_USED_MAX: Bytes = Bytes(64 << 20);
/// A results file with ten thousand trials needs less than a tenth of this.
const FREE_MIN: Bytes = Bytes(256 << 20);

const QUIETEN: &str = "add it to --quieten, which restores it after the run";

pub(super) const CHECKS: [Check; 29] = [
    Check {
        key: "left-changed",
        group: ProblemGroup::Disturbs,
        run: |_, probes| Some(not_restored(probes)),
        effect: "the settings differ from those of the owner, and the next measurement would record them as original",
        fix: "restore the settings",
        command: Some("nearfar restore"),
    },
    Check {
        key: "load",
        group: ProblemGroup::Disturbs,
        run: load,
        effect: "other programs take CPUs, caches and memory bandwidth from trials, to a varying degree",
        fix: "stop them, or measure later; this command lists them",
        command: Some("top -b -n 1 | head -20"),
    },
    Check {
        key: "steal",
        group: ProblemGroup::Disturbs,
        run: steal,
        effect: "trials are paused while other guests run, which is not visible in the guest",
        fix: "measure on a dedicated host, or when other guests are idle",
        command: None,
    },
    Check {
        key: "swap",
        group: ProblemGroup::Disturbs,
        run: swap,
        effect: "a page fault on swapped-out memory stops a thread for milliseconds",
        fix: "free memory, then empty the swap",
        command: Some("sudo swapoff -a && sudo swapon -a"),
    },
    Check {
        key: "throttled",
        group: ProblemGroup::Disturbs,
        run: |_, probes| throttled(probes),
        effect: "later trials run slower than earlier ones",
        fix: "improve cooling or add pauses; random block order spreads the rest over all placements",
        command: None,
    },
    Check {
        key: "disk",
        group: ProblemGroup::Disturbs,
        run: disk,
        effect: "a full disk ends the run; earlier results are kept",
        fix: "free disk space, or use --store FILE on another disk",
        command: None,
    },
    Check {
        key: "governor",
        group: ProblemGroup::Disturbs,
        run: governor,
        effect: "the frequency follows the load, so that short trials run slower than long ones",
        fix: QUIETEN,
        command: Some("nearfar run quick --quieten governor"),
    },
    Check {
        key: "turbo",
        group: ProblemGroup::Disturbs,
        run: |settings, _| Some((settings.get("cpu.turbo")? == "on").then(|| "turbo is on".into())),
        effect: "one busy core is faster than many: placements also differ in frequency",
        fix: QUIETEN,
        command: Some("nearfar run quick --quieten turbo"),
    },
    Check {
        key: "smt",
        group: ProblemGroup::Disturbs,
        run: |settings, _| {
            Some((settings.get("cpu.smt")? == "on").then(|| "cores run two threads or more (SMT)".into()))
        },
        effect: "without pinning, two threads may share a core in one trial but not in the next",
        fix: "use a placement with one thread per core (one-core, compact), or add it to --quieten",
        command: Some("nearfar run quick --quieten smt"),
    },
    Check {
        key: "thp",
        group: ProblemGroup::Disturbs,
        run: thp,
        effect: "page sizes depend on memory fragmentation, and khugepaged runs during trials",
        fix: QUIETEN,
        command: Some("nearfar run quick --quieten thp"),
    },
    Check {
        key: "numa-balancing",
        group: ProblemGroup::Disturbs,
        run: |settings, _| {
            let value = settings.get("kernel.numa-balancing")?;
            Some((value != "0").then(|| format!("numa_balancing is {value}")))
        },
        effect: "the kernel causes page faults to sample memory accesses, and moves pages during trials",
        fix: QUIETEN,
        command: Some("nearfar run quick --quieten numa-balancing"),
    },
    Check {
        key: "memory-policy",
        group: ProblemGroup::Disturbs,
        run: |settings, _| {
            let policy = settings.get(MEMORY_POLICY)?;
            Some((policy != "default").then(|| format!("processes inherit the memory policy {policy}")))
        },
        effect: "trials of placements without a memory policy, such as kernel, do not have the Linux kernel's usual policy",
        fix: "start nearfar without numactl; if a kernel parameter (numa_policy=) sets the policy, that may be intended",
        command: Some("numactl --show"),
    },
    Check {
        key: "irqbalance",
        group: ProblemGroup::Disturbs,
        run: |_, probes| Some(probes.irqbalance.then(|| "irqbalance runs".into())),
        effect: "interrupts move between CPUs every ten seconds, on to or off the CPUs of a trial, and away from the CPUs of a \
                 placement",
        fix: QUIETEN,
        command: Some("nearfar run quick --quieten irqbalance"),
    },
    Check {
        key: "virtual-machine",
        group: ProblemGroup::Disturbs,
        run: virtual_machine,
        effect: "the topology is defined by the hypervisor: caches, cores and nodes may not be real, and virtual CPUs may migrate",
        fix: "measure on the host, or pin each virtual CPU and pass the host's topology to the guest",
        command: None,
    },
    Check {
        key: "cpu-limit",
        group: ProblemGroup::Disturbs,
        run: cpu_limit,
        effect: "threads are throttled when the quota is used up, or have fewer CPUs than the machine",
        fix: "run without the limit: on the host, or in a cgroup without one",
        command: Some("cat /proc/self/cgroup"),
    },
    Check {
        key: "memory-limit",
        group: ProblemGroup::Disturbs,
        run: memory_limit,
        effect: "near the limit the kernel reclaims pages during trials; beyond it the OOM killer ends them",
        fix: "run without the limit: on the host, or in a cgroup without one",
        command: Some("cat /proc/self/cgroup"),
    },
    Check {
        key: "root",
        group: ProblemGroup::CannotMeasure,
        run: |_, probes| Some((!probes.root).then(|| "nearfar does not run as root".into())),
        effect: "settings cannot be tuned; some evidence of other users' processes cannot be read",
        fix: "use sudo if you need these",
        command: Some("sudo nearfar doctor"),
    },
    Check {
        key: "frequency",
        group: ProblemGroup::CannotMeasure,
        run: |settings, _| unavailable(settings, "cpu.frequency-driver"),
        effect: "the frequency during trials is neither known nor set",
        fix: "in a virtual machine, the host controls it; on hardware, the firmware may disable the cpufreq driver",
        command: None,
    },
    Check {
        key: "turbo-switch",
        group: ProblemGroup::CannotMeasure,
        run: |settings, _| unavailable(settings, "cpu.turbo"),
        effect: "whether cores ran above their nominal frequency is not known",
        fix: "the firmware may have a switch for it",
        command: None,
    },
    Check {
        key: "throttling",
        group: ProblemGroup::CannotMeasure,
        run: |_, probes| Some(probes.throttled.as_ref().err().cloned()),
        effect: "thermal throttling is not detected",
        fix: "in a virtual machine, check the host",
        command: None,
    },
    Check {
        key: "counters",
        group: ProblemGroup::CannotMeasure,
        run: |_, probes| match &probes.counters {
            Counters::Missing(why) => Some(Some(format!("no hardware counters: {why}"))),
            _ => Some(None),
        },
        effect: "evidence has no cycles, instructions and cache misses",
        fix: "in a virtual machine, the host must pass them to the guest",
        command: None,
    },
    Check {
        key: "counters-forbidden",
        group: ProblemGroup::CannotMeasure,
        run: |_, probes| match &probes.counters {
            Counters::Forbidden(why) => Some(Some(format!("hardware counters are not permitted: {why}"))),
            _ => Some(None),
        },
        effect: "evidence has no cycles, instructions and cache misses",
        fix: "allow them for all users; the security policy of a container may forbid them",
        command: Some("sudo sysctl kernel.perf_event_paranoid=1"),
    },
    Check {
        key: "nodes",
        group: ProblemGroup::CannotMeasure,
        run: |_, probes| match probes.nodes {
            Some(0 | 1) => Some(Some("the machine has one memory node".into())),
            None => Some(Some("the kernel does not report memory nodes".into())),
            Some(_) => Some(None),
        },
        effect: "differences between near and far memory cannot be measured",
        fix: "another machine can be simulated from its hwloc XML file",
        command: Some("nearfar run quick --sim tests/topologies/models/xeon-e5-2640-x2.xml:7"),
    },
    Check {
        key: "weighted-interleave",
        group: ProblemGroup::CannotMeasure,
        // With one node there is nothing to interleave over.
        run: |_, probes| {
            let has_several = probes.nodes.is_some_and(|nodes| nodes > 1);
            let missing = || (!probes.weighted_interleave).then(|| "the kernel has no weighted interleaving".into());
            has_several.then(missing)
        },
        effect: "the placement weighted-interleave is unavailable, and map --weights cannot set weights",
        fix: "use Linux 6.9 or later",
        command: None,
    },
    Check {
        key: "page-nodes",
        group: ProblemGroup::CannotMeasure,
        run: |_, probes| Some(probes.page_nodes.as_ref().err().map(|why| format!("move_pages: {why}"))),
        effect: "where cannot run, built-in kernels cannot verify where their arrays are, and cached files are not moved",
        fix: "use a kernel with NUMA; a container needs the capability CAP_SYS_NICE or a security profile that permits \
              move_pages",
        command: None,
    },
    Check {
        key: "cached-page-nodes",
        group: ProblemGroup::CannotMeasure,
        // Without `page-nodes`, the other check reports the reason.
        run: |_, probes| {
            let cached = probes.page_nodes.as_ref().ok().map(|()| probes.cached_page_nodes.as_ref());
            cached.map(|cached| cached.err().map(|why| format!("madvise (MADV_POPULATE_READ): {why}")))
        },
        effect: "where --file does not show nodes, and cached files are not moved with the placements of a command",
        fix: "use Linux 5.14 or later",
        command: None,
    },
    Check {
        key: "text-copies",
        group: ProblemGroup::CannotMeasure,
        run: |_, probes| Some(probes.text_copies.as_ref().err().cloned()),
        effect: "commands cannot run from copies of their program and libraries: placements with text:copy and copy-text",
        fix: "run as root; a container needs the capability CAP_SYS_ADMIN",
        command: None,
    },
    Check {
        key: "managed-interrupts",
        group: ProblemGroup::CannotMeasure,
        run: |_, probes| Some(managed(probes)),
        effect: "these interrupts cannot be moved off the CPUs of a trial",
        fix: "isolate CPUs from them with the kernel parameter isolcpus=managed_irq,CPUS",
        command: None,
    },
    Check {
        key: "load-reading",
        group: ProblemGroup::CannotMeasure,
        run: |_, probes| Some(probes.load.as_ref().err().or(probes.free.as_ref().err()).cloned()),
        effect: "disturbances are not detected",
        fix: "make the files of /proc readable",
        command: None,
    },
];

/// Returns the reason why a setting is unavailable.
fn unavailable(settings: &Settings, key: &str) -> CheckResult {
    match settings.fact(key)? {
        FactValue::Known(_) => Some(None),
        FactValue::Unavailable(why) => Some(Some(why.clone())),
    }
}

fn throttled(probes: &Probes) -> CheckResult {
    let count = *probes.throttled.as_ref().ok()?;
    Some((count > 0).then(|| format!("{count} thermal throttling events since boot")))
}

fn not_restored(probes: &Probes) -> Option<String> {
    match &probes.pending_restores {
        Err(why) => Some(why.clone()),
        Ok(pending) if pending.is_empty() => None,
        Ok(pending) => {
            let change = |change: &SettingChange| format!("{} from {} to {}", change.setting, change.old, change.new);
            let changes = pending.iter().map(change).collect::<Vec<_>>().join(", ");
            Some(format!("an interrupted run changed {changes} and did not restore it"))
        }
    }
}

fn cpu_fraction(milli: u64, cpus: u64) -> String {
    format!("{}.{} of {cpus} CPUs", milli / 1000, milli % 1000 / 100)
}

fn load(_: &Settings, probes: &Probes) -> CheckResult {
    let load = probes.load.as_ref().ok()?;
    Some(
        (load.busy_milli > BUSY_MILLI_MAX)
            .then(|| format!("other programs use {}", cpu_fraction(load.busy_milli, load.cpus))),
    )
}

fn steal(_: &Settings, probes: &Probes) -> CheckResult {
    let load = probes.load.as_ref().ok()?;
    Some(
        (load.steal_milli > STEAL_MILLI_MAX)
            .then(|| format!("the hypervisor takes {} thousandths of a CPU", load.steal_milli)),
    )
}

fn swap(settings: &Settings, _: &Probes) -> CheckResult {
    let used = Bytes(settings.number("memory.swap-used-bytes")?);
    Some((used > SWAP_USED_MAX).then(|| format!("{used} of memory is swapped out")))
}

fn disk(_: &Settings, probes: &Probes) -> CheckResult {
    let free = *probes.free.as_ref().ok()?;
    Some((free < FREE_MIN).then(|| format!("the disk of the results has {free} free")))
}

fn governor(settings: &Settings, _: &Probes) -> CheckResult {
    let governor = settings.get("cpu.governor")?;
    Some((governor != "performance").then(|| format!("the frequency governor is {governor}")))
}

fn thp(settings: &Settings, _: &Probes) -> CheckResult {
    let mode = settings.get("memory.thp")?;
    Some((mode != "never").then(|| format!("transparent huge pages are enabled: {mode}")))
}

fn virtual_machine(settings: &Settings, _: &Probes) -> CheckResult {
    let kind = settings.get("machine.virtualization")?;
    Some((kind != "none seen").then(|| format!("this is a virtual machine ({kind})")))
}

fn cpu_limit(settings: &Settings, _: &Probes) -> CheckResult {
    let quota = settings.get("cgroup.cpu-quota")?;
    if quota != "none" {
        return Some(Some(format!("a cgroup limits this process to {quota}")));
    }
    let lists = settings.get("cgroup.cpus").zip(settings.get("cpu.online"));
    let fewer = lists.filter(|(ours, online)| ours != online);
    Some(fewer.map(|(ours, online)| format!("a cgroup limits this process to CPUs {ours} of {online}")))
}

fn memory_limit(settings: &Settings, _: &Probes) -> CheckResult {
    let limit = settings.get("cgroup.memory-bytes")?;
    let total = Bytes(settings.number("memory.total-bytes")?);
    let limit = limit.parse().ok().map(Bytes).filter(|limit| *limit < total);
    Some(limit.map(|limit| format!("a cgroup limits this process to {limit} of {total}")))
}

fn managed(probes: &Probes) -> Option<String> {
    let names = &probes.managed_interrupts;
    let more = if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
    names.first().map(|first| format!("the kernel manages the affinity of interrupts: {first}{more}"))
}
