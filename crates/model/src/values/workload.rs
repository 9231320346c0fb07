//! What a workload is from outside: its parameters with units and ranges, its metrics. The programs
//! themselves live in `workloads`; experiments are checked against these descriptions.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::values::units::{Bytes, Nanos};

/// Describes one workload. Stored with every run, so that old results stay readable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// Its name on the command line and in experiments.
    pub name: String,
    /// One line: what it measures.
    pub summary: String,
    /// What it measures, what it does not, bytes or operations per step, and the source of the definition.
    pub about: String,
    /// Its parameters in the order in which people read them.
    pub parameters: Vec<ParameterSpec>,
    /// Its metrics, the main one first.
    pub metrics: Vec<MetricSpec>,
    /// It needs exactly this many threads (two for a ping-pong); none when any number will do.
    pub threads_exactly: Option<usize>,
    /// Roughly how long a trial with default parameters takes; parameters named `time` or `runtime` say it better.
    pub trial_time_guess: Nanos,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterSpec {
    /// Its name in `--set name=value`.
    pub name: String,
    /// What it is for, one line.
    pub about: String,
    pub kind: ParameterKind,
    /// Its value when nobody says; none for parameters that must be given.
    pub default: Option<String>,
    /// Its value in smoke tests and `--smoke`, when other than the default.
    pub smoke: Option<String>,
}

/// Kernels that measure arrays of their own have this parameter; where the arrays lie is for the placement to say.
pub const ARRAYS_PARAMETER: &str = "huge-pages";

/// What values a parameter takes, bounds included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParameterKind {
    Integer {
        min: i64,
        max: i64,
    },
    /// A size. Also `4xllc`: a multiple of the machine's last-level cache.
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

/// A parameter's value, checked against its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Switch(bool),
    /// A whole number, a size in bytes, or a time in nanoseconds.
    Integer(i64),
    /// A choice or free text.
    Text(String),
}

/// Values by parameter name, complete: defaults are filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Parameters(pub BTreeMap<String, Value>);

/// One metric: a number per trial, made from the trial's samples of one series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricSpec {
    pub name: String,
    /// Its unit, such as `MiB/s` or `ns`.
    pub unit: String,
    pub better: Better,
    /// The series of samples that it is made from; several metrics may share one.
    pub series: String,
    /// How a trial's samples become its one number.
    pub reduce: Reduce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    Higher,
    Lower,
}

/// How a trial's samples of one series become the trial's one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduce {
    /// Their median; of a single sample, that sample.
    Median,
    Max,
    Min,
}

/// What starting and ending a trial takes beyond its workload, roughly.
const START_UP: Nanos = Nanos(20_000_000);

impl WorkloadSpec {
    /// The parameter with this name.
    pub fn parameter(&self, name: &str) -> Option<&ParameterSpec> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// Whether it measures arrays of its own, which can be in other memory than the rest of the process.
    pub fn has_arrays(&self) -> bool {
        self.parameter(ARRAYS_PARAMETER).is_some()
    }

    /// Fills in defaults and checks every value. `llc` is the machine's last-level cache, for `4xllc`.
    pub fn resolve(&self, given: &BTreeMap<String, String>, llc: Option<Bytes>) -> Result<Parameters, String> {
        if let Some(unknown) = given.keys().find(|name| self.parameter(name).is_none()) {
            let known: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
            return Err(format!("workload {} has no parameter '{unknown}'; it has {}", self.name, known.join(", ")));
        }
        let mut parameters = BTreeMap::new();
        for parameter in &self.parameters {
            let text = given
                .get(&parameter.name)
                .or(parameter.default.as_ref())
                .ok_or_else(|| format!("workload {} needs {}: {}", self.name, parameter.name, parameter.about))?;
            let value = parameter
                .kind
                .read(text, llc)
                .map_err(|why| format!("{} of workload {}: {why}", parameter.name, self.name))?;
            parameters.insert(parameter.name.clone(), value);
        }
        Ok(Parameters(parameters))
    }

    /// How long a trial takes, roughly: what its `time` or `runtime` parameter says, else what the description guesses.
    pub fn guess(&self, parameters: &Parameters) -> Nanos {
        let time = parameters.0.get("time").or_else(|| parameters.0.get("runtime"));
        let Some(Value::Integer(time)) = time else { return self.trial_time_guess };
        Nanos(u64::try_from(*time).unwrap_or_default() + START_UP.0)
    }

    /// Values as people write them (`1GiB`, `5s`), for tables and keys.
    pub fn written(&self, parameters: &Parameters) -> BTreeMap<String, String> {
        let text = |name: &String, value: &Value| {
            let kind = self.parameter(name).map_or(&ParameterKind::Text, |parameter| &parameter.kind);
            (name.clone(), kind.write(value))
        };
        parameters.0.iter().map(|(name, value)| text(name, value)).collect()
    }
}

impl ParameterKind {
    /// Reads a value and checks its bounds.
    pub fn read(&self, text: &str, llc: Option<Bytes>) -> Result<Value, String> {
        let bounded = |number: i64, min: i64, max: i64, written: &dyn Fn(i64) -> String| {
            if (min..=max).contains(&number) {
                Ok(Value::Integer(number))
            } else {
                Err(format!("{text} is out of range; it goes from {} to {}", written(min), written(max)))
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

    /// A value as people write it.
    pub fn write(&self, value: &Value) -> String {
        match (self, value) {
            (Self::Size { .. }, Value::Integer(bytes)) => exact_size(Bytes(*bytes as u64)),
            (Self::Time { .. }, Value::Integer(nanos)) => Nanos(*nanos as u64).to_string(),
            (_, value) => value.to_string(),
        }
    }
}

/// `1GiB`, or `4xllc`: a multiple of the machine's last-level cache.
fn read_size(text: &str, llc: Option<Bytes>) -> Result<Bytes, String> {
    let Some(factor) = text.trim().strip_suffix("xllc") else { return Bytes::parse(text) };
    let factor: f64 = factor
        .parse()
        .map_err(|_| format!("'{text}' is not a multiple of the last-level cache; write it like 4xllc"))?;
    let llc = llc.ok_or_else(|| {
        format!("'{text}': this machine does not say how large its last-level cache is; give a size like 64MiB")
    })?;
    Ok(Bytes((factor * llc.0 as f64) as u64))
}

/// A size without loss: `1.5KiB` would do for people, but keys need every byte.
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

impl Parameters {
    /// A whole number, size or time; the spec has checked that it is there.
    ///
    /// # Panics
    /// When the workload reads a parameter that its own description lacks, which is our bug.
    pub fn integer(&self, name: &str) -> i64 {
        match self.0.get(name) {
            Some(Value::Integer(number)) => *number,
            other => panic!("parameter {name} should be a number, it is {other:?}"),
        }
    }

    /// A count or a size as an index.
    pub fn size(&self, name: &str) -> usize {
        usize::try_from(self.integer(name)).expect("bounds in the description keep sizes positive")
    }

    /// A switch; as [`Parameters::integer`].
    pub fn switch(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Switch(on)) => *on,
            other => panic!("parameter {name} should be a switch, it is {other:?}"),
        }
    }

    /// A choice or text; as [`Parameters::integer`].
    pub fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Value::Text(text)) => text,
            other => panic!("parameter {name} should be text, it is {other:?}"),
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
    fn defaults_and_multiples_of_the_cache_are_filled_in() {
        let parameters = resolve(&[("time", "250ms")], Some(8 << 20)).unwrap();
        assert_eq!(parameters.integer("size"), 32 << 20);
        assert_eq!(parameters.integer("time"), 250_000_000);
        assert!(!parameters.switch("non-temporal"));
        assert_eq!(spec().written(&parameters)["size"], "32MiB");
    }

    #[test]
    fn mistakes_are_named_with_the_choices() {
        let cases = [
            (vec![("sise", "1GiB")], "it has size, time, non-temporal"),
            (vec![("size", "1")], "goes from 1KiB to 1TiB"),
            (vec![("size", "big")], "write it like 64KiB"),
            (vec![("non-temporal", "maybe")], "neither true nor false"),
            (vec![], "does not say how large its last-level cache is"),
        ];
        for (given, expected) in cases {
            let llc = if given.is_empty() { None } else { Some(8 << 20) };
            let error = resolve(&given, llc).unwrap_err();
            assert!(error.contains(expected), "{given:?}: {error}");
        }
    }

    #[test]
    fn written_sizes_lose_no_byte() {
        let kind = ParameterKind::Size { min: Bytes(0), max: Bytes(1 << 40) };
        for bytes in [1000, 1023, 1025, 1536, 1_234_567, 3 << 30] {
            let written = kind.write(&Value::Integer(bytes));
            assert_eq!(kind.read(&written, None), Ok(Value::Integer(bytes)), "{written}");
        }
    }
}
