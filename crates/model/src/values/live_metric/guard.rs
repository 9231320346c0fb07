//! Limits that a running service must keep: `SOURCE<NUMBER`, `SOURCE>NUMBER/s`. Must not depend on how a source is read.

use thiserror::Error;

use super::{Guarded, MetricSource, SourceError};
use crate::hint::Hinted;

/// Units that may follow a number, with their factors.
const UNITS: [(&str, f64); 7] =
    [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("min", 60.0), ("s", 1.0), ("%", 0.01)];

/// Direction of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardLimit {
    /// The value must be below.
    Below,
    /// The value must be above.
    Above,
}

/// A limit that must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardRule {
    /// As the user wrote it.
    pub text: String,
    pub source: MetricSource,
    pub limit: GuardLimit,
    /// In the unit of the source; seconds for units of time.
    pub number: f64,
    /// Whether the growth per second is compared instead of the value.
    pub is_rate: bool,
}

/// A text that is not a guard.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum GuardError {
    #[error("a limit is missing")]
    NoLimit,
    #[error("'{0}' is not a number with a unit")]
    Number(String),
    #[error("{0}")]
    Source(#[from] SourceError),
    #[error("{0} cannot be a guard, because it has no value between two requests")]
    Unsupported(&'static str),
}

impl Hinted for GuardError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoLimit => Some("write SOURCE<NUMBER or SOURCE>NUMBER, in quotes".into()),
            Self::Number(_) => Some("write a number such as 0.02, 20ms, 5% or 1/s".into()),
            Self::Source(error) => error.hint(),
            Self::Unsupported(_) => None,
        }
    }
}

impl GuardRule {
    /// Parses a source, `<` or `>`, and a number. The last of these characters divides them, because regular expressions and
    /// labels may contain them, too.
    ///
    /// # Errors
    /// If the text has another form.
    pub fn parse(text: &str) -> Result<Self, GuardError> {
        let at = text.rfind(['<', '>']).ok_or(GuardError::NoLimit)?;
        let limit = if text[at..].starts_with('<') { GuardLimit::Below } else { GuardLimit::Above };
        let (number, has_rate) = parse_number(text[at + 1..].trim())?;
        let source = MetricSource::parse(text[..at].trim())?;
        let is_rate = match source.kind().guarded {
            Guarded::Value => has_rate,
            Guarded::Rate => true,
            Guarded::Unsupported => return Err(GuardError::Unsupported(source.kind().syntax)),
        };
        Ok(Self { text: text.into(), source, limit, number, is_rate })
    }

    /// Whether a value is within the limit. No comparison with NaN holds.
    pub fn holds(&self, value: f64) -> bool {
        match self.limit {
            GuardLimit::Below => value < self.number,
            GuardLimit::Above => value > self.number,
        }
    }
}

/// Parses a number with a unit and `/s`, and returns whether it had the latter.
fn parse_number(text: &str) -> Result<(f64, bool), GuardError> {
    let invalid = || GuardError::Number(text.into());
    let (number, is_rate) = text.strip_suffix("/s").map_or((text, false), |number| (number, true));
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((number.strip_suffix(unit)?, *factor)));
    let (digits, factor) = unit.unwrap_or((number, 1.0));
    let value: f64 = digits.trim().parse().map_err(|_| invalid())?;
    if value.is_finite() { Ok((value * factor, is_rate)) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_limits_and_units_are_parsed() {
        use GuardLimit::{Above, Below};
        let cases = [
            ("command:./p99<20", "command:./p99", Below, 20.0, false),
            ("command:./p99 < 20ms", "command:./p99", Below, 0.02, false),
            ("command:./p99>1.5", "command:./p99", Above, 1.5, false),
            ("command:./errors<1/s", "command:./errors", Below, 1.0, true),
            ("command:a#(?<x>[0-9]+)<7us", "command:a#(?<x>[0-9]+)", Below, 7e-6, false),
            ("prom:http://h/m#a{b=\"<\"}<2min", "prom:http://h/m#a{b=\"<\"}", Below, 120.0, false),
            ("tcp:80>1000", "tcp:80", Above, 1000.0, true),
            ("tcp:80>1e3/s", "tcp:80", Above, 1000.0, true),
            ("pressure:cpu<20%", "pressure:cpu", Below, 0.2, true),
            ("log:F#ERROR<1/s", "log:F#ERROR", Below, 1.0, true),
        ];
        for (text, source, limit, number, is_rate) in cases {
            let rule = GuardRule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(rule.source, MetricSource::parse(source).unwrap(), "{text}");
            assert_eq!((rule.limit, rule.is_rate), (limit, is_rate), "{text}");
            assert!((rule.number / number - 1.0).abs() < 1e-12, "{text}: {}", rule.number);
        }
    }

    #[test]
    fn invalid_guards_have_a_reason() {
        let cases = [
            ("command:./p99", "a limit is missing"),
            ("command:./p99<", "'' is not a number"),
            ("command:./p99<fast", "'fast' is not a number"),
            ("command:./p99<inf", "'inf' is not a number"),
            ("command:./p99<20ms20", "'20ms20' is not a number"),
            ("p99<20", "unknown source"),
            ("cpu-per:tcp:80<1", "cannot be a guard"),
        ];
        for (text, reason) in cases {
            let error = GuardRule::parse(text).expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn values_are_compared_with_the_limit() {
        let rule = |text: &str| GuardRule::parse(text).unwrap();
        let (below, above) = (rule("command:a<20"), rule("command:a>20"));
        assert!(below.holds(19.9) && !below.holds(20.0) && !below.holds(f64::INFINITY));
        assert!(above.holds(20.1) && !above.holds(20.0));
        assert!(!below.holds(f64::NAN) && !above.holds(f64::NAN));
    }
}
