//! Anonymises runs and imported tables for publication: names of persons, machines and paths are removed, compared
//! values are kept. Anything not known to be harmless is removed: unlisted settings, free-text parameters, and output
//! of failed programs. Must not depend on files; `store::shared` writes them.
//!
//! Kept: topology, CPU model, kernel and settings; workloads, placements, samples, evidence, verdicts, times. The
//! removed data are listed in docs/reference/share-rules.md.

mod efficiency;
mod facts;
mod pseudonyms;
mod record;
mod table;
mod texts;

use std::collections::BTreeMap;

use crate::values::record::{ImportedTable, RunRecord, TrialRecord};

/// Options of sharing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareOptions {
    /// Keep command lines, without private paths and names.
    pub keep_commands: bool,
    /// Name of the machine; `None` for its CPU model.
    pub host: Option<String>,
    /// Private names, such as host and user names. Replaced wherever they occur as whole words.
    pub names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SharedRun {
    pub record: RunRecord,
    pub trials: Vec<TrialRecord>,
    /// Number of removed items by kind.
    pub taken: BTreeMap<&'static str, usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SharedTable {
    pub table: ImportedTable,
    /// Number of removed items by kind.
    pub taken: BTreeMap<&'static str, usize>,
}

/// Returns a run without private data. The result is deterministic, so that importing it twice adds nothing. If the
/// plan had to change, new ids are derived for the run and its trials: the original ids are hashes of the removed data,
/// with which a guessed command could be confirmed.
pub fn run(record: &RunRecord, trials: &[TrialRecord], options: &ShareOptions) -> SharedRun {
    record::share(record, trials, options)
}

/// Returns an imported table without private data.
pub fn table(table: &ImportedTable, options: &ShareOptions) -> SharedTable {
    table::share(table, options)
}
