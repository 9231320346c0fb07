//! Parses and formats sizes and durations: `1GiB`, `64k`, `5s`, `250ms`.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A frequency in kHz, as in cpufreq.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kilohertz(pub u64);

const FREQUENCY_UNITS: [(&str, f64); 4] = [("ghz", 1e6), ("mhz", 1e3), ("khz", 1.0), ("hz", 1e-3)];

const SIZE_UNITS: [(&str, u64); 15] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    // A bare letter is binary, as in fio, dd and numactl.
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("bytes", 1),
    ("b", 1),
    ("", 1),
];

const TIME_UNITS: [(&str, f64); 6] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// Parses a percentage such as `2%` or `0.5%` into a fraction (0.02, 0.005) above 0 and at most 1.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let percent = number.filter(|percent| *percent > 0.0 && *percent <= 100.0);
    percent.map(|percent| percent / 100.0).ok_or_else(|| format!("'{text}' is not a percentage between 0% and 100%"))
}

/// Returns a fraction in percent, as it was typed: 0.07 is 7, not 7.000000000000001.
pub fn share_percent(share: f64) -> f64 {
    (1e6 * share).round() / 1e4
}

impl Bytes {
    /// Parses `4096`, `64KiB`, `1.5GiB`, `10MB`; a bare letter (`64k`) is binary.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (number, unit) = split_unit(text);
        let unit = unit.to_ascii_lowercase();
        let factor = SIZE_UNITS.iter().find(|(name, _)| *name == unit);
        let (Ok(number), Some((_, factor))) = (number.parse::<f64>(), factor) else {
            return Err(format!("'{text}' is not a size; use the form 64KiB, 1GiB or 4096"));
        };
        let bytes = number * *factor as f64;
        // Kernel interfaces take sizes below 2^63. The f64 is checked before the cast.
        if !bytes.is_finite() || !(0.0..9.2e18).contains(&bytes) {
            return Err(format!("'{text}' is not a valid size: it must be below 8 EiB"));
        }
        Ok(Self(bytes.round() as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        for (name, factor) in UNITS {
            if self.0 >= factor {
                let value = self.0 as f64 / factor as f64;
                let text =
                    if self.0.is_multiple_of(factor) { format!("{value}{name}") } else { format!("{value:.1}{name}") };
                return f.pad(&text);
            }
        }
        f.pad(&format!("{}B", self.0))
    }
}

impl Kilohertz {
    /// Parses `3.6GHz`, `3600MHz`, `3600000kHz`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (number, unit) = split_unit(text);
        let factor = FREQUENCY_UNITS.iter().find(|(name, _)| *name == unit.to_ascii_lowercase());
        let khz = number.parse::<f64>().ok().zip(factor).map(|(number, (_, factor))| (number * factor).round());
        // The f64 is checked before the cast.
        let khz = khz.filter(|khz| (1.0..1e9).contains(khz));
        khz.map(|khz| Self(khz as u64))
            .ok_or_else(|| format!("'{text}' is not a frequency; use the form 3.6GHz or 800MHz"))
    }
}

impl fmt::Display for Kilohertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let khz = self.0 as f64;
        if khz >= 1e6 { f.pad(&format!("{}GHz", khz / 1e6)) } else { f.pad(&format!("{}MHz", khz / 1e3)) }
    }
}

impl Nanos {
    /// Parses `5s`, `250ms`, `1.5m`, `10us`, and sums such as `4m30s`, as they are displayed; a bare number is in seconds,
    /// as in `timeout` and `sleep`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("'{text}' is not a duration; use the form 5s, 250ms or 10m");
        let (mut rest, mut nanos) = (text.trim(), 0.0);
        if let (number, "") = split_unit(rest) {
            return Self::checked(text, number.parse::<f64>().map_err(|_| invalid())? * 1e9);
        }
        loop {
            let (number, unit_and_rest) = split_unit(rest);
            let end = unit_and_rest.find(|c: char| c.is_ascii_digit()).unwrap_or(unit_and_rest.len());
            let (unit, after) = unit_and_rest.split_at(end);
            let (_, factor) = TIME_UNITS.iter().find(|(name, _)| *name == unit.trim_end()).ok_or_else(invalid)?;
            nanos += number.parse::<f64>().map_err(|_| invalid())? * factor;
            if after.is_empty() {
                return Self::checked(text, nanos);
            }
            rest = after;
        }
    }

    fn checked(text: &str, nanos: f64) -> Result<Self, String> {
        if !nanos.is_finite() || !(0.0..9.2e18).contains(&nanos) {
            return Err(format!("'{text}' is not a valid duration: it must be below 292 years"));
        }
        Ok(Self(nanos.round() as u64))
    }

    /// Converts seconds; negative values and NaN become zero.
    pub fn from_seconds(seconds: f64) -> Self {
        Self((seconds.max(0.0) * 1e9) as u64)
    }

    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds();
        let text = match self.0 {
            0..1_000 => format!("{}ns", self.0),
            1_000..1_000_000 => trimmed(seconds * 1e6, "us"),
            1_000_000..1_000_000_000 => trimmed(seconds * 1e3, "ms"),
            1_000_000_000..60_000_000_000 => trimmed(seconds, "s"),
            _ if seconds < 3600.0 => format!("{}m{:02}s", self.0 / 60_000_000_000, self.0 / 1_000_000_000 % 60),
            _ => format!("{}h{:02}m", self.0 / 3_600_000_000_000, self.0 / 60_000_000_000 % 60),
        };
        f.pad(&text)
    }
}

fn trimmed(value: f64, unit: &str) -> String {
    let text = format!("{value:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let at = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    (&text[..at], text[at..].trim_start())
}

/// `1 thread`, `4 threads`.
pub fn thread_count(threads: usize) -> String {
    if threads == 1 { "1 thread".into() } else { format!("{threads} threads") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_with_all_units() {
        let cases = [
            ("4096", 4096),
            ("64k", 65536),
            ("64KiB", 65536),
            ("1.5GiB", 1_610_612_736),
            ("10MB", 10_000_000),
            ("1 GiB", 1 << 30),
            ("8B", 8),
        ];
        for (text, expected) in cases {
            assert_eq!(Bytes::parse(text), Ok(Bytes(expected)), "{text}");
        }
        for text in ["", "GiB", "-1", "1XiB", "1e99TiB", "99999999999TiB", "1..2"] {
            assert!(Bytes::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_round_trip_through_text() {
        for bytes in [0, 1, 1023, 1024, 4096, 3 << 20, 5 << 30, 7 << 40] {
            assert_eq!(Bytes::parse(&Bytes(bytes).to_string()), Ok(Bytes(bytes)));
        }
        assert_eq!(Bytes(1536).to_string(), "1.5KiB");
    }

    #[test]
    fn frequencies_are_read_and_written() {
        for (text, khz, written) in
            [("3.6GHz", 3_600_000, "3.6GHz"), ("800mhz", 800_000, "800MHz"), ("2000000 kHz", 2_000_000, "2GHz")]
        {
            let frequency = Kilohertz::parse(text).unwrap();
            assert_eq!((frequency.0, frequency.to_string().as_str()), (khz, written), "{text}");
        }
        for invalid in ["", "3.6", "fast", "-1GHz", "0Hz", "9e9GHz"] {
            assert!(Kilohertz::parse(invalid).unwrap_err().contains("is not a frequency"), "{invalid}");
        }
    }

    #[test]
    fn durations_parse_and_format() {
        let cases = [
            ("5s", 5_000_000_000),
            ("5", 5_000_000_000),
            ("250ms", 250_000_000),
            ("1.5m", 90_000_000_000),
            ("10us", 10_000),
            ("4m30s", 270_000_000_000),
            ("1h 5m", 3_900_000_000_000),
        ];
        for (text, expected) in cases {
            assert_eq!(Nanos::parse(text), Ok(Nanos(expected)), "{text}");
        }
        for text in ["", "s", "-5s", "-5", "1e3", "5 fortnights", "nan", "4m30", "4m30s5"] {
            assert!(Nanos::parse(text).is_err(), "{text}");
        }
        let shown = [
            (12, "12ns"),
            (1_500, "1.5us"),
            (2_000_000, "2ms"),
            (1_230_000_000, "1.23s"),
            (90_000_000_000, "1m30s"),
            (7_260_000_000_000, "2h01m"),
        ];
        for (nanos, expected) in shown {
            assert_eq!(Nanos(nanos).to_string(), expected);
        }
    }
}
