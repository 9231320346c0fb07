//! Captures: a machine's topology and settings as versioned JSON.

use serde::{Deserialize, Serialize};

use crate::values::settings::Settings;
use crate::values::topology::Topology;

/// Format version that this program writes. Older versions are read, newer ones are rejected.
pub const CAPTURE_VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capture {
    pub version: u32,
    pub topology: Topology,
    /// Settings at the time of the capture; empty for a topology without a running machine.
    #[serde(default)]
    pub settings: Settings,
}

impl Capture {
    /// Returns a capture in the current format version.
    pub fn new(topology: Topology, settings: Settings) -> Self {
        Self { version: CAPTURE_VERSION, topology, settings }
    }

    /// Parses a capture and validates its topology.
    pub fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let invalid = |error: serde_json::Error| format!("this JSON is not a capture of a machine: {error}");
        // The version is checked first: parsing a newer format may fail elsewhere with a misleading message.
        let Versioned { version } = serde_json::from_str(text).map_err(invalid)?;
        if version == 0 || version > CAPTURE_VERSION {
            return Err(format!("the capture has version {version}, this program reads up to {CAPTURE_VERSION}"));
        }
        let capture: Self = serde_json::from_str(text).map_err(invalid)?;
        check_topology(&capture.topology)?;
        Ok(capture)
    }
}

/// Checks that a topology is consistent: one root, parents before children, all links in both directions and within the
/// arena.
pub fn check_topology(topology: &Topology) -> Result<(), String> {
    if topology.objects.is_empty() {
        return Err("the topology has no objects".into());
    }
    for (index, object) in topology.objects.iter().enumerate() {
        check_links(topology, index).map_err(|fault| format!("object {index} ({:?}) {fault}", object.kind))?;
    }
    let mut numbers: Vec<u32> = topology.nodes.iter().map(|node| node.os.0).collect();
    numbers.sort_unstable();
    if let Some([duplicate, ..]) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("memory node {duplicate} occurs twice"));
    }
    match topology.distances.iter().position(|matrix| matrix.values.len() != matrix.nodes.len().pow(2)) {
        Some(index) => Err(format!("distances {index} are not a square matrix")),
        None => Ok(()),
    }
}

fn check_links(topology: &Topology, index: usize) -> Result<(), String> {
    let object = &topology.objects[index];
    match object.parent {
        None if index != 0 => return Err("has no parent".into()),
        Some(_) if index == 0 => return Err("is the root and has a parent".into()),
        Some(parent) if parent >= index => return Err(format!("comes before its parent {parent}")),
        Some(parent) if !topology.objects[parent].children.contains(&index) => {
            return Err(format!("is not among the children of {parent}"));
        }
        _ => {}
    }
    for child in &object.children {
        if topology.objects.get(*child).is_none_or(|child| child.parent != Some(index)) {
            return Err(format!("has a child {child} that is not its own"));
        }
    }
    match object.memory.iter().find(|node| **node >= topology.nodes.len()) {
        Some(node) => Err(format!("has a memory node at {node}, beyond the list of nodes")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::id_set::{CpuSet, NodeId};
    use crate::values::topology::{Distances, MemoryNode, Object, ObjectKind};
    use crate::values::units::Bytes;

    fn object(kind: ObjectKind, parent: Option<usize>, children: &[usize], memory: &[usize]) -> Object {
        let cpus = CpuSet::parse_list("0").unwrap();
        Object {
            kind,
            os_index: Some(0),
            cpus,
            parent,
            children: children.into(),
            memory: memory.into(),
            cache: None,
            subtype: None,
        }
    }

    fn small() -> Capture {
        let node = MemoryNode { os: NodeId(0), cpus: CpuSet::new(), bytes: Bytes(1), subtype: None };
        let topology = Topology {
            objects: vec![
                object(ObjectKind::Machine, None, &[1], &[0]),
                object(ObjectKind::Core, Some(0), &[2], &[]),
                object(ObjectKind::Pu, Some(1), &[], &[]),
            ],
            nodes: vec![node],
            distances: vec![Distances { name: None, nodes: vec![NodeId(0)], values: vec![10] }],
            ..Topology::default()
        };
        Capture::new(topology, Settings::default())
    }

    #[test]
    fn a_capture_survives_json() {
        let text = serde_json::to_string(&small()).unwrap();
        assert_eq!(Capture::parse(&text), Ok(small()));
    }

    #[test]
    fn a_broken_capture_is_refused() {
        type Case = (&'static str, fn(&mut Capture));
        let cases: [Case; 11] = [
            ("version 2", |c| c.version = 2),
            ("version 0", |c| c.version = 0),
            ("no objects", |c| c.topology.objects.clear()),
            ("a child 1 that is not its own", |c| c.topology.objects[1].parent = Some(2)),
            ("comes before its parent", |c| {
                c.topology.objects[0].children = vec![2];
                c.topology.objects[1].parent = Some(2);
                c.topology.objects[1].children.clear();
                c.topology.objects[2].parent = Some(0);
                c.topology.objects[2].children = vec![1];
            }),
            ("has no parent", |c| {
                c.topology.objects[1].children.clear();
                c.topology.objects[2].parent = None;
            }),
            ("is the root", |c| c.topology.objects[0].parent = Some(0)),
            ("a child 9", |c| c.topology.objects[1].children.push(9)),
            ("is not among the children", |c| c.topology.objects[1].children.clear()),
            ("beyond the list", |c| c.topology.nodes.clear()),
            ("not a square", |c| c.topology.distances[0].values.clear()),
        ];
        for (expected, spoil) in cases {
            let mut capture = small();
            spoil(&mut capture);
            let error = Capture::parse(&serde_json::to_string(&capture).unwrap()).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
        let mut twice = small();
        twice.topology.nodes.push(twice.topology.nodes[0].clone());
        let error = Capture::parse(&serde_json::to_string(&twice).unwrap()).unwrap_err();
        assert!(error.contains("memory node 0 occurs twice"), "{error}");
        for text in ["", "{}", "[]", "{\"version\":1}", "not json"] {
            assert!(Capture::parse(text).unwrap_err().contains("not a capture"), "{text}");
        }
    }
}
