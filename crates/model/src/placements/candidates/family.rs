//! Regular sets of cpus: so many children at each level of the tree, one or all hardware threads of a core, kinds of
//! cores alone or together. A few dozen that stand for classes which are too many to list.

use std::collections::BTreeMap;

use super::tree::{Tree, TreeLevel};
use crate::values::id_set::CpuId;

/// More combinations than this are thinned to "one or all" at each level.
const COMBINATIONS_MAX: usize = 1024;

/// How finely levels are divided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Granularity {
    /// One child or all.
    Ends,
    /// 1, 2, 4 .. all.
    Doubling,
}

/// The regular sets of a tree.
pub(super) struct Family<'a> {
    tree: &'a Tree,
    /// How many children a place has at most, by number of branchings above it.
    levels: Vec<Branching>,
    /// Kinds of cores as bit sets: each alone, then all.
    kinds: Vec<u32>,
    /// Hardware threads of the largest core.
    smt: usize,
    /// Cpus below a shape, of these kinds, with so many hardware threads of a core.
    room: BTreeMap<(u32, u32, usize), usize>,
}

#[derive(Clone, Copy)]
struct Branching {
    children: usize,
    /// Whether the children are cores and nothing else.
    into_cores: bool,
}

/// Which cpus of a core may be used.
#[derive(Clone, Copy)]
struct Rule<'a> {
    kinds: u32,
    /// Hardware threads of a core.
    each: usize,
    /// Children to use at each level.
    use_of: &'a [usize],
}

impl<'a> Family<'a> {
    pub fn new(tree: &'a Tree) -> Self {
        let mut kinds: Vec<u32> = tree.leaf.values().map(|place| 1 << tree.places[*place].kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.len() > 1 {
            kinds.push(kinds.iter().sum());
        }
        let cores = tree.places.iter().filter(|place| place.level == TreeLevel::Core);
        let smt = cores.map(|core| core.cpus).max().unwrap_or(1);
        let mut levels = Vec::new();
        branchings(tree, 0, 0, &mut levels);
        Self { tree, levels, kinds, smt, room: BTreeMap::new() }
    }

    /// Sets of exactly so many cpus. The same set may come more than once.
    pub fn of_threads(&mut self, threads: usize, steps: Granularity) -> Vec<Vec<CpuId>> {
        // Threads fill cores one each, or siblings first: how many cores follows from the number of threads.
        let uses = self.uses(steps, |level| level.into_cores);
        let mut sets = Vec::new();
        for kinds in self.kinds.clone() {
            for each in self.each() {
                if self.room(0, kinds, each) < threads {
                    continue;
                }
                for use_of in &uses {
                    let rule = Rule { kinds, each, use_of };
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

    /// Sets of any size: a command with threads of its own may use them as it likes.
    pub fn of_any_size(&mut self, steps: Granularity) -> Vec<Vec<CpuId>> {
        let uses = self.uses(steps, |_| false);
        let mut sets = Vec::new();
        for kinds in self.kinds.clone() {
            for each in self.each() {
                sets.extend(uses.iter().map(|use_of| self.select(0, Rule { kinds, each, use_of }, 0)));
            }
        }
        sets
    }

    /// Whole places: one of each level, half of the machine, each kind of cores.
    pub fn places(&mut self) -> Vec<Vec<CpuId>> {
        let all: Vec<usize> = self.levels.iter().map(|level| level.children).collect();
        let mut sets = Vec::new();
        for kinds in self.kinds.clone() {
            let mut add = |use_of: &[usize], each| sets.push(self.select(0, Rule { kinds, each, use_of }, 0));
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

    /// The sizes of whole places, smallest first.
    pub fn sizes(&mut self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.places().iter().map(Vec::len).filter(|size| *size > 0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn each(&self) -> Vec<usize> {
        if self.smt > 1 { vec![1, self.smt] } else { vec![1] }
    }

    /// Every choice of how many children to use at each level; `fixed` levels have no choice.
    fn uses(&self, steps: Granularity, fixed: impl Fn(&Branching) -> bool) -> Vec<Vec<usize>> {
        let options = |steps: Granularity| -> Vec<Vec<usize>> {
            let option = |level: &Branching| if fixed(level) { vec![1] } else { level.options(steps) };
            self.levels.iter().map(option).collect()
        };
        let mut choices = options(steps);
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

    fn room(&mut self, place: usize, kinds: u32, each: usize) -> usize {
        let here = &self.tree.places[place];
        if here.level == TreeLevel::Cpu {
            return usize::from(kinds >> here.kind & 1 == 1);
        }
        let key = (here.shape, kinds, each);
        if let Some(room) = self.room.get(&key) {
            return *room;
        }
        let (is_core, children) = (here.level == TreeLevel::Core, here.children.clone());
        let all: usize = children.iter().map(|child| self.room(*child, kinds, each)).sum();
        let room = if is_core { all.min(each) } else { all };
        self.room.insert(key, room);
        room
    }

    /// Seats for `threads` below a place, as even as the room allows; none where they do not fit.
    fn fill(&mut self, place: usize, threads: usize, rule: Rule, depth: usize) -> Option<Vec<CpuId>> {
        let here = &self.tree.places[place];
        if threads == 0 {
            return Some(Vec::new());
        }
        if here.level != TreeLevel::Region {
            let cpus: Vec<CpuId> = self.cpus_of_core(place, rule.kinds).into_iter().take(threads).collect();
            return (cpus.len() == threads).then_some(cpus);
        }
        let children = here.children.clone();
        let rooms: Vec<usize> = children.iter().map(|child| self.room(*child, rule.kinds, rule.each)).collect();
        let into_cores = children.iter().all(|child| self.tree.places[*child].level != TreeLevel::Region);
        let shares = if into_cores && rule.each > 1 {
            first_filled(&rooms, threads)?
        } else {
            let usable = rooms.iter().filter(|room| **room > 0).count();
            let wanted = if into_cores { usable } else { rule.use_of.get(depth).or(rule.use_of.last()).copied()? };
            let wanted = wanted.min(threads).min(usable).max(1);
            (wanted..=children.len()).find_map(|parts| evenly(&rooms, threads, parts))?
        };
        let below = depth + usize::from(children.len() > 1);
        let mut cpus = Vec::with_capacity(threads);
        for (child, share) in children.iter().zip(shares) {
            cpus.extend(self.fill(*child, share, rule, below)?);
        }
        Some(cpus)
    }

    /// All cpus that a rule reaches below a place.
    fn select(&mut self, place: usize, rule: Rule, depth: usize) -> Vec<CpuId> {
        let here = &self.tree.places[place];
        if here.level != TreeLevel::Region {
            return self.cpus_of_core(place, rule.kinds).into_iter().take(rule.each).collect();
        }
        let mut children = here.children.clone();
        children.retain(|child| self.room(*child, rule.kinds, rule.each) > 0);
        children.sort_by_key(|child| usize::MAX - self.room(*child, rule.kinds, rule.each));
        let below = depth + usize::from(here.children.len() > 1);
        if here.children.len() > 1 {
            children.truncate(rule.use_of.get(depth).copied().unwrap_or(usize::MAX));
        }
        children.into_iter().flat_map(|child| self.select(child, rule, below)).collect()
    }

    fn cpus_of_core(&self, place: usize, kinds: u32) -> Vec<CpuId> {
        let of_kind = |place: &&usize| kinds >> self.tree.places[**place].kind & 1 == 1;
        let here = [place];
        let cpus =
            if self.tree.places[place].level == TreeLevel::Cpu { &here[..] } else { &self.tree.places[place].children };
        cpus.iter().filter(of_kind).filter_map(|place| self.tree.places[*place].cpu).collect()
    }

    /// Orders of cpus on machines with kinds of cores: fast cores, then slow ones, then siblings; the kinds in turn;
    /// fast cores with their siblings, then slow ones.
    fn by_kind(&self) -> Vec<Vec<CpuId>> {
        let Some((all, single)) = self.kinds.split_last().filter(|(_, single)| !single.is_empty()) else {
            return Vec::new();
        };
        let is_core = |place: &usize| self.tree.places[*place].level != TreeLevel::Region;
        let below_core = |place: &usize| self.tree.places[*place].parent.is_some_and(|parent| is_core(&parent));
        let cores: Vec<usize> =
            (0..self.tree.places.len()).filter(|place| is_core(place) && !below_core(place)).collect();
        let of_kind =
            |kinds: u32| cores.iter().map(move |core| self.cpus_of_core(*core, kinds)).filter(|cpus| !cpus.is_empty());
        let first: Vec<Vec<CpuId>> = single.iter().map(|kind| of_kind(*kind).map(|cpus| cpus[0]).collect()).collect();
        let siblings: Vec<CpuId> = of_kind(*all).flat_map(|cpus| cpus.into_iter().skip(1)).collect();
        let longest = first.iter().map(Vec::len).max().unwrap_or(0);
        let in_turn = (0..longest).flat_map(|index| first.iter().filter_map(move |kind| kind.get(index).copied()));
        let fast_full = of_kind(single[0]).flatten();
        vec![
            first.concat().into_iter().chain(siblings.iter().copied()).collect(),
            in_turn.chain(siblings.iter().copied()).collect(),
            fast_full.chain(first[1..].concat()).collect(),
        ]
    }
}

impl Branching {
    fn options(&self, steps: Granularity) -> Vec<usize> {
        let doubled = (0..usize::BITS).map(|power| 1 << power).take_while(|step| *step < self.children);
        match steps {
            Granularity::Ends => vec![1, self.children],
            Granularity::Doubling => doubled.chain([self.children]).collect(),
        }
    }
}

fn branchings(tree: &Tree, place: usize, depth: usize, levels: &mut Vec<Branching>) {
    let here = &tree.places[place];
    let regions = |child: &usize| tree.places[*child].cpus > 0;
    let children = here.children.iter().filter(|child| regions(child)).count();
    if here.level != TreeLevel::Region {
        return;
    }
    let below = depth + usize::from(here.children.len() > 1);
    if here.children.len() > 1 {
        let into_cores = here.children.iter().all(|child| tree.places[*child].level != TreeLevel::Region);
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

/// Shares that fill one after the other.
fn first_filled(rooms: &[usize], threads: usize) -> Option<Vec<usize>> {
    let mut left = threads;
    let shares = rooms
        .iter()
        .map(|room| {
            let share = left.min(*room);
            left -= share;
            share
        })
        .collect();
    (left == 0).then_some(shares)
}

/// Shares over the `parts` with most room, as even as the room allows.
fn evenly(rooms: &[usize], threads: usize, parts: usize) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..rooms.len()).collect();
    order.sort_by_key(|part| usize::MAX - rooms[*part]);
    order.truncate(parts);
    if threads < parts || order.iter().map(|part| rooms[*part]).sum::<usize>() < threads {
        return None;
    }
    let mut shares = vec![0; rooms.len()];
    let mut left = threads;
    while left > 0 {
        for part in &order {
            if left > 0 && shares[*part] < rooms[*part] {
                shares[*part] += 1;
                left -= 1;
            }
        }
    }
    Some(shares)
}
