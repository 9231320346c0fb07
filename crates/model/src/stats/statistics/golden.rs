//! Golden values of the tests of this module: tests/golden/statistics.json, created by `make_statistics.py` in the same
//! directory with SciPy 1.17.1 and `NumPy` 2.4.6, or by the formulas of the papers where SciPy has none.

use serde_json::Value;

use super::Interval;

const GOLDEN: &str = include_str!("../../../tests/golden/statistics.json");

/// Relative accuracy to which the distributions of the two libraries agree.
const TOLERANCE: f64 = 1e-9;

/// Returns the cases of one section.
pub fn cases(section: &str) -> Vec<Value> {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let cases = golden[section].as_array().unwrap_or_else(|| panic!("no section {section}")).clone();
    assert!(!cases.is_empty(), "{section}");
    cases
}

pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

/// Reads a JSON list of numbers.
pub fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}")).iter().map(number).collect()
}

/// Asserts equality except for rounding.
pub fn assert_close(actual: f64, expected: f64, name: &str) {
    let allowed = TOLERANCE * expected.abs().max(1e-6);
    assert!((actual - expected).abs() <= allowed, "{name}: {actual} differs from {expected}");
}

/// Asserts equality of both ends except for rounding; `null` means that there is no interval.
pub fn assert_interval(actual: Option<Interval>, expected: &Value, name: &str) {
    if expected.is_null() {
        assert_eq!(actual, None, "{name}");
        return;
    }
    let (actual, expected) = (actual.unwrap_or_else(|| panic!("{name}: no interval")), numbers(expected));
    let allowed = TOLERANCE * expected[0].abs().max(expected[1].abs());
    let near = (actual.low - expected[0]).abs() <= allowed && (actual.high - expected[1]).abs() <= allowed;
    assert!(near, "{name}: {actual:?} differs from {expected:?}");
}
