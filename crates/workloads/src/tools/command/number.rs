//! Extracts a number from a program's output with a regular expression or a JSON pointer.

use machine::child::ProcessResult;
use model::values::workload::Parameters;
use regex::Regex;

use crate::job::Failure;

#[derive(Clone, Debug)]
pub(super) enum Number {
    /// The capture group of the last match.
    Match(Regex),
    /// The target of a JSON pointer (RFC 6901) in stdout, which must be one JSON document.
    Pointer(String),
}

/// Reads the rule from the parameters. Returns `None` if they request no number.
pub(super) fn rule(parameters: &Parameters) -> Result<Option<Number>, String> {
    match (parameters.text("metric"), parameters.text("metric-json")) {
        ("", "") => Ok(None),
        (expression, "") => expression_of(expression).map(|expression| Some(Number::Match(expression))),
        ("", pointer) => pointer_of(pointer).map(|pointer| Some(Number::Pointer(pointer))),
        _ => Err("both metric and metric-json are set; hint: set one of them".into()),
    }
}

fn expression_of(text: &str) -> Result<Regex, String> {
    let expression = Regex::new(text).map_err(|error| format!("metric is not a regular expression: {error}"))?;
    match expression.captures_len() - 1 {
        1 => Ok(expression),
        groups => Err(format!("metric '{text}' has {groups} groups; one, in parentheses, must capture the number")),
    }
}

fn pointer_of(text: &str) -> Result<String, String> {
    let escapes_are_right = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if text.starts_with('/') && escapes_are_right {
        return Ok(text.into());
    }
    Err(format!("metric-json '{text}' is not a JSON pointer; write it like /jobs/0/iops, with ~1 for / and ~0 for ~"))
}

impl Number {
    /// Extracts the number from a program's output.
    pub(super) fn read(&self, finished: &ProcessResult) -> Result<f64, Failure> {
        match self {
            Self::Match(expression) => matched(expression, finished),
            Self::Pointer(pointer) => pointed_at(pointer, finished),
        }
    }
}

/// Returns the number in the last match, because programs print their summary last. Searches stdout first, since stderr
/// is truncated.
fn matched(expression: &Regex, finished: &ProcessResult) -> Result<f64, Failure> {
    let last = |output: &[u8]| {
        let text = String::from_utf8_lossy(output);
        expression.captures_iter(&text).filter_map(|found| Some(found.get(1)?.as_str().to_owned())).last()
    };
    let Some(found) = last(&finished.stdout).or_else(|| last(&finished.stderr)) else {
        return Err(Failure::Failed(format!("nothing in its output matches '{expression}'")));
    };
    parse(&found).ok_or_else(|| Failure::Failed(format!("'{expression}' captured '{found}', which is not a number")))
}

/// Converts a number, or a string that contains one: some programs quote all values.
fn pointed_at(pointer: &str, finished: &ProcessResult) -> Result<f64, Failure> {
    let output: serde_json::Value = serde_json::from_slice(&finished.stdout).map_err(|error| {
        let cut = if finished.stdout_dropped.0 > 0 { " (truncated because it was too long)" } else { "" };
        Failure::Failed(format!("its standard output is not a JSON document{cut}: {error}"))
    })?;
    let found = output
        .pointer(pointer)
        .ok_or_else(|| Failure::Failed(format!("there is nothing at '{pointer}' in its JSON output")))?;
    let number = found.as_f64().or_else(|| parse(found.as_str()?));
    number
        .ok_or_else(|| Failure::Failed(format!("at '{pointer}' of its JSON output is {found}, which is not a number")))
}

fn parse(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.is_finite())
}
