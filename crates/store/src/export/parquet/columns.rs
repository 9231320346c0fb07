//! The columns of a Parquet file: the only list, from which the schema and the content follow;
//! docs/reference/parquet-columns.md is checked against it. Names and meanings never change; new columns are appended.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::values::calendar::utc_date;
use model::values::machine_class::machine_class;
use model::values::plan::Plan;
use model::values::record::{RunRecord, TrialRecord};
use model::values::settings::FactValue;
use model::values::topology::Counts;
use model::values::trial::{Sample, TrialStatus};
use model::values::workload::{Better, MetricSpec};
use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::schema::types::{Type, TypePtr};

use crate::run::{json, word};

/// A run with the values of columns that are equal for all its trials.
pub(super) struct RunRow<'a> {
    pub(super) record: &'a RunRecord,
    /// The day on which the run began, in UTC.
    pub(super) date: String,
    pub(super) machine_class: String,
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
            date: utc_date(record.started_unix_ms),
            machine_class: machine_class(&record.machine, record.simulated.is_some()),
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
    plan.command.clear();
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
    Whole(for<'a> fn(&'a TrialRow<'a>) -> Option<i64>),
    /// Milliseconds since 1970.
    Time(for<'a> fn(&'a TrialRow<'a>) -> Option<i64>),
    SampleText(for<'a> fn(&SampleRow<'a>) -> Option<Cow<'a, str>>),
    SampleWhole(for<'a> fn(&SampleRow<'a>) -> i64),
    SampleReal(for<'a> fn(&SampleRow<'a>) -> f64),
}

pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) cell: CellReader,
}

const fn column(name: &'static str, cell: CellReader) -> Column {
    Column { name, cell }
}

pub(super) const COLUMNS: [Column; 50] = [
    column("run", CellReader::Text(|row| text(&row.run.record.id.0))),
    column("plan", CellReader::Text(|row| text(&row.run.plan_key))),
    column("program", CellReader::Text(|row| text(&row.run.record.program))),
    column("host", CellReader::Text(|row| row.run.record.host.as_deref().map(Cow::from))),
    column("simulated", CellReader::Text(|row| row.run.record.simulated.as_deref().map(Cow::from))),
    column("run_started", CellReader::Time(|row| whole(row.run.record.started_unix_ms))),
    column("ended", CellReader::Text(|row| row.run.record.ended.map(|ended| word(&ended).into()))),
    column("trial", CellReader::Text(|row| text(&row.record.trial.id.0))),
    column("position", CellReader::Whole(|row| Some(row.record.position.into()))),
    column("role", CellReader::Text(|row| Some(word(&row.record.trial.role).into()))),
    column("block", CellReader::Whole(|row| Some(row.record.trial.block.into()))),
    column("attempt", CellReader::Whole(|row| Some(row.record.trial.attempt.into()))),
    column("workload", CellReader::Text(|row| text(&row.record.trial.workload))),
    column("test", CellReader::Text(|row| text(row.test()))),
    column("parameters", CellReader::Text(|row| Some(json(&row.record.trial.parameters).into()))),
    column("placement", CellReader::Text(|row| text(&row.record.trial.placement.name))),
    column("threads", CellReader::Whole(|row| whole(row.record.trial.placement.threads as u64))),
    column("cpus", CellReader::Text(|row| Some(row.record.trial.placement.cpus().to_string().into()))),
    column("memory", CellReader::Text(|row| Some(row.record.trial.placement.memory.to_string().into()))),
    column("trial_started", CellReader::Time(|row| whole(row.record.outcome.started_unix_ms))),
    column("took_ns", CellReader::Whole(|row| whole(row.record.outcome.took.0))),
    column("status", CellReader::Text(|row| text(row.status().0))),
    column("why", CellReader::Text(|row| row.status().1.map(Cow::from))),
    column("verdict", CellReader::Text(|row| Some(word(&row.record.verdict.grade).into()))),
    column("reasons", CellReader::Text(|row| Some(row.record.verdict.reasons.join("; ").into()))),
    column("series", CellReader::SampleText(|row| text(&row.sample.series))),
    column("unit", CellReader::SampleText(|row| row.metric.map(|metric| Cow::from(&metric.unit)))),
    column("better", CellReader::SampleText(|row| row.metric.map(better))),
    column("ordinal", CellReader::SampleWhole(|row| row.ordinal as i64)),
    column("value", CellReader::SampleReal(|row| row.sample.value)),
    column("cpu_model", CellReader::Text(|row| row.run.fact("cpu.model"))),
    column("microcode", CellReader::Text(|row| row.run.fact("cpu.microcode"))),
    column("architecture", CellReader::Text(|row| row.run.fact("machine.architecture"))),
    column("machine_model", CellReader::Text(|row| row.run.fact("machine.model"))),
    column("virtualization", CellReader::Text(|row| row.run.fact("machine.virtualization"))),
    column("kernel", CellReader::Text(|row| row.run.fact("kernel.release"))),
    column("governor", CellReader::Text(|row| row.run.fact("cpu.governor"))),
    column("thp", CellReader::Text(|row| row.run.fact("memory.thp"))),
    column("packages", CellReader::Whole(|row| whole(row.run.counts.packages as u64))),
    column("l3_caches", CellReader::Whole(|row| whole(row.run.counts.l3 as u64))),
    column("cores", CellReader::Whole(|row| whole(row.run.record.machine.topology.cores().len() as u64))),
    column("machine_cpus", CellReader::Whole(|row| whole(row.run.counts.pus as u64))),
    column("memory_nodes", CellReader::Whole(|row| whole(row.run.counts.numa as u64))),
    column("memory_bytes", CellReader::Whole(memory_bytes)),
    column("settings_fingerprint", CellReader::Text(|row| text(&row.run.fingerprint))),
    column("settings", CellReader::Text(|row| text(&row.run.settings))),
    column("cell", CellReader::Whole(|row| whole(row.record.trial.cell as u64))),
    column("seed", CellReader::Text(|row| text(&row.run.seed))),
    column("plan_json", CellReader::Text(|row| text(&row.run.plan))),
    column("facts", CellReader::Text(|row| text(&row.run.facts))),
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

/// `None` beyond 63 bits, where no value is plausible.
fn whole(number: u64) -> Option<i64> {
    number.try_into().ok()
}

/// The total memory. `None` if the size of any node is unknown.
fn memory_bytes(row: &TrialRow<'_>) -> Option<i64> {
    let nodes = &row.run.record.machine.topology.nodes;
    let sum: u64 = nodes.iter().map(|node| node.bytes.0).sum();
    whole(sum).filter(|_| !nodes.is_empty() && nodes.iter().all(|node| node.bytes.0 > 0))
}

/// The schema of the columns. All are nullable, as is usual in files of other programs.
pub(super) fn schema() -> TypePtr {
    let fields = COLUMNS.iter().map(|column| Arc::new(field(column))).collect();
    Arc::new(Type::group_type_builder("nearfar").with_fields(fields).build().expect("column names are unique"))
}

fn field(column: &Column) -> Type {
    let (physical, logical) = match column.cell {
        CellReader::Text(_) | CellReader::SampleText(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        CellReader::Whole(_) | CellReader::SampleWhole(_) => (Physical::INT64, None),
        CellReader::Time(_) => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
        CellReader::SampleReal(_) => (Physical::DOUBLE, None),
    };
    Type::primitive_type_builder(column.name, physical)
        .with_logical_type(logical)
        .with_repetition(Repetition::OPTIONAL)
        .build()
        .expect("the logical types match the physical types")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference page has a row `| name | type | meaning |` for each column, in the same order.
    #[test]
    fn reference_page_lists_every_column() {
        let guide = include_str!("../../../../../docs/reference/parquet-columns.md");
        let documented: Vec<(&str, &str)> = guide
            .lines()
            .skip_while(|line| !line.starts_with("| column | type |"))
            .filter_map(|line| {
                let mut cells = line.strip_prefix("| `")?.split('|');
                Some((cells.next()?.trim().trim_end_matches('`'), cells.next()?.trim()))
            })
            .collect();
        let columns: Vec<(&str, &str)> = COLUMNS
            .iter()
            .map(|column| {
                let kind = match column.cell {
                    CellReader::Text(_) | CellReader::SampleText(_) => "text",
                    CellReader::Whole(_) | CellReader::SampleWhole(_) => "int64",
                    CellReader::Time(_) => "timestamp",
                    CellReader::SampleReal(_) => "double",
                };
                (column.name, kind)
            })
            .collect();
        assert_eq!(documented, columns);
    }
}
