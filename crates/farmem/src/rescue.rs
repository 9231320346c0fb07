//! Frees memory for processes that the kernel would otherwise kill because a cgroup has no page to evict. Must not know
//! which pages are in use.

use machine::cgroup::{MemoryCgroup, OomGuard};

use crate::advise::Processes;
use crate::predict::governor::{Governor, Guard};

/// Evicts pages if processes wait for memory. Without a guard, none waits.
pub(crate) fn make_room(
    group: &MemoryCgroup,
    governor: &mut Governor,
    guard: &mut Option<OomGuard>,
    spaces: &mut Processes,
) {
    let is_waiting = guard.is_some() && group.is_waiting();
    let Some(share) = governor.rescue(is_waiting) else { return };
    let done: u64 = group.processes().into_iter().map(|process| spaces.page_out_anywhere(process, share)).sum();
    match governor.rescued(done) {
        Guard::GiveUp => *guard = None,
        // If the cgroup no longer exists, no process waits.
        Guard::Keep => drop(guard.as_mut().map(OomGuard::wake)),
    }
}
