//! The path of a run's file: directories `name=value` as in Hive, which readers interpret as columns.

use std::fmt::Write as _;

use model::values::record::RunRecord;

/// The value that Hive writes for a missing or empty one.
const EMPTY: &str = "__HIVE_DEFAULT_PARTITION__";

/// The path of a run's file relative to the export's directory or prefix, separated by `/`.
pub(super) fn file(record: &RunRecord, machine_class: &str, date: &str) -> String {
    let (experiment, run) = (safe(&record.plan.experiment), safe(&record.id.0));
    format!("date={}/experiment={experiment}/machine={}/{run}.parquet", safe(date), safe(machine_class))
}

/// Encodes a value as a path component: letters, digits and `-_.` are kept, other bytes become `%2F`, as in a URL. The
/// first must be a letter or a digit: readers skip files that begin with `.` or `_`, and `..` is the parent directory.
fn safe(value: &str) -> String {
    if value.is_empty() {
        return EMPTY.into();
    }
    value.bytes().enumerate().fold(String::new(), |mut out, (index, byte)| {
        if byte.is_ascii_alphanumeric() || (index > 0 && b"-_.".contains(&byte)) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a String cannot fail");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_components_are_safe_and_distinct() {
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
