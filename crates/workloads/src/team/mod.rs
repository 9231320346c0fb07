//! The threads of a kernel. Each thread is pinned to its CPU, verifies that before and after the timed region, and
//! starts together with the others. Threads of a loose placement verify their affinity mask instead. An error or a panic of any thread fails the job, and every wait is bounded by the
//! deadline.

mod barrier;

use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

use machine::affinity;
use model::values::id_set::{CpuId, CpuSet};
use model::values::trial::ThreadBinding;

use crate::job::{Failure, TrialContext, with_hint};
use barrier::Barrier;

/// Upper limit for the number of threads, several times the CPUs of any machine, so that a typo does not exhaust
/// memory.
const THREADS_MAX: usize = 65_536;

/// Results of a team's threads, in the order of the bindings.
pub(crate) struct TeamResult<T> {
    pub results: Vec<T>,
    /// Empty if the threads are not pinned.
    pub seats: Vec<ThreadBinding>,
}

/// One thread of a team, as seen by its work function.
pub(crate) struct Worker<'t> {
    /// Index of the thread, from 0.
    pub index: usize,
    gate: &'t Barrier,
    seat: Option<(CpuId, CpuSet)>,
    /// The CPUs that the thread ran on before and after the timed region.
    ran_on: Cell<Option<(CpuId, CpuId)>>,
}

/// Start and end of a timed region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedSpan {
    pub start: Instant,
    pub end: Instant,
}

/// Runs `work` on every thread of the job's team and collects the return values.
pub(crate) fn run<T, W>(job: &TrialContext, work: W) -> Result<TeamResult<T>, Failure>
where
    T: Send,
    W: Fn(&Worker<'_>) -> Result<T, Failure> + Sync,
{
    check_size(job)?;
    let deadline = Instant::now() + Duration::from_nanos(job.time_limit.0);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let gate = Barrier::new(job.threads, every_thread_has_a_cpu(job, cpus), deadline);
    let ended: Vec<Option<(T, Option<ThreadBinding>)>> = std::thread::scope(|scope| {
        let (gate, work) = (&gate, &work);
        let start = |index: usize| {
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            let asked = job.seats.get(index).copied();
            let body = move || worker(index, Seat { asked, mask: &job.mask }, gate, work);
            let handle = thread.spawn_scoped(scope, body);
            let refused = |error: &io::Error| {
                gate.abort(Failure::Failed(format!("thread {index} could not be started: {error}")));
            };
            handle.inspect_err(refused)
        };
        let handles: Vec<_> = (0..job.threads).map_while(|index| start(index).ok()).collect();
        handles.into_iter().map(|handle| handle.join().ok().flatten()).collect()
    });
    gate.failure()?;
    collect(ended, job)
}

impl Worker<'_> {
    pub(crate) fn barrier(&self) -> Result<(), Failure> {
        self.gate.wait()
    }

    /// For loops that wait for another thread without a barrier: returns an error if the team has failed or the
    /// deadline has passed.
    pub(crate) fn check_abort(&self) -> Result<(), Failure> {
        self.gate.check_abort()
    }

    /// Stops the team if this thread is unwinding from a panic. Values whose drop waits for other threads call it
    /// first, because those threads may be waiting for this one.
    pub(crate) fn stop_if_panicking(&self) {
        self.gate.stop_if_panicking(self.index);
    }

    /// Runs the timed region and records the CPU that the thread ran on before and after it.
    pub(crate) fn timed<T>(&self, region: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        self.barrier()?;
        let before = affinity::current_cpu();
        let result = region()?;
        self.ran_on.set(Some((before, affinity::current_cpu())));
        Ok(result)
    }

    /// Like [`Worker::timed`], for a region without a barrier inside. Also returns the start and end times.
    pub(crate) fn timed_lap<T>(&self, region: impl FnOnce() -> T) -> Result<(T, TimedSpan), Failure> {
        self.timed(|| {
            self.barrier()?;
            let start = Instant::now();
            let result = region();
            Ok((result, TimedSpan { start, end: Instant::now() }))
        })
    }
}

impl TimedSpan {
    /// Time from the first start to the last end, in seconds.
    pub(crate) fn seconds_of_all(laps: impl Iterator<Item = Self> + Clone) -> f64 {
        let start = laps.clone().map(|lap| lap.start).min();
        let end = laps.map(|lap| lap.end).max();
        start.zip(end).map_or(0.0, |(start, end)| end.duration_since(start).as_secs_f64())
    }
}

/// Opens the barrier if a thread panics, so that the other threads do not wait for it.
struct StopOnPanic<'t> {
    gate: &'t Barrier,
    index: usize,
}

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.gate.stop_if_panicking(self.index);
    }
}

/// The CPUs of one thread.
#[derive(Clone, Copy)]
struct Seat<'t> {
    /// CPU that the thread is pinned to; `None` if it may move.
    asked: Option<CpuId>,
    /// Expected affinity mask of a thread that may move. Empty if it may use all CPUs.
    mask: &'t CpuSet,
}

fn worker<T, W>(index: usize, seat: Seat<'_>, gate: &Barrier, work: &W) -> Option<(T, Option<ThreadBinding>)>
where
    W: Fn(&Worker<'_>) -> Result<T, Failure>,
{
    let _stop = StopOnPanic { gate, index };
    let result = seat.take().and_then(|seat| {
        let worker = Worker { index, gate, seat, ran_on: Cell::new(None) };
        let result = work(&worker)?;
        Ok((result, worker.proof()?))
    });
    result.inspect_err(|failure| gate.abort(failure.clone())).ok()
}

impl Seat<'_> {
    /// Pins the calling thread, or verifies its mask. Returns the CPU and the mask of a pinned thread.
    fn take(self) -> Result<Option<(CpuId, CpuSet)>, Failure> {
        let refused = |error: affinity::AffinityError| Failure::Failed(with_hint(&error));
        if let Some(cpu) = self.asked {
            return Ok(Some((cpu, affinity::pin_to(cpu).map_err(refused)?)));
        }
        if !self.mask.is_empty() {
            check_mask(self.mask, &affinity::mask_of(0).map_err(refused)?)?;
        }
        Ok(None)
    }
}

/// Verifies the affinity mask of a thread or process that may use all CPUs of its placement.
pub(crate) fn check_mask(requested: &CpuSet, actual: &CpuSet) -> Result<(), Failure> {
    if requested == actual {
        return Ok(());
    }
    Err(Failure::Failed(format!("requested CPUs {requested}, the kernel set {actual}")))
}

impl Worker<'_> {
    fn proof(self) -> Result<Option<ThreadBinding>, Failure> {
        let Some((asked, mask)) = self.seat else { return Ok(None) };
        let Some((before, after)) = self.ran_on.get() else {
            return Err(Failure::Failed("internal error: a pinned thread ran no timed region".into()));
        };
        Ok(Some(ThreadBinding { requested: asked, mask, before, after }))
    }
}

fn collect<T>(ended: Vec<Option<(T, Option<ThreadBinding>)>>, job: &TrialContext) -> Result<TeamResult<T>, Failure> {
    let (results, seats): (Vec<T>, Vec<Option<ThreadBinding>>) = ended.into_iter().flatten().unzip();
    if results.len() != job.threads {
        return Err(Failure::Failed(format!("only {} of {} threads returned a result", results.len(), job.threads)));
    }
    Ok(TeamResult { results, seats: seats.into_iter().flatten().collect() })
}

fn check_size(job: &TrialContext) -> Result<(), Failure> {
    if job.threads == 0 || job.threads > THREADS_MAX {
        return Err(Failure::Failed(format!(
            "invalid number of threads: {} (1 to {THREADS_MAX} are supported)",
            job.threads
        )));
    }
    if !job.seats.is_empty() && job.seats.len() != job.threads {
        return Err(Failure::Failed(format!("the placement has {} CPUs for {} threads", job.seats.len(), job.threads)));
    }
    Ok(())
}

fn every_thread_has_a_cpu(job: &TrialContext, cpus: usize) -> bool {
    let seats: CpuSet = job.seats.iter().copied().collect();
    let places = if job.seats.is_empty() { cpus } else { seats.len() };
    job.threads <= places
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use model::values::units::Nanos;

    use super::*;
    use crate::kernels::job_for_tests;

    fn job(threads: usize, seats: &[u32]) -> TrialContext {
        TrialContext {
            threads,
            seats: seats.iter().map(|cpu| CpuId(*cpu)).collect(),
            time_limit: Nanos(2_000_000_000),
            ..job_for_tests("syscall")
        }
    }

    #[test]
    fn each_thread_verifies_its_binding() {
        let cpu = affinity::current_cpu().0;
        let team = run(&job(3, &[cpu; 3]), |worker| worker.timed(|| Ok(worker.index))).unwrap();
        assert_eq!(team.results, [0, 1, 2]);
        let alone: CpuSet = [CpuId(cpu)].into_iter().collect();
        let proof = ThreadBinding { requested: CpuId(cpu), mask: alone, before: CpuId(cpu), after: CpuId(cpu) };
        assert_eq!(team.seats, vec![proof; 3]);
        assert!(run(&job(3, &[]), |worker| worker.timed(|| Ok(()))).unwrap().seats.is_empty());
    }

    #[test]
    fn loose_threads_verify_their_mask() {
        let own = affinity::mask_of(0).unwrap();
        let loose = |mask: &CpuSet| TrialContext { mask: mask.clone(), ..job(3, &[]) };
        assert!(run(&loose(&own), |worker| worker.timed(|| Ok(()))).unwrap().seats.is_empty());
        let wider = own.union(&[CpuId(8191)].into_iter().collect());
        let error = run(&loose(&wider), |worker| worker.timed(|| Ok(()))).err().unwrap().to_string();
        assert_eq!(error, format!("requested CPUs {wider}, the kernel set {own}"));
    }

    #[test]
    fn barrier_holds_threads_until_all_have_arrived() {
        for threads in [1, 2, 7] {
            let come = AtomicUsize::new(0);
            let team = run(&job(threads, &[]), |worker| {
                for round in 1..=50 {
                    come.fetch_add(1, Ordering::SeqCst);
                    worker.barrier()?;
                    assert!(come.load(Ordering::SeqCst) >= round * threads);
                    worker.barrier()?;
                }
                Ok(())
            });
            team.unwrap();
        }
    }

    #[test]
    fn failing_thread_ends_the_job_without_a_hang() {
        let failure = |job: &TrialContext, fail: fn() -> Result<(), Failure>| {
            let continued = AtomicUsize::new(0);
            let failed = run(job, |worker| {
                if worker.index == 1 {
                    fail()?;
                }
                worker.barrier()?;
                continued.fetch_add(1, Ordering::SeqCst);
                Ok(())
            });
            assert_eq!(continued.into_inner(), 0, "a thread continued without the others");
            failed.err().unwrap().to_string()
        };
        assert_eq!(failure(&job(3, &[]), || Err(Failure::Failed("no luck".into()))), "no luck");
        assert!(failure(&job(3, &[]), || panic!("planted")).contains("thread 1 panicked"));
    }

    #[test]
    fn barrier_wait_ends_at_the_deadline() {
        let short = TrialContext { time_limit: Nanos(30_000_000), ..job(9, &[]) };
        let failure = run(&short, |worker| if worker.index == 0 { Ok(()) } else { worker.barrier() }).err().unwrap();
        assert!(matches!(failure, Failure::TimedOut(_)), "{failure}");
    }

    #[test]
    fn invalid_teams_return_errors() {
        let error = |job: &TrialContext| run(job, |worker| worker.timed(|| Ok(()))).err().unwrap().to_string();
        assert!(error(&job(2, &[0])).contains("1 CPUs for 2 threads"));
        assert!(error(&job(0, &[])).contains("invalid number of threads: 0"));
        assert!(!error(&job(1, &[60_000])).is_empty());
    }
}
