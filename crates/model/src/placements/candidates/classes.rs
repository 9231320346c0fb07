//! Classes of CPU sets of a tree: their number, without listing them, and the list if there are few.

use std::collections::BTreeMap;

use super::canonical::{Canonicalizer, Labels};
use super::count::{Count, Number, Polynomial, multisets, product, stretched, sum};
use super::distances::cycles;
use super::tree::{DistanceUnit, Symmetry, Tree, TreeLevel};
use crate::values::id_set::CpuId;

/// Numbers of classes, by number of CPUs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Classes<N> {
    pub cpu_sets: Polynomial<N>,
    /// Of CPU sets together with one marked memory node.
    pub with_node: Polynomial<N>,
}

/// Counts the classes of sets with up to `degree` CPUs.
pub(super) fn count(tree: &Tree, degree: usize) -> Classes<Count> {
    let fits = |counts: Polynomial<f64>| counts.into_iter().map(Number::counted).collect::<Option<Vec<Count>>>();
    let Classes { cpu_sets, with_node } = count_with::<f64>(tree, degree);
    match (fits(cpu_sets), fits(with_node)) {
        (Some(cpu_sets), Some(with_node)) => Classes { cpu_sets, with_node },
        _ => count_with::<Count>(tree, degree),
    }
}

fn count_with<N: Number>(tree: &Tree, degree: usize) -> Classes<N> {
    let mut known = BTreeMap::new();
    match &tree.symmetry {
        Symmetry::All => below(tree, 0, degree, &mut known),
        Symmetry::Listed { units, orders, .. } => listed(tree, units, orders, degree, &mut known),
    }
}

type Known<N> = BTreeMap<u32, Classes<N>>;

/// Counts the classes of one part from those of its children: equivalent children form a multiset.
fn below<N: Number>(tree: &Tree, part: usize, degree: usize, known: &mut Known<N>) -> Classes<N> {
    let here = &tree.parts[part];
    if let Some(classes) = known.get(&here.shape) {
        return classes.clone();
    }
    let mut cpu_sets = if here.level == TreeLevel::Cpu { vec![N::ONE; 2] } else { vec![N::ONE] };
    let mut with_node = vec![N::ZERO];
    for run in tree.equivalent_children(part) {
        let child = below(tree, run[0], degree, known);
        let sets = multisets(&child.cpu_sets, run.len(), degree);
        let (rest, all) = (&sets[run.len() - 1], &sets[run.len()]);
        let picked = product(&child.with_node, rest, degree);
        with_node = sum(&product(&with_node, all, degree), &product(&cpu_sets, &picked, degree));
        cpu_sets = product(&cpu_sets, all, degree);
    }
    let own = here.memory.chunk_by(|one, other| tree.memory[*one].class == tree.memory[*other].class).count();
    let with_own: Polynomial<N> = cpu_sets.iter().map(|count| count.times(N::from_size(own))).collect();
    let classes = Classes { with_node: sum(&with_node, &with_own), cpu_sets };
    known.insert(here.shape, classes.clone());
    classes
}

/// Returns the mean number of labellings that a permutation of units leaves unchanged (Burnside's lemma). A cycle
/// leaves a labelling unchanged if it is equal in all of its units; the marked node must be in a fixed unit.
fn listed<N: Number>(
    tree: &Tree,
    units: &[DistanceUnit],
    orders: &[Vec<usize>],
    degree: usize,
    known: &mut Known<N>,
) -> Classes<N> {
    let classes: Vec<Classes<N>> = units
        .iter()
        .map(|unit| match unit {
            DistanceUnit::Part(part) => below(tree, *part, degree, known),
            DistanceUnit::Memory(_) => Classes { cpu_sets: vec![N::ONE], with_node: vec![N::ONE] },
            DistanceUnit::Cpu(_) => Classes { cpu_sets: vec![N::ONE; 2], with_node: vec![N::ZERO] },
        })
        .collect();
    let first_equal = |unit: &Classes<N>| classes.iter().position(|other| other == unit).unwrap_or(0) as u32;
    let unit_classes: Vec<u32> = classes.iter().map(first_equal).collect();
    let mut total = Classes { cpu_sets: Vec::new(), with_node: Vec::new() };
    for (cycles, times) in cycles(orders, &unit_classes) {
        let mut cpu_sets = vec![N::ONE];
        let mut with_node = vec![N::ZERO];
        for (unit, length) in cycles {
            let unit = &classes[unit as usize];
            let same = stretched(&unit.cpu_sets, length, degree);
            with_node = product(&with_node, &same, degree);
            if length == 1 {
                with_node = sum(&with_node, &product(&cpu_sets, &unit.with_node, degree));
            }
            cpu_sets = product(&cpu_sets, &same, degree);
        }
        let scaled = |counts: Polynomial<N>| -> Polynomial<N> {
            counts.iter().map(|count| count.times(N::from_size(times))).collect()
        };
        total.cpu_sets = sum(&total.cpu_sets, &scaled(cpu_sets));
        total.with_node = sum(&total.with_node, &scaled(with_node));
    }
    let mean = |counts: &Polynomial<N>| counts.iter().map(|count| count.over(orders.len())).collect();
    Classes { cpu_sets: mean(&total.cpu_sets), with_node: mean(&total.with_node) }
}

/// A CPU set as positions among the CPUs of a part.
type Positions = Vec<usize>;

/// Returns one CPU set of each class. Call it only if there are few classes.
pub(super) fn list(forms: &mut Canonicalizer, threads: usize) -> Vec<Vec<CpuId>> {
    let tree = forms.tree();
    let cpus = tree.cpus_below(0);
    let sets = ClassList { tree, known: BTreeMap::new() }.below(0, threads);
    let sets: Vec<Vec<CpuId>> = sets.iter().map(|set| set.iter().map(|position| cpus[*position]).collect()).collect();
    if forms.tree().symmetry.is_all() {
        return sets;
    }
    // The list ignores symmetries between units.
    let mut seen = std::collections::BTreeSet::new();
    sets.into_iter().filter(|cpus| seen.insert(forms.form(&Labels::for_cpus(cpus)))).collect()
}

struct ClassList<'a> {
    tree: &'a Tree,
    /// By part or shape, and number of CPUs.
    known: BTreeMap<(bool, u32, usize), Vec<Positions>>,
}

impl ClassList<'_> {
    fn below(&mut self, part: usize, threads: usize) -> Vec<Positions> {
        let here = &self.tree.parts[part];
        let split = self.tree.symmetry.is_split(part);
        let key = (split, if split { part as u32 } else { here.shape }, threads);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let sets = match (threads, here.level) {
            (0, _) => vec![Vec::new()],
            (1, TreeLevel::Cpu) => vec![vec![0]],
            (_, TreeLevel::Cpu) => Vec::new(),
            _ => {
                let runs: Vec<Vec<usize>> =
                    self.tree.equivalent_children(part).into_iter().map(<[usize]>::to_vec).collect();
                self.over(&runs, 0, threads)
            }
        };
        self.known.insert(key, sets.clone());
        sets
    }

    /// Distributes `threads` over runs of equivalent children. The CPUs of the first run begin at position `first`.
    fn over(&mut self, runs: &[Vec<usize>], first: usize, threads: usize) -> Vec<Positions> {
        let Some((run, rest)) = runs.split_first() else {
            return if threads == 0 { vec![Vec::new()] } else { Vec::new() };
        };
        let each = self.tree.parts[run[0]].cpus;
        let capacity: usize = rest.iter().map(|run| run.len() * self.tree.parts[run[0]].cpus).sum();
        let mut sets = Vec::new();
        for here in (threads.saturating_sub(capacity)..=threads.min(run.len() * each)).rev() {
            let others = self.over(rest, first + run.len() * each, threads - here);
            for shares in shares(here, run.len(), each) {
                let own = self.run(run[0], first, &shares);
                sets.extend(own.iter().flat_map(|own| others.iter().map(|other| [own.as_slice(), other].concat())));
            }
        }
        sets
    }

    /// Returns the sets of equivalent children with these shares, largest first. Equal shares form a multiset.
    fn run(&mut self, child: usize, first: usize, shares: &[usize]) -> Vec<Positions> {
        let each = self.tree.parts[child].cpus;
        let mut sets: Vec<Positions> = vec![Vec::new()];
        let mut begin = first;
        for equal in shares.chunk_by(|one, other| one == other) {
            let classes = self.below(child, equal[0]);
            let mut longer = Vec::new();
            for chosen in multisets_of(classes.len(), equal.len()) {
                let cpus: Positions = chosen
                    .iter()
                    .enumerate()
                    .flat_map(|(index, class)| classes[*class].iter().map(move |cpu| begin + index * each + cpu))
                    .collect();
                longer.extend(sets.iter().map(|set| [set.as_slice(), &cpus].concat()));
            }
            sets = longer;
            begin += equal.len() * each;
        }
        sets
    }
}

/// Divides `total` into `parts` shares of at most `each`, in descending order.
fn shares(total: usize, parts: usize, each: usize) -> Vec<Vec<usize>> {
    if parts == 0 {
        return if total == 0 { vec![Vec::new()] } else { Vec::new() };
    }
    let mut all = Vec::new();
    for largest in (total.div_ceil(parts)..=each.min(total)).rev() {
        for rest in shares(total - largest, parts - 1, largest) {
            all.push([vec![largest], rest].concat());
        }
    }
    all
}

/// Returns the multisets of `size` out of `classes`, as sorted lists.
fn multisets_of(classes: usize, size: usize) -> Vec<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..size {
        let longer = |set: &Vec<usize>| -> Vec<Vec<usize>> {
            let least = set.last().copied().unwrap_or(0);
            (least..classes).map(|class| [set.as_slice(), &[class]].concat()).collect()
        };
        sets = sets.iter().flat_map(longer).collect();
    }
    sets
}
