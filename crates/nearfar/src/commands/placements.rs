//! `nearfar placements`: what a machine offers, with reasons and ready-to-paste lines.

use std::process::ExitCode;

use model::placement;

use crate::cli::{Common, Placements, TextOrJson};
use crate::failure::{Failure, Outcome, Status};
use crate::{output, subject};

/// Stands for the user's command in the lines when none is given.
const PLACEHOLDER: &str = "CMD";

/// Shows placements.
pub fn run(args: &Placements, _common: &Common) -> Outcome {
    let topology = subject::read_topology(args.from.as_deref())?;
    let kernel = machine::settings::kernel_offers();
    let offers = if args.placements.is_empty() {
        placement::offer_all(&topology, args.threads, kernel)
    } else {
        let chosen = args.placements.iter().map(|text| placement::offer(&topology, text, args.threads, kernel));
        chosen.collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?
    };
    let command = if args.command.is_empty() { vec![PLACEHOLDER.to_string()] } else { args.command.clone() };
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::placements(&offers, &topology, &command))?,
        TextOrJson::Text => {
            output::print(&report::table::placements(
                &offers,
                &topology,
                &command,
                output::width(),
                output::colours(),
            ))?;
        }
    }
    let any = offers.iter().any(|offer| offer.placement.is_ok());
    Ok(if any { ExitCode::SUCCESS } else { Status::Skipped.into() })
}
