//! Statistics of one thread: requests, their latencies, and the CPU time of the process. Requests before the end of the
//! ramp are not counted.

use std::collections::BTreeMap;

use model::values::id_set::NodeId;

use super::clock;
use super::options::{FILES_MAX, Options};
use crate::job::{Failure, KernelOutput};
use crate::kernels::latency::Latencies;

/// Names of the throughput series of several files.
pub(crate) const FILE_SERIES: [&str; FILES_MAX] =
    ["iops-file1", "iops-file2", "iops-file3", "iops-file4", "iops-file5", "iops-file6", "iops-file7", "iops-file8"];

pub(super) struct IoStats {
    /// Latency from when a request was due until it completed.
    total: Latencies,
    /// Latency until submission and from submission to completion, for engines that distinguish them.
    parts: Option<[Latencies; 2]>,
    reads: u64,
    writes: u64,
    counts_from: u64,
    counting: bool,
    began: ClockMark,
    ended: ClockMark,
}

/// A point in time and the CPU time of the process at that time.
#[derive(Clone, Copy, Default)]
struct ClockMark {
    ns: u64,
    cpu_ns: u64,
}

/// Times at which a request was due, submitted and completed.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub due: u64,
    pub submitted: u64,
    pub completed: u64,
}

impl ClockMark {
    fn at(ns: u64) -> Self {
        Self { ns, cpu_ns: clock::process_cpu_ns() }
    }
}

impl IoStats {
    /// Allocates everything that recording needs. `parts`: whether the engine distinguishes submission and completion.
    pub(super) fn new(parts: bool) -> Self {
        Self {
            total: Latencies::new(),
            parts: parts.then(|| [Latencies::new(), Latencies::new()]),
            reads: 0,
            writes: 0,
            counts_from: 0,
            counting: false,
            began: ClockMark::default(),
            ended: ClockMark::default(),
        }
    }

    /// Starts at `now`; requests count from `counts_from` on.
    pub(super) fn begin(&mut self, now: u64, counts_from: u64) {
        self.counts_from = counts_from;
        self.counting = counts_from <= now;
        self.began = ClockMark::at(now);
    }

    /// Returns whether a request that starts now counts.
    #[inline]
    pub(super) fn is_counting(&self) -> bool {
        self.counting
    }

    pub(super) fn counts_from(&self) -> u64 {
        self.counts_from
    }

    #[inline]
    pub(super) fn record(&mut self, write: bool, times: Times) {
        if !self.counting {
            return self.check_ramp(times.completed);
        }
        self.reads += u64::from(!write);
        self.writes += u64::from(write);
        self.total.record(times.completed.saturating_sub(times.due));
        if let Some([submit, completion]) = &mut self.parts {
            submit.record(times.submitted.saturating_sub(times.due));
            completion.record(times.completed.saturating_sub(times.submitted));
        }
    }

    /// Starts counting when the ramp is over. The request that ends the ramp started before and does not count.
    #[cold]
    fn check_ramp(&mut self, now: u64) {
        if now >= self.counts_from {
            self.counting = true;
            self.began = ClockMark::at(now);
        }
    }

    /// Counts requests that never started and have waited for at least this long.
    pub(super) fn record_missed(&mut self, waited_ns: u64, count: u64) {
        self.total.record_many(waited_ns, count);
    }

    pub(super) fn end(&mut self, now: u64) {
        self.ended = ClockMark::at(now);
    }
}

/// Adds the statistics of all threads as samples.
pub(super) fn report(threads: &[IoStats], options: &Options, output: &mut KernelOutput) -> Result<(), Failure> {
    let reads: u64 = threads.iter().map(|tally| tally.reads).sum();
    let writes: u64 = threads.iter().map(|tally| tally.writes).sum();
    let count = (reads + writes) as f64;
    let (began, ended) = span(threads.iter());
    if count == 0.0 {
        return Err(Failure::Failed("no request completed after the ramp; hint: a longer runtime".into()));
    }
    let seconds = ended.ns.saturating_sub(began.ns) as f64 / 1e9;
    output.push("iops", count / seconds)?;
    let bytes_per_s = count / seconds * options.block as f64;
    output.push("throughput", bytes_per_s / 1e6)?;
    output.push("bandwidth", bytes_per_s / f64::from(1 << 20))?;
    let total = merged(threads.iter().map(|tally| &tally.total));
    output.push("latency", us(total.quantile_ns(0.5)))?;
    output.push("latency-mean", total.mean_ns() / 1e3)?;
    output.push("latency-p99", us(total.quantile_ns(0.99)))?;
    output.push("latency-p99.9", us(total.quantile_ns(0.999)))?;
    output.push("latency-p99.99", us(total.quantile_ns(0.9999)))?;
    for (index, name) in ["latency-submit", "latency-completion"].into_iter().enumerate() {
        let parts = threads.iter().filter_map(|tally| Some(&tally.parts.as_ref()?[index]));
        let part = merged(parts);
        if part.count() > 0 {
            output.push(name, us(part.quantile_ns(0.5)))?;
        }
    }
    if options.mixed {
        output.push("read-iops", reads as f64 / seconds)?;
        output.push("write-iops", writes as f64 / seconds)?;
    }
    output.push("cpu-per-io", us(ended.cpu_ns.saturating_sub(began.cpu_ns)) / count)
}

/// Adds the requests per second of each file while its threads ran. Thread i used file i modulo the number of files.
/// [`FILE_SERIES`] has the names.
pub(super) fn report_files(threads: &[IoStats], files: usize, output: &mut KernelOutput) -> Result<(), Failure> {
    for (file, series) in FILE_SERIES.iter().enumerate().take(files) {
        let of_it = || threads.iter().skip(file).step_by(files);
        let count: u64 = of_it().map(|tally| tally.reads + tally.writes).sum();
        let (began, ended) = span(of_it());
        output.push(series, count as f64 / (ended.ns.saturating_sub(began.ns) as f64 / 1e9))?;
    }
    Ok(())
}

/// The interval from the first start to the last end.
fn span<'t>(threads: impl Iterator<Item = &'t IoStats> + Clone) -> (ClockMark, ClockMark) {
    let began = threads.clone().map(|tally| tally.began).min_by_key(|mark| mark.ns).unwrap_or_default();
    let ended = threads.map(|tally| tally.ended).max_by_key(|mark| mark.ns).unwrap_or_default();
    (began, ended)
}

fn merged<'t>(parts: impl Iterator<Item = &'t Latencies>) -> Latencies {
    let mut all = Latencies::new();
    parts.for_each(|part| all.merge(part));
    all
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Adds the pages of a thread by node.
pub(super) fn add_pages(all: &mut BTreeMap<NodeId, u64>, pages: &BTreeMap<NodeId, u64>) {
    pages.iter().for_each(|(node, count)| *all.entry(*node).or_default() += count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::io::for_tests::options;

    fn values(threads: &[IoStats], pairs: &[(&str, &str)]) -> BTreeMap<String, f64> {
        let mut output = KernelOutput::default();
        report(threads, &options(pairs), &mut output).unwrap();
        output.samples.into_iter().map(|sample| (sample.series, sample.value)).collect()
    }

    fn tally(parts: bool, requests: u64) -> IoStats {
        let mut tally = IoStats::new(parts);
        tally.begin(1_000_000_000, 1_000_000_000);
        for number in 1..=requests {
            let due = 1_000_000_000 + number;
            tally
                .record(number % 4 == 0, Times { due, submitted: due + 1000 * number, completed: due + 3000 * number });
        }
        tally.end(3_000_000_000);
        tally
    }

    #[test]
    fn statistics_cover_the_requests_of_all_threads() {
        let values = values(&[tally(true, 100), tally(true, 100)], &[("rw", "rw"), ("bs", "1MiB")]);
        let expected = [
            ("iops", 100.0),
            ("throughput", 104.857_6),
            ("bandwidth", 100.0),
            ("latency", 150.0),
            ("latency-mean", 151.5),
            ("latency-p99", 297.0),
            ("latency-p99.99", 300.0),
            ("latency-submit", 50.0),
            ("latency-completion", 100.0),
            ("read-iops", 75.0),
            ("write-iops", 25.0),
        ];
        for (name, value) in expected {
            assert!((values[name] / value - 1.0).abs() < 2e-3, "{name}: {} {value}", values[name]);
        }
    }

    #[test]
    fn file_throughput_covers_its_threads() {
        let mut output = KernelOutput::default();
        report_files(&[tally(false, 100), tally(false, 40), tally(false, 20)], 2, &mut output).unwrap();
        let found: Vec<_> = output.samples.iter().map(|sample| (sample.series.as_str(), sample.value)).collect();
        assert_eq!(found, [("iops-file1", 60.0), ("iops-file2", 20.0)]);
    }

    #[test]
    fn inapplicable_series_are_omitted() {
        let values = values(&[tally(false, 10)], &[]);
        for name in ["latency-submit", "latency-completion", "read-iops", "write-iops"] {
            assert!(!values.contains_key(name), "{name}");
        }
    }

    #[test]
    fn ramp_is_not_counted() {
        let mut tally = IoStats::new(false);
        tally.begin(0, 1000);
        for completed in [10, 900, 1100, 1200] {
            assert_eq!(tally.is_counting(), completed > 1100);
            tally.record(false, Times { due: completed - 5, submitted: 0, completed });
        }
        assert_eq!((tally.reads, tally.began.ns, tally.total.count()), (1, 1100, 1));
        let mut output = KernelOutput::default();
        let mut none = IoStats::new(false);
        none.begin(0, 1000);
        none.end(10);
        let error = report(&[none], &options(&[]), &mut output).unwrap_err().to_string();
        assert!(error.contains("longer runtime"), "{error}");
    }
}
