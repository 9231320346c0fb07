//! A measurement of one workload.

use model::experiments::experiment::{PlanOptions, SingleWorkload};
use model::values::plan::Plan;

use crate::app::catalogue::{MapRequest, PlacementCatalogue};
use crate::app::session::{ResumeRule, RunResult, SessionRequest, check, complete};
use crate::app::target_machine::TargetMachine;
use crate::error::CliError;
use crate::suggestion::policy_hint;

pub struct MeasureRequest {
    pub session: SessionRequest,
    pub workload: SingleWorkload,
    pub map: MapRequest,
    /// Devices whose interrupts are monitored and placed.
    pub devices: Vec<String>,
    /// Use the smoke-test sizes of all parameters.
    pub smoke: bool,
}

/// Measures the workload under each of its placements.
pub fn measure(request: &MeasureRequest) -> Result<RunResult, CliError> {
    let (guard, (target, plan)) = request.session.acquire(|| prepare(request))?;
    complete(&request.session, guard, &target, plan, &ResumeRule::Fresh)
}

fn prepare(request: &MeasureRequest) -> Result<(TargetMachine, Plan), CliError> {
    let target = TargetMachine::read(&request.session.machine)?;
    let catalogue = PlacementCatalogue::for_target(&target, &request.map)?;
    let MeasureRequest { workload, smoke, devices, .. } = request;
    let missing = target.missing();
    let options = PlanOptions { smoke: *smoke, kernel: workloads::offers(), devices, missing };
    let mut plan = workload
        .plan(&catalogue.topology, &workloads::specs(), options)
        .map_err(|error| CliError::plan(&error).maybe_hint(policy_hint(&workload.placements).as_deref()))?;
    check(&plan, &target)?;
    plan.command = catalogue.argv_with_map(&request.session.argv);
    Ok((target, plan))
}
