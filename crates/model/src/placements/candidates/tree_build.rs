//! Builds the tree of a machine from its topology. Which equal parts may be exchanged is decided in `distances`.

use std::collections::BTreeMap;

use super::distances;
use super::interner::Interner;
use super::quantise::{quantise, speed_levels};
use super::tree::{Nodes, Symmetry, Tree, TreeLevel, TreeNode, TreeNodeDraft, UsableNode, memory_in_order};
use crate::placements::placement::cores::CoreIndex;
use crate::values::id_set::{CpuId, CpuSet, NodeId};
use crate::values::topology::{Cache, MemoryAttribute, MemoryNode, Object, ObjectKind, Topology};

/// Maximum number of kinds of cores in a family, which stores one bit per kind. No known machine has more than five.
const KINDS_MAX: usize = 32;

impl Tree {
    /// Builds the tree; `None` if this process may not use any CPU. Different sets of `measured` are distinguished.
    pub fn new(core_index: &CoreIndex, measured: &[CpuSet]) -> Option<Self> {
        let mut interner = Interner::default();
        let mut nodes = nodes(core_index, &mut interner);
        let relation = distances::relation(core_index.topology, &nodes.ids, &mut interner);
        distances::refine(&mut nodes.classes, &relation, &mut interner);
        let mut build = Build { core_index, measured, interner, nodes: &nodes };
        let mut root = build.draft(core_index.topology.objects.first()?)?;
        let attached: Vec<usize> = memory_in_order(&root, &nodes.classes);
        root.memory.extend((0..nodes.ids.len()).filter(|node| !attached.contains(node)));
        let mut interner = build.interner;
        classify(&mut root, &nodes, &mut interner);
        let mut grouped = root.clone();
        let mut tree = Self::from_draft(root, &nodes, &relation, interner);
        if !tree.symmetry.is_all() && distances::group_by_distance(&mut grouped, &nodes, core_index.topology) {
            classify(&mut grouped, &nodes, &mut tree.interner);
            tree = Self::from_draft(grouped, &nodes, &relation, tree.interner);
        }
        (tree.parts[0].cpus > 0).then_some(tree)
    }

    fn from_draft(root: TreeNodeDraft, nodes: &Nodes, relation: &[Vec<u32>], interner: Interner) -> Self {
        let memory = nodes.ids.iter().zip(&nodes.tiers).zip(&nodes.classes);
        let memory = memory
            .map(|((node, tier), class)| UsableNode { node: *node, holder: 0, tier: *tier, class: *class })
            .collect();
        let (parts, leaf, symmetry) = (Vec::new(), BTreeMap::new(), Symmetry::All);
        let mut tree = Self { parts, memory, leaf, interner, symmetry };
        tree.flatten(root, None);
        tree.symmetry = distances::symmetry(&mut tree, relation);
        tree
    }

    fn flatten(&mut self, part: TreeNodeDraft, parent: Option<usize>) -> usize {
        let index = self.parts.len();
        let mut memory = part.memory;
        memory.sort_by_key(|node| self.memory[*node].class);
        memory.iter().for_each(|node| self.memory[*node].holder = index);
        if let Some(cpu) = part.cpu {
            self.leaf.insert(cpu, index);
        }
        let TreeNodeDraft { level, cpu, kind, shape, .. } = part;
        let cpus = usize::from(cpu.is_some());
        self.parts.push(TreeNode { level, parent, children: Vec::new(), memory, cpu, kind, shape, cpus });
        for child in part.children {
            let child = self.flatten(child, Some(index));
            self.parts[index].children.push(child);
            self.parts[index].cpus += self.parts[child].cpus;
        }
        index
    }
}

struct Build<'a> {
    core_index: &'a CoreIndex<'a>,
    measured: &'a [CpuSet],
    interner: Interner,
    nodes: &'a Nodes,
}

impl Build<'_> {
    /// Returns the part of an object; `None` if the process may not use anything in it.
    fn draft(&mut self, object: &Object) -> Option<TreeNodeDraft> {
        let topology = self.core_index.topology;
        let cpu = if object.kind == ObjectKind::Pu { object.os_index.map(CpuId) } else { None };
        if cpu.is_some_and(|cpu| !topology.allowed_cpus.contains(cpu)) {
            return None;
        }
        let position = |index: &usize| self.nodes.ids.iter().position(|id| *id == topology.nodes[*index].os);
        let memory: Vec<usize> = object.memory.iter().filter_map(position).collect();
        let children: Vec<TreeNodeDraft> =
            object.children.iter().filter_map(|child| self.draft(&topology.objects[*child])).collect();
        if cpu.is_none() && children.is_empty() && memory.is_empty() {
            return None;
        }
        let kind = cpu.and_then(|cpu| self.core_index.core_of(cpu)).map_or(0, |core| core.kind);
        let labels = cpu.map_or_else(|| label(object), |cpu| vec![kind as u32, self.cpu_label(cpu)]);
        let level = match object.kind {
            ObjectKind::Pu => TreeLevel::Cpu,
            ObjectKind::Core => TreeLevel::Core,
            _ => TreeLevel::Region,
        };
        let kind = kind.min(KINDS_MAX - 1);
        Some(merged(TreeNodeDraft { level, labels, children, memory, cpu, kind, shape: 0 }))
    }

    /// Returns the label of a CPU within its kind: measured classes, unranked kinds, and reported memory speeds.
    fn cpu_label(&mut self, cpu: CpuId) -> u32 {
        let topology = self.core_index.topology;
        let mut key: Vec<u32> = self.measured.iter().map(|class| u32::from(class.contains(cpu))).collect();
        if self.core_index.kinds.is_empty() {
            key.extend(topology.cpu_kinds.iter().map(|kind| u32::from(kind.cpus.contains(cpu))));
        }
        let from_here =
            |attribute: &&MemoryAttribute| attribute.initiator.as_ref().is_some_and(|from| from.contains(cpu));
        let levels = speed_levels(topology);
        let mut stated: Vec<[u32; 3]> = topology
            .memory_attributes
            .iter()
            .filter(from_here)
            .filter_map(|stated| {
                let node = self.nodes.ids.iter().position(|id| *id == stated.node)?;
                let (attribute, level) = levels.get(&(stated.attr.as_str(), stated.value))?;
                Some([*attribute, *level, self.nodes.classes[node]])
            })
            .collect();
        stated.sort_unstable();
        key.extend(stated.iter().flatten());
        self.interner.intern(&key)
    }
}

/// Merges a part with its only child.
fn merged(mut part: TreeNodeDraft) -> TreeNodeDraft {
    if part.children.len() != 1 {
        return part;
    }
    let mut child = part.children.remove(0);
    part.labels.append(&mut child.labels);
    part.memory.append(&mut child.memory);
    TreeNodeDraft { labels: part.labels, memory: part.memory, ..child }
}

/// Returns the label of an object. Caches of one level and different sizes differ.
fn label(object: &Object) -> Vec<u32> {
    let Cache { level, bytes, .. } =
        object.cache.unwrap_or(Cache { level: 0, bytes: crate::values::units::Bytes(0), line_bytes: 0 });
    vec![object.kind as u32, level, (bytes.0 >> 32) as u32, bytes.0 as u32]
}

/// Assigns shapes to a part and all parts below, and sorts children by shape.
pub(super) fn classify(part: &mut TreeNodeDraft, nodes: &Nodes, interner: &mut Interner) {
    part.children.iter_mut().for_each(|child| classify(child, nodes, interner));
    part.children.sort_by_key(|child| child.shape);
    let mut memory: Vec<u32> = part.memory.iter().map(|node| nodes.classes[*node]).collect();
    memory.sort_unstable();
    let mut key = vec![part.level as u32, part.labels.len() as u32, memory.len() as u32];
    key.extend(&part.labels);
    key.extend(memory);
    key.extend(part.children.iter().map(|child| child.shape));
    part.shape = interner.intern(&key);
}

/// Number of objects around and including the one to which a node is attached. It distinguishes memory of an outer
/// object that is merged with its only child.
fn depth(topology: &Topology, node: NodeId) -> u32 {
    let has_node =
        |object: &usize| topology.objects[*object].memory.iter().any(|index| topology.nodes[*index].os == node);
    let holder = (0..topology.objects.len()).find(has_node);
    std::iter::successors(holder, |object| topology.objects[*object].parent).count() as u32
}

/// Returns the memory nodes, distinguished by depth, tier, size, and speeds that are reported for no CPU in particular.
fn nodes(core_index: &CoreIndex, interner: &mut Interner) -> Nodes {
    let topology = core_index.topology;
    let usable: Vec<&MemoryNode> = core_index.memory_nodes().iter().filter_map(|node| topology.node(*node)).collect();
    let sizes = quantise(usable.iter().map(|node| node.bytes.0).collect());
    let levels = speed_levels(topology);
    let class = |node: &&MemoryNode| {
        let mut key = vec![
            depth(topology, node.os),
            sizes.get(&node.bytes.0).copied().unwrap_or(0),
            node.subtype.as_ref().map_or(0, |name| name.len() as u32),
        ];
        key.extend(node.subtype.iter().flat_map(|name| name.bytes().map(u32::from)));
        let mut stated: Vec<[u32; 2]> = topology
            .memory_attributes
            .iter()
            .filter(|stated| stated.node == node.os && stated.initiator.is_none() && stated.attr != "Capacity")
            .filter_map(|stated| levels.get(&(stated.attr.as_str(), stated.value)))
            .map(|(attribute, level)| [*attribute, *level])
            .collect();
        stated.sort_unstable();
        key.extend(stated.iter().flatten());
        interner.intern(&key)
    };
    let tiers: Vec<u32> = usable.iter().map(class).collect();
    Nodes { ids: usable.iter().map(|node| node.os).collect(), classes: tiers.clone(), tiers }
}
