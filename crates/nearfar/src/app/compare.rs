//! Comparisons of runs from the results file or from a directory of exported runs, and of the columns of imported
//! tables. Both sources of runs follow the same rules and give the same results.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use model::analysis::compare::{
    CompareError, ComparedRun, ComparisonRequest, choose_tests, compare, compare_table, index_table, index_with_tables,
};
use model::analysis::finding::{RunFinding, TrialNames, summarise};
use model::import::unixbench::IndexTable;
use model::values::comparison::Comparison;
use model::values::plan::{By, Plan};
use model::values::record::{ImportedTable, RunId, RunRecord, RunSummary};
use store::parquet_dir::{ParquetDir, ParquetDirError, RunListing};
use store::{Store, TrialColumns};

use crate::app::results_file::readable_runs;
use crate::error::{CliError, CliStatus};

/// Maximum number of other runs that show how much runs differ: a t interval with 20 degrees of freedom is only 6 %
/// wider than one with infinitely many.
const HISTORY_RUNS_MAX: usize = 20;

/// Maximum number of runs of the experiment among which these are searched, from the newest on.
const HISTORY_SEARCHED_MAX: usize = 100;

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
    /// Tests to compare, by their name or its first word, which is the workload; all if empty.
    pub tests: Vec<String>,
    /// Leave out suspect trials.
    pub strict: bool,
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
    /// Other runs, which show how much runs on one machine differ.
    history: Vec<(RunRecord, RunFinding)>,
    added_tables: Vec<ImportedTable>,
    /// Number of suspect trials that are left out; `None` if they are compared.
    suspect_left_out: Option<u32>,
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
        // Otherwise all comparable runs are compared.
        let is_partial = !by.is_within_runs() && !request.runs.is_empty();
        let history = if is_partial { history(&records, latest_runs(&first, store)?) } else { Vec::new() };
        let past = findings(store, &history)?;
        let history = history.into_iter().zip(past).collect();
        let findings = findings(store, &records)?;
        let added_tables = request.added_tables.iter().map(|name| store.table(name).map_err(CliError::usage));
        let added_tables = added_tables.collect::<Result<_, _>>()?;
        let loaded = Self {
            by,
            baseline: first.plan.baseline,
            records,
            findings,
            history,
            added_tables,
            suspect_left_out: None,
        };
        Ok(if request.strict { loaded.without_suspect() } else { loaded })
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
        let is_alike = |run: &RunListing| {
            run.experiment == newest.experiment
                && run.is_simulated == newest.is_simulated
                && run.is_smoke() == newest.is_smoke()
        };
        let ids: Vec<RunId> = if request.runs.is_empty() {
            let matching = listed.iter().filter(|run| run.id == newest.id || !by.is_within_runs() && is_alike(run));
            matching.map(|run| run.id.clone()).collect()
        } else {
            let named = |name: &String| dir.named(&listed, name).map(|run| run.id).map_err(failure);
            request.runs.iter().map(named).collect::<Result<_, _>>()?
        };
        let records = dir.records(&ids).map_err(failure)?;
        let history = if by.is_within_runs() || request.runs.is_empty() {
            Vec::new()
        } else {
            let alike = listed.iter().rev().filter(|run| is_alike(run)).take(HISTORY_SEARCHED_MAX);
            let ids: Vec<RunId> = alike.map(|run| run.id.clone()).collect();
            history(&records, dir.records(&ids).map_err(failure)?)
        };
        let past = dir_findings(&dir, &history)?;
        let findings = dir_findings(&dir, &records)?;
        let history = history.into_iter().zip(past).collect();
        let added_tables = Vec::new();
        let loaded = Self {
            by,
            baseline: first.plan.baseline,
            records,
            findings,
            history,
            added_tables,
            suspect_left_out: None,
        };
        Ok(if request.strict { loaded.without_suspect() } else { loaded })
    }

    fn without_suspect(mut self) -> Self {
        self.suspect_left_out = Some(self.findings.iter_mut().map(RunFinding::leave_out_suspect).sum());
        self.history.iter_mut().for_each(|(_, finding)| {
            finding.leave_out_suspect();
        });
        self
    }

    /// Compares the runs.
    pub fn comparison(&self, request: &CompareRequest) -> Result<Comparison, CliError> {
        let metric = request.metric.as_deref();
        let mut comparison = self.compared(request, metric)?;
        comparison
            .notes
            .extend(self.suspect_left_out.map(|count| format!("{count} suspect trials are left out (--strict)")));
        Ok(comparison)
    }

    pub fn records(&self) -> &[RunRecord] {
        &self.records
    }

    /// Computes the index of the runs and of the added tables.
    pub fn index(&self, request: &CompareRequest) -> Result<IndexTable, CliError> {
        self.compare_with(request, |runs, by, baseline| index_with_tables(runs, by, baseline, &self.added_tables))
    }

    fn compared(&self, request: &CompareRequest, metric: Option<&str>) -> Result<Comparison, CliError> {
        let history: Vec<ComparedRun<'_>> =
            self.history.iter().map(|(record, finding)| ComparedRun { record, finding }).collect();
        self.compare_with(request, |runs, by, baseline| {
            let added_tables = &self.added_tables;
            let tests = &request.tests;
            compare(runs, &ComparisonRequest { by, baseline, tests, metric, added_tables, history: &history })
        })
    }

    /// Applies `compare` to the runs, with the requested dimension and baseline or those of the first run's experiment.
    fn compare_with<T>(
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
        return table_comparison(column_table(request, store)?, request);
    }
    Compared::from_store(request, store)?.comparison(request)
}

/// Compares the columns of an imported table.
pub fn table_comparison(mut table: ImportedTable, request: &CompareRequest) -> Result<Comparison, CliError> {
    choose_tests(&mut table, &request.tests).map_err(CliError::usage)?;
    compare_table(&table, request.baseline.as_deref()).map_err(CliError::usage)
}

/// Computes the index of the columns of an imported table.
pub fn table_index(table: &ImportedTable, request: &CompareRequest) -> Result<IndexTable, CliError> {
    index_table(table, request.baseline.as_deref()).map_err(CliError::usage)
}

/// Returns the imported table whose columns are compared: the named one, or else the latest.
pub fn column_table(request: &CompareRequest, store: &Store) -> Result<ImportedTable, CliError> {
    let names = store.tables().map_err(CliError::failure)?;
    let name = request.table.as_ref().or(names.last()).ok_or_else(|| {
        CliError::usage("the results file contains no imported table").hint("import one with nearfar import FILE")
    })?;
    store.table(name).map_err(CliError::usage)
}

/// Summarises runs of a directory of exported runs, in the same order.
fn dir_findings(dir: &ParquetDir, records: &[RunRecord]) -> Result<Vec<RunFinding>, CliError> {
    let mut findings: Vec<RunFinding> = records.iter().map(|record| summarise(&record.plan, &[])).collect();
    let visit = |at: usize, trials: Vec<_>| {
        // A run that was named twice is compared with itself.
        for (record, finding) in records.iter().zip(&mut findings).filter(|(record, _)| record.id == records[at].id) {
            *finding = summarise(&record.plan, &trials);
        }
    };
    dir.each(records, visit).map_err(failure)?;
    Ok(findings)
}

/// Summarises runs of the results file, in the same order.
pub fn findings(store: &Store, records: &[RunRecord]) -> Result<Vec<RunFinding>, CliError> {
    let finding =
        |record| store.finding(record, TrialColumns::WithoutEvidence, TrialNames::LeftOut).map_err(CliError::failure);
    records.iter().map(finding).collect()
}

/// Returns those of all comparable runs that are not compared themselves, but were measured on the machine and with the
/// settings of a compared run: the newest ones, sorted from newest to oldest.
pub fn history(compared: &[RunRecord], all: Vec<RunRecord>) -> Vec<RunRecord> {
    let state = |record: &RunRecord| (record.host.clone(), record.machine.settings.fingerprint());
    let states: BTreeSet<_> = compared.iter().map(state).collect();
    let is_compared = |record: &RunRecord| compared.iter().any(|other| other.id == record.id);
    let mut others: Vec<RunRecord> =
        all.into_iter().filter(|record| !is_compared(record) && states.contains(&state(record))).collect();
    others.sort_by_key(|record| std::cmp::Reverse(record.started_unix_ms));
    others.truncate(HISTORY_RUNS_MAX);
    others
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
    alike(first, store)?.iter().map(|run| store.run(&run.id.0).map_err(CliError::failure)).collect()
}

/// Returns the newest runs of the same experiment with the same stamp.
pub fn latest_runs(first: &RunRecord, store: &Store) -> Result<Vec<RunRecord>, CliError> {
    let mut runs = alike(first, store)?;
    runs.sort_by(|one, other| (other.started_unix_ms, &other.id).cmp(&(one.started_unix_ms, &one.id)));
    runs.truncate(HISTORY_SEARCHED_MAX);
    runs.iter().map(|run| store.run(&run.id.0).map_err(CliError::failure)).collect()
}

fn alike(first: &RunRecord, store: &Store) -> Result<Vec<RunSummary>, CliError> {
    let mut runs = readable_runs(store)?;
    runs.retain(|run| run.experiment == first.plan.experiment && run.stamp() == first.stamp());
    Ok(runs)
}

fn failure(error: ParquetDirError) -> CliError {
    let status = match error {
        ParquetDirError::NoProgram { .. } => CliStatus::Skipped,
        ParquetDirError::Failed { .. } | ParquetDirError::Unreadable { .. } => CliStatus::Failure,
        _ => CliStatus::Usage,
    };
    CliError::with(status, error)
}
