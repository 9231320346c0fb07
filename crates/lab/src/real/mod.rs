//! Runs trials on this machine: each is a child process, seated before its first instruction and watched while
//! it runs. Kernels of ours run in this program's own worker process, tools as they are (`tool`).

mod far;
mod tool;

pub use far::{FarConfig, required};

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use machine::child::{self, Exit, LaunchError, Migrations, SpawnSpec};
use machine::interrupt::{InterruptMonitor, RouteError, Routes};
use model::placements::placement::{MemoryPolicy, refused_memory};
use model::values::id_set::CpuSet;
use model::values::trial::{Evidence, Outcome, Sample, Trial, TrialStatus};
use model::values::units::{Bytes, Nanos};
use workloads::{CommandLine, Runner, TrialContext, with_hint, worker};

use crate::executor::Executor;

/// A program whose output is its result prints less; what is beyond is counted and thrown away.
const OUTPUT_MAX: Bytes = Bytes(16 << 20);

/// The hidden command that runs a kernel.
const WORKER: &str = "__worker";

#[derive(Debug)]
pub struct RealExecutor {
    program: PathBuf,
    stop: Arc<AtomicBool>,
    around_limit: Nanos,
    /// Where interrupts can be sent; none where no placement sends any.
    routes: Option<Routes>,
    far: FarConfig,
}

/// How a trial's process came back: with what it measured, or why not; with evidence as far as there is any.
struct TrialOutcome {
    result: Result<Vec<Sample>, TrialStatus>,
    evidence: Evidence,
}

impl RealExecutor {
    /// `program` is this program's own file, started again as a worker; `stop` ends the trial that runs. What surrounds a
    /// measured command (preparation, a server until it is ready, cleaning up) may take `around_limit` each: a trial's
    /// own limit may be short, because a race kills what is slow. `routes` are there when a placement sends interrupts;
    /// `far` is for placements with a budget of DRAM.
    pub fn new(
        program: PathBuf,
        stop: Arc<AtomicBool>,
        around_limit: Nanos,
        routes: Option<Routes>,
        far: FarConfig,
    ) -> Self {
        Self { program, stop, around_limit, routes, far }
    }

    /// A trial with its interrupts where its placement says, and watched.
    fn run_routed(&self, trial: &Trial) -> Result<TrialOutcome, TrialStatus> {
        let wanted = &trial.placement.interrupts;
        if let Some(routes) = &self.routes {
            routes.send(wanted).map_err(|error| match error {
                RouteError::Managed(why) => TrialStatus::Unavailable(why),
                RouteError::Refused(why) => TrialStatus::Failed(why),
            })?;
        }
        let watched = InterruptMonitor::begin(self.routes.as_ref().map_or("/".into(), Routes::root), wanted);
        let mut ended = self.run_budgeted(trial)?;
        watched.explain(&mut ended.evidence);
        Ok(ended)
    }

    /// A trial on its budget of DRAM, if it has one.
    fn run_budgeted(&self, trial: &Trial) -> Result<TrialOutcome, TrialStatus> {
        let Some(budget) = trial.placement.budget else { return self.run_trial(trial, None) };
        let (expansion, entrance) = far::begin(budget, &self.far)?;
        let ended = self.run_trial(trial, Some(entrance));
        // Taken away whatever became of the trial; what failed first is the reason.
        let far = far::end(expansion);
        let mut ended = ended?;
        ended.evidence.budget = Some(far?);
        Ok(ended)
    }

    fn run_trial(&self, trial: &Trial, entrance: Option<Arc<File>>) -> Result<TrialOutcome, TrialStatus> {
        let workload = workloads::find(&trial.workload)
            .ok_or_else(|| TrialStatus::Unavailable(format!("this version has no workload {}", trial.workload)))?;
        match workload.runner {
            Runner::Kernel(_) => self.run_kernel(trial, entrance),
            Runner::Tool { recipe, read } => {
                if let Some(why) = refused_memory(&trial.placement.memory, &(workload.describe)()) {
                    return Err(TrialStatus::Unavailable(why));
                }
                let job = TrialContext::of(trial);
                let recipe = recipe(&job)?;
                let (stop, around_limit) = (&self.stop, self.around_limit);
                tool::run(&tool::Tool { trial, job, recipe, read, stop, around_limit, entrance })
            }
        }
    }

    fn run_kernel(&self, trial: &Trial, entrance: Option<Arc<File>>) -> Result<TrialOutcome, TrialStatus> {
        let argv = vec![self.program.to_string_lossy().into_owned(), WORKER.into()];
        let stdin = serde_json::to_vec(trial).expect("a trial has text keys, so it is JSON");
        let worker = seated(trial, &CommandLine { argv, environment: worker::environment() });
        let finished = run_to_its_end(&SpawnSpec { stdin, entrance, ..worker }, &[&self.stop])?;
        let mut evidence = finished.evidence.clone();
        let report = worker::read_report(&finished.stdout).map_err(|why| {
            let said = String::from_utf8_lossy(&finished.stderr);
            TrialStatus::Failed(format!("{why}; it ended with {} and said: {}", finished.exit, said.trim()))
        })?;
        // The kernel asks for its own arrays, which says more than what was sampled of the whole process.
        evidence.thread_seats = report.thread_seats;
        evidence.far = report.far;
        if !report.pages.is_empty() {
            evidence.pages = report.pages;
            evidence.unavailable.remove("pages");
        }
        // What the cpus did while it prepared is no part of what it measured.
        if !report.cpu_times.is_empty() {
            evidence.cpu_times = report.cpu_times;
            evidence.unavailable.remove("cpu_times");
        }
        let result = if report.status == TrialStatus::Completed { Ok(report.samples) } else { Err(report.status) };
        Ok(TrialOutcome { result, evidence })
    }
}

/// A command line on the seats of a trial.
fn seated(trial: &Trial, command: &CommandLine) -> SpawnSpec {
    let placement = &trial.placement;
    SpawnSpec { cpus: placement.cpus(), memory: placement.memory.clone(), ..unseated(trial, command) }
}

/// A command line on the cpus that this program was started with, its memory where the kernel likes.
fn unseated(trial: &Trial, command: &CommandLine) -> SpawnSpec {
    SpawnSpec { time_limit: trial.time_limit, ..bare(command) }
}

/// A command line that nothing is asked of.
fn bare(command: &CommandLine) -> SpawnSpec {
    SpawnSpec {
        argv: command.argv.iter().map(Into::into).collect(),
        environment: command.environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        directory: None,
        stdin: Vec::new(),
        cpus: CpuSet::new(),
        memory: MemoryPolicy::Kernel,
        time_limit: Nanos(u64::MAX),
        output_max: OUTPUT_MAX,
        migrations: Migrations::Sampled,
        entrance: None,
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
    fn run(&mut self, _position: u32, trial: &Trial) -> Option<Outcome> {
        let started_unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let begun = Instant::now();
        let ended = self.run_routed(trial);
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let took = Nanos(begun.elapsed().as_nanos() as u64);
        let TrialOutcome { result, evidence } =
            ended.unwrap_or_else(|status| TrialOutcome { result: Err(status), evidence: Evidence::default() });
        let (status, samples) = match result {
            Ok(samples) => (TrialStatus::Completed, samples),
            Err(status) => (status, Vec::new()),
        };
        Some(Outcome { status, samples, evidence, started_unix_ms, took })
    }
}

/// A program that is not there will not be there in the next block either; anything else may pass.
fn not_started(error: &LaunchError) -> TrialStatus {
    let words = with_hint(error, error.hint());
    match error {
        LaunchError::NotFound { .. } | LaunchError::NotPermitted { .. } => TrialStatus::Unavailable(words),
        LaunchError::Refused(_) | LaunchError::WillNotDie { .. } => TrialStatus::Failed(words),
    }
}
