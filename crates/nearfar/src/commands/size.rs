//! `nearfar size`: measures a command under DRAM budgets, and reports the smallest budget that is large enough.

use std::process::ExitCode;

use model::analysis::compare::{ComparedRun, planned};
use model::analysis::finding::summarise;
use model::analysis::size::{SizeAnswer, SizePlan};
use model::experiments::experiment::{PlanOptions, SingleWorkload};
use model::placements::placement::DramBudget;
use model::values::plan::Plan;
use model::values::trial::TrialStatus;
use model::values::units::{Bytes, Nanos, parse_share};

use crate::app::run_guard::RunGuard;
use crate::app::session::{begin, check, end_message, execute};
use crate::app::target_machine::{TargetMachine, far_site};
use crate::cli::{Engines, GlobalArgs, SizeArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;

/// Measures the peak memory of the command without a limit, then its speed with each budget.
pub fn run(args: &SizeArgs, common: &GlobalArgs) -> CommandResult {
    let within_percent =
        100.0 * parse_share(&args.max_slowdown).map_err(|error| CliError::usage(format!("--max-slowdown: {error}")))?;
    let time_limit = Nanos::parse(&args.repeats.time_limit).map_err(CliError::usage)?;
    let budgets = args.dram.iter().map(|text| BudgetArg::parse(text)).collect::<Result<Vec<_>, _>>()?;
    machine::child::find_program(&args.command[0]).map_err(|error| CliError::usage(&error).maybe_hint(error.hint()))?;
    if args.machine.sim.is_some() {
        return Err(CliError::usage("--sim is not supported: a simulated machine has no swap"));
    }
    let (guard, target) = RunGuard::acquire(&args.guard, common, false, || TargetMachine::from_flags(&args.machine))?;
    if !common.quiet {
        eprintln!("measuring the peak memory without a limit");
    }
    let need = lab::real::required(&args.command, &far_site(), time_limit, &guard.stop)
        .map_err(|status| peak_error(&status))?;
    let size = SizePlan { need, within_percent };
    let mut plan = plan(args, &target, &placements(args.engine, &budgets, need), time_limit, size)?;
    plan.command.clone_from(&common.argv);
    let mut store = target.open_store(common)?;
    let record = begin(&mut store, &target, plan)?;
    let end = execute(&mut store, &record, &target, &guard, common.quiet)?;
    guard.release();
    if !common.quiet {
        eprintln!("{}", end_message(end, &record));
    }
    let trials = store.trials(&record.id).map_err(CliError::failure)?;
    let finding = summarise(&record.plan, &trials);
    let runs = [ComparedRun { record: &record, finding: &finding }];
    let compared = planned(&runs, &record.plan);
    let sized = compared.and_then(|comparison| Some((SizeAnswer::of(&record.plan, &comparison)?, comparison)));
    let (answer, comparison) = sized.ok_or_else(|| {
        CliError::with(CliStatus::Invalid, "the baseline without a budget has no usable trial")
            .hint("see the reasons with nearfar show --trials")
    })?;
    match args.format {
        TextOrJson::Text => output::print(&report::table::size(&answer, &output::stdout_style()))?,
        TextOrJson::Json => output::print_json(&report::json::size(&answer, &comparison))?,
    }
    Ok(if answer.enough.is_some() { ExitCode::SUCCESS } else { CliStatus::Inconclusive.into() })
}

/// A value of `--dram`.
enum BudgetArg {
    Bytes(Bytes),
    Share(f64),
}

impl BudgetArg {
    fn parse(text: &str) -> Result<Self, CliError> {
        let budget = if text.trim_end().ends_with('%') {
            parse_share(text).map(Self::Share)
        } else {
            Bytes::parse(text).map(Self::Bytes)
        };
        budget.map_err(|error| CliError::usage(format!("--dram: {error}")))
    }

    /// Returns the budget in bytes; a share is rounded up to whole MiB, so that the name of the placement is exact.
    fn resolve(&self, need: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => *bytes,
            Self::Share(share) => Bytes(((need.0 as f64 * share) as u64).div_ceil(1 << 20) << 20),
        }
    }
}

/// Returns the names of the placements: without a budget, then each budget with each engine.
fn placements(engines: Engines, budgets: &[BudgetArg], need: Bytes) -> Vec<String> {
    let steered: &[bool] = match engines {
        Engines::Steered => &[true],
        Engines::Kernel => &[false],
        Engines::Both => &[true, false],
    };
    let mut names = vec!["kernel".to_string()];
    for budget in budgets {
        let dram = budget.resolve(need).max(farmem::DRAM_MIN);
        names.extend(
            steered.iter().map(|steered| format!("kernel+{}", DramBudget { dram, steered: *steered }.exact_name())),
        );
    }
    names.dedup();
    names
}

fn plan(
    args: &SizeArgs,
    target: &TargetMachine,
    placements: &[String],
    time_limit: Nanos,
    size: SizePlan,
) -> Result<Plan, CliError> {
    let single = SingleWorkload {
        workload: "command".into(),
        set: vec![("argv".into(), serde_json::json!(args.command).to_string())],
        placements: placements.to_vec(),
        threads: None,
        runs: args.repeats.repetitions,
        warmup: args.repeats.warmup,
        time_limit,
    };
    let options = PlanOptions { smoke: false, kernel: machine::nodes::kernel_offers(), devices: &[] };
    let mut plan =
        single.plan(&target.machine.topology, &workloads::specs(), options).map_err(|error| CliError::plan(&error))?;
    let name = file_name(&args.command[0]);
    plan.experiment = experiment(&args.command[0]);
    plan.question = format!("How much DRAM does {name} need to be within {} % of full speed?", size.within_percent);
    plan.size = Some(size);
    check(&plan, target)?;
    Ok(plan)
}

/// Returns the name of the experiment that measures a program.
pub fn experiment(program: &str) -> String {
    format!("size {}", file_name(program))
}

fn file_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn peak_error(status: &TrialStatus) -> CliError {
    match status {
        TrialStatus::Unavailable(reason) => CliError::with(CliStatus::NotPermitted, reason),
        TrialStatus::Failed(reason) | TrialStatus::TimedOut(reason) => CliError::failure(reason),
        TrialStatus::Completed => CliError::failure("the measurement was interrupted"),
    }
}
