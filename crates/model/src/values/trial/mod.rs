//! One trial: its description (`Trial`), its result (`TrialOutcome`), the observations that verify the placement
//! (`Evidence`) and their judgement (`Verdict`).

mod cpu_time;
mod evidence;
mod verdict;

pub use cpu_time::CpuTime;
pub use evidence::{
    CompressedTraffic, DeviceInterrupt, DramBudgetUse, Evidence, FILE_BYTES_MIN, FILE_PAGES_MIN, FarMemory, FileKind,
    FilePages, PageCacheStart, REMOTE_SHARE_MIN, TextCopy, ThreadBinding,
};
pub use verdict::{Grade, Verdict, judge, misrouted_interrupts};

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::values::placement::Placement;
use crate::values::units::Nanos;
use crate::values::workload::Parameters;

/// Hash of the run, cell, role, block and attempt, so that resuming a run is a set difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrialId(pub String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Run and stored, but never summarised.
    Warmup,
    Measured,
    /// Counts only for the comparison of a race's winner with the baseline.
    Confirm,
}

/// One process: a workload with parameters, a placement and a repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    pub id: TrialId,
    /// Index of the cell in the plan.
    pub cell: usize,
    pub workload: String,
    pub parameters: Parameters,
    pub placement: Placement,
    pub role: Role,
    /// Ordinal of the block within its role, from 0. A block runs every cell once in random order.
    pub block: u32,
    /// Number of earlier attempts of this repetition that were invalid.
    pub attempt: u32,
    /// Seed of everything random in the trial.
    pub seed: u64,
    /// Maximum duration; a longer trial is stopped.
    pub time_limit: Nanos,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the series. Metrics are computed from series.
    pub series: String,
    /// In the unit of the series.
    pub value: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "status", content = "why")]
pub enum TrialStatus {
    /// The trial ran to completion.
    Completed,
    /// The trial failed: exit status, wrong result, or no metric in its output.
    Failed(String),
    /// The trial was stopped at the time limit.
    TimedOut(String),
    /// The trial cannot be measured on this machine, for this reason.
    Unavailable(String),
}

impl TrialStatus {
    /// Status of a trial that exceeded its time limit.
    pub fn timed_out(limit: Nanos) -> Self {
        Self::TimedOut(format!("it exceeded its time limit of {limit}"))
    }
}

/// Result of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialOutcome {
    pub status: TrialStatus,
    /// Raw numbers in the order in which they were recorded.
    pub samples: Vec<Sample>,
    pub evidence: Evidence,
    /// Start time in milliseconds since 1970 (a simulated machine has its own clock).
    pub started_unix_ms: u64,
    /// Duration of the whole trial, including start-up and collection of evidence.
    pub took: Nanos,
}

impl TrialOutcome {
    /// Creates an outcome whose times are 0 until the executor sets them. A failed trial has no samples.
    pub fn new(result: Result<Vec<Sample>, TrialStatus>, evidence: Evidence) -> Self {
        let (status, samples) = match result {
            Ok(samples) => (TrialStatus::Completed, samples),
            Err(status) => (status, Vec::new()),
        };
        Self { status, samples, evidence, started_unix_ms: 0, took: Nanos(0) }
    }
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Warmup, Self::Measured, Self::Confirm];

    /// Returns the word for the role in trial ids, block orders and simulated noise. Stored hashes depend on it, so it
    /// must not follow renames.
    pub fn key(self) -> &'static str {
        match self {
            Self::Warmup => "Warmup",
            Self::Measured => "Measured",
            Self::Confirm => "Confirm",
        }
    }
}

impl TrialId {
    /// Derives the id of one attempt.
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

/// Returns the first 64 bits of a SHA-256 in hexadecimal. By the birthday bound, the probability of a collision among a
/// million trials is below 1 in 10^7.
pub fn short_hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
