//! Graphs built out of core equal those built in memory, byte for byte, for any memory limit and number of threads.
//! Interrupted constructions resume, and modified scratch data is rejected.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::budget::Dram;
use crate::build::{build, build_in_order};
use crate::coded;
use crate::edges::Tuples;
use crate::file;
use crate::tail_io::PAGE_BYTES;
use crate::team::PlainTeam;

/// Storage in memory that can be set to fail; data that was written but not synced may then be lost.
#[derive(Default)]
pub(crate) struct DiskStub {
    parts: Mutex<HashMap<PartKind, Vec<u8>>>,
    note: Mutex<Option<Vec<u8>>>,
    /// Number of writes and checkpoints before the failure; `None` for no failure.
    left: Option<AtomicUsize>,
    most: AtomicU64,
}

impl DiskStub {
    fn graph(&self) -> Vec<u8> {
        self.part(PartKind::Graph)
    }

    pub(crate) fn part(&self, part: PartKind) -> Vec<u8> {
        self.parts.lock().unwrap()[&part].clone()
    }

    /// Returns a copy that never fails.
    fn copy(&self) -> Self {
        let (parts, note) = (self.parts.lock().unwrap().clone(), self.note.lock().unwrap().clone());
        Self { parts: Mutex::new(parts), note: Mutex::new(note), ..Self::default() }
    }

    fn tick(&self) -> Result<(), StorageError> {
        let full = || StorageError { kind: StorageErrorKind::Full, what: "no space left".into() };
        let Some(left) = &self.left else { return Ok(()) };
        left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).map(drop).map_err(|_| full())
    }
}

impl Storage for DiskStub {
    fn write(&self, part: PartKind, at: u64, bytes: &[u8]) -> Result<(), StorageError> {
        self.tick()?;
        if part.is_blocked() {
            let places = [at, bytes.as_ptr() as u64, bytes.len() as u64];
            assert!(places.iter().all(|place| place.is_multiple_of(PAGE_BYTES)), "{places:?}");
        }
        let mut parts = self.parts.lock().unwrap();
        let part = parts.entry(part).or_default();
        let end = at as usize + bytes.len();
        part.resize(part.len().max(end), 0);
        part[at as usize..end].copy_from_slice(bytes);
        let all = parts.values().map(Vec::len).sum::<usize>() as u64;
        self.most.fetch_max(all, Relaxed);
        Ok(())
    }

    fn read(&self, part: PartKind, at: u64, bytes: &mut [u8]) -> Result<(), StorageError> {
        let parts = self.parts.lock().unwrap();
        let end = at as usize + bytes.len();
        let found = parts.get(&part).and_then(|part| part.get(at as usize..end));
        bytes.copy_from_slice(found.ok_or_else(|| StorageError::damaged(part, "it is truncated"))?);
        Ok(())
    }

    fn sync(&self, _: PartKind) -> Result<(), StorageError> {
        self.tick()
    }

    fn discard(&self, part: PartKind) -> Result<(), StorageError> {
        self.parts.lock().unwrap().remove(&part);
        Ok(())
    }

    fn note(&self, note: &[u8]) -> Result<(), StorageError> {
        self.tick()?;
        *self.note.lock().unwrap() = Some(note.to_vec());
        Ok(())
    }

    fn noted(&self) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.note.lock().unwrap().clone())
    }
}

fn in_core(spec: &Spec, columns: u32) -> Vec<u8> {
    let tuples = Tuples::generate(&PlainTeam(2), spec, &ArrayPlacement::kernel_default()).unwrap();
    let mut bytes = Vec::new();
    file::write(&build(&PlainTeam(2), &tuples, columns, &ArrayPlacement::kernel_default()).unwrap(), &mut bytes)
        .unwrap();
    bytes
}

fn try_to(storage: &DiskStub, spec: &Spec, columns: u32, threads: usize, memory: Bytes) -> Result<Built, Error> {
    let with = OutOfCore { storage, edges: None, memory, watch: &|_| {} };
    build_out_of_core(&PlainTeam(threads), spec, columns, &with, &ArrayPlacement::kernel_default())
}

fn least(spec: &Spec, threads: usize, columns: u32) -> Bytes {
    BuildRequirements::of(spec, threads, columns).unwrap().memory
}

#[test]
fn graphs_are_those_made_in_core_byte_by_byte() {
    for scale in 4..=16 {
        for (edge_factor, columns) in [(16, 16), (16, 1), (3, 5)] {
            let spec = Spec { edge_factor, ..Spec::graph500(scale) };
            let expected = in_core(&spec, columns);
            // Large graphs take most of the time; one number of threads is enough for them.
            let team_sizes: &[usize] = if scale < 14 { &[1, 2, 3] } else { &[1 + scale as usize % 2] };
            for threads in team_sizes.iter().copied().filter(|_| scale < 14 || columns > 1) {
                let least = least(&spec, threads, columns);
                for memory in [least, Bytes(least.0 * 3 / 2), Bytes(least.0 * 40)] {
                    let storage = DiskStub::default();
                    let built = try_to(&storage, &spec, columns, threads, memory).unwrap();
                    let graph = storage.graph();
                    assert!(
                        graph == expected,
                        "scale {scale}, {edge_factor}, k {columns}, {threads} threads, {memory}"
                    );
                    assert_eq!(file::read_header(&mut &graph[..]).unwrap(), built.header);
                }
                let refused = try_to(&DiskStub::default(), &spec, columns, threads, Bytes(least.0 - 1)).unwrap_err();
                assert_eq!(refused, Error::Little { scale, needed: least, asked: Bytes(least.0 - 1) });
            }
        }
    }
}

#[test]
fn semi_external_graphs_equal_graphs_built_in_core() {
    for (scale, edge_factor, threads, dram, columns) in [
        (10, 16, 1, "60%", None),
        (11, 8, 2, "90%", Some(2)),
        (11, 16, 3, "40%", None),
        (13, 16, 2, "100%", Some(1)),
        (14, 16, 2, "25%", None),
        (16, 16, 2, "12.5%", None),
    ] {
        let spec = Spec { edge_factor, ..Spec::graph500(scale) };
        let dram = Dram::parse(dram).unwrap();
        let storage = DiskStub::default();
        let memory = SearchFootprint::of(&spec, threads, dram).unwrap().construction;
        let with = OutOfCore { storage: &storage, edges: None, memory, watch: &|_| {} };
        let (far, budget) =
            build_beyond(&PlainTeam(threads), &spec, (dram, columns), &with, &ArrayPlacement::kernel_default())
                .unwrap();
        let tuples = Tuples::generate(&PlainTeam(2), &spec, &ArrayPlacement::kernel_default()).unwrap();
        let placement = ArrayPlacement::kernel_default();
        let near = build_in_order(&PlainTeam(2), &tuples, far.columns(), TieOrder::Neighbour, &placement).unwrap();
        assert!(far.columns() == columns.unwrap_or(far.columns()) && far.edge_bytes() <= budget.dram.0 + 4096);
        assert!(storage.part(PartKind::Graph) == near.tail(), "scale {scale}");
        let kept = far.tail.len() - coded::PADDING;
        assert!(kept < near.tail().len() && far.tail[..kept] == near.tail()[..kept], "scale {scale}: {kept}");
        assert_eq!(u64::from(far.first_far), near.index.first_beyond(kept as u64) as u64);
        assert!(far.head.wide() == near.head.wide(), "scale {scale}");
        let lists = far.index.lists();
        assert!(far.index.starts().eq(near.index.starts().take(lists + 1)), "scale {scale}");
        assert!(columns.is_none() || (far.beginnings() == 0 && lists == near.index.lists()));
        let mut coded = Vec::new();
        for rank in far.first_far..near.index.lists() as u32 {
            let list = &near.list(rank).unwrap()[far.columns() as usize..];
            coded.clear();
            coded::encode(&list[..far.beginnings().min(list.len())], &mut coded);
            assert_eq!(far.beginnings.of_rank(rank).unwrap_or_default().bytes(), coded, "scale {scale}: {rank}");
            assert!((rank as usize) < lists || list.len() <= far.beginnings(), "the entire list is in DRAM");
        }
        assert!(far.label[..] == near.label[..] && far.rank[..] == near.rank[..], "scale {scale}");
        assert!(far.mean_degree[..] == near.mean_degree[..] && far.neighbours == near.neighbours);
        let left: Vec<PartKind> = storage.parts.lock().unwrap().keys().copied().collect();
        assert_eq!(left, [PartKind::Graph], "the other parts are discarded");
        assert!(storage.noted().unwrap().is_none(), "there is no checkpoint to resume from");
    }
}

#[test]
fn semi_external_builds_return_the_error_of_any_failed_write() {
    let spec = Spec::graph500(11);
    let dram = Dram::Percent(40.0);
    let memory = SearchFootprint::of(&spec, 2, dram).unwrap().construction;
    for writes in (0..).step_by(3) {
        let storage = DiskStub { left: Some(AtomicUsize::new(writes)), ..DiskStub::default() };
        let with = OutOfCore { storage: &storage, edges: None, memory, watch: &|_| {} };
        match build_beyond(&PlainTeam(2), &spec, (dram, None), &with, &ArrayPlacement::kernel_default()) {
            Ok(_) => return assert!(writes > 20, "{writes}"),
            Err(Error::Storage(StorageError { kind: StorageErrorKind::Full, .. })) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn reported_figures_equal_those_of_graphs_built_in_core() {
    for (scale, columns) in [(5, 2), (12, 16), (15, 1)] {
        let spec = Spec::graph500(scale);
        let built = try_to(&DiskStub::default(), &spec, columns, 2, Bytes(64 << 20)).unwrap();
        let tuples = Tuples::generate(&PlainTeam(2), &spec, &ArrayPlacement::kernel_default()).unwrap();
        let layout = build(&PlainTeam(2), &tuples, columns, &ArrayPlacement::kernel_default()).unwrap();
        assert_eq!((built.header.sections[1].1, built.tail_bytes, built.index_bytes), layout.bytes());
        assert_eq!((built.header.ranks, built.header.neighbours / 2), (layout.vertices(), layout.edges()));
    }
}

/// Fails at each write in turn (`DiskStub::left`) and resumes each time from the stored data.
#[test]
fn construction_resumes_after_a_full_disk_at_any_write() {
    let spec = Spec::graph500(12);
    let expected = in_core(&spec, 4);
    let memory = least(&spec, 2, 4);
    let mut stops = 0;
    for (step, threads) in [(1, 1), (7, 2), (31, 2)] {
        let mut storage = DiskStub { left: Some(AtomicUsize::new(0)), ..DiskStub::default() };
        let mut steps = Vec::new();
        for left in (0..).step_by(step) {
            *storage.left.as_mut().unwrap() = AtomicUsize::new(left);
            let ended = try_to(&storage, &spec, 4, threads, memory);
            steps.extend(storage.noted().unwrap().map(|note| note[9 * 8]));
            match ended {
                Ok(_) => break,
                Err(Error::Storage(StorageError { kind: StorageErrorKind::Full, .. })) => stops += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(storage.graph() == expected);
        steps.dedup();
        assert!(steps.is_sorted() && steps.len() >= 3, "{steps:?}: it resumed");
    }
    assert!(stops > 40, "{stops}");
}

/// Returns the storage as it was when construction stopped in each step.
fn stopped(spec: &Spec, memory: Bytes) -> Vec<(BuildPhase, DiskStub)> {
    let mut storage = DiskStub::default();
    let (mut stopped, mut left, mut last) = (Vec::new(), 0, None);
    loop {
        storage.left = Some(AtomicUsize::new(left));
        // One thread makes the same number of writes each time, so this stops at the beginning of each step.
        if try_to(&storage, spec, 4, 1, memory).is_ok() {
            return stopped;
        }
        left += 1;
        let note = Checkpoint::find(&storage, spec, 4).unwrap();
        if note != last {
            let step = note.map(|note| note.step);
            stopped.extend(step.filter(|_| step != last.map(|last| last.step)).map(|step| (step, storage.copy())));
            (last, left) = (note, 0);
        }
    }
}

#[test]
fn modified_scratch_files_are_rejected_by_name() {
    let spec = Spec::graph500(11);
    let memory = least(&spec, 2, 4);
    let stopped = stopped(&spec, memory);
    // A single thread may have had a larger share.
    let memory = Bytes(4 * memory.0);
    let stopped_in = |step: BuildPhase| {
        stopped.iter().find(|(at, _)| *at == step).expect("construction stopped in this step").1.copy()
    };
    for (step, part) in [
        (BuildPhase::Count, PartKind::Pairs),
        (BuildPhase::DealRanked, PartKind::Degrees),
        (BuildPhase::Lists, PartKind::Ranked),
        (BuildPhase::Lists, PartKind::Degrees),
        (BuildPhase::Finish, PartKind::Lengths),
        (BuildPhase::Finish, PartKind::Graph),
    ] {
        let cut: &dyn Fn(&mut Vec<u8>) = &|bytes| bytes.truncate(bytes.len() / 3);
        let flip: &dyn Fn(&mut Vec<u8>) = &|bytes| bytes.iter_mut().step_by(1001).for_each(|byte| *byte ^= 1);
        // In the edges of a block, and in the middle.
        let spot: &dyn Fn(&mut Vec<u8>) = &|bytes| [40, bytes.len() / 2 + 40].iter().for_each(|at| bytes[*at] ^= 1);
        for how in [cut, flip, spot] {
            let storage = stopped_in(step);
            how(storage.parts.lock().unwrap().get_mut(&part).expect("the part exists"));
            let error = try_to(&storage, &spec, 4, 2, memory).unwrap_err();
            let Error::Storage(StorageError { kind: StorageErrorKind::Damaged, what }) = &error else {
                panic!("{step:?}: {error:?}")
            };
            assert!(what.contains(part.name()), "{step:?}: {what}");
        }
        assert!(try_to(&stopped_in(step), &spec, 4, 2, memory).is_ok(), "{step:?}");
    }
    let storage = stopped_in(BuildPhase::Count);
    for (spec, columns) in [(Spec::graph500(10), 4), (spec, 5)] {
        let refused = try_to(&storage, &spec, columns, 2, Bytes(1 << 30)).unwrap_err();
        assert!(matches!(&refused, Error::Storage(StorageError { kind: StorageErrorKind::Foreign, .. })), "{refused}");
    }
    storage.note.lock().unwrap().as_mut().unwrap()[40] ^= 1;
    let refused = try_to(&storage, &spec, 4, 2, memory).unwrap_err();
    assert!(matches!(&refused, Error::Storage(StorageError { kind: StorageErrorKind::Damaged, .. })), "{refused}");
}

/// Edges of a handmade graph.
struct EdgeVec<F>(F);

impl<F: Fn(u64) -> [u64; 2] + Sync> Edges for EdgeVec<F> {
    fn fill(&self, first: u64, edges: &mut [[u64; 2]]) -> Result<(), String> {
        edges.iter_mut().zip(first..).for_each(|(edge, at)| *edge = (self.0)(at));
        Ok(())
    }
}

#[test]
fn buckets_are_filled_by_other_graphs_than_kronecker() {
    type Graph = fn(u64) -> [u64; 2];
    let spec = Spec { edge_factor: 4, ..Spec::graph500(12) };
    let graphs: [(&str, Graph); 4] = [
        ("a star", |at| [0, at % 4096]),
        ("one edge", |_| [7, 9]),
        ("a path", |at| [at % 4096, (at + 1) % 4096]),
        ("loops and an edge", |at| if at == 99 { [5, 4095] } else { [at % 4096; 2] }),
    ];
    for (name, graph) in graphs {
        let edges: Vec<(u32, u32)> = (0..spec.edges()).map(graph).map(|[a, b]| (a as u32, b as u32)).collect();
        let layout = build(&PlainTeam(2), &Tuples::of(12, &edges), 4, &ArrayPlacement::kernel_default()).unwrap();
        let mut expected = Vec::new();
        file::write(&layout, &mut expected).unwrap();
        let storage = DiskStub::default();
        let given = EdgeVec(graph);
        let with = |memory| OutOfCore { storage: &storage, edges: Some(&given), memory, watch: &|_| {} };
        let build =
            |memory| build_out_of_core(&PlainTeam(2), &spec, 4, &with(memory), &ArrayPlacement::kernel_default());
        let mut ended = build(least(&spec, 2, 4));
        if let Err(Error::Little { needed, .. }) = ended {
            assert_eq!(name, "a star", "the neighbours of its hub do not fit");
            ended = build(needed);
        }
        ended.unwrap_or_else(|error| panic!("{name}: {error}"));
        // Headers contain the edge factor and seeds; everything else is equal.
        assert!(storage.graph()[64..96] == expected[64..96], "{name}");
        assert!(storage.graph()[file::HEADER_BYTES..] == expected[file::HEADER_BYTES..], "{name}");
    }
    let loops = EdgeVec(|at| [at % 4096; 2]);
    let with = OutOfCore { storage: &DiskStub::default(), edges: Some(&loops), memory: Bytes(1 << 24), watch: &|_| {} };
    let refused = build_out_of_core(&PlainTeam(2), &spec, 4, &with, &ArrayPlacement::kernel_default()).unwrap_err();
    assert_eq!(refused, Error::NoEdges);
}

#[test]
fn progress_runs_from_zero_to_the_total() {
    let seen = Mutex::new(Vec::new());
    let watch = |progress: Progress| seen.lock().unwrap().push(progress);
    let spec = Spec::graph500(14);
    let with = OutOfCore { storage: &DiskStub::default(), edges: None, memory: least(&spec, 1, 16), watch: &watch };
    build_out_of_core(&PlainTeam(1), &spec, 16, &with, &ArrayPlacement::kernel_default()).unwrap();
    let seen = seen.into_inner().unwrap();
    assert!(seen.is_sorted_by_key(|progress| progress.done) && seen[0].done < seen[0].of / 100);
    let last = seen[seen.len() - 1];
    assert!(last.done <= last.of && last.done > last.of / 100 * 95, "{last:?}");
    let steps: std::collections::BTreeSet<&str> = seen.iter().map(|progress| progress.step).collect();
    assert_eq!(steps.len(), 5, "{steps:?}");
}

#[test]
fn estimated_disk_space_bounds_the_actual_use() {
    for (scale, times) in [(12, 1), (14, 4), (16, 1), (16, 8)] {
        let spec = Spec::graph500(scale);
        let (storage, memory) = (DiskStub::default(), Bytes(times * least(&spec, 2, 16).0));
        try_to(&storage, &spec, 16, 2, memory).unwrap();
        let (most, estimate) = (storage.most.into_inner(), BuildRequirements::disk(&spec, memory).0);
        assert!(most <= estimate && most > estimate / 3, "scale {scale}: {most} of {estimate}");
    }
}
