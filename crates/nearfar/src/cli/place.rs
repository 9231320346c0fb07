//! Arguments of `nearfar place`, one struct per heading of its help.

use clap::{Args, ValueEnum};

use super::{GuardArgs, MachineArgs, MapArgs, MetricArgs, ServerArgs, TextOrJson};

/// `nearfar place`
#[derive(Args, Debug)]
#[command(
    override_usage = "nearfar place [OPTIONS] -- <CMD>...\n       nearfar place --use <NAME> -- <CMD>...\n       \
                      nearfar place --from <FILE|STRING> --like <RUN>",
    after_help = "Runs CMD under placements that a model of the machine chooses, and confirms the winner with fresh \
                  trials against kernel, the placement that leaves every decision to Linux. Uses the whole budget \
                  unless the result is clear earlier."
)]
pub struct PlaceArgs {
    #[command(flatten, next_help_heading = "Search space")]
    pub search: SearchSpaceArgs,
    #[command(flatten, next_help_heading = "Search space")]
    pub map: MapArgs,
    #[command(flatten, next_help_heading = "Command")]
    pub trial: CommandArgs,
    #[command(flatten, next_help_heading = "Objective")]
    pub objective: ObjectiveArgs,
    #[command(flatten, next_help_heading = "Stopping rules")]
    pub stopping: StoppingArgs,
    #[command(flatten, next_help_heading = "Preview")]
    pub preview: PreviewArgs,
    #[command(flatten, next_help_heading = "Using the result")]
    pub result: ResultArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text", help_heading = "Using the result")]
    pub format: TextOrJson,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub guard: GuardArgs,
    /// Command to run; {threads}, {cpus} and {node} expand to the values of the placement
    #[arg(last = true, value_name = "CMD", required_unless_present = "like")]
    pub command: Vec<String>,
}

/// The placements that become candidates.
#[derive(Args, Debug)]
pub struct SearchSpaceArgs {
    /// Number of threads [default: searched if CMD contains {threads}]
    #[arg(short, long, value_name = "N")]
    pub threads: Option<usize>,
    /// CPUs that may be used, as a list, a mask or a location such as package:0
    #[arg(short = 'C', long = "physcpubind", value_name = "CPUS")]
    pub cpus: Option<String>,
    /// Maximum number of CPUs in a placement
    #[arg(long, alias = "cpus-max", value_name = "N")]
    pub max_cpus: Option<usize>,
    /// Use only placements of this policy, besides kernel [repeatable]
    #[arg(long, value_name = "POLICY")]
    pub only: Vec<String>,
    /// Omit this policy or these CPUs [repeatable]
    #[arg(long, value_name = "POLICY|CPUS")]
    pub exclude: Vec<String>,
    /// Also search the interrupt affinity of this device [repeatable]
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// Finally, race the winner against placements that differ in one thread
    #[arg(long)]
    pub refine: bool,
}

/// Server, load and helper commands of a trial.
#[derive(Args, Debug)]
pub struct CommandArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// CPUs of the load in every placement, as a list, a mask or a location [default: searched]
    #[arg(long, value_name = "CPUS", conflicts_with_all = ["only", "refine"])]
    pub load_cpus: Option<String>,
    /// Where each trial finds the cached pages of the files that earlier trials used [default: placed]
    #[arg(long, value_name = "STATE", value_parser = ["placed", "as-found", "cold"])]
    pub page_cache: Option<String>,
    /// Run before each trial, untimed
    #[arg(long, value_name = "CMD")]
    pub prepare: Option<String>,
    /// Run after each trial, untimed
    #[arg(long, value_name = "CMD")]
    pub cleanup: Option<String>,
    /// Untimed runs of CMD at the start of each trial
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub warmup: u32,
    /// Run commands with sh -c
    #[arg(long)]
    pub shell: bool,
    /// Set `OMP_NUM_THREADS` to the number of threads
    #[arg(long)]
    pub openmp: bool,
    /// Count trials with a non-zero exit status
    #[arg(short, long)]
    pub ignore_failure: bool,
    /// Kill a trial after this time
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub time_limit: String,
}

/// The quantity to optimise.
#[derive(Args, Debug)]
pub struct ObjectiveArgs {
    /// What to minimise
    #[arg(long, value_enum, default_value = "wall-time", conflicts_with_all = ["metric", "metric_json"])]
    pub objective: Objective,
    #[command(flatten)]
    pub number: MetricArgs,
}

/// When the search ends.
#[derive(Args, Debug)]
pub struct StoppingArgs {
    /// Smallest gain worth finding
    #[arg(long, value_name = "PERCENT", default_value = "1%")]
    pub indifference: String,
    /// Maximum total time of search and confirmation
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub budget: String,
    /// Maximum number of trials of search and confirmation
    #[arg(long, value_name = "N")]
    pub max_trials: Option<usize>,
    /// Race all candidates, with the error bounded at 5% (many times the trials)
    #[arg(long)]
    pub strict: bool,
    /// Assumptions about CMD before its first trial
    #[arg(long, value_enum, default_value = "topology")]
    pub prior: Prior,
    /// Start a new search instead of resuming an unfinished one
    #[arg(long)]
    pub fresh: bool,
    /// Resume this unfinished search even if the machine has changed
    #[arg(long, value_name = "RUN", conflicts_with = "fresh")]
    pub resume: Option<String>,
}

/// Information without a search.
#[derive(Args, Debug)]
pub struct PreviewArgs {
    /// List the candidates and their derivation; measure nothing
    #[arg(long)]
    pub explain: bool,
    /// Print what would be run and what can be expected of the budget; measure nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Predict the best placements from one trial of kernel, without a search
    #[arg(long, conflicts_with_all = ["strict", "save", "apply"])]
    pub guess: bool,
    /// Predict for this machine, from the trials of --like: hwloc XML file, capture or synthetic string
    #[arg(long, value_name = "FILE|STRING", requires = "like", conflicts_with_all = [
        "explain", "dry_run", "guess", "refine", "threads", "save", "saved", "apply", "strict", "sim",
    ])]
    pub from: Option<String>,
    /// Stored search of the command that --from predicts; measure nothing
    #[arg(long, value_name = "RUN", requires = "from", conflicts_with = "command")]
    pub like: Option<String>,
}

/// What happens to the winner.
#[derive(Args, Debug)]
pub struct ResultArgs {
    /// Run CMD once under the winner, replacing this process
    #[arg(long, conflicts_with_all = ["server", "load"])]
    pub apply: bool,
    /// Save the winner
    #[arg(long, value_name = "NAME")]
    pub save: Option<String>,
    /// Run CMD under a saved placement; measure nothing
    #[arg(long = "use", value_name = "NAME", conflicts_with_all = ["save", "apply", "explain"])]
    pub saved: Option<String>,
    /// List all candidates, including those that were not run
    #[arg(long = "all")]
    pub all_candidates: bool,
}

/// Assumptions of the search about the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Prior {
    // None: the search knows only which candidates are similar.
    None,
    // It is like one of many kinds of programs, simulated on this machine.
    Topology,
    // Or like the programs in the results file, measured on this machine.
    Store,
}

/// A quantity to minimise that needs no number in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Objective {
    // Elapsed time.
    WallTime,
    // CPU time of all processes, in user mode and in the kernel.
    CpuTime,
    // Peak resident memory of the largest process.
    PeakMemory,
}
