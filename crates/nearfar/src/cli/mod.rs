//! Arguments and help texts of every command, from which completions and manual pages are generated.
//! Must not depend on other modules of this crate.
// Help texts are printed unchanged.
#![allow(clippy::doc_markdown, rustdoc::bare_urls, rustdoc::broken_intra_doc_links)]

mod bfs;
mod examples;
mod expand;
mod fleet;
mod gate;
mod graph;
mod guard;
mod help;
mod live;
mod map;
mod measure;
mod place;
mod ranges;
mod reference;
mod replay;
mod residency;
mod serve;
mod server;
mod share;
mod size;

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};
use model::analysis::compare::FailRule;

pub use bfs::BfsArgs;
pub use examples::{CommandExamples, examples_of, words_of_page};
pub use expand::{CompressedName, EngineName, ExpandArgs, FarArgs};
pub use fleet::{
    FleetArgs, FleetCollectArgs, FleetCommand, FleetCompareArgs, FleetQueryArgs, FleetRunArgs, ManifestArgs, NodeArgs,
    SlurmArgs, SurveyFormat,
};
pub use gate::{GateArgs, GateFormat, GateOutputArgs};
pub use graph::{BuildArgs, EdgeFormat, EdgesArgs, GraphArgs, GraphCommand, GraphCommandArgs, InfoArgs};
pub use guard::{GuardArgs, RestoreArgs};
pub use live::{LiveApplyArgs, LiveArgs, LiveAuditArgs, LiveCommand, LiveTryArgs, LiveUndoArgs, LiveWatchArgs};
pub use map::{MapCommandArgs, MapFormat};
pub use measure::{CommandListArgs, MeasureExportArgs};
pub use place::{Objective, PlaceArgs, Prior};
pub use reference::{ReferenceRow, environment, exit_status_of, exit_statuses, files};
pub use residency::{CopyTextArgs, FilesArgs, SubjectArgs, WhereArgs};
pub use serve::ServeArgs;
pub use server::{MetricArgs, ServerArgs};
pub use share::{CompletionsArgs, Keep, ManPagesArgs, ShareArgs};
pub use size::{Engines, SizeArgs};

/// Measure where threads, memory and interrupts should be placed on a machine
#[derive(Debug, Parser)]
#[command(name = "nearfar", version, about, max_term_width = 100, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub common: GlobalArgs,
}

/// Options of every command.
#[derive(Args, Debug)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Results file or PostgreSQL server [default: $XDG_DATA_HOME/nearfar/results.db]
    // The value may contain a password, so help does not print it.
    #[arg(long, value_name = "FILE|URL", global = true, env = "NEARFAR_STORE", hide_env_values = true)]
    pub store: Option<PathBuf>,
    /// Suppress progress messages
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Print which files are used and what each trial runs
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub verbose: bool,
    /// When to use colours; auto: in terminals, unless NO_COLOR is set or TERM is dumb
    #[arg(long, alias = "colour", value_name = "WHEN", global = true, value_enum, default_value = "auto")]
    pub color: ColorChoice,
    /// The arguments that determine the plan; see `replay_argv`.
    #[arg(skip)]
    pub argv: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the topology of a machine, or measure its latencies and bandwidths
    Map(MapCommandArgs),
    /// List the placements of a machine, with reasons and command lines
    Placements(PlacementsArgs),
    /// List workloads, experiments or placement policies
    List(ListArgs),
    /// Measure one workload
    Measure(Box<MeasureCommandArgs>),
    /// Run an experiment, or resume an unfinished run of it
    Run(RunArgs),
    /// Find the best placement of a command
    Place(Box<PlaceArgs>),
    /// Test whether a command is slower than another by more than is allowed
    Gate(Box<GateArgs>),
    /// Run a program with less DRAM than it needs
    Expand(Box<ExpandArgs>),
    /// Measure how much DRAM a command needs
    Size(Box<SizeArgs>),
    /// Show the results or the trials of a run, or list all runs
    Show(ShowArgs),
    /// Compare placements, thread counts, machines, kernels or recorded facts
    Compare(CompareArgs),
    /// Write results as one HTML file
    Report(ReportArgs),
    /// Serve the report over HTTP, updated while runs are in progress
    Serve(ServeArgs),
    /// Export results for other programs
    Export(ExportArgs),
    /// Import tables, reports of other programs, or another results file
    Import(ImportArgs),
    /// Write a results file without private data, for publication
    Share(ShareArgs),
    /// Generate and inspect graphs of the Graph500
    Graph(GraphCommandArgs),
    /// Search a Graph500 graph that is distributed over MPI ranks
    Bfs(BfsArgs),
    /// Run an experiment on many machines and compare them
    Fleet(FleetArgs),
    /// Show which memory nodes hold the memory of a process, or the cached parts of files
    Where(WhereArgs),
    /// Examine the placement of a running service
    Live(LiveArgs),
    /// Move the cached pages of files to memory nodes, or drop them
    Files(FilesArgs),
    /// Run a command from copies of its program and libraries in memory near its CPUs
    CopyText(CopyTextArgs),
    /// Report what disturbs or prevents measurements on this machine
    Doctor(DoctorArgs),
    /// Restore settings that an interrupted run changed
    Restore(RestoreArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print or write manual pages
    Man(ManPagesArgs),
    /// Run one kernel: the worker process of a trial
    #[command(name = "__worker", hide = true)]
    Worker,
    /// Run the node side of a fleet
    #[command(name = "__node", hide = true)]
    Node(NodeCommandArgs),
    /// Restore the settings of the process that started this one if that is killed
    #[command(name = "__restore-guard", hide = true)]
    RestoreGuard,
    /// Read an untrusted topology file with hwloc in a separate process
    #[command(name = "__read-topology", hide = true)]
    ReadTopology {
        /// File or synthetic string
        source: String,
    },
}

/// Arguments of the node process, which reads requests from stdin unless it has a job file.
#[derive(Args, Debug)]
pub struct NodeCommandArgs {
    /// Run this job file in this process; the experiment is in the same directory
    #[arg(long, value_name = "FILE", requires = "node")]
    pub order: Option<PathBuf>,
    /// Name of this node in the job file
    #[arg(long, value_name = "NAME", requires = "order", value_parser = ::fleet::NodeName::parse)]
    pub node: Option<::fleet::NodeName>,
}

/// `nearfar placements`
#[derive(Args, Debug)]
pub struct PlacementsArgs {
    /// hwloc XML file, capture, or hwloc synthetic string [default: this machine]
    #[arg(long, value_name = "FILE|STRING")]
    pub from: Option<String>,
    /// Number of threads [default: chosen by each policy]
    #[arg(short, long, value_name = "N")]
    pub threads: Option<usize>,
    /// Policy, POLICY+MEMORY+irq:RULE, CPUs, or numactl options such as '-C 0-3 -m 0' [repeatable] [default: all policies]
    #[arg(long = "placement", value_name = "PLACEMENT", allow_hyphen_values = true)]
    pub placements: Vec<String>,
    #[command(flatten)]
    pub map: MapArgs,
    /// Device of irq: rules [repeatable] [default: all with movable interrupts]
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    /// Command to insert into the command lines
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TextOrJson {
    Text,
    Json,
}

/// `nearfar list`
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Kind of objects to list
    #[arg(value_enum, value_name = "KIND", default_value = "workloads")]
    pub kind: ListKind,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListKind {
    /// Workloads with all parameters: unit, default and range
    Workloads,
    /// Built-in experiments with their questions
    Experiments,
    /// Placement policies
    Policies,
}

/// The machine to measure: this one or a simulated one.
#[derive(Args, Debug)]
#[command(next_help_heading = "Machine")]
pub struct MachineArgs {
    /// Simulate a machine: hwloc XML, capture or synthetic string
    #[arg(long, value_name = "MACHINE[:SEED]")]
    pub sim: Option<String>,
    /// Faults of the simulated machine: kill-after=7,disk=200KiB,lost-cpu=3@2,never-ends=0.01,escapes=0.05,stops=0.1
    #[arg(long, value_name = "FAULTS", requires = "sim", hide = true)]
    pub sim_faults: Option<String>,
    /// Seed of all random decisions [default: random]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Name of this machine in comparisons [default: CPU model]
    #[arg(long, value_name = "NAME")]
    pub host_label: Option<String>,
    /// Additional fact about this machine, such as rack=12 [repeatable]
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
}

/// Parses `KEY=VALUE`; the key has the syntax of fact names.
fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    let is_key_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if key.is_empty() || key.len() > LABEL_BYTES_MAX || !key.bytes().all(is_key_byte) {
        return Err(format!(
            "invalid key '{key}': it must have 1 to {LABEL_BYTES_MAX} lower-case letters, digits and '-'"
        ));
    }
    if value.trim().is_empty() {
        return Err(format!("the value of '{key}' is empty"));
    }
    Ok((key.into(), value.trim().into()))
}

/// Maximum length of the key of a label.
const LABEL_BYTES_MAX: usize = 40;

/// The measured map that placements are derived from.
#[derive(Args, Debug)]
pub struct MapArgs {
    /// Measured map to use [default: the newest of this machine]
    #[arg(id = "map", long, value_name = "RUN|latest|none")]
    pub run: Option<String>,
}

/// Number and limits of the trials of a cell.
#[derive(Args, Debug)]
pub struct RepetitionArgs {
    /// Number of measured trials of each cell
    #[arg(short, long, alias = "runs", value_name = "N", default_value_t = 5)]
    pub repetitions: u32,
    /// Number of blocks to run and discard first
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub warmup: u32,
    /// Kill a trial after this time
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub time_limit: String,
}

/// `nearfar measure`
#[derive(Args, Debug)]
pub struct MeasureCommandArgs {
    /// Name of the workload; `nearfar list workloads` lists them
    pub workload: String,
    /// Parameter of the workload [repeatable]
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Policy, POLICY+MEMORY+irq:RULE, CPUs, or numactl options such as '-C 0-3 -m 0' [repeatable] [default: kernel]
    #[arg(long = "placement", value_name = "PLACEMENT", allow_hyphen_values = true)]
    pub placements: Vec<String>,
    /// Device whose interrupts are monitored and placed by irq: rules [repeatable]
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// Run on these CPUs, as in numactl
    #[arg(short = 'C', long = "physcpubind", value_name = "CPUS", allow_hyphen_values = true)]
    pub physcpubind: Option<String>,
    /// Run on all CPUs of these memory nodes, as in numactl
    #[arg(short = 'N', long = "cpunodebind", value_name = "NODES")]
    pub cpunodebind: Option<String>,
    /// Allocate memory only on these nodes, as in numactl
    #[arg(short = 'm', long = "membind", value_name = "NODES")]
    pub membind: Option<String>,
    /// Interleave memory over these nodes, as in numactl
    #[arg(short = 'i', long = "interleave", value_name = "NODES")]
    pub interleave: Option<String>,
    /// Prefer memory of this node while it has free pages, as in numactl
    #[arg(short = 'p', long = "preferred", value_name = "NODE")]
    pub preferred: Option<String>,
    /// Number of threads [default: chosen by the placement]
    #[arg(short, long, value_name = "N")]
    pub threads: Option<usize>,
    #[command(flatten)]
    pub repeats: RepetitionArgs,
    #[command(flatten, next_help_heading = "Workload command")]
    pub commands: CommandListArgs,
    /// Permit workload io to overwrite this existing file or disk; all of its data is lost
    #[arg(long, value_name = "PATH")]
    pub allow_overwrite: Option<String>,
    /// Use the smoke-test sizes of all parameters
    #[arg(long)]
    pub smoke: bool,
    #[command(flatten)]
    pub map: MapArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    #[command(flatten, next_help_heading = "Export")]
    pub export: MeasureExportArgs,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub guard: GuardArgs,
    /// Command that workload command measures; several are separated by ::: and compared with the first
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// `nearfar run`
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Name of a built-in experiment, or a TOML file
    #[arg(required_unless_present = "fio", conflicts_with = "fio")]
    pub experiment: Option<String>,
    /// Run each job of this fio job file separately, with workload io
    #[arg(long, value_name = "FILE")]
    pub fio: Option<PathBuf>,
    /// Placement of the jobs of --fio [repeatable] [default: kernel]
    #[arg(long = "placement", value_name = "PLACEMENT", allow_hyphen_values = true)]
    pub placements: Vec<String>,
    /// Override a parameter of all workloads that have it [repeatable: several values]
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Show the plan and the estimated time; run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Start a new run instead of resuming an unfinished one
    #[arg(long)]
    pub fresh: bool,
    /// Resume this unfinished run even if the machine has changed
    #[arg(long, value_name = "RUN", conflicts_with = "fresh")]
    pub resume: Option<String>,
    /// Maximum total time, instead of the budget of the experiment
    #[arg(long, value_name = "DURATION")]
    pub budget: Option<String>,
    /// Number of runs, one after the other: comparisons between runs need several on each side [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100), conflicts_with = "dry_run")]
    pub repeat_runs: Option<u8>,
    /// Use the smoke-test sizes of all parameters
    #[arg(long)]
    pub smoke: bool,
    #[command(flatten)]
    pub map: MapArgs,
    /// Device whose interrupts are monitored and placed, instead of the experiment's devices [repeatable]
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// Permit workload io to overwrite this existing file or disk; all of its data is lost
    #[arg(long, value_name = "PATH")]
    pub allow_overwrite: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub guard: GuardArgs,
}

/// `nearfar doctor`
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// `nearfar show`
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// ID of a run or its first digits
    #[arg(default_value = "latest")]
    pub run: String,
    /// List the trials of the run with their verdicts
    #[arg(long, conflicts_with = "runs")]
    pub trials: bool,
    /// List all runs in the results file
    #[arg(long)]
    pub runs: bool,
    /// Leave out suspect trials; not for searches
    #[arg(long, conflicts_with_all = ["runs", "trials"])]
    pub strict: bool,
    /// Show all metrics instead of the main metric of each workload
    #[arg(long)]
    pub all_metrics: bool,
    /// Show how each CPU spent its time: programs, kernel, interrupts, idle (JSON always contains it)
    #[arg(long, conflicts_with_all = ["runs", "trials"])]
    pub cpu_load: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: ShowFormat,
}

/// Formats of the results of a run; lists of runs and of trials have only text and JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShowFormat {
    /// Table for terminals
    Text,
    /// Markdown table
    Markdown,
    /// CSV with one row per metric of a cell, unrounded
    Csv,
    /// JSON
    Json,
}

/// `nearfar compare`
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Runs to compare [default: the latest; with --by host, kernel, boot, run or a fact, all runs of its experiment]
    pub runs: Vec<String>,
    /// Columns: placement, threads, command, host, kernel, boot, run, set.PARAMETER, a recorded fact, several of these
    /// separated by commas, or column of an imported table [default: chosen by the experiment]
    #[arg(long, value_name = "DIMENSION")]
    pub by: Option<String>,
    /// Column that the others are compared with, or with several dimensions a value of one of them, which each column is
    /// compared with [default: chosen by the experiment, else kernel, else the first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// Compare the columns of this imported table [default: the latest]
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
    /// Compare runs in this directory of export --format parquet, or in a subdirectory; needs `DuckDB` (duckdb, or
    /// `NEARFAR_DUCKDB`)
    #[arg(long, alias = "from", value_name = "DIR", value_parser = parquet_dir, conflicts_with = "table")]
    pub parquet: Option<String>,
    /// Add the columns of this imported table to those of the runs [repeatable]
    #[arg(long = "add-table", value_name = "NAME", conflicts_with = "table")]
    pub added_tables: Vec<String>,
    /// Show the index of this benchmark suite for each column
    #[arg(long, value_enum, value_name = "SUITE", conflicts_with = "all_metrics")]
    pub index: Option<Suite>,
    /// Compare this metric instead of the main metric of each workload
    #[arg(long, value_name = "NAME", conflicts_with_all = ["table", "index"])]
    pub metric: Option<String>,
    /// Show all metrics instead of the main metric of each workload
    #[arg(long)]
    pub all_metrics: bool,
    /// Compare only this test, or all tests of this workload [repeatable]
    #[arg(long = "test", value_name = "NAME", conflicts_with = "index")]
    pub tests: Vec<String>,
    /// Exit with status 1 if the whole interval of a main metric's change is beyond this limit, such as 'slower > 3%'
    #[arg(long, value_name = "CONDITION", value_parser = FailRule::parse, conflicts_with = "index")]
    pub fail_if: Option<FailRule>,
    /// Leave out suspect trials
    #[arg(long, conflicts_with = "table")]
    pub strict: bool,
    /// Significant digits of values; percentages have two decimals fewer [default: 4, and one decimal]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=15))]
    pub digits: Option<u8>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TableFormat,
    /// Colours of pictures [default: auto for SVG, light for PNG]
    #[arg(long, value_enum)]
    pub theme: Option<PictureTheme>,
    /// File to write; - is stdout
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// Accepts a directory, and `parquet:DIR`, the form that the alias `--from` had.
fn parquet_dir(text: &str) -> Result<String, String> {
    match text.strip_prefix("parquet:").unwrap_or(text) {
        "" => Err("expected a directory".into()),
        dir => Ok(dir.into()),
    }
}

/// Benchmark suites with an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// `UnixBench` 5.1.3, relative to a SPARCstation 20-61
    Unixbench,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// Table for terminals
    Text,
    /// Markdown table
    Markdown,
    /// CSV with one row per test and column
    Csv,
    /// JSON
    Json,
    /// Tables as an HTML fragment
    Html,
    /// Picture of the differences with their intervals, or of the indices
    Svg,
    /// The same picture in 1560 pixels width
    Png,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PictureTheme {
    /// As the reader's system; light in a PNG
    Auto,
    /// Dark on light
    Light,
    /// Light on dark
    Dark,
}

/// `nearfar report`
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Runs to report [default: the latest of every experiment]
    pub runs: Vec<String>,
    /// Leave out suspect trials, except those of searches
    #[arg(long)]
    pub strict: bool,
    /// HTML file to write; - is stdout [default: report.html in the directory of the results file]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Output format of the path
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// `nearfar export`
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// ID of a run or its first digits
    #[arg(default_value = "latest")]
    pub run: String,
    /// Output format
    #[arg(long, value_enum, default_value = "csv")]
    pub format: ExportFormat,
    /// Write to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Directory or s3://BUCKET/PREFIX for Parquet files, one per run; created if missing
    #[arg(long, alias = "to", value_name = "DIR", required_if_eq("format", "parquet"), conflicts_with = "output")]
    pub output_dir: Option<String>,
    /// Export all runs of the results file; for parquet
    #[arg(long, conflicts_with = "run")]
    pub all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// One line per sample
    Csv,
    /// All data of the run
    Json,
    /// JSON as written by hyperfine's --export-json, for its scripts and for nearfar import
    #[value(alias = "hyperfine-json")]
    Hyperfine,
    /// Medians and intervals as metrics for Prometheus, for example for the textfile collector of node exporter
    Openmetrics,
    /// One row per sample, for data frames and SQL engines (docs/guides/parquet.md)
    Parquet,
}

/// `nearfar import`
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// Files to import; several become columns of one table
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Format of the files [default: detected from the content]
    #[arg(long, value_name = "FORMAT", value_parser = import_formats(), default_value = "auto", hide_default_value = true)]
    pub format: String,
    /// Column of a file, once per file in their order; files with the same name share a column
    #[arg(long = "column", value_name = "NAME")]
    pub columns: Vec<String>,
    /// Name of the table [default: derived from the file names]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

/// All import formats: automatic detection, those of the store, and the report formats of `model::import::reports`.
fn import_formats() -> PossibleValuesParser {
    let own = [
        ("auto", "Detect the format from the content"),
        (store::import::STORE, "Another results file; runs that are already present are skipped"),
        (store::import::TABLE, "CSV of published figures: test,metric,unit,better, then one column per configuration"),
    ];
    let reports = model::import::reports::FORMATS.iter().map(|format| (format.name, format.about));
    own.into_iter().chain(reports).map(|(name, about)| PossibleValue::new(name).help(about)).collect::<Vec<_>>().into()
}
