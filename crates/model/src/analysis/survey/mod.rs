//! What the runs of many machines say side by side: classes of machines that are alike, who stands out of its class, what
//! changed over time and when, and which recorded facts go with it. Values only; must not know how they are shown.
//!
//! The rate of false alarms is of the whole survey: of so many surveys of machines that do not differ, at most that share names
//! a machine or a change. Half of it is for machines, half for changes; `cargo bench -p model --bench survey` tries it.

mod change_points;
mod facts;
mod level;
mod outliers;
mod rows;

use serde::{Deserialize, Serialize};

use crate::analysis::compare::ComparedRun;
use crate::values::workload::Better;

pub use change_points::RUNS_MIN;
pub use outliers::MACHINES_MIN;

/// Of a hundred surveys in which nothing differs, so many may name something, unless told otherwise.
pub const FALSE_ALARMS_PERCENT: f64 = 5.0;

/// What is asked of the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct SurveyOptions {
    /// Facts in which the machines of a class agree; none for [`crate::values::machine_class::machine_class`].
    pub class: Vec<String>,
    /// Only cells of this workload; none for all.
    pub workload: Option<String>,
    /// Every metric, not only each cell's main one.
    pub all_metrics: bool,
    /// How many of a hundred surveys without a difference may name one; above 0, at most 50.
    pub false_alarms_percent: f64,
}

impl Default for SurveyOptions {
    fn default() -> Self {
        Self { class: Vec::new(), workload: None, all_metrics: false, false_alarms_percent: FALSE_ALARMS_PERCENT }
    }
}

/// Many machines side by side. Field names here and below are part of the JSON contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    /// Of a hundred surveys in which nothing differs, at most so many name something.
    pub false_alarms_percent: f64,
    /// The facts that make a class; none for the machine's model and counts.
    pub class_by: Vec<String>,
    /// Whether the machines are simulated.
    pub simulated: bool,
    /// In the order of their names.
    pub classes: Vec<MachineClass>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineClass {
    /// The class's name, or the values of the facts that make it.
    pub name: String,
    /// Its machines, in the order of their names.
    pub machines: Vec<Machine>,
    /// Why nobody is said to stand out, where nobody could be.
    pub not_judged: Option<String>,
    /// What they were measured by; a row over all tests last, where there are several.
    pub tests: Vec<Test>,
    /// Facts that part those who do worse than their class from the others, the clearest first.
    pub facts_of_worse: Vec<Association>,
    /// Likewise of those who do better.
    pub facts_of_better: Vec<Association>,
    /// What changed over time, in the order of time.
    pub changes: Vec<LevelChange>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its label, else its cpu model.
    pub name: String,
    /// How many runs of it are here.
    pub runs: usize,
    /// When the first began, milliseconds since 1970.
    pub first_unix_ms: u64,
    /// When the last began.
    pub last_unix_ms: u64,
    /// Whether it stands out in any test; worse before better.
    pub stands_out: Option<OutlierSide>,
}

/// Which way somebody stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutlierSide {
    /// Slower, or less of what there should be more of.
    Worse,
    Better,
}

/// One test over the machines of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// The test's name, with placement, threads and parameters where tests differ in them.
    pub test: String,
    /// The metric; `geometric mean` over all tests.
    pub metric: String,
    /// Its unit; empty over all tests.
    pub unit: String,
    pub better: Better,
    /// The class's median, in the unit; none over all tests.
    pub median: Option<f64>,
    /// Whether a machine could be said to stand out: not where too few were measured, or where all are equal.
    pub judged: bool,
    /// One for each machine that has it, in the order of the machines.
    pub values: Vec<MachineScore>,
}

/// One machine in one test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineScore {
    pub machine: String,
    /// The median of its runs, in the unit; none over all tests.
    pub median: Option<f64>,
    /// Against the median of the others of its class, 100 x (ratio - 1).
    pub change_percent: f64,
    /// Lower end of its 95 % interval; none where nothing is known of the noise, or the others are too few.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    /// How likely a machine of the class is that far from it; none where the test is not judged. Not corrected for their number.
    pub p_value: Option<f64>,
    /// Whether it may be said to stand out at the survey's rate of false alarms, and which way.
    pub stands_out: Option<OutlierSide>,
}

/// A fact that parts some from the others. Says what goes together, never what is the cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Association {
    pub key: String,
    pub value: String,
    /// How many of them have it.
    pub here: usize,
    pub here_of: usize,
    /// How many of the others have it.
    pub elsewhere: usize,
    /// How many the others are.
    pub elsewhere_of: usize,
    /// Fisher's exact probability of so clear a parting by chance, one-sided. Not corrected for the number of facts.
    pub p_value: f64,
}

/// Where a level changed: of one machine, or of a whole class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelChange {
    /// Whose; none for the whole class.
    pub machine: Option<String>,
    pub test: String,
    pub metric: String,
    /// Its unit; empty over all tests.
    pub unit: String,
    pub better: Better,
    /// From the level before to the one after, 100 x (ratio - 1).
    pub change_percent: f64,
    /// Lower end of its 95 % interval.
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
    pub worth: OutlierSide,
    /// How likely so large a change is somewhere in the class where none is, in this test.
    pub p_value: f64,
    /// The last run before it, at the likeliest place.
    pub before: RunTime,
    /// The first run after it.
    pub after: RunTime,
    /// It happened after this one, with 95 % confidence.
    pub earliest: RunTime,
    pub latest: RunTime,
    /// The whole series, in the order of time.
    pub points: Vec<SeriesPoint>,
    /// Facts that part the runs after it from those before.
    pub facts: Vec<Association>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTime {
    pub run: String,
    /// When it began, milliseconds since 1970.
    pub unix_ms: u64,
}

/// One value of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// Of which run; of a class's rounds the first one.
    pub run: String,
    pub unix_ms: u64,
    /// Against the median of the series, 100 x (ratio - 1).
    pub change_percent: f64,
}

/// Surveys runs, which come oldest first: where two began in the same millisecond, their order counts.
pub fn survey(runs: &[ComparedRun<'_>], wish: &SurveyOptions) -> Result<Survey, String> {
    let classes = rows::classes(runs, wish)?;
    let share = wish.false_alarms_percent / 100.0 / 2.0;
    let standings = outliers::find_outliers(&classes, share);
    let mut changes = level::changes(&classes, runs, share);
    let class = |(class, tests): (&rows::Class, Vec<Test>)| {
        let changes = changes.remove(0);
        finished(class, tests, changes, runs)
    };
    Ok(Survey {
        false_alarms_percent: wish.false_alarms_percent,
        class_by: wish.class.clone(),
        simulated: runs.iter().any(|run| run.record.simulated.is_some()),
        classes: classes.iter().zip(standings).map(class).collect(),
    })
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
        // Those who stand out the other way belong to neither side.
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
    }
}
