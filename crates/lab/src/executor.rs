//! The seam between deciding and doing: a real machine or a simulated one runs a trial.

use model::values::trial::{Outcome, Trial};

/// Runs single trials. Whatever happens to a trial is an [`Outcome`]; only being told to stop is not.
pub trait Executor {
    /// Runs the trial that is the run's `position`-th; none when it was interrupted by the user.
    fn run(&mut self, position: u32, trial: &Trial) -> Option<Outcome>;
}
