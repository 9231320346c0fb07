//! Associations between recorded facts and groups of machines or runs, with their significance. They do not imply a
//! cause.

use std::collections::{BTreeMap, BTreeSet};

use statrs::function::factorial::ln_binomial;

use super::Association;
use crate::values::record::RunRecord;
use crate::values::settings::FactValue;

/// Maximum number of reported associations.
const PARTINGS_MAX: usize = 8;
/// Minimum ratio of the frequency of a value inside and outside the group.
const SHARE_MIN: f64 = 0.5;
/// Maximum p value. Of seven machines, one alone has a value by chance once in seven times.
const CHANCE_MAX: f64 = 0.25;
/// Maximum fraction of machines with a unique value. Facts that are unique to nearly every machine are ignored.
const OWN_VALUES_MAX: f64 = 0.5;

pub(super) type FactMap = BTreeMap<String, String>;

/// Returns the non-volatile facts of a run: settings, topology summary, label, and version of the program.
pub(super) fn of(record: &RunRecord) -> FactMap {
    let lasting = record.machine.settings.lasting();
    let known = lasting.filter_map(|fact| match &fact.value {
        FactValue::Known(value) => Some((fact.key.clone(), value.clone())),
        FactValue::Unavailable(_) => None,
    });
    let more = [("topology", record.machine.topology.summary()), ("nearfar", record.program.clone())];
    known.chain(more.map(|(key, value)| (key.to_string(), value))).collect()
}

/// Returns the facts that distinguish `here` from `elsewhere`, the most significant first. Empty if a side is empty.
pub(super) fn associations(here: &[&FactMap], elsewhere: &[&FactMap]) -> Vec<Association> {
    let keys: BTreeSet<&String> = here.iter().flat_map(|facts| facts.keys()).collect();
    let mut partings: Vec<Association> = keys.into_iter().filter_map(|key| parting(key, here, elsewhere)).collect();
    partings.sort_by(|one, other| one.p_value.total_cmp(&other.p_value).then_with(|| one.key.cmp(&other.key)));
    partings.truncate(PARTINGS_MAX);
    partings
}

/// Returns the value of a fact that distinguishes both sides best.
fn parting(key: &str, here: &[&FactMap], elsewhere: &[&FactMap]) -> Option<Association> {
    let count = |side: &[&FactMap], value: &str| {
        side.iter().filter(|facts| facts.get(key).is_some_and(|own| own == value)).count()
    };
    let values =
        |side: &[&FactMap]| -> BTreeSet<String> { side.iter().filter_map(|facts| facts.get(key).cloned()).collect() };
    if elsewhere.is_empty() || values(elsewhere).len() as f64 > 1.0 + OWN_VALUES_MAX * elsewhere.len() as f64 {
        return None;
    }
    let candidates = values(here).into_iter().map(|value| {
        let (own, others) = (count(here, &value), count(elsewhere, &value));
        let share = own as f64 / here.len() as f64 - others as f64 / elsewhere.len() as f64;
        (share, own, others, value)
    });
    let (share, own, others, value) = candidates.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let p_value = fisher(own, here.len(), others, elsewhere.len());
    (share >= SHARE_MIN && p_value <= CHANCE_MAX).then(|| Association {
        key: key.into(),
        value,
        here: own,
        here_of: here.len(),
        elsewhere: others,
        elsewhere_of: elsewhere.len(),
        p_value,
    })
}

/// Returns the one-sided p value of Fisher's exact test (Fisher, The Design of Experiments, 1935, chapter 2).
fn fisher(own: usize, here: usize, others: usize, elsewhere: usize) -> f64 {
    let (having, all) = (own + others, here + elsewhere);
    let ways = |n: usize, k: usize| ln_binomial(n as u64, k as u64);
    let probability = |with: usize| (ways(having, with) + ways(all - having, here - with) - ways(all, here)).exp();
    let possible = own..=here.min(having);
    possible.filter(|with| here - with <= all - having).map(probability).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pairs: &[(&str, &str)]) -> FactMap {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    /// Expected values from R: `fisher.test(matrix(c(3, 0, 0, 17), 2), alternative = "greater")` and similar calls.
    #[test]
    fn p_values_match_exact_counts() {
        for ((own, here, others, elsewhere), expected) in [
            // 1 / choose(20, 3).
            ((3, 3, 0, 17), 1.0 / 1140.0),
            ((1, 1, 0, 19), 1.0 / 20.0),
            // Fisher's lady tasting tea: (16 + 1) / 70.
            ((3, 4, 1, 4), 17.0 / 70.0),
            ((0, 3, 4, 17), 1.0),
            ((3, 3, 17, 17), 1.0),
        ] {
            let p = fisher(own, here, others, elsewhere);
            assert!((p - expected).abs() < 1e-9, "{own}/{here} {others}/{elsewhere}: {p}");
        }
    }

    #[test]
    fn distinguishing_facts_are_listed_but_unique_values_are_not() {
        let machine = |at: usize| {
            let slow = at < 3;
            facts(&[
                ("cpu.microcode", if slow { "0x1" } else { "0x2" }),
                ("kernel.release", "6.1"),
                ("label.rack", if slow || at == 7 { "a" } else { "b" }),
                ("machine.own", &at.to_string()),
            ])
        };
        let all: Vec<FactMap> = (0..20).map(machine).collect();
        let (here, elsewhere): (Vec<_>, Vec<_>) = all.iter().enumerate().partition(|(at, _)| *at < 3);
        let here: Vec<&FactMap> = here.into_iter().map(|(_, facts)| facts).collect();
        let elsewhere: Vec<&FactMap> = elsewhere.into_iter().map(|(_, facts)| facts).collect();
        let found = associations(&here, &elsewhere);
        let told: Vec<(&str, &str, usize, usize, usize, usize)> = found
            .iter()
            .map(|one| (one.key.as_str(), one.value.as_str(), one.here, one.here_of, one.elsewhere, one.elsewhere_of))
            .collect();
        assert_eq!(told, [("cpu.microcode", "0x1", 3, 3, 0, 17), ("label.rack", "a", 3, 3, 1, 17)]);
        assert!(associations(&here, &[]).is_empty() && associations(&[], &elsewhere).is_empty());
    }
}
