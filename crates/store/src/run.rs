//! Runs: stored when they begin and end, found by name or by plan.

use std::collections::BTreeSet;
use std::path::Path;

use model::values::capture::Capture;
use model::values::record::{EndReason, RunId, RunRecord, RunSummary};
use model::values::settings::Settings;
use model::values::stamp::is_smoke_command;
use model::values::trial::short_hash;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::error::{LATEST, StoreErrorKind};
use crate::sql::{Connection, Row};
use crate::sql_value::Value;
use crate::{Store, StoreError, checksum, run_list, table};

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

    /// All runs in the order in which they were begun here or imported, without the damaged ones.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        self.runs_and_damage().map(|(runs, _)| runs)
    }

    /// Like [`Store::runs`], with a description of each damaged run.
    pub fn runs_and_damage(&self) -> Result<(Vec<RunSummary>, Vec<String>), StoreError> {
        let (mut runs, mut damaged) = (Vec::new(), Vec::new());
        for run in self.read(run_list::read)? {
            match run {
                Ok(run) => runs.push(run),
                Err(description) => damaged.push(description),
            }
        }
        Ok((runs, damaged))
    }

    /// A run by its id, by a prefix of its id, or `latest`: the run begun or imported last, regardless of its time
    /// stamp. A smoke test is the latest only if there is no other run.
    pub fn run(&self, name: &str) -> Result<RunRecord, StoreError> {
        let path = self.path.clone();
        self.read(|connection| {
            let candidates = candidates(connection, name)?;
            match &candidates[..] {
                [] => {
                    let tables = if name == LATEST { table::names(connection)? } else { Vec::new() };
                    Err(StoreError::NoSuchRun { path, name: name.into(), tables }.into())
                }
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

/// Columns of a run and of its machine, in the order of [`RunRow`].
pub(crate) const SELECT: &str = "SELECT run.number, run.id, experiment, plan_key, plan, seed, host, simulated, started_unix_ms, program, \
            machine.hash, machine.fingerprint, machine.capture, ended, checksum \
     FROM run JOIN machine ON machine.number = run.machine";
/// Number of columns in [`SELECT`] that the checksum covers. The machine's hash covers its capture.
const CHECKED: usize = 12;

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

pub(crate) fn insert(connection: &Connection, record: &RunRecord) -> Result<(), StoreErrorKind> {
    if number(connection, &record.id)?.is_some() {
        return Err(StoreError::RunAlreadyStored { run: record.id.clone() }.into());
    }
    let number = connection.next_number("run")?;
    let (machine, capture_hash) = machine(connection, &record.machine)?;
    let plan_key = record.plan.key();
    let checked: [Value<'_>; CHECKED] = [
        number.into(),
        record.id.0.as_str().into(),
        record.plan.experiment.as_str().into(),
        plan_key.into(),
        json(&record.plan).into(),
        record.seed.to_string().into(),
        record.host.as_deref().into(),
        record.simulated.as_deref().into(),
        whole(record.started_unix_ms).into(),
        record.program.as_str().into(),
        capture_hash.into(),
        record.machine.settings.fingerprint().into(),
    ];
    let checksum = checksum::of_row(&checked);
    let [number, id, experiment, plan_key, plan, seed, host, simulated, started, program, _, _] = checked;
    let columns: [(&str, Value<'_>); 13] = [
        ("number", number),
        ("id", id),
        ("machine", machine.into()),
        ("experiment", experiment),
        ("plan_key", plan_key),
        ("plan", plan),
        ("seed", seed),
        ("host", host),
        ("simulated", simulated),
        ("started_unix_ms", started),
        ("ended", record.ended.as_ref().map(word).into()),
        ("program", program),
        ("checksum", checksum.into()),
    ];
    connection.insert("run", columns.each_ref().map(|column| column.0), [columns.map(|column| column.1)])
}

/// The row number of a run.
pub(crate) fn number(connection: &Connection, run: &RunId) -> Result<Option<i64>, StoreErrorKind> {
    connection.first("SELECT number FROM run WHERE id = ?1", &[run.0.as_str().into()], |row| row.get(0))
}

/// The row number of a run. Fails if the run is not stored.
pub(crate) fn find_id(connection: &Connection, path: &Path, run: &RunId) -> Result<i64, StoreErrorKind> {
    let no_such = || StoreError::NoSuchRun { path: path.into(), name: run.0.clone(), tables: Vec::new() };
    number(connection, run)?.ok_or_else(|| no_such().into())
}

/// The row number and the hash of a machine in this state, inserted on first use.
pub(crate) fn machine(connection: &Connection, capture: &Capture) -> Result<(i64, String), StoreErrorKind> {
    let text = json(capture);
    let hash = short_hash(&text);
    let known = "SELECT number FROM machine WHERE hash = ?1";
    if let Some(number) = connection.first(known, &[hash.as_str().into()], |row| row.get(0))? {
        return Ok((number, hash));
    }
    let number = connection.next_number("machine")?;
    let row = [number.into(), hash.as_str().into(), capture.settings.fingerprint().into(), text.into()];
    connection.insert("machine", ["number", "hash", "fingerprint", "capture"], [row])?;
    Ok((number, hash))
}

pub(crate) fn find(connection: &Connection, run: &RunId) -> Result<Option<RunRecord>, StoreErrorKind> {
    let sql = format!("{SELECT} WHERE run.id = ?1");
    connection.first(&sql, &[run.0.as_str().into()], RunRow::read)?.map(|row| row.verified()?.decode()).transpose()
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
    run_list::check_index(connection)?;
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
    let mut smoke = BTreeSet::new();
    connection.each(&format!("SELECT id, plan FROM run WHERE {condition}"), &[], |row| {
        let (id, plan): (String, String) = (row.get(0)?, row.get(1)?);
        let PlanOutline { command, .. } = parsed(&plan, &format!("the plan of run {id}"))?;
        if is_smoke_command(&command) {
            smoke.insert(id);
        }
        Ok(())
    })?;
    Ok(smoke)
}

/// The part of a plan that a list of runs shows.
#[derive(Deserialize)]
pub(crate) struct PlanOutline {
    #[serde(default)]
    pub(crate) cells: Vec<IgnoredAny>,
    #[serde(default)]
    pub(crate) command: Vec<String>,
}

/// The columns of [`SELECT`].
pub(crate) struct RunRow {
    pub(crate) number: i64,
    pub(crate) id: String,
    pub(crate) experiment: String,
    pub(crate) plan: String,
    seed: String,
    pub(crate) host: Option<String>,
    pub(crate) simulated: Option<String>,
    pub(crate) started: i64,
    program: String,
    pub(crate) fingerprint: String,
    pub(crate) capture: String,
    pub(crate) ended: Option<String>,
    /// Whether the row and the machine are undamaged.
    is_intact: bool,
}

impl RunRow {
    pub(crate) fn read(row: &Row<'_>) -> Result<Self, StoreErrorKind> {
        let checked: Vec<Value<'_>> = (0..CHECKED).map(|index| row.get(index)).collect::<Result<_, _>>()?;
        let (hash, capture): (String, String) = (row.get(10)?, row.get(12)?);
        let checksum: Option<i64> = row.get(14)?;
        let is_intact = checksum.is_none_or(|stored| stored == checksum::of_row(&checked));
        Ok(Self {
            number: row.get(0)?,
            id: row.get(1)?,
            experiment: row.get(2)?,
            plan: row.get(4)?,
            seed: row.get(5)?,
            host: row.get(6)?,
            simulated: row.get(7)?,
            started: row.get(8)?,
            program: row.get(9)?,
            fingerprint: row.get(11)?,
            is_intact: is_intact && short_hash(&capture) == hash,
            capture,
            ended: row.get(13)?,
        })
    }

    pub(crate) fn verified(self) -> Result<Self, StoreErrorKind> {
        let mismatch = || StoreErrorKind::Unreadable(format!("run {}: {}", self.id, checksum::MISMATCH));
        if self.is_intact { Ok(self) } else { Err(mismatch()) }
    }

    fn decode(self) -> Result<RunRecord, StoreErrorKind> {
        let name = format!("run {}", self.id);
        let machine =
            Capture::parse(&self.capture).map_err(|error| StoreErrorKind::Unreadable(format!("{name}: {error}")))?;
        Ok(RunRecord {
            plan: parsed(&self.plan, &name)?,
            seed: self
                .seed
                .parse()
                .map_err(|_| StoreErrorKind::Unreadable(format!("{name} has seed '{}'", self.seed)))?,
            machine,
            host: self.host,
            simulated: self.simulated,
            started_unix_ms: self.started as u64,
            ended: self.ended.map(|ended| from_word(&ended, &name)).transpose()?,
            program: self.program,
            id: RunId(self.id),
        })
    }
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
