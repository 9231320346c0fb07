//! What a trial is worth, given what was asked and what was observed. Pure; thresholds carry reasons.

mod budget;
mod routes;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Evidence, Trial, TrialStatus};
use crate::placements::placement::MemoryPolicy;
use crate::values::id_set::{CpuSet, NodeId, NodeSet};
use crate::values::units::{Bytes, Nanos};

/// How far a trial can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    Valid,
    /// Placement proven, but something disturbed it. Counted, and said.
    Suspect,
    /// Placement not proven, or no result. Shown, not ranked, repeated.
    Invalid,
}

/// A grade and its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    #[serde(rename = "verdict")]
    pub grade: Grade,
    /// Why it is not better; empty for a valid trial.
    pub reasons: Vec<String>,
}

/// A few pages (stack guard, vdso, loader) may lie elsewhere before the policy is set.
const PAGES_ELSEWHERE_MAX: f64 = 0.02;
/// The same as a number, while most pages are where they should be: of a program's written data `numa_maps` cannot tell
/// the few pages that are still the page cache's. Seen in the NUMA guest, where two of thirteen were.
const PAGES_ELSEWHERE_FEW: u64 = 8;
/// Interleaved pages are told from memory that lies on one node for the most part. Huge pages are dealt out whole and
/// an own stack or loader adds some, so an even split is not exact.
const PAGES_IN_TURN_EXCESS_MAX: f64 = 0.25;
/// A huge page of the most usual size (2 MiB of 4 KiB pages): memory of fewer than four per node cannot split evenly.
const PAGES_IN_TURN_PER_NODE_MIN: u64 = 4 * 512;
/// Work that is 2 % off moves a result by as much as differences that people act on.
const FOREIGN_SHARE_MAX: f64 = 0.02;
/// As for foreign work; steal also stops the trial's own threads.
const STEAL_SHARE_MAX: f64 = 0.01;
/// Threads that wait a moment for each other leave more of their cpus idle than a full machine does.
const IDLE_SHARE_MAX: f64 = 0.05;
/// /proc/stat counts in ticks of 10 ms, so shares of short trials are rounding; below this many
/// nanoseconds of foreign or stolen time nothing is said.
const ROUNDING_MAX_NS: f64 = 30e6;
/// Most kernels book a whole tick on whoever runs when it ends. Kernels tick at 100 Hz or faster.
const TICK_NS: f64 = 10e6;
/// A quiet trial exceeds three standard deviations once in 700 times; two would call one in 44 suspect.
const TICK_DEVIATIONS: f64 = 3.0;
/// A good disk takes this long for a page, and the thread that needs it waits.
const FAULT_MAJOR_NS: f64 = 100e3;
/// Waits for a disk count like foreign work.
const FAULTS_MAJOR_SHARE_MAX: f64 = FOREIGN_SHARE_MAX;
/// Program and libraries may come from the disk in some faults of many pages each, which is their start and no disturbance.
const FAULTS_MAJOR_FEW: u64 = 32;
/// A frequency that fell by a tenth within a trial is throttling, not jitter.
const FREQUENCY_FALL_MAX: f64 = 0.10;

pub fn judge(trial: &Trial, status: &TrialStatus, evidence: &Evidence) -> Verdict {
    let subjects = subjects(trial, evidence);
    let mut invalid = failures(status);
    if matches!(status, TrialStatus::Completed) {
        for subject in &subjects {
            invalid.extend(seats_not_proven(subject));
            invalid.extend(another_policy(subject));
            invalid.extend(pages_elsewhere(subject));
            invalid.extend(pages_not_in_turn(subject));
            invalid.extend(not_far(subject));
        }
        if evidence.second.is_none() && !trial.placement.second.is_empty() {
            invalid.push(format!("no second command was seen, asked for one on cpus {}", trial.placement.second));
        }
        invalid.extend(routes::not_proven(&trial.placement.interrupts, evidence));
        invalid.extend(budget::not_kept(trial, evidence));
    }
    let mut suspect: Vec<String> = subjects.iter().flat_map(disturbances).collect();
    if matches!(status, TrialStatus::Completed) {
        suspect.extend(subjects.iter().filter_map(pages_spilled));
        suspect.extend(routes::unused(&trial.placement.interrupts, evidence));
    }
    let grade = match (invalid.is_empty(), suspect.is_empty()) {
        (false, _) => Grade::Invalid,
        (true, false) => Grade::Suspect,
        (true, true) => Grade::Valid,
    };
    invalid.extend(suspect);
    Verdict { grade, reasons: invalid }
}

/// One of a trial's commands: what was asked for it and what was seen of it.
struct JudgedCommand<'a> {
    evidence: &'a Evidence,
    /// Empty when the kernel chooses.
    cpus: CpuSet,
    /// How many cpus' time `steal` and `foreign` are shares of.
    cpu_count: usize,
    memory: &'a MemoryPolicy,
    /// Time of its seats that the hypervisor took, and work of others there; none when not known or not to be judged.
    steal: Option<Nanos>,
    foreign: Option<Nanos>,
    is_second: bool,
    /// Whether some of its memory is meant to be far: then it waits for a disk, and others work for it.
    is_bounded: bool,
}

impl JudgedCommand<'_> {
    /// A reason that says what it did: `ran on cpus 3`.
    fn did(&self, what: &str) -> String {
        format!("{} {what}", if self.is_second { "the second command" } else { "it" })
    }

    /// A reason that does not begin with the command itself.
    fn of(&self, what: String) -> String {
        if self.is_second { format!("the second command: {what}") } else { what }
    }
}

/// The measured command and, where there was one, the second.
fn subjects<'a>(trial: &'a Trial, evidence: &'a Evidence) -> Vec<JudgedCommand<'a>> {
    let placement = &trial.placement;
    let (cpus, memory) = (placement.cpus(), &placement.memory);
    let share_seats = placement.second.is_empty() || cpus.is_empty() || cpus.intersects(&placement.second);
    // What the one does on the other's seats is the placement's doing. The second also lived before the first began,
    // so more is taken off than it used meanwhile: the doubt is to the good of the trial.
    let seconds = evidence.second.as_ref().filter(|_| share_seats).map_or(Nanos(0), |second| second.cpu_time);
    let first = JudgedCommand {
        evidence,
        cpu_count: placement.seats.len().max(placement.threads).max(1),
        steal: evidence.steal,
        foreign: evidence.foreign.map(|foreign| Nanos(foreign.0.saturating_sub(seconds.0))),
        cpus,
        memory,
        is_bounded: placement.budget.is_some(),
        is_second: false,
    };
    let second = evidence.second.as_deref().map(|evidence| JudgedCommand {
        evidence,
        cpus: placement.second.clone(),
        cpu_count: placement.second.len().max(1),
        memory,
        is_bounded: placement.budget.is_some(),
        // Without seats it is of all cpus, which the first is judged by already.
        steal: evidence.steal.filter(|_| !placement.second.is_empty()),
        // On shared seats the work of warm-up runs would be foreign, and nobody counted it.
        foreign: evidence.foreign.filter(|_| !share_seats),
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

fn seats_not_proven(subject: &JudgedCommand<'_>) -> Vec<String> {
    let JudgedCommand { evidence, cpus, .. } = subject;
    if cpus.is_empty() {
        return Vec::new();
    }
    let mut reasons = Vec::new();
    match &evidence.mask_at_start {
        None => reasons.push(subject.of("the affinity mask could not be read back".into())),
        Some(mask) if mask != cpus => {
            reasons.push(subject.of(format!("asked for cpus {cpus}, the kernel gave {mask}")));
        }
        Some(_) => {}
    }
    if let Some(mask) = evidence.mask_at_end.as_ref().filter(|mask| !mask.is_subset(cpus)) {
        reasons.push(subject.did(&format!("got the affinity {mask}, outside its seats {cpus}")));
    }
    let strays = evidence.cpus_seen.difference(cpus);
    if !strays.is_empty() {
        reasons.push(subject.did(&format!("ran on cpus {strays}, outside its seats {cpus}")));
    }
    for seat in &evidence.thread_seats {
        let alone = seat.mask.len() == 1 && seat.mask.contains(seat.asked);
        if !alone || seat.before != seat.asked || seat.after != seat.asked {
            reasons.push(subject.of(format!(
                "a thread asked for cpu {} had mask {} and ran on {} and {}",
                seat.asked, seat.mask, seat.before, seat.after
            )));
        }
    }
    reasons
}

/// The kernel takes nodes away that are offline or not allowed without a word.
fn another_policy(subject: &JudgedCommand<'_>) -> Option<String> {
    let asked = match subject.memory {
        // What we were started with is the kernel's choice too, and pages of a file go where it likes.
        MemoryPolicy::Kernel | MemoryPolicy::Far => return None,
        MemoryPolicy::Local => "local".into(),
        MemoryPolicy::Bind(nodes) => format!("bind:{nodes}"),
        MemoryPolicy::Interleave(nodes) => format!("interleave:{nodes}"),
        MemoryPolicy::WeightedInterleave(nodes) => format!("weighted interleave:{nodes}"),
        MemoryPolicy::Preferred(node) => format!("prefer:{node}"),
    };
    let given = subject.evidence.memory_policy.as_ref().filter(|given| **given != asked)?;
    Some(subject.of(format!("asked for the memory policy {asked}, the kernel gave {given}")))
}

fn pages_elsewhere(subject: &JudgedCommand<'_>) -> Option<String> {
    let (promised, evidence) = (subject.memory.promised_nodes()?, subject.evidence);
    if evidence.pages.values().all(|pages| *pages == 0) {
        let why = evidence.unavailable.get("pages").map_or("no pages were seen", String::as_str);
        let what = format!("memory on nodes {promised} was asked for and could not be proven: {why}");
        return Some(subject.of(what));
    }
    let elsewhere = share_elsewhere(&evidence.pages, promised)?;
    Some(subject.of(format!("{elsewhere}, asked for {promised}")))
}

/// All of the measured memory has to be pages of the far file; how much of it is in DRAM at a time is what is measured.
fn not_far(subject: &JudgedCommand<'_>) -> Option<String> {
    if !subject.memory.is_beyond_dram() {
        return None;
    }
    let asked = subject.memory;
    match &subject.evidence.far {
        None => {
            let what = format!("memory '{asked}' was asked for and could not be proven: nothing was seen of its file");
            Some(subject.of(what))
        }
        Some(far) if far.of_file < far.bytes || far.bytes == Bytes(0) => Some(subject.of(format!(
            "memory '{asked}' was asked for, and {} of {} were pages of its file",
            far.of_file, far.bytes
        ))),
        Some(_) => None,
    }
}

/// Policies that prefer take what another node has when theirs is full; the kernel did as it was told, and the memory is
/// not where the placement's name says.
fn pages_spilled(subject: &JudgedCommand<'_>) -> Option<String> {
    let (nodes, word) = match subject.memory {
        MemoryPolicy::Preferred(node) => ([*node].into_iter().collect(), "preferred"),
        MemoryPolicy::Local => (subject.evidence.local_nodes.clone()?, "local is"),
        _ => return None,
    };
    let elsewhere = share_elsewhere(&subject.evidence.pages, &nodes)?;
    Some(subject.of(format!("{elsewhere}, {word} {nodes}")))
}

/// `40 % of its pages were on nodes 1`; none when too few were.
fn share_elsewhere(pages: &BTreeMap<NodeId, u64>, wanted: &NodeSet) -> Option<String> {
    let total: u64 = pages.values().sum();
    let strays = || pages.iter().filter(|(node, pages)| !wanted.contains(**node) && **pages > 0);
    let elsewhere: u64 = strays().map(|(_, pages)| pages).sum();
    let share = elsewhere as f64 / total.max(1) as f64;
    if share <= PAGES_ELSEWHERE_MAX || (elsewhere <= PAGES_ELSEWHERE_FEW && share < 0.5) {
        return None;
    }
    let nodes: NodeSet = strays().map(|(node, _)| *node).collect();
    Some(format!("{:.0} % of its pages were on nodes {nodes}", share * 100.0))
}

/// The kernel deals pages to the next node without a word when one is full, and so does who moves them afterwards.
fn pages_not_in_turn(subject: &JudgedCommand<'_>) -> Option<String> {
    let MemoryPolicy::Interleave(nodes) = subject.memory else { return None };
    let pages = &subject.evidence.pages;
    let total: u64 = pages.values().sum();
    if total < PAGES_IN_TURN_PER_NODE_MIN * nodes.len() as u64 {
        return None;
    }
    let (node, most) = pages.iter().max_by_key(|(_, pages)| **pages)?;
    let share = *most as f64 / total as f64;
    let excess = share - 1.0 / nodes.len() as f64;
    (excess > PAGES_IN_TURN_EXCESS_MAX).then(|| {
        subject.of(format!("{:.0} % of its pages were on node {node}, asked for in turn on {nodes}", share * 100.0))
    })
}

fn disturbances(subject: &JudgedCommand<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    let evidence = subject.evidence;
    let capacity_ns = evidence.wall.0 as f64 * subject.cpu_count as f64;
    let mut share = |time: Option<Nanos>, limit_ns: f64, what: &str, whose: &str| {
        let Some(time) = time else { return };
        if time.0 as f64 > limit_ns.max(ROUNDING_MAX_NS) {
            let share = 100.0 * time.0 as f64 / capacity_ns;
            reasons.push(subject.of(format!("{what} {share:.0} % of {whose}")));
        }
    };
    share(subject.steal, STEAL_SHARE_MAX * capacity_ns, "the hypervisor took", "the seats' time");
    let limit_ns = (FOREIGN_SHARE_MAX * capacity_ns).max(tick_noise_ns(evidence.cpu_time, capacity_ns));
    if subject.is_bounded {
        // The pilot and the kernel's workers swap for it, on whatever cpus; theirs and others' cannot be told apart.
    } else if !subject.cpus.is_empty() {
        share(subject.foreign, limit_ns, "other programs used", "the seats' time");
    } else if no_cpu_was_free(evidence) {
        share(subject.foreign, limit_ns, "other programs used", "its time, and no cpu was free");
    }
    if let Some(bytes) = evidence.swapped.filter(|bytes| bytes.0 > 0 && !subject.is_bounded) {
        reasons.push(subject.of(format!("{bytes} of its memory was swapped out")));
    }
    if let Some(kills) = evidence.oom_kills.filter(|kills| *kills > 0) {
        let what = format!("memory ran out: the kernel killed {kills} of this machine's processes while it ran");
        reasons.push(subject.of(what));
    }
    // Beyond DRAM pages come from a disk because they were put there. What was swapped out is still said above.
    if !subject.is_bounded && !subject.memory.is_beyond_dram() {
        reasons.extend(waits_for_disk(evidence, capacity_ns).map(|what| subject.of(what)));
    }
    if let Some((low, high)) = evidence.frequency_khz {
        let fall = (high.saturating_sub(low)) as f64 / high.max(1) as f64;
        if fall > FREQUENCY_FALL_MAX {
            reasons.push(subject.of(format!("the cores' frequency fell by {:.0} % while it ran", fall * 100.0)));
        }
    }
    reasons
}

/// Without seats the scheduler moves a trial out of the way of other work, which is part of what is measured, as long as
/// there is a cpu to move it to.
fn no_cpu_was_free(evidence: &Evidence) -> bool {
    let (Some(mask), Some(foreign)) = (&evidence.mask_at_start, evidence.foreign) else { return false };
    let all_ns = evidence.wall.0 as f64 * mask.len() as f64;
    let busy_ns = (evidence.cpu_time.0 + foreign.0 + evidence.steal.unwrap_or_default().0) as f64;
    all_ns > 0.0 && busy_ns > (1.0 - IDLE_SHARE_MAX) * all_ns
}

/// Pages that came back from swap, or of files that others pushed out of memory. Looks may miss what is swapped out and in
/// again between them; the kernel counts every fault.
fn waits_for_disk(evidence: &Evidence, capacity_ns: f64) -> Option<String> {
    let faults = evidence.faults_major?;
    let waited_ns = faults as f64 * FAULT_MAJOR_NS;
    (faults > FAULTS_MAJOR_FEW && waited_ns > FAULTS_MAJOR_SHARE_MAX * capacity_ns)
        .then(|| format!("{faults} of its page faults waited for a disk"))
}

/// How far the busy time that ticks tell of may be off when nobody else is there. A trial that runs all the time or
/// never is told exactly; one that runs half of the time is a coin tossed at every tick.
fn tick_noise_ns(own: Nanos, capacity_ns: f64) -> f64 {
    let busy = (own.0 as f64 / capacity_ns.max(1.0)).min(1.0);
    TICK_DEVIATIONS * (busy * (1.0 - busy) * capacity_ns * TICK_NS).sqrt()
}

#[cfg(test)]
mod tests;
