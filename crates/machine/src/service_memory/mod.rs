//! Moves the memory of a running service between nodes while it runs. Must not depend on why it is moved: the caller
//! stores [`ServiceMemory`] (see [`ServiceMemory::write`]) before it moves anything.
//!
//! The kernel stops threads that access a page while it is moved. Few pages are therefore moved per call, and the calls
//! are followed by pauses, so that moving takes a fifth of the time at most.

mod record;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use model::analysis::live::MovedMemory;
use model::analysis::residency::PageStatus;
use model::values::id_set::NodeId;
use model::values::units::Bytes;
use rustix::thread::CapabilitySet;

use crate::nodes::BLOCK_BYTES;
use crate::proc::Proc;
use crate::residency::{InspectError, PAGES_PER_QUERY, PageSpan, ProcessSpans, query, spans_of};
use crate::syscall;

/// Largest size of the pages that are moved in one call, unless a single page is larger. Threads of a service lost less
/// time in long pauses with 64 pages of 4 KiB a call than with more.
const BYTES_PER_CALL: u64 = 64 * 4096;
/// Size of the pages whose nodes are queried together.
const BYTES_PER_BATCH: u64 = PAGES_PER_QUERY as u64 * 4096;
/// Pause after a call, in multiples of its duration.
const PAUSE: u32 = 4;
/// Attempts to move a page: one that is in use for a moment can be moved later.
const ATTEMPTS: u32 = 3;

/// Where memory shall be. Each list has at least one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// On any of these nodes. Pages that are on one of them stay.
    Within(Vec<NodeId>),
    /// Page by page on these nodes in turn.
    Interleaved(Vec<NodeId>),
    /// Where it was listed.
    AsListed,
}

impl Destination {
    /// Returns the node of a page; `None` if it may stay.
    fn of(&self, address: u64, span: &PageSpan, current: NodeId) -> Option<NodeId> {
        let nth = |nodes: &[NodeId], index: u64| nodes[(index % nodes.len() as u64) as usize];
        let node = match self {
            Self::Within(nodes) if nodes.contains(&current) => current,
            Self::Within(nodes) => nth(nodes, address / BLOCK_BYTES),
            Self::Interleaved(nodes) => nth(nodes, address / span.page_bytes),
            Self::AsListed => span.node,
        };
        (node != current).then_some(node)
    }
}

/// Memory of which the nodes were known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceMemory {
    processes: Vec<ProcessSpans>,
}

/// A page, and the span in which it was listed.
struct ListedPage<'a> {
    address: u64,
    span: &'a PageSpan,
}

impl<'a> ListedPage<'a> {
    fn all_of(span: &'a PageSpan) -> impl Iterator<Item = Self> {
        span.addresses().map(move |address| Self { address, span })
    }
}

/// A page to be moved.
struct Page {
    address: u64,
    bytes: u64,
    node: NodeId,
}

impl ServiceMemory {
    /// Lists the memory of processes. Cached files of disks are not part of it.
    ///
    /// # Errors
    /// If a process cannot be inspected.
    pub fn of(pids: &[u32]) -> Result<Self, InspectError> {
        spans_of(pids).map(|processes| Self { processes })
    }

    pub fn bytes(&self) -> Bytes {
        Bytes(self.processes.iter().flat_map(|process| &process.spans).map(PageSpan::bytes).sum())
    }

    /// Moves the pages that are on other nodes, and queries their nodes again. `observe` gets the size of the memory that was
    /// checked so far.
    ///
    /// # Errors
    /// If the kernel refuses, for example because the cpuset of the service does not allow a node.
    pub fn move_to(
        &self,
        destination: &Destination,
        stop: &AtomicBool,
        observe: &mut dyn FnMut(Bytes),
    ) -> io::Result<MovedMemory> {
        let (began, mut moved, mut done) = (Instant::now(), MovedMemory::default(), 0);
        let shared = syscall::has_capability(CapabilitySet::SYS_NICE);
        for process in &self.processes {
            let mut mover = Mover { pid: process.pid, shared, moved: &mut moved, stop };
            let mut pages = process.spans.iter().flat_map(ListedPage::all_of);
            loop {
                let batch = next_batch(&mut pages);
                // The process may have exited, and its PID may belong to another.
                if batch.is_empty() || stop.load(Ordering::Relaxed) || !is_same(process) {
                    break;
                }
                mover.batch(&batch, destination)?;
                done += batch.iter().map(|page| page.span.page_bytes).sum::<u64>();
                observe(Bytes(done));
            }
        }
        (moved.seconds, moved.is_interrupted) = (began.elapsed().as_secs_f64(), stop.load(Ordering::Relaxed));
        Ok(moved)
    }
}

/// Returns the next pages: fewer if they are huge, so that the caller is called regularly.
fn next_batch<'a>(pages: &mut impl Iterator<Item = ListedPage<'a>>) -> Vec<ListedPage<'a>> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while bytes < BYTES_PER_BATCH {
        let Some(page) = pages.next() else { break };
        bytes += page.span.page_bytes;
        batch.push(page);
    }
    batch
}

fn is_same(process: &ProcessSpans) -> bool {
    Proc::live().thread_stat(process.pid, process.pid).is_some_and(|stat| stat.started == process.started)
}

struct Mover<'a> {
    pid: u32,
    /// Whether pages that other processes map are moved.
    shared: bool,
    moved: &'a mut MovedMemory,
    stop: &'a AtomicBool,
}

impl Mover<'_> {
    fn batch(&mut self, listed: &[ListedPage<'_>], destination: &Destination) -> io::Result<()> {
        let mut pages = self.elsewhere(listed, destination)?;
        let planned: u64 = pages.iter().map(|page| page.bytes).sum();
        for attempt in 0..ATTEMPTS {
            if pages.is_empty() || self.stop.load(Ordering::Relaxed) {
                break;
            }
            if attempt > 0 {
                self.access(&pages);
            }
            self.attempt(&pages)?;
            // The status of the call is not proof.
            pages = self.elsewhere(listed, destination)?;
        }
        let left: u64 = pages.iter().map(|page| page.bytes).sum();
        self.moved.planned.0 += planned;
        self.moved.moved.0 += planned.saturating_sub(left);
        Ok(())
    }

    /// Returns the pages that shall move. Memory that was freed or swapped out is not among them.
    fn elsewhere(&self, listed: &[ListedPage<'_>], destination: &Destination) -> io::Result<Vec<Page>> {
        let statuses = match query(self.pid, &listed.iter().map(|page| page.address).collect::<Vec<_>>()) {
            Err(error) if has_ended(&error) => return Ok(Vec::new()),
            statuses => statuses?,
        };
        let page = |(page, status): (&ListedPage<'_>, PageStatus)| {
            let PageStatus::On(current) = status else { return None };
            let node = destination.of(page.address, page.span, current)?;
            Some(Page { address: page.address, bytes: page.span.page_bytes, node })
        };
        Ok(listed.iter().zip(statuses).filter_map(page).collect())
    }

    /// Reads a byte of each page. Automatic NUMA balancing makes pages inaccessible until they are accessed, and before Linux
    /// 6.6 such pages cannot be moved.
    fn access(&self, pages: &[Page]) {
        let mut addresses = &pages.iter().map(|page| page.address).collect::<Vec<_>>()[..];
        while !addresses.is_empty() {
            // One that cannot be read ends the call; it is left out.
            let read = syscall::read_bytes(self.pid, addresses).unwrap_or(0);
            addresses = &addresses[(read + 1).min(addresses.len())..];
        }
    }

    fn attempt(&self, pages: &[Page]) -> io::Result<()> {
        let of_one_size = pages.chunk_by(|one, next| one.bytes == next.bytes);
        for pages in of_one_size.flat_map(|pages| pages.chunks((BYTES_PER_CALL / pages[0].bytes).max(1) as usize)) {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let began = Instant::now();
            self.call(pages)?;
            std::thread::sleep(began.elapsed() * PAUSE);
        }
        Ok(())
    }

    fn call(&self, pages: &[Page]) -> io::Result<()> {
        let nodes: Vec<i32> = pages.iter().map(|page| page.node.0 as i32).collect();
        let mut status = vec![0; pages.len()];
        let addresses: Vec<u64> = pages.iter().map(|page| page.address).collect();
        match syscall::move_pages(self.pid, &addresses, &nodes, self.shared, &mut status) {
            Err(error) if has_ended(&error) => Ok(()),
            result => result,
        }
    }
}

/// Whether the error means that the process has exited or released its memory.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(node: u32) -> PageSpan {
        PageSpan { start: 0, pages: 8, page_bytes: 4096, node: NodeId(node) }
    }

    #[test]
    fn pages_stay_if_they_are_on_a_wanted_node() {
        let within = Destination::Within(vec![NodeId(1), NodeId(2)]);
        assert_eq!(within.of(0, &span(0), NodeId(2)), None);
        assert_eq!(within.of(0, &span(0), NodeId(0)), Some(NodeId(1)));
        assert_eq!(within.of(BLOCK_BYTES - 1, &span(0), NodeId(0)), Some(NodeId(1)), "blocks stay whole");
        assert_eq!(within.of(BLOCK_BYTES, &span(0), NodeId(0)), Some(NodeId(2)));
        let interleaved = Destination::Interleaved(vec![NodeId(0), NodeId(1)]);
        assert_eq!(interleaved.of(4096, &span(0), NodeId(1)), None);
        assert_eq!(interleaved.of(8192, &span(0), NodeId(1)), Some(NodeId(0)));
        assert_eq!(Destination::AsListed.of(0, &span(3), NodeId(1)), Some(NodeId(3)));
        assert_eq!(Destination::AsListed.of(0, &span(3), NodeId(3)), None);
    }

    #[test]
    fn batches_of_huge_pages_have_fewer_pages() {
        let small = PageSpan { start: 0, pages: 5000, page_bytes: 4096, node: NodeId(0) };
        let huge = PageSpan { page_bytes: 2 << 20, pages: 9, ..small.clone() };
        let lengths = |span: &PageSpan| {
            let mut pages = ListedPage::all_of(span);
            [(); 3].map(|()| next_batch(&mut pages).len())
        };
        assert_eq!(lengths(&small), [4096, 904, 0]);
        assert_eq!(lengths(&huge), [8, 1, 0]);
    }

    #[test]
    fn memory_on_its_node_is_not_moved() {
        let name = "memory_on_its_node_is_not_moved";
        let memory = match ServiceMemory::of(&[std::process::id()]) {
            Ok(memory) => memory,
            Err(error) => return println!("skipped: {name}: {error}"),
        };
        assert!(memory.bytes().0 > 0);
        let (go_on, mut seen) = (AtomicBool::new(false), Bytes(0));
        let moved = memory.move_to(&Destination::AsListed, &go_on, &mut |bytes| seen = bytes).expect("nothing to move");
        assert_eq!(seen, memory.bytes());
        // Other threads of the tests allocate and free memory meanwhile; on machines with several nodes, some may move.
        assert!(moved.moved.0 <= moved.planned.0 && !moved.is_interrupted);
        let stop = AtomicBool::new(true);
        let stopped = memory.move_to(&Destination::AsListed, &stop, &mut |_| ()).expect("nothing is done");
        assert!(stopped.is_interrupted && stopped.planned == Bytes(0));
    }
}
