//! Values that the user gives in place of an experiment's own: `nearfar run NAME --set KEY=VALUE`.

use std::collections::BTreeSet;

use super::Experiment;
use super::read::check_value;
use crate::values::suggest::suggestions;
use crate::values::workload::WorkloadSpec;

impl Experiment {
    /// Gives these values to every workload of the experiment that has such a parameter, in place of its own; a name that
    /// comes twice has both. A parameter that none of them has is a mistake.
    pub fn override_parameters(&mut self, pairs: &[(String, String)], specs: &[WorkloadSpec]) -> Result<(), String> {
        let names: BTreeSet<&String> = pairs.iter().map(|(name, _)| name).collect();
        for name in names {
            let values: Vec<String> =
                pairs.iter().filter(|(other, _)| other == name).map(|(_, value)| value.clone()).collect();
            self.give_one(name, &values, specs)?;
        }
        Ok(())
    }

    fn give_one(&mut self, name: &str, values: &[String], specs: &[WorkloadSpec]) -> Result<(), String> {
        let mut taken = false;
        for task in &mut self.tasks {
            let spec = specs.iter().find(|spec| spec.name == task.workload);
            let Some(parameter) = spec.and_then(|spec| spec.parameter(name)) else { continue };
            for value in values {
                check_value(parameter, value).map_err(|why| format!("{name} of workload {}: {why}", task.workload))?;
            }
            match task.set.iter_mut().find(|(given, _)| given == name) {
                Some((_, own)) => *own = values.to_vec(),
                None => task.set.push((name.into(), values.to_vec())),
            }
            taken = true;
        }
        if taken {
            return Ok(());
        }
        let used = specs.iter().filter(|spec| self.tasks.iter().any(|task| task.workload == spec.name));
        let known: BTreeSet<&str> = used.flat_map(|spec| spec.parameters.iter().map(|one| one.name.as_str())).collect();
        let known = suggestions(name, known).join(", ");
        Err(format!("no workload of {} has a parameter '{name}'; they have {known}", self.name))
    }
}
