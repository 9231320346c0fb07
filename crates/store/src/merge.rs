//! Merges another results file into this one. Repeating a merge adds nothing.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

use model::analysis::live::{LiveId, LiveRecord};
use model::values::record::{RunId, RunRecord, TrialRecord};
use model::values::trial::TrialId;

use crate::error::StoreErrorKind;
use crate::load::{self, StoredTrial};
use crate::run::word;
use crate::sql::Connection;
use crate::{Store, StoreError, live, run, table, trial};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeReport {
    /// Runs that were added.
    pub runs_added: usize,
    /// Runs that were already present, with fewer, as many or more trials.
    pub runs_present: usize,
    pub trials_added: usize,
    pub trials_present: usize,
    pub tables_added: usize,
    pub tables_present: usize,
    /// Experiments on services, and their periods.
    pub live_added: usize,
    pub live_present: usize,
    pub periods_added: usize,
    /// Runs, tables and experiments that were not merged because they contradict the stored ones, with the reason.
    pub conflicts: Vec<String>,
}

impl fmt::Display for MergeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (runs, trials, tables) = (self.runs_added, self.trials_added, self.tables_added);
        write!(f, "added {runs} runs, {trials} trials, {tables} tables; already present: ")?;
        let (runs, trials, tables) = (self.runs_present, self.trials_present, self.tables_present);
        write!(f, "{runs} runs, {trials} trials, {tables} tables")?;
        if self.live_added + self.live_present > 0 {
            let (added, periods, present) = (self.live_added, self.periods_added, self.live_present);
            write!(f, "; experiments on services: added {added}, {periods} periods; already present: {present}")?;
        }
        self.conflicts.iter().try_for_each(|conflict| write!(f, "\nskipped: {conflict}"))
    }
}

impl Store {
    /// Adds the runs, trials and tables of another results file that are missing here, in one transaction. The other file is
    /// not changed. A run whose history differs between the two files is left unchanged and reported.
    pub fn merge(&mut self, other: &Path) -> Result<MergeReport, StoreError> {
        let other = Self::open_unchanged(other)?;
        self.write(|transaction| {
            let mut report = MergeReport::default();
            let (runs, damaged) = other.runs_and_damage()?;
            report.conflicts.extend(damaged);
            for summary in runs {
                let trials = other.intact_trials(&summary.id, &mut report)?;
                merge_run(transaction, &other.run(&summary.id.0)?, &trials, &mut report)?;
            }
            for name in other.tables()? {
                let content = match other.table(&name) {
                    Err(StoreError::Damaged { cause, .. }) => {
                        report.conflicts.push(format!("{cause} (damaged)"));
                        continue;
                    }
                    content => content?,
                };
                match table::insert(transaction, &content) {
                    Ok(true) => report.tables_added += 1,
                    Ok(false) => report.tables_present += 1,
                    Err(StoreErrorKind::Store(StoreError::TableDiffers { .. })) => {
                        report.conflicts.push(format!("table {name}: a different table of this name is stored"));
                    }
                    Err(fault) => return Err(fault),
                }
            }
            for summary in other.live_experiments()? {
                other.merge_live(transaction, &summary.id, &mut report)?;
            }
            Ok(report)
        })
    }

    /// Adds an experiment of this file to another one, or the periods and the end that are missing there.
    fn merge_live(&self, into: &Connection, id: &LiveId, report: &mut MergeReport) -> Result<(), StoreErrorKind> {
        let remote = self.live(&id.0)?.ok_or_else(live::missing)?;
        let periods = self.live_periods(id)?;
        let stored = match live::number(into, id)? {
            Some(number) => live::periods(into, number, id)?,
            None => Vec::new(),
        };
        match live::find(into, id)? {
            None => {
                live::insert(into, &remote)?;
                report.live_added += 1;
            }
            Some(local) => {
                let is_same = LiveRecord { ended: remote.ended.clone(), ..local.clone() } == remote;
                let common = stored.len().min(periods.len());
                if !is_same || stored[..common] != periods[..common] {
                    report.conflicts.push(format!("experiment {id}: it was continued in both files"));
                    return Ok(());
                }
                report.live_present += 1;
                if local.ended.is_some() {
                    return Ok(());
                }
            }
        }
        let number = live::number(into, id)?.ok_or_else(live::missing)?;
        let new = periods.get(stored.len()..).unwrap_or_default();
        report.periods_added += new.len();
        live::insert_periods(into, number, stored.len() as i64, new)?;
        remote.ended.iter().try_for_each(|end| live::insert_end(into, number, end))
    }
}

impl Store {
    /// The trials of a run; the damaged ones are reported instead.
    fn intact_trials(&self, run: &RunId, report: &mut MergeReport) -> Result<Vec<TrialRecord>, StoreError> {
        let stored = self.read(|connection| load::all(connection, run, run::find_id(connection, &self.path, run)?))?;
        let (damaged, intact): (Vec<_>, Vec<_>) = stored.into_iter().partition(|stored| stored.damage.is_some());
        let describe = |StoredTrial { record, damage }: StoredTrial| {
            format!("trial {} of run {run} is damaged: {}", record.trial.id, damage.unwrap_or_default())
        };
        report.conflicts.extend(damaged.into_iter().map(describe));
        Ok(intact.into_iter().map(|stored| stored.record).collect())
    }
}

fn merge_run(
    connection: &Connection,
    remote: &RunRecord,
    trials: &[TrialRecord],
    report: &mut MergeReport,
) -> Result<(), StoreErrorKind> {
    let local = run::find(connection, &remote.id)?;
    let stored = match run::number(connection, &remote.id)? {
        Some(number) => load::all(connection, &remote.id, number)?,
        None => Vec::new(),
    };
    let new = match missing(local.as_ref(), &stored, remote, trials) {
        Ok(new) => new,
        Err(reason) => {
            report.conflicts.push(format!("run {}: {reason}", remote.id));
            return Ok(());
        }
    };
    if local.is_none() {
        run::insert(connection, remote)?;
        report.runs_added += 1;
    } else {
        report.runs_present += 1;
    }
    if let (Some(RunRecord { ended: None, .. }), Some(ending)) = (&local, &remote.ended) {
        let sql = "UPDATE run SET ended = ?2 WHERE id = ?1";
        connection.execute(sql, &[remote.id.0.as_str().into(), word(ending).into()])?;
    }
    report.trials_present += trials.len() - new.len();
    report.trials_added += new.len();
    let number = run::number(connection, &remote.id)?.ok_or_else(run::damaged_index)?;
    trial::insert(connection, number, &new)
}

/// The trials of the other file that are missing here. Fails if the two histories contradict each other.
fn missing<'a>(
    local: Option<&RunRecord>,
    stored: &[StoredTrial],
    remote: &RunRecord,
    trials: &'a [TrialRecord],
) -> Result<Vec<&'a TrialRecord>, &'static str> {
    if local.is_some_and(|local| RunRecord { ended: remote.ended, ..local.clone() } != *remote) {
        return Err("the stored run has another plan, machine or seed");
    }
    let by_id: HashMap<&TrialId, &StoredTrial> =
        stored.iter().map(|stored| (&stored.record.trial.id, stored)).collect();
    let differs = |stored: &StoredTrial, record: &TrialRecord| stored.damage.is_none() && stored.record != *record;
    if trials.iter().any(|record| by_id.get(&record.trial.id).is_some_and(|stored| differs(stored, record))) {
        return Err("the run was resumed in both files, and the same trials have different results");
    }
    let new: Vec<&TrialRecord> = trials.iter().filter(|record| !by_id.contains_key(&record.trial.id)).collect();
    let taken: HashSet<u32> = stored.iter().map(|stored| stored.record.position).collect();
    if new.iter().any(|record| taken.contains(&record.position)) {
        return Err("the run was resumed in both files, in different orders");
    }
    Ok(new)
}
