//! Selects the runs of a comparison and summarises them, from the results file or from a directory of exported runs.
//! Both sources follow the same rules and give the same results.

use std::path::{Path, PathBuf};

use model::analysis::compare::{By, ComparedRun};
use model::analysis::finding::{RunFinding, summarise};
use model::values::plan::Plan;
use model::values::record::{RunId, RunRecord};
use store::Store;
use store::parquet_dir::{FolderError, ParquetDir};

use crate::cli::CompareArgs;
use crate::error::{CliError, CliStatus};

pub struct Compared {
    by: By,
    /// Baseline of the first run's experiment.
    baseline: Option<String>,
    records: Vec<RunRecord>,
    findings: Vec<RunFinding>,
}

impl Compared {
    pub fn from_store(args: &CompareArgs, store: &Store) -> Result<Self, CliError> {
        let first = store.run(named(args)).map_err(CliError::usage)?;
        let by = by(args, &first.plan);
        let records = if args.runs.is_empty() {
            if is_of_one_run(&by) { vec![first.clone()] } else { comparable_runs(&first, store)? }
        } else {
            args.runs.iter().map(|name| store.run(name).map_err(CliError::usage)).collect::<Result<_, _>>()?
        };
        let findings = findings(store, &records)?;
        Ok(Self { by, baseline: first.plan.baseline, records, findings })
    }

    /// Loads runs from a directory of Parquet files.
    pub fn from_dir(args: &CompareArgs, dir: &str) -> Result<Self, CliError> {
        if let Some((scheme, _)) = dir.split_once("://") {
            return Err(CliError::usage(format!("--parquet {dir}: only directories can be read, not {scheme}://")).hint(
                "copy the files to a directory ('aws s3 sync', 'rclone copy') and keep their names, or query them with DuckDB",
            ));
        }
        let program = std::env::var_os("NEARFAR_DUCKDB").filter(|program| !program.is_empty());
        let program = program.map_or_else(|| PathBuf::from("duckdb"), PathBuf::from);
        let dir = ParquetDir::open(Path::new(dir), &program).map_err(failure)?;
        let listed = dir.list().map_err(failure)?;
        let newest = dir.named(&listed, named(args)).map_err(failure)?;
        let first = dir.records(std::slice::from_ref(&newest.id)).map_err(failure)?.remove(0);
        let by = by(args, &first.plan);
        let ids: Vec<RunId> = if args.runs.is_empty() {
            let matching = listed.iter().filter(|run| {
                run.id == newest.id
                    || !is_of_one_run(&by)
                        && run.experiment == newest.experiment
                        && run.is_simulated == newest.is_simulated
            });
            matching.map(|run| run.id.clone()).collect()
        } else {
            let named = |name: &String| dir.named(&listed, name).map(|run| run.id).map_err(failure);
            args.runs.iter().map(named).collect::<Result<_, _>>()?
        };
        let records = dir.records(&ids).map_err(failure)?;
        let mut findings: Vec<RunFinding> = records.iter().map(|record| summarise(&record.plan, &[])).collect();
        let visit = |at: usize, trials: Vec<_>| {
            // A run that was named twice is compared with itself.
            for (record, finding) in records.iter().zip(&mut findings).filter(|(record, _)| record.id == records[at].id)
            {
                *finding = summarise(&record.plan, &trials);
            }
        };
        dir.each(&records, visit).map_err(failure)?;
        Ok(Self { by, baseline: first.plan.baseline, records, findings })
    }

    /// Applies `compare` to the runs, with the requested dimension and baseline or those of the first run's experiment.
    pub fn compare_with<T>(
        &self,
        args: &CompareArgs,
        compare: impl Fn(&[ComparedRun<'_>], &By, Option<&str>) -> Result<T, String>,
    ) -> Result<T, CliError> {
        let pairs = self.records.iter().zip(&self.findings);
        let runs: Vec<ComparedRun<'_>> = pairs.map(|(record, finding)| ComparedRun { record, finding }).collect();
        // The experiment's baseline may be unavailable on this machine; `compare` then chooses another.
        let planned = self.baseline.as_deref().filter(|_| args.by.is_none() && args.baseline.is_none());
        let compared = planned.and_then(|baseline| compare(&runs, &self.by, Some(baseline)).ok());
        compared.map_or_else(|| compare(&runs, &self.by, args.baseline.as_deref()).map_err(CliError::usage), Ok)
    }
}

/// Summarises runs of the results file, in the same order.
pub fn findings(store: &Store, records: &[RunRecord]) -> Result<Vec<RunFinding>, CliError> {
    let finding = |record: &RunRecord| {
        let trials = store.trials(&record.id).map_err(CliError::failure)?;
        Ok(summarise(&record.plan, &trials))
    };
    records.iter().map(finding).collect()
}

/// Returns the name of the run whose experiment supplies the defaults.
fn named(args: &CompareArgs) -> &str {
    args.runs.first().map_or("latest", String::as_str)
}

fn by(args: &CompareArgs, plan: &Plan) -> By {
    By::parse(args.by.as_ref().unwrap_or(&plan.compare_by))
}

/// Whether the columns are within a run, so that one is enough; else they are machines or their states.
fn is_of_one_run(by: &By) -> bool {
    matches!(by, By::Placement | By::Threads | By::Parameter(_))
}

/// Returns all runs of the same experiment that are also real or also simulated.
fn comparable_runs(first: &RunRecord, store: &Store) -> Result<Vec<RunRecord>, CliError> {
    let mut records = Vec::new();
    for summary in store.runs().map_err(CliError::failure)? {
        if summary.experiment == first.plan.experiment && summary.simulated.is_some() == first.simulated.is_some() {
            records.push(store.run(&summary.id.0).map_err(CliError::failure)?);
        }
    }
    Ok(records)
}

fn failure(error: FolderError) -> CliError {
    let status = match error {
        FolderError::NoProgram { .. } => CliStatus::Skipped,
        FolderError::Failed { .. } | FolderError::Unreadable { .. } => CliStatus::Failure,
        _ => CliStatus::Usage,
    };
    CliError::with(status, error)
}
