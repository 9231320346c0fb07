//! Inspects one process: its mappings, resident pages and threads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use model::analysis::residency::{
    FileSystem, InspectedProcess, Mapping, ProcessPages, SamplingInterval, SharedFiles, ThreadPlace, parse_mapping,
};
use model::values::id_set::{CpuId, NodeId};
use model::values::units::Bytes;

use super::pagemap::{HUGE_BYTES, PageMap};
use super::{InspectError, PAGES_PER_QUERY, query, query_error};
use crate::proc::{MemoryMounts, Proc};
use crate::{syscall, sysfs};

/// Maximum length of `maps`: a million mappings.
const MAPS_BYTES_MAX: u64 = 128 << 20;
/// Maximum number of threads whose CPUs are read.
const THREADS_MAX: usize = 65_536;

/// Memory that is not counted, with the reason.
pub(super) type UnseenSet = BTreeSet<(String, String)>;

/// Facts that are the same for all processes of an inspection.
#[derive(Debug)]
pub(super) struct Inspector {
    pub proc: Proc,
    pub interval: SamplingInterval,
    mounts: MemoryMounts,
    /// Memory node of each CPU; CPUs of nodes without memory have none.
    nodes: BTreeMap<CpuId, NodeId>,
}

impl Inspector {
    pub(super) fn new(proc: Proc, interval: SamplingInterval) -> Self {
        let mounts = proc.memory_mounts();
        let nodes = sysfs::nodes(Path::new("/")).into_iter().filter(|node| node.bytes.0 > 0);
        let nodes = nodes.flat_map(|node| node.cpus.iter().map(|cpu| (cpu, node.os)).collect::<Vec<_>>()).collect();
        Self { proc, interval, mounts, nodes }
    }

    /// Inspects a process. Its pages are added to `shared`, and memory that cannot be inspected to `unseen`.
    pub(super) fn inspect(
        &self,
        pid: u32,
        shared: &mut SharedFiles,
        unseen: &mut UnseenSet,
    ) -> Result<InspectedProcess, InspectError> {
        let failure = |error: io::Error| explain(&self.proc, pid, &error);
        let mut pagemap = PageMap::open(pid).map_err(failure)?;
        let mappings = mappings(pid, unseen).map_err(failure)?;
        let first = mappings.first().ok_or_else(|| without_memory(&self.proc, pid))?.start;
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let program = program.to_string_lossy();
        let mut threads = self.threads(pid);
        let mut pages = ProcessPages::new(&program, &mappings, self.interval, syscall::page_bytes() as u64, HUGE_BYTES);
        // Used only if the process is still the same at the end.
        let mut counted = shared.clone();
        for mapping in mappings.iter().filter(|mapping| mapping.is_memory()) {
            if mapping.is_device() {
                unseen.insert((mapping.path.clone(), "it is memory of a device".into()));
            } else {
                self.inspect_mapping(pid, mapping, &mut pagemap, &mut pages, &mut counted, unseen).map_err(failure)?;
            }
        }
        ask(pid, &mut pages).map_err(failure)?;
        threads.extend(self.threads(pid));
        if !pagemap.is_alive(first) {
            return Err(InspectError::Ended(pid));
        }
        if !pagemap.shows_huge_pages() {
            let why = "this Linux kernel distinguishes them only for root (without root: Linux 6.7)";
            unseen.insert(("huge pages".into(), why.into()));
        }
        *shared = counted;
        let (name, swapped) = (self.proc.name(pid).unwrap_or_default(), self.proc.swapped(pid).unwrap_or_default());
        Ok(InspectedProcess { pid, name, pages, threads, swapped })
    }

    fn inspect_mapping(
        &self,
        pid: u32,
        mapping: &Mapping,
        pagemap: &mut PageMap,
        pages: &mut ProcessPages,
        shared: &mut SharedFiles,
        unseen: &mut UnseenSet,
    ) -> io::Result<()> {
        let is_path = mapping.path.starts_with('/');
        let system = if is_path { self.mounts.file_system(&mapping.path) } else { FileSystem::Disk };
        let skipped = pagemap.for_each_run(mapping.start..mapping.end, |run| {
            pages.add(mapping, system, run, shared);
            if pages.planned() >= PAGES_PER_QUERY { ask(pid, pages) } else { Ok(()) }
        })?;
        if skipped > 0 {
            let what = format!("{} of address space of process {pid}", Bytes(skipped));
            unseen.insert((what, "it is too large to be searched before Linux 6.7".into()));
        }
        Ok(())
    }

    fn threads(&self, pid: u32) -> Vec<ThreadPlace> {
        let place = |tid: u32| {
            let cpu = self.proc.thread_stat(pid, tid)?.cpu;
            Some(ThreadPlace { tid, cpu, node: self.nodes.get(&cpu).copied() })
        };
        self.proc.threads(pid).into_iter().take(THREADS_MAX).filter_map(place).collect()
    }
}

/// Sends the planned queries to the kernel.
fn ask(pid: u32, pages: &mut ProcessPages) -> io::Result<()> {
    let answers = query(pid, &pages.addresses())?;
    pages.record(&answers);
    Ok(())
}

pub(super) fn mappings(pid: u32, unseen: &mut UnseenSet) -> io::Result<Vec<Mapping>> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/maps"))?.take(MAPS_BYTES_MAX).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == MAPS_BYTES_MAX {
        unseen.insert((
            format!("mappings of process {pid}"),
            format!("its list is longer than {}", Bytes(MAPS_BYTES_MAX)),
        ));
    }
    Ok(String::from_utf8_lossy(&bytes).lines().filter_map(parse_mapping).collect())
}

/// Returns the error of a process: it has ended, this process lacks the permission, or a call was refused.
pub(super) fn explain(proc: &Proc, pid: u32, error: &io::Error) -> InspectError {
    // A process that is not yet reaped has no memory: its files in /proc return EACCES to users other than root, and
    // move_pages(2) returns EINVAL.
    let is_zombie = || proc.thread_stat(pid, pid).is_some_and(|stat| stat.state == 'Z');
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::EINVAL) if is_zombie() => InspectError::Ended(pid),
        Some(libc::EPERM | libc::EACCES) => InspectError::NotPermitted { pid, error: error.to_string() },
        _ if error.kind() == ErrorKind::NotFound => InspectError::Missing(pid),
        Some(libc::ESRCH) => without_memory(proc, pid),
        _ if proc.thread_stat(pid, pid).is_none() => InspectError::Ended(pid),
        _ => InspectError::Refused(query_error(error)),
    }
}

/// Returns why a process has no memory: it has ended, or it is a kernel thread, which process 2 has started.
fn without_memory(proc: &Proc, pid: u32) -> InspectError {
    match proc.thread_stat(pid, pid) {
        Some(stat) if stat.state != 'Z' && (pid == 2 || stat.parent == 2) => InspectError::KernelThread(pid),
        _ => InspectError::Ended(pid),
    }
}
