//! Graph500: breadth-first search from 64 roots of a Kronecker graph.
//!
//! Measures: edges traversed per second (TEPS) of each search, from before the root is visited until the parent of every vertex
//! is in memory in original labels, by all threads together: mostly small reads at random from bitmaps that fit a cache and
//! streams of neighbours that do not. Generation and construction are timed apart, and so is validation.
//! Does NOT measure what is not in this process's memory yet: `mode=expanded` and `mode=semi-external` are unavailable.
//! Does NOT use MPI, so its rate is no submission to the Graph500's list.
//! Definition: Graph500 specification, problem 1 (search): edge factor 16, the reference's generator bit for bit, its
//! roots, and its output's fields. Edges counted: input tuples in the root's component without self-loops, as the
//! reference code counts; `nedge_with_loops` has the specification's own count.
//! Checked in every trial, for every root, by the specification's five checks against the edge list as generated.

mod crew;
mod options;
mod rates;

use std::sync::Mutex;
use std::time::Instant;

use graph::{Crew, Layout, Room, Roots, Search, Tuples, Validator};
use model::units::Nanos;
use model::workload::{Better, WorkloadSpec};

use crate::describe::{Metric, metrics, parameters};
use crate::job::{Failure, Job, Measured};
use crate::kernels::arena;
use crate::team::Lap;
use crew::Seated;
use options::Options;
use rates::Searched;

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

pub(crate) fn run(job: &Job) -> Result<Measured, Failure> {
    if job.memory.is_beyond_dram() {
        return Err(Failure::Unavailable("a graph in a file is mode=semi-external, which is not there yet".into()));
    }
    let options = Options::read(&job.parameters)?;
    graph::check_fits(&options.spec)?;
    let room = options.room(job);
    let (mut measured, seats) = crew::lead(job, |crew| measure(&options, crew, &room))?;
    measured.thread_seats = seats;
    Ok(measured)
}

fn measure(options: &Options, crew: &Seated<'_>, room: &Room) -> Result<Measured, Failure> {
    let began = Instant::now();
    let tuples = Tuples::generate(crew, &options.spec, room)?;
    let generation = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let layout = graph::build(crew, &tuples, options.columns, room)?;
    let construction = began.elapsed().as_secs_f64();
    let mut search = Search::new(&layout, options.isa, crew.threads(), room)?;
    crew.run(&|hand| {
        search.prepare(hand);
        Ok(())
    })?;
    let bytes_per_edge = bytes_per_edge(&layout, &search);
    let (pages, isa) = (pages(&layout, &search)?, search.isa());
    let searched = searches(options, crew, &tuples, &layout, &mut search)?;

    let mut measured = Measured { pages, ..Measured::default() };
    rates::push(&mut measured, &searched)?;
    measured.push("graph_generation", generation)?;
    measured.push("construction_time", construction)?;
    measured.push("bytes_per_edge", bytes_per_edge)?;
    // No metrics, but what was searched.
    measured.push("edges", layout.edges() as f64)?;
    measured.push("vertices", layout.vertices() as f64)?;
    measured.push("vector_bits", options::vector_bits(isa))?;
    Ok(measured)
}

/// All that a search needs in memory: HEAD, TAIL, index, labels, maps, lists, parents; per edge between different vertices.
fn bytes_per_edge(layout: &Layout, search: &Search<'_>) -> f64 {
    let (head, tail, index) = layout.bytes();
    (head + tail + index + search.bytes()) as f64 / layout.edges() as f64
}

fn pages(
    layout: &Layout,
    search: &Search<'_>,
) -> Result<std::collections::BTreeMap<model::id_set::NodeId, u64>, Failure> {
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
    crew: &Seated<'_>,
    tuples: &Tuples,
    layout: &Layout,
    search: &mut Search<'_>,
) -> Result<Vec<Searched>, Failure> {
    let validator = Validator::new(tuples);
    let mut roots = Roots::new(&options.spec);
    let mut searched = Vec::new();
    while searched.len() < options.roots {
        // A small graph has fewer roots than are asked for.
        let Some(root) = roots.next(|vertex| layout.has_edge(vertex)) else { break };
        let seconds = timed(options, crew, search, root)?;
        let began = Instant::now();
        let reached = validator.check(crew, root as u32, search.parents())?;
        let reached =
            reached.map_err(|wrong| Failure::Failed(format!("the search from root {root} is wrong: {wrong}")))?;
        searched.push(Searched { seconds, reached, validation: began.elapsed().as_secs_f64() });
    }
    Ok(searched)
}

/// One search: seconds from the first thread's start to the last one's end.
fn timed(options: &Options, crew: &Seated<'_>, search: &Search<'_>, root: u64) -> Result<f64, Failure> {
    search.check_root(root)?;
    let laps = Mutex::new(Vec::new());
    crew.run(&|hand| {
        hand.meet()?;
        let start = Instant::now();
        search.run(hand, root, &options.tuning)?;
        let lap = Lap { start, end: Instant::now() };
        laps.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(lap);
        Ok(())
    })?;
    let laps = laps.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(Lap::seconds_of_all(laps.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{check_smoke, job_for_tests, pages_can_be_asked, set};

    fn sample(measured: &Measured, series: &str) -> f64 {
        measured.samples.iter().find(|sample| sample.series == series).unwrap().value
    }

    #[test]
    fn searches_are_measured_and_counted() {
        for (threads, isa) in [(1, "auto"), (2, "plain"), (3, "auto")] {
            let mut job = Job { threads, ..job_for_tests("bfs") };
            set(&mut job, "isa", isa);
            let measured = run(&job).unwrap();
            check_smoke("bfs", &measured);
            assert_eq!(measured.pages.values().sum::<u64>() > 0, pages_can_be_asked());
            assert_eq!(measured.samples.iter().filter(|sample| sample.series == "TEPS").count(), 64);
            // Scale 10 has 144 self-loops in 16384 edges, all but a few in the large component.
            let loops = sample(&measured, "nedge_with_loops") - sample(&measured, "nedge");
            assert!((1.0..=144.0).contains(&loops), "{loops}");
            assert!(sample(&measured, "min_TEPS") <= sample(&measured, "harmonic_mean_TEPS"));
            assert!(sample(&measured, "harmonic_mean_TEPS") <= sample(&measured, "max_TEPS"));
        }
    }

    #[test]
    fn small_graphs_have_fewer_roots() {
        let mut job = job_for_tests("bfs");
        set(&mut job, "scale", "4");
        let measured = run(&job).unwrap();
        let roots = measured.samples.iter().filter(|sample| sample.series == "TEPS").count();
        assert!((8..=16).contains(&roots), "{roots}");
    }

    #[test]
    fn what_is_not_there_and_what_does_not_fit_is_unavailable() {
        for (name, value, expected) in [
            ("mode", "semi-external", "mode=semi-external"),
            ("mode", "expanded", "mode=expanded"),
            ("scale", "31", "scale 31 needs"),
        ] {
            let mut job = job_for_tests("bfs");
            set(&mut job, name, value);
            let failure = run(&job).unwrap_err();
            assert!(matches!(&failure, Failure::Unavailable(why) if why.contains(expected)), "{failure}");
        }
    }
}
