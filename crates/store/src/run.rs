//! Runs: begun, found again, ended.

use model::capture::Capture;
use model::record::{Ending, RunId, RunRecord};
use model::trial::short_hash;
use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Store, StoreError};

/// One line about a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunSummary {
    /// Who it is.
    pub id: RunId,
    /// Its experiment.
    pub experiment: String,
    /// When it began, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// How many trials are stored of it.
    pub trials: u64,
    /// Why it ended; none while it has not.
    pub ended: Option<Ending>,
    /// `CAPTURE:SEED` when it was simulated.
    pub simulated: Option<String>,
}

const COLUMNS: &str = "run.id, plan, seed, capture, host, simulated, started_unix_ms, ended, program";

impl Store {
    /// Stores a run that begins.
    pub fn begin_run(&mut self, record: &RunRecord) -> Result<(), StoreError> {
        let path = self.path.clone();
        let said = |error: rusqlite::Error| StoreError::of(&path, &error);
        let transaction = self.connection.transaction().map_err(said)?;
        insert_run(&transaction, record).map_err(said)?;
        transaction.commit().map_err(said)
    }

    /// The newest run of this plan that has not ended, on a machine in this state.
    pub fn find_unfinished(
        &self,
        plan_key: &str,
        fingerprint: &str,
        simulated: Option<&str>,
    ) -> Result<Option<RunRecord>, StoreError> {
        let condition = "ended IS NULL AND plan_key = ?1 AND fingerprint = ?2 AND simulated IS ?3";
        self.first_run(condition, params![plan_key, fingerprint, simulated])
    }

    /// All runs in the order in which they began.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        let query = "SELECT id, experiment, started_unix_ms, (SELECT count(*) FROM trial WHERE trial.run = run.id), ended, simulated \
                     FROM run ORDER BY position";
        let summary = |row: &Row<'_>| {
            Ok(RunSummary {
                id: RunId(row.get(0)?),
                experiment: row.get(1)?,
                started_unix_ms: row.get::<_, i64>(2)? as u64,
                trials: row.get::<_, i64>(3)? as u64,
                ended: row.get::<_, Option<String>>(4)?.map(|text| read_json(&text)).transpose()?,
                simulated: row.get(5)?,
            })
        };
        let said = |error: rusqlite::Error| self.said(&error);
        let mut statement = self.connection.prepare(query).map_err(said)?;
        let rows = statement.query_map([], summary).map_err(said)?;
        rows.collect::<Result<_, _>>().map_err(said)
    }

    /// The run with this id, the only one whose id begins so, or `latest`.
    pub fn run(&self, name: &str) -> Result<RunRecord, StoreError> {
        if name == "latest" {
            let missing = || StoreError::NotFound(format!("there is no run in {}", self.path.display()));
            return self.first_run("1 = 1", [])?.ok_or_else(missing);
        }
        let ids: Vec<String> = self.runs()?.into_iter().map(|run| run.id.0).filter(|id| id.starts_with(name)).collect();
        match ids.as_slice() {
            [id] => self.first_run("run.id = ?1", [id])?.ok_or_else(|| StoreError::NotFound(format!("no run {id}"))),
            [] => Err(StoreError::NotFound(format!(
                "there is no run '{name}' in {}\nhint: nearfar show --runs lists them",
                self.path.display()
            ))),
            _ => Err(StoreError::NotFound(format!("several runs begin with '{name}': {}", ids.join(", ")))),
        }
    }

    /// Notes why a run ended.
    pub fn end_run(&mut self, run: &RunId, ending: Ending) -> Result<(), StoreError> {
        let update = "UPDATE run SET ended = ?2 WHERE id = ?1";
        self.connection.execute(update, params![run.0, json(&ending)]).map_err(|error| self.said(&error))?;
        Ok(())
    }

    fn first_run(&self, condition: &str, values: impl rusqlite::Params) -> Result<Option<RunRecord>, StoreError> {
        let query = format!(
            "SELECT {COLUMNS} FROM run JOIN machine ON machine.id = run.machine WHERE {condition} ORDER BY position DESC LIMIT 1"
        );
        self.connection.query_row(&query, values, read_run).optional().map_err(|error| self.said(&error))
    }
}

/// Inserts a run and its machine, inside the caller's transaction.
pub fn insert_run(connection: &rusqlite::Connection, record: &RunRecord) -> rusqlite::Result<()> {
    let capture = json(&record.machine);
    let machine = short_hash(&capture);
    connection.execute(
        "INSERT OR IGNORE INTO machine (id, fingerprint, capture) VALUES (?1, ?2, ?3)",
        params![machine, record.machine.settings.fingerprint(), capture],
    )?;
    connection.execute(
        "INSERT INTO run (id, experiment, plan_key, plan, seed, machine, host, simulated, started_unix_ms, ended, program) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        params![
            record.id.0,
            record.plan.experiment,
            record.plan.key(),
            json(&record.plan),
            record.seed.to_string(),
            machine,
            record.host,
            record.simulated,
            record.started_unix_ms as i64,
            record.ended.map(|ending| json(&ending)),
            record.program
        ],
    )?;
    Ok(())
}

fn read_run(row: &Row<'_>) -> rusqlite::Result<RunRecord> {
    let machine: Capture = read_json(&row.get::<_, String>(3)?)?;
    Ok(RunRecord {
        id: RunId(row.get(0)?),
        plan: read_json(&row.get::<_, String>(1)?)?,
        seed: row.get::<_, String>(2)?.parse().map_err(unreadable)?,
        machine,
        host: row.get(4)?,
        simulated: row.get(5)?,
        started_unix_ms: row.get::<_, i64>(6)? as u64,
        ended: row.get::<_, Option<String>>(7)?.map(|text| read_json(&text)).transpose()?,
        program: row.get(8)?,
    })
}

/// A value of `model` as JSON.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("values of model have text keys, so they are JSON")
}

/// A value of `model` back from JSON.
pub fn read_json<T: DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(unreadable)
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
}
