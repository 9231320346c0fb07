//! A model of memory for replayed faults: a number of pages in DRAM, the others far, evicted least recently used first,
//! as the kernel does.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Advice, Order, READ_AROUND};

pub(super) const PAGE: u64 = 4096;

/// Memory that evicts least recently used pages; pages in memory that are not mapped cause minor faults.
pub(super) struct MemoryModel {
    /// Maximum number of pages in DRAM.
    budget: u64,
    /// Address of page 0.
    base: u64,
    /// Page to time of last use, and the reverse.
    pub near: BTreeMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
    mapped: BTreeSet<u64>,
    pub touched: BTreeSet<u64>,
    /// Pages that were prefetched and not accessed since.
    ahead: BTreeSet<u64>,
    time: u64,
    pub waited: u64,
    pub minor: u64,
    /// Number of prefetched pages, and of those that were accessed while still in DRAM.
    pub fetched: u64,
    pub used: u64,
}

impl MemoryModel {
    pub(super) fn new(budget: u64, base: u64) -> Self {
        let (near, by_use, mapped, touched, ahead) = Default::default();
        let (time, waited, minor, fetched, used) = Default::default();
        Self { budget, base, near, by_use, mapped, touched, ahead, time, waited, minor, fetched, used }
    }

    fn bring(&mut self, page: u64) {
        self.time += 1;
        if let Some(before) = self.near.insert(page, self.time) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.time, page);
        while self.near.len() as u64 > self.budget {
            let (_, oldest) = self.by_use.pop_first().expect("one entry per page in DRAM");
            self.near.remove(&oldest);
            self.mapped.remove(&oldest);
            self.ahead.remove(&oldest);
        }
    }

    fn leave(&mut self, page: u64) {
        if let Some(used) = self.near.remove(&page) {
            self.by_use.remove(&used);
            self.mapped.remove(&page);
            self.ahead.remove(&page);
        }
    }

    /// Returns the fault that an access causes, if any.
    pub(super) fn touch(&mut self, page: u64) -> Option<bool> {
        self.used += u64::from(self.ahead.remove(&page));
        let (near, mapped, known) =
            (self.near.contains_key(&page), self.mapped.contains(&page), !self.touched.insert(page));
        if near && mapped {
            self.bring(page);
            return None;
        }
        if !near && known {
            let around = page / READ_AROUND * READ_AROUND..(page / READ_AROUND + 1) * READ_AROUND;
            around
                .filter(|other| self.touched.contains(other))
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|other| self.bring(other));
        }
        self.bring(page);
        self.mapped.insert(page);
        let major = !near && known;
        *(if major { &mut self.waited } else { &mut self.minor }) += 1;
        Some(major)
    }

    /// Number of pages that a prefetch found far.
    pub(super) fn apply(&mut self, order: &Order) -> u64 {
        // A prefetch may extend beyond the end of the program's memory.
        let base = self.base;
        let page = |address: u64| address.saturating_sub(base) / PAGE;
        let pages = |range: &Range<u64>| {
            assert!(range.start.is_multiple_of(PAGE), "advice must be page-aligned: {range:x?}");
            page(range.start)..page(range.end)
        };
        match &order.advice {
            Advice::PageOut(range) => pages(range).for_each(|page| self.leave(page)),
            Advice::Fetch(range) => return self.fetch(pages(range)),
            Advice::FetchEach(ranges) => {
                self.fetch(ranges.iter().flat_map(pages));
            }
        }
        0
    }

    fn fetch(&mut self, pages: impl Iterator<Item = u64>) -> u64 {
        let far = |page: &u64| self.touched.contains(page) && !self.near.contains_key(page);
        let far_pages: Vec<u64> = pages.filter(far).collect();
        for page in &far_pages {
            self.bring(*page);
            self.ahead.insert(*page);
        }
        self.fetched += far_pages.len() as u64;
        far_pages.len() as u64
    }
}
