//! Reads of one level that complete during the next. If the vertices found without waiting are enough for the next
//! level to go bottom-up, that level begins while the last reads are in flight; vertices found in them join its
//! frontier when they complete. The latency of a disk is half as long as such a level.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{MutexGuard, PoisonError};

use crate::error::TeamStopped;
use crate::level::{LevelCount, LevelState};
use crate::tail_io::{OnRead, PendingReads};
use crate::team::TeamWorker;
use crate::top_down::join;

use super::Search;

impl Search<'_> {
    /// Returns true if reads of the previous level are in flight; called by the first thread between two levels.
    pub(super) fn some_are_late(&self) -> bool {
        let waits = |reads: MutexGuard<'_, Option<PendingReads>>| reads.as_ref().is_some_and(PendingReads::is_waiting);
        self.layout.has_far()
            && self.reads.iter().any(|reads| waits(reads.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Ends a top-down level: waits for its reads, or leaves them to the next level.
    pub(super) fn end_reads(&self, reads: &mut Option<PendingReads>, next_goes_up: bool, then: &mut OnRead<'_>) {
        self.with(reads, |reads| if next_goes_up { reads.leave(then) } else { reads.finish(then) });
    }

    /// Runs chunks of this level as long as any thread's reads are in flight and work remains.
    pub(super) fn meanwhile(&self, reads: &mut Option<PendingReads>, mut some: impl FnMut() -> bool) {
        let mut waits = true;
        loop {
            if waits && reads.as_mut().is_none_or(PendingReads::has_ended) {
                waits = false;
                self.waiting.fetch_sub(1, Relaxed);
            }
            if self.waiting.load(Relaxed) == 0 || !some() {
                return;
            }
        }
    }

    /// Adds the vertices found in the previous level's lists to the frontier. Returns the number that this thread
    /// added.
    pub(super) fn join(
        &self,
        worker: &TeamWorker<'_>,
        ground: &LevelState<'_>,
        reads: &mut Option<PendingReads>,
    ) -> Result<LevelCount, TeamStopped> {
        worker.barrier()?;
        let mut found = LevelCount::default();
        self.with(reads, |reads| reads.finish(&mut |given| join(self.isa, ground, given, &mut found)));
        worker.barrier()?;
        Ok(found)
    }

    /// Discards all reads of a failed search.
    pub(super) fn forget_reads(&self, worker: &TeamWorker<'_>) {
        if self.is_lost()
            && let Some(reads) = &mut *self.reads(worker)
        {
            reads.give_up();
        }
    }
}
