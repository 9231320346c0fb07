//! Parses scores of Geekbench 5 and 6; module `export` parses JSON and HTML. Total scores of the text format are
//! recomputed from the partial scores, which detects modified or truncated numbers. Rates are not read: their units
//! vary (MB/sec, GB/sec).

mod export;

use super::{ImportedReport, ReportError, number_with, numbered, row, single};
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

const BANNER: &str = "Geekbench ";
const ADDRESS: &str = ": https://www.geekbench.com/";

const SECTIONS: [&str; 2] = ["Single-Core", "Multi-Core"];

pub fn detect(text: &str) -> bool {
    export::is_json(text) || export::is_page(text) || is_text(text)
}

fn is_text(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(BANNER) && line.contains(ADDRESS))
}

/// Number of tests in a section.
fn tests_of(version: u32) -> usize {
    if version == 5 { 21 } else { 16 }
}

pub fn read(text: &str) -> Result<ImportedReport, ReportError> {
    match () {
        () if export::is_json(text) => export::read_json(text),
        () if export::is_page(text) => export::read_page(text),
        () => read_text(text),
    }
}

fn read_text(text: &str) -> Result<ImportedReport, ReportError> {
    let lines: Vec<(usize, &str)> = numbered(text).collect();
    let mut banners = lines.iter().filter(|(_, line)| line.starts_with(BANNER) && line.contains(ADDRESS));
    let (at, banner) = banners.next().copied().unwrap_or_default();
    if let Some((at, _)) = banners.next() {
        return Err(ReportError::at(*at, "a second report begins here").hint("import one report per file"));
    }
    let full = banner.split_whitespace().nth(1).unwrap_or_default();
    let version = match full.split('.').next() {
        Some("5") => 5,
        Some("6") => 6,
        _ => return Err(ReportError::at(at, format!("unsupported version {full}; supported are Geekbench 5 and 6"))),
    };
    let (mut rows, mut any) = (Vec::new(), false);
    for section in SECTIONS {
        if let Some(scores) = scores(&lines, section, version)? {
            rows.extend(scores);
            any = true;
        }
    }
    if !any {
        return Err(ReportError::truncated("it has no scores")
            .hint("results of Geekbench's compute benchmark are not supported"));
    }
    Ok(single(rows, vec![("Geekbench".into(), full.into())]))
}

/// Parses the summary of a section and its tests; `None` if both are missing.
fn scores(lines: &[(usize, &str)], section: &str, version: u32) -> Result<Option<Vec<ImportedRow>>, ReportError> {
    let title = format!("  {section} Score ");
    let tests = lines.iter().skip_while(|(_, line)| *line != section).skip(1).take_while(|(_, line)| !line.is_empty());
    let tests: Vec<&(usize, &str)> = tests.collect();
    let mut summary = lines.iter().skip_while(|(_, line)| !line.starts_with(&title));
    let Some((at, total)) = summary.next() else {
        return if tests.is_empty() {
            Ok(None)
        } else {
            Err(ReportError::truncated(&format!("the {section} Score is missing")))
        };
    };
    let name = format!("geekbench {version} {}", section.to_lowercase());
    let score = |metric: &str, value| row(&name, metric, "points", Better::Higher, value);
    let total = last(*at, total)?;
    let mut rows = vec![score("score", total)];
    let mut parts = Vec::new();
    for (at, line) in summary.take_while(|(_, line)| line.starts_with("    ")) {
        let part = line.trim().rsplit_once(char::is_whitespace).map_or("", |(title, _)| title.trim());
        parts.push((part, last(*at, line)?));
    }
    let expected = total_score(version, &parts)
        .ok_or_else(|| ReportError::truncated(&format!("partial scores of the {section} Score are missing")))?;
    // Partial scores are rounded to whole numbers.
    if (expected - total).abs() > 1.0 {
        let what = format!("the {section} Score is {total}, but the partial scores give {expected:.0}");
        return Err(ReportError::at(*at, what).hint("the file was modified or truncated"));
    }
    rows.extend(parts.iter().map(|(part, value)| score(&part.to_lowercase().replace(' ', "-"), *value)));
    if tests.len() != tests_of(version) {
        return Err(ReportError::truncated(&format!("{section} has {} of {} tests", tests.len(), tests_of(version))));
    }
    for (at, line) in tests {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [title @ .., value, _rate, _unit] = words.as_slice() else { return Err(invalid_score(*at, line)) };
        let value = number_with(value, 0).filter(|value| *value > 0.0 && !title.is_empty());
        rows.push(score(&title.join("-").to_lowercase(), value.ok_or_else(|| invalid_score(*at, line))?));
    }
    Ok(Some(rows))
}

/// Computes a total score: the weighted arithmetic mean (Geekbench 5) or geometric mean (Geekbench 6) of the partial
/// scores. The formulas reproduce the scores of published results of 5.4.2, 6.3.0 and 6.4.0.
fn total_score(version: u32, parts: &[(&str, f64)]) -> Option<f64> {
    match (version, parts) {
        (5, [("Crypto Score", crypto), ("Integer Score", integer), ("Floating Point Score", float)]) => {
            Some(0.05 * crypto + 0.65 * integer + 0.30 * float)
        }
        (6, [("Integer Score", integer), ("Floating Point Score", float)]) => {
            Some((0.65 * integer.ln() + 0.35 * float.ln()).exp())
        }
        _ => None,
    }
}

fn last(at: usize, line: &str) -> Result<f64, ReportError> {
    let value = line.split_whitespace().last().and_then(|word| number_with(word, 0));
    value.filter(|value| *value > 0.0).ok_or_else(|| invalid_score(at, line))
}

fn invalid_score(at: usize, line: &str) -> ReportError {
    ReportError::at(at, format!("'{}' is not a line with a score, or is truncated", line.trim()))
}
