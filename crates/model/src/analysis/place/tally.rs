//! Counts of the trials of a search: without a result, disturbed, failed.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::values::record::TrialRecord;
use crate::values::trial::{Grade, TrialStatus};

/// Share of failed runs above which the others are a selection that does not represent the program.
const BROKEN: f64 = 0.1;
/// Minimum number of failures that are not chance.
const FAILURES_MIN: u32 = 2;

/// Counts of the trials so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Number of trials without a result: failed, stopped, or not verified.
    pub without_result: u32,
    /// Number of disturbed trials.
    pub suspect: u32,
    suspect_reasons: BTreeMap<String, u32>,
    /// Number of trials and of failures of the program, by cell.
    cells: BTreeMap<usize, (u32, u32)>,
    last_failure: String,
}

/// Failures of the program itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgramFailures {
    pub failed: u32,
    pub runs: u32,
    /// Reason of the last failure, with the last output of the program.
    pub last: String,
    /// Whether more than a tenth of the runs failed, so that there is no answer.
    pub most: bool,
}

impl Tally {
    pub fn add(&mut self, records: &[&TrialRecord]) {
        for record in records {
            match record.verdict.grade {
                Grade::Invalid => self.without_result += 1,
                Grade::Suspect => {
                    self.suspect += 1;
                    for reason in &record.verdict.reasons {
                        *self.suspect_reasons.entry(kind_of(reason)).or_default() += 1;
                    }
                }
                Grade::Valid => {}
            }
            let (runs, failures) = self.cells.entry(record.trial.cell).or_default();
            *runs += 1;
            if let TrialStatus::Failed(reason) = &record.outcome.status
                && has_started(record)
            {
                *failures += 1;
                self.last_failure.clone_from(reason);
            }
        }
    }

    /// Returns the most frequent reason of disturbed trials.
    pub fn suspect_reason(&self) -> Option<&str> {
        let most = self.suspect_reasons.iter().max_by_key(|(_, count)| **count);
        most.map(|(reason, _)| reason.as_str())
    }

    /// Returns how often the program failed, if it was more often than once. A candidate that never succeeds does
    /// not count, unless the program fails without a placement too.
    pub fn program_failures(&self) -> Option<ProgramFailures> {
        let baseline_fails = self.cells.get(&0).is_some_and(|(_, failures)| *failures > 0);
        let counted = self.cells.values().filter(|(runs, failures)| baseline_fails || failures < runs);
        let (runs, failed) = counted.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let share = f64::from(failed) / f64::from(runs.max(1));
        (failed >= FAILURES_MIN).then(|| ProgramFailures {
            failed,
            runs,
            last: self.last_failure.clone(),
            most: share > BROKEN,
        })
    }
}

/// Whether the program started. Otherwise its placement failed, for example because one of its CPUs is offline.
fn has_started(record: &TrialRecord) -> bool {
    record.outcome.evidence.wall.0 > 0
}

/// The reason without its figures, so that equal reasons count together.
fn kind_of(reason: &str) -> String {
    let words = reason.split_whitespace().take_while(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
    let mut words: Vec<&str> = words.collect();
    // "it was stopped for 300 ms" without its figure must not end with "for".
    while words.last().is_some_and(|word| matches!(*word, "for" | "of" | "only" | "by" | "to")) {
        words.pop();
    }
    let kind = words.join(" ");
    if kind.is_empty() { reason.to_string() } else { kind }
}
