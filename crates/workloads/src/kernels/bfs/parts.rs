//! The searches of `bfs` by several parts together (`graph::Link`), as threads of a process or as processes on several machines: what
//! each part does, from generation to the statistics over all roots.
//!
//! Measures: what `bfs` does, with the exchanges between parts inside the clock; a search ends when the last part has its own
//! vertices' parents in original labels. Each part has one thread. Does NOT place anybody: where parts are is up to who starts
//! them, so what comes of it is no trial and has no evidence.
//! Checked for every root by the specification's five checks, each part against its share of the edges as generated.

use std::time::Instant;

use graph::{Error, IoCounts, Link, PartValidator, Reduce, Roots, Shard, ShardSearch, Spec, TeamStopped, Tuning};

use super::rates::{self, Searched};
use crate::job::{Failure, KernelOutput};

/// What all parts are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardRequest {
    pub spec: Spec,
    /// So many roots by the Graph500's rule, where `from` has none.
    pub roots: usize,
    /// These roots and no others.
    pub from: Vec<u64>,
    /// When a search goes which way.
    pub tuning: Tuning,
    /// Vertices that all parts know.
    pub hubs: usize,
}

/// What came of it; the same in all parts.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardResult {
    /// In the order of the searches.
    pub roots: Vec<u64>,
    /// Samples of each search and of all, named as those of `bfs` are.
    pub measured: KernelOutput,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardError {
    /// There is no such graph, or no search in it.
    Graph(Error),
    /// A result was wrong, or could not be timed.
    Search(Failure),
    /// Another part has failed, and knows why.
    Elsewhere,
}

/// Generates, constructs, searches and validates, together with all other parts. When one fails all do. `say` is told what has been
/// done.
pub fn search_in_parts(link: &impl Link, asked: &ShardRequest, say: &dyn Fn(&str)) -> Result<ShardResult, ShardError> {
    let began = Instant::now();
    let share =
        Shard::generate(link, &asked.spec).map_err(|error| error.map_or(ShardError::Elsewhere, ShardError::from))?;
    let generation = slowest(link, began)?;
    say(&format!("generated {} edges in {generation:.3} s", asked.spec.edges()));
    let began = Instant::now();
    let part = Shard::build(link, &share, asked.hubs)?;
    let construction = slowest(link, began)?;
    let roots = roots(link, asked, &part)?;
    say(&format!("constructed {} parts in {construction:.3} s; {} searches follow", link.parts(), roots.len()));
    let mut validator = PartValidator::new(link, &share)?;
    let mut search = ShardSearch::new(&part);
    let mut searched = Vec::new();
    for root in &roots {
        searched.push(one(link, asked, &mut search, &mut validator, *root)?);
    }
    let mut measured = KernelOutput::default();
    fill(&mut measured, &searched, asked, &part, (generation, construction)).map_err(ShardError::Search)?;
    Ok(ShardResult { roots, measured })
}

/// One search and its checks.
fn one(
    link: &impl Link,
    asked: &ShardRequest,
    search: &mut ShardSearch<'_>,
    validator: &mut PartValidator<'_>,
    root: u64,
) -> Result<Searched, ShardError> {
    link.barrier()?;
    let began = Instant::now();
    search.run(link, root as u32, &asked.tuning)?;
    let seconds = slowest(link, began)?;
    let began = Instant::now();
    let checked = validator.check(link, root as u32, search.parents())?;
    let reached = checked.map_err(|wrong| match wrong {
        Some(wrong) => ShardError::Search(Failure::Failed(format!("the search from root {root} is wrong: {wrong}"))),
        None => ShardError::Elsewhere,
    })?;
    let validation = slowest(link, began)?;
    Ok(Searched { seconds, reached, io: IoCounts::default(), validation })
}

fn fill(
    measured: &mut KernelOutput,
    searched: &[Searched],
    asked: &ShardRequest,
    part: &Shard,
    (generation, construction): (f64, f64),
) -> Result<(), Failure> {
    rates::push(measured, searched)?;
    measured.push("graph_generation", generation)?;
    measured.push("construction_time", construction)?;
    measured.push("edges", part.edges() as f64)?;
    measured.push("vertices", part.vertices() as f64)?;
    measured.push("alpha", asked.tuning.alpha)?;
    measured.push("beta", asked.tuning.beta)?;
    measured.push("hubs", part.hubs() as f64)?;
    measured.push("unevenness", part.unevenness())
}

/// Those that are asked for, or the Graph500's; a small graph has fewer than are asked for.
fn roots(link: &impl Link, asked: &ShardRequest, part: &Shard) -> Result<Vec<u64>, Error> {
    let everywhere = part.everywhere(link)?;
    if let Some(none) = asked.from.iter().find(|root| !everywhere.has_edge(**root)) {
        return Err(Error::Root(*none));
    }
    let mut roots = Roots::new(&asked.spec);
    let next = || roots.next(|vertex| everywhere.has_edge(vertex));
    Ok(if asked.from.is_empty() { std::iter::from_fn(next).take(asked.roots).collect() } else { asked.from.clone() })
}

/// Seconds since then of the part that took longest.
fn slowest(link: &impl Link, began: Instant) -> Result<f64, TeamStopped> {
    let mut nanos = [began.elapsed().as_nanos() as u64];
    link.all_reduce(&mut nanos, Reduce::Max)?;
    Ok(nanos[0] as f64 * 1e-9)
}

impl From<TeamStopped> for ShardError {
    fn from(_: TeamStopped) -> Self {
        // Who stopped all knows why.
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

    fn asked(scale: u32) -> ShardRequest {
        ShardRequest { spec: Spec::graph500(scale), roots: 64, from: Vec::new(), tuning: Tuning::DRAM, hubs: 64 }
    }

    fn searched(parts: usize, asked: &ShardRequest) -> Vec<Result<ShardResult, ShardError>> {
        together(&PlainTeam(parts), |link| Ok(search_in_parts(link, asked, &|_| ()))).unwrap()
    }

    fn series(searched: &ShardResult, series: &str) -> Vec<f64> {
        let samples = searched.measured.samples.iter().filter(|sample| sample.series == series);
        samples.map(|sample| sample.value).collect()
    }

    #[test]
    fn parts_measure_the_same_searches() {
        let one = searched(1, &asked(10)).remove(0).unwrap();
        assert_eq!((one.roots.len(), &one.roots[..4]), (64, &[458, 214, 220, 966][..]));
        let all = searched(3, &asked(10));
        assert!(all.iter().all(|other| other == &all[0]), "all know the same");
        let three = all[0].as_ref().unwrap();
        assert_eq!(one.roots, three.roots);
        for same in ["nedge", "nedge_with_loops", "levels"] {
            assert_eq!(series(&one, same), series(three, same), "{same}");
        }
        for once in ["harmonic_mean_TEPS", "graph_generation", "construction_time", "mean_validate", "unevenness"] {
            assert!(series(three, once)[0] > 0.0 && series(three, once).len() == 1, "{once}");
        }
        assert!(series(three, "far_mean_reads").is_empty(), "nothing lies in a file");
        assert!(searched(2, &asked(4))[0].as_ref().unwrap().roots.len() < 64);
    }

    #[test]
    fn roots_can_be_given_and_others_are_refused() {
        let given = ShardRequest { from: vec![458, 966], ..asked(10) };
        assert_eq!(searched(2, &given)[1].as_ref().unwrap().roots, [458, 966]);
        let refused = searched(2, &ShardRequest { from: vec![458, 1024], ..asked(10) });
        assert_eq!(refused, vec![Err(ShardError::Graph(Error::Root(1024))); 2]);
    }
}
