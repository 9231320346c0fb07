//! Lists the memory of running processes by node, to the page. Leaves out cached files of disks, which belong to all
//! programs. Must not move pages.

use std::io;

use model::analysis::residency::{PageStatus, SharedFiles};
use model::values::id_set::NodeId;

use super::own_pages::{OwnRun, for_each_own_run};
use super::pagemap::HUGE_BYTES;
use super::process::explain;
use super::{InspectError, PAGES_PER_QUERY, query};
use crate::proc::{MemoryMounts, Proc};
use crate::syscall;

/// Pages that follow each other, of one size and on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSpan {
    /// Address of the first page.
    pub start: u64,
    pub pages: u64,
    pub page_bytes: u64,
    pub node: NodeId,
}

/// The memory of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSpans {
    pub pid: u32,
    /// Start of the process in ticks since boot.
    pub started: u64,
    pub spans: Vec<PageSpan>,
}

impl PageSpan {
    pub fn bytes(&self) -> u64 {
        self.pages * self.page_bytes
    }

    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        let (start, page_bytes) = (self.start, self.page_bytes);
        (0..self.pages).map(move |page| start + page * page_bytes)
    }
}

/// Lists the memory of processes. Memory that they share belongs to the first of them. Processes that have ended have none.
///
/// # Errors
/// If a process cannot be inspected, for example without permission.
pub(crate) fn spans_of(pids: &[u32]) -> Result<Vec<ProcessSpans>, InspectError> {
    let (proc, mut shared, mut all) = (Proc::live(), SharedFiles::default(), Vec::new());
    let mounts = proc.memory_mounts();
    for pid in pids {
        let Some(started) = proc.thread_stat(*pid, *pid).map(|stat| stat.started) else { continue };
        match of_process(*pid, &mounts, &mut shared) {
            Ok(spans) => all.push(ProcessSpans { pid: *pid, started, spans }),
            Err(error) => match explain(&proc, *pid, &error) {
                InspectError::Missing(_) | InspectError::Ended(_) | InspectError::KernelThread(_) => {}
                error => return Err(error),
            },
        }
    }
    Ok(all)
}

fn of_process(pid: u32, mounts: &MemoryMounts, shared: &mut SharedFiles) -> io::Result<Vec<PageSpan>> {
    let mut lister = Lister { pid, pages: Vec::new(), spans: Vec::new() };
    let skipped = for_each_own_run(pid, mounts, shared, |OwnRun { addresses, is_huge, .. }| {
        let page_bytes = if is_huge { HUGE_BYTES } else { syscall::page_bytes() as u64 };
        lister.pages.extend(addresses.step_by(page_bytes as usize).map(|address| (address, page_bytes)));
        // Most runs are short.
        if lister.pages.len() >= PAGES_PER_QUERY { lister.ask() } else { Ok(()) }
    })?;
    // Pages that are not known cannot be moved back.
    if skipped > 0 {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "its address space is too large"));
    }
    lister.ask()?;
    Ok(lister.spans)
}

/// Pages of a process whose nodes have not been queried, by address and size, and the spans of the others.
struct Lister {
    pid: u32,
    pages: Vec<(u64, u64)>,
    spans: Vec<PageSpan>,
}

impl Lister {
    fn ask(&mut self) -> io::Result<()> {
        let addresses: Vec<u64> = self.pages.iter().map(|(address, _)| *address).collect();
        let statuses = query(self.pid, &addresses)?;
        for ((address, page_bytes), status) in self.pages.drain(..).zip(statuses) {
            push(&mut self.spans, address, page_bytes, status);
        }
        Ok(())
    }
}

fn push(spans: &mut Vec<PageSpan>, address: u64, page_bytes: u64, status: PageStatus) {
    let PageStatus::On(node) = status else { return };
    match spans.last_mut() {
        Some(last) if last.start + last.bytes() == address && (last.page_bytes, last.node) == (page_bytes, node) => {
            last.pages += 1;
        }
        _ => spans.push(PageSpan { start: address, pages: 1, page_bytes, node }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_on_one_node_are_one_span() {
        let mut spans = Vec::new();
        let on = |node| PageStatus::On(NodeId(node));
        for (address, status) in
            [(0x1000, on(0)), (0x2000, on(0)), (0x3000, on(1)), (0x4000, PageStatus::Unknown), (0x5000, on(1))]
        {
            push(&mut spans, address, 0x1000, status);
        }
        push(&mut spans, 0x20_0000, HUGE_BYTES, on(1));
        let span = |start, pages, page_bytes, node| PageSpan { start, pages, page_bytes, node: NodeId(node) };
        let expected = [
            span(0x1000, 2, 0x1000, 0),
            span(0x3000, 1, 0x1000, 1),
            span(0x5000, 1, 0x1000, 1),
            span(0x20_0000, 1, HUGE_BYTES, 1),
        ];
        assert_eq!(spans, expected);
        assert_eq!(expected[0].addresses().collect::<Vec<_>>(), [0x1000, 0x2000]);
    }

    /// The pages of this process are those that `where` counts, without files of disks.
    #[test]
    fn memory_of_this_process_is_listed() {
        let memory = vec![1u8; 3 << 20];
        let pid = std::process::id();
        let spans = match spans_of(&[pid]) {
            Ok(all) => all.into_iter().next().expect("this process").spans,
            Err(error) => return println!("skipped: memory_of_this_process_is_listed: {error}"),
        };
        let (start, end) = (memory.as_ptr() as u64, memory.as_ptr() as u64 + memory.len() as u64);
        let in_memory = |at: &u64| (start..end).contains(at);
        let listed: u64 = spans
            .iter()
            .flat_map(|span| span.addresses().map(|at| (at, span.page_bytes)).collect::<Vec<_>>())
            .filter(|(at, _)| in_memory(at))
            .map(|(_, bytes)| bytes)
            .sum();
        assert!(listed >= (memory.len() as u64) - HUGE_BYTES, "{listed} of {}", memory.len());
        let code = memory_of_this_process_is_listed as *const () as u64;
        assert!(!spans.iter().any(|span| (span.start..span.start + span.bytes()).contains(&code)));
        assert_eq!(spans_of(&[0x7fff_fff0]), Ok(Vec::new()), "no such process");
    }
}
