//! Where a run's file lies: folders `name=value` as Hive makes them, which readers take for columns.

use std::fmt::Write as _;

use model::values::record::RunRecord;

/// What Hive and those after it write for a value that is missing or empty.
const EMPTY: &str = "__HIVE_DEFAULT_PARTITION__";

/// The file of a run, below the folder or prefix that holds them all; `/` between its parts.
pub(super) fn file(record: &RunRecord, machine_class: &str, date: &str) -> String {
    let (experiment, run) = (safe(&record.plan.experiment), safe(&record.id.0));
    format!("date={}/experiment={experiment}/machine={}/{run}.parquet", safe(date), safe(machine_class))
}

/// A value as a part of a path: letters, digits and `-_.` stay, other bytes become `%2F`, as in a URL. The first must be a
/// letter or a digit: readers skip files that begin with `.` or `_`, and `..` leads elsewhere.
fn safe(value: &str) -> String {
    if value.is_empty() {
        return EMPTY.into();
    }
    value.bytes().enumerate().fold(String::new(), |mut out, (index, byte)| {
        if byte.is_ascii_alphanumeric() || (index > 0 && b"-_.".contains(&byte)) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a String takes all");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_safe_in_paths_and_stay_apart() {
        let cases = [
            ("quick", "quick"),
            ("shell-8_b.2", "shell-8_b.2"),
            ("", EMPTY),
            ("..", "%2E."),
            ("../../etc", "%2E.%2F..%2Fetc"),
            ("a=b", "a%3Db"),
            ("a%3Db", "a%253Db"),
            (".hidden", "%2Ehidden"),
            ("_skipped", "%5Fskipped"),
            ("two words", "two%20words"),
            ("größe\n\0", "gr%C3%B6%C3%9Fe%0A%00"),
        ];
        for (value, expected) in cases {
            assert_eq!(safe(value), expected, "{value:?}");
        }
    }
}
