//! The part of a plan that makes it a race: rules, stages and the reduction to the candidates. What a race decides from
//! its trials is left to `analysis::place`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::search::SearchPlan;

/// Makes a plan a race: its cells are candidates, and the first is the baseline `kernel`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RacePlan {
    pub rules: RaceRules,
    /// Candidates of the first and of the second stage.
    pub stages: Stages,
    /// Number of all placements, in digits, because it may exceed any number type.
    pub raw_placements: String,
    /// Steps of the reduction from the raw placements to the candidates.
    pub steps: Vec<ReductionStep>,
    /// The search that precedes the race; `None` for a race of all candidates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchPlan>,
    /// Whether a second race of placements of the winner's files may follow, for which time is reserved. Not part of the
    /// key: it depends on the machine and the options that the key covers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub places_files: bool,
}

/// Options of a race. There is no default, because each of these changes the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RaceRules {
    /// Gains below this fraction of the metric are not worth finding: 0.01 is 1 %. See [`crate::stats::racing::INDIFFERENCE`].
    pub indifference: f64,
    /// Limit the family-wise error of all interim analyses to 5 % (as far as a t distribution holds), for nearly twice
    /// the trials.
    pub strict: bool,
    /// Budget of search and confirmation together, in trials; a share of it is reserved for confirmation.
    pub max_trials: Option<usize>,
}

impl RaceRules {
    /// Returns the text for the rules in a plan's key. Stored hashes depend on it, so it must not follow renames.
    pub(crate) fn key_text(&self) -> String {
        let Self { indifference, strict, max_trials } = self;
        let max_trials = max_trials.map_or_else(|| "none".into(), |max| max.to_string());
        format!("indifference: {indifference:?}, strict: {strict}, max trials: {max_trials}")
    }
}

/// One step of the reduction from the raw placements to the candidates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReductionStep {
    /// Number of placements after the step, in digits; `None` for notes.
    pub count: Option<String>,
    pub text: String,
}

/// The stages of a race. Each vector has one entry per candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// Whether the candidate is in the first stage. All are, unless there are more than `candidates::STAGED_ABOVE`.
    pub first: Vec<bool>,
    /// Equal for candidates with the same CPUs and number of threads. They differ in memory or in the second command's
    /// CPUs.
    pub shape: Vec<usize>,
    /// Memory policy in relation to the CPUs.
    pub policy: Vec<MemoryChoice>,
    /// Interrupt affinity: 0 if unchanged, otherwise the number of a rule.
    #[serde(default)]
    pub route: Vec<usize>,
    pub threads: Vec<usize>,
    /// Whether the number of threads is searched too.
    pub threads_searched: bool,
}

/// A memory policy in relation to the CPUs, so that different CPUs can be compared under one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryChoice {
    Kernel,
    /// Interleaved over all main memory.
    Interleave,
    /// Interleaved over the nodes of the CPUs.
    InterleaveUsed,
    /// Interleaved over all nodes, including those without CPUs.
    InterleaveTiers,
    /// Interleaved over all nodes by the kernel's weights.
    Weighted,
    /// On the node of the CPU that touches a page first, set explicitly.
    Local,
    /// Only on the node with most of the CPUs.
    Own,
    /// Only on the nearest other node of this tier and size; the numbers are specific to the machine.
    Other(u32),
    /// Only on the farthest node without any of the CPUs.
    Farthest,
    /// The memory of a policy that the user named.
    Named,
}

/// The version of the text that [`RacePlan::key_text`] returns. Increment it when the text must change on purpose:
/// unfinished races of the previous version then no longer resume.
const KEY_VERSION: u32 = 2;

impl RacePlan {
    /// Returns the text for the race in a plan's key. The steps are not part of it: they only explain.
    ///
    /// Stored hashes depend on this text, so it must not follow renames of types, fields or variants.
    pub(super) fn key_text(&self) -> String {
        let Self { rules, stages, raw_placements, steps: _, search, places_files: _ } = self;
        let (rules, stages) = (rules.key_text(), stages.key_text());
        let search = search.as_ref().map_or_else(String::new, |search| format!("\n{}", search.key_text()));
        format!("race {KEY_VERSION}\n{rules}\n{stages}\nraw placements: {raw_placements}{search}")
    }
}

impl Stages {
    /// Returns stages for `count` candidates that are all raced in one stage.
    pub fn at_once(count: usize) -> Self {
        Self {
            first: vec![true; count],
            shape: (0..count).collect(),
            policy: vec![MemoryChoice::Kernel; count],
            route: vec![0; count],
            threads: vec![1; count],
            threads_searched: false,
        }
    }

    pub(crate) fn push(&mut self, first: bool, shape: usize, (policy, route): (MemoryChoice, usize), threads: usize) {
        self.route.push(route);
        self.first.push(first);
        self.shape.push(shape);
        self.policy.push(policy);
        self.threads.push(threads);
    }

    /// Returns the text for the stages in a plan's key. Stored hashes depend on it, so it must not follow renames.
    fn key_text(&self) -> String {
        let Self { first, shape, policy, route, threads, threads_searched } = self;
        let policy: Vec<String> = policy.iter().map(|choice| choice.key_text()).collect();
        let vectors = format!("first: {first:?}, shape: {shape:?}, policy: [{}], route: {route:?}", policy.join(", "));
        format!("{vectors}, threads: {threads:?}, threads searched: {threads_searched}")
    }

    /// Whether the race has a second stage.
    pub fn are_two(&self) -> bool {
        self.first.iter().any(|first| !first)
    }

    /// Returns the candidates of the second stage after `winner` won the first: its CPUs with every memory policy and
    /// interrupt affinity, and all CPUs with the winner's policy and affinity (or, for CPU sets without this
    /// combination, with the kernel's policy and unchanged interrupts). If the number of threads is searched, only with
    /// the winner's number, the next smaller and the next larger. Sorted; always includes the baseline and the winner.
    pub fn second(&self, winner: usize) -> Vec<usize> {
        let near = self.near_threads(self.threads[winner]);
        // Plans stored before interrupts could be placed have no routes.
        let combination = |index: usize| (self.policy[index], self.route.get(index).copied().unwrap_or_default());
        let has_combination = |shape: usize| {
            (0..self.shape.len()).any(|other| self.shape[other] == shape && combination(other) == combination(winner))
        };
        let is_second = |index: &usize| {
            let plain = combination(*index) == (MemoryChoice::Kernel, 0);
            let same_combination =
                combination(*index) == combination(winner) || (plain && !has_combination(self.shape[*index]));
            let same_shape = self.shape[*index] == self.shape[winner];
            let near = !self.threads_searched || near.contains(&self.threads[*index]);
            *index == 0 || *index == winner || same_shape || (same_combination && near)
        };
        (0..self.first.len()).filter(is_second).collect()
    }

    fn near_threads(&self, threads: usize) -> Vec<usize> {
        let smaller = self.threads.iter().copied().filter(|other| *other < threads).max();
        let larger = self.threads.iter().copied().filter(|other| *other > threads).min();
        [Some(threads), smaller, larger].into_iter().flatten().collect()
    }
}

impl MemoryChoice {
    /// Returns the text for the choice in a plan's key. Stored hashes depend on it, so it must not follow renames.
    fn key_text(self) -> String {
        let word = match self {
            Self::Kernel => "kernel",
            Self::Interleave => "interleave",
            Self::InterleaveUsed => "interleave-used",
            Self::InterleaveTiers => "interleave-tiers",
            Self::Weighted => "weighted",
            Self::Local => "local",
            Self::Own => "own",
            Self::Other(number) => return format!("other-{number}"),
            Self::Farthest => "farthest",
            Self::Named => "named",
        };
        word.into()
    }
}

impl fmt::Display for MemoryChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "the kernel's memory policy",
            Self::Interleave => "memory interleaved over all nodes",
            Self::InterleaveUsed => "memory interleaved over the nodes of the threads",
            Self::InterleaveTiers => "memory interleaved over all nodes of all tiers",
            Self::Weighted => "memory interleaved over all nodes by the kernel's weights",
            Self::Local => "memory on the node of the CPU that touches it first",
            Self::Own => "memory only on the threads' own node",
            Self::Other(_) => "memory only on the nearest other node",
            Self::Farthest => "memory only on the farthest node",
            Self::Named => "memory as in the named policy",
        })
    }
}
