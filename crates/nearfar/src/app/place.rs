//! A race of the placements of a command.

use std::path::Path;

use machine::tune::irqbalance_runs;
use model::analysis::place::{EarlierRun, PlaceRequest, PlaceResult, PriorChoice};
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
}

/// Races the candidates, or resumes an unfinished race.
pub fn race(request: &RaceRequest) -> Result<RaceResult, CliError> {
    let (guard, mut context) = request.session.acquire(|| {
        let context = PlaceContext::new(request)?;
        check(&context.plan, &context.target)?;
        Ok(context)
    })?;
    let mut store = context.target.open_store(&request.session.results)?;
    let (mut record, mut answer) = race_plan(&mut store, &context, &guard, request, &request.resume)?;
    if let Some(plan) = refined_plan(request, &context, &record, &answer)? {
        context.plan = plan;
        // A named run is that of the first plan.
        let resume = if request.resume == ResumeRule::Fresh { ResumeRule::Fresh } else { ResumeRule::Newest };
        (record, answer) = race_plan(&mut store, &context, &guard, request, &resume)?;
    }
    guard.release();
    Ok(RaceResult { store, record, answer })
}

/// Returns the plan of the race.
pub fn plan(request: &RaceRequest) -> Result<Plan, CliError> {
    Ok(PlaceContext::new(request)?.plan)
}

/// Returns the placement of the winner.
pub fn winner<'a>(record: &'a RunRecord, answer: &PlaceResult) -> Option<&'a Placement> {
    let winner = answer.winner.as_ref()?;
    let mut placements = record.plan.cells.iter().map(|cell| &cell.placement);
    placements.find(|placement| placement.name == winner.placement)
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

fn race_plan(
    store: &mut Store,
    context: &PlaceContext,
    guard: &RunGuard,
    request: &RaceRequest,
    resume: &ResumeRule,
) -> Result<(RunRecord, PlaceResult), CliError> {
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
    let record = store.run(&record.id.0).map_err(CliError::failure)?;
    let trials = store.trials(&record.id).map_err(CliError::failure)?;
    let answer =
        PlaceResult::of(&record, &trials).ok_or_else(|| CliError::failure("the plan of this run is not a race"))?;
    Ok((record, answer))
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
fn refined_plan(
    request: &RaceRequest,
    context: &PlaceContext,
    record: &RunRecord,
    answer: &PlaceResult,
) -> Result<Option<Plan>, CliError> {
    let Some(winner) = winner(record, answer).filter(|winner| request.refine && winner.is_pinned()) else {
        return Ok(None);
    };
    let (baseline, topology) = (&record.plan.cells[0].placement, &context.catalogue.topology);
    let plan = context.place.refined(baseline, winner, topology, &command_spec()).map_err(CliError::usage)?;
    Ok(plan.map(|plan| Plan { command: record.plan.command.clone(), ..plan }))
}
