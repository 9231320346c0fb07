//! Anonymises the efficiencies of a plan: their titles, placements and values are replaced as those of the cells. What no
//! cell has may be private and selects nothing, so it is removed.

use std::collections::{BTreeMap, BTreeSet};

use super::pseudonyms::Pseudonyms;
use crate::values::plan::{Cell, CellSelector, EfficiencyRule, Plan};

/// Names in the plan and in the shared one. A private title may have several: one per private test.
#[derive(Default)]
struct SharedNames {
    tests: BTreeMap<String, BTreeSet<String>>,
    placements: BTreeMap<String, BTreeSet<String>>,
    parameters: BTreeMap<String, String>,
    /// Formatted values by parameter.
    values: BTreeMap<(String, String), BTreeSet<String>>,
}

/// Returns the efficiencies of a plan for its shared cells, which are in the same order.
pub(super) fn share(plan: &Plan, shared: &[Cell], words: &mut Pseudonyms) -> Vec<EfficiencyRule> {
    let names = SharedNames::of(plan, shared, words);
    let rule = |rule: &EfficiencyRule| {
        let next_smaller = match &rule.next_smaller {
            Some(name) => Some(names.parameters.get(name)?.clone()),
            None => None,
        };
        let (cells, reference) = (names.selector(&rule.cells)?, names.selector(&rule.reference)?);
        Some(EfficiencyRule { cells, reference, next_smaller })
    };
    plan.efficiency.iter().filter_map(rule).collect()
}

impl SharedNames {
    fn of(plan: &Plan, shared: &[Cell], words: &mut Pseudonyms) -> Self {
        let mut names = Self::default();
        for (old, new) in plan.cells.iter().zip(shared) {
            names.tests.entry(old.title().into()).or_default().insert(new.title().into());
            names.placements.entry(old.placement.name.clone()).or_default().insert(new.placement.name.clone());
            let Some(spec) = plan.spec(&old.workload) else { continue };
            let values = spec.written(&new.parameters);
            for (name, old_value) in spec.written(&old.parameters) {
                let new_name = words.public(&name);
                names.values.entry((name.clone(), old_value)).or_default().extend(values.get(&new_name).cloned());
                names.parameters.insert(name, new_name);
            }
        }
        names
    }

    /// Returns a selector of the same cells; `None` if it selects none.
    fn selector(&self, selector: &CellSelector) -> Option<CellSelector> {
        let parameter = |(name, values): (&String, &Vec<String>)| {
            let shared = replaced(values, |value| self.values.get(&(name.clone(), value.clone())))?;
            Some((self.parameters.get(name)?.clone(), shared))
        };
        Some(CellSelector {
            tests: replaced(&selector.tests, |title| self.tests.get(title))?,
            placements: replaced(&selector.placements, |name| self.placements.get(name))?,
            parameters: selector.parameters.iter().map(parameter).collect::<Option<_>>()?,
        })
    }
}

/// Returns the shared names of a list; `None` if none is left of a list that had some, since an empty list selects all.
fn replaced<'a>(old: &[String], shared: impl Fn(&String) -> Option<&'a BTreeSet<String>>) -> Option<Vec<String>> {
    let names: Vec<String> = old.iter().filter_map(shared).flatten().cloned().collect();
    (old.is_empty() || !names.is_empty()).then_some(names)
}
