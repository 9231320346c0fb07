//! The command line: every flag with its meaning, in one place. Help texts, completions and reference pages
//! are made from it.

mod bfs;
mod expand;
mod fleet;
mod graph;
mod hold;
mod map;
mod place;
mod serve;
mod share;
mod size;

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

pub use bfs::BfsArgs;
pub use expand::{EngineName, ExpandArgs, FarArgs};
pub use fleet::{
    FleetArgs, FleetCollectArgs, FleetCommand, FleetCompareArgs, FleetQueryArgs, FleetRunArgs, ManifestArgs, NodeArgs,
    SurveyFormat,
};
pub use graph::{BuildArgs, EdgeFormat, EdgesArgs, GraphArgs, GraphCommand, GraphCommandArgs, InfoArgs};
pub use hold::{HoldArgs, RestoreArgs};
pub use map::{MapCommandArgs, MapFormat};
pub use place::{Objective, PlaceArgs};
pub use serve::ServeArgs;
pub use share::{CompletionsArgs, Keep, ManPagesArgs, ShareArgs};
pub use size::{Engines, SizeArgs};

/// Finds out by measuring where code and data should live on this machine.
#[derive(Debug, Parser)]
#[command(name = "nearfar", version, about, max_term_width = 100, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Flags of every command.
    #[command(flatten)]
    pub common: GlobalArgs,
}

/// Flags of every command.
#[derive(Args, Debug)]
pub struct GlobalArgs {
    /// The results file, or the address of a PostgreSQL server [default: nearfar/results.db under `XDG_DATA_HOME`, which is ~/.local/share]
    // Its value may be an address with a password, which help has no reason to print.
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        env = "NEARFAR_STORE",
        hide_env_values = true,
        help_heading = "Everywhere"
    )]
    pub store: Option<PathBuf>,
    /// Say nothing on stderr but errors
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    pub quiet: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What this machine is: topology, devices, interrupts, settings; with --measure also how fast
    Map(MapCommandArgs),
    /// The placements that a machine offers, by name, with reasons and ready-to-paste lines
    Placements(PlacementsArgs),
    /// Workloads with their parameters, experiments, placement policies
    List(ListArgs),
    /// Measure one workload now
    Measure(Box<MeasureCommandArgs>),
    /// Run an experiment; the same command again goes on where it was cut off
    Run(RunArgs),
    /// Find the best placement of a command, against leaving it to the kernel
    Place(Box<PlaceArgs>),
    /// Run a program on more memory than it gets DRAM
    Expand(Box<ExpandArgs>),
    /// How fast a command is with less DRAM, and how much it needs
    Size(Box<SizeArgs>),
    /// Look at a run: its cells, or its trials
    Show(ShowArgs),
    /// Compare placements, thread counts, machines, kernels or any recorded fact
    Compare(CompareArgs),
    /// Write one self-contained HTML file
    Report(ReportArgs),
    /// Show runs in a browser, also while they go on: the pages of report, live, on this machine alone
    Serve(ServeArgs),
    /// Write results for other programs
    Export(ExportArgs),
    /// Read published tables, reports of other programs, or another results file
    Import(ImportArgs),
    /// Write a results file to give away: a run or a table without host name, paths, addresses and commands
    Share(ShareArgs),
    /// The Graph500's graphs: edge lists, and the files that a search reads
    Graph(GraphCommandArgs),
    /// Search the Graph500's graph in several parts: ranks over MPI, where one machine is not enough
    Bfs(BfsArgs),
    /// Many machines: run an experiment on all of them over ssh, Slurm or Kubernetes, and bring the results together
    Fleet(FleetArgs),
    /// What on this machine would spoil a measurement, and what cannot be measured here, with the fix
    Doctor(DoctorArgs),
    /// Put back the system settings that an interrupted run left changed
    Restore(RestoreArgs),
    /// Print what completes commands and flags in a shell
    Completions(CompletionsArgs),
    /// Write the manual pages, or print one
    Man(ManPagesArgs),
    /// The process that a kernel runs in.
    #[command(name = "__worker", hide = true)]
    Worker,
    /// The node's side of a fleet.
    #[command(name = "__node", hide = true)]
    Node(NodeCommandArgs),
    /// The process that hwloc reads an untrusted file in.
    #[command(name = "__read-topology", hide = true)]
    ReadTopology {
        /// What to read.
        source: String,
    },
}

/// The node's side of a fleet: asked on its standard input, or with an order that lies there.
#[derive(Args, Debug)]
pub struct NodeCommandArgs {
    /// The order's file, with the experiment's beside it; the run is this process.
    #[arg(long, value_name = "FILE", requires = "node")]
    pub order: Option<PathBuf>,
    /// What this node is called by who wrote the order.
    #[arg(long, value_name = "NAME", requires = "order", value_parser = ::fleet::NodeName::parse)]
    pub node: Option<::fleet::NodeName>,
}

/// `nearfar placements`
#[derive(Args, Debug)]
pub struct PlacementsArgs {
    /// A hwloc XML file, a capture, or a hwloc synthetic string [default: this machine]
    #[arg(long, value_name = "FILE|STRING")]
    pub from: Option<String>,
    /// How many threads [default: what each policy takes by nature]
    #[arg(short, long, value_name = "N")]
    pub threads: Option<usize>,
    /// Only these policies, or numactl letters such as '-C 0-3 -m 0'
    #[arg(long = "placement", value_name = "PLACEMENT", allow_hyphen_values = true)]
    pub placements: Vec<String>,
    /// By which measured map
    #[command(flatten)]
    pub by: MapArgs,
    /// The device that irq: is about, may be repeated [default: all whose interrupts can be moved]
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// How to show them
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    /// The command to put into the lines
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// Text or JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TextOrJson {
    /// For people
    Text,
    /// For programs
    Json,
}

/// `nearfar list`
#[derive(Args, Debug)]
pub struct ListArgs {
    /// What to list
    #[arg(value_enum, default_value = "workloads")]
    pub what: ListKind,
    /// How to show it
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListKind {
    /// Workloads with every parameter, its unit, default and range
    Workloads,
    /// Built-in experiments with their questions
    Experiments,
    /// Placement policies
    Policies,
}

/// What is measured on: this machine or a simulated one.
#[derive(Args, Debug)]
pub struct MachineArgs {
    /// Simulate: a hwloc XML file, a capture or a synthetic string, then a seed
    #[arg(long, value_name = "CAPTURE[:SEED]")]
    pub sim: Option<String>,
    /// Faults of the simulated machine: kill-after=7,disk=200KiB,lost-cpu=3@2,never-ends=0.01,escapes=0.05
    #[arg(long, value_name = "FAULTS", requires = "sim", hide = true)]
    pub sim_faults: Option<String>,
    /// For everything random [default: another one each time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// A name for this machine in comparisons [default: its cpu model]
    #[arg(long, value_name = "NAME")]
    pub host_label: Option<String>,
    /// A fact about this machine that it cannot know, such as rack=12, for --by and --class; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
}

/// `KEY=VALUE`, the key as keys of facts are written.
fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a label is written KEY=VALUE")?;
    let written = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if key.is_empty() || key.len() > LABEL_BYTES_MAX || !key.bytes().all(written) {
        return Err(format!(
            "'{key}' is no name of a label: it has up to {LABEL_BYTES_MAX} small letters, digits and '-'"
        ));
    }
    if value.trim().is_empty() {
        return Err(format!("label {key} has no value"));
    }
    Ok((key.into(), value.trim().into()))
}

/// Longer ones are mistakes.
const LABEL_BYTES_MAX: usize = 40;

/// Whether placements go by a measured map.
#[derive(Args, Debug)]
pub struct MapArgs {
    /// Make placements by this measured map: its run, `latest` or `none` [default: the newest of this machine]
    #[arg(long, value_name = "RUN")]
    pub map: Option<String>,
}

/// How often a trial is repeated, and how long it may take.
#[derive(Args, Debug)]
pub struct RepetitionArgs {
    /// How often
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: u32,
    /// Blocks run and thrown away first
    #[arg(short, long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub warmup: u32,
    /// Stop a trial after this
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub time_limit: String,
}

/// `nearfar measure`
#[derive(Args, Debug)]
pub struct MeasureCommandArgs {
    /// The workload; `nearfar list workloads` shows them
    pub workload: String,
    /// A parameter, may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Where to run it, may be repeated: a policy, SEATS+MEMORY+irq:RULE, or numactl letters [default: kernel]
    #[arg(long = "placement", value_name = "PLACEMENT", allow_hyphen_values = true)]
    pub placements: Vec<String>,
    /// A device whose interrupts are watched, and go where an irq: part of a placement says; may be repeated
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// Cpus, as numactl has it
    #[arg(short = 'C', long = "physcpubind", value_name = "CPUS", allow_hyphen_values = true)]
    pub physcpubind: Option<String>,
    /// All cpus of these nodes, as numactl has it
    #[arg(short = 'N', long = "cpunodebind", value_name = "NODES")]
    pub cpunodebind: Option<String>,
    /// Memory only on these nodes, as numactl has it
    #[arg(short = 'm', long = "membind", value_name = "NODES")]
    pub membind: Option<String>,
    /// Memory in turn over these nodes, as numactl has it
    #[arg(short = 'i', long = "interleave", value_name = "NODES")]
    pub interleave: Option<String>,
    /// Memory on this node while it has room, as numactl has it
    #[arg(short = 'p', long = "preferred", value_name = "NODE")]
    pub preferred: Option<String>,
    /// How many threads [default: what the placement takes by nature]
    #[arg(short, long, value_name = "N")]
    pub threads: Option<usize>,
    /// How often, how long
    #[command(flatten)]
    pub repeats: RepetitionArgs,
    /// The exact path of a file or disk that workload io may write to although it was there before: all in it is lost
    #[arg(long, value_name = "PATH")]
    pub allow_overwrite: Option<String>,
    /// Parameters at their smoke-test sizes
    #[arg(long)]
    pub smoke: bool,
    /// By which measured map
    #[command(flatten)]
    pub by: MapArgs,
    /// What is measured on
    #[command(flatten)]
    pub subject: MachineArgs,
    /// Having the machine for oneself
    #[command(flatten)]
    pub hold: HoldArgs,
    /// How to show the result
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
    /// For the workload `command`: the command to measure
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// `nearfar run`
#[derive(Args, Debug)]
pub struct RunArgs {
    /// A built-in experiment's name or a TOML file
    #[arg(required_unless_present = "fio", conflicts_with = "fio")]
    pub experiment: Option<String>,
    /// Instead: each job of a fio job file, alone, as workload io
    #[arg(long, value_name = "FILE")]
    pub fio: Option<PathBuf>,
    /// Where the jobs of --fio run, may be repeated [default: kernel]
    #[arg(long = "placement", value_name = "PLACEMENT", allow_hyphen_values = true)]
    pub placements: Vec<String>,
    /// A parameter of every workload that has it, in place of the experiment's; given twice, both values
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Show the plan and the estimate, run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Begin a new run even when an unfinished one could go on
    #[arg(long)]
    pub fresh: bool,
    /// Spend at most this, instead of what the experiment says
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
    /// Parameters at their smoke-test sizes
    #[arg(long)]
    pub smoke: bool,
    /// By which measured map
    #[command(flatten)]
    pub by: MapArgs,
    /// A device whose interrupts are watched, and go where an irq: part of a placement says; instead of the experiment's
    #[arg(long = "device", value_name = "NAME")]
    pub devices: Vec<String>,
    /// The exact path of a file or disk that workload io may write to although it was there before: all in it is lost
    #[arg(long, value_name = "PATH")]
    pub allow_overwrite: Option<String>,
    /// What is measured on
    #[command(flatten)]
    pub subject: MachineArgs,
    /// Having the machine for oneself
    #[command(flatten)]
    pub hold: HoldArgs,
    /// How to show the result
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// `nearfar doctor`
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// How to show it
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// `nearfar show`
#[expect(clippy::struct_excessive_bools, reason = "they are flags of a command line")]
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// A run's id or its beginning
    #[arg(default_value = "latest")]
    pub run: String,
    /// Its trials, each with its verdict
    #[arg(long, conflicts_with = "runs")]
    pub trials: bool,
    /// All runs in the results file
    #[arg(long)]
    pub runs: bool,
    /// Every metric, not only each workload's main one
    #[arg(long)]
    pub all_metrics: bool,
    /// What each cpu of the machine did meanwhile: programs, kernel, interrupts, waiting (JSON always has it)
    #[arg(long, conflicts_with_all = ["runs", "trials"])]
    pub cpu_load: bool,
    /// How to show it
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// `nearfar compare`
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Runs to compare [default: the latest; with --by host, kernel, boot, run or a fact: every run of its experiment]
    pub runs: Vec<String>,
    /// What the columns are: placement, threads, host, kernel, boot, run, set.PARAMETER, any recorded fact, or column for an
    /// imported table [default: what the experiment compares]
    #[arg(long, value_name = "WHAT")]
    pub by: Option<String>,
    /// The column that the others are compared with [default: the experiment's, else kernel, else the first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
    /// Which imported table, by column [default: the latest]
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
    /// Compare what was exported instead of the results file: the folder of export --format parquet, or one in it. Read by `DuckDB`
    /// (`duckdb`, or what `NEARFAR_DUCKDB` names)
    #[arg(long, value_name = "parquet:FOLDER", value_parser = ParquetArg::parse, conflicts_with = "table")]
    pub from: Option<ParquetArg>,
    /// Show the index of a suite instead, for each thing compared
    #[arg(long, value_enum, value_name = "SUITE", conflicts_with = "all_metrics")]
    pub index: Option<Suite>,
    /// Every metric, not only each workload's main one
    #[arg(long)]
    pub all_metrics: bool,
    /// How to show it
    #[arg(long, value_enum, default_value = "text")]
    pub format: TableFormat,
}

/// Where results are that were exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParquetArg {
    /// A folder of Parquet files.
    Parquet(String),
}

impl ParquetArg {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("parquet", folder)) if !folder.is_empty() => Ok(Self::Parquet(folder.into())),
            _ => Err("write it like parquet:FOLDER".into()),
        }
    }
}

/// Suites with an index of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// `UnixBench` 5.1.3: its tests against a SPARCstation 20-61
    Unixbench,
}

/// How to show a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// For people
    Text,
    /// For documents and issues
    Markdown,
    /// For spreadsheets
    Csv,
    /// For programs
    Json,
    /// A picture of the changes with their intervals
    Svg,
}

/// `nearfar report`
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Runs to report [default: the latest of every experiment]
    pub runs: Vec<String>,
    /// The HTML file; `-` is standard output [default: report.html beside the results file]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// How to say where it is
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// `nearfar export`
#[derive(Args, Debug)]
#[command(
    after_help = "Example: nearfar export --format openmetrics -o /var/lib/prometheus/node-exporter/nearfar.prom\n\
                        Example: nearfar export --format hyperfine -o times.json\n\
                        Example: nearfar export --format parquet --to results --all\n\
                        Example: AWS_REGION=eu-central-1 nearfar export --format parquet --to s3://lab/nearfar"
)]
pub struct ExportArgs {
    /// A run's id or its beginning
    #[arg(default_value = "latest")]
    pub run: String,
    /// What the other program reads
    #[arg(long, value_enum, default_value = "csv")]
    pub format: ExportFormat,
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write into this folder, made when it is not there, or below `s3://BUCKET/PREFIX`: for parquet, one file per run
    #[arg(long, value_name = "FOLDER", required_if_eq("format", "parquet"), conflicts_with = "output")]
    pub to: Option<String>,
    /// Every run of the results file, for parquet
    #[arg(long, conflicts_with = "run")]
    pub all: bool,
}

/// What other programs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// One line per sample
    Csv,
    /// The whole run
    Json,
    /// As hyperfine's --export-json writes it, for its scripts and for nearfar import
    #[value(alias = "hyperfine-json")]
    Hyperfine,
    /// Medians and intervals as metrics, for Prometheus and the textfile collector of its node exporter
    Openmetrics,
    /// One row per sample, for data frames and SQL engines (docs/guides/parquet.md)
    Parquet,
}

/// `nearfar import`
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// The files; several become columns of one table
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What they are [default: auto, which looks into them]
    #[arg(long, value_name = "FORMAT", value_parser = import_formats(), default_value = "auto", hide_default_value = true)]
    pub format: String,
    /// What to call a file's column, once for each file in their order; the same name puts two files into one column
    #[arg(long = "column", value_name = "NAME")]
    pub columns: Vec<String>,
    /// What to call the table [default: as the files are called]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

/// The formats that can be imported: `model::import::reports` has the list of those that are reports.
fn import_formats() -> PossibleValuesParser {
    let own = [
        ("auto", "Whatever the file turns out to be"),
        (store::import::STORE, "Another results file; importing it twice does no harm"),
        (
            store::import::TABLE,
            "A CSV of published figures: test,metric,unit,better, then one column per configuration",
        ),
    ];
    let reports = model::import::reports::FORMATS.iter().map(|format| (format.name, format.about));
    own.into_iter().chain(reports).map(|(name, about)| PossibleValue::new(name).help(about)).collect::<Vec<_>>().into()
}
