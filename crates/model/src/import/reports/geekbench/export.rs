//! Parses the JSON (`--export-json`) and HTML exports of Geekbench, and pages of the Geekbench Browser. Total scores
//! are not checked, because these formats lack the partial scores. The number of tests identifies the version.

use serde_json::Value;

use super::{ImportedReport, ReportError, SECTIONS, row, single, tests_of};
use crate::import::reports::number_with;
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

/// Scores of a section and of its tests.
struct ScoreSection {
    score: f64,
    tests: Vec<(String, f64)>,
}

pub(super) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{') && text.contains("\"multicore_score\"") && text.contains("\"workloads\"")
}

pub(super) fn is_page(text: &str) -> bool {
    text.trim_start().starts_with('<') && SECTIONS.iter().any(|section| text.contains(&heading(section)))
}

pub(super) fn read_json(text: &str) -> Result<ImportedReport, ReportError> {
    let root: Value = serde_json::from_str(text).map_err(|error| {
        ReportError::at(error.line(), format!("not the JSON of Geekbench: {error}"))
            .hint("import the complete file of --export-json")
    })?;
    let sections = root["sections"].as_array().ok_or_else(|| ReportError::whole("the list 'sections' is missing"))?;
    let mut rows = Vec::new();
    for (name, key) in SECTIONS.into_iter().zip(["score", "multicore_score"]) {
        let mut matching = sections.iter().filter(|section| section["name"] == name);
        let (Some(section), None) = (matching.next(), matching.next()) else {
            return Err(ReportError::whole(format!("expected exactly one section '{name}'"))
                .hint("supported are CPU results of Geekbench 5 and 6"));
        };
        let score = points(&root, key)?;
        // Both are whole numbers.
        if (points(section, "score")? - score).abs() > 0.5 {
            return Err(ReportError::whole(format!("'{key}' is {score}, but section '{name}' has another score"))
                .hint("the file was modified"));
        }
        let tests = section["workloads"].as_array().into_iter().flatten();
        let tests = tests.map(|test| Ok((test_name(test)?, points(test, "score")?)));
        rows.extend(ScoreSection { score, tests: tests.collect::<Result<_, _>>()? }.rows(name)?);
    }
    Ok(single(rows, Vec::new()))
}

fn test_name(test: &Value) -> Result<String, ReportError> {
    test["name"].as_str().map(str::to_string).ok_or_else(|| ReportError::whole("a test without 'name'"))
}

fn points(value: &Value, key: &str) -> Result<f64, ReportError> {
    let points = value[key].as_f64().filter(|points| *points > 0.0 && points.fract() == 0.0);
    points.ok_or_else(|| ReportError::whole(format!("'{key}' is not a score: {}", value[key])))
}

pub(super) fn read_page(text: &str) -> Result<ImportedReport, ReportError> {
    let mut rows = Vec::new();
    for name in SECTIONS {
        let Some((_, after)) = text.split_once(&heading(name)) else { continue };
        let Some((table, _)) = after.split_once("</table>") else {
            return Err(ReportError::truncated(&format!("the table of {name} has no end")));
        };
        rows.extend(section_of(table, name)?.rows(name)?);
    }
    Ok(single(rows, Vec::new()))
}

fn heading(section: &str) -> String {
    format!("{section} Performance</h3>")
}

fn section_of(table: &str, name: &str) -> Result<ScoreSection, ReportError> {
    let wrong = |what: &str| ReportError::whole(format!("the table of {name}: {what}")).hint("the file was modified");
    let heads = cells(table, "th", "score");
    let [score] = heads.as_slice() else { return Err(wrong("expected exactly one score in the header")) };
    let score = number_with(score, 0).ok_or_else(|| wrong("invalid score in the header"))?;
    let mut tests = Vec::new();
    for line in table.split("<tr").skip(1) {
        match (cells(line, "td", "name").as_slice(), cells(line, "td", "score").as_slice()) {
            ([], []) => {}
            ([test], [points]) if !test.is_empty() => {
                let points = number_with(points, 0).filter(|points| *points > 0.0);
                tests.push((test.to_string(), points.ok_or_else(|| wrong(&format!("invalid score of {test}")))?));
            }
            _ => return Err(wrong("expected exactly one name and one score per line")),
        }
    }
    Ok(ScoreSection { score, tests })
}

/// Returns the texts of the cells of a class, up to the first child element.
fn cells<'t>(line: &'t str, tag: &str, class: &str) -> Vec<&'t str> {
    let of_class = |cell: &&'t str| {
        let attributes = cell.split('>').next().unwrap_or_default();
        [format!("class='{class}'"), format!("class=\"{class}\"")].iter().any(|class| attributes.contains(class))
    };
    let opening = format!("<{tag} ");
    let of_tag = line.split(&opening).skip(1).filter(of_class);
    of_tag.filter_map(|cell| Some(cell.split_once('>')?.1.split('<').next()?.trim())).collect()
}

impl ScoreSection {
    fn rows(self, name: &str) -> Result<Vec<ImportedRow>, ReportError> {
        let count = self.tests.len();
        let Some(version) = [5, 6].into_iter().find(|version| tests_of(*version) == count) else {
            return Err(ReportError::truncated(&format!(
                "{name} has {count} tests; expected {} (Geekbench 5) or {} (Geekbench 6)",
                tests_of(5),
                tests_of(6)
            )));
        };
        let test = format!("geekbench {version} {}", name.to_lowercase());
        let points = |metric: &str, value| row(&test, metric, "points", Better::Higher, value);
        let tests = self.tests.iter().map(|(metric, value)| {
            let words: Vec<&str> = metric.split_whitespace().collect();
            points(&words.join("-").to_lowercase(), *value)
        });
        Ok(std::iter::once(points("score", self.score)).chain(tests).collect())
    }
}
