//! The output of High-Performance Linpack 2 (HPL.out), also where it stands in the HPC Challenge's hpccoutf.txt, whose
//! other parts are not read. Each solved system is a test of its own, named by its size, blocks, grid and variant.

use super::{ImportedReport, ReportError, number, numbered, row, single};
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

const BANNER: &str = "HPLinpack ";
const END: &str = "End of Tests.";

/// Whether a text looks like it.
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
                return Err(ReportError::at(at, format!("'{line}' is not known; HPLinpack 2 can be read")));
            }
            if ended {
                return Err(ReportError::at(at, "a second report begins here").hint("import one report a file"));
            }
            facts = vec![("HPLinpack".to_string(), words[1].to_string())];
        } else if line == END {
            ended = true;
        } else if let ["Finished", count, "tests", "with", ..] = words.as_slice() {
            finished = count.parse::<usize>().ok();
        } else if line.starts_with("||Ax-b||") && line.contains("......") {
            match words.last() {
                Some(&"PASSED") if passed < solved => passed += 1,
                _ => return Err(ReportError::at(at, "a system was solved wrongly (or its line is cut off)")),
            }
        } else if is_variant(words.first().copied().unwrap_or_default()) {
            rows.extend(system(at, line, &words)?);
            solved += 1;
        }
    }
    if !ended {
        return Err(ReportError::cut(&format!("there is no line '{END}'")));
    }
    if passed != solved || finished != Some(solved) {
        let what =
            format!("{solved} systems were solved, {passed} passed their check, {} finished", finished.unwrap_or(0));
        return Err(ReportError::whole(what).hint("the file was changed, or tests failed"));
    }
    Ok(single(rows, facts))
}

/// `WR11C2R4`: wall time, row-major, depth, broadcast, recursive factorisation, divisions, panel factorisation, minimum.
fn is_variant(word: &str) -> bool {
    let letters: Vec<char> = word.chars().collect();
    matches!(letters.as_slice(), ['W', 'R' | 'C', depth, _, 'L' | 'C' | 'R', division, 'L' | 'C' | 'R', minimum, ..]
        if depth.is_ascii_digit() && division.is_ascii_digit() && minimum.is_ascii_digit())
}

/// `WR11C2R4        2000    80     1     2               1.06              5.060e+00`
fn system(at: usize, line: &str, words: &[&str]) -> Result<Vec<ImportedRow>, ReportError> {
    let wrong = || ReportError::at(at, format!("'{line}' is no line of a solved system"));
    let [variant, n, nb, p, q, seconds, rate] = words else { return Err(wrong()) };
    let whole = [n, nb, p, q].into_iter().all(|count| count.parse::<u32>().is_ok());
    let figures = number(n).zip(number(seconds)).zip(number(rate)).filter(|_| whole && rate.contains("e+"));
    let ((order, seconds), rate) = figures.filter(|((_, seconds), _)| *seconds > 0.0).ok_or_else(wrong)?;
    // What HPL counts: two thirds of the cube and three halves of the square. The time is rounded to a hundredth.
    let expected = (2.0 / 3.0 * order.powi(3) + 1.5 * order.powi(2)) / seconds / 1e9;
    if (rate / expected - 1.0).abs() > 0.006 / seconds + 0.001 {
        return Err(ReportError::at(at, format!("{rate} Gflop/s do not fit size and time, which give {expected:.4}"))
            .hint("the file was changed"));
    }
    let test = format!("hpl N={n} NB={nb} {p}x{q} {variant}");
    Ok(vec![row(&test, "rate", "Gflop/s", Better::Higher, rate), row(&test, "time", "s", Better::Lower, seconds)])
}
