//! The input of a workload (`TrialContext`), its result (`KernelOutput`) and its error (`Failure`).

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use model::hint::Hinted;
use model::values::id_set::{CpuId, CpuSet, NodeId};
use model::values::placement::MemoryPolicy;
use model::values::trial::{CpuTime, FarMemory, Sample, ThreadBinding, Trial, TrialStatus};
use model::values::units::Nanos;
use model::values::workload::Parameters;
use serde::{Deserialize, Serialize};

/// The parts of a trial that a workload uses.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialContext {
    pub parameters: Parameters,
    /// Number of threads to start.
    pub threads: usize,
    /// Thread i is pinned to `seats[i]`. Empty if the kernel schedules the threads. For a command, the CPUs that it may
    /// use.
    pub seats: Vec<CpuId>,
    /// CPUs between which threads without a seat may move. Each thread verifies that this is its affinity mask. Empty if
    /// the kernel schedules the threads on all CPUs.
    pub mask: CpuSet,
    /// CPUs of a second command, such as a server. Empty if there is none or if the kernel schedules it.
    pub server_cpus: CpuSet,
    pub memory: MemoryPolicy,
    pub seed: u64,
    /// Maximum duration of any wait.
    pub time_limit: Nanos,
    /// Records the activity of the CPUs while the kernel measured.
    pub meanwhile: CpuTimes,
}

/// Activity of each CPU of the machine in the timed region. Empty for kernels that do not record it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuTimes(Arc<OnceLock<BTreeMap<CpuId, CpuTime>>>);

/// The result of a kernel. Its worker process prints it as one line of JSON on stdout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelOutput {
    /// A kernel returns `Completed` or a [`Failure`], whose status the worker prints.
    pub status: TrialStatus,
    /// Raw samples in the order in which they were taken.
    pub samples: Vec<Sample>,
    /// The verified binding of each thread. Empty if the threads are not pinned.
    pub thread_seats: Vec<ThreadBinding>,
    /// Resident pages of the measured memory, by node.
    pub pages: BTreeMap<NodeId, u64>,
    /// The backing of the measured memory, if the placement is beyond DRAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far: Option<FarMemory>,
    /// Activity of each CPU in the timed region, added by the worker. Empty for kernels that do not record it.
    pub cpu_times: BTreeMap<CpuId, CpuTime>,
}

/// Location of measured memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MemoryReport {
    /// Resident pages, by node.
    pub pages: BTreeMap<NodeId, u64>,
    /// Backing of the memory, if the placement is beyond DRAM.
    pub far: Option<FarMemory>,
}

/// Reason why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// An error: a binding was refused, a result was wrong, or a program failed.
    #[error("{0}")]
    Failed(String),
    #[error("timed out: {0}")]
    TimedOut(String),
    /// The machine cannot measure this.
    #[error("cannot be measured here: {0}")]
    Unavailable(String),
}

/// Formats an error and its hint, if any, as the one line that a trial stores.
pub fn with_hint(error: &impl Hinted) -> String {
    match error.hint() {
        Some(hint) => format!("{error}; hint: {hint}"),
        None => error.to_string(),
    }
}

impl TrialContext {
    /// Builds the context from a trial.
    pub fn of(trial: &Trial) -> Self {
        Self {
            parameters: trial.parameters.clone(),
            threads: trial.placement.threads,
            seats: trial.placement.bindings.clone(),
            mask: CpuSet::new(),
            server_cpus: trial.placement.server_cpus.clone(),
            memory: trial.placement.memory.clone(),
            seed: trial.seed,
            time_limit: trial.time_limit,
            meanwhile: CpuTimes::default(),
        }
    }

    /// Builds the context of a kernel from a trial. Threads of a loose placement have no seats.
    pub(crate) fn of_kernel(trial: &Trial) -> Self {
        let job = Self::of(trial);
        if trial.placement.loose { job.without_seats() } else { job }
    }

    /// Lets every thread use all CPUs of the placement.
    fn without_seats(self) -> Self {
        let mask = if self.seats.is_empty() { self.mask } else { self.seats.iter().copied().collect() };
        Self { mask, seats: Vec::new(), ..self }
    }

    /// Sets the number of threads to the parameter `workers`. These threads share the placement's CPUs and are
    /// scheduled by the kernel, like those of a program under taskset. 0 means one thread pinned to each CPU of the
    /// placement.
    pub(crate) fn oversubscribed(&self) -> Self {
        match self.parameters.size("workers") {
            0 => self.clone(),
            threads => Self { threads, ..self.clone().without_seats() },
        }
    }

    /// Returns the duration in a parameter.
    pub(crate) fn time(&self, name: &str) -> std::time::Duration {
        std::time::Duration::from_nanos(self.parameters.size(name) as u64)
    }
}

impl MemoryReport {
    /// In addition to other memory of the same trial.
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
    /// Records the CPU activity. Only the first call counts.
    pub(crate) fn record(&self, times: BTreeMap<CpuId, CpuTime>) {
        // A kernel has one timed region.
        let _ = self.0.set(times);
    }

    pub(crate) fn seen(&self) -> BTreeMap<CpuId, CpuTime> {
        self.0.get().cloned().unwrap_or_default()
    }
}

impl Default for KernelOutput {
    fn default() -> Self {
        Self {
            status: TrialStatus::Completed,
            samples: Vec::new(),
            thread_seats: Vec::new(),
            pages: BTreeMap::new(),
            far: None,
            cpu_times: BTreeMap::new(),
        }
    }
}

impl KernelOutput {
    /// Adds the location of measured memory.
    pub(crate) fn found(&mut self, found: MemoryReport) {
        let mut all = MemoryReport { pages: std::mem::take(&mut self.pages), far: self.far.take() };
        all.add(found);
        (self.pages, self.far) = (all.pages, all.far);
    }

    /// Adds one sample. JSON cannot store a number that is not finite, so such a sample is an error.
    pub(crate) fn push(&mut self, series: &str, value: f64) -> Result<(), Failure> {
        if !value.is_finite() {
            return Err(Failure::Failed(format!("a sample of {series} is not a number: too short to be timed")));
        }
        self.samples.push(Sample { series: series.into(), value });
        Ok(())
    }
}

impl Failure {
    /// Returns the reason without the kind of the failure.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Failed(why) | Self::TimedOut(why) | Self::Unavailable(why) => why,
        }
    }

    /// Returns the reason if the machine cannot measure something.
    pub(crate) fn unavailable(&self) -> Option<&str> {
        matches!(self, Self::Unavailable(_)).then(|| self.reason())
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
