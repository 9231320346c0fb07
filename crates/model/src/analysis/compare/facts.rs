//! Notes on facts that differ between the compared runs besides the compared one.

use super::ComparedRun;
use crate::values::plan::By;
use crate::values::settings::{FactValue, Settings};

/// Returns a note for each fact that differs between the runs and is not a compared one.
pub(super) fn differing(runs: &[ComparedRun<'_>], dimensions: &[By]) -> Vec<String> {
    let mut settings = runs.iter().map(|run| &run.record.machine.settings);
    let Some(first) = settings.next() else { return Vec::new() };
    let is_asked = |key: &str| {
        dimensions.iter().any(|by| match by {
            By::Fact(fact) => fact == key,
            // The columns are named after it.
            By::Boot => key == "kernel.command-line",
            _ => false,
        })
    };
    notes(first, settings, is_asked)
}

fn notes<'a>(
    first: &'a Settings,
    others: impl Iterator<Item = &'a Settings>,
    is_asked: impl Fn(&str) -> bool,
) -> Vec<String> {
    let show = |value: Option<&FactValue>| value.map_or("not recorded".into(), ToString::to_string);
    let mut facts: Vec<(&str, String, Vec<String>)> = Vec::new();
    for other in others {
        for (key, one, two) in first.differences(other).into_iter().filter(|(key, ..)| !is_asked(key)) {
            let at = facts.iter().position(|(known, ..)| *known == key).unwrap_or_else(|| {
                facts.push((key, show(one), Vec::new()));
                facts.len() - 1
            });
            let (two, values) = (show(two), &mut facts[at].2);
            if !values.contains(&two) {
                values.push(two);
            }
        }
    }
    let note = |(key, one, others): (&str, String, Vec<String>)| match &others[..] {
        [first, second, rest @ ..] if rest.len() > 1 => {
            vec![format!("{key} differs: {one}, {first}, {second} and {} other values", rest.len())]
        }
        _ => others.iter().map(|two| format!("{key} differs: {one} and {two}")).collect(),
    };
    facts.into_iter().flat_map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fact_with_many_values_is_one_note() {
        let machines = ["one", "two", "three", "four", "five", "five"].map(|name| {
            let mut settings = Settings::default();
            settings.record("machine.serial", FactValue::Known(name.into()));
            settings
        });
        let notes = |count: usize| notes(&machines[0], machines[1..count].iter(), |_| false);
        assert_eq!(notes(2), ["machine.serial differs: one and two"]);
        assert_eq!(notes(3), ["machine.serial differs: one and two", "machine.serial differs: one and three"]);
        assert_eq!(notes(6), ["machine.serial differs: one, two, three and 2 other values"]);
    }
}
