//! Which way a level of a search goes: the rule of Beamer, Asanović and Patterson (2012), which every kind of search here follows.

/// When a search goes which way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// Bottom-up once the frontier's edges are more than the unexplored ones / alpha.
    pub alpha: f64,
    /// Top-down again once a shrinking frontier has fewer vertices than all / beta.
    pub beta: f64,
    /// Frontiers with fewer edges are expanded by one thread: waking the others would take longer.
    pub alone_edges: f64,
}

impl Tuning {
    /// Fastest in DRAM at scales 20 and 22 of those that were tried.
    pub const DRAM: Self = Self { alpha: 25.0, beta: 1000.0, alone_edges: 30_000.0 };
    /// Where TAIL lies on a disk: a level bottom-up wants lists of many vertices, so the frontier has to be larger to be worth it.
    pub const FAR: Self = Self { alpha: 18.0, beta: 1000.0, alone_edges: 4_000.0 };
    pub const STUDY: Self = Self { alpha: 64.0, beta: 4.0, ..Self::DRAM };
}

/// The vertices that the last level has found, and what is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frontier {
    pub(crate) count: u64,
    /// Vertices of the one before.
    pub(crate) before: u64,
    pub(crate) edges: f64,
    pub(crate) unexplored: f64,
}

/// The unexplored edges may be so many times those of a frontier that most of the level's vertices are found with.
const RICH: f64 = 2.0;

impl Frontier {
    /// The next one, of so many vertices and edges.
    pub(crate) fn advance(&mut self, count: u64, edges: f64) {
        self.before = self.count;
        (self.count, self.edges) = (0, 0.0);
        self.join(count, edges);
    }

    pub(crate) fn join(&mut self, count: u64, edges: f64) {
        self.count += count;
        self.edges += edges;
        self.unexplored = (self.unexplored - edges).max(0.0);
    }

    /// Whether the next one, of so many edges at least, will be the first to go bottom-up, and finds most of what it would with more.
    pub(crate) fn covers_most(&self, edges: f64, tuning: &Tuning) -> bool {
        edges > 0.0 && edges * tuning.alpha.min(RICH) >= (self.unexplored - edges).max(0.0)
    }

    /// Whether the level that begins with it goes bottom-up, after one that did or did not, in a graph of so many vertices.
    pub(crate) fn is_bottom_up(&self, was_up: bool, tuning: &Tuning, vertices: f64) -> bool {
        let few = (self.count as f64) * tuning.beta < vertices && self.count < self.before;
        self.edges * tuning.alpha >= self.unexplored && !(was_up && few)
    }
}
