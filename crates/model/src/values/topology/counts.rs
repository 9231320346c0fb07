//! Object counts of a topology.

use serde::{Deserialize, Serialize};

use super::{ObjectKind, Topology};

/// Object counts by kind. Field names are part of the JSON contract of `nearfar map`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub packages: usize,
    /// Dies. 0 if the machine does not report them.
    pub dies: usize,
    /// Groups: clusters, books and similar levels.
    pub groups: usize,
    pub numa: usize,
    /// Memory nodes without a CPU that this process may use.
    pub numa_without_cpus: usize,
    pub l3: usize,
    pub l2: usize,
    pub cores: usize,
    pub pus: usize,
    /// CPUs that this process may use.
    pub allowed_pus: usize,
    /// All CPUs, including offline ones.
    pub complete_pus: usize,
}

impl Topology {
    pub fn counts(&self) -> Counts {
        let count = |kind| self.of_kind(kind).count();
        Counts {
            packages: count(ObjectKind::Package),
            dies: count(ObjectKind::Die),
            groups: count(ObjectKind::Group),
            numa: self.nodes.len(),
            numa_without_cpus: self.nodes.iter().filter(|node| node.cpus.is_empty()).count(),
            l3: self.caches(3).count(),
            l2: self.caches(2).count(),
            cores: count(ObjectKind::Core),
            pus: count(ObjectKind::Pu),
            allowed_pus: self.allowed_cpus.len(),
            complete_pus: self.complete_cpus.len(),
        }
    }
}
