//! The checks, one row each: what is looked at, when it is complained of, its effect and the fix.

use super::{Counters, Probes, ProblemGroup};
use crate::values::settings::{FactValue, Settings};
use crate::values::undo::SettingChange;
use crate::values::units::Bytes;

/// What is complained of; none in it when all is well, none at all when it cannot be told.
pub(super) type CheckResult = Option<Option<String>>;

/// One thing that is looked at.
pub(super) struct Check {
    pub key: &'static str,
    pub group: ProblemGroup,
    pub look: fn(&Settings, &Probes) -> CheckResult,
    pub effect: &'static str,
    pub fix: &'static str,
    pub command: Option<&'static str>,
}

/// Below a tenth of a cpu it is the kernel's own housekeeping.
const BUSY_MILLI_MAX: u64 = 100;
/// One percent of a cpu: a timer of the hypervisor takes less.
const STEAL_MILLI_MAX: u64 = 10;
/// What lies in swap and is never asked for does no harm; some always does on a machine that has been up for long.
const SWAP_USED_MAX: Bytes = Bytes(64 << 20);
/// A results file with ten thousand trials takes less than a tenth of this.
const FREE_MIN: Bytes = Bytes(256 << 20);

const QUIETEN: &str = "add it to --quieten, which puts it back after the run";

pub(super) const CHECKS: [Check; 24] = [
    Check {
        key: "left-changed",
        group: ProblemGroup::Disturbs,
        look: |_, signs| Some(left_changed(signs)),
        effect: "this machine is not set as its owner set it, and the next measurement would take that for granted",
        fix: "put the settings back",
        command: Some("nearfar restore"),
    },
    Check {
        key: "load",
        group: ProblemGroup::Disturbs,
        look: load,
        effect: "other programs take cpus, caches and memory bandwidth from trials, each time differently",
        fix: "end them, or measure when they have ended; this shows them",
        command: Some("top -b -n 1 | head -20"),
    },
    Check {
        key: "steal",
        group: ProblemGroup::Disturbs,
        look: steal,
        effect: "trials stand still while other guests run; times grow without anything to see inside",
        fix: "measure on a host of your own, or when the neighbours are quiet",
        command: None,
    },
    Check {
        key: "swap",
        group: ProblemGroup::Disturbs,
        look: swap,
        effect: "memory that comes back from swap stops a thread for milliseconds",
        fix: "free memory, then take everything out of swap",
        command: Some("sudo swapoff -a && sudo swapon -a"),
    },
    Check {
        key: "throttled",
        group: ProblemGroup::Disturbs,
        look: |_, signs| throttled(signs),
        effect: "later trials run slower than earlier ones",
        fix: "better cooling, or pauses; blocks in random order spread what remains over all placements",
        command: None,
    },
    Check {
        key: "disk",
        group: ProblemGroup::Disturbs,
        look: disk,
        effect: "a full disk ends the run; what was measured before stays",
        fix: "free room, or give --store FILE on another disk",
        command: None,
    },
    Check {
        key: "governor",
        group: ProblemGroup::Disturbs,
        look: governor,
        effect: "the frequency follows the load, so that short trials run slower than long ones",
        fix: QUIETEN,
        command: Some("nearfar run quick --quieten governor"),
    },
    Check {
        key: "turbo",
        group: ProblemGroup::Disturbs,
        look: |settings, _| Some((settings.get("cpu.turbo")? == "on").then(|| "turbo is on".into())),
        effect: "one busy core is faster than many: placements differ by frequency as well as by place",
        fix: QUIETEN,
        command: Some("nearfar run quick --quieten turbo"),
    },
    Check {
        key: "smt",
        group: ProblemGroup::Disturbs,
        look: |settings, _| {
            Some((settings.get("cpu.smt")? == "on").then(|| "cores run two threads or more (SMT)".into()))
        },
        effect: "where the kernel places freely, two threads may share a core in one trial and not in the next",
        fix: "seat threads on cores of their own (one-core, compact); or add it to --quieten",
        command: Some("nearfar run quick --quieten smt"),
    },
    Check {
        key: "thp",
        group: ProblemGroup::Disturbs,
        look: thp,
        effect: "the size of pages depends on how much memory was in one piece, and khugepaged works beside trials",
        fix: QUIETEN,
        command: Some("nearfar run quick --quieten thp"),
    },
    Check {
        key: "numa-balancing",
        group: ProblemGroup::Disturbs,
        look: |settings, _| {
            let value = settings.get("kernel.numa-balancing")?;
            Some((value != "0").then(|| format!("numa_balancing is {value}")))
        },
        effect: "the kernel takes page faults to watch memory, and moves pages during a trial",
        fix: QUIETEN,
        command: Some("nearfar run quick --quieten numa-balancing"),
    },
    Check {
        key: "irqbalance",
        group: ProblemGroup::Disturbs,
        look: |_, signs| Some(signs.irqbalance.then(|| "irqbalance runs".into())),
        effect: "interrupts move from cpu to cpu every ten seconds, on to the seats of a trial or off them, and away from where \
                 a placement sent them",
        fix: QUIETEN,
        command: Some("nearfar run quick --quieten irqbalance"),
    },
    Check {
        key: "virtual-machine",
        group: ProblemGroup::Disturbs,
        look: virtual_machine,
        effect: "the topology is what the hypervisor tells: caches, cores and nodes may be invented, and cpus may move",
        fix: "measure on the host, or have each virtual cpu pinned and the host's topology passed on",
        command: None,
    },
    Check {
        key: "cpu-limit",
        group: ProblemGroup::Disturbs,
        look: cpu_limit,
        effect: "threads are stopped when the quota is used up, or have fewer cpus than the machine shows",
        fix: "run outside of the limit: on the host, or in a group without one",
        command: Some("cat /proc/self/cgroup"),
    },
    Check {
        key: "memory-limit",
        group: ProblemGroup::Disturbs,
        look: memory_limit,
        effect: "near the limit the kernel reclaims pages during trials, and beyond it ends them",
        fix: "run outside of the limit: on the host, or in a group without one",
        command: Some("cat /proc/self/cgroup"),
    },
    Check {
        key: "root",
        group: ProblemGroup::CannotMeasure,
        look: |_, signs| Some((!signs.root).then(|| "we are not root".into())),
        effect: "settings cannot be made quiet; some evidence of other users' processes cannot be read",
        fix: "run it by sudo where you need that",
        command: Some("sudo nearfar doctor"),
    },
    Check {
        key: "frequency",
        group: ProblemGroup::CannotMeasure,
        look: |settings, _| why(settings, "cpu.frequency-driver"),
        effect: "the frequency during trials is neither known nor set",
        fix: "in a virtual machine it is the host's; on hardware a cpufreq driver may be switched off in the firmware",
        command: None,
    },
    Check {
        key: "turbo-switch",
        group: ProblemGroup::CannotMeasure,
        look: |settings, _| why(settings, "cpu.turbo"),
        effect: "whether cores ran above their nominal frequency is not known",
        fix: "the firmware may have a switch for it",
        command: None,
    },
    Check {
        key: "throttling",
        group: ProblemGroup::CannotMeasure,
        look: |_, signs| Some(signs.throttled.as_ref().err().cloned()),
        effect: "slowing down for heat is not seen",
        fix: "in a virtual machine look on the host",
        command: None,
    },
    Check {
        key: "counters",
        group: ProblemGroup::CannotMeasure,
        look: |_, signs| match &signs.counters {
            Counters::Missing(why) => Some(Some(format!("no hardware counters: {why}"))),
            _ => Some(None),
        },
        effect: "no cycles, instructions and cache misses as evidence",
        fix: "a virtual machine needs them passed on by its host",
        command: None,
    },
    Check {
        key: "counters-forbidden",
        group: ProblemGroup::CannotMeasure,
        look: |_, signs| match &signs.counters {
            Counters::Forbidden(why) => Some(Some(format!("hardware counters are not for us: {why}"))),
            _ => Some(None),
        },
        effect: "no cycles, instructions and cache misses as evidence",
        fix: "allow them to every user; in a container its security policy may forbid them",
        command: Some("sudo sysctl kernel.perf_event_paranoid=1"),
    },
    Check {
        key: "nodes",
        group: ProblemGroup::CannotMeasure,
        look: |_, signs| match signs.nodes {
            Some(0 | 1) => Some(Some("there is one memory node".into())),
            None => Some(Some("this kernel knows no memory nodes".into())),
            Some(_) => Some(None),
        },
        effect: "near and far memory cannot be told apart by measuring",
        fix: "another machine can be simulated from its hwloc XML file",
        command: Some("nearfar run quick --sim tests/topologies/models/xeon-e5-2640-x2.xml:7"),
    },
    Check {
        key: "managed-interrupts",
        group: ProblemGroup::CannotMeasure,
        look: |_, signs| Some(managed(signs)),
        effect: "these interrupts cannot be moved off the cpus of a trial",
        fix: "the kernel keeps them off cpus that are isolated at boot: isolcpus=managed_irq,CPUS",
        command: None,
    },
    Check {
        key: "load-reading",
        group: ProblemGroup::CannotMeasure,
        look: |_, signs| Some(signs.load.as_ref().err().or(signs.free.as_ref().err()).cloned()),
        effect: "what disturbs is not known",
        fix: "the files of /proc have to be readable",
        command: None,
    },
];

/// Why a setting cannot be read.
fn why(settings: &Settings, key: &str) -> CheckResult {
    match settings.fact(key)? {
        FactValue::Known(_) => Some(None),
        FactValue::Unavailable(why) => Some(Some(why.clone())),
    }
}

fn throttled(signs: &Probes) -> CheckResult {
    let count = *signs.throttled.as_ref().ok()?;
    Some((count > 0).then(|| format!("cpus were slowed down for heat {count} times since boot")))
}

fn left_changed(signs: &Probes) -> Option<String> {
    match &signs.left {
        Err(why) => Some(why.clone()),
        Ok(left) if left.is_empty() => None,
        Ok(left) => {
            let change = |change: &SettingChange| format!("{} from {} to {}", change.setting, change.old, change.new);
            let changes = left.iter().map(change).collect::<Vec<_>>().join(", ");
            Some(format!("an interrupted run changed {changes} and did not put it back"))
        }
    }
}

/// `1.5 of 4 cpus`.
fn of_cpus(milli: u64, cpus: u64) -> String {
    format!("{}.{} of {cpus} cpus", milli / 1000, milli % 1000 / 100)
}

fn load(_: &Settings, signs: &Probes) -> CheckResult {
    let load = signs.load.as_ref().ok()?;
    Some(
        (load.busy_milli > BUSY_MILLI_MAX)
            .then(|| format!("{} are busy with something else", of_cpus(load.busy_milli, load.cpus))),
    )
}

fn steal(_: &Settings, signs: &Probes) -> CheckResult {
    let load = signs.load.as_ref().ok()?;
    Some(
        (load.steal_milli > STEAL_MILLI_MAX)
            .then(|| format!("the hypervisor takes {} thousandths of a cpu away", load.steal_milli)),
    )
}

fn swap(settings: &Settings, _: &Probes) -> CheckResult {
    let used = Bytes(settings.number("memory.swap-used-bytes")?);
    Some((used > SWAP_USED_MAX).then(|| format!("{used} of memory are in swap")))
}

fn disk(_: &Settings, signs: &Probes) -> CheckResult {
    let free = *signs.free.as_ref().ok()?;
    Some((free < FREE_MIN).then(|| format!("{free} are free where results are kept")))
}

fn governor(settings: &Settings, _: &Probes) -> CheckResult {
    let governor = settings.get("cpu.governor")?;
    Some((governor != "performance").then(|| format!("the frequency governor is {governor}")))
}

fn thp(settings: &Settings, _: &Probes) -> CheckResult {
    let mode = settings.get("memory.thp")?;
    Some((mode != "never").then(|| format!("transparent huge pages are given: {mode}")))
}

fn virtual_machine(settings: &Settings, _: &Probes) -> CheckResult {
    let kind = settings.get("machine.virtualization")?;
    Some((kind != "none seen").then(|| format!("this is a virtual machine ({kind})")))
}

fn cpu_limit(settings: &Settings, _: &Probes) -> CheckResult {
    let quota = settings.get("cgroup.cpu-quota")?;
    if quota != "none" {
        return Some(Some(format!("a control group limits us to {quota}")));
    }
    let lists = settings.get("cgroup.cpus").zip(settings.get("cpu.online"));
    let fewer = lists.filter(|(ours, online)| ours != online);
    Some(fewer.map(|(ours, online)| format!("a control group leaves us cpus {ours} of {online}")))
}

fn memory_limit(settings: &Settings, _: &Probes) -> CheckResult {
    let limit = settings.get("cgroup.memory-bytes")?;
    let total = Bytes(settings.number("memory.total-bytes")?);
    let limit = limit.parse().ok().map(Bytes).filter(|limit| *limit < total);
    Some(limit.map(|limit| format!("a control group limits us to {limit} of {total}")))
}

fn managed(signs: &Probes) -> Option<String> {
    let names = &signs.managed_interrupts;
    let more = if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
    names.first().map(|first| format!("the kernel has spread interrupts itself: {first}{more}"))
}
