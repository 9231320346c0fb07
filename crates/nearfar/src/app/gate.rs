//! A gate: whether a command is slower than a baseline by more than is allowed.

use model::analysis::gate::GateResult;
use model::experiments::experiment::{CommandList, PlanOptions};
use model::values::plan::{GatePlan, Plan, StoppingRule};
use model::values::units::Nanos;

use crate::app::catalogue::{MapRequest, PlacementCatalogue};
use crate::app::session::{ResumeRule, RunResult, SessionRequest, check, complete};
use crate::app::target_machine::TargetMachine;
use crate::error::CliError;
use crate::suggestion::policy_hint;

pub struct GateRequest {
    pub session: SessionRequest,
    /// The baseline, then the candidate.
    pub commands: CommandList,
    pub map: MapRequest,
    pub gate: GatePlan,
    pub budget: Nanos,
    /// Metric to compare, if it is neither the wall time nor a number in the output.
    pub main: Option<String>,
}

/// Maximum number of pairs, so that the trials of a command of a millisecond are still few enough to be evaluated after
/// each pair. They prove a difference of a tenth of the noise.
const PAIRS_MAX: u32 = 2000;

/// Runs both commands until the verdict is proven or the budget is spent.
pub fn gate(request: &GateRequest) -> Result<(RunResult, GateResult), CliError> {
    let (guard, (target, plan)) = request.session.acquire(|| prepare(request))?;
    let run = complete(&request.session, guard, &target, plan, &ResumeRule::Fresh)?;
    let result = GateResult::of(&run.record.plan, &run.finding);
    let result = result.ok_or_else(|| CliError::failure("the run of the gate has no two commands"))?;
    Ok((run, result))
}

fn prepare(request: &GateRequest) -> Result<(TargetMachine, Plan), CliError> {
    let target = TargetMachine::read(&request.session.machine)?;
    let catalogue = PlacementCatalogue::for_target(&target, &request.map)?;
    let options = PlanOptions { smoke: false, kernel: workloads::offers(), devices: &[], missing: target.missing() };
    let placements = &request.commands.shared.placements;
    let planned = request.commands.plan(&catalogue.topology, &workloads::specs(), options);
    let mut plan = planned.map_err(|error| CliError::plan(&error).maybe_hint(policy_hint(placements).as_deref()))?;
    check(&plan, &target)?;
    if let Some(main) = &request.main {
        plan.cells.iter_mut().for_each(|cell| cell.main = Some(main.clone()));
    }
    plan.experiment = "gate".into();
    plan.question = "Is the candidate slower than the baseline by more than is allowed?".into();
    // With the maximum as the minimum, precision never ends the run; the budget does, because it wins.
    plan.repeat = StoppingRule { min: PAIRS_MAX, max: PAIRS_MAX, budget: request.budget, ..plan.repeat };
    plan.budget_wins = true;
    plan.gate = Some(request.gate);
    plan.command = catalogue.argv_with_map(&request.session.argv);
    Ok((target, plan))
}
