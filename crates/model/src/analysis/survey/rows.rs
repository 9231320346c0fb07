//! Groups runs into classes of equal machines, and their values into series by test and metric in chronological order.

use std::collections::BTreeMap;

use super::{Machine, OutlierSide, SurveyOptions};
use crate::analysis::compare::{ComparedRun, check_not_mixed_with_simulated, host};
use crate::analysis::finding::{CellFinding, MetricFinding};
use crate::values::comparison::SuspectCount;
use crate::values::machine_class::machine_class;
use crate::values::record::RunRecord;
use crate::values::units::thread_count;
use crate::values::workload::Better;

/// Placeholder for a fact that a machine has not recorded.
const NOT_RECORDED: &str = "not recorded";
/// Half-width of a 95 % interval in standard errors.
const HALF_WIDTH: f64 = 1.96;

/// Machines with equal values of the facts that define a class, with their series.
pub(super) struct Class {
    pub(super) name: String,
    pub(super) machines: Vec<Runs>,
    pub(super) rows: Vec<TestSeries>,
}

/// Runs of one machine, as indices into the list of all runs, oldest first.
pub(super) struct Runs {
    pub(super) name: String,
    runs: Vec<usize>,
}

/// Values of one test and metric, or of all tests of an experiment, on the machines of a class.
pub(super) struct TestSeries {
    pub(super) test: String,
    pub(super) metric: String,
    /// `None` over all tests.
    pub(super) unit: Option<String>,
    pub(super) better: Better,
    main: bool,
    /// Values in chronological order.
    pub(super) seen: Vec<RunValue>,
}

#[derive(Clone, Debug)]
pub(super) struct RunValue {
    /// Index of the machine in the class.
    pub(super) machine: usize,
    pub(super) run: usize,
    /// Natural logarithm of the median over trials, with the sign such that higher is better.
    pub(super) value: f64,
    /// Standard error estimated from the trials; `None` with too few of them.
    pub(super) error: Option<f64>,
    pub(super) counts: SuspectCount,
}

impl Runs {
    pub(super) fn last(&self) -> usize {
        self.runs[self.runs.len() - 1]
    }

    pub(super) fn seen(&self, runs: &[ComparedRun<'_>], stands_out: Option<OutlierSide>) -> Machine {
        let began = |at: usize| runs[at].record.started_unix_ms;
        let cells = self.runs.iter().flat_map(|at| &runs[*at].finding.cells);
        Machine {
            name: self.name.clone(),
            runs: self.runs.len(),
            first_unix_ms: began(self.runs[0]),
            last_unix_ms: began(self.last()),
            stands_out,
            counts: cells.filter_map(|cell| cell.metrics.first()).map(counts).sum(),
        }
    }
}

impl TestSeries {
    fn of(metric: &MetricFinding, main: bool) -> Self {
        Self {
            test: String::new(),
            metric: metric.name.clone(),
            unit: Some(metric.unit.clone()),
            better: metric.better,
            main,
            seen: Vec::new(),
        }
    }

    /// Groups the values by machine, without machines that have none.
    pub(super) fn by_machine(&self) -> BTreeMap<usize, Vec<&RunValue>> {
        let mut machines: BTreeMap<usize, Vec<&RunValue>> = BTreeMap::new();
        for seen in &self.seen {
            machines.entry(seen.machine).or_default().push(seen);
        }
        machines
    }

    /// Converts a value back to the unit of the row.
    pub(super) fn measured(&self, value: f64) -> f64 {
        (self.sign() * value).exp()
    }

    /// Converts a difference of values to a change of the metric in percent.
    pub(super) fn percent(&self, difference: f64) -> f64 {
        100.0 * (self.sign() * difference).exp_m1()
    }

    fn sign(&self) -> f64 {
        sign(self.better)
    }
}

fn sign(better: Better) -> f64 {
    if better == Better::Higher { 1.0 } else { -1.0 }
}

/// Returns the classes sorted by name. Races and measured maps are excluded, because their cells differ between
/// machines.
pub(super) fn classes(runs: &[ComparedRun<'_>], options: &SurveyOptions) -> Result<Vec<Class>, String> {
    if !(options.false_alarms_percent > 0.0 && options.false_alarms_percent <= 50.0) {
        return Err(format!(
            "invalid false-alarm rate {} %: it must be above 0 and at most 50",
            options.false_alarms_percent
        ));
    }
    let plain = |run: &ComparedRun<'_>| {
        run.record.plan.race.is_none() && run.record.plan.experiment != crate::placements::measured_map::EXPERIMENT
    };
    let chosen: Vec<usize> = (0..runs.len()).filter(|at| plain(&runs[*at])).collect();
    let records: Vec<ComparedRun<'_>> = chosen.iter().map(|at| runs[*at]).collect();
    check_not_mixed_with_simulated(&records)?;
    facts_are_known(&records, &options.class)?;
    let mut classes: BTreeMap<String, BTreeMap<String, Vec<usize>>> = BTreeMap::new();
    let mut in_time = chosen;
    in_time.sort_by_key(|at| runs[*at].record.started_unix_ms);
    for at in in_time {
        let record = runs[at].record;
        let machines = classes.entry(class_of(record, &options.class)).or_default();
        machines.entry(host(record)).or_default().push(at);
    }
    let class = |(name, machines): (String, BTreeMap<String, Vec<usize>>)| {
        let machines: Vec<Runs> = machines.into_iter().map(|(name, runs)| Runs { name, runs }).collect();
        let rows = rows(runs, &machines, options);
        Class { name, machines, rows }
    };
    let classes: Vec<Class> = classes.into_iter().map(class).collect();
    match &options.workload {
        Some(workload) if classes.iter().all(|class| class.rows.is_empty()) => {
            Err(format!("no run has results of workload '{workload}'"))
        }
        _ => Ok(classes),
    }
}

fn facts_are_known(runs: &[ComparedRun<'_>], facts: &[String]) -> Result<(), String> {
    for fact in facts {
        if !runs.iter().any(|run| run.record.machine.settings.named(fact).is_some()) {
            let known = runs.first().map(|run| run.record.machine.settings.facts.iter());
            let known: Vec<&str> = known.into_iter().flatten().map(|fact| fact.key.as_str()).collect();
            return Err(format!("no run has recorded a fact '{fact}'; the first run has {}", known.join(", ")));
        }
    }
    Ok(())
}

fn class_of(record: &RunRecord, facts: &[String]) -> String {
    if facts.is_empty() {
        return machine_class(&record.machine, record.simulated.is_some());
    }
    let values = facts.iter().map(|fact| record.machine.settings.named(fact).unwrap_or(NOT_RECORDED));
    values.collect::<Vec<_>>().join(", ")
}

/// Key of equal cells of different runs.
type CellKey<'a> = (&'a str, Vec<(&'a str, &'a str)>, &'a str, usize, &'a str, &'a str);

fn cell_key<'a>(cell: &'a CellFinding, metric: &'a MetricFinding) -> CellKey<'a> {
    let parameters = cell.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    (&cell.workload, parameters, &cell.placement, cell.threads, &metric.name, &metric.unit)
}

/// Returns the series in the order of the runs, followed by those over all tests of each experiment.
fn rows(runs: &[ComparedRun<'_>], machines: &[Runs], options: &SurveyOptions) -> Vec<TestSeries> {
    let asked = |cell: &&CellFinding| options.workload.as_ref().is_none_or(|name| *name == cell.workload);
    let mut in_time: Vec<(usize, usize)> = machines
        .iter()
        .enumerate()
        .flat_map(|(machine, own)| own.runs.iter().map(move |run| (*run, machine)))
        .collect();
    in_time.sort_by_key(|(run, _)| (runs[*run].record.started_unix_ms, *run));
    let mut indices: BTreeMap<CellKey<'_>, usize> = BTreeMap::new();
    let mut found: Vec<(&CellFinding, TestSeries)> = Vec::new();
    for (run, machine) in in_time {
        for cell in runs[run].finding.cells.iter().filter(asked) {
            for (i, metric) in cell.metrics.iter().enumerate().take(if options.all_metrics { usize::MAX } else { 1 }) {
                let Some((value, error)) = oriented(metric) else { continue };
                let index = *indices.entry(cell_key(cell, metric)).or_insert(found.len());
                if index == found.len() {
                    found.push((cell, TestSeries::of(metric, i == 0)));
                }
                found[index].1.seen.push(RunValue { machine, run, value, error, counts: counts(metric) });
            }
        }
    }
    let cells: Vec<&CellFinding> = found.iter().map(|(cell, _)| *cell).collect();
    let named = found.into_iter().map(|(cell, row)| TestSeries { test: name(cell, &cells), ..row });
    let mut rows: Vec<TestSeries> = named.collect();
    rows.extend(together(&rows, runs));
    rows
}

/// By run: indices of its series and its values in them.
type ValuesByRun<'s> = BTreeMap<usize, Vec<(usize, &'s RunValue)>>;

/// Returns the series over all tests of each experiment, from runs that have all tests that most runs have.
fn together(rows: &[TestSeries], runs: &[ComparedRun<'_>]) -> Vec<TestSeries> {
    let mut experiments: BTreeMap<&str, ValuesByRun<'_>> = BTreeMap::new();
    for (place, row) in rows.iter().enumerate().filter(|(_, row)| row.main) {
        for seen in &row.seen {
            let of_runs = experiments.entry(&runs[seen.run].record.plan.experiment).or_default();
            of_runs.entry(seen.run).or_default().push((place, seen));
        }
    }
    experiments.into_iter().filter_map(|(name, of_runs)| over_all(name, &of_runs, runs)).collect()
}

fn over_all(name: &str, of_runs: &ValuesByRun<'_>, runs: &[ComparedRun<'_>]) -> Option<TestSeries> {
    let mut having: BTreeMap<usize, usize> = BTreeMap::new();
    for (place, _) in of_runs.values().flatten() {
        *having.entry(*place).or_default() += 1;
    }
    having.retain(|_, count| *count * 2 > of_runs.len());
    let count = having.len();
    let mean = |(run, seen): (&usize, &Vec<(usize, &RunValue)>)| {
        let own: Vec<&RunValue> =
            seen.iter().filter(|(place, _)| having.contains_key(place)).map(|(_, seen)| *seen).collect();
        let value = own.iter().map(|seen| seen.value).sum::<f64>() / count as f64;
        let squares: Option<f64> = own.iter().map(|seen| Some(seen.error?.powi(2))).sum();
        let error = squares.map(|squares| squares.sqrt() / count as f64);
        let counts = own.iter().map(|seen| seen.counts).sum();
        (own.len() == count).then(|| RunValue { machine: own[0].machine, run: *run, value, error, counts })
    };
    let mut seen: Vec<RunValue> = if count > 1 { of_runs.iter().filter_map(mean).collect() } else { Vec::new() };
    seen.sort_by_key(|seen| (runs[seen.run].record.started_unix_ms, seen.run));
    (!seen.is_empty()).then(|| TestSeries {
        test: format!("all {count} tests of {name} together"),
        metric: "geometric mean".into(),
        unit: None,
        better: Better::Higher,
        main: true,
        seen,
    })
}

fn counts(metric: &MetricFinding) -> SuspectCount {
    let suspect = metric.suspect.iter().filter(|is_suspect| **is_suspect).count();
    SuspectCount { suspect, trials: metric.samples.len() }
}

/// Returns the logarithm of a metric and its error; `None` unless it is positive.
fn oriented(metric: &MetricFinding) -> Option<(f64, Option<f64>)> {
    let log = |value: f64| Some(value.ln()).filter(|log| log.is_finite());
    let value = log(metric.median?)?;
    let ends = metric.ci_low.and_then(log).zip(metric.ci_high.and_then(log));
    Some((sign(metric.better) * value, ends.map(|(low, high)| (high - low) / 2.0 / HALF_WIDTH)))
}

/// Returns the name of a test with the properties that distinguish it from others of the same name.
fn name(cell: &CellFinding, cells: &[&CellFinding]) -> String {
    let alike = || cells.iter().filter(|other| other.test == cell.test);
    let differs = |(parameter, value): &(&String, &String)| {
        alike().any(|other| other.parameters.get(*parameter) != Some(value))
            && !cell.test.contains(&format!(" {parameter}="))
    };
    let parameters = cell.parameters.iter().filter(differs).map(|(parameter, value)| format!(" {parameter}={value}"));
    let placement = alike().any(|other| other.placement != cell.placement).then(|| format!(", {}", cell.placement));
    let threads = alike().any(|other| other.placement == cell.placement && other.threads != cell.threads);
    let threads = threads.then(|| format!(", {}", thread_count(cell.threads)));
    [cell.test.clone()].into_iter().chain(parameters).chain(placement).chain(threads).collect()
}
