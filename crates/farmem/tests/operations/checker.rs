//! Random operations on memory, checked against a model: map, unmap, remap, advise, fork, read(2) and write(2), by
//! several threads, on pages that carry a stamp: id, generation, and words derived from both. The expected contents
//! depend on the stamp, not on the address, so wrong, outdated and partly restored pages are detected.
//!
//! Not covered: memory shared between processes, mappings of files, locked memory.
#![allow(unsafe_code)]

use std::fmt::{self, Write as _};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use std::{io, ptr, slice};

const PAGE: usize = 4096;
const WORDS: usize = PAGE / 8;
/// Pages of a thread's file, and the maximum per read or write: the capacity of an empty pipe.
const SLOTS: usize = 256;
const MOVED_MAX: usize = 16;
/// Exit status of a child that found a changed page.
const CHILD_LOST: i32 = 17;

/// Parameters of a check.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Determines all random choices of each thread.
    pub seed: u64,
    /// Number of threads; they share the address space but no pages.
    pub threads: u64,
    /// Maximum number of pages per thread.
    pub pages: usize,
    /// Minimum duration.
    pub time: Duration,
    /// Minimum number of operations per thread.
    pub operations: u64,
    /// After this many operations, a bit of a page is flipped before each further one; the check must detect it.
    pub flip_after: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In the order of [`OPERATIONS`].
    pub operations: [u64; OPERATIONS.len()],
    /// Pages with the expected contents, without those that children verified.
    pub verified: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: u64 = self.operations.iter().sum();
        write!(f, "{all} operations, {} pages verified:", self.verified)?;
        for ((name, ..), count) in OPERATIONS.iter().zip(self.operations) {
            write!(f, " {name} {count}")?;
        }
        Ok(())
    }
}

/// A failed check. Contains no allocated text, because a child forked from one of several threads must not allocate.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Lost { address: usize, page: Page, word: usize, found: u64 },
    Refused { call: &'static str, errno: i32 },
    Child { status: i32 },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { address, page, word, found } => {
                write!(f, "the page at {address:#x} has {found:#x} in word {word} and should be {page:?}")
            }
            Self::Refused { call, errno } => write!(f, "{call}: {}", io::Error::from_raw_os_error(*errno)),
            Self::Child { status } if *status == CHILD_LOST << 8 => f.write_str("a child found a page changed"),
            Self::Child { status } => write!(f, "a child ended with status {status:#x}"),
        }
    }
}

type Done = Result<(), Failure>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Zeros,
    Stamp,
    /// Advised as free: the kernel may take it at any time, until it is written.
    StampOrZeros,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    id: u64,
    generation: u64,
    holds: Holds,
}

impl Page {
    fn word(&self, at: usize) -> u64 {
        match at {
            0 => self.id,
            1 => self.generation,
            _ => scrambled(self.id.rotate_left(32) ^ self.generation ^ (at as u64) << 48),
        }
    }
}

/// The finaliser of splitmix64.
fn scrambled(from: u64) -> u64 {
    let x = from.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// A mapping and what its pages must hold.
struct Region {
    start: usize,
    pages: Vec<Page>,
}

impl Region {
    fn address(&self, page: usize) -> usize {
        self.start + page * PAGE
    }

    /// The words of a page. The reference is exclusive: a region belongs to one thread, which also makes all system
    /// calls on it.
    fn words(&mut self, page: usize) -> &mut [u64] {
        // SAFETY: `start` is a private readable and writable mapping of `pages.len()` pages that this value owns.
        unsafe { slice::from_raw_parts_mut(self.address(page) as *mut u64, WORDS) }
    }

    fn stamp(&mut self, page: usize) {
        let model = &mut self.pages[page];
        (model.generation, model.holds) = (model.generation + 1, Holds::Stamp);
        let model = *model;
        self.words(page).iter_mut().enumerate().for_each(|(at, word)| *word = model.word(at));
    }

    fn verify(&mut self, page: usize) -> Done {
        let (model, address) = (self.pages[page], self.address(page));
        let mut zeros = model.holds == Holds::Zeros;
        for (word, found) in self.words(page).iter().enumerate() {
            // The kernel may take a free page during the check; from then on it reads as zeros.
            zeros |= model.holds == Holds::StampOrZeros && *found == 0;
            if *found != if zeros { 0 } else { model.word(word) } {
                return Err(Failure::Lost { address, page: model, word, found: *found });
            }
        }
        Ok(())
    }
}

/// An operation: name, weight, function.
type Operation = (&'static str, u64, fn(&mut Worker) -> Done);
const OPERATIONS: [Operation; 13] = [
    ("map", 6, Worker::map),
    ("unmap", 4, Worker::unmap),
    ("grow-or-shrink", 3, Worker::resize),
    ("move", 3, Worker::relocate),
    ("dontneed", 4, Worker::dont_need),
    ("free", 4, Worker::free),
    ("page-out", 2, Worker::page_out),
    ("will-need", 2, Worker::will_need),
    ("stamp", 30, Worker::stamp_some),
    ("verify", 30, Worker::verify_some),
    ("file", 8, Worker::save_and_load),
    ("pipe", 6, Worker::pass_through_a_pipe),
    ("fork", 1, Worker::fork),
];

struct Worker {
    plan: Plan,
    random: u64,
    regions: Vec<Region>,
    /// Contents of the file's pages; `None` until they are written.
    slots: [Option<Page>; SLOTS],
    file: File,
    pipe: (io::PipeReader, io::PipeWriter),
    next_id: u64,
    counts: Counts,
}

/// Runs the plan. Returns the counts of all threads, or a description of the first failed check.
pub fn run(plan: Plan) -> Result<Counts, String> {
    let workers: Vec<_> = (0..plan.threads).map(|thread| std::thread::spawn(move || work(plan, thread))).collect();
    let mut all = Counts::default();
    for worker in workers {
        let counts = worker.join().map_err(|_| "a thread panicked".to_string())??;
        all.verified += counts.verified;
        all.operations.iter_mut().zip(counts.operations).for_each(|(all, one)| *all += one);
    }
    Ok(all)
}

fn work(plan: Plan, thread: u64) -> Result<Counts, String> {
    let file = tempfile::tempfile().map_err(|error| format!("no file: {error}"))?;
    let pipe = io::pipe().map_err(|error| format!("no pipe: {error}"))?;
    let random = scrambled(plan.seed ^ thread << 32);
    let next_id = thread << 40;
    let mut worker =
        Worker { plan, random, regions: vec![], slots: [None; SLOTS], file, pipe, next_id, counts: Counts::default() };
    let weights: u64 = OPERATIONS.iter().map(|(_, weight, _)| weight).sum();
    let (end, flip) = (Instant::now() + plan.time, plan.flip_after.filter(|_| thread == 0));
    for at in 0_u64.. {
        if at >= plan.operations && Instant::now() >= end {
            break;
        }
        if flip.is_some_and(|after| at >= after) {
            worker.flip();
        }
        let mut left = worker.below(weights as usize) as u64;
        let kind = OPERATIONS.iter().position(|(_, weight, _)| {
            let here = left < *weight;
            left = left.wrapping_sub(*weight);
            here
        });
        let kind = kind.expect("below the sum of the weights");
        let (name, _, operation) = OPERATIONS[kind];
        let describe = |failure| format!("seed {}, thread {thread}, operation {at} ({name}): {failure}", plan.seed);
        operation(&mut worker).map_err(describe)?;
        worker.counts.operations[kind] += 1;
    }
    worker.end().map_err(|failure| format!("seed {}, thread {thread}, at the end: {failure}", plan.seed))
}

/// Converts the result of a system call; reads `errno` if it failed.
fn checked(call: &'static str, fine: bool) -> Done {
    let errno = || io::Error::last_os_error().raw_os_error().unwrap_or_default();
    if fine { Ok(()) } else { Err(Failure::Refused { call, errno: errno() }) }
}

impl Worker {
    fn below(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (scrambled(self.random) % end.max(1) as u64) as usize
    }

    fn fresh(&mut self) -> Page {
        self.next_id += 1;
        Page { id: self.next_id, generation: 0, holds: Holds::Zeros }
    }

    fn held(&self) -> usize {
        self.regions.iter().map(|region| region.pages.len()).sum()
    }

    /// Random pages of a region: at least one, at most `most`. Maps a region if there is none.
    fn some(&mut self, most: usize) -> Result<(usize, Range<usize>), Failure> {
        if self.regions.is_empty() {
            self.map()?;
        }
        let region = self.below(self.regions.len());
        let pages = self.regions[region].pages.len();
        let first = self.below(pages);
        let count = 1 + self.below(most.min(pages - first));
        Ok((region, first..first + count))
    }

    fn reserve(pages: usize, protection: i32) -> Result<usize, Failure> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), pages * PAGE, protection, flags, -1, 0) };
        checked("mmap", start != libc::MAP_FAILED)?;
        Ok(start as usize)
    }

    fn map(&mut self) -> Done {
        // One region in 16 is large enough for huge pages.
        let most = if self.below(16) == 0 { 1536 } else { 96 };
        let pages = 1 + self.below(most);
        while self.held() + pages > self.plan.pages && !self.regions.is_empty() {
            let region = self.below(self.regions.len());
            self.remove(region, 0..self.regions[region].pages.len())?;
        }
        let start = Self::reserve(pages, libc::PROT_READ | libc::PROT_WRITE)?;
        if self.below(4) == 0 {
            // SAFETY: advice on the mapping that was just made. A kernel without huge pages refuses, which does not
            // matter.
            unsafe { libc::madvise(start as *mut _, pages * PAGE, libc::MADV_HUGEPAGE) };
        }
        let pages = (0..pages).map(|_| self.fresh()).collect();
        self.regions.push(Region { start, pages });
        if self.below(4) > 0 {
            let region = self.regions.last_mut().expect("a region was just added");
            (0..region.pages.len()).for_each(|page| region.stamp(page));
        }
        Ok(())
    }

    fn unmap(&mut self) -> Done {
        let (region, range) = self.some(usize::MAX)?;
        self.remove(region, range)
    }

    /// Unmaps a part of a region, which may split it.
    fn remove(&mut self, at: usize, range: Range<usize>) -> Done {
        let region = &mut self.regions[at];
        // SAFETY: the range is inside this region's mapping, and the model drops it below.
        let status = unsafe { libc::munmap(region.address(range.start) as *mut _, range.len() * PAGE) };
        checked("munmap", status == 0)?;
        let behind = Region { start: region.address(range.end), pages: region.pages.split_off(range.end) };
        region.pages.truncate(range.start);
        if region.pages.is_empty() {
            self.regions.swap_remove(at);
        }
        if !behind.pages.is_empty() {
            self.regions.push(behind);
        }
        Ok(())
    }

    fn resize(&mut self) -> Done {
        let (region, _) = self.some(1)?;
        let pages = self.regions[region].pages.len();
        let unused = self.plan.pages.saturating_sub(self.held());
        let target = 1 + self.below((2 * pages).min(pages + unused));
        self.remap(region, target, None)
    }

    fn relocate(&mut self) -> Done {
        let (region, _) = self.some(1)?;
        let pages = self.regions[region].pages.len();
        let to = Self::reserve(pages, libc::PROT_NONE)?;
        self.remap(region, pages, Some(to))
    }

    fn remap(&mut self, region: usize, pages: usize, to: Option<usize>) -> Done {
        let Region { start, pages: known } = &self.regions[region];
        let flags = libc::MREMAP_MAYMOVE | if to.is_some() { libc::MREMAP_FIXED } else { 0 };
        let to = to.unwrap_or_default() as *mut libc::c_void;
        // SAFETY: the old range is this region's mapping; the new one was reserved by the caller or is chosen by the
        // kernel.
        let moved = unsafe { libc::mremap(*start as *mut _, known.len() * PAGE, pages * PAGE, flags, to) };
        checked("mremap", moved != libc::MAP_FAILED)?;
        let more = pages.saturating_sub(known.len());
        let more: Vec<Page> = (0..more).map(|_| self.fresh()).collect();
        let region = &mut self.regions[region];
        region.start = moved as usize;
        region.pages.truncate(pages);
        region.pages.extend(more);
        Ok(())
    }

    fn advise(&mut self, call: &'static str, advice: i32) -> Result<(usize, Range<usize>), Failure> {
        let (region, range) = self.some(128)?;
        let start = self.regions[region].address(range.start);
        // SAFETY: advice on this region's private mapping; the caller updates the model with its effect.
        let status = unsafe { libc::madvise(start as *mut _, range.len() * PAGE, advice) };
        checked(call, status == 0)?;
        Ok((region, range))
    }

    fn dont_need(&mut self) -> Done {
        let (region, range) = self.advise("madvise(DONTNEED)", libc::MADV_DONTNEED)?;
        self.regions[region].pages[range].iter_mut().for_each(|page| page.holds = Holds::Zeros);
        Ok(())
    }

    fn free(&mut self) -> Done {
        let (region, range) = self.advise("madvise(FREE)", libc::MADV_FREE)?;
        let pages = self.regions[region].pages[range].iter_mut();
        pages.filter(|page| page.holds == Holds::Stamp).for_each(|page| page.holds = Holds::StampOrZeros);
        Ok(())
    }

    fn page_out(&mut self) -> Done {
        self.advise("madvise(PAGEOUT)", libc::MADV_PAGEOUT).map(drop)
    }

    fn will_need(&mut self) -> Done {
        self.advise("madvise(WILLNEED)", libc::MADV_WILLNEED).map(drop)
    }

    fn stamp_some(&mut self) -> Done {
        let (region, range) = self.some(64)?;
        range.for_each(|page| self.regions[region].stamp(page));
        Ok(())
    }

    fn verify_some(&mut self) -> Done {
        let (region, range) = self.some(64)?;
        self.verify(region, range)
    }

    fn verify(&mut self, region: usize, range: Range<usize>) -> Done {
        self.counts.verified += range.len() as u64;
        range.into_iter().try_for_each(|page| self.regions[region].verify(page))
    }

    /// Returns the bytes and models of pages; stamps free ones first, so that the kernel cannot drop them meanwhile.
    fn settled(&mut self, region: usize, range: Range<usize>) -> (&mut [u8], &mut [Page]) {
        let region = &mut self.regions[region];
        for page in range.clone() {
            if region.pages[page].holds == Holds::StampOrZeros {
                region.stamp(page);
            }
        }
        // SAFETY: as in `words`, over several pages; it lives as long as the borrow of the region.
        let bytes = unsafe { slice::from_raw_parts_mut(region.address(range.start) as *mut u8, range.len() * PAGE) };
        (bytes, &mut region.pages[range])
    }

    /// write(2) from pages to the file, then read(2) from the file into others.
    fn save_and_load(&mut self) -> Done {
        let (region, range) = self.some(MOVED_MAX)?;
        let slot = self.below(SLOTS - MOVED_MAX);
        let file = self.file.as_raw_fd();
        let (bytes, pages) = self.settled(region, range);
        // SAFETY: the kernel reads a live slice.
        let written = unsafe { libc::pwrite(file, bytes.as_ptr().cast(), bytes.len(), (slot * PAGE) as i64) };
        checked("pwrite", written == bytes.len() as isize)?;
        let pages: Vec<Option<Page>> = pages.iter().copied().map(Some).collect();
        self.slots[slot..slot + pages.len()].copy_from_slice(&pages);
        let slot = self.below(SLOTS - MOVED_MAX);
        let written: Vec<Page> = self.slots[slot..slot + MOVED_MAX].iter().map_while(|page| *page).collect();
        if written.is_empty() {
            return Ok(());
        }
        let (region, range) = self.some(written.len())?;
        let (bytes, pages) = self.settled(region, range.clone());
        // SAFETY: the kernel writes into a live slice without other references.
        let read = unsafe { libc::pread(file, bytes.as_mut_ptr().cast(), bytes.len(), (slot * PAGE) as i64) };
        checked("pread", read == bytes.len() as isize)?;
        pages.copy_from_slice(&written[..range.len()]);
        self.verify(region, range)
    }

    fn pass_through_a_pipe(&mut self) -> Done {
        let (from, range) = self.some(MOVED_MAX)?;
        let (to, target) = self.some(range.len())?;
        let range = range.start..range.start + target.len();
        let (read_end, write_end) = (self.pipe.0.as_raw_fd(), self.pipe.1.as_raw_fd());
        let (bytes, pages) = self.settled(from, range);
        // SAFETY: the kernel reads a live slice.
        let written = unsafe { libc::write(write_end, bytes.as_ptr().cast(), bytes.len()) };
        checked("write", written == bytes.len() as isize)?;
        let passed = pages.to_vec();
        let (mut bytes, pages) = self.settled(to, target.clone());
        while !bytes.is_empty() {
            // SAFETY: the kernel writes into a live slice without other references.
            let read = unsafe { libc::read(read_end, bytes.as_mut_ptr().cast(), bytes.len()) };
            checked("read", read > 0)?;
            bytes = &mut bytes[read as usize..];
        }
        pages.copy_from_slice(&passed);
        self.verify(to, target)
    }

    /// Parent and child write the same pages after the fork; neither must see the writes of the other.
    fn fork(&mut self) -> Done {
        // SAFETY: the child calls nothing that allocates or locks, and leaves by _exit.
        let child = unsafe { libc::fork() };
        checked("fork", child >= 0)?;
        if child == 0 {
            let done = self.verify_in_child();
            if let Err(failure) = done {
                print_unlocked(format_args!("a child: {failure}\n"));
            }
            // SAFETY: ends the process without running the parent's exit handlers.
            unsafe { libc::_exit(if done.is_ok() { 0 } else { CHILD_LOST }) };
        }
        let checked_here = self.stamp_some().and_then(|()| self.verify_some());
        let mut status = 0;
        // SAFETY: waits for the child forked above; the status is a live integer.
        while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
            checked("waitpid", io::Error::last_os_error().kind() == io::ErrorKind::Interrupted)?;
        }
        checked_here?;
        if status == 0 { self.verify_some() } else { Err(Failure::Child { status }) }
    }

    /// Verifies the copies, stamps some, and verifies them again.
    fn verify_in_child(&mut self) -> Done {
        for _ in 0..4.min(self.regions.len()) {
            let region = self.below(self.regions.len());
            let pages = self.regions[region].pages.len();
            self.verify(region, 0..pages)?;
            (0..pages).step_by(2).for_each(|page| self.regions[region].stamp(page));
            self.verify(region, 0..pages)?;
        }
        Ok(())
    }

    /// Flips one bit without updating the model.
    fn flip(&mut self) {
        let region = self.below(self.regions.len());
        let Some(region) = self.regions.get_mut(region) else { return };
        if let Some(page) = region.pages.iter().position(|page| page.holds == Holds::Stamp) {
            // Derived from the model, so that a second call does not restore the bit.
            region.words(page)[WORDS / 2] = region.pages[page].word(WORDS / 2) ^ 1 << 17;
        }
    }

    /// Verifies all regions and unmaps them.
    fn end(mut self) -> Result<Counts, Failure> {
        for region in 0..self.regions.len() {
            self.verify(region, 0..self.regions[region].pages.len())?;
        }
        while let Some(region) = self.regions.len().checked_sub(1) {
            self.remove(region, 0..self.regions[region].pages.len())?;
        }
        Ok(self.counts)
    }
}

/// Prints to stderr without a lock or an allocation.
fn print_unlocked(text: fmt::Arguments<'_>) {
    struct Line([u8; 256], usize);
    impl fmt::Write for Line {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let Self(bytes, used) = self;
            let count = text.len().min(bytes.len() - *used);
            bytes[*used..*used + count].copy_from_slice(&text.as_bytes()[..count]);
            *used += count;
            Ok(())
        }
    }
    let mut line = Line([0; 256], 0);
    let _ = line.write_fmt(text);
    // SAFETY: the kernel reads a live array; errors are ignored, because there is no other place to report them.
    unsafe { libc::write(2, line.0.as_ptr().cast(), line.1) };
}
