//! Takes over what another results file has, by id: doing it twice does no harm.

use std::fmt;
use std::path::Path;

use crate::run::insert_run;
use crate::trial::insert_trial;
use crate::{Store, StoreError};

/// What a merge did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeReport {
    /// Runs that were new.
    pub runs_added: usize,
    /// Trials that were new.
    pub trials_added: usize,
    /// Trials that were here already.
    pub trials_known: usize,
    /// Imported tables that the other file had.
    pub tables: usize,
}

impl Store {
    /// Takes over all runs, trials and tables of another file in one transaction.
    pub fn merge(&mut self, other: &Path) -> Result<MergeReport, StoreError> {
        let theirs = Self::open_existing(other)?;
        let ours: Vec<String> = self.runs()?.into_iter().map(|run| run.id.0).collect();
        let mut report = MergeReport::default();
        let mut incoming = Vec::new();
        for summary in theirs.runs()? {
            let record = theirs.run(&summary.id.0)?;
            let mut trials = theirs.trials(&record.id)?;
            let all = trials.len();
            let mut new = Vec::new();
            for trial in trials.drain(..) {
                if !self.has_trial(&trial.trial.id)? {
                    new.push(trial);
                }
            }
            report.trials_known += all - new.len();
            report.trials_added += new.len();
            incoming.push((!ours.contains(&record.id.0), record, new));
        }
        let path = self.path.clone();
        let said = |error: rusqlite::Error| StoreError::of(&path, &error);
        let transaction = self.connection.transaction().map_err(said)?;
        for (is_new, record, trials) in &incoming {
            if *is_new {
                insert_run(&transaction, record).map_err(said)?;
                report.runs_added += 1;
            }
            for trial in trials {
                insert_trial(&transaction, &record.id, trial).map_err(said)?;
            }
        }
        transaction.commit().map_err(said)?;
        for name in theirs.tables()? {
            self.add_table(&theirs.table(&name)?)?;
            report.tables += 1;
        }
        Ok(report)
    }
}

impl fmt::Display for MergeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs_added, trials_added, trials_known, tables } = self;
        write!(f, "added {runs_added} runs and {trials_added} trials, {trials_known} trials were here already, {tables} tables")
    }
}
