//! Trials: each is stored atomically and once, and loaded by position.

use std::collections::{HashMap, HashSet};
#[cfg(feature = "parquet")]
use std::ops::ControlFlow;

use model::values::placement::Placement;
use model::values::record::{RunId, TrialRecord};
use model::values::trial::{Sample, Trial, TrialId, TrialOutcome, TrialStatus, Verdict, short_hash};
use model::values::units::Nanos;
use model::values::workload::Parameters;

use crate::error::StoreErrorKind;
use crate::run::{find_id, from_word, json, parsed, whole, word};
use crate::sql::{Connection, Row};
use crate::sql_value::Value;
use crate::{Store, StoreError};

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
    #[cfg(feature = "parquet")]
    pub(crate) fn each_trial(
        &self,
        run: &RunId,
        visit: impl FnMut(TrialRecord) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.read(|connection| each(connection, find_id(connection, &self.path, run)?, visit))
    }

    /// The trials of a run by position.
    pub fn trials(&self, run: &RunId) -> Result<Vec<TrialRecord>, StoreError> {
        self.read(|connection| load(connection, find_id(connection, &self.path, run)?))
    }
}

/// Stores trials of the run with this row number. The caller checks that they are not stored yet.
pub(crate) fn insert(connection: &Connection, run: i64, records: &[&TrialRecord]) -> Result<(), StoreErrorKind> {
    records.iter().try_for_each(|record| reject_infinite(record))?;
    let mut known = HashMap::new();
    let cells: Vec<i64> =
        records.iter().map(|record| cell(connection, &record.trial, &mut known)).collect::<Result<_, _>>()?;
    let first = connection.next_number("trial")?;
    let rows = records.iter().zip(cells).zip(first..);
    connection.insert("trial", COLUMNS, rows.map(|((record, cell), number)| columns(number, run, cell, record)))?;
    let samples = records.iter().zip(first..).flat_map(|(record, trial)| {
        let samples = record.outcome.samples.iter().zip(0_i64..);
        samples.map(move |(Sample { series, value }, ordinal)| {
            [trial.into(), ordinal.into(), series.as_str().into(), (*value).into()]
        })
    });
    connection.insert("sample", ["trial", "ordinal", "series", "value"], samples)
}

const COLUMNS: [&str; 18] = [
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
];

fn columns(number: i64, run: i64, cell: i64, record: &TrialRecord) -> [Value<'_>; COLUMNS.len()] {
    let TrialRecord { position, trial, outcome, verdict } = record;
    let (status, why) = status_columns(&outcome.status);
    [
        number.into(),
        run.into(),
        (*position).into(),
        trial.id.0.as_str().into(),
        cell.into(),
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
    ]
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

fn status(word: &str, why: Option<String>, trial: &str) -> Result<TrialStatus, StoreErrorKind> {
    match (word, why) {
        ("completed", None) => Ok(TrialStatus::Completed),
        ("failed", Some(why)) => Ok(TrialStatus::Failed(why)),
        ("timed-out", Some(why)) => Ok(TrialStatus::TimedOut(why)),
        ("unavailable", Some(why)) => Ok(TrialStatus::Unavailable(why)),
        _ => Err(StoreErrorKind::Unreadable(format!("trial {trial} has status '{word}'"))),
    }
}

/// The row number of the trial's cell (workload, parameters and placement), inserted on first use and shared by all
/// repetitions.
fn cell(connection: &Connection, trial: &Trial, numbers: &mut HashMap<String, i64>) -> Result<i64, StoreErrorKind> {
    let (parameters, placement) = (json(&trial.parameters), json(&trial.placement));
    let hash = short_hash(&format!("{}\n{parameters}\n{placement}", trial.workload));
    if let Some(number) = numbers.get(&hash) {
        return Ok(*number);
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
    numbers.insert(hash, number);
    Ok(number)
}

/// Columns of the trials of a run from a position on.
const TRIALS: &str = "SELECT number, position, id, cell, plan_cell, role, block, attempt, seed, time_limit_ns, \
                      started_unix_ms, took_ns, status, why, verdict, reasons, evidence FROM trial WHERE run = ?1 \
                      AND position >= ?2 ORDER BY position LIMIT ?3";

/// Samples of those trials. A cross join makes SQLite go from trials to samples, which is their order in the file.
const SAMPLES: &str = "SELECT sample.trial, series, value FROM trial CROSS JOIN sample \
                       WHERE sample.trial = trial.number AND trial.run = ?1 AND position BETWEEN ?2 AND ?3 \
                       ORDER BY position, ordinal";

/// Number of trials kept in memory while they are visited.
#[cfg(feature = "parquet")]
const PAGE: i64 = 4;

#[cfg(feature = "parquet")]
fn each(
    connection: &Connection,
    run: i64,
    mut visit: impl FnMut(TrialRecord) -> ControlFlow<()>,
) -> Result<(), StoreErrorKind> {
    let mut cells = HashMap::new();
    let mut from = 0;
    loop {
        let page = load_page(connection, run, from, PAGE, &mut cells)?;
        let Some(last) = page.last() else { return Ok(()) };
        from = i64::from(last.position) + 1;
        for record in page {
            if visit(record).is_break() {
                return Ok(());
            }
        }
    }
}

/// The trials of the run with this row number by position.
pub(crate) fn load(connection: &Connection, number: i64) -> Result<Vec<TrialRecord>, StoreErrorKind> {
    load_page(connection, number, 0, i64::MAX, &mut HashMap::new())
}

/// Loads at most `count` trials of a run from a position on.
fn load_page(
    connection: &Connection,
    run: i64,
    from: i64,
    count: i64,
    cells: &mut HashMap<i64, CellColumns>,
) -> Result<Vec<TrialRecord>, StoreErrorKind> {
    let mut index_of_row = HashMap::new();
    let mut trials = Vec::new();
    connection.each(TRIALS, &[run.into(), from.into(), count.into()], |row| {
        index_of_row.insert(row.get::<i64>(0)?, trials.len());
        trials.push(decode(connection, row, cells)?);
        Ok(())
    })?;
    let Some(last) = trials.last().map(|trial: &TrialRecord| trial.position) else { return Ok(trials) };
    connection.each(SAMPLES, &[run.into(), from.into(), last.into()], |row| {
        let index = index_of_row.get(&row.get(0)?).copied();
        let trial = index.and_then(|index| trials.get_mut(index));
        let trial = trial.ok_or_else(|| StoreErrorKind::Unreadable("a sample does not belong to a trial".into()))?;
        trial.outcome.samples.push(Sample { series: row.get(1)?, value: row.get(2)? });
        Ok(())
    })?;
    Ok(trials)
}

#[derive(Clone)]
struct CellColumns {
    workload: String,
    parameters: Parameters,
    placement: Placement,
}

fn decode(
    connection: &Connection,
    row: &Row<'_>,
    cells: &mut HashMap<i64, CellColumns>,
) -> Result<TrialRecord, StoreErrorKind> {
    let id: String = row.get(2)?;
    let name = format!("trial {id}");
    let CellColumns { workload, parameters, placement } = load_cell(connection, row.get(3)?, cells)?;
    let seed: String = row.get(8)?;
    let trial = Trial {
        cell: row.get::<i64>(4)? as usize,
        workload,
        parameters,
        placement,
        role: from_word(&text(row, 5)?, &name)?,
        block: row.get(6)?,
        attempt: row.get(7)?,
        seed: seed.parse().map_err(|_| StoreErrorKind::Unreadable(format!("{name} has seed '{seed}'")))?,
        time_limit: Nanos(row.get::<i64>(9)? as u64),
        id: TrialId(id),
    };
    let outcome = TrialOutcome {
        status: status(&text(row, 12)?, row.get(13)?, &trial.id.0)?,
        samples: Vec::new(),
        evidence: parsed(&text(row, 16)?, &name)?,
        started_unix_ms: row.get::<i64>(10)? as u64,
        took: Nanos(row.get::<i64>(11)? as u64),
    };
    let verdict = Verdict { grade: from_word(&text(row, 14)?, &name)?, reasons: parsed(&text(row, 15)?, &name)? };
    Ok(TrialRecord { position: row.get(1)?, trial, outcome, verdict })
}

fn text(row: &Row<'_>, column: usize) -> Result<String, StoreErrorKind> {
    row.get(column)
}

fn load_cell(
    connection: &Connection,
    number: i64,
    known: &mut HashMap<i64, CellColumns>,
) -> Result<CellColumns, StoreErrorKind> {
    if let Some(cell) = known.get(&number) {
        return Ok(cell.clone());
    }
    let sql = "SELECT workload, parameters, placement FROM cell WHERE number = ?1";
    let (workload, parameters, placement): (String, String, String) =
        connection.one(sql, &[number.into()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let name = format!("cell {number}");
    let cell = CellColumns { workload, parameters: parsed(&parameters, &name)?, placement: parsed(&placement, &name)? };
    known.insert(number, cell.clone());
    Ok(cell)
}
