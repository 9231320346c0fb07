//! Surveys of many machines: classes of equal machines, outliers within a class, level changes over time, and
//! associated facts.
//! Must not depend on how they are displayed.
//!
//! The false-alarm rate applies to the whole survey: at most this fraction of surveys of machines that do not differ
//! reports an outlier or a change. Half of it is for outliers, half for changes; `cargo bench -p model --bench survey`
//! measures it.

mod change_points;
mod facts;
mod level;
mod outliers;
mod rows;

use serde::{Deserialize, Serialize};

use crate::analysis::compare::ComparedRun;
use crate::values::comparison::SuspectCount;
use crate::values::stamp::Stamp;
use crate::values::workload::Better;

pub use change_points::RUNS_MIN;
pub use outliers::MACHINES_MIN;

/// Default false-alarm rate, in percent of surveys.
pub const FALSE_ALARMS_PERCENT: f64 = 5.0;

#[derive(Clone, Debug, PartialEq)]
pub struct SurveyOptions {
    /// Facts that define a class; empty for [`crate::values::machine_class::machine_class`].
    pub class: Vec<String>,
    /// Restricts the survey to one workload; `None` for all.
    pub workload: Option<String>,
    /// Include all metrics instead of only the main one of each cell.
    pub all_metrics: bool,
    /// Maximum false-alarm rate in percent of surveys; above 0 and at most 50.
    pub false_alarms_percent: f64,
    /// Leave out changes that happened before this time (milliseconds since 1970). Earlier runs remain the reference.
    pub since_unix_ms: Option<u64>,
}

impl Default for SurveyOptions {
    fn default() -> Self {
        Self {
            class: Vec::new(),
            workload: None,
            all_metrics: false,
            false_alarms_percent: FALSE_ALARMS_PERCENT,
            since_unix_ms: None,
        }
    }
}

/// Result of a survey. Field names of this and the following types are part of the JSON contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    /// Maximum false-alarm rate in percent of surveys.
    pub false_alarms_percent: f64,
    /// Facts that define a class; empty for the machine's model and counts.
    pub class_by: Vec<String>,
    /// Whether the runs were simulated or smoke tests.
    #[serde(flatten)]
    pub stamp: Stamp,
    /// Classes sorted by name.
    pub classes: Vec<MachineClass>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineClass {
    /// Name of the class, or the values of the facts that define it.
    pub name: String,
    /// Machines sorted by name.
    pub machines: Vec<Machine>,
    /// Reason why no machine can be judged an outlier; `None` if machines can.
    pub not_judged: Option<String>,
    /// Tests, followed by a row over all tests if there are several.
    pub tests: Vec<Test>,
    /// Facts that distinguish machines that are worse than their class, the most significant first.
    pub facts_of_worse: Vec<Association>,
    /// Facts that distinguish machines that are better than their class.
    pub facts_of_better: Vec<Association>,
    /// Level changes in chronological order.
    pub changes: Vec<LevelChange>,
    /// Changes that happened before this time are left out; `None` if no time was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_unix_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Label, or else the CPU model.
    pub name: String,
    /// Number of runs.
    pub runs: usize,
    /// Start of the first run, in milliseconds since 1970.
    pub first_unix_ms: u64,
    /// Start of the last run, in milliseconds since 1970.
    pub last_unix_ms: u64,
    /// Side on which the machine is an outlier in any test; worse takes precedence over better.
    pub stands_out: Option<OutlierSide>,
    /// Trials of the main metrics of all runs.
    #[serde(flatten)]
    pub counts: SuspectCount,
}

/// Direction of an outlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutlierSide {
    /// Worse in the direction of the metric.
    Worse,
    Better,
}

/// Results of one test on the machines of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// Name of the test, with placement, threads and parameters if tests differ in them.
    pub test: String,
    /// Name of the metric; `geometric mean` over all tests.
    pub metric: String,
    /// The empty text over all tests.
    pub unit: String,
    pub better: Better,
    /// Median of the class; `None` over all tests.
    pub median: Option<f64>,
    /// Whether machines can be judged: not if too few were measured, or all are equal.
    pub judged: bool,
    /// One entry per measured machine, in the order of the machines.
    pub values: Vec<MachineScore>,
}

/// Result of one machine in one test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineScore {
    pub machine: String,
    /// Median of its runs; `None` over all tests.
    pub median: Option<f64>,
    /// Change from the median of the other machines of the class, 100 x (ratio - 1).
    pub change_percent: f64,
    /// Lower end of the 95 % interval; `None` if the noise is unknown or there are too few other machines.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    /// P value of a distance of at least this size; `None` if the test is not judged. Not corrected for multiple tests.
    pub p_value: Option<f64>,
    /// Direction in which the machine is an outlier at the false-alarm rate of the survey; `None` if it is not.
    pub stands_out: Option<OutlierSide>,
    #[serde(flatten)]
    pub counts: SuspectCount,
}

/// A fact that is associated with a group. It does not imply a cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Association {
    pub key: String,
    pub value: String,
    /// Number of members of the group that have the value.
    pub here: usize,
    pub here_of: usize,
    /// Number of others that have the value.
    pub elsewhere: usize,
    /// Number of others.
    pub elsewhere_of: usize,
    /// One-sided p value of Fisher's exact test. Not corrected for the number of facts.
    pub p_value: f64,
}

/// Level change of one machine or of a whole class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelChange {
    /// Name of the machine; `None` for the whole class.
    pub machine: Option<String>,
    pub test: String,
    pub metric: String,
    /// The empty text over all tests.
    pub unit: String,
    pub better: Better,
    /// Change from the level before to the level after, 100 x (ratio - 1).
    pub change_percent: f64,
    /// Lower end of the 95 % interval.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    pub worth: OutlierSide,
    /// Probability of a change of at least this size in this test of the class without one.
    pub p_value: f64,
    /// Last run before the change, at its most likely position.
    pub before: RunTime,
    /// First run after the change.
    pub after: RunTime,
    /// The change happened after this run, with 95 % confidence.
    pub earliest: RunTime,
    pub latest: RunTime,
    /// The whole series in chronological order.
    pub points: Vec<SeriesPoint>,
    /// Facts that distinguish the runs after the change from those before.
    pub facts: Vec<Association>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTime {
    pub run: String,
    /// Start in milliseconds since 1970.
    pub unix_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// Run of the value; for rounds of a class, the first run.
    pub run: String,
    pub unix_ms: u64,
    /// Change from the median of the series, 100 x (ratio - 1).
    pub change_percent: f64,
    #[serde(flatten)]
    pub counts: SuspectCount,
}

impl LevelChange {
    /// Counts of the runs on the side of the change that rests mostly on suspect trials; `None` if neither does.
    pub fn suspect_side(&self) -> Option<SuspectCount> {
        let change = self.points.iter().position(|point| point.run == self.after.run)?;
        let (before, after) = self.points.split_at(change);
        let counts = [after, before].map(|side| side.iter().map(|point| point.counts).sum::<SuspectCount>());
        counts.into_iter().find(|side| side.is_most())
    }
}

/// Surveys runs, which must be sorted from oldest to newest: for equal start times, their order is used.
pub fn survey(runs: &[ComparedRun<'_>], options: &SurveyOptions) -> Result<Survey, String> {
    let classes = rows::classes(runs, options)?;
    let share = options.false_alarms_percent / 100.0 / 2.0;
    let standings = outliers::find_outliers(&classes, share);
    let mut changes = level::changes(&classes, runs, share);
    let class = |(class, tests): (&rows::Class, Vec<Test>)| {
        let changes = changes.remove(0);
        changed_since(finished(class, tests, changes, runs), options.since_unix_ms)
    };
    let stamp = Stamp::of(runs.iter().map(|run| run.record));
    let classes = classes.iter().zip(standings).map(class);
    Ok(Survey {
        false_alarms_percent: options.false_alarms_percent,
        class_by: options.class.clone(),
        stamp,
        classes: if stamp.smoke { classes.map(without_claims).collect() } else { classes.collect() },
    })
}

/// Leaves out changes that certainly happened before a time.
fn changed_since(mut class: MachineClass, since_unix_ms: Option<u64>) -> MachineClass {
    class.since_unix_ms = since_unix_ms;
    class.changes.retain(|change| since_unix_ms.is_none_or(|since| change.latest.unix_ms >= since));
    class
}

/// Removes what the sizes of smoke tests do not support: outliers, associated facts, changes and intervals.
fn without_claims(mut class: MachineClass) -> MachineClass {
    class.machines.iter_mut().for_each(|machine| machine.stands_out = None);
    for test in &mut class.tests {
        test.judged = false;
        for value in &mut test.values {
            (value.ci_low, value.ci_high, value.p_value, value.stands_out) = (None, None, None, None);
        }
    }
    MachineClass {
        not_judged: Some("the runs are smoke tests, whose sizes are too small for results".into()),
        facts_of_worse: Vec::new(),
        facts_of_better: Vec::new(),
        changes: Vec::new(),
        ..class
    }
}

fn finished(
    class: &rows::Class,
    tests: Vec<Test>,
    changes: Vec<LevelChange>,
    runs: &[ComparedRun<'_>],
) -> MachineClass {
    let stands_out = |name: &str| {
        let own = tests.iter().flat_map(|test| &test.values).filter(|value| value.machine == name);
        own.filter_map(|value| value.stands_out).min()
    };
    let machines: Vec<Machine> =
        class.machines.iter().map(|machine| machine.seen(runs, stands_out(&machine.name))).collect();
    let latest: Vec<facts::FactMap> =
        class.machines.iter().map(|machine| facts::of(runs[machine.last()].record)).collect();
    let parted = |worth| {
        let there: Vec<bool> = machines.iter().map(|machine| machine.stands_out == Some(worth)).collect();
        // Outliers in the opposite direction belong to neither side.
        let kept: Vec<usize> =
            (0..machines.len()).filter(|at| there[*at] || machines[*at].stands_out.is_none()).collect();
        let side = |here: bool| -> Vec<&facts::FactMap> {
            kept.iter().filter(|at| there[**at] == here).map(|at| &latest[*at]).collect()
        };
        facts::associations(&side(true), &side(false))
    };
    MachineClass {
        name: class.name.clone(),
        not_judged: outliers::not_judged(&tests, machines.len()),
        facts_of_worse: parted(OutlierSide::Worse),
        facts_of_better: parted(OutlierSide::Better),
        machines,
        tests,
        changes,
        since_unix_ms: None,
    }
}
