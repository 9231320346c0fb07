//! Each check fails on a tree that violates it, and passes on the result of a simple search.

use std::collections::VecDeque;

use super::*;
use crate::arrays::ArrayPlacement;
use crate::kronecker::{Generator, Spec};
use crate::team::PlainTeam;

/// A path 0-1-2-3-4-5, shortcuts 1-3 and 0-5, a multi-edge and a self-loop; 6-7 is separate; 8 to 15 are isolated, with
/// self-loops.
const EDGES: [(u32, u32); 16] = [
    (0, 1),
    (1, 2),
    (2, 3),
    (3, 4),
    (4, 5),
    (1, 3),
    (0, 5),
    (1, 0),
    (2, 2),
    (6, 7),
    (8, 8),
    (8, 8),
    (10, 10),
    (11, 11),
    (12, 12),
    (15, 15),
];

/// Edges that are generated for each request.
struct GeneratedEdges;

impl Edges for GeneratedEdges {
    fn fill(&self, first: u64, edges: &mut [[u64; 2]]) -> Result<(), String> {
        edges.iter_mut().zip(&EDGES[first as usize..]).for_each(|(edge, (a, b))| *edge = [*a, *b].map(u64::from));
        Ok(())
    }
}

/// Validates with a list in memory and with generated edges, on several threads.
fn check(parents: &[u32]) -> Result<TreeStats, TreeError> {
    let tuples = Tuples::of(4, &EDGES);
    let result = |threads, validator: Validator<'_>| validator.check(&PlainTeam(threads), 0, parents).unwrap();
    let listed = [1, 2, 5].map(|threads| result(threads, Validator::new(&tuples)));
    let streamed = [1, 3, 5].map(|threads| result(threads, Validator::streaming(tuples.spec(), &GeneratedEdges)));
    assert!(
        listed.iter().chain(&streamed).all(|result| result.is_ok() == listed[0].is_ok()),
        "{listed:?} {streamed:?}"
    );
    assert_eq!(streamed[0], listed[0], "one thread finds the same first");
    listed[0]
}

/// A valid tree from 0: levels 0, 1, 2, 2, 2, 1.
fn tree() -> Vec<u32> {
    let mut parents = vec![NONE; 16];
    parents[..6].copy_from_slice(&[0, 0, 1, 1, 5, 0]);
    parents
}

fn check_changed(changes: &[(usize, u32)]) -> Result<TreeStats, TreeError> {
    let mut parents = tree();
    changes.iter().for_each(|(vertex, parent)| parents[*vertex] = *parent);
    check(&parents)
}

#[test]
fn valid_trees_are_accepted_and_counted() {
    let reached = TreeStats { vertices: 6, levels: 3, tuples: 9, tuples_without_loops: 8 };
    assert_eq!(check_changed(&[]), Ok(reached));
    // Either of two parents on the right level is valid.
    let other = [(0, 1), (1, 2), (0, 3), (2, 3)].to_vec();
    let tuples = Tuples::of(2, &other);
    let mut parents = vec![0, 0, 1, 0];
    for parent in [1, 3] {
        parents[2] = parent;
        assert!(Validator::new(&tuples).check(&PlainTeam(1), 0, &parents).unwrap().is_ok());
    }
}

#[test]
fn cycles_are_detected() {
    assert!(matches!(check_changed(&[(2, 3), (3, 2)]), Err(TreeError::Cycle(_))));
    assert!(matches!(check_changed(&[(4, 4)]), Err(TreeError::Cycle(4))));
    // A long cycle, which spans many chunks of work.
    let ring: Vec<(u32, u32)> = (1..50_000).map(|vertex| (vertex, vertex % 49_999 + 1)).collect();
    let mut parents: Vec<u32> = (0..1 << 16).map(|vertex: u32| vertex % 49_999 + 1).collect();
    parents[0] = 0;
    parents[50_000..].fill(NONE);
    let found = Validator::new(&Tuples::of(16, &ring)).check(&PlainTeam(2), 0, &parents).unwrap();
    assert!(matches!(found, Err(TreeError::Cycle(_))), "{found:?}");
}

#[test]
fn vertices_on_wrong_levels_are_detected() {
    // 3 is reached through 2 instead of 1: level 3 is adjacent to level 1.
    assert_eq!(check_changed(&[(3, 2)]), Err(TreeError::Levels(1, 3)));
    // Check 2 detects levels and parents that disagree, which cannot result from a tree alone.
    let tuples = Tuples::of(4, &EDGES);
    let validator = Validator::new(&tuples);
    assert!(validator.check(&PlainTeam(1), 0, &tree()).unwrap().is_ok());
    validator.levels[4].store(7, Relaxed);
    let found = validator.check_vertex(0, &tree(), 4, &mut TreeStats::default());
    assert_eq!(found, Err(TreeError::TreeLevels(4)));
}

#[test]
fn missing_vertices_are_detected() {
    assert_eq!(check_changed(&[(2, NONE)]), Err(TreeError::Spanning(1, 2)));
    assert!(matches!(check_changed(&[(5, NONE)]), Err(TreeError::Loose(4))), "its child has no path to the root");
    assert_eq!(check(&[&[0][..], &[NONE; 15]].concat()), Err(TreeError::Spanning(0, 1)));
}

#[test]
fn tree_edges_missing_from_the_graph_are_detected() {
    assert_eq!(check_changed(&[(2, 5)]), Err(TreeError::NoEdge(2)));
    assert_eq!(check_changed(&[(9, 0)]), Err(TreeError::NoEdge(9)), "a vertex without edges");
    assert!(matches!(check_changed(&[(6, 0), (7, 6)]), Err(TreeError::NoEdge(6))), "another component");
}

#[test]
fn wrong_roots_and_parents_out_of_range_are_detected() {
    assert_eq!(check_changed(&[(0, 1)]), Err(TreeError::Root(0)));
    assert_eq!(check_changed(&[(3, 16)]), Err(TreeError::NoVertex(3)));
}

#[test]
fn unreadable_edges_return_an_error_without_a_verdict() {
    struct Cut;
    impl Edges for Cut {
        fn fill(&self, first: u64, edges: &mut [[u64; 2]]) -> Result<(), String> {
            if first > 0 { Err("planted".into()) } else { GeneratedEdges.fill(first, edges) }
        }
    }
    let spec = Spec { edge_factor: 1, ..Spec::graph500(4) };
    let found = Validator::streaming(&spec, &Cut).check(&PlainTeam(2), 0, &tree());
    assert_eq!(found, Err(Error::Edges("planted".into())));
}

/// On a Kronecker graph, every change of a single parent that breaks the tree is detected.
#[test]
fn changes_of_large_trees_are_detected() {
    let tuples = Tuples::generate(&PlainTeam(2), &Spec::graph500(10), &ArrayPlacement::kernel_default()).unwrap();
    let whole = TeamWorker { index: 0, of: 1, barrier: &|| Ok(()) };
    let edges: Vec<(u32, u32)> = tuples.part(&whole).collect();
    let mut lists = vec![Vec::new(); 1024];
    for (a, b) in edges.iter().filter(|(a, b)| a != b) {
        lists[*a as usize].push(*b);
        lists[*b as usize].push(*a);
    }
    let (mut parents, mut levels) = (vec![NONE; 1024], vec![0; 1024]);
    let mut queue = VecDeque::from([458_u32]);
    parents[458] = 458;
    while let Some(vertex) = queue.pop_front() {
        for neighbour in &lists[vertex as usize] {
            if parents[*neighbour as usize] == NONE {
                parents[*neighbour as usize] = vertex;
                levels[*neighbour as usize] = levels[vertex as usize] + 1;
                queue.push_back(*neighbour);
            }
        }
    }
    let generator = Generator::new(tuples.spec()).unwrap();
    let validators = [Validator::new(&tuples), Validator::streaming(tuples.spec(), &generator)];
    let valid = |parents: &[u32]| {
        let [listed, streamed] = validators.each_ref().map(|of| of.check(&PlainTeam(2), 458, parents).unwrap());
        assert_eq!(listed.is_ok(), streamed.is_ok());
        assert!(listed.is_err() || listed == streamed);
        listed.is_ok()
    };
    assert!(valid(&parents));
    for vertex in (0..1024_u32).filter(|vertex| parents[*vertex as usize] != NONE && *vertex != 458).step_by(61) {
        for parent in (0..1024).step_by(53).chain([NONE, 5000]) {
            let mut changed = parents.clone();
            changed[vertex as usize] = parent;
            let right =
                lists[vertex as usize].contains(&parent) && levels[parent as usize] + 1 == levels[vertex as usize];
            assert_eq!(valid(&changed), right, "{vertex} {parent}");
        }
    }
}
