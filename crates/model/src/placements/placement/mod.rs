//! Placements: CPU affinity of each thread, memory policy and interrupt affinity. `policy` produces them from names,
//! `explicit` from numactl's letters, and `command_lines` prints the commands that apply one by hand.

mod budget;
pub(crate) mod command_lines;
pub(crate) mod cores;
pub(crate) mod cpu_location;
mod cpu_rule;
mod explicit;
mod files;
mod loose;
pub(crate) mod memory;
mod parts;
pub(crate) mod policy;
pub(crate) mod reason;
mod region;
pub(crate) mod route;
mod template;
mod text;

use std::borrow::Cow;

pub use command_lines::{CommandLines, lines};
pub(crate) use command_lines::{file_line, interrupt_lines, lines_with_files};
pub use explicit::parse_explicit;
pub use files::cached_nodes;
pub(crate) use files::with_files;
pub use memory::KernelFeatures;
pub use policy::{POLICIES, Policy, PolicyInfo, PolicyResult, offer, offer_all, policy_infos};
pub use route::{check_movable, devices};
pub use template::PlacementVars;
pub(crate) use text::with_text_copy;

use crate::values::id_set::CpuSet;
use crate::values::placement::{FilePolicy, MemoryPolicy, Placement};
use crate::values::topology::Topology;
use crate::values::workload::WorkloadSpec;

/// Why a text does not produce a placement on a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The text is invalid: an unknown name, CPU or node.
    #[error("{0}")]
    Invalid(String),
    /// This machine does not have what the placement needs.
    #[error("{0}")]
    Unavailable(String),
}

/// Reads the argument of `--placement`: a policy, a combination `CPUS+MEMORY`, or numactl's letters.
pub fn parse(
    topology: &Topology,
    text: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
) -> Result<Placement, PlacementError> {
    parse_for(topology, text, threads, kernel, &[])
}

/// Like [`parse`], for named devices: their interrupts follow the `irq:` part of the text. Without such a part they are
/// not moved.
pub fn parse_for(
    topology: &Topology,
    text: &str,
    threads: Option<usize>,
    kernel: KernelFeatures,
    devices: &[String],
) -> Result<Placement, PlacementError> {
    let text = &*with_option(text);
    let (rest, rule) = route::split(text).map_err(PlacementError::Invalid)?;
    let (rest, budget) = budget::split(&rest).map_err(PlacementError::Invalid)?;
    let (rest, file_rule) = files::split(&rest).map_err(PlacementError::Invalid)?;
    let (rest, copies_text) = text::split(&rest).map_err(PlacementError::Invalid)?;
    let (rest, is_loose) = loose::split(&rest).map_err(PlacementError::Invalid)?;
    let named = route::devices(topology, devices).map_err(PlacementError::Invalid)?;
    let index = cores::CoreIndex::new(topology).with_devices(named);
    let mut placement = match (is_explicit(&rest), is_loose) {
        (true, _) => explicit::parse(topology, &rest, threads, kernel, is_loose)?,
        (false, true) => policy::named_loose(&index, &rest, threads, kernel)?,
        (false, false) => policy::named(&index, &rest, threads, kernel)?,
    };
    if let Some(budget) = budget {
        placement.budget = Some(budget);
        placement.reason = format!("{}; {}", placement.reason, budget.reason());
    }
    if let Some(rule) = file_rule {
        files::place(&index, &mut placement, rule)?;
    }
    if copies_text {
        text::place(&mut placement)?;
    }
    if rule.is_some() || budget.is_some() || file_rule.is_some() || copies_text || is_loose {
        placement.name = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    route::route(&index, &mut placement, rule.as_ref(), devices)?;
    Ok(placement)
}

/// Checks that a text is a placement on some machine. Experiments are read before the machine is known.
pub fn check(text: &str) -> Result<(), String> {
    let (rest, _) = route::split(&with_option(text))?;
    let (rest, _) = budget::split(&rest)?;
    let (rest, _) = files::split(&rest)?;
    let (rest, _) = text::split(&rest)?;
    let (rest, _) = loose::split(&rest)?;
    if is_explicit(&rest) { explicit::check(&rest) } else { policy::check(&rest) }
}

/// Returns a placement that begins with CPUs (`0-3`, `S0:0-1+irq:4`) in the notation of numactl: `-C S0:0-1 irq:4`.
fn with_option(text: &str) -> Cow<'_, str> {
    let mut words = text.split(['+', ' ']).filter(|word| !word.is_empty());
    let is_location = words.next().is_some_and(cpu_location::CpuLocation::is_location);
    if is_location { format!("-C {}", text.trim().replace('+', " ")).into() } else { text.into() }
}

fn is_explicit(text: &str) -> bool {
    text.trim_start().starts_with('-')
}

/// Number of threads that `all`, `cores` and `l3` stand for on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Number of CPUs that this process may use.
    pub all: usize,
    /// Number of cores with at least one such CPU.
    pub cores: usize,
    /// Cores of the largest L3, or of the largest cluster on machines without L3. `None` if there are no clusters.
    pub l3: Option<usize>,
    /// CPUs of the largest L3, like `l3`.
    pub l3_cpus: Option<usize>,
    /// Cores of the largest memory node. `None` if no core has a node.
    pub node_cores: Option<usize>,
}

/// Returns the numbers of threads that the words stand for on this machine.
pub fn thread_counts(topology: &Topology) -> ThreadCounts {
    let index = cores::CoreIndex::new(topology);
    let on_node = |node| index.cores_where(|core| core.home == Some(node)).len();
    ThreadCounts {
        node_cores: index.homes().into_iter().map(on_node).max(),
        all: index.cpu_count(&index.all_cores()),
        cores: index.cores.len(),
        l3: index.clusters.iter().map(|cluster| cluster.cores.len()).max(),
        l3_cpus: index.clusters.iter().map(|cluster| index.cpu_count(&cluster.cores)).max(),
    }
}

/// Whether measuring both placements would repeat one measurement: the same threads on the same CPUs with the same
/// memory. On a machine with one memory node, all policies that choose nodes are equal.
pub fn same_place(topology: &Topology, one: &Placement, other: &Placement) -> bool {
    let beyond = one.memory.is_beyond_dram() || other.memory.is_beyond_dram();
    let same_memory = one.memory == other.memory || (topology.allowed_nodes.len() < 2 && !beyond);
    let same_bindings = match (range(topology, one), range(topology, other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.bindings == other.bindings,
        (Some(cpus), None) | (None, Some(cpus)) => cpus.len() == 1 && one.bindings == other.bindings,
    };
    let same_bindings = same_bindings && one.threads == other.threads && one.server_cpus == other.server_cpus;
    let same_bindings = same_bindings && one.interrupts == other.interrupts && one.budget == other.budget;
    // With one node, copies are where the program is.
    let same_text = one.copies_text == other.copies_text || topology.allowed_nodes.len() < 2;
    same_bindings && same_memory && same_text && same_files(topology, one.files.as_ref(), other.files.as_ref())
}

fn same_files(topology: &Topology, one: Option<&FilePolicy>, other: Option<&FilePolicy>) -> bool {
    let is_cold = |policy: Option<&FilePolicy>| policy == Some(&FilePolicy::Cold);
    one == other || (topology.allowed_nodes.len() < 2 && !is_cold(one) && !is_cold(other))
}

/// Returns the CPUs between which the threads may move; `None` if each thread is pinned.
fn range(topology: &Topology, placement: &Placement) -> Option<CpuSet> {
    match (placement.is_pinned(), placement.loose) {
        (false, _) => Some(topology.allowed_cpus.clone()),
        (true, true) => Some(placement.cpus()),
        (true, false) => None,
    }
}

/// Returns why a workload does not support a placement; `None` if it does.
pub fn refused(placement: &Placement, spec: &WorkloadSpec) -> Option<String> {
    refused_memory(&placement.memory, spec).or_else(|| {
        let part = match placement {
            Placement { files: Some(_), .. } => "files:",
            Placement { copies_text: true, .. } => "text:",
            _ => return None,
        };
        (!spec.places_files())
            .then(|| format!("{} does not support {part} parts of placements; command does", spec.name))
    })
}

fn refused_memory(memory: &MemoryPolicy, spec: &WorkloadSpec) -> Option<String> {
    (memory.is_beyond_dram() && !spec.has_arrays()).then(|| {
        format!(
            "{} does not support memory '{memory}', which is for workloads that measure arrays, such as stream and \
             chase; hint: nearfar expand runs any program with more memory than DRAM",
            spec.name
        )
    })
}
