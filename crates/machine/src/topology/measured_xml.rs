//! hwloc's XML with measured values in it: memory attributes and distances in place of what the firmware states. Knows
//! hwloc's XML, version 2, and not hwloc: its binding sets values only of attributes that the program itself registers.

use std::collections::BTreeMap;
use std::fmt::Write;

use model::values::id_set::{CpuSet, NodeId};
use model::values::topology::{Distances, MemoryAttribute};
use quick_xml::events::attributes::AttrError;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, Writer};

/// hwloc's flags of the attributes that may be measured: the higher or the lower the better (1, 2), needs an initiator (4).
const FLAGS: [(&str, &str); 5] =
    [("Bandwidth", "5"), ("Latency", "6"), ("ReadBandwidth", "5"), ("WriteBandwidth", "5"), ("ReadLatency", "6")];

/// hwloc's kind of a matrix that a user gave (2) and that means latencies (4).
const KIND: &str = "6";

const ROOT: &[u8] = b"topology";

/// Puts measured values into an export. Attributes of the same names that stand in it are replaced; the firmware's
/// distances stay, and the measured matrix comes with its own name. An error is a node that the XML does not have.
pub(super) fn with_measured(
    xml: &str,
    attributes: &[MemoryAttribute],
    distances: Option<&Distances>,
) -> Result<String, String> {
    let mut reader = Reader::from_str(xml);
    let mut writer = Writer::new(Vec::new());
    let mut nodes: BTreeMap<NodeId, String> = BTreeMap::new();
    let mut dropping = false;
    loop {
        let event = reader.read_event().map_err(|error| format!("hwloc's XML cannot be read: {error}"))?;
        match &event {
            Event::Eof => break,
            Event::Start(tag) | Event::Empty(tag) if tag.name().as_ref() == b"object" => {
                nodes.extend(node(tag).map_err(|error| format!("hwloc's XML cannot be read: {error}"))?);
            }
            Event::Start(tag) if is_replaced(tag, attributes) => dropping = true,
            Event::End(tag) if tag.name().as_ref() == ROOT => {
                let values = values(attributes, distances, &nodes)?;
                writer.get_mut().extend_from_slice(values.as_bytes());
            }
            _ => {}
        }
        let ends = matches!(&event, Event::End(tag) if tag.name().as_ref() == b"memattr");
        if !dropping {
            writer.write_event(event).map_err(|error| format!("memory refused it: {error}"))?;
        }
        dropping &= !ends;
    }
    String::from_utf8(writer.into_inner()).map_err(|error| format!("hwloc's XML is not text: {error}"))
}

fn text_of(tag: &BytesStart<'_>, name: &str) -> Result<Option<String>, AttrError> {
    let found = tag.try_get_attribute(name)?;
    Ok(found.map(|attribute| String::from_utf8_lossy(&attribute.value).into_owned()))
}

/// A memory node's number and the number by which hwloc's XML refers to it.
fn node(tag: &BytesStart<'_>) -> Result<Option<(NodeId, String)>, AttrError> {
    if text_of(tag, "type")?.as_deref() != Some("NUMANode") {
        return Ok(None);
    }
    let os = text_of(tag, "os_index")?.and_then(|text| text.parse().ok()).map(NodeId);
    Ok(os.zip(text_of(tag, "gp_index")?))
}

fn is_replaced(tag: &BytesStart<'_>, attributes: &[MemoryAttribute]) -> bool {
    let name = text_of(tag, "name").ok().flatten();
    tag.name().as_ref() == b"memattr" && attributes.iter().any(|measured| Some(&measured.attr) == name.as_ref())
}

/// The elements that stand for the values. Names and numbers are ours, so nothing in them needs escaping.
fn values(
    attributes: &[MemoryAttribute],
    distances: Option<&Distances>,
    nodes: &BTreeMap<NodeId, String>,
) -> Result<String, String> {
    let mut out = distances.map_or(String::new(), matrix);
    for (name, flags) in FLAGS {
        let of_name: Vec<&MemoryAttribute> = attributes.iter().filter(|measured| measured.attr == name).collect();
        if of_name.is_empty() {
            continue;
        }
        let mut lines = String::new();
        for MemoryAttribute { node, initiator, value, .. } in of_name {
            let target = nodes.get(node).ok_or_else(|| format!("it has no memory node {node}"))?;
            let cpus = mask(initiator.as_ref().unwrap_or(&CpuSet::new()));
            writeln!(
                lines,
                "    <memattr_value target_obj_type=\"NUMANode\" target_obj_gp_index=\"{target}\" value=\"{value}\" \
                 initiator_cpuset=\"{cpus}\"/>"
            )
            .expect("a text takes what is written");
        }
        writeln!(out, "  <memattr name=\"{name}\" flags=\"{flags}\">\n{lines}  </memattr>")
            .expect("a text takes what is written");
    }
    Ok(out)
}

/// Lengths count the characters of the lists, the space behind each number included.
fn matrix(distances: &Distances) -> String {
    let list = |numbers: &mut dyn Iterator<Item = String>| numbers.map(|number| number + " ").collect::<String>();
    let indexes = list(&mut distances.nodes.iter().map(ToString::to_string));
    let values = list(&mut distances.values.iter().map(ToString::to_string));
    let name = distances.name.as_deref().unwrap_or("Measured");
    format!(
        "  <distances2 type=\"NUMANode\" nbobjs=\"{}\" kind=\"{KIND}\" name=\"{name}\" indexing=\"os\">\n    <indexes \
         length=\"{}\">{indexes}</indexes>\n    <u64values length=\"{}\">{values}</u64values>\n  </distances2>\n",
        distances.nodes.len(),
        indexes.len(),
        values.len()
    )
}

/// hwloc's `0x000000ff,0xffffffff`.
fn mask(cpus: &CpuSet) -> String {
    let groups: Vec<String> = cpus.to_mask().split(',').map(|group| format!("0x{group:0>8}")).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{TopologySource, export_xml, read};

    const TWO: &str = "pack:2 [numa(memory=1GiB)] core:2 pu:2";

    fn attribute(attr: &str, node: u32, cpus: &str, value: u64) -> MemoryAttribute {
        let initiator = Some(CpuSet::parse_list(cpus).unwrap());
        MemoryAttribute { attr: attr.into(), node: NodeId(node), initiator, value }
    }

    fn read_back(xml: &str) -> model::values::topology::Topology {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), xml).unwrap();
        read(&TopologySource::XmlFile(file.path().into())).unwrap()
    }

    #[test]
    fn hwloc_reads_measured_values_back() {
        let source = TopologySource::Synthetic(TWO.into());
        let attributes = [
            attribute("Bandwidth", 0, "0-3", 12_000),
            attribute("Bandwidth", 1, "0-3", 6_000),
            attribute("Latency", 0, "0-3", 96),
            attribute("Latency", 1, "0-3", 145),
            attribute("Latency", 1, "4-7", 97),
            attribute("ReadBandwidth", 0, "0-3", 13_000),
            attribute("ReadLatency", 0, "0-3", 95),
            attribute("WriteBandwidth", 0, "0-3", 7_000),
        ];
        let nodes = vec![NodeId(0), NodeId(1)];
        let distances = Distances { name: Some("NearfarLatency".into()), nodes, values: vec![96, 145, 146, 97] };
        let xml = with_measured(&export_xml(&source).unwrap(), &attributes, Some(&distances)).unwrap();
        let topology = read_back(&xml);
        assert_eq!(topology.memory_attributes, attributes);
        assert!(topology.distances.contains(&distances), "{:?}", topology.distances);
        // Once more: what is there is replaced, not doubled.
        let faster = [attribute("Latency", 0, "0-3", 50)];
        let again = read_back(&with_measured(&xml, &faster, None).unwrap());
        let latencies: Vec<_> = again.memory_attributes.iter().filter(|one| one.attr == "Latency").collect();
        assert_eq!(latencies, [&faster[0]]);
        assert_eq!(again.memory_attributes.len(), attributes.len() - 2);
    }

    #[test]
    fn without_values_the_text_stays_as_it_is() {
        let xml = export_xml(&TopologySource::Synthetic(TWO.into())).unwrap();
        assert_eq!(with_measured(&xml, &[], None), Ok(xml));
    }

    #[test]
    fn nodes_and_texts_that_do_not_fit_are_refused() {
        let xml = export_xml(&TopologySource::Synthetic(TWO.into())).unwrap();
        let refusal = |xml: &str| with_measured(xml, &[attribute("Latency", 7, "0", 1)], None).unwrap_err();
        assert_eq!(refusal(&xml), "it has no memory node 7");
        assert!(refusal("<topology><object></topology>").contains("cannot be read"));
    }

    #[test]
    fn masks_are_written_as_hwloc_writes_them() {
        let mask = |list: &str| mask(&CpuSet::parse_list(list).unwrap());
        assert_eq!(
            [mask("0-3"), mask("32"), mask("0,71")],
            ["0x0000000f", "0x00000001,0x00000000", "0x00000080,0x00000000,0x00000001"]
        );
    }
}
