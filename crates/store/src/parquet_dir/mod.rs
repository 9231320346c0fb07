//! Loads runs from a directory of exported Parquet files, for comparisons: their records and, of each counted trial,
//! four samples per series. DuckDB, a separate program, reads the files. Must not depend on what the values mean.

mod duckdb;
mod error;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::values::capture::Capture;
use model::values::plan::Plan;
use model::values::record::{EndReason, RunId, RunRecord, TrialRecord};
use model::values::settings::Settings;
use model::values::stamp::is_smoke_command;
use model::values::topology::Topology;
use model::values::trial::{Evidence, Grade, Role, Sample, TrialId, TrialOutcome, TrialStatus, Verdict};
use model::values::units::Nanos;
use serde::Deserialize;
use serde_json::Value;

pub use self::error::ParquetDirError;

use self::duckdb::{Duckdb, quoted};
use crate::error::LATEST;

/// Maximum number of runs compared at once: their records and findings are kept in memory.
pub const RUNS_MAX: usize = 2_000;

/// Columns that every exported file has, and those that later versions added.
const REQUIRED: &[&str] =
    &["run", "trial", "position", "role", "block", "attempt", "status", "verdict", "series", "ordinal", "value"];
const ADDED: &[&str] = &["cell", "seed", "plan_json", "facts"];

/// All files of the directory tree; the values in directory names are columns of the files too.
const FILES: &str = "read_parquet('**/*.parquet', hive_partitioning = false, union_by_name = true)";

/// Selects one row per run, also in files that contain several runs.
const FIRST: &str = "position = 0 AND (ordinal = 0 OR ordinal IS NULL)";

/// A directory of exported runs.
#[derive(Debug)]
pub struct ParquetDir {
    duckdb: Duckdb,
    dir: PathBuf,
}

/// A row of [`ParquetDir::list`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RunListing {
    #[serde(rename = "run")]
    pub id: RunId,
    pub experiment: String,
    /// Whether the machine was simulated.
    pub is_simulated: bool,
    /// The arguments that reproduce the run, if known.
    #[serde(default)]
    command: Option<Vec<String>>,
    /// Start time, milliseconds since 1970.
    pub started: u64,
}

impl RunListing {
    pub fn is_smoke(&self) -> bool {
        self.command.as_deref().is_some_and(is_smoke_command)
    }
}

impl ParquetDir {
    /// Opens a directory. `program` is DuckDB: a name found in `PATH`, or a path. Checks that every file was exported
    /// by this program.
    pub fn open(dir: &Path, program: &Path) -> Result<Self, ParquetDirError> {
        if !dir.is_dir() {
            return Err(ParquetDirError::Missing { dir: dir.into() });
        }
        let opened = Self { duckdb: Duckdb::new(program, dir)?, dir: dir.into() };
        opened.check_files()?;
        Ok(opened)
    }

    fn check_files(&self) -> Result<(), ParquetDirError> {
        #[derive(Deserialize)]
        struct File {
            file: String,
            required: usize,
            files: usize,
        }
        let names = |names: &[&str]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        let (required, added) = (names(REQUIRED), names(ADDED));
        // Without files there is no schema, which DuckDB reports as an error.
        let count = "SELECT '' AS file, 0 AS required, count(*) AS files FROM glob('**/*.parquet')";
        let mut files = 0;
        self.duckdb.query(count, |row: File| {
            files = row.files;
            Ok(())
        })?;
        if files == 0 {
            return Err(ParquetDirError::Empty { dir: self.dir.clone() });
        }
        let incomplete = format!(
            "SELECT file_name AS file, count(*) FILTER (name IN ({required})) AS required, {files} AS files \
             FROM parquet_schema('**/*.parquet') GROUP BY file_name \
             HAVING count(*) FILTER (name IN ({required}, {added})) < {} ORDER BY file_name LIMIT 1",
            REQUIRED.len() + ADDED.len()
        );
        self.duckdb.query(&incomplete, |row: File| {
            let file = self.dir.join(row.file.trim_start_matches("./"));
            Err(if row.required < REQUIRED.len() {
                ParquetDirError::Foreign { file }
            } else {
                ParquetDirError::Older { file }
            })
        })
    }

    /// All runs by start time.
    pub fn list(&self) -> Result<Vec<RunListing>, ParquetDirError> {
        let mut runs: Vec<RunListing> = Vec::new();
        let sql = format!(
            "SELECT DISTINCT run, plan_json ->> 'experiment' AS experiment, simulated IS NOT NULL AS is_simulated, \
             epoch_ms(run_started) AS started, \
             plan_json ->> '$.command[*]' AS command FROM {FILES} WHERE {FIRST} ORDER BY started, run"
        );
        self.duckdb.query(&sql, |run: RunListing| {
            runs.push(run);
            Ok(())
        })?;
        Ok(runs)
    }

    /// The run of this list that a name denotes: an id, a prefix of one, or `latest`.
    pub fn named(&self, runs: &[RunListing], name: &str) -> Result<RunListing, ParquetDirError> {
        let none = || ParquetDirError::NoSuchRun { dir: self.dir.clone(), name: name.into() };
        if name == LATEST {
            let real = runs.iter().rfind(|run| !run.is_smoke());
            return real.or(runs.last()).cloned().ok_or_else(none);
        }
        if let Some(exact) = runs.iter().find(|run| run.id.0 == name) {
            return Ok(exact.clone());
        }
        let matching = || runs.iter().filter(|run| !name.is_empty() && run.id.0.starts_with(name));
        match (matching().next(), matching().nth(1)) {
            (None, _) => Err(none()),
            (Some(only), None) => Ok(only.clone()),
            (Some(_), Some(_)) => Err(ParquetDirError::AmbiguousRun { name: name.into() }),
        }
    }

    /// The records of runs, in the same order. They have the settings of the machine but not its topology.
    pub fn records(&self, runs: &[RunId]) -> Result<Vec<RunRecord>, ParquetDirError> {
        if runs.len() > RUNS_MAX {
            return Err(ParquetDirError::TooMany { runs: runs.len() });
        }
        let sql = format!(
            "SELECT run, plan_json AS plan, seed, facts, host, simulated, epoch_ms(run_started) AS started, ended, program \
             FROM {FILES} WHERE {FIRST} AND run IN ({})",
            list(runs)
        );
        let mut records: BTreeMap<RunId, RunRecord> = BTreeMap::new();
        // Runs of one plan on many machines share its text, which is parsed once.
        let mut plans: BTreeMap<String, Plan> = BTreeMap::new();
        self.duckdb.query(&sql, |row: RunColumns| {
            if !plans.contains_key(&row.plan) {
                plans.insert(row.plan.clone(), read(&row.run, "plan", &row.plan)?);
            }
            let plan = plans[&row.plan].clone();
            let record = row.record(plan)?;
            records.insert(record.id.clone(), record);
            Ok(())
        })?;
        let find = |run: &RunId| {
            let missing =
                || ParquetDirError::Unreadable { run: run.clone(), cause: "its first trial is missing".into() };
            records.get(run).cloned().ok_or_else(missing)
        };
        runs.iter().map(find).collect()
    }

    /// Visits these runs in any order, each with its measured trials; runs without one are skipped. A trial has, for
    /// each series, the minimum, the two middle values (equal if the count is odd) and the maximum of its samples.
    /// Every [`model::values::workload::Reduce`] yields the same value of these four as of all samples, to the last
    /// bit. An invalid trial counts by its verdict and status only, so it may have no samples.
    pub fn each(
        &self,
        records: &[RunRecord],
        mut visit: impl FnMut(usize, Vec<TrialRecord>),
    ) -> Result<(), ParquetDirError> {
        let ids: Vec<RunId> = records.iter().map(|record| record.id.clone()).collect();
        let indices: BTreeMap<&RunId, usize> = ids.iter().enumerate().map(|(index, id)| (id, index)).collect();
        // `quantile_disc` returns the lower middle value; negated, the upper one.
        let sql = format!(
            "SELECT run, trial, cell, block, attempt, position, status = 'completed' AS completed, verdict, series, \
             CASE WHEN count(value) > 0 THEN [min(value), quantile_disc(value, 0.5), -quantile_disc(-value, 0.5), \
             max(value)] END AS four FROM {FILES} \
             WHERE run IN ({}) AND role = 'measured' AND (verdict = 'invalid' OR value IS NOT NULL) \
             GROUP BY run, trial, cell, block, attempt, position, completed, verdict, series \
             ORDER BY run, position, series",
            list(&ids)
        );
        let mut current: Option<(usize, Vec<TrialRecord>)> = None;
        self.duckdb.query(&sql, |row: SampleStats| {
            let Some(index) = indices.get(&row.run).copied() else { return Ok(()) };
            if current.as_ref().is_none_or(|(known, _)| *known != index) {
                current.replace((index, Vec::new())).into_iter().for_each(|(index, trials)| visit(index, trials));
            }
            let trials = &mut current.as_mut().expect("set above").1;
            row.add_to(trials, &records[index])
        })?;
        current.into_iter().for_each(|(index, trials)| visit(index, trials));
        Ok(())
    }
}

/// Ids as an SQL list.
fn list(runs: &[RunId]) -> String {
    let quoted: Vec<String> = runs.iter().map(|run| quoted(&run.0)).collect();
    // SQL has no empty list; nothing equals NULL.
    if quoted.is_empty() { "NULL".into() } else { quoted.join(", ") }
}

#[derive(Deserialize)]
struct RunColumns {
    run: RunId,
    plan: String,
    seed: String,
    facts: String,
    host: Option<String>,
    simulated: Option<String>,
    started: u64,
    ended: Option<String>,
    program: String,
}

impl RunColumns {
    fn record(self, plan: Plan) -> Result<RunRecord, ParquetDirError> {
        let invalid = |cause: String| ParquetDirError::Unreadable { run: self.run.clone(), cause };
        let settings: Settings = read(&self.run, "facts", &self.facts)?;
        Ok(RunRecord {
            plan,
            seed: self.seed.parse().map_err(|_| invalid(format!("invalid seed '{}'", self.seed)))?,
            machine: Capture::new(Topology::default(), settings),
            host: self.host.clone(),
            simulated: self.simulated.clone(),
            started_unix_ms: self.started,
            ended: self.ended.as_deref().map(ending).transpose().map_err(invalid)?,
            program: self.program.clone(),
            id: self.run,
        })
    }
}

fn ending(word: &str) -> Result<EndReason, String> {
    serde_json::from_value(Value::from(word)).map_err(|_| format!("invalid end reason '{word}'"))
}

fn read<T: for<'de> Deserialize<'de>>(run: &RunId, column: &str, text: &str) -> Result<T, ParquetDirError> {
    serde_json::from_str(text)
        .map_err(|error| ParquetDirError::Unreadable { run: run.clone(), cause: format!("column {column}: {error}") })
}

/// Four samples of one series of one trial.
#[derive(Deserialize)]
struct SampleStats {
    run: RunId,
    trial: TrialId,
    cell: usize,
    block: u32,
    attempt: u32,
    position: u32,
    completed: bool,
    verdict: Grade,
    /// `None` without samples.
    series: Option<String>,
    four: Option<[f64; 4]>,
}

impl SampleStats {
    fn add_to(self, trials: &mut Vec<TrialRecord>, record: &RunRecord) -> Result<(), ParquetDirError> {
        let invalid = |cause: String| ParquetDirError::Unreadable { run: self.run.clone(), cause };
        if self.cell >= record.plan.cells.len() {
            return Err(invalid(format!(
                "trial {} belongs to cell {}, which the plan does not have",
                self.trial, self.cell
            )));
        }
        if trials.last().is_none_or(|last| last.trial.id != self.trial) {
            let trial =
                record.plan.trial(&self.run.0, record.seed, self.cell, Role::Measured, self.block, self.attempt);
            trials.push(TrialRecord {
                position: self.position,
                trial: model::values::trial::Trial { id: self.trial, ..trial },
                outcome: TrialOutcome {
                    status: if self.completed { TrialStatus::Completed } else { TrialStatus::Failed(String::new()) },
                    samples: Vec::new(),
                    evidence: Evidence::default(),
                    started_unix_ms: 0,
                    took: Nanos(0),
                },
                verdict: Verdict { grade: self.verdict, reasons: Vec::new() },
            });
        }
        let samples = &mut trials.last_mut().expect("pushed above").outcome.samples;
        if let (Some(series), Some(four)) = (self.series, self.four) {
            samples.extend(four.map(|value| Sample { series: series.clone(), value }));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::analysis::finding::metric_value;
    use model::values::workload::{Better, MetricSpec, Reduce};
    use proptest::prelude::*;

    /// All variants; the match below fails to compile if one is added.
    const REDUCES: [Reduce; 3] = [Reduce::Median, Reduce::Max, Reduce::Min];

    fn is_listed(reduce: Reduce) -> bool {
        match reduce {
            Reduce::Median | Reduce::Max | Reduce::Min => REDUCES.contains(&reduce),
        }
    }

    /// The Rust equivalent of the SQL query.
    fn four(values: &[f64]) -> [f64; 4] {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (count, last) = (sorted.len(), sorted.len() - 1);
        [sorted[0], sorted[(count - 1) / 2], sorted[count / 2], sorted[last]]
    }

    proptest! {
        #[test]
        fn four_samples_reduce_to_the_same_value_as_all(values in proptest::collection::vec(-1e300_f64..1e300, 1..40)) {
            let samples = |values: &[f64]| -> Vec<Sample> {
                values.iter().map(|value| Sample { series: "s".into(), value: *value }).collect()
            };
            for reduce in REDUCES {
                prop_assert!(is_listed(reduce));
                let metric = MetricSpec { name: "m".into(), unit: "u".into(), better: Better::Lower, series: "s".into(), reduce };
                let expected = metric_value(&metric, &samples(&values)).map(f64::to_bits);
                prop_assert_eq!(expected, metric_value(&metric, &samples(&four(&values))).map(f64::to_bits));
            }
        }
    }
}
