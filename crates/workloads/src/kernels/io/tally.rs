//! What one thread counted: requests, how long they took, and the processor time of the process meanwhile. Before the
//! ramp is over nothing counts.

use std::collections::BTreeMap;

use model::values::id_set::NodeId;

use super::clock;
use super::options::{FILES_MAX, Options};
use crate::job::{Failure, KernelOutput};
use crate::kernels::latency::Latencies;

/// What the throughput of each of several files is called.
pub(crate) const FILE_SERIES: [&str; FILES_MAX] =
    ["iops-file1", "iops-file2", "iops-file3", "iops-file4", "iops-file5", "iops-file6", "iops-file7", "iops-file8"];

pub(super) struct IoStats {
    /// From when a request was due until it was done.
    total: Latencies,
    /// From when it was due until it was handed over, and from there until it was done, of engines that tell them apart.
    parts: Option<[Latencies; 2]>,
    reads: u64,
    writes: u64,
    counts_from: u64,
    counting: bool,
    began: ClockMark,
    ended: ClockMark,
}

/// A moment, and the processor time of the process then.
#[derive(Clone, Copy, Default)]
struct ClockMark {
    ns: u64,
    cpu_ns: u64,
}

/// When a request was due, handed over, and done.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub due: u64,
    pub handed: u64,
    pub done: u64,
}

impl ClockMark {
    fn at(ns: u64) -> Self {
        Self { ns, cpu_ns: clock::process_cpu_ns() }
    }
}

impl IoStats {
    /// With room for everything. `parts`: whether the engine tells handing over from being done.
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

    /// It is `now`; requests count from `counts_from` on.
    pub(super) fn begin(&mut self, now: u64, counts_from: u64) {
        self.counts_from = counts_from;
        self.counting = counts_from <= now;
        self.began = ClockMark::at(now);
    }

    /// Whether what begins now counts.
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
            return self.look_at_ramp(times.done);
        }
        self.reads += u64::from(!write);
        self.writes += u64::from(write);
        self.total.record(times.done.saturating_sub(times.due));
        if let Some([submit, completion]) = &mut self.parts {
            submit.record(times.handed.saturating_sub(times.due));
            completion.record(times.done.saturating_sub(times.handed));
        }
    }

    /// What ends the ramp is not counted itself: it began before.
    #[cold]
    fn look_at_ramp(&mut self, now: u64) {
        if now >= self.counts_from {
            self.counting = true;
            self.began = ClockMark::at(now);
        }
    }

    /// So many requests never started, and have waited so long at least.
    pub(super) fn record_missed(&mut self, waited_ns: u64, count: u64) {
        self.total.record_many(waited_ns, count);
    }

    pub(super) fn end(&mut self, now: u64) {
        self.ended = ClockMark::at(now);
    }
}

/// What all threads counted, as samples.
pub(super) fn report(threads: &[IoStats], options: &Options, measured: &mut KernelOutput) -> Result<(), Failure> {
    let reads: u64 = threads.iter().map(|tally| tally.reads).sum();
    let writes: u64 = threads.iter().map(|tally| tally.writes).sum();
    let count = (reads + writes) as f64;
    let (began, ended) = span(threads.iter());
    if count == 0.0 {
        return Err(Failure::Failed("no request was done after the ramp; hint: a longer runtime".into()));
    }
    let seconds = ended.ns.saturating_sub(began.ns) as f64 / 1e9;
    measured.push("iops", count / seconds)?;
    measured.push("bandwidth", count / seconds * options.block as f64 / f64::from(1 << 20))?;
    let total = merged(threads.iter().map(|tally| &tally.total));
    measured.push("latency", us(total.quantile_ns(0.5)))?;
    measured.push("latency-mean", total.mean_ns() / 1e3)?;
    measured.push("latency-p99", us(total.quantile_ns(0.99)))?;
    measured.push("latency-p99.9", us(total.quantile_ns(0.999)))?;
    measured.push("latency-p99.99", us(total.quantile_ns(0.9999)))?;
    for (index, name) in ["latency-submit", "latency-completion"].into_iter().enumerate() {
        let parts = threads.iter().filter_map(|tally| Some(&tally.parts.as_ref()?[index]));
        let part = merged(parts);
        if part.count() > 0 {
            measured.push(name, us(part.quantile_ns(0.5)))?;
        }
    }
    if options.mixed {
        measured.push("read-iops", reads as f64 / seconds)?;
        measured.push("write-iops", writes as f64 / seconds)?;
    }
    measured.push("cpu-per-io", us(ended.cpu_ns.saturating_sub(began.cpu_ns)) / count)
}

/// How many requests a second each of so many files had, while it had any; thread i worked on file i modulo their
/// number. [`FILE_SERIES`] has the names.
pub(super) fn report_files(threads: &[IoStats], files: usize, measured: &mut KernelOutput) -> Result<(), Failure> {
    for (file, series) in FILE_SERIES.iter().enumerate().take(files) {
        let of_it = || threads.iter().skip(file).step_by(files);
        let count: u64 = of_it().map(|tally| tally.reads + tally.writes).sum();
        let (began, ended) = span(of_it());
        measured.push(series, count as f64 / (ended.ns.saturating_sub(began.ns) as f64 / 1e9))?;
    }
    Ok(())
}

/// From the first beginning to the last end.
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

/// Adds where a thread's memory lies.
pub(super) fn add_pages(all: &mut BTreeMap<NodeId, u64>, pages: &BTreeMap<NodeId, u64>) {
    pages.iter().for_each(|(node, count)| *all.entry(*node).or_default() += count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::io::for_tests::options;

    fn values(threads: &[IoStats], pairs: &[(&str, &str)]) -> BTreeMap<String, f64> {
        let mut measured = KernelOutput::default();
        report(threads, &options(pairs), &mut measured).unwrap();
        measured.samples.into_iter().map(|sample| (sample.series, sample.value)).collect()
    }

    fn tally(parts: bool, requests: u64) -> IoStats {
        let mut tally = IoStats::new(parts);
        tally.begin(1_000_000_000, 1_000_000_000);
        for number in 1..=requests {
            let due = 1_000_000_000 + number;
            tally.record(number % 4 == 0, Times { due, handed: due + 1000 * number, done: due + 3000 * number });
        }
        tally.end(3_000_000_000);
        tally
    }

    #[test]
    fn numbers_are_those_of_the_requests_of_all_threads() {
        let values = values(&[tally(true, 100), tally(true, 100)], &[("rw", "rw"), ("bs", "1MiB")]);
        let expected = [
            ("iops", 100.0),
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
    fn each_file_has_the_requests_of_its_threads() {
        let mut measured = KernelOutput::default();
        report_files(&[tally(false, 100), tally(false, 40), tally(false, 20)], 2, &mut measured).unwrap();
        let found: Vec<_> = measured.samples.iter().map(|sample| (sample.series.as_str(), sample.value)).collect();
        assert_eq!(found, [("iops-file1", 60.0), ("iops-file2", 20.0)]);
    }

    #[test]
    fn what_does_not_apply_is_left_out() {
        let values = values(&[tally(false, 10)], &[]);
        for name in ["latency-submit", "latency-completion", "read-iops", "write-iops"] {
            assert!(!values.contains_key(name), "{name}");
        }
    }

    #[test]
    fn the_ramp_does_not_count() {
        let mut tally = IoStats::new(false);
        tally.begin(0, 1000);
        for done in [10, 900, 1100, 1200] {
            assert_eq!(tally.is_counting(), done > 1100);
            tally.record(false, Times { due: done - 5, handed: 0, done });
        }
        assert_eq!((tally.reads, tally.began.ns, tally.total.count()), (1, 1100, 1));
        let mut measured = KernelOutput::default();
        let mut none = IoStats::new(false);
        none.begin(0, 1000);
        none.end(10);
        let error = report(&[none], &options(&[]), &mut measured).unwrap_err().to_string();
        assert!(error.contains("longer runtime"), "{error}");
    }
}
