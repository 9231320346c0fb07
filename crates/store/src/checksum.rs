//! Checksums of stored rows: computed from the values that are written, and compared when they are read. They detect
//! damage, such as bits that a disk has flipped, but no intent. Must not depend on what the values mean.

use model::values::trial::Sample;
use twox_hash::XxHash3_64;

use crate::error::StoreErrorKind;
use crate::sql_value::Value;

/// Cause of a [`crate::StoreError::Damaged`].
pub(crate) const MISMATCH: &str = "its checksum does not match";

/// Returns the checksum of the values of a row. Stored files depend on it: it must not change.
pub(crate) fn of_row(values: &[Value<'_>]) -> i64 {
    let mut bytes = Vec::with_capacity(4096);
    values.iter().for_each(|value| append(&mut bytes, value));
    XxHash3_64::oneshot(&bytes) as i64
}

/// Returns the checksum of a trial from that of its row and its samples.
pub(crate) fn with_samples(row: i64, samples: &[Sample]) -> i64 {
    let mut bytes = Vec::with_capacity(8 + 32 * samples.len());
    bytes.extend(row.to_le_bytes());
    for Sample { series, value } in samples {
        append(&mut bytes, &Value::from(series.as_str()));
        append(&mut bytes, &Value::from(*value));
    }
    XxHash3_64::oneshot(&bytes) as i64
}

/// Compares the values of a row with its checksum. `None` stands for a row that an earlier version of this program has
/// stored.
pub(crate) fn verify(stored: Option<i64>, values: &[Value<'_>], name: &str) -> Result<(), StoreErrorKind> {
    match stored {
        Some(stored) if stored != of_row(values) => Err(StoreErrorKind::Unreadable(format!("{name}: {MISMATCH}"))),
        _ => Ok(()),
    }
}

/// Appends a value so that no other list of values has the same bytes.
fn append(bytes: &mut Vec<u8>, value: &Value<'_>) {
    let (kind, number) = match value {
        Value::Null | Value::NullReal => (0, 0),
        Value::Whole(number) => (1, *number as u64),
        // SQLite stores -0.0 as 0.
        Value::Real(number) => (2, (number + 0.0).to_bits()),
        Value::Text(text) => (3, text.len() as u64),
    };
    bytes.push(kind);
    bytes.extend(number.to_le_bytes());
    if let Value::Text(text) = value {
        bytes.extend(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_equal_the_stored_ones() {
        let row: [Value<'_>; 4] = ["a".into(), 7_i64.into(), 0.5.into(), Value::Null];
        assert_eq!(of_row(&row), 3_114_384_780_725_735_256);
        let sample = |value| Sample { series: "s".into(), value };
        assert_eq!(with_samples(1, &[sample(0.0), sample(1.5)]), -6_923_391_909_694_149_754);
        assert_eq!(with_samples(1, &[sample(-0.0)]), with_samples(1, &[sample(0.0)]));
    }

    #[test]
    fn moved_and_changed_values_have_other_checksums() {
        let rows: [&[Value<'_>]; 7] = [
            &[],
            &["ab".into(), "c".into()],
            &["a".into(), "bc".into()],
            &["abc".into()],
            &[Value::Null, "abc".into()],
            &[0_i64.into(), "abc".into()],
            &[0.0.into(), "abc".into()],
        ];
        let sums: std::collections::HashSet<i64> = rows.iter().map(|row| of_row(row)).collect();
        assert_eq!(sums.len(), rows.len());
    }
}
