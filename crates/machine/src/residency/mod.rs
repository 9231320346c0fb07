//! Finds the memory nodes of the memory of running processes and of cached files. Neither moves pages nor stops a
//! process. Must not depend on how the result is shown.

mod file;
mod hinted;
mod own_pages;
mod pagemap;
mod process;
mod spans;
mod subject;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use model::analysis::residency::{InspectedProcess, PageStatus, Residency, SamplingInterval, SharedFiles, Unseen};
use model::hint::Hinted;
use model::values::id_set::NodeId;
use model::values::units::Bytes;

use self::process::Inspector;
use crate::mempolicy;
use crate::proc::Proc;
use crate::syscall::{self, SyscallError};
use crate::sysfs;

pub(crate) use file::open_own_file;
pub use file::{FileError, cached_file};
pub use own_pages::{OwnPages, own_pages, read_pages};
pub(crate) use spans::spans_of;
pub use spans::{PageSpan, ProcessSpans};
pub use subject::{SubjectError, descendants, find_container, find_pod, find_unit, processes_in, resolve_cgroup};

/// A process that cannot be inspected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    #[error("process {0} does not exist")]
    Missing(u32),
    #[error("process {0} ended or started another program during the inspection")]
    Ended(u32),
    #[error("process {0} is a kernel thread, which has no separate memory")]
    KernelThread(u32),
    #[error("cannot inspect process {pid}: {error}")]
    NotPermitted { pid: u32, error: String },
    #[error(transparent)]
    Refused(SyscallError),
}

impl Hinted for InspectError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NotPermitted { .. } => Some("run as the user of the process, or as root".into()),
            Self::Refused(error) => error.hint(),
            _ => None,
        }
    }
}

/// Maximum number of pages per query. The kernel takes the lock on the mappings for 16 pages at a time.
pub(crate) const PAGES_PER_QUERY: usize = 4096;
/// Maximum number of processes that are listed with a reason why they were not inspected.
const UNSEEN_MAX: usize = 8;

/// Inspects a process and its descendants, without this process: a shell that runs it may be inspected.
///
/// # Errors
/// If the process cannot be inspected. The result lists descendants that cannot.
pub fn inspect_tree(pid: u32) -> Result<Residency, InspectError> {
    inspect_all(&descendants(pid), Some(pid))
}

/// Inspects processes, whose number the caller limits.
///
/// # Errors
/// The first error if no process can be inspected. Otherwise, the result lists processes that cannot.
pub fn inspect(pids: &[u32]) -> Result<Residency, InspectError> {
    inspect_all(pids, None)
}

fn inspect_all(pids: &[u32], required: Option<u32>) -> Result<Residency, InspectError> {
    let started = Instant::now();
    let proc = Proc::live();
    let page = Bytes(syscall::page_bytes() as u64);
    let resident: u64 = pids.iter().filter_map(|pid| proc.resident(*pid)).map(|bytes| bytes.0).sum();
    let inspector = Inspector::new(proc, SamplingInterval::for_pages(resident / page.0));
    let (mut shared, mut inspected, mut errors) = (SharedFiles::default(), Vec::new(), Vec::new());
    let mut unseen = BTreeSet::new();
    for pid in pids {
        match inspector.inspect(*pid, &mut shared, &mut unseen) {
            Ok(process) => inspected.push(process),
            Err(error) if required == Some(*pid) => return Err(error),
            Err(error) => errors.push((*pid, error)),
        }
    }
    if inspected.is_empty() {
        return Err(errors.into_iter().next().map_or(InspectError::Missing(0), |(_, error)| error));
    }
    let mut unseen: Vec<Unseen> = unseen.into_iter().map(|(what, reason)| Unseen { what, reason }).collect();
    unseen.extend(not_inspected(&errors));
    unseen.extend(shared_after_fork(&inspected));
    let mut residency = Residency::of(&inspected, inspector.interval, page, unseen);
    residency.seconds = started.elapsed().as_secs_f64();
    Ok(residency)
}

/// Returns the processes that were not inspected, by reason.
fn not_inspected(errors: &[(u32, InspectError)]) -> Vec<Unseen> {
    let mut by_reason: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (pid, error) in errors {
        let reason = match error {
            // It has no memory that could be counted.
            InspectError::KernelThread(_) => continue,
            InspectError::NotPermitted { error, .. } => error.clone(),
            InspectError::Missing(_) | InspectError::Ended(_) => {
                "it ended or started another program during the inspection".into()
            }
            InspectError::Refused(error) => error.to_string(),
        };
        by_reason.entry(reason).or_default().push(*pid);
    }
    by_reason.into_iter().map(|(reason, pids)| Unseen { what: process_list(&pids), reason }).collect()
}

/// `process 7`, or `processes 7, 8, 9`.
fn process_list(pids: &[u32]) -> String {
    let listed: Vec<String> = pids.iter().take(UNSEEN_MAX).map(u32::to_string).collect();
    let noun = if pids.len() == 1 { "process" } else { "processes" };
    match pids.len() - listed.len() {
        0 => format!("{noun} {}", listed.join(", ")),
        more => format!("{noun} {} and {more} more", listed.join(", ")),
    }
}

fn shared_after_fork(inspected: &[InspectedProcess]) -> Option<Unseen> {
    (inspected.len() > 1).then(|| Unseen {
        what: "sharing of anonymous memory".into(),
        reason: "pages that processes share since a fork count in each process".into(),
    })
}

/// Returns the nodes of pages of a process (0: this process) by their addresses.
pub(crate) fn query(pid: u32, addresses: &[u64]) -> Result<Vec<PageStatus>, std::io::Error> {
    let mut answers = Vec::with_capacity(addresses.len());
    for batch in addresses.chunks(PAGES_PER_QUERY) {
        let mut status = vec![-libc::ENOENT; batch.len()];
        syscall::pages_status(pid, batch, &mut status)?;
        ask_again(pid, batch, &mut status)?;
        let mut found: Vec<PageStatus> = status.into_iter().map(page_status).collect();
        let is_missing = |status: &PageStatus| !matches!(status, PageStatus::On(_));
        if found.iter().any(is_missing) && numa_balancing_is_on() {
            hinted::find(pid, batch, &mut found);
        }
        answers.extend(found);
    }
    Ok(answers)
}

/// Repeats the query of pages that are resident but were not found: Linux 7.3 does not find new large folios of files
/// in the first query.
fn ask_again(pid: u32, pages: &[u64], status: &mut [i32]) -> Result<(), std::io::Error> {
    let missing: Vec<usize> = (0..pages.len()).filter(|index| status[*index] == -libc::ENOENT).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let again: Vec<u64> = missing.iter().map(|index| pages[*index]).collect();
    let mut found = vec![-libc::ENOENT; again.len()];
    syscall::pages_status(pid, &again, &mut found)?;
    missing.into_iter().zip(found).for_each(|(index, found)| status[index] = found);
    Ok(())
}

/// Whether automatic NUMA balancing is on: the kernel then moves pages towards the threads that access them.
pub fn numa_balancing_is_on() -> bool {
    sysfs::read_text(Path::new("/"), "proc/sys/kernel/numa_balancing").is_ok_and(|text| text != "0")
}

fn page_status(status: i32) -> PageStatus {
    match u32::try_from(status) {
        Ok(node) => PageStatus::On(NodeId(node)),
        Err(_) if status == -libc::EFAULT => PageStatus::NotMemory,
        Err(_) => PageStatus::Unknown,
    }
}

pub(crate) fn query_error(error: &std::io::Error) -> SyscallError {
    SyscallError::new("query the nodes of pages (move_pages)", error).with_hint(mempolicy::hint(error))
}

/// Returns the path as text for messages and results.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
