//! `nearfar map --measure` and `--run`: measures a map of this machine or a simulated one, or shows a stored one.

use std::path::Path;
use std::process::ExitCode;

use model::placements::measured_map::{MapOptions, MeasuredMap};
use model::values::record::RunRecord;
use store::Store;

use crate::app::catalogue::{map_of, of_other_machine};
use crate::app::measured_map::{MeasuredMapRequest, measure, plan};
use crate::app::session::ResumeRule;
use crate::app::target_machine::{read_topology, simulated_file, source};
use crate::cli::{GlobalArgs, MapCommandArgs, MapFormat, TextOrJson};
use crate::error::{CliError, CommandResult};
use crate::output;
use crate::requests::{self, existing_store, theme};
use crate::run_output::{end_message, print_plan, status};

use super::weights;

/// Measures a map, resumes an unfinished run, or shows the map of a stored run.
pub fn run(args: &MapCommandArgs, common: &GlobalArgs) -> CommandResult {
    reject_capture(args.format)?;
    if args.measured.weights {
        weights::check(args)?;
    }
    if let Some(run) = &args.measured.run {
        if args.measured.dry_run && !args.measured.apply {
            return Err(CliError::usage("--dry-run requires --measure or --apply").hint("remove --dry-run"));
        }
        let store = existing_store(common)?;
        let record = store.run(run).map_err(CliError::usage)?;
        show(&store, &record, args, common)?;
        return Ok(ExitCode::SUCCESS);
    }
    let request = request(args, common);
    if args.measured.dry_run {
        let format = if args.format == MapFormat::Json { TextOrJson::Json } else { TextOrJson::Text };
        return print_plan(&plan(&request)?, format);
    }
    let result = measure(&request)?;
    // An interrupted run shows what it has, but weights need all nodes.
    if !args.measured.weights || result.record.ended.is_some() {
        show(&result.store, &result.record, args, common)?;
    }
    if !common.quiet {
        message!("{}", end_message(result.end, &result.record));
    }
    Ok(status(&result.finding, result.end))
}

fn request(args: &MapCommandArgs, common: &GlobalArgs) -> MeasuredMapRequest {
    let measured = &args.measured;
    MeasuredMapRequest {
        session: requests::session(&args.machine, &args.guard, common),
        options: MapOptions { all_pairs: measured.all, thorough: measured.thorough, smoke: measured.smoke },
        resume: ResumeRule::new(measured.fresh, measured.resume.as_deref()),
    }
}

fn reject_capture(format: MapFormat) -> Result<(), CliError> {
    match format {
        MapFormat::Capture => Err(CliError::usage("--format capture is not supported for a measured map")
            .hint("use --format json, or --format xml for the values that hwloc supports")),
        _ => Ok(()),
    }
}

fn show(store: &Store, record: &RunRecord, args: &MapCommandArgs, common: &GlobalArgs) -> Result<(), CliError> {
    let map = map_of(store, record)?;
    if args.measured.weights {
        return weights::show(record, &map, args, common);
    }
    let text = match args.format {
        MapFormat::Json => {
            serde_json::to_string_pretty(&report::map::measured::json(record, &map)).map_err(CliError::failure)?
        }
        MapFormat::Csv => report::map::measured::csv(record, &map),
        MapFormat::Svg => report::map::measured::svg(&map, record.stamp(), theme(args.theme)),
        MapFormat::Numactl => report::map::numactl_measured(record, &map),
        MapFormat::Xml => xml(record, &map, args)?,
        _ => report::map::measured::text(record, &map, &output::stdout_style()),
    };
    output::write(args.output.as_deref().unwrap_or(Path::new("-")), &text)
}

/// Returns the XML of the machine (this one, the simulated one, or `--from`) with the measured values added.
fn xml(record: &RunRecord, map: &MeasuredMap, args: &MapCommandArgs) -> Result<String, CliError> {
    let simulated = args.machine.sim.as_deref().map(simulated_file);
    let from = args.from.as_deref().or(simulated);
    if from.is_none() && record.simulated.is_some() {
        return Err(CliError::usage("the map is of a simulated machine, whose topology is not available")
            .hint("pass the hwloc XML file of the machine with --from"));
    }
    // First in a child process, because hwloc may crash on an invalid file.
    let topology = read_topology(from)?;
    let there = &record.machine.topology;
    if there.summary() != topology.summary() {
        return Err(CliError::usage(of_other_machine(there, &topology))
            .hint("pass the hwloc XML file of that machine with --from"));
    }
    let (attributes, matrix) = (map.memory_attributes(), map.latency_matrix());
    machine::topology::export_measured_xml(&source(from)?, &attributes, matrix.as_ref())
        .map_err(|error| CliError::topology(&error))
}
