//! What STREAM 5.10 prints: the best rate of its four loops. The times of other iterations are not in it. Does not know
//! whether the run kept STREAM's rules; that the arrays were larger than the caches is for the reader to see.

use super::{ImportedReport, ReportError, number, number_with, numbered, row, single};
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

const BANNER: &str = "STREAM version $Revision: ";
const VERSION: &str = "5.10 $";
/// The loops in their order, and how many arrays each goes through.
const LOOPS: [(&str, f64); 4] = [("Copy", 2.0), ("Scale", 2.0), ("Add", 3.0), ("Triad", 3.0)];

/// Whether a text looks like it.
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
                return Err(ReportError::at(at, format!("'{line}' is not known; STREAM 5.10 can be read")));
            }
            if seen {
                return Err(ReportError::at(at, "a second report begins here").hint("import one report a file"));
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
            let array = array.ok_or_else(|| ReportError::at(at, "the size of the arrays is not said above"))?;
            rows.push(one(at, line, &words, size.0, size.1 * array)?);
        } else if line.starts_with("Failed Validation") {
            return Err(ReportError::at(at, "STREAM found its own results wrong: the rates mean nothing"));
        } else if line.starts_with("Solution Validates:") {
            validated = true;
        }
    }
    if let Some((missing, _)) =
        LOOPS.iter().find(|(name, _)| !rows.iter().any(|row| row.test.ends_with(&name.to_lowercase())))
    {
        return Err(ReportError::cut(&format!("there is no line '{missing}:'")));
    }
    if !validated {
        return Err(ReportError::cut("there is no line 'Solution Validates:'"));
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
        .ok_or_else(|| ReportError::at(at, format!("'{line}' is no line of a rate")))?;
    // Both are rounded: the time to a millionth of a second, the rate to a tenth.
    let expected = bytes / seconds / 1e6;
    if (rate - expected).abs() > expected * 0.6e-6 / seconds + 0.1 {
        return Err(ReportError::at(at, format!("{rate} MB/s do not fit the time, which gives {expected:.1}"))
            .hint("the file was changed, or is of another kind of STREAM"));
    }
    Ok(row(&format!("stream {}", name.to_lowercase()), "bandwidth", "MB/s", Better::Higher, rate))
}
