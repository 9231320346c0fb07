//! Collects one set of CPUs of each class and combines it with the memory policies that are worth a trial. If a named
//! policy uses a set of a class, that set represents the class.

use std::collections::{BTreeMap, BTreeSet};

use super::canonical::{CanonicalForm, Canonicalizer, Labels};
use super::explain::{CandidateCounts, ClassCounts};
use super::family::{Family, Granularity};
use super::memory::{Choice, choices};
use super::tree::Tree;
use super::{Draft, ResolvedSearchSpace, SearchSpace, Threads, classes};
use crate::placements::placement::cores::CoreIndex;
use crate::placements::placement::policy::{named, raced_policies};
use crate::placements::placement::{PlacementError, check, parse};
use crate::values::id_set::{CpuId, CpuSet};
use crate::values::placement::{MemoryPolicy, Placement};
use crate::values::plan::MemoryChoice;

/// Why a command is never placed beyond DRAM: only built-in workloads can put their arrays there.
const FAR_UNSUPPORTED: &str =
    "only built-in workloads with arrays support it; hint: nearfar expand runs a command with more memory than DRAM";

/// Maximum number of classes of CPU sets of which all are used.
const ALL_CLASSES_MAX: f64 = 48.0;
/// Maximum length of a list before equivalent sets are merged, for machines whose symmetries are listed.
const LIST_MAX: f64 = 20_000.0;

/// On machines with more CPUs, numbers of threads between the sizes of parts are only powers of two: the first stage
/// has every number of threads, and should have at most hundreds of candidates.
const FINE_LADDER_MAX: usize = 128;

pub(super) struct CandidateSet<'a> {
    pub core_index: &'a CoreIndex<'a>,
    pub limits: &'a ResolvedSearchSpace,
    pub space: &'a SearchSpace,
    pub forms: Canonicalizer<'a>,
    /// The first has no bindings: the kernel chooses.
    pub shapes: Vec<ThreadShape>,
    seen: BTreeMap<(usize, CanonicalForm), usize>,
    /// CPUs of named policies.
    preferred: BTreeMap<(usize, CanonicalForm), Vec<CpuId>>,
    usable: usize,
    /// Memory choices of the first shapes, by index of the shape.
    choices: Vec<Vec<Choice>>,
}

/// A number of threads, and the CPUs that they may use.
#[derive(Clone)]
pub(super) struct ThreadShape {
    pub threads: usize,
    /// In logical order, each CPU once. Empty if the kernel chooses.
    pub bindings: Vec<CpuId>,
    pub first_stage: bool,
}

impl<'a> CandidateSet<'a> {
    pub fn new(
        core_index: &'a CoreIndex<'a>,
        limits: &'a ResolvedSearchSpace,
        space: &'a SearchSpace,
        tree: &'a mut Tree,
        baseline_threads: usize,
    ) -> Self {
        let usable = tree.parts[0].cpus;
        let unbound = ThreadShape { threads: baseline_threads, bindings: Vec::new(), first_stage: true };
        let seen = BTreeMap::from([((baseline_threads, CanonicalForm::new()), 0)]);
        let (forms, preferred) = (Canonicalizer::new(tree), BTreeMap::new());
        Self { core_index, limits, space, forms, shapes: vec![unbound], seen, preferred, usable, choices: Vec::new() }
    }

    /// Returns all candidates that the limits allow.
    pub fn all(&mut self, counted: &ClassCounts) -> (Vec<Draft>, CandidateCounts) {
        let mut counts = CandidateCounts::default();
        match self.space.threads {
            Threads::Unspecified => {
                self.prefer(None);
                let (ends, doubled) = {
                    let mut family = Family::new(self.forms.tree());
                    (family.of_any_size(Granularity::Ends), family.of_any_size(Granularity::Doubling))
                };
                self.add_sets(ends, None, true);
                self.add_sets(doubled, None, false);
                (counts.family, counts.first_stage) = self.with_memory(0);
                let known = self.shapes.len();
                let whole_parts = Family::new(self.forms.tree()).whole_parts();
                self.add_sets(whole_parts, None, true);
                counts.whole_parts = self.shapes.len() - known;
                self.add_policies();
                counts.policies = self.shapes.len() - known - counts.whole_parts;
            }
            Threads::Fixed(threads) => self.fixed(threads, counted, &mut counts),
            Threads::Searched => {
                for threads in self.ladder() {
                    self.free(threads, counted);
                }
                (counts.family, counts.first_stage) = self.with_memory(0);
            }
        }
        let drafts = self.drafts();
        counts.excluded = drafts.1;
        (drafts.0, counts)
    }

    /// Adds sets of `threads` CPUs, and larger sets in which the threads may move.
    fn fixed(&mut self, threads: usize, counted: &ClassCounts, counts: &mut CandidateCounts) {
        self.prefer(Some(threads));
        if threads == self.usable && !self.limits.narrowed {
            // Using all CPUs equals no binding, and that shape always exists.
            (counts.family, counts.first_stage) = self.with_memory(0);
        } else {
            self.family(threads, counted);
            (counts.family, counts.first_stage) = self.with_memory(1);
        }
        let known = self.shapes.len();
        let whole_parts = Family::new(self.forms.tree()).whole_parts();
        let is_larger = |cpus: &Vec<CpuId>| cpus.len() > threads || threads > self.usable.min(self.limits.cpus_max);
        let whole_parts = whole_parts.into_iter().filter(is_larger).collect();
        self.add_sets(whole_parts, Some(threads), true);
        counts.whole_parts = self.shapes.len() - known;
        self.add_policies();
        counts.policies = self.shapes.len() - known - counts.whole_parts;
    }

    fn free(&mut self, threads: usize, counted: &ClassCounts) {
        self.prefer(Some(threads));
        self.unbound(threads);
        self.family(threads, counted);
    }

    /// Adds the regular sets for a number of threads, or one set of every class if there are few.
    fn family(&mut self, threads: usize, counted: &ClassCounts) {
        let ends = Family::new(self.forms.tree()).of_threads(threads, Granularity::Ends);
        self.add_sets(ends, Some(threads), true);
        let listable =
            counted.classes_of(threads).as_f64() <= ALL_CLASSES_MAX && counted.listed(threads).as_f64() <= LIST_MAX;
        let more = if listable && threads <= self.usable {
            classes::list(&mut self.forms, threads)
        } else {
            Family::new(self.forms.tree()).of_threads(threads, Granularity::Doubling)
        };
        self.add_sets(more, Some(threads), false);
    }

    /// Returns the numbers of threads to try: 1, 2, 3, 4, 6, 8, 12, 16 .. and sizes of cores, caches, nodes, packages.
    fn ladder(&self) -> Vec<usize> {
        let most = self.usable.min(self.limits.cpus_max);
        let doubled = (0..usize::BITS - 2).flat_map(|power| [1 << power, 3 << power]);
        let is_step = |threads: &usize| threads.is_power_of_two() || self.usable <= FINE_LADDER_MAX;
        let mut ladder: Vec<usize> = doubled.take_while(|threads| *threads <= most * 2).filter(is_step).collect();
        ladder.extend(Family::new(self.forms.tree()).sizes());
        ladder.extend([self.core_index.cores.len(), most]);
        ladder.retain(|threads| *threads <= most);
        ladder.sort_unstable();
        ladder.dedup();
        ladder
    }

    /// Records the CPUs of named policies, so that their classes get the names of policies.
    pub fn prefer(&mut self, threads: Option<usize>) {
        for policy in raced_policies() {
            let Ok(placement) = named(self.core_index, policy.name, threads, self.space.kernel) else { continue };
            if placement.cpus().len() == placement.bindings.len() {
                let key = (placement.threads, self.forms.form(&Labels::for_cpus(&placement.bindings)));
                self.preferred.entry(key).or_insert(placement.bindings);
            }
        }
    }

    /// Adds the sets of named policies that are in no family.
    pub fn add_policies(&mut self) {
        for ((threads, _), bindings) in self.preferred.clone() {
            self.add(threads, bindings, false);
        }
    }

    pub fn add_sets(&mut self, sets: Vec<Vec<CpuId>>, threads: Option<usize>, first_stage: bool) {
        for cpus in sets {
            self.add(threads.unwrap_or(cpus.len()), cpus, first_stage);
        }
    }

    /// Adds a set of CPUs unless an equivalent set exists. Returns its shape's index; `None` if a limit forbids it.
    pub fn add(&mut self, threads: usize, cpus: Vec<CpuId>, first_stage: bool) -> Option<usize> {
        if cpus.is_empty() || cpus.len() > self.limits.cpus_max {
            return None;
        }
        if cpus.len() == self.usable && !self.limits.narrowed {
            // Without binding, the kernel also chooses among all CPUs.
            let threads = if self.space.threads == Threads::Unspecified { self.shapes[0].threads } else { threads };
            return self.unbound(threads);
        }
        let key = (threads, self.forms.form(&Labels::for_cpus(&cpus)));
        if let Some(known) = self.seen.get(&key) {
            self.shapes[*known].first_stage |= first_stage;
            return Some(*known);
        }
        let mut bindings =
            self.preferred.get(&key).filter(|bindings| bindings.len() == cpus.len()).cloned().unwrap_or(cpus);
        self.core_index.sort(&mut bindings);
        self.seen.insert(key, self.shapes.len());
        self.shapes.push(ThreadShape { threads, bindings, first_stage });
        Some(self.shapes.len() - 1)
    }

    /// Adds the shape with this number of threads and without binding.
    fn unbound(&mut self, threads: usize) -> Option<usize> {
        if self.is_limited() && threads != self.shapes[0].threads {
            return None;
        }
        let shape = *self.seen.entry((threads, CanonicalForm::new())).or_insert(self.shapes.len());
        if shape == self.shapes.len() {
            self.shapes.push(ThreadShape { threads, bindings: Vec::new(), first_stage: true });
        }
        Some(shape)
    }

    /// Whether a placement without bindings would use CPUs that the limits forbid.
    pub fn is_limited(&self) -> bool {
        self.limits.narrowed || self.limits.cpus_max < self.usable
    }

    /// Returns the memory policies for a shape, without equivalent ones: CPUs of two nodes may have two nearest others.
    fn choices(&mut self, shape: usize) -> &[Choice] {
        while self.choices.len() <= shape {
            let bindings = &self.shapes[self.choices.len()].bindings;
            let mut choices = choices(self.core_index, self.forms.tree(), bindings, self.space.kernel);
            let mut seen = BTreeSet::new();
            choices.retain(|(_, memory, _)| {
                let MemoryPolicy::Bind(nodes) = memory else { return true };
                seen.insert(self.forms.form(&Labels { nodes: nodes.iter().collect(), ..Labels::for_cpus(bindings) }))
            });
            self.choices.push(choices);
        }
        &self.choices[shape]
    }

    /// Returns the number of placements of the shapes from an index on, and how many of them are in the first stage.
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

    /// Combines every shape with every memory policy. Returns the allowed drafts and the number of excluded ones.
    fn drafts(&mut self) -> (Vec<Draft>, usize) {
        let excluded_shapes = self.excluded_shapes();
        let mut drafts = Vec::new();
        let mut excluded = 0;
        for index in 0..self.shapes.len() {
            let choices = self.choices(index).to_vec();
            let shape = &self.shapes[index];
            for (choice, memory, first) in choices {
                if shape.bindings.is_empty() && self.is_limited() {
                    continue;
                }
                if excluded_shapes.contains(&index) || self.limits.excludes(choice) {
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
        let threads_min = if self.space.threads == Threads::Unspecified { 0 } else { shape.threads };
        let bindings = shape.bindings.iter().copied().cycle().take(threads_min.max(shape.bindings.len())).collect();
        let bindings = if shape.bindings.is_empty() { Vec::new() } else { bindings };
        let (second, second_reason) = (CpuSet::default(), String::new());
        Draft { threads: shape.threads, bindings, memory, choice, second, second_reason, shape: index, first_stage }
    }

    /// Returns the shapes of excluded policies, and equivalent ones.
    pub fn excluded_shapes(&mut self) -> BTreeSet<usize> {
        let mut excluded = BTreeSet::new();
        let mut threads: Vec<Option<usize>> = self.shapes.iter().map(|shape| Some(shape.threads)).collect();
        threads.sort_unstable();
        threads.dedup();
        if self.space.threads == Threads::Unspecified {
            threads.push(None);
        }
        for name in self.limits.cpus_excluded.clone() {
            for threads in &threads {
                let Ok(placement) = named(self.core_index, &name, *threads, self.space.kernel) else { continue };
                let key = (placement.threads, self.forms.form(&Labels::for_cpus(&placement.bindings)));
                excluded.extend(self.seen.get(&key));
            }
        }
        excluded
    }

    /// Returns only the placements of the policies that the user named.
    pub fn only(&mut self) -> Result<(Vec<Draft>, CandidateCounts), String> {
        let threads: Vec<Option<usize>> = match self.space.threads {
            Threads::Unspecified => vec![None],
            Threads::Fixed(threads) => vec![Some(threads)],
            Threads::Searched => self.ladder().into_iter().map(Some).collect(),
        };
        let mut drafts: Vec<Draft> = Vec::new();
        let mut counts = CandidateCounts::default();
        let mut unavailable: Vec<String> = Vec::new();
        for name in self.space.only.iter().map(|name| name.trim()) {
            check(name).map_err(|error| format!("--only: {error}"))?;
            let mut unavailable_reason = None;
            for threads in &threads {
                match parse(&self.limits.topology, name, *threads, self.space.kernel) {
                    Ok(placement) if placement.memory.is_beyond_dram() => {
                        unavailable_reason = Some(FAR_UNSUPPORTED.into());
                    }
                    Ok(placement) => drafts.extend(self.named_draft(placement, &drafts)),
                    Err(PlacementError::Invalid(error)) => return Err(format!("--only: {error}")),
                    Err(PlacementError::Unavailable(reason)) => unavailable_reason = Some(reason),
                }
            }
            unavailable.extend(unavailable_reason.map(|reason| format!("{name}: {reason}")));
        }
        if drafts.is_empty() && self.space.only.iter().any(|name| name.trim() != "kernel") {
            return Err(format!("--only leaves no placement except kernel: {}", unavailable.join("; ")));
        }
        counts.unavailable = unavailable;
        Ok((drafts, counts))
    }

    /// Converts the placement of a policy; `None` if a limit forbids it or it already exists.
    fn named_draft(&mut self, placement: Placement, drafts: &[Draft]) -> Option<Draft> {
        let cpus = placement.cpus();
        let is_forbidden = cpus.len() > self.limits.cpus_max || (cpus.is_empty() && self.is_limited());
        let exists = |draft: &Draft| {
            draft.threads == placement.threads
                && draft.bindings == placement.bindings
                && draft.memory == placement.memory
        };
        if is_forbidden || drafts.iter().any(exists) {
            return None;
        }
        let shape = if cpus.is_empty() {
            self.unbound(placement.threads)?
        } else {
            self.add(placement.threads, cpus.iter().collect(), true)?
        };
        let choice = if placement.memory == MemoryPolicy::Kernel { MemoryChoice::Kernel } else { MemoryChoice::Named };
        let (second, second_reason) = (CpuSet::default(), String::new());
        let Placement { threads, bindings, memory, .. } = placement;
        Some(Draft { threads, bindings, memory, choice, second, second_reason, shape, first_stage: true })
    }
}
