//! Observes a results file while another program writes to it: whether it changed, and the progress of it and of a run.
//! The queries read counts only, no samples and no evidence, so they are cheap enough to poll during a run.

use model::values::record::{EndReason, RunId, VerdictCounts};
use model::values::trial::Grade;

use crate::error::StoreErrorKind;
use crate::run::{find_id, from_word};
use crate::sql::{Connection, Row};
use crate::{Store, StoreError};

/// Row counts of a results file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreVersion {
    pub runs: u32,
    /// Number of runs that have ended.
    pub ended: u32,
    pub trials: u32,
    pub tables: u32,
    /// Number of experiments on services, of those that have ended, and of their periods.
    pub live: u32,
    pub live_ended: u32,
    pub periods: u32,
}

/// The progress of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Trials stored, including warm-up and invalid ones.
    pub trials: u32,
    /// Verdicts of all trials except warm-up.
    pub verdicts: VerdictCounts,
    /// Why the run ended. `None` while it has not.
    pub ended: Option<EndReason>,
}

impl Store {
    /// A number that changes whenever another program has changed the file since this one opened it. It has no other
    /// meaning and differs between [`Store`]s. Takes microseconds.
    pub fn data_version(&self) -> Result<i64, StoreError> {
        self.connection.version().map_err(|fault| fault.explain(&self.path))
    }

    pub fn extent(&self) -> Result<StoreVersion, StoreError> {
        let sql = "SELECT (SELECT count(*) FROM run), (SELECT count(ended) FROM run), (SELECT count(*) FROM trial), \
                   (SELECT count(*) FROM imported), (SELECT count(*) FROM live), (SELECT count(*) FROM live_end), \
                   (SELECT count(*) FROM live_period)";
        let extent = |row: &Row<'_>| {
            Ok(StoreVersion {
                runs: row.get(0)?,
                ended: row.get(1)?,
                trials: row.get(2)?,
                tables: row.get(3)?,
                live: row.get(4)?,
                live_ended: row.get(5)?,
                periods: row.get(6)?,
            })
        };
        self.read(|connection| connection.one(sql, &[], extent))
    }

    /// Returns the time at which the newest trial of all runs ended, in milliseconds since 1970. `None` if there is none.
    pub fn newest_trial_unix_ms(&self) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT max(started_unix_ms + took_ns / 1000000) FROM trial";
        let time: Option<i64> = self.read(|connection| connection.one(sql, &[], |row| row.get(0)))?;
        Ok(time.and_then(|time| u64::try_from(time).ok()))
    }

    pub fn progress(&self, run: &RunId) -> Result<Progress, StoreError> {
        self.read(|connection| progress(connection, find_id(connection, &self.path, run)?, run))
    }
}

fn progress(connection: &Connection, number: i64, run: &RunId) -> Result<Progress, StoreErrorKind> {
    let ended: Option<String> =
        connection.one("SELECT ended FROM run WHERE number = ?1", &[number.into()], |row| row.get(0))?;
    let sql = "SELECT role <> 'warmup', verdict, count(*) FROM trial WHERE run = ?1 GROUP BY role <> 'warmup', verdict";
    let (mut trials, mut verdicts) = (0, VerdictCounts::default());
    connection.each(sql, &[number.into()], |row| {
        let (counts, verdict, count): (bool, String, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
        trials += count;
        let grade: Grade = from_word(&verdict, &run.0)?;
        match grade {
            _ if !counts => {}
            Grade::Valid => verdicts.valid += count,
            Grade::Suspect => verdicts.suspect += count,
            Grade::Invalid => verdicts.invalid += count,
        }
        Ok(())
    })?;
    let ended = ended.map(|ended| from_word(&ended, &run.0)).transpose()?;
    Ok(Progress { trials, verdicts, ended })
}
