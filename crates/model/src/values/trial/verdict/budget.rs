//! Checks that a DRAM budget was kept: the limit read back from the kernel, and no process killed.

use super::super::{Evidence, Trial};

/// The kernel rounds a limit to whole pages; the largest base page of Linux is 64 KiB.
const ROUNDED_BY: u64 = 64 << 10;

/// Returns the reasons why the budget of the placement was not kept.
pub(super) fn violations(trial: &Trial, evidence: &Evidence) -> Vec<String> {
    let Some(budget) = trial.placement.budget else { return Vec::new() };
    let Some(kept) = &evidence.budget else {
        return vec![format!("its DRAM was not limited; the requested limit was {}", budget.dram)];
    };
    let mut reasons = Vec::new();
    if kept.dram.0.abs_diff(budget.dram.0) >= ROUNDED_BY {
        reasons.push(format!("requested a DRAM limit of {}, the kernel set {}", budget.dram, kept.dram));
    }
    if kept.killed > 0 {
        reasons.push(format!("the kernel killed {} of its processes because memory ran out", kept.killed));
    }
    if budget.steered != kept.controller_cpu.is_some() {
        reasons.push(
            if budget.steered {
                "no paging controller ran"
            } else {
                "a paging controller ran, though none was requested"
            }
            .into(),
        );
    }
    match kept.compressed {
        None if budget.compressed => reasons.push("no compressed memory was available".into()),
        Some(traffic) if !budget.compressed && traffic.stored.0 > 0 => {
            reasons.push(format!("{} of evicted pages were kept compressed, though not requested", traffic.stored));
        }
        _ => {}
    }
    reasons
}

/// Returns the reason why far memory may have been slower or faster than that of the placement.
pub(super) fn disturbances(evidence: &Evidence) -> Option<String> {
    let others = evidence.budget.as_ref().map(|kept| &kept.other_swap).filter(|others| !others.is_empty())?;
    Some(format!("its pages may be in the swap of others: {} has the same priority or a higher one", others.join(", ")))
}
