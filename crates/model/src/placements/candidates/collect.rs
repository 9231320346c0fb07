//! Collects sets of cpus, one of each class, and gives each the memory policies that are worth a trial. Prefers the
//! set that a named policy would take.

use std::collections::{BTreeMap, BTreeSet};

use super::canonical::{CanonicalForm, Canonicalizer, Labels};
use super::explain::{CandidateCounts, Counted};
use super::family::{Family, Granularity};
use super::memory::{Choice, MemoryChoice, choices};
use super::tree::Tree;
use super::{Draft, ResolvedSearchSpace, SearchSpace, Threads, classes};
use crate::placements::placement::cores::CoreIndex;
use crate::placements::placement::policy::{SEAT_NAMES, named};
use crate::placements::placement::{MemoryPolicy, Placement, PlacementError, check, parse};
use crate::values::id_set::{CpuId, CpuSet};

/// Why a command is not placed beyond DRAM: there are no arrays in it that we could put there.
const NOT_A_COMMANDS: &str =
    "it is for arrays of our own workloads; hint: nearfar expand runs a command on more memory than DRAM";

/// So few classes of seats: take all of them.
const ALL_CLASSES_MAX: f64 = 48.0;
/// Machines whose exchanges had to be listed make lists this long before they shrink to classes.
const LIST_MAX: f64 = 20_000.0;

/// Machines with more cpus try only powers of two between the sizes of their places: the first stage has all numbers
/// of threads, and should stay in the hundreds.
const FINE_LADDER_MAX: usize = 128;

pub(super) struct CandidateSet<'a> {
    pub ground: &'a CoreIndex<'a>,
    pub limits: &'a ResolvedSearchSpace,
    pub wish: &'a SearchSpace,
    pub forms: Canonicalizer<'a>,
    /// The first has no seats: the kernel chooses.
    pub shapes: Vec<ThreadShape>,
    seen: BTreeMap<(usize, CanonicalForm), usize>,
    /// Seats that a named policy takes.
    preferred: BTreeMap<(usize, CanonicalForm), Vec<CpuId>>,
    usable: usize,
    /// By shape, for the first shapes.
    choices: Vec<Vec<Choice>>,
}

/// Threads and the cpus that they may use.
#[derive(Clone)]
pub(super) struct ThreadShape {
    pub threads: usize,
    /// In logical order, each cpu once; empty when the kernel chooses.
    pub seats: Vec<CpuId>,
    pub first_stage: bool,
}

impl<'a> CandidateSet<'a> {
    pub fn new(
        ground: &'a CoreIndex<'a>,
        limits: &'a ResolvedSearchSpace,
        wish: &'a SearchSpace,
        tree: &'a mut Tree,
        reference: usize,
    ) -> Self {
        let usable = tree.places[0].cpus;
        let unbound = ThreadShape { threads: reference, seats: Vec::new(), first_stage: true };
        let seen = BTreeMap::from([((reference, CanonicalForm::new()), 0)]);
        let (forms, preferred) = (Canonicalizer::new(tree), BTreeMap::new());
        Self { ground, limits, wish, forms, shapes: vec![unbound], seen, preferred, usable, choices: Vec::new() }
    }

    /// Every candidate that the limits allow.
    pub fn all(&mut self, counted: &Counted) -> (Vec<Draft>, CandidateCounts) {
        let mut tally = CandidateCounts::default();
        match self.wish.threads {
            Threads::Unspecified => {
                self.prefer(None);
                let (few, all) = {
                    let mut family = Family::new(self.forms.tree());
                    (family.of_any_size(Granularity::Ends), family.of_any_size(Granularity::Doubling))
                };
                self.add_sets(few, None, true);
                self.add_sets(all, None, false);
                (tally.family, tally.first_stage) = self.with_memory(0);
                let known = self.shapes.len();
                let places = Family::new(self.forms.tree()).places();
                self.add_sets(places, None, true);
                tally.places = self.shapes.len() - known;
                self.add_policies();
                tally.policies = self.shapes.len() - known - tally.places;
            }
            Threads::Fixed(threads) => self.fixed(threads, counted, &mut tally),
            Threads::Searched => {
                for threads in self.ladder() {
                    self.free(threads, counted);
                }
                (tally.family, tally.first_stage) = self.with_memory(0);
            }
        }
        let drafts = self.drafts();
        tally.excluded = drafts.1;
        (drafts.0, tally)
    }

    /// One set of cpus for `threads`, and larger sets for them to move in.
    fn fixed(&mut self, threads: usize, counted: &Counted, tally: &mut CandidateCounts) {
        self.prefer(Some(threads));
        if threads == self.usable && !self.limits.narrowed {
            // All cpus are no binding at all, and that shape is there from the start.
            (tally.family, tally.first_stage) = self.with_memory(0);
        } else {
            self.family(threads, counted);
            (tally.family, tally.first_stage) = self.with_memory(1);
        }
        let known = self.shapes.len();
        let places = Family::new(self.forms.tree()).places();
        let roomy = |cpus: &Vec<CpuId>| cpus.len() > threads || threads > self.usable.min(self.limits.cpus_max);
        let places = places.into_iter().filter(roomy).collect();
        self.add_sets(places, Some(threads), true);
        tally.places = self.shapes.len() - known;
        self.add_policies();
        tally.policies = self.shapes.len() - known - tally.places;
    }

    fn free(&mut self, threads: usize, counted: &Counted) {
        self.prefer(Some(threads));
        self.unbound(threads);
        self.family(threads, counted);
    }

    /// The regular sets for a number of threads; all classes where they are few.
    fn family(&mut self, threads: usize, counted: &Counted) {
        let few = Family::new(self.forms.tree()).of_threads(threads, Granularity::Ends);
        self.add_sets(few, Some(threads), true);
        let listable =
            counted.seats_of(threads).as_f64() <= ALL_CLASSES_MAX && counted.listed(threads).as_f64() <= LIST_MAX;
        let more = if listable && threads <= self.usable {
            classes::list(&mut self.forms, threads)
        } else {
            Family::new(self.forms.tree()).of_threads(threads, Granularity::Doubling)
        };
        self.add_sets(more, Some(threads), false);
    }

    /// 1, 2, 3, 4, 6, 8, 12, 16 .. and the sizes of cores, caches, nodes, packages.
    fn ladder(&self) -> Vec<usize> {
        let most = self.usable.min(self.limits.cpus_max);
        let doubled = (0..usize::BITS - 2).flat_map(|power| [1 << power, 3 << power]);
        let is_step = |threads: &usize| threads.is_power_of_two() || self.usable <= FINE_LADDER_MAX;
        let mut ladder: Vec<usize> = doubled.take_while(|threads| *threads <= most * 2).filter(is_step).collect();
        ladder.extend(Family::new(self.forms.tree()).sizes());
        ladder.extend([self.ground.cores.len(), most]);
        ladder.retain(|threads| *threads <= most);
        ladder.sort_unstable();
        ladder.dedup();
        ladder
    }

    /// Notes which seats named policies take, so that their classes get their names.
    pub fn prefer(&mut self, threads: Option<usize>) {
        for name in SEAT_NAMES.iter().filter(|name| !matches!(**name, "kernel" | "node:N")) {
            let Ok(placement) = named(self.ground, name, threads, self.wish.kernel) else { continue };
            if placement.cpus().len() == placement.seats.len() {
                let key = (placement.threads, self.forms.form(&Labels::seats(&placement.seats)));
                self.preferred.entry(key).or_insert(placement.seats);
            }
        }
    }

    /// Adds what named policies take and no family has.
    pub fn add_policies(&mut self) {
        for ((threads, _), seats) in self.preferred.clone() {
            self.add(threads, seats, false);
        }
    }

    pub fn add_sets(&mut self, sets: Vec<Vec<CpuId>>, threads: Option<usize>, first_stage: bool) {
        for cpus in sets {
            self.add(threads.unwrap_or(cpus.len()), cpus, first_stage);
        }
    }

    /// Adds a set of cpus unless it is there in another guise; its number, where the limits allow it.
    pub fn add(&mut self, threads: usize, cpus: Vec<CpuId>, first_stage: bool) -> Option<usize> {
        if cpus.is_empty() || cpus.len() > self.limits.cpus_max {
            return None;
        }
        if cpus.len() == self.usable && !self.limits.narrowed {
            // The kernel chooses among all cpus anyway.
            let threads = if self.wish.threads == Threads::Unspecified { self.shapes[0].threads } else { threads };
            return self.unbound(threads);
        }
        let key = (threads, self.forms.form(&Labels::seats(&cpus)));
        if let Some(known) = self.seen.get(&key) {
            self.shapes[*known].first_stage |= first_stage;
            return Some(*known);
        }
        let mut seats = self.preferred.get(&key).filter(|seats| seats.len() == cpus.len()).cloned().unwrap_or(cpus);
        self.ground.sort(&mut seats);
        self.seen.insert(key, self.shapes.len());
        self.shapes.push(ThreadShape { threads, seats, first_stage });
        Some(self.shapes.len() - 1)
    }

    /// The kernel chooses the cpus of so many threads.
    fn unbound(&mut self, threads: usize) -> Option<usize> {
        if self.is_limited() && threads != self.shapes[0].threads {
            return None;
        }
        let shape = *self.seen.entry((threads, CanonicalForm::new())).or_insert(self.shapes.len());
        if shape == self.shapes.len() {
            self.shapes.push(ThreadShape { threads, seats: Vec::new(), first_stage: true });
        }
        Some(shape)
    }

    /// Whether a placement without seats would use cpus that it may not.
    pub fn is_limited(&self) -> bool {
        self.limits.narrowed || self.limits.cpus_max < self.usable
    }

    /// The memory policies for a shape, alike ones once: seats on two nodes may have two nearest others.
    fn choices(&mut self, shape: usize) -> &[Choice] {
        while self.choices.len() <= shape {
            let seats = &self.shapes[self.choices.len()].seats;
            let mut choices = choices(self.ground, self.forms.tree(), seats, self.wish.kernel);
            let mut seen = BTreeSet::new();
            choices.retain(|(_, memory, _)| {
                let MemoryPolicy::Bind(nodes) = memory else { return true };
                seen.insert(self.forms.form(&Labels { nodes: nodes.iter().collect(), ..Labels::seats(seats) }))
            });
            self.choices.push(choices);
        }
        &self.choices[shape]
    }

    /// How many placements the shapes from here on make, and how many of them in the first stage.
    fn with_memory(&mut self, from: usize) -> (usize, usize) {
        let mut total = (0, 0);
        for shape in from..self.shapes.len() {
            let first_stage = self.shapes[shape].first_stage;
            let choices = self.choices(shape);
            total.0 += choices.len();
            total.1 += choices.iter().filter(|(_, _, first)| *first && first_stage).count();
        }
        total
    }

    /// Every shape with every memory policy, as far as the limits allow; and how many they do not.
    fn drafts(&mut self) -> (Vec<Draft>, usize) {
        let barred = self.excluded_shapes();
        let mut drafts = Vec::new();
        let mut excluded = 0;
        for index in 0..self.shapes.len() {
            let choices = self.choices(index).to_vec();
            let shape = &self.shapes[index];
            for (choice, memory, first) in choices {
                if shape.seats.is_empty() && self.is_limited() {
                    continue;
                }
                let unwanted = self.limits.memory_excluded.iter().any(|policy| policy.covers(choice));
                if barred.contains(&index) || unwanted {
                    excluded += 1;
                    continue;
                }
                drafts.push(self.draft(index, shape, choice, memory, first && shape.first_stage));
            }
        }
        (drafts, excluded)
    }

    pub fn draft(
        &self,
        index: usize,
        shape: &ThreadShape,
        choice: MemoryChoice,
        memory: MemoryPolicy,
        first_stage: bool,
    ) -> Draft {
        let fewest = if self.wish.threads == Threads::Unspecified { 0 } else { shape.threads };
        let seats = shape.seats.iter().copied().cycle().take(fewest.max(shape.seats.len())).collect();
        let seats = if shape.seats.is_empty() { Vec::new() } else { seats };
        let (second, second_words) = (CpuSet::default(), String::new());
        Draft { threads: shape.threads, seats, memory, choice, second, second_words, shape: index, first_stage }
    }

    /// The shapes that excluded policies take, or others alike.
    pub fn excluded_shapes(&mut self) -> BTreeSet<usize> {
        let mut barred = BTreeSet::new();
        let mut threads: Vec<Option<usize>> = self.shapes.iter().map(|shape| Some(shape.threads)).collect();
        threads.sort_unstable();
        threads.dedup();
        if self.wish.threads == Threads::Unspecified {
            threads.push(None);
        }
        for name in self.limits.seats_excluded.clone() {
            for threads in &threads {
                let Ok(placement) = named(self.ground, &name, *threads, self.wish.kernel) else { continue };
                let key = (placement.threads, self.forms.form(&Labels::seats(&placement.seats)));
                barred.extend(self.seen.get(&key));
            }
        }
        barred
    }

    /// What the named policies make, and nothing else.
    pub fn only(&mut self) -> Result<(Vec<Draft>, CandidateCounts), String> {
        let threads: Vec<Option<usize>> = match self.wish.threads {
            Threads::Unspecified => vec![None],
            Threads::Fixed(threads) => vec![Some(threads)],
            Threads::Searched => self.ladder().into_iter().map(Some).collect(),
        };
        let mut drafts: Vec<Draft> = Vec::new();
        let mut tally = CandidateCounts::default();
        let mut lacking: Vec<String> = Vec::new();
        for name in self.wish.only.iter().map(|name| name.trim()) {
            check(name).map_err(|why| format!("--only: {why}"))?;
            let mut why_none = None;
            for threads in &threads {
                match parse(&self.limits.topology, name, *threads, self.wish.kernel) {
                    Ok(placement) if placement.memory.is_beyond_dram() => why_none = Some(NOT_A_COMMANDS.into()),
                    Ok(placement) => drafts.extend(self.named_draft(placement, &drafts)),
                    Err(PlacementError::Mistake(why)) => return Err(format!("--only: {why}")),
                    Err(PlacementError::Unavailable(why)) => why_none = Some(why),
                }
            }
            lacking.extend(why_none.map(|why| format!("{name}: {why}")));
        }
        if drafts.is_empty() && self.wish.only.iter().any(|name| name.trim() != "kernel") {
            return Err(format!("--only leaves nothing but the kernel's choice: {}", lacking.join("; ")));
        }
        tally.lacking = lacking;
        Ok((drafts, tally))
    }

    /// A named policy's placement as a candidate; none where the limits forbid it or it is there already.
    fn named_draft(&mut self, placement: Placement, drafts: &[Draft]) -> Option<Draft> {
        let cpus = placement.cpus();
        let too_many = cpus.len() > self.limits.cpus_max || (cpus.is_empty() && self.is_limited());
        let there = |draft: &Draft| {
            draft.threads == placement.threads && draft.seats == placement.seats && draft.memory == placement.memory
        };
        if too_many || drafts.iter().any(there) {
            return None;
        }
        let shape = if cpus.is_empty() {
            self.unbound(placement.threads)?
        } else {
            self.add(placement.threads, cpus.iter().collect(), true)?
        };
        let choice = if placement.memory == MemoryPolicy::Kernel { MemoryChoice::Kernel } else { MemoryChoice::Named };
        let (second, second_words) = (CpuSet::default(), String::new());
        let Placement { threads, seats, memory, .. } = placement;
        Some(Draft { threads, seats, memory, choice, second, second_words, shape, first_stage: true })
    }
}
