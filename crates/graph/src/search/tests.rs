//! Searches with all instruction sets, numbers of threads and directions give valid trees with equal levels.

mod far;

use super::*;
use crate::build::build;
use crate::edges::Tuples;
use crate::kronecker::Spec;
use crate::roots::Roots;
use crate::team::{PlainTeam, Team};
use crate::validate::{NONE, TreeStats, Validator};

const DOWN: Tuning = Tuning { alpha: 0.0, beta: 1.0, alone_edges: 0.0 };
const UP: Tuning = Tuning { alpha: f64::INFINITY, beta: 1e18, alone_edges: 0.0 };
const ONE_THREAD: Tuning = Tuning { alpha: 0.0, beta: 1.0, alone_edges: f64::INFINITY };

fn searched(search: &mut Search<'_>, threads: usize, root: u64, tuning: &Tuning) -> Vec<u32> {
    search.check_root(root).unwrap();
    PlainTeam(threads).run(&|worker| search.run(worker, root, tuning)).unwrap();
    search.copy()
}

/// Places threads on two nodes in turn, to test multi-node searches on any machine.
fn on_two_nodes(threads: u32) -> Nodes {
    Nodes::of_threads(&(0..threads).map(|thread| NodeId(thread % 2)).collect::<Vec<_>>())
}

/// Searches a graph with all settings and validates each result. Returns the size of the first root's tree.
fn check(tuples: &Tuples, columns: u32, roots: usize) -> TreeStats {
    let layout = build(&PlainTeam(2), tuples, columns, &ArrayPlacement::kernel_default()).unwrap();
    let validator = Validator::new(tuples);
    let mut first = None;
    let mut next = Roots::new(tuples.spec());
    let roots: Vec<u64> = std::iter::from_fn(|| next.next(|vertex| layout.has_edge(vertex))).take(roots).collect();
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_of_architecture()) {
        if !isa.is_here() {
            println!("skipped: search: this CPU does not support {}", isa.name());
            continue;
        }
        for nodes in [Nodes::one(1), Nodes::one(2), on_two_nodes(2), on_two_nodes(3)] {
            let threads = nodes.threads();
            let mut search = Search::new(&layout, isa, nodes, &ArrayPlacement::kernel_default()).unwrap();
            let touch = |worker: &TeamWorker<'_>| {
                search.prepare(worker);
                Ok(())
            };
            PlainTeam(threads).run(&touch).unwrap();
            assert_eq!(search.isa(), isa);
            for root in &roots {
                let mut seen = None;
                for tuning in [Tuning::DRAM, Tuning::STUDY, DOWN, UP, ONE_THREAD] {
                    let parents = searched(&mut search, threads, *root, &tuning);
                    let reached = validator.check(&PlainTeam(2), *root as u32, &parents).unwrap();
                    let reached = reached.unwrap_or_else(|wrong| panic!("{} {threads} {root}: {wrong}", isa.name()));
                    assert_eq!(*seen.get_or_insert(reached), reached);
                    first.get_or_insert(reached);
                }
            }
        }
    }
    first.unwrap()
}

#[test]
fn all_settings_find_valid_trees() {
    for (scale, columns) in [(4, 1), (5, 3), (8, 2), (10, 16), (11, 10), (12, 64)] {
        let tuples =
            Tuples::generate(&PlainTeam(2), &Spec::graph500(scale), &ArrayPlacement::kernel_default()).unwrap();
        check(&tuples, columns, 3);
    }
}

/// Small enough for Miri, which checks the memory accesses of each direction.
#[test]
fn two_threads_search_a_small_graph_in_each_direction() {
    let placement = ArrayPlacement::kernel_default();
    let tuples = Tuples::generate(&PlainTeam(2), &Spec::graph500(4), &placement).unwrap();
    let layout = build(&PlainTeam(2), &tuples, 1, &placement).unwrap();
    let root = Roots::new(tuples.spec()).next(|vertex| layout.has_edge(vertex)).unwrap();
    let mut search = Search::new(&layout, Isa::best(), on_two_nodes(2), &placement).unwrap();
    for tuning in [DOWN, UP, ONE_THREAD] {
        let parents = searched(&mut search, 2, root, &tuning);
        Validator::new(&tuples).check(&PlainTeam(2), root as u32, &parents).unwrap().unwrap();
    }
}

#[test]
fn the_large_component_of_a_larger_graph_is_reached() {
    let tuples = Tuples::generate(&PlainTeam(2), &Spec::graph500(16), &ArrayPlacement::kernel_default()).unwrap();
    let reached = check(&tuples, 4, 2);
    assert!(reached.vertices > 46_000 && reached.levels >= 5, "{reached:?}");
    assert!(reached.tuples - reached.tuples_without_loops <= 491 && reached.tuples < 16 << 16, "{reached:?}");
}

#[test]
fn long_paths_and_hubs_with_several_pieces_are_searched() {
    // A path of 100 vertices, and a hub with 120 000 neighbours, whose list takes more than 64 KiB.
    let mut edges: Vec<(u32, u32)> = (0..100).map(|vertex| (vertex, vertex + 1)).collect();
    edges.extend((101..120_101).map(|vertex| (0, vertex)));
    edges.extend((101..120_000).step_by(3).map(|vertex| (vertex, vertex + 1)));
    let tuples = Tuples::of(17, &edges);
    let reached = check(&tuples, 1, 1);
    assert_eq!((reached.vertices, reached.tuples), (120_101, edges.len() as u64));
}

#[test]
fn searches_do_not_affect_later_ones() {
    // Two components: vertices of the first search must not appear in the second.
    let tuples = Tuples::of(4, &[(0, 1), (1, 2), (5, 6), (6, 7), (7, 5)]);
    let layout = build(&PlainTeam(1), &tuples, 2, &ArrayPlacement::kernel_default()).unwrap();
    let mut search = Search::new(&layout, Isa::best(), Nodes::one(2), &ArrayPlacement::kernel_default()).unwrap();
    for _ in 0..3 {
        let parents = searched(&mut search, 2, 1, &UP);
        assert_eq!(parents, [&[1, 1, 1][..], &[NONE; 13]].concat());
        let parents = searched(&mut search, 2, 6, &DOWN);
        assert_eq!(parents[5..8], [6, 6, 6]);
        assert!(parents[..5].iter().chain(&parents[8..]).all(|parent| *parent == NONE));
    }
    for root in [3, 15, 16, u64::MAX] {
        assert_eq!(search.check_root(root), Err(Error::Root(root)));
    }
}

#[test]
fn directions_follow_the_rule_of_beamer() {
    let layout_standing = |way, count, before, edges, unexplored| SearchState {
        way,
        frontier: Frontier { count, before, edges, unexplored },
        map: 0,
        list: 0,
        mapped: false,
        listed: true,
        length: 0,
        late: false,
    };
    let tuning = Tuning { alpha: 10.0, beta: 4.0, alone_edges: 100.0 };
    for (way, count, before, edges, unexplored, expected) in [
        (Direction::Alone, 1, 0, 50.0, 1e6, Direction::Alone),
        (Direction::Alone, 20, 1, 500.0, 1e6, Direction::Down),
        (Direction::Down, 200, 20, 1e5, 1e6, Direction::Up),
        (Direction::Up, 900, 200, 1e5, 1e5, Direction::Up),
        (Direction::Up, 100, 900, 1e5, 1e5, Direction::Down),
        (Direction::Up, 300, 900, 1e5, 1e5, Direction::Up),
        (Direction::Up, 100, 90, 1e5, 1e5, Direction::Up),
        (Direction::Up, 0, 90, 0.0, 1e5, Direction::End),
    ] {
        let standing = layout_standing(way, count, before, edges, unexplored);
        assert_eq!(standing.choice(&tuning, 1000.0), expected, "{standing:?}");
    }
}
