//! Exports everything stored of a run as one JSON object.

use std::io::{self, Write};

use model::analysis::finding::{RunFinding, summarise};
use model::values::record::{RunRecord, TrialRecord};
use model::values::stamp::Stamp;
use serde::Serialize;

/// Incremented when a field is removed or changes its meaning; new fields do not change it.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Export<'a> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    stamp: Stamp,
    run: &'a RunRecord,
    trials: &'a [TrialRecord],
    finding: RunFinding,
}

pub(super) fn write(record: &RunRecord, trials: &[TrialRecord], out: &mut dyn Write) -> io::Result<()> {
    let finding = summarise(&record.plan, trials);
    let stamp = record.stamp();
    let export = Export { format: "nearfar-run", version: VERSION, stamp, run: record, trials, finding };
    serde_json::to_writer(&mut *out, &export)?;
    out.write_all(b"\n")
}
