//! Parses the JSON export of hyperfine: the wall time of each command is the median of its runs. The runs are kept as
//! samples, so that comparisons have confidence intervals.

use serde_json::Value;

use super::{ImportedReport, ReportError, row, single};
use crate::stats::statistics::median;
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

/// Maximum relative difference between a printed statistic and its value computed from the runs. hyperfine does not
/// round.
const TOLERANCE: f64 = 1e-9;

pub fn detect(text: &str) -> bool {
    text.trim_start().starts_with('{') && text.contains("\"results\"") && text.contains("\"command\"")
}

pub fn read(text: &str) -> Result<ImportedReport, ReportError> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        ReportError::at(error.line(), format!("not the JSON of hyperfine: {error}"))
            .hint("import the complete file of --export-json")
    })?;
    let results = value["results"].as_array();
    let results = results.ok_or_else(|| ReportError::whole("the list 'results' is missing"))?;
    let mut report = single(Vec::new(), Vec::new());
    for (index, result) in results.iter().enumerate() {
        let at = format!("results[{index}]");
        let command = result["command"].as_str().ok_or_else(|| absent(&format!("{at}.command")))?;
        report.rows.extend(rows(command, result, &at)?);
        let codes = result["exit_codes"].as_array().into_iter().flatten();
        let failed = codes.filter(|code| code.as_i64() != Some(0)).count();
        if failed > 0 {
            report.notes.push(format!("{failed} runs of '{}' did not end well", super::clean(command)));
        }
    }
    Ok(report)
}

fn rows(command: &str, result: &Value, at: &str) -> Result<Vec<ImportedRow>, ReportError> {
    let times = result["times"]
        .as_array()
        .ok_or_else(|| absent(&format!("{at}.times")).hint("export the runs with hyperfine --export-json"))?;
    let times: Option<Vec<f64>> = times.iter().map(|time| time.as_f64().filter(|time| *time > 0.0)).collect();
    let times = times.filter(|times| !times.is_empty()).ok_or_else(|| absent(&format!("{at}.times")))?;
    let middle = median(&times).unwrap_or_default();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let extremes = times.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), time| (low.min(*time), high.max(*time)));
    for (key, computed) in [("median", middle), ("mean", mean), ("min", extremes.0), ("max", extremes.1)] {
        let printed = figure(result, at, key)?;
        if (printed - computed).abs() > TOLERANCE * computed {
            return Err(ReportError::whole(format!("{at}.{key} is {printed}, but its times give {computed}"))
                .hint("the file was modified"));
        }
    }
    let lower = |metric, value| row(command, metric, "s", Better::Lower, value);
    let mut rows = vec![ImportedRow { samples: vec![times], ..lower("time", middle) }];
    for key in ["user", "system"] {
        // `nearfar export` writes null if the workload does not measure the time; hyperfine always writes a number.
        if !result.get(key).is_some_and(Value::is_null) {
            rows.push(lower(key, figure(result, at, key)?));
        }
    }
    Ok(rows)
}

fn figure(value: &Value, at: &str, key: &str) -> Result<f64, ReportError> {
    value[key].as_f64().filter(|figure| *figure >= 0.0).ok_or_else(|| absent(&format!("{at}.{key}")))
}

fn absent(at: &str) -> ReportError {
    ReportError::whole(format!("{at} is missing or has the wrong type")).hint("the file was modified")
}
