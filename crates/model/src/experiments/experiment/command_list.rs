//! Plans for several commands that are compared with each other: one cell per command and placement, named after the
//! command.

use std::collections::BTreeSet;

use super::{PlanError, PlanOptions, SingleWorkload};
use crate::values::command_number::COMMAND;
use crate::values::plan::{Cell, Plan};
use crate::values::topology::Topology;
use crate::values::workload::WorkloadSpec;

/// Commands that share their parameters and placements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandList {
    pub commands: Vec<NamedCommand>,
    /// The measurement of each; its parameters lack `argv`.
    pub shared: SingleWorkload,
}

/// A command with its name in tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCommand {
    pub name: String,
    /// Value of the parameter `argv`.
    pub argv: String,
}

impl CommandList {
    /// Returns the plan for this machine. Equal commands are measured separately, so that a comparison of a command with
    /// itself shows the noise.
    ///
    /// # Errors
    /// As [`SingleWorkload::plan`], for any of the commands. An empty list is an error, too.
    pub fn plan(
        &self,
        topology: &Topology,
        specs: &[WorkloadSpec],
        options: PlanOptions<'_>,
    ) -> Result<Plan, PlanError> {
        let mut joined: Option<Plan> = None;
        for command in &self.commands {
            let mut single = self.shared.clone();
            single.workload = COMMAND.into();
            single.set.push(("argv".into(), command.argv.clone()));
            let mut plan = single.plan(topology, specs, options)?;
            plan.cells.iter_mut().for_each(|cell| cell.test = renamed(&cell.test, &command.name));
            plan.skipped.iter_mut().for_each(|cell| cell.test = renamed(&cell.test, &command.name));
            match &mut joined {
                None => joined = Some(plan),
                Some(joined) => {
                    joined.cells.append(&mut plan.cells);
                    joined.skipped.append(&mut plan.skipped);
                }
            }
        }
        let mut plan = joined.ok_or_else(|| PlanError::Invalid("no command to measure".into()))?;
        distinguish(&mut plan.cells);
        plan.repeat = self.shared.repeat(plan.cells.len());
        plan.compare_by = COMMAND.into();
        Ok(plan)
    }
}

/// Returns the name of a test of the workload, which may end with parameters, as one of the command.
fn renamed(test: &str, command: &str) -> String {
    format!("{command}{}", test.strip_prefix(COMMAND).unwrap_or_default())
}

/// Makes the keys and the names of cells unique.
fn distinguish(cells: &mut [Cell]) {
    let (mut keys, mut names) = (BTreeSet::new(), BTreeSet::new());
    for cell in cells {
        cell.key = unused(&cell.key, |key| keys.insert(key));
        let placement = cell.placement.name.clone();
        cell.test = unused(&cell.test, |name| names.insert((name, placement.clone())));
    }
}

/// Returns the text with the first ordinal that makes it new.
fn unused(text: &str, mut is_new: impl FnMut(String) -> bool) -> String {
    let numbered = (2..).map(|ordinal| format!("{text} ({ordinal})"));
    let mut texts = std::iter::once(text.to_string()).chain(numbered);
    texts.find(|text| is_new(text.clone())).expect("the ordinals are unbounded")
}
