//! Graph500: breadth-first search from 64 roots of a Kronecker graph.
//!
//! Measures: edges traversed per second (TEPS) of each search, from before the root is visited until the parent of every vertex
//! is in memory in original labels, by all threads together: mostly small reads at random from bitmaps that fit a cache and
//! streams of neighbours that do not. Generation and construction are timed apart, and so is validation.
//! With `mode=semi-external` the coded rest of the lists lies in a file, and DRAM has what `dram` allows of the graph's edges; reads
//! of that file are inside the clock. What belongs to vertices (labels, maps, parents) is in DRAM in any mode. The edge list that results
//! are held against, which no search looks at, is in DRAM in-core; semi-external it is generated anew for each result, and construction
//! is out of core, so that the whole process takes no more than its searches do.
//! Does NOT use MPI, so its rate is no submission to the Graph500's list; `parts` is the search over it.
//! Definition: Graph500 specification, problem 1 (search): edge factor 16, the reference's generator bit for bit, its
//! roots, and its output's fields. Edges counted: input tuples in the root's component without self-loops, as the
//! reference code counts; `nedge_with_loops` has the specification's own count.
//! Checked in every trial, for every root, by the specification's five checks against the edge list as generated.

mod far;
mod options;
pub(crate) mod parts;
mod rates;
mod trial_team;
mod tune;

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use graph::{
    ArrayPlacement, Dram, Generator, HeadBudget, IoCounts, Layout, Nodes, OutOfCore, Roots, Search, SearchFootprint,
    Spec, Team, Tuning, Tuples, Validator,
};
use model::placements::placement::MemoryPolicy;
use model::values::id_set::NodeId;
use model::values::units::Nanos;
use model::values::workload::{Better, Parameters, WorkloadSpec};

use crate::describe::{Metric, metrics, parameters};
use crate::job::{Failure, KernelOutput, TrialContext};
use crate::kernels::arena;
use crate::team::TimedSpan;
use far::{FarTail, Parts};
use options::Options;
use rates::Searched;
use trial_team::TrialTeam;

/// Edges that a thread generates at a time: enough that the way to the first costs nothing.
const EDGES_AT_ONCE: usize = 1 << 12;
/// Asking about a page costs some 100 ns; of each array so many, spread over it, are asked about.
const PAGES_ASKED_MAX: usize = 1 << 14;

pub(crate) fn describe() -> WorkloadSpec {
    let mut metrics = metrics([
        Metric::median("harmonic_mean_TEPS", "TEPS", Better::Higher),
        Metric::median("harmonic_stddev_TEPS", "TEPS", Better::Lower),
    ]);
    metrics.extend(rates::metrics());
    let mut parameters = parameters(options::parameters());
    parameters.extend(crate::describe::parameters([arena::huge_pages_parameter()]));
    WorkloadSpec {
        name: "bfs".into(),
        summary: "breadth-first searches of a Kronecker graph (Graph500)".into(),
        about: "Edges traversed per second by breadth-first searches from the Graph500's 64 roots of its Kronecker graph of \
                2^scale vertices, in the direction that reads less at each level (alpha, beta), over a graph whose first k \
                neighbours of each vertex lie in columns and whose others are coded. Parents are in original labels inside \
                the clock; all of the specification's five checks are made for every root. TEPS count input edges of the \
                component with multi-edges and without self-loops, as the reference code does. Not MPI. Source: Graph500 \
                specification and reference code 3."
            .into(),
        parameters,
        metrics,
        threads_exactly: None,
        trial_time_guess: Nanos(15_000_000_000),
    }
}

pub(crate) fn check(parameters: &Parameters) -> Result<(), String> {
    options::dram(parameters).map(drop)
}

pub(crate) fn run(job: &TrialContext) -> Result<KernelOutput, Failure> {
    if job.memory.is_beyond_dram() {
        return Err(Failure::Unavailable("a graph in a file is mode=semi-external, not a memory policy".into()));
    }
    let options = Options::read(&job.parameters)?;
    match options.dram {
        None => graph::check_fits(&options.spec)?,
        Some(dram) => SearchFootprint::of(&options.spec, job.threads, dram)?.check_fits(&options.spec)?,
    }
    let room = options.room(job);
    let (mut measured, seats) = trial_team::lead(job, |crew| {
        let nodes = nodes(job, crew)?;
        measure(&options, crew, nodes, &room)
    })?;
    measured.thread_seats = seats;
    Ok(measured)
}

/// A graph, ready to be searched.
struct Graph {
    layout: Layout,
    /// Where the rest of TAIL lies.
    far: Option<FarTail>,
    budget: Option<HeadBudget>,
    edges: EdgeList,
    /// Seconds.
    generation: f64,
    construction: f64,
}

/// What results are held against.
enum EdgeList {
    Here(Tuples),
    /// There is no room for them: generated anew for each.
    Anew(Box<Generator>),
}

impl EdgeList {
    fn validator<'t>(&'t self, spec: &Spec) -> Validator<'t> {
        match self {
            Self::Here(tuples) => Validator::new(tuples),
            Self::Anew(generator) => Validator::streaming(spec, &**generator),
        }
    }
}

fn construct(options: &Options, crew: &TrialTeam<'_>, room: &ArrayPlacement) -> Result<Graph, Failure> {
    match options.dram {
        None => in_core(options, crew, room),
        Some(dram) => beyond(options, dram, crew, room),
    }
}

fn in_core(options: &Options, crew: &TrialTeam<'_>, room: &ArrayPlacement) -> Result<Graph, Failure> {
    let began = Instant::now();
    let tuples = Tuples::generate(crew, &options.spec, room)?;
    let generation = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let layout = graph::build(crew, &tuples, options.columns_or_default(), room)?;
    let construction = began.elapsed().as_secs_f64();
    let edges = if options.keeps_edges {
        EdgeList::Here(tuples)
    } else {
        EdgeList::Anew(Box::new(Generator::new(&options.spec)?))
    };
    Ok(Graph { layout, far: None, budget: None, edges, generation, construction })
}

/// In no more memory than it is then searched in.
fn beyond(options: &Options, dram: Dram, crew: &TrialTeam<'_>, room: &ArrayPlacement) -> Result<Graph, Failure> {
    let spec = &options.spec;
    let needs = SearchFootprint::of(spec, crew.threads(), dram)?;
    let place = far::place(&options.folder)?;
    far::check(&place, &needs)?;
    let generator = Generator::new(spec)?;
    let generation = generation(spec, &generator, crew)?;
    let began = Instant::now();
    let parts = Parts::new(place, needs.disk);
    let with = OutOfCore { storage: &parts, edges: Some(&generator), memory: needs.construction, watch: &|_| {} };
    let (layout, budget) = graph::build_beyond(crew, spec, (dram, options.columns), &with, room)?;
    let far = parts.into_tail(layout.tail_bytes())?;
    let construction = began.elapsed().as_secs_f64();
    let edges = EdgeList::Anew(Box::new(generator));
    Ok(Graph { layout, far: Some(far), budget: Some(budget), edges, generation, construction })
}

/// Seconds in which all threads generate the edges, keeping none.
fn generation(spec: &Spec, generator: &Generator, crew: &TrialTeam<'_>) -> Result<f64, Failure> {
    let began = Instant::now();
    crew.run(&|hand| {
        let own = hand.share(spec.edges() as usize);
        let mut edges = vec![[0; 2]; EDGES_AT_ONCE];
        for first in own.clone().step_by(EDGES_AT_ONCE) {
            let batch = &mut edges[..EDGES_AT_ONCE.min(own.end - first)];
            generator.fill(first as u64, std::hint::black_box(batch));
        }
        Ok(())
    })?;
    Ok(began.elapsed().as_secs_f64())
}

/// The nodes of the threads, where they have seats: others may be elsewhere in a moment.
fn nodes(job: &TrialContext, crew: &TrialTeam<'_>) -> Result<Nodes, Failure> {
    let one = Nodes::one(crew.threads());
    if job.seats.is_empty() {
        return Ok(one);
    }
    let known = Mutex::new(vec![None; crew.threads()]);
    crew.run(&|hand| {
        known.lock().unwrap_or_else(PoisonError::into_inner)[hand.index] = machine::affinity::current_node();
        Ok(())
    })?;
    let known: Option<Vec<NodeId>> = known.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect();
    Ok(known.map_or(one, |nodes| Nodes::of_threads(&nodes)))
}

fn measure(
    options: &Options,
    crew: &TrialTeam<'_>,
    nodes: Nodes,
    room: &ArrayPlacement,
) -> Result<KernelOutput, Failure> {
    let graph = construct(options, crew, room)?;
    let layout = &graph.layout;
    // A policy that names nodes is the user's.
    if nodes.count() > 1 && matches!(room.policy, MemoryPolicy::Kernel | MemoryPolicy::Local) {
        // Where the system forbids it pages stay, and the trial's pages by node tell.
        let _ = layout.settle(&nodes);
    }
    let mut search = Search::new(layout, options.isa, nodes, room)?;
    prepare(crew, &search, graph.far.as_ref(), room)?;
    let bytes_per_edge = bytes_per_edge(layout, &search);
    let (pages, isa) = (pages(layout, &search)?, search.isa());
    let tuned = options.tune.then(|| tune::tune(options, crew, &search)).transpose()?;
    let tuning = tuned.as_ref().map_or(options.tuning, |tuned| tuned.tuning);
    let validator = graph.edges.validator(&options.spec);
    let searched = searches(options, &tuning, crew, &validator, &mut search)?;

    let mut measured = KernelOutput { pages, ..KernelOutput::default() };
    rates::push(&mut measured, &searched)?;
    rates::push_io(&mut measured, &searched)?;
    measured.push("graph_generation", graph.generation)?;
    measured.push("construction_time", graph.construction)?;
    measured.push("bytes_per_edge", bytes_per_edge)?;
    measured.push("dram_used", layout.edge_bytes() as f64)?;
    if let Some((_, peak)) = machine::memory::resident() {
        measured.push("memory_peak", peak.0 as f64)?;
    }
    // No metrics, but what was searched.
    measured.push("edges", layout.edges() as f64)?;
    measured.push("vertices", layout.vertices() as f64)?;
    measured.push("columns", f64::from(layout.columns()))?;
    measured.push("vector_bits", options::vector_bits(isa))?;
    measured.push("alpha", tuning.alpha)?;
    measured.push("beta", tuning.beta)?;
    tuned.map_or(Ok(()), |tuned| tuned.push(&mut measured))?;
    if let Some(budget) = graph.budget {
        measured.push("near_neighbours", f64::from(layout.columns()) + layout.beginnings() as f64)?;
        measured.push("dram_asked", budget.dram.0 as f64)?;
        measured.push("coded_bytes", budget.coded.0 as f64)?;
    }
    Ok(measured)
}

/// Touches all memory, and gives each thread its way to what lies elsewhere.
fn prepare(
    crew: &TrialTeam<'_>,
    search: &Search<'_>,
    far: Option<&FarTail>,
    room: &ArrayPlacement,
) -> Result<(), Failure> {
    let refused = Mutex::new(None);
    crew.run(&|hand| {
        search.prepare(hand);
        match far.map(|far| far.way(&room.policy)) {
            Some(Ok(way)) => search.fetch_by(hand, way),
            Some(Err(failure)) => *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure),
            None => {}
        }
        Ok(())
    })?;
    refused.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// All that a search needs in memory: HEAD, TAIL or what of it is there, index, labels, maps, lists, parents; per edge between different vertices.
fn bytes_per_edge(layout: &Layout, search: &Search<'_>) -> f64 {
    let (head, tail, index) = layout.bytes();
    (head + tail + index + search.bytes()) as f64 / layout.edges() as f64
}

fn pages(layout: &Layout, search: &Search<'_>) -> Result<std::collections::BTreeMap<NodeId, u64>, Failure> {
    let both = layout.pages_by_node(PAGES_ASKED_MAX).and_then(|mut pages| {
        for (node, count) in search.pages_by_node(PAGES_ASKED_MAX)? {
            *pages.entry(node).or_insert(0) += count;
        }
        Ok(pages)
    });
    arena::pages(both)
}

/// Searches from each root, one at a time, and validates each result before the next.
fn searches(
    options: &Options,
    tuning: &Tuning,
    crew: &TrialTeam<'_>,
    validator: &Validator<'_>,
    search: &mut Search<'_>,
) -> Result<Vec<Searched>, Failure> {
    let mut roots = Roots::new(&options.spec);
    let mut searched = Vec::new();
    while searched.len() < options.roots {
        // A small graph has fewer roots than are asked for.
        let Some(root) = roots.next(|vertex| search.check_root(vertex).is_ok()) else { break };
        let (seconds, io) = timed(tuning, crew, search, root)?;
        let began = Instant::now();
        let reached = validator.check(crew, root as u32, search.parents())?;
        let reached =
            reached.map_err(|wrong| Failure::Failed(format!("the search from root {root} is wrong: {wrong}")))?;
        searched.push(Searched { seconds, reached, io, validation: began.elapsed().as_secs_f64() });
    }
    Ok(searched)
}

/// One search: seconds from the first thread's start to the last one's end, and what it read from a disk.
fn timed(tuning: &Tuning, crew: &TrialTeam<'_>, search: &Search<'_>, root: u64) -> Result<(f64, IoCounts), Failure> {
    search.check_root(root)?;
    let laps = Mutex::new(Vec::new());
    crew.run(&|hand| {
        hand.barrier()?;
        let start = Instant::now();
        search.run(hand, root, tuning)?;
        let lap = TimedSpan { start, end: Instant::now() };
        laps.lock().unwrap_or_else(PoisonError::into_inner).push(lap);
        Ok(())
    })?;
    let laps = laps.into_inner().unwrap_or_else(PoisonError::into_inner);
    let io = search.io().map_err(|why| Failure::Failed(format!("the search from root {root} failed: {why}")))?;
    Ok((TimedSpan::seconds_of_all(laps.into_iter()), io))
}

#[cfg(test)]
mod tests;
