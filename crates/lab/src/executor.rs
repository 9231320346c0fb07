//! The interface between the run loop and the machine, real or simulated, that runs its trials.

use model::values::trial::{Trial, TrialOutcome};

/// Runs single trials. Failures and timeouts are [`TrialOutcome`]s; only an interruption by the user is not.
pub trait Executor {
    /// Runs a trial. `position` is its ordinal among the stored trials of the run. Returns `None` if the user
    /// interrupted it.
    fn run(&mut self, position: u32, trial: &Trial) -> Option<TrialOutcome>;
}
