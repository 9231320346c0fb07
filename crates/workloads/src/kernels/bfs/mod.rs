//! Graph500: breadth-first search from 64 roots of a Kronecker graph.
//!
//! Measures: traversed edges per second (TEPS) of each search by all threads together. The time starts before the root
//! is visited and ends when the parent of every vertex is in memory with original labels. The work is mostly small
//! random reads from bitmaps that fit in a cache, and streams of neighbours that do not. Generation, construction and
//! validation are timed separately.
//! With `mode=semi-external` the coded rest of the lists is in a file, and `dram` limits the part of the edges in DRAM.
//! Reads of that file are part of the time. Data per vertex (labels, maps, parents) is in DRAM in any mode. In-core,
//! the edge list for the validation is in DRAM as well; searches do not access it. Semi-external, it is generated again
//! for each result, and construction is out of core, so that the whole process needs no more memory than its searches.
//! Does NOT use MPI, so its rate is not a submission to the Graph500's list; `parts` implements the distributed search.
//! Definition: Graph500 specification, problem 1 (search): edge factor 16, the reference's generator bit for bit, its
//! roots, and the fields of its output. Edges counted: input tuples in the root's component without self-loops, as in
//! the reference code; `nedge_with_loops` is the specification's count.
//! Checked in every trial, for every root, by the specification's five checks against the generated edge list.

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
use model::values::id_set::NodeId;
use model::values::placement::MemoryPolicy;
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

/// Edges that a thread generates at a time. Enough to make the cost of seeking to the first negligible.
const EDGES_AT_ONCE: usize = 1 << 12;
/// Upper limit of the pages per array whose node is queried. A query costs about 100 ns per page, so large arrays are
/// sampled evenly.
const PAGES_QUERIED_MAX: usize = 1 << 14;

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
        about: "Edges traversed per second by breadth-first searches from the Graph500's 64 roots of its Kronecker \
                graph of 2^scale vertices. Each level uses the direction that reads less (alpha, beta). The first k \
                neighbours of each vertex are in columns, and the others are coded. The time includes the conversion \
                of parents to original labels. All five checks of the specification are made for every root. TEPS \
                count input edges of the component with multi-edges and without self-loops, as the reference code \
                does. Does not use MPI. Source: Graph500 specification and reference code 3."
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
        return Err(Failure::Unavailable("bfs does not support far memory; hint: mode=semi-external".into()));
    }
    let options = Options::read(&job.parameters)?;
    match options.dram {
        None => graph::check_fits(&options.spec)?,
        Some(dram) => SearchFootprint::of(&options.spec, job.threads, dram)?.check_fits(&options.spec)?,
    }
    let placement = options.placement(job);
    let (mut output, seats) = trial_team::lead(job, |team| {
        let nodes = nodes(job, team)?;
        measure(&options, team, nodes, &placement)
    })?;
    output.thread_seats = seats;
    Ok(output)
}

/// A graph that is ready to be searched.
struct Graph {
    layout: Layout,
    /// The file of the rest of TAIL; `None` if all of it is in DRAM.
    far: Option<FarTail>,
    budget: Option<HeadBudget>,
    edges: EdgeList,
    /// In seconds, as is `construction`.
    generation: f64,
    construction: f64,
}

/// The edges for the validation.
enum EdgeList {
    Here(Tuples),
    /// Generated again for each result, because memory has no space for them.
    Regenerated(Box<Generator>),
}

impl EdgeList {
    fn validator<'t>(&'t self, spec: &Spec) -> Validator<'t> {
        match self {
            Self::Here(tuples) => Validator::new(tuples),
            Self::Regenerated(generator) => Validator::streaming(spec, &**generator),
        }
    }
}

fn construct(options: &Options, team: &TrialTeam<'_>, placement: &ArrayPlacement) -> Result<Graph, Failure> {
    match options.dram {
        None => in_core(options, team, placement),
        Some(dram) => semi_external(options, dram, team, placement),
    }
}

fn in_core(options: &Options, team: &TrialTeam<'_>, placement: &ArrayPlacement) -> Result<Graph, Failure> {
    let began = Instant::now();
    let tuples = Tuples::generate(team, &options.spec, placement)?;
    let generation = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let layout = graph::build(team, &tuples, options.columns_or_default(), placement)?;
    let construction = began.elapsed().as_secs_f64();
    let edges = if options.keeps_edges {
        EdgeList::Here(tuples)
    } else {
        EdgeList::Regenerated(Box::new(Generator::new(&options.spec)?))
    };
    Ok(Graph { layout, far: None, budget: None, edges, generation, construction })
}

/// Constructs the graph in no more memory than its searches need.
fn semi_external(
    options: &Options,
    dram: Dram,
    team: &TrialTeam<'_>,
    placement: &ArrayPlacement,
) -> Result<Graph, Failure> {
    let spec = &options.spec;
    let needs = SearchFootprint::of(spec, team.threads(), dram)?;
    let place = far::location(&options.dir)?;
    far::check(&place, &needs)?;
    let generator = Generator::new(spec)?;
    let generation = generation(spec, &generator, team)?;
    let began = Instant::now();
    let parts = Parts::new(place, needs.disk);
    let with = OutOfCore { storage: &parts, edges: Some(&generator), memory: needs.construction, watch: &|_| {} };
    let (layout, budget) = graph::build_beyond(team, spec, (dram, options.columns), &with, placement)?;
    let far = parts.into_tail(layout.tail_bytes())?;
    let construction = began.elapsed().as_secs_f64();
    let edges = EdgeList::Regenerated(Box::new(generator));
    Ok(Graph { layout, far: Some(far), budget: Some(budget), edges, generation, construction })
}

/// Returns the seconds that all threads take to generate the edges without storing them.
fn generation(spec: &Spec, generator: &Generator, team: &TrialTeam<'_>) -> Result<f64, Failure> {
    let began = Instant::now();
    team.run(&|worker| {
        let own = worker.share(spec.edges() as usize);
        let mut edges = vec![[0; 2]; EDGES_AT_ONCE];
        for first in own.clone().step_by(EDGES_AT_ONCE) {
            let batch = &mut edges[..EDGES_AT_ONCE.min(own.end - first)];
            generator.fill(first as u64, std::hint::black_box(batch));
        }
        Ok(())
    })?;
    Ok(began.elapsed().as_secs_f64())
}

/// The memory nodes of the threads, if they are pinned; unpinned threads may move.
fn nodes(job: &TrialContext, team: &TrialTeam<'_>) -> Result<Nodes, Failure> {
    let one = Nodes::one(team.threads());
    if job.seats.is_empty() {
        return Ok(one);
    }
    let known = Mutex::new(vec![None; team.threads()]);
    team.run(&|worker| {
        known.lock().unwrap_or_else(PoisonError::into_inner)[worker.index] = machine::affinity::current_node();
        Ok(())
    })?;
    let known: Option<Vec<NodeId>> = known.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect();
    Ok(known.map_or(one, |nodes| Nodes::of_threads(&nodes)))
}

fn measure(
    options: &Options,
    team: &TrialTeam<'_>,
    nodes: Nodes,
    placement: &ArrayPlacement,
) -> Result<KernelOutput, Failure> {
    let graph = construct(options, team, placement)?;
    let layout = &graph.layout;
    // A policy that names nodes is the user's choice.
    if nodes.count() > 1 && matches!(placement.policy, MemoryPolicy::Kernel | MemoryPolicy::Local) {
        // If the system does not allow moving pages, they stay, and the trial's pages by node show it.
        let _ = layout.settle(&nodes);
    }
    let mut search = Search::new(layout, options.isa, nodes, placement)?;
    prepare(team, &search, graph.far.as_ref(), placement)?;
    let bytes_per_edge = bytes_per_edge(layout, &search);
    let (pages, isa) = (pages(layout, &search)?, search.isa());
    let tuned = options.tune.then(|| tune::tune(options, team, &search)).transpose()?;
    let tuning = tuned.as_ref().map_or(options.tuning, |tuned| tuned.tuning);
    let validator = graph.edges.validator(&options.spec);
    let searched = searches(options, &tuning, team, &validator, &mut search)?;

    let mut output = KernelOutput { pages, ..KernelOutput::default() };
    rates::push(&mut output, &searched)?;
    rates::push_io(&mut output, &searched)?;
    output.push("graph_generation", graph.generation)?;
    output.push("construction_time", graph.construction)?;
    output.push("bytes_per_edge", bytes_per_edge)?;
    output.push("dram_used", layout.edge_bytes() as f64)?;
    if let Some((_, peak)) = machine::memory::resident() {
        output.push("memory_peak", peak.0 as f64)?;
    }
    // Not metrics, but the properties of the searched graph.
    output.push("edges", layout.edges() as f64)?;
    output.push("vertices", layout.vertices() as f64)?;
    output.push("columns", f64::from(layout.columns()))?;
    output.push("vector_bits", options::vector_bits(isa))?;
    output.push("alpha", tuning.alpha)?;
    output.push("beta", tuning.beta)?;
    tuned.map_or(Ok(()), |tuned| tuned.push(&mut output))?;
    if let Some(budget) = graph.budget {
        output.push("near_neighbours", f64::from(layout.columns()) + layout.beginnings() as f64)?;
        output.push("dram_asked", budget.dram.0 as f64)?;
        output.push("coded_bytes", budget.coded.0 as f64)?;
    }
    Ok(output)
}

/// Touches all memory and creates the far reader of each thread.
fn prepare(
    team: &TrialTeam<'_>,
    search: &Search<'_>,
    far: Option<&FarTail>,
    placement: &ArrayPlacement,
) -> Result<(), Failure> {
    let refused = Mutex::new(None);
    team.run(&|worker| {
        search.prepare(worker);
        match far.map(|far| far.reader(&placement.policy)) {
            Some(Ok(reader)) => search.fetch_by(worker, reader),
            Some(Err(failure)) => *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure),
            None => {}
        }
        Ok(())
    })?;
    refused.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Memory of a search in bytes per edge without self-loops: HEAD, the part of TAIL in DRAM, index, labels, maps, lists,
/// parents.
fn bytes_per_edge(layout: &Layout, search: &Search<'_>) -> f64 {
    let (head, tail, index) = layout.bytes();
    (head + tail + index + search.bytes()) as f64 / layout.edges() as f64
}

fn pages(layout: &Layout, search: &Search<'_>) -> Result<std::collections::BTreeMap<NodeId, u64>, Failure> {
    let both = layout.pages_by_node(PAGES_QUERIED_MAX).and_then(|mut pages| {
        for (node, count) in search.pages_by_node(PAGES_QUERIED_MAX)? {
            *pages.entry(node).or_insert(0) += count;
        }
        Ok(pages)
    });
    arena::pages(both)
}

/// Searches from each root in turn, and validates each result before the next search.
fn searches(
    options: &Options,
    tuning: &Tuning,
    team: &TrialTeam<'_>,
    validator: &Validator<'_>,
    search: &mut Search<'_>,
) -> Result<Vec<Searched>, Failure> {
    let mut roots = Roots::new(&options.spec);
    let mut searched = Vec::new();
    while searched.len() < options.roots {
        // A small graph has fewer roots than requested.
        let Some(root) = roots.next(|vertex| search.check_root(vertex).is_ok()) else { break };
        let (seconds, io) = timed(tuning, team, search, root)?;
        let began = Instant::now();
        let reached = validator.check(team, root as u32, search.parents())?;
        let reached = reached
            .map_err(|wrong| Failure::Failed(format!("wrong result of the search from root {root}: {wrong}")))?;
        searched.push(Searched { seconds, reached, io, validation: began.elapsed().as_secs_f64() });
    }
    Ok(searched)
}

/// Runs one search. Returns the seconds from the start of the first thread to the end of the last, and the disk reads.
fn timed(tuning: &Tuning, team: &TrialTeam<'_>, search: &Search<'_>, root: u64) -> Result<(f64, IoCounts), Failure> {
    search.check_root(root)?;
    let laps = Mutex::new(Vec::new());
    team.run(&|worker| {
        worker.barrier()?;
        let start = Instant::now();
        search.run(worker, root, tuning)?;
        let lap = TimedSpan { start, end: Instant::now() };
        laps.lock().unwrap_or_else(PoisonError::into_inner).push(lap);
        Ok(())
    })?;
    let laps = laps.into_inner().unwrap_or_else(PoisonError::into_inner);
    let io = search.io().map_err(|reason| Failure::Failed(format!("the search from root {root} failed: {reason}")))?;
    Ok((TimedSpan::seconds_of_all(laps.into_iter()), io))
}

#[cfg(test)]
mod tests;
