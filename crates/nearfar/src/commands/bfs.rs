//! `nearfar bfs`: Graph500 searches over several shards, which are MPI ranks or threads of this process.

use std::process::ExitCode;

use graph::{Link, PlainTeam, Spec, Tuning};
use serde_json::{Map, Value, json};
use workloads::{ShardError, ShardRequest, ShardResult, search_in_parts};

use crate::cli::{BfsArgs, GlobalArgs, TextOrJson};
#[cfg(not(feature = "mpi"))]
use crate::error::CliStatus;
use crate::error::{CliError, CommandResult};
use crate::{mpi_launch, output};

/// Runs the searches as a rank if an MPI launcher started this process, else in threads of this process.
pub fn run(args: &BfsArgs, settings: &GlobalArgs) -> CommandResult {
    if mpi_launch::is_rank() { as_rank(args, settings) } else { in_threads(args, settings) }
}

fn in_threads(args: &BfsArgs, settings: &GlobalArgs) -> CommandResult {
    let parts = args.parts.map_or(1, |parts| parts as usize);
    let results = graph::together(&PlainTeam(parts), |link| Ok(search(link, args, settings)))?;
    let (done, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    match failed.into_iter().find_map(|result| result.err().flatten()) {
        Some(error) => Err(error),
        None => {
            done.into_iter().flatten().next().map_or_else(|| Err(no_reason()), |first| print(&first, args, 1, parts))
        }
    }
}

#[cfg(feature = "mpi")]
fn as_rank(args: &BfsArgs, settings: &GlobalArgs) -> CommandResult {
    crate::mpi::run(|world| {
        if args.parts.is_some() {
            let error = CliError::usage("--parts cannot be used under an MPI launcher: each rank holds one shard");
            return Err(Some(error.hint("omit --parts, or start nearfar without a launcher")));
        }
        let result = search(world, args, settings)?;
        if world.part() == 0 {
            print(&result, args, world.parts(), world.parts()).map_err(Some)?;
        }
        Ok(())
    })
}

/// Fails, because without MPI each process would search the whole graph.
#[cfg(not(feature = "mpi"))]
fn as_rank(_: &BfsArgs, _: &GlobalArgs) -> CommandResult {
    let error = CliError::with(
        CliStatus::Skipped,
        "this build of nearfar does not support MPI, but an MPI launcher started it",
    );
    Err(error.hint(
        "build with 'cargo build --release -p nearfar --features mpi' (on Debian, this needs libopenmpi-dev and libclang-dev), \
         or run nearfar bfs --parts N without a launcher",
    ))
}

/// Runs the searches of this shard. The error is `None` if another shard has failed.
fn search(link: &impl Link, args: &BfsArgs, settings: &GlobalArgs) -> Result<ShardResult, Option<CliError>> {
    let report = |message: &str| {
        if link.part() == 0 && !settings.quiet {
            message!("nearfar: {message}");
        }
    };
    search_in_parts(link, &shard_request(args), &report).map_err(|error| match error {
        ShardError::Graph(error) => Some(CliError::from(error)),
        ShardError::Search(error) => Some(CliError::failure(error)),
        ShardError::Elsewhere => None,
    })
}

fn shard_request(args: &BfsArgs) -> ShardRequest {
    let spec = Spec { edge_factor: args.graph.edge_factor, ..Spec::graph500(args.graph.scale) };
    let tuning = Tuning { alpha: args.alpha.into(), beta: args.beta.into(), ..Tuning::DRAM };
    ShardRequest { spec, roots: args.roots as usize, from: args.from.clone(), tuning, hubs: args.hubs as usize }
}

fn no_reason() -> CliError {
    CliError::failure("the shards of the search ended without an error message")
}

/// Returns whole numbers as integers.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 { json!(value as u64) } else { json!(value) }
}

/// Series with one value per root.
const BY_ROOT: [&str; 5] = ["TEPS", "time", "nedge", "nedge_with_loops", "levels"];

/// Prints the fields of the Graph500 output; JSON also contains the values of each root.
fn print(result: &ShardResult, args: &BfsArgs, processes: usize, parts: usize) -> CommandResult {
    let samples = &result.measured.samples;
    let mut fields = Map::new();
    fields.insert("SCALE".into(), json!(args.graph.scale));
    fields.insert("edgefactor".into(), json!(args.graph.edge_factor));
    fields.insert("NBFS".into(), json!(result.roots.len()));
    fields.insert("num_mpi_processes".into(), json!(processes));
    fields.insert("parts".into(), json!(parts));
    let once = samples.iter().filter(|sample| !BY_ROOT.contains(&sample.series.as_str()));
    fields.extend(once.map(|sample| (sample.series.clone(), number(sample.value))));
    match args.format {
        TextOrJson::Text => {
            let line = |(name, value): (&String, &Value)| format!("{:28}{value}\n", format!("{name}:"));
            output::print(&fields.iter().map(line).collect::<String>())?;
        }
        TextOrJson::Json => {
            let of_root = |(index, root): (usize, &u64)| {
                let value = |name: &&str| samples.iter().filter(|sample| sample.series == **name).nth(index);
                let values = BY_ROOT.iter().filter_map(|name| Some(((*name).into(), number(value(name)?.value))));
                Value::Object([("root".into(), json!(root))].into_iter().chain(values).collect())
            };
            fields.insert("roots".into(), result.roots.iter().enumerate().map(of_root).collect());
            output::print_json(&Value::Object(fields))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
