//! Runs out of a folder of exported Parquet files, as they would come out of a results file. `DuckDB` reads them, a program of its own:
//! what of a run is needed here are its record and, of each counted trial, four of its samples in each series. Must not know what they mean.

mod duckdb;
mod error;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::values::capture::Capture;
use model::values::plan::Plan;
use model::values::record::{EndReason, RunId, RunRecord, TrialRecord};
use model::values::settings::Settings;
use model::values::topology::Topology;
use model::values::trial::{Evidence, Grade, Outcome, Role, Sample, TrialId, TrialStatus, Verdict};
use model::values::units::Nanos;
use serde::Deserialize;
use serde_json::Value;

pub use self::error::FolderError;

use self::duckdb::{Duckdb, quoted};
use crate::error::LATEST;

/// So many runs are compared at once at most: each is a record and its findings in memory. Beyond that it is a question for SQL.
pub const RUNS_MAX: usize = 2_000;

/// Columns without which a file is none of ours, and those that came after them.
const OURS: &[&str] =
    &["run", "trial", "position", "role", "block", "attempt", "verdict", "series", "ordinal", "value"];
const SINCE: &[&str] = &["cell", "seed", "plan_json", "facts"];

/// All files, wherever they are below the folder; what a folder's name says is in the files as well.
const FILES: &str = "read_parquet('**/*.parquet', hive_partitioning = false, union_by_name = true)";

/// A run's first row, and no other: files that were packed together may have them all.
const FIRST: &str = "position = 0 AND (ordinal = 0 OR ordinal IS NULL)";

/// A folder of exported runs.
#[derive(Debug)]
pub struct ParquetDir {
    duckdb: Duckdb,
    folder: PathBuf,
}

/// A run in the list of all.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RunListing {
    #[serde(rename = "run")]
    pub id: RunId,
    pub experiment: String,
    /// Whether the machine was simulated.
    pub is_simulated: bool,
    /// When it began, milliseconds since 1970.
    pub started: u64,
}

impl ParquetDir {
    /// A folder, and the program that reads it: a name that is found in PATH, or a path. Every file is looked at, whether it is
    /// one of ours.
    pub fn open(folder: &Path, program: &Path) -> Result<Self, FolderError> {
        if !folder.is_dir() {
            return Err(FolderError::Missing { folder: folder.into() });
        }
        let opened = Self { duckdb: Duckdb::new(program, folder)?, folder: folder.into() };
        opened.refuse_foreign()?;
        Ok(opened)
    }

    fn refuse_foreign(&self) -> Result<(), FolderError> {
        #[derive(Deserialize)]
        struct File {
            file: String,
            ours: usize,
            files: usize,
        }
        let names = |names: &[&str]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        let (ours, since) = (names(OURS), names(SINCE));
        // A folder without files has no schema to look at, which DuckDB says as an error.
        let count = "SELECT '' AS file, 0 AS ours, count(*) AS files FROM glob('**/*.parquet')";
        let mut files = 0;
        self.duckdb.query(count, |found: File| {
            files = found.files;
            Ok(())
        })?;
        if files == 0 {
            return Err(FolderError::Empty { folder: self.folder.clone() });
        }
        let odd = format!(
            "SELECT file_name AS file, count(*) FILTER (name IN ({ours})) AS ours, {files} AS files \
             FROM parquet_schema('**/*.parquet') GROUP BY file_name \
             HAVING count(*) FILTER (name IN ({ours}, {since})) < {} ORDER BY file_name LIMIT 1",
            OURS.len() + SINCE.len()
        );
        self.duckdb.query(&odd, |found: File| {
            let file = self.folder.join(found.file.trim_start_matches("./"));
            Err(if found.ours < OURS.len() { FolderError::Foreign { file } } else { FolderError::Older { file } })
        })
    }

    /// All runs, the oldest first.
    pub fn list(&self) -> Result<Vec<RunListing>, FolderError> {
        let mut runs: Vec<RunListing> = Vec::new();
        let sql = format!(
            "SELECT DISTINCT run, plan_json ->> 'experiment' AS experiment, simulated IS NOT NULL AS is_simulated, \
             epoch_ms(run_started) AS started FROM {FILES} WHERE {FIRST} ORDER BY started, run"
        );
        self.duckdb.query(&sql, |run: RunListing| {
            runs.push(run);
            Ok(())
        })?;
        Ok(runs)
    }

    /// The run among these that a name means: an id, the first letters of one, or `latest`.
    pub fn named(&self, runs: &[RunListing], name: &str) -> Result<RunListing, FolderError> {
        let none = || FolderError::NoSuchRun { folder: self.folder.clone(), name: name.into() };
        if name == LATEST {
            return runs.last().cloned().ok_or_else(none);
        }
        if let Some(exact) = runs.iter().find(|run| run.id.0 == name) {
            return Ok(exact.clone());
        }
        let begin = || runs.iter().filter(|run| !name.is_empty() && run.id.0.starts_with(name));
        match (begin().next(), begin().nth(1)) {
            (None, _) => Err(none()),
            (Some(only), None) => Ok(only.clone()),
            (Some(_), Some(_)) => Err(FolderError::AmbiguousRun { name: name.into() }),
        }
    }

    /// The records of runs, in the same order. Of a machine they have its settings and not its topology.
    pub fn records(&self, runs: &[RunId]) -> Result<Vec<RunRecord>, FolderError> {
        if runs.len() > RUNS_MAX {
            return Err(FolderError::TooMany { runs: runs.len() });
        }
        let sql = format!(
            "SELECT run, plan_json AS plan, seed, facts, host, simulated, epoch_ms(run_started) AS started, ended, program \
             FROM {FILES} WHERE {FIRST} AND run IN ({})",
            list(runs)
        );
        let mut records: BTreeMap<RunId, RunRecord> = BTreeMap::new();
        // Runs of one plan on machines of one kind differ in little: what is the same word by word is read once.
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
        let found = |run: &RunId| {
            let missing = || FolderError::Unreadable { run: run.clone(), what: "its first trial is missing".into() };
            records.get(run).cloned().ok_or_else(missing)
        };
        runs.iter().map(found).collect()
    }

    /// Visits these runs, each with its counted trials, in any order; runs without such a trial are left out. A trial has of each series the
    /// least, the two in the middle and the most of its samples (the one in the middle twice where their number is odd): of them every
    /// [`model::values::workload::Reduce`] makes what it makes of all, to the last bit.
    pub fn each(
        &self,
        records: &[RunRecord],
        mut visit: impl FnMut(usize, Vec<TrialRecord>),
    ) -> Result<(), FolderError> {
        let ids: Vec<RunId> = records.iter().map(|record| record.id.clone()).collect();
        let places: BTreeMap<&RunId, usize> = ids.iter().enumerate().map(|(at, id)| (id, at)).collect();
        // Of an odd number both middle ones are the same; the second is the first of the samples turned round.
        let sql = format!(
            "SELECT run, trial, cell, block, attempt, position, series, [min(value), quantile_disc(value, 0.5), \
             -quantile_disc(-value, 0.5), max(value)] AS four FROM {FILES} \
             WHERE run IN ({}) AND role = 'measured' AND verdict <> 'invalid' AND value IS NOT NULL \
             GROUP BY run, trial, cell, block, attempt, position, series ORDER BY run, position, series",
            list(&ids)
        );
        let mut current: Option<(usize, Vec<TrialRecord>)> = None;
        self.duckdb.query(&sql, |row: SampleStats| {
            let Some(at) = places.get(&row.run).copied() else { return Ok(()) };
            if current.as_ref().is_none_or(|(known, _)| *known != at) {
                current.replace((at, Vec::new())).into_iter().for_each(|(at, trials)| visit(at, trials));
            }
            let trials = &mut current.as_mut().expect("it was just put there").1;
            row.add_to(trials, &records[at])
        })?;
        current.into_iter().for_each(|(at, trials)| visit(at, trials));
        Ok(())
    }
}

/// Ids as SQL lists them.
fn list(runs: &[RunId]) -> String {
    let quoted: Vec<String> = runs.iter().map(|run| quoted(&run.0)).collect();
    // No run is in an empty list, which SQL does not have.
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
    fn record(self, plan: Plan) -> Result<RunRecord, FolderError> {
        let wrong = |what: String| FolderError::Unreadable { run: self.run.clone(), what };
        let settings: Settings = read(&self.run, "facts", &self.facts)?;
        Ok(RunRecord {
            plan,
            seed: self.seed.parse().map_err(|_| wrong(format!("its seed is '{}'", self.seed)))?,
            machine: Capture::new(Topology::default(), settings),
            host: self.host.clone(),
            simulated: self.simulated.clone(),
            started_unix_ms: self.started,
            ended: self.ended.as_deref().map(ending).transpose().map_err(wrong)?,
            program: self.program.clone(),
            id: self.run,
        })
    }
}

fn ending(word: &str) -> Result<EndReason, String> {
    serde_json::from_value(Value::from(word)).map_err(|_| format!("it ended '{word}'"))
}

fn read<T: for<'de> Deserialize<'de>>(run: &RunId, column: &str, text: &str) -> Result<T, FolderError> {
    serde_json::from_str(text)
        .map_err(|error| FolderError::Unreadable { run: run.clone(), what: format!("its {column}: {error}") })
}

/// Samples of one series of one trial.
#[derive(Deserialize)]
struct SampleStats {
    run: RunId,
    trial: TrialId,
    cell: usize,
    block: u32,
    attempt: u32,
    position: u32,
    series: String,
    four: [f64; 4],
}

impl SampleStats {
    fn add_to(self, trials: &mut Vec<TrialRecord>, record: &RunRecord) -> Result<(), FolderError> {
        let wrong = |what: String| FolderError::Unreadable { run: self.run.clone(), what };
        if self.cell >= record.plan.cells.len() {
            return Err(wrong(format!("trial {} is of cell {}, which its plan does not have", self.trial, self.cell)));
        }
        if trials.last().is_none_or(|last| last.trial.id != self.trial) {
            let trial =
                record.plan.trial(&self.run.0, record.seed, self.cell, Role::Measured, self.block, self.attempt);
            trials.push(TrialRecord {
                position: self.position,
                trial: model::values::trial::Trial { id: self.trial, ..trial },
                outcome: Outcome {
                    status: TrialStatus::Completed,
                    samples: Vec::new(),
                    evidence: Evidence::default(),
                    started_unix_ms: 0,
                    took: Nanos(0),
                },
                verdict: Verdict { grade: Grade::Valid, reasons: Vec::new() },
            });
        }
        let samples = &mut trials.last_mut().expect("it was just put there").outcome.samples;
        samples.extend(self.four.map(|value| Sample { series: self.series.clone(), value }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::analysis::finding::metric_value;
    use model::values::workload::{Better, MetricSpec, Reduce};
    use proptest::prelude::*;

    /// Every way in which samples become one number; a new one has to be thought about here.
    const REDUCES: [Reduce; 3] = [Reduce::Median, Reduce::Max, Reduce::Min];

    fn is_in_the_list(reduce: Reduce) -> bool {
        match reduce {
            Reduce::Median | Reduce::Max | Reduce::Min => REDUCES.contains(&reduce),
        }
    }

    /// What SQL asks for, in words of this language.
    fn four(values: &[f64]) -> [f64; 4] {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (count, last) = (sorted.len(), sorted.len() - 1);
        [sorted[0], sorted[(count - 1) / 2], sorted[count / 2], sorted[last]]
    }

    proptest! {
        #[test]
        fn four_samples_say_what_all_say(values in proptest::collection::vec(-1e300_f64..1e300, 1..40)) {
            let samples = |values: &[f64]| -> Vec<Sample> {
                values.iter().map(|value| Sample { series: "s".into(), value: *value }).collect()
            };
            for reduce in REDUCES {
                prop_assert!(is_in_the_list(reduce));
                let metric = MetricSpec { name: "m".into(), unit: "u".into(), better: Better::Lower, series: "s".into(), reduce };
                let of_all = metric_value(&metric, &samples(&values)).map(f64::to_bits);
                prop_assert_eq!(of_all, metric_value(&metric, &samples(&four(&values))).map(f64::to_bits));
            }
        }
    }
}
