//! Curves: a metric as a function of one parameter, such as a size, a scale, a DRAM share or a thread count. Groups
//! cells into curves and curves into sets for one chart. Must not depend on how charts are drawn.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::finding::{CellFinding, RunFinding};
use crate::values::plan::{Cell, Plan};
use crate::values::workload::{Better, Value};

/// Minimum number of points of a curve. Fewer values are compared in a table.
const VALUES_MIN: usize = 3;
/// Name of the parameter of a curve over thread counts.
const THREADS: &str = "threads";
/// Workload whose parameter only controls another metric, which is used as the x-axis: loaded latency.
const LOADED: (&str, &str, &str) = ("loaded", "delay", "load");

/// Curves over one axis: the same main metric as a function of the same parameter, with all other varying parameters
/// equal.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveSet {
    /// Common part of all curves: workloads, and parameters that differ in other sets of the run.
    pub name: String,
    /// X-axis: the varied parameter, `threads`, or another metric.
    pub over: String,
    /// Unit of the x-axis metric; `None` for parameters, whose values include their unit.
    pub over_unit: Option<String>,
    pub metric: String,
    pub unit: String,
    pub better: Better,
    /// At least one curve has three points.
    pub lines: Vec<Curve>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The placement, with the workload and the thread count if the set has several.
    pub name: String,
    /// Points in ascending order of the parameter.
    pub points: Vec<CurvePoint>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CurvePoint {
    /// Position on the x-axis: bytes, nanoseconds, percent or a number.
    pub at: f64,
    /// Formatted value of the parameter.
    pub written: String,
    /// Median of the metric over trials.
    pub median: f64,
    /// Lower end of the 95 % interval.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
}

struct CurveSetBuilder {
    over: String,
    over_unit: Option<String>,
    metric: String,
    unit: String,
    better: Better,
    /// Parameters with other values in other sets.
    fixed: BTreeMap<String, String>,
    lines: Vec<(LineKey, Points)>,
}

/// Workload, placement and threads; `None` if threads are the x-axis.
type LineKey = (String, String, Option<usize>);
/// Points with the value of the parameter, the sort key.
type Points = Vec<(f64, CurvePoint)>;

/// Returns all curve sets of a run, in the order of its cells.
pub fn sweeps(plan: &Plan, finding: &RunFinding) -> Vec<CurveSet> {
    if plan.cells.len() != finding.cells.len() {
        return Vec::new();
    }
    let cells: Vec<(&Cell, &CellFinding)> = plan.cells.iter().zip(&finding.cells).collect();
    let mut workloads: Vec<&str> = Vec::new();
    for (cell, _) in &cells {
        if !workloads.contains(&cell.workload.as_str()) {
            workloads.push(&cell.workload);
        }
    }
    let mut all: Vec<CurveSetBuilder> = Vec::new();
    for workload in workloads {
        let own: Vec<_> = cells.iter().filter(|(cell, _)| cell.workload == workload).copied().collect();
        let varying = varying(&own);
        for over in swept(&own, &varying) {
            own.iter().for_each(|cell| add(&mut all, cell, &over, &varying));
        }
    }
    all.into_iter().filter_map(CurveSetBuilder::sweep).collect()
}

/// Returns the parameters with several values among these cells.
fn varying(cells: &[(&Cell, &CellFinding)]) -> Vec<String> {
    let names: BTreeSet<&String> = cells.iter().flat_map(|(_, finding)| finding.parameters.keys()).collect();
    let several = |name: &&String| {
        cells.iter().map(|(_, finding)| finding.parameters.get(*name)).collect::<BTreeSet<_>>().len() > 1
    };
    names.into_iter().filter(several).cloned().collect()
}

/// Returns the parameters with enough numeric values for a curve.
fn swept(cells: &[(&Cell, &CellFinding)], varying: &[String]) -> Vec<String> {
    let enough = |over: &str| {
        let values: Option<Vec<f64>> = cells.iter().map(|(cell, _)| value(cell, over)).collect();
        values.is_some_and(|values| {
            values.iter().map(|value| value.to_bits()).collect::<BTreeSet<_>>().len() >= VALUES_MIN
        })
    };
    varying.iter().map(String::as_str).chain([THREADS]).filter(|over| enough(over)).map(Into::into).collect()
}

/// Returns the position of a cell on the axis; `None` for text values.
fn value(cell: &Cell, over: &str) -> Option<f64> {
    if over == THREADS {
        return Some(cell.placement.threads as f64);
    }
    match cell.parameters.0.get(over)? {
        Value::Integer(number) => Some(*number as f64),
        Value::Text(text) => text.strip_suffix('%')?.trim().parse().ok(),
        Value::Switch(_) => None,
    }
}

/// Returns the name and unit of the axis and the position of a cell on it.
fn axis(finding: &CellFinding, over: &str, order: f64) -> Option<(String, Option<String>, f64)> {
    let (workload, parameter, result) = LOADED;
    if (finding.workload.as_str(), over) != (workload, parameter) {
        return Some((over.into(), None, order));
    }
    let metric = finding.metrics.iter().find(|metric| metric.name == result)?;
    Some((metric.name.clone(), Some(metric.unit.clone()), metric.median?))
}

/// Adds a cell with a result to its curves.
fn add(all: &mut Vec<CurveSetBuilder>, (cell, finding): &(&Cell, &CellFinding), swept: &str, varying: &[String]) {
    let result = finding.metrics.first().and_then(|metric| Some((metric, metric.median?)));
    let place = value(cell, swept).and_then(|order| Some((order, axis(finding, swept, order)?)));
    let (Some((metric, median)), Some((order, (over, over_unit, at)))) = (result, place) else { return };
    let fixed = varying.iter().filter(|name| *name != swept);
    let fixed = fixed.filter_map(|name| Some((name.clone(), finding.parameters.get(name)?.clone()))).collect();
    let (name, unit, better) = (metric.name.clone(), metric.unit.clone(), metric.better);
    let one = CurveSetBuilder { over, over_unit, metric: name, unit, better, fixed, lines: Vec::new() };
    let index = all.iter().position(|other| other.is_over_the_same(&one)).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    });
    let threads = (swept != THREADS).then_some(cell.placement.threads);
    let written = finding.parameters.get(swept).cloned().unwrap_or_else(|| cell.placement.threads.to_string());
    all[index].put(
        (cell.workload.clone(), cell.placement.name.clone(), threads),
        (order, CurvePoint { at, written, median, ci_low: metric.ci_low, ci_high: metric.ci_high }),
    );
}

impl CurveSetBuilder {
    fn is_over_the_same(&self, other: &Self) -> bool {
        (&self.over, &self.over_unit, &self.metric, &self.unit, self.better, &self.fixed)
            == (&other.over, &other.over_unit, &other.metric, &other.unit, other.better, &other.fixed)
    }

    fn put(&mut self, line: LineKey, point: (f64, CurvePoint)) {
        match self.lines.iter_mut().find(|(other, _)| *other == line) {
            Some((_, points)) => points.push(point),
            None => self.lines.push((line, vec![point])),
        }
    }

    /// Returns the set; `None` if no curve has enough points.
    fn sweep(self) -> Option<CurveSet> {
        let keys = || self.lines.iter().map(|(key, _)| key);
        let several_workloads = keys().map(|key| &key.0).collect::<BTreeSet<_>>().len() > 1;
        let several_threads = keys().map(|key| key.2).collect::<BTreeSet<_>>().len() > 1;
        let mut workloads: Vec<&str> = keys().map(|key| key.0.as_str()).collect();
        workloads.dedup();
        let fixed: String = self.fixed.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let name = workloads.join(" and ") + &fixed;
        let line = |((workload, placement, threads), mut points): (LineKey, Points)| {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let workload = if several_workloads { format!("{workload}, ") } else { String::new() };
            let threads =
                threads.filter(|_| several_threads).map_or(String::new(), |count| format!(", {count} threads"));
            Curve {
                name: workload + &placement + &threads,
                points: points.into_iter().map(|(_, point)| point).collect(),
            }
        };
        let lines: Vec<Curve> = self.lines.into_iter().map(line).collect();
        let (over, over_unit, metric, unit, better) = (self.over, self.over_unit, self.metric, self.unit, self.better);
        let long = lines.iter().any(|line| line.points.len() >= VALUES_MIN);
        long.then_some(CurveSet { name, over, over_unit, metric, unit, better, lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::finding::MetricFinding;
    use crate::values::placement::Placement;
    use crate::values::plan::StoppingRule;
    use crate::values::units::Nanos;
    use crate::values::workload::Parameters;

    /// A cell with its workload, placement, threads, parameters and results, of which the first is the main metric.
    type TestCell<'a> = (&'a str, &'a str, usize, &'a [(&'a str, Value)], &'a [(&'a str, f64)]);

    fn found(cells: &[TestCell]) -> Vec<CurveSet> {
        let second = Nanos(1_000_000_000);
        let plan = Plan {
            experiment: "swept".into(),
            question: String::new(),
            cells: cells.iter().map(planned).collect(),
            skipped: Vec::new(),
            workloads: Vec::new(),
            repeat: StoppingRule { warmup: 0, min: 3, max: 3, precision: 0.0, budget: second, time_limit: second },
            compare_by: "placement".into(),
            baseline: None,
            efficiency: Vec::new(),
            budget_wins: false,
            race: None,
            size: None,
            gate: None,
            command: Vec::new(),
        };
        let cells = cells.iter().map(measured).collect();
        sweeps(&plan, &RunFinding { cells, skipped: Vec::new(), passes: false })
    }

    fn planned((workload, placement, threads, parameters, _): &TestCell) -> Cell {
        let parameters = parameters.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        Cell {
            key: String::new(),
            workload: workload.to_string(),
            test: workload.to_string(),
            parameters: Parameters(parameters),
            placement: Placement { name: placement.to_string(), ..Placement::kernel(*threads) },
            main: None,
            outside_means: false,
        }
    }

    fn measured((workload, placement, threads, parameters, results): &TestCell) -> CellFinding {
        let written = |value: &Value| match value {
            Value::Integer(number) => number.to_string(),
            Value::Text(text) => text.clone(),
            Value::Switch(on) => on.to_string(),
        };
        let metric = |(name, median): &(&str, f64)| MetricFinding {
            name: name.to_string(),
            unit: "u".into(),
            better: Better::Higher,
            median: Some(*median),
            ci_low: Some(median - 1.0),
            ci_high: Some(median + 1.0),
            best: None,
            mean: None,
            samples: Vec::new(),
            blocks: Vec::new(),
            trials: Vec::new(),
            suspect: Vec::new(),
        };
        CellFinding {
            workload: workload.to_string(),
            test: workload.to_string(),
            parameters: parameters.iter().map(|(name, value)| (name.to_string(), written(value))).collect(),
            placement: placement.to_string(),
            threads: *threads,
            metrics: results.iter().map(metric).collect(),
            ..CellFinding::default()
        }
    }

    fn size(number: i64) -> (&'static str, Value) {
        ("size", Value::Integer(number))
    }

    fn text(name: &'static str, words: &str) -> (&'static str, Value) {
        (name, Value::Text(words.into()))
    }

    /// Formats the curves as `name: at=median …`.
    fn lines(sweep: &CurveSet) -> Vec<String> {
        let point = |point: &CurvePoint| format!(" {}={}", point.at, point.median);
        sweep
            .lines
            .iter()
            .map(|line| line.name.clone() + ":" + &line.points.iter().map(point).collect::<String>())
            .collect()
    }

    #[test]
    fn each_placement_is_a_curve_in_ascending_order() {
        let found = found(&[
            ("stream", "kernel", 1, &[size(4)], &[("triad", 40.0), ("copy", 7.0)]),
            ("stream", "kernel", 1, &[size(1)], &[("triad", 10.0)]),
            ("stream", "far", 1, &[size(1)], &[("triad", 1.0)]),
            ("stream", "kernel", 1, &[size(2)], &[("triad", 20.0)]),
            ("stream", "far", 1, &[size(2)], &[]),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        let sweep = &found[0];
        assert_eq!((sweep.name.as_str(), sweep.over.as_str(), sweep.metric.as_str()), ("stream", "size", "triad"));
        assert_eq!(lines(sweep), ["kernel: 1=10 2=20 4=40", "far: 1=1"], "cells without results have no point");
        assert_eq!(sweep.lines[0].points[2].ci_high, Some(41.0));
    }

    #[test]
    fn other_parameters_make_separate_sets() {
        let mut cells: Vec<TestCell> = Vec::new();
        let (single, double) = (text("precision", "fp32"), text("precision", "fp64"));
        let parameters: Vec<[(&str, Value); 2]> =
            [1, 2, 3].iter().flat_map(|n| [[size(*n), single.clone()], [size(*n), double.clone()]]).collect();
        for parameters in &parameters {
            cells.push(("gemm", "kernel", 2, parameters, &[("rate", 5.0)]));
            cells.push(("far-gemm", "kernel", 2, parameters, &[("rate", 4.0)]));
        }
        let found = found(&cells);
        let names: Vec<&str> = found.iter().map(|sweep| sweep.name.as_str()).collect();
        assert_eq!(names, ["gemm and far-gemm precision=fp32", "gemm and far-gemm precision=fp64"]);
        assert_eq!(lines(&found[0]), ["gemm, kernel: 1=5 2=5 3=5", "far-gemm, kernel: 1=4 2=4 3=4"]);
    }

    #[test]
    fn thread_counts_and_percentages_make_curves_but_texts_do_not() {
        let share = |words: &str| [text("dram", words)];
        let shares = [share("50%"), share("25 %"), share("100%")];
        let cells: Vec<TestCell> =
            shares.iter().map(|share| ("bfs", "kernel", 1, &share[..], &[("teps", 1.0)][..])).collect();
        assert_eq!(lines(&found(&cells)[0]), ["kernel: 25=1 50=1 100=1"]);
        let words = [share("a lot"), share("50%"), share("25%")];
        let cells: Vec<TestCell> =
            words.iter().map(|share| ("bfs", "kernel", 1, &share[..], &[("teps", 1.0)][..])).collect();
        assert!(found(&cells).is_empty());
        let cells: Vec<TestCell> =
            [4, 1, 2].map(|count| ("cpu", "spread", count, &[][..], &[("rate", 2.0)][..])).into();
        let threads = &found(&cells)[0];
        assert_eq!((threads.over.as_str(), threads.lines[0].points[2].written.as_str()), ("threads", "4"));
        assert!(found(&cells[..2]).is_empty(), "two values are compared in a table");
    }

    #[test]
    fn thread_counts_make_separate_curves() {
        let sizes = [[size(1)], [size(2)], [size(3)]];
        let of =
            |count: usize| sizes.iter().map(move |size| ("stream", "kernel", count, &size[..], &[("copy", 1.0)][..]));
        let cells: Vec<TestCell> = of(1).chain(of(2)).collect();
        let names: Vec<String> = found(&cells)[0].lines.iter().map(|line| line.name.clone()).collect();
        assert_eq!(names, ["kernel, 1 threads", "kernel, 2 threads"]);
    }

    #[test]
    fn loaded_latency_is_a_function_of_load_in_order_of_delay() {
        let delays = [0, 10, 100].map(|ns| [("delay", Value::Integer(ns))]);
        let results = [
            [("latency", 300.0), ("load", 9.0)],
            [("latency", 200.0), ("load", 9.5)],
            [("latency", 90.0), ("load", 1.0)],
        ];
        let cells: Vec<TestCell> = delays
            .iter()
            .zip(&results)
            .map(|(delay, results)| ("loaded", "kernel", 2, &delay[..], &results[..]))
            .collect();
        let found = found(&cells);
        assert_eq!((found[0].over.as_str(), found[0].over_unit.as_deref()), ("load", Some("u")));
        assert_eq!(lines(&found[0]), ["kernel: 9=300 9.5=200 1=90"]);
    }
}
