//! `nearfar placements`: what a machine offers, with reasons and ready-to-paste lines.

use std::process::ExitCode;

use model::placements::placement::{self, PolicyResult, lines};
use report::table::PolicyLines;

use crate::catalogue::PlacementCatalogue;
use crate::cli::{GlobalArgs, PlacementsArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::{output, target_machine};

/// Stands for the user's command in the lines when none is given.
const PLACEHOLDER: &str = "CMD";

pub fn run(args: &PlacementsArgs, common: &GlobalArgs) -> CommandResult {
    let stated = target_machine::read_topology(args.from.as_deref())?;
    let topology = PlacementCatalogue::new(&stated, None, &args.by, common)?.topology;
    let kernel = workloads::offers();
    placement::devices(&topology, &args.devices).map_err(CliError::usage)?;
    let offers = if args.placements.is_empty() {
        placement::offer_all(&topology, args.threads, kernel, &args.devices)
    } else {
        let offer = |text: &String| placement::offer(&topology, text, args.threads, kernel, &args.devices);
        let chosen = args.placements.iter().map(offer);
        chosen.collect::<Result<_, _>>().map_err(CliError::usage)?
    };
    let command =
        if args.command.is_empty() { PLACEHOLDER.into() } else { model::values::shell::quote_argv(&args.command) };
    let with_lines =
        |offer: &PolicyResult| offer.placement.as_ref().ok().map(|placement| lines(placement, &topology, &command));
    let offers: Vec<PolicyLines<'_>> =
        offers.iter().map(|offer| PolicyLines { offer, lines: with_lines(offer) }).collect();
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::placements(&offers))?,
        TextOrJson::Text => output::print(&report::table::placements(&offers, &output::look()))?,
    }
    let any = offers.iter().any(|one| one.offer.placement.is_ok());
    Ok(if any { ExitCode::SUCCESS } else { CliStatus::Skipped.into() })
}
