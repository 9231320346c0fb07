//! Trials: stored whole or not at all, once; loaded in the order in which they ran.

use std::collections::{HashMap, HashSet};
#[cfg(feature = "parquet")]
use std::ops::ControlFlow;

use model::placement::Placement;
use model::record::{RunId, TrialRecord};
use model::trial::{Outcome, Sample, Status, Trial, TrialId, Verdict, short_hash};
use model::units::Nanos;
use model::workload::Parameters;
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

use crate::error::Fault;
use crate::run::{from_word, json, known_number, parsed, whole, word};
use crate::{Store, StoreError};

impl Store {
    /// Stores a trial with its samples, evidence and verdict as one transaction. One that is there already is refused,
    /// so that none is counted twice.
    pub fn add_trial(&mut self, run: &RunId, record: &TrialRecord) -> Result<(), StoreError> {
        let path = self.path.clone();
        self.write(|transaction| {
            let number = known_number(transaction, &path, run)?;
            insert(transaction, run, number, record)
        })
    }

    /// Which trials of a run are stored.
    pub fn trial_ids(&self, run: &RunId) -> Result<HashSet<TrialId>, StoreError> {
        self.read(|connection| {
            let number = known_number(connection, &self.path, run)?;
            let mut query = connection.prepare("SELECT id FROM trial WHERE run = ?1")?;
            let ids = query.query_map([number], |row| row.get(0).map(TrialId))?;
            Ok(ids.collect::<Result<_, _>>()?)
        })
    }

    /// Visits the trials of a run by position, each with its samples, and holds one at a time, however many there are.
    /// Ends early when it is told to.
    #[cfg(feature = "parquet")]
    pub(crate) fn each_trial(
        &self,
        run: &RunId,
        visit: impl FnMut(TrialRecord) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.read(|connection| each(connection, known_number(connection, &self.path, run)?, visit))
    }

    /// The trials of a run by position.
    pub fn trials(&self, run: &RunId) -> Result<Vec<TrialRecord>, StoreError> {
        self.read(|connection| load(connection, known_number(connection, &self.path, run)?))
    }
}

/// Stores a trial of the run with this row number.
pub(crate) fn insert(connection: &Connection, run: &RunId, number: i64, record: &TrialRecord) -> Result<(), Fault> {
    refuse_twice(connection, run, number, record)?;
    if let Some(sample) = record.outcome.samples.iter().find(|sample| !sample.value.is_finite()) {
        let trial = record.trial.id.clone();
        return Err(StoreError::NotFinite { trial, series: sample.series.clone() }.into());
    }
    let TrialRecord { position, trial, outcome, verdict } = record;
    let (status, why) = status_columns(&outcome.status);
    connection
        .prepare_cached(
            "INSERT INTO trial (run, position, id, cell, plan_cell, role, block, attempt, seed, time_limit_ns, \
             started_unix_ms, took_ns, status, why, verdict, reasons, evidence) VALUES (:run, :position, :id, :cell, \
             :plan_cell, :role, :block, :attempt, :seed, :time_limit, :started, :took, :status, :why, :verdict, \
             :reasons, :evidence)",
        )?
        .execute(named_params! {
            ":run": number,
            ":position": position,
            ":id": trial.id.0,
            ":cell": cell(connection, trial)?,
            ":plan_cell": whole(trial.cell as u64),
            ":role": word(&trial.role),
            ":block": trial.block,
            ":attempt": trial.attempt,
            ":seed": trial.seed.to_string(),
            ":time_limit": whole(trial.time_limit.0),
            ":started": whole(outcome.started_unix_ms),
            ":took": whole(outcome.took.0),
            ":status": status,
            ":why": why,
            ":verdict": word(&verdict.grade),
            ":reasons": json(&verdict.reasons),
            ":evidence": json(&outcome.evidence),
        })?;
    let row = connection.last_insert_rowid();
    let mut statement =
        connection.prepare_cached("INSERT INTO sample (trial, ordinal, series, value) VALUES (?1, ?2, ?3, ?4)")?;
    for (ordinal, sample) in outcome.samples.iter().enumerate() {
        statement.execute(params![row, ordinal as i64, sample.series, sample.value])?;
    }
    Ok(())
}

fn refuse_twice(connection: &Connection, run: &RunId, number: i64, record: &TrialRecord) -> Result<(), Fault> {
    let id = &record.trial.id;
    let mut same = connection.prepare_cached("SELECT 1 FROM trial WHERE run = ?1 AND id = ?2")?;
    if same.exists(params![number, id.0])? {
        return Err(StoreError::AlreadyStored { run: run.clone(), trial: id.clone() }.into());
    }
    let mut taken = connection.prepare_cached("SELECT 1 FROM trial WHERE run = ?1 AND position = ?2")?;
    if taken.exists(params![number, record.position])? {
        return Err(StoreError::PositionTaken { run: run.clone(), position: record.position }.into());
    }
    Ok(())
}

fn status_columns(status: &Status) -> (&'static str, Option<&str>) {
    match status {
        Status::Completed => ("completed", None),
        Status::Failed(why) => ("failed", Some(why)),
        Status::TimedOut(why) => ("timed-out", Some(why)),
        Status::Unavailable(why) => ("unavailable", Some(why)),
    }
}

fn status(word: &str, why: Option<String>, trial: &str) -> Result<Status, Fault> {
    match (word, why) {
        ("completed", None) => Ok(Status::Completed),
        ("failed", Some(why)) => Ok(Status::Failed(why)),
        ("timed-out", Some(why)) => Ok(Status::TimedOut(why)),
        ("unavailable", Some(why)) => Ok(Status::Unavailable(why)),
        _ => Err(Fault::Unreadable(format!("trial {trial} has status '{word}'"))),
    }
}

/// The row number of what the trial ran and where, stored on its first use: all repetitions share it.
fn cell(connection: &Connection, trial: &Trial) -> Result<i64, Fault> {
    let (parameters, placement) = (json(&trial.parameters), json(&trial.placement));
    let hash = short_hash(&format!("{}\n{parameters}\n{placement}", trial.workload));
    let mut known = connection.prepare_cached("SELECT number FROM cell WHERE hash = ?1")?;
    if let Some(number) = known.query_row([&hash], |row| row.get(0)).optional()? {
        return Ok(number);
    }
    connection.execute(
        "INSERT INTO cell (hash, workload, parameters, placement) VALUES (?1, ?2, ?3, ?4)",
        params![hash, trial.workload, parameters, placement],
    )?;
    Ok(connection.last_insert_rowid())
}

/// The trials of a run by position.
const TRIALS: &str = "SELECT number, position, id, cell, plan_cell, role, block, attempt, seed, time_limit_ns, \
                      started_unix_ms, took_ns, status, why, verdict, reasons, evidence FROM trial WHERE run = ?1 \
                      ORDER BY position";

#[cfg(feature = "parquet")]
fn each(connection: &Connection, run: i64, mut visit: impl FnMut(TrialRecord) -> ControlFlow<()>) -> Result<(), Fault> {
    let mut trials = connection.prepare_cached(TRIALS)?;
    let mut samples =
        connection.prepare_cached("SELECT series, value FROM sample WHERE trial = ?1 ORDER BY ordinal")?;
    let mut cells = HashMap::new();
    let mut rows = trials.query([run])?;
    while let Some(row) = rows.next()? {
        let mut record = decode(connection, row, &mut cells)?;
        let of_trial =
            samples.query_map([row.get::<_, i64>(0)?], |row| Ok(Sample { series: row.get(0)?, value: row.get(1)? }))?;
        record.outcome.samples = of_trial.collect::<Result<_, _>>()?;
        if visit(record).is_break() {
            break;
        }
    }
    Ok(())
}

/// The trials of the run with this row number by position.
pub(crate) fn load(connection: &Connection, number: i64) -> Result<Vec<TrialRecord>, Fault> {
    let mut query = connection.prepare_cached(TRIALS)?;
    let mut cells = HashMap::new();
    let mut index_of_row = HashMap::new();
    let mut trials = Vec::new();
    let mut rows = query.query([number])?;
    while let Some(row) = rows.next()? {
        index_of_row.insert(row.get::<_, i64>(0)?, trials.len());
        trials.push(decode(connection, row, &mut cells)?);
    }
    load_samples(connection, number, &index_of_row, &mut trials)?;
    Ok(trials)
}

/// One pass over the samples in the order of their trials' row numbers, which is how they lie in the file.
fn load_samples(
    connection: &Connection,
    run: i64,
    index_of_row: &HashMap<i64, usize>,
    trials: &mut [TrialRecord],
) -> Result<(), Fault> {
    let mut query = connection.prepare_cached(
        "SELECT sample.trial, series, value FROM trial CROSS JOIN sample ON sample.trial = trial.number \
         WHERE trial.run = ?1 ORDER BY trial.position, ordinal",
    )?;
    let mut rows = query.query([run])?;
    while let Some(row) = rows.next()? {
        let index = index_of_row.get(&row.get(0)?).copied();
        let trial = index.and_then(|index| trials.get_mut(index));
        let trial = trial.ok_or_else(|| Fault::Unreadable("a sample belongs to no trial".into()))?;
        trial.outcome.samples.push(Sample { series: row.get(1)?, value: row.get(2)? });
    }
    Ok(())
}

#[derive(Clone)]
struct CellColumns {
    workload: String,
    parameters: Parameters,
    placement: Placement,
}

fn decode(connection: &Connection, row: &Row<'_>, cells: &mut HashMap<i64, CellColumns>) -> Result<TrialRecord, Fault> {
    let id: String = row.get(2)?;
    let what = format!("trial {id}");
    let CellColumns { workload, parameters, placement } = load_cell(connection, row.get(3)?, cells)?;
    let seed: String = row.get(8)?;
    let trial = Trial {
        cell: row.get::<_, i64>(4)? as usize,
        workload,
        parameters,
        placement,
        role: from_word(&text(row, 5)?, &what)?,
        block: row.get(6)?,
        attempt: row.get(7)?,
        seed: seed.parse().map_err(|_| Fault::Unreadable(format!("{what} has seed '{seed}'")))?,
        time_limit: Nanos(row.get::<_, i64>(9)? as u64),
        id: TrialId(id),
    };
    let outcome = Outcome {
        status: status(&text(row, 12)?, row.get(13)?, &trial.id.0)?,
        samples: Vec::new(),
        evidence: parsed(&text(row, 16)?, &what)?,
        started_unix_ms: row.get::<_, i64>(10)? as u64,
        took: Nanos(row.get::<_, i64>(11)? as u64),
    };
    let verdict = Verdict { grade: from_word(&text(row, 14)?, &what)?, reasons: parsed(&text(row, 15)?, &what)? };
    Ok(TrialRecord { position: row.get(1)?, trial, outcome, verdict })
}

fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    row.get(column)
}

fn load_cell(
    connection: &Connection,
    number: i64,
    known: &mut HashMap<i64, CellColumns>,
) -> Result<CellColumns, Fault> {
    if let Some(cell) = known.get(&number) {
        return Ok(cell.clone());
    }
    let sql = "SELECT workload, parameters, placement FROM cell WHERE number = ?1";
    let (workload, parameters, placement): (String, String, String) =
        connection.query_row(sql, [number], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let what = format!("cell {number}");
    let cell = CellColumns { workload, parameters: parsed(&parameters, &what)?, placement: parsed(&placement, &what)? };
    known.insert(number, cell.clone());
    Ok(cell)
}
