//! Parses reports of the built-in tests of sysbench 1.0 and 1.1: cpu, threads, mutex, memory, fileio. A report does not name
//! its test; it is inferred from the printed lines, and for threads and mutex from the number of events. Reports of
//! scripts (OLTP) are rejected.

use super::{ImportedReport, ReportError, number_with, numbered, row, single};
use crate::values::record::ImportedRow;
use crate::values::workload::Better::{self, Higher, Lower};

const BANNERS: [&str; 2] = ["sysbench 1.0.", "sysbench 1.1."];
/// Title of the event rate, which version 1.0 does not print.
const RATE: &str = "events/s (eps)";
/// Maximum relative difference between the printed rate and that of the printed events and time, and its last decimal.
const RATE_ROUNDING: f64 = 1e-3;
const RATE_DECIMALS: f64 = 1e-4;
/// Title of the last line of a report.
const LAST: &str = "execution time (avg/stddev)";

pub fn detect(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("sysbench 1."))
}

pub fn read(text: &str) -> Result<ImportedReport, ReportError> {
    let lines: Vec<(usize, &str)> = numbered(text).collect();
    let mut banners = lines.iter().filter(|(_, line)| line.starts_with("sysbench 1."));
    let version = banners.next().map_or("", |(_, line)| line);
    if !BANNERS.iter().any(|banner| version.starts_with(banner)) {
        let at = lines.iter().find(|(_, line)| *line == version).map_or(1, |(at, _)| *at);
        return Err(ReportError::at(
            at,
            format!("unsupported version '{version}'; supported are sysbench 1.0 and 1.1"),
        ));
    }
    if let Some((at, _)) = banners.next() {
        return Err(ReportError::at(*at, "a second report begins here").hint("import one report per file"));
    }
    if let Some((at, _)) = lines.iter().find(|(_, line)| line.starts_with("SQL statistics")) {
        return Err(ReportError::at(*at, "reports of database tests are not supported")
            .hint("import a report of cpu, threads, mutex, memory or fileio"));
    }
    let values = Values { lines };
    let version = version.split_whitespace().nth(1).unwrap_or_default();
    report(&values, version)
}

fn report(values: &Values<'_>, version: &str) -> Result<ImportedReport, ReportError> {
    // Printed last: if it is complete, the report is.
    let (at, last) = values.text(LAST)?;
    if last
        .split_once('/')
        .and_then(|(mean, deviation)| Some((number_with(mean, 4)?, number_with(deviation, 2)?)))
        .is_none()
    {
        return Err(ReportError::at(at, format!("'{last}' is not an execution time, or is truncated")));
    }
    let threads = values.count("Number of threads")?;
    let seconds = values.seconds()?;
    let events = values.count("total number of events")?;
    let rate = values.rate(events as f64 / seconds)?;
    let mut notes = Vec::new();
    let (test, mut rows) = if values.has_any(&["CPU speed:", "Prime numbers limit:"]) {
        ("sysbench cpu".into(), vec![("rate", "events/s", Higher, values.figure("events per second", 2)?)])
    } else if values.has_any(&["File operations:", "Extra file open flags:", "reads/s:"]) {
        values.check_fileio_version()?;
        fileio(values)?
    } else if values.has_any(&["Running memory speed test", "Total operations:", " MiB transferred ("]) {
        memory(values)?
    } else if events == threads {
        ("sysbench mutex".into(), vec![("rate", "events/s", Higher, rate), ("time", "s", Lower, seconds)])
    } else {
        notes.push(
            "the report does not say its test: taken as threads, for it is none of cpu, memory, fileio, mutex".into(),
        );
        ("sysbench threads".to_string(), vec![("rate", "events/s", Higher, rate)])
    };
    for (metric, title) in [("latency-min", "min"), ("latency-avg", "avg"), ("latency-max", "max")] {
        rows.push((metric, "ms", Lower, values.figure(title, 2)?));
    }
    let percentile = values.percentile()?;
    rows.push((&percentile.0, "ms", Lower, percentile.1));
    // 0.00 means not executed, or below the resolution of the report.
    let rows = rows.into_iter().filter(|(.., value)| *value > 0.0);
    let rows: Vec<ImportedRow> =
        rows.map(|(metric, unit, better, value)| row(&test, metric, unit, better, value)).collect();
    let mut facts =
        vec![("sysbench".to_string(), version.to_string()), (format!("threads of {test}"), threads.to_string())];
    for option in ["Prime numbers limit", "block size", "total size", "scope", "Block size", "Number of files"] {
        if let Ok((_, value)) = values.text(option) {
            facts.push((format!("{} of {test}", option.to_lowercase()), value.into()));
        }
    }
    Ok(ImportedReport { notes, ..single(rows, facts) })
}

type Figure<'a> = (&'a str, &'a str, Better, f64);

fn memory<'a>(values: &Values<'_>) -> Result<(String, Vec<Figure<'a>>), ReportError> {
    let (_, operation) = values.text("operation")?;
    let (at, transferred) = values.line(" MiB transferred (")?;
    let bandwidth = transferred.split_once('(').and_then(|(_, rest)| number_with(rest.strip_suffix(" MiB/sec)")?, 2));
    let (at_operations, operations) = values.text("Total operations")?;
    let rate = operations.split_once('(').and_then(|(_, rest)| number_with(rest.strip_suffix(" per second)")?, 2));
    let rows = vec![
        ("bandwidth", "MiB/s", Higher, bandwidth.ok_or_else(|| broken(at, transferred))?),
        ("rate", "op/s", Higher, rate.ok_or_else(|| broken(at_operations, operations))?),
    ];
    Ok((format!("sysbench memory {operation}"), rows))
}

fn fileio<'a>(values: &Values<'_>) -> Result<(String, Vec<Figure<'a>>), ReportError> {
    let (_, mode) = values.line("Doing ")?;
    let mode = mode.trim_start_matches("Doing ").trim_end_matches(" test");
    let rows = vec![
        ("bandwidth-read", "MiB/s", Higher, values.figure("read, MiB/s", 2)?),
        ("bandwidth-written", "MiB/s", Higher, values.figure("written, MiB/s", 2)?),
        ("reads", "op/s", Higher, values.figure("reads/s", 2)?),
        ("writes", "op/s", Higher, values.figure("writes/s", 2)?),
        ("fsyncs", "op/s", Higher, values.figure("fsyncs/s", 2)?),
    ];
    Ok((format!("sysbench fileio {mode}"), rows))
}

fn broken(at: usize, line: &str) -> ReportError {
    ReportError::at(at, format!("'{}' has no valid figure, or is truncated", line.trim()))
}

/// Lines of the report, most of them `title: value`.
struct Values<'a> {
    lines: Vec<(usize, &'a str)>,
}

impl<'a> Values<'a> {
    /// Returns whether any of the parts is present. One is enough: if the others are missing, the report is damaged.
    fn has_any(&self, parts: &[&str]) -> bool {
        self.lines.iter().any(|(_, line)| parts.iter().any(|part| line.contains(part)))
    }

    fn line(&self, part: &str) -> Result<(usize, &'a str), ReportError> {
        let found = self.lines.iter().find(|(_, line)| line.contains(part));
        found.copied().ok_or_else(|| ReportError::truncated(&format!("the line with '{}' is missing", part.trim())))
    }

    fn text(&self, title: &str) -> Result<(usize, &'a str), ReportError> {
        let value = |(at, line): &(usize, &'a str)| {
            Some((*at, line.trim_start().strip_prefix(title)?.strip_prefix(':')?.trim()))
        };
        let found = self.lines.iter().find_map(value);
        found.ok_or_else(|| ReportError::truncated(&format!("the line '{title}:' is missing")))
    }

    fn figure(&self, title: &str, decimals: usize) -> Result<f64, ReportError> {
        let (at, text) = self.text(title)?;
        number_with(text, decimals).ok_or_else(|| broken(at, &format!("{title}: {text}")))
    }

    fn count(&self, title: &str) -> Result<u64, ReportError> {
        let (at, text) = self.text(title)?;
        text.parse().map_err(|_| broken(at, &format!("{title}: {text}")))
    }

    /// Version 1.1 calls the total time `time elapsed`.
    fn seconds(&self) -> Result<f64, ReportError> {
        let title = if self.is_new() { "time elapsed" } else { "total time" };
        let (at, text) = self.text(title)?;
        let seconds = text.strip_suffix('s').and_then(|seconds| number_with(seconds, 4));
        seconds.filter(|seconds| *seconds > 0.0).ok_or_else(|| broken(at, &format!("{title}: {text}")))
    }

    /// Returns the printed event rate of version 1.1, which must agree with the computed one; otherwise the computed one.
    fn rate(&self, computed: f64) -> Result<f64, ReportError> {
        if !self.is_new() {
            return Ok(computed);
        }
        let (at, _) = self.text(RATE)?;
        let printed = self.figure(RATE, 4)?;
        if (printed - computed).abs() > (RATE_ROUNDING * computed).max(RATE_DECIMALS) {
            return Err(ReportError::at(at, format!("the rate is {printed}, but events and time give {computed:.4}")));
        }
        Ok(printed)
    }

    fn check_fileio_version(&self) -> Result<(), ReportError> {
        match self.lines.first().filter(|_| self.is_new()) {
            Some((at, _)) => {
                Err(ReportError::at(*at, "fileio of sysbench 1.1 is not supported; use fio or sysbench 1.0"))
            }
            None => Ok(()),
        }
    }

    fn is_new(&self) -> bool {
        self.has_any(&["sysbench 1.1."])
    }

    /// Parses `95th percentile: 0.21`; its metric is `latency-p95`.
    fn percentile(&self) -> Result<(String, f64), ReportError> {
        let (at, line) = self.line("th percentile:")?;
        let (rank, value) = line.trim().split_once("th percentile:").unwrap_or_default();
        let value = number_with(value.trim(), 2).filter(|_| rank.parse::<u32>().is_ok());
        Ok((format!("latency-p{rank}"), value.ok_or_else(|| broken(at, line))?))
    }
}
