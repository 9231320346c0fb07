//! The lines that apply a placement by hand.

use serde::Serialize;

use super::Placement;

/// Ready-to-paste lines; none where a tool cannot express the placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lines {
    /// taskset(1).
    pub taskset: Option<String>,
}

/// The lines for a placement.
pub fn lines(_placement: &Placement, _command: &str) -> Lines {
    Lines::default()
}
