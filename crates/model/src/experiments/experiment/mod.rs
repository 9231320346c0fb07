//! Experiments: TOML files that define workloads, parameters and placements. `read` validates the file, `grid` creates
//! the plan for a machine, `single_plan` does so for one workload without a file, and `fio_job` converts fio job files.
//!
//! ```toml
//! name = "quick"                     # required, as is question
//! question = "Does it matter on this machine which CPUs run a program and which memory it uses?"
//! boots = ["numa=fake=4"]            # kernel parameters to compare with a boot without them; default none
//! devices = ["sda"]                  # devices whose interrupts are recorded and routed by irq: parts; default none
//! [repeat]                           # optional; these are the defaults
//! warmup = 1                         # unmeasured blocks at the start
//! min = 8                            # minimum number of measured blocks
//! max = 20                           # maximum number of measured blocks
//! precision = "2%"                   # stop when every 95 % interval is at most this wide to either side
//! budget = "10m"                     # start no new block after this time
//! time_limit = "5m"                  # maximum duration of a trial
//! [compare]
//! by = "placement"                   # or threads, host, kernel, boot, set.PARAMETER, a recorded fact
//! baseline = "kernel"                # column that the others are compared with
//! [[workload]]                       # one or more
//! name = "stream"
//! label = "stream-triad"             # name in tables; default the workload's name
//! main = "triad"                     # main metric; default the workload's first
//! mean = true                        # whether geometric means include its tests
//! set = { size = "4xllc", non-temporal = [false, true] }   # a list defines one cell per value; {device} is the
//!                                    # first device; text with {devices} is repeated for each, separated by commas
//! placements = ["kernel", "compact", "-C 0-3 -m 0"]        # default kernel
//! threads = [1, "all", "cores", "l3", "l3-cpus", "node-cores", "devices"] # default each placement's natural number
//! [[efficiency]]                     # optional: cells in percent of a reference cell
//! cells = { test = "stream-triad", size = "16xllc" }
//! reference = { test = "stream-triad", size = "next smaller" }
//! ```

mod boot_parameters;
mod command_list;
mod efficiency;
mod fio_job;
mod grid;
mod overrides;
mod parameter_list;
mod read;
mod single_plan;
mod source;

pub use command_list::{CommandList, NamedCommand};
pub use fio_job::{JobFileOptions, Jobs, read_jobs};
pub use grid::PlanError;
pub use parameter_list::{ExpandedCommand, ParameterList, expand_command};
pub use read::parse;
pub use single_plan::SingleWorkload;

use std::fmt;

use serde::Serialize;

use crate::hint::Hinted;
use crate::placements::placement::KernelFeatures;
use crate::values::plan::{EfficiencyRule, StoppingRule};
use crate::values::units::Nanos;
use crate::values::workload::Parameters;

/// A parsed experiment, validated against the available workloads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Experiment {
    pub name: String,
    /// The question that it answers, in one line.
    pub question: String,
    /// When to stop measuring.
    pub repeat: StoppingRule,
    /// Columns of its comparison.
    pub compare_by: String,
    /// Column that the others are compared with, as written.
    pub baseline: Option<String>,
    /// Cells to show in percent of reference cells, with values as written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub efficiency: Vec<EfficiencyRule>,
    /// Kernel boot parameters to compare; each needs a reboot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub boots: Vec<String>,
    /// Devices whose interrupts are recorded and routed by placements.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// The measurements, in file order.
    pub tasks: Vec<WorkloadGrid>,
}

/// One `[[workload]]` section: a grid of parameters x thread counts x placements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkloadGrid {
    pub workload: String,
    /// Name in tables; `None` for the workload's name.
    pub label: Option<String>,
    /// Name of the main metric as written; `None` for the first of the workload, or for the number that a command is
    /// asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main: Option<String>,
    /// Whether geometric means leave its tests out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub outside_means: bool,
    /// Parameters in file order, each with its values as written.
    pub set: Vec<(String, Vec<String>)>,
    pub placements: Vec<String>,
    /// Thread counts; `None` for each placement's natural number.
    pub threads: Vec<ThreadCount>,
}

/// A number of threads, or a name for a number that depends on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadCount {
    Exactly(usize),
    /// `all`: one per CPU that this process may use.
    All,
    /// `cores`: one per core.
    Cores,
    /// `l3`: one per core of the largest L3.
    L3,
    /// `l3-cpus`: one per CPU of the largest L3.
    L3Cpus,
    /// `node-cores`: one per core of the largest memory node.
    NodeCores,
    /// `devices`: one per named device.
    Devices,
}

/// Options of a plan that the experiment does not define.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanOptions<'a> {
    /// Run two blocks at smoke-test sizes, to check that the experiment runs.
    pub smoke: bool,
    /// Features of the running kernel.
    pub kernel: KernelFeatures,
    /// Replaces the devices of the experiment; empty to keep them.
    pub devices: &'a [String],
    /// Returns what the machine lacks to run a workload with these parameters. `None` if everything counts as present, as
    /// on a simulated machine.
    pub missing: Option<fn(&str, &Parameters) -> Option<String>>,
}

/// An error in an experiment file, with its location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {what}")]
pub struct ExperimentError {
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
    /// Column number in characters, from 1.
    pub column: usize,
    pub what: String,
    /// Valid choices, or the next step.
    pub hint: Option<String>,
}

/// Defaults of the section `[repeat]`.
const REPEAT: StoppingRule = StoppingRule {
    warmup: 1,
    // 6 blocks have a single result with a p value below 5 %, which a rule that looks repeatedly reaches too often:
    // docs/results/claims.md.
    min: 8,
    max: 20,
    precision: 0.02,
    budget: Nanos(600_000_000_000),
    time_limit: Nanos(300_000_000_000),
};

impl ThreadCount {
    const WORDS: [(&'static str, Self); 6] = [
        ("all", Self::All),
        ("cores", Self::Cores),
        ("l3", Self::L3),
        ("l3-cpus", Self::L3Cpus),
        ("node-cores", Self::NodeCores),
        ("devices", Self::Devices),
    ];
}

impl fmt::Display for ThreadCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Exactly(number) = self {
            return number.fmt(f);
        }
        let word = Self::WORDS.iter().find(|(_, count)| count == self).map_or("", |(word, _)| word);
        f.write_str(word)
    }
}

impl Hinted for ExperimentError {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}
