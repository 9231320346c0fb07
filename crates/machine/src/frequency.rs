//! Fixes the clock of all CPUs at one frequency: finds the cpufreq policies, checks that their driver offers the frequency,
//! and narrows the limits of each policy to it. Must not restore the limits: [`crate::undo`] does.

use std::path::Path;

use model::values::undo::SettingTarget;
use model::values::units::Kilohertz;

use crate::sysfs;
use crate::tune::TuneOutcome;
use crate::undo::{AppliedSettings, ChangeError};

const CPUFREQ: &str = "sys/devices/system/cpu/cpufreq";
/// Name in the journal and in messages.
pub const FREQUENCY: &str = "frequency";

/// The limits of a cpufreq policy.
struct Policy {
    /// Directory without the slash before `sys`.
    directory: String,
    max_khz: u64,
}

/// Sets the lowest and the highest frequency of every policy to this one. If a driver cannot do it, nothing is changed.
/// After an error, dropping `changed` restores the limits.
pub fn fix(changed: &mut AppliedSettings, frequency: Kilohertz) -> Result<TuneOutcome, ChangeError> {
    let policies = match policies(changed.root(), frequency) {
        Ok(policies) => policies,
        Err(reason) => return Ok(TuneOutcome::Unavailable(reason)),
    };
    let value = frequency.0.to_string();
    let mut old = Vec::new();
    for policy in policies {
        // The kernel rejects a lowest frequency above the highest, so the limit in the way moves first.
        let raises = frequency.0 > policy.max_khz;
        let order =
            if raises { ["scaling_max_freq", "scaling_min_freq"] } else { ["scaling_min_freq", "scaling_max_freq"] };
        for file in order {
            let target = SettingTarget::File(format!("{}/{file}", policy.directory));
            old.extend(changed.set(FREQUENCY, target, &value)?.map(|khz| in_words(&khz)));
        }
    }
    old.sort_unstable();
    old.dedup();
    Ok(if old.is_empty() { TuneOutcome::WasQuiet } else { TuneOutcome::Set { old, new: frequency.to_string() } })
}

fn in_words(khz: &str) -> String {
    khz.parse().map_or_else(|_| khz.into(), |khz| Kilohertz(khz).to_string())
}

/// Returns the policies of this machine, or the reason why they cannot be fixed at this frequency.
fn policies(root: &Path, frequency: Kilohertz) -> Result<Vec<Policy>, String> {
    let names = sysfs::names(&root.join(CPUFREQ)).into_iter().filter(|name| name.starts_with("policy"));
    let policies: Vec<Policy> = names.map(|name| policy(root, &name, frequency)).collect::<Result<_, _>>()?;
    if policies.is_empty() {
        return Err("no cpufreq driver: this kernel does not control the frequency".into());
    }
    Ok(policies)
}

fn policy(root: &Path, name: &str, frequency: Kilohertz) -> Result<Policy, String> {
    let directory = format!("{CPUFREQ}/{name}");
    let text = |file: &str| sysfs::read_text(root, &format!("{directory}/{file}"));
    let khz = |file: &str| text(file).ok().and_then(|text| text.parse::<u64>().ok());
    let driver = text("scaling_driver").unwrap_or_else(|_| "unknown".into());
    let limits = khz("scaling_min_freq").zip(khz("scaling_max_freq"));
    let Some((_, max_khz)) = limits else {
        return Err(format!("driver {driver} has no limits of the frequency for {name}"));
    };
    if let (Some(low), Some(high)) = (khz("cpuinfo_min_freq"), khz("cpuinfo_max_freq"))
        && !(low..=high).contains(&frequency.0)
    {
        let (low, high) = (Kilohertz(low), Kilohertz(high));
        return Err(format!("driver {driver} offers {low} to {high} for {name}, not {frequency}"));
    }
    // Drivers without a list accept any frequency in their range.
    let listed = text("scaling_available_frequencies").unwrap_or_default();
    let listed: Vec<Kilohertz> = listed.split_whitespace().filter_map(|khz| khz.parse().ok().map(Kilohertz)).collect();
    if !listed.is_empty() && !listed.contains(&frequency) {
        let listed: Vec<String> = listed.iter().map(ToString::to_string).collect();
        return Err(format!("driver {driver} offers {} for {name}, not {frequency}", listed.join(", ")));
    }
    Ok(Policy { directory, max_khz })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::test_tree::tree;
    use crate::undo::SettingsRoot;

    const FIXED: Kilohertz = Kilohertz(3_600_000);

    fn path(policy: u32, file: &str) -> String {
        format!("{CPUFREQ}/policy{policy}/{file}")
    }

    fn limits(policy: u32, low: &'static str, high: &'static str) -> [(String, &'static str); 2] {
        [(path(policy, "scaling_min_freq"), low), (path(policy, "scaling_max_freq"), high)]
    }

    #[test]
    fn limits_are_narrowed_to_one_frequency_and_restored() {
        // The second policy is below the frequency, so its highest frequency must be raised first.
        let files = [limits(0, "1550000\n", "3900000\n"), limits(1, "800000\n", "2000000\n")].concat();
        let dir = tree(&files);
        let site = SettingsRoot { root: dir.path().into(), state: dir.path().join("state") };
        let mut changed = AppliedSettings::begin(&site).unwrap();
        let old = ["1.55GHz", "2GHz", "3.9GHz", "800MHz"].map(String::from).to_vec();
        assert_eq!(fix(&mut changed, FIXED).unwrap(), TuneOutcome::Set { old, new: "3.6GHz".into() });
        let read = |path: &str| std::fs::read_to_string(dir.path().join(path)).unwrap().trim().to_string();
        assert!(files.iter().all(|(path, _)| read(path) == "3600000"));
        let order: Vec<String> = changed.restore().iter().map(|one| one.change.target.to_string()).collect();
        assert!(order[0].ends_with("policy1/scaling_min_freq"), "restored in reverse: {order:?}");
        assert!(files.iter().all(|(path, old)| read(path) == old.trim()));
    }

    #[test]
    fn frequencies_that_a_driver_lacks_are_unavailable() {
        let driver = || (path(0, "scaling_driver"), "acpi-cpufreq\n");
        let range = || [(path(0, "cpuinfo_min_freq"), "1550000\n"), (path(0, "cpuinfo_max_freq"), "3400000\n")];
        let list = || (path(0, "scaling_available_frequencies"), "3400000 2800000 1550000\n");
        let cases = [
            (vec![], "no cpufreq driver"),
            (vec![driver()], "acpi-cpufreq has no limits of the frequency for policy0"),
            (
                [vec![driver()], limits(0, "1", "2").to_vec(), range().to_vec()].concat(),
                "acpi-cpufreq offers 1.55GHz to 3.4GHz for policy0, not 3.6GHz",
            ),
            (
                [vec![driver(), list()], limits(0, "1", "2").to_vec()].concat(),
                "acpi-cpufreq offers 3.4GHz, 2.8GHz, 1.55GHz for policy0, not 3.6GHz",
            ),
        ];
        for (files, expected) in cases {
            let error = policies(tree(&files).path(), FIXED).err().expect("the frequency is not offered");
            assert!(error.contains(expected), "{error}");
        }
    }
}
