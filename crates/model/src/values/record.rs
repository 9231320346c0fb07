//! Stored records: runs, trials, saved placements and imported tables.

use serde::{Deserialize, Serialize};

use crate::values::capture::Capture;
use crate::values::placement::Placement;
use crate::values::plan::Plan;
use crate::values::trial::{Grade, Trial, TrialOutcome, TrialStatus, Verdict, short_hash};
use crate::values::workload::Better;

/// Identifies a run: a short hash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub String);

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// One execution of a plan on one machine with fixed settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub id: RunId,
    pub plan: Plan,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// The machine and its settings at the start of the run.
    pub machine: Capture,
    /// Name of the machine in comparisons (`--host-label`, or the host name if requested); if `None`, the CPU model is
    /// used.
    pub host: Option<String>,
    /// `CAPTURE:SEED` for a simulated machine. Such results are never compared with real ones.
    pub simulated: Option<String>,
    /// Start time in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Reason for the end; `None` while the run is unfinished.
    pub ended: Option<EndReason>,
    /// Version of the program that ran it.
    pub program: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunSummary {
    pub id: RunId,
    pub experiment: String,
    /// Label of the machine, or else its CPU model; `None` if neither is known.
    pub host: Option<String>,
    /// `CAPTURE:SEED` for a simulated machine.
    pub simulated: Option<String>,
    /// Whether it is a smoke test.
    pub smoke: bool,
    /// Fingerprint of the machine's settings.
    pub fingerprint: String,
    /// Start time in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Reason for the end; `None` while the run is unfinished.
    pub ended: Option<EndReason>,
    /// Number of cells of the plan.
    pub cells: u32,
    /// Number of stored trials, including warm-up and invalid ones.
    pub trials: u32,
    /// Number of measured trials that are not invalid.
    pub counted: u32,
    /// Verdicts of all trials except the warm-up.
    pub verdicts: VerdictCounts,
}

/// Number of trials by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictCounts {
    pub valid: u32,
    pub suspect: u32,
    /// Not proven, or no result.
    pub invalid: u32,
}

/// A placement that the user saved under a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedPlacement {
    pub name: String,
    pub run: RunId,
    pub placement: Placement,
    /// Summary of the machine on which it was measured.
    pub machine: String,
    pub topology: String,
    /// Fingerprint of the settings.
    pub settings: String,
}

impl SavedPlacement {
    pub fn new(name: &str, record: &RunRecord, placement: &Placement) -> Self {
        Self {
            name: name.into(),
            run: record.id.clone(),
            placement: placement.clone(),
            machine: record.machine.topology.summary(),
            topology: topology_hash(&record.machine),
            settings: record.machine.settings.fingerprint(),
        }
    }

    /// Describes the differences between a machine and the one on which the placement was measured. Each text can
    /// follow "since then".
    pub fn changes(&self, machine: &Capture) -> Vec<String> {
        let now = machine.topology.summary();
        let mut changes = Vec::new();
        if self.machine != now {
            changes.push(format!("this is another machine: {}, formerly {}", now, self.machine));
        } else if self.topology != topology_hash(machine) {
            changes.push("the machine's topology has changed".into());
        }
        if self.settings != machine.settings.fingerprint() {
            changes.push("the machine's settings have changed".into());
        }
        changes
    }
}

/// Topologies contain no free memory or counters, so the fixed part changes only if the machine does.
fn topology_hash(machine: &Capture) -> String {
    short_hash(&serde_json::to_string(&machine.topology.fixed()).expect("a topology has text keys only"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// Every cell has reached the requested precision.
    Precise,
    /// Every cell has reached the maximum number of repetitions.
    AllBlocks,
    Budget,
    /// A race is decided: no candidate is likely to be better than the leader.
    Resolved,
    /// All trials of the baseline failed, so the race has no comparison.
    NoReference,
}

impl TrialRecord {
    /// Whether it completed without the requested placement.
    pub fn is_violated(&self) -> bool {
        self.verdict.grade == Grade::Invalid && self.outcome.status == TrialStatus::Completed
    }

    /// Whether a retry may succeed. An unverified placement or a failure may pass next time; a timeout would cost the
    /// same time again, and an unavailable measurement stays unavailable.
    pub fn is_retriable(&self) -> bool {
        let permanent = matches!(self.outcome.status, TrialStatus::TimedOut(_) | TrialStatus::Unavailable(_));
        self.verdict.grade == Grade::Invalid && !permanent
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Position in the order of the run, from 0.
    pub position: u32,
    pub trial: Trial,
    pub outcome: TrialOutcome,
    pub verdict: Verdict,
}

/// A table of published or otherwise imported figures: one number per test, metric and column, with its samples if the
/// source contains them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportedTable {
    /// File name without extension.
    pub name: String,
    /// Names of the columns, in file order.
    pub columns: Vec<String>,
    /// One row per test and metric, in file order.
    pub rows: Vec<ImportedRow>,
    /// Remarks for the interpretation of a comparison, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportedRow {
    pub test: String,
    pub metric: String,
    pub unit: String,
    pub better: Better,
    /// One value per column; `None` for an empty field.
    pub values: Vec<Option<f64>>,
    /// Change in percent as printed in the source, for validation.
    pub published_change_percent: Option<f64>,
    /// Samples by column, in the unit of the row; the value is their median. Empty for a column whose source has a
    /// single figure. The outer vector is empty if no column has samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Vec<f64>>,
}
