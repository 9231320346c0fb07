//! The machine as a tree of parts that contain CPUs and memory; parts of equal shape have equal numbers. Must not depend on
//! how the tree is built.

use std::collections::BTreeMap;

use super::interner::Interner;
use crate::values::id_set::{CpuId, NodeId};

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

/// Which parts of equal shape can be exchanged.
pub(super) enum Symmetry {
    All,
    /// Parts inside a unit, and units by the listed permutations.
    Listed {
        units: Vec<DistanceUnit>,
        /// Permutations: `order[i]` is the unit that replaces unit i. The first is the identity.
        orders: Vec<Vec<usize>>,
        /// Whether a part is above the units, by part.
        split: Vec<bool>,
        /// Whether there were too many permutations to list.
        too_many: bool,
    },
}

/// A part of the machine whose inner symmetries keep all distances. Units are disjoint and together the whole machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DistanceUnit {
    /// A part with everything below it.
    Part(usize),
    /// One memory node of a part that is not a unit.
    Memory(usize),
    /// The CPU of a part that is not a unit.
    Cpu(usize),
}

impl Symmetry {
    pub fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    /// Whether the children of this part cannot be exchanged freely.
    pub fn is_split(&self, part: usize) -> bool {
        matches!(self, Self::Listed { split, .. } if split[part])
    }
}

/// Returns the memory of a part in the order of its shape.
pub(super) fn memory_in_order(part: &TreeNodeDraft, classes: &[u32]) -> Vec<usize> {
    let mut memory = part.memory.clone();
    memory.sort_by_key(|node| classes[*node]);
    memory.extend(part.children.iter().flat_map(|child| memory_in_order(child, classes)));
    memory
}
