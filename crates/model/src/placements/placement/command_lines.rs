//! Commands that apply a placement by hand, one per tool.

use serde::Serialize;

use crate::values::id_set::{CpuId, CpuSet, Id, IdSet, NodeSet};
use crate::values::placement::{MemoryPolicy, Placement, Route};
use crate::values::shell::quote_arg;
use crate::values::topology::{ObjectKind, Topology};

/// Commands to copy. `None` if a tool cannot express the placement; all are `None` if nothing is bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CommandLines {
    /// taskset(1): CPUs only.
    pub taskset: Option<String>,
    /// numactl(8). `-w` requires numactl 2.0.19.
    pub numactl: Option<String>,
    /// hwloc-bind(1) with the kernel's numbers, not those of hwloc.
    pub hwloc_bind: Option<String>,
    /// A drop-in file for a service: `systemctl edit NAME.service`.
    pub systemd: Option<String>,
    /// A transient service of systemd-run(1). Scopes do not support `CPUAffinity` and `NUMAPolicy`.
    pub systemd_run: Option<String>,
    /// docker run, and podman run. The user replaces IMAGE.
    pub docker: Option<String>,
    /// Slurm's srun, in an allocation that contains these CPUs.
    pub slurm: Option<String>,
    /// OpenMP's environment variables, one place per CPU. CPUs only.
    pub openmp: Option<String>,
    /// A rankfile and the mpirun of Open MPI, with one rank per thread, and the same without a file. Each rank is bound to
    /// its whole core.
    pub open_mpi: Option<String>,
    /// Environment variable of Go's runtime, with the command of `taskset` or `numactl`.
    pub go: Option<String>,
    /// Options of a Java virtual machine, with the command of `taskset` or `numactl`.
    pub java: Option<String>,
    /// Configuration of kubelet and container with which Kubernetes chooses similar CPUs; exact CPUs are impossible.
    pub kubernetes: Option<String>,
    /// Elements of a libvirt domain with one virtual CPU per CPU.
    pub libvirt: Option<String>,
    /// Shell commands, run as root, that set the affinity of interrupts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<String>,
    /// `nearfar files`, if the placement includes files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// `nearfar expand`, if the placement limits DRAM. It precedes the command of the other tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expand: Option<String>,
}

/// Returns the commands for a placement. `command` is inserted unchanged.
pub fn lines(placement: &Placement, topology: &Topology, command: &str) -> CommandLines {
    lines_with_files(placement, topology, command, &[])
}

/// Like [`lines`]. With a placement that copies program text, these files are copied, too.
pub(crate) fn lines_with_files(
    placement: &Placement,
    topology: &Topology,
    command: &str,
    copied: &[String],
) -> CommandLines {
    let command = command.trim();
    let command = if placement.copies_text { copy_text_line(command, copied) } else { command.into() };
    let input = LineInput {
        bindings: &placement.bindings,
        loose: placement.loose,
        cpus: placement.cpus(),
        threads: placement.threads,
        memory: &placement.memory,
        // On one node, every policy equals the behaviour of a tool without memory policies.
        memory_matters: topology.allowed_nodes.len() > 1 && placement.memory != MemoryPolicy::Kernel,
        copies_text: placement.copies_text,
        command: &command,
    };
    let interrupts = interrupt_lines(&placement.interrupts);
    let files = files_of_placement(placement, topology);
    let expand = placement.budget.map(|budget| {
        let engine = if budget.steered { "" } else { " --engine kernel" };
        let compressed = if budget.compressed { " --compressed" } else { "" };
        format!("nearfar expand --dram {}{engine}{compressed} -- {command}", budget.dram)
    });
    // No other tool supports memory beyond DRAM, and binding only the CPUs would be a different placement.
    let inexpressible = placement.memory.is_beyond_dram();
    if inexpressible || (input.cpus.is_empty() && placement.memory == MemoryPolicy::Kernel) {
        return CommandLines { interrupts, files, expand, ..CommandLines::default() };
    }
    CommandLines {
        taskset: taskset(&input),
        numactl: Some(numactl(&input)),
        hwloc_bind: hwloc_bind(&input),
        systemd: systemd_drop_in(&input),
        systemd_run: systemd_run(&input),
        docker: docker(&input),
        slurm: slurm(&input),
        openmp: openmp(&input),
        open_mpi: open_mpi(&input, topology),
        go: bound(&input).map(|bound| format!("GOMAXPROCS={} {bound}", input.threads)),
        java: java(&input, topology),
        kubernetes: kubernetes(&input, topology),
        libvirt: libvirt(&input),
        interrupts,
        files,
        expand,
    }
}

/// Returns the line for files that the user names.
fn files_of_placement(placement: &Placement, topology: &Topology) -> Option<String> {
    let nodes = placement.files.as_ref()?.nodes(|| topology.local_nodes(&placement.cpus()));
    Some(file_line(&nodes, "FILE..."))
}

/// Returns the command that runs another one from copies of its program and libraries.
fn copy_text_line(command: &str, files: &[String]) -> String {
    let files: String = files.iter().map(|path| format!("--file {} ", quote_arg(path))).collect();
    format!("nearfar copy-text {files}-- {command}")
}

/// Returns the command that moves cached pages to nodes, or drops them if there are none. `files` is inserted unchanged.
pub(crate) fn file_line(nodes: &NodeSet, files: &str) -> String {
    if nodes.is_empty() {
        format!("nearfar files --drop {files}")
    } else {
        format!("nearfar files --nodes {nodes} {files}")
    }
}

/// Returns shell commands, to be run as root, that place interrupts; `None` if there are none. irqbalance moves interrupts
/// again within seconds, so it must be configured to ignore them.
pub(crate) fn interrupt_lines(interrupts: &[Route]) -> Option<String> {
    let moved: Vec<_> = interrupts.iter().filter(|route| route.is_placed()).collect();
    if moved.is_empty() {
        return None;
    }
    let lines = moved.iter().map(|route| format!("echo {} > /proc/irq/{}/smp_affinity_list", route.cpus, route.number));
    let bans: Vec<String> = moved.iter().map(|route| format!("--banirq={}", route.number)).collect();
    let note = format!("# if irqbalance runs, add to IRQBALANCE_ARGS: {}", bans.join(" "));
    Some(lines.chain([note]).collect::<Vec<_>>().join("\n"))
}

struct LineInput<'a> {
    bindings: &'a [CpuId],
    loose: bool,
    cpus: CpuSet,
    threads: usize,
    memory: &'a MemoryPolicy,
    memory_matters: bool,
    copies_text: bool,
    command: &'a str,
}

fn taskset(input: &LineInput) -> Option<String> {
    let possible = !input.cpus.is_empty() && !input.memory_matters;
    possible.then(|| format!("taskset -c {} {}", input.cpus, input.command))
}

fn numactl(input: &LineInput) -> String {
    let letters = letters(&input.cpus, input.memory);
    let words = [vec!["numactl".to_string()], letters, vec![input.command.into()]];
    words.concat().join(" ")
}

/// Returns a placement as numactl's options: `-C 0-2,6-8` and `-m 0`. Empty if nothing is bound.
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

/// hwloc's "bind" without --strict is the kernel's "preferred". Only --strict keeps pages on the nodes.
fn hwloc_bind(input: &LineInput) -> Option<String> {
    let memory = match input.memory {
        MemoryPolicy::Kernel => None,
        MemoryPolicy::Local => Some("--membind --mempolicy firsttouch all".to_string()),
        MemoryPolicy::Bind(nodes) => Some(format!("--membind {}", locations("node", nodes))),
        MemoryPolicy::Interleave(nodes) => {
            Some(format!("--membind --mempolicy interleave {}", locations("node", nodes)))
        }
        MemoryPolicy::WeightedInterleave(_) | MemoryPolicy::Preferred(_) | MemoryPolicy::Far => return None,
    };
    let mut words = vec!["hwloc-bind --physical".to_string()];
    if matches!(input.memory, MemoryPolicy::Bind(_)) {
        words.push("--strict".into());
    }
    if !input.cpus.is_empty() {
        words.push(format!("--cpubind {}", locations("pu", &input.cpus)));
    }
    words.extend(memory);
    words.push(format!("-- {}", input.command));
    Some(words.join(" "))
}

/// `pu:0-2 pu:6-8`: hwloc accepts ranges, but no commas.
fn locations<T: Id>(noun: &str, ids: &IdSet<T>) -> String {
    let ranges: Vec<String> = ids.to_string().split(',').map(|range| format!("{noun}:{range}")).collect();
    ranges.join(" ")
}

/// `CPUAffinity` sets the mask of the first process, `AllowedCPUs` that of the cgroup, which its children cannot leave.
fn systemd_properties(input: &LineInput) -> Option<Vec<String>> {
    let mut properties = Vec::new();
    if !input.cpus.is_empty() {
        properties.push(format!("CPUAffinity={}", input.cpus));
    }
    let (policy, mask) = match input.memory {
        MemoryPolicy::Kernel => (None, None),
        MemoryPolicy::Local => (Some("local"), None),
        MemoryPolicy::Bind(nodes) => (Some("bind"), Some(nodes.clone())),
        MemoryPolicy::Interleave(nodes) => (Some("interleave"), Some(nodes.clone())),
        MemoryPolicy::Preferred(node) => (Some("preferred"), Some([*node].into_iter().collect())),
        MemoryPolicy::WeightedInterleave(_) | MemoryPolicy::Far => return None,
    };
    properties.extend(policy.map(|policy| format!("NUMAPolicy={policy}")));
    properties.extend(mask.map(|mask: NodeSet| format!("NUMAMask={mask}")));
    if !input.cpus.is_empty() {
        properties.push(format!("AllowedCPUs={}", input.cpus));
    }
    properties.extend(input.memory.promised_nodes().map(|nodes| format!("AllowedMemoryNodes={nodes}")));
    Some(properties)
}

/// A drop-in file does not contain the command, so it cannot start it from copies.
fn systemd_drop_in(input: &LineInput) -> Option<String> {
    let properties = systemd_properties(input).filter(|_| !input.copies_text)?;
    Some(format!("[Service]\n{}", properties.join("\n")))
}

fn systemd_run(input: &LineInput) -> Option<String> {
    let properties: Vec<String> = systemd_properties(input)?.iter().map(|property| format!("-p {property}")).collect();
    // The service manager replaces variables in the arguments, and `$$` by `$`.
    let command = input.command.replace('$', "$$");
    Some(format!("systemd-run --pipe --wait --same-dir {} {command}", properties.join(" ")))
}

/// A cpuset can bind memory to nodes; it supports no other policy. A container does not contain `nearfar`, which makes
/// copies.
fn docker(input: &LineInput) -> Option<String> {
    if input.copies_text {
        return None;
    }
    let mut words = vec!["docker run".to_string()];
    if !input.cpus.is_empty() {
        words.push(format!("--cpuset-cpus={}", input.cpus));
    }
    match input.memory {
        MemoryPolicy::Bind(nodes) => words.push(format!("--cpuset-mems={nodes}")),
        _ if input.memory_matters || input.cpus.is_empty() => return None,
        _ => {}
    }
    words.push(format!("IMAGE {}", input.command));
    Some(words.join(" "))
}

fn slurm(input: &LineInput) -> Option<String> {
    let (cpus, bind) = if input.cpus.is_empty() {
        (input.threads, "none".into())
    } else {
        (input.cpus.len(), format!("mask_cpu:0x{}", plain_mask(&input.cpus)))
    };
    let mut words = vec![format!("srun --ntasks=1 --cpus-per-task={cpus} --cpu-bind={bind}")];
    match input.memory {
        MemoryPolicy::Bind(nodes) => words.push(format!("--mem-bind=mask_mem:0x{}", plain_mask(nodes))),
        MemoryPolicy::Preferred(node) => words.push(format!("--mem-bind=prefer,map_mem:{node}")),
        _ if input.memory_matters || input.cpus.is_empty() => return None,
        _ => {}
    }
    words.push(input.command.into());
    Some(words.join(" "))
}

/// Removes the kernel's commas, because Slurm separates tasks by commas.
fn plain_mask<T: Id>(ids: &IdSet<T>) -> String {
    ids.to_mask().replace(',', "")
}

/// One place per CPU in the order of threads. With `close`, thread i is bound to place i. A loose placement is one place
/// of all CPUs.
fn openmp(input: &LineInput) -> Option<String> {
    if input.bindings.is_empty() || input.memory_matters {
        return None;
    }
    let places =
        if input.loose { format!("{{{}}}", one_place(&input.cpus)) } else { places_of_threads(input.bindings) };
    Some(format!("OMP_NUM_THREADS={} OMP_PLACES='{places}' OMP_PROC_BIND=close {}", input.threads, input.command))
}

/// `0:3,6:3`: the CPUs of one place in OpenMP's notation, as first CPU and length of each run.
fn one_place(cpus: &CpuSet) -> String {
    let cpus: Vec<CpuId> = cpus.iter().collect();
    runs(&cpus).iter().map(|(first, length)| format!("{first}:{length}")).collect::<Vec<_>>().join(",")
}

fn places_of_threads(bindings: &[CpuId]) -> String {
    let mut places: Vec<CpuId> = Vec::new();
    // Threads that share a CPU share its place: `close` then distributes them evenly over the places.
    bindings.iter().for_each(|cpu| {
        if !places.contains(cpu) {
            places.push(*cpu);
        }
    });
    place_list(&places)
}

/// Returns the command with CPUs and memory bound; `None` without CPUs.
fn bound(input: &LineInput) -> Option<String> {
    (!input.cpus.is_empty()).then(|| taskset(input).unwrap_or_else(|| numactl(input)))
}

/// A rankfile has one rank per thread. Its slots are `PACKAGE:CORE` with logical indices, which mean the same in
/// Open MPI 4 and 5; two ranks on the threads of one core cannot be expressed so.
fn open_mpi(input: &LineInput, topology: &Topology) -> Option<String> {
    if input.bindings.is_empty() || input.loose {
        return None;
    }
    let ranks = &input.bindings[..input.threads.min(input.bindings.len())];
    let slots: Vec<String> = ranks.iter().map(|cpu| slot(topology, *cpu)).collect::<Option<_>>()?;
    let distinct: std::collections::BTreeSet<&String> = slots.iter().collect();
    if distinct.len() < slots.len() {
        return None;
    }
    let lines = slots.iter().enumerate().map(|(rank, slot)| format!("rank {rank}=localhost slot={slot}"));
    // The ranks inherit the memory policy of mpirun.
    let memory = if input.memory_matters { letters(&CpuSet::new(), input.memory) } else { Vec::new() };
    let numactl = if memory.is_empty() { String::new() } else { format!("numactl {} ", memory.join(" ")) };
    let mpirun = format!("{numactl}mpirun -n {}", slots.len());
    let command = format!("{mpirun} --rankfile nearfar.rankfile {}", input.command);
    let file = lines.collect::<Vec<_>>().join("\n");
    let listed = cores_of(topology, ranks).map(|cores| {
        let command = input.command;
        format!(
            "\n# without a file, Open MPI 5\n{mpirun} --map-by pe-list={cores}:ordered {command}\n# Open MPI 4\n{mpirun} \
             --cpu-list {cores} --bind-to cpu-list:ordered {command}"
        )
    });
    Some(format!("# nearfar.rankfile\n{file}\n# command\n{command}{}", listed.unwrap_or_default()))
}

/// Returns the logical indices of the cores of these CPUs, as in `0,1,6`. `None` if they do not ascend: Open MPI sorts the
/// list.
fn cores_of(topology: &Topology, cpus: &[CpuId]) -> Option<String> {
    let index = |cpu: &CpuId| topology.of_kind(ObjectKind::Core).position(|core| core.cpus.contains(*cpu));
    let indices = cpus.iter().map(index).collect::<Option<Vec<usize>>>()?;
    let texts: Vec<String> = indices.iter().map(ToString::to_string).collect();
    indices.is_sorted().then(|| texts.join(","))
}

/// Returns the package of a CPU, and its core within the package.
fn slot(topology: &Topology, cpu: CpuId) -> Option<String> {
    let mut packages = topology.of_kind(ObjectKind::Package).enumerate();
    let (index, package) = packages.find(|(_, package)| package.cpus.contains(cpu))?;
    let mut cores = topology.of_kind(ObjectKind::Core).filter(|core| core.cpus.is_subset(&package.cpus));
    let core = cores.position(|core| core.cpus.contains(cpu))?;
    Some(format!("{index}:{core}"))
}

/// `UseNUMA` lets the collector allocate from the node of each thread, which matters if the threads are on several nodes.
fn java(input: &LineInput, topology: &Topology) -> Option<String> {
    let is_free = matches!(input.memory, MemoryPolicy::Kernel | MemoryPolicy::Local);
    let numa = if is_free && topology.local_nodes(&input.cpus).len() > 1 { " -XX:+UseNUMA" } else { "" };
    let options = format!("-XX:ActiveProcessorCount={}{numa}", input.threads);
    bound(input).map(|bound| format!("JAVA_TOOL_OPTIONS='{options}' {bound}"))
}

/// The static policies of kubelet's CPU, memory and topology managers. A container gets exclusive CPUs if its requests
/// equal its limits and are whole numbers.
fn kubernetes(input: &LineInput, topology: &Topology) -> Option<String> {
    // Kubernetes supports no memory policy except binding to the nodes of the CPUs.
    let nodes = topology.local_nodes(&input.cpus);
    let memory_fits = match input.memory {
        MemoryPolicy::Bind(bound) => *bound == nodes,
        MemoryPolicy::Kernel | MemoryPolicy::Local => true,
        _ => !input.memory_matters,
    };
    if input.cpus.is_empty() || !memory_fits || input.copies_text {
        return None;
    }
    let topology_policy = if nodes.len() == 1 { "single-numa-node" } else { "best-effort" };
    let cores: Vec<CpuSet> = topology.cores().into_iter().filter(|core| core.intersects(&input.cpus)).collect();
    let whole = cores.iter().all(|core| core.is_subset(&input.cpus)) && cores.iter().any(|core| core.len() > 1);
    let mut kubelet = vec!["cpuManagerPolicy: static".into(), format!("topologyManagerPolicy: {topology_policy}")];
    if whole {
        kubelet.push("cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}".into());
    }
    if input.memory_matters && matches!(input.memory, MemoryPolicy::Bind(_)) {
        kubelet.push("memoryManagerPolicy: Static".into());
    }
    let count = input.cpus.len();
    let container = format!("resources: {{requests: {{cpu: \"{count}\"}}, limits: {{cpu: \"{count}\"}}}}");
    Some(format!("# kubelet\n{}\n# container, with equal memory request and limit\n{container}", kubelet.join("\n")))
}

fn libvirt(input: &LineInput) -> Option<String> {
    if input.cpus.is_empty() || input.copies_text {
        return None;
    }
    let memory = match input.memory {
        _ if !input.memory_matters => None,
        MemoryPolicy::Kernel | MemoryPolicy::Local => None,
        MemoryPolicy::Bind(nodes) => Some(("strict", nodes.to_string())),
        MemoryPolicy::Interleave(nodes) => Some(("interleave", nodes.to_string())),
        MemoryPolicy::Preferred(node) => Some(("preferred", node.to_string())),
        MemoryPolicy::WeightedInterleave(_) | MemoryPolicy::Far => return None,
    };
    let set = |cpu: CpuId| if input.loose { input.cpus.to_string() } else { cpu.to_string() };
    let pins = input.cpus.iter().enumerate();
    let pins: Vec<String> =
        pins.map(|(vcpu, cpu)| format!("  <vcpupin vcpu='{vcpu}' cpuset='{}'/>", set(cpu))).collect();
    let tune = memory.map_or(String::new(), |(mode, nodes)| {
        format!("\n<numatune><memory mode='{mode}' nodeset='{nodes}'/></numatune>")
    });
    let count = input.cpus.len();
    Some(format!("<vcpu placement='static'>{count}</vcpu>\n<cputune>\n{}\n</cputune>{tune}", pins.join("\n")))
}

/// `{0}:4,{8}`: OpenMP's notation for places of one CPU each, with runs of adjacent CPUs joined.
fn place_list(places: &[CpuId]) -> String {
    let words: Vec<String> = runs(places)
        .iter()
        .map(|(first, length)| if *length == 1 { format!("{{{first}}}") } else { format!("{{{first}}}:{length}") })
        .collect();
    words.join(",")
}

/// Joins adjacent CPUs to runs of a first CPU and a length.
fn runs(cpus: &[CpuId]) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus.iter().map(|cpu| cpu.0) {
        match runs.last_mut() {
            Some((first, length)) if *first + *length == cpu => *length += 1,
            _ => runs.push((cpu, 1)),
        }
    }
    runs
}
