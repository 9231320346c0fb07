//! What the samples of a run mean: a summary per cell, ready to be shown. Reports show these and compute
//! nothing themselves.

mod caveats;
mod load;
mod summary;

pub use load::{CpuLoad, load_belongs_to};
pub use summary::{metric_value, summarise};

use serde::{Deserialize, Serialize};

use crate::values::plan::SkippedCell;
use crate::values::trial::TrialId;
use crate::values::workload::Better;

/// A run's cells, summarised. Field names of [`CellFinding`] are part of the JSON contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFinding {
    /// One per cell of the plan, in plan order.
    pub cells: Vec<CellFinding>,
    /// What this machine could not offer.
    pub skipped: Vec<SkippedCell>,
    /// Whether the trials are passes: a fixed number, and a small one. Then people also ask for the best and the mean.
    #[serde(default)]
    pub passes: bool,
}

/// One cell, summarised over its measured trials that are not invalid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellFinding {
    pub workload: String,
    /// What tables call the test.
    pub test: String,
    /// Parameters as people write them, by name.
    pub parameters: std::collections::BTreeMap<String, String>,
    pub placement: String,
    pub threads: usize,
    /// Its cpus as a list, empty when the kernel chose.
    pub cpus: String,
    /// Its memory policy in words.
    pub memory: String,
    pub reason: String,
    /// The main metric first.
    pub metrics: Vec<MetricFinding>,
    /// How many measured trials were worth what.
    pub verdicts: VerdictCounts,
    /// How busy each cpu was, in the order of the cpus; empty where nobody looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_load: Vec<CpuLoad>,
    /// Why trials were suspect or invalid, each reason once, most frequent first.
    pub reasons: Vec<(String, u32)>,
    /// What makes this result say less than it seems to, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<String>,
}

/// One metric of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricFinding {
    pub name: String,
    /// Its unit.
    pub unit: String,
    pub better: Better,
    /// Over trials; none without a counted trial.
    pub median: Option<f64>,
    /// Lower end of its 95 % interval; none with fewer than two trials.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    /// The best of them, as `CrystalDiskMark` tells its passes.
    #[serde(default)]
    pub best: Option<f64>,
    #[serde(default)]
    pub mean: Option<f64>,
    /// One number per counted trial, in the order in which they ran.
    pub samples: Vec<f64>,
    /// The blocks of those trials, so that cells can be compared block by block.
    pub blocks: Vec<u32>,
    pub trials: Vec<TrialId>,
}

/// How many trials were worth what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictCounts {
    pub valid: u32,
    pub suspect: u32,
    /// Not proven, or no result.
    pub invalid: u32,
}
