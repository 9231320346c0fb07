//! Placements written in numactl's letters: `-C 0-3 -m 0`.

use super::Placement;
use crate::topology::Topology;

/// Reads numactl's letters.
pub fn parse_explicit(_topology: &Topology, _words: &str, _threads: Option<usize>) -> Result<Placement, String> {
    Err("not yet".into())
}
