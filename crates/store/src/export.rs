//! Results for other programs: CSV with one line per sample, the whole run as JSON, hyperfine's JSON.

use std::collections::BTreeMap;
use std::io::Write;

use model::finding::{CellFinding, summarise};
use model::record::{RunId, TrialRecord};
use model::statistics::quantile;
use model::trial::Role;
use serde_json::{Value, json};

use crate::{Store, StoreError};

/// One line per sample, long form.
pub fn csv(store: &Store, run: &RunId, out: &mut dyn Write) -> Result<(), StoreError> {
    let record = store.run(&run.0)?;
    let mut writer = csv::Writer::from_writer(out);
    let broken = |error: csv::Error| StoreError::File(format!("the export cannot be written: {error}"));
    writer
        .write_record([
            "run", "experiment", "trial", "position", "role", "block", "attempt", "verdict", "workload", "test", "parameters",
            "placement", "threads", "cpus", "memory", "series", "value",
        ])
        .map_err(broken)?;
    for trial in store.trials(run)? {
        let cell = &record.plan.cells[trial.trial.cell];
        let parameters = record.plan.spec(&cell.workload).map(|spec| spec.written(&cell.parameters)).unwrap_or_default();
        let parameters: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        for sample in &trial.outcome.samples {
            writer
                .write_record([
                    &record.id.0,
                    &record.plan.experiment,
                    &trial.trial.id.0,
                    &trial.position.to_string(),
                    role(trial.trial.role),
                    &trial.trial.block.to_string(),
                    &trial.trial.attempt.to_string(),
                    &format!("{:?}", trial.verdict.grade).to_lowercase(),
                    &cell.workload,
                    &cell.test,
                    &parameters.join(" "),
                    &cell.placement.name,
                    &cell.placement.threads.to_string(),
                    &cell.placement.cpus().to_string(),
                    &cell.placement.memory.to_string(),
                    &sample.series,
                    &sample.value.to_string(),
                ])
                .map_err(broken)?;
        }
    }
    writer.flush().map_err(|error| StoreError::File(format!("the export cannot be written: {error}")))
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Warmup => "warmup",
        Role::Measured => "measured",
    }
}

/// The run, its findings and every trial with its samples and evidence.
pub fn json(store: &Store, run: &RunId, out: &mut dyn Write) -> Result<(), StoreError> {
    let record = store.run(&run.0)?;
    let trials = store.trials(run)?;
    let finding = summarise(&record.plan, &trials);
    write_json(out, &json!({ "run": record, "finding": finding, "trials": trials }))
}

/// The shape of `hyperfine --export-json`: one result per cell that has a time in seconds.
pub fn hyperfine(store: &Store, run: &RunId, out: &mut dyn Write) -> Result<(), StoreError> {
    let record = store.run(&run.0)?;
    let trials = store.trials(run)?;
    let finding = summarise(&record.plan, &trials);
    let results: Vec<Value> = finding.cells.iter().filter_map(|cell| hyperfine_result(cell, &trials)).collect();
    if results.is_empty() {
        return Err(StoreError::NotFound(format!(
            "run {run} has no times in seconds, which is what hyperfine's format holds\nhint: --format csv or json have everything"
        )));
    }
    write_json(out, &json!({ "results": results }))
}

fn hyperfine_result(cell: &CellFinding, _trials: &[TrialRecord]) -> Option<Value> {
    let metric = |name: &str| cell.metrics.iter().find(|metric| metric.name == name && !metric.samples.is_empty());
    let time = cell.metrics.iter().find(|metric| metric.unit == "s" && !metric.samples.is_empty())?;
    let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len() as f64;
    let times = &time.samples;
    let center = mean(times);
    let variance = times.iter().map(|time| (time - center).powi(2)).sum::<f64>() / (times.len() as f64 - 1.0);
    let mut parameters: BTreeMap<String, String> = cell.parameters.clone();
    parameters.insert("placement".into(), cell.placement.clone());
    Some(json!({
        "command": format!("{} @ {}", cell.test, cell.placement),
        "mean": center,
        "stddev": (times.len() > 1).then(|| variance.sqrt()),
        "median": time.median,
        "user": metric("user").map_or(0.0, |user| mean(&user.samples)),
        "system": metric("system").map_or(0.0, |system| mean(&system.samples)),
        "min": quantile(times, 0.0),
        "max": quantile(times, 1.0),
        "times": times,
        "exit_codes": vec![0; times.len()],
        "parameters": parameters,
    }))
}

fn write_json(out: &mut dyn Write, value: &Value) -> Result<(), StoreError> {
    serde_json::to_writer_pretty(&mut *out, value)
        .map_err(std::io::Error::from)
        .and_then(|()| writeln!(out))
        .map_err(|error| StoreError::File(format!("the export cannot be written: {error}")))
}
