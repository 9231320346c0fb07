//! A trial's seated threads as the crew of a graph: thread i constructs, searches and validates on seat i.
//!
//! One team does all the work of a trial: threads that were started anew for each search would find their cpus only after
//! some milliseconds where nobody seats them, and a search takes two. The first member leads; the others wait for what it
//! has to do, which it lends them by address (the unsafe part), and takes back before it goes on.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use graph::{Team, TeamStopped, TeamWorker};
use model::values::trial::ThreadBinding;

use crate::job::{Failure, TrialContext, with_hint};
use crate::team::{self, Worker};

/// What a crew does together.
type TeamTask<'w> = dyn Fn(&TeamWorker<'_>) -> Result<(), TeamStopped> + Sync + 'w;

/// Work that its lender will not end before everybody has given it back.
#[derive(Clone, Copy)]
struct SharedTask(*const TeamTask<'static>);

// SAFETY: the work is Sync; `TaskGuard` sees to it that it outlives its use.
unsafe impl Send for SharedTask {}

/// Between the leader and the others.
#[derive(Default)]
struct TaskSlot {
    work: Mutex<Option<SharedTask>>,
    /// Who has taken the work and not given it back.
    busy: AtomicUsize,
}

/// The leader's view of the team.
pub(super) struct TrialTeam<'t> {
    member: &'t Worker<'t>,
    threads: usize,
    board: &'t TaskSlot,
}

/// Runs `lead` on the first thread of the job's team, with the whole team for its crew. Gives what it returns and where the
/// threads sat.
pub(super) fn lead<T: Send>(
    job: &TrialContext,
    lead: impl FnOnce(&TrialTeam<'_>) -> Result<T, Failure> + Send,
) -> Result<(T, Vec<ThreadBinding>), Failure> {
    let (board, lead) = (TaskSlot::default(), Mutex::new(Some(lead)));
    let crew = team::run(job, |member| {
        member.timed(|| {
            if member.index > 0 {
                return follow(member, job.threads, &board).map(|()| None);
            }
            let seated = TrialTeam { member, threads: job.threads, board: &board };
            let own = lead.lock().unwrap_or_else(PoisonError::into_inner).take();
            let result = own.expect("there is one first thread")(&seated)?;
            // Without work the others end.
            member.barrier()?;
            Ok(Some(result))
        })
    })?;
    let result = crew.results.into_iter().flatten().next().expect("the first thread has come back");
    Ok((result, crew.seats))
}

fn follow(member: &Worker<'_>, threads: usize, board: &TaskSlot) -> Result<(), Failure> {
    loop {
        member.barrier()?;
        let Some(taken) = board.take() else { return Ok(()) };
        // SAFETY: while `taken` lives the lender waits.
        do_part(member, threads, unsafe { &*taken.work.0 })?;
        drop(taken);
        member.barrier()?;
    }
}

fn do_part(member: &Worker<'_>, threads: usize, work: &TeamTask<'_>) -> Result<(), Failure> {
    let meet = || member.barrier().map_err(|_| TeamStopped);
    let hand = TeamWorker { index: member.index, of: threads, barrier: &meet };
    // Why a meeting was stopped the team knows, and says so in place of this.
    work(&hand).map_err(|TeamStopped| Failure::Failed(graph::Error::Stopped.to_string()))
}

impl TaskSlot {
    fn work(&self) -> MutexGuard<'_, Option<SharedTask>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<TaskLease<'_>> {
        let work = self.work();
        let lent = (*work)?;
        // Under the lock, so that who takes the work off the board afterwards sees it.
        self.busy.fetch_add(1, Ordering::SeqCst);
        Some(TaskLease { work: lent, board: self })
    }
}

/// Work in hand; given back when dropped, also by a panic.
struct TaskLease<'b> {
    work: SharedTask,
    board: &'b TaskSlot,
}

impl Drop for TaskLease<'_> {
    fn drop(&mut self) {
        self.board.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Work on the board. Its drop, also during a panic, takes it off the board and waits until no thread has it any more.
struct TaskGuard<'b> {
    board: &'b TaskSlot,
    member: &'b Worker<'b>,
}

impl<'b> TaskGuard<'b> {
    fn new(board: &'b TaskSlot, member: &'b Worker<'b>, work: &TeamTask<'_>) -> Self {
        // SAFETY: only the lifetime changes. The caller borrows the work until this value is dropped, and from then on no
        // thread has it.
        let work: &TeamTask<'static> = unsafe { std::mem::transmute::<&TeamTask<'_>, &TeamTask<'static>>(work) };
        *board.work() = Some(SharedTask(std::ptr::from_ref(work)));
        Self { board, member }
    }
}

impl Drop for TaskGuard<'_> {
    fn drop(&mut self) {
        // Threads with the work may wait at the barrier for this one, which waits for them below. After an error they do
        // not: an error means that the barrier has been stopped.
        self.member.stop_if_panicking();
        *self.board.work() = None;
        while self.board.busy.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
    }
}

impl Team for TrialTeam<'_> {
    type Error = Failure;

    fn threads(&self) -> usize {
        self.threads
    }

    fn run(&self, work: &TeamTask<'_>) -> Result<(), Failure> {
        let lending = TaskGuard::new(self.board, self.member, work);
        self.member.barrier()?;
        do_part(self.member, self.threads, work)?;
        self.member.barrier()?;
        drop(lending);
        Ok(())
    }
}

impl From<graph::Error> for Failure {
    fn from(error: graph::Error) -> Self {
        let why = with_hint(&error, error.hint());
        match error {
            graph::Error::TooLarge { .. }
            | graph::Error::Dram { .. }
            | graph::Error::Memory(machine::memory::MemoryError::TooLarge { .. }) => Self::Unavailable(why),
            _ => Self::Failed(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use model::values::units::Nanos;

    use super::*;
    use crate::kernels::job_for_tests;

    fn job(threads: usize) -> TrialContext {
        TrialContext { threads, time_limit: Nanos(10_000_000_000), ..job_for_tests("bfs") }
    }

    #[test]
    fn work_is_done_once_by_each_and_over_when_it_returns() {
        for threads in [1, 2, 5] {
            let rounds = 300;
            let (count, _) = lead(&job(threads), |crew| {
                let mut total = 0;
                for _ in 0..rounds {
                    let done = AtomicUsize::new(0);
                    crew.run(&|hand| {
                        done.fetch_add(hand.index + 1, Ordering::SeqCst);
                        hand.barrier()
                    })?;
                    total += done.into_inner();
                }
                Ok(total)
            })
            .unwrap();
            assert_eq!(count, rounds * threads * (threads + 1) / 2);
        }
    }

    #[test]
    fn failures_of_leader_and_others_end_everything() {
        let failed = |lead_fails: bool| {
            lead(&job(3), |crew| {
                if lead_fails {
                    return Err(Failure::Failed("no luck".into()));
                }
                crew.run(&|hand| if hand.index == 2 { panic!("planted") } else { hand.barrier() })
            })
            .unwrap_err()
            .to_string()
        };
        assert_eq!(failed(true), "no luck");
        assert!(failed(false).contains("thread 2 panicked"), "{}", failed(false));
    }

    #[test]
    fn panic_of_the_leader_stops_threads_at_the_barrier() {
        let job = job(3);
        let began = Instant::now();
        let failure = lead(&job, |crew| {
            crew.run(&|hand| {
                hand.barrier()?;
                if hand.index == 0 { panic!("planted") } else { hand.barrier() }
            })
        });
        let failure = failure.unwrap_err().to_string();
        assert!(failure.contains("thread 0 panicked"), "{failure}");
        assert!(began.elapsed() < Duration::from_nanos(job.time_limit.0), "the barrier was stopped by its deadline");
    }
}
