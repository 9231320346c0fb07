//! The two stages of a race with many candidates. Uses what candidates have in common, not their placements.

use serde::{Deserialize, Serialize};

use super::MemoryChoice;

/// With more candidates than this, racing in two stages costs fewer trials than racing all at once.
pub const STAGED_ABOVE: usize = 100;

/// The stages of a race. Each vector has one entry per candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// Whether the candidate is in the first stage. All are, unless there are more than [`STAGED_ABOVE`].
    pub first: Vec<bool>,
    /// Equal for candidates with the same CPUs and thread count, which differ in memory or the second command's CPUs.
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

    pub(super) fn push(&mut self, first: bool, shape: usize, (policy, route): (MemoryChoice, usize), threads: usize) {
        self.route.push(route);
        self.first.push(first);
        self.shape.push(shape);
        self.policy.push(policy);
        self.threads.push(threads);
    }

    /// Returns the text for the stages in a plan's key. Stored hashes depend on it, so it must not follow renames.
    pub(crate) fn key_text(&self) -> String {
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
