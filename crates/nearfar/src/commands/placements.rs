//! `nearfar placements`: lists the placements of a machine, with reasons and command lines.

use std::process::ExitCode;

use model::placements::placement::{self, PolicyResult, lines};
use report::table::PolicyLines;

use crate::app::catalogue::PlacementCatalogue;
use crate::app::target_machine;
use crate::cli::{GlobalArgs, PlacementsArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::{output, requests, suggestion};

/// Placeholder in command lines if no command is given.
const PLACEHOLDER: &str = "CMD";

pub fn run(args: &PlacementsArgs, common: &GlobalArgs) -> CommandResult {
    let reported = target_machine::read_topology(args.from.as_deref())?;
    let topology = PlacementCatalogue::new(&reported, None, &requests::map(&args.map, common))?.topology;
    let kernel = workloads::offers();
    placement::devices(&topology, &args.devices).map_err(CliError::usage)?;
    let results = if args.placements.is_empty() {
        placement::offer_all(&topology, args.threads, kernel, &args.devices)
    } else {
        let result = |text: &String| placement::offer(&topology, text, args.threads, kernel, &args.devices);
        let chosen = args.placements.iter().map(result);
        chosen
            .collect::<Result<_, _>>()
            .map_err(|error| CliError::usage(error).maybe_hint(suggestion::policy_hint(&args.placements).as_deref()))?
    };
    let command =
        if args.command.is_empty() { PLACEHOLDER.into() } else { model::values::shell::quote_argv(&args.command) };
    let with_lines =
        |offer: &PolicyResult| offer.placement.as_ref().ok().map(|placement| lines(placement, &topology, &command));
    let results: Vec<PolicyLines<'_>> =
        results.iter().map(|offer| PolicyLines { offer, lines: with_lines(offer) }).collect();
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::placements(&results))?,
        TextOrJson::Text => output::print(&report::table::placements(&results, &output::stdout_style()))?,
    }
    let any = results.iter().any(|one| one.offer.placement.is_ok());
    Ok(if any { ExitCode::SUCCESS } else { CliStatus::Skipped.into() })
}
