//! A measurement of one workload.

use model::experiments::experiment::{CommandList, PlanError, PlanOptions, SingleWorkload};
use model::values::plan::Plan;
use model::values::topology::Topology;

use crate::app::catalogue::{MapRequest, PlacementCatalogue};
use crate::app::session::{ResumeRule, RunResult, SessionRequest, check, complete};
use crate::app::target_machine::TargetMachine;
use crate::error::CliError;
use crate::suggestion::policy_hint;

pub struct MeasureRequest {
    pub session: SessionRequest,
    pub measured: Measured,
    /// When to stop, instead of after a fixed number of repetitions.
    pub precise: Option<PreciseRule>,
    pub map: MapRequest,
    /// Devices whose interrupts are monitored and placed.
    pub devices: Vec<String>,
    /// Use the smoke-test sizes of all parameters.
    pub smoke: bool,
}

/// One workload, or several commands, to measure under each of the placements.
pub enum Measured {
    Workload(SingleWorkload),
    Commands(CommandList),
}

/// Ends a measurement when all intervals are narrow.
pub struct PreciseRule {
    /// Minimum and maximum number of measured blocks.
    pub min: u32,
    pub max: u32,
    /// Maximum half-width of the 95 % intervals, as a fraction of the median.
    pub precision: f64,
}

impl Measured {
    fn placements(&self) -> &[String] {
        match self {
            Self::Workload(workload) => &workload.placements,
            Self::Commands(commands) => &commands.shared.placements,
        }
    }

    fn plan(&self, topology: &Topology, options: PlanOptions<'_>) -> Result<Plan, PlanError> {
        match self {
            Self::Workload(workload) => workload.plan(topology, &workloads::specs(), options),
            Self::Commands(commands) => commands.plan(topology, &workloads::specs(), options),
        }
    }
}

/// Measures the workload under each of its placements.
pub fn measure(request: &MeasureRequest) -> Result<RunResult, CliError> {
    let (guard, (target, plan)) = request.session.acquire(|| prepare(request))?;
    complete(&request.session, guard, &target, plan, &ResumeRule::Fresh)
}

fn prepare(request: &MeasureRequest) -> Result<(TargetMachine, Plan), CliError> {
    let target = TargetMachine::read(&request.session.machine)?;
    let catalogue = PlacementCatalogue::for_target(&target, &request.map)?;
    let MeasureRequest { measured, smoke, devices, .. } = request;
    let missing = target.missing();
    let options = PlanOptions { smoke: *smoke, kernel: workloads::offers(), devices, missing };
    let mut plan = measured
        .plan(&catalogue.topology, options)
        .map_err(|error| CliError::plan(&error).maybe_hint(policy_hint(measured.placements()).as_deref()))?;
    check(&plan, &target)?;
    if let Some(PreciseRule { min, max, precision }) = request.precise {
        (plan.repeat.min, plan.repeat.max, plan.repeat.precision) = (min, max, precision);
    }
    plan.command = catalogue.argv_with_map(&request.session.argv);
    Ok((target, plan))
}
