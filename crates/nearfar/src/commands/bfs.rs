//! `nearfar bfs`: the Graph500's searches by several parts together, ranks over MPI or threads of this process.

use std::process::ExitCode;

use graph::{Link, PlainTeam, Spec, Tuning};
use serde_json::{Map, Value, json};
use workloads::{ShardError, ShardRequest, ShardResult, search_in_parts};

use crate::cli::{BfsArgs, GlobalArgs, TextOrJson};
#[cfg(not(feature = "mpi"))]
use crate::error::CliStatus;
use crate::error::{CliError, CommandResult};
use crate::{mpi_launch, output};

/// Runs the searches with the other ranks where a launcher has started this process as one, else with parts of its own.
pub fn run(args: &BfsArgs, settings: &GlobalArgs) -> CommandResult {
    if mpi_launch::is_there() { as_rank(args, settings) } else { alone(args, settings) }
}

fn alone(args: &BfsArgs, settings: &GlobalArgs) -> CommandResult {
    let parts = args.parts.map_or(1, |parts| parts as usize);
    let results = graph::together(&PlainTeam(parts), |link| Ok(searched(link, args, settings)))?;
    let (done, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    match failed.into_iter().find_map(|result| result.err().flatten()) {
        Some(failure) => Err(failure),
        None => done.into_iter().flatten().next().map_or_else(|| Err(unknown()), |first| say(&first, args, 1, parts)),
    }
}

#[cfg(feature = "mpi")]
fn as_rank(args: &BfsArgs, settings: &GlobalArgs) -> CommandResult {
    crate::mpi::run(|world| {
        if args.parts.is_some() {
            let failure = CliError::usage("the launcher has said how many parts there are: its ranks");
            return Err(Some(failure.hint("leave --parts out, or start nearfar without a launcher")));
        }
        let searched = searched(world, args, settings)?;
        if world.part() == 0 {
            say(&searched, args, world.parts(), world.parts()).map_err(Some)?;
        }
        Ok(())
    })
}

/// Without MPI the processes know nothing of each other: each would search the whole graph by itself.
#[cfg(not(feature = "mpi"))]
fn as_rank(_: &BfsArgs, _: &GlobalArgs) -> CommandResult {
    let failure =
        CliError::with(CliStatus::Skipped, "this build of nearfar has no MPI, and a launcher of MPI has started it");
    Err(failure.hint(
        "cargo build --release -p nearfar --features mpi (on Debian it needs libopenmpi-dev and libclang-dev); \
         without a launcher, nearfar bfs --parts N searches in N parts of one process",
    ))
}

/// What this part and all others do together. A failure without a reason is another part's.
fn searched(link: &impl Link, args: &BfsArgs, settings: &GlobalArgs) -> Result<ShardResult, Option<CliError>> {
    let say = |what: &str| {
        if link.part() == 0 && !settings.quiet {
            anstream::eprintln!("nearfar: {what}");
        }
    };
    search_in_parts(link, &asked(args), &say).map_err(|failure| match failure {
        ShardError::Graph(error) => Some(CliError::from(error)),
        ShardError::Search(failure) => Some(CliError::of(failure)),
        ShardError::Elsewhere => None,
    })
}

fn asked(args: &BfsArgs) -> ShardRequest {
    let spec = Spec { edge_factor: args.which.edge_factor, ..Spec::graph500(args.which.scale) };
    let tuning = Tuning { alpha: args.alpha.into(), beta: args.beta.into(), ..Tuning::DRAM };
    ShardRequest { spec, roots: args.roots as usize, from: args.from.clone(), tuning, hubs: args.hubs as usize }
}

fn unknown() -> CliError {
    CliError::of("the parts of the search ended without saying why")
}

/// Counts as what they are.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 { json!(value as u64) } else { json!(value) }
}

/// Series that have a value for each root.
const BY_ROOT: [&str; 5] = ["TEPS", "time", "nedge", "nedge_with_loops", "levels"];

/// The fields of the Graph500's output, and in JSON each root's.
fn say(searched: &ShardResult, args: &BfsArgs, processes: usize, parts: usize) -> CommandResult {
    let samples = &searched.measured.samples;
    let mut fields = Map::new();
    fields.insert("SCALE".into(), json!(args.which.scale));
    fields.insert("edgefactor".into(), json!(args.which.edge_factor));
    fields.insert("NBFS".into(), json!(searched.roots.len()));
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
            fields.insert("roots".into(), searched.roots.iter().enumerate().map(of_root).collect());
            output::print_json(&Value::Object(fields))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
