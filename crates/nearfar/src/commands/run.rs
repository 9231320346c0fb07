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

use crate::catalogue::PlacementCatalogue;
use crate::cli::{GlobalArgs, RunArgs, TextOrJson};
use crate::commands::measure::pairs;
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::overwrite;
use crate::run_guard::RunGuard;
use crate::session::{check, end_message, execute, resume_or_begin};
use crate::target_machine::TargetMachine;

/// The experiments that the program brings along: file name and text.
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

/// Runs an experiment, or goes on with it.
pub fn run(args: &RunArgs, common: &GlobalArgs) -> CommandResult {
    let (experiment, given) = asked(args, common)?;
    let prepare = || -> Result<(TargetMachine, Plan), CliError> {
        let subject = TargetMachine::from_flags(&args.subject)?;
        let offering = PlacementCatalogue::of(&subject, &args.by, common)?;
        let plan = plan(&experiment, &given, &subject, &offering, args)?;
        Ok((subject, plan))
    };
    if args.dry_run {
        return dry_run(&prepare()?.1, args.format);
    }
    let simulated = args.subject.sim.is_some();
    let (hold, (subject, plan)) = RunGuard::acquire(&args.hold, common, simulated, prepare)?;
    let mut store = subject.open_store(common)?;
    let record = resume_or_begin(&mut store, &subject, plan, args.fresh, common.quiet)?;
    let status = execute_and_show(&mut store, &record, &subject, hold, common.quiet, args.format)?;
    if !common.quiet && !simulated {
        tell_boots_left(&experiment, &store)?;
    }
    Ok(status)
}

/// Which kernel parameters the experiment wants tried next, for stderr.
fn tell_boots_left(experiment: &Experiment, store: &Store) -> Result<(), CliError> {
    let mut command_lines = Vec::new();
    for run in store.runs().map_err(CliError::of)? {
        if run.experiment == experiment.name && run.simulated.is_none() {
            let record = store.run(&run.id.0).map_err(CliError::of)?;
            command_lines.extend(record.machine.settings.get("kernel.command-line").map(String::from));
        }
    }
    let lines: Vec<&str> = command_lines.iter().map(String::as_str).collect();
    match experiment.unmeasured_boots(&lines)[..] {
        [] if experiment.boots.is_empty() => {}
        [] => eprintln!("every boot is measured; nearfar compare --by boot"),
        ["", ..] => eprintln!("next: start the machine without {}, and run this again", experiment.boots.join(", ")),
        [boot, ..] => eprintln!("next: start the machine with the kernel parameters {boot}, and run this again"),
    }
    Ok(())
}

/// Runs what is left of a run and shows what came out.
pub fn execute_and_show(
    store: &mut Store,
    record: &RunRecord,
    subject: &TargetMachine,
    hold: RunGuard,
    quiet: bool,
    format: TextOrJson,
) -> CommandResult {
    let ended = execute(store, record, subject, &hold, quiet)?;
    hold.release();
    let finding = summarise(&record.plan, &store.trials(&record.id).map_err(CliError::of)?);
    show(record, &finding, format)?;
    if !quiet {
        eprintln!("{}", end_message(ended, record));
    }
    Ok(status(&finding, ended))
}

/// The words that ask for the same plan again.
fn words(args: &RunArgs) -> Vec<String> {
    let mut words = vec!["run".to_string()];
    words.extend(args.experiment.clone());
    words.extend(args.fio.iter().flat_map(|file| ["--fio".into(), file.to_string_lossy().into_owned()]));
    words.extend(args.placements.iter().flat_map(|placement| ["--placement".into(), placement.clone()]));
    words.extend(args.set.iter().flat_map(|pair| ["--set".into(), pair.clone()]));
    words.extend(args.budget.iter().flat_map(|budget| ["--budget".into(), budget.clone()]));
    words.extend(args.smoke.then(|| "--smoke".into()));
    words.extend(args.devices.iter().flat_map(|device| ["--device".into(), device.clone()]));
    words.extend(args.allow_overwrite.iter().flat_map(|path| ["--allow-overwrite".into(), path.clone()]));
    words
}

/// The experiment with what the command line gives to it, and the names of that.
pub fn asked(args: &RunArgs, common: &GlobalArgs) -> Result<(Experiment, BTreeSet<String>), CliError> {
    if args.fio.is_none() && !args.placements.is_empty() {
        return Err(CliError::usage("--placement is for the jobs of --fio; an experiment says its placements itself")
            .hint("nearfar measure takes placements too"));
    }
    let mut experiment = match (&args.fio, &args.experiment) {
        (Some(file), _) => read_jobs(file, &args.placements, common)?,
        (None, name) => read(name.as_deref().unwrap_or_default())?,
    };
    overwrite::allow(&mut experiment, args.allow_overwrite.as_deref())?;
    let pairs = pairs(&args.set, "nearfar list workloads shows parameters")?;
    experiment
        .override_parameters(&pairs, &workloads::specs())
        .map_err(|why| CliError::usage(format!("--set: {why}")))?;
    Ok((experiment, pairs.into_iter().map(|(name, _)| name).collect()))
}

/// The jobs of a fio job file, and on stderr what is not as fio would have it.
fn read_jobs(file: &Path, placements: &[String], common: &GlobalArgs) -> Result<Experiment, CliError> {
    let name = file.to_string_lossy();
    let text = std::fs::read_to_string(file)
        .map_err(|error| CliError::usage(format!("--fio {name}: {error}")).hint("give the path of a fio job file"))?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let wishes = JobFileOptions { name: &stem, placements };
    let jobs = experiment::read_jobs(&text, &name, wishes, &workloads::specs()).map_err(CliError::usage)?;
    for note in jobs.notes.iter().filter(|_| !common.quiet) {
        eprintln!("note: {note}");
    }
    Ok(jobs.experiment)
}

fn read(name: &str) -> Result<Experiment, CliError> {
    let (file, text) = text(name)?;
    experiment::parse(&text, &file, &workloads::specs()).map_err(CliError::usage)
}

/// An experiment's file and its text, built in or not.
pub fn text(name: &str) -> Result<(String, String), CliError> {
    let built_in = BUILT_IN.iter().find(|(file, _)| Path::new(file).file_stem().is_some_and(|stem| stem == name));
    if let Some((file, text)) = built_in {
        return Ok(((*file).into(), (*text).into()));
    }
    let text = std::fs::read_to_string(name).map_err(|error| {
        let names: Vec<_> = BUILT_IN.iter().filter_map(|(file, _)| Path::new(file).file_stem()?.to_str()).collect();
        CliError::usage(format!("no experiment '{name}': {error}"))
            .hint(format!("built in: {}; or give the path of a TOML file", names.join(", ")))
    })?;
    Ok((name.into(), text))
}

fn plan(
    experiment: &Experiment,
    given: &BTreeSet<String>,
    subject: &TargetMachine,
    offering: &PlacementCatalogue,
    args: &RunArgs,
) -> Result<Plan, CliError> {
    model::placements::placement::devices(&offering.topology, &args.devices).map_err(CliError::usage)?;
    let wishes = PlanOptions { smoke: args.smoke, kernel: workloads::offers(), devices: &args.devices };
    let plan = experiment.plan_with(&offering.topology, &workloads::specs(), wishes, given);
    let mut plan = plan.map_err(|error| CliError::plan(&error))?;
    check(&plan, subject)?;
    if let Some(budget) = &args.budget {
        plan.repeat.budget = Nanos::parse(budget).map_err(CliError::usage)?;
    }
    plan.command = words(args);
    plan.command.extend(offering.words());
    Ok(plan)
}

/// Shows a plan and how long it would take.
pub fn dry_run(plan: &Plan, format: TextOrJson) -> CommandResult {
    let estimate = forecast(plan, &lab::history::History::default());
    match format {
        TextOrJson::Json => output::print_json(&report::json::plan(plan, estimate.expected, estimate.left))?,
        TextOrJson::Text => {
            output::print(&report::table::plan(plan, estimate.expected, estimate.left, &output::look()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the findings of a run, and its comparison where it compares anything.
fn show(record: &RunRecord, finding: &RunFinding, format: TextOrJson) -> Result<(), CliError> {
    if format == TextOrJson::Json {
        return output::print_json(&report::json::run(record, finding));
    }
    output::print(&report::table::run(record, finding, Metrics::Main, &output::look()))?;
    let runs = [ComparedRun { record, finding }];
    if let Some(comparison) = planned(&runs, &record.plan) {
        output::print("")?;
        output::print(&report::table::comparison(&comparison.main_metrics(), &output::look()))?;
    }
    Ok(())
}

/// A run in which not one trial of any cell could prove its placement or give a result is not a success.
pub fn status(finding: &RunFinding, ended: RunEnd) -> ExitCode {
    if ended == RunEnd::Interrupted {
        return CliStatus::Interrupted.into();
    }
    let counted = finding.cells.iter().any(|cell| cell.verdicts.valid + cell.verdicts.suspect > 0);
    if counted { ExitCode::SUCCESS } else { CliStatus::Invalid.into() }
}
