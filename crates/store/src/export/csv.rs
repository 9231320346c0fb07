//! Exports a run as CSV in long form: one row per sample, with all columns of its trial and run.

use std::io::{self, Write};

use model::values::plan::Plan;
use model::values::record::{RunRecord, TrialRecord};
use model::values::trial::{Sample, TrialStatus};

use crate::run::{json, word};

const COLUMNS: [&str; 26] = [
    "run",
    "experiment",
    "host",
    "simulated",
    "trial",
    "position",
    "role",
    "block",
    "attempt",
    "workload",
    "test",
    "parameters",
    "placement",
    "threads",
    "cpus",
    "memory",
    "started_unix_ms",
    "took_ns",
    "status",
    "why",
    "verdict",
    "reasons",
    "series",
    "unit",
    "ordinal",
    "value",
];

pub(super) fn write(record: &RunRecord, trials: &[TrialRecord], out: &mut dyn Write) -> io::Result<()> {
    write_rows(record, trials, out).map_err(|error| match error.into_kind() {
        // Keeps the kind, because a closed pipe is not an error (`| head`).
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    })
}

fn write_rows(record: &RunRecord, trials: &[TrialRecord], out: &mut dyn Write) -> csv::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    for trial in trials {
        let about = about(record, trial);
        let samples = trial.outcome.samples.iter().enumerate();
        for (ordinal, sample) in samples {
            csv.write_record(about.iter().chain(&measured(&record.plan, trial, ordinal, sample)))?;
        }
        if trial.outcome.samples.is_empty() {
            csv.write_record(about.iter().chain(&<[String; 4]>::default()))?;
        }
    }
    Ok(csv.flush()?)
}

fn about(record: &RunRecord, TrialRecord { position, trial, outcome, verdict }: &TrialRecord) -> [String; 22] {
    let (status, why) = match &outcome.status {
        TrialStatus::Completed => ("completed", ""),
        TrialStatus::Failed(why) => ("failed", why.as_str()),
        TrialStatus::TimedOut(why) => ("timed-out", why.as_str()),
        TrialStatus::Unavailable(why) => ("unavailable", why.as_str()),
    };
    let test = record.plan.cells.get(trial.cell).map_or(&trial.workload, |cell| &cell.test);
    [
        record.id.0.clone(),
        record.plan.experiment.clone(),
        record.host.clone().unwrap_or_default(),
        record.simulated.clone().unwrap_or_default(),
        trial.id.0.clone(),
        position.to_string(),
        word(&trial.role),
        trial.block.to_string(),
        trial.attempt.to_string(),
        trial.workload.clone(),
        test.clone(),
        json(&trial.parameters),
        trial.placement.name.clone(),
        trial.placement.threads.to_string(),
        trial.placement.cpus().to_string(),
        trial.placement.memory.to_string(),
        outcome.started_unix_ms.to_string(),
        outcome.took.0.to_string(),
        status.into(),
        why.into(),
        word(&verdict.grade),
        verdict.reasons.join("; "),
    ]
}

fn measured(plan: &Plan, trial: &TrialRecord, ordinal: usize, sample: &Sample) -> [String; 4] {
    let metrics = plan.spec(&trial.trial.workload).map_or(&[][..], |spec| &spec.metrics);
    let unit = metrics.iter().find(|metric| metric.series == sample.series).map_or("", |metric| &metric.unit);
    [sample.series.clone(), unit.into(), ordinal.to_string(), sample.value.to_string()]
}
