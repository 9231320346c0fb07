//! A race of the placements of a command.

use model::analysis::place::{NextFileRace, PlaceResult};
use model::values::placement::Placement;
use model::values::plan::Plan;
use model::values::record::{RunRecord, SavedPlacement};
use store::Store;

use crate::app::place_context::{PlaceContext, RaceRequest};
use crate::app::race_stages::{Stage, file_race, race_stage, refined_plan};
use crate::app::session::check;
use crate::error::CliError;

/// A race and its result so far.
pub struct RaceResult {
    pub store: Store,
    pub record: RunRecord,
    pub answer: PlaceResult,
    /// The placement of the winner and the race that found it; `None` without a winner.
    pub winner: Option<(RunRecord, Placement)>,
    /// Whether any of its races was interrupted.
    pub is_interrupted: bool,
}

/// Races the candidates, or resumes an unfinished race.
pub fn race(request: &RaceRequest) -> Result<RaceResult, CliError> {
    let (guard, mut context) = request.session.acquire(|| {
        let context = PlaceContext::new(request)?;
        check(&context.plan, &context.target)?;
        Ok(context)
    })?;
    let mut store = context.target.open_store(&request.session.results)?;
    let mut done = race_stage(&mut store, &context, &guard, request, Stage::Search)?;
    if let Some(plan) = refined_plan(request, &context, &done)? {
        context.plan = plan;
        done = race_stage(&mut store, &context, &guard, request, Stage::Refinement)?;
    }
    let mut winner = done.winner();
    let mut is_interrupted = done.record.ended.is_none();
    match file_race(&context, &done)? {
        Some(NextFileRace::Plan(plan, in_use)) => {
            if !request.session.quiet() {
                message!("nearfar: files are a large part of its memory: racing other placements of them");
            }
            context.plan = *plan;
            let files = race_stage(&mut store, &context, &guard, request, Stage::Files)?;
            let with_files = files.winner();
            is_interrupted = files.record.ended.is_none();
            if !is_interrupted && done.answer.add_file_race(files.answer, in_use) {
                winner = with_files;
            }
        }
        Some(NextFileRace::TooShort(file_race)) => done.answer.file_race = Some(file_race),
        None => {}
    }
    guard.release();
    Ok(RaceResult { store, record: done.record, answer: done.answer, winner, is_interrupted })
}

/// Returns the plan of the race.
pub fn plan(request: &RaceRequest) -> Result<Plan, CliError> {
    Ok(PlaceContext::new(request)?.plan)
}

/// Saves the winner under a name.
pub fn save(store: &mut Store, name: &str, record: &RunRecord, winner: &Placement) -> Result<(), CliError> {
    store.save_placement(&SavedPlacement::new(name, record, winner)).map_err(CliError::failure)
}
