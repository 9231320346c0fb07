//! Rounding and formatting of numbers. JSON and CSV contain them unrounded.

use model::values::calendar::utc_date;

/// Significant digits: easy to compare, and as many as most intervals justify.
const DIGITS: usize = 4;

/// A common scale for a median and the ends of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    divisor: f64,
    suffix: &'static str,
    decimals: usize,
}

impl Scale {
    /// The scale that shows this value with [`DIGITS`] digits. Digits before the decimal point are never dropped below
    /// a million, where `1.234M` begins.
    pub(crate) fn of(value: f64) -> Self {
        const STEPS: [(f64, &str); 4] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")];
        let size = value.abs();
        // Just below a step, rounding would give 1000.0M; the next step has a digit less.
        let (divisor, suffix) = STEPS.into_iter().find(|(step, _)| size >= step * 0.99995).unwrap_or((1.0, ""));
        Self { divisor, suffix, decimals: decimals(size / divisor) }
    }

    /// A value in this scale.
    pub(crate) fn write(self, value: f64) -> String {
        if !value.is_finite() {
            return "not a number".into();
        }
        format!("{}{}", unsigned_zero(format!("{:.*}", self.decimals, value / self.divisor)), self.suffix)
    }
}

fn decimals(size: f64) -> usize {
    if !size.is_finite() || size == 0.0 {
        return 0;
    }
    // The exponent after rounding: 9.9999 rounds to 10.00 and has two digits before the point.
    let rounded = format!("{size:.0$e}", DIGITS - 1);
    let exponent: i32 = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    // At most twelve decimals: smaller values need another unit.
    (DIGITS as i32 - 1 - exponent).clamp(0, 12) as usize
}

/// A single value: four digits, `M` for millions and so on.
pub fn significant(value: f64) -> String {
    Scale::of(value).write(value)
}

/// `12 100 to 12 610`: an interval in the scale of its median.
pub(crate) fn interval(low: Option<f64>, high: Option<f64>, scale: Scale) -> Option<String> {
    Some(format!("{} to {}", scale.write(low?), scale.write(high?)))
}

/// `+12.3 %`.
pub(crate) fn signed_percent(change: f64) -> String {
    let text = percent_digits(change, change);
    let sign = if change > 0.0 { "+" } else { "" };
    format!("{sign}{text} %")
}

/// `10.1 to 14.5`: the ends of an interval in percent, with the decimals of its change.
pub(crate) fn percent_interval(low: f64, high: f64, change: f64) -> String {
    format!("{} to {}", percent_digits(low, change), percent_digits(high, change))
}

/// `12.3`: the size of a change without its sign, for sentences that state the direction.
pub(crate) fn percent_size(change: f64) -> String {
    percent_digits(change.abs(), change)
}

fn percent_digits(value: f64, change: f64) -> String {
    if !value.is_finite() {
        return "not a number".into();
    }
    let decimals = usize::from(change.abs() < 99.95);
    unsigned_zero(format!("{value:.decimals$}"))
}

/// Removes the sign of `-0.0`.
fn unsigned_zero(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.into(),
        _ => text,
    }
}

/// `2026-01-31 08:05 UTC`.
pub fn date(unix_ms: u64) -> String {
    let minutes = unix_ms / 60_000;
    format!("{} {:02}:{:02} UTC", utc_date(unix_ms), minutes / 60 % 24, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_are_shown_and_integers_are_not_rounded() {
        let cases = [
            (0.0, "0"),
            (1.0, "1.000"),
            (12.345, "12.35"),
            (999.94, "999.9"),
            (9.999_96, "10.00"),
            (12_345.6, "12346"),
            (999_940.0, "999940"),
            (1_234_567.0, "1.235M"),
            (999_999_900.0, "1.000G"),
            (267_065_871.8, "267.1M"),
            (0.000_123_46, "0.0001235"),
            (-12.0, "-12.00"),
            (f64::NAN, "not a number"),
        ];
        for (value, expected) in cases {
            assert_eq!(significant(value), expected, "{value}");
        }
    }

    #[test]
    fn interval_has_the_scale_of_its_median() {
        let scale = Scale::of(1_234_567.0);
        assert_eq!(interval(Some(900_000.0), Some(1_500_000.0), scale).unwrap(), "0.900M to 1.500M");
        assert_eq!(interval(None, Some(1.0), scale), None);
    }

    #[test]
    fn percentages_have_one_decimal_below_a_hundred() {
        assert_eq!(signed_percent(12.34), "+12.3 %");
        assert_eq!(signed_percent(-0.04), "0.0 %");
        assert_eq!(signed_percent(134.4), "+134 %");
        assert_eq!(percent_interval(-0.04, 14.51, 7.0), "0.0 to 14.5");
        assert_eq!(percent_size(-33.51), "33.5");
    }

    #[test]
    fn dates_are_gregorian() {
        let cases = [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400_000, "2000-02-29 00:00 UTC"),
            (1_767_225_599_000, "2025-12-31 23:59 UTC"),
            (1_772_323_500_000, "2026-03-01 00:05 UTC"),
        ];
        for (ms, expected) in cases {
            assert_eq!(date(ms), expected);
        }
    }
}
