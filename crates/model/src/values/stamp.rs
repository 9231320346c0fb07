//! Stamps of results that say nothing about a real machine: those of simulated runs and of smoke tests. The only place
//! that decides which runs have a stamp.

use serde::{Deserialize, Serialize};

use crate::values::plan::Plan;
use crate::values::record::{RunRecord, RunSummary};

/// Marks of the figures of one or several runs. Field names are part of the JSON contract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// A model generated them.
    #[serde(default)]
    pub simulated: bool,
    /// A smoke test measured them: its sizes are too small for a result, so no claim is made.
    #[serde(default)]
    pub smoke: bool,
}

impl Stamp {
    /// Returns the stamp of a table with the results of all these runs.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a RunRecord>) -> Self {
        let stamps = records.into_iter().map(RunRecord::stamp);
        stamps.fold(Self::default(), |all, one| Self {
            simulated: all.simulated || one.simulated,
            smoke: all.smoke || one.smoke,
        })
    }

    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl RunRecord {
    pub fn stamp(&self) -> Stamp {
        Stamp { simulated: self.simulated.is_some(), smoke: self.plan.is_smoke() }
    }
}

impl RunSummary {
    pub fn stamp(&self) -> Stamp {
        Stamp { simulated: self.simulated.is_some(), smoke: self.smoke }
    }
}

impl Plan {
    /// Whether the plan has smoke-test sizes.
    pub fn is_smoke(&self) -> bool {
        is_smoke_command(&self.command)
    }
}

/// Whether these arguments request smoke-test sizes. Those after `--` belong to another program.
pub fn is_smoke_command(words: &[impl AsRef<str>]) -> bool {
    words.iter().map(AsRef::as_ref).take_while(|word| *word != "--").any(|word| word == "--smoke")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_arguments_make_a_smoke_test() {
        let cases: [(&[&str], bool); 4] = [
            (&["run", "quick", "--smoke"], true),
            (&["run", "quick"], false),
            (&["measure", "command", "--", "make", "--smoke"], false),
            (&[], false),
        ];
        for (words, expected) in cases {
            assert_eq!(is_smoke_command(words), expected, "{words:?}");
        }
    }
}
