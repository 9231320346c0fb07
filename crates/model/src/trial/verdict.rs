//! What a trial is worth, given what was asked and what was observed. Pure; thresholds carry reasons.

use serde::{Deserialize, Serialize};

use super::{Evidence, Status, Trial};
use crate::id_set::NodeSet;

/// How far a trial can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// Placement proven, machine quiet.
    Valid,
    /// Placement proven, but something disturbed it. Counted, and said.
    Suspect,
    /// Placement not proven, or no result. Shown, not ranked, repeated.
    Invalid,
}

/// A grade and its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The grade.
    #[serde(rename = "verdict")]
    pub grade: Grade,
    /// Why it is not better; empty for a valid trial.
    pub reasons: Vec<String>,
}

/// A few pages (stack guard, vdso, loader) may lie elsewhere before the policy is set.
const PAGES_ELSEWHERE_MAX: f64 = 0.02;
/// Work that is 2 % off moves a result by as much as differences that people act on.
const FOREIGN_SHARE_MAX: f64 = 0.02;
/// As for foreign work; steal also stops the trial's own threads.
const STEAL_SHARE_MAX: f64 = 0.01;
/// /proc/stat counts in ticks of 10 ms, so shares of short trials are rounding; below this many
/// nanoseconds of foreign or stolen time nothing is said.
const ROUNDING_MAX_NS: u64 = 30_000_000;
/// A frequency that fell by a tenth within a trial is throttling, not jitter.
const FREQUENCY_FALL_MAX: f64 = 0.10;

/// Weighs the evidence.
pub fn judge(trial: &Trial, status: &Status, evidence: &Evidence) -> Verdict {
    let mut invalid = failures(status);
    if matches!(status, Status::Completed) {
        invalid.extend(seats_not_proven(trial, evidence));
        invalid.extend(pages_elsewhere(trial, evidence));
    }
    let suspect = disturbances(trial, evidence);
    let grade = match (invalid.is_empty(), suspect.is_empty()) {
        (false, _) => Grade::Invalid,
        (true, false) => Grade::Suspect,
        (true, true) => Grade::Valid,
    };
    invalid.extend(suspect);
    Verdict { grade, reasons: invalid }
}

fn failures(status: &Status) -> Vec<String> {
    match status {
        Status::Completed => Vec::new(),
        Status::Failed(why) => vec![format!("failed: {why}")],
        Status::TimedOut(why) => vec![format!("stopped: {why}")],
        Status::Unavailable(why) => vec![format!("cannot be measured here: {why}")],
    }
}

fn seats_not_proven(trial: &Trial, evidence: &Evidence) -> Vec<String> {
    if !trial.placement.is_seated() {
        return Vec::new();
    }
    let cpus = trial.placement.cpus();
    let mut reasons = Vec::new();
    match &evidence.mask_at_start {
        None => reasons.push("the affinity mask could not be read back".into()),
        Some(mask) if *mask != cpus => reasons.push(format!("asked for cpus {cpus}, the kernel gave {mask}")),
        Some(_) => {}
    }
    if let Some(mask) = evidence.mask_at_end.as_ref().filter(|mask| !mask.is_subset(&cpus)) {
        reasons.push(format!("it changed its own affinity to {mask}, outside its seats {cpus}"));
    }
    let strays = evidence.cpus_seen.difference(&cpus);
    if !strays.is_empty() {
        reasons.push(format!("it ran on cpus {strays}, outside its seats {cpus}"));
    }
    for seat in &evidence.thread_seats {
        let alone = seat.mask.len() == 1 && seat.mask.contains(seat.asked);
        if !alone || seat.before != seat.asked || seat.after != seat.asked {
            reasons.push(format!(
                "a thread asked for cpu {} had mask {} and ran on {} and {}",
                seat.asked, seat.mask, seat.before, seat.after
            ));
        }
    }
    reasons
}

fn pages_elsewhere(trial: &Trial, evidence: &Evidence) -> Vec<String> {
    let Some(promised) = trial.placement.memory.promised_nodes() else { return Vec::new() };
    let total: u64 = evidence.pages.values().sum();
    if total == 0 {
        let why = evidence.unavailable.get("pages").map_or("no pages were seen", String::as_str);
        return vec![format!("memory on nodes {promised} was asked for and could not be proven: {why}")];
    }
    let elsewhere: u64 =
        evidence.pages.iter().filter(|(node, _)| !promised.contains(**node)).map(|(_, pages)| pages).sum();
    let share = elsewhere as f64 / total as f64;
    if share <= PAGES_ELSEWHERE_MAX {
        return Vec::new();
    }
    let nodes: NodeSet = evidence.pages.keys().copied().filter(|node| !promised.contains(*node)).collect();
    vec![format!("{:.0} % of its pages were on nodes {nodes}, asked for {promised}", share * 100.0)]
}

fn disturbances(trial: &Trial, evidence: &Evidence) -> Vec<String> {
    let mut reasons = Vec::new();
    let cpus = trial.placement.seats.len().max(trial.placement.threads).max(1);
    let capacity_ns = evidence.wall.0 as f64 * cpus as f64;
    let mut share = |time: Option<crate::units::Nanos>, limit: f64, what: &str| {
        let Some(time) = time else { return };
        if time.0 > ROUNDING_MAX_NS && time.0 as f64 > limit * capacity_ns {
            reasons.push(format!("{what} {:.0} % of the seats' time", 100.0 * time.0 as f64 / capacity_ns));
        }
    };
    share(evidence.steal, STEAL_SHARE_MAX, "the hypervisor took");
    if trial.placement.is_seated() {
        // Without seats the scheduler moves the trial out of the way of other work, which is part of what is measured.
        share(evidence.foreign, FOREIGN_SHARE_MAX, "other programs used");
    }
    if let Some(bytes) = evidence.swapped.filter(|bytes| bytes.0 > 0) {
        reasons.push(format!("{bytes} of its memory was swapped out"));
    }
    if let Some((low, high)) = evidence.frequency_khz {
        let fall = (high.saturating_sub(low)) as f64 / high.max(1) as f64;
        if fall > FREQUENCY_FALL_MAX {
            reasons.push(format!("the cores' frequency fell by {:.0} % while it ran", fall * 100.0));
        }
    }
    reasons
}
