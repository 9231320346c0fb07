//! Rules that turn a topology into placements, the candidates of a search, and measured maps.

pub mod candidates;
pub mod measured_map;
pub mod placement;
