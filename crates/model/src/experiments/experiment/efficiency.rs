//! Section `[[efficiency]]`: cells that are shown in percent of a reference cell. Parses and validates it, and formats its
//! values as those of a machine's cells.

use std::collections::BTreeMap;

use super::WorkloadGrid;
use super::source::{ExperimentText, Located, TomlTable};
use super::{ExperimentError, read};
use crate::values::plan::{CellSelector, EfficiencyRule};
use crate::values::suggest::suggestions;
use crate::values::units::Bytes;
use crate::values::workload::WorkloadSpec;

/// Value of a parameter of the reference: the largest one below that of the cell.
const NEXT_SMALLER: &str = "next smaller";

/// A selector as written, and the parameters with the value [`NEXT_SMALLER`].
type Written = (CellSelector, Vec<Located<String>>);

pub(super) fn rules(
    source: ExperimentText<'_>,
    root: &TomlTable<'_>,
    tasks: &[WorkloadGrid],
    specs: &[WorkloadSpec],
) -> Result<Vec<EfficiencyRule>, ExperimentError> {
    let sections = root.sections("efficiency", "[[efficiency]]", &["cells", "reference"])?;
    let rule = |section: &TomlTable<'_>| {
        let part = |key, title| {
            let table = section.section(key, title, None)?;
            let table =
                table.ok_or_else(|| section.error(format!("[[efficiency]] has no {key}"), Some(title.into())))?;
            selector(source, &table, tasks, specs)
        };
        let (cells, smaller) = part("cells", "cells = { test = \"…\", parameter = \"…\" }")?;
        if let Some(smaller) = smaller.first() {
            return Err(source.error(&smaller.at, format!("'{NEXT_SMALLER}' is only a value of the reference"), None));
        }
        let (reference, mut smaller) = part("reference", "reference = { test = \"…\", parameter = \"…\" }")?;
        if let Some(second) = smaller.get(1) {
            return Err(source.error(&second.at, format!("only one parameter can be '{NEXT_SMALLER}'"), None));
        }
        Ok(EfficiencyRule { cells, reference, next_smaller: smaller.pop().map(|parameter| parameter.value) })
    };
    sections.iter().map(rule).collect()
}

fn selector(
    source: ExperimentText<'_>,
    table: &TomlTable<'_>,
    tasks: &[WorkloadGrid],
    specs: &[WorkloadSpec],
) -> Result<Written, ExperimentError> {
    let (mut selector, mut smaller) = (CellSelector::default(), Vec::new());
    for key in table.keys() {
        let values = table.scalars(key.value)?.unwrap_or_default();
        let texts: Vec<String> = values.iter().map(|value| value.value.text.trim().to_string()).collect();
        let known: Vec<&str> = match key.value {
            "test" => tasks.iter().map(WorkloadGrid::title).collect(),
            "placement" => tasks.iter().flat_map(|task| &task.placements).map(String::as_str).collect(),
            name => {
                check_parameter(source, &key, tasks, specs)?;
                if texts == [NEXT_SMALLER] {
                    smaller.push(Located { value: name.to_string(), at: key.at });
                } else {
                    selector.parameters.insert(name.into(), texts);
                }
                continue;
            }
        };
        if let Some((at, unknown)) = values.iter().zip(&texts).find(|(_, text)| !known.contains(&text.as_str())) {
            let choices = suggestions(unknown, known.iter().copied()).join(", ");
            let what = format!("no [[workload]] has the {} '{unknown}'", key.value);
            return Err(source.error(&at.at, what, Some(format!("they are {choices}"))));
        }
        if key.value == "test" { selector.tests = texts } else { selector.placements = texts }
    }
    Ok((selector, smaller))
}

fn check_parameter(
    source: ExperimentText<'_>,
    key: &Located<&str>,
    tasks: &[WorkloadGrid],
    specs: &[WorkloadSpec],
) -> Result<(), ExperimentError> {
    let used = || specs.iter().filter(|spec| tasks.iter().any(|task| task.workload == spec.name));
    if used().any(|spec| spec.parameter(key.value).is_some()) {
        return Ok(());
    }
    let known = used().flat_map(|spec| spec.parameters.iter().map(|parameter| parameter.name.as_str()));
    let mut choices = suggestions(key.value, known.chain(["test", "placement"]));
    choices.dedup();
    let what = format!("no workload has a parameter '{}'", key.value);
    Err(source.error(&key.at, what, Some(format!("the keys are {}", choices.join(", ")))))
}

/// Returns the rules with values as the cells of a machine have them.
pub(super) fn formatted(rules: &[EfficiencyRule], specs: &[WorkloadSpec], llc: Option<Bytes>) -> Vec<EfficiencyRule> {
    let value = |name: &str, text: &String| read::formatted(name, text, specs, llc).unwrap_or_else(|| text.clone());
    let selector = |selector: &CellSelector| {
        let values = |(name, texts): (&String, &Vec<String>)| {
            (name.clone(), texts.iter().map(|text| value(name, text)).collect::<Vec<String>>())
        };
        let parameters: BTreeMap<String, Vec<String>> = selector.parameters.iter().map(values).collect();
        CellSelector { parameters, ..selector.clone() }
    };
    let rule = |rule: &EfficiencyRule| EfficiencyRule {
        cells: selector(&rule.cells),
        reference: selector(&rule.reference),
        next_smaller: rule.next_smaller.clone(),
    };
    rules.iter().map(rule).collect()
}
