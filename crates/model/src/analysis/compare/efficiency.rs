//! Cells in percent of reference cells that have other parameters, such as a smaller problem that fits in DRAM.

use super::ComparedRun;
use super::columns::host;
use super::history::History;
use super::row::title;
use super::rows::compared;
use super::samples::ColumnSamples;
use crate::analysis::finding::{CellFinding, MetricFinding};
use crate::values::comparison::{Efficiency, EfficiencyCell};
use crate::values::plan::{CellSelector, EfficiencyRule, stream};
use crate::values::units::{Bytes, Nanos};
use crate::values::workload::Better;

/// Returns the efficiencies that the plans of the runs define. Cells without a measured reference are omitted.
/// `metric` is the main metric of all tests, instead of that of each workload.
pub(super) fn efficiencies(runs: &[ComparedRun<'_>], metric: Option<&str>) -> Vec<Efficiency> {
    let of_run = |run: &ComparedRun<'_>| {
        let label = (runs.len() > 1).then(|| format!("{}, run {}", host(run.record), run.record.id));
        let of_rule = |rule: &EfficiencyRule| of_rule(run, rule, label.as_deref(), metric);
        run.record.plan.efficiency.iter().flat_map(of_rule).collect::<Vec<_>>()
    };
    runs.iter().flat_map(of_run).collect()
}

fn of_rule(run: &ComparedRun<'_>, rule: &EfficiencyRule, label: Option<&str>, metric: Option<&str>) -> Vec<Efficiency> {
    let cells = &run.finding.cells;
    let measured = cells.iter().filter(|cell| main(cell, metric).is_some());
    let selected = measured.filter(|cell| is_selected(cell, &rule.cells));
    let pairs = selected.filter_map(|cell| Some((cell, reference(cell, rule, cells)?)));
    let is_smoke = run.record.stamp().smoke;
    let rows = pairs.filter_map(|(cell, reference)| {
        let row = efficiency((cell, main(cell, metric)?), (reference, main(reference, metric)?), run.record.seed)?;
        let row = Efficiency { host: label.map(str::to_string), ..row };
        Some(if is_smoke { Efficiency { ci_low: None, ci_high: None, ..row } } else { row })
    });
    rows.collect()
}

fn main<'a>(cell: &'a CellFinding, name: Option<&str>) -> Option<&'a MetricFinding> {
    let mut metrics = cell.metrics.iter();
    let metric = match name {
        Some(name) => metrics.find(|metric| metric.name == name),
        None => metrics.next(),
    };
    metric.filter(|metric| metric.median.is_some())
}

fn is_selected(cell: &CellFinding, selector: &CellSelector) -> bool {
    let is_one_of = |names: &[String], name: &str| names.is_empty() || names.iter().any(|other| other == name);
    let has_value =
        |(name, values): (&String, &Vec<String>)| cell.parameters.get(name).is_some_and(|value| values.contains(value));
    is_one_of(&selector.tests, title(cell))
        && is_one_of(&selector.placements, &cell.placement)
        && selector.parameters.iter().all(has_value)
}

/// Returns the reference of a cell: of several, the one that has most parameters in common with the cell. `None` if
/// there is none, or if it is not unique.
fn reference<'a>(cell: &CellFinding, rule: &EfficiencyRule, cells: &'a [CellFinding]) -> Option<&'a CellFinding> {
    let is_measured = |other: &&CellFinding| other.metrics.iter().any(|metric| metric.median.is_some());
    let mut candidates: Vec<&CellFinding> =
        cells.iter().filter(is_measured).filter(|other| is_selected(other, &rule.reference)).collect();
    if let Some(name) = &rule.next_smaller {
        let size = |cell: &CellFinding| cell.parameters.get(name).and_then(|value| number(value));
        let own = size(cell)?;
        let below = candidates.iter().filter_map(|other| size(other)).filter(|size| *size < own);
        let next = below.fold(f64::NEG_INFINITY, f64::max);
        candidates.retain(|other| size(other).is_some_and(|size| size.total_cmp(&next).is_eq()));
    }
    let most = candidates.iter().map(|other| in_common(cell, other)).max()?;
    candidates.retain(|other| in_common(cell, other) == most && !std::ptr::eq(*other, cell));
    match candidates[..] {
        [one] => Some(one),
        _ => None,
    }
}

/// Number of properties that two cells have in common; the thread count counts most.
fn in_common(one: &CellFinding, other: &CellFinding) -> (bool, usize) {
    let equal = one.parameters.iter().filter(|(name, value)| other.parameters.get(*name) == Some(*value));
    (one.threads == other.threads, equal.count() + usize::from(one.placement == other.placement))
}

/// Parses a formatted value of a parameter.
fn number(text: &str) -> Option<f64> {
    let plain = text.parse::<f64>().ok().filter(|number| number.is_finite());
    let size = || Bytes::parse(text).ok().map(|bytes| bytes.0 as f64);
    plain.or_else(size).or_else(|| Nanos::parse(text).ok().map(|time| time.0 as f64))
}

fn efficiency(
    (cell, own): (&CellFinding, &MetricFinding),
    (reference, base): (&CellFinding, &MetricFinding),
    seed: u64,
) -> Option<Efficiency> {
    if (&own.name, &own.unit) != (&base.name, &base.unit) {
        return None;
    }
    let seed = stream(seed, &format!("efficiency {} {} {}", cell.test, cell.placement, own.name));
    // Both cells are of one run: their samples share blocks.
    let samples = |metric: &MetricFinding| ColumnSamples::of_metric(0, metric);
    let estimate = compared(Some(&samples(base)), &samples(own), &History::default(), seed);
    let percent = |change: f64| match own.better {
        Better::Higher => 100.0 + change,
        Better::Lower => 100.0 / (1.0 + change / 100.0),
    };
    let ends = match own.better {
        Better::Higher => (estimate.ci_low, estimate.ci_high),
        Better::Lower => (estimate.ci_high, estimate.ci_low),
    };
    let about = |cell: &CellFinding, metric: &MetricFinding| {
        Some(EfficiencyCell {
            test: cell.test.clone(),
            placement: cell.placement.clone(),
            threads: cell.threads,
            median: metric.median?,
            samples: metric.samples.len(),
        })
    };
    Some(Efficiency {
        host: None,
        cell: about(cell, own)?,
        reference: about(reference, base)?,
        metric: own.name.clone(),
        unit: own.unit.clone(),
        better: own.better,
        percent: percent(estimate.change_percent?),
        ci_low: ends.0.map(percent),
        ci_high: ends.1.map(percent),
    })
}
