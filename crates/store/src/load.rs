//! Loads trials by position and verifies them. A damaged trial is replaced by an invalid one, which the plan of its run
//! describes, so that the others stay readable. Must not decide which trials count.

use std::collections::HashMap;
use std::ops::ControlFlow;

use model::values::placement::Placement;
use model::values::record::{RunId, TrialRecord};
use model::values::trial::{Evidence, Sample, Trial, TrialId, TrialOutcome, TrialStatus, Verdict};
use model::values::units::Nanos;
use model::values::workload::Parameters;

use crate::checksum::{self, MISMATCH};
use crate::error::StoreErrorKind;
use crate::repair;
use crate::run::{from_word, parsed};
use crate::sql::{Connection, Row};
use crate::sql_value::Value;
use crate::trial::{cell_hash, row_checksum};

/// A trial as it was read.
pub(crate) struct StoredTrial {
    pub(crate) record: TrialRecord,
    /// The damage. `None` if it is intact, or if it was stored by a version without checksums.
    pub(crate) damage: Option<String>,
}

const COLUMNS: &str = "SELECT number, run, position, id, cell, plan_cell, role, block, attempt, seed, time_limit_ns, \
                       started_unix_ms, took_ns, status, why, verdict, reasons, evidence, checksum FROM trial";
/// Index of the checksum in [`COLUMNS`].
const CHECKSUM: usize = 18;

/// Samples of the trials of a run from one position to another. A cross join makes SQLite go from trials to samples,
/// which is their order in the file.
const SAMPLES: &str = "SELECT sample.trial, series, value FROM trial CROSS JOIN sample \
                       WHERE sample.trial = trial.number AND trial.run = ?1 AND position BETWEEN ?2 AND ?3 \
                       ORDER BY position, ordinal";

/// Number of trials kept in memory while they are visited: two queries per page cost less than parsing its trials.
const PAGE: i64 = 64;

/// The columns of trials that are parsed. All are read, because the checksum covers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialColumns {
    All,
    /// The evidence is empty, which takes most of the time and memory.
    WithoutEvidence,
}

/// Visits the trials of a run, by row number, by position until the visitor breaks.
pub(crate) fn each(
    connection: &Connection,
    run: &RunId,
    number: i64,
    columns: TrialColumns,
    mut visit: impl FnMut(TrialRecord) -> ControlFlow<()>,
) -> Result<(), StoreErrorKind> {
    let mut cells = HashMap::new();
    let (mut from, mut visited) = (0, 0);
    loop {
        let page = load_page(connection, number, (from, PAGE), columns, &mut cells).map(intact).or_else(damage)?;
        let is_complete = page.as_ref().is_some_and(Vec::is_empty) && visited == count(connection, number)?;
        let page = match page {
            Some(page) if is_complete || !page.is_empty() => page,
            _ => all(connection, run, number)?
                .into_iter()
                .filter(|stored| i64::from(stored.record.position) >= from)
                .collect(),
        };
        let Some(last) = page.last() else { return Ok(()) };
        from = i64::from(last.record.position) + 1;
        visited += page.len();
        for stored in page {
            if visit(stored.record).is_break() {
                return Ok(());
            }
        }
    }
}

/// The trials of the run with this row number by position.
pub(crate) fn all(connection: &Connection, run: &RunId, number: i64) -> Result<Vec<StoredTrial>, StoreErrorKind> {
    let read = load_page(connection, number, (0, i64::MAX), TrialColumns::All, &mut HashMap::new())
        .map(intact)
        .or_else(damage)?;
    match read {
        Some(trials) if trials.len() == count(connection, number).unwrap_or(usize::MAX) => Ok(trials),
        _ => repair::load_each(connection, run, number),
    }
}

/// The trials, if none is damaged.
fn intact(trials: Vec<StoredTrial>) -> Option<Vec<StoredTrial>> {
    trials.iter().all(|trial| trial.damage.is_none()).then_some(trials)
}

/// `None` if the error reports damage.
fn damage<T>(fault: StoreErrorKind) -> Result<Option<T>, StoreErrorKind> {
    fault.damage().map(|_| None)
}

/// The number of trials of a run according to the index of their ids; they are loaded by that of their positions.
fn count(connection: &Connection, run: i64) -> Result<usize, StoreErrorKind> {
    connection
        .one("SELECT count(id) FROM trial WHERE run = ?1", &[run.into()], |row| row.get::<i64>(0))
        .map(|count| count as usize)
}

/// Loads at most `count` trials of a run from a position on.
fn load_page(
    connection: &Connection,
    run: i64,
    (from, count): (i64, i64),
    columns: TrialColumns,
    cells: &mut HashMap<i64, CellColumns>,
) -> Result<Vec<StoredTrial>, StoreErrorKind> {
    let mut index_of_row = HashMap::new();
    let mut rows = Vec::new();
    let sql = format!("{COLUMNS} WHERE run = ?1 AND position >= ?2 ORDER BY position LIMIT ?3");
    connection.each(&sql, &[run.into(), from.into(), count.into()], |row| {
        index_of_row.insert(row.get::<i64>(0)?, rows.len());
        rows.push(TrialRow::read(connection, row, columns, cells)?);
        Ok(())
    })?;
    let Some(last) = rows.last().map(|row: &TrialRow| row.record.position) else { return Ok(Vec::new()) };
    connection.each(SAMPLES, &[run.into(), from.into(), last.into()], |row| {
        let index = index_of_row.get(&row.get(0)?).copied();
        let trial = index.and_then(|index| rows.get_mut(index));
        let trial = trial.ok_or_else(|| StoreErrorKind::Unreadable("a sample does not belong to a trial".into()))?;
        trial.record.outcome.samples.push(Sample { series: row.get(1)?, value: row.get(2)? });
        Ok(())
    })?;
    Ok(rows.into_iter().map(TrialRow::verify).collect())
}

/// Loads the trial with this row number. `None` if the run has no such trial.
pub(crate) fn one(
    connection: &Connection,
    run: i64,
    number: i64,
    cells: &mut HashMap<i64, CellColumns>,
) -> Result<Option<StoredTrial>, StoreErrorKind> {
    let sql = format!("{COLUMNS} WHERE number = ?1 AND run = ?2");
    let row = connection
        .first(&sql, &[number.into(), run.into()], |row| TrialRow::read(connection, row, TrialColumns::All, cells))?;
    let Some(mut row) = row else { return Ok(None) };
    let sql = "SELECT series, value FROM sample WHERE trial = ?1 ORDER BY ordinal";
    let sample = |row: &Row<'_>| Ok(Sample { series: row.get(0)?, value: row.get(1)? });
    row.record.outcome.samples = connection.all(sql, &[number.into()], sample)?;
    Ok(Some(row.verify()))
}

#[derive(Clone)]
pub(crate) struct CellColumns {
    hash: String,
    workload: String,
    parameters: Parameters,
    placement: Placement,
}

/// A row of table `trial`, without samples.
struct TrialRow {
    record: TrialRecord,
    /// Stored checksum; `None` if an earlier version has stored the trial.
    stored: Option<i64>,
    /// Checksum of the row as it was read.
    read: i64,
}

impl TrialRow {
    fn read(
        connection: &Connection,
        row: &Row<'_>,
        columns: TrialColumns,
        cells: &mut HashMap<i64, CellColumns>,
    ) -> Result<Self, StoreErrorKind> {
        let id: String = row.get(3)?;
        let name = format!("trial {id}");
        let CellColumns { hash, workload, parameters, placement } = load_cell(connection, row.get(4)?, cells)?;
        let seed: String = row.get(9)?;
        let trial = Trial {
            cell: row.get::<i64>(5)? as usize,
            workload,
            parameters,
            placement,
            role: from_word(&text(row, 6)?, &name)?,
            block: row.get(7)?,
            attempt: row.get(8)?,
            seed: seed.parse().map_err(|_| StoreErrorKind::Unreadable(format!("{name} has seed '{seed}'")))?,
            time_limit: Nanos(row.get::<i64>(10)? as u64),
            id: TrialId(id),
        };
        let outcome = TrialOutcome {
            status: status(&text(row, 13)?, row.get(14)?, &trial.id.0)?,
            samples: Vec::new(),
            evidence: match columns {
                TrialColumns::All => parsed(&text(row, 17)?, &name)?,
                TrialColumns::WithoutEvidence => Evidence::default(),
            },
            started_unix_ms: row.get::<i64>(11)? as u64,
            took: Nanos(row.get::<i64>(12)? as u64),
        };
        let verdict = Verdict { grade: from_word(&text(row, 15)?, &name)?, reasons: parsed(&text(row, 16)?, &name)? };
        let columns: Vec<Value<'_>> = (0..CHECKSUM).map(|index| row.get(index)).collect::<Result<_, _>>()?;
        Ok(Self {
            record: TrialRecord { position: row.get(2)?, trial, outcome, verdict },
            stored: row.get(CHECKSUM)?,
            read: row_checksum(columns, &hash),
        })
    }

    /// Compares row and samples with the checksum.
    fn verify(self) -> StoredTrial {
        let Self { record, stored, read } = self;
        let is_intact = stored.is_none_or(|stored| stored == checksum::with_samples(read, &record.outcome.samples));
        StoredTrial { record, damage: (!is_intact).then(|| MISMATCH.into()) }
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
    let name = format!("cell {number}");
    let sql = "SELECT hash, workload, parameters, placement FROM cell WHERE number = ?1";
    let (hash, workload, parameters, placement): (String, String, String, String) =
        connection.one(sql, &[number.into()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    if cell_hash(&workload, &parameters, &placement) != hash {
        return Err(StoreErrorKind::Unreadable(format!("{name}: {MISMATCH}")));
    }
    let (parameters, placement) = (parsed(&parameters, &name)?, parsed(&placement, &name)?);
    let cell = CellColumns { hash, workload, parameters, placement };
    known.insert(number, cell.clone());
    Ok(cell)
}
