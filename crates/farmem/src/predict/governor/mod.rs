//! Decides what the paging controller may cost: when it backs off because faults form no streams, when it pauses
//! because its CPU time is not earned, and when it frees memory for processes that wait. Pure, like the predictor:
//! times and counters are arguments. Must not know how faults are sampled, how time is measured or how pages are
//! evicted.

#[cfg(test)]
mod replay;
#[cfg(test)]
mod tests;

use std::time::Duration;

use super::{Counts, Tuning};

/// Maximum delay of a poll while part of the program is in far memory, and while nothing is.
const PACE: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(10)];
/// CPU time that needs no justification: this fraction of one CPU, plus this initial amount in seconds.
const FREE_SHARE: f64 = 0.10;
const FREE_TO_BEGIN: f64 = 0.05;
/// Beyond that, CPU time is earned by pages prefetched or evicted, in seconds each: what the program would spend on
/// them.
const EARNED_PER_PAGE: f64 = 8e-6;
/// Number of polls in a row at which nothing could be evicted for waiting processes; after that, the kernel decides.
const IN_VAIN_MAX: u32 = 100;
/// A batch of at least this many faults is useless if fewer than a tenth belong to a stream.
const USELESS_MIN: u64 = 50;
/// After this many useless batches in a row, the controller backs off, initially for the first time and at most for the
/// second.
const USELESS_LOOKS: u32 = 3;
const NAP: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(160)];

/// The faults worth sampling until the next check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampling {
    /// Major faults, and minor faults if part of the program is in far memory.
    On,
    /// None: the controller backs off.
    Off,
}

/// Work and cost of the controller since its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Pages prefetched or evicted.
    pub pages: u64,
    /// CPU time of all its threads.
    pub cpu: Duration,
    pub elapsed: Duration,
}

/// Decision after a rescue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    Keep,
    /// Nothing more can be evicted: the kernel must kill a process.
    GiveUp,
}

/// Counters since the start of the governor; see [`crate::ControllerStats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GovernorCounts {
    pub naps: u64,
    pub rescues: u64,
    pub throttled: u64,
}

/// The decisions about one controller. They are separate questions, because a check and a rescue cost CPU time
/// themselves, which the next pause counts.
#[derive(Debug)]
pub(crate) struct Governor {
    tuning: Tuning,
    counts: GovernorCounts,
    next_check: Duration,
    backoff: Backoff,
    /// Number of polls in a row at which nothing could be evicted for waiting processes.
    in_vain: u32,
}

/// State of the back-off: samples of random access are useless and cost time.
#[derive(Debug, Default)]
struct Backoff {
    until: Option<Duration>,
    length: Duration,
    useless: u32,
    seen: u64,
    matched: u64,
}

impl Governor {
    pub(crate) fn new(tuning: Tuning) -> Self {
        let (counts, backoff) = Default::default();
        Self { tuning, counts, next_check: Duration::ZERO, backoff, in_vain: 0 }
    }

    /// Counters so far.
    pub(crate) fn counts(&self) -> GovernorCounts {
        self.counts
    }

    /// Maximum delay of the next poll. Minor faults are sampled while part of the program is in far memory.
    pub(crate) fn pace(samples_minor: bool) -> Duration {
        PACE[usize::from(!samples_minor)]
    }

    /// Judges the faults since the last check; `None` if the next check is not due. `now` is the time since the start.
    pub(crate) fn check(&mut self, predicted: &Counts, now: Duration) -> Option<Sampling> {
        if now < self.next_check {
            return None;
        }
        self.next_check = now + PACE[1];
        self.rest_if_useless(predicted, now);
        Some(if self.backoff.until.is_some() { Sampling::Off } else { Sampling::On })
    }

    fn rest_if_useless(&mut self, predicted: &Counts, now: Duration) {
        let nap = &mut self.backoff;
        let seen = predicted.major + predicted.minor_seen;
        let (new, matched) = (seen - nap.seen, predicted.matched - nap.matched);
        if let Some(until) = nap.until {
            if now < until {
                return;
            }
            nap.until = None;
            // One more useless batch starts a longer back-off.
            nap.useless = USELESS_LOOKS - 1;
        } else if new >= USELESS_MIN && matched * 10 < new {
            nap.useless += 1;
            if nap.useless >= USELESS_LOOKS {
                nap.length = (nap.length * 2).clamp(NAP[0], NAP[1]);
                nap.until = Some(now + nap.length);
                self.counts.naps += 1;
            }
        } else if new >= USELESS_MIN {
            nap.useless = 0;
            nap.length = Duration::ZERO;
        }
        (nap.seen, nap.matched) = (seen, predicted.matched);
    }

    /// Returns the bytes to evict from each process if processes wait for memory. The kernel gives up when all pages of
    /// a cgroup were used recently, even if far memory is free; then the controller evicts pages of its choice.
    pub(crate) fn rescue(&mut self, waiting: bool) -> Option<u64> {
        if !waiting {
            self.in_vain = 0;
            return None;
        }
        self.counts.rescues += 1;
        Some((self.tuning.dram / 8).max(1 << 20))
    }

    /// Reports the bytes that a rescue evicted. If nothing can be evicted, the kernel kills a process.
    pub(crate) fn rescued(&mut self, bytes: u64) -> Guard {
        self.in_vain = if bytes > 0 { 0 } else { self.in_vain + 1 };
        if self.in_vain >= IN_VAIN_MAX { Guard::GiveUp } else { Guard::Keep }
    }

    /// Returns how long to do nothing if the CPU time is not earned; `None` if the controller may steer.
    pub(crate) fn pause(&mut self, effort: &Effort) -> Option<Duration> {
        let free = effort.elapsed.as_secs_f64() * FREE_SHARE + FREE_TO_BEGIN;
        if effort.cpu.as_secs_f64() <= free + effort.pages as f64 * EARNED_PER_PAGE {
            return None;
        }
        self.counts.throttled += 1;
        Some(PACE[0])
    }
}
