//! Converts hwloc's topology. Only this file may depend on hwloc and its binding.

use hwlocality::bitmap::{Bitmap, BitmapIndex};
use hwlocality::cpu::cpuset::CpuSet as HwlocCpuSet;
use hwlocality::memory::attribute::{Initiator, MemoryAttribute as HwlocAttribute};
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::Topology as Hwloc;
use hwlocality::topology::builder::BuildFlags;
use hwlocality::topology::editor::RestrictFlags;
use hwlocality::topology::export::xml::XMLExportFlags;
use model::values::id_set::{CpuId, CpuSet, Id, IdSet, NodeId};
use model::values::topology::{Cache, CpuKind, Distances, MemoryAttribute, MemoryNode, Object, ObjectKind, Topology};
use model::values::units::Bytes;

pub(super) enum Input<'a> {
    /// This machine, restricted to the CPUs in `only` if present.
    Live {
        only: Option<&'a CpuSet>,
    },
    /// The text of an XML file.
    Xml(&'a str),
    Synthetic(&'a str),
}

/// Maximum number of a CPU or node. Linux allows 8192 and 1024; malformed files have sets up to 2^32, or infinite ones.
const NUMBER_MAX: usize = 65_535;

/// The attributes of hwloc 2.8 and later, without `Capacity` and `Locality`, which repeat facts of the nodes.
const ATTRIBUTES: [&str; 6] =
    ["Bandwidth", "Latency", "ReadBandwidth", "ReadLatency", "WriteBandwidth", "WriteLatency"];

/// Loads a topology with hwloc's default flags and filters: disallowed objects, instruction caches, memory-side
/// caches and I/O are dropped.
pub(super) fn load(input: &Input<'_>) -> Result<Topology, String> {
    let mut hwloc = build(input)?;
    // Read before restricting, which also drops existing CPUs from the complete set.
    let complete_cpus = id_set(&*hwloc.complete_cpuset())?;
    let mut notes = Vec::new();
    if let Input::Live { only: Some(only) } = input {
        restrict(&mut hwloc, only, &mut notes)?;
    }
    let (objects, node_objects) = objects(&hwloc)?;
    Ok(Topology {
        objects,
        nodes: node_objects.iter().map(|node| memory_node(node)).collect::<Result<_, _>>()?,
        distances: distances(&hwloc)?,
        memory_attributes: memory_attributes(&hwloc)?,
        cpu_kinds: cpu_kinds(&hwloc)?,
        allowed_cpus: id_set(&*hwloc.allowed_cpuset())?,
        allowed_nodes: id_set(&*hwloc.allowed_nodeset())?,
        complete_cpus,
        devices: Vec::new(),
        notes,
    })
}

/// Exports the topology as hwloc's XML, version 2.
pub(super) fn export_xml(input: &Input<'_>) -> Result<String, String> {
    let hwloc = build(input)?;
    let xml = hwloc.export_xml(XMLExportFlags::empty()).map_err(|error| format!("hwloc cannot export it: {error}"))?;
    Ok(xml.as_str().to_owned())
}

/// Returns the version of the loaded hwloc library, such as `2.9`.
pub(super) fn version() -> String {
    let version = hwlocality::hwloc_api_version();
    format!("{}.{}", version >> 16, version >> 8 & 0xff)
}

fn build(input: &Input<'_>) -> Result<Hwloc, String> {
    let builder = Hwloc::builder().with_flags(BuildFlags::empty()).map_err(|error| error.to_string())?;
    let builder = match input {
        Input::Live { .. } => builder,
        Input::Xml(text) => builder.from_xml(text).map_err(|_| "hwloc rejects it as invalid XML".to_owned())?,
        Input::Synthetic(text) => {
            builder.from_synthetic(text).map_err(|_| "hwloc rejects this synthetic description".to_owned())?
        }
    };
    builder.build().map_err(|error| format!("hwloc cannot load it: {error}"))
}

/// Removes CPUs outside the affinity mask; hwloc itself removes CPUs outside the cgroup. Keeps all memory nodes.
fn restrict(hwloc: &mut Hwloc, only: &CpuSet, notes: &mut Vec<String>) -> Result<(), String> {
    let online: CpuSet = id_set(&*hwloc.cpuset())?;
    if online.is_subset(only) {
        return Ok(());
    }
    let keep: HwlocCpuSet = online.intersection(only).iter().filter_map(bitmap_index).collect();
    if hwloc.edit(|editor| editor.restrict(&keep, RestrictFlags::empty())).is_err() {
        notes.push(format!("hwloc reports cpus {online}, the affinity mask {only}: using hwloc"));
    }
    Ok(())
}

fn bitmap_index(cpu: CpuId) -> Option<BitmapIndex> {
    BitmapIndex::try_from(cpu.0 as usize).ok()
}

/// Returns the objects in depth-first order, which preserves the logical order of each kind, and the memory nodes.
fn objects(hwloc: &Hwloc) -> Result<(Vec<Object>, Vec<&TopologyObject>), String> {
    let nodes: Vec<&TopologyObject> = hwloc.objects_with_type(ObjectType::NUMANode).collect();
    let mut objects: Vec<Object> = Vec::new();
    let mut stack: Vec<(&TopologyObject, Option<usize>)> = vec![(hwloc.root_object(), None)];
    while let Some((object, parent)) = stack.pop() {
        let at = objects.len();
        objects.push(convert(object, parent, &nodes)?);
        if let Some(parent) = parent {
            objects[parent].children.push(at);
        }
        stack.extend(object.normal_children().rev().map(|child| (child, Some(at))));
    }
    Ok((objects, nodes))
}

fn convert(object: &TopologyObject, parent: Option<usize>, nodes: &[&TopologyObject]) -> Result<Object, String> {
    let node_index = |child: &TopologyObject| nodes.iter().position(|node| std::ptr::eq(*node, child));
    Ok(Object {
        kind: kind(object.object_type()),
        os_index: object.os_index().map(number).transpose()?,
        cpus: object.cpuset().map_or(Ok(CpuSet::new()), |cpus| id_set(&*cpus))?,
        parent,
        children: Vec::new(),
        memory: object.memory_children().filter_map(node_index).collect(),
        cache: cache(object),
        subtype: object.subtype().map(|subtype| subtype.to_string_lossy().into_owned()),
    })
}

fn kind(object_type: ObjectType) -> ObjectKind {
    match object_type {
        ObjectType::Machine => ObjectKind::Machine,
        ObjectType::Package => ObjectKind::Package,
        ObjectType::Die => ObjectKind::Die,
        ObjectType::Core => ObjectKind::Core,
        ObjectType::PU => ObjectKind::Pu,
        other if other.is_cpu_data_cache() => ObjectKind::Cache,
        _ => ObjectKind::Group,
    }
}

fn cache(object: &TopologyObject) -> Option<Cache> {
    match object.attributes()? {
        ObjectAttributes::Cache(cache) => Some(Cache {
            level: cache.depth() as u32,
            bytes: Bytes(cache.size().map_or(0, u64::from)),
            line_bytes: cache.line_size().map_or(0, |bytes| bytes.get() as u32),
        }),
        _ => None,
    }
}

fn memory_node(object: &TopologyObject) -> Result<MemoryNode, String> {
    let bytes = match object.attributes() {
        Some(ObjectAttributes::NUMANode(node)) => node.local_memory().map_or(0, u64::from),
        _ => 0,
    };
    Ok(MemoryNode {
        os: node_id(object)?,
        cpus: object.cpuset().map_or(Ok(CpuSet::new()), |cpus| id_set(&*cpus))?,
        bytes: Bytes(bytes),
        subtype: object.subtype().map(|subtype| subtype.to_string_lossy().into_owned()),
    })
}

fn number(number: usize) -> Result<u32, String> {
    if number > NUMBER_MAX {
        return Err(format!("the number {number} of an object is larger than {NUMBER_MAX}"));
    }
    Ok(number as u32)
}

fn node_id(object: &TopologyObject) -> Result<NodeId, String> {
    match object.os_index() {
        Some(number) if number <= NUMBER_MAX => Ok(NodeId(number as u32)),
        Some(number) => Err(format!("memory node {number} is too large")),
        None => Err("a memory node has no number".into()),
    }
}

/// Returns the distance matrices between memory nodes; hwloc also has matrices between GPUs.
fn distances(hwloc: &Hwloc) -> Result<Vec<Distances>, String> {
    let all = hwloc.distances(None).map_err(|error| format!("hwloc cannot read the distances: {error}"))?;
    let mut matrices = Vec::new();
    for matrix in &all {
        let rows: Vec<&TopologyObject> = matrix.objects().flatten().collect();
        if rows.len() < matrix.num_objects() || rows.iter().any(|row| row.object_type() != ObjectType::NUMANode) {
            continue;
        }
        matrices.push(Distances {
            name: matrix.name().map(|name| name.to_string_lossy().into_owned()),
            nodes: rows.into_iter().map(node_id).collect::<Result<_, _>>()?,
            values: matrix.distances().to_vec(),
        });
    }
    Ok(matrices)
}

/// Returns the values sorted by attribute and by the logical order of the nodes, which hwloc's lists do not preserve.
fn memory_attributes(hwloc: &Hwloc) -> Result<Vec<MemoryAttribute>, String> {
    let mut values = Vec::new();
    for name in ATTRIBUTES {
        let attribute = hwloc.memory_attribute_named(name).map_err(|error| error.to_string())?;
        let Some(attribute) = attribute else { continue };
        let (targets, _) = attribute.targets(None).map_err(|error| format!("hwloc cannot read {name}: {error}"))?;
        let is_target = |node: &&TopologyObject| targets.iter().any(|target| std::ptr::eq(*target, *node));
        for node in hwloc.objects_with_type(ObjectType::NUMANode).filter(is_target) {
            values.extend(values_of(&attribute, name, node)?);
        }
    }
    Ok(values)
}

fn values_of(
    attribute: &HwlocAttribute<'_>,
    name: &str,
    target: &TopologyObject,
) -> Result<Vec<MemoryAttribute>, String> {
    let node = node_id(target)?;
    let (initiators, values) =
        attribute.initiators(target).map_err(|error| format!("hwloc cannot read {name} of node {node}: {error}"))?;
    let value = |(initiator, value): (Initiator<'_>, u64)| {
        let cpus = match initiator {
            Initiator::CpuSet(cpus) => Some(id_set(&*cpus)?),
            Initiator::Object(object) => object.cpuset().map(|cpus| id_set(&*cpus)).transpose()?,
        };
        Ok(MemoryAttribute { attr: name.into(), node, initiator: cpus, value })
    };
    initiators.into_iter().zip(values).map(value).collect()
}

fn cpu_kinds(hwloc: &Hwloc) -> Result<Vec<CpuKind>, String> {
    // hwloc returns an error for unknown kinds, which an empty list represents.
    let Ok(kinds) = hwloc.cpu_kinds() else { return Ok(Vec::new()) };
    kinds
        .map(|kind| {
            let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
            let info: Vec<(String, String)> =
                kind.infos.iter().map(|info| (text(info.name()), text(info.value()))).collect();
            let capacity = info.iter().find(|(name, _)| name == "LinuxCapacity");
            Ok(CpuKind {
                cpus: id_set(&kind.cpuset)?,
                efficiency: kind.efficiency.and_then(|rank| i32::try_from(rank).ok()).unwrap_or(-1),
                capacity: capacity.and_then(|(_, value)| value.parse().ok()),
                info,
            })
        })
        .collect()
}

/// Copies a set. Fails if it is infinite or has a number greater than [`NUMBER_MAX`].
fn id_set<T: Id>(set: &impl AsRef<Bitmap>) -> Result<IdSet<T>, String> {
    let set = set.as_ref();
    if set.weight().is_none() {
        return Err(format!("a set of {}s is infinite", T::NOUN));
    }
    match set.last_set() {
        Some(last) if usize::from(last) > NUMBER_MAX => Err(format!("{} {last} is too large", T::NOUN)),
        _ => Ok(set.iter_set().map(|number| T::from_number(usize::from(number) as u32)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_mask_restricts_cpus_but_not_memory() {
        let input = Input::Synthetic("pack:2 [numa(memory=1GiB)] core:2 pu:2");
        let mut hwloc = build(&input).unwrap();
        let mut notes = Vec::new();
        restrict(&mut hwloc, &CpuSet::parse_list("1,2,99").unwrap(), &mut notes).unwrap();
        let cpus: CpuSet = id_set(&*hwloc.cpuset()).unwrap();
        assert_eq!(cpus.to_string(), "1-2");
        assert_eq!(hwloc.objects_with_type(ObjectType::Core).count(), 2);
        assert_eq!(hwloc.objects_with_type(ObjectType::NUMANode).count(), 2);
        assert_eq!(notes, Vec::<String>::new());
    }

    #[test]
    fn infinite_and_too_large_sets_return_errors() {
        let set = |set: Bitmap| id_set::<CpuId>(&HwlocCpuSet::from(set)).map(|set| set.to_string());
        assert_eq!(set(Bitmap::from_range(4..9)), Ok("4-8".into()));
        assert_eq!(set(Bitmap::new()), Ok(String::new()));
        assert_eq!(set(Bitmap::from_range(65_535..65_536)), Ok("65535".into()));
        assert!(set(Bitmap::from_range(65_536..65_537)).unwrap_err().contains("is too large"));
        assert!(set(Bitmap::from_range(4usize..)).unwrap_err().contains("is infinite"));
    }
}
