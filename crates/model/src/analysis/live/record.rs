//! Experiments on running services, as they are stored. Must not depend on what they prove.

use serde::{Deserialize, Serialize};

use super::{LivePlacement, LivePlan};
use crate::values::capture::Capture;
use crate::values::trial::short_hash;
use crate::values::units::Nanos;
use crate::values::workload::Better;

/// Identifies an experiment on a running service: a short hash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LiveId(pub String);

impl std::fmt::Display for LiveId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The arguments of an experiment. An interrupted one is resumed by a command with an equal request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRequest {
    /// The options that name the service: `--unit redis`.
    pub options: Vec<String>,
    pub metric: String,
    pub guards: Vec<String>,
    /// As the user wrote them. Without any, they were chosen from the topology.
    pub placements: Vec<String>,
    pub budget: Nanos,
    pub seed: u64,
    /// Whether the memory of the service is moved, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moves_memory: bool,
    /// Devices whose interrupts are counted, and moved by placements that name CPUs for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
}

/// A process, distinguished from all others of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceIdentity {
    /// The first process of the service.
    pub pid: u32,
    /// Its start in ticks since boot.
    pub started: u64,
    /// Boot of the Linux kernel; `None` if unknown.
    pub boot: Option<String>,
}

/// The service, its metric and the placements of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveSetup {
    /// `unit redis`.
    pub subject: String,
    pub service: ServiceIdentity,
    /// Noun of the metric: `rate`.
    pub quantity: String,
    /// Unit after a number: `/s`.
    pub unit: String,
    pub better: Better,
    /// The first is the one that was found.
    pub placements: Vec<LivePlacement>,
    /// Number of threads that the program has bound itself, and that were not changed.
    pub pinned_threads: usize,
}

/// A stored experiment without its periods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveRecord {
    pub id: LiveId,
    pub request: LiveRequest,
    pub setup: LiveSetup,
    /// The machine and its settings at the begin.
    pub machine: Capture,
    /// Time of the begin in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// `None` while it can continue.
    pub ended: Option<LiveEnd>,
    /// Version of the program that began it.
    pub program: String,
}

/// The end of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveEnd {
    /// Seconds since the begin.
    pub at_s: f64,
    /// The cause; `None` if it ended as planned.
    pub reason: Option<String>,
}

/// An experiment in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveSummary {
    pub id: LiveId,
    /// `unit redis`.
    pub subject: String,
    pub metric: String,
    /// Number of placements, with the one that was found.
    pub placements: usize,
    pub started_unix_ms: u64,
    /// Number of stored periods.
    pub periods: u32,
    pub ended: Option<LiveEnd>,
}

impl LiveRecord {
    /// Begins an experiment at this time.
    pub fn begin(request: LiveRequest, setup: LiveSetup, machine: Capture, unix_ms: u64, program: &str) -> Self {
        let service = &setup.service;
        let identity = format!("{request:?}\n{service:?}\n{unix_ms}\n{}", machine.settings.fingerprint());
        Self {
            id: LiveId(short_hash(&identity)),
            request,
            setup,
            machine,
            started_unix_ms: unix_ms,
            ended: None,
            program: program.into(),
        }
    }

    pub fn plan(&self) -> LivePlan {
        LivePlan::new(&self.request, &self.setup)
    }
}
