//! When requests are to start. Closed loop: whenever there is room. Open loop: at a given rate, however long the ones
//! before take; a request that finds no room starts late, and its latency is counted from when it should have started,
//! so that a stall counts for all that should have started in it (no coordinated omission).

use super::clock;

/// The kernel wakes a sleeper late by some microseconds to tens of them; the rest is waited for with open eyes.
const WATCHED_NS: u64 = 60_000;

/// Of this many requests that never started each is counted alone; of more, so many at once that it stays so many.
const MISSED_STEPS: u64 = 1 << 20;

/// The intended starts of one thread.
pub(super) struct Schedule {
    /// A second; 0: closed loop.
    rate: u64,
    began: u64,
    started: u64,
}

/// When the next request is to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStart {
    /// It may start, and its latency counts from this time.
    Since(u64),
    At(u64),
}

impl Schedule {
    pub(super) fn new(rate: u64) -> Self {
        Self { rate, began: 0, started: 0 }
    }

    /// The first request is due now.
    pub(super) fn begin(&mut self, now: u64) {
        self.began = now;
    }

    #[inline]
    pub(super) fn due(&self, now: u64) -> NextStart {
        if self.rate == 0 {
            return NextStart::Since(now);
        }
        let intended = self.intended(self.started);
        if intended <= now { NextStart::Since(intended) } else { NextStart::At(intended) }
    }

    /// The request that was due has started.
    #[inline]
    pub(super) fn start(&mut self) {
        self.started += 1;
    }

    fn intended(&self, number: u64) -> u64 {
        self.began + (u128::from(number) * 1_000_000_000 / u128::from(self.rate)) as u64
    }

    /// Tells of the requests that should have started from `from` to before `end` and never did, as of `now`: how long
    /// they have waited, and how many.
    pub(super) fn missed(&self, from: u64, end: u64, now: u64, mut tell: impl FnMut(u64, u64)) {
        if self.rate == 0 {
            return;
        }
        let until = |time: u64| {
            // The first whose intended start is at `time` or later.
            (u128::from(time.saturating_sub(self.began)) * u128::from(self.rate)).div_ceil(1_000_000_000) as u64
        };
        let (mut number, last) = (self.started.max(until(from)), until(end));
        let step = (last.saturating_sub(number) / MISSED_STEPS).max(1);
        while number < last {
            let count = step.min(last - number);
            tell(now.saturating_sub(self.intended(number)), count);
            number += count;
        }
    }
}

/// Waits until `ns`: asleep while it is far, with open eyes when it is near.
pub(super) fn wait_until(ns: u64) {
    clock::sleep_until(ns.saturating_sub(WATCHED_NS));
    while clock::now_ns() < ns {
        std::hint::spin_loop();
    }
}

/// How long it may still be slept, when it is `now` and something is to happen at `ns`: 0 when it is to be watched for.
pub(super) fn sleep_for(now: u64, ns: u64) -> u64 {
    ns.saturating_sub(now).saturating_sub(WATCHED_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_evenly_apart_and_do_not_drift() {
        let mut pace = Schedule::new(3);
        pace.begin(1000);
        assert_eq!(pace.due(1000), NextStart::Since(1000));
        pace.start();
        assert_eq!(pace.due(1001), NextStart::At(333_334_333));
        assert_eq!(pace.due(500_000_000), NextStart::Since(333_334_333));
        (0..2_999_999).for_each(|_| pace.start());
        assert_eq!(pace.due(u64::MAX), NextStart::Since(1000 + 1_000_000 * 1_000_000_000));
        assert_eq!(Schedule::new(0).due(17), NextStart::Since(17));
    }

    #[test]
    fn requests_that_never_started_are_told_with_their_waits() {
        let mut pace = Schedule::new(1000);
        pace.begin(0);
        (0..3).for_each(|_| pace.start());
        let mut told = Vec::new();
        pace.missed(0, 6_000_000, 10_000_000, |waited, count| told.push((waited, count)));
        assert_eq!(told, [(7_000_000, 1), (6_000_000, 1), (5_000_000, 1)]);
        told.clear();
        pace.missed(5_000_000, 6_000_000, 10_000_000, |waited, count| told.push((waited, count)));
        assert_eq!(told, [(5_000_000, 1)]);
        Schedule::new(0).missed(0, 6_000_000, 10_000_000, |_, _| panic!("a closed loop misses nothing"));
    }

    #[test]
    fn very_many_are_told_in_steps_and_all_are_counted() {
        let mut pace = Schedule::new(10_000_000);
        pace.begin(0);
        let (mut steps, mut all) = (0u64, 0);
        pace.missed(0, 1_000_000_000_000, 1_000_000_000_000, |_, count| {
            steps += 1;
            all += count;
        });
        assert_eq!(all, 10_000_000_000);
        assert!(steps <= 2 * MISSED_STEPS, "{steps}");
    }

    #[test]
    fn waiting_ends_at_its_time_and_not_before() {
        let until = clock::now_ns() + 1_000_000;
        wait_until(until);
        assert!(clock::now_ns() >= until);
        assert_eq!((sleep_for(0, 10), sleep_for(0, 1_000_000), sleep_for(5, 1)), (0, 940_000, 0));
    }
}
