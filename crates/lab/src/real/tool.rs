//! One trial of a tool: its preparation, server, warm-up runs, measured run and cleaning up, in the right order, each
//! within a time limit of its own. Whatever fails, what was started is ended and cleaned up. How a process is
//! started and watched is for `machine`.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use machine::child::{self, Exit, ProcessResult, ServerCommand, ServerError, SpawnSpec};
use model::values::trial::{Sample, Trial, TrialStatus};
use model::values::units::Nanos;
use workloads::{CommandSpec, Failure, ServerLine, TrialContext, with_hint};

use super::{TrialOutcome, not_started, run_to_its_end, seated, unseated};

/// After Ctrl-C the user waits, but what a trial has changed should be changed back.
const CLEANUP_AFTER_STOP_MAX: Nanos = Nanos(10_000_000_000);

/// What runs, and how its output is read.
pub(super) struct Tool<'a> {
    pub trial: &'a Trial,
    pub job: TrialContext,
    pub recipe: CommandSpec,
    pub read: fn(&TrialContext, &ProcessResult) -> Result<Vec<Sample>, Failure>,
    pub stop: &'a AtomicBool,
    /// For each of what surrounds the measured command.
    pub around_limit: Nanos,
    /// The cgroup of the measured command and of its server, where they have a budget of DRAM.
    pub entrance: Option<Arc<File>>,
}

/// Runs the trial. With a server, that is what preparation and cleaning up are around, and all runs are beside it;
/// without one they are around each run, as hyperfine has it.
pub(super) fn run(tool: &Tool<'_>) -> Result<TrialOutcome, TrialStatus> {
    if let Some(server) = &tool.recipe.server {
        return tool.prepared(|| tool.beside(server));
    }
    for _ in 0..tool.recipe.warmup {
        tool.prepared(|| tool.measure(&[tool.stop])).and_then(warmed_up)?;
    }
    tool.prepared(|| tool.measure(&[tool.stop]))
}

impl Tool<'_> {
    /// What `run` gives, with preparation before it and cleaning up after it, also when preparing or running failed.
    fn prepared(&self, run: impl FnOnce() -> Result<TrialOutcome, TrialStatus>) -> Result<TrialOutcome, TrialStatus> {
        let ended = self.prepare().and_then(|()| run());
        let cleaned = self.clean_up();
        let TrialOutcome { result, evidence } = ended?;
        // What failed first is the reason.
        Ok(TrialOutcome { result: result.and_then(|samples| cleaned.map(|()| samples)), evidence })
    }

    fn prepare(&self) -> Result<(), TrialStatus> {
        let Some(command) = &self.recipe.prepare else { return Ok(()) };
        let launch = SpawnSpec { time_limit: self.around_limit, ..unseated(self.trial, command) };
        succeed("preparing", &launch, &[self.stop])
    }

    /// Not ended by Ctrl-C, within bounds; a second Ctrl-C ends the whole program.
    fn clean_up(&self) -> Result<(), TrialStatus> {
        let Some(command) = &self.recipe.cleanup else { return Ok(()) };
        let mut launch = SpawnSpec { time_limit: self.around_limit, ..unseated(self.trial, command) };
        if self.stop.load(Ordering::Relaxed) {
            launch.time_limit = launch.time_limit.min(CLEANUP_AFTER_STOP_MAX);
        }
        succeed("cleaning up", &launch, &[])
    }

    /// All runs of the command beside the server.
    fn beside(&self, server: &ServerLine) -> Result<TrialOutcome, TrialStatus> {
        let placement = &self.trial.placement;
        let launch = SpawnSpec {
            cpus: placement.second.clone(),
            time_limit: self.around_limit,
            entrance: self.entrance.clone(),
            ..seated(self.trial, &server.command)
        };
        let server = ServerCommand { launch, ready: server.ready.clone(), measured: placement.cpus() };
        let ran = child::with_server(&server, self.stop, |ended| {
            let stop = [self.stop, ended];
            for _ in 0..self.recipe.warmup {
                self.measure(&stop).and_then(warmed_up)?;
            }
            self.measure(&stop)
        });
        let (result, server) = ran.map_err(|error| no_server(&error))?;
        let mut ended = result?;
        ended.evidence.second = Some(Box::new(server.evidence));
        Ok(ended)
    }

    fn measure(&self, stop: &[&AtomicBool]) -> Result<TrialOutcome, TrialStatus> {
        let launch = SpawnSpec { entrance: self.entrance.clone(), ..seated(self.trial, &self.recipe.command) };
        let finished = run_to_its_end(&launch, stop)?;
        let result = (self.read)(&self.job, &finished).map_err(TrialStatus::from);
        Ok(TrialOutcome { result, evidence: finished.evidence })
    }
}

/// A run that has to succeed and counts for nothing.
fn warmed_up(ended: TrialOutcome) -> Result<(), TrialStatus> {
    ended.result.map(drop).map_err(|status| match status {
        TrialStatus::Failed(why) => TrialStatus::Failed(format!("a warm-up run: {why}")),
        other => other,
    })
}

/// Runs what is not measured. That it took too long says nothing about how fast the measured command is, so it is a
/// failure and no time-out.
fn succeed(what: &str, launch: &SpawnSpec, stop: &[&AtomicBool]) -> Result<(), TrialStatus> {
    let finished = child::run(launch, stop).map_err(|error| match not_started(&error) {
        TrialStatus::Unavailable(why) => TrialStatus::Unavailable(format!("{what}: {why}")),
        other => other,
    })?;
    match finished.exit {
        Exit::Code(0) => Ok(()),
        Exit::TimedOut => Err(TrialStatus::Failed(format!("{what} had not ended after {}", launch.time_limit))),
        Exit::Code(_) | Exit::Signal(_) | Exit::Stopped => {
            Err(TrialStatus::Failed(format!("{what} ended with {}", finished.stderr_tail())))
        }
    }
}

fn no_server(error: &ServerError) -> TrialStatus {
    let words = with_hint(error, error.hint());
    match error {
        ServerError::Launch(launch) if matches!(not_started(launch), TrialStatus::Unavailable(_)) => {
            TrialStatus::Unavailable(words)
        }
        _ => TrialStatus::Failed(words),
    }
}
