//! sysbench's per-event bookkeeping: time limit, start and end time, histogram bucket.
//!
//! For an event of 0.1 us, such as a block of `memory`, this bookkeeping is two thirds of what sysbench measures, so it
//! belongs to the definition. It consists of three clock readings, two acquisitions of an uncontended lock (which
//! sysbench's reporting thread would use), a logarithm, and an atomic addition to one of 128 histograms that all
//! threads share.
//! The first bucket starts at 10 ns instead of sysbench's 1 us, so that short events are distinguished. Must not depend
//! on the kind of event.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::xoroshiro::Xoroshiro;
use crate::job::{Failure, KernelOutput};

/// sysbench's number of histograms. For each event a thread chooses one at random.
const HISTOGRAMS: usize = 128;
/// sysbench's number of buckets per histogram; adjacent buckets are 2.3 % apart.
const BUCKETS: usize = 1024;
/// Bounds of the buckets in milliseconds; the upper one is that of sysbench.
const SHORTEST_MS: f64 = 1e-5;
const LONGEST_MS: f64 = 1e5;

/// Histograms shared by all threads.
pub(super) struct Histograms {
    buckets: Vec<AtomicU64>,
    lowest_ln: f64,
    per_ln: f64,
}

pub(super) struct EventLog<'h> {
    histograms: &'h Histograms,
    random: Xoroshiro,
    lock: AtomicU32,
    began: Instant,
    totals: Totals,
}

/// Statistics besides the buckets, of one thread or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    pub count: u64,
    shortest_ns: u64,
    longest_ns: u64,
    sum_ns: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Deadline {
    pub start: Instant,
    pub time: Duration,
}

impl Deadline {
    pub(super) fn now_for(time: Duration) -> Self {
        Self { start: Instant::now(), time }
    }

    /// Returns whether another event may start.
    #[inline]
    pub(super) fn may_start(&self) -> bool {
        self.start.elapsed() < self.time
    }
}

impl Histograms {
    pub(super) fn new() -> Self {
        let lowest_ln = SHORTEST_MS.ln();
        Self {
            buckets: (0..HISTOGRAMS * BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            lowest_ln,
            per_ln: (BUCKETS - 1) as f64 / (LONGEST_MS.ln() - lowest_ln),
        }
    }

    pub(super) fn event_log(&self, seed: u64, thread: usize) -> EventLog<'_> {
        EventLog {
            histograms: self,
            random: Xoroshiro::for_thread(seed, thread),
            lock: AtomicU32::new(0),
            began: Instant::now(),
            totals: Totals::NONE,
        }
    }

    fn bucket(&self, ms: f64) -> usize {
        let index = ((ms.ln() - self.lowest_ln) * self.per_ln + 0.5).floor();
        // The logarithm of zero is minus infinity, which the cast converts to 0.
        (index as usize).min(BUCKETS - 1)
    }

    /// Returns the time that this share (0 to 1) of the events did not exceed, with the precision of a bucket.
    fn quantile_ms(&self, share: f64) -> f64 {
        let in_bucket = |bucket: usize| -> u64 {
            self.buckets.iter().skip(bucket).step_by(BUCKETS).map(|count| count.load(Ordering::Relaxed)).sum()
        };
        let counts: Vec<u64> = (0..BUCKETS).map(in_bucket).collect();
        let target = (counts.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut seen = 0;
        let reached = |count: &u64| {
            seen += count;
            seen >= target
        };
        let bucket = counts.iter().position(reached).unwrap_or(BUCKETS - 1);
        (bucket as f64 / self.per_ln + self.lowest_ln).exp()
    }

    /// Number of events in the buckets; equals the number that the threads counted.
    fn counted(&self) -> u64 {
        self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Adds the statistics that sysbench prints for the events of all threads, which took `seconds` in total.
    pub(super) fn report(&self, threads: &[Totals], seconds: f64, output: &mut KernelOutput) -> Result<(), Failure> {
        let all = threads.iter().fold(Totals::NONE, Totals::and);
        if all.count == 0 {
            return Err(Failure::Failed("no event finished within the time limit".into()));
        }
        if self.counted() != all.count {
            return Err(Failure::Failed(format!(
                "event counts differ: {} events finished, {} are in the histograms",
                all.count,
                self.counted()
            )));
        }
        output.push("events", all.count as f64 / seconds)?;
        output.push("latency-average", all.sum_ns as f64 / all.count as f64 / 1e6)?;
        output.push("latency-p95", self.quantile_ms(0.95))?;
        output.push("latency-min", all.shortest_ns as f64 / 1e6)?;
        output.push("latency-max", all.longest_ns as f64 / 1e6)?;
        // Fairness of the scheduler: stored as raw samples, not as a metric.
        threads.iter().try_for_each(|thread| output.push("events-per-thread", thread.count as f64))
    }
}

impl EventLog<'_> {
    #[inline]
    pub(super) fn begin(&mut self) {
        self.locked(|event_log| event_log.began = Instant::now());
    }

    #[inline]
    pub(super) fn end(&mut self) {
        let mut took_ns = 0;
        self.locked(|event_log| {
            took_ns = event_log.began.elapsed().as_nanos() as u64;
            event_log.totals.add(took_ns);
        });
        let histogram = self.random.next() as usize % HISTOGRAMS;
        let bucket = self.histograms.bucket(took_ns as f64 / 1e6);
        self.histograms.buckets[histogram * BUCKETS + bucket].fetch_add(1, Ordering::SeqCst);
    }

    #[inline]
    fn locked(&mut self, write: impl FnOnce(&mut Self)) {
        // The lock is always free because only this thread uses the log. It is taken because its cost belongs to the
        // measurement.
        self.lock.swap(1, Ordering::AcqRel);
        write(self);
        self.lock.store(0, Ordering::Release);
    }

    pub(super) fn totals(&self) -> Totals {
        self.totals
    }
}

impl Totals {
    const NONE: Self = Self { count: 0, shortest_ns: u64::MAX, longest_ns: 0, sum_ns: 0 };

    #[inline]
    fn add(&mut self, took_ns: u64) {
        self.count += 1;
        self.sum_ns += took_ns;
        self.shortest_ns = self.shortest_ns.min(took_ns);
        self.longest_ns = self.longest_ns.max(took_ns);
    }

    fn and(self, other: &Self) -> Self {
        Self {
            count: self.count + other.count,
            shortest_ns: self.shortest_ns.min(other.shortest_ns),
            longest_ns: self.longest_ns.max(other.longest_ns),
            sum_ns: self.sum_ns + other.sum_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(histograms: &Histograms, times_ns: &[u64]) -> Totals {
        let mut totals = Totals::NONE;
        for took_ns in times_ns {
            totals.add(*took_ns);
            histograms.buckets[histograms.bucket(*took_ns as f64 / 1e6)].fetch_add(1, Ordering::Relaxed);
        }
        totals
    }

    #[test]
    fn reported_statistics_match_the_events() {
        let histograms = Histograms::new();
        let times: Vec<u64> = (1..=100).map(|us| us * 1000).collect();
        let halves = [write(&histograms, &times[..50]), write(&histograms, &times[50..])];
        let mut output = KernelOutput::default();
        histograms.report(&halves, 2.0, &mut output).unwrap();
        let value = |name: &str| output.samples.iter().find(|sample| sample.series == name).unwrap().value;
        let exact = [("events", 50.0), ("latency-average", 0.0505), ("latency-min", 0.001), ("latency-max", 0.1)];
        for (name, expected) in exact {
            assert!((value(name) / expected - 1.0).abs() < 1e-12, "{name} {}", value(name));
        }
        // Within half the width of a bucket.
        assert!((value("latency-p95") / 0.095 - 1.0).abs() < 0.012, "{}", value("latency-p95"));
    }

    #[test]
    fn events_out_of_range_count_in_the_outer_buckets() {
        let histograms = Histograms::new();
        for (ms, bucket) in [(0.0, 0), (1e-5, 0), (1e5, BUCKETS - 1), (1e9, BUCKETS - 1)] {
            assert_eq!(histograms.bucket(ms), bucket, "{ms}");
        }
    }

    #[test]
    fn lost_events_return_an_error() {
        let histograms = Histograms::new();
        let mut event_log = histograms.event_log(1, 0);
        event_log.begin();
        event_log.end();
        let mut output = KernelOutput::default();
        assert_eq!(histograms.report(&[event_log.totals()], 1.0, &mut output), Ok(()));
        let twice = [event_log.totals(); 2];
        assert!(
            histograms.report(&twice, 1.0, &mut output).unwrap_err().to_string().contains("1 are in the histograms")
        );
        assert!(Histograms::new().report(&[], 1.0, &mut output).is_err());
    }
}
