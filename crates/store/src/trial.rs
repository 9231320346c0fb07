//! Trials: each with its samples, evidence and verdict in one transaction, and back again.

use std::collections::HashMap;

use model::plan::Plan;
use model::record::{RunId, TrialRecord};
use model::trial::{Outcome, Role, Sample, Trial, TrialId, Verdict};
use model::units::Nanos;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::run::{json, read_json};
use crate::{Store, StoreError};

impl Store {
    /// Stores a trial whole, or not at all. A trial that is there already is refused.
    pub fn add_trial(&mut self, run: &RunId, record: &TrialRecord) -> Result<(), StoreError> {
        if self.has_trial(&record.trial.id)? {
            return Err(StoreError::AlreadyStored(record.trial.id.clone()));
        }
        let path = self.path.clone();
        let said = |error: rusqlite::Error| StoreError::of(&path, &error);
        let transaction = self.connection.transaction().map_err(said)?;
        insert_trial(&transaction, run, record).map_err(said)?;
        transaction.commit().map_err(said)
    }

    /// Whether a trial is stored.
    pub fn has_trial(&self, id: &TrialId) -> Result<bool, StoreError> {
        let query = "SELECT 1 FROM trial WHERE id = ?1";
        let found = self.connection.query_row(query, [&id.0], |_| Ok(())).optional();
        found.map(|found| found.is_some()).map_err(|error| self.said(&error))
    }

    /// All trials of a run in the order in which they ran.
    pub fn trials(&self, run: &RunId) -> Result<Vec<TrialRecord>, StoreError> {
        let record = self.run(&run.0)?;
        let said = |error: rusqlite::Error| self.said(&error);
        let mut samples = self.samples(run).map_err(said)?;
        let query = "SELECT key, position, cell, role, block, attempt, verdict, reasons, status, evidence, started_unix_ms, took_ns \
                     FROM trial WHERE run = ?1 ORDER BY position";
        let mut statement = self.connection.prepare_cached(query).map_err(said)?;
        let rows = statement
            .query_map([&run.0], |row| {
                let key: i64 = row.get(0)?;
                read_trial(row, &record.plan, &record.id.0, record.seed, samples.remove(&key).unwrap_or_default())
            })
            .map_err(said)?;
        rows.collect::<Result<_, _>>().map_err(said)
    }

    fn samples(&self, run: &RunId) -> rusqlite::Result<HashMap<i64, Vec<Sample>>> {
        let query = "SELECT sample.trial, series, value FROM trial JOIN sample ON sample.trial = trial.key \
                     WHERE run = ?1 ORDER BY sample.trial, sample.position";
        let mut statement = self.connection.prepare_cached(query)?;
        let mut rows = statement.query([&run.0])?;
        let mut samples: HashMap<i64, Vec<Sample>> = HashMap::new();
        while let Some(row) = rows.next()? {
            let sample = Sample { series: row.get(1)?, value: row.get(2)? };
            samples.entry(row.get(0)?).or_default().push(sample);
        }
        Ok(samples)
    }
}

/// Inserts a trial with everything that belongs to it, inside the caller's transaction.
pub fn insert_trial(connection: &Connection, run: &RunId, record: &TrialRecord) -> rusqlite::Result<()> {
    let TrialRecord { position, trial, outcome, verdict } = record;
    let insert = "INSERT INTO trial (id, run, position, cell, role, block, attempt, verdict, reasons, status, evidence, \
                  started_unix_ms, took_ns) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    connection.prepare_cached(insert)?.execute(params![
        trial.id.0,
        run.0,
        position,
        trial.cell as i64,
        word(&trial.role),
        trial.block,
        trial.attempt,
        word(&verdict.grade),
        json(&verdict.reasons),
        json(&outcome.status),
        json(&outcome.evidence),
        outcome.started_unix_ms as i64,
        outcome.took.0 as i64
    ])?;
    let key = connection.last_insert_rowid();
    let mut insert = connection.prepare_cached("INSERT INTO sample (trial, position, series, value) VALUES (?1, ?2, ?3, ?4)")?;
    for (position, sample) in outcome.samples.iter().enumerate() {
        insert.execute(params![key, position as i64, sample.series, sample.value])?;
    }
    Ok(())
}

/// What the plan says of a trial is not stored with each: it is made again from the plan.
fn read_trial(row: &Row<'_>, plan: &Plan, run: &str, seed: u64, samples: Vec<Sample>) -> rusqlite::Result<TrialRecord> {
    let cell = row.get::<_, i64>(2)? as usize;
    let role: Role = read_word(&row.get::<_, String>(3)?)?;
    if cell >= plan.cells.len() {
        return Err(rusqlite::Error::IntegralValueOutOfRange(2, cell as i64));
    }
    let trial: Trial = plan.trial(run, seed, cell, role, row.get(4)?, row.get(5)?);
    let outcome = Outcome {
        status: read_json(&row.get::<_, String>(8)?)?,
        samples,
        evidence: read_json(&row.get::<_, String>(9)?)?,
        started_unix_ms: row.get::<_, i64>(10)? as u64,
        took: Nanos(row.get::<_, i64>(11)? as u64),
    };
    let verdict =
        Verdict { grade: read_word(&row.get::<_, String>(6)?)?, reasons: read_json(&row.get::<_, String>(7)?)? };
    Ok(TrialRecord { position: row.get(1)?, trial, outcome, verdict })
}

/// A unit variant as its bare word, which people who query the file would rather read than JSON.
fn word(value: &impl serde::Serialize) -> String {
    json(value).trim_matches('"').to_string()
}

fn read_word<T: serde::de::DeserializeOwned>(word: &str) -> rusqlite::Result<T> {
    read_json(&format!("\"{word}\""))
}
