//! Descriptions of workloads: parameters with units and ranges, and metrics. The programs are in the crate `workloads`;
//! experiments are checked against these descriptions.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::values::units::{Bytes, Nanos};

/// Description of a workload. Stored with every run, so that old results stay readable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// Name on the command line and in experiments.
    pub name: String,
    /// One-line description of what it measures.
    pub summary: String,
    /// Full description: what it measures and what it does not, bytes or operations per step, source of the definition.
    pub about: String,
    /// Parameters in display order.
    pub parameters: Vec<ParameterSpec>,
    /// Metrics, the main one first.
    pub metrics: Vec<MetricSpec>,
    /// Required number of threads (two for a ping-pong); `None` if any number is allowed.
    pub threads_exactly: Option<usize>,
    /// Approximate duration of a trial with default parameters; a parameter `time` or `runtime` takes precedence.
    pub trial_time_guess: Nanos,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterSpec {
    /// Name in `--set NAME=VALUE`.
    pub name: String,
    /// One-line description.
    pub about: String,
    pub kind: ParameterKind,
    /// Default value; `None` for required parameters.
    pub default: Option<String>,
    /// Value in smoke tests and with `--smoke`; `None` for the default.
    pub smoke: Option<String>,
}

/// Parameter of kernels that allocate the arrays they measure. The placement decides where the arrays are.
pub const ARRAYS_PARAMETER: &str = "huge-pages";

/// Parameter of commands whose files can be placed.
pub const PAGE_CACHE_PARAMETER: &str = "page-cache";

/// Renamed parameters: the old name and the current one. Command lines, experiments and stored trials may use the old one.
const RENAMED_PARAMETERS: [(&str, &str); 1] = [("folder", "directory")];

/// Returns the current name of a parameter.
pub fn current_name(name: &str) -> &str {
    RENAMED_PARAMETERS.iter().find(|(old, _)| *old == name).map_or(name, |(_, current)| current)
}

/// Returns the name of a parameter in keys: its original name, so that runs begun before it was renamed can be resumed.
pub(crate) fn key_name(name: &str) -> &str {
    RENAMED_PARAMETERS.iter().find(|(_, current)| *current == name).map_or(name, |(old, _)| old)
}

/// Type and inclusive bounds of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParameterKind {
    Integer {
        min: i64,
        max: i64,
    },
    /// A size in bytes. `4xllc` is a multiple of the machine's last-level cache.
    Size {
        min: Bytes,
        max: Bytes,
    },
    Time {
        min: Nanos,
        max: Nanos,
    },
    /// `true` or `false`.
    Switch,
    Choice(Vec<String>),
    Text,
}

/// Value of a parameter, checked against its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Switch(bool),
    /// An integer, a size in bytes, or a duration in nanoseconds.
    Integer(i64),
    /// A choice or free text.
    Text(String),
}

/// Values by parameter name, with defaults filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Parameters(#[serde(deserialize_with = "with_current_names")] pub BTreeMap<String, Value>);

/// A metric: one number per trial, computed from the trial's samples of one series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricSpec {
    pub name: String,
    /// Unit, such as `MiB/s` or `ns`.
    pub unit: String,
    pub better: Better,
    /// The series of samples that it is computed from; several metrics may share one.
    pub series: String,
    pub reduce: Reduce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    Higher,
    Lower,
}

/// Function that reduces a trial's samples of one series to one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduce {
    Median,
    Max,
    Min,
}

/// Approximate time to start and end a trial.
const START_UP: Nanos = Nanos(20_000_000);

impl WorkloadSpec {
    pub fn parameter(&self, name: &str) -> Option<&ParameterSpec> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// Whether the workload allocates the arrays it measures, so that they can be in other memory than the rest of the
    /// process.
    pub fn has_arrays(&self) -> bool {
        self.parameter(ARRAYS_PARAMETER).is_some()
    }

    /// Whether the workload runs a command whose files can be placed.
    pub fn places_files(&self) -> bool {
        self.parameter(PAGE_CACHE_PARAMETER).is_some()
    }

    /// Number of leading metrics that short tables show: the main one; for requests to a disk also the throughput and the
    /// latency, without which the rate of requests is half the result.
    pub fn short_metrics(&self) -> usize {
        let is_storage = self.metrics.first().is_some_and(|main| main.unit == "IO/s");
        if is_storage { self.metrics.len().min(3) } else { 1 }
    }

    /// Fills in defaults and checks every value. `llc` is the size of the machine's last-level cache, for `4xllc`.
    pub fn resolve(&self, given: &BTreeMap<String, String>, llc: Option<Bytes>) -> Result<Parameters, String> {
        if let Some(unknown) = given.keys().find(|name| self.parameter(name).is_none()) {
            let known: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
            return Err(format!(
                "workload {} has no parameter '{unknown}'; the parameters are {}",
                self.name,
                known.join(", ")
            ));
        }
        let mut parameters = BTreeMap::new();
        for parameter in &self.parameters {
            let text = given.get(&parameter.name).or(parameter.default.as_ref()).ok_or_else(|| {
                format!("workload {} requires the parameter {}: {}", self.name, parameter.name, parameter.about)
            })?;
            let value = parameter
                .kind
                .read(text, llc)
                .map_err(|reason| format!("parameter {} of workload {}: {reason}", parameter.name, self.name))?;
            parameters.insert(parameter.name.clone(), value);
        }
        Ok(Parameters(parameters))
    }

    /// Returns the approximate duration of a trial: its `time` or `runtime` parameter, or else the guess of the
    /// description.
    pub fn guess(&self, parameters: &Parameters) -> Nanos {
        let time = parameters.0.get("time").or_else(|| parameters.0.get("runtime"));
        let Some(Value::Integer(time)) = time else { return self.trial_time_guess };
        Nanos(u64::try_from(*time).unwrap_or_default() + START_UP.0)
    }

    /// Formats values with units (`1GiB`, `5s`), for tables and keys.
    pub fn written(&self, parameters: &Parameters) -> BTreeMap<String, String> {
        let text = |name: &String, value: &Value| {
            let kind = self.parameter(name).map_or(&ParameterKind::Text, |parameter| &parameter.kind);
            (name.clone(), kind.write(value))
        };
        parameters.0.iter().map(|(name, value)| text(name, value)).collect()
    }
}

impl ParameterKind {
    /// Parses a value and checks its bounds.
    pub fn read(&self, text: &str, llc: Option<Bytes>) -> Result<Value, String> {
        let bounded = |number: i64, min: i64, max: i64, written: &dyn Fn(i64) -> String| {
            if (min..=max).contains(&number) {
                Ok(Value::Integer(number))
            } else {
                Err(format!("{text} is out of range {} to {}", written(min), written(max)))
            }
        };
        match self {
            Self::Integer { min, max } => {
                let number =
                    text.trim().parse().map_err(|_| format!("'{text}' is not a whole number from {min} to {max}"))?;
                bounded(number, *min, *max, &|number| number.to_string())
            }
            Self::Size { min, max } => {
                let bytes = read_size(text, llc)?;
                bounded(bytes.0 as i64, min.0 as i64, max.0 as i64, &|number| Bytes(number as u64).to_string())
            }
            Self::Time { min, max } => {
                let time = Nanos::parse(text)?;
                bounded(time.0 as i64, min.0 as i64, max.0 as i64, &|number| Nanos(number as u64).to_string())
            }
            Self::Switch => match text.trim() {
                "true" | "yes" | "on" | "1" => Ok(Value::Switch(true)),
                "false" | "no" | "off" | "0" => Ok(Value::Switch(false)),
                _ => Err(format!("'{text}' is neither true nor false")),
            },
            Self::Choice(words) if words.iter().any(|word| word == text) => Ok(Value::Text(text.into())),
            Self::Choice(words) => Err(format!("'{text}' is not one of {}", words.join(", "))),
            Self::Text => Ok(Value::Text(text.into())),
        }
    }

    /// Formats a value with its unit.
    pub fn write(&self, value: &Value) -> String {
        match (self, value) {
            (Self::Size { .. }, Value::Integer(bytes)) => exact_size(Bytes(*bytes as u64)),
            (Self::Time { .. }, Value::Integer(nanos)) => Nanos(*nanos as u64).to_string(),
            (_, value) => value.to_string(),
        }
    }
}

/// Parses `1GiB` or `4xllc`.
fn read_size(text: &str, llc: Option<Bytes>) -> Result<Bytes, String> {
    let Some(factor) = text.trim().strip_suffix("xllc") else { return Bytes::parse(text) };
    let factor: f64 = factor
        .parse()
        .map_err(|_| format!("'{text}' is not a multiple of the last-level cache; use the form 4xllc"))?;
    let llc = llc.ok_or_else(|| {
        format!("'{text}': this machine does not report the size of its last-level cache; use a size such as 64MiB")
    })?;
    Ok(Bytes((factor * llc.0 as f64) as u64))
}

/// Formats a size without rounding: keys need every byte.
fn exact_size(bytes: Bytes) -> String {
    let text = bytes.to_string();
    if Bytes::parse(&text) == Ok(bytes) { text } else { format!("{}B", bytes.0) }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(on) => on.fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

fn with_current_names<'de, D: Deserializer<'de>>(source: D) -> Result<BTreeMap<String, Value>, D::Error> {
    let stored = BTreeMap::<String, Value>::deserialize(source)?;
    Ok(stored.into_iter().map(|(name, value)| (current_name(&name).to_string(), value)).collect())
}

impl Parameters {
    /// Returns an integer, size or duration.
    /// If the workload's description lacks the parameter, which is a bug of the workload.
    pub fn integer(&self, name: &str) -> i64 {
        match self.0.get(name) {
            Some(Value::Integer(number)) => *number,
            other => panic!("parameter {name} must be a number, but is {other:?}"),
        }
    }

    /// Returns a count or a size as `usize`. Panics as [`Parameters::integer`].
    pub fn size(&self, name: &str) -> usize {
        usize::try_from(self.integer(name)).expect("bounds in the description keep sizes positive")
    }

    /// Returns a switch. Panics as [`Parameters::integer`].
    pub fn switch(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Switch(on)) => *on,
            other => panic!("parameter {name} must be a switch, but is {other:?}"),
        }
    }

    /// Returns a choice or text. Panics as [`Parameters::integer`].
    pub fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Value::Text(text)) => text,
            other => panic!("parameter {name} must be text, but is {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> WorkloadSpec {
        let parameter = |name: &str, kind, default: &str| ParameterSpec {
            name: name.into(),
            about: String::new(),
            kind,
            default: Some(default.into()),
            smoke: None,
        };
        WorkloadSpec {
            name: "stream".into(),
            summary: String::new(),
            about: String::new(),
            parameters: vec![
                parameter("size", ParameterKind::Size { min: Bytes(1024), max: Bytes(1 << 40) }, "4xllc"),
                parameter("time", ParameterKind::Time { min: Nanos(1), max: Nanos(60_000_000_000) }, "1s"),
                parameter("non-temporal", ParameterKind::Switch, "false"),
            ],
            metrics: Vec::new(),
            threads_exactly: None,
            trial_time_guess: Nanos(0),
        }
    }

    fn resolve(given: &[(&str, &str)], llc: Option<u64>) -> Result<Parameters, String> {
        let given = given.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect();
        spec().resolve(&given, llc.map(Bytes))
    }

    #[test]
    fn defaults_and_cache_multiples_are_resolved() {
        let parameters = resolve(&[("time", "250ms")], Some(8 << 20)).unwrap();
        assert_eq!(parameters.integer("size"), 32 << 20);
        assert_eq!(parameters.integer("time"), 250_000_000);
        assert!(!parameters.switch("non-temporal"));
        assert_eq!(spec().written(&parameters)["size"], "32MiB");
    }

    #[test]
    fn errors_name_the_valid_choices() {
        let cases = [
            (vec![("sise", "1GiB")], "the parameters are size, time, non-temporal"),
            (vec![("size", "1")], "out of range 1KiB to 1TiB"),
            (vec![("size", "big")], "use the form 64KiB"),
            (vec![("non-temporal", "maybe")], "neither true nor false"),
            (vec![], "does not report the size of its last-level cache"),
        ];
        for (given, expected) in cases {
            let llc = if given.is_empty() { None } else { Some(8 << 20) };
            let error = resolve(&given, llc).unwrap_err();
            assert!(error.contains(expected), "{given:?}: {error}");
        }
    }

    #[test]
    fn stored_values_with_former_names_are_read() {
        let parameters: Parameters = serde_json::from_str(r#"{"folder": "/mnt", "size": 3}"#).unwrap();
        assert_eq!(parameters.text("directory"), "/mnt");
        assert_eq!(serde_json::to_string(&parameters).unwrap(), r#"{"directory":"/mnt","size":3}"#);
    }

    #[test]
    fn formatted_sizes_are_exact() {
        let kind = ParameterKind::Size { min: Bytes(0), max: Bytes(1 << 40) };
        for bytes in [1000, 1023, 1025, 1536, 1_234_567, 3 << 30] {
            let written = kind.write(&Value::Integer(bytes));
            assert_eq!(kind.read(&written, None), Ok(Value::Integer(bytes)), "{written}");
        }
    }
}
