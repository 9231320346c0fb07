//! `nearfar placements`: what a machine offers, with reasons and ready-to-paste lines.

use std::process::ExitCode;

use model::placement::{self, Offer, lines};
use report::table::OfferLines;

use crate::cli::{Common, Placements, TextOrJson};
use crate::failure::{Failure, Outcome, Status};
use crate::offering::Offering;
use crate::{output, subject};

/// Stands for the user's command in the lines when none is given.
const PLACEHOLDER: &str = "CMD";

/// Shows placements.
pub fn run(args: &Placements, common: &Common) -> Outcome {
    let stated = subject::read_topology(args.from.as_deref())?;
    let topology = Offering::new(&stated, None, &args.by, common)?.topology;
    let kernel = workloads::offers();
    placement::devices(&topology, &args.devices).map_err(Failure::usage)?;
    let offers = if args.placements.is_empty() {
        placement::offer_all(&topology, args.threads, kernel, &args.devices)
    } else {
        let offer = |text: &String| placement::offer(&topology, text, args.threads, kernel, &args.devices);
        let chosen = args.placements.iter().map(offer);
        chosen.collect::<Result<_, _>>().map_err(Failure::usage)?
    };
    let command = if args.command.is_empty() { PLACEHOLDER.into() } else { model::shell::quoted(&args.command) };
    let with_lines =
        |offer: &Offer| offer.placement.as_ref().ok().map(|placement| lines(placement, &topology, &command));
    let offers: Vec<OfferLines<'_>> =
        offers.iter().map(|offer| OfferLines { offer, lines: with_lines(offer) }).collect();
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::placements(&offers))?,
        TextOrJson::Text => output::print(&report::table::placements(&offers, &output::look()))?,
    }
    let any = offers.iter().any(|one| one.offer.placement.is_ok());
    Ok(if any { ExitCode::SUCCESS } else { Status::Skipped.into() })
}
