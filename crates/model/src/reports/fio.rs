//! fio's JSON, version 3: for each job and direction how many requests and bytes a second, and the latency from
//! submission to completion. Does not read what fio records over time (logs) nor its bins (`json+`), which are kept
//! in no table; whether the device or the page cache answered is in the job's options, not in the figures.

use serde_json::Value;

use super::{Report, ReportError, row, single};
use crate::record::ImportedRow;
use crate::workload::Better;

const DIRECTIONS: [&str; 4] = ["read", "write", "trim", "mixed"];
const PERCENTILES: [(&str, &str); 3] = [("50.000000", "p50"), ("99.000000", "p99"), ("99.900000", "p99.9")];
/// Requests a second are counted over milliseconds: where there are this many, they must fit the count to a percent.
const MILLISECONDS_MIN: f64 = 200.0;

/// Whether a text looks like it.
pub fn detect(text: &str) -> bool {
    text.contains("\"fio version\"")
}

/// Reads it.
pub fn read(text: &str) -> Result<Report, ReportError> {
    let value = json(text)?;
    let version = value["fio version"].as_str().unwrap_or_default();
    if !version.starts_with("fio-3.") {
        return Err(ReportError::whole(format!("version '{version}' is not known; JSON of fio 3 can be read")));
    }
    let jobs = value["jobs"].as_array().filter(|jobs| !jobs.is_empty());
    let jobs =
        jobs.ok_or_else(|| ReportError::whole("there is no list 'jobs'").hint("fio's client mode is not read"))?;
    let mut rows: Vec<ImportedRow> = Vec::new();
    let mut facts = vec![("fio".to_string(), version.trim_start_matches("fio-").to_string())];
    let mut names: Vec<String> = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let at = format!("jobs[{index}]");
        let given = job["jobname"].as_str().ok_or_else(|| absent(&format!("{at}.jobname")))?;
        let error = figure(job, &at, "error")?;
        if error != 0.0 {
            return Err(ReportError::whole(format!(
                "job '{given}' failed with error {error}, its figures mean nothing"
            ))
            .hint("mend the job and run fio again"));
        }
        // Copies of one job (numjobs) have one name.
        let copies = names.iter().filter(|name| *name == given).count();
        let name = if copies == 0 { given.to_string() } else { format!("{given} copy {}", copies + 1) };
        names.push(given.into());
        for direction in DIRECTIONS.into_iter().filter(|direction| job.get(direction).is_some()) {
            rows.extend(rows_of(&name, direction, &job[direction], &format!("{at}.{direction}"))?);
        }
        for options in [&value["global options"], &job["job options"]] {
            let options = options.as_object().into_iter().flatten();
            facts.extend(options.filter_map(|(key, value)| Some((format!("{key} of {name}"), value.as_str()?.into()))));
        }
    }
    if rows.is_empty() {
        return Err(ReportError::whole("no job did a request"));
    }
    Ok(single(rows, facts))
}

/// fio may say something before its JSON.
fn json(text: &str) -> Result<Value, ReportError> {
    let before = text.lines().take_while(|line| !line.starts_with('{')).count();
    let start: usize = text.split_inclusive('\n').take(before).map(str::len).sum();
    serde_json::from_str(&text[start..]).map_err(|error| {
        ReportError::at(before + error.line(), format!("not the JSON that fio writes: {error}"))
            .hint("import the whole file, of one run without --status-interval")
    })
}

fn rows_of(job: &str, direction: &str, value: &Value, at: &str) -> Result<Vec<ImportedRow>, ReportError> {
    let count = figure(value, at, "total_ios")?;
    if count == 0.0 {
        return Ok(Vec::new());
    }
    let (rate, milliseconds) = (figure(value, at, "iops")?, figure(value, at, "runtime")?);
    let bytes = figure(value, at, "bw_bytes")?;
    fits(rate, count, milliseconds, &format!("{at}.iops"))?;
    fits(bytes, figure(value, at, "io_bytes")?, milliseconds, &format!("{at}.bw_bytes"))?;
    let test = format!("{job} {direction}");
    let higher = |metric, unit, value| row(&test, metric, unit, Better::Higher, value);
    let mut rows = vec![higher("rate", "op/s", rate), higher("bandwidth", "MiB/s", bytes / f64::from(1 << 20))];
    let (latency, at) = (&value["clat_ns"], format!("{at}.clat_ns"));
    // With gtod_reduce fio measures no latency.
    if figure(latency, &at, "N")? > 0.0 {
        let lower = |metric: &str, nanos: f64| row(&test, metric, "us", Better::Lower, nanos / 1000.0);
        rows.push(lower("latency", figure(latency, &at, "mean")?));
        for (key, name) in PERCENTILES {
            if latency["percentile"].get(key).is_some() {
                let nanos = figure(&latency["percentile"], &format!("{at}.percentile"), key)?;
                rows.push(lower(&format!("latency-{name}"), nanos));
            }
        }
        rows.push(lower("latency-max", figure(latency, &at, "max")?));
    }
    Ok(rows)
}

/// What a rate says must be what was counted in the time.
fn fits(rate: f64, count: f64, milliseconds: f64, at: &str) -> Result<(), ReportError> {
    let counted = 1000.0 * count / milliseconds;
    if milliseconds >= MILLISECONDS_MIN && (rate / counted - 1.0).abs() > 0.01 {
        return Err(ReportError::whole(format!("{at} is {rate}, but by its count and time it would be {counted:.1}"))
            .hint("the file was changed, or is of a kind that is not known"));
    }
    Ok(())
}

fn figure(value: &Value, at: &str, key: &str) -> Result<f64, ReportError> {
    value[key].as_f64().filter(|figure| *figure >= 0.0).ok_or_else(|| absent(&format!("{at}.{key}")))
}

fn absent(at: &str) -> ReportError {
    ReportError::whole(format!("{at} is no figure or name where there should be one"))
        .hint("the file was changed, or is of a kind that is not known")
}
