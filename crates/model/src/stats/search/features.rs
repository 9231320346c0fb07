//! Features of candidates for the simulated programs: counts of cores, caches, nodes and distances, for each number of
//! threads that the program may have. Values only; `placements::candidates::features` computes them.

/// Where two CPUs meet: on a core, in a second-level cache, in a last-level cache, on a node, in a package, or only in
/// the machine.
pub const LEVELS: usize = 6;

/// Shares by level.
pub type ByLevel = [f64; LEVELS];

/// The candidates of a race as the model sees them.
#[derive(Clone, Debug, PartialEq)]
pub struct Features {
    pub machine: MachineSummary,
    /// Whether the number of threads is searched. All candidates then have the same amount of work.
    pub threads_searched: bool,
    /// One table for each number of threads that the program may have; at least one.
    pub tables: Vec<FeatureTable>,
}

/// Totals of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSummary {
    pub cpus: f64,
    pub cores: f64,
    pub packages: f64,
    /// Number of memory nodes.
    pub nodes: f64,
    /// Number of memory nodes that are the home of a CPU.
    pub homes: f64,
    /// The different distances between nodes, relative to the local one.
    pub distances: Vec<f64>,
    /// Mean number of CPUs of a last-level cache.
    pub cluster_cpus: f64,
}

/// Features of all candidates for one number of threads.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureTable {
    /// Relative probability that the program has this number of threads.
    pub weight: f64,
    /// One entry per candidate; the first is the baseline.
    pub candidates: Vec<CandidateFeatures>,
}

/// Features of one candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateFeatures {
    pub threads: f64,
    /// Number of CPUs that get a thread.
    pub used: f64,
    /// Cores with threads.
    pub cores: Vec<CoreUse>,
    /// Last-level caches with threads.
    pub caches: Vec<CacheUse>,
    /// Number of memory nodes whose CPUs have threads.
    pub nodes: f64,
    /// Number of packages with threads.
    pub packages: f64,
    /// Mean over threads of the share of their package's CPUs that have threads.
    pub fullness: f64,
    /// Share of pairs of threads by where they meet.
    pub pairs: ByLevel,
    /// Share of threads by where they meet the next thread.
    pub next: ByLevel,
    /// Share of threads by where they meet the CPUs of the interrupts.
    pub interrupts: ByLevel,
    /// Share of threads by where they meet the CPUs of the second command; all 0 if there is none.
    pub second: ByLevel,
    /// Logarithm to base 2 of the number of CPUs per thread, if the threads may move.
    pub loose: f64,
    /// Whether the kernel chooses the CPUs.
    pub unbound: bool,
    pub memory: MemoryFeatures,
}

/// Number of cores of one kind with the same number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreUse {
    /// 0 is the fastest.
    pub kind: usize,
    pub threads: f64,
    pub cores: f64,
}

/// Number of caches of the same size with the same number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheUse {
    pub threads: f64,
    /// Number of CPUs of one cache.
    pub cpus: f64,
    pub caches: f64,
}

/// Where the pages are, relative to the threads.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryFeatures {
    pub policy: PagePolicy,
    /// Number of nodes with pages. It is 0 if first touch decides.
    pub nodes: f64,
    /// Share of the used nodes that have pages. It is 0 if first touch decides.
    pub local_nodes: f64,
    /// Share of accesses to the own node; if first touch decides, for pages that their users touched.
    pub local: f64,
    /// Share of accesses by distance, in the order of [`MachineSummary::distances`], if pages are bound.
    pub bound: Vec<f64>,
    /// The same if the first thread touches all pages.
    pub first: Vec<f64>,
    /// The same if pages are spread like the threads, but not to their users.
    pub spread: Vec<f64>,
    /// Share of threads on the node of the first thread.
    pub threads_first: f64,
    /// Maximum share of threads on one node.
    pub threads_max: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePolicy {
    FirstTouch,
    /// On several nodes.
    Interleaved,
    /// On one node.
    Bound,
}

/// Observation of the warm-up trial of a program that chooses its number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hint {
    /// Maximum number of threads seen.
    pub threads: usize,
    /// CPU time divided by wall time: the mean number of busy threads.
    pub busy: f64,
}

/// Below this share of busy threads, the others are taken for helpers of the program's runtime.
const BUSY_SHARE: f64 = 0.5;

impl Hint {
    /// Returns the number of threads that work.
    pub fn working_threads(self) -> usize {
        let threads = self.threads.max(1);
        let is_busy = self.busy >= BUSY_SHARE * threads as f64;
        if is_busy || self.busy <= 0.0 { threads } else { (self.busy.ceil() as usize).clamp(1, threads) }
    }
}

impl CandidateFeatures {
    pub fn core_count(&self) -> f64 {
        self.cores.iter().map(|core| core.cores).sum()
    }

    pub fn cache_count(&self) -> f64 {
        self.caches.iter().map(|cache| cache.caches).sum()
    }

    /// Share of used cores that are of the fastest kind.
    pub fn fast_share(&self) -> f64 {
        let fast: f64 = self.cores.iter().filter(|core| core.kind == 0).map(|core| core.cores).sum();
        fast / self.core_count().max(1.0)
    }
}

impl Features {
    /// Number of candidates.
    pub fn len(&self) -> usize {
        self.tables[0].candidates.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_threads_do_not_count_as_working() {
        for (threads, busy, expected) in
            [(8, 7.9, 8), (8, 4.0, 8), (40, 8.2, 9), (40, 0.3, 1), (1, 0.99, 1), (16, 0.0, 16), (0, 0.5, 1)]
        {
            assert_eq!(Hint { threads, busy }.working_threads(), expected, "{threads} {busy}");
        }
    }
}
