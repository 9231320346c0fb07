//! The lines that apply a placement by hand, one per tool.

use serde::Serialize;

use super::{MemoryPolicy, Placement};
use crate::values::id_set::{CpuId, CpuSet, Id, IdSet, NodeSet};
use crate::values::topology::Topology;

/// Ready-to-paste lines; none where a tool cannot express the placement, all none where nothing is bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CommandLines {
    /// taskset(1): cpus only.
    pub taskset: Option<String>,
    /// numactl(8); `-w` needs numactl 2.0.19.
    pub numactl: Option<String>,
    /// hwloc-bind(1) with the system's numbers, not hwloc's.
    pub hwloc_bind: Option<String>,
    /// A drop-in for a service: `systemctl edit NAME.service`.
    pub systemd: Option<String>,
    /// The same as a transient service of systemd-run(1). A scope would not do: it takes no
    /// `CPUAffinity` or `NUMAPolicy`.
    pub systemd_run: Option<String>,
    /// docker run, and podman run; IMAGE is yours.
    pub docker: Option<String>,
    /// Slurm's srun, inside an allocation that has these cpus.
    pub slurm: Option<String>,
    /// OpenMP's environment: one thread per place. Cpus only.
    pub openmp: Option<String>,
    /// What kubelet and container have to say so that Kubernetes chooses cpus like these; it chooses them itself.
    pub kubernetes: Option<String>,
    /// Elements of a libvirt domain with one virtual cpu per cpu.
    pub libvirt: Option<String>,
    /// Where the interrupts of devices go, for root's shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<String>,
    /// `nearfar expand`, where the placement has a budget of DRAM; it goes before the others' command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expand: Option<String>,
}

/// The lines for a placement of a command, which is pasted as it is.
pub fn lines(placement: &Placement, topology: &Topology, command: &str) -> CommandLines {
    let wanted = LineInput {
        seats: &placement.seats,
        cpus: placement.cpus(),
        threads: placement.threads,
        memory: &placement.memory,
        // With one node, every policy is what a tool without memory policies does anyway.
        memory_matters: topology.allowed_nodes.len() > 1 && placement.memory != MemoryPolicy::Kernel,
        command: command.trim(),
    };
    let interrupts = interrupts(placement);
    let expand = placement.budget.map(|budget| {
        let plain = if budget.steered { "" } else { " --engine plain" };
        format!("nearfar expand --dram {}{plain} -- {}", budget.dram, command.trim())
    });
    // What is beyond DRAM no tool can say, and seats alone would be another placement.
    let inexpressible = placement.memory.is_beyond_dram();
    if inexpressible || (wanted.cpus.is_empty() && placement.memory == MemoryPolicy::Kernel) {
        return CommandLines { interrupts, expand, ..CommandLines::default() };
    }
    CommandLines {
        taskset: taskset(&wanted),
        numactl: Some(numactl(&wanted)),
        hwloc_bind: hwloc_bind(&wanted),
        systemd: systemd_properties(&wanted).map(|properties| format!("[Service]\n{}", properties.join("\n"))),
        systemd_run: systemd_run(&wanted),
        docker: docker(&wanted),
        slurm: slurm(&wanted),
        openmp: openmp(&wanted),
        kubernetes: kubernetes(&wanted, topology),
        libvirt: libvirt(&wanted),
        interrupts,
        expand,
    }
}

/// A running irqbalance would move them again within seconds: it is told to leave them alone, until it is restarted.
fn interrupts(placement: &Placement) -> Option<String> {
    let moved: Vec<_> = placement.interrupts.iter().filter(|route| !route.cpus.is_empty()).collect();
    if moved.is_empty() {
        return None;
    }
    let lines = moved.iter().map(|route| format!("echo {} > /proc/irq/{}/smp_affinity_list", route.cpus, route.number));
    let bans: Vec<String> = moved.iter().map(|route| format!("--banirq={}", route.number)).collect();
    let note = format!("# where irqbalance runs, it needs in IRQBALANCE_ARGS: {}", bans.join(" "));
    Some(lines.chain([note]).collect::<Vec<_>>().join("\n"))
}

struct LineInput<'a> {
    seats: &'a [CpuId],
    cpus: CpuSet,
    threads: usize,
    memory: &'a MemoryPolicy,
    memory_matters: bool,
    command: &'a str,
}

fn taskset(wanted: &LineInput) -> Option<String> {
    let possible = !wanted.cpus.is_empty() && !wanted.memory_matters;
    possible.then(|| format!("taskset -c {} {}", wanted.cpus, wanted.command))
}

fn numactl(wanted: &LineInput) -> String {
    let letters = letters(&wanted.cpus, wanted.memory);
    let words = [vec!["numactl".to_string()], letters, vec![wanted.command.into()]];
    words.concat().join(" ")
}

/// A placement in numactl's letters: `-C 0-2,6-8` and `-m 0`; none where nothing is bound.
pub(crate) fn letters(cpus: &CpuSet, memory: &MemoryPolicy) -> Vec<String> {
    let mut letters = Vec::new();
    if !cpus.is_empty() {
        letters.push(format!("-C {cpus}"));
    }
    match memory {
        MemoryPolicy::Kernel | MemoryPolicy::Far => {}
        MemoryPolicy::Local => letters.push("-l".into()),
        MemoryPolicy::Bind(nodes) => letters.push(format!("-m {nodes}")),
        MemoryPolicy::Interleave(nodes) => letters.push(format!("-i {nodes}")),
        MemoryPolicy::WeightedInterleave(nodes) => letters.push(format!("-w {nodes}")),
        MemoryPolicy::Preferred(node) => letters.push(format!("-p {node}")),
    }
    letters
}

/// hwloc's "bind" without --strict is the kernel's "preferred"; only with it pages stay on the nodes.
fn hwloc_bind(wanted: &LineInput) -> Option<String> {
    let memory = match wanted.memory {
        MemoryPolicy::Kernel => None,
        MemoryPolicy::Local => Some("--membind --mempolicy firsttouch all".to_string()),
        MemoryPolicy::Bind(nodes) => Some(format!("--membind {}", locations("node", nodes))),
        MemoryPolicy::Interleave(nodes) => {
            Some(format!("--membind --mempolicy interleave {}", locations("node", nodes)))
        }
        MemoryPolicy::WeightedInterleave(_) | MemoryPolicy::Preferred(_) | MemoryPolicy::Far => return None,
    };
    let mut words = vec!["hwloc-bind --physical".to_string()];
    if matches!(wanted.memory, MemoryPolicy::Bind(_)) {
        words.push("--strict".into());
    }
    if !wanted.cpus.is_empty() {
        words.push(format!("--cpubind {}", locations("pu", &wanted.cpus)));
    }
    words.extend(memory);
    words.push(format!("-- {}", wanted.command));
    Some(words.join(" "))
}

/// `pu:0-2 pu:6-8`: hwloc takes ranges, and no commas.
fn locations<T: Id>(noun: &str, ids: &IdSet<T>) -> String {
    let ranges: Vec<String> = ids.to_string().split(',').map(|range| format!("{noun}:{range}")).collect();
    ranges.join(" ")
}

/// `CPUAffinity` is the mask that the process starts with, `AllowedCPUs` the cgroup's, which its children cannot leave.
fn systemd_properties(wanted: &LineInput) -> Option<Vec<String>> {
    let mut properties = Vec::new();
    if !wanted.cpus.is_empty() {
        properties.push(format!("CPUAffinity={}", wanted.cpus));
    }
    let (policy, mask) = match wanted.memory {
        MemoryPolicy::Kernel => (None, None),
        MemoryPolicy::Local => (Some("local"), None),
        MemoryPolicy::Bind(nodes) => (Some("bind"), Some(nodes.clone())),
        MemoryPolicy::Interleave(nodes) => (Some("interleave"), Some(nodes.clone())),
        MemoryPolicy::Preferred(node) => (Some("preferred"), Some([*node].into_iter().collect())),
        MemoryPolicy::WeightedInterleave(_) | MemoryPolicy::Far => return None,
    };
    properties.extend(policy.map(|policy| format!("NUMAPolicy={policy}")));
    properties.extend(mask.map(|mask: NodeSet| format!("NUMAMask={mask}")));
    if !wanted.cpus.is_empty() {
        properties.push(format!("AllowedCPUs={}", wanted.cpus));
    }
    properties.extend(wanted.memory.promised_nodes().map(|nodes| format!("AllowedMemoryNodes={nodes}")));
    Some(properties)
}

fn systemd_run(wanted: &LineInput) -> Option<String> {
    let properties: Vec<String> = systemd_properties(wanted)?.iter().map(|property| format!("-p {property}")).collect();
    Some(format!("systemd-run --pipe --wait --same-dir {} {}", properties.join(" "), wanted.command))
}

/// A cpuset binds memory to nodes, and knows no other policy.
fn docker(wanted: &LineInput) -> Option<String> {
    let mut words = vec!["docker run".to_string()];
    if !wanted.cpus.is_empty() {
        words.push(format!("--cpuset-cpus={}", wanted.cpus));
    }
    match wanted.memory {
        MemoryPolicy::Bind(nodes) => words.push(format!("--cpuset-mems={nodes}")),
        _ if wanted.memory_matters || wanted.cpus.is_empty() => return None,
        _ => {}
    }
    words.push(format!("IMAGE {}", wanted.command));
    Some(words.join(" "))
}

fn slurm(wanted: &LineInput) -> Option<String> {
    let (cpus, bind) = if wanted.cpus.is_empty() {
        (wanted.threads, "none".into())
    } else {
        (wanted.cpus.len(), format!("mask_cpu:0x{}", plain_mask(&wanted.cpus)))
    };
    let mut words = vec![format!("srun --ntasks=1 --cpus-per-task={cpus} --cpu-bind={bind}")];
    match wanted.memory {
        MemoryPolicy::Bind(nodes) => words.push(format!("--mem-bind=mask_mem:0x{}", plain_mask(nodes))),
        MemoryPolicy::Preferred(node) => words.push(format!("--mem-bind=prefer,map_mem:{node}")),
        _ if wanted.memory_matters || wanted.cpus.is_empty() => return None,
        _ => {}
    }
    words.push(wanted.command.into());
    Some(words.join(" "))
}

/// Without the kernel's commas, which part tasks in Slurm.
fn plain_mask<T: Id>(ids: &IdSet<T>) -> String {
    ids.to_mask().replace(',', "")
}

/// One place per seat in the order of threads. `close` with a place each puts thread i on place i.
fn openmp(wanted: &LineInput) -> Option<String> {
    if wanted.seats.is_empty() || wanted.memory_matters {
        return None;
    }
    let mut places: Vec<CpuId> = Vec::new();
    // Threads that share a cpu share its place: `close` deals out places evenly then.
    wanted.seats.iter().for_each(|cpu| {
        if !places.contains(cpu) {
            places.push(*cpu);
        }
    });
    Some(format!(
        "OMP_NUM_THREADS={} OMP_PLACES='{}' OMP_PROC_BIND=close {}",
        wanted.threads,
        place_list(&places),
        wanted.command
    ))
}

/// The static policies of kubelet's managers of cpus, memory and topology; a container gets cpus of its own when its
/// requests are its limits and whole numbers.
fn kubernetes(wanted: &LineInput, topology: &Topology) -> Option<String> {
    // Kubernetes knows no memory policy but the nodes of the cpus.
    let nodes = topology.local_nodes(&wanted.cpus);
    let memory_fits = match wanted.memory {
        MemoryPolicy::Bind(bound) => *bound == nodes,
        MemoryPolicy::Kernel | MemoryPolicy::Local => true,
        _ => !wanted.memory_matters,
    };
    if wanted.cpus.is_empty() || !memory_fits {
        return None;
    }
    let topology_policy = if nodes.len() == 1 { "single-numa-node" } else { "best-effort" };
    let cores: Vec<CpuSet> = topology.cores().into_iter().filter(|core| core.intersects(&wanted.cpus)).collect();
    let whole = cores.iter().all(|core| core.is_subset(&wanted.cpus)) && cores.iter().any(|core| core.len() > 1);
    let mut kubelet = vec!["cpuManagerPolicy: static".into(), format!("topologyManagerPolicy: {topology_policy}")];
    if whole {
        kubelet.push("cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}".into());
    }
    if wanted.memory_matters && matches!(wanted.memory, MemoryPolicy::Bind(_)) {
        kubelet.push("memoryManagerPolicy: Static".into());
    }
    let count = wanted.cpus.len();
    let container = format!("resources: {{requests: {{cpu: \"{count}\"}}, limits: {{cpu: \"{count}\"}}}}");
    Some(format!(
        "# kubelet\n{}\n# container, its memory request equal to its limit too\n{container}",
        kubelet.join("\n")
    ))
}

fn libvirt(wanted: &LineInput) -> Option<String> {
    if wanted.cpus.is_empty() {
        return None;
    }
    let memory = match wanted.memory {
        _ if !wanted.memory_matters => None,
        MemoryPolicy::Kernel | MemoryPolicy::Local => None,
        MemoryPolicy::Bind(nodes) => Some(("strict", nodes.to_string())),
        MemoryPolicy::Interleave(nodes) => Some(("interleave", nodes.to_string())),
        MemoryPolicy::Preferred(node) => Some(("preferred", node.to_string())),
        MemoryPolicy::WeightedInterleave(_) | MemoryPolicy::Far => return None,
    };
    let pins = wanted.cpus.iter().enumerate();
    let pins: Vec<String> = pins.map(|(vcpu, cpu)| format!("  <vcpupin vcpu='{vcpu}' cpuset='{cpu}'/>")).collect();
    let tune = memory.map_or(String::new(), |(mode, nodes)| {
        format!("\n<numatune><memory mode='{mode}' nodeset='{nodes}'/></numatune>")
    });
    let count = wanted.cpus.len();
    Some(format!("<vcpu placement='static'>{count}</vcpu>\n<cputune>\n{}\n</cputune>{tune}", pins.join("\n")))
}

/// `{0}:4,{8}`: OpenMP's notation for places of one cpu, runs of neighbours drawn together.
fn place_list(places: &[CpuId]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for cpu in places.iter().map(|cpu| cpu.0) {
        match runs.last_mut() {
            Some((first, length)) if *first + *length == cpu => *length += 1,
            _ => runs.push((cpu, 1)),
        }
    }
    let words: Vec<String> = runs
        .iter()
        .map(|(first, length)| if *length == 1 { format!("{{{first}}}") } else { format!("{{{first}}}:{length}") })
        .collect();
    words.join(",")
}
