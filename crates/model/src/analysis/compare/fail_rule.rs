//! The condition under which a comparison fails a script: `slower > 3%`.

use crate::values::comparison::{ComparedValue, Comparison, Replication};
use crate::values::units::parse_share;
use crate::values::workload::Better;

/// Words for the directions of a change, in both senses.
const WORSE: [&str; 2] = ["slower", "worse"];
const BETTER: [&str; 2] = ["faster", "better"];

/// Fails if a main metric has changed in one direction by more than a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct FailRule {
    is_worse: bool,
    limit_percent: f64,
}

/// The changes of a comparison that a rule rejects or cannot judge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailCheck {
    /// Test and column of each change whose whole interval is beyond the limit.
    pub failed: Vec<(String, String)>,
    /// Test and column of each change without a conclusion.
    pub unknown: Vec<(String, String)>,
}

impl FailRule {
    /// Parses `slower > 3%`; `worse`, `faster` and `better` are the other words.
    ///
    /// # Errors
    /// The reason why the text is not a rule.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a condition; write it as 'slower > 3%'");
        let (word, limit) = text.split_once('>').ok_or_else(wrong)?;
        let word = word.trim();
        let is_worse = WORSE.contains(&word);
        if !is_worse && !BETTER.contains(&word) {
            return Err(wrong());
        }
        let limit = limit.trim();
        let share = if limit.trim_end_matches('%').trim() == "0" { Ok(0.0) } else { parse_share(limit) };
        Ok(Self { is_worse, limit_percent: 100.0 * share? })
    }

    /// Checks the main metric of every test in every column that is compared with a baseline.
    pub fn check(&self, comparison: &Comparison) -> FailCheck {
        let mut check = FailCheck::default();
        for row in comparison.rows.iter().filter(|row| row.main) {
            for column in comparison.compared() {
                let Some(value) = row.values.get(column) else { continue };
                let of = || (row.test.clone(), column.to_string());
                match self.is_beyond(value, row.better) {
                    Some(true) => check.failed.push(of()),
                    Some(false) => {}
                    None => check.unknown.push(of()),
                }
            }
        }
        check
    }

    /// Whether the whole interval of a change is beyond the limit; `None` without a conclusion.
    fn is_beyond(&self, value: &ComparedValue, better: Better) -> Option<bool> {
        value.difference?;
        if value.replication == Some(Replication::Trials) {
            return None;
        }
        let grows = self.is_worse == (better == Better::Lower);
        let nearest = if grows { value.ci_low? } else { -value.ci_high? };
        Some(nearest > self.limit_percent)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, compare, finding, record};
    use super::super::{By, ComparedRun};
    use super::*;

    fn rule(text: &str) -> FailRule {
        FailRule::parse(text).unwrap()
    }

    #[test]
    fn single_runs_on_each_side_are_unknown() {
        let mut comparison = comparison(Better::Lower, 1.5, 10);
        for value in comparison.rows[0].values.values_mut() {
            value.replication = Some(Replication::Trials);
        }
        let check = rule("slower > 3%").check(&comparison);
        assert_eq!((check.failed.len(), check.unknown.len()), (0, 1));
    }

    fn comparison(better: Better, factor: f64, blocks: u32) -> Comparison {
        let samples = |factor: f64, phase: u32| -> Vec<f64> {
            (0..blocks).map(|block| factor * (100.0 + 0.1 * f64::from((block * 7 + phase) % 5))).collect()
        };
        let record = record("a", &[], None);
        let finding = finding(vec![
            cell("t", "kernel", better, &samples(1.0, 0)),
            cell("t", "other", better, &samples(factor, 2)),
        ]);
        compare(&[ComparedRun { record: &record, finding: &finding }], &By::Placement, Some("kernel")).unwrap()
    }

    #[test]
    fn conditions_are_a_direction_and_a_percentage() {
        assert_eq!(rule("slower > 3%"), FailRule { is_worse: true, limit_percent: 3.0 });
        assert_eq!(rule("better>0%"), FailRule { is_worse: false, limit_percent: 0.0 });
        for wrong in ["", "slower", "slower < 3%", "slow > 3%", "slower > 3", "slower > -3%", "slower > x%"] {
            assert!(FailRule::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn whole_interval_must_be_beyond_the_limit() {
        let failed = |text: &str, better, factor| !rule(text).check(&comparison(better, factor, 10)).failed.is_empty();
        assert!(failed("slower > 3%", Better::Lower, 1.05));
        assert!(!failed("slower > 5%", Better::Lower, 1.05), "the interval contains the limit");
        assert!(!failed("slower > 3%", Better::Lower, 0.9));
        assert!(failed("slower > 3%", Better::Higher, 0.95));
        assert!(failed("faster > 3%", Better::Higher, 1.05));
        assert!(failed("faster > 3%", Better::Lower, 0.95));
        assert!(!failed("slower > 0%", Better::Lower, 1.0));
    }

    #[test]
    fn changes_without_an_interval_are_unknown() {
        let check = rule("slower > 3%").check(&comparison(Better::Lower, 2.0, 2));
        assert_eq!(check.unknown, [("t".to_string(), "other".to_string())]);
        assert!(check.failed.is_empty());
    }
}
