//! `nearfar map`: shows the topology of a machine.

mod measured;
mod weights;

use std::path::Path;
use std::process::ExitCode;

use crate::app::target_machine;
use crate::cli::{GlobalArgs, MapCommandArgs, MapFormat};
use crate::error::{CliError, CommandResult};
use crate::output;
use crate::requests::theme;

pub fn run(args: &MapCommandArgs, common: &GlobalArgs) -> CommandResult {
    if args.measured.measure || args.measured.run.is_some() {
        return measured::run(args, common);
    }
    reject_options_of_measured_maps(args)?;
    let text = match args.format {
        MapFormat::Xml => xml(args)?,
        MapFormat::Capture => capture(args)?,
        _ => rendered(args)?,
    };
    output::write(args.output.as_deref().unwrap_or(Path::new("-")), &text)?;
    Ok(ExitCode::SUCCESS)
}

fn reject_options_of_measured_maps(args: &MapCommandArgs) -> Result<(), CliError> {
    let machine = &args.machine;
    let given = [
        ("--weights", args.measured.weights),
        ("--dry-run", args.measured.dry_run),
        ("--sim", machine.sim.is_some()),
        ("--seed", machine.seed.is_some()),
        ("--host-label", machine.host_label.is_some()),
        ("--label", !machine.labels.is_empty()),
        ("--format csv", args.format == MapFormat::Csv),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(CliError::usage(format!("{flag} requires --measure")).hint("add --measure")),
        None => Ok(()),
    }
}

fn rendered(args: &MapCommandArgs) -> Result<String, CliError> {
    let topology = target_machine::read_topology(args.from.as_deref())?;
    let settings = args.from.is_none().then(machine::settings::read);
    let counts = args.from.is_none().then(machine::interrupt::counts).transpose();
    let counts = counts.map_err(|error| CliError::failure(format!("/proc/interrupts: {error}")))?;
    Ok(match args.format {
        MapFormat::Json => pretty(&report::map::json(&topology, settings.as_ref(), counts.as_ref()))?,
        MapFormat::Svg => report::map::svg(&topology, None, theme(args.theme)),
        MapFormat::Numactl => {
            let free = args.from.is_none().then(machine::nodes::free_by_node);
            report::map::numactl(&topology, free.as_ref())
        }
        _ => {
            let style = output::stdout_style();
            let text = report::map::text(&topology, settings.as_ref(), &style);
            let more = args.interrupts.then(|| report::map::interrupts(&topology, counts.as_ref(), &style));
            [Some(text), more].into_iter().flatten().collect::<Vec<_>>().join("\n")
        }
    })
}

fn xml(args: &MapCommandArgs) -> Result<String, CliError> {
    let source = target_machine::source(args.from.as_deref())?;
    // First in a child process, because hwloc may crash on an invalid file.
    target_machine::read_topology(args.from.as_deref())?;
    machine::topology::export_xml(&source).map_err(|error| CliError::topology(&error))
}

fn capture(args: &MapCommandArgs) -> Result<String, CliError> {
    if args.from.is_some() {
        let topology = target_machine::read_topology(args.from.as_deref())?;
        let settings = model::values::settings::Settings::default();
        return pretty(&model::values::capture::Capture::new(topology, settings));
    }
    let own = target_machine::current_exe()?;
    pretty(&machine::capture::read_live_isolated(&own).map_err(|error| CliError::topology(&error))?)
}

fn pretty(value: &impl serde::Serialize) -> Result<String, CliError> {
    serde_json::to_string_pretty(value).map_err(CliError::failure)
}
