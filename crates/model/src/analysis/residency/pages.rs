//! Assigns the resident pages of a process to parts, and plans which of them are queried.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::maps::libraries;
use super::ranges::RangeSet;
use super::tally::Weight;
use super::{FileSystem, Mapping, MemoryKind, PageStatus, PartKey, SamplingInterval, Tally};

/// Resident pages of a mapping that are contiguous and of the same kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// Addresses.
    pub range: Range<u64>,
    /// Whether they are pages of a file or shared memory.
    pub is_file: bool,
    /// Whether they are mapped as huge pages.
    pub is_huge: bool,
}

/// The pages of files that were already counted, of all processes.
#[derive(Clone, Debug, Default)]
pub struct SharedFiles(HashMap<(String, u64), RangeSet>);

impl SharedFiles {
    /// Adds resident pages of a mapping. Splits their addresses into pieces, each with whether its pages are in no mapping
    /// that was added before.
    pub fn add(&mut self, mapping: &Mapping, run: &PageRun) -> Vec<(Range<u64>, bool)> {
        if !(run.is_file && mapping.has_file()) {
            return vec![(run.range.clone(), true)];
        }
        // Address minus offset in the file is constant, and its difference may wrap.
        let to_file = mapping.offset.wrapping_sub(mapping.start);
        let in_file = run.range.start.wrapping_add(to_file)..run.range.end.wrapping_add(to_file);
        let pages = self.0.entry((mapping.device.clone(), mapping.inode)).or_default();
        let to_addresses = |piece: Range<u64>| piece.start.wrapping_sub(to_file)..piece.end.wrapping_sub(to_file);
        pages.add(in_file).into_iter().map(|(piece, is_new)| (to_addresses(piece), is_new)).collect()
    }
}

/// Number of a part in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartIndex(usize);

/// The pages of one process by part.
#[derive(Clone, Debug)]
pub struct ProcessPages {
    program: String,
    libraries: BTreeSet<String>,
    interval: SamplingInterval,
    page_bytes: u64,
    huge_bytes: u64,
    /// Index of each part. Pages that were already counted in another process or mapping are separate parts.
    index: BTreeMap<(PartKey, bool), usize>,
    tallies: Vec<Tally>,
    /// Planned queries: addresses, and what their answers count for.
    planned: Vec<(u64, PartIndex, Weight)>,
}

impl ProcessPages {
    /// `program` is the path of its executable file, `huge_bytes` the size of a huge page.
    pub fn new(
        program: &str,
        mappings: &[Mapping],
        interval: SamplingInterval,
        page_bytes: u64,
        huge_bytes: u64,
    ) -> Self {
        Self {
            program: program.into(),
            libraries: libraries(mappings),
            interval,
            page_bytes,
            huge_bytes,
            index: BTreeMap::new(),
            tallies: Vec::new(),
            planned: Vec::new(),
        }
    }

    /// Adds resident pages of a mapping and plans their queries.
    pub fn add(&mut self, mapping: &Mapping, system: FileSystem, run: &PageRun, shared: &mut SharedFiles) {
        let mut key = mapping.part(&self.program, &self.libraries, system, run.is_file);
        if run.is_huge && !run.is_file && key.kind != MemoryKind::HugePages {
            let name = if key.kind == MemoryKind::Heap { "heap" } else { "anonymous" };
            key = PartKey { kind: MemoryKind::HugePages, name: name.into() };
        }
        for (range, is_new) in shared.add(mapping, run) {
            self.plan(key.clone(), is_new, range, run.is_huge);
        }
    }

    fn plan(&mut self, key: PartKey, is_counted: bool, range: Range<u64>, is_huge: bool) {
        let part = PartIndex(*self.index.entry((key, is_counted)).or_insert(self.tallies.len()));
        if part.0 == self.tallies.len() {
            self.tallies.push(Tally::default());
        }
        let step = if is_huge { self.huge_bytes } else { self.page_bytes };
        let mut at = range.start;
        while at < range.end {
            // A mapping may begin or end inside a huge page.
            let next = (at / step + 1).saturating_mul(step).min(range.end);
            let weight = if is_huge {
                Some(Weight::Pages((next - at) / self.page_bytes))
            } else {
                self.tallies[part.0].next(self.interval)
            };
            self.planned.extend(weight.map(|weight| (at, part, weight)));
            at = next;
        }
    }

    /// Number of planned queries.
    pub fn planned(&self) -> usize {
        self.planned.len()
    }

    /// Returns the addresses of the planned queries.
    pub fn addresses(&self) -> Vec<u64> {
        self.planned.iter().map(|(address, _, _)| *address).collect()
    }

    /// Records the answers to all planned queries, in their order.
    pub fn record(&mut self, answers: &[PageStatus]) {
        assert_eq!(answers.len(), self.planned.len(), "one answer per query");
        for ((_, part, weight), status) in self.planned.drain(..).zip(answers) {
            self.tallies[part.0].record(weight, *status);
        }
    }

    /// Returns the parts without pages that another mapping or process has already counted.
    pub fn counted(&self) -> impl Iterator<Item = (&PartKey, &Tally)> {
        self.index.iter().filter(|((_, is_counted), _)| *is_counted).map(|((key, _), at)| (key, &self.tallies[*at]))
    }

    /// Returns all parts that the process maps.
    pub fn all(&self) -> impl Iterator<Item = (&PartKey, &Tally)> {
        self.index.iter().map(|((key, _), at)| (key, &self.tallies[*at]))
    }
}
