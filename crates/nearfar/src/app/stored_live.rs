//! Experiments on running services in the results file: begins one, finds one that can continue, and stores its periods.

use model::analysis::live::{
    LiveEnd, LiveId, LivePeriod, LiveRecord, LiveRequest, LiveSetup, LiveState, LiveTrial, ServiceIdentity,
};
use model::values::id_set::CpuSet;
use model::values::record::RunRecord;
use store::{FileIdentity, Store, StoreError};

use crate::app::results_file::ResultsFile;
use crate::app::target_machine::{current_exe, now_unix_ms};
use crate::error::{CliError, CliStatus};

/// An experiment whose periods are being stored.
pub struct StoredLive {
    pub record: LiveRecord,
    /// State after the periods that were stored before.
    pub state: LiveState,
    store: Store,
    file: Option<FileIdentity>,
}

impl StoredLive {
    /// Begins an experiment.
    pub fn begin(results: &ResultsFile, request: LiveRequest, setup: LiveSetup) -> Result<Self, CliError> {
        let machine =
            machine::capture::read_live_isolated(&current_exe()?).map_err(|error| CliError::topology(&error))?;
        let record = LiveRecord::begin(request, setup, machine, now_unix_ms(), env!("CARGO_PKG_VERSION"));
        let mut store = results.open()?;
        store.begin_live(&record).map_err(|error| failure(&error))?;
        Ok(Self { state: LiveState::new(record.plan()), file: store.identity(), record, store })
    }

    /// Returns an interrupted experiment of the same request on the same process, which may now run on these CPUs. Prints why
    /// one cannot continue.
    pub fn unfinished(
        results: &ResultsFile,
        request: &LiveRequest,
        service: &ServiceIdentity,
        found: &CpuSet,
        quiet: bool,
    ) -> Result<Option<Self>, CliError> {
        if !results.may_exist()? {
            return Ok(None);
        }
        let store = results.open()?;
        let same = store.find_unfinished_live(request, service).map_err(|error| failure(&error))?;
        let (record, obstacle) = match same {
            Some(record) => (record.clone(), other_cpus(&record, found)),
            None => match store.newest_unfinished_live(request).map_err(|error| failure(&error))? {
                Some(record) => (record.clone(), Some(other_process(&record, service))),
                None => return Ok(None),
            },
        };
        if let Some(obstacle) = obstacle {
            if !quiet {
                message!("experiment {} was interrupted, but cannot continue: {obstacle}; a new one begins", record.id);
            }
            return Ok(None);
        }
        let periods = store.live_periods(&record.id).map_err(|error| failure(&error))?;
        let state = LiveState::replay(record.plan(), periods).map_err(|error| {
            CliError::failure(format!("experiment {} cannot continue: {error}", record.id))
                .hint("begin a new one with --fresh")
        })?;
        Ok(Some(Self { file: store.identity(), record, state, store }))
    }

    /// Stores a period.
    ///
    /// # Errors
    /// Why it cannot be stored.
    pub fn add(&mut self, period: &LivePeriod) -> Result<(), String> {
        // SQLite keeps writing to a file that has no name any more.
        if self.file.as_ref().is_some_and(|file| !file.is_in_place()) {
            return Err(format!("{} was removed or replaced", self.store.path().display()));
        }
        self.store.add_live_period(&self.record.id, period).map_err(|error| error.to_string())
    }

    /// Stores the end, unless the experiment can continue, and evaluates all periods.
    pub fn finish(mut self, end: Option<LiveEnd>) -> Result<LiveTrial, CliError> {
        if let Some(end) = &end {
            self.store.end_live(&self.record.id, end).map_err(|error| failure(&error))?;
        }
        self.record.ended = end;
        evaluated(&self.store, &self.record)
    }
}

/// The object of a name in a results file.
pub enum Stored {
    Run(Box<RunRecord>),
    Live(LiveId, Box<LiveTrial>),
}

/// Returns the run or the experiment with this id, or with a prefix of it. `latest` is the latest run, or the latest
/// experiment if there is no run.
pub fn stored(store: &Store, name: &str) -> Result<Stored, CliError> {
    let no_such_run = match store.run(name) {
        Ok(record) => return Ok(Stored::Run(Box::new(record))),
        Err(error @ StoreError::NoSuchRun { .. }) => error,
        Err(error) => return Err(CliError::usage(error)),
    };
    let record = store.live(name).map_err(CliError::usage)?.ok_or_else(|| CliError::usage(no_such_run))?;
    let trial = evaluated(store, &record)?;
    Ok(Stored::Live(record.id, Box::new(trial)))
}

/// Returns the run with this name, for commands that have no use for an experiment on a service.
pub fn stored_run(store: &Store, name: &str, command: &str) -> Result<RunRecord, CliError> {
    match stored(store, name)? {
        Stored::Run(record) => Ok(*record),
        Stored::Live(id, _) => Err(CliError::usage(format!(
            "{id} is an experiment on a running service, which nearfar {command} does not support"
        ))
        .hint(format!("nearfar show {id} --format json has all of its periods"))),
    }
}

/// Evaluates the stored periods of an experiment.
pub fn evaluated(store: &Store, record: &LiveRecord) -> Result<LiveTrial, CliError> {
    Ok(LiveTrial::new(record, store.live_periods(&record.id).map_err(CliError::failure)?))
}

fn failure(error: &StoreError) -> CliError {
    CliError::store(error, CliStatus::Failure)
}

/// Describes why an experiment cannot continue on these CPUs; `None` if they are those that it found.
fn other_cpus(record: &LiveRecord, found: &CpuSet) -> Option<String> {
    let then = &record.setup.placements.first()?.cpus;
    (then != found).then(|| {
        format!("the service may run on {} now, and might run on {} then", found.described(), then.described())
    })
}

/// Describes how the process of an experiment differs from the present one.
fn other_process(record: &LiveRecord, service: &ServiceIdentity) -> String {
    let then = &record.setup.service;
    if then.boot == service.boot {
        format!("its process {} has ended, or another command runs the experiment", then.pid)
    } else {
        "this machine was restarted, or it ran on another one".into()
    }
}
