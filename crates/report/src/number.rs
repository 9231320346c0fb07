//! Rounding and formatting of numbers. JSON and CSV contain them unrounded.

use model::values::calendar::utc_date;

/// Significant digits: easy to compare, and as many as most intervals justify.
const DIGITS: usize = 4;

/// Number of digits of the values and percentages of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digits {
    /// Significant digits of values.
    significant: usize,
    /// Decimals of percentages below 100 %.
    decimals: usize,
}

impl Default for Digits {
    fn default() -> Self {
        Self { significant: DIGITS, decimals: 1 }
    }
}

impl Digits {
    /// A number of significant digits; percentages have two decimals fewer, because they usually have two digits before
    /// the point.
    pub fn new(significant: usize) -> Self {
        Self { significant, decimals: significant.saturating_sub(2) }
    }

    /// Digits of geometric means, which are computed from several figures: one more decimal.
    pub(crate) fn of_means(self) -> Self {
        Self { decimals: self.decimals + usize::from(self == Self::default()), ..self }
    }

    pub(crate) fn value(self, value: f64) -> String {
        Scale::with(value, self.significant).write(value)
    }

    /// `+12.3 %`, or `2.34 times, +134 %` for changes of 100 % and more.
    pub(crate) fn change(self, change: f64) -> String {
        let percent = format!("{}{} %", if change > 0.0 { "+" } else { "" }, self.percent(change, change));
        if change < 99.95 {
            return percent;
        }
        let times = 1.0 + change / 100.0;
        let digits = self.significant.saturating_sub(1).max(1);
        format!("{} times, {percent}", Scale::with(times, digits).write(times))
    }

    /// `10.1 to 14.5`: the ends of an interval in percent, with the decimals of its change.
    pub(crate) fn percent_interval(self, low: f64, high: f64, change: f64) -> String {
        format!("{} to {}", self.percent(low, change), self.percent(high, change))
    }

    /// A percentage without its sign `%`, with the decimals of the change that it belongs to.
    pub(crate) fn percent(self, value: f64, change: f64) -> String {
        if !value.is_finite() {
            return "not a number".into();
        }
        let decimals = self.decimals.saturating_sub(usize::from(change.abs() >= 99.95));
        unsigned_zero(format!("{value:.decimals$}"))
    }
}

/// A common scale for a median and the ends of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    divisor: f64,
    suffix: &'static str,
    decimals: usize,
}

impl Scale {
    /// The scale that shows this value with [`DIGITS`] digits.
    pub(crate) fn of(value: f64) -> Self {
        Self::with(value, DIGITS)
    }

    /// The scale that shows this value with a number of digits. Digits before the decimal point are never dropped below
    /// a million, where `1.234M` begins.
    fn with(value: f64, digits: usize) -> Self {
        const STEPS: [(f64, &str); 4] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")];
        let size = value.abs();
        // Just below a step, rounding would give 1000.0M; the next step has a digit less.
        let (divisor, suffix) = STEPS.into_iter().find(|(step, _)| size >= step * 0.99995).unwrap_or((1.0, ""));
        Self { divisor, suffix, decimals: decimals(size / divisor, digits) }
    }

    /// A value in this scale.
    pub(crate) fn write(self, value: f64) -> String {
        if !value.is_finite() {
            return "not a number".into();
        }
        format!("{}{}", unsigned_zero(format!("{:.*}", self.decimals, value / self.divisor)), self.suffix)
    }
}

fn decimals(size: f64, digits: usize) -> usize {
    if !size.is_finite() || size == 0.0 {
        return 0;
    }
    // The exponent after rounding: 9.9999 rounds to 10.00 and has two digits before the point.
    let rounded = format!("{size:.0$e}", digits.saturating_sub(1));
    let exponent: i32 = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    // At most twelve decimals: smaller values need another unit.
    (digits as i32 - 1 - exponent).clamp(0, 12) as usize
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
    let sign = if change > 0.0 { "+" } else { "" };
    format!("{sign}{} %", Digits::default().percent(change, change))
}

/// `10.1 to 14.5`: the ends of an interval in percent, with the decimals of its change.
pub(crate) fn percent_interval(low: f64, high: f64, change: f64) -> String {
    Digits::default().percent_interval(low, high, change)
}

/// `12.3`: the size of a change without its sign, for sentences that state the direction.
pub(crate) fn percent_size(change: f64) -> String {
    Digits::default().percent(change.abs(), change)
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
    fn changes_of_a_hundred_percent_and_more_are_also_factors() {
        let default = Digits::default();
        assert_eq!(default.change(43.67), "+43.7 %");
        assert_eq!(default.change(134.4), "2.34 times, +134 %");
        assert_eq!(default.change(-99.99), "-100 %");
        assert_eq!(default.of_means().change(15.799), "+15.80 %");
        let five = Digits::new(5);
        assert_eq!((five.change(43.6686), five.value(26374.609)), ("+43.669 %".into(), "26375".into()));
        assert_eq!(
            (Digits::new(4).change(43.6686), Digits::new(9).value(26374.609)),
            ("+43.67 %".into(), "26374.6090".into())
        );
        assert_eq!(Digits::new(4).of_means(), Digits::new(4), "the number of digits that was asked for");
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
