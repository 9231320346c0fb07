//! The answer of `nearfar size` in sentences.

use super::{SizeAnswer, SizePoint, SizeTier, TierAnswer};
use crate::stats::statistics::TRIALS_MIN;
use crate::values::compressibility::{Compressibility, KindShare};

/// Smaller kinds of memory, relative to all of it, are left out of the sentence.
const KIND_SHARE_MIN: f64 = 0.02;

impl SizeAnswer {
    /// Describes the result of the main tier in one sentence.
    pub fn sentence(&self) -> String {
        let Self { program, need, within_percent, .. } = self;
        let Some(main) = self.main_tier() else {
            return format!("{program} uses {need}; no trial with a budget is valid");
        };
        if self.points.iter().all(|point| point.ci_high.is_none()) {
            return format!(
                "{program} uses {need}; too few runs to determine which budgets are sufficient: at least {TRIALS_MIN} are required"
            );
        }
        let swap = if main.tier.steered { "" } else { " with the kernel's own swap" };
        match (main.enough, self.saves) {
            (Some(enough), Some(saves)) => format!(
                "{program} uses {need} and needs {}{enough} of DRAM{swap}{} to be within {within_percent} % of full speed; \
                 that saves {saves}, {:.0} % of its memory",
                if main.unresolved { "at most " } else { "" },
                compressed_part(main),
                100.0 * saves.0 as f64 / need.0.max(1) as f64
            ),
            (Some(enough), None) => format!(
                "{program} uses {need} and is within {within_percent} % of full speed{swap} with {enough} of DRAM{}{}",
                compressed_part(main),
                if main.unresolved { "; whether less is sufficient is unresolved" } else { ", but not with less" },
            ),
            (None, _) if main.unresolved => format!(
                "{program} uses {need}; its runs vary too much to determine whether one of these budgets is within \
                 {within_percent} % of full speed{swap}: more runs (-r) may show it"
            ),
            (None, _) => format!(
                "{program} uses {need}; with none of these budgets is it within {within_percent} % of full speed{swap}"
            ),
        }
    }

    /// Describes the budgets that the other tiers need, one sentence per tier.
    pub fn other_sentences(&self) -> Vec<String> {
        let Some(main) = self.main_tier() else { return Vec::new() };
        let has_result = |tier: SizeTier| self.points.iter().any(|point| point.tier == tier && has_interval(point));
        let others = self.tiers.iter().filter(|answer| answer.tier != main.tier && has_result(answer.tier));
        others.map(|answer| other(answer, main.tier)).collect()
    }

    /// Describes the compressibility of the program's memory, if it was measured.
    pub fn compressibility_sentence(&self) -> Option<String> {
        let Compressibility { algorithm, total, kinds } = self.compressibility.as_ref()?;
        let is_shown = |kind: &&KindShare| kind.share.bytes.0 as f64 >= KIND_SHARE_MIN * total.bytes.0 as f64;
        let kinds: Vec<String> = kinds
            .iter()
            .filter(is_shown)
            .map(|kind| format!("{} of {} to {:.0} %", kind.share.bytes, kind.kind, kind.share.percent))
            .collect();
        let by_kind = if kinds.len() > 1 { format!("; {}", kinds.join(", ")) } else { String::new() };
        Some(format!(
            "near its peak, its memory compresses to {:.0} % (95 % interval {:.0} to {:.0} %) with {algorithm}{by_kind}; \
             {:.0} % of its pages are zeros, {:.0} % do not compress",
            total.percent, total.ci_low, total.ci_high, total.zero_percent, total.incompressible_percent
        ))
    }
}

fn has_interval(point: &SizePoint) -> bool {
    point.ci_high.is_some()
}

/// The part of a sufficient budget that compressed pages use, in parentheses.
fn compressed_part(answer: &TierAnswer) -> String {
    let part = answer.compressed_dram.filter(|bytes| bytes.0 > 0);
    part.map_or(String::new(), |bytes| format!(" (compressed pages use {bytes} of it)"))
}

/// Describes a tier by its differences from the main one.
fn other(answer: &TierAnswer, main: SizeTier) -> String {
    let how = match (answer.tier.steered == main.steered, answer.tier.compressed) {
        (true, true) => "with compression",
        (true, false) => "without compression",
        (false, true) => "with the kernel's own swap and compression",
        (false, false) => "with the kernel's own swap",
    };
    match (answer.enough, answer.unresolved) {
        (Some(enough), false) => format!("{how} it needs {enough}"),
        (Some(enough), true) => format!("{how} it needs at most {enough}"),
        (None, false) => format!("{how} none of these budgets is sufficient"),
        (None, true) => format!("{how} it is unresolved whether one of them is sufficient"),
    }
}
