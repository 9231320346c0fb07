//! sysbench's bookkeeping of an event: may it begin, when did it begin, when did it end, into which bucket does it fall.
//!
//! Where an event takes a tenth of a microsecond, as a block of `memory` does, two thirds of what sysbench measures is
//! this, so it belongs to the definition: three readings of the clock, a lock taken twice that nobody else wants (its
//! reporting thread would), a logarithm, and an atomic addition to one of 128 histograms that all threads share.
//! Ours begins at 10 ns where sysbench's begins at 1 us, so that short events are told apart. Does NOT know what an event does.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::xoroshiro::Xoroshiro;
use crate::job::{Failure, KernelOutput};

/// sysbench's number of histograms; a thread takes one of them at random for each event.
const HISTOGRAMS: usize = 128;
/// sysbench's number of buckets in each; neighbours are 2.3 % apart.
const BUCKETS: usize = 1024;
/// The first and the last bucket, in milliseconds; sysbench's last one.
const SHORTEST_MS: f64 = 1e-5;
const LONGEST_MS: f64 = 1e5;

/// What all threads count in.
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

/// What is counted beside the buckets, of one thread or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    pub count: u64,
    shortest_ns: u64,
    longest_ns: u64,
    sum_ns: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Until {
    pub start: Instant,
    pub time: Duration,
}

impl Until {
    pub(super) fn now_for(time: Duration) -> Self {
        Self { start: Instant::now(), time }
    }

    /// Whether another event may begin.
    #[inline]
    pub(super) fn more(&self) -> bool {
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

    pub(super) fn book(&self, seed: u64, thread: usize) -> EventLog<'_> {
        EventLog {
            histograms: self,
            random: Xoroshiro::of_thread(seed, thread),
            lock: AtomicU32::new(0),
            began: Instant::now(),
            totals: Totals::NONE,
        }
    }

    fn bucket(&self, ms: f64) -> usize {
        let place = ((ms.ln() - self.lowest_ln) * self.per_ln + 0.5).floor();
        // A logarithm of zero is minus infinity, which becomes 0 here.
        (place as usize).min(BUCKETS - 1)
    }

    /// The time that this share of the events did not exceed, to a bucket's width.
    fn quantile_ms(&self, share: f64) -> f64 {
        let in_bucket = |bucket: usize| -> u64 {
            self.buckets.iter().skip(bucket).step_by(BUCKETS).map(|count| count.load(Ordering::Relaxed)).sum()
        };
        let counts: Vec<u64> = (0..BUCKETS).map(in_bucket).collect();
        let wanted = (counts.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut seen = 0;
        let reached = |count: &u64| {
            seen += count;
            seen >= wanted
        };
        let bucket = counts.iter().position(reached).unwrap_or(BUCKETS - 1);
        (bucket as f64 / self.per_ln + self.lowest_ln).exp()
    }

    /// How many events the buckets hold, which must be how many the threads counted.
    fn counted(&self) -> u64 {
        self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Adds what sysbench prints of the events of all threads, in `seconds` together.
    pub(super) fn report(&self, threads: &[Totals], seconds: f64, measured: &mut KernelOutput) -> Result<(), Failure> {
        let all = threads.iter().fold(Totals::NONE, Totals::and);
        if all.count == 0 {
            return Err(Failure::Failed("no event ended within the time".into()));
        }
        if self.counted() != all.count {
            return Err(Failure::Failed(format!("{} events ended, {} were counted", all.count, self.counted())));
        }
        measured.push("events", all.count as f64 / seconds)?;
        measured.push("latency-average", all.sum_ns as f64 / all.count as f64 / 1e6)?;
        measured.push("latency-p95", self.quantile_ms(0.95))?;
        measured.push("latency-min", all.shortest_ns as f64 / 1e6)?;
        measured.push("latency-max", all.longest_ns as f64 / 1e6)?;
        // How evenly the threads were served; no metric, but raw numbers stay.
        threads.iter().try_for_each(|thread| measured.push("events-per-thread", thread.count as f64))
    }
}

impl EventLog<'_> {
    #[inline]
    pub(super) fn begin(&mut self) {
        self.locked(|book| book.began = Instant::now());
    }

    #[inline]
    pub(super) fn end(&mut self) {
        let mut took_ns = 0;
        self.locked(|book| {
            took_ns = book.began.elapsed().as_nanos() as u64;
            book.totals.add(took_ns);
        });
        let histogram = self.random.next() as usize % HISTOGRAMS;
        let bucket = self.histograms.bucket(took_ns as f64 / 1e6);
        self.histograms.buckets[histogram * BUCKETS + bucket].fetch_add(1, Ordering::SeqCst);
    }

    #[inline]
    fn locked(&mut self, write: impl FnOnce(&mut Self)) {
        // Only this thread has the book, so the lock is always free; it is taken because taking it takes time.
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
    fn what_is_reported_is_of_the_events() {
        let histograms = Histograms::new();
        let times: Vec<u64> = (1..=100).map(|us| us * 1000).collect();
        let halves = [write(&histograms, &times[..50]), write(&histograms, &times[50..])];
        let mut measured = KernelOutput::default();
        histograms.report(&halves, 2.0, &mut measured).unwrap();
        let value = |name: &str| measured.samples.iter().find(|sample| sample.series == name).unwrap().value;
        let exact = [("events", 50.0), ("latency-average", 0.0505), ("latency-min", 0.001), ("latency-max", 0.1)];
        for (name, expected) in exact {
            assert!((value(name) / expected - 1.0).abs() < 1e-12, "{name} {}", value(name));
        }
        // To half the width of a bucket.
        assert!((value("latency-p95") / 0.095 - 1.0).abs() < 0.012, "{}", value("latency-p95"));
    }

    #[test]
    fn events_outside_the_buckets_are_in_the_first_or_the_last() {
        let histograms = Histograms::new();
        for (ms, bucket) in [(0.0, 0), (1e-5, 0), (1e5, BUCKETS - 1), (1e9, BUCKETS - 1)] {
            assert_eq!(histograms.bucket(ms), bucket, "{ms}");
        }
    }

    #[test]
    fn an_event_that_is_lost_is_found() {
        let histograms = Histograms::new();
        let mut book = histograms.book(1, 0);
        book.begin();
        book.end();
        let mut measured = KernelOutput::default();
        assert_eq!(histograms.report(&[book.totals()], 1.0, &mut measured), Ok(()));
        let twice = [book.totals(); 2];
        assert!(histograms.report(&twice, 1.0, &mut measured).unwrap_err().to_string().contains("1 were counted"));
        assert!(Histograms::new().report(&[], 1.0, &mut measured).is_err());
    }
}
