//! Which candidates are raced first when there are many, and who follows the winner. Knows what they share, not what
//! they are.

use serde::{Deserialize, Serialize};

use super::MemoryChoice;

/// With more candidates than this, racing in two stages costs fewer trials than racing all at once.
pub const STAGED_ABOVE: usize = 100;

/// The stages of a race of candidates. The vectors have one entry per candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// Whether each is raced first; all are unless there are more than [`STAGED_ABOVE`].
    pub first: Vec<bool>,
    /// Which share cpus and number of threads, and differ only in memory (or in the second command's cpus).
    pub shape: Vec<usize>,
    /// What each one's memory policy is in relation to its seats.
    pub policy: Vec<MemoryChoice>,
    /// Where each one's interrupts go: 0 as found, others by a rule.
    #[serde(default)]
    pub route: Vec<usize>,
    /// How many threads each has.
    pub threads: Vec<usize>,
    /// Whether the number of threads is searched too.
    pub threads_searched: bool,
}

impl Stages {
    /// So many candidates, all raced at once.
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

    /// Whether the race has two stages.
    pub fn are_two(&self) -> bool {
        self.first.iter().any(|first| !first)
    }

    /// The candidates of the second stage after this one won the first: its cpus with every memory policy and way of
    /// interrupts, and all cpus with its own (with the kernel's, and as found, where a set of cpus has no such). Where the number of threads
    /// is searched, only those with the winner's number, the next smaller and the next larger one. Sorted; the kernel's
    /// choice and the winner are always among them.
    pub fn second(&self, winner: usize) -> Vec<usize> {
        let near = self.near_threads(self.threads[winner]);
        // Plans of before interrupts were placed have no routes.
        let way = |index: usize| (self.policy[index], self.route.get(index).copied().unwrap_or_default());
        let has_way =
            |shape: usize| (0..self.shape.len()).any(|other| self.shape[other] == shape && way(other) == way(winner));
        let wanted = |index: &usize| {
            let plain = way(*index) == (MemoryChoice::Kernel, 0);
            let alike = way(*index) == way(winner) || (plain && !has_way(self.shape[*index]));
            let same_shape = self.shape[*index] == self.shape[winner];
            let near = !self.threads_searched || near.contains(&self.threads[*index]);
            *index == 0 || *index == winner || same_shape || (alike && near)
        };
        (0..self.first.len()).filter(wanted).collect()
    }

    fn near_threads(&self, threads: usize) -> Vec<usize> {
        let smaller = self.threads.iter().copied().filter(|other| *other < threads).max();
        let larger = self.threads.iter().copied().filter(|other| *other > threads).min();
        [Some(threads), smaller, larger].into_iter().flatten().collect()
    }
}
