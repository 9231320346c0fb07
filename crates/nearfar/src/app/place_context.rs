//! The request of a race, and the machine and the plan that it results in.

use std::path::Path;

use machine::tune::irqbalance_runs;
use model::analysis::place::{EarlierRun, PlaceRequest, PriorChoice};
use model::placements::placement::{PlacementError, check_movable};
use model::values::plan::Plan;
use model::values::workload::WorkloadSpec;

use crate::app::catalogue::{MapRequest, PlacementCatalogue};
use crate::app::results_file::{ResultsFile, readable_runs};
use crate::app::session::{ResumeRule, SessionRequest};
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

/// The machine, the request completed with the measured map of the machine, and the plan of the race.
pub struct PlaceContext {
    pub target: TargetMachine,
    pub catalogue: PlacementCatalogue,
    pub place: PlaceRequest,
    pub plan: Plan,
}

impl PlaceContext {
    pub fn new(request: &RaceRequest) -> Result<Self, CliError> {
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

pub fn command_spec() -> WorkloadSpec {
    (workloads::find("command").expect("it is in the registry").describe)()
}
