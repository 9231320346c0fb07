//! A trial's seated threads as the crew of a graph: thread i constructs, searches and validates on seat i.
//!
//! One team does all the work of a trial: threads that were started anew for each search would find their cpus only after
//! some milliseconds where nobody seats them, and a search takes two. The first member leads; the others wait for what it
//! has to do, which it lends them by address (the unsafe part), and takes back before it goes on.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use graph::{Crew, Hand, Stopped};
use model::trial::ThreadSeat;

use crate::job::{Failure, Job, with_hint};
use crate::team::{self, Member};

/// What a crew does together.
type Work<'w> = dyn Fn(&Hand<'_>) -> Result<(), Stopped> + Sync + 'w;

/// Work that its lender will not end before everybody has given it back.
#[derive(Clone, Copy)]
struct Lent(*const Work<'static>);

// SAFETY: the work is Sync; `Lending` sees to it that it outlives its use.
unsafe impl Send for Lent {}

/// Between the leader and the others.
#[derive(Default)]
struct Board {
    work: Mutex<Option<Lent>>,
    /// Who has taken the work and not given it back.
    busy: AtomicUsize,
}

/// The leader's view of the team.
pub(super) struct Seated<'t> {
    member: &'t Member<'t>,
    threads: usize,
    board: &'t Board,
}

/// Runs `lead` on the first thread of the job's team, with the whole team for its crew. Gives what it returns and where the
/// threads sat.
pub(super) fn lead<T: Send>(
    job: &Job,
    lead: impl FnOnce(&Seated<'_>) -> Result<T, Failure> + Send,
) -> Result<(T, Vec<ThreadSeat>), Failure> {
    let (board, lead) = (Board::default(), Mutex::new(Some(lead)));
    let crew = team::run(job, |member| {
        member.timed(|| {
            if member.index > 0 {
                return follow(member, job.threads, &board).map(|()| None);
            }
            let seated = Seated { member, threads: job.threads, board: &board };
            let own = lead.lock().unwrap_or_else(PoisonError::into_inner).take();
            let result = own.expect("there is one first thread")(&seated)?;
            // Without work the others end.
            member.meet()?;
            Ok(Some(result))
        })
    })?;
    let result = crew.results.into_iter().flatten().next().expect("the first thread has come back");
    Ok((result, crew.seats))
}

fn follow(member: &Member<'_>, threads: usize, board: &Board) -> Result<(), Failure> {
    loop {
        member.meet()?;
        let Some(taken) = board.take() else { return Ok(()) };
        // SAFETY: while `taken` lives the lender waits.
        do_part(member, threads, unsafe { &*taken.work.0 })?;
        drop(taken);
        member.meet()?;
    }
}

fn do_part(member: &Member<'_>, threads: usize, work: &Work<'_>) -> Result<(), Failure> {
    let meet = || member.meet().map_err(|_| Stopped);
    let hand = Hand { index: member.index, of: threads, meet: &meet };
    // Why a meeting was stopped the team knows, and says so in place of this.
    work(&hand).map_err(|Stopped| Failure::Failed(graph::Error::Stopped.to_string()))
}

impl Board {
    fn work(&self) -> MutexGuard<'_, Option<Lent>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Taken<'_>> {
        let work = self.work();
        let lent = (*work)?;
        // Under the lock, so that who takes the work off the board afterwards sees it.
        self.busy.fetch_add(1, Ordering::SeqCst);
        Some(Taken { work: lent, board: self })
    }
}

/// Work in hand; given back when dropped, also by a panic.
struct Taken<'b> {
    work: Lent,
    board: &'b Board,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.board.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Work on the board. Its drop, also during a panic, takes it off the board and waits until no thread has it any more.
struct Lending<'b> {
    board: &'b Board,
    member: &'b Member<'b>,
}

impl<'b> Lending<'b> {
    fn new(board: &'b Board, member: &'b Member<'b>, work: &Work<'_>) -> Self {
        // SAFETY: only the lifetime changes. The caller borrows the work until this value is dropped, and from then on no
        // thread has it.
        let work: &Work<'static> = unsafe { std::mem::transmute::<&Work<'_>, &Work<'static>>(work) };
        *board.work() = Some(Lent(std::ptr::from_ref(work)));
        Self { board, member }
    }
}

impl Drop for Lending<'_> {
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

impl Crew for Seated<'_> {
    type Error = Failure;

    fn threads(&self) -> usize {
        self.threads
    }

    fn run(&self, work: &Work<'_>) -> Result<(), Failure> {
        let lending = Lending::new(self.board, self.member, work);
        self.member.meet()?;
        do_part(self.member, self.threads, work)?;
        self.member.meet()?;
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

    use model::units::Nanos;

    use super::*;
    use crate::kernels::job_for_tests;

    fn job(threads: usize) -> Job {
        Job { threads, time_limit: Nanos(10_000_000_000), ..job_for_tests("bfs") }
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
                        hand.meet()
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
                crew.run(&|hand| if hand.index == 2 { panic!("planted") } else { hand.meet() })
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
                hand.meet()?;
                if hand.index == 0 { panic!("planted") } else { hand.meet() }
            })
        });
        let failure = failure.unwrap_err().to_string();
        assert!(failure.contains("thread 0 panicked"), "{failure}");
        assert!(began.elapsed() < Duration::from_nanos(job.time_limit.0), "the barrier was stopped by its deadline");
    }
}
