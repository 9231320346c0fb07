//! Comparisons of runs from the results file or from a directory of exported runs, and of the columns of imported
//! tables. Both sources of runs follow the same rules and give the same results.

use std::path::{Path, PathBuf};

use model::analysis::compare::{
    CompareError, ComparedRun, ComparisonRequest, compare, compare_table, index, index_table,
};
use model::analysis::finding::{RunFinding, summarise};
use model::import::unixbench::IndexTable;
use model::values::comparison::Comparison;
use model::values::plan::{By, Plan};
use model::values::record::{ImportedTable, RunId, RunRecord};
use store::Store;
use store::parquet_dir::{ParquetDir, ParquetDirError};

use crate::app::results_file::readable_runs;
use crate::error::{CliError, CliStatus};

/// The runs to compare, and how.
pub struct CompareRequest {
    /// Names of runs; the latest if empty.
    pub runs: Vec<String>,
    /// The columns; chosen by the experiment if not set.
    pub by: Option<String>,
    /// The column that the others are compared with.
    pub baseline: Option<String>,
    /// Name of an imported table.
    pub table: Option<String>,
    /// Main metric of all tests, instead of that of each workload.
    pub metric: Option<String>,
    /// Names of imported tables whose columns are added to those of the runs.
    pub added_tables: Vec<String>,
}

impl CompareRequest {
    /// Whether the columns of an imported table are compared.
    pub fn is_by_column(&self) -> bool {
        self.by.as_deref().map_or(self.table.is_some(), |by| by == "column")
    }
}

pub struct Compared {
    by: By,
    /// Baseline of the first run's experiment.
    baseline: Option<String>,
    records: Vec<RunRecord>,
    findings: Vec<RunFinding>,
    added_tables: Vec<ImportedTable>,
}

impl Compared {
    pub fn from_store(request: &CompareRequest, store: &Store) -> Result<Self, CliError> {
        let first = store.run(named(request)).map_err(CliError::usage)?;
        let by = by(request, &first.plan);
        let records = if request.runs.is_empty() {
            if by.is_within_runs() { vec![first.clone()] } else { comparable_runs(&first, store)? }
        } else {
            request.runs.iter().map(|name| store.run(name).map_err(CliError::usage)).collect::<Result<_, _>>()?
        };
        let findings = findings(store, &records)?;
        let added_tables = request.added_tables.iter().map(|name| store.table(name).map_err(CliError::usage));
        let added_tables = added_tables.collect::<Result<_, _>>()?;
        Ok(Self { by, baseline: first.plan.baseline, records, findings, added_tables })
    }

    /// Loads runs from a directory of Parquet files.
    pub fn from_dir(request: &CompareRequest, dir: &str) -> Result<Self, CliError> {
        if let Some((scheme, _)) = dir.split_once("://") {
            return Err(CliError::usage(format!("--parquet {dir}: only directories can be read, not {scheme}://")).hint(
                "copy the files to a directory ('aws s3 sync', 'rclone copy') and keep their names, or query them with DuckDB",
            ));
        }
        let program = std::env::var_os("NEARFAR_DUCKDB").filter(|program| !program.is_empty());
        let program = program.map_or_else(|| PathBuf::from("duckdb"), PathBuf::from);
        let dir = ParquetDir::open(Path::new(dir), &program).map_err(failure)?;
        let listed = dir.list().map_err(failure)?;
        let newest = dir.named(&listed, named(request)).map_err(failure)?;
        let first = dir.records(std::slice::from_ref(&newest.id)).map_err(failure)?.remove(0);
        let by = by(request, &first.plan);
        let ids: Vec<RunId> = if request.runs.is_empty() {
            let matching = listed.iter().filter(|run| {
                run.id == newest.id
                    || !by.is_within_runs()
                        && run.experiment == newest.experiment
                        && run.is_simulated == newest.is_simulated
                        && run.is_smoke() == newest.is_smoke()
            });
            matching.map(|run| run.id.clone()).collect()
        } else {
            let named = |name: &String| dir.named(&listed, name).map(|run| run.id).map_err(failure);
            request.runs.iter().map(named).collect::<Result<_, _>>()?
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
        Ok(Self { by, baseline: first.plan.baseline, records, findings, added_tables: Vec::new() })
    }

    /// Compares the runs.
    pub fn comparison(&self, request: &CompareRequest) -> Result<Comparison, CliError> {
        let metric = request.metric.as_deref();
        self.compare_with(request, |runs, by, baseline| {
            compare(runs, &ComparisonRequest { by, baseline, metric, added_tables: &self.added_tables })
        })
    }

    /// Applies `compare` to the runs, with the requested dimension and baseline or those of the first run's experiment.
    pub fn compare_with<T>(
        &self,
        request: &CompareRequest,
        compare: impl Fn(&[ComparedRun<'_>], &By, Option<&str>) -> Result<T, CompareError>,
    ) -> Result<T, CliError> {
        let pairs = self.records.iter().zip(&self.findings);
        let runs: Vec<ComparedRun<'_>> = pairs.map(|(record, finding)| ComparedRun { record, finding }).collect();
        // The experiment's baseline may be unavailable on this machine; `compare` then chooses another.
        let planned = self.baseline.as_deref().filter(|_| request.by.is_none() && request.baseline.is_none());
        let compared = planned.and_then(|baseline| compare(&runs, &self.by, Some(baseline)).ok());
        compared.map_or_else(|| compare(&runs, &self.by, request.baseline.as_deref()).map_err(CliError::usage), Ok)
    }
}

/// Compares stored runs or the columns of an imported table.
pub fn comparison(request: &CompareRequest, store: &Store) -> Result<Comparison, CliError> {
    if request.is_by_column() {
        return compare_table(&table(request, store)?, request.baseline.as_deref()).map_err(CliError::usage);
    }
    Compared::from_store(request, store)?.comparison(request)
}

/// Computes the index of stored runs or of the columns of an imported table.
pub fn indices(request: &CompareRequest, store: &Store) -> Result<IndexTable, CliError> {
    if request.is_by_column() {
        return index_table(&table(request, store)?, request.baseline.as_deref()).map_err(CliError::usage);
    }
    Compared::from_store(request, store)?.compare_with(request, index)
}

fn table(request: &CompareRequest, store: &Store) -> Result<ImportedTable, CliError> {
    let names = store.tables().map_err(CliError::failure)?;
    let name = request.table.as_ref().or(names.last()).ok_or_else(|| {
        CliError::usage("the results file contains no imported table").hint("import one with nearfar import FILE")
    })?;
    store.table(name).map_err(CliError::usage)
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
fn named(request: &CompareRequest) -> &str {
    request.runs.first().map_or("latest", String::as_str)
}

fn by(request: &CompareRequest, plan: &Plan) -> By {
    By::parse(request.by.as_ref().unwrap_or(&plan.compare_by))
}

/// Returns all runs of the same experiment with the same stamp: also real, simulated or smoke tests.
fn comparable_runs(first: &RunRecord, store: &Store) -> Result<Vec<RunRecord>, CliError> {
    let mut records = Vec::new();
    for summary in readable_runs(store)? {
        if summary.experiment == first.plan.experiment && summary.stamp() == first.stamp() {
            records.push(store.run(&summary.id.0).map_err(CliError::failure)?);
        }
    }
    Ok(records)
}

fn failure(error: ParquetDirError) -> CliError {
    let status = match error {
        ParquetDirError::NoProgram { .. } => CliStatus::Skipped,
        ParquetDirError::Failed { .. } | ParquetDirError::Unreadable { .. } => CliStatus::Failure,
        _ => CliStatus::Usage,
    };
    CliError::with(status, error)
}
