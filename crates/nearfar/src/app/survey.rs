//! Surveys of stored runs, for `nearfar fleet compare` and for reports of several machines.

use std::collections::BTreeSet;

use model::analysis::compare::ComparedRun;
use model::analysis::finding::RunFinding;
use model::analysis::survey::{Survey, SurveyOptions, survey};
use model::values::record::{RunRecord, RunSummary};
use store::Store;

use crate::app::compare::findings;
use crate::app::results_file::readable_runs;
use crate::error::CliError;

/// Minimum number of machines for a survey in a report.
const MACHINES_MIN: usize = 3;

/// Surveys the named runs, or all runs that are real or simulated like the latest run; without suspect trials if
/// `strict`.
pub fn of(store: &Store, names: &[String], options: &SurveyOptions, strict: bool) -> Result<Survey, CliError> {
    let records = if names.is_empty() { records(store, &runs_like_latest(store)?)? } else { named(store, names)? };
    if records.is_empty() {
        return Err(CliError::usage("no runs to compare")
            .hint("run nearfar fleet run quick --on ssh:NODE,..., then nearfar fleet collect"));
    }
    of_records(store, &records, options, strict)
}

fn of_records(store: &Store, records: &[RunRecord], options: &SurveyOptions, strict: bool) -> Result<Survey, CliError> {
    let mut findings: Vec<RunFinding> = findings(store, records)?;
    if strict {
        findings.iter_mut().for_each(|finding| {
            finding.leave_out_suspect();
        });
    }
    let runs: Vec<ComparedRun<'_>> =
        records.iter().zip(&findings).map(|(record, finding)| ComparedRun { record, finding }).collect();
    survey(&runs, options).map_err(CliError::usage)
}

/// Surveys all runs; `None` if there are fewer than `MACHINES_MIN` machines.
pub fn of_several(store: &Store) -> Result<Option<Survey>, CliError> {
    let runs = runs_like_latest(store)?;
    let hosts: BTreeSet<&Option<String>> = runs.iter().map(|run| &run.host).collect();
    if hosts.len() < MACHINES_MIN {
        return Ok(None);
    }
    let survey = of_records(store, &records(store, &runs)?, &SurveyOptions::default(), false)?;
    Ok(Some(survey).filter(|survey| !survey.classes.is_empty()))
}

/// Returns the runs with trials that have the stamp of the latest run: real, simulated or smoke tests.
fn runs_like_latest(store: &Store) -> Result<Vec<RunSummary>, CliError> {
    let mut runs = readable_runs(store)?;
    runs.retain(|run| run.counted > 0);
    let latest = runs.iter().rfind(|run| !run.smoke).or(runs.last()).map(RunSummary::stamp);
    runs.retain(|run| Some(run.stamp()) == latest);
    Ok(runs)
}

fn records(store: &Store, runs: &[RunSummary]) -> Result<Vec<RunRecord>, CliError> {
    runs.iter().map(|run| store.run(&run.id.0).map_err(CliError::failure)).collect()
}

/// Returns the named runs in the order of the store, without duplicates.
fn named(store: &Store, names: &[String]) -> Result<Vec<RunRecord>, CliError> {
    let mut records: Vec<RunRecord> =
        names.iter().map(|name| store.run(name).map_err(CliError::usage)).collect::<Result<_, _>>()?;
    let order: Vec<_> = readable_runs(store)?.into_iter().map(|run| run.id).collect();
    records.sort_by_key(|record| order.iter().position(|id| *id == record.id));
    records.dedup_by(|one, other| one.id == other.id);
    Ok(records)
}
