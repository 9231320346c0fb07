//! Reads the intact trials of a damaged run: each trial by itself, found through both indexes of the table. A
//! damaged trial is replaced by an invalid one. Fails only if the file no longer contains which trials there were.

use std::collections::{BTreeMap, HashMap, HashSet};

use model::values::record::{RunId, RunRecord, TrialRecord};
use model::values::trial::{Evidence, Grade, Trial, TrialId, TrialOutcome, TrialStatus, Verdict};

use crate::error::StoreErrorKind;
use crate::load::{self, StoredTrial};
use crate::run;
use crate::sql::Connection;

/// A trial according to the indexes of the table.
#[derive(Default)]
struct Entry {
    position: Option<u32>,
    id: Option<TrialId>,
}

/// A trial that cannot be read.
struct LostTrial {
    entry: Entry,
    cause: String,
}

/// The trials of a run, by row number, by position.
pub(crate) fn load_each(connection: &Connection, run: &RunId, number: i64) -> Result<Vec<StoredTrial>, StoreErrorKind> {
    let (mut cells, mut trials, mut lost) = (HashMap::new(), Vec::new(), Vec::new());
    for (row, entry) in entries(connection, number)? {
        let cause = match load::one(connection, number, row, &mut cells) {
            Ok(Some(StoredTrial { damage: Some(cause), .. })) => cause,
            Ok(Some(trial)) => {
                trials.push(trial);
                continue;
            }
            Ok(None) => "its row is missing".into(),
            Err(fault) => fault.damage()?,
        };
        lost.push(LostTrial { entry, cause });
    }
    let has_same = |entry: &Entry, trial: &StoredTrial| match &entry.id {
        Some(id) => *id == trial.record.trial.id,
        None => entry.position == Some(trial.record.position),
    };
    // An entry with a damaged row number: the trial was found through the other index.
    lost.retain(|lost| !trials.iter().any(|trial| has_same(&lost.entry, trial)));
    if !lost.is_empty() {
        let record = run::find(connection, run)?.ok_or_else(run::damaged_index)?;
        replace(&record, lost, &mut trials)?;
    }
    trials.sort_by_key(|trial| trial.record.position);
    Ok(trials)
}

/// The trials of a run by row number. Fails if both indexes are damaged.
fn entries(connection: &Connection, run: i64) -> Result<BTreeMap<i64, Entry>, StoreErrorKind> {
    let mut entries: BTreeMap<i64, Entry> = BTreeMap::new();
    // SQLite answers each from the index that has both columns.
    let positions = connection.each("SELECT number, position FROM trial WHERE run = ?1", &[run.into()], |row| {
        entries.entry(row.get(0)?).or_default().position = Some(row.get(1)?);
        Ok(())
    });
    let ids = connection.each("SELECT number, id FROM trial WHERE run = ?1", &[run.into()], |row| {
        entries.entry(row.get(0)?).or_default().id = Some(TrialId(row.get(1)?));
        Ok(())
    });
    match (positions, ids) {
        (Err(fault), Err(_)) => Err(fault),
        (Err(fault), Ok(())) | (Ok(()), Err(fault)) => fault.damage().map(|_| entries),
        (Ok(()), Ok(())) => Ok(entries),
    }
}

/// Adds an invalid trial for each that is lost.
fn replace(record: &RunRecord, lost: Vec<LostTrial>, trials: &mut Vec<StoredTrial>) -> Result<(), StoreErrorKind> {
    let ids = lost.iter().filter_map(|lost| lost.entry.id.clone()).collect();
    // Each block has at least one trial.
    let blocks = (trials.len() + lost.len()) as u32;
    let planned = record.plan.find_trials(&record.id.0, record.seed, ids, blocks);
    let mut known: HashMap<TrialId, Trial> = planned.into_iter().map(|trial| (trial.id.clone(), trial)).collect();
    let mut taken: HashSet<u32> = trials.iter().map(|trial| trial.record.position).collect();
    for LostTrial { entry, cause } in lost {
        let trial = entry.id.as_ref().and_then(|id| known.remove(id));
        let trial = trial.ok_or_else(|| unidentified(record, &entry, &cause))?;
        let position = entry.position.filter(|position| !taken.contains(position));
        let position =
            position.or_else(|| (0..u32::MAX).find(|position| !taken.contains(position))).unwrap_or(u32::MAX);
        taken.insert(position);
        trials.push(StoredTrial { record: damaged_record(position, trial, &cause), damage: Some(cause) });
    }
    Ok(())
}

fn unidentified(record: &RunRecord, entry: &Entry, cause: &str) -> StoreErrorKind {
    let position = entry.position.map_or(String::new(), |position| format!(" at position {position}"));
    StoreErrorKind::Unreadable(format!("a trial{position} of run {} cannot be identified: {cause}", record.id))
}

/// A trial without result, which can be repeated.
fn damaged_record(position: u32, trial: Trial, cause: &str) -> TrialRecord {
    let reason = format!("damaged in the results file: {cause}");
    let outcome = TrialOutcome::new(Err(TrialStatus::Failed(reason.clone())), Evidence::default());
    TrialRecord { position, trial, outcome, verdict: Verdict { grade: Grade::Invalid, reasons: vec![reason] } }
}
