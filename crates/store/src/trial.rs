//! Trials: each is stored atomically and once.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use model::analysis::finding::{RunFinding, RunSummariser, TrialNames};
use model::values::record::{RunId, RunRecord, TrialRecord};
use model::values::trial::{Sample, Trial, TrialId, TrialStatus, short_hash};

use crate::error::StoreErrorKind;
use crate::load::TrialColumns;
use crate::run::{find_id, json, whole, word};
use crate::sql::Connection;
use crate::sql_value::Value;
use crate::{Store, StoreError, checksum, load};

impl Store {
    /// Stores a trial with its samples, evidence and verdict in one transaction. A trial that is already stored is an
    /// error, so that none is counted twice.
    pub fn add_trial(&mut self, run: &RunId, record: &TrialRecord) -> Result<(), StoreError> {
        let path = self.path.clone();
        self.write(|connection| {
            let number = find_id(connection, &path, run)?;
            reject_duplicate(connection, run, number, record)?;
            insert(connection, number, &[record])
        })
    }

    /// The ids of a run's stored trials.
    pub fn trial_ids(&self, run: &RunId) -> Result<HashSet<TrialId>, StoreError> {
        self.read(|connection| {
            let number = find_id(connection, &self.path, run)?;
            let ids = connection.all("SELECT id FROM trial WHERE run = ?1", &[number.into()], |row| row.get(0))?;
            Ok(ids.into_iter().map(TrialId).collect())
        })
    }

    /// Visits the trials of a run by position, each with its samples, until the visitor breaks. Keeps one page of
    /// trials in memory, however many there are.
    pub fn each_trial(
        &self,
        run: &RunId,
        columns: TrialColumns,
        visit: impl FnMut(TrialRecord) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.read(|connection| load::each(connection, run, find_id(connection, &self.path, run)?, columns, visit))
    }

    /// Summarises a run trial by trial, so that the trials are never all in memory.
    pub fn finding(
        &self,
        record: &RunRecord,
        columns: TrialColumns,
        names: TrialNames,
    ) -> Result<RunFinding, StoreError> {
        let mut summary = RunSummariser::new(&record.plan, names);
        let visit = |trial: TrialRecord| {
            summary.add(&trial);
            ControlFlow::Continue(())
        };
        self.each_trial(&record.id, columns, visit)?;
        Ok(summary.finish())
    }

    /// The trials of a run by position. A damaged one has no samples, and its verdict is invalid, with the damage as its
    /// reason.
    pub fn trials(&self, run: &RunId) -> Result<Vec<TrialRecord>, StoreError> {
        let stored = self.read(|connection| load::all(connection, run, find_id(connection, &self.path, run)?))?;
        Ok(stored.into_iter().map(|stored| stored.record).collect())
    }
}

/// Stores trials of the run with this row number. The caller checks that they are not stored yet.
pub(crate) fn insert(connection: &Connection, run: i64, records: &[&TrialRecord]) -> Result<(), StoreErrorKind> {
    records.iter().try_for_each(|record| reject_infinite(record))?;
    let mut known = HashMap::new();
    let cells: Vec<CellKey> =
        records.iter().map(|record| cell(connection, &record.trial, &mut known)).collect::<Result<_, _>>()?;
    let first = connection.next_number("trial")?;
    let rows = records.iter().zip(cells).zip(first..);
    connection.insert("trial", COLUMNS, rows.map(|((record, cell), number)| columns(number, run, &cell, record)))?;
    let samples = records.iter().zip(first..).flat_map(|(record, trial)| {
        let samples = record.outcome.samples.iter().zip(0_i64..);
        samples.map(move |(Sample { series, value }, ordinal)| {
            [trial.into(), ordinal.into(), series.as_str().into(), (*value).into()]
        })
    });
    connection.insert("sample", ["trial", "ordinal", "series", "value"], samples)
}

const COLUMNS: [&str; 19] = [
    "number",
    "run",
    "position",
    "id",
    "cell",
    "plan_cell",
    "role",
    "block",
    "attempt",
    "seed",
    "time_limit_ns",
    "started_unix_ms",
    "took_ns",
    "status",
    "why",
    "verdict",
    "reasons",
    "evidence",
    "checksum",
];

/// Index of the cell in [`COLUMNS`].
const CELL: usize = 4;

/// Returns the checksum of the columns before it, without samples: that of the cell's hash instead of its row number,
/// so that it covers the cell's content.
pub(crate) fn row_checksum<'a>(mut columns: Vec<Value<'a>>, cell_hash: &'a str) -> i64 {
    columns[CELL] = Value::Text(cell_hash.into());
    checksum::of_row(&columns)
}

fn columns<'a>(number: i64, run: i64, cell: &CellKey, record: &'a TrialRecord) -> [Value<'a>; COLUMNS.len()] {
    let TrialRecord { position, trial, outcome, verdict } = record;
    let (status, why) = status_columns(&outcome.status);
    let mut columns = [
        number.into(),
        run.into(),
        (*position).into(),
        trial.id.0.as_str().into(),
        cell.number.into(),
        whole(trial.cell as u64).into(),
        word(&trial.role).into(),
        trial.block.into(),
        trial.attempt.into(),
        trial.seed.to_string().into(),
        whole(trial.time_limit.0).into(),
        whole(outcome.started_unix_ms).into(),
        whole(outcome.took.0).into(),
        status.into(),
        why.into(),
        word(&verdict.grade).into(),
        json(&verdict.reasons).into(),
        json(&outcome.evidence).into(),
        Value::Null,
    ];
    let [row @ .., sum] = &mut columns;
    *sum = checksum::with_samples(row_checksum(row.to_vec(), &cell.hash), &outcome.samples).into();
    columns
}

fn reject_infinite(record: &TrialRecord) -> Result<(), StoreErrorKind> {
    match record.outcome.samples.iter().find(|sample| !sample.value.is_finite()) {
        Some(sample) => {
            let trial = record.trial.id.clone();
            Err(StoreError::NotFinite { trial, series: sample.series.clone() }.into())
        }
        None => Ok(()),
    }
}

fn reject_duplicate(
    connection: &Connection,
    run: &RunId,
    number: i64,
    record: &TrialRecord,
) -> Result<(), StoreErrorKind> {
    let id = &record.trial.id;
    let same = [number.into(), id.0.as_str().into()];
    if connection.first("SELECT 1 FROM trial WHERE run = ?1 AND id = ?2", &same, |_| Ok(()))?.is_some() {
        return Err(StoreError::AlreadyStored { run: run.clone(), trial: id.clone() }.into());
    }
    let position = [number.into(), record.position.into()];
    if connection.first("SELECT 1 FROM trial WHERE run = ?1 AND position = ?2", &position, |_| Ok(()))?.is_some() {
        return Err(StoreError::PositionTaken { run: run.clone(), position: record.position }.into());
    }
    Ok(())
}

fn status_columns(status: &TrialStatus) -> (&'static str, Option<&str>) {
    match status {
        TrialStatus::Completed => ("completed", None),
        TrialStatus::Failed(why) => ("failed", Some(why)),
        TrialStatus::TimedOut(why) => ("timed-out", Some(why)),
        TrialStatus::Unavailable(why) => ("unavailable", Some(why)),
    }
}

/// A stored cell (workload, parameters and placement).
#[derive(Clone)]
struct CellKey {
    number: i64,
    hash: String,
}

/// Returns the hash of a cell from its stored texts.
pub(crate) fn cell_hash(workload: &str, parameters: &str, placement: &str) -> String {
    short_hash(&format!("{workload}\n{parameters}\n{placement}"))
}

/// The trial's cell, inserted on first use and shared by all repetitions.
fn cell(connection: &Connection, trial: &Trial, numbers: &mut HashMap<String, i64>) -> Result<CellKey, StoreErrorKind> {
    let (parameters, placement) = (json(&trial.parameters), json(&trial.placement));
    let hash = cell_hash(&trial.workload, &parameters, &placement);
    if let Some(number) = numbers.get(&hash) {
        return Ok(CellKey { number: *number, hash });
    }
    let known =
        connection.first("SELECT number FROM cell WHERE hash = ?1", &[hash.as_str().into()], |row| row.get(0))?;
    let number = known.map_or_else(|| connection.next_number("cell"), Ok)?;
    if known.is_none() {
        let columns = ["number", "hash", "workload", "parameters", "placement"];
        let workload = trial.workload.as_str().into();
        let row = [number.into(), hash.as_str().into(), workload, parameters.into(), placement.into()];
        connection.insert("cell", columns, [row])?;
    }
    numbers.insert(hash.clone(), number);
    Ok(CellKey { number, hash })
}
