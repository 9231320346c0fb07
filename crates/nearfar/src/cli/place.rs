//! The flags of `nearfar place`, in the groups in which its help shows them.

use clap::{Args, ValueEnum};

use super::{HoldArgs, MachineArgs, MapArgs, TextOrJson};

/// `nearfar place`
#[derive(Args, Debug)]
pub struct PlaceArgs {
    /// What may be tried
    #[command(flatten, next_help_heading = "What may be tried")]
    pub tried: SearchSpaceArgs,
    /// What is run
    #[command(flatten, next_help_heading = "What is run")]
    pub ran: CommandArgs,
    /// What is to be best
    #[command(flatten, next_help_heading = "What is to be best")]
    pub best: ObjectiveArgs,
    /// How it is decided
    #[command(flatten, next_help_heading = "How it is decided")]
    pub decided: StoppingArgs,
    /// What then
    #[command(flatten, next_help_heading = "What then")]
    pub then: ResultArgs,
    /// By which measured map
    #[command(flatten)]
    pub by: MapArgs,
    /// What is measured on
    #[command(flatten)]
    pub subject: MachineArgs,
    /// Having the machine for oneself
    #[command(flatten)]
    pub hold: HoldArgs,
    /// How to show the answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    /// The command; {threads}, {cpus} and {node} in it stand for the placement's
    #[arg(last = true, value_name = "CMD", required = true)]
    pub command: Vec<String>,
}

/// What may be tried.
#[derive(Args, Debug)]
pub struct SearchSpaceArgs {
    /// How many threads the command runs; `{threads}` in it stands for them [default: searched where it has {threads}]
    #[arg(short, long, value_name = "N")]
    pub threads: Option<usize>,
    /// Only these cpus
    #[arg(short = 'C', long = "physcpubind", value_name = "CPUS")]
    pub within: Option<String>,
    /// Placements of at most so many cpus
    #[arg(long, value_name = "N")]
    pub cpus_max: Option<usize>,
    /// Only what this policy makes, may be repeated; the kernel's choice stays
    #[arg(long, value_name = "POLICY")]
    pub only: Vec<String>,
    /// Without this policy or these cpus, may be repeated
    #[arg(long, value_name = "POLICY|CPUS")]
    pub exclude: Vec<String>,
    /// Also try where the interrupts of this device go: as found, same core, same node, other node, spread; may be repeated
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// Afterwards, race the winner against placements that differ by one thread
    #[arg(long)]
    pub refine: bool,
}

/// What is run.
#[derive(Args, Debug)]
pub struct CommandArgs {
    /// A server that CMD talks to: started before each trial, stopped after it, with cpus of its own
    #[arg(long, value_name = "'SERVER ARGS'")]
    pub server: Option<String>,
    /// The load for the server that CMD is: what is measured is the load, with cpus of its own
    #[arg(long, value_name = "'LOAD ARGS'", conflicts_with = "server")]
    pub with: Option<String>,
    /// When the server can be used: `port:N`, `file:PATH` or `line:REGEX` [default: as soon as it is started]
    #[arg(long, value_name = "WHAT")]
    pub ready: Option<String>,
    /// Run before each trial, not timed
    #[arg(long, value_name = "'CMD ARGS'")]
    pub prepare: Option<String>,
    /// Run after each trial, not timed
    #[arg(long, value_name = "'CMD ARGS'")]
    pub cleanup: Option<String>,
    /// Runs of the command in each trial before the one that is measured
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub warmup: u32,
    /// Give the commands to sh -c
    #[arg(long)]
    pub shell: bool,
    /// Set `OMP_NUM_THREADS` to the number of threads
    #[arg(long)]
    pub openmp: bool,
    /// A status other than 0 is no failure
    #[arg(short, long)]
    pub ignore_failure: bool,
    /// Stop a trial after this
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub time_limit: String,
}

/// What is to be best.
#[derive(Args, Debug)]
pub struct ObjectiveArgs {
    /// What is to be best, when no number in the output is
    #[arg(long, value_enum, default_value = "wall-time")]
    pub objective: Objective,
    /// The number that the one group of this regular expression captures in the output
    #[arg(long, value_name = "REGEX", conflicts_with_all = ["metric_json", "objective"])]
    pub metric: Option<String>,
    /// The number that this JSON pointer finds in the output
    #[arg(long, value_name = "/PATH", conflicts_with = "objective")]
    pub metric_json: Option<String>,
    /// More of that number is better
    #[arg(long)]
    pub higher_is_better: bool,
}

/// How it is decided.
#[derive(Args, Debug)]
pub struct StoppingArgs {
    /// Gains below this are not worth finding
    #[arg(long, value_name = "SHARE", default_value = "1%")]
    pub indifference: String,
    /// Spend at most this
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub budget: String,
    /// Run at most so many trials
    #[arg(long, value_name = "N")]
    pub max_trials: Option<usize>,
    /// Keep the error of the whole search at 5 %, for nearly twice the trials
    #[arg(long)]
    pub strict: bool,
    /// Show how placements became candidates, and the candidates; measure nothing
    #[arg(long)]
    pub explain: bool,
    /// Begin anew even when an unfinished search could go on
    #[arg(long)]
    pub fresh: bool,
}

/// What then.
#[derive(Args, Debug)]
pub struct ResultArgs {
    /// Then start the command once under the winner, in place of this program
    #[arg(long, conflicts_with_all = ["server", "with"])]
    pub apply: bool,
    /// Keep the winner under this name
    #[arg(long, value_name = "NAME")]
    pub save: Option<String>,
    /// Measure nothing: start the command under the placement that was kept under this name
    #[arg(long = "use", value_name = "NAME", conflicts_with_all = ["save", "apply", "explain"])]
    pub used: Option<String>,
}

/// What is to be best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Objective {
    /// The least time from start to end
    WallTime,
    /// The least time on cpus, in user mode and in the kernel
    CpuTime,
    /// The least memory of the largest process
    PeakMemory,
}
