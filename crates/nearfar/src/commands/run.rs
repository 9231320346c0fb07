//! `nearfar run`: an experiment, from its text to stored trials and a table.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use lab::run::{RunEnd, forecast};
use model::analysis::compare::{ComparedRun, planned};
use model::analysis::finding::{RunFinding, summarise};
use model::experiments::experiment::{self, Experiment, JobFileOptions, PlanOptions};
use model::values::plan::Plan;
use model::values::record::RunRecord;
use model::values::units::Nanos;
use report::table::Metrics;
use store::Store;

use crate::app::catalogue::PlacementCatalogue;
use crate::app::overwrite;
use crate::app::run_guard::RunGuard;
use crate::app::session::{check, end_message, execute, resume_or_begin};
use crate::app::target_machine::TargetMachine;
use crate::cli::{GlobalArgs, RunArgs, TextOrJson};
use crate::commands::measure::pairs;
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::suggestion::hint;

/// Built-in experiments: file name and text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("experiments/quick.toml", include_str!("../../../../experiments/quick.toml")),
    ("experiments/interrupts.toml", include_str!("../../../../experiments/interrupts.toml")),
    ("experiments/ccx.toml", include_str!("../../../../experiments/ccx.toml")),
    ("experiments/fake-numa.toml", include_str!("../../../../experiments/fake-numa.toml")),
    ("experiments/boards.toml", include_str!("../../../../experiments/boards.toml")),
    ("experiments/gateway.toml", include_str!("../../../../experiments/gateway.toml")),
    ("experiments/far-memory.toml", include_str!("../../../../experiments/far-memory.toml")),
    ("experiments/steering.toml", include_str!("../../../../experiments/steering.toml")),
    ("experiments/graph500.toml", include_str!("../../../../experiments/graph500.toml")),
    ("experiments/storage.toml", include_str!("../../../../experiments/storage.toml")),
    ("experiments/crystaldiskmark.toml", include_str!("../../../../experiments/crystaldiskmark.toml")),
    ("experiments/crystaldiskmark-3.toml", include_str!("../../../../experiments/crystaldiskmark-3.toml")),
];

/// Runs an experiment, or resumes an unfinished run of it.
pub fn run(args: &RunArgs, common: &GlobalArgs) -> CommandResult {
    let (experiment, overridden) = read_experiment(args, common)?;
    let prepare = || -> Result<(TargetMachine, Plan), CliError> {
        let target = TargetMachine::from_flags(&args.machine)?;
        let catalogue = PlacementCatalogue::for_target(&target, &args.map, common)?;
        let mut plan = plan(&experiment, &overridden, &target, &catalogue, args)?;
        plan.command = catalogue.argv_with_map(&common.argv);
        Ok((target, plan))
    };
    if args.dry_run {
        return dry_run(&prepare()?.1, args.format);
    }
    let simulated = args.machine.sim.is_some();
    let (guard, (target, plan)) = RunGuard::acquire(&args.guard, common, simulated, prepare)?;
    let mut store = target.open_store(common)?;
    let record = resume_or_begin(&mut store, &target, plan, args.fresh, common.quiet)?;
    let status = execute_and_show(&mut store, &record, &target, guard, common.quiet, args.format)?;
    if !common.quiet && !simulated {
        print_next_boot(&experiment, &store)?;
    }
    Ok(status)
}

/// Prints the kernel parameters that the experiment requests next.
fn print_next_boot(experiment: &Experiment, store: &Store) -> Result<(), CliError> {
    let mut command_lines = Vec::new();
    for run in store.runs().map_err(CliError::failure)? {
        if run.experiment == experiment.name && run.simulated.is_none() {
            let record = store.run(&run.id.0).map_err(CliError::failure)?;
            command_lines.extend(record.machine.settings.get("kernel.command-line").map(String::from));
        }
    }
    let lines: Vec<&str> = command_lines.iter().map(String::as_str).collect();
    match experiment.unmeasured_boots(&lines)[..] {
        [] if experiment.boots.is_empty() => {}
        [] => eprintln!("all boots are measured; compare them with nearfar compare --by boot"),
        ["", ..] => eprintln!("next: boot without {} and rerun the command", experiment.boots.join(", ")),
        [boot, ..] => eprintln!("next: boot with the kernel parameters {boot} and rerun the command"),
    }
    Ok(())
}

/// Executes the remaining trials of a run and prints its results.
pub fn execute_and_show(
    store: &mut Store,
    record: &RunRecord,
    target: &TargetMachine,
    guard: RunGuard,
    quiet: bool,
    format: TextOrJson,
) -> CommandResult {
    let end = execute(store, record, target, &guard, quiet)?;
    guard.release();
    let finding = summarise(&record.plan, &store.trials(&record.id).map_err(CliError::failure)?);
    show(record, &finding, format)?;
    if !quiet {
        eprintln!("{}", end_message(end, record));
    }
    Ok(status(&finding, end))
}

/// Reads the experiment and applies the overrides of the command line; also returns the names of their parameters.
pub fn read_experiment(args: &RunArgs, common: &GlobalArgs) -> Result<(Experiment, BTreeSet<String>), CliError> {
    if args.fio.is_none() && !args.placements.is_empty() {
        return Err(CliError::usage("--placement requires --fio; an experiment contains its placements")
            .hint("to choose placements of one workload, use nearfar measure"));
    }
    let mut experiment = match (&args.fio, &args.experiment) {
        (Some(file), _) => read_jobs(file, &args.placements, common)?,
        (None, name) => read(name.as_deref().unwrap_or_default())?,
    };
    overwrite::allow(&mut experiment, args.allow_overwrite.as_deref())?;
    let pairs = pairs(&args.set, "list parameters with nearfar list workloads")?;
    experiment
        .override_parameters(&pairs, &workloads::specs())
        .map_err(|error| CliError::usage(format!("--set: {error}")))?;
    Ok((experiment, pairs.into_iter().map(|(name, _)| name).collect()))
}

/// Reads the jobs of a fio job file, and prints how their behaviour differs from that of fio.
fn read_jobs(file: &Path, placements: &[String], common: &GlobalArgs) -> Result<Experiment, CliError> {
    let name = file.to_string_lossy();
    let text = std::fs::read_to_string(file)
        .map_err(|error| CliError::usage(format!("--fio {name}: {error}")).hint("pass the path of a fio job file"))?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let options = JobFileOptions { name: &stem, placements };
    let jobs = experiment::read_jobs(&text, &name, options, &workloads::specs()).map_err(CliError::usage)?;
    for note in jobs.notes.iter().filter(|_| !common.quiet) {
        eprintln!("note: {note}");
    }
    Ok(jobs.experiment)
}

fn read(name: &str) -> Result<Experiment, CliError> {
    let (file, text) = text(name)?;
    experiment::parse(&text, &file, &workloads::specs()).map_err(CliError::usage)
}

/// Returns the file name and the text of a built-in experiment or of a file.
pub fn text(name: &str) -> Result<(String, String), CliError> {
    let built_in = BUILT_IN.iter().find(|(file, _)| Path::new(file).file_stem().is_some_and(|stem| stem == name));
    if let Some((file, text)) = built_in {
        return Ok(((*file).into(), (*text).into()));
    }
    let text = std::fs::read_to_string(name).map_err(|error| {
        let names: Vec<_> = BUILT_IN.iter().filter_map(|(file, _)| Path::new(file).file_stem()?.to_str()).collect();
        let list = format!("built in: {}; or use the path of a TOML file", names.join(", "));
        CliError::usage(format!("cannot read experiment '{name}': {error}")).hint(hint(name, &names, &list))
    })?;
    Ok((name.into(), text))
}

fn plan(
    experiment: &Experiment,
    overridden: &BTreeSet<String>,
    target: &TargetMachine,
    catalogue: &PlacementCatalogue,
    args: &RunArgs,
) -> Result<Plan, CliError> {
    model::placements::placement::devices(&catalogue.topology, &args.devices).map_err(CliError::usage)?;
    let options = PlanOptions { smoke: args.smoke, kernel: workloads::offers(), devices: &args.devices };
    let plan = experiment.plan_with(&catalogue.topology, &workloads::specs(), options, overridden);
    let mut plan = plan.map_err(|error| CliError::plan(&error))?;
    check(&plan, target)?;
    if let Some(budget) = &args.budget {
        plan.repeat.budget = Nanos::parse(budget).map_err(CliError::usage)?;
    }
    Ok(plan)
}

/// Prints a plan and the estimate of its duration.
pub fn dry_run(plan: &Plan, format: TextOrJson) -> CommandResult {
    let estimate = forecast(plan, &lab::history::History::default());
    match format {
        TextOrJson::Json => output::print_json(&report::json::plan(plan, estimate.expected, estimate.left))?,
        TextOrJson::Text => {
            output::print(&report::table::plan(plan, estimate.expected, estimate.left, &output::stdout_style()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the findings of a run, and its comparison if the plan has one.
fn show(record: &RunRecord, finding: &RunFinding, format: TextOrJson) -> Result<(), CliError> {
    if format == TextOrJson::Json {
        return output::print_json(&report::json::run(record, finding));
    }
    output::print(&report::table::run(record, finding, Metrics::Main, &output::stdout_style()))?;
    let runs = [ComparedRun { record, finding }];
    if let Some(comparison) = planned(&runs, &record.plan) {
        output::print("")?;
        output::print(&report::table::comparison(&comparison.main_metrics(), &output::stdout_style()))?;
    }
    Ok(())
}

/// Returns the exit status: `Invalid` if no trial of any cell has a verified placement and a result.
pub fn status(finding: &RunFinding, end: RunEnd) -> ExitCode {
    if end == RunEnd::Interrupted {
        return CliStatus::Interrupted.into();
    }
    let counted = finding.cells.iter().any(|cell| cell.verdicts.valid + cell.verdicts.suspect > 0);
    if counted { ExitCode::SUCCESS } else { CliStatus::Invalid.into() }
}
