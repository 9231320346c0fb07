//! Canonical forms: two placements have the same form exactly when exchanging alike places of the machine turns one
//! into the other (tree isomorphism after Aho, Hopcroft and Ullman). Knows labels, not what they mean.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;

use super::distances::{DistanceUnit, Symmetry};
use super::tree::Tree;
use crate::values::id_set::{CpuId, NodeId};

/// Gives equal keys equal numbers. The hasher has fixed keys: nothing here is random.
#[derive(Default)]
pub(super) struct Interner {
    numbers: HashMap<Vec<u32>, u32, BuildHasherDefault<DefaultHasher>>,
}

impl Interner {
    pub fn intern(&mut self, key: &[u32]) -> u32 {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(key.to_vec(), number);
        number
    }
}

/// What a form is made of.
pub(super) type CanonicalForm = Vec<u32>;

/// Sets a labelled form apart from a shape in the interner; no shape begins with it.
const LABELLED: u32 = u32::MAX;

/// Labels (one bit each) on cpus and marks on memory nodes. What is not named has label 0.
#[derive(Default)]
pub(super) struct Labels {
    pub cpus: Vec<(CpuId, u32)>,
    pub nodes: Vec<NodeId>,
}

impl Labels {
    pub fn seats(seats: &[CpuId]) -> Self {
        Self { cpus: seats.iter().map(|cpu| (*cpu, 1)).collect(), nodes: Vec::new() }
    }
}

/// Makes forms for one tree.
pub(super) struct Canonicalizer<'a> {
    tree: &'a mut Tree,
    /// By place: the label of its cpu.
    label: Vec<u32>,
    /// By memory node: whether it is marked.
    marked: Vec<bool>,
    /// By place: whether a label or a mark is there or below.
    busy: Vec<bool>,
}

impl<'a> Canonicalizer<'a> {
    pub fn new(tree: &'a mut Tree) -> Self {
        let (places, nodes) = (tree.places.len(), tree.memory.len());
        Self { tree, label: vec![0; places], marked: vec![false; nodes], busy: vec![false; places] }
    }

    pub fn tree(&self) -> &Tree {
        self.tree
    }

    /// The form of these labels. Cpus that are not in the tree are left out.
    pub fn form(&mut self, labels: &Labels) -> CanonicalForm {
        for (cpu, label) in &labels.cpus {
            if let Some(place) = self.tree.leaf.get(cpu).copied() {
                self.label[place] |= label;
                self.touch(place);
            }
        }
        for node in 0..self.tree.memory.len() {
            if labels.nodes.contains(&self.tree.memory[node].node) {
                self.marked[node] = true;
                self.touch(self.tree.memory[node].holder);
            }
        }
        let form = self.whole();
        self.label.fill(0);
        self.marked.fill(false);
        self.busy.fill(false);
        form
    }

    fn touch(&mut self, place: usize) {
        let mut next = Some(place);
        while let Some(place) = next.filter(|place| !self.busy[*place]) {
            self.busy[place] = true;
            next = self.tree.places[place].parent;
        }
    }

    fn whole(&mut self) -> CanonicalForm {
        let exchange = std::mem::replace(&mut self.tree.exchange, Symmetry::All);
        let form = match &exchange {
            Symmetry::All => vec![self.place(0)],
            Symmetry::Listed { units, orders, .. } => {
                let forms: Vec<u32> = units.iter().map(|unit| self.unit(*unit)).collect();
                let orders = orders.iter().map(|order| order.iter().map(|unit| forms[*unit]).collect());
                orders.min().unwrap_or_default()
            }
        };
        self.tree.exchange = exchange;
        form
    }

    fn unit(&mut self, unit: DistanceUnit) -> u32 {
        match unit {
            DistanceUnit::Place(place) => self.place(place),
            DistanceUnit::Cpu(place) => self.label[place],
            DistanceUnit::Memory(node) => u32::from(self.marked[node]),
        }
    }

    /// A subtree without labels is its shape.
    fn place(&mut self, index: usize) -> u32 {
        let place = &self.tree.places[index];
        if !self.busy[index] {
            return place.shape;
        }
        let mut key = vec![LABELLED, place.shape, self.label[index]];
        let memory = &self.tree.memory;
        key.extend(place.memory.iter().map(|node| memory[*node].class * 2 + u32::from(self.marked[*node])));
        let first_child = key.len();
        key[3..first_child].sort_unstable();
        for child in 0..place.children.len() {
            let child = self.tree.places[index].children[child];
            let form = self.place(child);
            key.push(form);
        }
        key[first_child..].sort_unstable();
        self.tree.interner.intern(&key)
    }
}
