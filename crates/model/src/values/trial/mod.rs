//! One trial: what was to be run (`Trial`), what came out (`Outcome`), what proved the placement
//! (`Evidence`) and what that is worth (`Verdict`).

mod cpu_time;
mod evidence;
mod verdict;

pub use cpu_time::CpuTime;
pub use evidence::{DeviceInterrupt, DramBudgetUse, Evidence, FarMemory, ThreadBinding};
pub use verdict::{Grade, Verdict, judge};

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::placements::placement::Placement;
use crate::values::units::Nanos;
use crate::values::workload::Parameters;

/// Derived from what the trial is, so that resuming a run is a set difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrialId(pub String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Run and stored, never summarised.
    Warmup,
    Measured,
    /// Counts for the winner of a race against the kernel's choice, and for nothing else.
    Confirm,
}

/// One workload x placement x parameters x repetition, one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    pub id: TrialId,
    /// The index of its cell in the plan.
    pub cell: usize,
    pub workload: String,
    pub parameters: Parameters,
    pub placement: Placement,
    pub role: Role,
    /// The block, counted from 0 within its role: every cell once in random order.
    pub block: u32,
    /// 0, or how often this repetition was repeated because its placement was not proven.
    pub attempt: u32,
    /// For everything random inside the trial.
    pub seed: u64,
    /// Longer than this and it is stopped.
    pub time_limit: Nanos,
}

/// One raw number that a trial produced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Which series it belongs to; metrics are made from series.
    pub series: String,
    /// In the series' unit.
    pub value: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "status", content = "why")]
pub enum TrialStatus {
    /// It ran to its end.
    Completed,
    /// It failed: exit status, wrong result, no metric in its output.
    Failed(String),
    /// It was stopped at the time limit.
    TimedOut(String),
    /// It cannot be measured here, with the reason.
    Unavailable(String),
}

impl TrialStatus {
    /// Of a trial that was stopped for that.
    pub fn timed_out(limit: Nanos) -> Self {
        Self::TimedOut(format!("it had not ended after {limit}, its time limit"))
    }
}

/// All that came out of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub status: TrialStatus,
    /// Raw numbers, in the order in which they were taken.
    pub samples: Vec<Sample>,
    pub evidence: Evidence,
    /// When it began, milliseconds since 1970 (a simulated machine has its own calendar).
    pub started_unix_ms: u64,
    /// How long the whole trial took, start-up and evidence included.
    pub took: Nanos,
}

impl Role {
    /// Returns the word for the role in trial ids, block orders and simulated noise. Stored hashes depend on it, so it must
    /// not follow renames.
    pub fn key(self) -> &'static str {
        match self {
            Self::Warmup => "Warmup",
            Self::Measured => "Measured",
            Self::Confirm => "Confirm",
        }
    }
}

impl TrialId {
    /// The id of a repetition of a cell of a run.
    pub fn derive(run: &str, cell_key: &str, role: Role, block: u32, attempt: u32) -> Self {
        let text = format!("{run}\n{cell_key}\n{}\n{block}\n{attempt}", role.key());
        Self(short_hash(&text))
    }
}

impl fmt::Display for TrialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The first 64 bits of a SHA-256 in hexadecimal: short enough to read, and by the birthday bound a
/// clash among a million trials has a chance below 1 in 10^7.
pub fn short_hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
