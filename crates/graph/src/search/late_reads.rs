//! Reads of one level that end in the next. Where what was found without waiting is enough for the next level to go bottom-up, that begins
//! while the last reads are under way; who is found in them joins its frontier when they have come. A disk's answer takes as long as half of
//! such a level.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{MutexGuard, PoisonError};

use crate::level::{LevelCount, LevelState};
use crate::tail_io::{OnRead, PendingReads};
use crate::team::{TeamStopped, TeamWorker};
use crate::top_down::join;

use super::Search;

impl Search<'_> {
    /// Whether reads of the level before are under way; asked by the first thread between two levels.
    pub(super) fn some_are_late(&self) -> bool {
        let waits = |wants: MutexGuard<'_, Option<PendingReads>>| wants.as_ref().is_some_and(PendingReads::is_waiting);
        self.layout.has_far()
            && self.wants.iter().any(|wants| waits(wants.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// At the end of a level top-down: waits for its reads, or leaves them to the next.
    pub(super) fn end_reads(&self, wants: &mut Option<PendingReads>, next_goes_up: bool, then: &mut OnRead<'_>) {
        self.with(wants, |wants| if next_goes_up { wants.leave(then) } else { wants.finish(then) });
    }

    /// Does some of this level, piece by piece, as long as any thread's reads are under way and something is left to do.
    pub(super) fn meanwhile(&self, wants: &mut Option<PendingReads>, mut some: impl FnMut() -> bool) {
        let mut waits = true;
        loop {
            if waits && wants.as_mut().is_none_or(PendingReads::has_ended) {
                waits = false;
                self.waiting.fetch_sub(1, Relaxed);
            }
            if self.waiting.load(Relaxed) == 0 || !some() {
                return;
            }
        }
    }

    /// Adds to the frontier who is found in lists of the level before. Gives what this thread has added.
    pub(super) fn join(
        &self,
        hand: &TeamWorker<'_>,
        ground: &LevelState<'_>,
        wants: &mut Option<PendingReads>,
    ) -> Result<LevelCount, TeamStopped> {
        hand.barrier()?;
        let mut found = LevelCount::default();
        self.with(wants, |wants| wants.finish(&mut |given| join(self.isa, ground, given, &mut found)));
        hand.barrier()?;
        Ok(found)
    }

    /// Ends all reads of a search that has failed.
    pub(super) fn forget_reads(&self, hand: &TeamWorker<'_>) {
        if self.is_lost()
            && let Some(wants) = &mut *self.wants(hand)
        {
            wants.give_up();
        }
    }
}
