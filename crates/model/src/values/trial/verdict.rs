//! Judges a trial by its requested placement and the evidence. Each threshold has its reason.

mod budget;
mod files;
mod lost_time;
mod pages;
mod routes;

pub use routes::misrouted_interrupts;

use serde::{Deserialize, Serialize};

use super::{Evidence, Trial, TrialStatus};
use crate::values::id_set::CpuSet;
use crate::values::placement::{FilePolicy, MemoryPolicy};
use crate::values::units::{Bytes, Nanos};

/// Trustworthiness of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    Valid,
    /// The placement is verified, but the trial was disturbed. Counted and reported.
    Suspect,
    /// The placement is not verified, or there is no result. Reported, not ranked, and retried.
    Invalid,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    #[serde(rename = "verdict")]
    pub grade: Grade,
    /// Reasons for the grade; none for a valid trial.
    pub reasons: Vec<String>,
}

/// Foreign work of 2 % changes a result by as much as differences that users act on.
const FOREIGN_SHARE_MAX: f64 = 0.02;
/// Lower than for foreign work, because steal also stops the trial's threads.
const STEAL_SHARE_MAX: f64 = 0.01;
/// Threads that briefly wait for each other leave more of their CPUs idle than a fully loaded machine does.
const IDLE_SHARE_MAX: f64 = 0.05;
/// /proc/stat counts in ticks of 10 ms, so fractions of short trials are rounding noise. Less foreign or stolen time
/// than this is ignored.
const ROUNDING_MAX_NS: f64 = 30e6;
/// Most kernels charge a whole tick to the task that runs when it ends. Kernels tick at 100 Hz or faster.
const TICK_NS: f64 = 10e6;
/// An undisturbed trial exceeds three standard deviations once in 700 times; two would make one in 44 suspect.
const TICK_DEVIATIONS: f64 = 3.0;
/// Read latency of a fast disk, for which the faulting thread waits.
const FAULT_MAJOR_NS: f64 = 100e3;
/// Waiting for a disk counts like foreign work.
const FAULTS_MAJOR_SHARE_MAX: f64 = FOREIGN_SHARE_MAX;
/// Loading the program and its libraries takes some faults of many pages each, which is not a disturbance.
const FAULTS_MAJOR_FEW: u64 = 32;
/// A frequency that fell by a tenth within a trial is throttling, not jitter.
const FREQUENCY_FALL_MAX: f64 = 0.10;

pub fn judge(trial: &Trial, status: &TrialStatus, evidence: &Evidence) -> Verdict {
    let commands = judged_commands(trial, evidence);
    let mut invalid = failures(status);
    if matches!(status, TrialStatus::Completed) {
        for command in &commands {
            invalid.extend(unverified_binding(command));
            invalid.extend(other_policy(command));
            invalid.extend(pages::violations(command));
            invalid.extend(files::violations(command));
            invalid.extend(not_far(command));
        }
        if evidence.second.is_none() && !trial.placement.server_cpus.is_empty() {
            invalid.push(format!("no server was observed; one was requested on CPUs {}", trial.placement.server_cpus));
        }
        invalid.extend(misrouted_interrupts(&trial.placement.interrupts, &evidence.device_interrupts));
        invalid.extend(budget::violations(trial, evidence));
    }
    let mut suspect: Vec<String> = commands.iter().flat_map(disturbances).collect();
    if matches!(status, TrialStatus::Completed) {
        suspect.extend(commands.iter().filter_map(pages::spilled));
        suspect.extend(commands.iter().flat_map(files::disturbances));
        suspect.extend(routes::unused(&trial.placement.interrupts, evidence));
        suspect.extend(budget::disturbances(evidence));
    }
    let grade = match (invalid.is_empty(), suspect.is_empty()) {
        (false, _) => Grade::Invalid,
        (true, false) => Grade::Suspect,
        (true, true) => Grade::Valid,
    };
    invalid.extend(suspect);
    Verdict { grade, reasons: invalid }
}

/// One of a trial's commands, with its requested placement and its evidence.
struct JudgedCommand<'a> {
    evidence: &'a Evidence,
    /// Empty if the kernel chooses.
    cpus: CpuSet,
    /// Number of CPUs whose time `steal` and `foreign` are compared with.
    cpu_count: usize,
    memory: &'a MemoryPolicy,
    /// Placement of its files, if its memory policy does not decide.
    files: Option<&'a FilePolicy>,
    /// Time that the hypervisor took from its CPUs; `None` if unknown or not judged.
    steal: Option<Nanos>,
    /// Time that other programs used on its CPUs; `None` if unknown or not judged.
    foreign: Option<Nanos>,
    /// Whether the trial has another command that may run on its CPUs.
    shares_cpus: bool,
    is_second: bool,
    /// Whether it has a DRAM budget. It then waits for a disk, and kernel threads work for it.
    is_bounded: bool,
}

impl JudgedCommand<'_> {
    /// Returns a reason whose subject is the command: `it ran on CPUs 3`.
    fn reason_with_subject(&self, predicate: &str) -> String {
        format!("{} {predicate}", if self.is_second { "the server" } else { "it" })
    }

    /// Returns a reason with another subject.
    fn reason(&self, text: String) -> String {
        if self.is_second { format!("the server: {text}") } else { text }
    }
}

/// Returns the measured command and the second one, if any.
fn judged_commands<'a>(trial: &'a Trial, evidence: &'a Evidence) -> Vec<JudgedCommand<'a>> {
    let placement = &trial.placement;
    let (cpus, memory, files) = (placement.cpus(), &placement.memory, placement.files.as_ref());
    let share_cpus = placement.server_cpus.is_empty() || cpus.is_empty() || cpus.intersects(&placement.server_cpus);
    // Work of one command on the other's CPUs is due to the placement. The CPU time of the second command includes its
    // time before the first began, so this subtracts too much, in favour of the trial.
    let seconds = evidence.second.as_ref().filter(|_| share_cpus).map_or(Nanos(0), |second| second.cpu_time);
    let first = JudgedCommand {
        evidence,
        cpu_count: placement.bindings.len().max(placement.threads).max(1),
        steal: evidence.steal,
        foreign: evidence.foreign.map(|foreign| Nanos(foreign.0.saturating_sub(seconds.0))),
        cpus,
        memory,
        files,
        is_bounded: placement.budget.is_some(),
        shares_cpus: share_cpus && evidence.second.is_some(),
        is_second: false,
    };
    let second = evidence.second.as_deref().map(|evidence| JudgedCommand {
        evidence,
        cpus: placement.server_cpus.clone(),
        cpu_count: placement.server_cpus.len().max(1),
        memory,
        files,
        is_bounded: placement.budget.is_some(),
        // For an unbound command this is the steal of all CPUs, which the first command covers.
        steal: evidence.steal.filter(|_| !placement.server_cpus.is_empty()),
        // On shared CPUs the uncounted work of warm-up runs would appear as foreign.
        foreign: evidence.foreign.filter(|_| !share_cpus),
        shares_cpus: share_cpus,
        is_second: true,
    });
    std::iter::once(first).chain(second).collect()
}

fn failures(status: &TrialStatus) -> Vec<String> {
    match status {
        TrialStatus::Completed => Vec::new(),
        TrialStatus::Failed(why) => vec![format!("failed: {why}")],
        TrialStatus::TimedOut(why) => vec![format!("stopped: {why}")],
        TrialStatus::Unavailable(why) => vec![format!("cannot be measured here: {why}")],
    }
}

fn unverified_binding(command: &JudgedCommand<'_>) -> Vec<String> {
    let JudgedCommand { evidence, cpus, .. } = command;
    if cpus.is_empty() {
        return Vec::new();
    }
    let mut reasons = Vec::new();
    match &evidence.mask_at_start {
        None => reasons.push(command.reason("the affinity mask could not be read back".into())),
        Some(mask) if mask != cpus => {
            reasons.push(command.reason(format!("requested CPUs {cpus}, the kernel set {mask}")));
        }
        Some(_) => {}
    }
    if let Some(mask) = evidence.mask_at_end.as_ref().filter(|mask| !mask.is_subset(cpus)) {
        reasons.push(command.reason_with_subject(&format!("had the affinity {mask}, but was pinned to {cpus}")));
    }
    let strays = evidence.cpus_seen.difference(cpus);
    if !strays.is_empty() {
        reasons.push(command.reason_with_subject(&format!("ran on CPUs {strays}, but was pinned to {cpus}")));
    }
    if cpus.len() == 1 && evidence.migrations > Some(0) {
        reasons.push(command.reason_with_subject(&format!("left its only CPU {cpus} during the trial")));
    }
    for binding in &evidence.thread_bindings {
        let pinned = binding.mask.len() == 1 && binding.mask.contains(binding.requested);
        if !pinned || binding.before != binding.requested || binding.after != binding.requested {
            reasons.push(command.reason(format!(
                "a thread pinned to CPU {} had mask {} and ran on {} and {}",
                binding.requested, binding.mask, binding.before, binding.after
            )));
        }
    }
    reasons
}

/// The kernel silently drops nodes that are offline or not allowed.
fn other_policy(command: &JudgedCommand<'_>) -> Option<String> {
    let requested: String = match command.memory {
        // An inherited policy counts as the kernel's choice too, and the kernel places pages of a file.
        MemoryPolicy::Kernel | MemoryPolicy::Far => return None,
        MemoryPolicy::Local => "local".into(),
        MemoryPolicy::Bind(nodes) => format!("bind:{nodes}"),
        MemoryPolicy::Interleave(nodes) => format!("interleave:{nodes}"),
        MemoryPolicy::WeightedInterleave(nodes) => format!("weighted interleave:{nodes}"),
        MemoryPolicy::Preferred(node) => format!("prefer:{node}"),
    };
    let actual = command.evidence.memory_policy.as_ref().filter(|actual| **actual != requested)?;
    Some(command.reason(format!("requested the memory policy {requested}, the kernel set {actual}")))
}

/// All measured memory must be pages of the far file. How much of it is in DRAM is part of the measurement.
fn not_far(command: &JudgedCommand<'_>) -> Option<String> {
    if !command.memory.is_beyond_dram() {
        return None;
    }
    let requested = command.memory;
    match &command.evidence.far {
        None => {
            let text =
                format!("memory '{requested}' was requested and could not be verified: its file was not observed");
            Some(command.reason(text))
        }
        Some(far) if far.of_file < far.bytes || far.bytes == Bytes(0) => Some(command.reason(format!(
            "memory '{requested}' was requested, but only {} of {} were pages of its file",
            far.of_file, far.bytes
        ))),
        Some(_) => None,
    }
}

fn disturbances(command: &JudgedCommand<'_>) -> Vec<String> {
    let evidence = command.evidence;
    // The paging controller suspends the processes of its expansion, which may use the CPUs of the trial.
    let mut reasons = if command.is_bounded { Vec::new() } else { lost_time::reasons(command) };
    let is_lost = !reasons.is_empty();
    let capacity_ns = evidence.wall.0 as f64 * command.cpu_count as f64;
    let mut share = |time: Option<Nanos>, limit_ns: f64, prefix: &str, suffix: &str| {
        let Some(time) = time else { return };
        if time.0 as f64 > limit_ns.max(ROUNDING_MAX_NS) {
            let share = 100.0 * time.0 as f64 / capacity_ns;
            reasons.push(command.reason(format!("{prefix} {share:.0} % of {suffix}")));
        }
    };
    share(command.steal, STEAL_SHARE_MAX * capacity_ns, "the hypervisor took", "the time of its CPUs");
    let limit_ns = (FOREIGN_SHARE_MAX * capacity_ns).max(tick_noise_ns(evidence.cpu_time, capacity_ns));
    if command.is_bounded || is_lost {
        // The paging controller and kernel threads swap for it on any CPU; their work cannot be distinguished from that
        // of other programs. After a loss, it is another sign of the same disturbance.
    } else if !command.cpus.is_empty() {
        share(command.foreign, limit_ns, "other programs used", "the time of its CPUs");
    } else if lost_time::foreign_wait(command).is_none() && no_cpu_was_free(evidence) {
        // The work of other programs on other CPUs does not disturb a trial that did not wait for it.
        share(command.foreign, limit_ns, "other programs used", "its time, and no CPU was free");
    }
    if let Some(bytes) = evidence.swapped.filter(|bytes| bytes.0 > 0 && !command.is_bounded) {
        reasons.push(command.reason(format!("{bytes} of its memory was swapped out")));
    }
    if let Some(kills) = evidence.oom_kills.filter(|kills| *kills > 0) {
        let text = format!("memory ran out during the trial: processes killed on this machine: {kills}");
        reasons.push(command.reason(text));
    }
    // Far memory comes from a disk by design. Swapped-out memory is still reported above.
    if !command.is_bounded && !command.memory.is_beyond_dram() {
        reasons.extend(waits_for_disk(evidence, capacity_ns).map(|text| command.reason(text)));
    }
    if let Some((low, high)) = evidence.frequency_khz {
        let fall = (high.saturating_sub(low)) as f64 / high.max(1) as f64;
        if fall > FREQUENCY_FALL_MAX {
            reasons.push(command.reason(format!("the core frequency fell by {:.0} % during the trial", fall * 100.0)));
        }
    }
    reasons
}

/// The scheduler moves an unbound trial away from other work, which is part of the measurement, as long as another CPU
/// is free.
fn no_cpu_was_free(evidence: &Evidence) -> bool {
    let (Some(mask), Some(foreign)) = (&evidence.mask_at_start, evidence.foreign) else { return false };
    let all_ns = evidence.wall.0 as f64 * mask.len() as f64;
    let busy_ns = (evidence.cpu_time.0 + foreign.0 + evidence.steal.unwrap_or_default().0) as f64;
    all_ns > 0.0 && busy_ns > (1.0 - IDLE_SHARE_MAX) * all_ns
}

/// Checks for pages read from swap, or from files that were evicted from memory. Polls may miss pages that are swapped
/// out and in between them; the kernel counts every fault.
fn waits_for_disk(evidence: &Evidence, capacity_ns: f64) -> Option<String> {
    let faults = evidence.faults_major?;
    let waited_ns = faults as f64 * FAULT_MAJOR_NS;
    (faults > FAULTS_MAJOR_FEW && waited_ns > FAULTS_MAJOR_SHARE_MAX * capacity_ns)
        .then(|| format!("{faults} of its page faults waited for a disk"))
}

/// Returns the possible error of tick-based busy time without other programs. A trial that runs all the time or never
/// is counted exactly; for one that runs half of the time, every tick is a coin toss.
fn tick_noise_ns(own: Nanos, capacity_ns: f64) -> f64 {
    let busy = (own.0 as f64 / capacity_ns.max(1.0)).min(1.0);
    TICK_DEVIATIONS * (busy * (1.0 - busy) * capacity_ns * TICK_NS).sqrt()
}

#[cfg(test)]
mod tests;
