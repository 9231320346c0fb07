//! A run of an experiment.

use std::collections::BTreeSet;

use lab::progress::least_time;
use model::experiments::experiment::{Experiment, PlanOptions};
use model::placements::placement::devices;
use model::values::plan::Plan;
use model::values::units::Nanos;
use store::Store;

use crate::app::catalogue::{MapRequest, PlacementCatalogue};
use crate::app::results_file::readable_runs;
use crate::app::session::{ResumeRule, RunResult, SessionRequest, check, complete};
use crate::app::target_machine::TargetMachine;
use crate::error::CliError;

pub struct RunRequest {
    pub session: SessionRequest,
    pub experiment: Experiment,
    /// Names of the parameters that differ from those of the experiment.
    pub overridden: BTreeSet<String>,
    pub map: MapRequest,
    /// Devices whose interrupts are monitored and placed, instead of those of the experiment.
    pub devices: Vec<String>,
    /// Use the smoke-test sizes of all parameters.
    pub smoke: bool,
    /// Maximum total time, instead of that of the experiment.
    pub budget: Option<Nanos>,
    /// Which unfinished run is resumed.
    pub resume: ResumeRule,
}

/// Runs an experiment, or resumes an unfinished run of it.
pub fn run(request: &RunRequest) -> Result<RunResult, CliError> {
    let (guard, (target, plan)) = request.session.acquire(|| prepare(request))?;
    if !request.session.quiet() && target.simulated.is_none() {
        message!("{}", time_notice(&plan));
    }
    complete(&request.session, guard, &target, plan, &request.resume)
}

/// Returns the plan of the run.
pub fn plan(request: &RunRequest) -> Result<Plan, CliError> {
    Ok(prepare(request)?.1)
}

fn prepare(request: &RunRequest) -> Result<(TargetMachine, Plan), CliError> {
    let target = TargetMachine::read(&request.session.machine)?;
    let catalogue = PlacementCatalogue::for_target(&target, &request.map)?;
    devices(&catalogue.topology, &request.devices).map_err(CliError::usage)?;
    let options = PlanOptions {
        smoke: request.smoke,
        kernel: workloads::offers(),
        devices: &request.devices,
        missing: target.missing(),
    };
    let plan = request.experiment.plan_with(&catalogue.topology, &workloads::specs(), options, &request.overridden);
    let mut plan = plan.map_err(|error| CliError::plan(&error))?;
    check(&plan, &target)?;
    plan.repeat.budget = request.budget.unwrap_or(plan.repeat.budget);
    plan.budget_wins = request.budget.is_some();
    plan.command = catalogue.argv_with_map(&request.session.argv);
    Ok((target, plan))
}

/// Describes how long the run takes at least, and whether its budget is sufficient.
fn time_notice(plan: &Plan) -> String {
    let (time, min, budget) = (least_time(plan), plan.repeat.min, plan.repeat.budget);
    let blocks = if min == 1 { "1 block".into() } else { format!("{min} blocks") };
    let least = format!("the minimum of {blocks} takes about {time}");
    match (time > budget, plan.budget_wins) {
        (false, _) => format!("{least}; the budget is {budget}"),
        (true, false) => format!("{least}, longer than the budget of {budget}, which --budget would enforce"),
        (true, true) => {
            format!("warning: {least}; the budget of {budget} ends the run earlier, and results may have no intervals")
        }
    }
}

/// Returns the command lines of the Linux kernel with which the experiment was run.
pub fn measured_boots(experiment: &Experiment, store: &Store) -> Result<Vec<String>, CliError> {
    let mut command_lines = Vec::new();
    for run in readable_runs(store)? {
        if run.experiment == experiment.name && run.simulated.is_none() {
            let record = store.run(&run.id.0).map_err(CliError::failure)?;
            command_lines.extend(record.machine.settings.get("kernel.command-line").map(String::from));
        }
    }
    Ok(command_lines)
}
