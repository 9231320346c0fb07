//! Inserts measured memory attributes and distances into hwloc's XML, in place of the firmware's values. Edits the text
//! of XML version 2 itself, because hwloc's binding can set only attributes that the program registers.

use std::collections::BTreeMap;
use std::fmt::Write;

use model::values::id_set::{CpuSet, NodeId};
use model::values::topology::{Distances, MemoryAttribute};
use quick_xml::events::attributes::AttrError;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, Writer};

/// hwloc's flags of measurable attributes: higher is better (1), lower is better (2), needs an initiator (4).
const FLAGS: [(&str, &str); 5] =
    [("Bandwidth", "5"), ("Latency", "6"), ("ReadBandwidth", "5"), ("WriteBandwidth", "5"), ("ReadLatency", "6")];

/// hwloc's kind of a matrix that comes from the user (2) and contains latencies (4).
const KIND: &str = "6";

const ROOT: &[u8] = b"topology";

/// Inserts measured values into an export. They replace attributes of the same name. The firmware's distances remain,
/// and the measured matrix has its own name. Fails if the text cannot be parsed or lacks one of the nodes.
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
        let event = reader.read_event().map_err(|error| format!("cannot parse hwloc's XML: {error}"))?;
        match &event {
            Event::Eof => break,
            Event::Start(tag) | Event::Empty(tag) if tag.name().as_ref() == b"object" => {
                nodes.extend(node(tag).map_err(|error| format!("cannot parse hwloc's XML: {error}"))?);
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
            writer.write_event(event).map_err(|error| format!("cannot write XML: {error}"))?;
        }
        dropping &= !ends;
    }
    String::from_utf8(writer.into_inner()).map_err(|error| format!("hwloc's XML is not UTF-8: {error}"))
}

fn text_of(tag: &BytesStart<'_>, name: &str) -> Result<Option<String>, AttrError> {
    let attribute = tag.try_get_attribute(name)?;
    Ok(attribute.map(|attribute| String::from_utf8_lossy(&attribute.value).into_owned()))
}

/// Returns the number of a memory node and its id within hwloc's XML (`gp_index`).
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

/// Formats the XML elements of the values. All names and numbers come from this program, so none needs escaping.
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
            .expect("writing to a String cannot fail");
        }
        writeln!(out, "  <memattr name=\"{name}\" flags=\"{flags}\">\n{lines}  </memattr>")
            .expect("writing to a String cannot fail");
    }
    Ok(out)
}

/// Formats the matrix. `length` is the number of characters in a list, including the space after each number.
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

/// Formats a mask in hwloc's notation: `0x000000ff,0xffffffff`.
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
    fn measured_values_are_read_back_by_hwloc() {
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
        // A second insertion replaces existing values and does not duplicate them.
        let faster = [attribute("Latency", 0, "0-3", 50)];
        let again = read_back(&with_measured(&xml, &faster, None).unwrap());
        let latencies: Vec<_> = again.memory_attributes.iter().filter(|one| one.attr == "Latency").collect();
        assert_eq!(latencies, [&faster[0]]);
        assert_eq!(again.memory_attributes.len(), attributes.len() - 2);
    }

    #[test]
    fn text_without_values_is_unchanged() {
        let xml = export_xml(&TopologySource::Synthetic(TWO.into())).unwrap();
        assert_eq!(with_measured(&xml, &[], None), Ok(xml));
    }

    #[test]
    fn missing_nodes_and_invalid_xml_return_errors() {
        let xml = export_xml(&TopologySource::Synthetic(TWO.into())).unwrap();
        let error_for = |xml: &str| with_measured(xml, &[attribute("Latency", 7, "0", 1)], None).unwrap_err();
        assert_eq!(error_for(&xml), "it has no memory node 7");
        assert!(error_for("<topology><object></topology>").contains("cannot parse"));
    }

    #[test]
    fn masks_have_the_format_of_hwloc() {
        let mask = |list: &str| mask(&CpuSet::parse_list(list).unwrap());
        assert_eq!(
            [mask("0-3"), mask("32"), mask("0,71")],
            ["0x0000000f", "0x00000001,0x00000000", "0x00000080,0x00000000,0x00000001"]
        );
    }
}
