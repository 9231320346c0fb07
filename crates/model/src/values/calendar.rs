//! Converts timestamps to UTC dates and back, without a clock and without time zones.

const MS_PER_DAY: u64 = 24 * 60 * 60 * 1000;
/// Period of the Gregorian calendar: 400 years, 97 of them leap years.
const DAYS_PER_400_YEARS: u64 = 400 * 365 + 97;
const FEBRUARY: usize = 1;

/// Returns the UTC date of a timestamp (milliseconds since 1970), such as `2026-11-22`.
pub fn utc_date(unix_ms: u64) -> String {
    let days = unix_ms / MS_PER_DAY;
    let mut year = 1970 + days / DAYS_PER_400_YEARS * 400;
    let mut remaining = days % DAYS_PER_400_YEARS;
    while remaining >= days_of_year(year) {
        remaining -= days_of_year(year);
        year += 1;
    }
    let mut month = 0;
    while remaining >= days_of_month(year, month) {
        remaining -= days_of_month(year, month);
        month += 1;
    }
    format!("{year:04}-{:02}-{:02}", month + 1, remaining + 1)
}

/// Returns the first millisecond of a UTC date such as `2026-11-22`, or of the time that an age such as `7d` or `2w` before
/// `now_unix_ms` is.
pub fn parse_date_or_age(text: &str, now_unix_ms: u64) -> Result<u64, String> {
    let age = text.split_at_checked(text.len().saturating_sub(1)).and_then(|(number, unit)| {
        let days = match unit {
            "d" => 1,
            "w" => 7,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(days * MS_PER_DAY)
    });
    let since = age.map(|age| now_unix_ms.saturating_sub(age)).or_else(|| start_of_date(text));
    since.ok_or_else(|| format!("'{text}' is not a date or an age; use the form 2026-11-22, 7d or 2w"))
}

fn start_of_date(text: &str) -> Option<u64> {
    let mut parts = text.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let is_valid = parts.next().is_none() && (1970..=9999).contains(&year) && (1..=12).contains(&month);
    if !is_valid || !(1..=days_of_month(year, month as usize - 1)).contains(&day) {
        return None;
    }
    let years: u64 = (1970..year).map(days_of_year).sum();
    let months: u64 = (0..month as usize - 1).map(|month| days_of_month(year, month)).sum();
    Some((years + months + day - 1) * MS_PER_DAY)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of_year(year: u64) -> u64 {
    365 + u64::from(is_leap(year))
}

fn days_of_month(year: u64, month: usize) -> u64 {
    const DAYS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    DAYS[month] + u64::from(month == FEBRUARY && is_leap(year))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_ages_are_parsed() {
        for date in ["1970-01-01", "1972-02-29", "2000-03-01", "2026-11-22", "9999-12-31"] {
            assert_eq!(parse_date_or_age(date, 0).map(utc_date).as_deref(), Ok(date));
        }
        assert_eq!(parse_date_or_age("2026-09-21", 0), Ok(1_789_948_800_000));
        assert_eq!(parse_date_or_age("7d", 8 * MS_PER_DAY + 5), Ok(MS_PER_DAY + 5));
        assert_eq!(parse_date_or_age("2w", 5), Ok(0));
        for text in ["", "d", "7", "7y", "2026-13-01", "2026-02-29", "2026-11", "2026-11-22-1", "x-1-1", "\u{e9}"] {
            assert!(parse_date_or_age(text, 0).is_err(), "{text}");
        }
    }

    /// Expected values from `date -u -d @SECONDS +%F`.
    #[test]
    fn utc_dates_match_the_gregorian_calendar() {
        let cases = [
            (0, "1970-01-01"),
            (86_399, "1970-01-01"),
            (86_400, "1970-01-02"),
            (68_169_600, "1972-02-29"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_790_000_000, "2026-09-21"),
            (1_798_761_599, "2026-12-31"),
            (4_107_542_400, "2100-03-01"),
            (253_402_300_799, "9999-12-31"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(utc_date(seconds * 1000), expected, "{seconds}");
            assert_eq!(utc_date(seconds * 1000 + 999), expected, "{seconds}");
        }
        assert_eq!(utc_date(u64::MAX), "584556019-04-03");
    }
}
