//! The list of all runs with the counts of their trials. Reads no samples and no evidence; a damaged run is described
//! instead.

use std::collections::BTreeMap;

use model::values::record::{RunId, RunSummary, VerdictCounts};
use model::values::stamp::is_smoke_command;
use model::values::trial::{Grade, Role};
use serde::Deserialize;

use crate::error::StoreErrorKind;
use crate::run::{self, PlanOutline, RunRow, SELECT, from_word, parsed};
use crate::sql::Connection;

/// The part of a capture that the list shows.
#[derive(Deserialize)]
struct CaptureOutline {
    #[serde(default)]
    settings: Vec<Fact>,
}

#[derive(Deserialize)]
struct Fact {
    key: String,
    value: Option<String>,
}

/// Counts of the trials of a run.
#[derive(Clone, Copy, Default)]
struct TrialCounts {
    trials: u32,
    /// Number of measured trials that are not invalid.
    counted: u32,
    /// Verdicts of all trials except the warm-up.
    verdicts: VerdictCounts,
}

/// All runs in the order in which they were begun here or imported, or a description of the damage.
pub(crate) fn read(connection: &Connection) -> Result<Vec<Result<RunSummary, String>>, StoreErrorKind> {
    check_index(connection)?;
    let mut counts = count(connection)?;
    let indexed = count_in_index(connection)?;
    let rows = connection.all(&format!("{SELECT} ORDER BY run.number"), &[], RunRow::read)?;
    let read = |row: RunRow| {
        let (id, number) = (row.id.clone(), row.number);
        let counts = counts.remove(&number).unwrap_or_else(|| Ok(TrialCounts::default()));
        let summary = counts.and_then(|counts| {
            let is_same = indexed.get(&number).copied().unwrap_or(0) == counts.trials;
            if !is_same {
                return Err(StoreErrorKind::Unreadable("the index of its trials does not match them".into()));
            }
            summary(row.verified()?, counts)
        });
        match summary {
            Ok(summary) => Ok(Ok(summary)),
            Err(fault) => {
                let cause = fault.damage()?;
                let name = format!("run {id}: ");
                Ok(Err(format!("run {id} is damaged: {}", cause.strip_prefix(&name).unwrap_or(&cause))))
            }
        }
    };
    rows.into_iter().map(read).collect()
}

/// Compares the number of runs in the table with that in the index of their ids: damage can hide rows of either.
pub(crate) fn check_index(connection: &Connection) -> Result<(), StoreErrorKind> {
    // The conditions choose the table and the index; both are true for all rows.
    let sql = "SELECT (SELECT count(*) FROM run WHERE machine >= 0) = (SELECT count(*) FROM run WHERE id >= '')";
    let is_same: bool = connection.one(sql, &[], |row| row.get(0))?;
    if is_same { Ok(()) } else { Err(run::damaged_index()) }
}

/// Counts the trials by the row number of their run in the index of their ids.
fn count_in_index(connection: &Connection) -> Result<BTreeMap<i64, u32>, StoreErrorKind> {
    let counts =
        connection.all("SELECT run, count(id) FROM trial GROUP BY run", &[], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(counts.into_iter().collect())
}

/// Counts the trials by the row number of their run.
fn count(connection: &Connection) -> Result<BTreeMap<i64, Result<TrialCounts, StoreErrorKind>>, StoreErrorKind> {
    let mut counts: BTreeMap<i64, Result<TrialCounts, StoreErrorKind>> = BTreeMap::new();
    let sql = "SELECT run, role, verdict, count(*) FROM trial GROUP BY run, role, verdict";
    connection.each(sql, &[], |row| {
        let (role, verdict): (String, String) = (row.get(1)?, row.get(2)?);
        let entry = counts.entry(row.get(0)?).or_insert_with(|| Ok(TrialCounts::default()));
        match (entry, from_word(&role, "role").and_then(|role| Ok((role, from_word(&verdict, "verdict")?)))) {
            (Ok(counts), Ok((role, grade))) => counts.add(role, grade, row.get(3)?),
            (entry, Err(fault)) => *entry = Err(fault),
            (Err(_), Ok(_)) => {}
        }
        Ok(())
    })?;
    Ok(counts)
}

impl TrialCounts {
    fn add(&mut self, role: Role, grade: Grade, count: u32) {
        self.trials += count;
        if role == Role::Measured && grade != Grade::Invalid {
            self.counted += count;
        }
        if role != Role::Warmup {
            match grade {
                Grade::Valid => self.verdicts.valid += count,
                Grade::Suspect => self.verdicts.suspect += count,
                Grade::Invalid => self.verdicts.invalid += count,
            }
        }
    }
}

fn summary(row: RunRow, counts: TrialCounts) -> Result<RunSummary, StoreErrorKind> {
    let name = format!("run {}", row.id);
    let plan: PlanOutline = parsed(&row.plan, &name)?;
    let TrialCounts { trials, counted, verdicts } = counts;
    let host = match row.host {
        None => cpu_model(&row.capture, &name)?,
        host => host,
    };
    Ok(RunSummary {
        experiment: row.experiment,
        host,
        simulated: row.simulated,
        smoke: is_smoke_command(&plan.command),
        fingerprint: row.fingerprint,
        started_unix_ms: row.started as u64,
        ended: row.ended.map(|ended| from_word(&ended, &name)).transpose()?,
        cells: plan.cells.len() as u32,
        trials,
        counted,
        verdicts,
        id: RunId(row.id),
    })
}

fn cpu_model(capture: &str, name: &str) -> Result<Option<String>, StoreErrorKind> {
    let CaptureOutline { settings } = parsed(capture, name)?;
    Ok(settings.into_iter().find(|fact| fact.key == "cpu.model").and_then(|fact| fact.value))
}
