//! Memory and CPU time that the trials of a cell spent on its DRAM budget.

use serde::{Deserialize, Serialize};

use crate::stats::statistics::median;
use crate::values::trial::Evidence;
use crate::values::units::{Bytes, Nanos};

/// Medians over the counted trials of a cell with a DRAM budget. Field names are part of the JSON contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetFinding {
    /// Peak of the DRAM that compressed pages used; `None` without compression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compressed_dram: Option<Bytes>,
    /// CPU time of the paging controller; `None` without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_cpu: Option<Nanos>,
}

/// One number per counted trial that has it.
#[derive(Debug, Default)]
pub(super) struct BudgetSamples {
    compressed_dram: Vec<f64>,
    controller_cpu: Vec<f64>,
}

impl BudgetSamples {
    pub(super) fn add(&mut self, evidence: &Evidence) {
        let Some(budget) = &evidence.budget else { return };
        let peak = budget.compressed.and_then(|traffic| traffic.dram_max);
        self.compressed_dram.extend(peak.map(|bytes| bytes.0 as f64));
        self.controller_cpu.extend(budget.controller_cpu.map(|time| time.0 as f64));
    }

    /// Returns the medians; `None` without a sample.
    pub(super) fn medians(&self) -> Option<BudgetFinding> {
        let found = BudgetFinding {
            compressed_dram: median(&self.compressed_dram).map(|bytes| Bytes(bytes as u64)),
            controller_cpu: median(&self.controller_cpu).map(|time| Nanos(time as u64)),
        };
        (found != BudgetFinding::default()).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::trial::{CompressedTraffic, DramBudgetUse};

    fn evidence(peak: Option<u64>, controller: Option<u64>) -> Evidence {
        let compressed = Some(CompressedTraffic { dram_max: peak.map(Bytes), ..CompressedTraffic::default() });
        let budget = DramBudgetUse { compressed, controller_cpu: controller.map(Nanos), ..DramBudgetUse::default() };
        Evidence { budget: Some(budget), ..Evidence::default() }
    }

    #[test]
    fn medians_are_of_the_trials_that_have_a_value() {
        let mut samples = BudgetSamples::default();
        [evidence(Some(8), Some(3)), evidence(None, Some(5)), evidence(Some(2), None), evidence(Some(4), Some(1))]
            .iter()
            .for_each(|evidence| samples.add(evidence));
        let expected = BudgetFinding { compressed_dram: Some(Bytes(4)), controller_cpu: Some(Nanos(3)) };
        assert_eq!(samples.medians(), Some(expected));
    }

    #[test]
    fn cells_without_a_budget_have_none() {
        let mut samples = BudgetSamples::default();
        samples.add(&Evidence::default());
        samples.add(&evidence(None, None));
        assert_eq!(samples.medians(), None);
    }
}
