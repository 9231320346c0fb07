//! What the store gives back: a run as it was begun, its trials as they ended, a table that was imported.

use serde::{Deserialize, Serialize};

use crate::capture::Capture;
use crate::plan::Plan;
use crate::trial::{Outcome, Trial, Verdict};
use crate::workload::Better;

/// Which run: a short hash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub String);

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// One run of a plan on one machine in one state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Who it is.
    pub id: RunId,
    /// What was to be run.
    pub plan: Plan,
    /// For everything random in it.
    pub seed: u64,
    /// The machine and its settings when the run began.
    pub machine: Capture,
    /// A name for the machine in comparisons (`--host-label`, or the host name when asked for); else its cpu model.
    pub host: Option<String>,
    /// `CAPTURE:SEED` when the machine was simulated. Such results are never compared with real ones.
    pub simulated: Option<String>,
    /// When it began, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Why it ended; none while it has not.
    pub ended: Option<Ending>,
    /// The program's version that ran it.
    pub program: String,
}

/// A run in a list of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunSummary {
    /// Who it is.
    pub id: RunId,
    /// The experiment's name.
    pub experiment: String,
    /// The machine's label, else its cpu model; none when neither is known.
    pub host: Option<String>,
    /// `CAPTURE:SEED` when the machine was simulated.
    pub simulated: Option<String>,
    /// The fingerprint of the machine's state.
    pub fingerprint: String,
    /// When it began, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Why it ended; none while it has not.
    pub ended: Option<Ending>,
    /// How many cells its plan has.
    pub cells: u32,
    /// How many trials are stored, warm-up and invalid ones included.
    pub trials: u32,
    /// How many of them are measured, and not invalid.
    pub counted: u32,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// Every cell is as precise as was asked.
    Precise,
    /// Every cell was repeated as often as was asked at most.
    AllBlocks,
    /// The budget is spent.
    Budget,
}

/// One trial as it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Its place in the run's order, from 0.
    pub position: u32,
    /// What was run.
    pub trial: Trial,
    /// What came out.
    pub outcome: Outcome,
    /// What that is worth.
    pub verdict: Verdict,
}

/// A table of published or otherwise imported figures: one number per test, metric and column, no raw samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportedTable {
    /// Its name: the file's stem.
    pub name: String,
    /// One per thing compared, in file order.
    pub columns: Vec<String>,
    /// One per test and metric, in file order.
    pub rows: Vec<ImportedRow>,
}

/// One row of an imported table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportedRow {
    /// The test's name.
    pub test: String,
    /// The metric's name.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// One per column; none where the table has an empty field.
    pub values: Vec<Option<f64>>,
    /// What the source itself prints as change in percent, for checking.
    pub published_change_percent: Option<f64>,
}
