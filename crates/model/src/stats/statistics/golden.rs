//! The golden values of this module's tests: tests/golden/statistics.json, made by `make_statistics.py` beside it with
//! SciPy 1.17.1 and `NumPy` 2.4.6, and by the papers' formulas written out in Python where SciPy has none.

use serde_json::Value;

use super::Interval;

const GOLDEN: &str = include_str!("../../../tests/golden/statistics.json");

/// The distributions of two libraries agree to about this, as a share of the value.
const TOLERANCE: f64 = 1e-9;

/// The cases of one section.
pub fn cases(section: &str) -> Vec<Value> {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let cases = golden[section].as_array().unwrap_or_else(|| panic!("no section {section}")).clone();
    assert!(!cases.is_empty(), "{section}");
    cases
}

pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

/// A JSON list of numbers.
pub fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}")).iter().map(number).collect()
}

/// The same but for rounding.
pub fn assert_close(actual: f64, expected: f64, name: &str) {
    let allowed = TOLERANCE * expected.abs().max(1e-6);
    assert!((actual - expected).abs() <= allowed, "{name}: {actual} is not {expected}");
}

/// Both ends the same but for rounding of either; `null` is no interval.
pub fn assert_interval(actual: Option<Interval>, expected: &Value, name: &str) {
    if expected.is_null() {
        assert_eq!(actual, None, "{name}");
        return;
    }
    let (actual, expected) = (actual.unwrap_or_else(|| panic!("{name}: no interval")), numbers(expected));
    let allowed = TOLERANCE * expected[0].abs().max(expected[1].abs());
    let near = (actual.low - expected[0]).abs() <= allowed && (actual.high - expected[1]).abs() <= allowed;
    assert!(near, "{name}: {actual:?} is not {expected:?}");
}
