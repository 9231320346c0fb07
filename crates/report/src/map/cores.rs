//! Cores with their private caches, which trees and figures show as one object.

use model::values::id_set::{CpuId, CpuSet};
use model::values::topology::{Cache, Object, ObjectKind, Topology};

/// Maximum length of a listing, a little more than a terminal line; longer ones are shortened.
const LISTING_MAX: usize = 90;

/// A core, or a CPU of a machine without core objects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Core {
    pub(crate) cpus: Vec<CpuId>,
    /// Private caches, largest first.
    pub(crate) caches: Vec<Cache>,
    /// Whether the topology has a core object.
    pub(crate) named: bool,
    /// Its kind, if the machine has several.
    pub(crate) kind: Option<usize>,
}

/// The core that an object represents: a chain of caches around one core without local memory.
pub(crate) fn core_at(topology: &Topology, index: usize) -> Option<Core> {
    let mut object = &topology.objects[index];
    let mut caches = Vec::new();
    let mut named = false;
    loop {
        if !object.memory.is_empty() {
            return None;
        }
        match object.kind {
            ObjectKind::Pu => break,
            ObjectKind::Cache => caches.extend(object.cache),
            ObjectKind::Core => named = true,
            _ => return None,
        }
        match object.children.as_slice() {
            [only] => object = &topology.objects[*only],
            // Without a core object it is unknown whether these CPUs are threads of one core.
            [_, ..] if named => break,
            _ => return None,
        }
    }
    let cpus = threads(topology, object);
    let kind = kind_of(topology, *cpus.first()?);
    Some(Core { cpus, caches, named, kind })
}

fn threads(topology: &Topology, object: &Object) -> Vec<CpuId> {
    if object.kind == ObjectKind::Pu {
        return object.os_index.map(CpuId).into_iter().collect();
    }
    let children = object.children.iter().map(|child| &topology.objects[*child]);
    children.filter(|child| child.kind == ObjectKind::Pu).filter_map(|child| child.os_index.map(CpuId)).collect()
}

fn kind_of(topology: &Topology, cpu: CpuId) -> Option<usize> {
    let kinds = &topology.cpu_kinds;
    if kinds.len() < 2 { None } else { kinds.iter().position(|kind| kind.cpus.contains(cpu)) }
}

/// All cores in logical order.
pub(crate) fn all_cores(topology: &Topology) -> Vec<Core> {
    let mut cores = Vec::new();
    let mut ahead = vec![0];
    while let Some(index) = ahead.pop() {
        match core_at(topology, index) {
            Some(core) => cores.push(core),
            None => ahead.extend(topology.objects[index].children.iter().rev()),
        }
    }
    cores
}

/// `2 threads, L2 512KiB, L1 32KiB`: the common description of all cores. `None` if they differ.
pub(crate) fn common(topology: &Topology) -> Option<String> {
    let cores = all_cores(topology);
    let first = cores.first()?;
    let alike = |core: &Core| core.caches == first.caches && core.cpus.len() == first.cpus.len();
    (cores.len() > 1 && cores.iter().all(alike)).then(|| first.facts()).filter(|facts| !facts.is_empty())
}

impl Core {
    /// `2 threads, L2 512KiB, L1 32KiB`. Empty if nothing is known.
    pub(crate) fn facts(&self) -> String {
        let threads = (self.cpus.len() > 1).then(|| format!("{} threads", self.cpus.len()));
        threads.into_iter().chain(self.caches.iter().map(|cache| cache_label(*cache))).collect::<Vec<_>>().join(", ")
    }

    /// Whether two cores have the same description.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let traits = |core: &Self| (core.caches.clone(), core.cpus.len(), core.named, core.kind);
        traits(self) == traits(other)
    }
}

/// `L3 8MiB`; without the size if it is unknown.
pub(crate) fn cache_label(cache: Cache) -> String {
    if cache.bytes.0 == 0 { format!("L{}", cache.level) } else { format!("L{} {}", cache.level, cache.bytes) }
}

/// The CPUs of equal cores: `0,6 1,7 2,8`, threads of one core joined by a comma. Cores with one thread are written as
/// a list. A long regular sequence is shortened.
pub(crate) fn cpu_listing(cores: &[Core]) -> String {
    if cores.iter().all(|core| core.cpus.len() == 1) {
        return cores.iter().flat_map(|core| core.cpus.iter().copied()).collect::<CpuSet>().to_string();
    }
    let written: Vec<String> = cores.iter().map(|core| joined(&core.cpus)).collect();
    let length: usize = written.iter().map(|text| text.len() + 1).sum();
    if length > LISTING_MAX && is_regular(cores) {
        let last = written.last().map_or("", String::as_str);
        return format!("{} {} ... {last}", written[0], written[1]);
    }
    written.join(" ")
}

/// `0,6`, or `8-15` for consecutive threads.
fn joined(cpus: &[CpuId]) -> String {
    if cpus.len() > 2 && cpus.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0) {
        return cpus.iter().copied().collect::<CpuSet>().to_string();
    }
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Whether each thread's number grows by the same step between cores.
fn is_regular(cores: &[Core]) -> bool {
    let step = |pair: &[Core]| -> Vec<i64> {
        pair[0].cpus.iter().zip(&pair[1].cpus).map(|(a, b)| i64::from(b.0) - i64::from(a.0)).collect()
    };
    let mut steps = cores.windows(2).map(step);
    steps.next().is_some_and(|first| steps.all(|other| other == first))
}
