//! What the store gives back: a run as it was begun, its trials as they ended, a table that was imported.

use serde::{Deserialize, Serialize};

use crate::analysis::finding::VerdictCounts;
use crate::placements::placement::Placement;
use crate::values::capture::Capture;
use crate::values::plan::Plan;
use crate::values::trial::{Grade, Outcome, Trial, TrialStatus, Verdict, short_hash};
use crate::values::workload::Better;

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
    pub ended: Option<EndReason>,
    /// The program's version that ran it.
    pub program: String,
}

/// A run in a list of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunSummary {
    pub id: RunId,
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
    pub ended: Option<EndReason>,
    /// How many cells its plan has.
    pub cells: u32,
    /// How many trials are stored, warm-up and invalid ones included.
    pub trials: u32,
    /// How many of them are measured, and not invalid.
    pub counted: u32,
    /// What those beyond the warm-up are worth.
    pub verdicts: VerdictCounts,
}

/// A placement that the user keeps under a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedPlacement {
    /// The user's name for it.
    pub name: String,
    /// The run that found it.
    pub run: RunId,
    pub placement: Placement,
    /// The machine that it was found on, in short.
    pub machine: String,
    /// A hash of its topology.
    pub topology: String,
    /// The fingerprint of its settings.
    pub settings: String,
}

impl SavedPlacement {
    /// A run's placement under a name.
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

    /// What is another on this machine than when the placement was found, in words that follow "since then".
    pub fn changes(&self, machine: &Capture) -> Vec<String> {
        let now = machine.topology.summary();
        let mut changes = Vec::new();
        if self.machine != now {
            changes.push(format!("the machine has become another: {} was {}", now, self.machine));
        } else if self.topology != topology_hash(machine) {
            changes.push("the machine's topology has changed".into());
        }
        if self.settings != machine.settings.fingerprint() {
            changes.push("the machine's settings have changed".into());
        }
        changes
    }
}

/// Free memory and counters are not in a topology, so what is fixed of it only changes when the machine does.
fn topology_hash(machine: &Capture) -> String {
    short_hash(&serde_json::to_string(&machine.topology.fixed()).expect("a topology has text keys only"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// Every cell is as precise as was asked.
    Precise,
    /// Every cell was repeated as often as was asked at most.
    AllBlocks,
    Budget,
    /// A race is decided: nobody is likely to be better than its leader.
    Resolved,
    /// The kernel's choice came to nothing, so a race has nothing to compare with.
    NoReference,
}

impl TrialRecord {
    /// Whether repeating it may help: a placement that was not proven or a failure may pass; a program that did not end
    /// in time would take that time again, and what cannot be measured here cannot be measured here.
    pub fn is_retriable(&self) -> bool {
        let hopeless = matches!(self.outcome.status, TrialStatus::TimedOut(_) | TrialStatus::Unavailable(_));
        self.verdict.grade == Grade::Invalid && !hopeless
    }
}

/// One trial as it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Its place in the run's order, from 0.
    pub position: u32,
    pub trial: Trial,
    pub outcome: Outcome,
    pub verdict: Verdict,
}

/// A table of published or otherwise imported figures: one number per test, metric and column, and the samples behind it
/// where the source gives them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportedTable {
    /// Its name: the file's stem.
    pub name: String,
    /// One per thing compared, in file order.
    pub columns: Vec<String>,
    /// One per test and metric, in file order.
    pub rows: Vec<ImportedRow>,
    /// What a reader has to know before comparing, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One row of an imported table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportedRow {
    pub test: String,
    pub metric: String,
    /// Its unit.
    pub unit: String,
    pub better: Better,
    /// One per column; none where the table has an empty field.
    pub values: Vec<Option<f64>>,
    /// What the source itself prints as change in percent, for checking.
    pub published_change_percent: Option<f64>,
    /// One per column, of which the value is the median: what was measured one by one, in the row's unit; empty for a
    /// column whose source has a single figure. No columns at all when that is so for every one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Vec<f64>>,
}
