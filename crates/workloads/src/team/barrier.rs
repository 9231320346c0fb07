//! The barrier at which a team's threads start together. No wait is unbounded: the failure of any thread, or the
//! deadline, opens the barrier for all threads and returns that failure.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::job::Failure;

/// Spin time after which a waiting thread sleeps. By then the wait exceeds the usual skew of microseconds by far.
const SPIN_MAX: Duration = Duration::from_secs(1);
/// Spins between two clock readings. A reading costs as much as some tens of spins.
const SPINS_PER_POLL: u32 = 256;
/// Interval at which a sleeping thread checks the deadline.
const SLEEP: Duration = Duration::from_millis(20);

const OUT_OF_TIME: &str = "a thread waited for the others until the time limit of the trial";

/// A reusable barrier for `count` threads.
pub(super) struct Barrier {
    count: usize,
    /// Spinning starts a timed region within some 100 ns on all threads. It helps only if every thread has its own CPU.
    spin: bool,
    deadline: Instant,
    arrived: AtomicUsize,
    /// Number of times that all threads have arrived.
    generation: AtomicUsize,
    stopped: AtomicBool,
    /// The first failure, which every later wait returns.
    failure: Mutex<Option<Failure>>,
    sleepers: AtomicUsize,
    asleep: Mutex<()>,
    wake: Condvar,
}

impl Barrier {
    pub(super) fn new(count: usize, spin: bool, deadline: Instant) -> Self {
        Self {
            count,
            spin,
            deadline,
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            failure: Mutex::new(None),
            sleepers: AtomicUsize::new(0),
            asleep: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Returns when all threads have arrived, or returns the failure that stopped the team.
    pub(super) fn wait(&self) -> Result<(), Failure> {
        let meeting = self.generation.load(Ordering::SeqCst);
        if self.arrived.fetch_add(1, Ordering::SeqCst) + 1 == self.count {
            self.arrived.store(0, Ordering::SeqCst);
            self.generation.store(meeting + 1, Ordering::SeqCst);
            self.wake_sleepers();
        } else if !self.spin_until_open(meeting) {
            self.sleep_until_open(meeting);
        }
        self.failure()
    }

    /// Releases all threads, now and at every later barrier, with the first failure reported.
    pub(super) fn abort(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.stopped.store(true, Ordering::SeqCst);
        self.wake_sleepers();
    }

    /// Stops the team if the calling thread, whose index is given, is unwinding from a panic.
    pub(super) fn stop_if_panicking(&self, index: usize) {
        if std::thread::panicking() {
            self.abort(Failure::Failed(format!("internal error: thread {index} panicked")));
        }
    }

    /// For loops that wait for another thread without the barrier: returns an error if waiting is no longer useful.
    pub(super) fn check_abort(&self) -> Result<(), Failure> {
        if Instant::now() >= self.deadline {
            self.abort(Failure::TimedOut(OUT_OF_TIME.into()));
        }
        self.failure()
    }

    /// Returns the failure that stopped the team.
    pub(super) fn failure(&self) -> Result<(), Failure> {
        if !self.stopped.load(Ordering::SeqCst) {
            return Ok(());
        }
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failure.map_or(Ok(()), Err)
    }

    fn is_open(&self, meeting: usize) -> bool {
        self.generation.load(Ordering::SeqCst) != meeting || self.stopped.load(Ordering::SeqCst)
    }

    fn spin_until_open(&self, meeting: usize) -> bool {
        if !self.spin {
            return self.is_open(meeting);
        }
        let began = Instant::now();
        while began.elapsed() < SPIN_MAX {
            for _ in 0..SPINS_PER_POLL {
                if self.is_open(meeting) {
                    return true;
                }
                std::hint::spin_loop();
            }
        }
        false
    }

    fn sleep_until_open(&self, meeting: usize) {
        let mut asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        // Counted before the barrier is checked, so that the thread that opens it sees either a sleeper or an open
        // barrier.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !self.is_open(meeting) {
            if Instant::now() >= self.deadline {
                drop(asleep);
                self.abort(Failure::TimedOut(OUT_OF_TIME.into()));
                asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            asleep = self.wake.wait_timeout(asleep, SLEEP).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn wake_sleepers(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
            self.wake.notify_all();
        }
    }
}
