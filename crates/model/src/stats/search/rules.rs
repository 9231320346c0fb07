//! Decisions that differ between versions of the search. Results are computed from the stored trials, so a stored search
//! needs the decisions of its version. Must not depend on measurements.

/// The decisions of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// Whether a candidate is dropped after its first trial and the repetition failed.
    pub drops_after_first_failure: bool,
}

impl Rules {
    pub fn of_version(version: u32) -> Self {
        Self { drops_after_first_failure: version > 1 }
    }
}
