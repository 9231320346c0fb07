//! The columns of the exports with one row per sample, CSV and Parquet: the only list, from which headers, schema and
//! content follow. docs/reference/parquet-columns.md and docs/reference/csv.md are checked against it. Names and meanings
//! never change; new columns are appended. Must not depend on the parquet crate, which is optional.

use std::borrow::Cow;
use std::collections::BTreeMap;

use model::values::plan::Plan;
use model::values::record::{RunRecord, TrialRecord};
use model::values::settings::FactValue;
use model::values::topology::Counts;
use model::values::trial::{Sample, TrialStatus};
use model::values::workload::{Better, MetricSpec};

use crate::run::{json, word};

/// A run with the values of columns that are equal for all its trials.
pub(super) struct RunRow<'a> {
    record: &'a RunRecord,
    plan_key: String,
    counts: Counts,
    fingerprint: String,
    settings: String,
    seed: String,
    plan: String,
    facts: String,
}

impl<'a> RunRow<'a> {
    pub(super) fn new(record: &'a RunRecord) -> Self {
        let facts = &record.machine.settings.facts;
        let known: BTreeMap<&str, &str> = facts
            .iter()
            .filter_map(|fact| match &fact.value {
                FactValue::Known(value) => Some((fact.key.as_str(), value.as_str())),
                FactValue::Unavailable(_) => None,
            })
            .collect();
        Self {
            record,
            plan_key: record.plan.key(),
            counts: record.machine.topology.counts(),
            fingerprint: record.machine.settings.fingerprint(),
            settings: json(&known),
            seed: record.seed.to_string(),
            plan: plan_json(&record.plan),
            facts: json(&record.machine.settings),
        }
    }

    fn fact(&self, key: &str) -> Option<Cow<'_, str>> {
        self.record.machine.settings.get(key).map(Cow::from)
    }
}

/// The plan without its texts, which are most of it: what was measured and how it is compared remains.
fn plan_json(plan: &Plan) -> String {
    let mut plan = plan.clone();
    for spec in &mut plan.workloads {
        spec.about.clear();
        spec.summary.clear();
        spec.parameters.iter_mut().for_each(|parameter| parameter.about.clear());
    }
    plan.cells.iter_mut().for_each(|cell| cell.placement.reason.clear());
    plan.skipped.clear();
    // Its stamp is read from the command.
    plan.command = if plan.is_smoke() { vec!["--smoke".into()] } else { Vec::new() };
    json(&plan)
}

/// A trial with its run and its metrics.
pub(super) struct TrialRow<'a> {
    run: &'a RunRow<'a>,
    pub(super) record: &'a TrialRecord,
    metrics: &'a [MetricSpec],
}

impl<'a> TrialRow<'a> {
    pub(super) fn new(run: &'a RunRow<'a>, record: &'a TrialRecord) -> Self {
        let metrics = run.record.plan.spec(&record.trial.workload).map_or(&[][..], |spec| &spec.metrics);
        Self { run, record, metrics }
    }

    pub(super) fn samples(&self) -> impl Iterator<Item = SampleRow<'a>> + use<'a> {
        let metrics = self.metrics;
        self.record.outcome.samples.iter().enumerate().map(move |(ordinal, sample)| SampleRow {
            ordinal,
            sample,
            metric: metrics.iter().find(|metric| metric.series == sample.series),
        })
    }

    fn test(&self) -> &str {
        let trial = &self.record.trial;
        self.run.record.plan.cells.get(trial.cell).map_or(&trial.workload, |cell| &cell.test)
    }

    fn status(&self) -> (&'static str, Option<&str>) {
        match &self.record.outcome.status {
            TrialStatus::Completed => ("completed", None),
            TrialStatus::Failed(why) => ("failed", Some(why)),
            TrialStatus::TimedOut(why) => ("timed-out", Some(why)),
            TrialStatus::Unavailable(why) => ("unavailable", Some(why)),
        }
    }
}

/// A sample with its metric, if known.
pub(super) struct SampleRow<'a> {
    ordinal: usize,
    sample: &'a Sample,
    metric: Option<&'a MetricSpec>,
}

/// Reads a column's cell; `None` is null.
#[derive(Clone, Copy)]
pub(super) enum CellReader {
    Text(for<'a> fn(&'a TrialRow<'a>) -> Option<Cow<'a, str>>),
    Whole(for<'a> fn(&'a TrialRow<'a>) -> Option<u64>),
    /// Milliseconds since 1970.
    Time(for<'a> fn(&'a TrialRow<'a>) -> Option<u64>),
    SampleText(for<'a> fn(&SampleRow<'a>) -> Option<Cow<'a, str>>),
    SampleWhole(for<'a> fn(&SampleRow<'a>) -> u64),
    SampleReal(for<'a> fn(&SampleRow<'a>) -> f64),
}

/// The formats that have a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formats {
    Both,
    Csv,
    Parquet,
}

pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) formats: Formats,
    pub(super) cell: CellReader,
}

const fn both(name: &'static str, cell: CellReader) -> Column {
    Column { name, formats: Formats::Both, cell }
}

const fn csv(name: &'static str, cell: CellReader) -> Column {
    Column { name, formats: Formats::Csv, cell }
}

const fn parquet(name: &'static str, cell: CellReader) -> Column {
    Column { name, formats: Formats::Parquet, cell }
}

pub(super) static COLUMNS: &[Column] = &[
    both("run", CellReader::Text(|row| text(&row.run.record.id.0))),
    csv("experiment", CellReader::Text(|row| text(&row.run.record.plan.experiment))), // in the path of a Parquet file
    parquet("plan", CellReader::Text(|row| text(&row.run.plan_key))),
    parquet("program", CellReader::Text(|row| text(&row.run.record.program))),
    both("host", CellReader::Text(|row| row.run.record.host.as_deref().map(Cow::from))),
    both("simulated", CellReader::Text(|row| row.run.record.simulated.as_deref().map(Cow::from))),
    parquet("run_started", CellReader::Time(|row| Some(row.run.record.started_unix_ms))),
    parquet("ended", CellReader::Text(|row| row.run.record.ended.map(|ended| word(&ended).into()))),
    both("trial", CellReader::Text(|row| text(&row.record.trial.id.0))),
    both("position", CellReader::Whole(|row| Some(row.record.position.into()))),
    both("role", CellReader::Text(|row| Some(word(&row.record.trial.role).into()))),
    both("block", CellReader::Whole(|row| Some(row.record.trial.block.into()))),
    both("attempt", CellReader::Whole(|row| Some(row.record.trial.attempt.into()))),
    both("workload", CellReader::Text(|row| text(&row.record.trial.workload))),
    both("test", CellReader::Text(|row| text(row.test()))),
    both("parameters", CellReader::Text(|row| Some(json(&row.record.trial.parameters).into()))),
    both("placement", CellReader::Text(|row| text(&row.record.trial.placement.name))),
    both("threads", CellReader::Whole(|row| Some(row.record.trial.placement.threads as u64))),
    both("cpus", CellReader::Text(|row| Some(row.record.trial.placement.cpus().to_string().into()))),
    both("memory", CellReader::Text(|row| Some(row.record.trial.placement.memory.to_string().into()))),
    parquet("trial_started", CellReader::Time(|row| Some(row.record.outcome.started_unix_ms))),
    csv("started_unix_ms", CellReader::Whole(|row| Some(row.record.outcome.started_unix_ms))),
    both("took_ns", CellReader::Whole(|row| Some(row.record.outcome.took.0))),
    both("status", CellReader::Text(|row| text(row.status().0))),
    both("why", CellReader::Text(|row| row.status().1.map(Cow::from))),
    both("verdict", CellReader::Text(|row| Some(word(&row.record.verdict.grade).into()))),
    both("reasons", CellReader::Text(|row| Some(row.record.verdict.reasons.join("; ").into()))),
    both("series", CellReader::SampleText(|row| text(&row.sample.series))),
    both("unit", CellReader::SampleText(|row| row.metric.map(|metric| Cow::from(&metric.unit)))),
    parquet("better", CellReader::SampleText(|row| row.metric.map(better))),
    both("ordinal", CellReader::SampleWhole(|row| row.ordinal as u64)),
    both("value", CellReader::SampleReal(|row| row.sample.value)),
    parquet("cpu_model", CellReader::Text(|row| row.run.fact("cpu.model"))),
    parquet("microcode", CellReader::Text(|row| row.run.fact("cpu.microcode"))),
    parquet("architecture", CellReader::Text(|row| row.run.fact("machine.architecture"))),
    parquet("machine_model", CellReader::Text(|row| row.run.fact("machine.model"))),
    parquet("virtualization", CellReader::Text(|row| row.run.fact("machine.virtualization"))),
    parquet("kernel", CellReader::Text(|row| row.run.fact("kernel.release"))),
    parquet("governor", CellReader::Text(|row| row.run.fact("cpu.governor"))),
    parquet("thp", CellReader::Text(|row| row.run.fact("memory.thp"))),
    parquet("packages", CellReader::Whole(|row| Some(row.run.counts.packages as u64))),
    parquet("l3_caches", CellReader::Whole(|row| Some(row.run.counts.l3 as u64))),
    parquet("cores", CellReader::Whole(|row| Some(row.run.record.machine.topology.cores().len() as u64))),
    parquet("machine_cpus", CellReader::Whole(|row| Some(row.run.counts.pus as u64))),
    parquet("memory_nodes", CellReader::Whole(|row| Some(row.run.counts.numa as u64))),
    parquet("memory_bytes", CellReader::Whole(memory_bytes)),
    parquet("settings_fingerprint", CellReader::Text(|row| text(&row.run.fingerprint))),
    parquet("settings", CellReader::Text(|row| text(&row.run.settings))),
    parquet("cell", CellReader::Whole(|row| Some(row.record.trial.cell as u64))),
    parquet("seed", CellReader::Text(|row| text(&row.run.seed))),
    parquet("plan_json", CellReader::Text(|row| text(&row.run.plan))),
    parquet("facts", CellReader::Text(|row| text(&row.run.facts))),
    csv("smoke", CellReader::Text(|row| text(if row.run.record.stamp().smoke { "true" } else { "false" }))),
    csv("cpu_model", CellReader::Text(|row| row.run.fact("cpu.model"))), // at the end: CSV keeps its order
];

#[allow(clippy::unnecessary_wraps)] // the type of a column's reader
fn text(text: &str) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(text))
}

fn better(metric: &MetricSpec) -> Cow<'static, str> {
    Cow::Borrowed(match metric.better {
        Better::Higher => "higher",
        Better::Lower => "lower",
    })
}

/// The total memory. `None` if the size of any node is unknown.
fn memory_bytes(row: &TrialRow<'_>) -> Option<u64> {
    let nodes = &row.run.record.machine.topology.nodes;
    let sum: u64 = nodes.iter().map(|node| node.bytes.0).sum();
    let known = !nodes.is_empty() && nodes.iter().all(|node| node.bytes.0 > 0);
    known.then_some(sum)
}
