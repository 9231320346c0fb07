//! Searches one shard together with the others, level by level, in the direction that reads less.
//!
//! Top-down, the owners read the lists of the frontier's vertices. A neighbour that is a hub or belongs to the same
//! shard is found at once; for any other, its owner gets a message, once per search. Bottom-up, all shards receive the
//! whole frontier, and each searches a neighbour in it for its own unvisited vertices, hubs first; this needs no
//! messages. The hubs found are exchanged after each level. Shards may find different parents for a hub, all on the
//! previous level; the smallest label is chosen at the end. One thread does the work of a shard. No state is carried
//! over between searches.

use crate::direction::{Frontier, Tuning};
use crate::distributed::build::Shard;
use crate::distributed::directory::{bit, ones, ones_of, set};
use crate::error::TeamStopped;
use crate::link::{Exchange, Link, Reduce};
use crate::validate::NONE;

/// Working memory for searches of one shard.
pub struct ShardSearch<'p> {
    graph: &'p Shard,
    /// Own vertices, by number: visited, or excluded from the search (hubs and vertices without an edge).
    visited: Vec<u64>,
    frontier: Vec<u64>,
    next: Vec<u64>,
    /// For all shards, by position: bottom-up the frontier, top-down the vertices whose owners got a message.
    everywhere: Vec<u64>,
    notified: Vec<u64>,
    hubs: HubMaps,
    mail: Exchange,
    /// Totals exchanged after a level: vertices, edges and hubs found.
    sent: Vec<u64>,
    gathered: Vec<u64>,
    parents: Vec<u32>,
}

/// Per-shard state of the hubs; `visited` and `frontier` are identical in all shards.
struct HubMaps {
    visited: Vec<u64>,
    frontier: Vec<u64>,
    /// Hubs that this shard found in this level.
    next: Vec<u64>,
    /// Labels of the hubs' parents that this shard found.
    parents: Vec<u64>,
}

/// The vertices found in a level, without hubs.
#[derive(Default)]
struct LevelResult {
    count: u64,
    edges: u64,
}

/// Parent of a hub that this shard has not found.
const UNKNOWN: u64 = u64::MAX;

impl<'p> ShardSearch<'p> {
    /// Allocates the working memory for searches of this shard.
    pub fn new(graph: &'p Shard) -> Self {
        let (words, all_words, hubs) = (graph.cut.words(), graph.cut.all_words(), graph.hubs.label.len());
        let map = || vec![0; hubs.div_ceil(64)];
        let mut search = Self {
            graph,
            visited: vec![0; words],
            frontier: vec![0; words],
            next: vec![0; words],
            everywhere: vec![0; all_words],
            notified: vec![0; all_words],
            hubs: HubMaps { visited: map(), frontier: map(), next: map(), parents: vec![UNKNOWN; hubs] },
            mail: Exchange::new(graph.cut.parts),
            sent: Vec::new(),
            gathered: vec![0; (2 + hubs.div_ceil(64)) * graph.cut.parts],
            parents: vec![NONE; graph.cut.count(graph.cut.part)],
        };
        // Touches all pages here, so that none is faulted in during a search.
        [&mut search.visited, &mut search.frontier, &mut search.next, &mut search.everywhere, &mut search.notified]
            .into_iter()
            .for_each(|map| map.fill(0));
        search
    }

    /// Searches from a root that has an edge, together with all other shards. Then [`ShardSearch::parents`] has the
    /// result.
    pub fn run(&mut self, link: &impl Link, root: u32, tuning: &Tuning) -> Result<(), TeamStopped> {
        let mut found = self.begin(root);
        let mut standing = Frontier { count: 0, before: 0, edges: 0.0, unexplored: self.graph.neighbours as f64 };
        let mut up = false;
        loop {
            self.share(link, &found, &mut standing)?;
            if standing.count == 0 {
                break;
            }
            up = standing.is_bottom_up(up, tuning, self.graph.vertices as f64);
            found = if up { self.up(link)? } else { self.down(link)? };
        }
        self.write(link)
    }

    /// Returns the parents of this shard's vertices as labels; the n-th vertex has label n × shards + shard. The root
    /// is its own parent, and vertices that the root does not reach have `NONE`.
    pub fn parents(&self) -> &[u32] {
        &self.parents
    }

    fn begin(&mut self, root: u32) -> LevelResult {
        let graph = self.graph;
        self.visited.iter_mut().zip(&graph.connected).for_each(|(visited, connected)| *visited = !connected);
        self.parents.fill(NONE);
        self.next.fill(0);
        self.notified.fill(0);
        let hubs = &mut self.hubs;
        [&mut hubs.visited, &mut hubs.next].into_iter().for_each(|map| map.fill(0));
        hubs.parents.fill(UNKNOWN);
        let (part, number) = graph.cut.owner(root);
        if let Some(hub) = graph.hubs.label.iter().position(|label| *label == root) {
            set(&mut hubs.next, hub as u32);
            hubs.parents[hub] = u64::from(root);
        } else if part == graph.cut.part {
            let mut found = LevelResult::default();
            self.find(number, root, &mut found);
            return found;
        }
        LevelResult::default()
    }

    /// Records that an own vertex, not a hub, was reached. It counts if it was not visited before.
    fn find(&mut self, number: u32, parent: u32, found: &mut LevelResult) {
        if !bit(&self.visited, number) {
            set(&mut self.visited, number);
            set(&mut self.next, number);
            self.parents[number as usize] = parent;
            found.count += 1;
            found.edges += u64::from(self.graph.degree[number as usize]);
        }
    }

    /// Exchanges the totals and the hubs found, and makes the found vertices the next frontier.
    fn share(&mut self, link: &impl Link, found: &LevelResult, standing: &mut Frontier) -> Result<(), TeamStopped> {
        let hubs = &mut self.hubs;
        self.sent.clear();
        self.sent.extend([found.count, found.edges].iter().chain(&hubs.next));
        link.all_gather(&self.sent, &mut self.gathered)?;
        let (mut count, mut edges) = (0, 0);
        hubs.frontier.fill(0);
        for words in self.gathered.chunks_exact(self.sent.len()) {
            count += words[0];
            edges += words[1];
            hubs.frontier.iter_mut().zip(&words[2..]).for_each(|(frontier, next)| *frontier |= next);
        }
        for hub in ones(&hubs.frontier) {
            count += 1;
            edges += u64::from(self.graph.hubs.degree[hub as usize]);
        }
        hubs.visited.iter_mut().zip(&hubs.frontier).for_each(|(visited, frontier)| *visited |= frontier);
        hubs.next.fill(0);
        std::mem::swap(&mut self.frontier, &mut self.next);
        self.next.fill(0);
        standing.advance(count, edges as f64);
        Ok(())
    }

    fn down(&mut self, link: &impl Link) -> Result<LevelResult, TeamStopped> {
        let (graph, mut found) = (self.graph, LevelResult::default());
        for word in 0..self.hubs.frontier.len() {
            for hub in ones_of(word, self.hubs.frontier[word]) {
                let label = graph.hubs.label[hub as usize];
                for number in graph.hubs.neighbours.of(hub) {
                    self.find(*number, label, &mut found);
                }
                graph.hubs.hubs.of(hub).iter().for_each(|other| self.hubs.find(*other, label));
            }
        }
        for word in 0..self.frontier.len() {
            for number in ones_of(word, self.frontier[word]) {
                self.expand(number, &mut found);
            }
        }
        let mut mail = std::mem::replace(&mut self.mail, Exchange::new(0));
        link.exchange(&mut mail)?;
        for part in 0..graph.cut.parts {
            for word in mail.from(part) {
                self.find((word >> 32) as u32, graph.cut.label(part, *word as u32), &mut found);
            }
        }
        self.mail = mail;
        Ok(found)
    }

    /// Visits the neighbours of an own vertex, or queues messages to their owners.
    fn expand(&mut self, number: u32, found: &mut LevelResult) {
        let graph = self.graph;
        let label = graph.cut.label(graph.cut.part, number);
        graph.hubs_of.of(number).iter().for_each(|hub| self.hubs.find(*hub, label));
        for position in graph.others_of.of(number) {
            let (part, other) = graph.cut.at(*position);
            if part == graph.cut.part {
                self.find(other, label, found);
            } else if !bit(&self.notified, *position) {
                set(&mut self.notified, *position);
                self.mail.out[part].push(u64::from(other) << 32 | u64::from(number));
            }
        }
    }

    fn up(&mut self, link: &impl Link) -> Result<LevelResult, TeamStopped> {
        let (graph, mut found) = (self.graph, LevelResult::default());
        link.all_gather(&self.frontier, &mut self.everywhere)?;
        for word in 0..self.visited.len() {
            for number in ones_of(word, !self.visited[word]) {
                if let Some(parent) = self.parent_of(number) {
                    self.find(number, parent, &mut found);
                }
            }
        }
        for word in 0..self.hubs.visited.len() {
            for hub in
                ones_of(word, !self.hubs.visited[word]).take_while(|hub| (*hub as usize) < graph.hubs.label.len())
            {
                let of_hub = graph.hubs.hubs.of(hub).iter().find(|other| bit(&self.hubs.frontier, **other));
                let of_own = || graph.hubs.neighbours.of(hub).iter().find(|number| bit(&self.frontier, **number));
                let parent = of_hub.map(|other| graph.hubs.label[*other as usize]);
                if let Some(parent) = parent.or_else(|| of_own().map(|number| graph.cut.label(graph.cut.part, *number)))
                {
                    self.hubs.find(hub, parent);
                }
            }
        }
        Ok(found)
    }

    /// Returns a neighbour of an own vertex that is in the frontier, hubs first.
    fn parent_of(&self, number: u32) -> Option<u32> {
        let graph = self.graph;
        let hub = graph.hubs_of.of(number).iter().find(|hub| bit(&self.hubs.frontier, **hub));
        let other = || graph.others_of.of(number).iter().find(|position| bit(&self.everywhere, **position));
        hub.map(|hub| graph.hubs.label[*hub as usize]).or_else(|| other().map(|position| graph.cut.label_at(*position)))
    }

    /// Agrees on the hubs' parents, and writes those of own hubs.
    fn write(&mut self, link: &impl Link) -> Result<(), TeamStopped> {
        link.all_reduce(&mut self.hubs.parents, Reduce::Min)?;
        for (hub, number) in &self.graph.hubs.own {
            // `NONE` if no shard has found one: the lower half of `UNKNOWN`.
            self.parents[*number as usize] = self.hubs.parents[*hub as usize] as u32;
        }
        Ok(())
    }
}

impl HubMaps {
    /// Records that a hub was reached. The first parent that a shard finds is used, unless all shards know the hub
    /// already.
    fn find(&mut self, hub: u32, parent: u32) {
        if !bit(&self.visited, hub) && !bit(&self.next, hub) {
            set(&mut self.next, hub);
            self.parents[hub as usize] = u64::from(parent);
        }
    }
}

const _: () = assert!(UNKNOWN as u32 == NONE);
