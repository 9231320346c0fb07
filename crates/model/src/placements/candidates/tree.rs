//! The machine as a tree of places that hold cpus and memory, where equal shapes are the same number. Which of equal
//! places may really be exchanged is `distances`' business.

use std::collections::BTreeMap;

use super::canonical::Interner;
use super::distances::{self, Symmetry};
use super::quantise::quantise;
use crate::placements::placement::cores::CoreIndex;
use crate::values::id_set::{CpuId, CpuSet, NodeId};
use crate::values::topology::{Cache, MemoryAttribute, MemoryNode, Object, ObjectKind, Topology};

/// Kinds of cores that a family tells apart, a bit for each; no machine has more than five.
const KINDS_MAX: usize = 32;

/// What kind of place a node of the tree is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TreeLevel {
    /// Anything that holds several cores: machine, group, package, die, cache.
    Region,
    /// A core with several usable cpus.
    Core,
    /// A cpu; also a core that has only one usable cpu.
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
    /// For cpus: the index of its kind in `CoreIndex::kinds`, fastest first.
    pub kind: usize,
    /// Equal for places that look the same from above.
    pub shape: u32,
    /// How many cpus are here.
    pub cpus: usize,
}

pub(super) struct UsableNode {
    pub node: NodeId,
    /// The place where it hangs.
    pub holder: usize,
    /// Equal for nodes of one size, tier and speed.
    pub tier: u32,
    /// Equal for nodes of one tier with alike distances to all others.
    pub class: u32,
}

/// The whole machine as far as it may be used.
pub(super) struct Tree {
    /// Parents before children; 0 is the machine.
    pub places: Vec<TreeNode>,
    pub memory: Vec<UsableNode>,
    /// The place of each cpu.
    pub leaf: BTreeMap<CpuId, usize>,
    pub interner: Interner,
    /// Which equal places may be exchanged.
    pub exchange: Symmetry,
}

/// A place while the tree is built.
#[derive(Clone)]
pub(super) struct TreeNodeDraft {
    pub level: TreeLevel,
    /// What this place is, from the outside in: an only child and its parent are one place with both labels.
    pub labels: Vec<u32>,
    pub children: Vec<TreeNodeDraft>,
    /// Indices into the list of memory nodes.
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
    /// None when this process may use no cpu. `measured` are classes of cpus that a measurement told apart.
    pub fn new(ground: &CoreIndex, measured: &[CpuSet]) -> Option<Self> {
        let mut interner = Interner::default();
        let mut nodes = nodes(ground, &mut interner);
        let relation = distances::relation(ground.topology, &nodes.ids, &mut interner);
        distances::refine(&mut nodes.classes, &relation, &mut interner);
        let mut build = Build { ground, measured, interner, nodes: &nodes };
        let mut root = build.part(ground.topology.objects.first()?)?;
        let hung: Vec<usize> = memory_in_order(&root, &nodes.classes);
        root.memory.extend((0..nodes.ids.len()).filter(|node| !hung.contains(node)));
        let mut interner = build.interner;
        classify(&mut root, &nodes, &mut interner);
        let mut grouped = root.clone();
        let mut tree = Self::planted(root, &nodes, &relation, interner);
        if !tree.exchange.is_all() && distances::group_by_distance(&mut grouped, &nodes, ground.topology) {
            classify(&mut grouped, &nodes, &mut tree.interner);
            tree = Self::planted(grouped, &nodes, &relation, tree.interner);
        }
        (tree.places[0].cpus > 0).then_some(tree)
    }

    fn planted(root: TreeNodeDraft, nodes: &Nodes, relation: &[Vec<u32>], interner: Interner) -> Self {
        let memory = nodes.ids.iter().zip(&nodes.tiers).zip(&nodes.classes);
        let memory = memory
            .map(|((node, tier), class)| UsableNode { node: *node, holder: 0, tier: *tier, class: *class })
            .collect();
        let (places, leaf, exchange) = (Vec::new(), BTreeMap::new(), Symmetry::All);
        let mut tree = Self { places, memory, leaf, interner, exchange };
        tree.flatten(root, None);
        tree.exchange = distances::exchange(&mut tree, relation);
        tree
    }

    fn flatten(&mut self, part: TreeNodeDraft, parent: Option<usize>) -> usize {
        let index = self.places.len();
        let mut memory = part.memory;
        memory.sort_by_key(|node| self.memory[*node].class);
        memory.iter().for_each(|node| self.memory[*node].holder = index);
        if let Some(cpu) = part.cpu {
            self.leaf.insert(cpu, index);
        }
        let TreeNodeDraft { level, cpu, kind, shape, .. } = part;
        let cpus = usize::from(cpu.is_some());
        self.places.push(TreeNode { level, parent, children: Vec::new(), memory, cpu, kind, shape, cpus });
        for child in part.children {
            let child = self.flatten(child, Some(index));
            self.places[index].children.push(child);
            self.places[index].cpus += self.places[child].cpus;
        }
        index
    }

    /// The cpus below a place; equal shapes list theirs so that the i-th corresponds to the i-th.
    pub fn cpus_below(&self, place: usize) -> Vec<CpuId> {
        let TreeNode { cpu, children, .. } = &self.places[place];
        cpu.iter().copied().chain(children.iter().flat_map(|child| self.cpus_below(*child))).collect()
    }

    /// The memory below a place; equal shapes list theirs so that the i-th corresponds to the i-th.
    pub fn memory_below(&self, place: usize) -> Vec<usize> {
        let TreeNode { memory, children, .. } = &self.places[place];
        memory.iter().copied().chain(children.iter().flat_map(|child| self.memory_below(*child))).collect()
    }

    /// The children of a place in runs that may be exchanged as far as the tree shows.
    pub fn alike(&self, place: usize) -> Vec<&[usize]> {
        let children = &self.places[place].children;
        if self.exchange.is_split(place) {
            return children.chunks(1).collect();
        }
        children.chunk_by(|one, other| self.places[*one].shape == self.places[*other].shape).collect()
    }
}

struct Build<'a> {
    ground: &'a CoreIndex<'a>,
    measured: &'a [CpuSet],
    interner: Interner,
    nodes: &'a Nodes,
}

impl Build<'_> {
    /// The place of an object; none where nothing of it may be used.
    fn part(&mut self, object: &Object) -> Option<TreeNodeDraft> {
        let topology = self.ground.topology;
        let cpu = if object.kind == ObjectKind::Pu { object.os_index.map(CpuId) } else { None };
        if cpu.is_some_and(|cpu| !topology.allowed_cpus.contains(cpu)) {
            return None;
        }
        let position = |index: &usize| self.nodes.ids.iter().position(|id| *id == topology.nodes[*index].os);
        let memory: Vec<usize> = object.memory.iter().filter_map(position).collect();
        let children: Vec<TreeNodeDraft> =
            object.children.iter().filter_map(|child| self.part(&topology.objects[*child])).collect();
        if cpu.is_none() && children.is_empty() && memory.is_empty() {
            return None;
        }
        let kind = cpu.and_then(|cpu| self.ground.core_of(cpu)).map_or(0, |core| core.kind);
        let labels = cpu.map_or_else(|| label(object), |cpu| vec![kind as u32, self.cpu_label(cpu)]);
        let level = match object.kind {
            ObjectKind::Pu => TreeLevel::Cpu,
            ObjectKind::Core => TreeLevel::Core,
            _ => TreeLevel::Region,
        };
        let kind = kind.min(KINDS_MAX - 1);
        Some(merged(TreeNodeDraft { level, labels, children, memory, cpu, kind, shape: 0 }))
    }

    /// What tells this cpu from others besides its kind: measured classes, kinds that nobody ranked, stated speeds.
    fn cpu_label(&mut self, cpu: CpuId) -> u32 {
        let topology = self.ground.topology;
        let mut key: Vec<u32> = self.measured.iter().map(|class| u32::from(class.contains(cpu))).collect();
        if self.ground.kinds.is_empty() {
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

/// An only child and its parent are one place.
fn merged(mut part: TreeNodeDraft) -> TreeNodeDraft {
    if part.children.len() != 1 {
        return part;
    }
    let mut child = part.children.remove(0);
    part.labels.append(&mut child.labels);
    part.memory.append(&mut child.memory);
    TreeNodeDraft { labels: part.labels, memory: part.memory, ..child }
}

/// Caches of one level and different sizes differ.
fn label(object: &Object) -> Vec<u32> {
    let Cache { level, bytes, .. } =
        object.cache.unwrap_or(Cache { level: 0, bytes: crate::values::units::Bytes(0), line_bytes: 0 });
    vec![object.kind as u32, level, (bytes.0 >> 32) as u32, bytes.0 as u32]
}

/// Gives every part its shape and sorts children by it.
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

/// The memory of a part in the order of its shape.
pub(super) fn memory_in_order(part: &TreeNodeDraft, classes: &[u32]) -> Vec<usize> {
    let mut memory = part.memory.clone();
    memory.sort_by_key(|node| classes[*node]);
    memory.extend(part.children.iter().flat_map(|child| memory_in_order(child, classes)));
    memory
}

/// How many objects are around the one where a node hangs: places with an only child become one, and memory of the
/// outer one may be no cpu's own.
fn depth(topology: &Topology, node: NodeId) -> u32 {
    let hangs_here =
        |object: &usize| topology.objects[*object].memory.iter().any(|index| topology.nodes[*index].os == node);
    let holder = (0..topology.objects.len()).find(hangs_here);
    std::iter::successors(holder, |object| topology.objects[*object].parent).count() as u32
}

/// The memory nodes with what tells them apart: where they hang, tier, size, speed of what is stated for no cpu in particular.
fn nodes(ground: &CoreIndex, interner: &mut Interner) -> Nodes {
    let topology = ground.topology;
    let usable: Vec<&MemoryNode> = ground.memory_nodes().iter().filter_map(|node| topology.node(*node)).collect();
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

/// Values of memory attributes as (attribute, level of value): raw numbers would make every cpu unlike any other.
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
