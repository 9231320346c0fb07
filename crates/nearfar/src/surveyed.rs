//! Surveys of what is stored: for `nearfar fleet compare` and for the report of a results file with several machines.

use std::collections::BTreeSet;

use model::analysis::compare::ComparedRun;
use model::analysis::finding::RunFinding;
use model::analysis::survey::{Survey, SurveyOptions, survey};
use model::values::record::{RunRecord, RunSummary};
use store::Store;

use crate::compared::findings;
use crate::error::CliError;

/// With fewer machines there is nothing to look over.
const MACHINES_MIN: usize = 3;

/// The runs of these names; without any, all that are real or simulated as the latest is.
pub fn of(store: &Store, names: &[String], wish: &SurveyOptions) -> Result<Survey, CliError> {
    let records = if names.is_empty() { records(store, &alike(store)?)? } else { named(store, names)? };
    if records.is_empty() {
        return Err(CliError::usage("there are no runs to compare")
            .hint("nearfar fleet run quick --on ssh:NODE,..., then nearfar fleet collect"));
    }
    of_records(store, &records, wish)
}

fn of_records(store: &Store, records: &[RunRecord], wish: &SurveyOptions) -> Result<Survey, CliError> {
    let findings: Vec<RunFinding> = findings(store, records)?;
    let runs: Vec<ComparedRun<'_>> =
        records.iter().zip(&findings).map(|(record, finding)| ComparedRun { record, finding }).collect();
    survey(&runs, wish).map_err(CliError::usage)
}

/// Of all runs, where they are of so many machines that there is something to look over.
pub fn of_several(store: &Store) -> Result<Option<Survey>, CliError> {
    let runs = alike(store)?;
    let hosts: BTreeSet<&Option<String>> = runs.iter().map(|run| &run.host).collect();
    if hosts.len() < MACHINES_MIN {
        return Ok(None);
    }
    let survey = of_records(store, &records(store, &runs)?, &SurveyOptions::default())?;
    Ok(Some(survey).filter(|survey| !survey.classes.is_empty()))
}

/// The runs with trials that are real or simulated as the latest is.
fn alike(store: &Store) -> Result<Vec<RunSummary>, CliError> {
    let mut runs = store.runs().map_err(CliError::of)?;
    runs.retain(|run| run.counted > 0);
    let simulated = runs.last().is_some_and(|run| run.simulated.is_some());
    runs.retain(|run| run.simulated.is_some() == simulated);
    Ok(runs)
}

fn records(store: &Store, runs: &[RunSummary]) -> Result<Vec<RunRecord>, CliError> {
    runs.iter().map(|run| store.run(&run.id.0).map_err(CliError::of)).collect()
}

/// In the order of the store whatever the order of the names, each once.
fn named(store: &Store, names: &[String]) -> Result<Vec<RunRecord>, CliError> {
    let mut records: Vec<RunRecord> =
        names.iter().map(|name| store.run(name).map_err(CliError::usage)).collect::<Result<_, _>>()?;
    let order: Vec<_> = store.runs().map_err(CliError::of)?.into_iter().map(|run| run.id).collect();
    records.sort_by_key(|record| order.iter().position(|id| *id == record.id));
    records.dedup_by(|one, other| one.id == other.id);
    Ok(records)
}
