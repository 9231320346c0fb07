//! `nearfar size`: how fast a command is with less DRAM, and how much it needs.

use std::process::ExitCode;

use model::analysis::compare::{ComparedRun, planned};
use model::analysis::finding::summarise;
use model::analysis::size::{SizeAnswer, SizePlan};
use model::experiments::experiment::{PlanOptions, SingleWorkload};
use model::placements::placement::DramBudget;
use model::values::plan::Plan;
use model::values::trial::TrialStatus;
use model::values::units::{Bytes, Nanos, parse_share};

use crate::cli::{Engines, GlobalArgs, SizeArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::run_guard::RunGuard;
use crate::session::{begin, check, end_message, execute};
use crate::target_machine::{TargetMachine, far_site};

/// Measures what the command holds, then its speed on each budget, and answers.
pub fn run(args: &SizeArgs, common: &GlobalArgs) -> CommandResult {
    let within = 100.0 * parse_share(&args.within).map_err(|why| CliError::usage(format!("--within: {why}")))?;
    let time_limit = Nanos::parse(&args.repeats.time_limit).map_err(CliError::usage)?;
    let budgets = args.dram.iter().map(|text| BudgetArg::parse(text)).collect::<Result<Vec<_>, _>>()?;
    machine::child::find_program(&args.command[0]).map_err(|error| CliError::usage(&error).hint_of(error.hint()))?;
    if args.subject.sim.is_some() {
        return Err(CliError::usage(
            "a simulated machine has no swap: how much DRAM a command needs is measured on a real one",
        ));
    }
    let (hold, subject) = RunGuard::acquire(&args.hold, common, false, || TargetMachine::from_flags(&args.subject))?;
    if !common.quiet {
        eprintln!("measuring what it holds when nothing bounds it");
    }
    let need =
        lab::real::required(&args.command, &far_site(), time_limit, &hold.stop).map_err(|status| refused(&status))?;
    let asked = SizePlan { need, within_percent: within };
    let plan = plan(args, &subject, &placements(args.engine, &budgets, need), time_limit, asked)?;
    let mut store = subject.open_store(common)?;
    let record = begin(&mut store, &subject, plan)?;
    let ended = execute(&mut store, &record, &subject, &hold, common.quiet)?;
    hold.release();
    if !common.quiet {
        eprintln!("{}", end_message(ended, &record));
    }
    let trials = store.trials(&record.id).map_err(CliError::of)?;
    let finding = summarise(&record.plan, &trials);
    let runs = [ComparedRun { record: &record, finding: &finding }];
    let compared = planned(&runs, &record.plan);
    let answered = compared.and_then(|comparison| Some((SizeAnswer::of(&record.plan, &comparison)?, comparison)));
    let (answer, comparison) = answered.ok_or_else(|| {
        CliError::with(CliStatus::Invalid, "no trial without a budget is there to compare with")
            .hint("nearfar show --trials has the reasons")
    })?;
    match args.format {
        TextOrJson::Text => output::print(&report::table::size(&answer, &output::look()))?,
        TextOrJson::Json => output::print_json(&report::json::size(&answer, &comparison))?,
    }
    Ok(if answer.enough.is_some() { ExitCode::SUCCESS } else { CliStatus::Inconclusive.into() })
}

/// A budget as it was asked for.
enum BudgetArg {
    Bytes(Bytes),
    Share(f64),
}

impl BudgetArg {
    fn parse(text: &str) -> Result<Self, CliError> {
        let wanted = if text.trim_end().ends_with('%') {
            parse_share(text).map(Self::Share)
        } else {
            Bytes::parse(text).map(Self::Bytes)
        };
        wanted.map_err(|why| CliError::usage(format!("--dram: {why}")))
    }

    /// In whole MiB, so that a placement's name says exactly what it gives.
    fn of(&self, need: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => *bytes,
            Self::Share(share) => Bytes(((need.0 as f64 * share) as u64).div_ceil(1 << 20) << 20),
        }
    }
}

/// All of its memory near, and each budget under each engine.
fn placements(engines: Engines, budgets: &[BudgetArg], need: Bytes) -> Vec<String> {
    let steered: &[bool] = match engines {
        Engines::Steered => &[true],
        Engines::Plain => &[false],
        Engines::Both => &[true, false],
    };
    let mut names = vec!["kernel".to_string()];
    for budget in budgets {
        let dram = budget.of(need).max(farmem::DRAM_MIN);
        names.extend(
            steered.iter().map(|steered| format!("kernel+{}", DramBudget { dram, steered: *steered }.exact_name())),
        );
    }
    names.dedup();
    names
}

fn plan(
    args: &SizeArgs,
    subject: &TargetMachine,
    placements: &[String],
    time_limit: Nanos,
    asked: SizePlan,
) -> Result<Plan, CliError> {
    let single = SingleWorkload {
        workload: "command".into(),
        set: vec![("argv".into(), serde_json::json!(args.command).to_string())],
        placements: placements.to_vec(),
        threads: None,
        runs: args.repeats.runs,
        warmup: args.repeats.warmup,
        time_limit,
    };
    let wishes = PlanOptions { smoke: false, kernel: machine::nodes::kernel_offers(), devices: &[] };
    let mut plan =
        single.plan(&subject.machine.topology, &workloads::specs(), wishes).map_err(|error| CliError::plan(&error))?;
    let name = own_name(&args.command[0]);
    plan.experiment = experiment(&args.command[0]);
    plan.question = format!("How much DRAM does {name} need to be within {} % of full speed?", asked.within_percent);
    plan.size = Some(asked);
    plan.command = words(args);
    check(&plan, subject)?;
    Ok(plan)
}

/// How the runs of a program are called.
pub fn experiment(program: &str) -> String {
    format!("size {}", own_name(program))
}

fn own_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// What asks for this again.
fn words(args: &SizeArgs) -> Vec<String> {
    let (dram, runs) = (args.dram.join(","), args.repeats.runs.to_string());
    let mut words = ["size", "--dram", &dram, "--within", &args.within, "--runs", &runs].map(String::from).to_vec();
    let engine = match args.engine {
        Engines::Steered => Some("steered"),
        Engines::Plain => Some("plain"),
        Engines::Both => None,
    };
    words.extend(engine.into_iter().flat_map(|engine| ["--engine".to_string(), engine.to_string()]));
    words.push("--".into());
    words.extend(args.command.iter().cloned());
    words
}

fn refused(status: &TrialStatus) -> CliError {
    match status {
        TrialStatus::Unavailable(why) => CliError::with(CliStatus::NotPermitted, why),
        TrialStatus::Failed(why) | TrialStatus::TimedOut(why) => CliError::of(why),
        TrialStatus::Completed => CliError::of("it was interrupted"),
    }
}
