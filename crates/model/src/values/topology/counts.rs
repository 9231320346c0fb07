//! How many of each thing a topology has: what a reader and a test compare first.

use serde::{Deserialize, Serialize};

use super::{ObjectKind, Topology};

/// Counts by kind. Names are part of the JSON contract of `nearfar map`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub packages: usize,
    /// Dies; 0 where the machine does not show them.
    pub dies: usize,
    /// Groups: clusters, books and the like.
    pub groups: usize,
    pub numa: usize,
    /// Memory nodes with no cpu that this process may use.
    pub numa_without_cpus: usize,
    /// Level-3 caches.
    pub l3: usize,
    /// Level-2 caches.
    pub l2: usize,
    pub cores: usize,
    pub pus: usize,
    /// Hardware threads that this process may use.
    pub allowed_pus: usize,
    /// Hardware threads that exist, offline ones too.
    pub complete_pus: usize,
}

impl Topology {
    /// Counts every kind of object.
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
