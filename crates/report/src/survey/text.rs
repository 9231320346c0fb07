//! A survey in sentences. They name what goes together and never a cause.

use model::analysis::survey::{
    Association, LevelChange, MachineClass, MachineScore, OutlierSide, RUNS_MIN, Survey, Test,
};

use crate::claim_text::{ClaimText, claim, percents};
use crate::number::{date, percent_interval};
use crate::style::clean;

/// Facts that a sentence about a change names; the table has the others.
const FACTS_MAX: usize = 3;

/// How often a survey names something where there is nothing.
pub(crate) fn promise(survey: &Survey) -> String {
    format!(
        "Of a hundred surveys of machines that do not differ and were measured more than once, at most {} name a machine or a \
         change; machines of a class agree in {}; what goes together need not be the cause",
        survey.false_alarms_percent,
        class_by(survey)
    )
}

/// What the machines of a class agree in.
fn class_by(survey: &Survey) -> String {
    if survey.class_by.is_empty() {
        return "cpu model and counts of packages, cores, cpus and memory nodes".into();
    }
    clean(&survey.class_by.join(", "))
}

/// Who stands out, test by test, machines together; or that nobody does, or could.
pub(crate) fn standings(class: &MachineClass) -> Vec<ClaimText> {
    if let Some(why) = &class.not_judged {
        return vec![ClaimText { text: format!("nobody is said to stand out among {}", clean(why)), better: None }];
    }
    let mut said = Vec::new();
    for machine in &class.machines {
        for test in &class.tests {
            let own = test.values.iter().find(|value| value.machine == machine.name);
            said.extend(own.and_then(|value| standing(test, value, machine.runs)));
        }
    }
    if said.is_empty() {
        let text = format!("nobody stands out among these {} machines", class.machines.len());
        said.push(ClaimText { text, better: None });
    }
    said
}

fn standing(test: &Test, value: &MachineScore, runs: usize) -> Option<ClaimText> {
    let worth = value.stands_out?;
    let claim =
        claim(&test.metric, &test.unit, test.better, &clean(&value.machine), "the others", value.change_percent);
    let how = ends(value.ci_low, value.ci_high, value.change_percent);
    // The rate of false alarms is that of machines; what a single day did cannot be told from what the machine is.
    let again = match runs {
        1 => "; it was measured once, which may have been a bad day: measure it again",
        _ => "",
    };
    Some(ClaimText {
        text: format!("{claim} for {}{how}{again}", clean(&test.test)),
        better: Some(worth == OutlierSide::Better),
    })
}

/// What changed; or that nothing is seen to have, or could be.
pub(crate) fn changes(class: &MachineClass) -> Vec<ClaimText> {
    if !class.changes.is_empty() {
        return class.changes.iter().map(change).collect();
    }
    let runs = class.machines.iter().map(|machine| machine.runs).max().unwrap_or(0);
    let text = if runs < RUNS_MIN {
        format!("changes over time: {RUNS_MIN} runs of a machine are needed, the most that one has here is {runs}")
    } else {
        "no change over time is seen".into()
    };
    vec![ClaimText { text, better: None }]
}

/// Who changed, by how much, when, and what changed with it.
fn change(change: &LevelChange) -> ClaimText {
    let name = change.machine.as_ref().map_or("the whole class".to_string(), |name| clean(name));
    let claim = claim(&change.metric, &change.unit, change.better, &name, "before", change.change_percent);
    let how = ends(change.ci_low, change.ci_high, change.change_percent);
    let mut text = format!("{claim} for {}{how}, since {}", clean(&change.test), when(change));
    let facts: Vec<String> = change.facts.iter().take(FACTS_MAX).map(with).collect();
    if !facts.is_empty() {
        text += &format!("; with it came {}", facts.join(", "));
    }
    ClaimText { text, better: Some(change.worth == OutlierSide::Better) }
}

fn when(change: &LevelChange) -> String {
    let likeliest = format!("run {} of {}", clean(&change.after.run), date(change.after.unix_ms));
    if (&change.earliest, &change.latest) == (&change.before, &change.after) {
        return format!("{likeliest}, the one before being of {}", date(change.before.unix_ms));
    }
    let (earliest, latest) = (date(change.earliest.unix_ms), date(change.latest.unix_ms));
    format!("{likeliest} or another between {earliest} and {latest} (95 %)")
}

fn with(fact: &Association) -> String {
    format!("{} {}", clean(&fact.key), clean(&fact.value))
}

fn ends(low: Option<f64>, high: Option<f64>, change: f64) -> String {
    low.zip(high).map_or(String::new(), |(low, high)| format!(", {}", percents(low, high, change)))
}

/// `+5.0 % (4.1 to 5.9)`'s second half, for tables.
pub(super) fn interval(low: Option<f64>, high: Option<f64>, change: f64) -> String {
    low.zip(high).map_or(String::new(), |(low, high)| format!("{} %", percent_interval(low, high, change)))
}
