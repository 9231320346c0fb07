//! `nearfar graph build --dram SIZE`: construction in so much memory, the rest in a folder beside the graph's file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use graph::{
    ArrayPlacement, BuildRequirements, Built, EdgeEncoding, Edges, Error, Generator, OutOfCore, PlainTeam, Spec,
    StorageErrorKind,
};
use model::values::units::Bytes;
use serde_json::json;

use super::build_dir::{self, Folder};
use super::progress::Eta;
use super::{GraphFacts, exists, facts_of_graph, folder_of};
use crate::cli::{BuildArgs, EdgeFormat};
use crate::error::{CliError, CliStatus};

/// What the program needs beside what is counted: stacks, what the C library keeps for each thread, program not yet loaded. Who goes on
/// with what fitted counts on half of it, for a process does not begin with as much memory each time.
const BESIDE: u64 = 8 << 20;
const BESIDE_EACH_THREAD: u64 = 1 << 20;
/// So many edges of each thousand or so that are read are held against those of the generator.
const COMPARED: usize = 16;

/// Memory for arrays and buffers, and what else the program has of it.
struct MemoryBudget {
    asked: Bytes,
    beside: u64,
}

impl MemoryBudget {
    fn of(asked: Bytes, threads: usize, goes_on: bool) -> Result<Self, CliError> {
        let (own, _) = machine::memory::resident().ok_or_else(|| {
            CliError::with(
                CliStatus::Skipped,
                "how much memory this process has is not known, so --dram cannot be kept",
            )
            .hint("the kernel tells it in /proc/self/status")
        })?;
        let beside = if goes_on { BESIDE / 2 } else { BESIDE };
        Ok(Self { asked, beside: own.0 + beside + BESIDE_EACH_THREAD * threads as u64 })
    }

    fn left(&self) -> Bytes {
        Bytes(self.asked.0.saturating_sub(self.beside))
    }

    /// The refusal of too little.
    fn too_little(&self, scale: u32, threads: usize, needed: Bytes) -> CliError {
        let (needed, asked) = (Bytes(needed.0 + self.beside), self.asked);
        let what = format!(
            "construction of a graph of scale {scale} with {threads} threads needs at least {needed} of memory; --dram allows {asked}"
        );
        CliError::with(CliStatus::Skipped, what)
            .hint(format!("--dram {}MiB, or fewer threads", needed.0.div_ceil(1 << 20)))
    }
}

/// Whether all of it fits, so that construction in memory, which is faster, does.
pub fn fits_in_core(args: &BuildArgs, spec: &Spec, threads: PlainTeam) -> Result<bool, CliError> {
    let Some(dram) = args.dram else { return Ok(args.from.is_none()) };
    let fits = graph::bytes_needed(spec) <= MemoryBudget::of(dram, threads.0, false)?.left();
    Ok(fits && args.from.is_none() && !build_dir::path_of(&args.output).exists())
}

/// Constructs the graph, or goes on with it.
pub fn build(args: &BuildArgs, spec: &Spec, threads: PlainTeam) -> Result<GraphFacts, CliError> {
    let began = Instant::now();
    let goes_on = build_dir::path_of(&args.output).exists();
    let memory = MemoryBudget::of(args.dram.unwrap_or(Bytes(u64::MAX)), threads.0, goes_on)?;
    let needs = BuildRequirements::of(spec, threads.0, args.k)?;
    if needs.memory > memory.left() {
        return Err(memory.too_little(spec.scale, threads.0, needs.memory));
    }
    let list = args.from.is_some().then(|| EdgeFile::open(args, spec)).transpose()?;
    let disk = BuildRequirements::disk(spec, memory.left());
    check_disk(args, disk)?;
    let folder = Folder::open(&args.output)?;
    let left = Eta::new();
    let with = OutOfCore {
        storage: &folder,
        edges: list.as_ref().map(|list| list as &dyn Edges),
        memory: memory.left(),
        watch: &|progress| left.show(progress),
    };
    let built = graph::build_out_of_core(&threads, spec, args.k, &with, &ArrayPlacement::kernel_default());
    left.finish();
    let built = built.map_err(|error| failure(error, &memory, &folder, spec, threads.0, disk))?;
    folder.publish(&args.output).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(&args.output),
        _ => CliError::of(format!("cannot give the graph its name {}: {error}", args.output.display())),
    })?;
    let mut facts = facts(spec, &built);
    facts.push(("construction", json!(if goes_on { "out of core, gone on with" } else { "out of core" })));
    facts.push(("seconds", json!(began.elapsed().as_secs_f64())));
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

/// Refuses what the disk has no room for, beside what is there already.
fn check_disk(args: &BuildArgs, needed: Bytes) -> Result<(), CliError> {
    let Ok(free) = machine::probes::free_disk_bytes(folder_of(&args.output)) else { return Ok(()) };
    let used = build_dir::used(&build_dir::path_of(&args.output));
    if needed.0 <= free.0.saturating_add(used.0) {
        return Ok(());
    }
    let what = format!("{}: construction takes about {needed} of its disk, which has {free}", args.output.display());
    Err(CliError::with(CliStatus::Skipped, what).hint("take a smaller scale, or another disk"))
}

/// What went wrong, in words that name the folder and the next step.
fn failure(error: Error, memory: &MemoryBudget, folder: &Folder, spec: &Spec, threads: usize, disk: Bytes) -> CliError {
    let path = folder.path().display();
    let trouble = match error {
        Error::Little { needed, .. } => return memory.too_little(spec.scale, threads, needed),
        Error::Storage(trouble) => trouble,
        Error::NoEdges => {
            // There is nothing to go on with; what cannot be removed can be by hand.
            let _ = std::fs::remove_dir_all(folder.path());
            return error.into();
        }
        other => return other.into(),
    };
    match trouble.kind {
        StorageErrorKind::Full => {
            let used = build_dir::used(folder.path());
            let more = Bytes(disk.0.saturating_sub(used.0));
            CliError::of(format!(
                "{trouble}; construction takes about {disk} of this disk, {more} more than it has now"
            ))
            .hint(format!("make room and repeat the command: it goes on where it was. Removing {path} gives it up"))
        }
        StorageErrorKind::Damaged => CliError::usage(&trouble).hint(format!("remove {path} to begin anew")),
        StorageErrorKind::Foreign => CliError::usage(format!("{path}: {trouble}"))
            .hint("repeat that command to go on with it, or remove the folder"),
        StorageErrorKind::Other => CliError::of(&trouble).hint("repeat the command: it goes on where it was"),
    }
}

/// An edge list in a file.
struct EdgeFile {
    file: File,
    name: String,
    form: EdgeEncoding,
    width: usize,
    spec: Spec,
    generator: Generator,
}

impl EdgeFile {
    fn open(args: &BuildArgs, spec: &Spec) -> Result<Self, CliError> {
        let path = args.from.as_deref().unwrap_or(&args.output);
        let name = path.display().to_string();
        let form = match args.edges {
            EdgeFormat::Pairs => EdgeEncoding::Pairs,
            EdgeFormat::Packed => EdgeEncoding::Packed,
            EdgeFormat::Text => EdgeEncoding::Text,
        };
        let width = form.width().ok_or_else(|| {
            CliError::usage(format!("{name}: edges as text cannot be read from any place"))
                .hint("have them written as pairs: nearfar graph edges --edges pairs")
        })?;
        let refused = |error: std::io::Error| CliError::usage(format!("{name}: {error}"));
        let file = File::open(path).map_err(refused)?;
        let (length, expected) = (file.metadata().map_err(refused)?.len(), form.bytes(spec));
        if length != expected {
            let (scale, factor) = (spec.scale, spec.edge_factor);
            let what = format!(
                "{name} has {length} bytes; the edges of scale {scale} and edge factor {factor} take {expected} as {}",
                if form == EdgeEncoding::Pairs { "pairs" } else { "packed ones" }
            );
            return Err(CliError::usage(what).hint("say its --scale, --edge-factor and --edges"));
        }
        let generator = Generator::new(spec)?;
        Ok(Self { file, name, form, width, spec: *spec, generator })
    }
}

impl Edges for EdgeFile {
    fn fill(&self, first: u64, edges: &mut [[u64; 2]]) -> Result<(), String> {
        let mut bytes = vec![0; edges.len() * self.width];
        let read = self.file.read_exact_at(&mut bytes, first * self.width as u64);
        read.map_err(|error| format!("cannot read {}: {error}", self.name))?;
        self.form.read(&bytes, edges);
        let mut right = [[0; 2]; COMPARED];
        let right = &mut right[..edges.len().min(COMPARED)];
        self.generator.fill(first, right);
        // The file's header will say which graph it is.
        let wrong = (first..).zip(edges.iter().zip(&*right)).find(|(_, (own, right))| own != right);
        if let Some((at, ([a, b], [c, d]))) = wrong {
            let scale = self.spec.scale;
            return Err(format!(
                "{}: edge {at} is {a} {b}, and in the Graph500's graph of scale {scale} it is {c} {d}: this is another graph",
                self.name
            ));
        }
        match edges.iter().flatten().find(|vertex| **vertex >= self.spec.vertices()) {
            Some(vertex) => Err(format!("{}: {vertex} is no vertex at scale {}", self.name, self.spec.scale)),
            None => Ok(()),
        }
    }
}
