//! What Geekbench 5 and 6 print and export: scores, one by one and together. Rates are not read: their units change with
//! their size (MB/sec, GB/sec). Of the text scores together are recomputed from their parts, so a changed or cut number is
//! found. JSON and pages are in `export`.

mod export;

use super::{ImportedReport, ReportError, number_with, numbered, row, single};
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

const BANNER: &str = "Geekbench ";
const ADDRESS: &str = ": https://www.geekbench.com/";

const SECTIONS: [&str; 2] = ["Single-Core", "Multi-Core"];

/// Whether a text looks like it.
pub fn detect(text: &str) -> bool {
    export::is_json(text) || export::is_page(text) || is_text(text)
}

fn is_text(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(BANNER) && line.contains(ADDRESS))
}

/// How many tests a section has.
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
        return Err(ReportError::at(*at, "a second report begins here").hint("import one report a file"));
    }
    let full = banner.split_whitespace().nth(1).unwrap_or_default();
    let version = match full.split('.').next() {
        Some("5") => 5,
        Some("6") => 6,
        _ => return Err(ReportError::at(at, format!("version {full} is not known; Geekbench 5 and 6 can be read"))),
    };
    let (mut rows, mut any) = (Vec::new(), false);
    for section in SECTIONS {
        if let Some(scores) = scores(&lines, section, version)? {
            rows.extend(scores);
            any = true;
        }
    }
    if !any {
        return Err(ReportError::cut("there are no scores").hint("Geekbench's compute benchmark is not read"));
    }
    Ok(single(rows, vec![("Geekbench".into(), full.into())]))
}

/// The summary of a section and its tests; none where neither is there.
fn scores(lines: &[(usize, &str)], section: &str, version: u32) -> Result<Option<Vec<ImportedRow>>, ReportError> {
    let title = format!("  {section} Score ");
    let tests = lines.iter().skip_while(|(_, line)| *line != section).skip(1).take_while(|(_, line)| !line.is_empty());
    let tests: Vec<&(usize, &str)> = tests.collect();
    let mut summary = lines.iter().skip_while(|(_, line)| !line.starts_with(&title));
    let Some((at, total)) = summary.next() else {
        return if tests.is_empty() {
            Ok(None)
        } else {
            Err(ReportError::cut(&format!("there is no {section} Score")))
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
    let expected =
        together(version, &parts).ok_or_else(|| ReportError::cut(&format!("the {section} Score lacks its parts")))?;
    // Each part is rounded to a whole number.
    if (expected - total).abs() > 1.0 {
        let what = format!("the {section} Score is {total}, but its parts give {expected:.0}");
        return Err(ReportError::at(*at, what).hint("the file was changed or is cut off"));
    }
    rows.extend(parts.iter().map(|(part, value)| score(&part.to_lowercase().replace(' ', "-"), *value)));
    if tests.len() != tests_of(version) {
        return Err(ReportError::cut(&format!("{section} has {} tests of {}", tests.len(), tests_of(version))));
    }
    for (at, line) in tests {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [title @ .., value, _rate, _unit] = words.as_slice() else { return Err(no_score(*at, line)) };
        let value = number_with(value, 0).filter(|value| *value > 0.0 && !title.is_empty());
        rows.push(score(&title.join("-").to_lowercase(), value.ok_or_else(|| no_score(*at, line))?));
    }
    Ok(Some(rows))
}

/// What the parts come to. Geekbench 5 adds them by weight; Geekbench 6 multiplies them (the weights are its own; that they
/// come to the printed scores was seen on published results of 5.4.2, 6.3.0 and 6.4.0).
fn together(version: u32, parts: &[(&str, f64)]) -> Option<f64> {
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
    value.filter(|value| *value > 0.0).ok_or_else(|| no_score(at, line))
}

fn no_score(at: usize, line: &str) -> ReportError {
    ReportError::at(at, format!("'{}' is no line of a score, or is cut off", line.trim()))
}
