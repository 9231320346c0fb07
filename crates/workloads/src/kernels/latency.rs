//! Latency statistics of events: a histogram of fixed size, plus the exact minimum, maximum and sum.

use hdrhistogram::Histogram;

use crate::job::{Failure, KernelOutput};

/// Longest duration of the histogram, one hour. Longer events are counted as an hour; minimum and maximum stay exact.
const HIGHEST_NS: u64 = 3_600_000_000_000;

/// Significant digits. Percentiles are within 0.1 %, finer than the 1024 buckets of sysbench.
const DIGITS: u8 = 3;

/// Durations of one thread's events, or of all threads' together.
pub(super) struct Latencies {
    histogram: Histogram<u64>,
    shortest_ns: u64,
    longest_ns: u64,
    sum_ns: u128,
}

impl Latencies {
    /// Allocates everything that recording needs.
    pub(super) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS).expect("the bounds are constants that fit");
        Self { histogram, shortest_ns: u64::MAX, longest_ns: 0, sum_ns: 0 }
    }

    pub(super) fn record(&mut self, took_ns: u64) {
        self.histogram.saturating_record(took_ns);
        self.shortest_ns = self.shortest_ns.min(took_ns);
        self.longest_ns = self.longest_ns.max(took_ns);
        self.sum_ns += u128::from(took_ns);
    }

    /// Records `count` events of the same duration.
    pub(super) fn record_many(&mut self, took_ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.histogram.saturating_record_n(took_ns, count);
        self.shortest_ns = self.shortest_ns.min(took_ns);
        self.longest_ns = self.longest_ns.max(took_ns);
        self.sum_ns += u128::from(took_ns) * u128::from(count);
    }

    /// Mean in nanoseconds, or 0 if no event was recorded.
    pub(super) fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / (self.count() as f64).max(1.0)
    }

    /// Number of recorded events.
    pub(super) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the duration that this share (0 to 1) of the events does not exceed.
    pub(super) fn quantile_ns(&self, share: f64) -> u64 {
        self.histogram.value_at_quantile(share)
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
        self.shortest_ns = self.shortest_ns.min(other.shortest_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.sum_ns += other.sum_ns;
    }

    /// Adds the statistics that sysbench prints, in milliseconds, as series of one sample each.
    pub(super) fn report(&self, output: &mut KernelOutput) -> Result<(), Failure> {
        if self.count() == 0 {
            return Err(Failure::Failed("no event finished within the time limit".into()));
        }
        let average_ns = self.sum_ns as f64 / self.count() as f64;
        output.push("latency-average", average_ns / 1e6)?;
        output.push("latency-p95", self.histogram.value_at_quantile(0.95) as f64 / 1e6)?;
        output.push("latency-min", self.shortest_ns as f64 / 1e6)?;
        output.push("latency-max", self.longest_ns as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_statistics_match_the_events() {
        let mut all = Latencies::new();
        for half in [1..=50u64, 51..=100] {
            let mut thread = Latencies::new();
            half.for_each(|ms| thread.record(ms * 1_000_000));
            all.merge(&thread);
        }
        let mut output = KernelOutput::default();
        all.report(&mut output).unwrap();
        let values: Vec<f64> = output.samples.iter().map(|sample| sample.value).collect();
        for (value, expected) in values.iter().zip([50.5, 95.0, 1.0, 100.0]) {
            assert!((value / expected - 1.0).abs() < 2e-3, "{values:?}");
        }
        assert!(Latencies::new().report(&mut output).is_err());
    }

    #[test]
    fn record_many_equals_repeated_record() {
        let (mut one_by_one, mut at_once) = (Latencies::new(), Latencies::new());
        for (took, count) in [(700, 3), (5_000_000, 2), (9, 0)] {
            (0..count).for_each(|_| one_by_one.record(took));
            at_once.record_many(took, count);
        }
        let numbers =
            |all: &Latencies| (all.count(), all.sum_ns, all.shortest_ns, all.longest_ns, all.quantile_ns(0.5));
        assert_eq!(numbers(&one_by_one), numbers(&at_once));
        assert!((at_once.mean_ns() - (3.0 * 700.0 + 2.0 * 5e6) / 5.0).abs() < 1e-9);
    }

    #[test]
    fn extremes_beyond_the_histogram_stay_exact() {
        let mut all = Latencies::new();
        all.record(0);
        all.record(u64::MAX);
        assert_eq!((all.count(), all.shortest_ns, all.longest_ns), (2, 0, u64::MAX));
    }
}
