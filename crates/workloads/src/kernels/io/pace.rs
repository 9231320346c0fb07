//! The start times of requests. Closed loop: as soon as a slot is free. Open loop: at a given rate, independent of the
//! duration of previous requests. A request that finds no free slot starts late, and its latency counts from its
//! intended start, so that a stall affects all requests that should have started during it (no coordinated omission).

use super::clock;

/// The kernel wakes a sleeping thread late by up to some tens of microseconds, so the last part of a wait is spent
/// spinning.
const SPIN_NS: u64 = 60_000;

/// Up to this many missed requests are recorded one by one; more are recorded in groups, so that the number of steps is
/// bounded.
const MISSED_GROUPS_MAX: u64 = 1 << 20;

/// The intended start times of one thread's requests.
pub(super) struct Schedule {
    /// Requests per second; 0: closed loop.
    rate: u64,
    began: u64,
    started: u64,
}

/// The start time of the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStart {
    /// The request may start, and its latency counts from this time.
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

    /// Counts the due request as started.
    #[inline]
    pub(super) fn start(&mut self) {
        self.started += 1;
    }

    fn intended(&self, number: u64) -> u64 {
        self.began + (u128::from(number) * 1_000_000_000 / u128::from(self.rate)) as u64
    }

    /// Reports the requests that should have started from `from` to before `end` but never did: for each group, the
    /// wait as of `now` and the number of requests.
    pub(super) fn missed(&self, from: u64, end: u64, now: u64, mut report: impl FnMut(u64, u64)) {
        if self.rate == 0 {
            return;
        }
        let until = |time: u64| {
            // Number of the first request whose intended start is at `time` or later.
            (u128::from(time.saturating_sub(self.began)) * u128::from(self.rate)).div_ceil(1_000_000_000) as u64
        };
        let (mut number, last) = (self.started.max(until(from)), until(end));
        let step = (last.saturating_sub(number) / MISSED_GROUPS_MAX).max(1);
        while number < last {
            let count = step.min(last - number);
            report(now.saturating_sub(self.intended(number)), count);
            number += count;
        }
    }
}

/// Waits until `ns`: sleeps while it is far, and spins when it is near.
pub(super) fn wait_until(ns: u64) {
    clock::sleep_until(ns.saturating_sub(SPIN_NS));
    while clock::now_ns() < ns {
        std::hint::spin_loop();
    }
}

/// Nanoseconds to sleep at `now` before an event at `ns`, or 0 during the final spin.
pub(super) fn sleep_for(now: u64, ns: u64) -> u64 {
    ns.saturating_sub(now).saturating_sub(SPIN_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_evenly_spaced_without_drift() {
        let mut schedule = Schedule::new(3);
        schedule.begin(1000);
        assert_eq!(schedule.due(1000), NextStart::Since(1000));
        schedule.start();
        assert_eq!(schedule.due(1001), NextStart::At(333_334_333));
        assert_eq!(schedule.due(500_000_000), NextStart::Since(333_334_333));
        (0..2_999_999).for_each(|_| schedule.start());
        assert_eq!(schedule.due(u64::MAX), NextStart::Since(1000 + 1_000_000 * 1_000_000_000));
        assert_eq!(Schedule::new(0).due(17), NextStart::Since(17));
    }

    #[test]
    fn missed_requests_are_reported_with_their_waits() {
        let mut schedule = Schedule::new(1000);
        schedule.begin(0);
        (0..3).for_each(|_| schedule.start());
        let mut reported = Vec::new();
        schedule.missed(0, 6_000_000, 10_000_000, |waited, count| reported.push((waited, count)));
        assert_eq!(reported, [(7_000_000, 1), (6_000_000, 1), (5_000_000, 1)]);
        reported.clear();
        schedule.missed(5_000_000, 6_000_000, 10_000_000, |waited, count| reported.push((waited, count)));
        assert_eq!(reported, [(5_000_000, 1)]);
        Schedule::new(0).missed(0, 6_000_000, 10_000_000, |_, _| panic!("a closed loop has no missed requests"));
    }

    #[test]
    fn many_missed_requests_are_reported_in_groups() {
        let mut schedule = Schedule::new(10_000_000);
        schedule.begin(0);
        let (mut steps, mut all) = (0u64, 0);
        schedule.missed(0, 1_000_000_000_000, 1_000_000_000_000, |_, count| {
            steps += 1;
            all += count;
        });
        assert_eq!(all, 10_000_000_000);
        assert!(steps <= 2 * MISSED_GROUPS_MAX, "{steps}");
    }

    #[test]
    fn wait_ends_at_its_time_and_not_before() {
        let until = clock::now_ns() + 1_000_000;
        wait_until(until);
        assert!(clock::now_ns() >= until);
        assert_eq!((sleep_for(0, 10), sleep_for(0, 1_000_000), sleep_for(5, 1)), (0, 940_000, 0));
    }
}
