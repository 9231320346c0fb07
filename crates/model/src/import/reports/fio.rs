//! fio's JSON, version 3: for each job and direction how many requests and bytes a second, the latency from submission to
//! completion, and what the job took of the cpus. Does not read what fio records over time (logs) nor its bins (`json+`),
//! which are kept in no table; whether the device or the page cache answered is in the job's options, not in the figures.
//! Workload `fio` reads what its trials print with the same reader.

use serde_json::Value;

use super::{ImportedReport, ReportError, row, single};
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

const DIRECTIONS: [&str; 4] = ["read", "write", "trim", "mixed"];
const PERCENTILES: [(&str, &str); 3] = [("50.000000", "p50"), ("99.000000", "p99"), ("99.900000", "p99.9")];
/// Requests a second are counted over milliseconds: where there are this many, they must fit the count to a percent.
const MILLISECONDS_MIN: f64 = 200.0;

/// What a run of fio wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Such as `3.33`.
    pub version: String,
    /// In the order of the file; copies of one job (numjobs) one by one, or together with `group_reporting`.
    pub jobs: Vec<FioJobResult>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FioJobResult {
    /// Its name; copies have numbers.
    pub name: String,
    /// The directions in which it did requests: `read`, `write`, `trim`, and `mixed` where fio put them together.
    pub directions: Vec<(&'static str, Figures)>,
    /// What it took of the cpus, user and system together, in microseconds, all copies together.
    pub cpu_us: f64,
    /// Its options, and those of all jobs.
    pub options: Vec<(String, String)>,
}

/// One direction of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    pub count: f64,
    /// How long it took, which fio counts in whole milliseconds.
    pub milliseconds: f64,
    /// Requests a second.
    pub rate: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// From wanting to submit a request to having submitted it; none of engines that do both at once.
    pub submission: Option<Latency>,
    /// From there until it was done; none with `gtod_reduce`.
    pub completion: Option<Latency>,
    pub total: Option<Latency>,
}

/// How long requests took, in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    pub mean_us: f64,
    pub max_us: f64,
    /// Percentiles by fio's name for them, such as `99.900000`.
    pub percentiles: Vec<(String, f64)>,
}

impl Latency {
    /// The percentile of this name.
    pub fn percentile(&self, name: &str) -> Option<f64> {
        self.percentiles.iter().find(|(known, _)| known == name).map(|(_, us)| *us)
    }
}

impl FioJobResult {
    /// A direction in which it did requests.
    pub fn direction(&self, name: &str) -> Option<&Figures> {
        self.directions.iter().find(|(known, _)| *known == name).map(|(_, figures)| figures)
    }
}

/// Whether a text looks like it.
pub fn detect(text: &str) -> bool {
    text.contains("\"fio version\"")
}

/// Reads it as rows of a table.
pub fn read(text: &str) -> Result<ImportedReport, ReportError> {
    let output = parse(text)?;
    let mut facts = vec![("fio".to_string(), output.version)];
    let mut rows: Vec<ImportedRow> = Vec::new();
    for job in &output.jobs {
        rows.extend(job.directions.iter().flat_map(|(direction, figures)| rows_of(&job.name, direction, figures)));
        facts.extend(job.options.iter().map(|(key, value)| (format!("{key} of {}", job.name), value.clone())));
    }
    if rows.is_empty() {
        return Err(ReportError::whole("no job did a request"));
    }
    Ok(single(rows, facts))
}

/// Reads all that is understood of it. A job that failed is an error.
pub fn parse(text: &str) -> Result<Output, ReportError> {
    let value = json(text)?;
    let version = value["fio version"].as_str().unwrap_or_default();
    if !version.starts_with("fio-3.") {
        return Err(ReportError::whole(format!("version '{version}' is not known; JSON of fio 3 can be read")));
    }
    let jobs = value["jobs"].as_array().filter(|jobs| !jobs.is_empty());
    let jobs =
        jobs.ok_or_else(|| ReportError::whole("there is no list 'jobs'").hint("fio's client mode is not read"))?;
    let mut names: Vec<&str> = Vec::new();
    let mut output = Output { version: version.trim_start_matches("fio-").to_string(), jobs: Vec::new() };
    for (index, job) in jobs.iter().enumerate() {
        let at = format!("jobs[{index}]");
        let given = job["jobname"].as_str().ok_or_else(|| absent(&format!("{at}.jobname")))?;
        // Copies of one job (numjobs) have one name.
        let copies = names.iter().filter(|name| **name == given).count();
        let name = if copies == 0 { given.to_string() } else { format!("{given} copy {}", copies + 1) };
        names.push(given);
        output.jobs.push(one_job(name, job, &value["global options"], &at)?);
    }
    Ok(output)
}

fn one_job(name: String, job: &Value, global: &Value, at: &str) -> Result<FioJobResult, ReportError> {
    let error = figure(job, at, "error")?;
    if error != 0.0 {
        return Err(ReportError::whole(format!("job '{name}' failed with error {error}, its figures mean nothing"))
            .hint("mend the job and run fio again"));
    }
    let mut directions = Vec::new();
    for direction in DIRECTIONS.into_iter().filter(|direction| job.get(direction).is_some()) {
        let figures = figures(&job[direction], &format!("{at}.{direction}"))?;
        directions.extend(figures.map(|figures| (direction, figures)));
    }
    let percent = figure(job, at, "usr_cpu")? + figure(job, at, "sys_cpu")?;
    // The run times of copies are added up, and the shares of the cpu are of that sum.
    let cpu_us = percent / 100.0 * figure(job, at, "job_runtime")? * 1000.0;
    let options = [global, &job["job options"]].into_iter().filter_map(Value::as_object).flatten();
    let options = options.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_string()))).collect();
    Ok(FioJobResult { name, directions, cpu_us, options })
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

/// None of a direction in which nothing was done.
fn figures(value: &Value, at: &str) -> Result<Option<Figures>, ReportError> {
    let count = figure(value, at, "total_ios")?;
    if count == 0.0 {
        return Ok(None);
    }
    let (rate, milliseconds) = (figure(value, at, "iops")?, figure(value, at, "runtime")?);
    let bytes_per_second = figure(value, at, "bw_bytes")?;
    fits(rate, count, milliseconds, &format!("{at}.iops"))?;
    fits(bytes_per_second, figure(value, at, "io_bytes")?, milliseconds, &format!("{at}.bw_bytes"))?;
    let latency = |key: &str| latency(&value[key], &format!("{at}.{key}"));
    let (submission, completion, total) = (latency("slat_ns")?, latency("clat_ns")?, latency("lat_ns")?);
    Ok(Some(Figures { count, milliseconds, rate, bytes_per_second, submission, completion, total }))
}

/// None where nothing was timed.
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
