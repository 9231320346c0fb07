//! Parses `composite.xml` of the Phoronix Test Suite: bar results, one column per system, with their runs as samples if
//! the file has them. Line graphs (sensors), pass/fail results and images are skipped and counted in a note.

use std::collections::BTreeMap;

use quick_xml::Reader;
use quick_xml::events::Event;

use super::{ImportedReport, ReportError, number, row};
use crate::stats::statistics::median;
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

const ROOT: &str = "PhoronixTestSuite";
/// Maximum nesting depth of elements.
const DEPTH_MAX: usize = 16;
/// Maximum relative difference between a result, which is rounded, and the mean of its runs.
const TOLERANCE: f64 = 0.01;

pub fn detect(text: &str) -> bool {
    text.contains("<PhoronixTestSuite>")
}

pub fn read(text: &str) -> Result<ImportedReport, ReportError> {
    let mut report = ImportedReport { columns: Vec::new(), rows: Vec::new(), facts: Vec::new(), notes: Vec::new() };
    let mut left_out = 0;
    for result in results(text)? {
        match result.better() {
            Some(better) => add(&mut report, &result, better)?,
            None => left_out += 1,
        }
    }
    if left_out > 0 {
        report.notes.push(format!("{left_out} results are left out: they are graphs or have no better direction"));
    }
    for row in &mut report.rows {
        row.values.resize(report.columns.len(), None);
        row.samples.resize(report.columns.len(), Vec::new());
    }
    Ok(report)
}

/// Texts of a `Result` element and of its entries, by element name.
#[derive(Default)]
struct BarGraph {
    line: usize,
    texts: BTreeMap<String, String>,
    entries: Vec<BTreeMap<String, String>>,
}

impl BarGraph {
    fn text(&self, element: &str) -> &str {
        self.texts.get(element).map_or("", String::as_str)
    }

    /// Returns the better direction; `None` if the result is not a bar graph with a direction.
    fn better(&self) -> Option<Better> {
        match (self.text("DisplayFormat"), self.text("Proportion")) {
            ("BAR_GRAPH", "HIB") => Some(Better::Higher),
            ("BAR_GRAPH", "LIB") => Some(Better::Lower),
            _ => None,
        }
    }
}

fn add(report: &mut ImportedReport, result: &BarGraph, better: Better) -> Result<(), ReportError> {
    let words = [result.text("Title"), result.text("Description")];
    let test: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let test = test.join(", ");
    let scale = result.text("Scale");
    let mut one = ImportedRow { values: Vec::new(), ..row(&test, "result", scale, better, 0.0) };
    if one.test.is_empty() {
        return Err(ReportError::at(result.line, "a result has no Title"));
    }
    for entry in &result.entries {
        let text = |element: &str| entry.get(element).map_or("", String::as_str);
        let system = super::clean(text("Identifier"));
        if system.is_empty() {
            return Err(ReportError::at(result.line, format!("a result of '{test}' has no Identifier of a system")));
        }
        let at = report.columns.iter().position(|column| *column == system).unwrap_or_else(|| {
            report.columns.push(system.clone());
            report.columns.len() - 1
        });
        if text("Value").is_empty() {
            report.notes.push(format!("'{test}' has no result on {system}"));
            continue;
        }
        let value = number(text("Value"));
        let value = value.ok_or_else(|| {
            ReportError::at(result.line, format!("the result '{}' of '{test}' is not a number", text("Value")))
        })?;
        if one.values.len() <= at {
            one.values.resize(at + 1, None);
            one.samples.resize(at + 1, Vec::new());
        }
        if one.values[at].is_some() {
            return Err(ReportError::at(result.line, format!("duplicate result of '{test}' on {system}")));
        }
        let runs = runs(text("RawString"), value, &test, result.line)?;
        one.values[at] = Some(median(&runs).unwrap_or(value));
        one.samples[at] = runs;
    }
    if !one.values.is_empty() {
        report.rows.push(one);
        let version = result.text("AppVersion");
        report.facts.push((format!("version of {test}"), version.into()));
    }
    Ok(())
}

/// Parses `10.1:10.2:10.4`. The list is empty if the file has only the result.
fn runs(raw: &str, value: f64, test: &str, line: usize) -> Result<Vec<f64>, ReportError> {
    if raw.is_empty() {
        return Ok(Vec::new());
    }
    let runs: Option<Vec<f64>> = raw.split(':').map(number).collect();
    let runs = runs.ok_or_else(|| ReportError::at(line, format!("the runs of '{test}' are not numbers: '{raw}'")))?;
    let mean = runs.iter().sum::<f64>() / runs.len() as f64;
    if (mean - value).abs() > TOLERANCE * value.abs() {
        let what = format!("the result of '{test}' is {value}, but the mean of its runs is {mean}");
        return Err(ReportError::at(line, what).hint("the file was modified"));
    }
    Ok(runs)
}

/// Parses all `Result` elements.
fn results(text: &str) -> Result<Vec<BarGraph>, ReportError> {
    let mut reader = Reader::from_str(text);
    let mut path: Vec<String> = Vec::new();
    let mut found: Vec<BarGraph> = Vec::new();
    let mut closed = false;
    loop {
        let before = usize::try_from(reader.buffer_position()).unwrap_or(0);
        let line = text.get(..before).map_or(1, |before| before.matches('\n').count() + 1);
        let invalid = |what: String| {
            ReportError::at(line, format!("not a valid composite.xml: {what}")).hint("import the complete file")
        };
        match reader.read_event().map_err(|error| invalid(error.to_string()))? {
            Event::Start(element) => {
                let name = String::from_utf8_lossy(element.name().as_ref()).into_owned();
                if path.len() == DEPTH_MAX || path.is_empty() && name != ROOT {
                    return Err(invalid(format!("unexpected element '{name}'")));
                }
                path.push(name);
                match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                    [_, "Result"] => found.push(BarGraph { line, ..BarGraph::default() }),
                    [_, "Result", "Data", "Entry"] => {
                        if let Some(result) = found.last_mut() {
                            result.entries.push(BTreeMap::new());
                        }
                    }
                    _ => {}
                }
            }
            Event::End(_) => {
                path.pop();
                closed |= path.is_empty();
            }
            Event::Text(part) => {
                let part = part.decode().map_err(|error| invalid(error.to_string()))?;
                append(&mut found, &path, &part);
            }
            Event::CData(part) => {
                let part = part.decode().map_err(|error| invalid(error.to_string()))?;
                append(&mut found, &path, &part);
            }
            Event::GeneralRef(reference) => {
                let name = reference.decode().map_err(|error| invalid(error.to_string()))?;
                let resolved = match reference.resolve_char_ref().map_err(|error| invalid(error.to_string()))? {
                    Some(letter) => letter.to_string(),
                    None => quick_xml::escape::resolve_xml_entity(&name)
                        .ok_or_else(|| invalid(format!("unknown entity '&{name};'")))?
                        .to_string(),
                };
                append(&mut found, &path, &resolved);
            }
            Event::Eof if closed && path.is_empty() => return Ok(found),
            Event::Eof => return Err(ReportError::truncated(&format!("</{ROOT}> is missing"))),
            _ => {}
        }
    }
}

/// Appends a part of a text to the element at `path`.
fn append(found: &mut [BarGraph], path: &[String], part: &str) {
    let Some(result) = found.last_mut() else { return };
    let (texts, element) = match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, "Result", element] => (&mut result.texts, (*element).to_string()),
        [_, "Result", "Data", "Entry", element] => match result.entries.last_mut() {
            Some(entry) => (entry, (*element).to_string()),
            None => return,
        },
        _ => return,
    };
    texts.entry(element).or_default().push_str(part);
}
