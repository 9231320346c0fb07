//! Groups of CPUs with equal access to memory, and descriptions of what two CPUs share.

use crate::placements::placement::cores::CoreIndex;
use crate::values::id_set::{CpuId, CpuSet, NodeId};
use crate::values::topology::{Object, ObjectKind, Topology};

/// CPUs with one home node and one kind of core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuGroup {
    pub cpus: CpuSet,
    /// The first CPU of each core, in logical order.
    pub firsts: Vec<CpuId>,
    pub home: Option<NodeId>,
}

/// Returns the groups of a machine, in logical order of their first CPUs.
pub fn groups(topology: &Topology) -> Vec<CpuGroup> {
    let ground = CoreIndex::new(topology);
    let mut groups: Vec<((Option<NodeId>, usize), CpuGroup)> = Vec::new();
    for core in &ground.cores {
        let key = (core.home, core.kind);
        let at = groups.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
            groups.push((key, CpuGroup { cpus: CpuSet::new(), firsts: Vec::new(), home: core.home }));
            groups.len() - 1
        });
        let group = &mut groups[at].1;
        group.firsts.extend(core.cpus.first());
        core.cpus.iter().for_each(|cpu| group.cpus.insert(*cpu));
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Describes the innermost object that two CPUs share.
pub fn relation(topology: &Topology, a: CpuId, b: CpuId) -> String {
    let holds = |object: &&Object| object.cpus.contains(a) && object.cpus.contains(b);
    // Parents precede children, so the last of the smallest shared objects is the innermost.
    let nearest = topology.objects.iter().rev().filter(holds).min_by_key(|object| object.cpus.len());
    let Some(object) = nearest else { return "not known".into() };
    match (object.kind, object.cache) {
        (ObjectKind::Core, _) => "one core".into(),
        (ObjectKind::Cache, Some(cache)) => format!("one L{}", cache.level),
        (ObjectKind::Die, _) => "one die".into(),
        (ObjectKind::Package, _) => "one package".into(),
        (ObjectKind::Group, _) => {
            let name = object.subtype.as_deref().unwrap_or("group").to_lowercase();
            format!("one {name}")
        }
        _ if topology.of_kind(ObjectKind::Package).count() > 1 => "two packages".into(),
        _ => "one machine".into(),
    }
}
