//! Columns of a comparison: which cells of which runs belong to each, and with which baseline it is compared.

use std::collections::{BTreeMap, BTreeSet};

use super::{CompareError, ComparedRun, row};
use crate::analysis::finding::{CellFinding, MetricFinding};
use crate::import::unixbench::{self, Score};
use crate::values::command_number::COMMAND;
use crate::values::comparison::ColumnMachine;
use crate::values::plan::By;
use crate::values::record::RunRecord;
use crate::values::units::thread_count;

/// Separates the parts of a column's name in a comparison by several dimensions.
const AND: &str = ", ";

/// One metric of one cell, with its row and its column.
pub(super) struct ColumnValue<'a> {
    pub(super) test: String,
    /// Name of the metric in the UnixBench index; `None` if it is not part of the index.
    pub(super) indexed: Option<String>,
    pub(super) column: String,
    pub(super) cell: &'a CellFinding,
    pub(super) metric: &'a MetricFinding,
    pub(super) main: bool,
    pub(super) threads: usize,
    /// Index of the run: only samples of one run share blocks.
    pub(super) run: usize,
}

/// The columns of a comparison in display order, with their baselines.
pub(super) struct Columns {
    /// The dimensions as they are displayed.
    pub(super) by: String,
    pub(super) names: Vec<String>,
    pub(super) baselines: Baselines,
    /// Columns with figures of imported tables.
    pub(super) added: BTreeSet<String>,
    /// Limits on the interpretation of the columns.
    pub(super) notes: Vec<String>,
}

impl Columns {
    pub(super) fn new(by: String, names: Vec<String>, baselines: Baselines) -> Self {
        Self { by, names, baselines, added: BTreeSet::new(), notes: Vec::new() }
    }
}

/// The column that each other column is compared with.
pub(super) struct Baselines {
    /// The name of the baseline, or the common part of the names of several.
    pub(super) name: String,
    of: BTreeMap<String, String>,
}

impl Baselines {
    /// Returns the same baseline for all columns.
    pub(super) fn one(columns: &[String], baseline: &str) -> Self {
        let others = columns.iter().filter(|column| *column != baseline);
        Self { name: baseline.into(), of: others.map(|column| (column.clone(), baseline.to_string())).collect() }
    }

    /// Returns the baseline of a column; `None` for a baseline, and for a column without one.
    pub(super) fn of(&self, column: &str) -> Option<&str> {
        self.of.get(column).map(String::as_str)
    }

    /// Adds a column, which is compared with the baseline if there is only one.
    pub(super) fn add(&mut self, column: &str) {
        if self.several().is_empty() {
            self.of.insert(column.into(), self.name.clone());
        }
    }

    /// Returns the baseline of each column if there are several.
    pub(super) fn several(&self) -> BTreeMap<String, String> {
        let distinct: BTreeSet<&String> = self.of.values().collect();
        if distinct.len() > 1 || distinct.iter().any(|baseline| **baseline != self.name) {
            self.of.clone()
        } else {
            BTreeMap::new()
        }
    }
}

/// The rules by which cells are assigned to columns.
struct ColumnRule<'a> {
    runs: &'a [ComparedRun<'a>],
    dimensions: Vec<By>,
    boots: Vec<String>,
}

/// Returns the values of all cells that have a column.
pub(super) fn entries<'a>(
    runs: &'a [ComparedRun<'a>],
    by: &By,
    metric: Option<&str>,
) -> Result<(Vec<ColumnValue<'a>>, Vec<By>), CompareError> {
    let rule = ColumnRule::new(runs, by)?;
    let varying = Varying::of(runs);
    let mut entries = Vec::new();
    // Names depend on all cells, which are the same for all runs of one experiment.
    let mut tests = BTreeMap::new();
    for (index, run) in runs.iter().enumerate() {
        for cell in &run.finding.cells {
            let Some(column) = rule.column(index, cell)? else { continue };
            let kind = (&cell.workload, &cell.test, &cell.parameters, &cell.placement, cell.threads);
            let test = tests.entry(kind).or_insert_with(|| rule.row_test(cell, &varying)).clone();
            for (rank, measured) in cell.metrics.iter().enumerate().filter(|(_, metric)| metric.median.is_some()) {
                entries.push(ColumnValue {
                    test: test.clone(),
                    indexed: indexed(cell, &measured.name).map(|name| name + own_words(&test, cell)),
                    column: column.clone(),
                    cell,
                    metric: measured,
                    main: metric.map_or(rank == 0, |name| measured.name == name),
                    threads: cell.threads,
                    run: index,
                });
            }
        }
    }
    if entries.is_empty() {
        return Err(format!("no results to compare by {}", by.name()).into());
    }
    check_metric(&entries, metric)?;
    Ok((entries, rule.dimensions))
}

/// Returns the machine of each column: runs of different machines are never in one column.
pub(super) fn machines(runs: &[ComparedRun<'_>], entries: &[ColumnValue<'_>]) -> BTreeMap<String, ColumnMachine> {
    let machine = |entry: &ColumnValue<'_>| {
        let record = runs[entry.run].record;
        let cpu_model = record.machine.settings.get("cpu.model").map(Into::into);
        (entry.column.clone(), ColumnMachine { host: record.host.clone(), cpu_model })
    };
    entries.iter().map(machine).collect()
}

fn check_metric(entries: &[ColumnValue<'_>], metric: Option<&str>) -> Result<(), CompareError> {
    let Some(name) = metric.filter(|_| !entries.iter().any(|entry| entry.main)) else { return Ok(()) };
    let known: BTreeSet<&str> = entries.iter().map(|entry| entry.metric.name.as_str()).collect();
    let hint = format!("the metrics are {}", known.into_iter().collect::<Vec<_>>().join(AND));
    Err(CompareError { what: format!("no test has a metric '{name}'"), hint: Some(hint) })
}

impl ColumnValue<'_> {
    pub(super) fn score(&self) -> Option<Score> {
        let test = self.indexed.clone()?;
        Some(Score { test, column: self.column.clone(), passes: self.metric.samples.clone() })
    }
}

/// Built-in kernels are one test each, with a metric `score`; the installed UnixBench has all tests as metrics.
fn indexed(cell: &CellFinding, metric: &str) -> Option<String> {
    match cell.workload.as_str() {
        "unixbench" => Some(metric.into()),
        workload => (metric == "score").then(|| unixbench::name_of(workload, &cell.parameters)),
    }
}

/// Returns the part of a row's name after its test.
fn own_words<'a>(row: &'a str, cell: &CellFinding) -> &'a str {
    row.strip_prefix(&cell.test).or_else(|| row.strip_prefix(&cell.workload)).unwrap_or_default()
}

impl<'a> ColumnRule<'a> {
    fn new(runs: &'a [ComparedRun<'a>], by: &By) -> Result<Self, CompareError> {
        let boots = boot_labels(runs);
        let mut dimensions = by.dimensions();
        // One boot of those that an experiment compares: the other dimensions are the columns.
        let labelled = || runs.iter().zip(&boots).map(|(run, boot)| (host(run.record), boot));
        let first: BTreeMap<String, &String> = labelled().rev().collect();
        if labelled().all(|(host, boot)| first[&host] == boot) && dimensions.iter().any(|by| *by != By::Boot) {
            dimensions.retain(|by| *by != By::Boot);
        }
        let mut rule = Self { runs, dimensions, boots };
        // Machines are never pooled: a median over two of them describes neither.
        if rule.pooled(|one, other| host(one) != host(other))?.is_some() {
            rule.dimensions.insert(0, By::Host);
        }
        rule.check_settings()?;
        Ok(rule)
    }

    /// Returns two runs that share a column and differ.
    fn pooled(&self, differ: impl Fn(&RunRecord, &RunRecord) -> bool) -> Result<Option<[usize; 2]>, CompareError> {
        let mut first: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        for (index, run) in self.runs.iter().enumerate() {
            let of_run = self.dimensions.iter().filter(|by| !by.is_within_runs());
            let label = of_run.map(|by| self.label(index, by)).collect::<Result<Vec<_>, _>>()?;
            let one = *first.entry(label).or_insert(index);
            if differ(self.runs[one].record, run.record) {
                return Ok(Some([one, index]));
            }
        }
        Ok(None)
    }

    /// Rejects runs that share a column and differ in a setting.
    fn check_settings(&self) -> Result<(), CompareError> {
        let fingerprint = |record: &RunRecord| record.machine.settings.fingerprint();
        let Some([one, other]) = self.pooled(|one, other| fingerprint(one) != fingerprint(other))? else {
            return Ok(());
        };
        let (one, other) = (self.runs[one].record, self.runs[other].record);
        let facts = one.machine.settings.differences(&other.machine.settings);
        let keys: Vec<&str> =
            facts.iter().map(|(key, ..)| *key).filter(|key| !key.starts_with(crate::values::settings::LABEL)).collect();
        let Some(key) = keys.first() else { return Ok(()) };
        let by: Vec<String> = self.dimensions.iter().map(By::name).collect();
        Err(CompareError {
            what: format!(
                "runs {} and {} would share a column, but their settings differ: {}",
                one.id,
                other.id,
                keys.join(AND)
            ),
            hint: Some(format!("compare by this as well (--by {},{key}), or name the runs to compare", by.join(","))),
        })
    }

    /// Returns the column of a cell; `None` if the cell does not have the parameter.
    fn column(&self, index: usize, cell: &CellFinding) -> Result<Option<String>, CompareError> {
        let part = |by: &By| match by {
            By::Placement => Ok(Some(cell.placement.clone())),
            By::Threads => Ok(Some(cell.threads.to_string())),
            By::Parameter(name) => Ok(cell.parameters.get(name).cloned()),
            By::Command => Ok((cell.workload == COMMAND).then(|| cell.test.clone())),
            _ => self.label(index, by).map(Some),
        };
        let parts: Vec<Option<String>> = self.dimensions.iter().map(part).collect::<Result<_, CompareError>>()?;
        let parts: Option<Vec<String>> = parts.into_iter().collect();
        Ok(parts.map(|parts| parts.join(AND)))
    }

    /// Returns the part of a column's name that is common to all cells of a run.
    fn label(&self, index: usize, by: &By) -> Result<String, CompareError> {
        let record = self.runs[index].record;
        Ok(match by {
            By::Host => host(record),
            By::Boot => self.boots[index].clone(),
            By::Run => record.id.0.clone(),
            By::Fact(key) => return fact(record, key),
            By::Placement | By::Threads | By::Command | By::Parameter(_) | By::Several(_) => String::new(),
        })
    }

    /// Returns the name of the test, with placement and threads if they distinguish cells and are not the columns.
    fn row_test(&self, cell: &CellFinding, varying: &Varying) -> String {
        let parameters = self.dimensions.iter().filter_map(|by| match by {
            By::Parameter(name) => Some(name.as_str()),
            _ => None,
        });
        let parameters: Vec<&str> = parameters.collect();
        let mut test = cell.test.clone();
        if !parameters.is_empty() {
            let cells: Vec<&CellFinding> = self.runs.iter().flat_map(|run| &run.finding.cells).collect();
            test = row::without(cell, &parameters, &cells);
        }
        if self.dimensions.contains(&By::Command) {
            test.clone_from(&cell.workload);
        }
        if !self.dimensions.contains(&By::Threads) && varying.threads.contains(&cell.test) {
            test = format!("{test}, {}", thread_count(cell.threads));
        }
        if !self.dimensions.contains(&By::Placement) && varying.placements.contains(&cell.test) {
            test = format!("{test}, {}", cell.placement);
        }
        test
    }
}

/// Tests whose cells differ in more than their parameters.
struct Varying {
    /// Tests with several thread counts of one placement: counts that the experiment chose, rather than the placement
    /// (`one-core` has one thread).
    threads: BTreeSet<String>,
    /// Tests with several placements.
    placements: BTreeSet<String>,
}

impl Varying {
    fn of(runs: &[ComparedRun<'_>]) -> Self {
        let mut threads: BTreeMap<(&str, &str), BTreeSet<usize>> = BTreeMap::new();
        let mut placements: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for cell in runs.iter().flat_map(|run| &run.finding.cells) {
            threads.entry((&cell.test, &cell.placement)).or_default().insert(cell.threads);
            placements.entry(&cell.test).or_default().insert(&cell.placement);
        }
        let several = |(test, names): (&str, BTreeSet<&str>)| (names.len() > 1).then(|| test.to_string());
        Self {
            threads: threads
                .into_iter()
                .filter(|(_, counts)| counts.len() > 1)
                .map(|((test, _), _)| test.into())
                .collect(),
            placements: placements.into_iter().filter_map(several).collect(),
        }
    }
}

fn fact(record: &RunRecord, key: &str) -> Result<String, CompareError> {
    let settings = &record.machine.settings;
    let known = || {
        let known: Vec<&str> = settings.facts.iter().map(|fact| fact.key.as_str()).collect();
        format!(
            "run {} has no recorded fact '{key}'; compare by placement, threads, host, kernel, boot, run, set.PARAMETER or one of {}",
            record.id,
            known.join(AND)
        )
    };
    settings.named(key).map(str::to_string).ok_or_else(|| known().into())
}

/// Returns the name of a machine: its label, or else its CPU model.
pub(crate) fn host(record: &RunRecord) -> String {
    let model = || record.machine.settings.get("cpu.model").unwrap_or("unnamed machine").to_string();
    record.host.clone().unwrap_or_else(model)
}

/// Label of a boot without additional kernel parameters.
const PLAIN: &str = "plain";

/// Returns the kernel parameters of each run that not all runs of its machine have. If no machine has several boots, those
/// that not all machines have; boot ids if all runs have the same.
fn boot_labels(runs: &[ComparedRun<'_>]) -> Vec<String> {
    let of_machine = own_parameters(runs, |one, other| host(one) == host(other));
    if of_machine.iter().any(|label| label != PLAIN) {
        return of_machine;
    }
    let of_all = own_parameters(runs, |_, _| true);
    if of_all.iter().any(|label| label != PLAIN) {
        return of_all;
    }
    let boot_id = |run: &ComparedRun<'_>| {
        let id = run.record.machine.settings.get("kernel.boot-id").unwrap_or("unknown boot");
        id.chars().take(8).collect()
    };
    runs.iter().map(boot_id).collect()
}

/// Returns the kernel parameters of each run that not all comparable runs have.
fn own_parameters(runs: &[ComparedRun<'_>], are_comparable: impl Fn(&RunRecord, &RunRecord) -> bool) -> Vec<String> {
    let line =
        |run: &ComparedRun<'_>| run.record.machine.settings.get("kernel.command-line").unwrap_or_default().to_string();
    let lines: Vec<String> = runs.iter().map(line).collect();
    let has = |line: &String, word: &str| line.split_whitespace().any(|other| other == word);
    let own = |(run, line): (&ComparedRun<'_>, &String)| {
        let others = || runs.iter().zip(&lines).filter(|(other, _)| are_comparable(run.record, other.record));
        let own = line.split_whitespace().filter(|word| !others().all(|(_, line)| has(line, word)));
        let label = own.collect::<Vec<_>>().join(" ");
        if label.is_empty() { PLAIN.to_string() } else { label }
    };
    runs.iter().zip(&lines).map(own).collect()
}

/// Returns a requested baseline without the parts of dimensions that the columns do not have.
pub(super) fn baseline_of(by: &By, dimensions: &[By], requested: &str) -> String {
    let all = by.dimensions();
    let parts: Vec<&str> = requested.splitn(all.len(), AND).collect();
    if parts.len() < all.len() {
        return requested.into();
    }
    let kept = all.iter().zip(parts).filter(|(by, _)| dimensions.contains(by));
    kept.map(|(_, part)| part).collect::<Vec<_>>().join(AND)
}

/// Returns the columns in display order with their baselines.
pub(super) fn columns(
    entries: &[ColumnValue<'_>],
    dimensions: &[By],
    baseline: Option<&str>,
) -> Result<Columns, CompareError> {
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        if !names.contains(&entry.column) {
            names.push(entry.column.clone());
        }
    }
    if names.iter().all(|column| column.parse::<u64>().is_ok()) {
        names.sort_by_key(|column| column.parse::<u64>().unwrap_or(0));
    }
    let by = dimensions.iter().map(By::name).collect::<Vec<_>>().join(AND);
    let baselines = match dimensions {
        [_] => None,
        _ => baselines_by_part(&names, dimensions.len(), baseline),
    };
    let baselines = match baselines {
        Some(baselines) => baselines,
        None => Baselines::one(&names, &choose_baseline(&names, baseline, &by)?),
    };
    sort(&mut names, &baselines);
    Ok(Columns::new(by, names, baselines))
}

/// Returns the baselines of columns by several dimensions: a requested value of one dimension, or of several that follow
/// each other, is the baseline of all columns that differ from it only in these. By default it is the first value of the
/// last dimension. `None` if the requested baseline is the name of a column or of nothing.
fn baselines_by_part(names: &[String], dimensions: usize, requested: Option<&str>) -> Option<Baselines> {
    let parts = |name: &String| name.splitn(dimensions, AND).map(str::to_string).collect::<Vec<String>>();
    let split: Vec<Vec<String>> = names.iter().map(parts).collect();
    let (at, value) = match requested {
        Some(value) if names.iter().any(|name| name == value) => return None,
        Some(value) => {
            let several: Vec<String> = value.split(AND).map(str::to_string).collect();
            [vec![value.to_string()], several].into_iter().find_map(|value| {
                let is_at = |at: &usize| split.iter().any(|parts| has_parts(parts, *at, &value));
                Some(((0..dimensions).find(is_at)?, value))
            })?
        }
        None => {
            let last = dimensions - 1;
            let values: Vec<&String> = split.iter().filter_map(|parts| parts.get(last)).collect();
            let kernel = values.iter().find(|value| **value == "kernel").or(values.first())?;
            (last, vec![(**kernel).clone()])
        }
    };
    let baseline = |parts: &Vec<String>| {
        let mut parts = parts.clone();
        parts[at..at + value.len()].clone_from_slice(&value);
        parts.join(AND)
    };
    let of = names.iter().zip(&split).filter(|(_, parts)| parts.len() == dimensions).filter_map(|(name, parts)| {
        let baseline = baseline(parts);
        (*name != baseline && names.contains(&baseline)).then(|| (name.clone(), baseline))
    });
    let of: BTreeMap<String, String> = of.collect();
    if of.is_empty() {
        // A single machine, or machines without a common value: all are compared with one column.
        let mut with_value = names.iter().zip(&split).filter(|(_, parts)| has_parts(parts, at, &value));
        let (column, _) = with_value.next()?;
        return Some(Baselines::one(names, column));
    }
    Some(Baselines { of, name: value.join(AND) })
}

/// Whether the parts of a column's name have these values from a position on.
fn has_parts(parts: &[String], at: usize, values: &[String]) -> bool {
    parts.get(at..at + values.len()) == Some(values)
}

/// Sorts columns so that a baseline is followed by the columns that are compared with it.
fn sort(names: &mut [String], baselines: &Baselines) {
    let order: BTreeMap<String, usize> = names.iter().enumerate().map(|(at, name)| (name.clone(), at)).collect();
    names.sort_by_key(|name| {
        let baseline = baselines.of(name);
        (order[baseline.unwrap_or(name)], baseline.is_some(), order[name])
    });
    // A single baseline is first, wherever it was measured.
    names.sort_by_key(|name| baselines.name != *name && baselines.of.values().all(|of| *of == baselines.name));
}

pub(super) fn choose_baseline(columns: &[String], requested: Option<&str>, by: &str) -> Result<String, CompareError> {
    let default = || columns.iter().find(|column| *column == "kernel").or(columns.first());
    match requested {
        Some(name) => columns.iter().find(|column| *column == name).cloned().ok_or_else(|| {
            format!("'{name}' is not a column of a comparison by {by}; the columns are {}", columns.join(AND)).into()
        }),
        None => default().cloned().ok_or_else(|| "no columns to compare".to_string().into()),
    }
}
