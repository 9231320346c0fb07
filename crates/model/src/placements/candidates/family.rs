//! Regular sets of CPUs: a number of children at each level of the tree, one or all hardware threads per core, kinds of
//! cores alone or together. A few dozen sets represent classes that are too many to list.

use std::collections::BTreeMap;

use super::tree::{Tree, TreeLevel};
use crate::values::id_set::CpuId;

/// Maximum number of combinations. If there are more, each level uses one child or all.
const COMBINATIONS_MAX: usize = 1024;

/// Which numbers of children are used at each level.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Granularity {
    /// One child or all.
    Ends,
    /// 1, 2, 4 .. all.
    Doubling,
}

/// Generator of the regular sets of a tree.
pub(super) struct Family<'a> {
    tree: &'a Tree,
    /// Maximum number of children, by number of branchings above.
    levels: Vec<Branching>,
    /// Kinds of cores as bit sets: each alone, then all.
    kinds: Vec<u32>,
    /// Hardware threads of the largest core.
    smt: usize,
    /// Number of CPUs below a shape, by shape, kinds, and hardware threads per core.
    capacity: BTreeMap<(u32, u32, usize), usize>,
}

#[derive(Clone, Copy)]
struct Branching {
    children: usize,
    /// Whether all children are cores.
    into_cores: bool,
}

/// Which CPUs a set uses.
#[derive(Clone, Copy)]
struct Rule<'a> {
    kinds: u32,
    /// Hardware threads per core.
    each: usize,
    /// Number of children to use at each level.
    children: &'a [usize],
}

impl<'a> Family<'a> {
    pub fn new(tree: &'a Tree) -> Self {
        let mut kinds: Vec<u32> = tree.leaf.values().map(|part| 1 << tree.parts[*part].kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.len() > 1 {
            kinds.push(kinds.iter().sum());
        }
        let cores = tree.parts.iter().filter(|part| part.level == TreeLevel::Core);
        let smt = cores.map(|core| core.cpus).max().unwrap_or(1);
        let mut levels = Vec::new();
        branchings(tree, 0, 0, &mut levels);
        Self { tree, levels, kinds, smt, capacity: BTreeMap::new() }
    }

    /// Returns sets of exactly `threads` CPUs. A set may occur more than once.
    pub fn of_threads(&mut self, threads: usize, granularity: Granularity) -> Vec<Vec<CpuId>> {
        // The number of cores follows from the number of threads and `each`.
        let uses = self.uses(granularity, |level| level.into_cores);
        let mut sets = Vec::new();
        for kinds in self.kinds.clone() {
            for each in self.each() {
                if self.capacity(0, kinds, each) < threads {
                    continue;
                }
                for children in &uses {
                    let rule = Rule { kinds, each, children };
                    sets.extend(self.fill(0, threads, rule, 0).filter(|cpus| cpus.len() == threads));
                }
            }
        }
        sets.extend(self.by_kind().into_iter().filter(|order| order.len() >= threads).map(|mut order| {
            order.truncate(threads);
            order
        }));
        sets
    }

    /// Returns sets of any size, for commands that choose their number of threads.
    pub fn of_any_size(&mut self, granularity: Granularity) -> Vec<Vec<CpuId>> {
        let uses = self.uses(granularity, |_| false);
        let mut sets = Vec::new();
        for kinds in self.kinds.clone() {
            for each in self.each() {
                sets.extend(uses.iter().map(|children| self.select(0, Rule { kinds, each, children }, 0)));
            }
        }
        sets
    }

    /// Returns whole parts: one of each level, half of the machine, each kind of cores.
    pub fn whole_parts(&mut self) -> Vec<Vec<CpuId>> {
        let all: Vec<usize> = self.levels.iter().map(|level| level.children).collect();
        let mut sets = Vec::new();
        for kinds in self.kinds.clone() {
            let mut add = |children: &[usize], each| sets.push(self.select(0, Rule { kinds, each, children }, 0));
            for depth in 0..=all.len() {
                add(&[vec![1; depth], all[depth..].to_vec()].concat(), usize::MAX);
            }
            if all.first().is_some_and(|children| children % 2 == 0) {
                add(&[vec![all[0] / 2], all[1..].to_vec()].concat(), usize::MAX);
            }
            add(&vec![1; all.len()], 1);
            add(&all, 1);
        }
        sets
    }

    /// Returns the sizes of whole parts, smallest first.
    pub fn sizes(&mut self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.whole_parts().iter().map(Vec::len).filter(|size| *size > 0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn each(&self) -> Vec<usize> {
        if self.smt > 1 { vec![1, self.smt] } else { vec![1] }
    }

    /// Returns all combinations of numbers of children per level. Levels for which `fixed` is true use one child.
    fn uses(&self, granularity: Granularity, fixed: impl Fn(&Branching) -> bool) -> Vec<Vec<usize>> {
        let options = |granularity: Granularity| -> Vec<Vec<usize>> {
            let option = |level: &Branching| if fixed(level) { vec![1] } else { level.options(granularity) };
            self.levels.iter().map(option).collect()
        };
        let mut choices = options(granularity);
        if choices.iter().map(Vec::len).product::<usize>() > COMBINATIONS_MAX {
            choices = options(Granularity::Ends);
        }
        let mut uses: Vec<Vec<usize>> = vec![Vec::new()];
        for level in choices {
            if uses.len() * level.len() > COMBINATIONS_MAX {
                uses.iter_mut().for_each(|chosen| chosen.push(level[level.len() - 1]));
            } else {
                uses = level
                    .iter()
                    .flat_map(|children| uses.iter().map(|chosen| [chosen.as_slice(), &[*children]].concat()))
                    .collect();
            }
        }
        uses
    }

    fn capacity(&mut self, part: usize, kinds: u32, each: usize) -> usize {
        let here = &self.tree.parts[part];
        if here.level == TreeLevel::Cpu {
            return usize::from(kinds >> here.kind & 1 == 1);
        }
        let key = (here.shape, kinds, each);
        if let Some(capacity) = self.capacity.get(&key) {
            return *capacity;
        }
        let (is_core, children) = (here.level == TreeLevel::Core, here.children.clone());
        let all: usize = children.iter().map(|child| self.capacity(*child, kinds, each)).sum();
        let capacity = if is_core { all.min(each) } else { all };
        self.capacity.insert(key, capacity);
        capacity
    }

    /// Returns CPUs for `threads` below a part, as even as capacities allow; `None` if they do not fit.
    fn fill(&mut self, part: usize, threads: usize, rule: Rule, depth: usize) -> Option<Vec<CpuId>> {
        let here = &self.tree.parts[part];
        if threads == 0 {
            return Some(Vec::new());
        }
        if here.level != TreeLevel::Region {
            let cpus: Vec<CpuId> = self.cpus_of_core(part, rule.kinds).into_iter().take(threads).collect();
            return (cpus.len() == threads).then_some(cpus);
        }
        let children = here.children.clone();
        let capacities: Vec<usize> =
            children.iter().map(|child| self.capacity(*child, rule.kinds, rule.each)).collect();
        let into_cores = children.iter().all(|child| self.tree.parts[*child].level != TreeLevel::Region);
        let shares = if into_cores && rule.each > 1 {
            first_filled(&capacities, threads)?
        } else {
            let usable = capacities.iter().filter(|capacity| **capacity > 0).count();
            let count = if into_cores { usable } else { rule.children.get(depth).or(rule.children.last()).copied()? };
            let count = count.min(threads).min(usable).max(1);
            (count..=children.len()).find_map(|parts| evenly(&capacities, threads, parts))?
        };
        let below = depth + usize::from(children.len() > 1);
        let mut cpus = Vec::with_capacity(threads);
        for (child, share) in children.iter().zip(shares) {
            cpus.extend(self.fill(*child, share, rule, below)?);
        }
        Some(cpus)
    }

    /// Returns all CPUs below a part that a rule selects.
    fn select(&mut self, part: usize, rule: Rule, depth: usize) -> Vec<CpuId> {
        let here = &self.tree.parts[part];
        if here.level != TreeLevel::Region {
            return self.cpus_of_core(part, rule.kinds).into_iter().take(rule.each).collect();
        }
        let mut children = here.children.clone();
        children.retain(|child| self.capacity(*child, rule.kinds, rule.each) > 0);
        children.sort_by_key(|child| usize::MAX - self.capacity(*child, rule.kinds, rule.each));
        let below = depth + usize::from(here.children.len() > 1);
        if here.children.len() > 1 {
            children.truncate(rule.children.get(depth).copied().unwrap_or(usize::MAX));
        }
        children.into_iter().flat_map(|child| self.select(child, rule, below)).collect()
    }

    fn cpus_of_core(&self, part: usize, kinds: u32) -> Vec<CpuId> {
        let of_kind = |part: &&usize| kinds >> self.tree.parts[**part].kind & 1 == 1;
        let here = [part];
        let cpus =
            if self.tree.parts[part].level == TreeLevel::Cpu { &here[..] } else { &self.tree.parts[part].children };
        cpus.iter().filter(of_kind).filter_map(|part| self.tree.parts[*part].cpu).collect()
    }

    /// Orders of CPUs on machines with several kinds of cores: fast cores, then slow ones, then siblings; the kinds
    /// alternating; fast cores with their siblings, then slow ones.
    fn by_kind(&self) -> Vec<Vec<CpuId>> {
        let Some((all, single)) = self.kinds.split_last().filter(|(_, single)| !single.is_empty()) else {
            return Vec::new();
        };
        let is_core = |part: &usize| self.tree.parts[*part].level != TreeLevel::Region;
        let below_core = |part: &usize| self.tree.parts[*part].parent.is_some_and(|parent| is_core(&parent));
        let cores: Vec<usize> = (0..self.tree.parts.len()).filter(|part| is_core(part) && !below_core(part)).collect();
        let of_kind =
            |kinds: u32| cores.iter().map(move |core| self.cpus_of_core(*core, kinds)).filter(|cpus| !cpus.is_empty());
        let first: Vec<Vec<CpuId>> = single.iter().map(|kind| of_kind(*kind).map(|cpus| cpus[0]).collect()).collect();
        let siblings: Vec<CpuId> = of_kind(*all).flat_map(|cpus| cpus.into_iter().skip(1)).collect();
        let longest = first.iter().map(Vec::len).max().unwrap_or(0);
        let alternating = (0..longest).flat_map(|index| first.iter().filter_map(move |kind| kind.get(index).copied()));
        let fast_full = of_kind(single[0]).flatten();
        vec![
            first.concat().into_iter().chain(siblings.iter().copied()).collect(),
            alternating.chain(siblings.iter().copied()).collect(),
            fast_full.chain(first[1..].concat()).collect(),
        ]
    }
}

impl Branching {
    fn options(&self, granularity: Granularity) -> Vec<usize> {
        let doubled = (0..usize::BITS).map(|power| 1 << power).take_while(|step| *step < self.children);
        match granularity {
            Granularity::Ends => vec![1, self.children],
            Granularity::Doubling => doubled.chain([self.children]).collect(),
        }
    }
}

fn branchings(tree: &Tree, part: usize, depth: usize, levels: &mut Vec<Branching>) {
    let here = &tree.parts[part];
    let regions = |child: &usize| tree.parts[*child].cpus > 0;
    let children = here.children.iter().filter(|child| regions(child)).count();
    if here.level != TreeLevel::Region {
        return;
    }
    let below = depth + usize::from(here.children.len() > 1);
    if here.children.len() > 1 {
        let into_cores = here.children.iter().all(|child| tree.parts[*child].level != TreeLevel::Region);
        match levels.get_mut(depth) {
            Some(level) => {
                level.children = level.children.max(children);
                level.into_cores &= into_cores;
            }
            None => levels.push(Branching { children, into_cores }),
        }
    }
    here.children.iter().for_each(|child| branchings(tree, *child, below, levels));
}

/// Divides threads into shares that fill the parts one after the other; `None` if they do not fit.
fn first_filled(capacities: &[usize], threads: usize) -> Option<Vec<usize>> {
    let mut remaining = threads;
    let shares = capacities
        .iter()
        .map(|capacity| {
            let share = remaining.min(*capacity);
            remaining -= share;
            share
        })
        .collect();
    (remaining == 0).then_some(shares)
}

/// Divides threads over the largest `parts` as evenly as capacities allow; `None` if they do not fit.
fn evenly(capacities: &[usize], threads: usize, parts: usize) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..capacities.len()).collect();
    order.sort_by_key(|part| usize::MAX - capacities[*part]);
    order.truncate(parts);
    if threads < parts || order.iter().map(|part| capacities[*part]).sum::<usize>() < threads {
        return None;
    }
    let mut shares = vec![0; capacities.len()];
    let mut remaining = threads;
    while remaining > 0 {
        for part in &order {
            if remaining > 0 && shares[*part] < capacities[*part] {
                shares[*part] += 1;
                remaining -= 1;
            }
        }
    }
    Some(shares)
}
