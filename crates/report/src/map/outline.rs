//! The tree of a topology as text, with equal siblings merged. Must not draw the connecting lines.

use model::values::id_set::{CpuId, CpuSet, NodeSet};
use model::values::topology::{MemoryNode, Object, ObjectKind, Topology};
use model::values::units::Bytes;

use super::cores::{Core, cache_label, common, core_at, cpu_listing};
use crate::style::clean;

/// Maximum number of lines, about a terminal's height; beyond it, siblings equal to the first take one line each.
const LINES_MAX: usize = 45;

const NAMELESS_GROUP: &str = "group";

/// A line of the tree with its children.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Branch {
    pub(crate) head: String,
    pub(crate) children: Vec<Branch>,
    /// Its description without numbers, which is the same for equal siblings.
    shape: String,
    /// Its numbers, for siblings that are not shown in full.
    whose: String,
}

pub(crate) fn outline(topology: &Topology) -> Branch {
    let telling = OutlineContext { topology, common: common(topology) };
    let mut root = telling.branch(0);
    if root.lines() > LINES_MAX {
        root.fold();
    }
    root
}

impl Branch {
    fn lines(&self) -> usize {
        1 + self.children.iter().map(Self::lines).sum::<usize>()
    }

    /// Shows the first of several equal siblings in full and only the numbers of the others.
    fn fold(&mut self) {
        let mut shown: Option<String> = None;
        for child in &mut self.children {
            if child.lines() > 1 && shown.as_ref() == Some(&child.shape) {
                child.head = format!("same as above: {}", child.whose);
                child.children.clear();
            } else {
                shown = Some(child.shape.clone());
                child.fold();
            }
        }
    }
}

/// The context of all lines.
struct OutlineContext<'a> {
    topology: &'a Topology,
    /// The common description of all cores, which lines omit.
    common: Option<String>,
}

impl OutlineContext<'_> {
    /// An object merged with its only child, repeatedly.
    fn branch(&self, index: usize) -> Branch {
        let first = &self.topology.objects[index];
        let mut object = first;
        let mut names = self.names(object);
        let mut shape = self.shape(object);
        let mut below = self.below(object);
        while let [only] = below[..] {
            if core_at(self.topology, only).is_some() {
                break;
            }
            object = &self.topology.objects[only];
            names.extend(self.names(object));
            shape += &self.shape(object);
            below = self.below(object);
        }
        // A group without a name adds no information.
        if names.len() > 1 || index == 0 {
            names.retain(|name| name != NAMELESS_GROUP);
        }
        if names.is_empty() || (index == 0 && names[0].starts_with("node")) {
            names.insert(0, "machine".into());
        }
        let mut children = self.children(&below);
        let mut head = names.join(", ");
        // A single group of cores is merged into the line of its parent.
        if children.len() == 1 && children[0].children.is_empty() {
            let cores = children.remove(0);
            head = format!("{head}: {}", cores.head);
            shape += &cores.shape;
        }
        shape += &children.iter().map(|child| format!("({})", child.shape)).collect::<String>();
        Branch { head, children, shape, whose: self.whose(first) }
    }

    /// Children with CPUs; objects with only memory are listed separately.
    fn below(&self, object: &Object) -> Vec<usize> {
        object.children.iter().copied().filter(|child| !self.topology.objects[*child].cpus.is_empty()).collect()
    }

    fn children(&self, below: &[usize]) -> Vec<Branch> {
        let mut branches = Vec::new();
        let mut run: Vec<Core> = Vec::new();
        for index in below {
            let core = core_at(self.topology, *index);
            let continues = matches!((&core, run.last()), (Some(core), Some(last)) if core.is_like(last));
            if !continues && !run.is_empty() {
                branches.push(self.cores(&std::mem::take(&mut run)));
            }
            match core {
                Some(core) => run.push(core),
                None => branches.push(self.branch(*index)),
            }
        }
        if !run.is_empty() {
            branches.push(self.cores(&run));
        }
        branches
    }

    /// `3 cores, kind 1 (2 threads, L2 512KiB): 0,6 1,7 2,8`.
    fn cores(&self, cores: &[Core]) -> Branch {
        let first = &cores[0];
        let noun = match (first.named, cores.len()) {
            (true, 1) => "core",
            (true, _) => "cores",
            (false, 1) => "cpu",
            (false, _) => "cpus",
        };
        let mut text = format!("{} {noun}", cores.len());
        if let Some(kind) = first.kind {
            text += &format!(" of kind {kind}");
        }
        let facts = first.facts();
        if self.common.is_none() && !facts.is_empty() {
            text += &format!(" ({facts})");
        }
        let cpus: CpuSet = cores.iter().flat_map(|core| core.cpus.iter().copied()).collect();
        let whose = format!("cpus {cpus}");
        Branch { head: format!("{text}: {}", cpu_listing(cores)), children: Vec::new(), shape: text, whose }
    }

    fn names(&self, object: &Object) -> Vec<String> {
        let number = object.os_index.map_or(String::new(), |number| format!(" {number}"));
        let subtype = object.subtype.as_deref().map(clean);
        let name = match object.kind {
            ObjectKind::Machine => None,
            ObjectKind::Package => Some(format!("package{number}")),
            ObjectKind::Die => Some(format!("die{number}")),
            // Numbers of groups are internal to hwloc.
            ObjectKind::Group => Some(subtype.unwrap_or(NAMELESS_GROUP.into()).to_lowercase()),
            ObjectKind::Cache => object.cache.map(cache_label),
            ObjectKind::Core => Some(format!("core{number}")),
            ObjectKind::Pu => Some(format!("cpu{number}")),
        };
        name.into_iter().chain(self.memory(object)).collect()
    }

    fn shape(&self, object: &Object) -> String {
        let memory: Vec<(Bytes, &Option<String>)> =
            self.near(object).iter().map(|node| (node.bytes, &node.subtype)).collect();
        format!("{:?} {:?} {:?} {memory:?};", object.kind, object.cache, object.subtype)
    }

    fn near(&self, object: &Object) -> Vec<&MemoryNode> {
        let nodes = object.memory.iter().map(|index| &self.topology.nodes[*index]);
        nodes.filter(|node| !node.cpus.is_empty()).collect()
    }

    /// `node 0 16GiB`, or `nodes 0-7 1GiB each`.
    fn memory(&self, object: &Object) -> Vec<String> {
        let nodes = self.near(object);
        let like = |one: &MemoryNode, other: &MemoryNode| one.bytes == other.bytes && one.subtype == other.subtype;
        if let [first, .., _] = nodes[..]
            && nodes.iter().all(|node| like(node, first))
        {
            let numbers: NodeSet = nodes.iter().map(|node| node.os).collect();
            return vec![format!("nodes {numbers} {} each", node_facts(first))];
        }
        nodes.iter().map(|node| format!("node {} {}", node.os, node_facts(node))).collect()
    }

    /// `packages 4-7, nodes 4-7, cpus 72-143`.
    fn whose(&self, object: &Object) -> String {
        let inside = |other: &&Object| !other.cpus.is_empty() && other.cpus.is_subset(&object.cpus);
        let packages: CpuSet = self
            .topology
            .of_kind(ObjectKind::Package)
            .filter(inside)
            .filter_map(|package| package.os_index.map(CpuId))
            .collect();
        let nodes = self.topology.local_nodes(&object.cpus);
        let part = |one: &str, many: &str, count: usize, list: String| match count {
            0 => None,
            1 => Some(format!("{one} {list}")),
            _ => Some(format!("{many} {list}")),
        };
        let parts = [
            part("package", "packages", packages.len(), packages.to_string()),
            part("node", "nodes", nodes.len(), nodes.to_string()),
            part("cpu", "cpus", object.cpus.len(), object.cpus.to_string()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// `16GiB`, `HBM 4GiB`, `size unknown`.
pub(crate) fn node_facts(node: &MemoryNode) -> String {
    let size = if node.bytes.0 == 0 { "size unknown".into() } else { node.bytes.to_string() };
    node.subtype.as_deref().map_or(size.clone(), |subtype| format!("{} {size}", clean(subtype)))
}
