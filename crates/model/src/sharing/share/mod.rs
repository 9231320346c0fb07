//! A run or an imported table as one may give it to strangers: what names a person, a machine or a place in its files is
//! taken out, what is compared stays. What is not known to be harmless goes: a setting that is not in the list, a
//! parameter that is free text, what a program said when it failed. Does not know files; `store::shared` writes one.
//!
//! What stays: the machine's topology, its cpu's model, kernel and settings; workloads, placements, samples, evidence,
//! verdicts, times. What goes is in docs/reference/share-rules.md.

mod facts;
mod pseudonyms;
mod record;
mod table;
mod texts;

use std::collections::BTreeMap;

use crate::values::record::{ImportedTable, RunRecord, TrialRecord};

/// What the person who shares wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareOptions {
    /// Command lines stay, without private paths and names.
    pub keep_commands: bool,
    /// What to call the machine; none for its cpu's model.
    pub host: Option<String>,
    /// Names that are known to be private: of this machine, of its user. Replaced wherever they stand alone.
    pub names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SharedRun {
    pub record: RunRecord,
    pub trials: Vec<TrialRecord>,
    /// How often what was taken out, by kind in words.
    pub taken: BTreeMap<&'static str, usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SharedTable {
    pub table: ImportedTable,
    /// How often what was taken out, by kind in words.
    pub taken: BTreeMap<&'static str, usize>,
}

/// A run without what is private. The same run comes out the same each time, so that importing it twice adds nothing. Where
/// its plan had to be changed, its own and its trials' names are made anew: the old ones were made of what was taken out,
/// and who guesses a command could tell by them that the guess is right.
pub fn run(record: &RunRecord, trials: &[TrialRecord], wish: &ShareOptions) -> SharedRun {
    record::share(record, trials, wish)
}

/// An imported table without what is private.
pub fn table(table: &ImportedTable, wish: &ShareOptions) -> SharedTable {
    table::share(table, wish)
}
