//! Parses numbers, sizes and durations in the notation of fio 3, which differs from that of this program: letters are
//! binary unless `kb_base` is 1000, and `KiB` is then the other base. Source: fio(1), and the block sizes printed by
//! fio 3.33 for `fio --ioengine=null --bs=...`.

use crate::values::units::Nanos;

const LETTERS: [(char, u32); 5] = [('k', 1), ('m', 2), ('g', 3), ('t', 4), ('p', 5)];

/// A size, and whether its suffix has fio's inverted meaning of `iB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub bytes: u64,
    /// Whether the suffix is `iB` while `4k` is 4096: `4KiB` is then 4000 bytes.
    pub surprises: bool,
}

/// Parses a count; fio accepts size suffixes for counts too.
pub(super) fn count(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a whole number");
    let (digits, unit) = split(text).ok_or_else(wrong)?;
    match LETTERS.iter().find(|(letter, _)| unit == letter.to_string()) {
        Some((_, power)) => digits.checked_mul(1024u64.pow(*power)).ok_or_else(wrong),
        None if unit.is_empty() => Ok(digits),
        None => Err(wrong()),
    }
}

/// Parses a size; `k` is `kb_base` bytes: 1024 or 1000.
pub(super) fn size(text: &str, kb_base: u64) -> Result<Size, String> {
    if text.contains(',') {
        return Err(format!("'{text}' has a size per direction; only a single size is supported"));
    }
    if text.contains('%') {
        return Err(format!("'{text}' is a percentage of a file, which is not supported; use bytes, such as 1g"));
    }
    let wrong = || format!("'{text}' is not a size; fio's forms are 4k, 64k, 1g or 4096");
    let (digits, unit) = split(text).ok_or_else(wrong)?;
    let mut letters = unit.chars();
    let power = match letters.next() {
        None => 0,
        Some(first) => match LETTERS.iter().find(|(letter, _)| *letter == first) {
            Some((_, power)) => *power,
            None if unit == "b" => 0,
            None => return Err(wrong()),
        },
    };
    let other = match letters.as_str() {
        "ib" => true,
        "" | "b" | "i" => false,
        _ => return Err(wrong()),
    };
    // The two bases are swapped: IEC suffixes are decimal while a plain k is binary.
    let base = match (other, kb_base) {
        (false, base) => base,
        (true, 1000) => 1024,
        (true, _) => 1000,
    };
    let bytes = base.checked_pow(power).and_then(|factor| digits.checked_mul(factor));
    // Kernel interfaces take no larger sizes.
    let bytes = bytes.filter(|bytes| *bytes < 1 << 62).ok_or_else(wrong)?;
    Ok(Size { bytes, surprises: other && base == 1000 })
}

/// Parses a duration; a bare number is in seconds.
pub(super) fn time(text: &str) -> Result<Nanos, String> {
    let wrong = || format!("'{text}' is not a duration; fio's forms are 30, 30s, 500ms or 2m");
    let (digits, unit) = split(text).ok_or_else(wrong)?;
    let factor: u64 = match unit.as_str() {
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(wrong()),
    };
    digits.checked_mul(factor).map(Nanos).ok_or_else(wrong)
}

/// Formats a duration without rounding: `90s` rather than `1m30s`.
pub(super) fn exact_time(time: Nanos) -> String {
    const UNITS: [(&str, u64); 3] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let whole = UNITS.iter().find(|(_, nanos)| time.0.is_multiple_of(*nanos));
    whole.map_or_else(|| format!("{}ns", time.0), |(unit, nanos)| format!("{}{unit}", time.0 / nanos))
}

/// Parses a switch: only the name, or with 1 or 0.
pub(super) fn switch(value: Option<&str>) -> Result<bool, String> {
    match value {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(other) => Err(format!("'{other}' is neither 0 nor 1")),
    }
}

/// Splits digits (hexadecimal after `0x`) from the lower-case suffix.
fn split(text: &str) -> Option<(u64, String)> {
    let text = text.to_ascii_lowercase();
    if let Some(digits) = text.strip_prefix("0x") {
        let known = !digits.starts_with('+');
        return u64::from_str_radix(digits, 16).ok().filter(|_| known).map(|number| (number, String::new()));
    }
    let at = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..at].parse().ok()?, text[at..].to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values printed by fio 3.33.
    #[test]
    fn sizes_match_fio() {
        let cases = [
            ("4k", 4096, 4000),
            ("4kb", 4096, 4000),
            ("4ki", 4096, 4000),
            ("4kib", 4000, 4096),
            ("4KiB", 4000, 4096),
            ("4K", 4096, 4000),
            ("4b", 4, 4),
            ("4096", 4096, 4096),
            ("512B", 512, 512),
            ("1m", 1 << 20, 1_000_000),
            ("1mb", 1 << 20, 1_000_000),
            ("1mi", 1 << 20, 1_000_000),
            ("0x1000", 4096, 4096),
        ];
        for (text, binary, decimal) in cases {
            assert_eq!(size(text, 1024).map(|size| size.bytes), Ok(binary), "{text}");
            assert_eq!(size(text, 1000).map(|size| size.bytes), Ok(decimal), "{text}");
        }
        assert!(size("4KiB", 1024).unwrap().surprises && !size("4KiB", 1000).unwrap().surprises);
        // fio ignores an unknown suffix; this program rejects it.
        for text in ["0.5k", "4x", "4e3", "4 k", "k", "", "-1", "4kk", "50%", "4k,8k", "99999999999t", "0x+1"] {
            assert!(size(text, 1024).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_durations_and_switches_parse() {
        assert_eq!((count("32"), count("2k"), count("0x10")), (Ok(32), Ok(2048), Ok(16)));
        assert!(["", "x", "1.5", "-1", "3kb"].iter().all(|text| count(text).is_err()));
        let times =
            [("60", "60s"), ("1m", "60s"), ("500ms", "500ms"), ("90s", "90s"), ("10us", "10us"), ("1h", "3600s")];
        for (text, expected) in times {
            assert_eq!(time(text).map(exact_time), Ok(expected.to_string()), "{text}");
        }
        assert!(["", "1.5s", "soon", "5sec", "99999999999h"].iter().all(|text| time(text).is_err()));
        assert_eq!(exact_time(Nanos(1_001)), "1001ns");
        let switches = [None, Some("1"), Some("0"), Some("yes")].map(switch);
        assert_eq!(switches.map(Result::ok), [Some(true), Some(true), Some(false), None]);
    }
}
