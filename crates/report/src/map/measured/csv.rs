//! A measured map as CSV: one value per line, unrounded.

use model::placements::measured_map::MeasuredMap;
use model::values::record::RunRecord;

use super::rows;
use crate::table::{csv_number, csv_text};

const COLUMNS: [&str; 14] = [
    "run",
    "simulated",
    "what",
    "from_cpus",
    "to",
    "how",
    "bytes",
    "unit",
    "median",
    "ci_low",
    "ci_high",
    "samples",
    "suspect",
    "smoke",
];

/// The kinds `core-to-core`, `memory-latency`, `bandwidth`, `latency-by-size`, `loaded-latency`, `load` and `smt` in
/// one table.
pub fn csv(record: &RunRecord, map: &MeasuredMap) -> String {
    let mut lines: Vec<Vec<String>> = vec![COLUMNS.map(str::to_string).to_vec()];
    for row in rows(map) {
        let value = row.value;
        lines.push(vec![
            record.id.0.clone(),
            record.simulated.clone().unwrap_or_default(),
            row.what.into(),
            row.from,
            row.to,
            row.how,
            row.bytes.map_or(String::new(), |bytes| bytes.to_string()),
            value.unit.clone(),
            csv_number(Some(value.median)),
            csv_number(value.ci_low),
            csv_number(value.ci_high),
            value.samples.len().to_string(),
            value.suspect.to_string(),
            record.stamp().smoke.to_string(),
        ]);
    }
    csv_text(&lines)
}
