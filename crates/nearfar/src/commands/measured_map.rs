//! `nearfar map --measure`: a measured map of this machine or a simulated one; `--run` shows one again.

use std::path::Path;
use std::process::ExitCode;

use lab::history::History;
use lab::run::forecast;
use model::analysis::finding::summarise;
use model::placements::measured_map::{self, MapOptions, MeasuredMap};
use model::values::plan::Plan;
use model::values::record::RunRecord;
use store::Store;

use crate::catalogue::map_of;
use crate::cli::{GlobalArgs, MapCommandArgs, MapFormat, TextOrJson};
use crate::commands::run::{dry_run, status};
use crate::error::{CliError, CommandResult};
use crate::output;
use crate::run_guard::RunGuard;
use crate::session::{check, end_message, execute, resume_or_begin};
use crate::target_machine::{TargetMachine, existing_store, read_topology, simulated_file, source};

/// Measures a map, goes on with one, or shows one again.
pub fn run(args: &MapCommandArgs, common: &GlobalArgs) -> CommandResult {
    refuse_capture(args.format)?;
    if let Some(run) = &args.measured.run {
        let store = existing_store(common)?;
        let record = store.run(run).map_err(CliError::usage)?;
        show(&store, &record, args)?;
        return Ok(ExitCode::SUCCESS);
    }
    let prepare = || {
        let subject = TargetMachine::from_flags(&args.subject)?;
        let plan = plan(args, &subject)?;
        Ok((subject, plan))
    };
    if args.measured.dry_run {
        let (_, plan) = prepare()?;
        let format = if args.format == MapFormat::Json { TextOrJson::Json } else { TextOrJson::Text };
        return dry_run(&plan, format);
    }
    let (hold, (subject, plan)) = RunGuard::acquire(&args.hold, common, args.subject.sim.is_some(), prepare)?;
    if !common.quiet {
        let estimate = forecast(&plan, &History::default());
        eprintln!("{} cells, {} trials at most, about {}", plan.cells.len(), estimate.expected, estimate.left);
    }
    let mut store = subject.open_store(common)?;
    let record = resume_or_begin(&mut store, &subject, plan, args.measured.fresh, common.quiet)?;
    let ended = execute(&mut store, &record, &subject, &hold, common.quiet)?;
    hold.release();
    // As the store has it now: with its end.
    let record = store.run(&record.id.0).map_err(CliError::of)?;
    show(&store, &record, args)?;
    if !common.quiet {
        eprintln!("{}", end_message(ended, &record));
    }
    let finding = summarise(&record.plan, &store.trials(&record.id).map_err(CliError::of)?);
    Ok(status(&finding, ended))
}

fn refuse_capture(format: MapFormat) -> Result<(), CliError> {
    match format {
        MapFormat::Capture => Err(CliError::usage("a measured map has no capture")
            .hint("--format json has its numbers, --format xml those that hwloc knows")),
        _ => Ok(()),
    }
}

fn plan(args: &MapCommandArgs, subject: &TargetMachine) -> Result<Plan, CliError> {
    let asked = &args.measured;
    let wish = MapOptions { all_pairs: asked.all, thorough: asked.thorough, smoke: asked.smoke };
    let mut plan = measured_map::plan(&subject.machine.topology, &workloads::specs(), wish)
        .map_err(|error| CliError::plan(&error))?;
    let flags = [("--thorough", asked.thorough), ("--all", asked.all), ("--smoke", asked.smoke)];
    let given = flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag);
    plan.command = ["map", "--measure"].into_iter().chain(given).map(str::to_string).collect();
    check(&plan, subject)?;
    Ok(plan)
}

fn show(store: &Store, record: &RunRecord, args: &MapCommandArgs) -> Result<(), CliError> {
    let map = map_of(store, record)?;
    let text = match args.format {
        MapFormat::Json => {
            serde_json::to_string_pretty(&report::map::measured::json(record, &map)).map_err(CliError::of)?
        }
        MapFormat::Csv => report::map::measured::csv(record, &map),
        MapFormat::Svg => report::map::measured::svg(&map),
        MapFormat::Numactl => report::map::numactl_measured(&record.machine.topology, &map),
        MapFormat::Xml => xml(record, &map, args)?,
        _ => report::map::measured::text(record, &map, &output::look()),
    };
    output::write(args.output.as_deref().unwrap_or(Path::new("-")), &text)
}

/// The machine's own XML with the measured values in it: of this machine, of the one that was simulated, or of `--from`.
fn xml(record: &RunRecord, map: &MeasuredMap, args: &MapCommandArgs) -> Result<String, CliError> {
    let simulated = args.subject.sim.as_deref().map(simulated_file);
    let from = args.from.as_deref().or(simulated);
    if from.is_none() && record.simulated.is_some() {
        return Err(CliError::usage("this map is of a simulated machine, which is not here")
            .hint("name the machine's hwloc XML file with --from"));
    }
    // First in a child process: what hwloc survives there it survives here.
    let topology = read_topology(from)?;
    let (there, here) = (record.machine.topology.summary(), topology.summary());
    if there != here {
        return Err(CliError::usage(format!("the map is of another machine: {there}; this is {here}"))
            .hint("name the hwloc XML file of that machine with --from"));
    }
    let (attributes, matrix) = (map.memory_attributes(), map.latency_matrix());
    machine::topology::export_measured_xml(&source(from)?, &attributes, matrix.as_ref())
        .map_err(|error| CliError::topology(&error))
}
