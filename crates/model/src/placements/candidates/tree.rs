//! The machine as a tree of parts that contain CPUs and memory; parts of equal shape have equal numbers. Which equal
//! parts may be exchanged is decided in `distances`.

use std::collections::BTreeMap;

use super::canonical::Interner;
use super::distances::{self, Symmetry};
use super::quantise::quantise;
use crate::placements::placement::cores::CoreIndex;
use crate::values::id_set::{CpuId, CpuSet, NodeId};
use crate::values::topology::{Cache, MemoryAttribute, MemoryNode, Object, ObjectKind, Topology};

/// Maximum number of kinds of cores in a family, which stores one bit per kind. No known machine has more than five.
const KINDS_MAX: usize = 32;

/// Level of a part of the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TreeLevel {
    /// Anything that contains several cores: machine, group, package, die, cache.
    Region,
    /// A core with several usable CPUs.
    Core,
    /// A CPU, or a core with only one usable CPU.
    Cpu,
}

pub(super) struct TreeNode {
    pub level: TreeLevel,
    pub parent: Option<usize>,
    /// Sorted by shape, equal ones in logical order.
    pub children: Vec<usize>,
    /// Indices into [`Tree::memory`], sorted by class.
    pub memory: Vec<usize>,
    pub cpu: Option<CpuId>,
    /// For CPUs: index of the kind in `CoreIndex::kinds`, fastest first.
    pub kind: usize,
    /// Equal for parts with the same structure below them.
    pub shape: u32,
    /// Number of CPUs below.
    pub cpus: usize,
}

pub(super) struct UsableNode {
    pub node: NodeId,
    /// Index of the part to which the memory is attached.
    pub holder: usize,
    /// Equal for nodes of one size, tier and speed.
    pub tier: u32,
    /// Equal for nodes of one tier with equivalent distances to all others.
    pub class: u32,
}

/// The usable part of the machine.
pub(super) struct Tree {
    /// Parents before children; index 0 is the machine.
    pub parts: Vec<TreeNode>,
    pub memory: Vec<UsableNode>,
    /// Index in `parts` by CPU.
    pub leaf: BTreeMap<CpuId, usize>,
    pub interner: Interner,
    /// Which parts of equal shape may be exchanged.
    pub symmetry: Symmetry,
}

/// A part while the tree is built.
#[derive(Clone)]
pub(super) struct TreeNodeDraft {
    pub level: TreeLevel,
    /// Labels from the outside in: a part and its only child are merged and keep both labels.
    pub labels: Vec<u32>,
    pub children: Vec<TreeNodeDraft>,
    /// Indices in [`Nodes`].
    pub memory: Vec<usize>,
    pub cpu: Option<CpuId>,
    pub kind: usize,
    pub shape: u32,
}

/// The memory nodes while the tree is built.
pub(super) struct Nodes {
    pub ids: Vec<NodeId>,
    pub tiers: Vec<u32>,
    pub classes: Vec<u32>,
}

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

    /// Returns the CPUs below a part. Parts of equal shape return corresponding CPUs at equal positions.
    pub fn cpus_below(&self, part: usize) -> Vec<CpuId> {
        let TreeNode { cpu, children, .. } = &self.parts[part];
        cpu.iter().copied().chain(children.iter().flat_map(|child| self.cpus_below(*child))).collect()
    }

    /// Returns the memory below a part. Parts of equal shape return corresponding nodes at equal positions.
    pub fn memory_below(&self, part: usize) -> Vec<usize> {
        let TreeNode { memory, children, .. } = &self.parts[part];
        memory.iter().copied().chain(children.iter().flat_map(|child| self.memory_below(*child))).collect()
    }

    /// Returns the children of a part in runs that may be exchanged as far as the tree shows.
    pub fn equivalent_children(&self, part: usize) -> Vec<&[usize]> {
        let children = &self.parts[part].children;
        if self.symmetry.is_split(part) {
            return children.chunks(1).collect();
        }
        children.chunk_by(|one, other| self.parts[*one].shape == self.parts[*other].shape).collect()
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

/// Returns the memory of a part in the order of its shape.
pub(super) fn memory_in_order(part: &TreeNodeDraft, classes: &[u32]) -> Vec<usize> {
    let mut memory = part.memory.clone();
    memory.sort_by_key(|node| classes[*node]);
    memory.extend(part.children.iter().flat_map(|child| memory_in_order(child, classes)));
    memory
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

/// Returns attribute values as (attribute, level of value). With raw numbers, every CPU would differ from all others.
pub(super) fn speed_levels(topology: &Topology) -> BTreeMap<(&str, u64), (u32, u32)> {
    let mut values: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    topology.memory_attributes.iter().for_each(|stated| values.entry(&stated.attr).or_default().push(stated.value));
    let named = values.into_iter().enumerate();
    named
        .flat_map(|(attribute, (name, values))| {
            quantise(values).into_iter().map(move |(value, level)| ((name, value), (attribute as u32, level)))
        })
        .collect()
}
