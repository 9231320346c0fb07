//! Overrides parameters of an experiment: `nearfar run NAME --set KEY=VALUE`.

use std::collections::BTreeSet;

use super::Experiment;
use super::read::check_value;
use crate::values::suggest::suggestions;
use crate::values::workload::WorkloadSpec;

impl Experiment {
    /// Replaces the values of these parameters in every workload that has them. A name that occurs twice has both
    /// values.
    ///
    /// # Errors
    /// If no workload has the parameter, or a value is invalid.
    pub fn override_parameters(&mut self, pairs: &[(String, String)], specs: &[WorkloadSpec]) -> Result<(), String> {
        let names: BTreeSet<&String> = pairs.iter().map(|(name, _)| name).collect();
        for name in names {
            let values: Vec<String> =
                pairs.iter().filter(|(other, _)| other == name).map(|(_, value)| value.clone()).collect();
            self.override_one(name, &values, specs)?;
        }
        Ok(())
    }

    fn override_one(&mut self, name: &str, values: &[String], specs: &[WorkloadSpec]) -> Result<(), String> {
        let mut taken = false;
        for task in &mut self.tasks {
            let spec = specs.iter().find(|spec| spec.name == task.workload);
            let Some(parameter) = spec.and_then(|spec| spec.parameter(name)) else { continue };
            for value in values {
                check_value(parameter, value)
                    .map_err(|reason| format!("parameter {name} of workload {}: {reason}", task.workload))?;
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
        Err(format!("no workload of {} has a parameter '{name}'; the parameters are {known}", self.name))
    }
}
