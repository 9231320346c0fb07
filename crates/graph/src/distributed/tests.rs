//! Searches over shards (threads of this process) find the same result as a search on one machine, for any number of
//! shards and hubs and in both directions. Each check of the distributed validation fails on a tree that violates it.

use sha2::{Digest, Sha256};

use super::*;
use crate::arrays::ArrayPlacement;
use crate::build::build;
use crate::direction::Tuning;
use crate::edges::Tuples;
use crate::error::Error;
use crate::kronecker::Spec;
use crate::lanes::Isa;
use crate::link::{Link, together};
use crate::nodes::Nodes;
use crate::roots::Roots;
use crate::search::Search;
use crate::team::{PlainTeam, Team, TeamWorker};
use crate::validate::{NONE, TreeError, TreeStats, Validator};

const DOWN: Tuning = Tuning { alpha: 0.0, beta: 1.0, alone_edges: 0.0 };
const UP: Tuning = Tuning { alpha: f64::INFINITY, beta: 1e18, alone_edges: 0.0 };

/// Returns the level of each vertex that a tree reaches.
fn levels(parents: &[u32]) -> Vec<Option<usize>> {
    let level = |vertex: usize| {
        let above = std::iter::successors(Some(vertex), |vertex| Some(parents[*vertex] as usize));
        above.take(parents.len()).position(|vertex| parents[vertex] as usize == vertex)
    };
    (0..parents.len()).map(|vertex| (parents[vertex] != NONE).then(|| level(vertex)).flatten()).collect()
}

/// Assembles the parents of all vertices from those of all shards.
fn whole(parts: &[Vec<u32>]) -> Vec<u32> {
    let vertices: usize = parts.iter().map(Vec::len).sum();
    (0..vertices).map(|vertex| parts[vertex % parts.len()][vertex / parts.len()]).collect()
}

/// Returns the results of a search on one machine: roots with the levels and the size of the tree.
fn alone(spec: &Spec, tuples: &Tuples, roots: usize) -> Vec<(u32, Vec<Option<usize>>, TreeStats)> {
    let layout = build(&PlainTeam(1), tuples, 4, &ArrayPlacement::kernel_default()).unwrap();
    let mut search = Search::new(&layout, Isa::best(), Nodes::one(1), &ArrayPlacement::kernel_default()).unwrap();
    let (validator, mut next) = (Validator::new(tuples), Roots::new(spec));
    let roots = std::iter::from_fn(|| next.next(|vertex| layout.has_edge(vertex))).take(roots);
    let searched = roots.map(|root| {
        PlainTeam(1).run(&|worker| search.run(worker, root, &Tuning::DRAM)).unwrap();
        let reached = validator.check(&PlainTeam(1), root as u32, search.parents()).unwrap().unwrap();
        (root as u32, levels(search.parents()), reached)
    });
    searched.collect()
}

fn check(scale: u32, parts: usize, hubs: usize, roots: usize) {
    let spec = Spec::graph500(scale);
    let tuples = Tuples::generate(&PlainTeam(1), &spec, &ArrayPlacement::kernel_default()).unwrap();
    let expected = alone(&spec, &tuples, roots);
    let searched = together(&PlainTeam(parts), |link| {
        let share = Shard::generate(link, &spec).unwrap();
        let part = Shard::build(link, &share, hubs).unwrap();
        let everywhere = part.everywhere(link).unwrap();
        let mut validator = PartValidator::new(link, &share).unwrap();
        let (mut search, mut roots, mut searched) = (ShardSearch::new(&part), Roots::new(&spec), Vec::new());
        for _ in &expected {
            let root = roots.next(|vertex| everywhere.has_edge(vertex)).unwrap() as u32;
            for tuning in [Tuning::DRAM, Tuning::STUDY, DOWN, UP] {
                search.run(link, root, &tuning)?;
                searched.push((root, validator.check(link, root, search.parents())?, search.parents().to_vec()));
            }
        }
        Ok(searched)
    });
    let searched = searched.unwrap();
    let one = Validator::new(&tuples);
    for (index, (root, expected, reached)) in expected.iter().flat_map(|one| [one; 4]).enumerate() {
        let of_all: Vec<_> = searched.iter().map(|searched| &searched[index]).collect();
        let name = format!("scale {scale}, {parts} shards, {hubs} hubs, search {index} from {root}");
        for (other, checked, _) in &of_all {
            assert_eq!((other, checked), (root, &Ok(*reached)), "{name}");
        }
        let parents = whole(&of_all.iter().map(|(_, _, parents)| parents.clone()).collect::<Vec<_>>());
        assert_eq!(one.check(&PlainTeam(1), *root, &parents).unwrap(), Ok(*reached), "{name}");
        assert!(levels(&parents) == *expected, "{name}");
    }
}

#[test]
fn shards_find_the_same_trees_as_one_machine() {
    for scale in 4..=14 {
        for (parts, hubs) in [(1, 16), (2, 64), (3, 0), (5, 7), (8, 4096)] {
            check(scale, parts, hubs, if scale < 10 { 3 } else { 1 });
        }
    }
}

#[test]
fn shares_equal_the_reference_edge_list() {
    let spec = Spec::graph500(14);
    let shares = together(&PlainTeam(3), |link| Ok(Shard::generate(link, &spec).unwrap().all().collect::<Vec<_>>()));
    let mut hash = Sha256::new();
    for end in shares.unwrap().into_iter().flatten().flat_map(|(a, b)| [a, b]) {
        hash.update(u64::from(end).to_le_bytes());
    }
    let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, "3625670bedd5a56dce03247f8198dbf33105e186ae0c0f605d4353f55eacfa3c");
}

#[test]
fn work_is_balanced_and_roots_equal_the_reference() {
    let spec = Spec::graph500(16);
    let unevenness = |hubs: usize| {
        let of_all = together(&PlainTeam(32), |link| {
            let share = Shard::generate(link, &spec).unwrap();
            let part = Shard::build(link, &share, hubs).unwrap();
            let everywhere = part.everywhere(link).unwrap();
            let mut roots = Roots::new(&spec);
            let roots = [(); 4].map(|()| roots.next(|vertex| everywhere.has_edge(vertex)));
            assert_eq!(roots, [29_348, 8_064, 61_854, 29_808].map(Some));
            assert!(!everywhere.has_edge(1 << 16) && !everywhere.has_edge(u64::MAX));
            assert_eq!((part.vertices(), part.hubs()), (65_536 - 18_721, hubs));
            Ok((part.unevenness(), part.edges()))
        });
        let of_all = of_all.unwrap();
        assert!(of_all.iter().all(|one| *one == of_all[0]));
        of_all[0]
    };
    let ((without, edges), (with, edges_too)) = (unevenness(0), unevenness(1024));
    assert_eq!(edges, edges_too);
    // With 32 shards; with fewer, a hub has less weight.
    assert!(with < 1.06 && without > 1.11, "{with} with hubs, {without} without");
}

#[test]
fn invalid_distributions_return_errors_in_all_shards() {
    let refused =
        |parts: usize, spec: Spec| together(&PlainTeam(parts), |link| Ok(Shard::generate(link, &spec).err())).unwrap();
    assert_eq!(refused(3, Spec::graph500(1)), vec![Some(Some(Error::Parts { vertices: 2, parts: 3 })); 3]);
    assert_eq!(refused(2, Spec::graph500(0)), vec![Some(Some(Error::Scale { scale: 0, max: 40 })); 2]);
    assert_eq!(refused(2, Spec::graph500(32)), vec![Some(Some(Error::Scale { scale: 32, max: 31 })); 2]);
    let large = refused(2, Spec::graph500(31));
    assert!(large.iter().all(|one| matches!(one, Some(Some(Error::TooLarge { .. })))), "{large:?}");
    let isolated = together(&PlainTeam(2), |link| {
        let loops: &[(u32, u32)] = if link.part() == 0 { &[(1, 1)] } else { &[(5, 5), (2, 2)] };
        Ok(Shard::build(link, &Tuples::of(3, loops), 4).err())
    });
    assert_eq!(isolated.unwrap(), [Some(Error::NoEdges), Some(Error::NoEdges)]);
}

/// A path 0-1-2-3-4-5, shortcuts 1-3 and 0-5, a multi-edge and a self-loop; 6-7 is separate; 8 to 15 are isolated.
const EDGES: [(u32, u32); 11] =
    [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 3), (0, 5), (1, 0), (2, 2), (6, 7), (8, 8)];

/// Returns the first error that a shard reports.
fn judged(scale: u32, edges: &[(u32, u32)], root: u32, parents: &[u32], parts: usize) -> Result<TreeStats, TreeError> {
    let checked = together(&PlainTeam(parts), |link| {
        let own: Vec<u32> = parents.iter().skip(link.part()).step_by(parts).copied().collect();
        let worker = TeamWorker { index: link.part(), of: parts, barrier: &|| Ok(()) };
        let share = Tuples::of(scale, &edges[worker.share(edges.len())]);
        PartValidator::new(link, &share).unwrap().check(link, root, &own)
    });
    let checked = checked.unwrap();
    match checked.iter().find_map(|one| one.err().flatten()) {
        // If one shard finds an error, all reject the tree.
        Some(wrong) => {
            assert!(checked.iter().all(Result::is_err), "{checked:?}");
            Err(wrong)
        }
        None => Ok(checked[0].unwrap_or_else(|_| panic!("no shard has a reason: {checked:?}"))),
    }
}

/// Checks a valid tree from 0 (levels 0, 1, 2, 2, 2, 1) with these changes.
fn check_changed(changes: &[(usize, u32)]) -> Result<TreeStats, TreeError> {
    let mut parents = vec![NONE; 16];
    parents[..6].copy_from_slice(&[0, 0, 1, 1, 5, 0]);
    changes.iter().for_each(|(vertex, parent)| parents[*vertex] = *parent);
    let judged = [1, 2, 3, 7].map(|parts| judged(4, &EDGES, 0, &parents, parts));
    assert!(judged.iter().all(|one| one.is_ok() == judged[0].is_ok()), "{judged:?}");
    judged[1]
}

#[test]
fn valid_trees_are_accepted_and_counted_by_shards() {
    assert_eq!(check_changed(&[]), Ok(TreeStats { vertices: 6, levels: 3, tuples: 9, tuples_without_loops: 8 }));
}

#[test]
fn every_kind_of_invalid_tree_is_rejected_by_shards() {
    assert!(matches!(check_changed(&[(2, 3), (3, 2)]), Err(TreeError::Cycle(2 | 3))));
    assert_eq!(check_changed(&[(4, 4)]), Err(TreeError::Cycle(4)));
    assert_eq!(check_changed(&[(3, 2)]), Err(TreeError::Levels(1, 3)), "level 3 next to level 1");
    assert_eq!(check_changed(&[(2, NONE)]), Err(TreeError::Spanning(1, 2)));
    assert_eq!(check_changed(&[(5, NONE)]), Err(TreeError::Loose(4)), "its child has no path to the root");
    assert_eq!(check_changed(&[(2, 5)]), Err(TreeError::NoEdge(2)));
    assert_eq!(check_changed(&[(9, 0)]), Err(TreeError::NoEdge(9)), "a vertex without edges");
    assert_eq!(check_changed(&[(6, 0), (7, 6)]), Err(TreeError::NoEdge(6)), "another component");
    assert_eq!(check_changed(&[(0, 1)]), Err(TreeError::Root(0)));
    assert_eq!(check_changed(&[(3, 16)]), Err(TreeError::NoVertex(3)));
    let isolated = [&[0][..], &[NONE; 15]].concat();
    assert_eq!(judged(4, &EDGES, 0, &isolated, 3), Err(TreeError::Spanning(0, 1)));
}

/// On a Kronecker graph, changing a single parent gives the same verdict as on one machine.
#[test]
fn changed_trees_get_the_same_verdict_as_on_one_machine() {
    let spec = Spec::graph500(10);
    let tuples = Tuples::generate(&PlainTeam(1), &spec, &ArrayPlacement::kernel_default()).unwrap();
    let edges: Vec<(u32, u32)> = tuples.all().collect();
    let layout = build(&PlainTeam(1), &tuples, 4, &ArrayPlacement::kernel_default()).unwrap();
    let mut search = Search::new(&layout, Isa::best(), Nodes::one(1), &ArrayPlacement::kernel_default()).unwrap();
    PlainTeam(1).run(&|worker| search.run(worker, 458, &Tuning::DRAM)).unwrap();
    let (parents, validator) = (search.parents().to_vec(), Validator::new(&tuples));
    let mut right = 0;
    for vertex in (0..1024_u32).filter(|vertex| parents[*vertex as usize] != NONE && *vertex != 458).step_by(97) {
        for parent in (0..1024).step_by(53).chain([NONE, 5000]) {
            let mut changed = parents.clone();
            changed[vertex as usize] = parent;
            let expected = validator.check(&PlainTeam(1), 458, &changed).unwrap().ok();
            assert_eq!(judged(10, &edges, 458, &changed, 3).ok(), expected, "{vertex} {parent}");
            right += u32::from(expected.is_some());
        }
    }
    assert!(right > 0, "some changes are to another valid parent");
}
