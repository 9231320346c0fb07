//! Runs a race: the blocks that its state asks for, then the pairs that confirm the winner.

use model::analysis::place::RaceState;
use store::StoreError;

use crate::history::History;
use crate::progress::{Forecast, RunEnd, RunEvent};
use crate::runner::Runner;

/// Runs the remaining blocks of a race.
///
/// # Panics
/// If the plan is not a race; the caller checks.
pub(crate) fn run_race(runner: &mut Runner<'_>) -> Result<RunEnd, StoreError> {
    let mut race = RaceState::new(&runner.record.plan).expect("the plan is a race");
    while let Some(block) = race.next() {
        let (done, remaining) = (race.trials() as usize, race.trials_left() as usize);
        let time_left = race.time_left();
        let forecast = |history: &History| {
            // The estimate changes between blocks only; within a block, finished trials reduce the remaining time.
            let expected = (done + remaining).max(history.len());
            let share = (expected - history.len()) as f64 / (expected - done).max(1) as f64;
            let left = model::values::units::Nanos((time_left.0 as f64 * share) as u64);
            Forecast { done: history.len(), expected, left }
        };
        if !runner.run_block(&block, &forecast)? {
            return Ok(RunEnd::Interrupted);
        }
        race.push(&block, &runner.history.of_block(block.role, block.number));
        (runner.watch)(RunEvent::BlockCompleted { race: &race });
    }
    Ok(race.end_reason().map_or(RunEnd::Interrupted, RunEnd::Over))
}
