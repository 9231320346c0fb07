//! The columns of a Parquet file, in one list from which schema, content and the table of docs/reference/parquet-columns.md follow.
//! Names and meanings stay; new ones come behind the last.

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

/// A run, with what its columns would otherwise make again for each trial.
pub(super) struct RunRow<'a> {
    pub(super) record: &'a RunRecord,
    /// The day on which it began, in UTC.
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

/// A plan without its sentences, which are most of it: what is left says what was measured and how that is compared.
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

/// A trial, with its run and what its samples are.
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

/// One sample, and what it is a sample of.
pub(super) struct SampleRow<'a> {
    ordinal: usize,
    sample: &'a Sample,
    metric: Option<&'a MetricSpec>,
}

/// How a column's cells are found; none is null.
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
    column("run", CellReader::Text(|of| text(&of.run.record.id.0))),
    column("plan", CellReader::Text(|of| text(&of.run.plan_key))),
    column("program", CellReader::Text(|of| text(&of.run.record.program))),
    column("host", CellReader::Text(|of| of.run.record.host.as_deref().map(Cow::from))),
    column("simulated", CellReader::Text(|of| of.run.record.simulated.as_deref().map(Cow::from))),
    column("run_started", CellReader::Time(|of| whole(of.run.record.started_unix_ms))),
    column("ended", CellReader::Text(|of| of.run.record.ended.map(|ended| word(&ended).into()))),
    column("trial", CellReader::Text(|of| text(&of.record.trial.id.0))),
    column("position", CellReader::Whole(|of| Some(of.record.position.into()))),
    column("role", CellReader::Text(|of| Some(word(&of.record.trial.role).into()))),
    column("block", CellReader::Whole(|of| Some(of.record.trial.block.into()))),
    column("attempt", CellReader::Whole(|of| Some(of.record.trial.attempt.into()))),
    column("workload", CellReader::Text(|of| text(&of.record.trial.workload))),
    column("test", CellReader::Text(|of| text(of.test()))),
    column("parameters", CellReader::Text(|of| Some(json(&of.record.trial.parameters).into()))),
    column("placement", CellReader::Text(|of| text(&of.record.trial.placement.name))),
    column("threads", CellReader::Whole(|of| whole(of.record.trial.placement.threads as u64))),
    column("cpus", CellReader::Text(|of| Some(of.record.trial.placement.cpus().to_string().into()))),
    column("memory", CellReader::Text(|of| Some(of.record.trial.placement.memory.to_string().into()))),
    column("trial_started", CellReader::Time(|of| whole(of.record.outcome.started_unix_ms))),
    column("took_ns", CellReader::Whole(|of| whole(of.record.outcome.took.0))),
    column("status", CellReader::Text(|of| text(of.status().0))),
    column("why", CellReader::Text(|of| of.status().1.map(Cow::from))),
    column("verdict", CellReader::Text(|of| Some(word(&of.record.verdict.grade).into()))),
    column("reasons", CellReader::Text(|of| Some(of.record.verdict.reasons.join("; ").into()))),
    column("series", CellReader::SampleText(|of| text(&of.sample.series))),
    column("unit", CellReader::SampleText(|of| of.metric.map(|metric| Cow::from(&metric.unit)))),
    column("better", CellReader::SampleText(|of| of.metric.map(better))),
    column("ordinal", CellReader::SampleWhole(|of| of.ordinal as i64)),
    column("value", CellReader::SampleReal(|of| of.sample.value)),
    column("cpu_model", CellReader::Text(|of| of.run.fact("cpu.model"))),
    column("microcode", CellReader::Text(|of| of.run.fact("cpu.microcode"))),
    column("architecture", CellReader::Text(|of| of.run.fact("machine.architecture"))),
    column("machine_model", CellReader::Text(|of| of.run.fact("machine.model"))),
    column("virtualization", CellReader::Text(|of| of.run.fact("machine.virtualization"))),
    column("kernel", CellReader::Text(|of| of.run.fact("kernel.release"))),
    column("governor", CellReader::Text(|of| of.run.fact("cpu.governor"))),
    column("thp", CellReader::Text(|of| of.run.fact("memory.thp"))),
    column("packages", CellReader::Whole(|of| whole(of.run.counts.packages as u64))),
    column("l3_caches", CellReader::Whole(|of| whole(of.run.counts.l3 as u64))),
    column("cores", CellReader::Whole(|of| whole(of.run.record.machine.topology.cores().len() as u64))),
    column("machine_cpus", CellReader::Whole(|of| whole(of.run.counts.pus as u64))),
    column("memory_nodes", CellReader::Whole(|of| whole(of.run.counts.numa as u64))),
    column("memory_bytes", CellReader::Whole(memory_bytes)),
    column("settings_fingerprint", CellReader::Text(|of| text(&of.run.fingerprint))),
    column("settings", CellReader::Text(|of| text(&of.run.settings))),
    column("cell", CellReader::Whole(|of| whole(of.record.trial.cell as u64))),
    column("seed", CellReader::Text(|of| text(&of.run.seed))),
    column("plan_json", CellReader::Text(|of| text(&of.run.plan))),
    column("facts", CellReader::Text(|of| text(&of.run.facts))),
];

#[allow(clippy::unnecessary_wraps)] // as a column's cell is wanted
fn text(text: &str) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(text))
}

fn better(metric: &MetricSpec) -> Cow<'static, str> {
    Cow::Borrowed(match metric.better {
        Better::Higher => "higher",
        Better::Lower => "lower",
    })
}

/// Beyond the 63 bits of a column there is no number that makes sense.
fn whole(number: u64) -> Option<i64> {
    number.try_into().ok()
}

/// Nodes that do not say how large they are make the sum unknown, not small.
fn memory_bytes(of: &TrialRow<'_>) -> Option<i64> {
    let nodes = &of.run.record.machine.topology.nodes;
    let sum: u64 = nodes.iter().map(|node| node.bytes.0).sum();
    whole(sum).filter(|_| !nodes.is_empty() && nodes.iter().all(|node| node.bytes.0 > 0))
}

/// The schema of the columns. Every one may be null, as other programs write it too.
pub(super) fn schema() -> TypePtr {
    let fields = COLUMNS.iter().map(|column| Arc::new(field(column))).collect();
    Arc::new(Type::group_type_builder("nearfar").with_fields(fields).build().expect("the names differ"))
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
        .expect("these physical types have these meanings")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guide's table has a row `| name | type | meaning |` for each column, in their order.
    #[test]
    fn the_guide_has_every_column() {
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
