//! Runs: stored when they begin and end, found by name or by plan.

use std::collections::BTreeSet;
use std::path::Path;

use model::values::capture::Capture;
use model::values::plan::Plan;
use model::values::record::{EndReason, RunId, RunRecord, RunSummary, VerdictCounts};
use model::values::settings::Settings;
use model::values::stamp::is_smoke_command;
use model::values::trial::short_hash;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{LATEST, StoreErrorKind};
use crate::sql::{Connection, Row};
use crate::sql_value::Value;
use crate::{Store, StoreError};

/// Maximum number of candidates that [`StoreError::AmbiguousRun`] lists.
const CANDIDATES_MAX: u32 = 5;

impl Store {
    /// Stores a run that begins.
    pub fn begin_run(&mut self, record: &RunRecord) -> Result<(), StoreError> {
        self.write(|connection| {
            insert(connection, record)?;
            // Cannot fail: the run's row is not visible to other connections yet.
            connection.claim(&record.id.0).map(|_| ())
        })
    }

    /// The newest run of this plan on this machine state, real or simulated, that has not ended. On a server, runs that
    /// another program is executing are excluded.
    pub fn find_unfinished(
        &self,
        plan_key: &str,
        settings: &Settings,
        simulated: Option<&str>,
    ) -> Result<Option<RunRecord>, StoreError> {
        self.read(|connection| {
            for record in unfinished(connection, plan_key, simulated)? {
                let is_same = record.machine.settings.identity_changes(settings).is_empty();
                if is_same && connection.claim(&record.id.0)? {
                    return Ok(Some(record));
                }
            }
            Ok(None)
        })
    }

    /// The newest run of this plan, real or simulated, that has not ended, on any machine state.
    pub fn newest_unfinished(&self, plan_key: &str, simulated: Option<&str>) -> Result<Option<RunRecord>, StoreError> {
        self.read(|connection| Ok(unfinished(connection, plan_key, simulated)?.into_iter().next()))
    }

    /// All runs in the order in which they were begun here or imported.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        self.read(|connection| {
            let smoke = smoke_tests(connection, "1 = 1")?;
            connection.all(SUMMARIES, &[], |row| summary(row, &smoke))
        })
    }

    /// A run by its id, by a prefix of its id, or `latest`: the run begun or imported last, regardless of its time
    /// stamp. A smoke test is the latest only if there is no other run.
    pub fn run(&self, name: &str) -> Result<RunRecord, StoreError> {
        let path = self.path.clone();
        self.read(|connection| {
            let candidates = candidates(connection, name)?;
            match &candidates[..] {
                [] => Err(StoreError::NoSuchRun { path, name: name.into() }.into()),
                [only] => find(connection, only)?.ok_or_else(damaged_index),
                several => Err(StoreError::AmbiguousRun { name: name.into(), runs: several.to_vec() }.into()),
            }
        })
    }

    /// Stores why a run ended, and flushes the run to the disk.
    pub fn end_run(&mut self, run: &RunId, ending: EndReason) -> Result<(), StoreError> {
        let path = self.path.clone();
        self.write(|connection| {
            let values = [find_id(connection, &path, run)?.into(), word(&ending).into()];
            connection.execute("UPDATE run SET ended = ?2 WHERE number = ?1", &values)
        })?;
        let Some(file) = self.connection.file() else { return Ok(()) };
        // A passive checkpoint flushes the WAL and what it moves into the database. It never waits. If it fails (a
        // reader is active, the disk is full), the run is as durable as its trials were: nothing is lost.
        let _ = file.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        Ok(())
    }
}

const SELECT: &str = "SELECT run.id, plan, seed, machine.capture, host, simulated, started_unix_ms, ended, program \
                      FROM run JOIN machine ON machine.number = run.machine";

/// An id was just read, in the same transaction, but has no run.
pub(crate) fn damaged_index() -> StoreErrorKind {
    StoreErrorKind::Unreadable("the index of the runs does not match them".into())
}

/// The runs of a plan that have not ended, newest first.
fn unfinished(
    connection: &Connection,
    plan_key: &str,
    simulated: Option<&str>,
) -> Result<Vec<RunRecord>, StoreErrorKind> {
    let sql = "SELECT id FROM run WHERE plan_key = ?1 AND simulated IS NOT DISTINCT FROM ?2 AND ended IS NULL \
               ORDER BY number DESC";
    let ids = connection.all(sql, &[plan_key.into(), simulated.into()], |row| row.get(0).map(RunId))?;
    ids.iter().filter_map(|id| find(connection, id).transpose()).collect()
}

const SUMMARIES: &str = "SELECT run.id, experiment, simulated, machine.fingerprint, started_unix_ms, ended, \
       json_array_length(plan, '$.cells'), \
       coalesce(host, (SELECT value ->> 'value' FROM json_each(machine.capture, '$.settings') \
                       WHERE value ->> 'key' = 'cpu.model')), \
       coalesce(trials, 0), coalesce(counted, 0), coalesce(valid, 0), coalesce(suspect, 0), coalesce(invalid, 0) \
     FROM run JOIN machine ON machine.number = run.machine \
     LEFT JOIN (SELECT run, count(*) AS trials, \
                       count(*) FILTER (WHERE role = 'measured' AND verdict <> 'invalid') AS counted, \
                       count(*) FILTER (WHERE role <> 'warmup' AND verdict = 'valid') AS valid, \
                       count(*) FILTER (WHERE role <> 'warmup' AND verdict = 'suspect') AS suspect, \
                       count(*) FILTER (WHERE role <> 'warmup' AND verdict = 'invalid') AS invalid \
                FROM trial GROUP BY run) AS worth ON worth.run = run.number \
     ORDER BY run.number";

pub(crate) fn insert(connection: &Connection, record: &RunRecord) -> Result<(), StoreErrorKind> {
    if number(connection, &record.id)?.is_some() {
        return Err(StoreError::RunAlreadyStored { run: record.id.clone() }.into());
    }
    let columns: [(&str, Value<'_>); 12] = [
        ("number", connection.next_number("run")?.into()),
        ("id", record.id.0.as_str().into()),
        ("machine", machine(connection, &record.machine)?.into()),
        ("experiment", record.plan.experiment.as_str().into()),
        ("plan_key", record.plan.key().into()),
        ("plan", json(&record.plan).into()),
        ("seed", record.seed.to_string().into()),
        ("host", record.host.as_deref().into()),
        ("simulated", record.simulated.as_deref().into()),
        ("started_unix_ms", whole(record.started_unix_ms).into()),
        ("ended", record.ended.as_ref().map(word).into()),
        ("program", record.program.as_str().into()),
    ];
    connection.insert("run", columns.each_ref().map(|column| column.0), [columns.map(|column| column.1)])
}

/// The row number of a run.
pub(crate) fn number(connection: &Connection, run: &RunId) -> Result<Option<i64>, StoreErrorKind> {
    connection.first("SELECT number FROM run WHERE id = ?1", &[run.0.as_str().into()], |row| row.get(0))
}

/// The row number of a run. Fails if the run is not stored.
pub(crate) fn find_id(connection: &Connection, path: &Path, run: &RunId) -> Result<i64, StoreErrorKind> {
    let no_such = || StoreError::NoSuchRun { path: path.into(), name: run.0.clone() };
    number(connection, run)?.ok_or_else(|| no_such().into())
}

/// The row number of a machine in this state, inserted on first use.
fn machine(connection: &Connection, capture: &Capture) -> Result<i64, StoreErrorKind> {
    let text = json(capture);
    let hash = short_hash(&text);
    let known = "SELECT number FROM machine WHERE hash = ?1";
    if let Some(number) = connection.first(known, &[hash.as_str().into()], |row| row.get(0))? {
        return Ok(number);
    }
    let number = connection.next_number("machine")?;
    let row = [number.into(), hash.into(), capture.settings.fingerprint().into(), text.into()];
    connection.insert("machine", ["number", "hash", "fingerprint", "capture"], [row])?;
    Ok(number)
}

pub(crate) fn find(connection: &Connection, run: &RunId) -> Result<Option<RunRecord>, StoreErrorKind> {
    let found = connection.first(&format!("{SELECT} WHERE run.id = ?1"), &[run.0.as_str().into()], columns)?;
    found.map(decode).transpose()
}

/// The runs that a name may denote: the newest, the one with exactly this id, or those whose ids have this prefix.
fn candidates(connection: &Connection, name: &str) -> Result<Vec<RunId>, StoreErrorKind> {
    if name == LATEST {
        return latest(connection).map(|found| found.into_iter().collect());
    }
    if number(connection, &RunId(name.into()))?.is_some() {
        return Ok(vec![RunId(name.into())]);
    }
    // Not LIKE, which has wildcards and ignores case. The empty text is a prefix of every id and matches none.
    let sql = "SELECT id FROM run WHERE ?1 <> '' AND substr(id, 1, length(?1)) = ?1 ORDER BY number LIMIT ?2";
    connection.all(sql, &[name.into(), CANDIDATES_MAX.into()], |row| row.get(0).map(RunId))
}

/// The newest run that is not a smoke test, or else the newest smoke test.
fn latest(connection: &Connection) -> Result<Option<RunId>, StoreErrorKind> {
    let newest: Option<RunId> =
        connection.first("SELECT id FROM run ORDER BY number DESC LIMIT 1", &[], |row| row.get(0).map(RunId))?;
    // Most runs are not smoke tests, so the plans of all runs are rarely parsed.
    if smoke_tests(connection, "number = (SELECT max(number) FROM run)")?.is_empty() {
        return Ok(newest);
    }
    let smoke = smoke_tests(connection, "1 = 1")?;
    let ids = connection.all("SELECT id FROM run ORDER BY number DESC", &[], |row| row.get(0).map(RunId))?;
    Ok(ids.into_iter().find(|run| !smoke.contains(&run.0)).or(newest))
}

/// The ids of the smoke tests among the runs that meet this condition.
fn smoke_tests(connection: &Connection, condition: &str) -> Result<BTreeSet<String>, StoreErrorKind> {
    /// The part of a plan that shows it.
    #[derive(Deserialize)]
    struct PlanCommand {
        #[serde(default)]
        command: Vec<String>,
    }
    let mut smoke = BTreeSet::new();
    connection.each(&format!("SELECT id, plan FROM run WHERE {condition}"), &[], |row| {
        let (id, plan): (String, String) = (row.get(0)?, row.get(1)?);
        let PlanCommand { command } = parsed(&plan, &format!("the plan of run {id}"))?;
        if is_smoke_command(&command) {
            smoke.insert(id);
        }
        Ok(())
    })?;
    Ok(smoke)
}

/// The columns of a run's row.
struct Columns {
    id: String,
    plan: String,
    seed: String,
    capture: String,
    host: Option<String>,
    simulated: Option<String>,
    started: i64,
    ended: Option<String>,
    program: String,
}

fn columns(row: &Row<'_>) -> Result<Columns, StoreErrorKind> {
    Ok(Columns {
        id: row.get(0)?,
        plan: row.get(1)?,
        seed: row.get(2)?,
        capture: row.get(3)?,
        host: row.get(4)?,
        simulated: row.get(5)?,
        started: row.get(6)?,
        ended: row.get(7)?,
        program: row.get(8)?,
    })
}

fn decode(columns: Columns) -> Result<RunRecord, StoreErrorKind> {
    let name = format!("run {}", columns.id);
    let plan: Plan = parsed(&columns.plan, &name)?;
    let machine =
        Capture::parse(&columns.capture).map_err(|error| StoreErrorKind::Unreadable(format!("{name}: {error}")))?;
    Ok(RunRecord {
        plan,
        seed: columns
            .seed
            .parse()
            .map_err(|_| StoreErrorKind::Unreadable(format!("{name} has seed '{}'", columns.seed)))?,
        machine,
        host: columns.host,
        simulated: columns.simulated,
        started_unix_ms: columns.started as u64,
        ended: columns.ended.map(|ended| from_word(&ended, &name)).transpose()?,
        program: columns.program,
        id: RunId(columns.id),
    })
}

fn summary(row: &Row<'_>, smoke: &BTreeSet<String>) -> Result<RunSummary, StoreErrorKind> {
    let id: String = row.get(0)?;
    let ended: Option<String> = row.get(5)?;
    Ok(RunSummary {
        experiment: row.get(1)?,
        simulated: row.get(2)?,
        smoke: smoke.contains(&id),
        fingerprint: row.get(3)?,
        started_unix_ms: row.get::<i64>(4)? as u64,
        ended: ended.map(|ended| from_word(&ended, &id)).transpose()?,
        cells: row.get::<Option<u32>>(6)?.unwrap_or(0),
        host: row.get(7)?,
        trials: row.get(8)?,
        counted: row.get(9)?,
        verdicts: VerdictCounts { valid: row.get(10)?, suspect: row.get(11)?, invalid: row.get(12)? },
        id: RunId(id),
    })
}

pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("values of the model have only text as keys of maps")
}

/// Parses JSON that this program wrote; `name` names the object in the error.
pub(crate) fn parsed<T: DeserializeOwned>(text: &str, name: &str) -> Result<T, StoreErrorKind> {
    serde_json::from_str(text).map_err(|error| StoreErrorKind::Unreadable(format!("cannot parse {name}: {error}")))
}

/// The name of a unit variant in JSON.
pub(crate) fn word(value: &impl Serialize) -> String {
    json(value).trim_matches('"').into()
}

/// The unit variant with this name in JSON.
pub(crate) fn from_word<T: DeserializeOwned>(word: &str, name: &str) -> Result<T, StoreErrorKind> {
    parsed(&format!("\"{word}\""), name)
}

/// SQLite has no unsigned integers; the 64 bits are stored and read back unchanged.
pub(crate) fn whole(number: u64) -> i64 {
    number as i64
}
