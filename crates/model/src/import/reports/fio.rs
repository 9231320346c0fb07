//! Parses the JSON output of fio 3: IOPS, bandwidth, completion latency and CPU time of each job and direction. Logs
//! and the bins of `json+` are not read. Workload `fio` parses the output of its trials with this module.

use serde_json::Value;

use super::{ImportedReport, ReportError, row, single};
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

const DIRECTIONS: [&str; 4] = ["read", "write", "trim", "mixed"];
const PERCENTILES: [(&str, &str); 3] = [("50.000000", "p50"), ("99.000000", "p99"), ("99.900000", "p99.9")];
/// Minimum run time at which rates are checked against counts. fio rounds run times to milliseconds.
const MILLISECONDS_MIN: f64 = 200.0;

/// Output of one run of fio.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Version without the prefix `fio-`, such as `3.33`.
    pub version: String,
    /// In the order of the file. Copies of a job (`numjobs`) are separate unless `group_reporting` is set.
    pub jobs: Vec<FioJobResult>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FioJobResult {
    /// Name of the job; copies have a number.
    pub name: String,
    /// Directions with at least one request: `read`, `write`, `trim`, or `mixed` with `unified_rw_reporting`.
    pub directions: Vec<(&'static str, Figures)>,
    /// User and system CPU time of all copies, in microseconds.
    pub cpu_us: f64,
    /// Global options, then options of the job.
    pub options: Vec<(String, String)>,
}

/// Results of a job in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Number of requests.
    pub count: f64,
    /// Run time; fio reports whole milliseconds.
    pub milliseconds: f64,
    /// Requests per second.
    pub rate: f64,
    pub bytes_per_second: f64,
    /// Submission latency (`slat`); `None` for engines that submit and complete in one call.
    pub submission: Option<Latency>,
    /// Completion latency (`clat`); `None` with `gtod_reduce`.
    pub completion: Option<Latency>,
    pub total: Option<Latency>,
}

/// Latency of requests, in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    pub mean_us: f64,
    pub max_us: f64,
    /// Name in fio's JSON, such as `99.900000`, and value of each percentile.
    pub percentiles: Vec<(String, f64)>,
}

impl Latency {
    pub fn percentile(&self, name: &str) -> Option<f64> {
        self.percentiles.iter().find(|(known, _)| known == name).map(|(_, us)| *us)
    }
}

impl FioJobResult {
    /// Returns the results in a direction; `None` if there were no requests.
    pub fn direction(&self, name: &str) -> Option<&Figures> {
        self.directions.iter().find(|(known, _)| *known == name).map(|(_, figures)| figures)
    }
}

pub fn detect(text: &str) -> bool {
    text.contains("\"fio version\"")
}

pub fn read(text: &str) -> Result<ImportedReport, ReportError> {
    let output = parse(text)?;
    let mut facts = vec![("fio".to_string(), output.version)];
    let mut rows: Vec<ImportedRow> = Vec::new();
    for job in &output.jobs {
        rows.extend(job.directions.iter().flat_map(|(direction, figures)| rows_of(&job.name, direction, figures)));
        facts.extend(job.options.iter().map(|(key, value)| (format!("{key} of {}", job.name), value.clone())));
    }
    if rows.is_empty() {
        return Err(ReportError::whole("no job completed a request"));
    }
    Ok(single(rows, facts))
}

/// Parses fio's output.
///
/// # Errors
/// The version is unknown, a job failed, or figures are missing or contradictory.
pub fn parse(text: &str) -> Result<Output, ReportError> {
    let value = json(text)?;
    let version = value["fio version"].as_str().unwrap_or_default();
    if !version.starts_with("fio-3.") {
        return Err(ReportError::whole(format!("unsupported version '{version}'; supported is the JSON of fio 3")));
    }
    let jobs = value["jobs"].as_array().filter(|jobs| !jobs.is_empty());
    let jobs = jobs.ok_or_else(|| {
        ReportError::whole("the list 'jobs' is missing").hint("output of fio's client mode is not supported")
    })?;
    let mut names: Vec<&str> = Vec::new();
    let mut output = Output { version: version.trim_start_matches("fio-").to_string(), jobs: Vec::new() };
    for (index, job) in jobs.iter().enumerate() {
        let at = format!("jobs[{index}]");
        let job_name = job["jobname"].as_str().ok_or_else(|| absent(&format!("{at}.jobname")))?;
        // Copies of a job (numjobs) have the same name.
        let copies = names.iter().filter(|name| **name == job_name).count();
        let name = if copies == 0 { job_name.to_string() } else { format!("{job_name} copy {}", copies + 1) };
        names.push(job_name);
        output.jobs.push(one_job(name, job, &value["global options"], &at)?);
    }
    Ok(output)
}

fn one_job(name: String, job: &Value, global: &Value, at: &str) -> Result<FioJobResult, ReportError> {
    let error = figure(job, at, "error")?;
    if error != 0.0 {
        return Err(ReportError::whole(format!("job '{name}' failed with error {error}; its figures are invalid"))
            .hint("correct the job and rerun fio"));
    }
    let mut directions = Vec::new();
    for direction in DIRECTIONS.into_iter().filter(|direction| job.get(direction).is_some()) {
        let figures = figures(&job[direction], &format!("{at}.{direction}"))?;
        directions.extend(figures.map(|figures| (direction, figures)));
    }
    let percent = figure(job, at, "usr_cpu")? + figure(job, at, "sys_cpu")?;
    // `job_runtime` is the sum over all copies, and the CPU percentages refer to this sum.
    let cpu_us = percent / 100.0 * figure(job, at, "job_runtime")? * 1000.0;
    let options = [global, &job["job options"]].into_iter().filter_map(Value::as_object).flatten();
    let options = options.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_string()))).collect();
    Ok(FioJobResult { name, directions, cpu_us, options })
}

/// Parses the JSON, before which fio may print other lines.
fn json(text: &str) -> Result<Value, ReportError> {
    let before = text.lines().take_while(|line| !line.starts_with('{')).count();
    let start: usize = text.split_inclusive('\n').take(before).map(str::len).sum();
    serde_json::from_str(&text[start..]).map_err(|error| {
        ReportError::at(before + error.line(), format!("not the JSON of fio: {error}"))
            .hint("import the complete output of one run without --status-interval")
    })
}

/// Parses one direction; `None` if it has no requests.
fn figures(value: &Value, at: &str) -> Result<Option<Figures>, ReportError> {
    let count = figure(value, at, "total_ios")?;
    if count == 0.0 {
        return Ok(None);
    }
    let (rate, milliseconds) = (figure(value, at, "iops")?, figure(value, at, "runtime")?);
    let bytes_per_second = figure(value, at, "bw_bytes")?;
    check_rate(rate, count, milliseconds, &format!("{at}.iops"))?;
    check_rate(bytes_per_second, figure(value, at, "io_bytes")?, milliseconds, &format!("{at}.bw_bytes"))?;
    let latency = |key: &str| latency(&value[key], &format!("{at}.{key}"));
    let (submission, completion, total) = (latency("slat_ns")?, latency("clat_ns")?, latency("lat_ns")?);
    Ok(Some(Figures { count, milliseconds, rate, bytes_per_second, submission, completion, total }))
}

/// Parses a latency; `None` if it has no samples.
fn latency(value: &Value, at: &str) -> Result<Option<Latency>, ReportError> {
    if figure(value, at, "N")? == 0.0 {
        return Ok(None);
    }
    let us = |key| figure(value, at, key).map(|nanos| nanos / 1000.0);
    let (mean_us, max_us) = (us("mean")?, us("max")?);
    let (listed, inside) = (&value["percentile"], format!("{at}.percentile"));
    let names = listed.as_object().into_iter().flat_map(serde_json::Map::keys);
    let percentiles = names.map(|name| Ok((name.clone(), figure(listed, &inside, name)? / 1000.0)));
    Ok(Some(Latency { mean_us, max_us, percentiles: percentiles.collect::<Result<_, ReportError>>()? }))
}

fn rows_of(job: &str, direction: &str, figures: &Figures) -> Vec<ImportedRow> {
    let test = format!("{job} {direction}");
    let higher = |metric, unit, value| row(&test, metric, unit, Better::Higher, value);
    let bandwidth = figures.bytes_per_second / f64::from(1 << 20);
    let mut rows = vec![higher("rate", "op/s", figures.rate), higher("bandwidth", "MiB/s", bandwidth)];
    if let Some(latency) = &figures.completion {
        let lower = |metric: &str, us: f64| row(&test, metric, "us", Better::Lower, us);
        rows.push(lower("latency", latency.mean_us));
        for (key, name) in PERCENTILES {
            rows.extend(latency.percentile(key).map(|us| lower(&format!("latency-{name}"), us)));
        }
        rows.push(lower("latency-max", latency.max_us));
    }
    rows
}

/// Returns an error if a rate differs by more than 1 % from count divided by time.
fn check_rate(rate: f64, count: f64, milliseconds: f64, at: &str) -> Result<(), ReportError> {
    let counted = 1000.0 * count / milliseconds;
    if milliseconds >= MILLISECONDS_MIN && (rate / counted - 1.0).abs() > 0.01 {
        return Err(ReportError::whole(format!("{at} is {rate}, but count and time give {counted:.1}"))
            .hint("the file was modified, or its format is not supported"));
    }
    Ok(())
}

fn figure(value: &Value, at: &str, key: &str) -> Result<f64, ReportError> {
    value[key].as_f64().filter(|figure| *figure >= 0.0).ok_or_else(|| absent(&format!("{at}.{key}")))
}

fn absent(at: &str) -> ReportError {
    ReportError::whole(format!("{at} is missing or has the wrong type"))
        .hint("the file was modified, or its format is not supported")
}
