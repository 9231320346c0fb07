//! Measures the map of a machine.

use lab::history::History;
use lab::progress::forecast;
use model::placements::measured_map::{self, MapOptions};
use model::values::plan::Plan;

use crate::app::session::{ResumeRule, RunResult, SessionRequest, check, complete};
use crate::app::target_machine::TargetMachine;
use crate::error::CliError;

pub struct MeasuredMapRequest {
    pub session: SessionRequest,
    pub options: MapOptions,
    /// Which unfinished run is resumed.
    pub resume: ResumeRule,
}

/// Measures a map, or resumes an unfinished run.
pub fn measure(request: &MeasuredMapRequest) -> Result<RunResult, CliError> {
    let session = &request.session;
    let (guard, (target, plan)) = session.acquire(|| prepare(request))?;
    if !session.quiet() {
        let estimate = forecast(&plan, &History::default());
        message!("{} cells, at most {} trials, about {}", plan.cells.len(), estimate.expected, estimate.left);
    }
    let result = complete(session, guard, &target, plan, &request.resume)?;
    // Read again, because the end is stored now.
    let record = result.store.run(&result.record.id.0).map_err(CliError::failure)?;
    Ok(RunResult { record, ..result })
}

/// Returns the plan of the measurement.
pub fn plan(request: &MeasuredMapRequest) -> Result<Plan, CliError> {
    Ok(prepare(request)?.1)
}

fn prepare(request: &MeasuredMapRequest) -> Result<(TargetMachine, Plan), CliError> {
    let target = TargetMachine::read(&request.session.machine)?;
    let mut plan = measured_map::plan(&target.machine.topology, &workloads::specs(), request.options)
        .map_err(|error| CliError::plan(&error))?;
    plan.command.clone_from(&request.session.argv);
    check(&plan, &target)?;
    Ok((target, plan))
}
