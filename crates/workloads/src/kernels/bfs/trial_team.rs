//! Runs the team of a graph on a trial's pinned threads: thread i constructs, searches and validates on CPU i.
//!
//! One team does all the work of a trial. Unpinned threads that were started for each search would need milliseconds to
//! spread over the CPUs, while a search takes two. The first thread leads. The others wait for its tasks, which they
//! receive by address (the unsafe part), and release each task before the leader continues.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use graph::{Team, TeamStopped, TeamWorker};
use model::values::trial::ThreadBinding;

use crate::job::{Failure, TrialContext, with_hint};
use crate::team::{self, Worker};

/// A task of the whole team.
type TeamTask<'w> = dyn Fn(&TeamWorker<'_>) -> Result<(), TeamStopped> + Sync + 'w;

/// A task that outlives its use: its owner waits until all threads have released it.
#[derive(Clone, Copy)]
struct SharedTask(*const TeamTask<'static>);

// SAFETY: the task is Sync, and `TaskGuard` ensures that it outlives its use.
unsafe impl Send for SharedTask {}

/// Passes tasks from the leader to the other threads.
#[derive(Default)]
struct TaskSlot {
    work: Mutex<Option<SharedTask>>,
    /// Number of threads that hold the task.
    busy: AtomicUsize,
}

/// The leader's handle of the team.
pub(super) struct TrialTeam<'t> {
    worker: &'t Worker<'t>,
    threads: usize,
    slot: &'t TaskSlot,
}

/// Runs `lead` on the first thread, with the whole team at its disposal. Returns its result and the thread bindings.
pub(super) fn lead<T: Send>(
    job: &TrialContext,
    lead: impl FnOnce(&TrialTeam<'_>) -> Result<T, Failure> + Send,
) -> Result<(T, Vec<ThreadBinding>), Failure> {
    let (slot, lead) = (TaskSlot::default(), Mutex::new(Some(lead)));
    let team = team::run(job, |worker| {
        worker.timed(|| {
            if worker.index > 0 {
                return follow(worker, job.threads, &slot).map(|()| None);
            }
            let trial_team = TrialTeam { worker, threads: job.threads, slot: &slot };
            let own = lead.lock().unwrap_or_else(PoisonError::into_inner).take();
            let result = own.expect("exactly one thread leads")(&trial_team)?;
            // Without a task, the other threads exit.
            worker.barrier()?;
            Ok(Some(result))
        })
    })?;
    let result = team.results.into_iter().flatten().next().expect("the leader returned a result");
    Ok((result, team.seats))
}

fn follow(worker: &Worker<'_>, threads: usize, slot: &TaskSlot) -> Result<(), Failure> {
    loop {
        worker.barrier()?;
        let Some(lease) = slot.take() else { return Ok(()) };
        // SAFETY: the leader waits as long as `lease` lives.
        run_task(worker, threads, unsafe { &*lease.work.0 })?;
        drop(lease);
        worker.barrier()?;
    }
}

fn run_task(worker: &Worker<'_>, threads: usize, work: &TeamTask<'_>) -> Result<(), Failure> {
    let barrier = || worker.barrier().map_err(|_| TeamStopped);
    let team_worker = TeamWorker { index: worker.index, of: threads, barrier: &barrier };
    // The team knows why a barrier was aborted, and reports that reason instead of this error.
    work(&team_worker).map_err(|TeamStopped| Failure::Failed(graph::Error::Stopped.to_string()))
}

impl TaskSlot {
    fn work(&self) -> MutexGuard<'_, Option<SharedTask>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<TaskLease<'_>> {
        let work = self.work();
        let task = (*work)?;
        // Under the lock, so that a leader that clears the slot afterwards sees the new count.
        self.busy.fetch_add(1, Ordering::SeqCst);
        Some(TaskLease { work: task, slot: self })
    }
}

/// A task in use; released on drop, also during a panic.
struct TaskLease<'b> {
    work: SharedTask,
    slot: &'b TaskSlot,
}

impl Drop for TaskLease<'_> {
    fn drop(&mut self) {
        self.slot.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The task in the slot. Its drop, also during a panic, clears the slot and waits until no thread uses the task.
struct TaskGuard<'b> {
    slot: &'b TaskSlot,
    worker: &'b Worker<'b>,
}

impl<'b> TaskGuard<'b> {
    fn new(slot: &'b TaskSlot, worker: &'b Worker<'b>, work: &TeamTask<'_>) -> Self {
        // SAFETY: changes only the lifetime. The caller borrows the task until this value is dropped, and from then on
        // no thread uses it.
        let work: &TeamTask<'static> = unsafe { std::mem::transmute::<&TeamTask<'_>, &TeamTask<'static>>(work) };
        *slot.work() = Some(SharedTask(std::ptr::from_ref(work)));
        Self { slot, worker }
    }
}

impl Drop for TaskGuard<'_> {
    fn drop(&mut self) {
        // Threads with the task may wait at the barrier for this one, which waits for them below. After an error they
        // do not, because an error means that the barrier has been aborted.
        self.worker.stop_if_panicking();
        *self.slot.work() = None;
        while self.slot.busy.load(Ordering::SeqCst) > 0 {
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
        let guard = TaskGuard::new(self.slot, self.worker, work);
        self.worker.barrier()?;
        run_task(self.worker, self.threads, work)?;
        self.worker.barrier()?;
        drop(guard);
        Ok(())
    }
}

impl From<graph::Error> for Failure {
    fn from(error: graph::Error) -> Self {
        let reason = with_hint(&error);
        match error {
            graph::Error::TooLarge { .. }
            | graph::Error::Dram { .. }
            | graph::Error::Memory(machine::memory::MemoryError::TooLarge { .. }) => Self::Unavailable(reason),
            _ => Self::Failed(reason),
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
    fn each_thread_runs_a_task_once_before_run_returns() {
        for threads in [1, 2, 5] {
            let rounds = 300;
            let (count, _) = lead(&job(threads), |team| {
                let mut total = 0;
                for _ in 0..rounds {
                    let done = AtomicUsize::new(0);
                    team.run(&|team_worker| {
                        done.fetch_add(team_worker.index + 1, Ordering::SeqCst);
                        team_worker.barrier()
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
    fn failure_of_any_thread_ends_the_team() {
        let failed = |lead_fails: bool| {
            lead(&job(3), |team| {
                if lead_fails {
                    return Err(Failure::Failed("planted failure".into()));
                }
                team.run(&|team_worker| if team_worker.index == 2 { panic!("planted") } else { team_worker.barrier() })
            })
            .unwrap_err()
            .to_string()
        };
        assert_eq!(failed(true), "planted failure");
        assert!(failed(false).contains("thread 2 panicked"), "{}", failed(false));
    }

    #[test]
    fn panic_of_the_leader_stops_threads_at_the_barrier() {
        let job = job(3);
        let began = Instant::now();
        let failure = lead(&job, |team| {
            team.run(&|team_worker| {
                team_worker.barrier()?;
                if team_worker.index == 0 { panic!("planted") } else { team_worker.barrier() }
            })
        });
        let failure = failure.unwrap_err().to_string();
        assert!(failure.contains("thread 0 panicked"), "{failure}");
        assert!(began.elapsed() < Duration::from_nanos(job.time_limit.0), "the barrier waited for its deadline");
    }
}
