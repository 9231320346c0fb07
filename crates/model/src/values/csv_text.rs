//! Text in cells of CSV files. Must not depend on what the cells mean.

use std::borrow::Cow;

/// Returns a text that spreadsheets do not execute as a formula: one that begins like a formula gets an apostrophe,
/// which spreadsheets treat as "this is text". Numbers are not changed.
pub fn without_formula(text: &str) -> Cow<'_, str> {
    let begins_formula = text.len() > 1 && text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if begins_formula && text.parse::<f64>().is_err() { format!("'{text}").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_text() {
        for text in ["=HYPERLINK(\"http://x\")", "@SUM(1)", "+1+2", "-2+3", "\t=1", "\r=1", "--flag"] {
            assert_eq!(without_formula(text), format!("'{text}"));
        }
        for text in ["-1.5e-3", "+4", "-inf", "a=b", "0-3", "-", "", "gzip -k"] {
            assert_eq!(without_formula(text), text);
        }
    }
}
