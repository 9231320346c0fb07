//! hyperfine's JSON: the wall time of each command's runs. The runs are kept as samples, so that comparing them gives
//! intervals; the time of a table is their median. Does not know where anything ran, nor what hyperfine took off for
//! starting a shell.

use serde_json::Value;

use super::{ImportedReport, ReportError, row, single};
use crate::stats::statistics::median;
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

/// The mean, the median and the ends are rounded nowhere: they follow from the runs.
const TOLERANCE: f64 = 1e-9;

/// Whether a text looks like it.
pub fn detect(text: &str) -> bool {
    text.trim_start().starts_with('{') && text.contains("\"results\"") && text.contains("\"command\"")
}

pub fn read(text: &str) -> Result<ImportedReport, ReportError> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        ReportError::at(error.line(), format!("not the JSON that hyperfine writes: {error}"))
            .hint("import the whole file, as --export-json wrote it")
    })?;
    let results = value["results"].as_array();
    let results = results.ok_or_else(|| ReportError::whole("there is no list 'results'"))?;
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
        .ok_or_else(|| absent(&format!("{at}.times")).hint("only hyperfine --export-json has the runs"))?;
    let times: Option<Vec<f64>> = times.iter().map(|time| time.as_f64().filter(|time| *time > 0.0)).collect();
    let times = times.filter(|times| !times.is_empty()).ok_or_else(|| absent(&format!("{at}.times")))?;
    let middle = median(&times).unwrap_or_default();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let ends = times.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), time| (low.min(*time), high.max(*time)));
    for (key, own) in [("median", middle), ("mean", mean), ("min", ends.0), ("max", ends.1)] {
        let printed = figure(result, at, key)?;
        if (printed - own).abs() > TOLERANCE * own {
            return Err(ReportError::whole(format!("{at}.{key} is {printed}, but its times give {own}"))
                .hint("the file was changed"));
        }
    }
    let lower = |metric, value| row(command, metric, "s", Better::Lower, value);
    let mut rows = vec![ImportedRow { samples: vec![times], ..lower("time", middle) }];
    for key in ["user", "system"] {
        // nearfar export writes null where the workload does not measure it; hyperfine always has a number.
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
    ReportError::whole(format!("{at} is not what hyperfine writes there")).hint("the file was changed")
}
