//! Validates distributed results: the parents of all shards together must be a breadth-first tree, by the same five
//! checks as on one machine (`crate::validate`). Each shard checks its share of the generated edges, with levels and
//! parents fetched from the owners of their ends. It knows the owner of each vertex, and nothing else of construction
//! or search.
//!
//! Levels are derived from the tree alone, from the root outwards: a vertex is one level below its parent. Check 1
//! requires that all vertices get a level. Check 2 is combined with check 5: a tree edge is confirmed by a generated
//! edge whose upper end is the lower end's parent and one level above it, both as fetched.

use crate::distributed::cut::ShardMap;
use crate::distributed::directory::{PositionIndex, bit, set};
use crate::edges::Tuples;
use crate::error::Error;
use crate::error::TeamStopped;
use crate::link::{Exchange, Link, Reduce, reduce_results};
use crate::validate::{LEVELS_MAX, NONE, OUTSIDE, TreeError, TreeStats, check_edge};

/// Checks trees against one shard's share of the edges.
pub struct PartValidator<'t> {
    tuples: &'t Tuples,
    cut: ShardMap,
    /// Positions of the ends of these edges.
    ends: PositionIndex,
    /// By shard: its vertices that are ends of these edges, in the shard's order.
    asked: Vec<Vec<u32>>,
    mail: Exchange,
}

/// The first error that this shard found, or `None` if only another shard found one.
type Checked<T> = Result<T, Option<TreeError>>;

impl<'t> PartValidator<'t> {
    /// Creates a validator for trees of the graph to which this shard's edges belong.
    pub fn new(link: &impl Link, tuples: &'t Tuples) -> Result<Self, Error> {
        let cut = ShardMap::new(tuples.spec(), link)?;
        let mut words = vec![0; cut.all_words()];
        tuples.all().for_each(|(a, b)| [a, b].iter().for_each(|end| set(&mut words, cut.position(*end))));
        let (ends, mut mail) = (PositionIndex::of(words), Exchange::new(cut.parts));
        for (part, number) in ends.positions().map(|position| cut.at(position)) {
            mail.out[part].push(u64::from(number));
        }
        link.exchange(&mut mail)?;
        let asked = (0..cut.parts).map(|part| mail.from(part).iter().map(|word| *word as u32).collect()).collect();
        Ok(Self { tuples, cut, ends, asked, mail })
    }

    /// Makes all checks, together with all other shards; `parents` are the labels of own vertices' parents. The
    /// returned sizes of a valid tree are totals over all shards.
    pub fn check(&mut self, link: &impl Link, root: u32, parents: &[u32]) -> Result<Checked<TreeStats>, TeamStopped> {
        assert_eq!(parents.len(), self.cut.count(self.cut.part), "one parent per own vertex");
        if let Err(wrong) = reduce_results(link, self.check_parents(root, parents))? {
            return Ok(Err(wrong));
        }
        let levels = match self.levels(link, root, parents)? {
            Ok(levels) => levels,
            Err(wrong) => return Ok(Err(wrong)),
        };
        self.fetch(link, &levels, parents)?;
        let mut reached = TreeStats::default();
        let proven = match reduce_results(link, self.check_edges(&mut reached))? {
            Ok(proven) => proven,
            Err(wrong) => return Ok(Err(wrong)),
        };
        let proven = self.report_to_owners(link, &proven)?;
        match reduce_results(link, self.check_vertices(root, &levels, &proven, &mut reached))? {
            Ok(()) => sum(link, &reached).map(Ok),
            Err(wrong) => Ok(Err(wrong)),
        }
    }

    fn check_parents(&self, root: u32, parents: &[u32]) -> Result<(), TreeError> {
        let (part, number) = self.cut.owner(root);
        if part == self.cut.part && parents[number as usize] != root {
            return Err(TreeError::Root(root));
        }
        let beyond = |parent: u32| parent != NONE && u64::from(parent) >= self.cut.spec.vertices();
        match (0..).zip(parents).find(|(_, parent)| beyond(**parent)) {
            Some((number, _)) => Err(TreeError::NoVertex(self.cut.label(self.cut.part, number))),
            None => Ok(()),
        }
    }

    /// Check 1: computes the levels of own vertices.
    fn levels(&self, link: &impl Link, root: u32, parents: &[u32]) -> Result<Checked<Vec<u16>>, TeamStopped> {
        let cut = &self.cut;
        let mut levels = vec![OUTSIDE; parents.len()];
        let (mut own, mut all) = (vec![0; cut.words()], vec![0; cut.all_words()]);
        let (part, number) = cut.owner(root);
        let is_root = |own: u32| part == cut.part && own == number;
        if is_root(number) {
            levels[number as usize] = 0;
            set(&mut own, number);
        }
        // Vertices whose level is not known yet, and their parents' positions.
        let with_parent = (0..).zip(parents).filter(|(own, parent)| **parent != NONE && !is_root(*own));
        let mut open: Vec<(u32, u32)> = with_parent.map(|(own, parent)| (own, cut.position(*parent))).collect();
        for level in 1..LEVELS_MAX as u16 {
            link.all_gather(&own, &mut all)?;
            if all.iter().all(|word| *word == 0) {
                break;
            }
            own.fill(0);
            open.retain(|(vertex, parent)| {
                let below = bit(&all, *parent);
                if below {
                    levels[*vertex as usize] = level;
                    set(&mut own, *vertex);
                }
                !below
            });
        }
        let mut left = [open.len() as u64];
        link.all_reduce(&mut left, Reduce::Sum)?;
        if left[0] == 0 {
            return Ok(Ok(levels));
        }
        // Some parents do not lead to the root, but to a vertex without a parent or into a cycle.
        own.fill(0);
        (0..).zip(parents).filter(|(_, parent)| **parent == NONE).for_each(|(vertex, _)| set(&mut own, vertex));
        link.all_gather(&own, &mut all)?;
        let label = |vertex: u32| cut.label(cut.part, vertex);
        let loose =
            open.iter().find(|(_, parent)| bit(&all, *parent)).map(|(vertex, _)| TreeError::Loose(label(*vertex)));
        if let Err(wrong) = reduce_results(link, loose.map_or(Ok(()), Err))? {
            return Ok(Err(wrong));
        }
        Ok(Err(open.first().map(|(vertex, _)| TreeError::Cycle(label(*vertex)))))
    }

    /// Sends each shard the level and parent of the vertices in its edges. Received values are in the order of `ends`.
    fn fetch(&mut self, link: &impl Link, levels: &[u16], parents: &[u32]) -> Result<(), TeamStopped> {
        for (asked, out) in self.asked.iter().zip(&mut self.mail.out) {
            let known = |number: &u32| (levels[*number as usize], parents[*number as usize]);
            out.extend(asked.iter().map(known).map(|(level, parent)| u64::from(level) << 32 | u64::from(parent)));
        }
        link.exchange(&mut self.mail)
    }

    /// Makes checks 3 and 4 on this shard's edges. Returns which of their ends have their tree edge among them.
    fn check_edges(&self, reached: &mut TreeStats) -> Result<Vec<bool>, TreeError> {
        let known = self.mail.received();
        let mut proven = vec![false; known.len()];
        for (a, b) in self.tuples.all() {
            let [at_a, at_b] = [a, b].map(|end| self.ends.number(self.cut.position(end)) as usize);
            let [level_a, level_b] = [at_a, at_b].map(|at| (known[at] >> 32) as u16);
            if let Some((upper, lower)) = check_edge((a, level_a), (b, level_b), reached)? {
                let at = if lower == a { at_a } else { at_b };
                proven[at] |= known[at] as u32 == upper;
            }
        }
        Ok(proven)
    }

    /// Reports to the owners which tree edges were found. Returns which own vertices' tree edges any shard has found.
    fn report_to_owners(&mut self, link: &impl Link, found: &[bool]) -> Result<Vec<bool>, TeamStopped> {
        let positions = self.ends.positions().zip(found);
        for (part, number) in positions.filter(|(_, found)| **found).map(|(position, _)| self.cut.at(position)) {
            self.mail.out[part].push(u64::from(number));
        }
        link.exchange(&mut self.mail)?;
        let mut proven = vec![false; self.cut.count(self.cut.part)];
        self.mail.received().iter().for_each(|number| proven[*number as usize] = true);
        Ok(proven)
    }

    /// Makes checks 2 and 5 on own vertices.
    fn check_vertices(
        &self,
        root: u32,
        levels: &[u16],
        proven: &[bool],
        reached: &mut TreeStats,
    ) -> Result<(), TreeError> {
        for (number, (level, proven)) in (0..).zip(levels.iter().zip(proven)) {
            let vertex = self.cut.label(self.cut.part, number);
            if *level == OUTSIDE {
                continue;
            }
            reached.vertices += 1;
            reached.levels = reached.levels.max(u64::from(*level) + 1);
            if vertex != root && !proven {
                return Err(TreeError::NoEdge(vertex));
            }
        }
        Ok(())
    }
}

/// Adds up the counts of all shards.
fn sum(link: &impl Link, reached: &TreeStats) -> Result<TreeStats, TeamStopped> {
    let mut sums = [reached.vertices, reached.tuples, reached.tuples_without_loops];
    link.all_reduce(&mut sums, Reduce::Sum)?;
    let mut levels = [reached.levels];
    link.all_reduce(&mut levels, Reduce::Max)?;
    let [vertices, tuples, tuples_without_loops] = sums;
    Ok(TreeStats { vertices, levels: levels[0], tuples, tuples_without_loops })
}
