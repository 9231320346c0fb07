//! The races of a search, one after the other: of all candidates, of the winner and its neighbours, and of placements of the
//! winner's files. Each is a run, and an interrupted search resumes in the one that is unfinished.

use model::analysis::place::{NextFileRace, PlaceResult};
use model::values::placement::Placement;
use model::values::plan::{Plan, RacePlan};
use model::values::record::{RunRecord, TrialRecord};
use store::Store;

use crate::app::place_context::{PlaceContext, RaceRequest, command_spec};
use crate::app::results_file::readable_runs;
use crate::app::run_guard::RunGuard;
use crate::app::session::{ResumeRule, execute, resume_or_begin, unfinished};
use crate::app::target_machine::TargetMachine;
use crate::error::CliError;

/// The races of a search, in their order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Search,
    /// The winner and its neighbours.
    Refinement,
    /// The winner and other placements of its files.
    Files,
}

/// A stored race and its result.
pub struct StoredRace {
    pub record: RunRecord,
    pub answer: PlaceResult,
    trials: Vec<TrialRecord>,
}

impl StoredRace {
    fn read(store: &Store, id: &str) -> Result<Self, CliError> {
        let record = store.run(id).map_err(CliError::failure)?;
        let trials = store.trials(&record.id).map_err(CliError::failure)?;
        let answer =
            PlaceResult::of(&record, &trials).ok_or_else(|| CliError::failure("the plan of this run is not a race"))?;
        Ok(Self { record, answer, trials })
    }

    /// Returns the placement of the winner, with the race that found it.
    pub fn winner(&self) -> Option<(RunRecord, Placement)> {
        let winner = self.answer.winner.as_ref()?;
        let mut placements = self.record.plan.cells.iter().map(|cell| &cell.placement);
        let placement = placements.find(|placement| placement.name == winner.placement)?;
        Some((self.record.clone(), placement.clone()))
    }
}

/// Races the plan of the context, or returns its race if a later stage of it is unfinished.
pub fn race_stage(
    store: &mut Store,
    context: &PlaceContext,
    guard: &RunGuard,
    request: &RaceRequest,
    stage: Stage,
) -> Result<StoredRace, CliError> {
    // A named run is that of the first stage.
    let resume = match &request.resume {
        ResumeRule::Run(_) if stage != Stage::Search => &ResumeRule::Newest,
        resume => resume,
    };
    let may_have_later = request.refine || context.place.places_files;
    if *resume == ResumeRule::Newest
        && may_have_later
        && let Some(done) = ended(store, &context.target, &context.plan)?
        && has_unfinished_after(store, context, request, stage, &done)?
    {
        return Ok(done);
    }
    race_plan(store, context, guard, request, resume)
}

/// Whether a later stage of a completed race is unfinished.
fn has_unfinished_after(
    store: &Store,
    context: &PlaceContext,
    request: &RaceRequest,
    stage: Stage,
    done: &StoredRace,
) -> Result<bool, CliError> {
    let refined = if stage == Stage::Search { refined_plan(request, context, done)? } else { None };
    let (next, plan) = match (refined, stage) {
        (_, Stage::Files) => return Ok(false),
        (Some(plan), _) => (Stage::Refinement, plan),
        (None, _) => match file_race(context, done)? {
            Some(NextFileRace::Plan(plan, _)) => (Stage::Files, *plan),
            _ => return Ok(false),
        },
    };
    let simulated = context.target.simulated.as_deref();
    if store.newest_unfinished(&plan.key(), simulated).map_err(CliError::failure)?.is_some() {
        return Ok(true);
    }
    match ended(store, &context.target, &plan)? {
        Some(done) => has_unfinished_after(store, context, request, next, &done),
        None => Ok(false),
    }
}

/// Returns the newest race of a plan on this machine in the same state, if it has ended.
fn ended(store: &Store, target: &TargetMachine, plan: &Plan) -> Result<Option<StoredRace>, CliError> {
    let key = plan.key();
    for run in readable_runs(store)?.iter().rev().filter(|run| run.experiment == plan.experiment) {
        let record = store.run(&run.id.0).map_err(CliError::failure)?;
        let is_same_machine = record.simulated == target.simulated
            && record.machine.settings.identity_changes(&target.machine.settings).is_empty();
        if record.plan.key() == key && is_same_machine {
            return record.ended.is_some().then(|| StoredRace::read(store, &record.id.0)).transpose();
        }
    }
    Ok(None)
}

/// Returns the race of the winner's files, if its trials suggest one.
pub fn file_race(context: &PlaceContext, done: &StoredRace) -> Result<Option<NextFileRace>, CliError> {
    if done.record.ended.is_none() {
        return Ok(None);
    }
    let copies_text = context.target.simulated.is_some() || machine::text_copy::check_permitted().is_ok();
    let on = (&context.catalogue.topology, &command_spec());
    let race = (&done.record, &done.trials[..]);
    context.place.file_race(race, &done.answer, copies_text, on).map_err(CliError::usage)
}

fn race_plan(
    store: &mut Store,
    context: &PlaceContext,
    guard: &RunGuard,
    request: &RaceRequest,
    resume: &ResumeRule,
) -> Result<StoredRace, CliError> {
    let quiet = request.session.quiet();
    let (target, plan) = (&context.target, context.plan.clone());
    // Earlier versions raced all candidates, and an unfinished race continues as one.
    let raced = match resume {
        ResumeRule::Newest => unfinished(store, target, &without_search(&plan), quiet)?,
        ResumeRule::Fresh | ResumeRule::Run(_) => None,
    };
    let record = raced.map_or_else(|| resume_or_begin(store, target, plan, resume, quiet), Ok)?;
    execute(store, &record, &context.target, guard, quiet)?;
    // Read again, because the end is stored now.
    StoredRace::read(store, &record.id.0)
}

fn without_search(plan: &Plan) -> Plan {
    let race = plan.race.clone().map(|race| RacePlan { search: None, ..race });
    Plan { race, ..plan.clone() }
}

/// Returns the plan that races the winner against its neighbours; `None` unless requested or without neighbours.
pub fn refined_plan(
    request: &RaceRequest,
    context: &PlaceContext,
    done: &StoredRace,
) -> Result<Option<Plan>, CliError> {
    let record = &done.record;
    let is_wanted = request.refine && record.ended.is_some();
    let Some((_, winner)) = done.winner().filter(|(_, winner)| is_wanted && winner.is_pinned()) else {
        return Ok(None);
    };
    let (baseline, topology) = (&record.plan.cells[0].placement, &context.catalogue.topology);
    let plan = context.place.refined(baseline, &winner, topology, &command_spec()).map_err(CliError::usage)?;
    Ok(plan.map(|plan| Plan { command: record.plan.command.clone(), ..plan }))
}
