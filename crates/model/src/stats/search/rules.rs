//! Decisions that differ between versions of the search. Results are computed from the stored trials, so a stored search
//! needs the decisions of its version. Must not depend on measurements.

/// The decisions of a version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Whether a candidate is dropped after its first trial and the repetition failed.
    pub drops_after_first_failure: bool,
    /// Added to the logarithms of the prior probabilities of the hypotheses without simulated programs. A larger value finds
    /// more of the programs that fit no model, and fewer of the others.
    pub unstructured_bonus: f64,
    /// Whether a race uses the trials that are too few for fresh pairs, and counts the discarded trial as one of
    /// `--max-trials`.
    pub uses_all_trials: bool,
    /// Whether the number of pairs follows from the predicted gain and its uncertainty.
    pub weighs_pairs: bool,
    /// The search ends early once the leader's expected loss, as a difference of logarithms, is below this.
    pub resolved_miss: f64,
    /// The search ends early only after this number of trials per candidate.
    pub resolved_trials: usize,
    /// Increase in the number of unrun candidates from each late block to the next, if there are enough trials to run most
    /// candidates. They include good candidates of programs that fit no model.
    pub exploration: f64,
}

impl Rules {
    pub fn of_version(version: u32) -> Self {
        match version {
            0 | 1 => Self {
                drops_after_first_failure: false,
                unstructured_bonus: 0.0,
                uses_all_trials: false,
                weighs_pairs: false,
                resolved_miss: 0.005,
                resolved_trials: 0,
                exploration: 0.0,
            },
            2 => Self { drops_after_first_failure: true, unstructured_bonus: 1.5, ..Self::of_version(1) },
            3 => Self { uses_all_trials: true, ..Self::of_version(2) },
            4 => Self { weighs_pairs: true, resolved_miss: 0.0003, ..Self::of_version(3) },
            _ => Self { resolved_trials: 1, exploration: 1.5, ..Self::of_version(4) },
        }
    }
}
