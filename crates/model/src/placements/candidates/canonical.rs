//! Canonical forms: two placements have the same form exactly if exchanging equivalent parts of the machine turns one
//! into the other (tree isomorphism after Aho, Hopcroft and Ullman). Must not depend on the meaning of labels.

use super::tree::{DistanceUnit, Symmetry, Tree};
use crate::values::id_set::{CpuId, NodeId};

/// Canonical form; equal for equivalent labellings.
pub(super) type CanonicalForm = Vec<u32>;

/// Prefix that distinguishes a labelled form from a shape; no shape begins with it.
const LABELLED: u32 = u32::MAX;

/// Labels (one bit each) of CPUs, and marked memory nodes. CPUs that are not listed have label 0.
#[derive(Default)]
pub(super) struct Labels {
    pub cpus: Vec<(CpuId, u32)>,
    pub nodes: Vec<NodeId>,
}

impl Labels {
    pub fn for_cpus(cpus: &[CpuId]) -> Self {
        Self { cpus: cpus.iter().map(|cpu| (*cpu, 1)).collect(), nodes: Vec::new() }
    }
}

/// Computes canonical forms for one tree.
pub(super) struct Canonicalizer<'a> {
    tree: &'a mut Tree,
    /// Label of the CPU, by part.
    label: Vec<u32>,
    /// Whether a memory node is marked.
    marked: Vec<bool>,
    /// Whether a part or anything below it has a label or mark.
    touched: Vec<bool>,
}

impl<'a> Canonicalizer<'a> {
    pub fn new(tree: &'a mut Tree) -> Self {
        let (parts, nodes) = (tree.parts.len(), tree.memory.len());
        Self { tree, label: vec![0; parts], marked: vec![false; nodes], touched: vec![false; parts] }
    }

    pub fn tree(&self) -> &Tree {
        self.tree
    }

    /// Returns the form of these labels. CPUs that are not in the tree are ignored.
    pub fn form(&mut self, labels: &Labels) -> CanonicalForm {
        for (cpu, label) in &labels.cpus {
            if let Some(part) = self.tree.leaf.get(cpu).copied() {
                self.label[part] |= label;
                self.touch(part);
            }
        }
        for node in 0..self.tree.memory.len() {
            if labels.nodes.contains(&self.tree.memory[node].node) {
                self.marked[node] = true;
                self.touch(self.tree.memory[node].holder);
            }
        }
        let form = self.machine_form();
        self.label.fill(0);
        self.marked.fill(false);
        self.touched.fill(false);
        form
    }

    fn touch(&mut self, part: usize) {
        let mut next = Some(part);
        while let Some(part) = next.filter(|part| !self.touched[*part]) {
            self.touched[part] = true;
            next = self.tree.parts[part].parent;
        }
    }

    fn machine_form(&mut self) -> CanonicalForm {
        let symmetry = std::mem::replace(&mut self.tree.symmetry, Symmetry::All);
        let form = match &symmetry {
            Symmetry::All => vec![self.part_form(0)],
            Symmetry::Listed { units, orders, .. } => {
                let forms: Vec<u32> = units.iter().map(|unit| self.unit_form(*unit)).collect();
                let orders = orders.iter().map(|order| order.iter().map(|unit| forms[*unit]).collect());
                orders.min().unwrap_or_default()
            }
        };
        self.tree.symmetry = symmetry;
        form
    }

    fn unit_form(&mut self, unit: DistanceUnit) -> u32 {
        match unit {
            DistanceUnit::Part(part) => self.part_form(part),
            DistanceUnit::Cpu(part) => self.label[part],
            DistanceUnit::Memory(node) => u32::from(self.marked[node]),
        }
    }

    /// Returns the form of a subtree. Without labels it is the shape.
    fn part_form(&mut self, index: usize) -> u32 {
        let part = &self.tree.parts[index];
        if !self.touched[index] {
            return part.shape;
        }
        let mut key = vec![LABELLED, part.shape, self.label[index]];
        let memory = &self.tree.memory;
        key.extend(part.memory.iter().map(|node| memory[*node].class * 2 + u32::from(self.marked[*node])));
        let first_child = key.len();
        key[3..first_child].sort_unstable();
        for child in 0..part.children.len() {
            let child = self.tree.parts[index].children[child];
            let form = self.part_form(child);
            key.push(form);
        }
        key[first_child..].sort_unstable();
        self.tree.interner.intern(&key)
    }
}
