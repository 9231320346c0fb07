//! Where a team's threads meet, so that all start together. Nobody waits for ever: a failure of any thread or the
//! deadline opens the gate for everybody with that failure.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::job::Failure;

/// A thread that waits longer than this sleeps: it is then not waiting for its fellows' last microseconds.
const SPIN_MAX: Duration = Duration::from_secs(1);
/// A clock reading costs as much as some tens of spins.
const SPINS_PER_LOOK: u32 = 256;
/// A sleeper looks at the deadline this often.
const NAP: Duration = Duration::from_millis(20);

const OUT_OF_TIME: &str = "a thread waited for the others until the trial's time was over";

/// The meeting point of `count` threads.
pub(super) struct Barrier {
    count: usize,
    /// Spinning starts a timed region within some 100 ns of each other; it only helps where every thread has a cpu.
    spin: bool,
    deadline: Instant,
    arrived: AtomicUsize,
    /// How many times all have met.
    meetings: AtomicUsize,
    stopped: AtomicBool,
    /// The first failure.
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
            meetings: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            failure: Mutex::new(None),
            sleepers: AtomicUsize::new(0),
            asleep: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Returns when all have come, or with the failure that stopped the team.
    pub(super) fn wait(&self) -> Result<(), Failure> {
        let meeting = self.meetings.load(Ordering::SeqCst);
        if self.arrived.fetch_add(1, Ordering::SeqCst) + 1 == self.count {
            self.arrived.store(0, Ordering::SeqCst);
            self.meetings.store(meeting + 1, Ordering::SeqCst);
            self.wake_sleepers();
        } else if !self.spin_until_open(meeting) {
            self.sleep_until_open(meeting);
        }
        self.failure()
    }

    /// Lets everybody go, now and at every later meeting, with the first failure given.
    pub(super) fn abort(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.stopped.store(true, Ordering::SeqCst);
        self.wake_sleepers();
    }

    /// Stops the team if the calling thread, which has this index, is unwinding from a panic.
    pub(super) fn stop_if_panicking(&self, index: usize) {
        if std::thread::panicking() {
            self.abort(Failure::Failed(format!("thread {index} panicked, which is a fault of this program")));
        }
    }

    /// For loops that wait for another thread without meeting it: a failure when that is no longer worth while.
    pub(super) fn check_abort(&self) -> Result<(), Failure> {
        if Instant::now() >= self.deadline {
            self.abort(Failure::TimedOut(OUT_OF_TIME.into()));
        }
        self.failure()
    }

    /// The failure that stopped the team.
    pub(super) fn failure(&self) -> Result<(), Failure> {
        if !self.stopped.load(Ordering::SeqCst) {
            return Ok(());
        }
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failure.map_or(Ok(()), Err)
    }

    fn is_open(&self, meeting: usize) -> bool {
        self.meetings.load(Ordering::SeqCst) != meeting || self.stopped.load(Ordering::SeqCst)
    }

    fn spin_until_open(&self, meeting: usize) -> bool {
        if !self.spin {
            return self.is_open(meeting);
        }
        let began = Instant::now();
        while began.elapsed() < SPIN_MAX {
            for _ in 0..SPINS_PER_LOOK {
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
        // Counted before the gate is looked at, so that whoever opens it sees either a sleeper or an open gate.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !self.is_open(meeting) {
            if Instant::now() >= self.deadline {
                drop(asleep);
                self.abort(Failure::TimedOut(OUT_OF_TIME.into()));
                asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            asleep = self.wake.wait_timeout(asleep, NAP).unwrap_or_else(PoisonError::into_inner).0;
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
