//! A survey in sentences. They state associations, never causes.

use model::analysis::survey::{
    Association, LevelChange, MachineClass, MachineScore, OutlierSide, RUNS_MIN, Survey, Test,
};
use model::values::comparison::SuspectCount;

use crate::claim_text::{ClaimText, claim, percents};
use crate::comparison_notes::suspect_remark;
use crate::number::{date, percent_interval};
use crate::style::clean;

/// Maximum number of machines in the sentence about suspect trials.
const MACHINES_MAX: usize = 8;
/// Maximum number of facts in a sentence about a change; the table has the others.
const FACTS_MAX: usize = 3;

/// The rate of false alarms.
pub(crate) fn false_alarm_note(survey: &Survey) -> String {
    format!(
        "At most {} of a hundred surveys of equal machines, each measured more than once, report an outlier or a \
         change; machines of a class have the same {}; an association is not necessarily a cause",
        survey.false_alarms_percent,
        class_by(survey)
    )
}

/// The facts that define a class.
fn class_by(survey: &Survey) -> String {
    if survey.class_by.is_empty() {
        return "CPU model and numbers of packages, cores, CPUs and memory nodes".into();
    }
    clean(&survey.class_by.join(", "))
}

/// The outliers by machine and test, or that there are none, or why none can be determined.
pub(crate) fn standings(class: &MachineClass) -> Vec<ClaimText> {
    if let Some(reason) = &class.not_judged {
        return vec![ClaimText { text: format!("outliers cannot be determined: {}", clean(reason)), better: None }];
    }
    let mut claims = Vec::new();
    for machine in &class.machines {
        for test in &class.tests {
            let own = test.values.iter().find(|value| value.machine == machine.name);
            claims.extend(own.and_then(|value| standing(test, value, machine.runs)));
        }
    }
    if claims.is_empty() {
        let text = format!("no outliers among these {} machines", class.machines.len());
        claims.push(ClaimText { text, better: None });
    }
    claims.extend(suspect_note(class));
    claims
}

/// The machines with suspect trials; `None` without any.
fn suspect_note(class: &MachineClass) -> Option<ClaimText> {
    let with_suspect = class.machines.iter().filter(|machine| machine.counts.suspect > 0);
    let machines: Vec<String> =
        with_suspect.map(|machine| format!("{} {}", clean(&machine.name), of_trials(machine.counts))).collect();
    let listed = match machines.get(MACHINES_MAX..) {
        Some([]) | None => machines.join(", "),
        Some(more) => format!("{} and {} more machines", machines[..MACHINES_MAX].join(", "), more.len()),
    };
    let text = format!(
        "suspect trials, which were disturbed and may differ for this reason: {listed}; --strict leaves them out"
    );
    (!machines.is_empty()).then_some(ClaimText { text, better: None })
}

/// `7 of 9`.
fn of_trials(counts: SuspectCount) -> String {
    format!("{} of {}", counts.suspect, counts.trials)
}

/// `; 7 of 9 trials suspect`, or nothing unless most trials are suspect.
fn suspect_ending(counts: SuspectCount) -> String {
    suspect_remark(counts).map_or(String::new(), |remark| format!("; {remark}"))
}

fn standing(test: &Test, value: &MachineScore, runs: usize) -> Option<ClaimText> {
    let worth = value.stands_out?;
    let claim =
        claim(&test.metric, &test.unit, test.better, &clean(&value.machine), "the others", value.change_percent);
    let how = ends(value.ci_low, value.ci_high, value.change_percent);
    // The false-alarm rate is per machine; with a single measurement, a bad day cannot be distinguished from a bad
    // machine.
    let again = match runs {
        1 => "; measured once only, so measure it again",
        _ => "",
    };
    Some(ClaimText {
        text: format!("{claim} for {}{how}{again}{}", clean(&test.test), suspect_ending(value.counts)),
        better: Some(worth == OutlierSide::Better),
    })
}

/// The changes, or that none was found, or why none can be determined.
pub(crate) fn changes(class: &MachineClass) -> Vec<ClaimText> {
    if !class.changes.is_empty() {
        return class.changes.iter().map(change).collect();
    }
    let runs = class.machines.iter().map(|machine| machine.runs).max().unwrap_or(0);
    let text = if runs < RUNS_MIN {
        format!("changes over time: {RUNS_MIN} runs of a machine are required, the maximum is {runs}")
    } else if let Some(since) = class.since_unix_ms {
        format!("no change since {} seen", date(since))
    } else {
        "no change over time seen".into()
    };
    vec![ClaimText { text, better: None }]
}

/// The machine, size and time of a change, and the facts that changed with it.
fn change(change: &LevelChange) -> ClaimText {
    let name = change.machine.as_ref().map_or("the whole class".to_string(), |name| clean(name));
    let claim = claim(&change.metric, &change.unit, change.better, &name, "before", change.change_percent);
    let how = ends(change.ci_low, change.ci_high, change.change_percent);
    let suspect = change.suspect_side().map_or(String::new(), suspect_ending);
    let mut text = format!("{claim} for {}{how}, since {}{suspect}", clean(&change.test), when(change));
    let facts: Vec<String> = change.facts.iter().take(FACTS_MAX).map(with).collect();
    if !facts.is_empty() {
        text += &format!("; changed with it: {}", facts.join(", "));
    }
    ClaimText { text, better: Some(change.worth == OutlierSide::Better) }
}

fn when(change: &LevelChange) -> String {
    let likeliest = format!("run {} of {}", clean(&change.after.run), date(change.after.unix_ms));
    if (&change.earliest, &change.latest) == (&change.before, &change.after) {
        return format!("{likeliest}, the previous one of {}", date(change.before.unix_ms));
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

/// `7 of 9`, or the empty text without suspect trials. For tables.
pub(super) fn suspect(counts: SuspectCount) -> String {
    if counts.suspect > 0 { of_trials(counts) } else { String::new() }
}

/// The ends of an interval with a percent sign, for tables.
pub(super) fn interval(low: Option<f64>, high: Option<f64>, change: f64) -> String {
    low.zip(high).map_or(String::new(), |(low, high)| format!("{} %", percent_interval(low, high, change)))
}
