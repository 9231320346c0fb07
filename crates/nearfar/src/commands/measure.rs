//! `nearfar measure`: measures one workload, or several commands.

use model::experiments::experiment::{CommandList, ParameterList, SingleWorkload};
use model::values::command_number::COMMAND;
use model::values::units::Nanos;
use report::table::Metrics;

use crate::app::measure::{MeasureRequest, Measured, PreciseRule, measure};
use crate::app::overwrite;
use crate::app::session::RunResult;
use crate::cli::{CommandListArgs, GlobalArgs, MeasureCommandArgs, MeasureExportArgs};
use crate::error::{CliError, CommandResult};
use crate::output;
use crate::requests::{self, NEXT_COMMAND, named_commands, pairs};
use crate::run_output::print_run;
use crate::suggestion::hint;

/// Measures one workload, or several commands, under one or more placements.
pub fn run(args: &MeasureCommandArgs, common: &GlobalArgs) -> CommandResult {
    check_workload(&args.workload)?;
    let result = measure(&request(args, common)?)?;
    export(&args.export, &result)?;
    print_run(&result, args.format, common.quiet)
}

fn request(args: &MeasureCommandArgs, common: &GlobalArgs) -> Result<MeasureRequest, CliError> {
    let list = &args.commands;
    let workload = SingleWorkload {
        workload: args.workload.clone(),
        set: parameters(args)?,
        placements: placements(args),
        threads: args.threads,
        runs: list.max_runs.unwrap_or(args.repeats.repetitions).max(list.min_runs.unwrap_or(0)),
        warmup: args.repeats.warmup,
        time_limit: Nanos::parse(&args.repeats.time_limit).map_err(CliError::usage)?,
    };
    Ok(MeasureRequest {
        session: requests::session(&args.machine, &args.guard, common),
        measured: measured(args, workload)?,
        precise: precise(list)?,
        map: requests::map(&args.map, common),
        devices: args.devices.clone(),
        smoke: args.smoke,
    })
}

/// Returns the workload, or the list of commands if the command line has a name, a parameter or several commands.
fn measured(args: &MeasureCommandArgs, mut workload: SingleWorkload) -> Result<Measured, CliError> {
    let list = &args.commands;
    let has_list = !list.names.is_empty() || !list.parameter_list.is_empty() || !list.parameter_scan.is_empty();
    let is_command = args.workload == COMMAND && !args.command.is_empty();
    if has_list && !is_command {
        return Err(CliError::usage("--command-name, --parameter-list and --parameter-scan require a command")
            .hint("nearfar measure command --parameter-list n 1,2 -- CMD {n}"));
    }
    if is_command && (has_list || args.command.iter().any(|word| word == NEXT_COMMAND)) {
        let commands = named_commands(&args.command, &list.names, &parameter_lists(list)?, has_shell(&workload))?;
        return Ok(Measured::Commands(CommandList { commands, shared: workload }));
    }
    if !args.command.is_empty() {
        workload.set.push(("argv".into(), serde_json::json!(args.command).to_string()));
    }
    Ok(Measured::Workload(workload))
}

fn has_shell(workload: &SingleWorkload) -> bool {
    workload.set.iter().any(|(name, value)| name == "shell" && value == "true")
}

fn parameter_lists(args: &CommandListArgs) -> Result<Vec<ParameterList>, CliError> {
    let step = args.parameter_step_size.as_deref().unwrap_or("1");
    let scans = args.parameter_scan.chunks(3).map(|scan| {
        ParameterList::scan(&scan[0], &scan[1], &scan[2], step)
            .map_err(|error| CliError::usage(format!("--parameter-scan: {error}")))
    });
    let lists = args.parameter_list.chunks(2).map(|list| {
        ParameterList::parse(&list[0], &list[1]).map_err(|error| CliError::usage(format!("--parameter-list: {error}")))
    });
    lists.chain(scans).collect()
}

/// Minimum number of trials without `--min-runs`, as in hyperfine.
const MIN_RUNS: u32 = 10;
/// Maximum number of trials without `--max-runs`: the noise is then a tenth of that of one trial.
const MAX_RUNS: u32 = 100;
/// Precision at which a measurement with a minimum and a maximum stops: that of experiments.
const PRECISION: f64 = 0.02;

fn precise(args: &CommandListArgs) -> Result<Option<PreciseRule>, CliError> {
    let (min, max) = match (args.min_runs, args.max_runs) {
        (None, None) => return Ok(None),
        (Some(min), None) => (min, min.max(MAX_RUNS)),
        (None, Some(max)) => (max.min(MIN_RUNS), max),
        (Some(min), Some(max)) => (min, max),
    };
    if min > max {
        return Err(CliError::usage(format!("--min-runs {min} is larger than --max-runs {max}")));
    }
    Ok(Some(PreciseRule { min, max, precision: PRECISION }))
}

/// Writes the files of the results.
fn export(args: &MeasureExportArgs, result: &RunResult) -> Result<(), CliError> {
    let RunResult { store, record, finding, .. } = result;
    if let Some(file) = &args.export_json {
        let mut bytes = Vec::new();
        store::export::hyperfine(store, &record.id, &mut bytes).map_err(CliError::failure)?;
        output::write(file, &String::from_utf8(bytes).map_err(CliError::failure)?)?;
    }
    if let Some(file) = &args.export_csv {
        output::write(file, &report::table::run_csv(record, finding))?;
    }
    if let Some(file) = &args.export_markdown {
        output::write(file, &report::table::run_markdown(record, finding, Metrics::Main))?;
    }
    Ok(())
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

fn parameters(args: &MeasureCommandArgs) -> Result<Vec<(String, String)>, CliError> {
    let hint = format!("list the parameters of {} with nearfar list workloads", args.workload);
    let mut pairs = pairs(&args.set, &hint)?;
    overwrite::allow_single(&args.workload, &mut pairs, args.allow_overwrite.as_deref())?;
    Ok(pairs)
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
