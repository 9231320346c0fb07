//! `nearfar measure`: measures one workload.

use model::experiments::experiment::SingleWorkload;
use model::values::units::Nanos;

use crate::app::measure::{MeasureRequest, measure};
use crate::app::overwrite;
use crate::cli::{GlobalArgs, MeasureCommandArgs};
use crate::error::{CliError, CommandResult};
use crate::requests::{self, pairs};
use crate::run_output::print_run;
use crate::suggestion::hint;

/// Measures one workload under one or more placements.
pub fn run(args: &MeasureCommandArgs, common: &GlobalArgs) -> CommandResult {
    check_workload(&args.workload)?;
    print_run(&measure(&request(args, common)?)?, args.format, common.quiet)
}

fn request(args: &MeasureCommandArgs, common: &GlobalArgs) -> Result<MeasureRequest, CliError> {
    Ok(MeasureRequest {
        session: requests::session(&args.machine, &args.guard, common),
        workload: SingleWorkload {
            workload: args.workload.clone(),
            set: parameters(args)?,
            placements: placements(args),
            threads: args.threads,
            runs: args.repeats.repetitions,
            warmup: args.repeats.warmup,
            time_limit: Nanos::parse(&args.repeats.time_limit).map_err(CliError::usage)?,
        },
        map: requests::map(&args.map, common),
        devices: args.devices.clone(),
        smoke: args.smoke,
    })
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
    if !args.command.is_empty() {
        pairs.push(("argv".into(), serde_json::json!(args.command).to_string()));
    }
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
