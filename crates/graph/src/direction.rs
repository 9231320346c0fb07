//! Chooses the direction of each level by the rule of Beamer, Asanović and Patterson (2012), for every kind of search.

/// Thresholds of the direction choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// Switch to bottom-up if the frontier has more edges than the unexplored edges / alpha.
    pub alpha: f64,
    /// Switch back to top-down if a shrinking frontier has fewer vertices than the total / beta.
    pub beta: f64,
    /// One thread expands frontiers with fewer edges, because waking the others would take longer.
    pub alone_edges: f64,
}

impl Tuning {
    /// The fastest of the tested values, in DRAM at scales 20 and 22.
    pub const DRAM: Self = Self { alpha: 25.0, beta: 1000.0, alone_edges: 30_000.0 };
    /// For tail lists on a disk. A bottom-up level then reads the lists of many vertices, so it pays off only for
    /// larger frontiers.
    pub const FAR: Self = Self { alpha: 18.0, beta: 1000.0, alone_edges: 4_000.0 };
    pub const STUDY: Self = Self { alpha: 64.0, beta: 4.0, ..Self::DRAM };
}

/// Size of the current frontier, and the unexplored remainder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frontier {
    pub(crate) count: u64,
    /// Number of vertices in the previous frontier.
    pub(crate) before: u64,
    pub(crate) edges: f64,
    pub(crate) unexplored: f64,
}

/// A frontier finds most of the next level's vertices if the unexplored edges are at most this many times its own.
const RICH: f64 = 2.0;

impl Frontier {
    /// Moves on to a frontier with this many vertices and edges.
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

    /// Returns true if the next level, with at least this many edges, will be the first bottom-up level and finds most
    /// of its vertices even without further ones.
    pub(crate) fn covers_most(&self, edges: f64, tuning: &Tuning) -> bool {
        edges > 0.0 && edges * tuning.alpha.min(RICH) >= (self.unexplored - edges).max(0.0)
    }

    /// Returns true if the next level of a graph with this many vertices goes bottom-up. `was_up` is the direction of
    /// the previous level.
    pub(crate) fn is_bottom_up(&self, was_up: bool, tuning: &Tuning, vertices: f64) -> bool {
        let few = (self.count as f64) * tuning.beta < vertices && self.count < self.before;
        self.edges * tuning.alpha >= self.unexplored && !(was_up && few)
    }
}
