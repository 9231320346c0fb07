//! Distributed searches of `bfs` (`graph::Link`) by several parts: threads of a process, or processes on several
//! machines. Covers generation, construction, search, validation and the statistics over all roots.
//!
//! Measures: as `bfs`, including the exchanges between parts. A search ends when the last part has the parents of its
//! vertices with original labels. Each part has one thread. Does NOT control placement, which is up to the launcher, so
//! the result is not a trial and has no evidence.
//! Checked for every root by the specification's five checks, each part against its share of the generated edges.

use std::time::Instant;

use graph::{Error, IoCounts, Link, PartValidator, Reduce, Roots, Shard, ShardSearch, Spec, TeamStopped, Tuning};

use super::rates::{self, Searched};
use crate::job::{Failure, KernelOutput};

/// The parameters of a distributed search, equal in all parts.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardRequest {
    pub spec: Spec,
    /// Number of roots by the Graph500's rule, if `from` is empty.
    pub roots: usize,
    /// Explicit roots, if not empty.
    pub from: Vec<u64>,
    /// When a search changes its direction.
    pub tuning: Tuning,
    /// Number of vertices that are replicated in all parts.
    pub hubs: usize,
}

/// The result, equal in all parts.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardResult {
    /// In the order of the searches.
    pub roots: Vec<u64>,
    /// Samples of each search and of all, with the same names as in `bfs`.
    pub measured: KernelOutput,
}

/// The reason for a missing result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardError {
    /// Invalid graph or root.
    Graph(Error),
    /// A result was wrong, or its time is invalid.
    Search(Failure),
    /// Another part failed and reports the reason.
    Elsewhere,
}

/// Generates, constructs, searches and validates together with all other parts. If one part fails, all do. `report`
/// receives progress messages.
pub fn search_in_parts(
    link: &impl Link,
    request: &ShardRequest,
    report: &dyn Fn(&str),
) -> Result<ShardResult, ShardError> {
    let began = Instant::now();
    let share =
        Shard::generate(link, &request.spec).map_err(|error| error.map_or(ShardError::Elsewhere, ShardError::from))?;
    let generation = slowest(link, began)?;
    report(&format!("generated {} edges in {generation:.3} s", request.spec.edges()));
    let began = Instant::now();
    let part = Shard::build(link, &share, request.hubs)?;
    let construction = slowest(link, began)?;
    let roots = roots(link, request, &part)?;
    report(&format!("constructed {} parts in {construction:.3} s; {} searches follow", link.parts(), roots.len()));
    let mut validator = PartValidator::new(link, &share)?;
    let mut search = ShardSearch::new(&part);
    let mut searched = Vec::new();
    for root in &roots {
        searched.push(one(link, request, &mut search, &mut validator, *root)?);
    }
    let mut output = KernelOutput::default();
    fill(&mut output, &searched, request, &part, (generation, construction)).map_err(ShardError::Search)?;
    Ok(ShardResult { roots, measured: output })
}

/// Runs one search and its checks.
fn one(
    link: &impl Link,
    request: &ShardRequest,
    search: &mut ShardSearch<'_>,
    validator: &mut PartValidator<'_>,
    root: u64,
) -> Result<Searched, ShardError> {
    link.barrier()?;
    let began = Instant::now();
    search.run(link, root as u32, &request.tuning)?;
    let seconds = slowest(link, began)?;
    let began = Instant::now();
    let checked = validator.check(link, root as u32, search.parents())?;
    let reached = checked.map_err(|wrong| match wrong {
        Some(wrong) => {
            ShardError::Search(Failure::Failed(format!("wrong result of the search from root {root}: {wrong}")))
        }
        None => ShardError::Elsewhere,
    })?;
    let validation = slowest(link, began)?;
    Ok(Searched { seconds, reached, io: IoCounts::default(), validation })
}

fn fill(
    output: &mut KernelOutput,
    searched: &[Searched],
    request: &ShardRequest,
    part: &Shard,
    (generation, construction): (f64, f64),
) -> Result<(), Failure> {
    rates::push(output, searched)?;
    output.push("graph_generation", generation)?;
    output.push("construction_time", construction)?;
    output.push("edges", part.edges() as f64)?;
    output.push("vertices", part.vertices() as f64)?;
    output.push("alpha", request.tuning.alpha)?;
    output.push("beta", request.tuning.beta)?;
    output.push("hubs", part.hubs() as f64)?;
    output.push("unevenness", part.unevenness())
}

/// Returns the requested roots, or those of the Graph500. A small graph has fewer roots than requested.
fn roots(link: &impl Link, request: &ShardRequest, part: &Shard) -> Result<Vec<u64>, Error> {
    let everywhere = part.everywhere(link)?;
    if let Some(none) = request.from.iter().find(|root| !everywhere.has_edge(**root)) {
        return Err(Error::Root(*none));
    }
    let mut roots = Roots::new(&request.spec);
    let next = || roots.next(|vertex| everywhere.has_edge(vertex));
    Ok(if request.from.is_empty() {
        std::iter::from_fn(next).take(request.roots).collect()
    } else {
        request.from.clone()
    })
}

/// Seconds since `began`, of the slowest part.
fn slowest(link: &impl Link, began: Instant) -> Result<f64, TeamStopped> {
    let mut nanos = [began.elapsed().as_nanos() as u64];
    link.all_reduce(&mut nanos, Reduce::Max)?;
    Ok(nanos[0] as f64 * 1e-9)
}

impl From<TeamStopped> for ShardError {
    fn from(_: TeamStopped) -> Self {
        // The part that stopped the team reports the reason.
        Self::Elsewhere
    }
}

impl From<Error> for ShardError {
    fn from(error: Error) -> Self {
        if error == Error::Stopped { Self::Elsewhere } else { Self::Graph(error) }
    }
}

#[cfg(test)]
mod tests {
    use graph::{PlainTeam, together};

    use super::*;

    fn request(scale: u32) -> ShardRequest {
        ShardRequest { spec: Spec::graph500(scale), roots: 64, from: Vec::new(), tuning: Tuning::DRAM, hubs: 64 }
    }

    fn searched(parts: usize, request: &ShardRequest) -> Vec<Result<ShardResult, ShardError>> {
        together(&PlainTeam(parts), |link| Ok(search_in_parts(link, request, &|_| ()))).unwrap()
    }

    fn series(searched: &ShardResult, series: &str) -> Vec<f64> {
        let samples = searched.measured.samples.iter().filter(|sample| sample.series == series);
        samples.map(|sample| sample.value).collect()
    }

    #[test]
    fn parts_report_the_same_searches() {
        let one = searched(1, &request(10)).remove(0).unwrap();
        assert_eq!((one.roots.len(), &one.roots[..4]), (64, &[458, 214, 220, 966][..]));
        let all = searched(3, &request(10));
        assert!(all.iter().all(|other| other == &all[0]), "all parts have the same result");
        let three = all[0].as_ref().unwrap();
        assert_eq!(one.roots, three.roots);
        for same in ["nedge", "nedge_with_loops", "levels"] {
            assert_eq!(series(&one, same), series(three, same), "{same}");
        }
        for once in ["harmonic_mean_TEPS", "graph_generation", "construction_time", "mean_validate", "unevenness"] {
            assert!(series(three, once)[0] > 0.0 && series(three, once).len() == 1, "{once}");
        }
        assert!(series(three, "far_mean_reads").is_empty(), "no part is in a file");
        assert!(searched(2, &request(4))[0].as_ref().unwrap().roots.len() < 64);
    }

    #[test]
    fn given_roots_are_used_and_invalid_ones_fail() {
        let given = ShardRequest { from: vec![458, 966], ..request(10) };
        assert_eq!(searched(2, &given)[1].as_ref().unwrap().roots, [458, 966]);
        let refused = searched(2, &ShardRequest { from: vec![458, 1024], ..request(10) });
        assert_eq!(refused, vec![Err(ShardError::Graph(Error::Root(1024))); 2]);
    }
}
