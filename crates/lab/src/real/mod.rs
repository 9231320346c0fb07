//! Runs trials on this machine. Each is a child process, bound before its first instruction and monitored while it
//! runs. Built-in kernels run in a worker process of this program, external programs directly (`tool`).

mod compressibility;
mod far;
mod page_cache;
mod text_copy;
mod tool;

pub use far::{FarConfig, RequiredMemory, required};

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use machine::child::{self, Exit, LaunchError, SpawnSpec};
use machine::interrupt::{InterruptMonitor, RouteError, Routes};
use model::placements::placement::refused;
use model::values::trial::{Evidence, Trial, TrialOutcome, TrialStatus};
use model::values::units::{Bytes, Nanos};
use workloads::{CommandLine, Runner, TrialContext, Workload, with_hint, worker};

use self::page_cache::UsedFiles;
use crate::executor::Executor;

/// Output beyond this is counted and discarded; results are much shorter.
const OUTPUT_MAX: Bytes = Bytes(16 << 20);

/// The hidden command that runs a kernel.
const WORKER: &str = "__worker";

#[derive(Debug)]
pub struct RealExecutor {
    program: PathBuf,
    stop: Arc<AtomicBool>,
    around_limit: Nanos,
    /// Interrupt routing; `None` if no placement changes it.
    routes: Option<Routes>,
    far: FarConfig,
    used_files: UsedFiles,
    on_wait: fn(&str),
}

impl RealExecutor {
    /// `program` is the executable of this program, which is started as a worker. `stop` ends the running trial.
    /// Preparation, server start and clean-up of a measured command may take `around_limit` each: the limit of the
    /// trial itself may be short, because a race kills slow candidates early. `routes` is required by placements with
    /// interrupt affinity, `far` by placements with a DRAM budget.
    pub fn new(
        program: PathBuf,
        stop: Arc<AtomicBool>,
        around_limit: Nanos,
        routes: Option<Routes>,
        far: FarConfig,
    ) -> Self {
        Self { program, stop, around_limit, routes, far, used_files: UsedFiles::default(), on_wait: |_| () }
    }

    /// Calls `on_wait` with what a trial is waiting for, if that takes longer than a moment.
    #[must_use]
    pub fn reporting(self, on_wait: fn(&str)) -> Self {
        Self { on_wait, ..self }
    }

    /// Runs a trial with the interrupt affinity of its placement, and monitors the interrupts.
    fn run_routed(&self, trial: &Trial) -> Result<TrialOutcome, TrialStatus> {
        let requested = &trial.placement.interrupts;
        if let Some(routes) = &self.routes {
            routes.send(requested).map_err(|error| match error {
                RouteError::Managed(why) => TrialStatus::Unavailable(why),
                RouteError::Refused(why) => TrialStatus::Failed(why),
            })?;
        }
        let watched = InterruptMonitor::begin(self.routes.as_ref().map_or("/".into(), Routes::root), requested);
        let mut ended = self.run_budgeted(trial)?;
        watched.explain(&mut ended.evidence);
        Ok(ended)
    }

    /// Runs a trial with its DRAM budget, if it has one.
    fn run_budgeted(&self, trial: &Trial) -> Result<TrialOutcome, TrialStatus> {
        let Some(budget) = trial.placement.budget else { return self.run_trial(trial, None) };
        let (expansion, entrance) = far::begin(budget, &self.far)?;
        let (ended, pool_peak) = far::with_pool_peak(&expansion, budget, || self.run_trial(trial, Some(entrance)));
        // The expansion ends whatever the result of the trial; the first failure is the one reported.
        let far = far::end(expansion, pool_peak);
        let mut ended = ended?;
        ended.evidence.budget = Some(far?);
        Ok(ended)
    }

    fn run_trial(&self, trial: &Trial, entrance: Option<Arc<File>>) -> Result<TrialOutcome, TrialStatus> {
        match workload_of(trial)?.runner {
            Runner::Kernel(_) => self.run_kernel(trial, entrance),
            Runner::Tool { .. } => {
                run_tool(trial, &self.stop, self.around_limit, entrance, &self.used_files, self.on_wait)
            }
        }
    }

    fn run_kernel(&self, trial: &Trial, entrance: Option<Arc<File>>) -> Result<TrialOutcome, TrialStatus> {
        let argv = vec![self.program.to_string_lossy().into_owned(), WORKER.into()];
        let stdin = serde_json::to_vec(trial).expect("a trial has text keys, so it is JSON");
        let worker = bound(trial, &CommandLine { argv, environment: worker::environment() });
        let finished = run_to_its_end(&SpawnSpec { stdin, entrance, ..worker }, &[&self.stop])?;
        let mut evidence = finished.evidence.clone();
        let output = worker::read_output(&finished.stdout).map_err(|why| {
            let stderr = String::from_utf8_lossy(&finished.stderr);
            TrialStatus::Failed(format!("{why}; the worker ended with {}, stderr: {}", finished.exit, stderr.trim()))
        })?;
        // The kernel queries the pages of the arrays themselves, which is more precise than samples of the whole
        // process.
        evidence.thread_bindings = output.thread_seats;
        evidence.far = output.far;
        if !output.pages.is_empty() {
            evidence.pages = output.pages;
            evidence.pages_peak = None;
            evidence.unavailable.remove("pages");
        }
        // CPU times of the kernel exclude its preparation.
        if !output.cpu_times.is_empty() {
            evidence.cpu_times = output.cpu_times;
            evidence.unavailable.remove("cpu_times");
        }
        let result = if output.status == TrialStatus::Completed { Ok(output.samples) } else { Err(output.status) };
        Ok(TrialOutcome::new(result, evidence))
    }
}

fn workload_of(trial: &Trial) -> Result<&'static Workload, TrialStatus> {
    workloads::find(&trial.workload).ok_or_else(|| {
        TrialStatus::Unavailable(format!("this version of nearfar has no workload '{}'", trial.workload))
    })
}

/// Runs a trial of an external program.
fn run_tool(
    trial: &Trial,
    stop: &AtomicBool,
    around_limit: Nanos,
    entrance: Option<Arc<File>>,
    used_files: &UsedFiles,
    on_wait: fn(&str),
) -> Result<TrialOutcome, TrialStatus> {
    let workload = workload_of(trial)?;
    let Runner::Tool { recipe, read } = workload.runner else {
        return Err(TrialStatus::Unavailable(format!("workload '{}' is not a program", trial.workload)));
    };
    if let Some(why) = refused(&trial.placement, &(workload.describe)()) {
        return Err(TrialStatus::Unavailable(why));
    }
    let job = TrialContext::of(trial);
    let recipe = recipe(&job)?;
    tool::run(&tool::Tool { trial, job, recipe, read, stop, around_limit, entrance, used_files, on_wait })
}

/// A command with the CPU affinity and memory policy of a trial.
fn bound(trial: &Trial, command: &CommandLine) -> SpawnSpec {
    let placement = &trial.placement;
    SpawnSpec { cpus: placement.cpus(), memory: placement.memory.clone(), ..unbound(trial, command) }
}

/// A command with the CPU affinity of this program and the default memory policy.
fn unbound(trial: &Trial, command: &CommandLine) -> SpawnSpec {
    SpawnSpec { time_limit: trial.time_limit, ..bare(command) }
}

/// A command without affinity, memory policy or time limit.
fn bare(command: &CommandLine) -> SpawnSpec {
    SpawnSpec {
        environment: command.environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        ..SpawnSpec::new(&command.argv, OUTPUT_MAX)
    }
}

fn run_to_its_end(launch: &SpawnSpec, stop: &[&AtomicBool]) -> Result<child::ProcessResult, TrialStatus> {
    let finished = child::run(launch, stop).map_err(|error| not_started(&error))?;
    if finished.exit == Exit::TimedOut {
        return Err(TrialStatus::timed_out(launch.time_limit));
    }
    Ok(finished)
}

impl Executor for RealExecutor {
    fn run(&mut self, _position: u32, trial: &Trial) -> Option<TrialOutcome> {
        let started_unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let begun = Instant::now();
        let ended = self.run_routed(trial);
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let took = Nanos(begun.elapsed().as_nanos() as u64);
        let outcome = ended.unwrap_or_else(|status| TrialOutcome::new(Err(status), Evidence::default()));
        self.used_files.add(&outcome.evidence);
        Some(TrialOutcome { started_unix_ms, took, ..outcome })
    }
}

/// A program that does not exist will not exist in the next block; other errors may be temporary.
fn not_started(error: &LaunchError) -> TrialStatus {
    let message = with_hint(error);
    match error {
        LaunchError::NotFound { .. } | LaunchError::NotPermitted { .. } => TrialStatus::Unavailable(message),
        LaunchError::Refused(_) | LaunchError::WillNotDie { .. } => TrialStatus::Failed(message),
    }
}
