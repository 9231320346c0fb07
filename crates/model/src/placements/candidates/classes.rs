//! The classes of seats of a tree: how many there are, without listing them, and the list where they are few.

use std::collections::BTreeMap;

use super::canonical::{Canonicalizer, Labels};
use super::count::{Count, Number, Polynomial, multisets, product, stretched, sum};
use super::distances::{DistanceUnit, Symmetry, cycles};
use super::tree::{Tree, TreeLevel};
use crate::values::id_set::CpuId;

/// Classes by number of threads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Classes<N> {
    pub seats: Polynomial<N>,
    /// Of seats with one memory node picked out.
    pub with_node: Polynomial<N>,
}

/// Counts the classes with up to `degree` threads.
pub(super) fn count(tree: &Tree, degree: usize) -> Classes<Count> {
    let fits = |counts: Polynomial<f64>| counts.into_iter().map(Number::counted).collect::<Option<Vec<Count>>>();
    let Classes { seats, with_node } = count_with::<f64>(tree, degree);
    match (fits(seats), fits(with_node)) {
        (Some(seats), Some(with_node)) => Classes { seats, with_node },
        _ => count_with::<Count>(tree, degree),
    }
}

fn count_with<N: Number>(tree: &Tree, degree: usize) -> Classes<N> {
    let mut known = BTreeMap::new();
    match &tree.exchange {
        Symmetry::All => below(tree, 0, degree, &mut known),
        Symmetry::Listed { units, orders, .. } => listed(tree, units, orders, degree, &mut known),
    }
}

type Known<N> = BTreeMap<u32, Classes<N>>;

/// Classes of one place, from those of its children: alike children are a multiset.
fn below<N: Number>(tree: &Tree, place: usize, degree: usize, known: &mut Known<N>) -> Classes<N> {
    let here = &tree.places[place];
    if let Some(classes) = known.get(&here.shape) {
        return classes.clone();
    }
    let mut seats = if here.level == TreeLevel::Cpu { vec![N::ONE; 2] } else { vec![N::ONE] };
    let mut with_node = vec![N::ZERO];
    for alike in tree.alike(place) {
        let child = below(tree, alike[0], degree, known);
        let sets = multisets(&child.seats, alike.len(), degree);
        let (rest, all) = (&sets[alike.len() - 1], &sets[alike.len()]);
        let picked = product(&child.with_node, rest, degree);
        with_node = sum(&product(&with_node, all, degree), &product(&seats, &picked, degree));
        seats = product(&seats, all, degree);
    }
    let own = here.memory.chunk_by(|one, other| tree.memory[*one].class == tree.memory[*other].class).count();
    let with_own: Polynomial<N> = seats.iter().map(|count| count.times(N::from_size(own))).collect();
    let classes = Classes { with_node: sum(&with_node, &with_own), seats };
    known.insert(here.shape, classes.clone());
    classes
}

/// The mean number of labellings that an exchange of units leaves alone (Burnside). A cycle of units leaves alone what
/// is the same in all of them, and the node that is picked out must be in a unit that stays.
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
            DistanceUnit::Place(place) => below(tree, *place, degree, known),
            DistanceUnit::Memory(_) => Classes { seats: vec![N::ONE], with_node: vec![N::ONE] },
            DistanceUnit::Cpu(_) => Classes { seats: vec![N::ONE; 2], with_node: vec![N::ZERO] },
        })
        .collect();
    let first_alike = |unit: &Classes<N>| classes.iter().position(|other| other == unit).unwrap_or(0) as u32;
    let alike: Vec<u32> = classes.iter().map(first_alike).collect();
    let mut total = Classes { seats: Vec::new(), with_node: Vec::new() };
    for (cycles, times) in cycles(orders, &alike) {
        let mut seats = vec![N::ONE];
        let mut with_node = vec![N::ZERO];
        for (unit, length) in cycles {
            let unit = &classes[unit as usize];
            let same = stretched(&unit.seats, length, degree);
            with_node = product(&with_node, &same, degree);
            if length == 1 {
                with_node = sum(&with_node, &product(&seats, &unit.with_node, degree));
            }
            seats = product(&seats, &same, degree);
        }
        let often = |counts: Polynomial<N>| -> Polynomial<N> {
            counts.iter().map(|count| count.times(N::from_size(times))).collect()
        };
        total.seats = sum(&total.seats, &often(seats));
        total.with_node = sum(&total.with_node, &often(with_node));
    }
    let mean = |counts: &Polynomial<N>| counts.iter().map(|count| count.over(orders.len())).collect();
    Classes { seats: mean(&total.seats), with_node: mean(&total.with_node) }
}

/// Seats by position among the cpus of a place.
type Positions = Vec<usize>;

/// One set of seats of each class. Call it only where the classes are few.
pub(super) fn list(forms: &mut Canonicalizer, threads: usize) -> Vec<Vec<CpuId>> {
    let tree = forms.tree();
    let cpus = tree.cpus_below(0);
    let sets = ClassList { tree, known: BTreeMap::new() }.of(0, threads);
    let sets: Vec<Vec<CpuId>> = sets.iter().map(|set| set.iter().map(|position| cpus[*position]).collect()).collect();
    if forms.tree().exchange.is_all() {
        return sets;
    }
    // Exchanges of units are not in the list's rules.
    let mut seen = std::collections::BTreeSet::new();
    sets.into_iter().filter(|seats| seen.insert(forms.form(&Labels::seats(seats)))).collect()
}

struct ClassList<'a> {
    tree: &'a Tree,
    /// By place or shape, and threads.
    known: BTreeMap<(bool, u32, usize), Vec<Positions>>,
}

impl ClassList<'_> {
    fn of(&mut self, place: usize, threads: usize) -> Vec<Positions> {
        let here = &self.tree.places[place];
        let split = self.tree.exchange.is_split(place);
        let key = (split, if split { place as u32 } else { here.shape }, threads);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let sets = match (threads, here.level) {
            (0, _) => vec![Vec::new()],
            (1, TreeLevel::Cpu) => vec![vec![0]],
            (_, TreeLevel::Cpu) => Vec::new(),
            _ => {
                let runs: Vec<Vec<usize>> = self.tree.alike(place).into_iter().map(<[usize]>::to_vec).collect();
                self.over(&runs, 0, threads)
            }
        };
        self.known.insert(key, sets.clone());
        sets
    }

    /// `threads` over runs of alike children, of which the first one's cpus begin at `first`.
    fn over(&mut self, runs: &[Vec<usize>], first: usize, threads: usize) -> Vec<Positions> {
        let Some((run, rest)) = runs.split_first() else {
            return if threads == 0 { vec![Vec::new()] } else { Vec::new() };
        };
        let each = self.tree.places[run[0]].cpus;
        let room: usize = rest.iter().map(|run| run.len() * self.tree.places[run[0]].cpus).sum();
        let mut sets = Vec::new();
        for here in (threads.saturating_sub(room)..=threads.min(run.len() * each)).rev() {
            let elsewhere = self.over(rest, first + run.len() * each, threads - here);
            for shares in shares(here, run.len(), each) {
                let own = self.run(run[0], first, &shares);
                sets.extend(own.iter().flat_map(|own| elsewhere.iter().map(|other| [own.as_slice(), other].concat())));
            }
        }
        sets
    }

    /// Alike children with these shares, largest first: a multiset of classes for equal shares.
    fn run(&mut self, child: usize, first: usize, shares: &[usize]) -> Vec<Positions> {
        let each = self.tree.places[child].cpus;
        let mut sets: Vec<Positions> = vec![Vec::new()];
        let mut begin = first;
        for equal in shares.chunk_by(|one, other| one == other) {
            let classes = self.of(child, equal[0]);
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

/// `total` as so many shares of at most `each`, none larger than the one before.
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

/// Multisets of `size` out of `classes`, as sorted lists.
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
