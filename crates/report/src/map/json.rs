//! A topology as JSON. The fields `counts`, `numa`, `package_cpus`, `l3_cpus`, `core_cpus`, `cpukinds`, `distances`
//! and `memattrs` have the structure of other tools' test data; they are part of the JSON contract.

use model::values::settings::Settings;
use model::values::topology::{CpuKind, Distances, InterruptCounts, MemoryNode, Object, ObjectKind, Topology};
use serde_json::{Value, json};

use crate::json::value;

/// The topology, with the settings and interrupt counts of the machine if they are known.
pub fn json(topology: &Topology, settings: Option<&Settings>, counts: Option<&InterruptCounts>) -> Value {
    json!({
        "counts": value(&topology.counts()),
        "numa": topology.nodes.iter().map(node).collect::<Vec<_>>(),
        "package_cpus": cpus(topology.of_kind(ObjectKind::Package)),
        "l3_cpus": cpus(topology.caches(3)),
        "core_cpus": cpus(topology.of_kind(ObjectKind::Core)),
        "cpukinds": topology.cpu_kinds.iter().map(kind).collect::<Vec<_>>(),
        "distances": topology.distances.iter().map(distances).collect::<Vec<_>>(),
        "memattrs": value(&topology.memory_attributes),
        "allowed_cpus": value(&topology.allowed_cpus),
        "allowed_nodes": value(&topology.allowed_nodes),
        "complete_cpus": value(&topology.complete_cpus),
        "objects": value(&topology.objects),
        "devices": value(&topology.devices),
        "interrupt_counts": counts.map(value),
        "settings": settings.map(value),
        "notes": topology.notes,
    })
}

fn cpus<'a>(objects: impl Iterator<Item = &'a Object>) -> Vec<String> {
    objects.map(|object| object.cpus.to_string()).collect()
}

fn node(node: &MemoryNode) -> Value {
    let mut fields = json!({ "os": node.os.0, "cpus": node.cpus.to_string(), "bytes": node.bytes.0 });
    if let Some(subtype) = &node.subtype {
        fields["subtype"] = json!(subtype);
    }
    fields
}

fn kind(kind: &CpuKind) -> Value {
    let info: serde_json::Map<String, Value> =
        kind.info.iter().map(|(name, text)| (name.clone(), json!(text))).collect();
    json!({ "efficiency": kind.efficiency, "cpus": kind.cpus.to_string(), "capacity": kind.capacity, "info": info })
}

/// hwloc names an unnamed matrix with an empty text.
fn distances(matrix: &Distances) -> Value {
    let objects: Vec<String> = matrix.nodes.iter().map(|node| format!("NUMANode:{node}")).collect();
    json!({ "name": matrix.name.as_deref().unwrap_or(""), "objs": objects, "values": matrix.values })
}
