//! `nearfar measure`: one workload, now.

use model::experiments::experiment::{PlanOptions, SingleWorkload};
use model::values::plan::Plan;
use model::values::units::Nanos;

use crate::catalogue::PlacementCatalogue;
use crate::cli::{GlobalArgs, MeasureCommandArgs};
use crate::commands::run::execute_and_show;
use crate::error::{CliError, CommandResult};
use crate::overwrite;
use crate::run_guard::RunGuard;
use crate::session::{begin, check};
use crate::target_machine::TargetMachine;

/// Measures one workload under one or more placements.
pub fn run(args: &MeasureCommandArgs, common: &GlobalArgs) -> CommandResult {
    let single = SingleWorkload {
        workload: args.workload.clone(),
        set: settings(args)?,
        placements: placements(args),
        threads: args.threads,
        runs: args.repeats.runs,
        warmup: args.repeats.warmup,
        time_limit: Nanos::parse(&args.repeats.time_limit).map_err(CliError::usage)?,
    };
    let prepare = || -> Result<(TargetMachine, Plan), CliError> {
        let subject = TargetMachine::from_flags(&args.subject)?;
        let offering = PlacementCatalogue::of(&subject, &args.by, common)?;
        let plan = plan(&single, &subject, &offering, args)?;
        Ok((subject, plan))
    };
    let (hold, (subject, plan)) = RunGuard::acquire(&args.hold, common, args.subject.sim.is_some(), prepare)?;
    let mut store = subject.open_store(common)?;
    let record = begin(&mut store, &subject, plan)?;
    execute_and_show(&mut store, &record, &subject, hold, common.quiet, args.format)
}

fn plan(
    single: &SingleWorkload,
    subject: &TargetMachine,
    offering: &PlacementCatalogue,
    args: &MeasureCommandArgs,
) -> Result<Plan, CliError> {
    let MeasureCommandArgs { smoke, devices, .. } = args;
    let wishes = PlanOptions { smoke: *smoke, kernel: workloads::offers(), devices };
    let mut plan =
        single.plan(&offering.topology, &workloads::specs(), wishes).map_err(|error| CliError::plan(&error))?;
    plan.command = words(single, *smoke, devices);
    plan.command.extend(offering.words());
    check(&plan, subject)?;
    Ok(plan)
}

/// The words that ask for the same plan again.
fn words(single: &SingleWorkload, smoke: bool, devices: &[String]) -> Vec<String> {
    let mut words = vec!["measure".to_string(), single.workload.clone()];
    let mut flag = |name: &str, value: String| words.extend([name.to_string(), value]);
    single.set.iter().for_each(|(name, value)| flag("--set", format!("{name}={value}")));
    single.placements.iter().for_each(|placement| flag("--placement", placement.clone()));
    devices.iter().for_each(|device| flag("--device", device.clone()));
    single.threads.iter().for_each(|threads| flag("--threads", threads.to_string()));
    flag("--runs", single.runs.to_string());
    flag("--warmup", single.warmup.to_string());
    flag("--time-limit", single.time_limit.to_string());
    words.extend(smoke.then(|| "--smoke".into()));
    words
}

fn settings(args: &MeasureCommandArgs) -> Result<Vec<(String, String)>, CliError> {
    let hint = format!("nearfar list workloads shows the parameters of {}", args.workload);
    let mut pairs = pairs(&args.set, &hint)?;
    if !args.command.is_empty() {
        pairs.push(("argv".into(), serde_json::json!(args.command).to_string()));
    }
    overwrite::allow_single(&args.workload, &mut pairs, args.allow_overwrite.as_deref())?;
    Ok(pairs)
}

/// `KEY=VALUE` as often as it is given.
pub fn pairs(given: &[String], hint: &str) -> Result<Vec<(String, String)>, CliError> {
    let pair = |text: &String| {
        let pair = text.split_once('=').map(|(name, value)| (name.trim().to_string(), value.to_string()));
        pair.ok_or_else(|| CliError::usage(format!("--set {text}: a parameter is written KEY=VALUE")).hint(hint))
    };
    given.iter().map(pair).collect()
}

/// `--placement` as often as it is given, else numactl's letters together, else the kernel's choice.
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
