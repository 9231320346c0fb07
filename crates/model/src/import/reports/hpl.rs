//! Parses the output of High-Performance Linpack 2 (`HPL.out`, and the HPL part of HPC Challenge's `hpccoutf.txt`).
//! Each solved system is a separate test, named by size, block size, process grid and variant.

use super::{ImportedReport, ReportError, number, numbered, row, single};
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

const BANNER: &str = "HPLinpack ";
const END: &str = "End of Tests.";

pub fn detect(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(BANNER))
}

pub fn read(text: &str) -> Result<ImportedReport, ReportError> {
    let mut rows: Vec<ImportedRow> = Vec::new();
    let (mut solved, mut passed, mut finished, mut ended) = (0, 0, None, false);
    let mut facts = Vec::new();
    for (at, line) in numbered(text) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(version) = line.strip_prefix(BANNER) {
            if !version.starts_with("2.") {
                return Err(ReportError::at(at, format!("'{line}' is not supported; supported is HPLinpack 2")));
            }
            if ended {
                return Err(ReportError::at(at, "a second report begins here").hint("import one report per file"));
            }
            facts = vec![("HPLinpack".to_string(), words[1].to_string())];
        } else if line == END {
            ended = true;
        } else if let ["Finished", count, "tests", "with", ..] = words.as_slice() {
            finished = count.parse::<usize>().ok();
        } else if line.starts_with("||Ax-b||") && line.contains("......") {
            match words.last() {
                Some(&"PASSED") if passed < solved => passed += 1,
                _ => return Err(ReportError::at(at, "the residual check failed, or the line is truncated")),
            }
        } else if is_variant(words.first().copied().unwrap_or_default()) {
            rows.extend(system(at, line, &words)?);
            solved += 1;
        }
    }
    if !ended {
        return Err(ReportError::truncated(&format!("the line '{END}' is missing")));
    }
    if passed != solved || finished != Some(solved) {
        let finished = finished.unwrap_or(0);
        let what = format!("{solved} systems solved, {passed} residual checks passed, {finished} tests finished");
        return Err(ReportError::whole(what).hint("the file was modified, or tests failed"));
    }
    Ok(single(rows, facts))
}

/// `WR11C2R4`: wall time, row-major, depth, broadcast, recursive factorisation, divisions, panel factorisation, NBMIN.
fn is_variant(word: &str) -> bool {
    let letters: Vec<char> = word.chars().collect();
    matches!(letters.as_slice(), ['W', 'R' | 'C', depth, _, 'L' | 'C' | 'R', division, 'L' | 'C' | 'R', minimum, ..]
        if depth.is_ascii_digit() && division.is_ascii_digit() && minimum.is_ascii_digit())
}

/// `WR11C2R4        2000    80     1     2               1.06              5.060e+00`
fn system(at: usize, line: &str, words: &[&str]) -> Result<Vec<ImportedRow>, ReportError> {
    let wrong = || ReportError::at(at, format!("'{line}' is not a line with the result of a system"));
    let [variant, n, nb, p, q, seconds, rate] = words else { return Err(wrong()) };
    let whole = [n, nb, p, q].into_iter().all(|count| count.parse::<u32>().is_ok());
    let figures = number(n).zip(number(seconds)).zip(number(rate)).filter(|_| whole && rate.contains("e+"));
    let ((order, seconds), rate) = figures.filter(|((_, seconds), _)| *seconds > 0.0).ok_or_else(wrong)?;
    // HPL counts 2/3 n^3 + 3/2 n^2 operations. The time is rounded to 0.01 s.
    let expected = (2.0 / 3.0 * order.powi(3) + 1.5 * order.powi(2)) / seconds / 1e9;
    if (rate / expected - 1.0).abs() > 0.006 / seconds + 0.001 {
        return Err(ReportError::at(at, format!("the rate is {rate} Gflop/s, but size and time give {expected:.4}"))
            .hint("the file was modified"));
    }
    let test = format!("hpl N={n} NB={nb} {p}x{q} {variant}");
    Ok(vec![row(&test, "rate", "Gflop/s", Better::Higher, rate), row(&test, "time", "s", Better::Lower, seconds)])
}
