//! `nearfar measure`: measures one workload.

use model::experiments::experiment::{PlanOptions, SingleWorkload};
use model::values::plan::Plan;
use model::values::units::Nanos;

use crate::app::catalogue::PlacementCatalogue;
use crate::app::overwrite;
use crate::app::run_guard::RunGuard;
use crate::app::session::{begin, check};
use crate::app::target_machine::TargetMachine;
use crate::cli::{GlobalArgs, MeasureCommandArgs};
use crate::commands::run::execute_and_show;
use crate::error::{CliError, CommandResult};
use crate::suggestion::{hint, policy_hint};

/// Measures one workload under one or more placements.
pub fn run(args: &MeasureCommandArgs, common: &GlobalArgs) -> CommandResult {
    check_workload(&args.workload)?;
    let single = SingleWorkload {
        workload: args.workload.clone(),
        set: parameters(args)?,
        placements: placements(args),
        threads: args.threads,
        runs: args.repeats.repetitions,
        warmup: args.repeats.warmup,
        time_limit: Nanos::parse(&args.repeats.time_limit).map_err(CliError::usage)?,
    };
    let prepare = || -> Result<(TargetMachine, Plan), CliError> {
        let target = TargetMachine::from_flags(&args.machine)?;
        let catalogue = PlacementCatalogue::for_target(&target, &args.map, common)?;
        let mut plan = plan(&single, &target, &catalogue, args)?;
        plan.command = catalogue.argv_with_map(&common.argv);
        Ok((target, plan))
    };
    let (guard, (target, plan)) = RunGuard::acquire(&args.guard, common, args.machine.sim.is_some(), prepare)?;
    let mut store = target.open_store(common)?;
    let record = begin(&mut store, &target, plan)?;
    execute_and_show(&mut store, &record, &target, guard, common.quiet, args.format)
}

fn check_workload(name: &str) -> Result<(), CliError> {
    if workloads::find(name).is_some() {
        return Ok(());
    }
    let specs = workloads::specs();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    Err(CliError::usage(format!("unknown workload '{name}'")).hint(hint(
        name,
        &names,
        "list workloads with nearfar list workloads",
    )))
}

fn plan(
    single: &SingleWorkload,
    target: &TargetMachine,
    catalogue: &PlacementCatalogue,
    args: &MeasureCommandArgs,
) -> Result<Plan, CliError> {
    let MeasureCommandArgs { smoke, devices, .. } = args;
    let options = PlanOptions { smoke: *smoke, kernel: workloads::offers(), devices };
    let plan = single
        .plan(&catalogue.topology, &workloads::specs(), options)
        .map_err(|error| CliError::plan(&error).maybe_hint(policy_hint(&args.placements).as_deref()))?;
    check(&plan, target)?;
    Ok(plan)
}

fn parameters(args: &MeasureCommandArgs) -> Result<Vec<(String, String)>, CliError> {
    let hint = format!("list the parameters of {} with nearfar list workloads", args.workload);
    let mut pairs = pairs(&args.set, &hint)?;
    if !args.command.is_empty() {
        pairs.push(("argv".into(), serde_json::json!(args.command).to_string()));
    }
    overwrite::allow_single(&args.workload, &mut pairs, args.allow_overwrite.as_deref())?;
    Ok(pairs)
}

/// Parses `KEY=VALUE` arguments.
pub fn pairs(texts: &[String], hint: &str) -> Result<Vec<(String, String)>, CliError> {
    let pair = |text: &String| {
        let pair = text.split_once('=').map(|(name, value)| (name.trim().to_string(), value.to_string()));
        pair.ok_or_else(|| CliError::usage(format!("--set {text}: expected KEY=VALUE")).hint(hint))
    };
    texts.iter().map(pair).collect()
}

/// Returns the placements of `--placement`; numactl's options together are one more. The default is `kernel`.
fn placements(args: &MeasureCommandArgs) -> Vec<String> {
    let letters = [
        ("-C", &args.physcpubind),
        ("-N", &args.cpunodebind),
        ("-m", &args.membind),
        ("-i", &args.interleave),
        ("-p", &args.preferred),
    ];
    let explicit: Vec<String> =
        letters.iter().filter_map(|(letter, value)| Some(format!("{letter} {}", value.as_ref()?))).collect();
    let mut placements = args.placements.clone();
    if !explicit.is_empty() {
        placements.push(explicit.join(" "));
    }
    if placements.is_empty() {
        placements.push("kernel".into());
    }
    placements
}
