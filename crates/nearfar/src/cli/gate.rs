//! Arguments of `nearfar gate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{GuardArgs, MachineArgs, MapArgs, Objective};

/// `nearfar gate`
#[derive(Args, Debug)]
#[command(
    override_usage = "nearfar gate [OPTIONS] -- <BASELINE>... ::: <CANDIDATE>...\n       \
                      nearfar gate [OPTIONS] --baseline <RUN> -- <CANDIDATE>...",
    after_help = "Runs both commands alternately, in random order within each pair, until one answer is proven: the \
                  candidate is slower than allowed, or it is not."
)]
pub struct GateArgs {
    /// Allowed slowdown of the candidate
    #[arg(long, value_name = "PERCENT", default_value = "3%")]
    pub max_slower: String,
    /// Maximum probability of a false verdict, for each of the two verdicts
    #[arg(long, value_name = "PERCENT", default_value = "1%")]
    pub error_rate: String,
    /// Maximum total time
    #[arg(long, value_name = "DURATION", default_value = "2m")]
    pub budget: String,
    /// Compare with this stored run instead of a second command [repeatable]
    #[arg(long = "baseline", value_name = "RUN")]
    pub baselines: Vec<String>,
    /// Read the stored baseline from another results file [default run: latest]
    #[arg(long, value_name = "FILE")]
    pub baseline_ref: Option<PathBuf>,
    /// Placement of both commands: policy, POLICY+MEMORY, or numactl options such as '-C 0-3 -m 0'
    #[arg(long, value_name = "PLACEMENT", allow_hyphen_values = true, default_value = "kernel")]
    pub placement: String,
    /// Name of a command in the output; once for the baseline, then for the candidate [default: the command]
    #[arg(short = 'n', long = "command-name", value_name = "NAME")]
    pub names: Vec<String>,
    #[command(flatten, next_help_heading = "Trials")]
    pub trial: GateTrialArgs,
    #[command(flatten, next_help_heading = "Metric")]
    pub metric: GateMetricArgs,
    #[command(flatten, next_help_heading = "Output")]
    pub output: GateOutputArgs,
    #[command(flatten)]
    pub map: MapArgs,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub guard: GuardArgs,
    /// Baseline and candidate, separated by :::; only the candidate with a stored baseline
    #[arg(last = true, value_name = "CMD", required = true)]
    pub command: Vec<String>,
}

/// What a trial runs besides the measured command.
#[derive(Args, Debug)]
pub struct GateTrialArgs {
    /// Run before each trial, untimed
    #[arg(long, value_name = "CMD")]
    pub prepare: Option<String>,
    /// Run after each trial, untimed
    #[arg(long, value_name = "CMD")]
    pub cleanup: Option<String>,
    /// Number of pairs to run and discard first
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub warmup: u32,
    /// Run commands with sh -c
    #[arg(long)]
    pub shell: bool,
    /// Count trials with a non-zero exit status
    #[arg(short, long)]
    pub ignore_failure: bool,
    /// Kill a trial after this time
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub time_limit: String,
}

/// The quantity that must not become worse.
#[derive(Args, Debug)]
pub struct GateMetricArgs {
    /// Quantity of the processes to compare
    #[arg(long, value_enum, default_value = "wall-time")]
    pub objective: Objective,
    /// Compare the number captured in the output
    #[arg(long, value_name = "REGEX", conflicts_with_all = ["metric_json", "objective"])]
    pub metric: Option<String>,
    /// Compare the number at this JSON pointer in the output
    #[arg(long, value_name = "POINTER", conflicts_with = "objective")]
    pub metric_json: Option<String>,
    /// A higher number of --metric or --metric-json is better
    #[arg(long)]
    pub higher_is_better: bool,
}

/// Formats of the result.
#[derive(Args, Debug)]
pub struct GateOutputArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: GateFormat,
    /// Also write the result to FILE, as JSON
    #[arg(long, value_name = "FILE")]
    pub export_json: Option<PathBuf>,
    /// Also write the result to FILE, as Markdown
    #[arg(long, value_name = "FILE")]
    pub export_markdown: Option<PathBuf>,
    /// Also write the result to FILE, as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub export_junit: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GateFormat {
    /// Sentences and a table for terminals
    Text,
    /// Markdown for a pull request
    Markdown,
    /// JSON
    Json,
    /// JUnit XML with one test case
    Junit,
}
