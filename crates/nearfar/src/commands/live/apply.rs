//! `nearfar live apply` and `undo`: placements of running services that are kept.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use machine::cpuset;
use machine::service_threads::{FoundMask, Mask};
use model::analysis::live::{AppliedChange, AppliedMemory, AppliedPlacement, LiveMemoryNodes, UndonePlacement};
use model::values::id_set::{CpuSet, NodeSet};
use model::values::placement::{MemoryPolicy, Placement, Route};
use model::values::topology::Topology;
use model::values::units::{Bytes, Nanos};

use crate::app::applied::{Applied, ApplyRequest};
use crate::app::live_memory::destination;
use crate::app::run_guard::{GuardRequest, RunGuard, site};
use crate::app::target_machine::read_topology;
use crate::cli::{GlobalArgs, LiveApplyArgs, LiveUndoArgs, SubjectArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;
use crate::requests::{self, Subject};

use super::{ALREADY_PLACED, BOUND_BY_PROGRAM};

/// Minimum interval between lines of progress.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

pub fn apply(args: &LiveApplyArgs, common: &GlobalArgs) -> CommandResult {
    let subject = Subject::new(&args.subject)?;
    subject.processes()?;
    if !args.dry_run {
        subject.check_risks(args.yes)?;
    }
    if args.dry_run {
        output::print(&dry_run(&subject, &request(args, &subject)?)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let change = apply_placement(args, &subject, common)?;
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::applied_change(&change))?,
        TextOrJson::Text => output::print(&report::live_applied::change(&change, &output::stdout_style()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Applies a placement instead of one that was applied earlier.
pub(super) fn apply_placement(
    args: &LiveApplyArgs,
    subject: &Subject,
    common: &GlobalArgs,
) -> Result<AppliedChange, CliError> {
    let request = request(args, subject)?;
    let guard = acquire(args.wait, common)?;
    let site = site(None);
    for earlier in Applied::of(&site, request.threads.processes())? {
        if !common.quiet {
            message!("{}: undoing {}, which was applied earlier", subject.name, earlier.placement.placement);
        }
        undo_one(earlier, &guard, common)?;
    }
    // The earlier placement may have been the one found.
    let request = self::request(args, subject)?;
    let mut lines = MoveLines::new("moving memory", common.quiet);
    let change = Applied::apply(&site, request, &guard.stop, &mut lines.observer())?;
    guard.release();
    Ok(change)
}

fn undo_one(applied: Applied, guard: &RunGuard, common: &GlobalArgs) -> Result<UndonePlacement, CliError> {
    let mut lines = MoveLines::new("moving memory back", common.quiet);
    applied.undo(&guard.stop, &mut lines.observer())
}

/// Undoes the placement of a service, to compare it with the one before.
///
/// # Errors
/// If something is left to undo.
pub(super) fn undo_placement(subject: &Subject, common: &GlobalArgs) -> Result<(), CliError> {
    let guard = acquire(true, common)?;
    for applied in Applied::of(&site(None), subject.threads()?.processes())? {
        if !undo_one(applied, &guard, common)?.is_settled {
            return Err(CliError::failure(format!("{}: its placement cannot be undone", subject.name))
                .hint("nearfar live undo states why"));
        }
    }
    guard.release();
    Ok(())
}

/// Takes the machine lock: a change of a placement would disturb a measurement.
fn acquire(wait: bool, common: &GlobalArgs) -> Result<RunGuard, CliError> {
    let request = GuardRequest { wait, quiet: common.quiet, ..GuardRequest::default() };
    RunGuard::acquire(&request, false, || Ok(())).map(|(guard, ())| guard)
}

fn request(args: &LiveApplyArgs, subject: &Subject) -> Result<ApplyRequest, CliError> {
    let threads = subject.threads()?;
    let found = threads.found().ok_or_else(|| CliError::failure(format!("{} has ended", subject.name)))?;
    let topology = read_topology(None)?;
    let chosen = requests::live_placement(&topology, &args.placement, &args.devices)?;
    let refuse = |why: &str| CliError::usage(format!("--placement {}: {why}", args.placement));
    if is_fixed(&chosen) {
        return Err(refuse(FIXED));
    }
    let interrupts: Vec<Route> = chosen.interrupts.iter().filter(|route| route.is_placed()).cloned().collect();
    if interrupts.is_empty() && !args.devices.is_empty() {
        return Err(refuse("it does not place the interrupts of the device").hint("add irq:LIST, such as 0-3+irq:4"));
    }
    let cpus = if chosen.cpus().is_empty() { found.cpus.clone() } else { chosen.cpus() };
    if found.others.contains_key(&cpus) {
        return Err(refuse(BOUND_BY_PROGRAM));
    }
    let memory = memory_nodes(&topology, &chosen, &cpus).map_err(refuse)?;
    if memory.is_none() && interrupts.is_empty() && is_everywhere(&chosen, &found) {
        return Err(refuse(ALREADY_PLACED));
    }
    let destination = memory.as_ref().map(destination);
    // A cpuset that grows again would not restore affinities of the program before Linux 6.2.
    let is_unbound = found.mask == Mask::Any && found.others.is_empty();
    let binds_memory = matches!(chosen.memory, MemoryPolicy::Bind(_));
    let can_limit = is_unbound && (cpus != found.cpus || binds_memory);
    let cpuset = can_limit.then(|| cpuset::owner_of(threads.processes())).flatten();
    let is_limited = cpuset.is_some() && binds_memory;
    let placement = AppliedPlacement {
        subject: subject.name.clone(),
        options: subject.options.clone(),
        processes: threads.processes().clone(),
        placement: args.placement.clone(),
        cpus,
        pinned: found.others.keys().cloned().collect(),
        memory: memory.map(|memory| AppliedMemory { nodes: memory.nodes, percent: 0.0, is_limited }),
        cpuset,
        interrupts,
        is_experiment: false,
    };
    Ok(ApplyRequest { placement, threads, found, destination, ban_irqbalance: args.ban_irqbalance })
}

fn is_everywhere(chosen: &Placement, found: &FoundMask) -> bool {
    let cpus = chosen.cpus();
    cpus.is_empty() || cpus == found.cpus
}

/// Why a placement is refused that [`is_fixed`].
pub(super) const FIXED: &str = "only CPUs, memory and interrupts can be changed while a service runs";

/// Returns whether a placement has parts that must be chosen when a program is started.
pub(super) fn is_fixed(chosen: &Placement) -> bool {
    chosen.files.is_some() || chosen.copies_text || chosen.budget.is_some()
}

/// Returns the memory nodes of a placement; `None` if it names no memory.
pub(super) fn memory_nodes(
    topology: &Topology,
    chosen: &Placement,
    cpus: &CpuSet,
) -> Result<Option<LiveMemoryNodes>, &'static str> {
    let within = |nodes: NodeSet| Some(LiveMemoryNodes { nodes, interleaved: false });
    match &chosen.memory {
        MemoryPolicy::Kernel => Ok(None),
        MemoryPolicy::Local => Ok(within(topology.local_nodes(cpus))),
        MemoryPolicy::Bind(nodes) => Ok(within(nodes.clone())),
        MemoryPolicy::Preferred(node) => Ok(within([*node].into_iter().collect())),
        MemoryPolicy::Interleave(nodes) => Ok(Some(LiveMemoryNodes { nodes: nodes.clone(), interleaved: true })),
        MemoryPolicy::WeightedInterleave(_) => Err("weights apply only to memory that is allocated later"),
        MemoryPolicy::Far => Err("memory beyond DRAM must be chosen when a program is started"),
    }
}

/// Lists the system calls, one line each.
fn dry_run(subject: &Subject, request: &ApplyRequest) -> Result<String, CliError> {
    let ApplyRequest { placement, threads, found, .. } = request;
    let mut lines =
        vec![format!("{}: {} of its threads may run on {}", subject.name, found.threads, found.cpus.described())];
    let moves_threads = placement.cpus != found.cpus;
    lines.extend(placement.cpuset_commands(moves_threads).into_iter().map(|command| format!("  {command}")));
    if moves_threads && placement.cpuset.is_none() {
        let changed = threads.masks().into_iter().filter(|(_, mask)| *mask == found.cpus);
        lines.extend(
            changed.map(|((pid, tid), _)| format!("  sched_setaffinity({tid}, {}), process {pid}", placement.cpus)),
        );
    }
    let interrupt = |route: &Route| {
        let Route { device, number, name, cpus } = route;
        format!("  echo {cpus} >/proc/irq/{number}/smp_affinity_list ({name} of {device})")
    };
    lines.extend(placement.interrupts.iter().map(interrupt));
    if let Some(memory) = &placement.memory {
        let found = subject.inspect()?;
        let percent = found.total.percent_on(&memory.nodes).unwrap_or_default();
        let bytes = found.total.bytes;
        let nodes = memory.nodes.described();
        lines.push(format!("  move_pages: {bytes} of memory, of which {percent:.0} % are on {nodes}"));
    }
    lines.push("until it ends, or until nearfar live undo".into());
    Ok(lines.join("\n") + "\n")
}

pub fn undo(args: &LiveUndoArgs, common: &GlobalArgs) -> CommandResult {
    let guard = acquire(args.wait, common)?;
    let applied = applied_to(&site(None), &args.subject)?;
    let undone = applied.into_iter().map(|applied| undo_one(applied, &guard, common)).collect::<Result<Vec<_>, _>>()?;
    guard.release();
    match args.format {
        TextOrJson::Json => output::print_json(&report::json::undone(&undone))?,
        TextOrJson::Text => output::print(&report::live_applied::undone(&undone, &output::stdout_style()))?,
    }
    let is_settled = undone.iter().all(|undone| undone.is_settled);
    Ok(if is_settled { ExitCode::SUCCESS } else { CliStatus::Failure.into() })
}

/// Returns the applied placements of a service, or all if none is named.
pub(super) fn applied_to(site: &machine::undo::SettingsRoot, args: &SubjectArgs) -> Result<Vec<Applied>, CliError> {
    if is_unnamed(args) {
        return Applied::all(site);
    }
    let subject = Subject::named(args);
    let applied: Vec<Applied> =
        Applied::all(site)?.into_iter().filter(|applied| applied.placement.options == subject).collect();
    if applied.is_empty() {
        let name = subject.join(" ");
        return Err(CliError::usage(format!("no placement was applied to {name}"))
            .hint("list applied placements with nearfar live watch --once"));
    }
    Ok(applied)
}

pub(super) fn is_unnamed(args: &SubjectArgs) -> bool {
    let SubjectArgs { pid, unit, cgroup, container, pod } = args;
    pid.is_none() && unit.is_none() && cgroup.is_none() && container.is_none() && pod.is_none()
}

/// Progress on stderr.
struct MoveLines {
    doing: &'static str,
    quiet: bool,
    began: Instant,
    last: Instant,
}

impl MoveLines {
    fn new(doing: &'static str, quiet: bool) -> Self {
        Self { doing, quiet, began: Instant::now(), last: Instant::now() }
    }

    fn observer(&mut self) -> impl FnMut(Bytes, Bytes) {
        |done, all| {
            if self.quiet || self.last.elapsed() < LINE_INTERVAL || done.0 == 0 {
                return;
            }
            self.last = Instant::now();
            let left = self.began.elapsed().as_secs_f64() * (all.0.saturating_sub(done.0)) as f64 / done.0 as f64;
            message!("{}: {done} of {all}, about {} left", self.doing, Nanos(left.ceil() as u64 * 1_000_000_000));
        }
    }
}
