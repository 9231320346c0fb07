//! Arguments of `nearfar measure` that hyperfine has too, with its names.

use std::path::PathBuf;

use clap::Args;

/// Several commands, and the number of their runs.
#[derive(Args, Debug)]
pub struct CommandListArgs {
    /// Name of a command in the output, in the order of the commands [repeatable] [default: the command]
    #[arg(short = 'n', long = "command-name", value_name = "NAME")]
    pub names: Vec<String>,
    /// Measure the commands with {VAR} replaced by each of the values, which are separated by commas [repeatable]
    #[arg(short = 'L', long, num_args = 2, value_names = ["VAR", "VALUES"])]
    pub parameter_list: Vec<String>,
    /// Measure the commands with {VAR} replaced by each number from MIN to MAX [repeatable]
    #[arg(short = 'P', long, num_args = 3, value_names = ["VAR", "MIN", "MAX"], allow_hyphen_values = true)]
    pub parameter_scan: Vec<String>,
    /// Step of --parameter-scan [default: 1]
    #[arg(short = 'D', long, value_name = "NUMBER", requires = "parameter_scan")]
    pub parameter_step_size: Option<String>,
    /// Minimum number of trials of each cell; then stop when all 95 % intervals are within 2 % of the median
    #[arg(long, value_name = "N", conflicts_with = "repetitions")]
    pub min_runs: Option<u32>,
    /// Maximum number of trials of each cell, as for --min-runs
    #[arg(short = 'M', long, value_name = "N", conflicts_with = "repetitions")]
    pub max_runs: Option<u32>,
}

/// Files with the results.
#[derive(Args, Debug)]
pub struct MeasureExportArgs {
    /// Write the times to FILE, as JSON of hyperfine
    #[arg(long, value_name = "FILE")]
    pub export_json: Option<PathBuf>,
    /// Write the results to FILE, as CSV
    #[arg(long, value_name = "FILE")]
    pub export_csv: Option<PathBuf>,
    /// Write the results to FILE, as a Markdown table
    #[arg(long, value_name = "FILE")]
    pub export_markdown: Option<PathBuf>,
}
