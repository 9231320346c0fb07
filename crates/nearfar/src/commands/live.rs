//! `nearfar live`: examines the placement of a running service, compares it with others, and applies one.

mod apply;
mod watch;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use lab::live::{LiveObserver, LiveProgress, LiveService};
use machine::live::{ObserveError, observe, rights};
use machine::service_threads::{FoundMask, Mask, ServiceThreads};
use model::analysis::live::{
    Activity, LiveAnswer, LiveAudit, LiveId, LiveMemoryNodes, LivePeriod, LivePhase, LivePlacement, LivePlan,
    LiveRecord, LiveRequest, LiveSetup, LiveTrial, alternatives, interrupt_cpus,
};
use model::hint::Hinted;
use model::stats::switchback::ArmId;
use model::values::live_metric::{GuardRule, MetricSource};
use model::values::placement::KERNEL;
use model::values::shell::quote_argv;
use model::values::topology::Topology;
use model::values::units::Nanos;

use crate::app::applied::Applied;
use crate::app::guard_watch::{GuardWatch, READ_LIMIT};
use crate::app::live_interrupts::LiveInterrupts;
use crate::app::live_memory::LiveMemory;
use crate::app::live_meter::LiveMeter;
use crate::app::live_service::PlacedService;
use crate::app::report::generated_by;
use crate::app::restore_guard::RestoreGuard;
use crate::app::run_guard::{GuardRequest, RunGuard, site};
use crate::app::stored_live::StoredLive;
use crate::app::target_machine::read_topology;
use crate::cli::{GlobalArgs, LiveArgs, LiveAuditArgs, LiveCommand, LiveTryArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::requests::{self, Subject, results_file};

/// Observation of the CPUs that a service needs.
const OBSERVED: Duration = Duration::from_secs(1);
/// Time limit of a reading of the metric. With guards it is shorter, because they are not checked meanwhile.
const METRIC_LIMIT: Duration = Duration::from_secs(2);
/// Minimum interval between lines of progress.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// Observations that take longer are announced.
const ANNOUNCED_FROM: Duration = Duration::from_secs(1);
/// Reasons why a placement is refused.
const ALREADY_PLACED: &str = "the service already has this placement";
const BOUND_BY_PROGRAM: &str =
    "the program has bound some of its threads to these CPUs itself, so they could not be distinguished";

pub fn run(args: &LiveArgs, common: &GlobalArgs) -> CommandResult {
    match &args.command {
        LiveCommand::Audit(args) => audit(args, common),
        LiveCommand::Try(args) => try_placements(args, common),
        LiveCommand::Apply(args) => apply::apply(args, common),
        LiveCommand::Undo(args) => apply::undo(args, common),
        LiveCommand::Watch(args) => watch::watch(args, common),
    }
}

fn audit(args: &LiveAuditArgs, common: &GlobalArgs) -> CommandResult {
    let duration = Duration::from_nanos(requests::duration("--duration", &args.duration)?.0);
    let subject = Subject::new(&args.subject)?;
    // First, because it names processes that do not exist or may not be inspected.
    let memory = subject.inspect()?;
    let topology = read_topology(None)?;
    if !common.quiet && duration > ANNOUNCED_FROM {
        message!("nearfar: observing {} for {}", subject.name, Nanos(duration.as_nanos() as u64));
    }
    let activity = observed(&subject, duration)?;
    let rights = rights(&subject.processes().unwrap_or_default());
    let name = subject.describe(&memory);
    let audit = LiveAudit::new(&topology, &activity, memory, rights);
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::live_audit(&name, &audit))?,
        TextOrJson::Text => {
            output::print(&report::live::audit(&name, &subject.options, &audit, &output::stdout_style()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn observed(subject: &Subject, duration: Duration) -> Result<Activity, CliError> {
    observe(|| subject.processes().unwrap_or_default(), duration).map_err(|error| match error {
        ObserveError::Ended => CliError::with(CliStatus::Failure, error),
        ObserveError::CpuTimes(_) => CliError::with(CliStatus::Skipped, error),
    })
}

/// The experiment that the arguments ask for.
struct Experiment {
    threads: ServiceThreads,
    found: FoundMask,
    request: LiveRequest,
    setup: LiveSetup,
    /// The interrupted experiment that continues.
    resumed: Option<StoredLive>,
    meter: LiveMeter,
    guards: Vec<(GuardRule, LiveMeter)>,
}

fn try_placements(args: &LiveTryArgs, common: &GlobalArgs) -> CommandResult {
    let subject = Subject::new(&args.subject)?;
    subject.processes()?;
    if args.dry_run {
        output::print(&dry_run(&subject, &plan(args, &subject, common)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    subject.check_risks(args.yes)?;
    let (id, trial, is_interrupted) = run_experiment(args, common, &subject)?;
    if let Some(path) = &args.html {
        output::write(path, &report::html::live_trial(&id, &trial, &generated_by()))?;
    }
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::live_trial(&trial))?,
        TextOrJson::Text => output::print(&report::live_trial(&trial, &output::stdout_style()))?,
    }
    if let Some(winner) = trial.winner().and_then(|arm| trial.placement(arm)).filter(|_| !common.quiet) {
        // Not its name: that of a node would move memory, even if only CPUs were compared.
        let placement = ["--placement".into(), winner.numactl()];
        let options = subject.options.iter().cloned().chain(device_options(winner)).chain(placement);
        message!("to keep it: nearfar live apply {}", quote_argv(&options.collect::<Vec<_>>()));
    }
    Ok(match trial.answer {
        LiveAnswer::Stopped { .. } if is_interrupted => CliStatus::Interrupted.into(),
        LiveAnswer::Stopped { .. } => CliStatus::Failure.into(),
        _ => ExitCode::SUCCESS,
    })
}

/// Returns the options that name the devices whose interrupts a placement moves.
fn device_options(placement: &LivePlacement) -> Vec<String> {
    let moved = placement.interrupts.iter().filter(|route| route.is_placed());
    let devices: BTreeSet<&String> = moved.map(|route| &route.device).collect();
    devices.into_iter().flat_map(|device| ["--device".to_owned(), device.clone()]).collect()
}

fn plan(args: &LiveTryArgs, subject: &Subject, common: &GlobalArgs) -> Result<Experiment, CliError> {
    let budget = requests::duration("--budget", &args.budget)?;
    let (metric, rules) = (metric(&args.metric)?, guards(&args.guards)?);
    let threads = subject.threads()?;
    let ended = || CliError::failure(format!("{} has ended", subject.name));
    let (found, service) = (threads.found().ok_or_else(ended)?, threads.identity().ok_or_else(ended)?);
    let request = LiveRequest {
        options: subject.options.clone(),
        metric: args.metric.clone(),
        guards: args.guards.clone(),
        placements: args.placements.clone(),
        budget,
        seed: args.seed,
        moves_memory: args.move_memory,
        devices: args.devices.clone(),
    };
    let resumed = if args.fresh || args.dry_run {
        None
    } else {
        StoredLive::unfinished(&results_file(common), &request, &service, &found.cpus, common.quiet)?
    };
    let placements = match &resumed {
        Some(stored) => stored.record.setup.placements.clone(),
        None => placements(args, subject, &found)?,
    };
    let kind = metric.kind();
    let setup = LiveSetup {
        subject: subject.name.clone(),
        service,
        quantity: kind.quantity.into(),
        unit: kind.unit.into(),
        better: kind.better,
        placements,
        pinned_threads: found.others.values().sum(),
    };
    check_budget(&args.budget, &LivePlan::new(&request, &setup))?;
    let (meter, guards) = meters(args, &metric, rules, &threads)?;
    Ok(Experiment { threads, found, request, setup, resumed, meter, guards })
}

/// Checks that the metric and the guards can be read.
fn check_sources(args: &LiveTryArgs, subject: &Subject) -> Result<(), CliError> {
    let (metric, rules) = (metric(&args.metric)?, guards(&args.guards)?);
    meters(args, &metric, rules, &subject.threads()?).map(|_| ())
}

/// Opens the sources of the metric and of the guards.
fn meters(
    args: &LiveTryArgs,
    metric: &MetricSource,
    rules: Vec<GuardRule>,
    threads: &ServiceThreads,
) -> Result<(LiveMeter, Vec<(GuardRule, LiveMeter)>), CliError> {
    let option = format!("--metric '{}'", args.metric);
    let limit = if rules.is_empty() { METRIC_LIMIT } else { READ_LIMIT };
    let mut meter = LiveMeter::open(&option, metric, threads, limit)?;
    meter.check_counter(&option)?;
    let mut guards = Vec::new();
    for rule in rules {
        let meter = LiveMeter::open(&format!("--guard '{}'", rule.text), &rule.source, threads, READ_LIMIT)?;
        guards.push((rule, meter));
    }
    Ok((meter, guards))
}

/// Returns the placement found, and those to compare with it.
fn placements(args: &LiveTryArgs, subject: &Subject, found: &FoundMask) -> Result<Vec<LivePlacement>, CliError> {
    let topology = read_topology(None)?;
    if args.move_memory && topology.nodes.iter().filter(|node| node.bytes.0 > 0).count() < 2 {
        return Err(CliError::with(CliStatus::Skipped, "--move-memory: this machine has one memory node"));
    }
    let mut alternatives = if args.placements.is_empty() {
        let busy = observed(subject, OBSERVED)?.cpu_percent() / 100.0;
        alternatives(&topology, &found.cpus, busy)
    } else {
        let placement = |text: &String| placement(&topology, text, found, args);
        args.placements.iter().map(placement).collect::<Result<_, _>>()?
    };
    if args.move_memory {
        alternatives.iter_mut().for_each(|placement| add_local_memory(&topology, placement));
    }
    if args.placements.is_empty() {
        alternatives.iter_mut().try_for_each(|placement| add_local_interrupts(&topology, placement, &args.devices))?;
    }
    if alternatives.is_empty() {
        return Err(CliError::with(
            CliStatus::Skipped,
            format!(
                "no other NUMA node or L3 cache has enough CPUs for {}, which may run on {}",
                subject.name,
                found.cpus.described()
            ),
        )
        .hint("name CPUs with --placement, such as --placement 0-3"));
    }
    let interrupts = requests::live_placement(&topology, KERNEL, &args.devices)?.interrupts;
    let here = LivePlacement { name: "as found".into(), cpus: found.cpus.clone(), memory: None, interrupts };
    Ok(std::iter::once(here).chain(alternatives).collect())
}

/// Adds the memory nodes of its CPUs to a placement that names no memory.
fn add_local_memory(topology: &Topology, placement: &mut LivePlacement) {
    let nodes = topology.local_nodes(&placement.cpus);
    if placement.memory.is_none() && !nodes.is_empty() {
        placement.memory = Some(LiveMemoryNodes { nodes, interleaved: false });
    }
}

/// Assigns the interrupts of these devices to the CPUs of a placement.
fn add_local_interrupts(
    topology: &Topology,
    placement: &mut LivePlacement,
    devices: &[String],
) -> Result<(), CliError> {
    if !devices.is_empty() {
        let text = format!("irq:{}", placement.cpus);
        placement.interrupts = requests::live_placement(topology, &text, devices)?.interrupts;
    }
    Ok(())
}

fn check_budget(text: &str, plan: &LivePlan) -> Result<(), CliError> {
    let minimum = plan.budget_min(Duration::ZERO);
    if plan.budget >= minimum {
        return Ok(());
    }
    let needed = Nanos(minimum.as_nanos() as u64);
    Err(CliError::usage(format!("--budget {text} is too short for {} placements", plan.alternatives + 1))
        .hint(format!("use at least {needed}, or name fewer with --placement")))
}

fn metric(text: &str) -> Result<MetricSource, CliError> {
    MetricSource::parse(text)
        .map_err(|error| CliError::usage(format!("--metric '{text}': {error}")).maybe_hint(error.hint()))
}

fn guards(texts: &[String]) -> Result<Vec<GuardRule>, CliError> {
    let parse = |text: &String| {
        GuardRule::parse(text)
            .map_err(|error| CliError::usage(format!("--guard '{text}': {error}")).maybe_hint(error.hint()))
    };
    texts.iter().map(parse).collect()
}

/// Reads a placement of CPUs, of interrupts of devices that are named and, if memory is moved, of memory nodes.
fn placement(
    topology: &Topology,
    text: &str,
    found: &FoundMask,
    args: &LiveTryArgs,
) -> Result<LivePlacement, CliError> {
    let chosen = requests::live_placement(topology, text, &args.devices)?;
    let error = |why: &str| CliError::usage(format!("--placement {text}: {why}"));
    let refuse = |why: &str| Err(error(why));
    let memory = apply::memory_nodes(topology, &chosen, &chosen.cpus()).map_err(error)?;
    let has_interrupts = interrupt_cpus(&chosen.interrupts).is_some();
    let has_others = memory.is_some() || has_interrupts;
    let cpus = if has_others && chosen.cpus().is_empty() { found.cpus.clone() } else { chosen.cpus() };
    match () {
        () if apply::is_fixed(&chosen) => refuse(apply::FIXED),
        () if memory.is_some() && !args.move_memory => Err(error("it names memory nodes").hint(
            "to move the memory of the service in the experiment, add --move-memory; to compare only CPUs, name them",
        )),
        () if cpus.is_empty() => refuse("it names no CPUs"),
        () if cpus == found.cpus && !has_others => refuse(ALREADY_PLACED),
        () if !cpus.is_subset(&found.cpus) => {
            refuse(&format!("the service may only run on {}", found.cpus.described()))
        }
        () if found.others.contains_key(&cpus) => refuse(BOUND_BY_PROGRAM),
        () => Ok(LivePlacement { name: text.into(), cpus, memory, interrupts: chosen.interrupts }),
    }
}

/// Lists the system calls, one line each.
fn dry_run(subject: &Subject, experiment: &Experiment) -> String {
    let Experiment { threads, found, request, setup, guards, .. } = experiment;
    let mut lines =
        vec![format!("{}: {} of its threads may run on {}", subject.name, found.threads, found.cpus.described())];
    let changed = threads.masks().into_iter().filter(|(_, mask)| *mask == found.cpus);
    lines.extend(
        changed
            .map(|((pid, tid), _)| format!("  sched_setaffinity({tid}), process {pid}, at the begin of each period")),
    );
    if let Some(memory) = subject.inspect().ok().filter(|_| request.moves_memory) {
        let bytes = memory.total.bytes;
        lines
            .push(format!("  move_pages: up to {bytes} of memory at the begin of each period, in a fifth of the time"));
    }
    let mut interrupts: Vec<String> = setup.placements.iter().flat_map(moved_interrupts).collect();
    interrupts.sort_unstable();
    interrupts.dedup();
    lines.extend(interrupts.into_iter().map(|interrupt| format!("  {interrupt}, at the begin of each period")));
    lines.push("placements, in random order:".into());
    let memory = |memory: &LiveMemoryNodes| {
        format!(", memory {} {}", if memory.interleaved { "interleaved over" } else { "on" }, memory.nodes.described())
    };
    let placement = |placement: &LivePlacement| {
        let memory = placement.memory.as_ref().map_or(String::new(), memory);
        let interrupts = interrupt_cpus(&placement.interrupts);
        let interrupts = interrupts.map_or_else(String::new, |cpus| format!(", interrupts on {}", cpus.described()));
        format!("  {}: {}{memory}{interrupts}", placement.name, placement.cpus.described())
    };
    lines.extend(setup.placements.iter().map(placement));
    lines.extend(guards.iter().map(|(rule, _)| format!("  as long as {}", rule.text)));
    lines.push(format!("for at most {}, then back to {}", request.budget, found.mask));
    lines.join("\n") + "\n"
}

/// Describes the files that place the interrupts of a placement.
fn moved_interrupts(placement: &LivePlacement) -> impl Iterator<Item = String> {
    let moved = placement.interrupts.iter().filter(|route| route.is_placed());
    moved.map(|route| format!("/proc/irq/{}/smp_affinity_list ({} of {})", route.number, route.name, route.device))
}

/// Returns the experiment with its result, and whether a signal ended it.
fn run_experiment(
    args: &LiveTryArgs,
    common: &GlobalArgs,
    subject: &Subject,
) -> Result<(LiveId, LiveTrial, bool), CliError> {
    let (ban_irqbalance, wait, quiet) = (args.ban_irqbalance, args.wait, common.quiet);
    let request = GuardRequest { ban_irqbalance, wait, quiet, ..GuardRequest::default() };
    // Declared first, so that it ends after the settings are restored.
    let restorer = RestoreGuard::start()?;
    let (guard, experiment) = RunGuard::acquire(&request, false, || plan(args, subject, common))?;
    let Experiment { threads, found, request, setup, resumed, meter, guards } = experiment;
    if let Some(stored) = resumed.as_ref().filter(|_| !common.quiet) {
        message!("resuming experiment {}; to begin a new one, use --fresh", stored.record.id);
    }
    let cpus: Vec<_> = setup.placements[1..].iter().map(|placement| placement.cpus.clone()).collect();
    let stored = resumed.map_or_else(|| StoredLive::begin(&results_file(common), request, setup), Ok)?;
    let masks: Vec<Mask> = cpus.iter().filter(|cpus| **cpus != found.cpus).cloned().map(Mask::Only).collect();
    guard.journal_affinities(&threads, &masks)?;
    let LiveRecord { request, setup, .. } = &stored.record;
    let interrupts = LiveInterrupts::new(guard.live_routes(&setup.placements)?, &setup.placements);
    let memory = request.moves_memory.then(|| live_memory(subject, &threads, &found, setup)).transpose()?;
    machine::priority::raise_priority();
    // After the priority was raised, which their threads inherit: a guard must act in time.
    let guards = guards.into_iter().map(|(rule, meter)| GuardWatch::start(rule, meter)).collect();
    let mut service = PlacedService::new(threads, &found, &cpus, meter, guards, interrupts, guard.stop.clone());
    if let Some(memory) = memory {
        service = service.with_memory(memory);
    }
    let (state, budget) = (stored.state.clone(), stored.record.plan().budget);
    let mut observed = ObservedLive { stored, lines: LiveLines { quiet: common.quiet, budget, last: None } };
    let run = lab::live::run(&mut service, state, &guard.stop, &mut observed);
    let moved_back = move_back(service, common.quiet);
    guard.release();
    drop(restorer);
    let is_interrupted = run.end.is_none();
    let id = observed.stored.record.id.clone();
    let mut trial = observed.stored.finish(run.end)?;
    trial.answer = run.answer;
    moved_back?;
    if !common.quiet {
        let then = if is_interrupted && !args.fresh { "the same command resumes it; " } else { "" };
        message!("experiment {id}: {then}nearfar show {id} shows it, nearfar report {id} writes a page");
    }
    Ok((id, trial, is_interrupted))
}

/// Records where the memory of a service is, to move it in an experiment.
fn live_memory(
    subject: &Subject,
    threads: &ServiceThreads,
    found: &FoundMask,
    setup: &LiveSetup,
) -> Result<LiveMemory, CliError> {
    let site = site(None);
    // An experiment may have been killed together with its guard.
    Applied::undo_experiments(&site)?;
    let pinned = found.others.keys().cloned().collect();
    LiveMemory::begin(&site, (&subject.name, &subject.options), threads, &setup.placements, pinned)
}

/// Moves the memory of a service back after an experiment that may have moved it.
fn move_back(mut service: PlacedService, quiet: bool) -> Result<(), CliError> {
    if !service.moves_memory() {
        return Ok(());
    }
    if !quiet {
        message!("moving the memory back");
    }
    // First the threads, with which new memory comes. An error means that the service has ended.
    let _ = service.place(ArmId::BASELINE);
    service.into_memory().map_or(Ok(()), LiveMemory::end)
}

/// Stores and shows what happens.
struct ObservedLive {
    stored: StoredLive,
    lines: LiveLines,
}

impl LiveObserver for ObservedLive {
    fn store(&mut self, period: &LivePeriod) -> Result<(), String> {
        self.stored.add(period).map_err(|error| format!("a period cannot be stored: {error}"))
    }

    fn show(&mut self, progress: &LiveProgress) {
        self.lines.show(progress);
    }
}

/// Progress on stderr.
struct LiveLines {
    quiet: bool,
    budget: Duration,
    last: Option<Duration>,
}

impl LiveLines {
    fn show(&mut self, state: &LiveProgress) {
        let is_due = self.last.is_none_or(|last| state.elapsed >= last + LINE_INTERVAL);
        if self.quiet || !is_due {
            return;
        }
        self.last = Some(state.elapsed);
        let doing = match state.phase {
            LivePhase::WashOut => "measuring how long a change of the placement takes to act",
            LivePhase::Race => "comparing all placements",
            LivePhase::Confirm => "comparing the best placement with the one found",
        };
        let left = Nanos(self.budget.saturating_sub(state.elapsed).as_secs() * 1_000_000_000);
        message!("{} periods of {:.1} s, {doing}, at most {left} left", state.periods, state.period.as_secs_f64());
    }
}
