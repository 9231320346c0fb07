//! Progress and end of a run, as callers see them.

use model::analysis::place::RaceState;
use model::values::plan::{Cell, Plan};
use model::values::record::{EndReason, TrialRecord};
use model::values::trial::Trial;
use model::values::units::Nanos;

use crate::history::History;

/// Progress of a run, reported to the caller. Times are those of the measured machine, real or simulated.
#[derive(Debug)]
pub enum RunEvent<'a> {
    Begins {
        trial: &'a Trial,
        forecast: Forecast,
    },
    Stored {
        record: &'a TrialRecord,
        forecast: Forecast,
    },
    /// A block of a race is complete.
    BlockCompleted {
        race: &'a RaceState<'a>,
    },
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    pub done: usize,
    /// Upper bound of the number of trials; a run that is precise enough ends earlier.
    pub expected: usize,
    pub left: Nanos,
}

/// The reason why [`crate::run::run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    Over(EndReason),
    /// The user interrupted the run. Rerunning the command resumes it.
    Interrupted,
}

/// Estimated duration of the minimum number of blocks, including warm-up.
pub fn least_time(plan: &Plan) -> Nanos {
    let block: u64 =
        plan.cells.iter().filter_map(|cell| Some(plan.spec(&cell.workload)?.guess(&cell.parameters).0)).sum();
    Nanos(block.saturating_mul(u64::from(plan.repeat.warmup) + u64::from(plan.repeat.min)))
}

/// Computes the progress of a run from its plan and its stored trials.
pub fn forecast(plan: &Plan, history: &History) -> Forecast {
    let live = history.live(plan).max(1);
    // Until every cell has run once, the estimate of a block is its time so far plus the workloads' own estimates.
    let guess = |cell: &Cell| plan.spec(&cell.workload).map_or(0, |spec| spec.guess(&cell.parameters).0);
    let untried = plan.cells.iter().enumerate().filter(|(cell, _)| !history.has_tried(*cell));
    let guessed: u64 = untried.map(|(_, cell)| guess(cell)).sum();
    let first = history.len() < plan.cells.len();
    let known = history.block_time().filter(|_| !first).map(|time| time.0);
    let block_time = known.unwrap_or(history.spent().0 + guessed);
    let affordable = plan.repeat.budget.0 / block_time.max(1);
    let (warmup, min, max) = (plan.repeat.warmup, plan.repeat.min, plan.repeat.max);
    let least = if plan.budget_wins || plan.race.is_some() { 1 } else { u64::from(warmup) + u64::from(min) };
    let blocks = affordable.clamp(least.max(1), (u64::from(max) + u64::from(warmup)).max(least.max(1)));
    let expected = (blocks as usize * live).max(history.len());
    let left = match known {
        Some(block_time) => (expected - history.len()) as u64 * (block_time / live as u64),
        None => (blocks * block_time).saturating_sub(history.spent().0),
    };
    Forecast { done: history.len(), expected, left: Nanos(left) }
}
