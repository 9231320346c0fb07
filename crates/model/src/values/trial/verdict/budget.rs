//! Whether a budget of DRAM was kept: the limit as the kernel read it back, and nobody killed for want of far memory.

use super::super::{Evidence, Trial};

/// A limit is taken in whole pages; the largest page that a Linux has is 64 KiB.
const ROUNDED_BY: u64 = 64 << 10;

/// Why the memory was not where the placement says.
pub(super) fn not_kept(trial: &Trial, evidence: &Evidence) -> Vec<String> {
    let Some(budget) = trial.placement.budget else { return Vec::new() };
    let Some(kept) = &evidence.budget else {
        return vec![format!("nothing bounded its DRAM, asked for at most {}", budget.dram)];
    };
    let mut reasons = Vec::new();
    if kept.dram.0.abs_diff(budget.dram.0) >= ROUNDED_BY {
        reasons.push(format!("asked for at most {} of DRAM, the kernel allowed {}", budget.dram, kept.dram));
    }
    if kept.killed > 0 {
        reasons.push(format!("the kernel killed {} of its processes for want of memory", kept.killed));
    }
    if budget.steered != kept.pilot_cpu.is_some() {
        reasons.push(if budget.steered { "nobody steered its swap" } else { "its swap was steered" }.into());
    }
    reasons
}
