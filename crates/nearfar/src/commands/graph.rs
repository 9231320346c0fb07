//! `nearfar graph`: generates edge lists, builds graph files and describes them.

mod atomic_file;
mod build_dir;
mod out_of_core;
mod progress;

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use graph::{ArrayPlacement, BuildRequirements, EdgeEncoding, FileError, Layout, PlainTeam, Spec, Tuples};
use model::values::units::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use self::atomic_file::AtomicFile;
use crate::cli::{BuildArgs, EdgeFormat, EdgesArgs, GraphArgs, GraphCommand, GraphCommandArgs, InfoArgs, TextOrJson};
use crate::error::{CliError, CliStatus, CommandResult};
use crate::output;

/// Default of `graph build --columns`.
const DEFAULT_K: u32 = 16;
/// Size of I/O buffers in bytes.
const BUFFER: usize = 1 << 20;

pub fn run(args: &GraphCommandArgs) -> CommandResult {
    match &args.command {
        GraphCommand::Edges(args) => edges(args),
        GraphCommand::Build(args) => build(args),
        GraphCommand::Info(args) => info(args),
    }
}

/// Printed properties of a graph: names with units, and values.
type GraphFacts = Vec<(&'static str, Value)>;

fn edges(args: &EdgesArgs) -> CommandResult {
    let spec = spec(args.graph)?;
    let encoding = match args.edges {
        EdgeFormat::Pairs => EdgeEncoding::Pairs,
        EdgeFormat::Packed => EdgeEncoding::Packed,
        EdgeFormat::Text => EdgeEncoding::Text,
    };
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    let file = args.output.as_deref().filter(|_| !to_stdout);
    let mut target = file.map(|path| AtomicFile::new(path, Bytes(encoding.bytes(&spec)))).transpose()?;
    let mut hash = args.sha256.then(Sha256::new);
    let mut bytes = Vec::new();
    graph::stream(&spec, threads(args.threads), |edges| {
        if let Some(hash) = &mut hash {
            bytes.clear();
            EdgeEncoding::Pairs.append(edges, &mut bytes);
            hash.update(&bytes);
        }
        if target.is_some() || to_stdout {
            bytes.clear();
            encoding.append(edges, &mut bytes);
        }
        match &mut target {
            Some(target) => target.write(&bytes),
            None if to_stdout => to_pipe(&bytes),
            None => Ok(()),
        }
    })?;
    if let Some(target) = target {
        target.finish()?;
    }
    let mut facts = facts_of(&spec);
    if let Some(hash) = hash {
        let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        facts.push(("sha256", json!(hex)));
    }
    facts.extend(args.output.iter().filter(|_| !to_stdout).map(|path| ("file", json!(path))));
    // stdout already contains the edges.
    if to_stdout { Ok(ExitCode::SUCCESS) } else { print(&facts, args.format) }
}

fn build(args: &BuildArgs) -> CommandResult {
    let spec = spec(args.graph)?;
    graph::check_columns(args.columns)?;
    if args.output.exists() {
        build_dir::clean(&args.output);
        return Err(exists(&args.output));
    }
    let team = threads(args.threads);
    let mut facts = if out_of_core::fits_in_core(args, &spec, team)? {
        in_core(args, &spec, team)?
    } else {
        out_of_core::build(args, &spec, team)?
    };
    facts.push(("file", json!(args.output)));
    print(&facts, args.format)
}

fn in_core(args: &BuildArgs, spec: &Spec, team: PlainTeam) -> Result<GraphFacts, CliError> {
    graph::check_fits(spec).map_err(|error| {
        let requirements = BuildRequirements::of(spec, team.0, args.columns).map(|requirements| requirements.memory);
        let error = CliError::from(error);
        match requirements {
            Ok(memory) => error.hint(format!("build out of core with --memory SIZE, at least about {memory}")),
            Err(_) => error,
        }
    })?;
    let started = Instant::now();
    let placement = ArrayPlacement::kernel_default();
    let tuples = Tuples::generate(&team, spec, &placement)?;
    let generation = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let layout = graph::build(&team, &tuples, args.columns, &placement)?;
    let construction = started.elapsed().as_secs_f64();
    drop(tuples);
    let (head, tail, index) = layout.bytes();
    let mut target = AtomicFile::new(&args.output, Bytes(head + tail + index))?;
    graph::write(&layout, target.file()).map_err(|error| target.failed(&error))?;
    target.finish()?;
    let mut facts = facts_of_layout(&layout);
    facts.push(("construction", json!("in core")));
    facts.push(("generation_seconds", json!(generation)));
    facts.push(("construction_seconds", json!(construction)));
    Ok(facts)
}

fn info(args: &InfoArgs) -> CommandResult {
    let facts = match (&args.file, args.scale) {
        (Some(path), _) => {
            let file_error = |error: FileError| CliError::usage(format!("{}: {error}", path.display()));
            let file = File::open(path).map_err(|error| file_error(FileError::Io(error.to_string())))?;
            let mut from = BufReader::with_capacity(BUFFER, file);
            let layout = graph::read(&mut from, threads(None), &ArrayPlacement::kernel_default()).map_err(|error| {
                let hint = hint(&error);
                file_error(error).hint(hint)
            })?;
            facts_of_layout(&layout)
        }
        (None, scale) => {
            let spec = spec(GraphArgs { scale: scale.unwrap_or_default(), edge_factor: args.edge_factor })?;
            let mut facts = facts_of(&spec);
            facts.push(("edge_list_bytes", json!(EdgeEncoding::Pairs.bytes(&spec))));
            facts.push(("construction_bytes", json!(graph::bytes_needed(&spec).0)));
            if let Ok(requirements) = BuildRequirements::of(&spec, threads(None).0, DEFAULT_K) {
                facts.push(("out_of_core_bytes", json!(requirements.memory.0)));
                facts.push(("out_of_core_disk_bytes", json!(BuildRequirements::disk(&spec, requirements.memory).0)));
            }
            facts.push(("fits", json!(graph::check_fits(&spec).is_ok())));
            facts
        }
    };
    print(&facts, args.format)
}

fn hint(error: &FileError) -> &'static str {
    match error {
        FileError::Io(_) => "check that the file exists and is readable",
        FileError::Graph(_) => "reading needs memory for the file and for its vertices",
        FileError::Foreign => "create a graph file with nearfar graph build --scale S --output FILE",
        _ => "rebuild the file with nearfar graph build --scale S --output FILE",
    }
}

fn spec(graph: GraphArgs) -> Result<Spec, CliError> {
    let spec = Spec { edge_factor: graph.edge_factor, ..Spec::graph500(graph.scale) };
    spec.check()?;
    Ok(spec)
}

fn threads(threads: Option<usize>) -> PlainTeam {
    PlainTeam(threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)))
}

impl From<graph::Error> for CliError {
    fn from(error: graph::Error) -> Self {
        use graph::Error::{Columns, EdgeFactor, Little, Parts, Root, Scale, TooLarge};
        match error {
            Scale { .. } | EdgeFactor { .. } | Columns { .. } | Parts { .. } | Root(_) => Self::usage(&error),
            TooLarge { .. } | Little { .. } => Self::with(CliStatus::Skipped, &error),
            _ => Self::failure(&error),
        }
    }
}

fn facts_of(spec: &Spec) -> GraphFacts {
    vec![
        ("scale", json!(spec.scale)),
        ("edge_factor", json!(spec.edge_factor)),
        ("vertices", json!(spec.vertices())),
        ("edges_generated", json!(spec.edges())),
    ]
}

fn facts_of_layout(layout: &Layout) -> GraphFacts {
    facts_of_graph(layout.spec(), layout.vertices(), layout.edges(), layout.columns(), layout.bytes())
}

/// `bytes` are those of head columns, tail lists and index.
fn facts_of_graph(spec: &Spec, vertices: u64, edges: u64, columns: u32, bytes: (u64, u64, u64)) -> GraphFacts {
    let (head, tail, index) = bytes;
    let mut facts = facts_of(spec);
    facts.extend([
        ("vertices_connected", json!(vertices)),
        ("edges", json!(edges)),
        ("k", json!(columns)),
        ("head_bytes", json!(head)),
        ("tail_bytes", json!(tail)),
        ("index_bytes", json!(index)),
        ("bytes_per_edge", json!((head + tail + index) as f64 / edges as f64)),
    ]);
    facts
}

fn print(facts: &GraphFacts, format: TextOrJson) -> CommandResult {
    match format {
        TextOrJson::Json => {
            let map: serde_json::Map<String, Value> =
                facts.iter().map(|(name, value)| ((*name).to_string(), value.clone())).collect();
            output::print_json(&Value::Object(map))?;
        }
        TextOrJson::Text => {
            let line = |(name, value): &(&str, Value)| {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
                format!("{:20} {value}\n", name.replace('_', " "))
            };
            output::print(&facts.iter().map(line).collect::<String>())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes edges to stdout. Exits successfully if the reader has closed the pipe.
fn to_pipe(bytes: &[u8]) -> Result<(), CliError> {
    match std::io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.map_err(|error| CliError::failure(format!("cannot write to stdout: {error}"))),
    }
}

fn exists(path: &Path) -> CliError {
    CliError::usage(format!("{} already exists", path.display())).hint("choose another name or remove the file")
}
