//! Runs a race to its end: block by block as its course says, then the pairs that confirm the winner.

use model::analysis::place::RaceState;
use store::StoreError;

use crate::history::History;
use crate::run::{Forecast, RunEnd, RunEvent};
use crate::runner::Runner;

/// Runs what is left of a race.
///
/// # Panics
/// When the plan is no race: the caller looks before.
pub(crate) fn run_race(runner: &mut Runner<'_>) -> Result<RunEnd, StoreError> {
    let mut course = RaceState::new(&runner.record.plan).expect("the plan is a race");
    while let Some(block) = course.next() {
        let (done, left) = (course.trials() as usize, course.trials_left() as usize);
        let time_left = course.time_left();
        let forecast = |history: &History| {
            // Inside a block the estimate of the whole stands, and what is done counts down.
            let expected = (done + left).max(history.len());
            let share = (expected - history.len()) as f64 / (expected - done).max(1) as f64;
            let left = model::values::units::Nanos((time_left.0 as f64 * share) as u64);
            Forecast { done: history.len(), expected, left }
        };
        if !runner.run_block(&block, &forecast)? {
            return Ok(RunEnd::Interrupted);
        }
        course.push(&block, &runner.history.of_block(block.role, block.number));
        (runner.watch)(RunEvent::BlockCompleted { course: &course });
    }
    Ok(course.end_reason().map_or(RunEnd::Interrupted, RunEnd::Over))
}
