//! An experiment: a question, written as a TOML file that a person can read, and what becomes of it on a machine.
//! `read` checks every word of the file, `grid` makes the plan, `single` does the same for one workload without a
//! file, `jobs` makes an experiment of fio's job files.
//!
//! ```toml
//! name = "quick"                     # required, as is the question
//! question = "Does it matter here where threads and memory are?"
//! boots = ["numa=fake=4"]            # kernel parameters whose boots are to be compared with a plain one; else none
//! devices = ["sda"]                  # whose interrupts are watched, and moved by irq: parts of placements; else none
//! [repeat]                           # all of it may be left out; these are the defaults
//! warmup = 1                         # blocks that are run and thrown away first
//! min = 6                            # at least so many measured blocks
//! max = 20                           # at most so many
//! precision = "2%"                   # enough when every 95 % interval is this narrow to either side
//! budget = "10m"                     # no new block begins when this is spent
//! time_limit = "5m"                  # a single trial is stopped after this
//! [compare]
//! by = "placement"                   # or threads, host, kernel, boot, set.PARAMETER, a recorded fact
//! baseline = "kernel"                # the column that others are compared with
//! [[workload]]                       # one or more
//! name = "stream"
//! label = "stream-triad"             # what tables call it; else its name
//! set = { size = "4xllc", non-temporal = [false, true] }   # a list makes one cell per value; {device} in a text is
//!                                    # the first device; a text with {devices} is there once for each, commas between
//! placements = ["kernel", "compact", "-C 0-3 -m 0"]        # else kernel
//! threads = [1, "all", "cores", "l3", "l3-cpus", "devices"] # else each placement's natural number
//! ```

mod boot_parameters;
mod fio_job;
mod grid;
mod overrides;
mod read;
mod single_plan;
mod source;

pub use fio_job::{JobFileOptions, Jobs, read_jobs};
pub use grid::PlanError;
pub use read::parse;
pub use single_plan::SingleWorkload;

use std::fmt;

use serde::Serialize;

use crate::placements::placement::KernelFeatures;
use crate::values::plan::StoppingRule;
use crate::values::units::Nanos;

/// An experiment that was read and checked against the workloads that exist.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Experiment {
    pub name: String,
    /// The question it answers, one line.
    pub question: String,
    /// How often, how precise, how long.
    pub repeat: StoppingRule,
    /// What the columns of its comparison are.
    pub compare_by: String,
    /// The column that others are compared with, as written.
    pub baseline: Option<String>,
    /// Kernel parameters under which it is to be run as well, after other starts of the machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub boots: Vec<String>,
    /// Devices whose interrupts are watched, and go where placements say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// What is to be measured, in the order of the file.
    pub tasks: Vec<WorkloadGrid>,
}

/// One `[[workload]]`: a grid of parameters x thread counts x placements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkloadGrid {
    pub workload: String,
    /// What tables call it, when not by its name.
    pub label: Option<String>,
    /// Parameters in the order of the file, each with the values that it takes, as written.
    pub set: Vec<(String, Vec<String>)>,
    pub placements: Vec<String>,
    /// Thread counts; none when each placement takes its natural number.
    pub threads: Vec<ThreadCount>,
}

/// A number of threads, or a word for one that depends on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadCount {
    Exactly(usize),
    /// `all`: one per cpu that this process may use.
    All,
    /// `cores`: one per core.
    Cores,
    /// `l3`: one per core of the largest L3.
    L3,
    /// `l3-cpus`: one per cpu of the largest L3: as many threads as its cores have together.
    L3Cpus,
    /// `devices`: one for each device that is named.
    Devices,
}

/// What the caller wants of a plan beyond what the experiment says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions<'a> {
    /// Parameters at their smoke-test sizes and two blocks: whether it runs, not how fast.
    pub smoke: bool,
    /// What the running kernel offers.
    pub kernel: KernelFeatures,
    /// Devices instead of those that the experiment names; empty for those.
    pub devices: &'a [String],
}

/// What is wrong with an experiment's file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentError {
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    pub what: String,
    /// The valid choices, or the next step.
    pub hint: Option<String>,
}

/// What an experiment that says nothing about repeating gets.
const REPEAT: StoppingRule = StoppingRule {
    warmup: 1,
    // With fewer blocks a 95 % bootstrap interval of medians is too narrow.
    min: 6,
    max: 20,
    precision: 0.02,
    budget: Nanos(600_000_000_000),
    time_limit: Nanos(300_000_000_000),
};

impl ThreadCount {
    const WORDS: [(&'static str, Self); 5] = [
        ("all", Self::All),
        ("cores", Self::Cores),
        ("l3", Self::L3),
        ("l3-cpus", Self::L3Cpus),
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

/// `FILE:LINE:COLUMN: what`, then the hint on a line of its own.
impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ExperimentError {}
