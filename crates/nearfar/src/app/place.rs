//! A race of the placements of a command.

use std::path::Path;

use machine::tune::irqbalance_runs;
use model::analysis::place::{EarlierRun, NextFileRace, PlaceRequest, PlaceResult, PriorChoice};
use model::placements::placement::{PlacementError, check_movable};
use model::values::placement::Placement;
use model::values::plan::{Plan, RacePlan};
use model::values::record::{RunRecord, SavedPlacement};
use model::values::workload::WorkloadSpec;
use store::Store;

use crate::app::catalogue::{MapRequest, PlacementCatalogue};
use crate::app::results_file::{ResultsFile, readable_runs};
use crate::app::run_guard::RunGuard;
use crate::app::session::{ResumeRule, SessionRequest, check, execute, resume_or_begin, unfinished};
use crate::app::target_machine::TargetMachine;
use crate::error::{CliError, CliStatus};
use crate::suggestion::policy_hint;

pub struct RaceRequest {
    pub session: SessionRequest,
    /// The command and its candidates.
    pub place: PlaceRequest,
    pub map: MapRequest,
    /// Finally, race the winner against placements that differ in one thread.
    pub refine: bool,
    /// Which unfinished search is resumed.
    pub resume: ResumeRule,
    /// Assume that the command may be like programs in the results file.
    pub uses_earlier: bool,
}

/// A race and its result so far.
pub struct RaceResult {
    pub store: Store,
    pub record: RunRecord,
    pub answer: PlaceResult,
    /// The placement of the winner and the race that found it; `None` without a winner.
    pub winner: Option<(RunRecord, Placement)>,
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
    match file_race(&store, &context, &done)? {
        Some(NextFileRace::Plan(plan, in_use)) => {
            if !request.session.quiet() {
                message!("nearfar: files are a large part of its memory: racing other placements of them");
            }
            context.plan = *plan;
            let files = race_stage(&mut store, &context, &guard, request, Stage::Files)?;
            let with_files = files.winner();
            if done.answer.add_file_race(files.answer, in_use) {
                winner = with_files;
            }
        }
        Some(NextFileRace::TooShort(file_race)) => done.answer.file_race = Some(file_race),
        None => {}
    }
    guard.release();
    Ok(RaceResult { store, record: done.record, answer: done.answer, winner })
}

/// The races of a search, in their order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Search,
    /// The winner and its neighbours.
    Refinement,
    /// The winner and other placements of its files.
    Files,
}

/// A stored race and its result.
struct StoredRace {
    record: RunRecord,
    answer: PlaceResult,
}

impl StoredRace {
    fn read(store: &Store, id: &str) -> Result<Self, CliError> {
        let record = store.run(id).map_err(CliError::failure)?;
        let trials = store.trials(&record.id).map_err(CliError::failure)?;
        let answer =
            PlaceResult::of(&record, &trials).ok_or_else(|| CliError::failure("the plan of this run is not a race"))?;
        Ok(Self { record, answer })
    }

    /// Returns the placement of the winner, with the race that found it.
    fn winner(&self) -> Option<(RunRecord, Placement)> {
        let winner = self.answer.winner.as_ref()?;
        let mut placements = self.record.plan.cells.iter().map(|cell| &cell.placement);
        let placement = placements.find(|placement| placement.name == winner.placement)?;
        Some((self.record.clone(), placement.clone()))
    }
}

/// Returns the plan of the race.
pub fn plan(request: &RaceRequest) -> Result<Plan, CliError> {
    Ok(PlaceContext::new(request)?.plan)
}

/// Saves the winner under a name.
pub fn save(store: &mut Store, name: &str, record: &RunRecord, winner: &Placement) -> Result<(), CliError> {
    store.save_placement(&SavedPlacement::new(name, record, winner)).map_err(CliError::failure)
}

/// The machine, the request completed with the measured map of the machine, and the plan of the race.
struct PlaceContext {
    target: TargetMachine,
    catalogue: PlacementCatalogue,
    place: PlaceRequest,
    plan: Plan,
}

impl PlaceContext {
    fn new(request: &RaceRequest) -> Result<Self, CliError> {
        let mut place = request.place.clone();
        let target = TargetMachine::read(&request.session.machine)?;
        let catalogue = PlacementCatalogue::for_target(&target, &request.map)?;
        place.space.measured.clone_from(&catalogue.classes);
        place.space.has_moving_interrupts = target.simulated.is_none() && irqbalance_runs(Path::new("/"));
        place.places_files &= catalogue.topology.allowed_nodes.len() > 1;
        if request.uses_earlier {
            place.prior = PriorChoice::Store(earlier_runs(&request.session.results, &target)?);
        }
        check_movable(&catalogue.topology, &place.space.devices).map_err(|none| match none {
            PlacementError::Invalid(reason) => CliError::usage(reason),
            PlacementError::Unavailable(reason) => CliError::with(CliStatus::Skipped, reason),
        })?;
        let mut plan = place.plan(&catalogue.topology, &command_spec()).map_err(|error| {
            let policies = place.space.only.iter().chain(&place.space.exclude);
            CliError::usage(error).maybe_hint(policy_hint(policies).as_deref())
        })?;
        plan.command = catalogue.argv_with_map(&request.session.argv);
        Ok(Self { target, catalogue, place, plan })
    }
}

/// Races the plan of the context, or returns its race if a later stage of it is unfinished.
fn race_stage(
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
    if *resume == ResumeRule::Newest
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
        (None, _) => match file_race(store, context, done)? {
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
fn file_race(store: &Store, context: &PlaceContext, done: &StoredRace) -> Result<Option<NextFileRace>, CliError> {
    if done.record.ended.is_none() {
        return Ok(None);
    }
    let trials = store.trials(&done.record.id).map_err(CliError::failure)?;
    let copies_text = context.target.simulated.is_some() || machine::text_copy::check_permitted().is_ok();
    let on = (&context.catalogue.topology, &command_spec());
    context.place.file_race(&done.record, &trials, copies_text, on).map_err(CliError::usage)
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

/// Maximum number of earlier programs, the newest first.
const EARLIER_MAX: usize = 12;

/// Returns the results of completed searches on this machine.
fn earlier_runs(results: &ResultsFile, target: &TargetMachine) -> Result<Vec<EarlierRun>, CliError> {
    if !results.may_exist()? {
        return Ok(Vec::new());
    }
    let store = results.open()?;
    let topology = target.machine.topology.fixed();
    let mut earlier = Vec::new();
    for run in readable_runs(&store)?.iter().rev().filter(|run| run.ended.is_some()) {
        let record = store.run(&run.id.0).map_err(CliError::failure)?;
        let is_here = record.simulated == target.simulated && record.machine.topology.fixed() == topology;
        if record.plan.race.is_some() && is_here && earlier.len() < EARLIER_MAX {
            earlier.extend(EarlierRun::new(&record, &store.trials(&record.id).map_err(CliError::failure)?));
        }
    }
    Ok(earlier)
}

fn command_spec() -> WorkloadSpec {
    (workloads::find("command").expect("it is in the registry").describe)()
}

/// Returns the plan that races the winner against its neighbours; `None` unless requested or without neighbours.
fn refined_plan(request: &RaceRequest, context: &PlaceContext, done: &StoredRace) -> Result<Option<Plan>, CliError> {
    let record = &done.record;
    let is_wanted = request.refine && record.ended.is_some();
    let Some((_, winner)) = done.winner().filter(|(_, winner)| is_wanted && winner.is_pinned()) else {
        return Ok(None);
    };
    let (baseline, topology) = (&record.plan.cells[0].placement, &context.catalogue.topology);
    let plan = context.place.refined(baseline, &winner, topology, &command_spec()).map_err(CliError::usage)?;
    Ok(plan.map(|plan| Plan { command: record.plan.command.clone(), ..plan }))
}
