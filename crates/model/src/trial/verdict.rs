//! What a trial is worth, given what was asked and what was observed. Pure; thresholds carry reasons.

use serde::{Deserialize, Serialize};

use super::{Evidence, Status, Trial};
use crate::id_set::NodeSet;
use crate::placement::MemoryPolicy;
use crate::units::Nanos;

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
const ROUNDING_MAX_NS: f64 = 30e6;
/// Most kernels book a whole tick on whoever runs when it ends. Kernels tick at 100 Hz or faster.
const TICK_NS: f64 = 10e6;
/// A quiet trial exceeds three standard deviations once in 700 times; two would call one in 44 suspect.
const TICK_DEVIATIONS: f64 = 3.0;
/// A frequency that fell by a tenth within a trial is throttling, not jitter.
const FREQUENCY_FALL_MAX: f64 = 0.10;

/// Weighs the evidence.
pub fn judge(trial: &Trial, status: &Status, evidence: &Evidence) -> Verdict {
    let mut invalid = failures(status);
    if matches!(status, Status::Completed) {
        invalid.extend(seats_not_proven(trial, evidence));
        invalid.extend(another_policy(trial, evidence));
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

/// The kernel takes nodes away that are offline or not allowed without a word.
fn another_policy(trial: &Trial, evidence: &Evidence) -> Option<String> {
    let asked = match &trial.placement.memory {
        // What we were started with is the kernel's choice too.
        MemoryPolicy::Kernel => return None,
        MemoryPolicy::Local => "local".into(),
        MemoryPolicy::Bind(nodes) => format!("bind:{nodes}"),
        MemoryPolicy::Interleave(nodes) => format!("interleave:{nodes}"),
        MemoryPolicy::WeightedInterleave(nodes) => format!("weighted interleave:{nodes}"),
        MemoryPolicy::Preferred(node) => format!("prefer:{node}"),
    };
    let given = evidence.memory_policy.as_ref().filter(|given| **given != asked)?;
    Some(format!("asked for the memory policy {asked}, the kernel gave {given}"))
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
    let mut share = |time: Option<Nanos>, limit_ns: f64, what: &str| {
        let Some(time) = time else { return };
        if time.0 as f64 > limit_ns.max(ROUNDING_MAX_NS) {
            reasons.push(format!("{what} {:.0} % of the seats' time", 100.0 * time.0 as f64 / capacity_ns));
        }
    };
    share(evidence.steal, STEAL_SHARE_MAX * capacity_ns, "the hypervisor took");
    if trial.placement.is_seated() {
        // Without seats the scheduler moves the trial out of the way of other work, which is part of what is measured.
        let limit_ns = (FOREIGN_SHARE_MAX * capacity_ns).max(tick_noise_ns(evidence.cpu_time, capacity_ns));
        share(evidence.foreign, limit_ns, "other programs used");
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

/// How far the busy time that ticks tell of may be off when nobody else is there. A trial that runs all the time or
/// never is told exactly; one that runs half of the time is a coin tossed at every tick.
fn tick_noise_ns(own: Nanos, capacity_ns: f64) -> f64 {
    let busy = (own.0 as f64 / capacity_ns.max(1.0)).min(1.0);
    TICK_DEVIATIONS * (busy * (1.0 - busy) * capacity_ns * TICK_NS).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id_set::{CpuId, CpuSet, NodeId};
    use crate::placement::Placement;
    use crate::trial::{Role, ThreadSeat, TrialId};
    use crate::units::Bytes;
    use crate::workload::Parameters;

    const SECOND: u64 = 1_000_000_000;

    fn cpus(list: &str) -> CpuSet {
        CpuSet::parse_list(list).unwrap()
    }

    fn nodes(list: &str) -> NodeSet {
        NodeSet::parse_list(list).unwrap()
    }

    /// On seats 0 and 1, memory on node 0.
    fn trial() -> Trial {
        Trial {
            id: TrialId("t".into()),
            cell: 0,
            workload: "stream".into(),
            parameters: Parameters::default(),
            placement: Placement {
                seats: vec![CpuId(0), CpuId(1)],
                memory: MemoryPolicy::Bind(nodes("0")),
                ..Placement::kernel(2)
            },
            role: Role::Measured,
            block: 0,
            attempt: 0,
            seed: 1,
            time_limit: Nanos(60 * SECOND),
        }
    }

    /// Ten seconds on both seats with nobody else there; what ticks make of that is a few of them.
    fn quiet() -> Evidence {
        Evidence {
            mask_at_start: Some(cpus("0-1")),
            mask_at_end: Some(cpus("0-1")),
            cpus_seen: cpus("0-1"),
            looks: 100,
            thread_seats: vec![seat(0), seat(1)],
            pages: [(NodeId(0), 10_000), (NodeId(1), 100)].into(),
            memory_policy: Some("bind:0".into()),
            swapped: Some(Bytes(0)),
            steal: Some(Nanos(20_000_000)),
            foreign: Some(Nanos(30_000_000)),
            frequency_khz: Some((3_300_000, 3_500_000)),
            wall: Nanos(10 * SECOND),
            cpu_time: Nanos(20 * SECOND - 50_000_000),
            ..Evidence::default()
        }
    }

    fn seat(cpu: u32) -> ThreadSeat {
        ThreadSeat { asked: CpuId(cpu), mask: cpus(&cpu.to_string()), before: CpuId(cpu), after: CpuId(cpu) }
    }

    fn judged(change: impl FnOnce(&mut Trial, &mut Evidence)) -> Verdict {
        let (mut trial, mut evidence) = (trial(), quiet());
        change(&mut trial, &mut evidence);
        judge(&trial, &Status::Completed, &evidence)
    }

    #[test]
    fn a_quiet_trial_is_valid() {
        assert_eq!(judged(|_, _| {}), Verdict { grade: Grade::Valid, reasons: vec![] });
        let unobserved = judged(|trial, evidence| {
            trial.placement = Placement::kernel(2);
            *evidence = Evidence { wall: Nanos(SECOND), ..Evidence::default() };
        });
        assert_eq!(unobserved.grade, Grade::Valid, "what cannot be seen is not held against it: {unobserved:?}");
    }

    type Change = fn(&mut Trial, &mut Evidence);

    #[test]
    fn a_placement_that_is_not_proven_is_invalid() {
        let cases: [(Change, &str); 11] = [
            (|_, seen| seen.mask_at_start = None, "the affinity mask could not be read back"),
            (|_, seen| seen.mask_at_start = Some(cpus("0")), "asked for cpus 0-1, the kernel gave 0"),
            (
                |_, seen| seen.mask_at_end = Some(cpus("0-3")),
                "it changed its own affinity to 0-3, outside its seats 0-1",
            ),
            (|_, seen| seen.cpus_seen = cpus("0-2"), "it ran on cpus 2, outside its seats 0-1"),
            (
                |_, seen| seen.thread_seats[1].mask = cpus("0-1"),
                "a thread asked for cpu 1 had mask 0-1 and ran on 1 and 1",
            ),
            (|_, seen| seen.thread_seats[1].after = CpuId(0), "a thread asked for cpu 1 had mask 1 and ran on 1 and 0"),
            (
                |_, seen| seen.memory_policy = Some("default".into()),
                "asked for the memory policy bind:0, the kernel gave default",
            ),
            (
                |trial, _| trial.placement.memory = MemoryPolicy::Preferred(NodeId(1)),
                "asked for the memory policy prefer:1, the kernel gave bind:0",
            ),
            (|_, seen| _ = seen.pages.insert(NodeId(1), 1_000), "9 % of its pages were on nodes 1, asked for 0"),
            (
                |_, seen| seen.pages.clear(),
                "memory on nodes 0 was asked for and could not be proven: no pages were seen",
            ),
            (
                |_, seen| {
                    seen.pages.clear();
                    seen.unavailable.insert("pages".into(), "numa_maps: Permission denied".into());
                },
                "memory on nodes 0 was asked for and could not be proven: numa_maps: Permission denied",
            ),
        ];
        for (change, reason) in cases {
            assert_eq!(judged(change), Verdict { grade: Grade::Invalid, reasons: vec![reason.into()] });
        }
    }

    #[test]
    fn a_disturbed_trial_is_suspect() {
        let cases: [(Change, &str); 4] = [
            (|_, seen| seen.steal = Some(Nanos(SECOND)), "the hypervisor took 5 % of the seats' time"),
            (|_, seen| seen.foreign = Some(Nanos(2 * SECOND)), "other programs used 10 % of the seats' time"),
            (|_, seen| seen.swapped = Some(Bytes(3 << 20)), "3MiB of its memory was swapped out"),
            (
                |_, seen| seen.frequency_khz = Some((2_000_000, 4_000_000)),
                "the cores' frequency fell by 50 % while it ran",
            ),
        ];
        for (change, reason) in cases {
            assert_eq!(judged(change), Verdict { grade: Grade::Suspect, reasons: vec![reason.into()] });
        }
        let both = judged(|_, seen| {
            seen.cpus_seen = cpus("3");
            seen.swapped = Some(Bytes(4096));
        });
        assert_eq!((both.grade, both.reasons.len()), (Grade::Invalid, 2), "disturbances are told as well: {both:?}");
    }

    #[test]
    fn without_seats_cpus_and_foreign_work_are_not_judged() {
        let verdict = judged(|trial, seen| {
            trial.placement = Placement::kernel(2);
            seen.mask_at_start = None;
            seen.mask_at_end = Some(cpus("0-7"));
            seen.cpus_seen = cpus("0-7");
            seen.foreign = Some(Nanos(30 * SECOND));
            seen.memory_policy = Some("interleave:0-1".into());
        });
        assert_eq!(verdict.grade, Grade::Valid, "{verdict:?}");
    }

    #[test]
    fn rounding_of_ticks_is_no_disturbance() {
        // A second of a trial that runs all the time, half of the time, hardly; and how much foreign time is seen.
        let cases = [
            (2 * SECOND, 41_000_000, Grade::Suspect),
            (2 * SECOND, 39_000_000, Grade::Valid),
            (SECOND, 200_000_000, Grade::Valid),
            (SECOND, 220_000_000, Grade::Suspect),
            (20_000_000, 42_000_000, Grade::Valid),
            (0, 41_000_000, Grade::Suspect),
        ];
        for (cpu_time, foreign, expected) in cases {
            let verdict = judged(|_, seen| {
                (seen.wall, seen.steal) = (Nanos(SECOND), None);
                (seen.cpu_time, seen.foreign) = (Nanos(cpu_time), Some(Nanos(foreign)));
            });
            assert_eq!(verdict.grade, expected, "{cpu_time} {foreign} {verdict:?}");
        }
        let short = judged(|_, seen| (seen.wall, seen.cpu_time) = (Nanos(2_000_000), Nanos(4_000_000)));
        assert_eq!(short.grade, Grade::Valid, "three ticks in a trial of 2 ms: {short:?}");
        let instant = judged(|_, seen| (seen.wall, seen.cpu_time) = (Nanos(0), Nanos(0)));
        assert_eq!(instant.grade, Grade::Valid, "{instant:?}");
    }

    #[test]
    fn trials_without_a_result_are_invalid_whatever_was_seen() {
        let cases = [
            (Status::Failed("exit status 1".into()), "failed: exit status 1"),
            (Status::TimedOut("60s".into()), "stopped: 60s"),
            (Status::Unavailable("no counters".into()), "cannot be measured here: no counters"),
        ];
        for (status, reason) in cases {
            let verdict = judge(&trial(), &status, &quiet());
            assert_eq!(verdict, Verdict { grade: Grade::Invalid, reasons: vec![reason.into()] });
        }
    }
}
