//! Judges the time that a trial lost: it was stopped, its CPU quota was used up, or its CPUs ran other programs. Must not
//! count the time for which its threads waited for each other.

use std::collections::BTreeSet;

use super::JudgedCommand;
use crate::values::units::Nanos;

/// A loss of 2 % changes a result by as much as differences that users act on.
const LOST_SHARE_MAX: f64 = 0.02;
/// Kernel threads and timers also preempt the trials of an idle machine: those of 255 ms waited for 2 to 6 ms.
const WAIT_MIN_NS: f64 = 5e6;

/// Returns a reason for each kind of loss. If the quota was used up, the waits are due to it.
pub(super) fn reasons(command: &JudgedCommand<'_>) -> Vec<String> {
    let wall_ns = command.evidence.wall.0 as f64;
    let share = |time: Option<Nanos>, of_ns: f64| time.map_or(0.0, |time| time.0 as f64 / of_ns.max(1.0));
    let mut reasons = Vec::new();
    let stopped = share(command.evidence.stopped, wall_ns);
    if stopped > LOST_SHARE_MAX {
        reasons.push(command.reason_with_subject(&format!("was stopped for {:.0} % of its time", stopped * 100.0)));
    }
    let throttled = share(command.evidence.throttled, wall_ns * command.cpu_count as f64);
    let waited = share(foreign_wait(command), wall_ns);
    if throttled > LOST_SHARE_MAX {
        let text = format!("the CPU quota of its cgroup stopped its CPUs for {:.0} % of the time", throttled * 100.0);
        reasons.push(command.reason(text));
    } else if waited > LOST_SHARE_MAX && waited * wall_ns > WAIT_MIN_NS {
        let text = format!("waited for CPUs that ran other programs for {:.0} % of its time", waited * 100.0);
        reasons.push(command.reason_with_subject(&text));
    }
    reasons
}

/// Returns the time for which a trial waited for other programs; `None` if it cannot be distinguished from the time for
/// which its threads waited for each other.
pub(super) fn foreign_wait(command: &JudgedCommand<'_>) -> Option<Nanos> {
    // The other command of the trial is not a disturbance.
    if command.shares_cpus {
        return None;
    }
    // The stall is a mean over CPUs, but all threads of a team wait for the slowest.
    let slowest = command.evidence.run_queue_wait_max.filter(|_| has_cpu_per_thread(command));
    command.evidence.cpu_stall.max(slowest)
}

/// Returns whether its threads cannot compete with each other: there is only one, or each is pinned to its own CPU.
fn has_cpu_per_thread(command: &JudgedCommand<'_>) -> bool {
    let bindings = &command.evidence.thread_bindings;
    let cpus: BTreeSet<_> = bindings.iter().map(|binding| binding.requested).collect();
    command.evidence.threads_seen == 1 || (!bindings.is_empty() && cpus.len() == bindings.len())
}
