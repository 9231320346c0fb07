//! Sources of the metric of a running service, as users write them. Must not depend on how they are read.

mod guard;
mod prometheus;

use thiserror::Error;

use crate::hint::Hinted;
use crate::values::workload::Better;

pub use guard::{GuardError, GuardLimit, GuardRule};
pub use prometheus::{SeriesKind, SeriesSelector, SeriesSum};

/// A source of numbers about a running service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricSource {
    Tcp {
        port: u16,
    },
    Prometheus {
        url: String,
        series: SeriesSelector,
    },
    Log {
        file: String,
        /// Regular expression of the lines that count; `None` for all.
        pattern: Option<String>,
    },
    Command {
        command: String,
        /// Regular expression whose first group is the number; `None` for the first number.
        pattern: Option<String>,
    },
    CpuPressure,
    CpuPer(Box<MetricSource>),
}

/// The value that a guard compares with its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarded {
    /// The value, or its growth per second if the limit ends in `/s`.
    Value,
    /// The growth per second, because the value only grows.
    Rate,
    /// Nothing.
    Unsupported,
}

/// A kind of source.
#[derive(Debug)]
pub struct SourceKind {
    /// The text before the first colon.
    pub name: &'static str,
    pub syntax: &'static str,
    /// Phrase for help and hints.
    pub about: &'static str,
    pub example: &'static str,
    pub better: Better,
    pub guarded: Guarded,
    /// Noun of the compared value.
    pub quantity: &'static str,
    /// Unit of the compared value, after a number.
    pub unit: &'static str,
}

/// All kinds of sources. Help, hints and the reports use this table.
pub const SOURCES: [SourceKind; 6] = [
    SourceKind {
        name: "tcp",
        syntax: "tcp:PORT",
        about: "requests on the connections to a port",
        example: "tcp:6379",
        better: Better::Higher,
        guarded: Guarded::Rate,
        quantity: "rate",
        unit: "/s",
    },
    SourceKind {
        name: "prom",
        syntax: "prom:URL#NAME{LABEL=\"VALUE\"}",
        about: "a counter of a Prometheus exporter, summed over its series",
        example: "prom:http://127.0.0.1:9121/metrics#redis_commands_processed_total",
        better: Better::Higher,
        guarded: Guarded::Value,
        quantity: "rate",
        unit: "/s",
    },
    SourceKind {
        name: "log",
        syntax: "log:FILE#REGEX",
        about: "lines that are appended to a file",
        example: "log:/var/log/nginx/access.log",
        better: Better::Higher,
        guarded: Guarded::Rate,
        quantity: "rate",
        unit: "/s",
    },
    SourceKind {
        name: "command",
        syntax: "command:CMD#REGEX",
        about: "a number that a command prints and that only grows",
        example: "command:redis-cli info stats#total_commands_processed:([0-9]+)",
        better: Better::Higher,
        guarded: Guarded::Value,
        quantity: "rate",
        unit: "/s",
    },
    SourceKind {
        name: "pressure",
        syntax: "pressure:cpu",
        about: "share of time in which a thread of its cgroup waited for a CPU (lower is better)",
        example: "pressure:cpu",
        better: Better::Lower,
        guarded: Guarded::Rate,
        quantity: "CPU pressure",
        unit: " s/s",
    },
    SourceKind {
        name: "cpu-per",
        syntax: "cpu-per:SOURCE",
        about: "CPU time of the service per unit of another source (lower is better)",
        example: "cpu-per:tcp:6379",
        better: Better::Lower,
        guarded: Guarded::Unsupported,
        quantity: "CPU time per unit of work",
        unit: " s",
    },
];

/// A text that names no source.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SourceError {
    #[error("unknown source of a metric")]
    Unknown,
    #[error("{0} is not a port number")]
    Port(String),
    #[error("a command is missing")]
    Command,
    #[error("a file is missing")]
    File,
    #[error("{0}")]
    Series(String),
    #[error("{0} has no URL with http://")]
    Url(String),
    #[error("the kernel reports pressure:cpu only, not pressure:{0}, of a service that waits for CPUs")]
    Resource(String),
    #[error("{0} is not a count of work")]
    NotWork(String),
}

impl Hinted for SourceError {
    fn hint(&self) -> Option<String> {
        let syntax =
            |name: &str| SOURCES.iter().find(|kind| kind.name == name).map(|kind| format!("use {}", kind.use_line()));
        match self {
            Self::Unknown => Some(format!("use one of {}", SOURCES.map(|kind| kind.syntax).join(", "))),
            Self::Port(_) => Some("list the ports of services with ss -tlnp".into()),
            Self::Command => syntax("command"),
            Self::File => syntax("log"),
            Self::Series(_) => syntax("prom"),
            Self::Url(_) => Some("for https, use command:curl with its options, and #REGEX".into()),
            Self::Resource(_) => syntax("pressure"),
            Self::NotWork(_) => syntax("cpu-per"),
        }
    }
}

impl SourceKind {
    /// `tcp:PORT, such as tcp:6379`.
    fn use_line(&self) -> String {
        format!("{}, such as '{}'", self.syntax, self.example)
    }
}

/// Returns one line per kind of source, for help.
pub fn source_lines() -> String {
    SOURCES.iter().map(|kind| format!("  {}: {}", kind.syntax, kind.about)).collect::<Vec<_>>().join("\n")
}

impl MetricSource {
    /// Parses `KIND:…`.
    ///
    /// # Errors
    /// If the text names no source.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let (name, rest) = text.split_once(':').ok_or(SourceError::Unknown)?;
        let (before, after) = match rest.split_once('#') {
            Some((before, after)) => (before, Some(after.to_owned())),
            None => (rest, None),
        };
        match name {
            "tcp" => rest.parse().map(|port| Self::Tcp { port }).map_err(|_| SourceError::Port(rest.into())),
            "command" if before.trim().is_empty() => Err(SourceError::Command),
            "command" => Ok(Self::Command { command: before.into(), pattern: after }),
            "log" if before.is_empty() => Err(SourceError::File),
            "log" => Ok(Self::Log { file: before.into(), pattern: after }),
            "prom" if !before.starts_with("http://") => Err(SourceError::Url(rest.into())),
            "prom" => {
                let series = after.ok_or_else(|| SourceError::Series("the name of a series is missing".into()))?;
                let series = SeriesSelector::parse(&series).map_err(SourceError::Series)?;
                Ok(Self::Prometheus { url: before.into(), series })
            }
            "pressure" if rest == "cpu" => Ok(Self::CpuPressure),
            "pressure" => Err(SourceError::Resource(rest.into())),
            "cpu-per" => match Self::parse(rest)? {
                Self::CpuPressure | Self::CpuPer(_) => Err(SourceError::NotWork(rest.into())),
                work => Ok(Self::CpuPer(Box::new(work))),
            },
            _ => Err(SourceError::Unknown),
        }
    }

    pub fn kind(&self) -> &'static SourceKind {
        let at = match self {
            Self::Tcp { .. } => 0,
            Self::Prometheus { .. } => 1,
            Self::Log { .. } => 2,
            Self::Command { .. } => 3,
            Self::CpuPressure => 4,
            Self::CpuPer(_) => 5,
        };
        &SOURCES[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_all_kinds_are_valid() {
        for kind in &SOURCES {
            let source = MetricSource::parse(kind.example).unwrap_or_else(|error| panic!("{}: {error}", kind.example));
            assert_eq!(source.kind().name, kind.name);
            assert!(kind.syntax.starts_with(&format!("{}:", kind.name)), "{}", kind.syntax);
        }
    }

    #[test]
    fn parts_of_sources_are_split() {
        let command = |command: &str, pattern: Option<&str>| MetricSource::Command {
            command: command.into(),
            pattern: pattern.map(Into::into),
        };
        let cases = [
            ("tcp:80", MetricSource::Tcp { port: 80 }),
            ("command:redis-cli info stats#ops:([0-9]+)", command("redis-cli info stats", Some("ops:([0-9]+)"))),
            ("command:cat FILE", command("cat FILE", None)),
            ("log:a:b#GET|POST", MetricSource::Log { file: "a:b".into(), pattern: Some("GET|POST".into()) }),
            ("cpu-per:tcp:80", MetricSource::CpuPer(Box::new(MetricSource::Tcp { port: 80 }))),
        ];
        for (text, expected) in cases {
            assert_eq!(MetricSource::parse(text), Ok(expected), "{text}");
        }
        let MetricSource::Prometheus { url, series } = MetricSource::parse("prom:http://h:1/m#a{b=\"c#d\"}").unwrap()
        else {
            panic!("another source")
        };
        assert_eq!((url.as_str(), series), ("http://h:1/m", SeriesSelector::parse("a{b=\"c#d\"}").unwrap()));
    }

    #[test]
    fn invalid_sources_have_a_reason_and_a_hint() {
        let cases = [
            ("requests", "unknown source", "tcp:PORT, prom:URL"),
            ("tpc:80", "unknown source", "cpu-per:SOURCE"),
            ("cpu:", "unknown source", "cpu-per:SOURCE"),
            ("tcp:http", "http is not a port number", "ss -tlnp"),
            ("tcp:65536", "65536 is not a port number", "ss -tlnp"),
            ("command: #x", "a command is missing", "such as 'command:redis-cli"),
            ("log:", "a file is missing", "such as 'log:/var/log"),
            ("prom:https://h/metrics#a", "https://h/metrics#a has no URL with http://", "curl"),
            ("prom:http://h/metrics", "the name of a series is missing", "such as 'prom:http://"),
            ("pressure:io", "pressure:io", "pressure:cpu"),
            ("cpu-per:cpu-per:tcp:1", "cpu-per:tcp:1 is not a count of work", "such as 'cpu-per:tcp:6379'"),
            ("cpu-per:pressure:cpu", "is not a count of work", "cpu-per:SOURCE"),
        ];
        for (text, reason, hint) in cases {
            let error = MetricSource::parse(text).expect_err(text);
            assert!(error.to_string().contains(reason), "{text}: {error}");
            assert!(error.hint().is_some_and(|found| found.contains(hint)), "{text}: {:?}", error.hint());
        }
    }
}
