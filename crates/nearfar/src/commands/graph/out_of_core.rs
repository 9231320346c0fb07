//! `nearfar graph build --memory SIZE`: builds a graph with limited memory and a directory on disk.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use graph::{
    ArrayPlacement, BuildRequirements, Built, EdgeEncoding, Edges, Error, Generator, OutOfCore, PlainTeam, Spec,
    StorageErrorKind,
};
use model::values::units::Bytes;
use serde_json::json;

use super::build_dir::{self, BuildDir};
use super::progress::Eta;
use super::{GraphFacts, exists, facts_of_graph};
use crate::cli::{BuildArgs, EdgeFormat};
use crate::error::{CliError, CliStatus};

/// Reserve for uncounted memory: stacks, per-thread memory of the C library, and program parts that are not loaded yet.
const RESERVE: u64 = 8 << 20;
const RESERVE_PER_THREAD: u64 = 1 << 20;
/// Number of edges at the start of each read that are compared with the generator.
const CHECKED_EDGES: usize = 16;

/// The limit of `--memory`, and the part of it that is not available for arrays and buffers.
struct MemoryBudget {
    limit: Bytes,
    /// For the program itself. The initial memory of a process varies, so a resumed build uses the number of its first
    /// start: it must not be refused after it was accepted.
    program: Bytes,
    threads: u64,
}

impl MemoryBudget {
    fn new(limit: Bytes, threads: usize, program: Option<Bytes>) -> Result<Self, CliError> {
        let own = || -> Result<Bytes, CliError> {
            let (own, _) = machine::memory::resident().ok_or_else(|| {
                CliError::with(
                    CliStatus::Skipped,
                    "--memory is not supported: the memory usage of this process is unknown",
                )
                .hint("mount /proc; the usage is in /proc/self/status")
            })?;
            Ok(Bytes(own.0 + RESERVE))
        };
        Ok(Self { limit, program: program.map_or_else(own, Ok)?, threads: threads as u64 })
    }

    fn reserved(&self) -> u64 {
        self.program.0 + RESERVE_PER_THREAD * self.threads
    }

    fn available(&self) -> Bytes {
        Bytes(self.limit.0.saturating_sub(self.reserved()))
    }

    fn too_little(&self, scale: u32, threads: usize, needed: Bytes) -> CliError {
        let (needed, limit) = (Bytes(needed.0 + self.reserved()), self.limit);
        let message = format!(
            "a build at scale {scale} with {threads} threads needs at least {needed} of memory; --memory is {limit}"
        );
        CliError::with(CliStatus::Skipped, message)
            .hint(format!("use --memory {}MiB or fewer threads", needed.0.div_ceil(1 << 20)))
    }
}

/// Whether the build fits in memory; that is faster.
pub fn fits_in_core(args: &BuildArgs, spec: &Spec, threads: PlainTeam) -> Result<bool, CliError> {
    let Some(limit) = args.memory else { return Ok(args.edge_list.is_none()) };
    let fits = graph::bytes_needed(spec) <= MemoryBudget::new(limit, threads.0, None)?.available();
    Ok(fits && args.edge_list.is_none() && !build_dir::path_of(&args.output).exists())
}

/// Builds the graph, or resumes an interrupted build.
pub fn build(args: &BuildArgs, spec: &Spec, threads: PlainTeam) -> Result<GraphFacts, CliError> {
    let started = Instant::now();
    let is_resumed = build_dir::path_of(&args.output).exists();
    let reserved = build_dir::reserved(&args.output);
    let memory = MemoryBudget::new(args.memory.unwrap_or(Bytes(u64::MAX)), threads.0, reserved)?;
    let requirements = BuildRequirements::of(spec, threads.0, args.columns)?;
    if requirements.memory > memory.available() {
        return Err(memory.too_little(spec.scale, threads.0, requirements.memory));
    }
    let edge_file = args.edge_list.is_some().then(|| EdgeFile::open(args, spec)).transpose()?;
    let disk = BuildRequirements::disk(spec, memory.available());
    check_disk(args, disk)?;
    let dir = BuildDir::open(&args.output)?;
    dir.reserve(memory.program)?;
    let eta = Eta::new();
    let options = OutOfCore {
        storage: &dir,
        edges: edge_file.as_ref().map(|file| file as &dyn Edges),
        memory: memory.available(),
        watch: &|progress| eta.show(progress),
    };
    let built = graph::build_out_of_core(&threads, spec, args.columns, &options, &ArrayPlacement::kernel_default());
    eta.finish();
    let built = built.map_err(|error| failure(error, &memory, &dir, spec, threads.0, disk))?;
    dir.publish(&args.output).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(&args.output),
        _ => CliError::failure(format!("cannot create {}: {error}", args.output.display())),
    })?;
    let mut facts = facts(spec, &built);
    facts.push(("construction", json!(if is_resumed { "out of core, resumed" } else { "out of core" })));
    facts.push(("seconds", json!(started.elapsed().as_secs_f64())));
    if let Some((_, peak)) = machine::memory::resident() {
        facts.push(("memory_peak_bytes", json!(peak.0)));
    }
    Ok(facts)
}

fn facts(spec: &Spec, built: &Built) -> GraphFacts {
    let Built { header, index_bytes, tail_bytes } = built;
    let head = header.sections.iter().find(|section| section.0 == "HEAD").map_or(0, |section| section.1);
    facts_of_graph(spec, header.ranks, header.neighbours / 2, header.columns, (head, *tail_bytes, *index_bytes))
}

/// Fails if the disk has too little free space, not counting what the build directory already uses.
fn check_disk(args: &BuildArgs, needed: Bytes) -> Result<(), CliError> {
    let Ok(free) = machine::probes::free_disk_bytes(files::dir_of(&args.output)) else { return Ok(()) };
    let used = build_dir::used(&build_dir::path_of(&args.output));
    if needed.0 <= free.0.saturating_add(used.0) {
        return Ok(());
    }
    let message =
        format!("{}: the build needs about {needed} of disk space, only {free} are free", args.output.display());
    Err(CliError::with(CliStatus::Skipped, message).hint("use a smaller scale or another disk"))
}

/// Converts an error of the build; messages name the build directory.
fn failure(error: Error, memory: &MemoryBudget, dir: &BuildDir, spec: &Spec, threads: usize, disk: Bytes) -> CliError {
    let path = dir.path().display();
    let storage_error = match error {
        Error::Little { needed, .. } => return memory.too_little(spec.scale, threads, needed),
        Error::Storage(error) => error,
        Error::NoEdges => {
            // Best effort: there is nothing to resume from.
            let _ = dir.remove();
            return error.into();
        }
        other => return other.into(),
    };
    match storage_error.kind {
        StorageErrorKind::Full => {
            let used = build_dir::used(dir.path());
            let more = Bytes(disk.0.saturating_sub(used.0));
            CliError::failure(format!(
                "{storage_error}; the build needs about {disk} of disk space, {more} more than it uses now"
            ))
            .hint(format!("free disk space and rerun the command to resume, or remove {path} to cancel the build"))
        }
        StorageErrorKind::Damaged => {
            CliError::usage(&storage_error).hint(format!("remove {path} to restart the build"))
        }
        StorageErrorKind::Foreign => CliError::usage(format!("{path}: {storage_error}"))
            .hint("rerun the original command to resume that build, or remove the directory"),
        StorageErrorKind::Other => CliError::failure(&storage_error).hint("rerun the command to resume"),
    }
}

/// An edge list in a file.
struct EdgeFile {
    file: File,
    name: String,
    encoding: EdgeEncoding,
    width: usize,
    spec: Spec,
    generator: Generator,
}

impl EdgeFile {
    fn open(args: &BuildArgs, spec: &Spec) -> Result<Self, CliError> {
        let path = args.edge_list.as_deref().unwrap_or(&args.output);
        let name = path.display().to_string();
        let encoding = match args.edges {
            EdgeFormat::Pairs => EdgeEncoding::Pairs,
            EdgeFormat::Packed => EdgeEncoding::Packed,
            EdgeFormat::Text => EdgeEncoding::Text,
        };
        let width = encoding.width().ok_or_else(|| {
            CliError::usage(format!("{name}: --edges text is not supported, because text has no random access"))
                .hint("write the edges with nearfar graph edges --edges pairs")
        })?;
        let file_error = |error: std::io::Error| CliError::usage(format!("{name}: {error}"));
        let file = File::open(path).map_err(file_error)?;
        let (length, expected) = (file.metadata().map_err(file_error)?.len(), encoding.bytes(spec));
        if length != expected {
            let (scale, factor) = (spec.scale, spec.edge_factor);
            let message = format!(
                "{name}: the file has {length} bytes, but {} edges of scale {scale} and edge factor {factor} need {expected}",
                if encoding == EdgeEncoding::Pairs { "unpacked" } else { "packed" }
            );
            return Err(CliError::usage(message).hint("set --scale, --edge-factor and --edges to those of the file"));
        }
        let generator = Generator::new(spec)?;
        Ok(Self { file, name, encoding, width, spec: *spec, generator })
    }
}

impl Edges for EdgeFile {
    fn fill(&self, first: u64, edges: &mut [[u64; 2]]) -> Result<(), String> {
        let mut bytes = vec![0; edges.len() * self.width];
        let read = self.file.read_exact_at(&mut bytes, first * self.width as u64);
        read.map_err(|error| format!("cannot read {}: {error}", self.name))?;
        self.encoding.read(&bytes, edges);
        let mut expected = [[0; 2]; CHECKED_EDGES];
        let expected = &mut expected[..edges.len().min(CHECKED_EDGES)];
        self.generator.fill(first, expected);
        // The header of the graph file names this graph, so the edges must belong to it.
        let different = (first..).zip(edges.iter().zip(&*expected)).find(|(_, (edge, expected))| edge != expected);
        if let Some((at, ([a, b], [c, d]))) = different {
            let scale = self.spec.scale;
            return Err(format!(
                "{}: another graph: edge {at} is {a} {b}, but {c} {d} in the Graph500 graph of scale {scale}",
                self.name
            ));
        }
        match edges.iter().flatten().find(|vertex| **vertex >= self.spec.vertices()) {
            Some(vertex) => {
                Err(format!("{}: vertex {vertex} is out of range for scale {}", self.name, self.spec.scale))
            }
            None => Ok(()),
        }
    }
}
