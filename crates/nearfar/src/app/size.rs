//! The size of a command: its speed with each of several DRAM budgets.

use std::fmt;

use lab::real::RequiredMemory;
use model::analysis::compare::{ComparedRun, planned};
use model::analysis::place::{MetricLabel, Objective};
use model::analysis::size::{SizeAnswer, need_of};
use model::experiments::experiment::{PlanOptions, SingleWorkload};
use model::values::comparison::Comparison;
use model::values::placement::DramBudget;
use model::values::plan::{Plan, SizePlan};
use model::values::program::program_name;
use model::values::record::RunSummary;
use model::values::trial::{Role, TrialStatus};
use model::values::units::{Bytes, Nanos, share_percent};
use model::values::workload::WorkloadSpec;
use store::Store;

use crate::app::results_file::readable_runs;
use crate::app::session::{ResumeRule, RunResult, SessionRequest, check, complete};
use crate::app::target_machine::{TargetMachine, far_site};
use crate::error::{CliError, CliStatus};
use crate::message;

/// The workload that runs the command.
const WORKLOAD: &str = "command";
/// The placement without a budget.
const BASELINE: &str = "kernel";

pub struct SizeRequest {
    pub session: SessionRequest,
    /// Name of the program whose memory is limited: the server or, without one, the measured command.
    pub program: String,
    /// Parameters of workload `command`.
    pub parameters: Vec<(String, String)>,
    pub objective: Objective,
    pub label: MetricLabel,
    pub budgets: Vec<SizeBudget>,
    /// Engines to measure: whether each is steered by the paging controller.
    pub steered: &'static [bool],
    /// For each engine: whether evicted pages stay in DRAM, compressed.
    pub compressed: &'static [bool],
    /// Maximum slowdown for a budget to be large enough.
    pub within_percent: f64,
    pub repetitions: u32,
    /// No new block starts after this time; `None` for no limit.
    pub time_budget: Option<Nanos>,
    pub warmup: u32,
    pub time_limit: Nanos,
}

/// A budget of DRAM.
pub enum SizeBudget {
    Bytes(Bytes),
    /// Share of the peak memory without a limit.
    Share(f64),
}

impl fmt::Display for SizeBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Share(share) => write!(f, "{}%", share_percent(*share)),
        }
    }
}

impl SizeBudget {
    /// Returns the budget in bytes; a share is rounded up to whole MiB, so that the name of the placement is exact.
    fn resolve(&self, need: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => *bytes,
            Self::Share(share) => Bytes(((need.0 as f64 * share) as u64).div_ceil(1 << 20) << 20),
        }
    }
}

/// Measures the peak memory of the command without a limit, then its speed with each budget.
pub fn size(request: &SizeRequest) -> Result<RunResult, CliError> {
    let session = &request.session;
    let (guard, target) = session.acquire(|| TargetMachine::read(&session.machine))?;
    if !session.quiet() {
        message!("measuring the peak memory without a limit");
    }
    let nothing = RequiredMemory { peak: Bytes(0), compressibility: None };
    let unlimited = plan(request, &target, vec![BASELINE.into()], nothing)?;
    let trial = unlimited.trial("", 0, 0, Role::Warmup, 0, 0);
    // An unavailable tier ends the command before anything is measured.
    let compressed = request.compressed.contains(&true);
    let need = lab::real::required(&trial, &far_site(), compressed, &guard.stop, message::waiting(session.quiet()))
        .map_err(|status| peak_error(&status))?;
    let sizes = sizes(request, need.peak);
    if !session.quiet() && !sizes.raised.is_empty() {
        message!("budgets below the minimum of {} are raised to it: {}", farmem::DRAM_MIN, sizes.raised.join(", "));
    }
    let plan = plan(request, &target, sizes.placements, need)?;
    check(&plan, &target)?;
    complete(session, guard, &target, plan, &ResumeRule::Fresh)
}

/// Returns the smallest budget that is large enough, and the comparison that it follows from.
pub fn answer(result: &RunResult) -> Result<(SizeAnswer, Comparison), CliError> {
    let RunResult { record, finding, .. } = result;
    let compared = planned(&[ComparedRun { record, finding }], &record.plan);
    let sized = compared.and_then(|comparison| Some((SizeAnswer::of(&record.plan, finding, &comparison)?, comparison)));
    sized.ok_or_else(|| {
        CliError::with(CliStatus::Invalid, "the baseline without a budget has no usable trial")
            .hint("see the reasons with nearfar show --trials")
    })
}

/// Returns the newest run that measured the size of exactly this command line with exactly this server, and the
/// measured peak.
pub fn measured_need(
    store: &Store,
    argv: &[String],
    server: Option<&[String]>,
) -> Result<Option<(RunSummary, Bytes)>, CliError> {
    let name = experiment(program_name(server.unwrap_or(argv)));
    for run in readable_runs(store)?.into_iter().rev().filter(|run| run.experiment == name) {
        let record = store.run(&run.id.0).map_err(CliError::failure)?;
        if let Some(need) = need_of(&record.plan, argv, server) {
            return Ok(Some((run, need)));
        }
    }
    Ok(None)
}

fn plan(
    request: &SizeRequest,
    target: &TargetMachine,
    placements: Vec<String>,
    need: RequiredMemory,
) -> Result<Plan, CliError> {
    let single = SingleWorkload {
        workload: WORKLOAD.into(),
        set: request.parameters.clone(),
        placements,
        threads: None,
        runs: request.repetitions,
        warmup: request.warmup,
        time_limit: request.time_limit,
    };
    let options = PlanOptions { smoke: false, kernel: machine::nodes::kernel_offers(), devices: &[], missing: None };
    let specs = specs(request);
    let mut plan = single.plan(&target.machine.topology, &specs, options).map_err(|error| CliError::plan(&error))?;
    let (program, within_percent) = (&request.program, request.within_percent);
    plan.experiment = experiment(program);
    plan.question = format!("How much DRAM does {program} need to be within {within_percent} % of full speed?");
    plan.size = Some(SizePlan { need: need.peak, within_percent, compressibility: need.compressibility });
    if let Some(budget) = request.time_budget {
        (plan.repeat.budget, plan.budget_wins) = (budget, true);
    }
    plan.command.clone_from(&request.session.argv);
    Ok(plan)
}

/// Returns the workloads; the main metric of `command` is the objective.
fn specs(request: &SizeRequest) -> Vec<WorkloadSpec> {
    let main_first = |spec: WorkloadSpec| match spec.name.as_str() {
        WORKLOAD => request.objective.first_in(&spec, &request.label),
        _ => spec,
    };
    workloads::specs().into_iter().map(main_first).collect()
}

/// The placements to measure.
struct Sizes {
    /// Names of the placements: without a budget, then each budget in each tier.
    placements: Vec<String>,
    /// Requested budgets below the minimum, [`farmem::DRAM_MIN`], which is measured instead.
    raised: Vec<String>,
}

fn sizes(request: &SizeRequest, need: Bytes) -> Sizes {
    let (mut placements, mut raised) = (vec![BASELINE.to_string()], Vec::new());
    for budget in &request.budgets {
        let given = budget.resolve(need);
        if given < farmem::DRAM_MIN {
            raised.push(budget.to_string());
        }
        let dram = given.max(farmem::DRAM_MIN);
        let tiers = request.steered.iter().flat_map(|steered| request.compressed.iter().map(|how| (*steered, *how)));
        for (steered, compressed) in tiers {
            let name = DramBudget { dram, steered, compressed }.exact_name();
            let name = format!("{BASELINE}+{name}");
            if !placements.contains(&name) {
                placements.push(name);
            }
        }
    }
    Sizes { placements, raised }
}

/// Returns the name of the experiment that measures a program.
fn experiment(program: &str) -> String {
    format!("size {program}")
}

fn peak_error(status: &TrialStatus) -> CliError {
    match status {
        TrialStatus::Unavailable(reason) => CliError::with(CliStatus::NotPermitted, reason),
        TrialStatus::Failed(reason) | TrialStatus::TimedOut(reason) => CliError::failure(reason),
        TrialStatus::Completed => CliError::failure("the measurement was interrupted"),
    }
}
