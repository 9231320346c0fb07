//! Level changes over time: of single machines relative to their class, and of whole classes.
//!
//! If machines are measured in rounds, the common part of a round (ambient temperature, network storage, a kernel
//! update on all machines) is subtracted from the values of each machine, and searched for changes separately.

use std::collections::BTreeMap;

use super::change_points::{LevelShift, RUNS_MIN, VALUES_MAX, steps};
use super::rows::{Class, RunValue, TestSeries};
use super::{LevelChange, OutlierSide, RunTime, SeriesPoint, facts};
use crate::analysis::compare::ComparedRun;
use crate::stats::statistics::{CONFIDENCE, median, welch_interval};
use crate::values::comparison::SuspectCount;
use crate::values::plan::stream;

/// Minimum number of machines in a round to estimate its common part: an outlier then hardly moves the median.
const ROUND_MACHINES_MIN: usize = 5;

/// Values in chronological order, each with its runs.
struct Series {
    /// Index of the machine; `None` for a class.
    machine: Option<usize>,
    values: Vec<f64>,
    runs: Vec<Vec<usize>>,
}

/// A search over related series.
struct Search<'c> {
    class: usize,
    row: &'c TestSeries,
    series: Vec<Series>,
}

/// Returns the changes of each class in chronological order.
pub(super) fn changes(classes: &[Class], runs: &[ComparedRun<'_>], false_alarms: f64) -> Vec<Vec<LevelChange>> {
    let mut searches: Vec<Search<'_>> = Vec::new();
    for (class, of) in classes.iter().enumerate() {
        for row in &of.rows {
            let (machines, whole) = series(row);
            searches.push(Search { class, row, series: machines });
            searches.push(Search { class, row, series: vec![whole] });
        }
    }
    searches.iter_mut().for_each(|search| search.series.retain(|series| series.values.len() >= RUNS_MIN));
    searches.retain(|search| !search.series.is_empty());
    // Each search gets an equal part of the rate (Bonferroni).
    let each = false_alarms / searches.len().max(1) as f64;
    let mut changes: Vec<Vec<LevelChange>> = classes.iter().map(|_| Vec::new()).collect();
    for search in &searches {
        changes[search.class].extend(search.changes(&classes[search.class], runs, each));
    }
    for changes in &mut changes {
        changes.sort_by(|one, other| (one.after.unix_ms, &one.machine).cmp(&(other.after.unix_ms, &other.machine)));
    }
    changes
}

/// Returns the series of each machine and the common series.
fn series(row: &TestSeries) -> (Vec<Series>, Series) {
    let rounds = rounds(&row.seen);
    let levels: BTreeMap<usize, f64> = row
        .by_machine()
        .into_iter()
        .filter_map(|(machine, seen)| Some((machine, median(&seen.iter().map(|seen| seen.value).collect::<Vec<_>>())?)))
        .collect();
    let away = |seen: &RunValue| seen.value - levels.get(&seen.machine).copied().unwrap_or(seen.value);
    let mut members: BTreeMap<usize, Vec<&RunValue>> = BTreeMap::new();
    for (seen, round) in row.seen.iter().zip(&rounds) {
        members.entry(*round).or_default().push(seen);
    }
    members.retain(|_, members| members.len() >= ROUND_MACHINES_MIN);
    let shared: BTreeMap<usize, f64> = members
        .iter()
        .filter_map(|(round, members)| {
            Some((*round, median(&members.iter().map(|seen| away(seen)).collect::<Vec<_>>())?))
        })
        .collect();
    let whole = Series {
        machine: None,
        values: newest(shared.values().copied().collect()),
        runs: newest(members.values().map(|members| members.iter().map(|seen| seen.run).collect()).collect()),
    };
    let machine = |machine: usize| {
        let own: Vec<(&RunValue, Option<f64>)> = row
            .seen
            .iter()
            .zip(&rounds)
            .filter(|(seen, _)| seen.machine == machine)
            .map(|(seen, round)| (seen, shared.get(round).copied()))
            .collect();
        // The common part is subtracted from all values or none: otherwise the series would shift where it begins.
        let all = own.iter().all(|(_, shared)| shared.is_some());
        let values = own.iter().map(|(seen, shared)| away(seen) - shared.filter(|_| all).unwrap_or(0.0));
        Series {
            machine: Some(machine),
            values: newest(values.collect()),
            runs: newest(own.iter().map(|(seen, _)| vec![seen.run]).collect()),
        }
    };
    (levels.keys().map(|of| machine(*of)).collect(), whole)
}

/// Assigns runs to rounds: maximal sequences of runs without a repeated machine.
fn rounds(seen: &[RunValue]) -> Vec<usize> {
    let (mut round, mut members) = (0, Vec::new());
    let of = |seen: &RunValue| {
        if members.contains(&seen.machine) {
            round += 1;
            members.clear();
        }
        members.push(seen.machine);
        round
    };
    seen.iter().map(of).collect()
}

fn newest<T>(mut values: Vec<T>) -> Vec<T> {
    values.drain(..values.len().saturating_sub(VALUES_MAX));
    values
}

impl Search<'_> {
    fn changes(&self, class: &Class, runs: &[ComparedRun<'_>], false_alarms: f64) -> Vec<LevelChange> {
        let values: Vec<Vec<f64>> = self.series.iter().map(|series| series.values.clone()).collect();
        let whose = if self.series[0].machine.is_some() { "machines" } else { "class" };
        let purpose = format!("survey {whose} {} {} {}", class.name, self.row.test, self.row.metric);
        let seed = stream(runs.first().map_or(0, |run| run.record.seed), &purpose);
        let found = steps(&values, false_alarms, seed);
        found.iter().map(|step| self.change(step, class, runs)).collect()
    }

    fn change(&self, step: &LevelShift, class: &Class, runs: &[ComparedRun<'_>]) -> LevelChange {
        let Series { machine, values, runs: of } = &self.series[step.series];
        let moment = |at: usize| {
            let record = runs[of[at][0]].record;
            RunTime { run: record.id.0.clone(), unix_ms: record.started_unix_ms }
        };
        let (before, after) = (&values[step.begin..step.at], &values[step.at..step.end]);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let difference = mean(after) - mean(before);
        let ends = welch_interval(before, after, CONFIDENCE)
            .map(|ends| (self.row.percent(ends.low), self.row.percent(ends.high)));
        let facts_of = |range: std::ops::Range<usize>| -> Vec<facts::FactMap> {
            of[range].iter().flatten().map(|run| facts::of(runs[*run].record)).collect()
        };
        let (facts_before, facts_after) = (facts_of(step.begin..step.at), facts_of(step.at..step.end));
        let middle = median(values).unwrap_or(0.0);
        let counts = |at: usize| -> SuspectCount {
            let own = self.row.seen.iter().filter(|seen| of[at].contains(&seen.run));
            own.map(|seen| seen.counts).sum()
        };
        let point = |(at, value): (usize, &f64)| {
            let RunTime { run, unix_ms } = moment(at);
            SeriesPoint { run, unix_ms, change_percent: self.row.percent(value - middle), counts: counts(at) }
        };
        LevelChange {
            machine: machine.map(|machine| class.machines[machine].name.clone()),
            test: self.row.test.clone(),
            metric: self.row.metric.clone(),
            unit: self.row.unit.clone().unwrap_or_default(),
            better: self.row.better,
            change_percent: self.row.percent(difference),
            ci_low: ends.map(|(one, other)| one.min(other)),
            ci_high: ends.map(|(one, other)| one.max(other)),
            worth: if difference > 0.0 { OutlierSide::Better } else { OutlierSide::Worse },
            p_value: step.p_value,
            before: moment(step.at - 1),
            after: moment(step.at),
            earliest: moment(step.first - 1),
            latest: moment(step.last),
            points: values.iter().enumerate().map(point).collect(),
            facts: facts::associations(
                &facts_after.iter().collect::<Vec<_>>(),
                &facts_before.iter().collect::<Vec<_>>(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_have_each_machine_at_most_once() {
        let seen = |machine| RunValue { machine, run: 0, value: 0.0, error: None, counts: SuspectCount::default() };
        let of = |machines: &[usize]| rounds(&machines.iter().map(|machine| seen(*machine)).collect::<Vec<_>>());
        assert_eq!(of(&[0, 1, 2, 1, 0, 2, 2]), [0, 0, 0, 1, 1, 1, 2]);
        assert!(of(&[]).is_empty());
    }
}
