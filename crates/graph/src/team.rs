//! The threads that construct, search and validate. The caller provides them (pinned, in a measurement); `PlainTeam`
//! has unpinned ones.

use std::num::NonZero;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{Error, TeamStopped};

/// Threads that run the same work together.
pub trait Team {
    /// Error of the work of a team.
    type Error: From<Error>;
    /// Returns the number of threads, at least one.
    fn threads(&self) -> usize;
    /// Runs the work on each thread, and returns when all have ended.
    fn run(&self, work: &(dyn Fn(&TeamWorker<'_>) -> Result<(), TeamStopped> + Sync)) -> Result<(), Self::Error>;
}

/// One thread of a team, as its work sees it.
pub struct TeamWorker<'c> {
    /// Index of the thread, from 0.
    pub index: usize,
    pub of: usize,
    pub barrier: &'c dyn Fn() -> Result<(), TeamStopped>,
}

impl TeamWorker<'_> {
    pub fn barrier(&self) -> Result<(), TeamStopped> {
        (self.barrier)()
    }

    /// Returns this thread's contiguous share of a number of items; shares differ by at most one.
    pub fn share(&self, items: usize) -> Range<usize> {
        share(0..items, self.index, self.of)
    }
}

/// Returns a contiguous share of a range; shares differ by at most one.
pub(crate) fn share(range: Range<usize>, index: usize, of: usize) -> Range<usize> {
    let border = |index: usize| range.start + (range.len() as u128 * index as u128 / of as u128) as usize;
    border(index)..border(index + 1)
}

/// Runs the work on each thread of a team and returns the results in the order of threads.
pub(crate) fn collect<C: Team, T: Send>(
    team: &C,
    work: impl Fn(&TeamWorker<'_>) -> Result<T, TeamStopped> + Sync,
) -> Result<Vec<T>, C::Error> {
    let results: Vec<Mutex<Option<T>>> = (0..team.threads()).map(|_| Mutex::new(None)).collect();
    team.run(&|worker| {
        let result = work(worker)?;
        *results[worker.index].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        Ok(())
    })?;
    let taken = results.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    taken.collect::<Option<Vec<T>>>().ok_or_else(|| Error::Stopped.into())
}

/// Hands out the numbers below `end` in chunks, to any thread that asks.
pub(crate) struct Chunks {
    next: AtomicUsize,
    end: usize,
    size: usize,
}

impl Chunks {
    pub(crate) fn new(end: usize, size: usize) -> Self {
        Self { next: AtomicUsize::new(0), end, size }
    }

    pub(crate) fn take(&self) -> Option<Range<usize>> {
        let start = self.next.fetch_add(self.size, Ordering::Relaxed);
        (start < self.end).then(|| start..(start + self.size).min(self.end))
    }
}

/// Threads without affinity.
#[derive(Clone, Copy, Debug)]
pub struct PlainTeam(pub usize);

/// A barrier. Threads spin for a while, because waits take microseconds, and then yield the CPU.
struct Barrier {
    count: usize,
    /// Iterations before a waiting thread yields its CPU.
    spins: u32,
    arrived: AtomicUsize,
    generation: AtomicUsize,
    stopped: AtomicBool,
}

/// Iterations before a waiting thread yields its CPU, if each thread has one.
const SPINS: u32 = 10_000;

impl Barrier {
    fn new(count: usize) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            count,
            spins: if count > cpus { 0 } else { SPINS },
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    fn wait(&self) -> Result<(), TeamStopped> {
        let current = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            self.arrived.store(0, Ordering::Relaxed);
            self.generation.store(current + 1, Ordering::Release);
        }
        let mut spins = 0;
        while self.generation.load(Ordering::Acquire) == current {
            if self.stopped.load(Ordering::Acquire) {
                return Err(TeamStopped);
            }
            if spins < self.spins {
                spins += 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

impl Team for PlainTeam {
    type Error = Error;

    fn threads(&self) -> usize {
        self.0.max(1)
    }

    fn run(&self, work: &(dyn Fn(&TeamWorker<'_>) -> Result<(), TeamStopped> + Sync)) -> Result<(), Error> {
        let count = self.threads();
        let barrier = Barrier::new(count);
        let one = |index: usize| {
            let worker = TeamWorker { index, of: count, barrier: &|| barrier.wait() };
            // A panic stops the other threads, which would otherwise wait forever, and is then resumed.
            let ended = catch_unwind(AssertUnwindSafe(|| work(&worker)));
            if !matches!(ended, Ok(Ok(()))) {
                barrier.stopped.store(true, Ordering::Release);
            }
            ended
        };
        let ended: Vec<_> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..count).map(|index| scope.spawn(move || one(index))).collect();
            let first = one(0);
            std::iter::once(first).chain(others.into_iter().map(|other| other.join().and_then(|ended| ended))).collect()
        });
        // A panic is the reason why the others were stopped.
        let results: Vec<_> = ended.into_iter().map(|one| one.unwrap_or_else(|panic| resume_unwind(panic))).collect();
        if results.contains(&Err(TeamStopped)) { Err(Error::Stopped) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_threads() {
        assert_eq!(collect(&PlainTeam(5), |worker| Ok(worker.share(13))).unwrap(), [0..2, 2..5, 5..7, 7..10, 10..13]);
    }

    #[test]
    fn barriers_release_no_thread_early() {
        let passed = AtomicUsize::new(0);
        let work = |worker: &TeamWorker<'_>| {
            for round in 1..200 {
                passed.fetch_add(1, Ordering::SeqCst);
                worker.barrier()?;
                assert!(passed.load(Ordering::SeqCst) >= round * 3);
                worker.barrier()?;
            }
            Ok(())
        };
        PlainTeam(3).run(&work).unwrap();
    }

    #[test]
    fn a_thread_that_stops_or_panics_stops_all() {
        let stop = |worker: &TeamWorker<'_>| if worker.index == 1 { Err(TeamStopped) } else { worker.barrier() };
        assert_eq!(PlainTeam(3).run(&stop), Err(Error::Stopped));
        let panic = |worker: &TeamWorker<'_>| {
            assert!(worker.index != 2, "planted");
            worker.barrier()
        };
        assert!(catch_unwind(|| PlainTeam(3).run(&panic)).is_err());
    }

    #[test]
    fn chunks_cover_each_number_once() {
        let pieces = Chunks::new(10, 4);
        let taken: Vec<_> = std::iter::from_fn(|| pieces.take()).collect();
        assert_eq!(taken, [0..4, 4..8, 8..10]);
    }
}
