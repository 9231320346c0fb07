//! Constructs one shard: both directions of each edge are sent to the owners of its ends, duplicates are removed, the
//! shards agree on the hubs and transpose their lists, so that each shard has all edges of its vertices.

use model::values::units::Bytes;

use crate::distributed::cut::ShardMap;
use crate::distributed::directory::{PositionIndex, bit, ones, set};
use crate::distributed::lists::AdjacencyLists;
use crate::edges::Tuples;
use crate::error::Error;
use crate::kronecker::Spec;
use crate::link::{Exchange, Link, Reduce, reduce_results};
use crate::{ArrayPlacement, PlainTeam};

/// Edges that each shard sends per round: 4 MiB in both directions.
const ROUND: u64 = 1 << 18;

/// One shard of a graph, with the hub data that all shards share.
pub struct Shard {
    pub(super) cut: ShardMap,
    /// Own vertices that have a list here: not hubs, and with at least one edge.
    pub(super) connected: Vec<u64>,
    /// Degree of each own vertex, edges to hubs included; 0 for hubs, whose degree all shards know.
    pub(super) degree: Vec<u32>,
    /// For each own vertex, the adjacent hubs, the largest first.
    pub(super) hubs_of: AdjacencyLists,
    /// For each own vertex, the positions of its other neighbours.
    pub(super) others_of: AdjacencyLists,
    pub(super) hubs: Hubs,
    /// Total number of neighbours of all vertices, over all shards.
    pub(super) neighbours: u64,
    /// Total number of vertices with an edge, over all shards.
    pub(super) vertices: u64,
    unevenness: f64,
}

/// The vertices with the most edges, the largest first. Identical in all shards except for the lists.
pub(super) struct Hubs {
    pub(super) label: Vec<u32>,
    pub(super) degree: Vec<u32>,
    /// The hubs that this shard owns: hub index and local number.
    pub(super) own: Vec<(u32, u32)>,
    /// For each hub, this shard's adjacent vertices, without hubs.
    pub(super) neighbours: AdjacencyLists,
    /// For each hub of this shard, the adjacent hubs.
    pub(super) hubs: AdjacencyLists,
}

/// The set of all vertices that have an edge to another vertex.
pub struct GlobalCounts {
    cut: ShardMap,
    words: Vec<u64>,
}

/// Returns the approximate peak memory of generation, construction and validation in one shard.
pub fn part_bytes_needed(spec: &Spec, parts: usize) -> Bytes {
    let (edges, vertices, parts) = (u128::from(spec.edges()), u128::from(spec.vertices()), parts as u128);
    // 8 for the pair, 16 for both directions and as much again while their buffers grow, at most 8 in lists and
    // temporary buffers; 32 for each own vertex, and less than a byte of bit maps for each vertex of the graph.
    Bytes(u64::try_from((edges * 48 + vertices * 32) / parts + vertices).unwrap_or(u64::MAX))
}

impl Shard {
    /// Generates a shard's share of the edges, after all shards have checked that they have enough memory. If the check
    /// fails in one shard, all return an error; it is `None` in the shards where it succeeded.
    pub fn generate(link: &impl Link, spec: &Spec) -> Result<Tuples, Option<Error>> {
        let fits = spec.check().and_then(|()| ShardMap::new(spec, link)).and_then(|cut| {
            let needed = Bytes(part_bytes_needed(spec, link.parts()).0.saturating_mul(link.parts_here() as u64));
            match machine::memory::available() {
                Some(available) if needed > available => Err(Error::TooLarge { scale: spec.scale, needed, available }),
                _ => Ok(cut),
            }
        });
        let stopped = |_| Some(Error::Stopped);
        let cut = reduce_results(link, fits).map_err(stopped)??;
        reduce_results(
            link,
            Tuples::generate_share(&PlainTeam(1), spec, cut.share(), &ArrayPlacement::kernel_default()),
        )
        .map_err(stopped)?
    }

    /// Constructs a shard from its share of the edges, with at most `hubs` hubs.
    pub fn build(link: &impl Link, tuples: &Tuples, hubs: usize) -> Result<Self, Error> {
        let cut = ShardMap::new(tuples.spec(), link)?;
        let lists = gather(link, &cut, tuples)?;
        let chosen = choose_hubs(link, &cut, &lists, hubs)?;
        let (mut degree, mut connected) = (Vec::with_capacity(lists.count()), vec![0; cut.words()]);
        let (mut hubs_of, mut others_of) = (AdjacencyLists::builder(), AdjacencyLists::builder());
        let mut between = Vec::new();
        let numbers = HubNumbers::new(&cut, &chosen);
        for number in 0..lists.count() as u32 {
            let list = lists.of(number);
            let own_hub = numbers.of(cut.position(cut.label(cut.part, number)));
            degree.push(if own_hub.is_some() { 0 } else { list.len() as u32 });
            let mut hubs_here: Vec<u32> = list.iter().filter_map(|position| numbers.of(*position)).collect();
            if let Some(hub) = own_hub {
                between.extend(hubs_here.iter().map(|other| u64::from(hub) << 32 | u64::from(*other)));
            } else if !list.is_empty() {
                set(&mut connected, number);
                hubs_here.sort_unstable();
                hubs_here.iter().for_each(|hub| hubs_of.push(*hub));
                list.iter()
                    .filter(|position| numbers.of(**position).is_none())
                    .for_each(|other| others_of.push(*other));
            }
            hubs_of.end();
            others_of.end();
        }
        let neighbours_here = (hubs_of.len() * 2 + others_of.len() + between.len()) as u64;
        drop(lists);
        let turned: Vec<u64> = hubs_of.pairs().map(|(number, hub)| u64::from(hub) << 32 | u64::from(number)).collect();
        let own = (0..).zip(&chosen).filter_map(|(hub, (_, label))| {
            let (part, number) = cut.owner(*label);
            (part == cut.part).then_some((hub, number))
        });
        let hubs = Hubs {
            own: own.collect(),
            neighbours: AdjacencyLists::gather(chosen.len(), &turned),
            hubs: AdjacencyLists::gather(chosen.len(), &between),
            degree: chosen.iter().map(|(degree, _)| *degree).collect(),
            label: chosen.iter().map(|(_, label)| *label).collect(),
        };
        let of_others: u64 = degree.iter().map(|degree| u64::from(*degree)).sum();
        let of_hubs: u64 = hubs.degree.iter().map(|degree| u64::from(*degree)).sum();
        let mut sums = [of_others, ones(&connected).count() as u64, neighbours_here];
        link.all_reduce(&mut sums, Reduce::Sum)?;
        let mut most = [neighbours_here];
        link.all_reduce(&mut most, Reduce::Max)?;
        let (neighbours, vertices) = (sums[0] + of_hubs, sums[1] + hubs.label.len() as u64);
        if neighbours == 0 {
            return Err(Error::NoEdges);
        }
        let unevenness = (most[0] * cut.parts as u64) as f64 / sums[2] as f64;
        Ok(Self { cut, connected, degree, hubs_of, others_of, hubs, neighbours, vertices, unevenness })
    }

    /// Returns the set of vertices of all shards that have an edge. It is used to choose roots and not stored.
    pub fn everywhere(&self, link: &impl Link) -> Result<GlobalCounts, Error> {
        let mut own = self.connected.clone();
        self.hubs.own.iter().for_each(|(_, number)| set(&mut own, *number));
        let mut words = vec![0; self.cut.all_words()];
        link.all_gather(&own, &mut words)?;
        Ok(GlobalCounts { cut: self.cut, words })
    }

    /// Returns the number of distinct edges of the whole graph, without self-loops.
    pub fn edges(&self) -> u64 {
        self.neighbours / 2
    }

    /// Returns the number of vertices of the whole graph that have an edge.
    pub fn vertices(&self) -> u64 {
        self.vertices
    }

    pub fn hubs(&self) -> usize {
        self.hubs.label.len()
    }

    /// Returns the number of list entries of the largest shard divided by the mean of all shards; 1 is perfectly
    /// balanced.
    pub fn unevenness(&self) -> f64 {
        self.unevenness
    }
}

impl GlobalCounts {
    /// Returns true if a search can start at this vertex.
    pub fn has_edge(&self, vertex: u64) -> bool {
        vertex < self.cut.spec.vertices() && bit(&self.words, self.cut.position(vertex as u32))
    }
}

/// Returns the lists of this shard's vertices, as positions, gathered from the edges of all shards.
fn gather(link: &impl Link, cut: &ShardMap, tuples: &Tuples) -> Result<AdjacencyLists, Error> {
    let mut rounds = [tuples.count().div_ceil(ROUND)];
    link.all_reduce(&mut rounds, Reduce::Max)?;
    let (mut mail, mut received) = (Exchange::new(cut.parts), Vec::new());
    let mut edges = tuples.all();
    for _ in 0..rounds[0] {
        for (a, b) in edges.by_ref().take(ROUND as usize).filter(|(a, b)| a != b) {
            for (from, to) in [(a, b), (b, a)] {
                let (part, number) = cut.owner(from);
                mail.out[part].push(u64::from(number) << 32 | u64::from(cut.position(to)));
            }
        }
        link.exchange(&mut mail)?;
        received.extend_from_slice(mail.received());
    }
    Ok(AdjacencyLists::gather(cut.count(cut.part), &received))
}

/// Returns label and degree of the vertices with the most neighbours, the largest first, and the smaller label first
/// among equals.
fn choose_hubs(
    link: &impl Link,
    cut: &ShardMap,
    lists: &AdjacencyLists,
    hubs: usize,
) -> Result<Vec<(u32, u32)>, Error> {
    let order = |number: u32| {
        let degree = lists.of(number).len() as u32;
        u64::from(u32::MAX - degree) << 32 | u64::from(cut.label(cut.part, number))
    };
    let with_edge = (0..lists.count() as u32).filter(|number| !lists.of(*number).is_empty());
    let mut own: Vec<u64> = with_edge.map(order).collect();
    own.sort_unstable();
    own.resize(hubs, u64::MAX);
    let mut all = vec![0; hubs * cut.parts];
    link.all_gather(&own, &mut all)?;
    all.sort_unstable();
    all.truncate(hubs);
    Ok(all
        .iter()
        .filter(|word| **word != u64::MAX)
        .map(|word| (u32::MAX - (word >> 32) as u32, *word as u32))
        .collect())
}

/// Maps positions to hub indices.
struct HubNumbers {
    directory: PositionIndex,
    hub: Vec<u32>,
}

impl HubNumbers {
    fn new(cut: &ShardMap, chosen: &[(u32, u32)]) -> Self {
        let mut words = vec![0; cut.all_words()];
        chosen.iter().for_each(|(_, label)| set(&mut words, cut.position(*label)));
        let directory = PositionIndex::of(words);
        let mut hub = vec![0; chosen.len()];
        for (number, (_, label)) in (0..).zip(chosen) {
            hub[directory.number(cut.position(*label)) as usize] = number;
        }
        Self { directory, hub }
    }

    fn of(&self, position: u32) -> Option<u32> {
        self.directory.has(position).then(|| self.hub[self.directory.number(position) as usize])
    }
}
