//! Experiments on running services: each period is stored atomically and once, and rows are never changed.

use std::path::Path;

use model::analysis::live::{LiveEnd, LiveId, LivePeriod, LiveRecord, LiveRequest, LiveSummary, ServiceIdentity};
use model::stats::switchback::ArmId;
use model::values::capture::Capture;

use crate::error::StoreErrorKind;
use crate::run::{self, from_word, json, parsed, whole, word};
use crate::sql::{Connection, Row};
use crate::sql_value::Value;
use crate::{Store, StoreError, checksum};

/// Maximum number of experiments that a name may denote; more are as ambiguous as these.
const CANDIDATES_MAX: u32 = 5;

/// The progress of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveProgress {
    /// Stored periods.
    pub periods: u32,
    pub has_ended: bool,
}

impl Store {
    /// Stores an experiment that begins.
    pub fn begin_live(&mut self, record: &LiveRecord) -> Result<(), StoreError> {
        self.write(|connection| {
            insert(connection, record)?;
            connection.claim(&record.id.0).map(|_| ())
        })
    }

    /// Stores the next period of an experiment.
    pub fn add_live_period(&mut self, id: &LiveId, period: &LivePeriod) -> Result<(), StoreError> {
        let path = self.path.clone();
        self.write(|connection| {
            let number = find_number(connection, &path, id)?;
            let sql = "SELECT count(*) FROM live_period WHERE live = ?1";
            let position: i64 = connection.one(sql, &[number.into()], |row| row.get(0))?;
            insert_periods(connection, number, position, std::slice::from_ref(period))
        })
    }

    /// Stores the end of an experiment.
    pub fn end_live(&mut self, id: &LiveId, end: &LiveEnd) -> Result<(), StoreError> {
        let path = self.path.clone();
        self.write(|connection| insert_end(connection, find_number(connection, &path, id)?, end))
    }

    /// The newest experiment of this request on this process that has not ended. On a server, those that another program
    /// runs are excluded.
    pub fn find_unfinished_live(
        &self,
        request: &LiveRequest,
        service: &ServiceIdentity,
    ) -> Result<Option<LiveRecord>, StoreError> {
        self.read(|connection| {
            for record in unfinished(connection, request)? {
                if record.setup.service == *service && connection.claim(&record.id.0)? {
                    return Ok(Some(record));
                }
            }
            Ok(None)
        })
    }

    /// The newest experiment of this request that has not ended, on any process.
    pub fn newest_unfinished_live(&self, request: &LiveRequest) -> Result<Option<LiveRecord>, StoreError> {
        self.read(|connection| Ok(unfinished(connection, request)?.into_iter().next()))
    }

    /// The experiment with this id or the only one whose id has this prefix; `latest` is the newest. `None` if there is none.
    pub fn live(&self, name: &str) -> Result<Option<LiveRecord>, StoreError> {
        self.read(|connection| match &candidates(connection, name)?[..] {
            [] => Ok(None),
            [only] => find(connection, only),
            several => {
                let runs = several.iter().map(|id| model::values::record::RunId(id.0.clone())).collect();
                Err(StoreError::AmbiguousRun { name: name.into(), runs }.into())
            }
        })
    }

    /// All experiments in the order in which they were begun here or imported.
    pub fn live_experiments(&self) -> Result<Vec<LiveSummary>, StoreError> {
        self.read(|connection| {
            let ids = connection.all("SELECT id FROM live ORDER BY number", &[], |row| row.get(0).map(LiveId))?;
            ids.iter().map(|id| summary(connection, find(connection, id)?.ok_or_else(missing)?)).collect()
        })
    }

    /// The periods of an experiment in their order.
    pub fn live_periods(&self, id: &LiveId) -> Result<Vec<LivePeriod>, StoreError> {
        self.read(|connection| periods(connection, find_number(connection, &self.path, id)?, id))
    }

    pub fn live_progress(&self, id: &LiveId) -> Result<LiveProgress, StoreError> {
        let sql = "SELECT (SELECT count(*) FROM live_period WHERE live = ?1), \
                   (SELECT count(*) FROM live_end WHERE live = ?1)";
        self.read(|connection| {
            let number = find_number(connection, &self.path, id)?;
            connection.one(sql, &[number.into()], |row| {
                Ok(LiveProgress { periods: row.get(0)?, has_ended: row.get::<u32>(1)? > 0 })
            })
        })
    }
}

const SELECT: &str = "SELECT live.number, id, request, setup, started_unix_ms, program, machine.hash, \
                      checksum, machine.capture FROM live JOIN machine ON machine.number = live.machine";
/// Number of columns in [`SELECT`] that the checksum covers. The machine's hash covers its capture.
const CHECKED: usize = 7;

pub(crate) fn insert(connection: &Connection, record: &LiveRecord) -> Result<(), StoreErrorKind> {
    let number = connection.next_number("live")?;
    let (machine, machine_hash) = run::machine(connection, &record.machine)?;
    let checked: [Value<'_>; CHECKED] = [
        number.into(),
        record.id.0.as_str().into(),
        json(&record.request).into(),
        json(&record.setup).into(),
        whole(record.started_unix_ms).into(),
        record.program.as_str().into(),
        machine_hash.into(),
    ];
    let checksum = checksum::of_row(&checked);
    let [number, id, request, setup, started, program, _] = checked;
    let row = [number, id, machine.into(), request, setup, started, program, checksum.into()];
    let columns = ["number", "id", "machine", "request", "setup", "started_unix_ms", "program", "checksum"];
    connection.insert("live", columns, [row])
}

/// Stores periods from a position on.
pub(crate) fn insert_periods(
    connection: &Connection,
    live: i64,
    position: i64,
    periods: &[LivePeriod],
) -> Result<(), StoreErrorKind> {
    let row = |(position, period): (i64, &LivePeriod)| {
        let values: [Value<'_>; 10] = [
            live.into(),
            position.into(),
            period.block.into(),
            word(&period.phase).into(),
            period.arm.0.into(),
            period.at_s.into(),
            period.length_s.into(),
            Value::real(period.rate),
            period.unproven.clone().into(),
            json(&period.evidence).into(),
        ];
        let checksum = checksum::of_row(&values);
        let [live, position, block, phase, arm, at_s, length_s, rate, unproven, evidence] = values;
        [live, position, block, phase, arm, at_s, length_s, rate, unproven, evidence, checksum.into()]
    };
    connection.insert("live_period", PERIOD_COLUMNS, (position..).zip(periods).map(row))
}

const PERIOD_COLUMNS: [&str; 11] =
    ["live", "position", "block", "phase", "arm", "at_s", "length_s", "rate", "unproven", "evidence", "checksum"];

pub(crate) fn insert_end(connection: &Connection, live: i64, end: &LiveEnd) -> Result<(), StoreErrorKind> {
    let values: [Value<'_>; 3] = [live.into(), end.at_s.into(), end.reason.clone().into()];
    let checksum = checksum::of_row(&values);
    let [live, at_s, reason] = values;
    connection.insert("live_end", ["live", "at_s", "reason", "checksum"], [[live, at_s, reason, checksum.into()]])
}

pub(crate) fn number(connection: &Connection, id: &LiveId) -> Result<Option<i64>, StoreErrorKind> {
    connection.first("SELECT number FROM live WHERE id = ?1", &[id.0.as_str().into()], |row| row.get(0))
}

fn find_number(connection: &Connection, path: &Path, id: &LiveId) -> Result<i64, StoreErrorKind> {
    let no_such = || StoreError::NoSuchRun { path: path.into(), name: id.0.clone(), tables: Vec::new() };
    number(connection, id)?.ok_or_else(|| no_such().into())
}

/// An id was just read, in the same transaction, but has no experiment.
pub(crate) fn missing() -> StoreErrorKind {
    StoreErrorKind::Unreadable("the index of the experiments on services does not match them".into())
}

pub(crate) fn find(connection: &Connection, id: &LiveId) -> Result<Option<LiveRecord>, StoreErrorKind> {
    let sql = format!("{SELECT} WHERE id = ?1");
    let found = connection.first(&sql, &[id.0.as_str().into()], |row| read(row, id))?;
    let Some((number, record)) = found else { return Ok(None) };
    Ok(Some(LiveRecord { ended: end(connection, number, id)?, ..record }))
}

/// Returns the row number and the experiment without its end.
fn read(row: &Row<'_>, id: &LiveId) -> Result<(i64, LiveRecord), StoreErrorKind> {
    let name = format!("experiment {id}");
    let checked: Vec<Value<'_>> = (0..CHECKED).map(|index| row.get(index)).collect::<Result<_, _>>()?;
    checksum::verify(Some(row.get(CHECKED)?), &checked, &name)?;
    let (request, setup): (String, String) = (row.get(2)?, row.get(3)?);
    let capture: String = row.get(8)?;
    if model::values::trial::short_hash(&capture) != row.get::<String>(6)? {
        return Err(StoreErrorKind::Unreadable(format!("{name}: {}", checksum::MISMATCH)));
    }
    let machine = Capture::parse(&capture).map_err(|error| StoreErrorKind::Unreadable(format!("{name}: {error}")))?;
    let record = LiveRecord {
        id: id.clone(),
        request: parsed(&request, &name)?,
        setup: parsed(&setup, &name)?,
        machine,
        started_unix_ms: row.get::<i64>(4)? as u64,
        ended: None,
        program: row.get(5)?,
    };
    Ok((row.get(0)?, record))
}

fn end(connection: &Connection, live: i64, id: &LiveId) -> Result<Option<LiveEnd>, StoreErrorKind> {
    let sql = "SELECT live, at_s, reason, checksum FROM live_end WHERE live = ?1";
    connection.first(sql, &[live.into()], |row| {
        let checked: Vec<Value<'_>> = (0..3).map(|index| row.get(index)).collect::<Result<_, _>>()?;
        checksum::verify(Some(row.get(3)?), &checked, &format!("the end of experiment {id}"))?;
        Ok(LiveEnd { at_s: row.get(1)?, reason: row.get(2)? })
    })
}

pub(crate) fn periods(connection: &Connection, live: i64, id: &LiveId) -> Result<Vec<LivePeriod>, StoreErrorKind> {
    let sql = format!("SELECT {} FROM live_period WHERE live = ?1 ORDER BY position", PERIOD_COLUMNS.join(", "));
    let mut next = 0;
    connection.all(&sql, &[live.into()], |row| {
        let name = format!("period {next} of experiment {id}");
        let checked: Vec<Value<'_>> = (0..10).map(|index| row.get(index)).collect::<Result<_, _>>()?;
        checksum::verify(Some(row.get(10)?), &checked, &name)?;
        if row.get::<i64>(1)? != next {
            return Err(StoreErrorKind::Unreadable(format!("{name} is missing")));
        }
        next += 1;
        let (phase, evidence): (String, String) = (row.get(3)?, row.get(9)?);
        Ok(LivePeriod {
            block: row.get(2)?,
            phase: from_word(&phase, &name)?,
            arm: ArmId(row.get(4)?),
            at_s: row.get(5)?,
            length_s: row.get(6)?,
            rate: row.get(7)?,
            unproven: row.get(8)?,
            evidence: parsed(&evidence, &name)?,
        })
    })
}

fn unfinished(connection: &Connection, request: &LiveRequest) -> Result<Vec<LiveRecord>, StoreErrorKind> {
    let sql =
        "SELECT id FROM live WHERE request = ?1 AND number NOT IN (SELECT live FROM live_end) ORDER BY number DESC";
    let ids = connection.all(sql, &[json(request).into()], |row| row.get(0).map(LiveId))?;
    ids.iter().filter_map(|id| find(connection, id).transpose()).collect()
}

fn candidates(connection: &Connection, name: &str) -> Result<Vec<LiveId>, StoreErrorKind> {
    if name == crate::error::LATEST {
        let sql = "SELECT id FROM live ORDER BY number DESC LIMIT 1";
        return connection.all(sql, &[], |row| row.get(0).map(LiveId));
    }
    let sql = "SELECT id FROM live WHERE ?1 <> '' AND substr(id, 1, length(?1)) = ?1 ORDER BY number LIMIT ?2";
    connection.all(sql, &[name.into(), CANDIDATES_MAX.into()], |row| row.get(0).map(LiveId))
}

fn summary(connection: &Connection, record: LiveRecord) -> Result<LiveSummary, StoreErrorKind> {
    let sql = "SELECT count(*) FROM live_period JOIN live ON live.number = live_period.live WHERE live.id = ?1";
    let periods = connection.one(sql, &[record.id.0.as_str().into()], |row| row.get(0))?;
    Ok(LiveSummary {
        id: record.id,
        subject: record.setup.subject,
        metric: record.request.metric,
        placements: record.setup.placements.len(),
        started_unix_ms: record.started_unix_ms,
        periods,
        ended: record.ended,
    })
}
