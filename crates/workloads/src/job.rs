//! What a workload is told (`TrialContext`), what it hands back (`KernelOutput`), and how it says that it could not (`Failure`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use model::placements::placement::MemoryPolicy;
use model::values::id_set::{CpuId, CpuSet, NodeId};
use model::values::trial::{CpuTime, FarMemory, Sample, ThreadBinding, Trial, TrialStatus};
use model::values::units::Nanos;
use model::values::workload::Parameters;

/// What a workload needs of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialContext {
    pub parameters: Parameters,
    /// How many threads to start.
    pub threads: usize,
    /// Thread i sits on `seats[i]`; empty when the kernel chooses. For a command: the cpus it may use.
    pub seats: Vec<CpuId>,
    /// The cpus of a second command, such as a server; empty when there is none or the kernel chooses.
    pub server_cpus: CpuSet,
    pub memory: MemoryPolicy,
    pub seed: u64,
    /// Waiting longer than this is given up.
    pub time_limit: Nanos,
    /// Where a kernel notes what the cpus did while it measured.
    pub meanwhile: CpuTimes,
}

/// What each cpu of the machine did in the timed region of a kernel that looked; empty of others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuTimes(Arc<OnceLock<BTreeMap<CpuId, CpuTime>>>);

/// What a kernel hands back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelOutput {
    /// Raw numbers in the order in which they were taken.
    pub samples: Vec<Sample>,
    /// The proof of each thread's seat; empty when nobody was seated.
    pub thread_seats: Vec<ThreadBinding>,
    /// Resident pages of the measured memory by node.
    pub pages: BTreeMap<NodeId, u64>,
    /// What is behind the measured memory where that is to be beyond DRAM.
    pub far: Option<FarMemory>,
}

/// Where measured memory was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MemoryReport {
    /// Resident pages by node.
    pub pages: BTreeMap<NodeId, u64>,
    /// What is behind it where it is to be beyond DRAM.
    pub far: Option<FarMemory>,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It went wrong: a seat was refused, a result was wrong, a program failed.
    Failed(String),
    TimedOut(String),
    /// It cannot be measured here.
    Unavailable(String),
}

/// What went wrong with its next step, where there is one, in the one line that a trial keeps.
pub fn with_hint(error: &dyn fmt::Display, hint: Option<impl fmt::Display>) -> String {
    match hint {
        Some(hint) => format!("{error}; hint: {hint}"),
        None => error.to_string(),
    }
}

impl TrialContext {
    /// What the trial's workload needs to know of it.
    pub fn of(trial: &Trial) -> Self {
        Self {
            parameters: trial.parameters.clone(),
            threads: trial.placement.threads,
            seats: trial.placement.seats.clone(),
            server_cpus: trial.placement.second.clone(),
            memory: trial.placement.memory.clone(),
            seed: trial.seed,
            time_limit: trial.time_limit,
            meanwhile: CpuTimes::default(),
        }
    }

    /// With as many threads as the parameter `workers` says, which share the placement's cpus as the kernel likes, as
    /// threads of a program under taskset do; 0 is a thread on each seat.
    pub(crate) fn oversubscribed(&self) -> Self {
        match self.parameters.size("workers") {
            0 => self.clone(),
            threads => Self { threads, seats: Vec::new(), ..self.clone() },
        }
    }

    /// The span of time that a parameter holds.
    pub(crate) fn time(&self, name: &str) -> std::time::Duration {
        std::time::Duration::from_nanos(self.parameters.size(name) as u64)
    }
}

impl MemoryReport {
    /// Together with other memory of the same trial.
    pub(crate) fn add(&mut self, other: Self) {
        other.pages.into_iter().for_each(|(node, count)| *self.pages.entry(node).or_default() += count);
        match (&mut self.far, other.far) {
            (Some(far), Some(other)) => far.add(&other),
            (far @ None, other) => *far = other,
            (Some(_), None) => {}
        }
    }
}

impl CpuTimes {
    /// Notes what was seen; only the first time counts.
    pub(crate) fn record(&self, times: BTreeMap<CpuId, CpuTime>) {
        // A kernel has one timed region.
        let _ = self.0.set(times);
    }

    pub(crate) fn seen(&self) -> BTreeMap<CpuId, CpuTime> {
        self.0.get().cloned().unwrap_or_default()
    }
}

impl KernelOutput {
    /// Adds where measured memory was found.
    pub(crate) fn found(&mut self, found: MemoryReport) {
        let mut all = MemoryReport { pages: std::mem::take(&mut self.pages), far: self.far.take() };
        all.add(found);
        (self.pages, self.far) = (all.pages, all.far);
    }

    /// Adds one sample. A number that is not finite would be lost on its way through JSON, so it fails here.
    pub(crate) fn push(&mut self, series: &str, value: f64) -> Result<(), Failure> {
        if !value.is_finite() {
            return Err(Failure::Failed(format!("a sample of {series} is not a number: too short to be timed")));
        }
        self.samples.push(Sample { series: series.into(), value });
        Ok(())
    }
}

impl From<Failure> for TrialStatus {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Failed(why) => Self::Failed(why),
            Failure::TimedOut(why) => Self::TimedOut(why),
            Failure::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) => f.write_str(why),
            Self::TimedOut(why) => write!(f, "timed out: {why}"),
            Self::Unavailable(why) => write!(f, "cannot be measured here: {why}"),
        }
    }
}

impl std::error::Error for Failure {}
