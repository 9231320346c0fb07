//! Reads the sources of metrics of a running service. Must not depend on experiments.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use lab::live::Reading;
use machine::command_output::output_within;
use machine::log_lines::LogLines;
use machine::service_threads::ServiceThreads;
use machine::service_usage::{CpuPressure, ServiceCpuTime};
use machine::tcp_requests::TcpRequests;
use model::analysis::live::TcpTraffic;
use model::hint::Hinted;
use model::values::live_metric::{MetricSource, SeriesKind, SeriesSum};
use regex::Regex;

use crate::app::applied::pids;
use crate::app::exporter::Exporter;
use crate::error::CliError;

/// A number, if no regular expression is given.
const ANY_NUMBER: &str = r"([0-9]+(?:\.[0-9]+)?)";
/// Time limit of the first reading, in which programs and connections are started.
const FIRST_LIMIT: Duration = Duration::from_secs(2);
/// Readings of connections before the experiment, and the interval between them.
const CONNECTION_READINGS: u32 = 10;
const CONNECTION_INTERVAL: Duration = Duration::from_millis(100);

/// A source that was read successfully when it was opened.
pub struct LiveMeter {
    source: Source,
    /// Time limit of a reading.
    limit: Duration,
}

enum Source {
    Tcp(TcpRequests),
    Prometheus(Exporter),
    Log(LogLines),
    /// The first group of a regular expression in the output of a command.
    Command {
        argv: Vec<String>,
        pattern: Regex,
    },
    CpuPressure(CpuPressure),
    CpuPer(ServiceCpuTime, Box<Source>),
}

impl LiveMeter {
    /// Opens a source and reads it. `option` is the option with its value, for messages. A reading that takes longer than
    /// `limit` is an error.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(
        option: &str,
        source: &MetricSource,
        threads: &ServiceThreads,
        limit: Duration,
    ) -> Result<Self, CliError> {
        let failed = |error: String| CliError::usage(format!("{option}: {error}"));
        let mut meter = Self { source: Source::open(source, threads).map_err(failed)?, limit: limit.max(FIRST_LIMIT) };
        meter.value().map_err(failed)?;
        meter.limit = limit;
        meter.value().map_err(failed)?;
        Ok(meter)
    }

    /// Checks that the source is a count of work.
    ///
    /// # Errors
    /// If it is known not to be one, or if it misses requests. Takes a second for a port.
    pub fn check_counter(&mut self, option: &str) -> Result<(), CliError> {
        let failed = |error: String| CliError::usage(format!("{option}: {error}"));
        let limit = self.limit;
        let work = self.source.work_mut();
        if let Source::Prometheus(exporter) = work
            && exporter.read(limit).map_err(failed)?.kind == SeriesKind::Gauge
        {
            return Err(failed("it is a gauge, not a counter".into()).hint("a gauge can be a --guard"));
        }
        let Source::Tcp(requests) = work else { return Ok(()) };
        for _ in 0..CONNECTION_READINGS {
            sleep(CONNECTION_INTERVAL);
            requests.read().map_err(|error| failed(error.to_string()))?;
        }
        let traffic = requests.read().map_err(|error| failed(error.to_string()))?;
        traffic.check_connections(requests.port()).map_err(|error| failed(error.to_string()).maybe_hint(error.hint()))
    }

    /// Returns the port and what it has received, if requests are counted by connections. Connections that begin and end
    /// between two readings are not counted, so this is called often.
    pub fn tcp_traffic(&mut self) -> Option<(u16, TcpTraffic)> {
        match self.source.work_mut() {
            // The next reading of the metric reports an error.
            Source::Tcp(requests) => Some((requests.port(), requests.read().ok()?)),
            _ => None,
        }
    }

    /// Returns the value: a total or a gauge.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn value(&mut self) -> Result<f64, String> {
        self.source.value(self.limit)
    }

    /// Returns a reading: for a rate, `now_s` is the base.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn read(&mut self, now_s: impl FnOnce() -> f64) -> Result<Reading, String> {
        match &mut self.source {
            Source::CpuPer(time, work) => {
                let base = work.value(self.limit)?;
                Ok(Reading { total: time.read().ran.as_secs_f64(), base })
            }
            other => other.value(self.limit).map(|total| Reading { total, base: now_s() }),
        }
    }
}

impl Source {
    fn open(source: &MetricSource, threads: &ServiceThreads) -> Result<Self, String> {
        match source {
            MetricSource::Tcp { port } => {
                TcpRequests::open_for(*port, &pids(threads)).map(Self::Tcp).map_err(|error| error.to_string())
            }
            MetricSource::Prometheus { url, series } => Ok(Self::Prometheus(Exporter::new(url, series))),
            MetricSource::Log { file, pattern } => {
                let pattern = pattern.as_deref().map(regex::bytes::Regex::new).transpose();
                let pattern = pattern.map_err(|error| error.to_string())?;
                LogLines::open(Path::new(file), pattern).map(Self::Log).map_err(|error| format!("{file}: {error}"))
            }
            MetricSource::Command { command, pattern } => {
                let argv = shlex::split(command).filter(|words| !words.is_empty());
                let argv = argv.ok_or("the command is empty or has an unclosed quote")?;
                let pattern =
                    Regex::new(pattern.as_deref().unwrap_or(ANY_NUMBER)).map_err(|error| error.to_string())?;
                let has_group = pattern.captures_len() >= 2;
                has_group
                    .then_some(Self::Command { argv, pattern })
                    .ok_or_else(|| "the regular expression has no group: put the number in parentheses".into())
            }
            MetricSource::CpuPressure => CpuPressure::open(threads).map(Self::CpuPressure),
            MetricSource::CpuPer(work) => {
                let work = Self::open(work, threads)?;
                Ok(Self::CpuPer(ServiceCpuTime::new(threads.clone()), Box::new(work)))
            }
        }
    }

    /// Returns the source of the work.
    fn work_mut(&mut self) -> &mut Self {
        if let Self::CpuPer(_, work) = self { work } else { self }
    }

    fn value(&mut self, limit: Duration) -> Result<f64, String> {
        match self {
            Self::Tcp(requests) => {
                requests.read().map(|traffic| traffic.segments as f64).map_err(|error| error.to_string())
            }
            Self::Prometheus(exporter) => exporter.read(limit).map(|SeriesSum { sum, .. }| sum),
            Self::Log(lines) => lines.read().map(|total| total as f64).map_err(|error| error.to_string()),
            Self::Command { argv, pattern } => {
                let text = output_within(argv, limit)?;
                let number = pattern.captures(&text).and_then(|groups| groups.get(1)?.as_str().parse::<f64>().ok());
                number.ok_or_else(|| format!("the output of {} has no number that matches {pattern}", argv[0]))
            }
            Self::CpuPressure(pressure) => pressure.read().map(|waited| waited.as_secs_f64()),
            Self::CpuPer(_, work) => work.value(limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn open(text: &str) -> Result<LiveMeter, CliError> {
        let threads = ServiceThreads::of_tree(std::process::id()).expect("this process");
        let source = MetricSource::parse(text).expect("it is valid");
        LiveMeter::open(&format!("--metric '{text}'"), &source, &threads, LIMIT)
    }

    #[test]
    fn command_counters_are_read() {
        let mut meter = open("command:echo ops:17 errors:3#errors:([0-9]+)").expect("it is valid");
        assert_eq!(meter.value(), Ok(3.0));
        let mut meter = open("command:echo ops 17").expect("it is valid");
        assert_eq!(meter.read(|| 5.0), Ok(Reading { total: 17.0, base: 5.0 }));
    }

    #[test]
    fn cpu_time_is_divided_by_the_work() {
        let mut meter = open("cpu-per:command:echo 17").expect("it is valid");
        let first = meter.read(|| 5.0).expect("it is read");
        assert!((first.base - 17.0).abs() < f64::EPSILON && first.total >= 0.0, "{first:?}");
    }

    #[test]
    fn lines_of_a_log_are_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("log");
        std::fs::write(&file, "old\n").expect("a file");
        let mut meter = open(&format!("log:{}#new", file.display())).expect("it is valid");
        std::fs::write(&file, "old\nnew\nother\nnew\n").expect("a file");
        assert_eq!(meter.value(), Ok(2.0));
    }

    #[test]
    fn invalid_counters_are_refused() {
        let refused = |text: &str| open(text).err().map(|error| error.to_string()).unwrap_or_default();
        // No service can listen there.
        assert!(refused("tcp:0").contains("no service listens"));
        assert!(refused("command:'").contains("the command is empty"));
        assert!(refused("command:echo 1#[0-9]+").contains("no group"));
        assert!(refused("command:echo x").contains("has no number"));
        assert!(refused("command:false").contains("false"));
        assert!(refused("command:/does/not/exist").contains("/does/not/exist"));
        assert!(refused("log:/does/not/exist").contains("/does/not/exist"));
        assert!(refused("log:/dev/null#(").contains("regex"));
        assert!(refused("cpu-per:command:false").contains("false"));
    }
}
