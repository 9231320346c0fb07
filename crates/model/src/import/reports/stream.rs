//! Parses the output of STREAM 5.10: the best rate of each of the four loops. Does not check that the run followed
//! STREAM's rules, such as arrays larger than the caches.

use super::{ImportedReport, ReportError, number, number_with, numbered, row, single};
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

const BANNER: &str = "STREAM version $Revision: ";
const VERSION: &str = "5.10 $";
/// Name of each loop and number of arrays that it reads and writes.
const LOOPS: [(&str, f64); 4] = [("Copy", 2.0), ("Scale", 2.0), ("Add", 3.0), ("Triad", 3.0)];

pub fn detect(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("STREAM version"))
}

pub fn read(text: &str) -> Result<ImportedReport, ReportError> {
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut rows: Vec<ImportedRow> = Vec::new();
    let (mut element, mut elements, mut validated, mut seen) = (None, None, false, false);
    for (at, line) in numbered(text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with("STREAM version") {
            if line.strip_prefix(BANNER) != Some(VERSION) {
                return Err(ReportError::at(at, format!("unsupported version '{line}'; supported is STREAM 5.10")));
            }
            if seen {
                return Err(ReportError::at(at, "a second report begins here").hint("import one report per file"));
            }
            seen = true;
        } else if let ["This", "system", "uses", bytes, ..] = words.as_slice() {
            element = number(bytes);
        } else if let ["Array", "size", "=", size, ..] = words.as_slice() {
            elements = number(size);
            facts.push(("STREAM's array size".into(), (*size).into()));
        } else if let ["Number", "of", "Threads", "counted", "=", threads] = words.as_slice() {
            facts.push(("STREAM's threads".into(), (*threads).into()));
        } else if let Some(size) = LOOPS.iter().find(|(name, _)| words.first() == Some(&format!("{name}:").as_str())) {
            let array = element.zip(elements).map(|(bytes, count)| bytes * count);
            let array = array.ok_or_else(|| ReportError::at(at, "the array size is missing before this line"))?;
            rows.push(one(at, line, &words, size.0, size.1 * array)?);
        } else if line.starts_with("Failed Validation") {
            return Err(ReportError::at(at, "the validation of STREAM failed; its rates are invalid"));
        } else if line.starts_with("Solution Validates:") {
            validated = true;
        }
    }
    if let Some((missing, _)) =
        LOOPS.iter().find(|(name, _)| !rows.iter().any(|row| row.test.ends_with(&name.to_lowercase())))
    {
        return Err(ReportError::truncated(&format!("the line '{missing}:' is missing")));
    }
    if !validated {
        return Err(ReportError::truncated("the line 'Solution Validates:' is missing"));
    }
    Ok(single(rows, facts))
}

/// `Copy:           43022.6     0.007630     0.007438     0.008350`
fn one(at: usize, line: &str, words: &[&str], name: &str, bytes: f64) -> Result<ImportedRow, ReportError> {
    let figures = match words {
        [_, rate, mean, best, worst] => number_with(rate, 1)
            .zip(number_with(best, 6))
            .filter(|_| number_with(mean, 6).is_some() && number_with(worst, 6).is_some()),
        _ => None,
    };
    let (rate, seconds) = figures
        .filter(|(_, seconds)| *seconds > 0.0)
        .ok_or_else(|| ReportError::at(at, format!("'{line}' is not a line with a rate")))?;
    // The time is rounded to 1 us, the rate to 0.1 MB/s.
    let expected = bytes / seconds / 1e6;
    if (rate - expected).abs() > expected * 0.6e-6 / seconds + 0.1 {
        return Err(ReportError::at(at, format!("the rate is {rate} MB/s, but the time gives {expected:.1}"))
            .hint("the file was modified, or was written by a modified STREAM"));
    }
    Ok(row(&format!("stream {}", name.to_lowercase()), "bandwidth", "MB/s", Better::Higher, rate))
}
