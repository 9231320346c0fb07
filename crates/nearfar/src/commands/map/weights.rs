//! `nearfar map --weights`: weights for weighted interleaving from a measured map, printed or set in the kernel.

use std::collections::BTreeMap;
use std::path::Path;

use machine::interleave_weights;
use machine::undo::{self, SettingsRoot};
use model::placements::measured_map::{MeasuredMap, NodeWeight, WeightError, WeightsFinding, WeightsState};
use model::values::id_set::NodeId;
use model::values::record::RunRecord;

use crate::app::catalogue::of_other_machine;
use crate::app::run_guard::{GuardRequest, RunGuard, failure, site};
use crate::app::target_machine::{read_topology, simulated_file};
use crate::cli::{GlobalArgs, MapCommandArgs, MapFormat};
use crate::error::{CliError, CliStatus};
use crate::output;

const SIMULATED: &str = "the weights of a simulated machine cannot be set in the kernel";
const SMOKE: &str = "the weights of a smoke test say nothing about this machine";

/// Checks what can be checked before the measurement.
pub fn check(args: &MapCommandArgs) -> Result<(), CliError> {
    if !matches!(args.format, MapFormat::Text | MapFormat::Json) {
        return Err(CliError::usage("weights are printed as text or JSON").hint("use --format text or --format json"));
    }
    if args.measured.measure {
        let simulated = args.machine.sim.as_deref().map(simulated_file);
        let weights = MeasuredMap::default().interleave_weights(&read_topology(simulated)?);
        if let Err(error @ WeightError::OneNode) = weights {
            return Err(CliError::with(CliStatus::Skipped, error));
        }
    }
    if !args.measured.apply {
        return Ok(());
    }
    let root = args.guard.settings_root.as_deref();
    if root.is_none() && args.machine.sim.is_some() {
        return Err(refuse_map(SIMULATED));
    }
    if root.is_none() && args.measured.smoke {
        return Err(refuse_map(SMOKE));
    }
    let kernel = interleave_weights::read(&site(root).root);
    kernel.map(drop).ok_or_else(|| {
        CliError::with(CliStatus::Skipped, "this kernel has no weighted interleaving")
            .hint("use Linux 6.9 or later, or print the weights without --apply")
    })
}

/// Prints the weights of a map, and sets them if `--apply` requests it.
pub fn show(record: &RunRecord, map: &MeasuredMap, args: &MapCommandArgs, common: &GlobalArgs) -> Result<(), CliError> {
    let weights = map.interleave_weights(&record.machine.topology).map_err(CliError::failure)?;
    let site = site(args.guard.settings_root.as_deref());
    let origin = check_origin(record, args)?;
    let kernel = interleave_weights::read(&site.root).filter(|_| origin.is_ok());
    let mut finding = WeightsFinding { weights, kernel, state: WeightsState::Computed, writes: Vec::new() };
    if args.measured.apply {
        origin?;
        let values = values(&finding.weights);
        finding.writes = interleave_weights::writes(&site.root, &values);
        finding.state =
            if args.measured.dry_run { WeightsState::Planned } else { apply(&site, &values, args, common)? };
    }
    let text = match args.format {
        MapFormat::Json => {
            serde_json::to_string_pretty(&report::map::weights::json(record, &finding)).map_err(CliError::failure)?
        }
        _ => report::map::weights::text(record, &finding, &output::stdout_style()),
    };
    output::write(args.output.as_deref().unwrap_or(Path::new("-")), &text)
}

/// Checks that a map has measured this machine. The inner error is the reason why it has not.
fn check_origin(record: &RunRecord, args: &MapCommandArgs) -> Result<Result<(), CliError>, CliError> {
    // A recorded tree belongs to any machine.
    if args.guard.settings_root.is_some() {
        return Ok(Ok(()));
    }
    let stamp = record.stamp();
    if stamp.simulated {
        return Ok(Err(refuse_map(SIMULATED)));
    }
    let (there, here) = (&record.machine.topology, read_topology(None)?);
    if there.fixed() != here.fixed() {
        return Ok(Err(refuse_map(&of_other_machine(there, &here))));
    }
    Ok(if stamp.smoke { Err(refuse_map(SMOKE)) } else { Ok(()) })
}

fn refuse_map(why: &str) -> CliError {
    CliError::usage(why).hint("measure this machine with nearfar map --measure --weights --apply")
}

fn values(weights: &[NodeWeight]) -> BTreeMap<NodeId, u8> {
    weights.iter().map(|one| (one.node, one.weight)).collect()
}

/// Sets weights. Those that were set earlier are restored first, so that the journal has the original ones.
fn apply(
    site: &SettingsRoot,
    values: &BTreeMap<NodeId, u8>,
    args: &MapCommandArgs,
    common: &GlobalArgs,
) -> Result<WeightsState, CliError> {
    // Other weights would disturb a measurement.
    let request = GuardRequest { wait: args.guard.wait, quiet: common.quiet, ..GuardRequest::default() };
    let (guard, ()) = RunGuard::acquire(&request, false, || Ok(()))?;
    let journal = interleave_weights::journal_of(site);
    let restored = undo::restore(&journal, false).map_err(|error| failure(&error))?;
    if let Some(changed) = restored.iter().find(|restored| !restored.is_settled()) {
        return Err(CliError::failure(format!("weights that were set earlier cannot be restored: {changed}")).hint(
            "restore them with nearfar restore --force, or keep the present values with nearfar restore --forget",
        ));
    }
    interleave_weights::apply(&journal, values).map_err(|error| failure(&error))?;
    guard.release();
    Ok(WeightsState::Applied)
}
