//! Searches with tail lists outside DRAM find the same levels as those in memory, in any order of read completions. A
//! failed read or corrupt data ends the search with the reason.

use std::collections::VecDeque;
use std::sync::Arc;

use model::values::units::Bytes;

use super::*;
use crate::budget::{COLUMNS_CHOSEN, Dram, DramLayout, HeadBudget};
use crate::build::build_in_order;
use crate::coded::PADDING;
use crate::degrees::{DegreeRuns, TieOrder};
use crate::out_of_core::tests::DiskStub;
use crate::out_of_core::{OutOfCore, build_beyond};
use crate::prefixes::LENGTH_MAX;
use crate::storage::PartKind;
use crate::tail_io::{PAGE_BYTES, READ_BYTES_MAX, READ_PADDING};

/// A stub of a disk that holds the tail lists in whole pages.
struct TailStub {
    bytes: Arc<Vec<u8>>,
    places: usize,
    queued: Vec<(usize, u64, usize)>,
    in_flight: VecDeque<(usize, u64, usize)>,
    /// Number of successful reads before one fails.
    fails_after: Option<usize>,
    /// Number of polls; every third one finds completed reads.
    asked: usize,
}

impl TailReader for TailStub {
    fn queue_depth(&self) -> usize {
        self.places
    }

    fn bytes(&self) -> usize {
        0
    }

    fn read(&mut self, number: usize, offset: u64, bytes: usize) {
        assert!(number < self.places && bytes <= READ_BYTES_MAX && bytes > 0);
        assert!(offset.is_multiple_of(PAGE_BYTES) && (bytes as u64).is_multiple_of(PAGE_BYTES));
        assert!(offset as usize + bytes + READ_PADDING <= self.bytes.len());
        let busy = self.queued.iter().chain(&self.in_flight).any(|read| read.0 == number);
        assert!(!busy, "read {number} is in flight");
        self.queued.push((number, offset, bytes));
    }

    fn submit(&mut self) {
        self.in_flight.extend(self.queued.drain(..));
    }

    fn ended(&mut self) -> usize {
        self.asked += 1;
        if self.asked.is_multiple_of(3) { self.in_flight.len() } else { 0 }
    }

    /// Completes the last read first, and then the first one; only one unless it waits.
    fn take(&mut self, wait: bool, with: &mut dyn FnMut(usize, &[u8])) -> (usize, Result<(), String>) {
        assert!(!wait || !self.in_flight.is_empty(), "no read is in flight");
        let some = [self.in_flight.pop_back(), if wait { self.in_flight.pop_front() } else { None }];
        let mut ended = 0;
        for (number, offset, bytes) in some.into_iter().flatten() {
            ended += 1;
            if let Some(left) = &mut self.fails_after {
                if *left == 0 {
                    return (ended, Err("planted".into()));
                }
                *left -= 1;
            }
            with(number, &self.bytes[offset as usize..offset as usize + bytes + READ_PADDING]);
        }
        (ended, Ok(()))
    }
}

/// Builds the graph with this DRAM limit, and its tail lists in pages.
fn beyond(tuples: &Tuples, dram: Dram, columns: Option<u32>) -> Result<(Layout, HeadBudget, Arc<Vec<u8>>), Error> {
    let (storage, spec) = (DiskStub::default(), tuples.spec());
    let memory = Bytes(64 << 20);
    let with = OutOfCore { storage: &storage, edges: Some(tuples), memory, watch: &|_| {} };
    let (layout, budget) =
        build_beyond(&PlainTeam(2), spec, (dram, columns), &with, &ArrayPlacement::kernel_default())?;
    let mut bytes = storage.part(PartKind::Graph);
    bytes.resize(bytes.len().next_multiple_of(PAGE_BYTES as usize) + READ_PADDING, 0xFF);
    Ok((layout, budget, Arc::new(bytes)))
}

/// Builds the graph with the minimum DRAM for these columns, plus `kept` bytes of lists.
fn with_little(tuples: &Tuples, columns: u32, kept: u64) -> (Layout, Arc<Vec<u8>>) {
    let near = build(&PlainTeam(2), tuples, columns, &ArrayPlacement::kernel_default()).unwrap();
    let mut degrees: Vec<u32> = (0..near.ranks).map(|rank| near.list(rank).unwrap().len() as u32).collect();
    degrees.sort_unstable();
    let least = DramLayout::of_columns(columns).bytes(&DegreeRuns::of(&degrees, None).0);
    let dram = Dram::Bytes(Bytes(least + kept));
    let (layout, _, bytes) = beyond(tuples, dram, Some(columns)).unwrap();
    let left = layout.tail.len() - PADDING;
    assert!(left < near.tail().len() && layout.has_far(), "{left} of {}", near.tail().len());
    (layout, bytes)
}

fn set_stub(search: &Search<'_>, threads: usize, bytes: &Arc<Vec<u8>>, places: usize, fails_after: Option<usize>) {
    let stub = || TailStub {
        bytes: bytes.clone(),
        places,
        queued: Vec::new(),
        in_flight: VecDeque::new(),
        fails_after,
        asked: 0,
    };
    PlainTeam(threads)
        .run(&|worker| {
            search.fetch_by(worker, Box::new(stub()));
            Ok(())
        })
        .unwrap();
}

/// Returns the distance of each vertex from the root.
fn levels(parents: &[u32]) -> Vec<Option<u32>> {
    let depth = |vertex: usize| {
        let (mut at, mut depth) = (vertex as u32, 0);
        while parents[at as usize] != at {
            (at, depth) = (parents[at as usize], depth + 1);
        }
        depth
    };
    (0..parents.len()).map(|vertex| (parents[vertex] != NONE).then(|| depth(vertex))).collect()
}

/// Searches a graph with these columns and bytes of tail lists in memory, with all settings.
fn check_little(tuples: &Tuples, columns: u32, kept: u64, roots: usize) -> IoCounts {
    let (layout, bytes) = with_little(tuples, columns, kept);
    check_far(tuples, &layout, &bytes, roots)
}

/// Searches with all settings, and compares with searches that have all tail lists in memory.
fn check_far(tuples: &Tuples, layout: &Layout, bytes: &Arc<Vec<u8>>, roots: usize) -> IoCounts {
    let near = build(&PlainTeam(2), tuples, layout.columns(), &ArrayPlacement::kernel_default()).unwrap();
    assert!(layout.edge_bytes() < near.edge_bytes());
    let validator = Validator::new(tuples);
    let mut most = IoCounts::default();
    let mut next = Roots::new(tuples.spec());
    let roots: Vec<u64> = std::iter::from_fn(|| next.next(|vertex| layout.has_edge(vertex))).take(roots).collect();
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_here()) {
        for (nodes, places) in [(Nodes::one(1), 1), (Nodes::one(2), 3), (on_two_nodes(2), 3), (on_two_nodes(3), 40)] {
            let threads = nodes.threads();
            let mut search = Search::new(layout, isa, nodes, &ArrayPlacement::kernel_default()).unwrap();
            let mut in_core = Search::new(&near, isa, Nodes::one(threads), &ArrayPlacement::kernel_default()).unwrap();
            set_stub(&search, threads, bytes, places, None);
            for root in &roots {
                let expected = levels(&searched(&mut in_core, threads, *root, &Tuning::DRAM));
                for tuning in [Tuning::FAR, DOWN, UP, ONE_THREAD] {
                    let parents = searched(&mut search, threads, *root, &tuning);
                    let io = search.io().unwrap();
                    most = if io.lists > most.lists { io } else { most };
                    validator.check(&PlainTeam(2), *root as u32, &parents).unwrap().unwrap();
                    assert!(levels(&parents) == expected, "{} {threads} {root} {tuning:?}", isa.name());
                }
            }
        }
    }
    most
}

#[test]
fn levels_equal_those_of_a_search_in_memory() {
    for (scale, columns, kept) in [(4, 1, 0), (8, 2, 100), (10, 1, 0), (11, 4, 5000), (13, 3, 20_000)] {
        let tuples =
            Tuples::generate(&PlainTeam(2), &Spec::graph500(scale), &ArrayPlacement::kernel_default()).unwrap();
        let io = check_little(&tuples, columns, kept, 3);
        assert!(io.lists > 0 && io.reads > 0 && io.bytes >= io.reads * PAGE_BYTES, "{io:?}");
        assert!(io.reads < io.lists || scale == 4, "adjacent lists are read together: {io:?}");
    }
}

#[test]
fn hubs_with_several_pieces_are_read_piece_by_piece() {
    let mut edges: Vec<(u32, u32)> = (0..100).map(|vertex| (vertex, vertex + 1)).collect();
    edges.extend((101..120_101).map(|vertex| (0, vertex)));
    edges.extend((101..120_000).step_by(3).map(|vertex| (vertex, vertex + 1)));
    let edges: Vec<(u32, u32)> = edges.into_iter().cycle().take(2 << 17).collect();
    let io = check_little(&Tuples::of(17, &edges), 1, 0, 1);
    assert!(io.bytes > 2 << 16, "{io:?}");
}

#[test]
fn lists_outside_dram_have_prefixes_in_dram() {
    let tuples = Tuples::generate(&PlainTeam(2), &Spec::graph500(13), &ArrayPlacement::kernel_default()).unwrap();
    let mut before = u64::MAX;
    for (percent, least) in [(34.0, 3), (40.0, 7), (50.0, 16)] {
        let (layout, _, bytes) = beyond(&tuples, Dram::Percent(percent), None).unwrap();
        assert_eq!(layout.columns(), COLUMNS_CHOSEN, "{percent}");
        assert!(layout.beginnings() >= least && layout.has_far(), "{percent}: {}", layout.beginnings());
        let whole = layout.rows[COLUMNS_CHOSEN as usize] as usize - layout.index.lists();
        assert!(whole > 100, "lists that are entirely in DRAM: {whole}");
        let io = check_far(&tuples, &layout, &bytes, 3);
        assert!(io.lists > 0 && io.lists < before, "{percent}: {io:?}");
        before = io.lists;
    }
}

#[test]
fn failed_reads_end_the_search_with_the_reason() {
    let tuples = Tuples::generate(&PlainTeam(2), &Spec::graph500(10), &ArrayPlacement::kernel_default()).unwrap();
    let (layout, bytes) = with_little(&tuples, 1, 0);
    let root = Roots::new(tuples.spec()).next(|vertex| layout.has_edge(vertex)).unwrap();
    for tuning in [Tuning::FAR, DOWN, UP, ONE_THREAD] {
        for (threads, fails_after) in [(1, 0), (2, 0), (1, 1), (3, 1)] {
            let mut search =
                Search::new(&layout, Isa::best(), Nodes::one(threads), &ArrayPlacement::kernel_default()).unwrap();
            set_stub(&search, threads, &bytes, 4, Some(fails_after));
            // Reads are divided among threads at random; a single thread reads more than once in top-down levels.
            searched(&mut search, threads, root, &tuning);
            let result = search.io();
            if fails_after == 0 || (threads == 1 && tuning == DOWN) {
                assert_eq!(result, Err("planted".into()), "{tuning:?} {threads} {fails_after}");
            }
            // A new reader clears the failure.
            set_stub(&search, threads, &bytes, 4, None);
            let parents = searched(&mut search, threads, root, &tuning);
            search.io().unwrap();
            Validator::new(&tuples).check(&PlainTeam(1), root as u32, &parents).unwrap().unwrap();
        }
    }
}

#[test]
fn corrupt_tail_lists_are_detected() {
    let tuples = Tuples::generate(&PlainTeam(2), &Spec::graph500(9), &ArrayPlacement::kernel_default()).unwrap();
    let (layout, bytes) = with_little(&tuples, 1, 0);
    let root = Roots::new(tuples.spec()).next(|vertex| layout.has_edge(vertex)).unwrap();
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_here()) {
        for byte in [0, 0xFF, 0x7F, 0x80] {
            let changed = Arc::new(vec![byte; bytes.len()]);
            let mut search = Search::new(&layout, isa, Nodes::one(2), &ArrayPlacement::kernel_default()).unwrap();
            set_stub(&search, 2, &changed, 4, None);
            searched(&mut search, 2, root, &UP);
            let error = search.io().unwrap_err();
            assert!(error.contains("differs from the data written"), "{byte}: {error}");
        }
    }
}

#[test]
fn searches_without_a_reader_return_an_error() {
    let tuples = Tuples::generate(&PlainTeam(2), &Spec::graph500(8), &ArrayPlacement::kernel_default()).unwrap();
    let (layout, _) = with_little(&tuples, 1, 0);
    let root = Roots::new(tuples.spec()).next(|vertex| layout.has_edge(vertex)).unwrap();
    let mut search = Search::new(&layout, Isa::best(), Nodes::one(2), &ArrayPlacement::kernel_default()).unwrap();
    searched(&mut search, 2, root, &Tuning::FAR);
    assert!(search.io().unwrap_err().contains("no reader is set"));
}

#[test]
fn prefixes_fill_the_dram_limit_and_hubs_get_the_rest() {
    let tuples = Tuples::generate(&PlainTeam(2), &Spec::graph500(13), &ArrayPlacement::kernel_default()).unwrap();
    let within = |dram, columns| beyond(&tuples, dram, columns).map(|(layout, budget, _)| (layout, budget));
    let mut before = 0;
    for percent in [12.5, 25.0, 50.0, 100.0] {
        let (layout, budget) = within(Dram::Percent(percent), None).unwrap();
        assert!((budget.dram.0 as f64 / budget.coded.0 as f64 - percent / 100.0).abs() < 1e-4);
        let neighbours = layout.columns() as usize + layout.beginnings();
        assert!(neighbours > before || layout.beginnings() == LENGTH_MAX, "{percent}: {neighbours}");
        before = neighbours;
        assert!(layout.edge_bytes() <= budget.dram.0 + 4096, "{} of {}", layout.edge_bytes(), budget.dram);
    }
    let (layout, budget) = within(Dram::Percent(50.0), Some(2)).unwrap();
    assert_eq!((layout.columns(), layout.beginnings()), (2, 0));
    // All lists of the graph, encoded with scalar code.
    let placement = ArrayPlacement::kernel_default();
    let near = build_in_order(&PlainTeam(2), &tuples, 2, TieOrder::Neighbour, &placement).unwrap();
    let coded: usize = (0..near.ranks)
        .map(|rank| {
            let mut bytes = Vec::new();
            crate::coded::encode(&near.list(rank).unwrap(), &mut bytes);
            bytes.len()
        })
        .sum();
    assert_eq!(budget.coded.0, coded as u64);
    let refused = |dram, columns| within(dram, columns).err().unwrap().to_string();
    let small = refused(Dram::Percent(1.0), None);
    assert!(small.contains("the head columns (k = 1) and the index need") && small.contains("KiB of DRAM"), "{small}");
    assert!(refused(Dram::Percent(12.5), Some(60)).contains("k = 60"));
}
