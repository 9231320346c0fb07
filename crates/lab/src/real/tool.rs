//! Runs one trial of an external program: preparation, server, warm-up runs, measured run and clean-up, each with its
//! own time limit. After a failure, started processes are ended and clean-up still runs. `machine` starts and monitors
//! them.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use machine::child::{self, Exit, ProcessResult, ServerCommand, ServerError, SpawnSpec};
use model::values::trial::{Evidence, Sample, TextCopy, Trial, TrialOutcome, TrialStatus};
use model::values::units::Nanos;
use workloads::{CommandSpec, Failure, ServerLine, TrialContext, with_hint};

use super::page_cache::{self, CommandFiles, Requirement, UsedFiles};
use super::{bound, not_started, run_to_its_end, text_copy, unbound};

/// Time limit of the clean-up after Ctrl-C: the user is waiting, but changes of the trial should be reverted.
const CLEANUP_AFTER_STOP_MAX: Nanos = Nanos(10_000_000_000);

/// The commands of a trial and the parser of their output.
pub(super) struct Tool<'a> {
    pub trial: &'a Trial,
    pub job: TrialContext,
    pub recipe: CommandSpec,
    pub read: fn(&TrialContext, &ProcessResult) -> Result<Vec<Sample>, Failure>,
    pub stop: &'a AtomicBool,
    /// Time limit of preparation, server start and clean-up, each.
    pub around_limit: Nanos,
    /// The cgroup with the DRAM budget, if there is one: for the server or, without a server, the measured command. A
    /// load within the budget would take memory from its server.
    pub entrance: Option<Arc<File>>,
    /// Files that earlier trials used.
    pub used_files: &'a UsedFiles,
    /// Called with what the trial is waiting for.
    pub on_wait: fn(&str),
}

/// Runs the trial. With a server, preparation and clean-up run once, around the server and all runs of the command;
/// without one they run around each run, as in hyperfine.
pub(super) fn run(tool: &Tool<'_>) -> Result<TrialOutcome, TrialStatus> {
    if let Some(server) = &tool.recipe.server {
        return tool.prepared(|| tool.with_server(server));
    }
    for _ in 0..tool.recipe.warmup {
        tool.prepared(|| tool.measure(&[tool.stop])).and_then(warmed_up)?;
    }
    tool.prepared(|| tool.measure(&[tool.stop]))
}

impl Tool<'_> {
    /// Calls `run` between preparation and clean-up; clean-up also follows a failure.
    fn prepared(&self, run: impl FnOnce() -> Result<TrialOutcome, TrialStatus>) -> Result<TrialOutcome, TrialStatus> {
        let ended = self.prepare().and_then(|()| run());
        let cleaned = self.clean_up();
        let outcome = ended?;
        // The first failure is the one reported.
        Ok(match cleaned {
            Err(status) if outcome.status == TrialStatus::Completed => TrialOutcome::new(Err(status), outcome.evidence),
            _ => outcome,
        })
    }

    fn prepare(&self) -> Result<(), TrialStatus> {
        let Some(command) = &self.recipe.prepare else { return Ok(()) };
        let launch = SpawnSpec { time_limit: self.around_limit, ..unbound(self.trial, command) };
        succeed("preparing", &launch, &[self.stop])
    }

    /// Runs the clean-up command. Ctrl-C shortens its time limit; a second Ctrl-C ends the program.
    fn clean_up(&self) -> Result<(), TrialStatus> {
        let Some(command) = &self.recipe.cleanup else { return Ok(()) };
        let mut launch = SpawnSpec { time_limit: self.around_limit, ..unbound(self.trial, command) };
        if self.stop.load(Ordering::Relaxed) {
            launch.time_limit = launch.time_limit.min(CLEANUP_AFTER_STOP_MAX);
        }
        succeed("cleaning up", &launch, &[])
    }

    /// Runs the command, with its warm-up runs, while the server is running.
    fn with_server(&self, server: &ServerLine) -> Result<TrialOutcome, TrialStatus> {
        let placement = &self.trial.placement;
        let launch = SpawnSpec {
            cpus: placement.server_cpus.clone(),
            time_limit: server.ready_timeout.min(self.around_limit),
            entrance: self.entrance.clone(),
            lists_files: self.lists_files(),
            ..bound(self.trial, &server.command)
        };
        let server = ServerCommand {
            launch,
            ready: server.ready.clone(),
            stop_timeout: server.stop_timeout,
            measured: placement.cpus(),
            on_wait: self.on_wait,
        };
        let files = &self.used_files.server;
        let started = page_cache::start(self.files_required(), &files.placeable, &server.launch);
        let (launch, text_copy) = self.with_text_copy(server.launch, files)?;
        let server = ServerCommand { launch, ..server };
        let ran = child::with_server(&server, self.stop, |ended| {
            let stop = [self.stop, ended];
            for _ in 0..self.recipe.warmup {
                self.measure(&stop).and_then(warmed_up)?;
            }
            self.measure(&stop)
        });
        let (result, server) = ran.map_err(|error| no_server(&error))?;
        let mut ended = result?;
        ended.evidence.second = Some(Box::new(Evidence { page_cache: started, text_copy, ..server.evidence }));
        Ok(ended)
    }

    fn lists_files(&self) -> bool {
        self.trial.placement.copies_text || self.files_required().lists_files()
    }

    fn files_required(&self) -> Requirement<'_> {
        Requirement { placement: self.trial.placement.files.as_ref(), parameter: self.recipe.page_cache }
    }

    /// Returns the start of a command from copies of its program text, if the placement requires them.
    fn with_text_copy(
        &self,
        launch: SpawnSpec,
        files: &CommandFiles,
    ) -> Result<(SpawnSpec, Option<TextCopy>), TrialStatus> {
        if !self.trial.placement.copies_text {
            return Ok((launch, None));
        }
        text_copy::wrap(launch, &files.uncopied).map(|(launch, copy)| (launch, Some(copy)))
    }

    fn measure(&self, stop: &[&AtomicBool]) -> Result<TrialOutcome, TrialStatus> {
        let launch = SpawnSpec {
            entrance: self.entrance.clone().filter(|_| self.recipe.server.is_none()),
            lists_files: self.lists_files(),
            ..bound(self.trial, &self.recipe.command)
        };
        let files = &self.used_files.command;
        let started = page_cache::start(self.files_required(), &files.placeable, &launch);
        let (launch, text_copy) = self.with_text_copy(launch, files)?;
        let finished = run_to_its_end(&launch, stop)?;
        let result = (self.read)(&self.job, &finished).map_err(TrialStatus::from);
        Ok(TrialOutcome::new(result, Evidence { page_cache: started, text_copy, ..finished.evidence }))
    }
}

/// Discards the samples of a warm-up run, which must succeed.
fn warmed_up(outcome: TrialOutcome) -> Result<(), TrialStatus> {
    match outcome.status {
        TrialStatus::Completed => Ok(()),
        TrialStatus::Failed(why) => Err(TrialStatus::Failed(format!("warm-up run: {why}"))),
        other => Err(other),
    }
}

/// Runs a command that is not measured. Its timeout is reported as a failure, because it does not bound the time of the
/// measured command.
fn succeed(what: &str, launch: &SpawnSpec, stop: &[&AtomicBool]) -> Result<(), TrialStatus> {
    let finished = child::run(launch, stop).map_err(|error| match not_started(&error) {
        TrialStatus::Unavailable(why) => TrialStatus::Unavailable(format!("{what}: {why}")),
        other => other,
    })?;
    match finished.exit {
        Exit::Code(0) => Ok(()),
        Exit::TimedOut => Err(TrialStatus::Failed(format!("{what} did not end within {}", launch.time_limit))),
        Exit::Code(_) | Exit::Signal(_) | Exit::Stopped => {
            Err(TrialStatus::Failed(format!("{what} ended with {}", finished.stderr_tail())))
        }
    }
}

fn no_server(error: &ServerError) -> TrialStatus {
    let message = with_hint(error);
    match error {
        ServerError::Launch(launch) if matches!(not_started(launch), TrialStatus::Unavailable(_)) => {
            TrialStatus::Unavailable(message)
        }
        _ => TrialStatus::Failed(message),
    }
}
