//! Findings: a summary per cell, computed from the samples of a run. Reports display findings and compute nothing
//! themselves.

mod budget;
mod caveats;
mod load;
mod memory;
mod reasons;
mod summary;

pub use budget::BudgetFinding;
pub use load::{CpuLoad, load_belongs_to};
pub use memory::NodePages;
pub use reasons::ReasonGroup;
pub use summary::{RunSummariser, SUSPECT_LEFT_OUT, TrialNames, metric_value, summarise};

use serde::{Deserialize, Serialize};

use crate::values::plan::SkippedCell;
use crate::values::record::VerdictCounts;
use crate::values::trial::TrialId;
use crate::values::workload::Better;

/// Summaries of the cells of a run. Field names of [`CellFinding`] are part of the JSON contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFinding {
    /// One per cell of the plan, in plan order.
    pub cells: Vec<CellFinding>,
    /// Cells that this machine could not run.
    pub skipped: Vec<SkippedCell>,
    /// Whether the trials are passes: a small, fixed number. Reports then also display the best value and the mean.
    #[serde(default)]
    pub passes: bool,
}

/// Summary of a cell over its measured trials that are not invalid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellFinding {
    pub workload: String,
    /// Name of the test in tables.
    pub test: String,
    /// Formatted parameters by name.
    pub parameters: std::collections::BTreeMap<String, String>,
    pub placement: String,
    pub threads: usize,
    /// CPUs as a list; the empty text if the kernel chose.
    pub cpus: String,
    /// Description of the memory policy.
    pub memory: String,
    pub reason: String,
    /// The main metric first.
    pub metrics: Vec<MetricFinding>,
    /// Whether geometric means leave the cell out, as the experiment defines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside_means: bool,
    /// Verdicts of the measured trials.
    pub verdicts: VerdictCounts,
    /// Load of each CPU, in ascending order of CPUs. Empty if it was not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_load: Vec<CpuLoad>,
    /// Memory of the trials by node, in ascending order of nodes. Empty if it was not observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_pages: Vec<NodePages>,
    /// DRAM and CPU time that its DRAM budget took; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetFinding>,
    /// Distinct reasons of suspect and invalid trials with their counts, most frequent first.
    pub reasons: Vec<(String, u32)>,
    /// Sentences that limit the interpretation of this result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<String>,
}

/// One metric of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricFinding {
    pub name: String,
    pub unit: String,
    pub better: Better,
    /// Median over trials; `None` without a counted trial.
    pub median: Option<f64>,
    /// Lower end of the 95 % interval; `None` with fewer than three trials.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    /// Best value, as `CrystalDiskMark` reports it.
    #[serde(default)]
    pub best: Option<f64>,
    #[serde(default)]
    pub mean: Option<f64>,
    /// One number per counted trial, in run order.
    pub samples: Vec<f64>,
    /// Blocks of those trials, for comparisons of cells block by block.
    pub blocks: Vec<u32>,
    /// Names of those trials, unless they were left out.
    pub trials: Vec<TrialId>,
    /// Whether each of those trials is suspect. Empty in stored findings of earlier versions.
    #[serde(default)]
    pub suspect: Vec<bool>,
}
